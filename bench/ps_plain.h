/* The baseline of `ps`: a parameter server of plain blocking sockets.
 *
 * A thread for each worker, asynchronous: a worker sends a piece of its gradient, the server
 * takes it off the weights while both lie in a cache and sends these back. No messages, no
 * order, no priorities, nothing to be done when somebody dies: what it leaves out is what a
 * parameter server costs. */
#ifndef TRIDENT_BENCH_PS_PLAIN_H
#define TRIDENT_BENCH_PS_PLAIN_H

#include "bench/crew.h"

enum { PS_WORKERS = 2, PS_PROCESSES = 3 };
#define PS_MODEL_BYTES  ((size_t)64 << 20)
#define PS_MODEL_FLOATS (PS_MODEL_BYTES / sizeof(float))

/* Gradients that all results can be told from, exactly: multiples of the learning rate. */
#define PS_LR 0x1p-12F
float ps_gradient(uint32_t rank);

struct ps_plain {
    double seconds;
};

/* The body of a crew of PS_PROCESSES, with a struct ps_plain; the last is the server. */
tri_status ps_plain_body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err);

#endif
