/* What the papers say, beside what the simulation gives. */
#ifndef TRIDENT_SIM_CLAIMS_H
#define TRIDENT_SIM_CLAIMS_H

#include "sim/study.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is simulated, or worked out from a plan. Of all but CLAIM_RATE, with an `over`: as a
 * multiple of the same of `against`. */
enum claim_kind {
    CLAIM_SPEEDUP, /* of a system over one node */
    CLAIM_RATE,    /* the least of 1, 2 .. 128 Gbit/s that is enough for CLAIM_LINEAR */
    CLAIM_BALANCE, /* bytes of the busiest node over those of the mean */
    CLAIM_USE,     /* bytes a second on the links */
    CLAIM_LOAD,    /* coefficient of variation of the servers' bytes */
    CLAIM_PIECES   /* number of pieces on servers */
};

/* What a claim without a number of its own is tested by; claim_test_text() says it in words. */
enum claim_test {
    CLAIM_NUMBER, /* it has one: only the difference is shown */
    CLAIM_BELOW,
    CLAIM_ABOVE,
    CLAIM_LINEAR,
    CLAIM_FLAT,
    CLAIM_LEAST,
    CLAIM_UNEVEN,
    CLAIM_EVEN,
    CLAIM_HIGH,
    CLAIM_LOW,
    CLAIM_NONE
};

/* One side of a claim: a system on a cluster. */
struct claim_case {
    const char *model, *system;
    const char *placement;   /* NULL: as the paper's setting */
    const char *consistency; /* NULL: bsp */
    uint32_t every;          /* only one step in so many is sent; 0: all */
    bool top_1;              /* one value in a hundred with its index, both ways */
};

struct claim {
    const char *id;
    const char *what;  /* the paper's name of the system or of what is done; at most 10 letters */
    const char *over;  /* that of `against`; NULL: there is none */
    const char *paper; /* as it says; at most 14 letters */
    double value;      /* as a number; NaN: it has none to compare with */
    enum claim_kind kind;
    enum claim_test test;
    uint32_t nodes;
    double gbit;    /* 0: the claim is not about one rate */
    uint32_t times; /* the simulated number is multiplied by this: GPUs in a node; 0: 1 */
    struct claim_case ours, against;
    struct claim_case
        other;        /* what the paper could have meant instead of ours; no model: nothing */
    const char *note; /* why it differs, or what had to be assumed; NULL: nothing to say */
};

const struct claim *claim_at(size_t i); /* NULL past the end */

/* The one setting for all claims of a paper; its copies, latency and memory cost nothing, and the
 * whole rate of a link is used. */
struct claim_paper {
    const char *name;
    char letter; /* that its claims' ids begin with */
    bool shared; /* in and out share the rate of a link */
    double message_s, jitter;
    const char *placement;
    uint32_t iterations;
    const char *reason;
};
const struct claim_paper *claim_paper_at(size_t i); /* NULL past the end */
const struct claim_paper *claim_paper_of(const struct claim *claim);

enum { CLAIM_TEXT = 256 };

/* Texts, written into text[CLAIM_TEXT] and returned. */
const char *claim_settings(const struct claim_paper *paper, char *text);
/* "VGG19-22K, Poseidon, 16 nodes, 10 Gbit/s" */
const char *claim_sentence(const struct claim *claim, char *text);
/* Where a claim leaves its paper's setting and what it is compared with; "" if in nothing. */
const char *claim_own_settings(const struct claim *claim, char *text);
const char *claim_other_settings(const struct claim *claim, char *text); /* "" if it has none */

const char *claim_model_name(const char *model); /* as the papers write it */
const char *claim_test_text(enum claim_test test);
bool claim_holds(const struct claim *claim, double ours); /* not for CLAIM_NUMBER */
/* Simulated over the paper's number, less 1; NaN where it has none, or one that is only a bound. */
double claim_difference(const struct claim *claim, double ours);
/* One of the seven that the model is judged by: within CLAIM_WITHIN. */
bool claim_is_main(const struct claim *claim);
#define CLAIM_WITHIN 0.15

/* What claims are simulated with. */
struct claim_tools {
    const struct mem *mem;
    void *ctx; /* of both */
    /* Finds a model by name; NULL and *err when there is none. The profile stays its owner's. */
    const struct profile *(*find)(void *ctx, const char *name, tri_error *err);
    bool (*stop)(void *ctx); /* true ends a run soon, with TRI_EPEER; NULL: never */
};

struct claim_result {
    double ours;
    double other; /* with claim->other in place of ours; NaN: there is none */
};

tri_status claim_run(const struct claim *claim, const struct claim_tools *tools,
                     struct claim_result *result, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
