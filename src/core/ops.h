/* The arithmetic of operations, on memory that the host hands in.
 *
 * Production and simulation call the same functions, so they give the same bits.
 * All are pure apart from what they write. */
#ifndef TRIDENT_CORE_OPS_H
#define TRIDENT_CORE_OPS_H

#include "math/product.h"
#include "mod/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* sum = src, or sum += src. */
void ops_sum(float *sum, const float *src, size_t n, bool first);

/* mean = sum / count. May be in place. */
void ops_mean(float *mean, const float *sum, size_t n, uint64_t count);

/* A layer's factors from all ranks that have some, and where the outcome goes:
 * weights rows x cols, and behind them the bias if there is one. */
struct ops_factors {
    const struct product_block *blocks; /* in rank order */
    size_t count;
    size_t rows, cols;
    bool bias;
    void *scratch; /* product_scratch_bytes() */
};

/* mean = (sum of u'v) / samples, bias included. */
void ops_factor_mean(const struct ops_factors *factors, float *mean, uint64_t samples);

/* params -= lr / samples * (sum of u'v) without forming the gradient: plain sgd. */
void ops_factor_sgd(const struct ops_factors *factors, float *params, uint64_t samples, float lr);

/* Can plain sgd's short cut be taken? */
bool ops_is_sgd(const struct optim *optim);

#ifdef __cplusplus
}
#endif

#endif
