/* Cutting layers into pieces and dealing them out to the servers. */
#ifndef TRIDENT_PLAN_PLACE_H
#define TRIDENT_PLAN_PLACE_H

#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many pieces the book's placement makes of a layer that lives on servers. */
uint64_t place_pieces(const struct book *book, const struct profile_layer *layer,
                      uint64_t chunk_bytes);

/* Fills pieces, server_bytes, what is said of them, and server_buffer_bytes of a plan whose layers
 * are chosen. */
tri_status place(struct plan *plan, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
