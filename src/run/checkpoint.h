/* Checkpoints: a job at a clock, as a file of named tensors that any number of nodes can go on
 * from.
 *
 * A checkpoint is DIR/clock-<12 digits>.safetensors, written whole or not at all. It knows nothing
 * of plan, chunks and servers:
 *
 *     NAME.weight, NAME.bias             F32, of each layer, in tri_layer order
 *     optim.0.NAME.weight, optim.0.NAME.bias, optim.1...   the optimiser's state, if it has some
 *     KEPT                               F32 or U64, as given to tri_keep()
 *     __metadata__                       "format": "trident.checkpoint.1", "clock", "optimizer",
 *                                        "job", "library", "steps.NAME" (of the optimiser, by
 * layer), "crc32c": of all data bytes, 8 hex digits
 *
 * Nothing here has a thread; every call may be made from any. */
#ifndef TRIDENT_RUN_CHECKPOINT_H
#define TRIDENT_RUN_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CHECKPOINT_STATES = 4, CHECKPOINT_NAME = 64 };

struct checkpoint_layer {
    const char *name;
    uint32_t rows, cols;
    bool bias;
    uint64_t steps;                  /* of the optimiser */
    float *values;                   /* rows x cols, then the bias */
    float *state[CHECKPOINT_STATES]; /* as values; the first `states` of them */
};

struct checkpoint_kept {
    const char *name;
    tri_type type;
    uint64_t count;
    void *values;
};

struct checkpoint {
    uint64_t clock;
    const char *job, *optimizer; /* "momentum:0.9" */
    uint32_t states;             /* floats of the optimiser's state for each parameter */
    uint32_t layer_count, kept_count;
    struct checkpoint_layer *layers;
    struct checkpoint_kept *kept;
};

/* Writes it into the folder, which is made if it is missing (its parent is not), by way of a hidden
 * temporary file, synced, renamed, folder synced. On failure nothing of it is left and those before
 * are untouched; TRI_EIO with the system's reason and how much room was needed on a full disk.
 * path (may be NULL) gets the file's. */
tri_status checkpoint_write(const char *folder, const struct checkpoint *what,
                            const struct mem *mem, struct buf *path, tri_error *err);

/* Could one be written there? TRI_EINPUT or TRI_EIO if not; makes the folder. */
tri_status checkpoint_check_folder(const char *folder, tri_error *err);

/* Removes all but the newest `keep` whole ones, and temporary files that a killed process left.
 * Never the newest whole one, whatever keep is. Damaged ones are not counted, and left. */
tri_status checkpoint_prune(const char *folder, uint32_t keep, const struct mem *mem,
                            tri_error *err);

/* Reads and verifies all of it. TRI_EINPUT names file and damage. *out is the caller's until
 * checkpoint_free(). */
tri_status checkpoint_read(const char *path, const struct mem *mem, struct checkpoint **out,
                           tri_error *err);
void checkpoint_free(struct checkpoint *what, const struct mem *mem); /* NULL is fine */

/* What is there, newest first. */
struct checkpoint_entry {
    char name[CHECKPOINT_NAME]; /* of the file */
    uint64_t clock, bytes;      /* clock: as its name says */
    int64_t written_s;          /* seconds since 1970 */
};
tri_status checkpoint_list(const char *folder, const struct mem *mem, struct checkpoint_entry **out,
                           size_t *count, tri_error *err);

/* Reads the newest whole one. *out stays NULL, with TRI_OK, where the folder holds none or does not
 * exist; damaged ones are passed over, each told to skipped() (may be NULL). If all are damaged:
 * TRI_EINPUT. */
tri_status checkpoint_newest(const char *folder, const struct mem *mem,
                             void (*skipped)(void *ctx, const tri_error *why), void *ctx,
                             struct checkpoint **out, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
