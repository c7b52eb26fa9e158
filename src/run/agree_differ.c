/* Options and layers in words: for HELLO, and to tell a difference. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "run/agree_inside.h"
#include "run/convert.h"
#include "wire/hash.h"
#include "wire/hello.h"

#define TEXT_OF(number)   #number
#define STRING_OF(number) TEXT_OF(number)
#define LIBRARY                                                                                    \
    STRING_OF(TRI_VERSION_MAJOR)                                                                   \
    "." STRING_OF(TRI_VERSION_MINOR) "." STRING_OF(TRI_VERSION_PATCH)

/* ---- options as texts ---- */

enum { VALUE_TEXT = WIRE_TEXT_MAX + 1 };

static const char *scheme_text(const struct agree_options *options, char *out)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; scheme_at(i) != NULL && used < VALUE_TEXT - 1; i++)
        if ((options->schemes >> i & 1) != 0)
            used += (size_t)snprintf(out + used, VALUE_TEXT - used, "%s%s", used > 0 ? "," : "",
                                     scheme_at(i)->name);
    return out;
}

static const char *rule_text(const struct agree_options *options, char *out)
{
    (void)snprintf(out, VALUE_TEXT, "%s", options->rule == PLAN_TIME ? "time" : "bytes");
    return out;
}

static const char *grid_text(const struct agree_options *options, char *out)
{
    (void)snprintf(out, VALUE_TEXT, "%" PRIu32 "x%" PRIu32, options->grid_rows, options->grid_cols);
    return out;
}

/* As many as fit; where there are more, a number stands for all. */
static const char *home_text(const struct agree_options *options, char *out)
{
    size_t used = 0;
    uint64_t hash = WIRE_HASH_START;
    out[0] = '\0';
    for (uint32_t i = 0; i < options->colocated; i++) {
        uint8_t bytes[4];
        wire_store_u32(bytes, options->home[i]);
        hash = wire_hash64(hash, bytes, sizeof bytes);
        if (used < VALUE_TEXT / 2)
            used += (size_t)snprintf(out + used, VALUE_TEXT - used, "%s%" PRIu32, i > 0 ? "," : "",
                                     options->home[i]);
    }
    if (used >= VALUE_TEXT / 2)
        (void)snprintf(out + used, VALUE_TEXT - used, "... %016" PRIx64, hash);
    return out;
}

enum type { SWITCH, NUMBER, SIZE, QUANTITY, TEXT, OTHER };

/* In the order of their names, as HELLO wants it. */
static const struct {
    const char *name;
    enum type type;
    size_t at;
    const char *(*show)(const struct agree_options *options, char *out);
} rows[] = {
#define AT(field) offsetof(struct agree_options, field), NULL
    {"aggregate", SWITCH, AT(aggregate)},
    {"bandwidth", QUANTITY, AT(bits_s)},
    {"chunk", SIZE, AT(chunk_bytes)},
    {"colocated", NUMBER, AT(colocated)},
    {"consistency", TEXT, AT(consistency)},
    {"flops", QUANTITY, AT(flops_s)},
    {"grid", OTHER, 0, grid_text},
    {"latency", QUANTITY, AT(latency_s)},
    {"message-cost", QUANTITY, AT(message_s)},
    {"optimizer", TEXT, AT(optimizer)},
    {"placement", TEXT, AT(placement)},
    {"replicated", SWITCH, AT(replicated)},
    {"reproducible", SWITCH, AT(reproducible)},
    {"rule", OTHER, 0, rule_text},
    {"scheme", TEXT, AT(scheme)},
    {"schemes", OTHER, 0, scheme_text},
    {"server-memory", SIZE, AT(server_bytes)},
    {"server-nodes", OTHER, 0, home_text},
    {"servers", NUMBER, AT(servers)},
    {"workers", NUMBER, AT(workers)},
#undef AT
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* The value of an option: in out, or where it lies. */
static const char *show(const struct agree_options *options, size_t row, char out[VALUE_TEXT])
{
    const void *at = (const char *)options + rows[row].at;
    switch (rows[row].type) {
    case SWITCH:
        return *(const bool *)at ? "on" : "off";
    case NUMBER:
        (void)snprintf(out, VALUE_TEXT, "%" PRIu32, *(const uint32_t *)at);
        return out;
    case SIZE:
        (void)snprintf(out, VALUE_TEXT, "%" PRIu64, *(const uint64_t *)at);
        return out;
    case QUANTITY:
        (void)snprintf(out, VALUE_TEXT, "%.17g", *(const double *)at);
        return out;
    case TEXT:
        return *(const char *const *)at;
    case OTHER:
        break;
    }
    return rows[row].show(options, out);
}

/* ---- HELLO ---- */

tri_status agree_write_hello(struct agreement *agreement, tri_error *err)
{
    struct wire_hello_out out;
    tri_status status = wire_hello_begin(&out, &agreement->hello, LIBRARY, err);
    for (size_t i = 0; i < ROWS && status == TRI_OK; i++) {
        char value[VALUE_TEXT];
        struct wire_option option = {wire_text_of(rows[i].name),
                                     wire_text_of(show(&agreement->options, i, value))};
        status = wire_hello_option(&out, &option, err);
    }
    for (uint32_t i = 0; i < agreement->count && status == TRI_OK; i++) {
        struct wire_layer layer = wire_layer_of(&agreement->layers[i]);
        status = wire_hello_layer(&out, &layer, err);
    }
    if (status != TRI_OK)
        return status;
    if (!buf_ok(&agreement->hello))
        return fail_nomem(err, "the description of a job");
    agreement->layers_hash =
        convert_hello_hash((const uint8_t *)agreement->hello.data, agreement->hello.len);
    return TRI_OK;
}

/* ---- differences ---- */

/* What is written, and for whom: the other node against this one. */
struct difference {
    char *text;
    size_t size;
    unsigned other, own; /* ranks */
};

static int text_len(struct wire_text text)
{
    return text.len < 60 ? (int)text.len : 60;
}

static bool same_text(struct wire_text text, const char *other)
{
    return text.len == strlen(other) && memcmp(text.at, other, text.len) == 0;
}

static bool layers_differ(const struct difference *to, uint32_t number,
                          const struct wire_layer *other, const struct agree_layer *own)
{
    bool bias = other->bias > 0;
    if (!same_text(other->name, own->name))
        (void)snprintf(to->text, to->size,
                       "layer %" PRIu32 " is '%.*s' on rank %u, '%.60s' on rank %u", number,
                       text_len(other->name), other->name.at, to->other, own->name, to->own);
    else if (other->kind != own->kind)
        (void)snprintf(to->text, to->size,
                       "layer %" PRIu32 ": '%.60s' is %s on rank %u, %s on rank %u", number,
                       own->name, layer_kind_name((tri_kind)other->kind), to->other,
                       layer_kind_name(own->kind), to->own);
    else if (other->rows != own->rows || other->cols != own->cols)
        (void)snprintf(to->text, to->size,
                       "layer %" PRIu32 ": '%.60s' is %" PRIu32 "x%" PRIu32 " on rank %u, %" PRIu32
                       "x%" PRIu32 " on rank %u",
                       number, own->name, other->rows, other->cols, to->other, own->rows, own->cols,
                       to->own);
    else if (bias != own->bias)
        (void)snprintf(
            to->text, to->size, "layer %" PRIu32 ": '%.60s' has %s bias on rank %u, %s on rank %u",
            number, own->name, bias ? "a" : "no", to->other, own->bias ? "one" : "none", to->own);
    else if (other->max_factor_rows != own->max_factor_rows)
        (void)snprintf(to->text, to->size,
                       "layer %" PRIu32 ": '%.60s' gives at most %" PRIu32
                       " factor rows on rank %u, %" PRIu32 " on rank %u",
                       number, own->name, other->max_factor_rows, to->other, own->max_factor_rows,
                       to->own);
    else
        return false;
    return true;
}

static void count_differs(const struct difference *to, uint32_t more, bool other,
                          struct wire_text from)
{
    (void)snprintf(to->text, to->size,
                   "rank %u has %" PRIu32 " more layer%s than rank %u, from '%.*s' on",
                   other ? to->other : to->own, more, more > 1 ? "s" : "",
                   other ? to->own : to->other, text_len(from), from.at);
}

static bool any_layer_differs(const struct difference *to, const struct agreement *own,
                              const struct wire_hello_data *other)
{
    struct wire_in list = other->layers;
    struct wire_layer layer;
    uint32_t i = 0;
    for (; i < own->count && wire_layer_next(&list, &layer); i++)
        if (layers_differ(to, i, &layer, &own->layers[i]))
            return true;
    if (i < own->count)
        count_differs(to, own->count - i, false, wire_text_of(own->layers[i].name));
    else if (wire_layer_next(&list, &layer))
        count_differs(to, other->layer_count - own->count, true, layer.name);
    else
        return false;
    return true;
}

/* Options of another version may have other names. */
static bool names_differ(const struct difference *to, const struct wire_hello_data *other)
{
    struct wire_in list = other->options;
    struct wire_option option;
    bool same = other->option_count == ROWS;
    for (size_t i = 0; same && i < ROWS; i++)
        same = wire_option_next(&list, &option) && same_text(option.name, rows[i].name);
    if (same)
        return false;
    (void)snprintf(to->text, to->size,
                   "rank %u has other options than rank %u: it runs trident %.*s, rank %u " LIBRARY,
                   to->other, to->own, text_len(other->library), other->library.at, to->own);
    return true;
}

static bool any_option_differs(const struct difference *to, const struct agreement *own,
                               const struct wire_hello_data *other)
{
    struct wire_in list = other->options;
    struct wire_option option;
    if (names_differ(to, other))
        return true;
    for (size_t i = 0; i < ROWS && wire_option_next(&list, &option); i++) {
        char room[VALUE_TEXT];
        const char *value = show(&own->options, i, room);
        if (same_text(option.value, value))
            continue;
        (void)snprintf(to->text, to->size, "option %s is '%.*s' on rank %u, '%.60s' on rank %u",
                       rows[i].name, text_len(option.value), option.value.at, to->other, value,
                       to->own);
        return true;
    }
    return false;
}

bool agree_differ(const struct agreement *own, const struct agree_hello *other, char *text,
                  size_t size)
{
    const struct wire_header header = {.kind = WIRE_HELLO, .data_len = (uint32_t)other->len};
    struct difference to = {text, size, other->rank, 0};
    struct wire_hello_data data;
    text[0] = '\0';
    if (wire_hello_data_decode(&header, other->data, &data, NULL) != TRI_OK)
        return false;
    return any_layer_differs(&to, own, &data) || any_option_differs(&to, own, &data);
}
