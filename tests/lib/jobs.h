/* Random small jobs for the simulator: a net, a cluster, a plan, rules. */
#ifndef TRIDENT_TESTS_LIB_JOBS_H
#define TRIDENT_TESTS_LIB_JOBS_H

#include "base/rng.h"
#include "lib/toy.h"
#include "plan/plan.h"
#include "sim/cluster.h"

struct job {
    struct profile *profile;
    struct book book;
    const tri_scheme_ops *wanted[NET_MAX_LAYERS];
    struct plan *plan;
    struct layout *layout;
    struct toy net;
    struct sim_options options;
    bool all_factors; /* every layer travels as factors: bits can be compared */
};

/* What kind of job is wanted; zeroed: any under bsp. */
struct job_wish {
    bool on_servers;    /* no layer lives on the workers */
    bool on_workers;    /* all do */
    bool apart;         /* no server beside a worker */
    const char *scheme; /* all layers with this one; NULL: a mixture */
    unsigned workers;   /* 0: by chance */
    unsigned layers;    /* 0: by chance */
    bool plain;         /* optimiser sgd on the servers, every layer updated in every clock */
};

/* Fails the test when it cannot be made. To be freed with job_free(). */
void job_draw(struct job *job, uint64_t seed, const struct job_wish *wish);
void job_free(struct job *job);

/* Plans anew after a change of job->book. */
void job_plan(struct job *job);

/* Makes and runs it; fails the test when the run does not end well. */
struct sim_cluster *job_run(struct job *job, uint64_t seed);

/* A number from the environment, for longer runs. */
unsigned long job_env(const char *name, unsigned long fallback);

#endif
