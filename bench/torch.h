/* PyTorch with DistributedDataParallel and gloo, where Debian's python3-torch is installed. */
#ifndef TRIDENT_BENCH_TORCH_H
#define TRIDENT_BENCH_TORCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "bench/crew.h"

/* A Python that has torch, torch.distributed and gloo; NULL: there is none. Static storage. */
const char *torch_python(void);

struct torch_run {
    const char *python;
    uint32_t workers;
    uint16_t port;
    double seconds;
};

/* The body of a crew of torch_run.workers: trains the net of bench/fcnet.h, and rank 0 writes how
 * many samples all of them did in a second to the board. One thread each. */
tri_status torch_body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err);

#endif
