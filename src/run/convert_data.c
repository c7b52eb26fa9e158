/* Lists and texts to what the core wants to see of them. */
#include "base/crc32c.h"
#include "run/convert_inside.h"
#include "wire/book.h"
#include "wire/decision.h"
#include "wire/hello.h"
#include "wire/peers.h"
#include "wire/reason.h"
#include "wire/report.h"
#include "wire/resume.h"

static tri_status read_layers(struct reading *reading)
{
    struct wire_hello_data hello;
    const struct wire_header *header = reading->in->header;
    tri_status status = wire_hello_data_decode(header, reading->in->data, &hello, reading->err);
    if (status != TRI_OK)
        return status;
    /* A node without a program has none to compare: it goes by the book. */
    reading->message->hash = hello.layer_count > 0
                                 ? convert_hello_hash(reading->in->data, header->data_len)
                                 : reading->ctx->layers;
    return TRI_OK;
}

static tri_status read_reason(struct reading *reading)
{
    struct wire_text text;
    tri_status status =
        wire_reason_decode(reading->in->header, reading->in->data, &text, reading->err);
    if (status != TRI_OK)
        return status;
    reading->message->bytes = (const uint8_t *)text.at;
    reading->message->len = text.len;
    return TRI_OK;
}

static tri_status read_nodes(struct reading *reading)
{
    const struct wire_header *header = reading->in->header;
    const struct wire_limits *limits = &reading->ctx->limits;
    uint32_t count = reading->ctx->layout->nodes;
    struct wire_ranks nodes;
    tri_status status =
        header->kind == WIRE_VIEW
            ? wire_view_decode(header, reading->in->data, limits, &nodes, reading->err)
            : wire_accuse_decode(header, reading->in->data, limits, &nodes, reading->err);
    if (status != TRI_OK)
        return status;
    bits_clear(reading->set, count);
    for (uint32_t i = 0; i < nodes.count; i++) {
        if (wire_ranks_at(&nodes, i) >= count)
            return refuse(reading, "names a node that there is not");
        bits_add(reading->set, wire_ranks_at(&nodes, i));
    }
    reading->message->set = reading->set;
    return TRI_OK;
}

/* Lists that are handed on as they are, once they are known to be whole. */
static tri_status check_list(struct reading *reading)
{
    const struct wire_header *header = reading->in->header;
    const struct wire_limits *limits = &reading->ctx->limits;
    const uint8_t *data = reading->in->data;
    struct wire_in list;
    struct wire_decision decision;
    struct wire_book book;
    struct wire_resume resume;
    switch (header->kind) {
    case WIRE_REPORT:
        return wire_report_decode(header, data, limits, &list, reading->err);
    case WIRE_DECISION:
        return wire_decision_decode(header, data, limits, &decision, reading->err);
    case WIRE_PEERS:
        return wire_peers_decode(header, data, limits, &list, reading->err);
    case WIRE_RESUME:
        return wire_resume_decode(header, data, &resume, reading->err);
    default:
        return wire_book_decode(header, data, &book, reading->err);
    }
}

static tri_status read_data(struct reading *reading)
{
    struct message *message = reading->message;
    tri_status status;
    switch (message->kind) {
    case WIRE_REFUSED:
    case WIRE_EVICTED:
    case WIRE_FAILED:
        return read_reason(reading);
    case WIRE_VIEW:
    case WIRE_ACCUSE:
        return read_nodes(reading);
    case WIRE_HELLO:
        status = read_layers(reading);
        break;
    case WIRE_BOOK:
    case WIRE_REPORT:
    case WIRE_DECISION:
    case WIRE_PEERS:
    case WIRE_RESUME:
        status = check_list(reading);
        break;
    default:
        return TRI_OK;
    }
    if (status != TRI_OK)
        return status;
    message->bytes = reading->in->data;
    message->len = reading->in->header->data_len;
    return TRI_OK;
}

tri_status convert_decode_data(const struct convert *ctx, const struct convert_in *in,
                               uint64_t *set, struct message *message, tri_error *err)
{
    if (convert_has_values(message->kind))
        return TRI_OK;
    struct message read = *message;
    struct reading reading = {.ctx = ctx, .in = in, .set = set, .message = &read, .err = err};
    tri_status status = wire_payload_check(in->header, in->head, in->data, err);
    if (status == TRI_OK)
        status = read_data(&reading);
    if (status == TRI_OK)
        *message = read;
    return status;
}

tri_status convert_check_values(const struct convert_in *in,
                                const struct transport_run runs[TRANSPORT_RUNS], tri_error *err)
{
    const struct wire_header *header = in->header;
    if (!header->checked)
        return TRI_OK;
    uint32_t crc = crc32c(0, in->head, header->head_len);
    for (size_t i = 0; i < TRANSPORT_RUNS && runs[i].bytes > 0; i++) {
        if (runs[i].at == NULL)
            return TRI_OK; /* read and forgotten: nobody uses it */
        crc = crc32c(crc, runs[i].at, runs[i].bytes);
    }
    if (crc == header->payload_crc)
        return TRI_OK;
    return fail(err, TRI_EINPUT,
                "%s from node %" PRIu32 " is damaged: its checksum is %08" PRIx32
                ", the header says %08" PRIx32,
                wire_kind_name(header->kind), header->sender, crc, header->payload_crc);
}
