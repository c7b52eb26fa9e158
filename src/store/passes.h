/* Passes over long arrays of floats: sums, means, steps.
 *
 * Every element is computed by itself, in float, as the formula says: the bits depend neither
 * on the processor nor on how an array is cut. But where it says so no two arrays of a call may
 * overlap. */
#ifndef TRIDENT_STORE_PASSES_H
#define TRIDENT_STORE_PASSES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* sum += src. */
void pass_add(float *sum, const float *src, size_t n);

/* A sum that is not in memory yet: of one array or of two. */
struct pass_sum {
    const float *a, *b; /* b NULL: a alone */
};

/* out = a + b; with b NULL, a copy. out may be a. */
void pass_sum(float *out, struct pass_sum sum, size_t n);

/* mean = sum / divisor. */
void pass_mean(float *mean, struct pass_sum sum, size_t n, float divisor);

/* params -= lr * (sum / divisor): plain sgd, with the mean never in memory. */
void pass_sgd(float *params, struct pass_sum sum, size_t n, float divisor, float lr);

#ifdef __cplusplus
}
#endif

#endif
