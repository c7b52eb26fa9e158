/* A small net for numeric tests: a chain of layers with smooth activations, trained on
 * made-up data, distributed over a simulated cluster or alone on the union of all batches. */
#ifndef TRIDENT_TESTS_LIB_TOY_H
#define TRIDENT_TESTS_LIB_TOY_H

#include "sim/cluster.h"

enum { NET_MAX_LAYERS = 6, NET_MAX_RANKS = 8, NET_MAX_WIDTH = 24, NET_MAX_BATCH = 6 };

struct toy {
    const struct layout *layout;
    uint64_t seed; /* of data, initial values, and what is left out */
    float lr;
    bool vary_batch; /* batch sizes differ by rank and clock */
    bool leave_out;  /* some layers get no update in some clocks */
    bool busy;       /* some updates are given with busy parameters */
    bool aggregate;  /* the net steps by itself, plain sgd */
    /* per rank: activations (input first) and gradients at outputs, samples by width */
    float a[NET_MAX_RANKS][NET_MAX_LAYERS + 1][NET_MAX_BATCH * NET_MAX_WIDTH];
    float d[NET_MAX_RANKS][NET_MAX_LAYERS + 1][NET_MAX_BATCH * NET_MAX_WIDTH];
};

struct sim_app toy_app(struct toy *net);

/* Does this rank give an update of this layer in this clock? */
bool toy_has_update(const struct toy *net, uint32_t rank, uint64_t clock, uint32_t layer);

/* Mean squared error on samples that no rank trains on. */
double toy_loss(struct toy *net, const struct sim_values params[]);

/* The same training in one process, rank by rank, on parameters of its own. */
struct toy_reference {
    float params[NET_MAX_LAYERS][NET_MAX_WIDTH * (NET_MAX_WIDTH + 1)];
    float state[NET_MAX_LAYERS][2 * NET_MAX_WIDTH * (NET_MAX_WIDTH + 1)];
    uint64_t steps[NET_MAX_LAYERS];
};

/* Trains for so many clocks. Where all layers travel as factors it multiplies the stacked
 * batch with the product kernel, so that bits can be compared; else it sums in doubles. */
void toy_train_alone(struct toy *net, struct toy_reference *alone, const struct optim *optim,
                     uint64_t clocks, bool by_kernel);

#endif
