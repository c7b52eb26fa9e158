/* Heads: what a kind needs beside header and data. One struct, one encoder and one
 * decoder per kind that has one; HELLO's is in hello.h.
 *
 * Encoders append to `head`, told by buf_ok(), and cannot fail otherwise; numbers
 * are the caller's to keep within the limits. Decoders take the decoded header of
 * the message and its head_len bytes of head. They survive any bytes, return
 * TRI_EINPUT with a text that says what is wrong, and write *out only on success. */
#ifndef TRIDENT_WIRE_HEADS_H
#define TRIDENT_WIRE_HEADS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/header.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A dense update of a chunk. */
struct wire_push {
    uint64_t count;   /* what the sum is divided by, in the end; 0 is allowed */
    uint32_t lr_bits; /* wire_float_bits(); any bits, NaN included */
    uint32_t rank;    /* whose update it is */
};
void wire_push_encode(const struct wire_push *push, struct buf *head);
tri_status wire_push_decode(const struct wire_header *header, const uint8_t *head,
                            const struct wire_limits *limits, struct wire_push *out,
                            tri_error *err);

/* A part of an update's factors. The part's number is the header's chunk. */
struct wire_factors {
    uint64_t count;
    uint32_t lr_bits;
    uint32_t rank;  /* whose update it is: of a relay, not the sender's */
    uint32_t rows;  /* of the whole update, at least 1 */
    uint32_t parts; /* it travels in, 1 to rows */
};
void wire_factors_encode(const struct wire_factors *factors, struct buf *head);
tri_status wire_factors_decode(const struct wire_header *header, const uint8_t *head,
                               const struct wire_limits *limits, struct wire_factors *out,
                               tri_error *err);

/* The first row of a part: rows x part / parts, rounded down; part = parts gives rows.
 * So part p holds the rows from first(p) to first(p + 1) - 1, at least one. */
static inline uint32_t wire_factors_first(const struct wire_factors *factors, uint32_t part)
{
    return (uint32_t)((uint64_t)factors->rows * part / factors->parts);
}

/* Touched rows of a layer (reserved for the scheme `rows`). */
struct wire_rows {
    uint64_t count;
    uint32_t lr_bits;
    uint32_t rank;
    uint32_t rows; /* in this message, at least 1 */
};
void wire_rows_encode(const struct wire_rows *rows, struct buf *head);
tri_status wire_rows_decode(const struct wire_header *header, const uint8_t *head,
                            const struct wire_limits *limits, struct wire_rows *out,
                            tri_error *err);

struct wire_nothing {
    uint32_t rank;
};
void wire_nothing_encode(const struct wire_nothing *nothing, struct buf *head);
tri_status wire_nothing_decode(const struct wire_header *header, const uint8_t *head,
                               const struct wire_limits *limits, struct wire_nothing *out,
                               tri_error *err);

enum wire_result_flag {
    WIRE_RESULT_UNCHANGED = 1, /* nobody had an update: no data */
    WIRE_RESULT_AGGREGATE = 2, /* the data is the quotient, not parameters */
    WIRE_RESULT_LEFT_OUT = 4,  /* the receiver's own update came too late to count */
};

/* New parameters or the quotient of a piece. */
struct wire_result {
    uint64_t count;      /* sum of the counts of all ranks counted */
    uint64_t version;    /* all clocks before it are in the values */
    uint32_t lr_bits;    /* of the clock, as in PUSH: whoever had no update learns it here */
    uint8_t flags;       /* bits of enum wire_result_flag */
    uint32_t mask_ranks; /* ranks that the mask covers; 0: all live ranks were counted */
    const uint8_t *mask; /* bit r % 8 of byte r / 8: rank r was counted. Borrowed */
};
void wire_result_encode(const struct wire_result *result, struct buf *head);
tri_status wire_result_decode(const struct wire_header *header, const uint8_t *head,
                              const struct wire_limits *limits, struct wire_result *out,
                              tri_error *err);

/* Was this rank counted? For mask_ranks = 0 ask the view instead. */
static inline bool wire_result_counts(const struct wire_result *result, uint32_t rank)
{
    return rank < result->mask_ranks && (result->mask[rank / 8] >> rank % 8 & 1) != 0;
}

/* Reserved: no node sends it. */
struct wire_pull {
    uint64_t version; /* wanted, or a later one */
};
void wire_pull_encode(const struct wire_pull *pull, struct buf *head);
tri_status wire_pull_decode(const struct wire_header *header, const uint8_t *head,
                            const struct wire_limits *limits, struct wire_pull *out,
                            tri_error *err);

/* A push came too late, and its chunk has moved on by more than one clock. A server tells
 * the worker and the coordinator; the worker asks the coordinator for a clock to join at,
 * which comes in a MARK. */
struct wire_left_out {
    uint64_t version; /* of the chunk now */
    uint32_t rank;    /* who was late */
    uint32_t running; /* clocks running that it was late for; 0 from a worker */
};
void wire_left_out_encode(const struct wire_left_out *left_out, struct buf *head);
tri_status wire_left_out_decode(const struct wire_header *header, const uint8_t *head,
                                const struct wire_limits *limits, struct wire_left_out *out,
                                tri_error *err);

enum wire_mark_what { WIRE_MARK_CHECKPOINT = 1, WIRE_MARK_CHECKSUM = 2, WIRE_MARK_JOIN = 3 };

/* The clock T is the header's, here, in MARKED and in SAVED. */
struct wire_mark {
    uint32_t what; /* enum wire_mark_what */
    uint32_t rank; /* who joins again at T; 0 unless it is a join, as the next two */
    bool agreed;   /* all owners have agreed to T */
    bool last;     /* the other workers have closed at T: no unit goes beyond it */
    bool worker;   /* it is for the worker of the node; else for its server */
};
void wire_mark_encode(const struct wire_mark *mark, struct buf *head);
tri_status wire_mark_decode(const struct wire_header *header, const uint8_t *head,
                            const struct wire_limits *limits, struct wire_mark *out,
                            tri_error *err);

struct wire_marked {
    uint32_t what; /* as in the MARK that is answered */
    bool accepted;
    uint64_t own;   /* the owner's clock */
    uint32_t rank;  /* who joins; 0 unless it is a join */
    uint32_t owner; /* who answers: number of the server, or WIRE_OWNER_WORKER */
};
void wire_marked_encode(const struct wire_marked *marked, struct buf *head);
tri_status wire_marked_decode(const struct wire_header *header, const uint8_t *head,
                              const struct wire_limits *limits, struct wire_marked *out,
                              tri_error *err);

struct wire_saved {
    uint32_t owner; /* whose part is safe: number of the server, or WIRE_OWNER_WORKER */
};
void wire_saved_encode(const struct wire_saved *saved, struct buf *head);
tri_status wire_saved_decode(const struct wire_header *header, const uint8_t *head,
                             const struct wire_limits *limits, struct wire_saved *out,
                             tri_error *err);

/* A part of a layer as a checkpoint has it: to node 0 when one is made, from there when a job is
 * resumed. The clock of the checkpoint is the header's. Without data: such a part has come. */
struct wire_state {
    uint64_t steps; /* that the optimiser has made */
    uint32_t plane; /* 0: parameters; from 1: the optimiser's state */
};
void wire_state_encode(const struct wire_state *state, struct buf *head);
tri_status wire_state_decode(const struct wire_header *header, const uint8_t *head,
                             const struct wire_limits *limits, struct wire_state *out,
                             tri_error *err);

struct wire_checksum {
    uint32_t crc;
};
void wire_checksum_encode(const struct wire_checksum *checksum, struct buf *head);
tri_status wire_checksum_decode(const struct wire_header *header, const uint8_t *head,
                                const struct wire_limits *limits, struct wire_checksum *out,
                                tri_error *err);

/* The lowest status that may travel. It leaves room: there are fewer codes today. */
enum { WIRE_STATUS_MIN = -64 };

/* The reason is the data: wire_reason_decode(). */
struct wire_failed {
    uint32_t node;  /* the one that failed, which need not be the sender */
    int32_t status; /* tri_status that it failed with; -1 to WIRE_STATUS_MIN, known here or not */
};
void wire_failed_encode(const struct wire_failed *failed, struct buf *head);
tri_status wire_failed_decode(const struct wire_header *header, const uint8_t *head,
                              const struct wire_limits *limits, struct wire_failed *out,
                              tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
