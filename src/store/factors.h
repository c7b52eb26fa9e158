/* Slots of factors, and the memory that multiplying them takes. */
#ifndef TRIDENT_STORE_FACTORS_H
#define TRIDENT_STORE_FACTORS_H

#include "core/core.h"
#include "core/layout.h"
#include "core/ops.h"
#include "store/runs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A slot has room for K rows of u, then K rows of v, K being the layer's factor_rows. */
struct store_factors {
    float *u, *v; /* NULL for layers that never give any */
};

size_t store_slot_floats(const struct layout_layer *layer);
/* Of slots one after the other, the one of this number. */
struct store_factors store_slot_at(const struct layout_layer *layer, float *slots, size_t number);
/* Some rows of it: ref.first .. ref.first + ref.count. */
struct store_runs store_slot_runs(const struct layout_layer *layer, float *slots, size_t number,
                                  struct core_ref ref);

/* What a call of store_worker_op() or store_server_op() needs for itself, about 2 MiB. Each
 * thread that calls them has its own; as aligned as malloc() makes it. */
size_t store_scratch_bytes(const struct layout *layout);

/* The product of the slots of all ranks, in rank order; of a rank that has none, rows is 0. */
struct ops_factors store_blocks(const struct layout *layout, const struct layout_layer *layer,
                                float *slots, const uint32_t *rows, void *scratch);

#ifdef __cplusplus
}
#endif

#endif
