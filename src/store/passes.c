/* The loops over sums. */
#include "store/passes.h"

/* gcc -O2 makes vector code of a loop whose count it knows, and of no other: blocks of this many
 * floats, then the rest one by one. */
enum { LANES = 16 };

void pass_add(float *restrict sum, const float *restrict src, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = i; k < i + LANES; k++)
            sum[k] += src[k];
    for (; i < n; i++)
        sum[i] += src[i];
}

void pass_mean(float *restrict mean, const float *restrict sum, size_t n, float divisor)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = i; k < i + LANES; k++)
            mean[k] = sum[k] / divisor;
    for (; i < n; i++)
        mean[i] = sum[i] / divisor;
}

void pass_sgd(float *restrict params, const float *restrict sum, size_t n, float divisor, float lr)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = i; k < i + LANES; k++)
            params[k] -= lr * (sum[k] / divisor);
    for (; i < n; i++)
        params[i] -= lr * (sum[i] / divisor);
}
