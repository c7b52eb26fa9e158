/* Saving: the copy of a job at one clock, and the thread that writes it while the loop goes on.
 *
 * One per job, where rank 0 is. Its memory holds all parameters and all of the optimiser's state
 * once more: planes, plane 0 the parameters. Whoever owns a part copies it there when its version
 * is the clock; when all parts of a clock are there and the clock is committed, the thread writes
 * the file, and only then is another checkpoint asked for. */
#ifndef TRIDENT_RUN_SAVE_H
#define TRIDENT_RUN_SAVE_H

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "run/agree.h"

#ifdef __cplusplus
extern "C" {
#endif

struct save_options {
    const struct mem *mem;
    const struct log *log;              /* borrowed */
    const char *folder, *job;           /* copied */
    uint32_t every, keep;               /* every 0: only what save_want() asks for */
    const struct agreement *agreement;  /* borrowed */
    const struct checkpoint_kept *kept; /* copied; its values are looked at by save_keep() */
    uint32_t kept_count;
    uint64_t clock; /* that the job begins with */
};

struct save;

tri_status save_open(const struct save_options *options, struct save **out, tri_error *err);
/* Writes what is whole, and drops what is not. NULL is fine. */
void save_close(struct save *save);

uint32_t save_planes(const struct save *save);
/* All floats of a layer: weights, then the bias. */
float *save_plane(const struct save *save, uint32_t layer, uint32_t plane);

/* One of the caller's threads at a time, with the host's lock where there is a host: */

/* A checkpoint at that clock, too, whatever `every` says. */
void save_want(struct save *save, uint64_t clock);
/* The iteration that ends with this clock is over. Is it time to ask for a checkpoint? At which
 * clock: from then on it is under way; 0: no. `lead` is how many clocks ahead one asks. */
uint64_t save_due(struct save *save, uint64_t clock, uint32_t lead);
/* Is one about to be due? None is left out: the one before it is waited for, until all its parts
 * are there, and then, without any lock, until it is written. Who asks for more than the disk can
 * take waits for the disk. `wanted`: it is one that save_want() asked for. */
bool save_presses(struct save *save, uint64_t clock, uint32_t lead, bool *wanted);
bool save_gathers(struct save *save);
void save_wait_written(struct save *save);
/* The kept values as they are now, if one is under way. */
void save_keep(struct save *save, uint64_t clock);

/* A plane of a part (of the layout) is there. Parts of an earlier clock than the last are late. */
struct save_part {
    uint32_t part, plane;
    uint64_t clock, steps;
};
/* It comes straight into its plane: false if it is not wanted, and then it is to go elsewhere.
 * save_landed() when all of it is there, or lost. */
bool save_land(struct save *save, const struct save_part *part);
void save_landed(struct save *save, const struct save_part *part, bool there);
void save_take(struct save *save, const struct save_part *part);
/* All owners have copied. */
void save_commit(struct save *save, uint64_t clock);
/* Committed, and parts of it are still on their way. */
bool save_waits(const struct save *save);

/* A job of one worker: the thread copies, too. copy(ctx, layer) fills the planes of a layer and
 * returns its steps; layers come from the last to the first, as a backward pass needs them.
 * save_wait_copied() before the layer changes: one that the thread has not come to is copied by
 * the caller. */
struct save_source {
    void *ctx;
    uint64_t (*copy)(void *ctx, uint32_t layer);
};
void save_begin(struct save *save, uint64_t clock, struct save_source source);
void save_wait_copied(struct save *save, uint32_t layer);

#ifdef __cplusplus
}
#endif

#endif
