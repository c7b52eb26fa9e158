/* The optimiser's memory in a snapshot, a plane at a time: plane 0 holds the first float that is
 * remembered for each value of a layer, plane 1 the second. In the region they lie in pieces, as
 * apply.c says; in checkpoints each plane lies like the layer. */
#ifndef TRIDENT_LOCAL_PLANES_H
#define TRIDENT_LOCAL_PLANES_H

#include "local/local.h"

#ifdef __cplusplus
extern "C" {
#endif

/* to and from: the floats of the layer. */
void local_plane_get(const struct local_job *job, const struct local_snapshot *snapshot,
                     uint32_t layer, uint32_t plane, float *to);
void local_plane_put(const struct local_job *job, struct local_snapshot *snapshot, uint32_t layer,
                     uint32_t plane, const float *from);

#ifdef __cplusplus
}
#endif

#endif
