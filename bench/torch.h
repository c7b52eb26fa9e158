/* PyTorch with DistributedDataParallel and gloo, where Debian's python3-torch is installed. */
#ifndef TRIDENT_BENCH_TORCH_H
#define TRIDENT_BENCH_TORCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "bench/crew.h"

/* A Python that has torch, torch.distributed and gloo; NULL: there is none. Static storage. */
const char *torch_python(void);

/* What is trained: the net of bench/fcnet.h on one process or, with DDP, on several; or CIFAR-10
 * quick, or four linear layers of 4096 with a softmax, on one; or, Hogwild, a text CNN or the four
 * linear layers on weights in shared memory. */
enum torch_net { TORCH_FCNET, TORCH_QUICK, TORCH_MLP, TORCH_HOGWILD };

struct torch_run {
    const char *python;
    enum torch_net net;
    uint32_t workers;
    uint16_t port;
    double seconds;
    uint32_t batch;     /* not TORCH_FCNET */
    bool channels_last; /* TORCH_QUICK */
    /* TORCH_HOGWILD: of the text CNN; no words: linear layers. workers is 1: the program starts its
     * learners itself, first one, then two. */
    uint32_t words, length, classes;
};

/* The body of a crew of torch_run.workers: trains, and rank 0 writes how many samples all of them
 * did in a second to the board. One thread each. TORCH_HOGWILD: two learners to work_s, and one to
 * numbers[0]; with the embedding that is faster, sparse or dense. */
tri_status torch_body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err);

#endif
