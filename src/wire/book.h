/* BOOK: the facts that all nodes plan from, as bytes.
 *
 * There is exactly one way to write a book, so its bytes are also what the plan's
 * hash is made of: equal books, equal bytes. This struct knows nothing of the
 * planner's; names stand where that one points to parts, and who fills the one
 * from the other is in core. */
#ifndef TRIDENT_WIRE_BOOK_H
#define TRIDENT_WIRE_BOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/header.h"
#include "wire/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WIRE_MAX_SCHEMES = 32 };
enum wire_rule { WIRE_RULE_BYTES = 0, WIRE_RULE_TIME = 1 };

/* Texts and lists are borrowed: from the caller, or from the message. */
struct wire_book {
    uint32_t workers;   /* 1 to WIRE_MAX_RANKS */
    uint32_t servers;   /* as many */
    uint32_t colocated; /* servers on a worker's node; at most workers, and servers */
    uint64_t batch;     /* samples per worker, at least 1 */
    double bits_s;      /* rates are finite and above 0; */
    double latency_s;   /* times are finite, 0 or more */
    double message_s;
    double flops_s;
    uint64_t chunk_bytes;          /* 0: from the link */
    uint64_t server_bytes;         /* 0: no limit */
    uint32_t grid_rows, grid_cols; /* 0: the best */
    uint8_t rule;                  /* enum wire_rule */
    bool reproducible;
    bool aggregate;  /* results are the quotient, and the caller steps */
    bool replicated; /* results are the quotient, and workers step the optimiser; not both */
    uint32_t scheme_count;
    struct wire_text schemes[WIRE_MAX_SCHEMES]; /* that may be chosen, each once, at least one;
                                                   the earlier wins among equals */
    struct wire_text forced;                    /* for every layer; "": choose */
    struct wire_text placement;                 /* not empty, as the next two */
    struct wire_text optimizer;
    struct wire_text consistency;
    uint32_t layer_count; /* at least 1 */
    /* Written by wire_book_decode(), not read by wire_book_encode(): */
    struct wire_in homes;  /* `colocated` node numbers: wire_home_next() */
    struct wire_in layers; /* wire_layer_next() */
};

/* Appends the book to data. homes has `colocated` different workers, in the order
 * of the servers (NULL: 0, 1, 2, ...); layers has layer_count layers, whose names
 * the caller has made sure are different. TRI_EARG, with nothing appended, when a
 * field is not as said above; memory is told by buf_ok(). */
tri_status wire_book_encode(const struct wire_book *book, const uint32_t *homes,
                            const struct wire_layer *layers, struct buf *data, tri_error *err);

/* header is that of the message, decoded; data has its data_len bytes and must
 * outlive *out. TRI_EINPUT, with *out untouched, for anything but a whole book.
 * Walking its lists cannot fail after that; copy one to walk it again. */
tri_status wire_book_decode(const struct wire_header *header, const uint8_t *data,
                            struct wire_book *out, tri_error *err);
bool wire_home_next(struct wire_in *list, uint32_t *node);

#ifdef __cplusplus
}
#endif

#endif
