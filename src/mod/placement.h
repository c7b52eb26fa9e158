/* The slot of placements: which server owns which piece of the parameters.
 *
 * A placement is one const table in src/mod/placement/, listed in registry.c.
 * It says how layers are cut and then deals the pieces out. Pure: the same
 * pieces give the same owners on every node. */
#ifndef TRIDENT_MOD_PLACEMENT_H
#define TRIDENT_MOD_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "mod/option.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PLACEMENT_ABI = 1 };

enum placement_cut {
    PLACEMENT_CHUNKS,  /* runs of the chunk size, weight and bias as one */
    PLACEMENT_EVENLY,  /* every tensor into as many equal pieces as there are servers */
    PLACEMENT_TENSORS, /* weight and bias, whole */
    PLACEMENT_LAYERS   /* weight with bias, whole */
};

/* The pieces to deal out, in layer order. The caller owns all memory. */
struct placement_deal {
    const uint64_t *bytes; /* [pieces] */
    size_t pieces;
    uint32_t servers; /* at least 1 */
    uint32_t *owner;  /* [pieces], to be filled with 0 .. servers - 1 */
    uint64_t *load;   /* [servers], zero; filled with the bytes of each */
    uint32_t *order;  /* [pieces], scratch */
    uint32_t *heap;   /* [servers], scratch */
};

struct placement_ops {
    uint32_t abi;
    const char *name;
    const char *summary;
    const struct mod_option *options; /* NULL: none */
    enum placement_cut cut;
    void (*deal)(struct placement_deal *deal); /* cannot fail, allocates nothing */
};

const struct placement_ops *placement_at(size_t i);           /* NULL past the end */
const struct placement_ops *placement_find(const char *name); /* NULL if there is none */

/* ---- what several placements share ---- */

/* Piece i to server i mod Q. */
void placement_in_turn(struct placement_deal *deal);
/* Pieces order[0], order[1], ... each to the server with the least load (the
 * lowest numbered among equals). O(pieces log servers). */
void placement_least_loaded(struct placement_deal *deal);

#ifdef __cplusplus
}
#endif

#endif
