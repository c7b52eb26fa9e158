/* trident checkpoint show: what a checkpoint holds. */
#include <string.h>

#include "base/json_out.h"
#include "base/printable.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "cli/checkpoint.h"
#include "cli/table.h"
#include "os/file.h"
#include "wire/safetensors.h"

enum { NAME_WIDTH = 48 };

struct shown {
    const char *path;
    const struct checkpoint *what;
    const struct safetensors *list;
    struct file_facts facts;
    uint64_t params;
};

static const char *text(const struct shown *shown, const char *key)
{
    const char *value = safetensors_text(shown->list, key);
    return value != NULL ? value : "";
}

static uint64_t count_params(const struct checkpoint *what)
{
    uint64_t params = 0;
    for (uint32_t i = 0; i < what->layer_count; i++)
        params += (uint64_t)what->layers[i].rows *
                  ((uint64_t)what->layers[i].cols + (what->layers[i].bias ? 1 : 0));
    return params;
}

/* ---- as text ---- */

static void put_line(struct buf *out, const char *key, const char *value)
{
    struct buf line;
    buf_init(&line, out->mem);
    buf_format(&line, "%-10s  %.300s", key, value);
    if (line.data != NULL)
        printable(line.data);
    out->refused = out->refused || line.refused;
    buf_text(out, buf_string(&line));
    buf_char(out, '\n');
    buf_fini(&line);
}

static void put_facts(const struct shown *shown, struct buf *out)
{
    char clock[32], size[UNITS_TEXT], time[CHECKPOINT_TIME], line[160];
    (void)snprintf(clock, sizeof clock, "%llu", (unsigned long long)shown->what->clock);
    put_line(out, "checkpoint", shown->path);
    put_line(out, "clock", clock);
    put_line(out, "job", shown->what->job);
    (void)snprintf(line, sizeof line, "%.100s, %u value%s of state per parameter",
                   shown->what->optimizer, shown->what->states,
                   shown->what->states == 1 ? "" : "s");
    put_line(out, "optimizer", line);
    (void)snprintf(line, sizeof line, "%.40s by trident %.40s", text(shown, "format"),
                   text(shown, "library"));
    put_line(out, "format", line);
    (void)snprintf(line, sizeof line, "%s, written %s",
                   units_show_bytes((double)shown->facts.bytes, size),
                   checkpoint_time(shown->facts.written_s, time));
    put_line(out, "size", line);
    put_line(out, "crc32c", text(shown, "crc32c"));
}

static void put_shape(const struct safetensors_tensor *tensor, struct buf *out)
{
    for (uint32_t d = 0; d < tensor->dims; d++)
        buf_format(out, "%s%llu", d == 0 ? "" : " x ", (unsigned long long)tensor->shape[d]);
}

static void put_tensors(const struct shown *shown, struct buf *out)
{
    struct table table;
    struct buf shape;
    static const char *const heads[] = {"tensor", "dtype", "shape", "bytes"};
    buf_init(&shape, out->mem);
    table_init(&table, out->mem, "lllr");
    for (size_t i = 0; i < 4; i++)
        table_cell(&table, "%s", heads[i]);
    for (size_t i = 0; i < shown->list->count; i++) {
        const struct safetensors_tensor *tensor = &shown->list->tensors[i];
        char bytes[UNITS_TEXT];
        buf_clear(&shape);
        put_shape(tensor, &shape);
        out->refused = out->refused || shape.refused;
        table_cell(&table, "%.400s", tensor->name);
        table_cell(&table, "%.10s", tensor->dtype_name);
        table_cell(&table, "%s", buf_string(&shape));
        table_cell(&table, "%s", units_show_bytes((double)tensor->bytes, bytes));
    }
    buf_char(out, '\n');
    table_print(&table, NAME_WIDTH, out);
    table_fini(&table);
    buf_fini(&shape);
}

static void put_totals(const struct shown *shown, struct buf *out)
{
    char params[UNITS_TEXT], bytes[UNITS_TEXT];
    const struct checkpoint *what = shown->what;
    buf_format(
        out, "\ntotals: %u layer%s, %s parameters, %u tensor%s kept by the program, %s of values\n",
        what->layer_count, what->layer_count == 1 ? "" : "s",
        units_show_count((double)shown->params, params), what->kept_count,
        what->kept_count == 1 ? "" : "s", units_show_bytes((double)shown->list->data_bytes, bytes));
}

/* ---- as JSON ---- */

static void put_json_layers(const struct shown *shown, struct json_out *json)
{
    json_out_array(json, "layers");
    for (uint32_t i = 0; i < shown->what->layer_count; i++) {
        const struct checkpoint_layer *layer = &shown->what->layers[i];
        json_out_object(json, NULL);
        json_out_string(json, "name", layer->name);
        json_out_count(json, "rows", layer->rows);
        json_out_count(json, "cols", layer->cols);
        json_out_bool(json, "bias", layer->bias);
        json_out_count(json, "steps", layer->steps);
        json_out_close(json);
    }
    json_out_close(json);
    json_out_array(json, "kept");
    for (uint32_t i = 0; i < shown->what->kept_count; i++) {
        const struct checkpoint_kept *kept = &shown->what->kept[i];
        json_out_object(json, NULL);
        json_out_string(json, "name", kept->name);
        json_out_string(json, "type", kept->type == TRI_U64 ? "U64" : "F32");
        json_out_count(json, "count", kept->count);
        json_out_close(json);
    }
    json_out_close(json);
}

static void put_json_tensors(const struct shown *shown, struct json_out *json)
{
    json_out_array(json, "tensors");
    for (size_t i = 0; i < shown->list->count; i++) {
        const struct safetensors_tensor *tensor = &shown->list->tensors[i];
        json_out_object(json, NULL);
        json_out_string(json, "name", tensor->name);
        json_out_string(json, "dtype", tensor->dtype_name);
        json_out_array(json, "shape");
        for (uint32_t d = 0; d < tensor->dims; d++)
            json_out_count(json, NULL, tensor->shape[d]);
        json_out_close(json);
        json_out_count(json, "bytes", tensor->bytes);
        json_out_close(json);
    }
    json_out_close(json);
}

static void put_json(const struct shown *shown, struct buf *out)
{
    struct json_out json;
    char time[CHECKPOINT_TIME];
    json_out_init(&json, out, 2);
    json_out_object(&json, NULL);
    json_out_string(&json, "path", shown->path);
    json_out_string(&json, "format", text(shown, "format"));
    json_out_string(&json, "library", text(shown, "library"));
    json_out_count(&json, "clock", shown->what->clock);
    json_out_string(&json, "job", shown->what->job);
    json_out_string(&json, "optimizer", shown->what->optimizer);
    json_out_count(&json, "states", shown->what->states);
    json_out_string(&json, "crc32c", text(shown, "crc32c"));
    json_out_count(&json, "bytes", shown->facts.bytes);
    json_out_string(&json, "written", checkpoint_time(shown->facts.written_s, time));
    put_json_layers(shown, &json);
    put_json_tensors(shown, &json);
    json_out_object(&json, "totals");
    json_out_count(&json, "tensors", shown->list->count);
    json_out_count(&json, "params", shown->params);
    json_out_count(&json, "data_bytes", shown->list->data_bytes);
    json_out_close(&json);
    json_out_close(&json);
}

tri_status checkpoint_show(struct cli *cli, const struct checkpoint_settings *settings,
                           const char *path, struct buf *out, tri_error *err)
{
    struct checkpoint *what = NULL;
    struct shown shown = {.path = path};
    tri_status status = checkpoint_describe(path, cli->mem, &what, err);
    if (status == TRI_OK)
        status = file_look(path, &shown.facts, err);
    if (status != TRI_OK) {
        checkpoint_free(what, cli->mem);
        return status;
    }
    shown.what = what;
    shown.list = checkpoint_tensors(what);
    shown.params = count_params(what);
    if (settings->json) {
        put_json(&shown, out);
    } else {
        put_facts(&shown, out);
        put_tensors(&shown, out);
        put_totals(&shown, out);
    }
    checkpoint_free(what, cli->mem);
    return TRI_OK;
}
