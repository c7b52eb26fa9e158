/* A learner, for the files of src/local. */
#ifndef TRIDENT_LOCAL_LEARNER_H
#define TRIDENT_LOCAL_LEARNER_H

#include "local/inside.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weights of a learner's own. */
struct copy {
    float *weights;
    uint64_t *changes; /* per layer, as they were before it was copied */
    uint64_t all_changes, version;
};

/* The hand-over is one deep, each way. `full` is 1 while the buffer is its thread's to move (push)
 * or the learner's to look at (pull); only the owner of the moment changes it. */
struct hand {
    pthread_t thread;
    bool on;
    uint32_t full;
    uint32_t event;
};

struct local_learner {
    struct local_job *job;
    uint32_t seat;
    struct crew *crew; /* direct mode: this thread alone, or the push thread alone */
    uint64_t version;
    uint64_t wanted; /* sync: the round that the next iteration belongs to */
    struct local_gradient gradient;
    bool taken;
    uint32_t leaving;

    struct slot *own[2]; /* gradients that are not in the region */
    void *own_base[2];
    uint32_t fill; /* of them, the one that local_take() gives */
    struct hand push;
    tri_status wrong; /* of the push thread; err is written before it */
    tri_error err;

    struct copy copies[2];
    uint32_t front; /* of them, the one that local_weights() gives */
    struct hand pull;
    bool fresh; /* the pull thread brought something new; its answer, with `full` */
    uint32_t reuse, used;

    struct replica *replica; /* replicas: its own copy in the region; else NULL */
    struct sets *sets;       /* replicas: its part of common layers; NULL: there are none */
    bool fresh_look;         /* replicas: refreshed since it published last */
};

/* hands.c: the two threads. */
tri_status hands_open(struct local_learner *learner, const struct local_learner_options *options,
                      tri_error *err);
void hands_close(struct local_learner *learner); /* waits for the push thread's work */
tri_status push_over(struct local_learner *learner, tri_error *err);
tri_status push_idle(struct local_learner *learner, tri_error *err);
tri_status pull_over(struct local_learner *learner, tri_error *err);
tri_status copy_refresh(struct local_learner *learner, struct copy *copy, tri_error *err);

/* learner.c: a gradient from a learner's own memory goes where it belongs. */
tri_status deliver(struct local_learner *learner, const struct slot *slot, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
