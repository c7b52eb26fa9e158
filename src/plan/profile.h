/* A layer profile: what the planner knows of a model, read from JSON.
 *
 * The format is layer-profile/1 (docs/profile.md). The reader is strict: unknown
 * and doubled keys, impossible shapes and sums that do not fit are refused with
 * file, line and column. */
#ifndef TRIDENT_PLAN_PROFILE_H
#define TRIDENT_PLAN_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"
#include "mod/scheme.h"

#ifdef __cplusplus
extern "C" {
#endif

struct profile_layer {
    char *name;
    char *tied_to; /* the layer whose weights it uses; NULL: its own */
    tri_kind kind;
    bool dense; /* an EMBED whose weights another layer uses, too: no row stays untouched */
    uint64_t rows, cols, bias;
    uint64_t params;             /* rows x cols + bias; 0 when tied */
    uint64_t applications;       /* times the matrix is applied per sample */
    uint64_t sparse_rows;        /* EMBED: rows touched per sample; 0: not given */
    double fwd_flops, bwd_flops; /* per sample */
    double fwd_share, bwd_share; /* of the iteration's time; 0 when not given */
};

struct profile {
    const struct mem *mem; /* borrowed */
    char *name;
    char *title; /* "" when not given */
    struct profile_layer *layers;
    size_t count;
    uint64_t params;        /* of all layers */
    size_t with_params;     /* layers that have some */
    uint64_t default_batch; /* 0 when not given */
    double flops;           /* per sample, forward and backward; 0 when not given */
    double flops_s;         /* the measured rate; 0 when not given */
    double iteration_s;     /* measured, at compute_batch samples; 0 when not given */
    double compute_batch;
    char *device, *source, *where; /* of that measurement; NULL when not given */
    bool estimated;                /* that measurement is a guess from another model */
};

/* Limits, checked with a clear error. */
#define PROFILE_MAX_LAYERS ((size_t)1 << 20)
#define PROFILE_MAX_SIDE   (((uint64_t)1 << 31) - 1)
#define PROFILE_MAX_PARAMS ((uint64_t)1 << 48)
/* A slow microcontroller and more than any node we know. */
#define PROFILE_MIN_FLOPS_S 1e6
#define PROFILE_MAX_FLOPS_S 1e17

/* Reads `len` bytes of JSON; `file` is named in errors. *out is written only on
 * success and is then freed with profile_free(). */
tri_status profile_read(const char *file, const char *text, size_t len, const struct mem *mem,
                        struct profile **out, tri_error *err);
void profile_free(struct profile *profile); /* NULL is fine */

/* The layer of that name ('-' and '_' are the same), NULL if there is none. */
const struct profile_layer *profile_layer(const struct profile *profile, const char *name);

#ifdef __cplusplus
}
#endif

#endif
