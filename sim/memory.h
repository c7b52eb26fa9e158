/* The memory of simulated nodes: what a core_ref means, and operations on it. */
#ifndef TRIDENT_SIM_MEMORY_H
#define TRIDENT_SIM_MEMORY_H

#include "core/ops.h"
#include "core/server.h"
#include "core/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One or two runs of floats: factors have a run of u and a run of v. */
struct sim_runs {
    float *at[2];
    uint64_t count[2];
};
void sim_runs_read(struct sim_runs runs, float *out);
void sim_runs_write(struct sim_runs runs, const float *in);
void sim_runs_add(struct sim_runs runs, const float *in); /* of one run */
bool sim_runs_equal(struct sim_runs runs, const float *with);

struct sim_factors {
    float *u, *v; /* NULL for layers that never give any */
};

struct sim_worker_memory {
    const struct mem *mem;
    const struct layout *layout;
    struct core_rules rules;
    struct optim optim;
    float **params, **result, **stage, **gradient; /* [layers] */
    float **state;   /* [layers] of the optimiser: a block of runs for each part, where layers step
                        part by part, else one block for the layer */
    float **factors; /* [layers]: generation, rank, then K x M and K x N */
    struct product_block *blocks; /* [workers] */
    void *scratch;                /* borrowed */
};

struct sim_server_memory {
    const struct mem *mem;
    const struct layout *layout;
    struct core_rules rules;
    struct optim optim;
    uint32_t *units; /* [count] of the layout */
    uint32_t count;
    float **landing, **sum, **shard, **state; /* [count] */
    float **reply; /* [count] a slot for each rank, where core_has_replies() */
    struct product_block *blocks;
    void *scratch;           /* borrowed */
    uint64_t landing_floats; /* in all */
};

tri_status sim_worker_memory_init(struct sim_worker_memory *memory, const struct layout *layout,
                                  const struct core_rules *rules, const struct optim *optim,
                                  void *scratch, const struct mem *mem, tri_error *err);
void sim_worker_memory_fini(struct sim_worker_memory *memory);
struct sim_runs sim_worker_runs(const struct sim_worker_memory *memory, struct core_ref ref);
struct sim_factors sim_worker_slot(const struct sim_worker_memory *memory, struct core_ref slot);
void sim_worker_op(struct sim_worker_memory *memory, const struct worker *worker,
                   const struct core_op *op);

tri_status sim_server_memory_init(struct sim_server_memory *memory, const struct layout *layout,
                                  uint32_t server, const struct core_rules *rules,
                                  const struct optim *optim, void *scratch, const struct mem *mem,
                                  tri_error *err);
void sim_server_memory_fini(struct sim_server_memory *memory);
struct sim_runs sim_server_runs(const struct sim_server_memory *memory, struct core_ref ref);
/* The factors of a rank for a unit of this server, of a layer that has some. */
struct sim_factors sim_server_slot(const struct sim_server_memory *memory, uint32_t index,
                                   uint32_t rank);
void sim_server_op(struct sim_server_memory *memory, const struct server *server,
                   const struct core_op *op);

#ifdef __cplusplus
}
#endif

#endif
