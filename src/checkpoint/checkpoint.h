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
 *                                        "states", "job", "library", "steps.NAME" (of the
 *                                        optimiser, by layer), "kept.KEPT": "F32" or "U64",
 *                                        "crc32c": of all data bytes, 8 hex digits,
 *                                        "header_crc32c": of all before the data, its own digits
 *                                        taken for zeros
 *
 * docs/checkpoint.md has the whole of it.
 *
 * Nothing here has a thread; every call may be made from any. */
#ifndef TRIDENT_CHECKPOINT_CHECKPOINT_H
#define TRIDENT_CHECKPOINT_CHECKPOINT_H

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

static inline size_t checkpoint_kept_bytes(const struct checkpoint_kept *kept)
{
    return (size_t)kept->count * (kept->type == TRI_U64 ? sizeof(uint64_t) : sizeof(float));
}

struct checkpoint {
    uint64_t clock;
    const char *job, *optimizer; /* "momentum:0.9" */
    uint32_t states;             /* floats of the optimiser's state for each parameter */
    uint32_t layer_count, kept_count;
    struct checkpoint_layer *layers;
    struct checkpoint_kept *kept;
};

/* Writes it into the folder, which is made if it is missing, by way of a hidden
 * temporary file, synced, renamed, folder synced. On failure nothing of it is left and those before
 * are untouched; TRI_EIO with the system's reason and how much room was needed on a full disk.
 * path (may be NULL) gets the file's. */
tri_status checkpoint_write(const char *folder, const struct checkpoint *what,
                            const struct mem *mem, struct buf *path, tri_error *err);

/* Could one be written there? TRI_EINPUT or TRI_EIO if not; makes the folder. */
tri_status checkpoint_check_folder(const char *folder, tri_error *err);

/* Removes all but the newest `keep` whole ones, and temporary files that a killed process left;
 * those that are being written are not touched. Never the newest whole one, whatever keep is.
 * Damaged ones are not counted, and left. Reads all of them to know, if there are more than
 * `keep`. */
tri_status checkpoint_prune(const char *folder, uint32_t keep, const struct mem *mem,
                            tri_error *err);

/* The folder for one job alone, from its start to its end: no other process, no other job of this
 * one can claim it meanwhile, and one that dies lets go of it. Makes the folder, and sees whether
 * it can be written to. TRI_EINPUT names who has it, after two seconds: one that was killed may
 * still be letting go. So it does where the folder holds checkpoints
 * and the job does not resume: those of the job before would be pruned among its own. */
struct checkpoint_claim;
tri_status checkpoint_claim(const char *folder, const char *job, bool resume, const struct mem *mem,
                            struct checkpoint_claim **out, tri_error *err);
void checkpoint_release(struct checkpoint_claim *claim); /* NULL is fine */

/* Reads and verifies all of it. TRI_EINPUT names file and damage. *out is the caller's until
 * checkpoint_free(), which is for what was read only. */
tri_status checkpoint_read(const char *path, const struct mem *mem, struct checkpoint **out,
                           tri_error *err);
void checkpoint_free(struct checkpoint *what, const struct mem *mem); /* NULL is fine */

/* The same without keeping the values: takes no more memory than the file's header does. */
tri_status checkpoint_verify(const char *path, const struct mem *mem, tri_error *err);

/* Reads what stands before the values, and verifies that; all values are NULL. */
tri_status checkpoint_describe(const char *path, const struct mem *mem, struct checkpoint **out,
                               tri_error *err);

/* Tensors and metadata, as they stand in the file; of what was read or described. */
struct safetensors;
const struct safetensors *checkpoint_tensors(const struct checkpoint *what);

/* What is there, newest first; whether it is whole is not looked at. *out is the caller's, to be
 * freed with mem_free(). */
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
