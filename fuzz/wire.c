/* Bytes to messages: whatever is accepted must be written again as the same bytes.
 *
 * The first byte picks the decoder. 0: a header as it is, 127: a header whose
 * checksum is made right, then its payload; the number of a kind: two bytes for
 * the length of the head, one for the header's chunk, then head and data. 128 more
 * takes narrow limits instead of the widest. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "wire/book.h"
#include "wire/decision.h"
#include "wire/heads.h"
#include "wire/hello.h"
#include "wire/peers.h"
#include "wire/reason.h"
#include "wire/report.h"
#include "wire/resume.h"

enum { PICK_HEADER = 0, PICK_MESSAGE = 127, PICK_NARROW = 128, AT_CRC = 60 };

/* A broken promise is a crash, whatever NDEBUG says. */
static void must(bool holds)
{
    if (!holds)
        abort();
}

static const struct wire_limits narrow = {
    .nodes = 8,
    .workers = 5,
    .servers = 4,
    .layers = 3,
    .chunks = 4,
    .max_clock = 100,
    .data_bytes = 1 << 16,
    .max_codec = 1,
};

/* A copy that ends where the bytes end, so that a step too far is noticed. */
static uint8_t *copy(const uint8_t *bytes, size_t len)
{
    uint8_t *out = malloc(len > 0 ? len : 1);
    must(out != NULL);
    if (len > 0)
        memcpy(out, bytes, len);
    return out;
}

/* What was accepted, written again. */
struct again {
    const struct wire_limits *limits;
    tri_error err;
    struct buf out;
};

/* A list of ranks as an array; the caller frees it. */
static uint32_t *ranks_of(const struct wire_ranks *list, uint32_t limit)
{
    uint32_t *ranks = malloc(((size_t)list->count + 1) * sizeof *ranks);
    must(ranks != NULL);
    for (uint32_t i = 0; i < list->count; i++) {
        ranks[i] = wire_ranks_at(list, i);
        must(ranks[i] < limit && (i == 0 || ranks[i] > ranks[i - 1]));
    }
    return ranks;
}

#define HEAD(name, NAME)                                                                           \
    case WIRE_##NAME: {                                                                            \
        struct wire_##name read;                                                                   \
        status = wire_##name##_decode(header, head, again->limits, &read, &again->err);            \
        if (status == TRI_OK)                                                                      \
            wire_##name##_encode(&read, &again->out);                                              \
        break;                                                                                     \
    }

static tri_status recode_head(const struct wire_header *header, const uint8_t *head,
                              struct again *again)
{
    tri_status status = header->head_len == 0 ? TRI_OK : TRI_EARG; /* the kind has no head */
    switch (header->kind) {
        HEAD(hello, HELLO)
        HEAD(push, PUSH)
        HEAD(factors, FACTORS)
        HEAD(rows, ROWS)
        HEAD(nothing, NOTHING)
        HEAD(result, RESULT)
        HEAD(pull, PULL)
        HEAD(left_out, LEFT_OUT)
        HEAD(mark, MARK)
        HEAD(marked, MARKED)
        HEAD(saved, SAVED)
        HEAD(state, STATE)
        HEAD(checksum, CHECKSUM)
        HEAD(failed, FAILED)
    default:
        break;
    }
    return status;
}

static tri_status recode_hello(const struct wire_header *header, const uint8_t *data,
                               struct again *again)
{
    struct wire_hello_data hello;
    tri_status status = wire_hello_data_decode(header, data, &hello, &again->err);
    if (status != TRI_OK)
        return status;
    char library[WIRE_TEXT_MAX + 1] = "";
    if (hello.library.len > 0)
        memcpy(library, hello.library.at, hello.library.len);
    struct wire_hello_out out;
    struct wire_option option;
    struct wire_layer layer;
    uint32_t options = 0, layers = 0;
    must(wire_hello_begin(&out, &again->out, library, NULL) == TRI_OK);
    for (; wire_option_next(&hello.options, &option); options++)
        must(wire_hello_option(&out, &option, NULL) == TRI_OK);
    for (; wire_layer_next(&hello.layers, &layer); layers++)
        must(wire_hello_layer(&out, &layer, NULL) == TRI_OK);
    must(options == hello.option_count && layers == hello.layer_count);
    return TRI_OK;
}

/* What the planner may count on. */
static void check_book(const struct wire_book *book)
{
    must(book->workers >= 1 && book->workers <= WIRE_MAX_RANKS);
    must(book->servers >= 1 && book->servers <= WIRE_MAX_RANKS);
    must(book->colocated <= book->workers && book->colocated <= book->servers);
    must(isfinite(book->bits_s) && book->bits_s > 0);
    must(isfinite(book->flops_s) && book->flops_s > 0);
    must(isfinite(book->latency_s) && !signbit(book->latency_s));
    must(isfinite(book->message_s) && !signbit(book->message_s));
    must(!(book->aggregate && book->replicated));
    must(book->batch >= 1 && book->scheme_count >= 1 && book->layer_count >= 1);
}

static tri_status recode_book(const struct wire_header *header, const uint8_t *data,
                              struct again *again)
{
    struct wire_book book;
    tri_status status = wire_book_decode(header, data, &book, &again->err);
    if (status != TRI_OK)
        return status;
    check_book(&book);
    uint32_t *homes = malloc(((size_t)book.colocated + 1) * sizeof *homes);
    struct wire_layer *layers = malloc(((size_t)book.layer_count + 1) * sizeof *layers);
    must(homes != NULL && layers != NULL);
    uint32_t count = 0;
    while (wire_home_next(&book.homes, &homes[count]))
        count++;
    must(count == book.colocated);
    count = 0;
    while (wire_layer_next(&book.layers, &layers[count]))
        count++;
    must(count == book.layer_count);
    must(wire_book_encode(&book, homes, layers, &again->out, NULL) == TRI_OK);
    free(homes);
    free(layers);
    return TRI_OK;
}

static tri_status recode_nodes(const struct wire_header *header, const uint8_t *data,
                               struct again *again)
{
    struct wire_ranks list;
    bool view = header->kind == WIRE_VIEW;
    tri_status status = view ? wire_view_decode(header, data, again->limits, &list, &again->err)
                             : wire_accuse_decode(header, data, again->limits, &list, &again->err);
    if (status != TRI_OK)
        return status;
    uint32_t *nodes = ranks_of(&list, again->limits->nodes);
    if (view)
        wire_view_encode(nodes, list.count, &again->out);
    else
        wire_accuse_encode(nodes, list.count, &again->out);
    free(nodes);
    return TRI_OK;
}

static tri_status recode_report(const struct wire_header *header, const uint8_t *data,
                                struct again *again)
{
    struct wire_in report;
    tri_status status = wire_report_decode(header, data, again->limits, &report, &again->err);
    if (status != TRI_OK)
        return status;
    struct wire_report_out out;
    struct wire_report_layer layer;
    struct wire_held held;
    wire_report_begin(&out, &again->out);
    while (wire_report_next(&report, &layer)) {
        must(layer.layer < again->limits->layers && layer.next <= again->limits->max_clock);
        wire_report_layer(&out, layer.layer, layer.next);
        while (wire_held_next(&layer.held, &held)) {
            uint32_t *ranks = ranks_of(&held.ranks, again->limits->workers);
            wire_report_held(&out, held.clock, ranks, held.ranks.count);
            free(ranks);
        }
    }
    return TRI_OK;
}

static tri_status recode_decision(const struct wire_header *header, const uint8_t *data,
                                  struct again *again)
{
    struct wire_decision decision;
    tri_status status = wire_decision_decode(header, data, again->limits, &decision, &again->err);
    if (status != TRI_OK)
        return status;
    struct wire_decision_out out;
    struct wire_entry entry;
    struct wire_relay relay;
    wire_decision_begin(&out, &again->out);
    while (wire_entry_next(&decision.entries, &entry)) {
        uint32_t *ranks = ranks_of(&entry.ranks, again->limits->workers);
        wire_decision_entry(&out, entry.layer, entry.clock, ranks, entry.ranks.count);
        free(ranks);
    }
    while (wire_relay_next(&decision.relays, &relay)) {
        must(relay.rank < again->limits->workers && relay.relayer < again->limits->workers);
        uint32_t *ranks = ranks_of(&relay.receivers, again->limits->workers);
        wire_decision_relay(&out, &relay, ranks, relay.receivers.count);
        free(ranks);
    }
    return TRI_OK;
}

static tri_status recode_peers(const struct wire_header *header, const uint8_t *data,
                               struct again *again)
{
    struct wire_in list;
    tri_status status = wire_peers_decode(header, data, again->limits, &list, &again->err);
    if (status != TRI_OK)
        return status;
    struct wire_peers_out out;
    struct wire_peer peer;
    wire_peers_begin(&out, &again->out);
    while (wire_peer_next(&list, &peer)) {
        must(peer.node < again->limits->nodes);
        must(wire_peers_add(&out, &peer, NULL) == TRI_OK);
    }
    return TRI_OK;
}

static tri_status recode_resume(const struct wire_header *header, const uint8_t *data,
                                struct again *again)
{
    struct wire_resume resume;
    tri_status status = wire_resume_decode(header, data, &resume, &again->err);
    if (status != TRI_OK)
        return status;
    uint64_t *steps = malloc(((size_t)resume.layers + 1) * sizeof *steps);
    must(steps != NULL);
    for (uint32_t i = 0; i < resume.layers; i++)
        steps[i] = wire_resume_steps(&resume, i);
    wire_resume_encode(&resume, steps, &again->out);
    free(steps);
    return TRI_OK;
}

static tri_status recode_reason(const struct wire_header *header, const uint8_t *data,
                                struct again *again)
{
    struct wire_text reason;
    char text[WIRE_REASON_MAX + 1] = "";
    tri_status status = wire_reason_decode(header, data, &reason, &again->err);
    if (status != TRI_OK)
        return status;
    must(reason.len <= WIRE_REASON_MAX);
    memcpy(text, reason.at, reason.len);
    wire_reason_encode(text, &again->out);
    return TRI_OK;
}

static tri_status recode_data(const struct wire_header *header, const uint8_t *data,
                              struct again *again)
{
    switch (header->kind) {
    case WIRE_HELLO:
        return recode_hello(header, data, again);
    case WIRE_BOOK:
        return recode_book(header, data, again);
    case WIRE_REFUSED:
    case WIRE_EVICTED:
    case WIRE_FAILED:
        return recode_reason(header, data, again);
    case WIRE_VIEW:
    case WIRE_ACCUSE:
        return recode_nodes(header, data, again);
    case WIRE_REPORT:
        return recode_report(header, data, again);
    case WIRE_DECISION:
        return recode_decision(header, data, again);
    case WIRE_PEERS:
        return recode_peers(header, data, again);
    case WIRE_RESUME:
        return recode_resume(header, data, again);
    default: /* values, which have no form here */
        buf_add(&again->out, data, header->data_len);
        return TRI_OK;
    }
}

typedef tri_status recode(const struct wire_header *header, const uint8_t *bytes,
                          struct again *again);

static void check_part(recode *part, const struct wire_header *header, const uint8_t *bytes,
                       size_t len, const struct wire_limits *limits)
{
    struct again again = {.limits = limits};
    uint8_t *guarded = copy(bytes, len);
    buf_init(&again.out, &mem_libc);
    tri_status status = part(header, guarded, &again);
    must(status == TRI_OK || status == TRI_EARG || again.err.text[0] != '\0');
    must(status == TRI_OK || status == TRI_EARG || status == TRI_EINPUT);
    must(buf_ok(&again.out));
    if (status == TRI_OK)
        must(again.out.len == len && (len == 0 || memcmp(again.out.data, guarded, len) == 0));
    buf_fini(&again.out);
    free(guarded);
}

/* Head and data of a header that is either decoded or made up here. */
static void check_payload(const struct wire_header *header, const uint8_t *payload,
                          const struct wire_limits *limits)
{
    check_part(recode_head, header, payload, header->head_len, limits);
    check_part(recode_data, header, payload + header->head_len, header->data_len, limits);
}

static void check_header(const uint8_t *data, size_t size, bool fix,
                         const struct wire_limits *limits)
{
    uint8_t bytes[WIRE_HEADER_BYTES], back[WIRE_HEADER_BYTES];
    struct wire_header header;
    tri_error err = {0};
    if (size < sizeof bytes)
        return;
    memcpy(bytes, data, sizeof bytes);
    if (fix)
        wire_store_u32(bytes + AT_CRC, crc32c(0, bytes, AT_CRC));
    tri_status status = wire_header_decode(bytes, limits, &header, &err);
    must(status == err.status && (status == TRI_OK) == (err.text[0] == '\0'));
    if (status != TRI_OK)
        return;
    wire_header_encode(&header, back);
    must(memcmp(bytes, back, sizeof back) == 0);
    must(header.data_len <= WIRE_MAX_DATA && header.sender < limits->nodes);
    size -= sizeof bytes;
    if (header.head_len > size || header.data_len > size - header.head_len)
        return;
    (void)wire_payload_check(&header, data + sizeof bytes, data + sizeof bytes + header.head_len,
                             NULL);
    check_payload(&header, data + sizeof bytes, limits);
}

static void check_kind(unsigned kind, const uint8_t *data, size_t size,
                       const struct wire_limits *limits)
{
    if (wire_kind_at(kind) == NULL || size < 3)
        return;
    struct wire_header header = {.kind = (uint8_t)kind, .chunk = data[2]};
    header.head_len = wire_load_u16(data);
    data += 3;
    size -= 3;
    if (header.head_len > size)
        header.head_len = (uint16_t)size;
    header.data_len = (uint32_t)(size - header.head_len);
    check_payload(&header, data, limits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 1 << 20)
        return 0;
    unsigned pick = data[0] % PICK_NARROW;
    const struct wire_limits *limits = data[0] >= PICK_NARROW ? &narrow : &wire_widest;
    if (pick == PICK_HEADER || pick == PICK_MESSAGE)
        check_header(data + 1, size - 1, pick == PICK_MESSAGE, limits);
    else
        check_kind(pick, data + 1, size - 1, limits);
    return 0;
}
