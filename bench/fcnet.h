/* A net of equal fully connected layers with relu between them, on math/dense: what `step`
 * and `mlp` train, on the library's calls or by hand. One batch, over and over: what it learns is
 * of no interest, and the arithmetic is that of any other. */
#ifndef TRIDENT_BENCH_FCNET_H
#define TRIDENT_BENCH_FCNET_H

#include "base/error.h"
#include "base/mem.h"
#include "math/dense.h"

enum { FCNET_LAYERS = 4, FCNET_WIDTH = 4096, FCNET_BATCH = 32 };

struct fcnet {
    const struct dense_kernel *kernel;
    struct dense_shape shape; /* of every layer */
    float lr;
    tri_job *job;   /* NULL: the step is made by hand */
    float *memory;  /* all that follows lies in it */
    void *products; /* scratch memory of the step by hand */
    float *weights[FCNET_LAYERS], *bias[FCNET_LAYERS];
    float *values[FCNET_LAYERS + 1]; /* the input, then the output of each layer */
    float *targets, *deltas[2], *scratch;
};

/* Equal seeds give equal weights and, with equal ranks, equal data. */
tri_status fcnet_open(struct fcnet *net, size_t width, uint64_t seed, uint64_t rank,
                      tri_error *err);
void fcnet_close(struct fcnet *net); /* closes its job, too */

/* Describes the layers to net->job and starts it. */
tri_status fcnet_start(struct fcnet *net, tri_error *err);

/* One step: forward, backward, all updates given and, by hand, made. */
tri_status fcnet_step(struct fcnet *net, tri_error *err);

/* Waits for the updates of all layers. */
tri_status fcnet_sync(struct fcnet *net, tri_error *err);

#endif
