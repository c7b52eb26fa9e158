/* Messages through bytes and back. */
#ifndef TRIDENT_TESTS_RUN_TRAVEL_H
#define TRIDENT_TESTS_RUN_TRAVEL_H

#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "run/agree.h"
#include "run/convert.h"

enum { WORDS = 4, JOB = 0x10b };

static inline struct convert context(const struct agreement *agreement, uint32_t node,
                                     const struct buf *book)
{
    return (struct convert){
        .layout = agreement->layout,
        .limits = convert_limits(agreement->layout),
        .job = JOB,
        .plan = agreement->plan_hash,
        .layers = agreement->layers_hash,
        .node = node,
        .means = agreement->rules.aggregate || agreement->rules.replicated,
        .checked = node % 2 == 0,
        .hello = {(const uint8_t *)agreement->hello.data, agreement->hello.len},
        .book = {(const uint8_t *)book->data, book->len},
    };
}

/* A message with its own copies of what it points to. */
struct parcel {
    uint32_t to;
    struct message message;
    uint64_t set[WORDS];
    uint8_t *bytes;
};

static inline uint8_t *copy(const void *from, size_t len)
{
    uint8_t *bytes = malloc(len > 0 ? len : 1);
    assert_non_null(bytes);
    if (len > 0)
        memcpy(bytes, from, len);
    return bytes;
}

/* Encodes with one context, decodes with the other. */
static inline void travel(const struct convert *from, const struct convert *to,
                          const struct message *message, struct buf *out, struct parcel *parcel)
{
    struct wire_header header;
    tri_error err = {0};
    size_t head = 0;
    buf_clear(out);
    if (convert_encode(from, message, out, &head, &err) != TRI_OK)
        fail_msg("%s cannot be sent: %s", wire_kind_name(message->kind), err.text);
    const uint8_t *bytes = (const uint8_t *)out->data;
    if (wire_header_decode(bytes, &to->limits, &header, &err) != TRI_OK)
        fail_msg("%s", err.text);
    assert_int_equal(head, WIRE_HEADER_BYTES + (size_t)header.head_len);
    if (convert_has_values(message->kind)) {
        assert_int_equal(out->len, head);
        assert_int_equal(header.data_len, convert_data_bytes(message, from->layout));
    } else {
        assert_int_equal(out->len, head + header.data_len);
        assert_int_equal(convert_data_bytes(message, from->layout), 0);
    }
    parcel->bytes = copy(bytes + head, out->len - head);
    struct convert_in in = {&header, bytes + WIRE_HEADER_BYTES, parcel->bytes};
    if (convert_decode(to, &in, parcel->set, &parcel->message, &err) != TRI_OK ||
        convert_decode_data(to, &in, parcel->set, &parcel->message, &err) != TRI_OK)
        fail_msg("%s is refused: %s", wire_kind_name(message->kind), err.text);
    parcel->to = to->node;
}

#endif
