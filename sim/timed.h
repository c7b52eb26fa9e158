/* How long a job takes: the real core on every node, sizes in place of values, time by a model.
 *
 * A node has a device that computes (layers and factor products, one thing at a time), a processor
 * for sums and steps, and a link with a rate: in and out each, or together. Messages leave one at
 * a time, in the order of the core's queue or as they came, and queue again where they arrive.
 * docs/simulate.md says what is modelled and what is not. */
#ifndef TRIDENT_SIM_TIMED_H
#define TRIDENT_SIM_TIMED_H

#include "core/core.h"
#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a layer's update or result becomes on the wire, and what that costs. */
struct timed_codec {
    double ratio;  /* bytes sent for a byte of values; 1: as they are */
    double code_s; /* seconds a byte of values, on each side, on the processor */
};

struct timed_options {
    uint64_t seed;       /* of the jitter */
    uint32_t iterations; /* at least 2: the first is not counted */
    double bytes_s;      /* of a node's link, each way or together */
    bool shared;         /* in and out share it */
    double latency_s;
    double message_s;       /* handling one message with values, where it is sent */
    double copy_bytes_s;    /* copies of all parameters in and out that nothing overlaps; 0: none */
    double flops_s;         /* of products */
    double memory_bytes_s;  /* of sums and steps; 0: they take no time */
    double jitter;          /* the compute of an iteration varies by this share, up and down */
    const double *slowness; /* [workers] times as slow; NULL: all alike */
    bool overlap;           /* updates leave as they are computed; otherwise after the last */
    bool fifo;              /* messages leave as they came, not by urgency */
    bool barrier;           /* an iteration begins when all layers are there */
    struct core_rules rules;
    /* [plan->count] for dense updates and results of each layer; NULL: as they are */
    const struct timed_codec *codecs;
    /* Asked now and then; true ends the run with TRI_EPEER. NULL: never. */
    bool (*stop)(void *ctx);
    void *stop_ctx;
};

struct timed_result {
    /* mean of those counted: of the slowest worker with bsp; otherwise workers over the iterations
       that all of them end in a second */
    double iteration_s;
    double compute_s;  /* of one iteration, without waiting */
    double stall_s;    /* iteration_s - compute_s */
    uint64_t messages; /* with values, between nodes, in all iterations */
    uint64_t events;
    uint32_t nodes;
    double *sent, *received; /* [nodes] bytes of values an iteration, to and from other nodes */
};

/* plan->compute_s must be known. On success the result is to be freed with timed_free(). */
tri_status timed_run(const struct plan *plan, const struct timed_options *options,
                     const struct mem *mem, struct timed_result *result, tri_error *err);
void timed_free(struct timed_result *result, const struct mem *mem);

#ifdef __cplusplus
}
#endif

#endif
