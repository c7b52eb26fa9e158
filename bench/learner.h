/* Learners around one set of weights: the processes of bench/hogwild.c. */
#ifndef TRIDENT_BENCH_LEARNER_H
#define TRIDENT_BENCH_LEARNER_H

#include "bench/crew.h"
#include "bench/lesson.h"

struct learner_shared;

struct learner_run {
    const struct learner_net *net;
    uint32_t batch;
    uint32_t learners;
    bool apart; /* each has weights of its own */
    double seconds;
    struct learner_shared *shared; /* of learner_map() */
};

/* Memory that forked processes share, for one run; NULL with a report. */
struct learner_shared *learner_map(tri_error *err);
void learner_unmap(struct learner_shared *shared); /* NULL is fine */

/* The body of a crew of run.learners. Learner 0 writes what all of them did to the board. Each
 * leaves in numbers[i] the samples per second of its steps that nothing disturbed: the processor
 * was its own all the while, and the other learner came along; 0 when there were too few. */
tri_status learner_body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err);

#endif
