/* Lines of JSON from tables of fields, and back. */
#include "cli/train_line.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/json_out.h"

enum type { NUMBER, COUNT64, COUNT32, FLAG, TEXT, STATUS };

struct field {
    const char *name;
    enum type type;
    size_t offset, size;
};

struct form {
    const struct field *fields;
    size_t count;
};

#define FIELD(kind, of, field)                                                                     \
    {                                                                                              \
        .name = #field, .type = (kind), .offset = offsetof(struct of, field),                      \
        .size = sizeof(((struct of *)0)->field)                                                    \
    }
#define FORM(fields) ((struct form){fields, sizeof(fields) / sizeof(fields)[0]})

static const struct field moment_fields[] = {
    FIELD(COUNT64, train_moment, iteration),    FIELD(COUNT64, train_moment, iterations),
    FIELD(NUMBER, train_moment, epoch),         FIELD(NUMBER, train_moment, epochs),
    FIELD(NUMBER, train_moment, loss),          FIELD(NUMBER, train_moment, accuracy),
    FIELD(NUMBER, train_moment, samples_per_s), FIELD(NUMBER, train_moment, sent_per_s),
    FIELD(NUMBER, train_moment, left_s),        FIELD(NUMBER, train_moment, lr),
    FIELD(FLAG, train_moment, tested),          FIELD(NUMBER, train_moment, test_accuracy),
};

static const struct field report_fields[] = {
    FIELD(COUNT32, train_report, rank),
    FIELD(COUNT32, train_report, workers),
    FIELD(COUNT32, train_report, servers),
    FIELD(COUNT64, train_report, iterations),
    FIELD(COUNT64, train_report, first),
    FIELD(COUNT64, train_report, params),
    FIELD(NUMBER, train_report, epochs),
    FIELD(NUMBER, train_report, samples_per_s),
    FIELD(NUMBER, train_report, begun_s),
    FIELD(NUMBER, train_report, ended_s),
    FIELD(NUMBER, train_report, tested_s),
    FIELD(NUMBER, train_report, wall_s),
    FIELD(NUMBER, train_report, train_loss),
    FIELD(NUMBER, train_report, train_accuracy),
    FIELD(NUMBER, train_report, test_accuracy),
    FIELD(COUNT64, train_report, test_samples),
    FIELD(COUNT64, train_report, train_samples),
    FIELD(COUNT64, train_report, sent_bytes),
    FIELD(COUNT64, train_report, received_bytes),
    FIELD(NUMBER, train_report, compute_s),
    FIELD(NUMBER, train_report, wait_s),
    FIELD(COUNT32, train_report, params_crc32c),
    FIELD(COUNT32, train_report, batch),
    FIELD(COUNT32, train_report, learners),
    FIELD(TEXT, train_report, local),
    FIELD(NUMBER, train_report, stale_mean),
    FIELD(COUNT64, train_report, stale_max),
    FIELD(COUNT64, train_report, pushed),
    FIELD(COUNT64, train_report, applied),
    FIELD(COUNT64, train_report, lost),
    FIELD(COUNT64, train_report, torn),
    FIELD(COUNT64, train_report, partial),
    FIELD(COUNT64, train_report, discarded),
};

static const struct field layer_fields[] = {
    FIELD(TEXT, train_layer, name),      FIELD(TEXT, train_layer, scheme),
    FIELD(COUNT64, train_layer, params), FIELD(NUMBER, train_layer, sent_bytes),
    FIELD(FLAG, train_layer, common),
};

static const struct field op_fields[] = {
    FIELD(TEXT, train_op, name),         FIELD(TEXT, train_op, kind),
    FIELD(NUMBER, train_op, forward_s),  FIELD(NUMBER, train_op, weigh_s),
    FIELD(NUMBER, train_op, backward_s),
};

static const struct field event_fields[] = {
    FIELD(NUMBER, train_event, t_s), FIELD(COUNT64, train_event, clock),
    FIELD(TEXT, train_event, kind),  FIELD(COUNT32, train_event, rank),
    FIELD(TEXT, train_event, text),
};

static const struct field error_fields[] = {
    FIELD(STATUS, tri_error, status), FIELD(TEXT, tri_error, text), FIELD(TEXT, tri_error, where),
    FIELD(TEXT, tri_error, why),      FIELD(TEXT, tri_error, next),
};

static const char *const news_names[] = {
    [TRAIN_BEGUN] = "begun",   [TRAIN_MOMENT] = "moment", [TRAIN_EVENT] = "event",
    [TRAIN_REPORT] = "report", [TRAIN_ERROR] = "error",
};

/* ---- saying ---- */

static void put_field(struct json_out *json, const struct field *field, const void *of)
{
    const void *at = (const char *)of + field->offset;
    switch (field->type) {
    case NUMBER:
        json_out_number(json, field->name, *(const double *)at);
        break;
    case COUNT64:
        json_out_count(json, field->name, *(const uint64_t *)at);
        break;
    case COUNT32:
        json_out_count(json, field->name, *(const uint32_t *)at);
        break;
    case FLAG:
        json_out_bool(json, field->name, *(const bool *)at);
        break;
    case TEXT:
        json_out_string(json, field->name, at);
        break;
    case STATUS:
        json_out_count(json, field->name, (uint64_t) - *(const tri_status *)at);
        break;
    }
}

static void put_fields(struct json_out *json, struct form form, const void *of)
{
    for (size_t i = 0; i < form.count; i++)
        put_field(json, &form.fields[i], of);
}

static void begin(struct json_out *json, enum train_news kind, struct buf *out)
{
    json_out_init(json, out, 0);
    json_out_object(json, NULL);
    json_out_string(json, "train", news_names[kind]);
}

static void put_array(struct json_out *json, const char *key, struct form form, const void *first,
                      size_t count, size_t size)
{
    json_out_array(json, key);
    for (size_t i = 0; i < count; i++) {
        json_out_object(json, NULL);
        put_fields(json, form, (const char *)first + i * size);
        json_out_close(json);
    }
    json_out_close(json);
}

void train_say_report(enum train_news kind, const struct train_report *report, struct buf *out)
{
    struct json_out json;
    begin(&json, kind, out);
    put_fields(&json, FORM(report_fields), report);
    put_array(&json, "layers", FORM(layer_fields), report->layers, report->layer_count,
              sizeof *report->layers);
    put_array(&json, "ops", FORM(op_fields), report->ops, report->op_count, sizeof *report->ops);
    json_out_close(&json);
}

static void say(enum train_news kind, struct form form, const void *of, struct buf *out)
{
    struct json_out json;
    begin(&json, kind, out);
    put_fields(&json, form, of);
    json_out_close(&json);
}

void train_say_moment(const struct train_moment *moment, struct buf *out)
{
    say(TRAIN_MOMENT, FORM(moment_fields), moment, out);
}

void train_say_event(const struct train_event *event, struct buf *out)
{
    say(TRAIN_EVENT, FORM(event_fields), event, out);
}

void train_say_error(const tri_error *error, struct buf *out)
{
    say(TRAIN_ERROR, FORM(error_fields), error, out);
}

/* ---- hearing ---- */

struct hearing {
    struct json json;
    struct buf text; /* of the string read last */
    const struct mem *mem;
    struct train_heard *out;
    bool named;   /* the kind of line is known */
    bool refused; /* there was no memory */
};

static void take_text(struct hearing *hearing, char *at, size_t size)
{
    json_string(&hearing->json, &hearing->text);
    hearing->refused = hearing->refused || !buf_ok(&hearing->text);
    (void)snprintf(at, size, "%s", buf_string(&hearing->text));
}

static double take_number(struct json *json)
{
    if (!json_is(json, 'n'))
        return json_number(json);
    json_skip(json);
    return NAN;
}

static void take_field(struct hearing *hearing, const struct field *field, void *of)
{
    struct json *json = &hearing->json;
    void *at = (char *)of + field->offset;
    switch (field->type) {
    case NUMBER:
        *(double *)at = take_number(json);
        break;
    case COUNT64:
        *(uint64_t *)at = json_count(json, 0, UINT64_MAX);
        break;
    case COUNT32:
        *(uint32_t *)at = (uint32_t)json_count(json, 0, UINT32_MAX);
        break;
    case FLAG:
        *(bool *)at = json_bool(json);
        break;
    case TEXT:
        take_text(hearing, at, field->size);
        break;
    case STATUS:
        *(tri_status *)at = (tri_status) - (int)json_count(json, 0, 100);
        break;
    }
}

/* The member whose key was just read; a key that is not in the table is passed over. */
static void take_member(struct hearing *hearing, struct form form, void *of)
{
    for (size_t i = 0; i < form.count; i++)
        if (strcmp(form.fields[i].name, hearing->json.key) == 0) {
            take_field(hearing, &form.fields[i], of);
            return;
        }
    json_skip(&hearing->json);
}

static void take_array(struct hearing *hearing, struct form form, void **array, size_t *count,
                       size_t size)
{
    struct json *json = &hearing->json;
    size_t room = *count;
    json_array(json);
    while (json_element(json)) {
        if (mem_grow(hearing->mem, array, &room, *count + 1, size) == NULL) {
            hearing->refused = true;
            json_skip(json);
            continue;
        }
        void *at = (char *)*array + *count * size;
        memset(at, 0, size);
        json_object(json);
        while (json_member(json))
            take_member(hearing, form, at);
        *count += 1;
    }
}

static void take_report(struct hearing *hearing)
{
    struct train_report *report = &hearing->out->report;
    void *layers = report->layers, *ops = report->ops;
    if (strcmp(hearing->json.key, "layers") == 0)
        take_array(hearing, FORM(layer_fields), &layers, &report->layer_count,
                   sizeof *report->layers);
    else if (strcmp(hearing->json.key, "ops") == 0)
        take_array(hearing, FORM(op_fields), &ops, &report->op_count, sizeof *report->ops);
    else
        take_member(hearing, FORM(report_fields), report);
    report->layers = layers;
    report->ops = ops;
}

static void take_kind(struct hearing *hearing)
{
    json_string(&hearing->json, &hearing->text);
    for (size_t i = 0; i < sizeof news_names / sizeof news_names[0]; i++)
        if (strcmp(buf_string(&hearing->text), news_names[i]) == 0) {
            hearing->out->kind = (enum train_news)i;
            hearing->named = true;
        }
}

static void take(struct hearing *hearing)
{
    struct train_heard *out = hearing->out;
    if (!hearing->named) {
        if (strcmp(hearing->json.key, "train") == 0)
            take_kind(hearing);
        else
            json_skip(&hearing->json);
        return;
    }
    switch (out->kind) {
    case TRAIN_BEGUN:
    case TRAIN_REPORT:
        take_report(hearing);
        break;
    case TRAIN_MOMENT:
        take_member(hearing, FORM(moment_fields), &out->moment);
        break;
    case TRAIN_EVENT:
        take_member(hearing, FORM(event_fields), &out->event);
        break;
    case TRAIN_ERROR:
        take_member(hearing, FORM(error_fields), &out->error);
        break;
    }
}

bool train_hear(const char *line, size_t len, const struct mem *mem, struct train_heard *out)
{
    static const char begins[] = "{\"train\":";
    if (len < sizeof begins - 1 || memcmp(line, begins, sizeof begins - 1) != 0)
        return false;
    *out = (struct train_heard){.kind = TRAIN_BEGUN};
    struct hearing hearing = {.mem = mem, .out = out};
    buf_init(&hearing.text, mem);
    json_open(&hearing.json, "a worker", line, len, NULL);
    json_object(&hearing.json);
    while (json_member(&hearing.json))
        take(&hearing);
    json_end(&hearing.json);
    bool ok = hearing.json.status == TRI_OK && hearing.named && !hearing.refused;
    buf_fini(&hearing.text);
    if (ok)
        return true;
    mem_free(mem, out->report.layers);
    mem_free(mem, out->report.ops);
    out->report = (struct train_report){.rank = 0};
    return false;
}
