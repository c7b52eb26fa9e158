/* A job of one worker: no network, no thread, no copies. An update is applied where it is given or,
 * with params_busy, at the next sync or clock. */
#ifndef TRIDENT_RUN_SOLO_H
#define TRIDENT_RUN_SOLO_H

#include "checkpoint/checkpoint.h"
#include "run/agree.h"
#include "run/forms.h"
#include "store/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

struct solo;
struct save;

/* Takes the agreement over, also when it fails. layers are those of it, as for a host. */
tri_status solo_open(struct agreement *agreement, const struct store_layer *layers,
                     const struct mem *mem, struct solo **out, tri_error *err);
void solo_close(struct solo *solo); /* NULL is fine */

/* TRI_EARG when the layer was not synced since its last update. */
tri_status solo_update(struct solo *solo, uint32_t layer, const struct update *update,
                       tri_error *err);
void solo_sync(struct solo *solo, uint32_t layer);
uint64_t solo_clock(struct solo *solo); /* iterations ended */
const struct agreement *solo_agreement(const struct solo *solo);

/* Before the first update: goes on from there. Parameters are the caller's to fill. */
void solo_resume(struct solo *solo, const struct checkpoint *from);
/* Makes checkpoints with it. Stays the caller's; closed before the solo. */
void solo_set_save(struct solo *solo, struct save *save);

#ifdef __cplusplus
}
#endif

#endif
