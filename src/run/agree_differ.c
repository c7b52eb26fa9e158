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

static bool layers_differ(uint32_t number, const struct agree_layer *mine,
                          const struct agree_layer *theirs, char *text, size_t size)
{
    const char *name = mine->name;
    if (strcmp(name, theirs->name) != 0)
        (void)snprintf(text, size, "layer %" PRIu32 " is '%.60s' here, '%.60s' on node 0", number,
                       name, theirs->name);
    else if (mine->kind != theirs->kind)
        (void)snprintf(text, size, "layer %" PRIu32 ": '%.60s' is %s here, %s on node 0", number,
                       name, layer_kind_name(mine->kind), layer_kind_name(theirs->kind));
    else if (mine->rows != theirs->rows || mine->cols != theirs->cols)
        (void)snprintf(text, size,
                       "layer %" PRIu32 ": '%.60s' is %" PRIu32 "x%" PRIu32 " here, %" PRIu32
                       "x%" PRIu32 " on node 0",
                       number, name, mine->rows, mine->cols, theirs->rows, theirs->cols);
    else if (mine->bias != theirs->bias)
        (void)snprintf(text, size, "layer %" PRIu32 ": '%.60s' has %s bias here, %s on node 0",
                       number, name, mine->bias ? "a" : "no", theirs->bias ? "one" : "none");
    else if (mine->max_factor_rows != theirs->max_factor_rows)
        (void)snprintf(text, size,
                       "layer %" PRIu32 ": '%.60s' gives at most %" PRIu32
                       " factor rows here, %" PRIu32 " on node 0",
                       number, name, mine->max_factor_rows, theirs->max_factor_rows);
    else
        return false;
    return true;
}

static bool counts_differ(const struct agreement *mine, const struct agreement *theirs, char *text,
                          size_t size)
{
    if (mine->count == theirs->count)
        return false;
    bool fewer = mine->count < theirs->count;
    const struct agreement *longer = fewer ? theirs : mine;
    uint32_t both = fewer ? mine->count : theirs->count, more = longer->count - both;
    (void)snprintf(text, size, "%s %" PRIu32 " more layer%s%s, from '%.60s' on",
                   fewer ? "node 0 has" : "this node has", more, more > 1 ? "s" : "",
                   fewer ? "" : " than node 0", longer->layers[both].name);
    return true;
}

static bool options_differ(const struct agreement *mine, const struct agreement *theirs, char *text,
                           size_t size)
{
    for (size_t i = 0; i < ROWS; i++) {
        char mine_text[VALUE_TEXT], their_text[VALUE_TEXT];
        const char *here = show(&mine->options, i, mine_text);
        const char *there = show(&theirs->options, i, their_text);
        if (strcmp(here, there) == 0)
            continue;
        (void)snprintf(text, size, "option %s is '%.60s' here, '%.60s' on node 0", rows[i].name,
                       here, there);
        return true;
    }
    return false;
}

bool agree_differ(const struct agreement *mine, const struct agreement *theirs, char *text,
                  size_t size)
{
    uint32_t both = mine->count < theirs->count ? mine->count : theirs->count;
    for (uint32_t i = 0; i < both; i++)
        if (layers_differ(i, &mine->layers[i], &theirs->layers[i], text, size))
            return true;
    if (counts_differ(mine, theirs, text, size) || options_differ(mine, theirs, text, size))
        return true;
    bool other = mine->plan_hash != theirs->plan_hash;
    (void)snprintf(text, size, "%s",
                   other ? "layers and options are those of node 0, and the plan is another: is it "
                           "the same version of trident?"
                         : "");
    return other;
}
