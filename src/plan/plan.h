/* The plan: per layer the scheme, what each scheme would cost, and who owns what.
 *
 * A pure function of the book: every node that has the same book makes the same plan. */
#ifndef TRIDENT_PLAN_PLAN_H
#define TRIDENT_PLAN_PLAN_H

#include "base/error.h"
#include "base/mem.h"
#include "plan/book.h"

#ifdef __cplusplus
extern "C" {
#endif

struct plan_cost {
    const char
        *refused; /* why the scheme cannot carry the layer; NULL: it can, and cost is filled */
    tri_scheme_cost cost;
    double time_s;
    /* of the plan, if this layer alone took the scheme; NaN unless rule time chose one whose own
       price is higher */
    double iteration_s;
};

/* A run of a layer's parameters (weights row by row, then the bias) that one server owns. */
struct plan_piece {
    uint32_t layer; /* of the plan */
    uint32_t server;
    uint64_t first, floats;
};

/* A layer that has parameters of its own. */
struct plan_layer {
    const struct profile_layer *profile;
    tri_scheme_layer shape;
    size_t scheme;                /* index of the chosen one, for scheme_at() and costs */
    uint64_t cut;                 /* pieces that the placement would make of it */
    uint64_t pieces;              /* on servers; 0 when it lives on the workers */
    size_t first_piece;           /* in the plan's list */
    double forward_s, backward_s; /* of the plan's compute_s */
    struct plan_cost costs[SCHEME_MAX];
};

struct plan {
    const struct mem *mem;
    const struct book *book; /* borrowed */
    tri_scheme_cluster cluster;
    struct plan_layer *layers;
    size_t count;
    /* sums over the layers, of the chosen schemes, parameters spread evenly over the servers */
    double send_bytes, recv_bytes, comm_s;
    double even_bytes; /* of the busier direction, layer by layer */
    /* what the placement makes of it: the node that moves most in one direction */
    double busiest_send_bytes, busiest_recv_bytes;
    double busiest_s;        /* comm_s, with its transfers in place of the even ones */
    uint32_t busiest_server; /* that runs there; PLAN_NO_SERVER if none does */
    double compute_s;        /* of one iteration on one worker; NaN when the profile cannot tell */
    /* an estimate of an iteration in which updates leave as they are computed, and of one whose
       link is a quarter slower than the book says; NaN as compute_s */
    double iteration_s, iteration_slow_s;
    double server_buffer_bytes; /* the fullest server */
    double worker_buffer_bytes;
    /* what the placement did */
    uint64_t *server_bytes;   /* [servers] parameters owned */
    struct plan_piece *piece; /* [pieces] in layer order */
    uint64_t pieces;          /* of all layers */
    double cv;                /* coefficient of variation of server_bytes; 0 when all are empty */
    double fullest_over_mean; /* of server_bytes; 0 when all are empty */
};

/* Pieces a plan may have; a chunk size that makes more is refused. */
#define PLAN_MAX_PIECES ((uint64_t)1 << 26)
#define PLAN_NO_SERVER  UINT32_MAX

/* On success *out belongs to the caller until plan_free(); the book must outlive it.
 * TRI_EINPUT when the book asks for what cannot be: a scheme that no layer of a
 * kind can use, a grid that does not fit, buffers over the limit. */
tri_status plan_make(const struct book *book, const struct mem *mem, struct plan **out,
                     tri_error *err);
void plan_free(struct plan *plan); /* NULL is fine */

/* The chunk size for a link: its latency is 3 % (1/32) of a chunk's transfer, in powers of two from
 * 64 KiB to 16 MiB; 2 MiB for a link without latency. At most so large that every server has four
 * chunks of a model of model_bytes, but never below 64 KiB. */
uint64_t plan_chunk_bytes(double bits_s, double latency_s, double model_bytes, uint32_t servers);

/* What a scheme would cost this layer, timed by the book's rates. */
struct plan_cost plan_price(const struct book *book, const tri_scheme_cluster *cluster,
                            const tri_scheme_layer *layer, size_t scheme);

/* The scheme that the book's rule picks; SCHEME_MAX when none of those allowed fits. */
size_t plan_choose(const struct book *book, const struct plan_cost costs[SCHEME_MAX]);

/* Does the layer have the scheme that its own price picks? If not, it was chosen for the sake of
 * the whole iteration, and both of the following are 0. */
bool plan_by_price(const struct plan *plan, const struct plan_layer *layer);

/* By the layer's own price: the first number of workers above the book's at which this layer
 * would leave its scheme, servers growing along if the book says so; 0, and *scheme is left alone,
 * if it does not up to `most`. *scheme is what it would change to. */
uint32_t plan_leaves(const struct plan *plan, const struct plan_layer *layer, uint32_t most,
                     size_t *scheme);

/* The other way: the last number of workers below the book's at which this layer
 * would take another scheme, *scheme; 0 if it would not from 2 workers on. */
uint32_t plan_came(const struct plan *plan, const struct plan_layer *layer, size_t *scheme);

/* The node that server s runs on: a worker's or, from book->workers on, one of its own. */
uint32_t plan_node(const struct book *book, uint32_t s);

#ifdef __cplusplus
}
#endif

#endif
