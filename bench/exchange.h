/* Two learners, each with a net and samples of its own, that exchange gradients and weights in one
 * of several ways, while the samples that they learn in a second are counted. */
#ifndef TRIDENT_BENCH_EXCHANGE_H
#define TRIDENT_BENCH_EXCHANGE_H

#include "bench/crew.h"
#include "bench/lesson.h"

enum exchange_way {
    /* GaDei's: a server process; learners compute whole gradients into slots of shared memory, two
     * each, and read the shared weights in place. src/local/, mode server. */
    EXCHANGE_QUEUE,
    /* The same memory in rounds: one gradient of each, added up, one step. Embeddings go by rows.
     * src/local/, mode sync. */
    EXCHANGE_SYNC,
    /* Each learner steps a copy of its own by the gradients of both, which go as factors, windows
     * and rows through shared memory. src/local/, mode replicas. */
    EXCHANGE_REPLICAS,
    /* Messages over loopback by the library's six calls: whole gradients to a parameter server,
     * weights back; nobody waits for the other (asp), or both for each other (bsp). */
    EXCHANGE_ASP,
    EXCHANGE_BSP,
    EXCHANGE_WAYS
};

struct exchange_run {
    const struct learner_net *net; /* of text */
    uint32_t batch;                /* of each learner */
    enum exchange_way way;
    /* Messages: each learner serves half, and there is no server process. Nor with replicas. */
    bool in_workers;
    double seconds;
    /* Serves parameters as the environment says, until the job is over. Not for shared memory. */
    tri_status (*serve)(const struct mem *mem, tri_error *err);
};

/* Runs them for so long; *rate is samples/s of both together. Fails when a gradient that was given
 * is not in the weights at the end, or is twice, and when the loss is no better than noise. */
tri_status exchange(const struct exchange_run *run, struct crew_board *board, double *rate,
                    tri_error *err);

#endif
