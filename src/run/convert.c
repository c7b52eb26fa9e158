/* Messages to bytes: how much data there is, what stands in the head, what behind it. */
#include <string.h>

#include "run/convert_inside.h"
#include "wire/hash.h"
#include "wire/heads.h"
#include "wire/hello.h"
#include "wire/reason.h"

/* ---- the layout's answers ---- */

uint64_t convert_data_bytes(const struct message *message, const struct layout *layout)
{
    if (!convert_has_values(message->kind) || message->unchanged)
        return 0;
    const struct layout_layer *layer = layer_of(layout, message);
    if (layer == NULL)
        return 0;
    if (message->kind != WIRE_FACTORS)
        return message->part < layer->parts
                   ? 4 * (uint64_t)layout->parts[layer->first_part + message->part].floats
                   : 0;
    if (message->part >= message->parts || message->parts > message->rows)
        return 0;
    uint32_t first = layout_factor_first(message->rows, message->parts, message->part);
    uint32_t last = layout_factor_first(message->rows, message->parts, message->part + 1);
    uint64_t row = (uint64_t)layer->rows + layer->cols;
    return (uint64_t)4 * (last - first) * row;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct wire_limits convert_limits(const struct layout *layout)
{
    struct wire_limits limits = wire_widest;
    uint64_t parts = 1, bytes = most(WIRE_LIST_MAX, 4 * (uint64_t)layout->part_floats);
    for (uint32_t i = 0; i < layout->layer_count; i++) {
        const struct layout_layer *layer = &layout->layers[i];
        uint64_t row = (uint64_t)layer->rows + layer->cols;
        parts = most(parts, layer->parts);
        if (layer->form != TRI_FORM_FACTORS)
            continue;
        parts = most(parts, layout_factor_parts(layout, layer, layer->factor_rows));
        bytes = most(bytes, 4 * (layout->part_floats + row));
    }
    limits.nodes = layout->nodes;
    limits.workers = layout->workers;
    limits.servers = layout->servers;
    limits.layers = layout->layer_count;
    limits.chunks = (uint32_t)parts;
    limits.data_bytes = bytes < WIRE_MAX_DATA ? (uint32_t)bytes : WIRE_MAX_DATA;
    limits.max_codec = 0;
    return limits;
}

size_t convert_set_words(const struct convert *ctx)
{
    return bits_words(ctx->layout != NULL ? ctx->layout->nodes : 1);
}

uint64_t convert_hello_hash(const uint8_t *data, size_t len)
{
    enum { COUNTS = 8 };
    size_t lists = COUNTS + 1 + (size_t)data[COUNTS]; /* behind the version of the library */
    return wire_hash64(wire_hash64(WIRE_HASH_START, data, COUNTS), data + lists, len - lists);
}

/* ---- writing ---- */

static tri_status put_hello(const struct convert *ctx, const struct message *message,
                            struct buf *out, tri_error *err)
{
    const struct layout *layout = ctx->layout;
    if (layout == NULL)
        return fail(err, TRI_EARG, "a node without a plan cannot say HELLO");
    uint32_t server = server_on(layout, ctx->node);
    bool worker = ctx->node < layout->workers;
    struct wire_hello hello = {
        .roles = (worker ? WIRE_ROLE_WORKER : 0U) |
                 (server != LAYOUT_NO_SERVER ? WIRE_ROLE_SERVER : 0U) |
                 (ctx->node == 0 ? WIRE_ROLE_COORDINATOR : 0U),
        .rank = worker ? ctx->node : server,
        .incarnation = message->incarnation,
        .wire_min = WIRE_VERSION,
        .wire_max = WIRE_VERSION,
    };
    wire_hello_encode(&hello, out);
    return TRI_OK;
}

static void put_result(const struct convert *ctx, const struct message *message, struct buf *out)
{
    uint8_t mask[WIRE_MAX_RANKS / 8];
    uint32_t ranks = message->set != NULL ? ctx->layout->workers : 0;
    for (uint32_t i = 0; i < (ranks + 7) / 8; i++)
        mask[i] = (uint8_t)(message->set[i / 8] >> 8 * (i % 8));
    if (ranks % 8 != 0)
        mask[ranks / 8] &= (uint8_t)((1u << ranks % 8) - 1);
    wire_result_encode(
        &(struct wire_result){
            .count = message->count,
            .version = message->version,
            .lr_bits = message->unchanged ? 0 : message->lr_bits,
            .flags = (uint8_t)((message->unchanged ? WIRE_RESULT_UNCHANGED : 0) |
                               (ctx->means ? WIRE_RESULT_AGGREGATE : 0) |
                               (message->left_out ? WIRE_RESULT_LEFT_OUT : 0)),
            .mask_ranks = ranks,
            .mask = mask,
        },
        out);
}

static uint32_t mark_what(const struct message *message)
{
    return message->mark == CORE_MARK_JOIN ? WIRE_MARK_JOIN : WIRE_MARK_CHECKPOINT;
}

static void put_mark(const struct message *message, struct buf *out)
{
    bool join = message->mark == CORE_MARK_JOIN;
    wire_mark_encode(&(struct wire_mark){.what = mark_what(message),
                                         .rank = join ? message->rank : 0,
                                         .agreed = join && message->accepted,
                                         .last = join && message->last,
                                         .worker = message->role == CORE_WORKER},
                     out);
}

static void put_marked(const struct message *message, struct buf *out)
{
    wire_marked_encode(
        &(struct wire_marked){.what = mark_what(message),
                              .accepted = message->accepted,
                              .own = message->count,
                              .rank = message->mark == CORE_MARK_JOIN ? message->rank : 0,
                              .owner = message->owner},
        out);
}

static void put_left_out(const struct message *message, struct buf *out)
{
    wire_left_out_encode(&(struct wire_left_out){.version = message->version,
                                                 .rank = message->rank,
                                                 .running = message->count < UINT32_MAX
                                                                ? (uint32_t)message->count
                                                                : UINT32_MAX},
                         out);
}

static void put_failed(const struct convert *ctx, const struct message *message, struct buf *out)
{
    bool known = message->status < TRI_OK && (int)message->status >= WIRE_STATUS_MIN;
    wire_failed_encode(
        &(struct wire_failed){.node = ctx->node, .status = known ? message->status : TRI_EPEER},
        out);
}

static tri_status put_head(const struct convert *ctx, const struct message *message,
                           struct buf *out, tri_error *err)
{
    switch (message->kind) {
    case WIRE_HELLO:
        return put_hello(ctx, message, out, err);
    case WIRE_PUSH:
        wire_push_encode(&(struct wire_push){message->count, message->lr_bits, message->rank}, out);
        break;
    case WIRE_FACTORS:
        wire_factors_encode(&(struct wire_factors){message->count, message->lr_bits, message->rank,
                                                   message->rows, message->parts},
                            out);
        break;
    case WIRE_NOTHING:
        wire_nothing_encode(&(struct wire_nothing){message->rank}, out);
        break;
    case WIRE_RESULT:
        put_result(ctx, message, out);
        break;
    case WIRE_LEFT_OUT:
        put_left_out(message, out);
        break;
    case WIRE_MARK:
        put_mark(message, out);
        break;
    case WIRE_MARKED:
        put_marked(message, out);
        break;
    case WIRE_SAVED:
        wire_saved_encode(&(struct wire_saved){message->owner}, out);
        break;
    case WIRE_CHECKSUM:
        wire_checksum_encode(&(struct wire_checksum){message->crc}, out);
        break;
    case WIRE_FAILED:
        put_failed(ctx, message, out);
        break;
    case WIRE_STATE:
        wire_state_encode(&(struct wire_state){message->version, message->rows}, out);
        break;
    default:
        break;
    }
    return TRI_OK;
}

static void put_reason(const struct message *message, struct buf *out)
{
    char text[WIRE_REASON_MAX + 2]; /* one byte more than may pass: it is seen that it is cut */
    size_t len = message->bytes == NULL           ? 0
                 : message->len < sizeof text - 1 ? message->len
                                                  : sizeof text - 1;
    if (len > 0)
        memcpy(text, message->bytes, len);
    text[len] = '\0';
    wire_reason_encode(text, out);
}

static tri_status put_nodes(const struct convert *ctx, const struct message *message,
                            struct buf *out, tri_error *err)
{
    if (ctx->layout == NULL || message->set == NULL)
        return fail(err, TRI_EARG, "%s has no list of nodes", wire_kind_name(message->kind));
    uint32_t nodes = ctx->layout->nodes;
    wire_put_u32(out, bits_count(message->set, nodes));
    for (uint32_t n = 0; n < nodes; n++)
        if (bits_has(message->set, n))
            wire_put_u32(out, n);
    return TRI_OK;
}

/* What is no values stands behind the head. */
static tri_status put_data(const struct convert *ctx, const struct message *message,
                           struct buf *out, tri_error *err)
{
    switch (message->kind) {
    case WIRE_HELLO:
        buf_add(out, ctx->hello.at, ctx->hello.len);
        break;
    case WIRE_BOOK:
        buf_add(out, ctx->book.at, ctx->book.len);
        break;
    case WIRE_REFUSED:
    case WIRE_EVICTED:
    case WIRE_FAILED:
        put_reason(message, out);
        break;
    case WIRE_VIEW:
    case WIRE_ACCUSE:
        return put_nodes(ctx, message, out, err);
    case WIRE_REPORT:
    case WIRE_DECISION:
    case WIRE_PEERS:
    case WIRE_RESUME:
        buf_add(out, message->bytes, message->len);
        break;
    default:
        break;
    }
    return TRI_OK;
}

static struct wire_header header_of(const struct convert *ctx, const struct message *message,
                                    const struct wire_kind_info *info)
{
    struct wire_header header = {
        .kind = (uint8_t)message->kind, .job = ctx->job, .sender = ctx->node};
    if ((info->uses & WIRE_USE_PLAN) != 0)
        header.plan = message->kind == WIRE_READY ? message->hash : ctx->plan;
    if ((info->uses & WIRE_USE_VIEW) != 0)
        header.view = message->view;
    if ((info->uses & WIRE_USE_CLOCK) != 0)
        header.clock = message->clock;
    if ((info->uses & WIRE_USE_LAYER) != 0)
        header.layer = message->layer;
    if ((info->uses & WIRE_USE_CHUNK) != 0)
        header.chunk = message->part;
    return header;
}

/* Our own mistakes, told before anything is written. */
static tri_status check_message(const struct convert *ctx, const struct message *message,
                                const struct wire_kind_info *info, tri_error *err)
{
    if (info == NULL || message->kind == WIRE_ROWS || message->kind == WIRE_PULL)
        return fail(err, TRI_EARG, "a message of kind %u cannot be sent", (unsigned)message->kind);
    if (message->clock > WIRE_MAX_CLOCK)
        return fail(err, TRI_EARG, "%s has an impossible clock", info->name);
    bool about_layer = (info->uses & WIRE_USE_LAYER) != 0;
    if (about_layer && (ctx->layout == NULL || layer_of(ctx->layout, message) == NULL))
        return fail(err, TRI_EARG, "%s is about layer %" PRIu32 ", which there is not", info->name,
                    message->layer);
    return TRI_OK;
}

static tri_status check_length(const struct wire_kind_info *info, uint64_t bytes, tri_error *err)
{
    if (bytes >= info->data_min && bytes <= info->data_max)
        return TRI_OK;
    return fail(err, TRI_EARG, "%s would have %" PRIu64 " bytes of data instead of %u to %u",
                info->name, bytes, (unsigned)info->data_min, (unsigned)info->data_max);
}

static tri_status take_back(struct buf *out, size_t len, tri_status status)
{
    out->len = len;
    if (out->data != NULL)
        out->data[len] = '\0';
    return status;
}

tri_status convert_encode(const struct convert *ctx, const struct message *message, struct buf *out,
                          size_t *head_bytes, tri_error *err)
{
    const struct wire_kind_info *info = wire_kind_at(message->kind);
    tri_status status = check_message(ctx, message, info, err);
    if (status != TRI_OK)
        return status;
    size_t start = out->len;
    buf_fill(out, '\0', WIRE_HEADER_BYTES);
    if ((status = put_head(ctx, message, out, err)) != TRI_OK)
        return take_back(out, start, status);
    size_t head = out->len - start;
    if ((status = put_data(ctx, message, out, err)) != TRI_OK)
        return take_back(out, start, status);
    if (!buf_ok(out))
        return take_back(out, start, fail_nomem(err, "a message"));
    bool values = convert_has_values(message->kind);
    uint64_t data = values ? convert_data_bytes(message, ctx->layout) : out->len - start - head;
    if (!(message->kind == WIRE_RESULT && message->unchanged) &&
        (status = check_length(info, data, err)) != TRI_OK)
        return take_back(out, start, status);
    struct wire_header header = header_of(ctx, message, info);
    uint8_t *bytes = (uint8_t *)out->data + start;
    header.head_len = (uint16_t)(head - WIRE_HEADER_BYTES);
    header.data_len = (uint32_t)data;
    if (ctx->checked && !values)
        wire_payload_cover(&header, bytes + WIRE_HEADER_BYTES, bytes + head);
    wire_header_encode(&header, bytes);
    *head_bytes = head;
    return TRI_OK;
}
