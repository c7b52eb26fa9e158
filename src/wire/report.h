/* REPORT: what a worker holds of the departed ranks, per layer and clock. */
#ifndef TRIDENT_WIRE_REPORT_H
#define TRIDENT_WIRE_REPORT_H

#include <stdint.h>

#include "wire/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Builds the data: begin, then per sfb layer, ascending, wire_report_layer() and,
 * per clock that is kept, ascending, wire_report_held(). Order is the caller's to
 * keep (what breaks it is refused by the receiver). What was appended is whole
 * after every call; memory is told by buf_ok(). */
struct wire_report_out {
    struct buf *data; /* borrowed */
    size_t layers_at; /* where the counts stand */
    size_t held_at;
};
void wire_report_begin(struct wire_report_out *out, struct buf *data);
void wire_report_layer(struct wire_report_out *out, uint32_t layer, uint64_t next);
/* ranks: the departed ranks whose factors of this layer and clock are held whole;
 * they ascend; none is allowed. */
void wire_report_held(struct wire_report_out *out, uint64_t clock, const uint32_t *ranks,
                      uint32_t count);

/* Checks the whole report and sets *out to its first layer. Walking it cannot fail
 * after that, so nobody acts on half of one. header is that of the message,
 * decoded; data has its data_len bytes and must outlive the walk. TRI_EINPUT, with
 * *out untouched, otherwise. */
tri_status wire_report_decode(const struct wire_header *header, const uint8_t *data,
                              const struct wire_limits *limits, struct wire_in *out,
                              tri_error *err);

struct wire_report_layer {
    uint32_t layer;
    uint64_t next;       /* the clock it will apply next */
    struct wire_in held; /* wire_held_next() */
};
bool wire_report_next(struct wire_in *report, struct wire_report_layer *out);

struct wire_held {
    uint64_t clock;
    struct wire_ranks ranks;
};
bool wire_held_next(struct wire_in *held, struct wire_held *out);

#ifdef __cplusplus
}
#endif

#endif
