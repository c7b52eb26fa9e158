/* Heads to bytes and back. Fields are read in the order of their offsets, one
 * statement each: inside an initialiser the order would be the compiler's. */
#include "wire/heads.h"

#include <assert.h>

static struct wire_in begin(const struct wire_header *header, enum wire_kind kind,
                            const uint8_t *head)
{
    assert(header->kind == kind);
    (void)kind;
    return wire_in_of(head, header->head_len);
}

/* Heads in front of values are filled with zeros to whole lines of a cache: behind a head of, say,
 * 28 bytes the values lie askew in the kernel's pages, and copying them costs up to twice the
 * time. */
enum { LINE = 64 };

static void fill_up(struct buf *head, size_t start)
{
    size_t over = (head->len - start) % LINE;
    if (over > 0)
        buf_fill(head, '\0', LINE - over);
}

static void get_filling(struct wire_in *in, const struct wire_header *header)
{
    size_t over = (header->head_len - wire_left(in)) % LINE;
    for (size_t i = over; over > 0 && i < LINE; i++)
        if (wire_get_u8(in) != 0)
            wire_refuse(in, "there is something behind its last field");
}

/* ---- updates ---- */

void wire_push_encode(const struct wire_push *push, struct buf *head)
{
    size_t start = head->len;
    wire_put_u64(head, push->count);
    wire_put_u32(head, push->lr_bits);
    wire_put_u32(head, push->rank);
    fill_up(head, start);
}

tri_status wire_push_decode(const struct wire_header *header, const uint8_t *head,
                            const struct wire_limits *limits, struct wire_push *out, tri_error *err)
{
    struct wire_in in = begin(header, WIRE_PUSH, head);
    struct wire_push push;
    push.count = wire_get_u64(&in);
    push.lr_bits = wire_get_u32(&in);
    push.rank = wire_get_rank(&in, limits);
    get_filling(&in, header);
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = push;
    return status;
}

void wire_factors_encode(const struct wire_factors *factors, struct buf *head)
{
    size_t start = head->len;
    wire_put_u64(head, factors->count);
    wire_put_u32(head, factors->lr_bits);
    wire_put_u32(head, factors->rank);
    wire_put_u32(head, factors->rows);
    wire_put_u32(head, factors->parts);
    fill_up(head, start);
}

tri_status wire_factors_decode(const struct wire_header *header, const uint8_t *head,
                               const struct wire_limits *limits, struct wire_factors *out,
                               tri_error *err)
{
    struct wire_in in = begin(header, WIRE_FACTORS, head);
    struct wire_factors factors;
    factors.count = wire_get_u64(&in);
    factors.lr_bits = wire_get_u32(&in);
    factors.rank = wire_get_rank(&in, limits);
    factors.rows = wire_get_u32(&in);
    factors.parts = wire_get_u32(&in);
    /* So every part has a row, and no part is empty or divided by. */
    if (factors.parts < 1 || factors.parts > factors.rows)
        wire_refuse(&in, "it has no rows, or more parts than rows");
    else if (header->chunk >= factors.parts)
        wire_refuse(&in, "its part is past the last one");
    get_filling(&in, header);
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = factors;
    return status;
}

void wire_rows_encode(const struct wire_rows *rows, struct buf *head)
{
    size_t start = head->len;
    wire_put_u64(head, rows->count);
    wire_put_u32(head, rows->lr_bits);
    wire_put_u32(head, rows->rank);
    wire_put_u32(head, rows->rows);
    fill_up(head, start);
}

tri_status wire_rows_decode(const struct wire_header *header, const uint8_t *head,
                            const struct wire_limits *limits, struct wire_rows *out, tri_error *err)
{
    struct wire_in in = begin(header, WIRE_ROWS, head);
    struct wire_rows rows;
    rows.count = wire_get_u64(&in);
    rows.lr_bits = wire_get_u32(&in);
    rows.rank = wire_get_rank(&in, limits);
    rows.rows = wire_get_u32(&in);
    if (rows.rows < 1)
        wire_refuse(&in, "it has no rows");
    get_filling(&in, header);
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = rows;
    return status;
}

void wire_nothing_encode(const struct wire_nothing *nothing, struct buf *head)
{
    wire_put_u32(head, nothing->rank);
}

tri_status wire_nothing_decode(const struct wire_header *header, const uint8_t *head,
                               const struct wire_limits *limits, struct wire_nothing *out,
                               tri_error *err)
{
    struct wire_in in = begin(header, WIRE_NOTHING, head);
    struct wire_nothing nothing;
    nothing.rank = wire_get_rank(&in, limits);
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = nothing;
    return status;
}

/* ---- answers ---- */

enum { RESULT_FLAGS = WIRE_RESULT_UNCHANGED | WIRE_RESULT_AGGREGATE | WIRE_RESULT_LEFT_OUT };

static size_t mask_bytes(uint32_t ranks)
{
    return ((size_t)ranks + 7) / 8;
}

void wire_result_encode(const struct wire_result *result, struct buf *head)
{
    size_t start = head->len;
    assert(result->mask_ranks <= WIRE_MAX_RANKS && (result->flags & ~RESULT_FLAGS) == 0);
    wire_put_u64(head, result->count);
    wire_put_u64(head, result->version);
    wire_put_u32(head, result->lr_bits);
    wire_put_u32(head, result->mask_ranks);
    wire_put_u8(head, result->flags);
    buf_fill(head, '\0', 3);
    buf_add(head, result->mask, mask_bytes(result->mask_ranks));
    fill_up(head, start);
}

tri_status wire_result_decode(const struct wire_header *header, const uint8_t *head,
                              const struct wire_limits *limits, struct wire_result *out,
                              tri_error *err)
{
    struct wire_in in = begin(header, WIRE_RESULT, head);
    struct wire_result result;
    result.count = wire_get_u64(&in);
    result.version = wire_get_clock(&in, limits);
    result.lr_bits = wire_get_u32(&in);
    result.mask_ranks = wire_get_u32(&in);
    result.flags = wire_get_u8(&in);
    if ((result.flags & ~RESULT_FLAGS) != 0 || wire_get_u8(&in) != 0 || wire_get_u16(&in) != 0)
        wire_refuse(&in, "it has unknown flags");
    if (((result.flags & WIRE_RESULT_UNCHANGED) != 0) != (header->data_len == 0))
        wire_refuse(&in, "it must have data or be unchanged, and not both");
    if (result.mask_ranks > limits->workers)
        wire_refuse(&in, "its mask covers more ranks than there are");
    result.mask = wire_get_bytes(&in, mask_bytes(result.mask_ranks));
    unsigned last = result.mask_ranks % 8;
    if (result.mask != NULL && last > 0 && result.mask[result.mask_ranks / 8] >> last != 0)
        wire_refuse(&in, "its mask has bits past the last rank");
    get_filling(&in, header);
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = result;
    return status;
}

void wire_pull_encode(const struct wire_pull *pull, struct buf *head)
{
    wire_put_u64(head, pull->version);
}

tri_status wire_pull_decode(const struct wire_header *header, const uint8_t *head,
                            const struct wire_limits *limits, struct wire_pull *out, tri_error *err)
{
    struct wire_in in = begin(header, WIRE_PULL, head);
    struct wire_pull pull;
    pull.version = wire_get_clock(&in, limits);
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = pull;
    return status;
}

void wire_left_out_encode(const struct wire_left_out *left_out, struct buf *head)
{
    wire_put_u64(head, left_out->version);
    wire_put_u32(head, left_out->rank);
    wire_put_u32(head, left_out->running);
}

tri_status wire_left_out_decode(const struct wire_header *header, const uint8_t *head,
                                const struct wire_limits *limits, struct wire_left_out *out,
                                tri_error *err)
{
    struct wire_in in = begin(header, WIRE_LEFT_OUT, head);
    struct wire_left_out left_out;
    left_out.version = wire_get_clock(&in, limits);
    left_out.rank = wire_get_rank(&in, limits);
    left_out.running = wire_get_u32(&in);
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = left_out;
    return status;
}

/* ---- marks ---- */

static uint32_t get_what(struct wire_in *in)
{
    uint32_t what = wire_get_u32(in);
    if (what < WIRE_MARK_CHECKPOINT || what > WIRE_MARK_JOIN)
        wire_refuse(in, "it marks no checkpoint, checksum or join");
    return what;
}

static bool get_yes(struct wire_in *in)
{
    uint32_t yes = wire_get_u32(in);
    if (yes > 1)
        wire_refuse(in, "a yes or no is neither 0 nor 1");
    return yes == 1;
}

/* A rank in a message about what; one way to write a thing: 0 unless somebody joins. */
static uint32_t get_joining(struct wire_in *in, uint32_t what, const struct wire_limits *limits)
{
    uint32_t rank = wire_get_rank(in, limits);
    if (what != WIRE_MARK_JOIN && rank != 0)
        wire_refuse(in, "it names a rank and is no join");
    return rank;
}

enum { MARK_AGREED = 1, MARK_LAST = 2, MARK_WORKER = 4 };

void wire_mark_encode(const struct wire_mark *mark, struct buf *head)
{
    wire_put_u32(head, mark->what);
    wire_put_u32(head, mark->rank);
    wire_put_u32(head, (mark->agreed ? MARK_AGREED : 0U) | (mark->last ? MARK_LAST : 0U) |
                           (mark->worker ? MARK_WORKER : 0U));
}

tri_status wire_mark_decode(const struct wire_header *header, const uint8_t *head,
                            const struct wire_limits *limits, struct wire_mark *out, tri_error *err)
{
    struct wire_in in = begin(header, WIRE_MARK, head);
    struct wire_mark mark;
    mark.what = get_what(&in);
    mark.rank = get_joining(&in, mark.what, limits);
    uint32_t flags = wire_get_u32(&in);
    mark.agreed = (flags & MARK_AGREED) != 0;
    mark.last = (flags & MARK_LAST) != 0;
    mark.worker = (flags & MARK_WORKER) != 0;
    if ((flags & ~(uint32_t)(MARK_AGREED | MARK_LAST | MARK_WORKER)) != 0)
        wire_refuse(&in, "it has unknown flags");
    else if (mark.what != WIRE_MARK_JOIN && (mark.agreed || mark.last))
        wire_refuse(&in, "it has flags of a join and is none");
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = mark;
    return status;
}

void wire_marked_encode(const struct wire_marked *marked, struct buf *head)
{
    wire_put_u32(head, marked->what);
    wire_put_u32(head, marked->accepted);
    wire_put_u64(head, marked->own);
    wire_put_u32(head, marked->rank);
    wire_put_u32(head, marked->owner);
}

tri_status wire_marked_decode(const struct wire_header *header, const uint8_t *head,
                              const struct wire_limits *limits, struct wire_marked *out,
                              tri_error *err)
{
    struct wire_in in = begin(header, WIRE_MARKED, head);
    struct wire_marked marked;
    marked.what = get_what(&in);
    marked.accepted = get_yes(&in);
    marked.own = wire_get_clock(&in, limits);
    marked.rank = get_joining(&in, marked.what, limits);
    marked.owner = wire_get_owner(&in, limits);
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = marked;
    return status;
}

void wire_saved_encode(const struct wire_saved *saved, struct buf *head)
{
    wire_put_u32(head, saved->owner);
}

tri_status wire_saved_decode(const struct wire_header *header, const uint8_t *head,
                             const struct wire_limits *limits, struct wire_saved *out,
                             tri_error *err)
{
    struct wire_in in = begin(header, WIRE_SAVED, head);
    struct wire_saved saved;
    saved.owner = wire_get_owner(&in, limits);
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = saved;
    return status;
}

void wire_state_encode(const struct wire_state *state, struct buf *head)
{
    size_t start = head->len;
    wire_put_u64(head, state->steps);
    wire_put_u32(head, state->plane);
    fill_up(head, start);
}

tri_status wire_state_decode(const struct wire_header *header, const uint8_t *head,
                             const struct wire_limits *limits, struct wire_state *out,
                             tri_error *err)
{
    struct wire_in in = begin(header, WIRE_STATE, head);
    struct wire_state state;
    (void)limits;
    state.steps = wire_get_u64(&in);
    state.plane = wire_get_u32(&in);
    get_filling(&in, header);
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = state;
    return status;
}

void wire_checksum_encode(const struct wire_checksum *checksum, struct buf *head)
{
    wire_put_u32(head, checksum->crc);
}

tri_status wire_checksum_decode(const struct wire_header *header, const uint8_t *head,
                                const struct wire_limits *limits, struct wire_checksum *out,
                                tri_error *err)
{
    (void)limits;
    struct wire_in in = begin(header, WIRE_CHECKSUM, head);
    struct wire_checksum checksum;
    checksum.crc = wire_get_u32(&in);
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = checksum;
    return status;
}

/* ---- the end ---- */

void wire_failed_encode(const struct wire_failed *failed, struct buf *head)
{
    wire_put_u32(head, failed->node);
    wire_put_u32(head, (uint32_t)failed->status);
}

static int32_t get_status(struct wire_in *in)
{
    /* How far it is below -1; two's complement, without a cast that C leaves open. */
    uint32_t below = ~wire_get_u32(in);
    if (below <= (uint32_t)(-1 - WIRE_STATUS_MIN))
        return -1 - (int32_t)below;
    wire_refuse(in, "its status is no error");
    return 0;
}

tri_status wire_failed_decode(const struct wire_header *header, const uint8_t *head,
                              const struct wire_limits *limits, struct wire_failed *out,
                              tri_error *err)
{
    struct wire_in in = begin(header, WIRE_FAILED, head);
    struct wire_failed failed;
    failed.node = wire_get_node(&in, limits);
    failed.status = get_status(&in);
    tri_status status = wire_finish(&in, header, "head", err);
    if (status == TRI_OK)
        *out = failed;
    return status;
}
