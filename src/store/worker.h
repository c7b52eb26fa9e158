/* The memory of a worker: what its core_refs stand for, and the operations on it.
 *
 * Parameters and results are the caller's; what the store has of its own are the stage, the
 * optimiser's state, slots of factors, and copies of gradients where it is asked to keep some.
 * All of it is taken by store_worker_init(). */
#ifndef TRIDENT_STORE_WORKER_H
#define TRIDENT_STORE_WORKER_H

#include "core/worker.h"
#include "store/factors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A layer's memory of the caller's. */
struct store_layer {
    float *weights; /* rows x cols */
    float *bias;    /* rows; NULL without a bias. Need not be next to the weights */
    float *result;  /* aggregate: rows x cols, and rows more with a bias, in one; else NULL */
};

struct store_worker_options {
    const struct layout *layout; /* borrowed */
    struct core_rules rules;
    struct optim optim;
    const struct store_layer *layers; /* [layers] copied; the floats stay where they are */
    bool copy_gradients;              /* where the caller has dense gradients back at once */
};

struct store_part; /* worker.c: what an operation knows about a part */
struct store_worker_layer;

struct store_worker {
    const struct mem *mem;
    const struct layout *layout;
    struct core_rules rules;
    struct optim optim;
    struct store_worker_layer *layers; /* [layers] */
    struct store_part *parts;          /* [parts] of the layout */
    uint32_t *rows;                    /* [layers x workers] of factors */
};

/* On failure nothing is left, and store_worker_fini() does no harm. */
tri_status store_worker_init(struct store_worker *store, const struct store_worker_options *options,
                             const struct mem *mem, tri_error *err);
void store_worker_fini(struct store_worker *store); /* zeroed is fine */

/* The dense update of a layer, before it is given to the core: weights rows x cols, and the bias
 * (NULL without one). Borrowed until the layer is synced, or copied. */
void store_worker_gradient(struct store_worker *store, uint32_t layer, const float *dense,
                           const float *dense_bias);

/* The runs of a ref of this worker's; CORE_GRADIENT is only to be read. None of CORE_NOWHERE. */
struct store_runs store_worker_runs(const struct store_worker *store, struct core_ref ref);
/* Of a ref to CORE_FACTORS, the whole slot. */
struct store_factors store_worker_slot(const struct store_worker *store, struct core_ref slot);

/* APPLY, INSTALL and LOCAL, in two halves. The first is called where the worker is, after the
 * event that asked for the operation; it notes what of the worker the operation is about. The
 * second does it, on any thread, and on several at once for different layers. `scratch` as
 * store_scratch_bytes() says. */
void store_worker_note(struct store_worker *store, const struct worker *worker,
                       const struct core_op *op);
void store_worker_do(struct store_worker *store, const struct core_op *op, void *scratch);
/* Both halves, where the worker stands still meanwhile. */
void store_worker_op(struct store_worker *store, const struct worker *worker,
                     const struct core_op *op, void *scratch);
/* COPY: a plane of a layer, weights and then the bias, to where the host keeps the checkpoint: 0
 * are the parameters, from 1 on what the optimiser keeps. As store_worker_do() in all else. */
void store_worker_copy(const struct store_worker *store, uint32_t layer, uint32_t plane,
                       float *out);
/* The other way round, before the job has begun; see store_server_restore(). */
void store_worker_restore(struct store_worker *store, uint32_t layer, uint32_t plane,
                          const struct store_span *span);

#ifdef __cplusplus
}
#endif

#endif
