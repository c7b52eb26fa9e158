/* Made-up data that a net can learn, the same on every machine.
 *
 * Each sample has a number, and a few hidden values drawn from that number and the
 * seed. Its input is a random projection of these values, its target a projection of a
 * bent copy of them. So no sample depends on which rank asks for it, or in which batch. */
#ifndef TRIDENT_EXAMPLES_MLP_DATA_H
#define TRIDENT_EXAMPLES_MLP_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "examples/kernels.h"

enum { DATA_HIDDEN_VALUES = 8 };

struct data {
    const struct kernel *kernel;
    uint64_t seed;
    size_t width;            /* of an input, and of a target */
    float *inputs, *targets; /* the projections: width x DATA_HIDDEN_VALUES floats each */
};

/* `count` even numbers from -limit to limit; other streams of a seed are independent. */
void data_fill(uint64_t seed, uint64_t stream, float limit, float *to, size_t count);

/* Fills the projections, whose memory the caller has set. */
void data_init(struct data *data);

/* Scratch memory of data_batch. */
size_t data_scratch_floats(size_t width, size_t count);

/* Samples first to first + count - 1: x and t are count x width. */
void data_batch(const struct data *data, uint64_t first, size_t count, float *x, float *t,
                float *scratch);

#endif
