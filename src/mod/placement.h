/* Placements: the registry, and ways of dealing that several of them share. The slot itself
 * is in trident/module.h. */
#ifndef TRIDENT_MOD_PLACEMENT_H
#define TRIDENT_MOD_PLACEMENT_H

#include "trident/module.h"

#ifdef __cplusplus
extern "C" {
#endif

const tri_placement_ops *placement_at(size_t i);           /* NULL past the end */
const tri_placement_ops *placement_find(const char *name); /* NULL if there is none */

/* Piece i to server i mod Q. */
void placement_in_turn(tri_placement_deal *deal);
/* Pieces order[0], order[1], ... each to the server with the least load (the
 * lowest numbered among equals). O(pieces log servers). */
void placement_least_loaded(tri_placement_deal *deal);

#ifdef __cplusplus
}
#endif

#endif
