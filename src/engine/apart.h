/* Steps of one's own between two exchanges: a learner goes on with parameters of its own, and what
 * it hands over is how far they have moved. For plain SGD, whose steps add up. */
#ifndef TRIDENT_ENGINE_APART_H
#define TRIDENT_ENGINE_APART_H

#include "engine/net.h"

#ifdef __cplusplus
extern "C" {
#endif

struct apart {
    const struct mem *mem;
    float *from; /* what each step since the last exchange goes away from, layer by layer */
};

/* Room for a copy of the net's parameters. */
tri_status apart_open(struct apart *apart, struct net *net, const struct mem *mem, tri_error *err);
void apart_close(struct apart *apart); /* zeroed is fine */

/* Fetches the parameters that all share into the net's own, which the caller then steps. */
tri_status apart_fetch(struct apart *apart, struct net *net, tri_job *job, tri_error *err);
/* tri_update() of all layers with the way since then: rate 1, count 1. The job's optimiser must be
 * sgd. tri_clock() is the caller's. */
tri_status apart_give(struct apart *apart, struct net *net, tri_job *job, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
