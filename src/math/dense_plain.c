/* The products of a dense layer in plain C, for every processor. */
#include "math/dense_tile.h"

static bool here(void)
{
    return true;
}

extern const struct dense_kernel dense_plain;
const struct dense_kernel dense_plain = {
    .name = "plain",
    .step = STEP_VECS * VEC_FLOATS,
    .sums = SUMS * VEC_FLOATS,
    .back = BACK_VECS * VEC_FLOATS,
    .here = here,
    .run = run,
    .run_back = back,
    .row = row,
    .sparse = &sparse_plain,
};
