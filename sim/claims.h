/* What the papers say, beside what the simulation gives. */
#ifndef TRIDENT_SIM_CLAIMS_H
#define TRIDENT_SIM_CLAIMS_H

#include "sim/study.h"

#ifdef __cplusplus
extern "C" {
#endif

enum claim_kind {
    CLAIM_SPEEDUP, /* of a system over one node */
    CLAIM_GAIN,    /* of a system over another, or of a model over another */
    CLAIM_RATE,    /* Gbit/s from which on the speed-up is at least 0.95 of the nodes */
    CLAIM_BALANCE  /* bytes of the busiest node over those of the mean */
};

/* One side of a claim: a system on a cluster. */
struct claim_case {
    const char *model, *system;
    const char *placement;   /* NULL: as the paper's setting */
    const char *consistency; /* NULL: bsp */
    double codec;            /* ratio; 0: none */
};

struct claim {
    const char *id;
    const char *what;
    const char *paper; /* as it says */
    double value;      /* as a number; NaN: it has none to compare with */
    enum claim_kind kind;
    uint32_t nodes;
    double gbit;
    double times; /* the simulated number is multiplied by this: workers in a node; 0: 1 */
    struct claim_case ours, against; /* against: CLAIM_GAIN only */
    const char *note; /* why it differs, or what had to be assumed; NULL: nothing to say */
};

const struct claim *claim_at(size_t i); /* NULL past the end */

/* The one setting for all claims of a claim's paper, in words, and why. */
const char *claim_settings(const struct claim *claim);
const char *claim_reason(const struct claim *claim);

/* Finds a model by name; NULL and *err when there is none. The profile stays its owner's. */
struct claim_models {
    void *ctx;
    const struct profile *(*find)(void *ctx, const char *name, tri_error *err);
};

/* Simulates it. */
tri_status claim_run(const struct claim *claim, const struct claim_models *models,
                     const struct mem *mem, double *ours, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
