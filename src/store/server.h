/* The memory of a server: what its core_refs stand for, and the operations on it.
 *
 * All of it is the store's own, and taken by store_server_init(). Landing slots begin on a
 * cache line. */
#ifndef TRIDENT_STORE_SERVER_H
#define TRIDENT_STORE_SERVER_H

#include "core/server.h"
#include "store/factors.h"
#include "store/passes.h"

#ifdef __cplusplus
extern "C" {
#endif

struct store_server_options {
    const struct layout *layout; /* borrowed */
    struct core_rules rules;
    struct optim optim;
    uint32_t number; /* of the server */
};

struct store_server_unit {
    uint32_t number; /* of the layout */
    float *landing;  /* a slot for each rank; NULL where updates are added as they come */
    uint64_t slot;   /* floats from one to the next; of dense updates, whole cache lines or pages */
    float *sum;      /* NULL where there is none but a product */
    struct pass_sum open; /* where updates have slots: the sum of the clock so far */
    float *shard;         /* what is answered: parameters, or a mean */
    float *state;         /* of the optimiser, chunk by chunk; NULL without */
    float *reply;         /* a slot for each rank, where core_has_replies() */
    uint64_t reply_slot;  /* as slot */
};

struct store_server {
    const struct mem *mem;
    const struct layout *layout;
    struct core_rules rules;
    struct optim optim;
    struct store_server_unit *units; /* [count] of this server */
    uint32_t count;
    uint32_t *noted;         /* [count x workers] rows of factors, or 1 for a reply */
    uint64_t landing_floats; /* room for updates in all, as the plan counts it */
};

/* On failure nothing is left, and store_server_fini() does no harm. */
tri_status store_server_init(struct store_server *store, const struct store_server_options *options,
                             const struct mem *mem, tri_error *err);
void store_server_fini(struct store_server *store); /* zeroed is fine */

/* The runs of a ref of this server's; of CORE_ADD those that values are added to, for
 * store_runs_add(). None of CORE_NOWHERE. */
struct store_runs store_server_runs(const struct store_server *store, struct core_ref ref);
/* The factors of a rank for a unit of this server, of a layer that has some. */
struct store_factors store_server_slot(const struct store_server *store, uint32_t index,
                                       uint32_t rank);

/* SUM, STEP, PRODUCT and REPLY, in two halves. The first is called where the server is, after
 * the event that asked for the operation; it notes what of the server the operation is about.
 * The second does it, on any thread, and on several at once for different units. `scratch` as
 * store_scratch_bytes() says. */
void store_server_note(struct store_server *store, const struct server *server,
                       const struct core_op *op);
void store_server_do(struct store_server *store, const struct core_op *op, void *scratch);
/* Both halves, where the server stands still meanwhile. */
void store_server_op(struct store_server *store, const struct server *server,
                     const struct core_op *op, void *scratch);
/* COPY: a plane of a unit, to where the host keeps the checkpoint: 0 is the shard, from 1 on what
 * the optimiser keeps. As store_server_do() in all else. */
void store_server_copy(const struct store_server *store, uint32_t index, uint32_t plane,
                       float *out);
/* Floats first .. first + count of it alone. */
void store_server_copy_some(const struct store_server *store, uint32_t index, uint32_t plane,
                            const struct store_room *room);
/* The other way round, before the unit has begun: floats first .. first + count of the unit. Only
 * planes of the optimiser's. */
void store_server_restore(struct store_server *store, uint32_t index, uint32_t plane,
                          const struct store_span *span);

#ifdef __cplusplus
}
#endif

#endif
