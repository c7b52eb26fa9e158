/* Saving a model: its values as safetensors, its meaning as JSON. */
#include "engine/model.h"

#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "engine/model_inside.h"
#include "os/file.h"
#include "wire/safetensors.h"

/* The format is little-endian, and the floats of a net are written as they lie in memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "models are saved as they are");

static const char suffix[] = ".safetensors";

tri_status model_json_path(const char *path, struct buf *out, tri_error *err)
{
    size_t len = strlen(path), end = strlen(suffix);
    if (len <= end || strcmp(path + len - end, suffix) != 0) {
        fail(err, TRI_EINPUT, "'%.150s' does not end in %s", path, suffix);
        fail_why(err, "a model is two files: its values, and beside them FILE.json with its net, "
                      "labels and words");
        fail_next(err, "write FILE%s", suffix);
        return TRI_EINPUT;
    }
    buf_add(out, path, len - end);
    buf_text(out, ".json");
    return buf_ok(out) ? TRI_OK : fail_nomem(err, "a path");
}

tri_status model_check_path(const char *path, const struct mem *mem, tri_error *err)
{
    struct buf json;
    buf_init(&json, mem);
    tri_status status = model_json_path(path, &json, err);
    if (status == TRI_OK)
        status = file_check_new(path, err);
    if (status == TRI_OK)
        status = file_check_new(buf_string(&json), err);
    buf_fini(&json);
    return status;
}

/* ---- the values of a net ---- */

static struct model_value value_of(const char *name, const char *part, float *at, size_t floats)
{
    struct model_value value = {.at = at, .floats = floats, .dims = 1, .shape = {floats}};
    (void)snprintf(value.name, sizeof value.name, "%s%s", name, part);
    return value;
}

struct model_value *model_values(struct net *net, const struct mem *mem, size_t *count)
{
    size_t params = net_params(net), buffers = net_buffers(net), used = 0;
    struct model_value *values = mem_array(mem, 2 * params + buffers, sizeof *values);
    if (values == NULL)
        return NULL;
    for (size_t i = 0; i < params; i++) {
        const struct param *param = net_param(net, i);
        size_t floats = (size_t)param->rows * param->cols;
        values[used] = value_of(param->name, ".weight", param->weights, floats);
        values[used].dims = 2;
        values[used].shape[0] = param->rows;
        values[used++].shape[1] = param->cols;
        if (param->bias != NULL)
            values[used++] = value_of(param->name, ".bias", param->bias, param->rows);
    }
    for (size_t i = 0; i < buffers; i++) {
        struct net_buffer buffer = net_buffer(net, i);
        values[used++] = value_of(buffer.name, "", buffer.at, buffer.floats);
    }
    *count = used;
    return values;
}

/* ---- the two files ---- */

struct saving {
    const struct mem *mem;
    const char *path;
    struct model_value *values;
    size_t count;
    struct buf json_path, json, head;
    struct safetensors_tensor *tensors;
    struct file_part *parts; /* the head, then the values */
};

static tri_status make_head(struct saving *saving, const char *checksum, tri_error *err)
{
    struct safetensors_text texts[] = {{"format", MODEL_FORMAT}, {MODEL_VALUES_KEY, checksum}};
    struct safetensors what = {.count = saving->count, .text_count = 2, .texts = texts};
    what.tensors = saving->tensors;
    for (size_t i = 0; i < saving->count; i++) {
        const struct model_value *value = &saving->values[i];
        saving->tensors[i] = (struct safetensors_tensor){
            .name = value->name, .dtype = SAFETENSORS_F32, .dims = value->dims};
        memcpy(saving->tensors[i].shape, value->shape, sizeof value->shape);
    }
    return safetensors_write(&what, &saving->head, err);
}

static tri_status make_files(struct saving *saving, const struct model_info *info, tri_error *err)
{
    char checksum[MODEL_VALUES_TEXT];
    uint32_t crc = 0;
    for (size_t i = 0; i < saving->count; i++) {
        const struct model_value *value = &saving->values[i];
        saving->parts[i + 1] = (struct file_part){value->at, value->floats * sizeof(float)};
        crc = crc32c(crc, saving->parts[i + 1].bytes, saving->parts[i + 1].len);
    }
    (void)snprintf(checksum, sizeof checksum, "%08x", (unsigned)crc);
    tri_status status = make_head(saving, checksum, err);
    if (status != TRI_OK)
        return status;
    saving->parts[0] = (struct file_part){saving->head.data, saving->head.len};
    meaning_write(info, checksum, &saving->json);
    return buf_ok(&saving->json) ? TRI_OK : fail_nomem(err, "the words of a model");
}

static tri_status write_files(const struct saving *saving, tri_error *err)
{
    const struct file_part json = {saving->json.data, saving->json.len};
    const struct file_whole files[] = {
        {.path = buf_string(&saving->json_path), .parts = &json, .count = 1},
        {.path = saving->path, .parts = saving->parts, .count = saving->count + 1},
    };
    tri_status status = file_write_together(files, 2, err);
    if (status == TRI_EIO)
        fail_next(err, "make room or write access where '%.100s' is to go, then train again",
                  saving->path);
    return status;
}

static tri_status save(struct saving *saving, struct net *net, const struct model_info *info,
                       tri_error *err)
{
    tri_status status = model_json_path(saving->path, &saving->json_path, err);
    if (status != TRI_OK)
        return status;
    saving->values = model_values(net, saving->mem, &saving->count);
    saving->tensors = mem_array(saving->mem, saving->count, sizeof *saving->tensors);
    saving->parts = mem_array(saving->mem, saving->count + 1, sizeof *saving->parts);
    if (saving->values == NULL || saving->tensors == NULL || saving->parts == NULL)
        return fail_nomem(err, "a list of tensors");
    status = make_files(saving, info, err);
    return status == TRI_OK ? write_files(saving, err) : status;
}

tri_status model_save(const char *path, struct net *net, const struct model_info *info,
                      const struct mem *mem, tri_error *err)
{
    struct saving saving = {.mem = mem, .path = path};
    buf_init(&saving.json_path, mem);
    buf_init(&saving.json, mem);
    buf_init(&saving.head, mem);
    tri_status status = save(&saving, net, info, err);
    mem_free(mem, saving.values);
    mem_free(mem, saving.tensors);
    mem_free(mem, saving.parts);
    buf_fini(&saving.json_path);
    buf_fini(&saving.json);
    buf_fini(&saving.head);
    return status;
}
