/* All parts that can be swapped, slot by slot. Adding one is a file and a line here. */
#include <string.h>

#include "base/names.h"
#include "mod/consistency.h"
#include "mod/optim.h"
#include "mod/placement.h"
#include "mod/scheme.h"

extern const tri_scheme_ops scheme_ps, scheme_sfb, scheme_adam, scheme_ring, scheme_shard_sf,
    scheme_rows;
static const tri_scheme_ops *const schemes[] = {
    &scheme_ps, &scheme_sfb, &scheme_adam, &scheme_ring, &scheme_shard_sf, &scheme_rows,
};
_Static_assert(sizeof schemes / sizeof schemes[0] <= SCHEME_MAX, "raise SCHEME_MAX");

extern const tri_placement_ops placement_hash, placement_uniform, placement_round_robin,
    placement_greedy, placement_lpt, placement_tensor;
static const tri_placement_ops *const placements[] = {
    &placement_hash,   &placement_uniform, &placement_round_robin,
    &placement_greedy, &placement_lpt,     &placement_tensor,
};

extern const tri_consistency_ops consistency_bsp, consistency_ssp, consistency_asp;
static const tri_consistency_ops *const consistencies[] = {
    &consistency_bsp,
    &consistency_ssp,
    &consistency_asp,
};

extern const tri_optimizer_ops optim_sgd, optim_momentum, optim_nesterov, optim_adagrad, optim_adam;
static const tri_optimizer_ops *const optims[] = {
    &optim_sgd, &optim_momentum, &optim_nesterov, &optim_adagrad, &optim_adam,
};

const tri_consistency_ops *consistency_at(size_t i)
{
    return i < sizeof consistencies / sizeof consistencies[0] ? consistencies[i] : NULL;
}

const tri_consistency_ops *consistency_find(const char *name)
{
    const tri_consistency_ops *ops;
    for (size_t i = 0; (ops = consistency_at(i)) != NULL; i++)
        if (names_equal(ops->name, name))
            return ops;
    return NULL;
}

const tri_optimizer_ops *optim_at(size_t i)
{
    return i < sizeof optims / sizeof optims[0] ? optims[i] : NULL;
}

const tri_scheme_ops *scheme_at(size_t i)
{
    return i < sizeof schemes / sizeof schemes[0] ? schemes[i] : NULL;
}

const tri_scheme_ops *scheme_find(const char *name, size_t *index)
{
    const tri_scheme_ops *ops;
    for (size_t i = 0; (ops = scheme_at(i)) != NULL; i++)
        if (names_equal(ops->name, name)) {
            *index = i;
            return ops;
        }
    return NULL;
}

const tri_placement_ops *placement_at(size_t i)
{
    return i < sizeof placements / sizeof placements[0] ? placements[i] : NULL;
}

const tri_placement_ops *placement_find(const char *name)
{
    const tri_placement_ops *ops;
    for (size_t i = 0; (ops = placement_at(i)) != NULL; i++)
        if (names_equal(ops->name, name))
            return ops;
    return NULL;
}
