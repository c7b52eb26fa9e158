/* What exchange.c asks of a way to exchange. */
#ifndef TRIDENT_BENCH_EXCHANGE_WAY_H
#define TRIDENT_BENCH_EXCHANGE_WAY_H

#include <stdatomic.h>

#include "bench/exchange.h"
#include "bench/gradient.h"
#include "local/local.h"

enum { EXCHANGE_LEARNERS = 2, EXCHANGE_MEETINGS = 4 };

/* Shared by the processes of a run. */
struct exchange_shared {
    atomic_uint met[EXCHANGE_MEETINGS];
    atomic_bool closing;                    /* the window is over */
    atomic_ullong ended[EXCHANGE_LEARNERS]; /* iterations of each when it saw that */
};

struct exchange {
    const struct exchange_run *run;
    struct exchange_shared *shared;
    struct local_job *local; /* the region; NULL: messages */
    uint16_t port;           /* of the job */
};

struct exchange_learner {
    const struct exchange *all;
    uint32_t number;
    struct lesson lesson;
    struct gradient_maker maker;
    uint64_t steps;
    tri_status status; /* of a call inside a forward or backward pass */
    tri_error *err;
    /* shared memory */
    struct local_learner *seat;
    struct local_gradient *gradient; /* of this iteration */
    /* messages */
    tri_job *job;
    float *dense; /* gradients of all layers */
};

struct exchange_ops {
    /* In the process that starts the others; finish() also after a failure. */
    tri_status (*prepare)(struct exchange *all, tri_error *err);
    tri_status (*finish)(struct exchange *all, uint64_t steps, tri_error *err);
    /* In each learner. step: forward, backward and exchange, once. leave() also after a failure. */
    tri_status (*join)(struct exchange_learner *learner, tri_error *err);
    tri_status (*step)(struct exchange_learner *learner, tri_error *err);
    tri_status (*end)(struct exchange_learner *learner, tri_error *err); /* after the last step */
    void (*leave)(struct exchange_learner *learner);
    tri_status (*serve)(const struct exchange *all, tri_error *err);
};

extern const struct exchange_ops exchange_by_memory, exchange_by_messages;

/* Learners, and one more that serves. */
uint32_t exchange_processes(const struct exchange_run *run);

/* Waits for the other learner; `which` counts from 1, 0 is exchange.c's. */
void exchange_meet(const struct exchange_learner *learner, uint32_t which);

/* Fails if what was counted (lesson_count()) is not `steps`. */
tri_status exchange_check(float counted, uint64_t steps, tri_error *err);

#endif
