/* What the caller of a simulated worker has: parameters, gradients, results. Private to sim/. */
#ifndef TRIDENT_SIM_CALLER_H
#define TRIDENT_SIM_CALLER_H

#include "sim/cluster.h"
#include "store/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

struct caller {
    const struct mem *mem;
    const struct layout *layout;
    struct store_layer *layers;   /* [layers] */
    struct sim_values *gradients; /* [layers] */
};

/* On failure nothing is left. */
tri_status caller_init(struct caller *caller, const struct layout *layout,
                       const struct core_rules *rules, const struct mem *mem, tri_error *err);
void caller_fini(struct caller *caller); /* zeroed is fine */

static inline struct sim_values caller_params(const struct caller *caller, uint32_t layer)
{
    return (struct sim_values){caller->layers[layer].weights, caller->layers[layer].bias};
}

#ifdef __cplusplus
}
#endif

#endif
