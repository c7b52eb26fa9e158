/* DECISION: which departed ranks count where, and who relays what to whom. */
#ifndef TRIDENT_WIRE_DECISION_H
#define TRIDENT_WIRE_DECISION_H

#include <stdint.h>

#include "wire/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In this layer and clock exactly these departed ranks count. Where no entry is,
 * none does. */
struct wire_entry {
    uint32_t layer;
    uint64_t clock;
    struct wire_ranks ranks;
};

/* The relayer sends the receivers the factors of a departed rank. */
struct wire_relay {
    uint32_t layer;
    uint64_t clock;
    uint32_t rank;
    uint32_t relayer;
    struct wire_ranks receivers;
};

/* Builds the data: begin, then all entries, ascending by layer and clock, then all
 * relays, ascending by layer, clock and rank. Order is the caller's to keep (what
 * breaks it is refused by the receiver); the lists of ranks ascend. What was
 * appended is whole after every call; memory is told by buf_ok(). */
struct wire_decision_out {
    struct buf *data; /* borrowed */
    size_t at;        /* where the counts stand */
    bool relays;      /* have begun: no entry may follow */
};
void wire_decision_begin(struct wire_decision_out *out, struct buf *data);
void wire_decision_entry(struct wire_decision_out *out, uint32_t layer, uint64_t clock,
                         const uint32_t *ranks, uint32_t count);
/* Takes all of *relay but its receivers, which stand in the array. */
void wire_decision_relay(struct wire_decision_out *out, const struct wire_relay *relay,
                         const uint32_t *receivers, uint32_t count);

/* A decision, checked whole: walking the lists cannot fail any more, so nobody acts
 * on half of one. Borrowed from the message; copy a list to walk it again. */
struct wire_decision {
    uint32_t entry_count;
    uint32_t relay_count;
    struct wire_in entries; /* wire_entry_next() */
    struct wire_in relays;  /* wire_relay_next() */
};

/* header is that of the message, decoded; data has its data_len bytes. TRI_EINPUT,
 * with *out untouched, for anything but a whole decision. */
tri_status wire_decision_decode(const struct wire_header *header, const uint8_t *data,
                                const struct wire_limits *limits, struct wire_decision *out,
                                tri_error *err);
bool wire_entry_next(struct wire_in *list, struct wire_entry *out);
bool wire_relay_next(struct wire_in *list, struct wire_relay *out);

#ifdef __cplusplus
}
#endif

#endif
