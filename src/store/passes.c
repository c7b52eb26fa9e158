/* The loops over sums. */
#include "store/passes.h"

#include <math.h>
#include <string.h>

/* gcc -O2 makes vector code of a loop whose count it knows, and of no other: blocks of this many
 * floats, then the rest one by one. */
enum { LANES = 16 };
#define PASS(n, ...)                                                                               \
    do {                                                                                           \
        size_t i = 0;                                                                              \
        for (; i + LANES <= (n); i += LANES)                                                       \
            for (size_t k = i; k < i + LANES; k++)                                                 \
                __VA_ARGS__;                                                                       \
        for (size_t k = i; k < (n); k++)                                                           \
            __VA_ARGS__;                                                                           \
    } while (0)

/* Dividing by a power of two is multiplying by another, to the last bit, and several times as
 * fast; 0 when the divisor is none. */
static float inverse_of(float divisor)
{
    int exponent = 0;
    return frexpf(divisor, &exponent) == 0.5f && exponent > -100 && exponent < 100 ? 1 / divisor
                                                                                   : 0;
}

void pass_add(float *restrict sum, const float *restrict src, size_t n)
{
    PASS(n, sum[k] += src[k]);
}

void pass_sum(float *out, struct pass_sum sum, size_t n)
{
    const float *a = sum.a, *restrict b = sum.b;
    if (b == NULL) {
        if (out != a)
            memcpy(out, a, n * sizeof *out);
    } else if (out == a) {
        pass_add(out, b, n);
    } else {
        float *restrict to = out;
        const float *restrict from = a;
        PASS(n, to[k] = from[k] + b[k]);
    }
}

void pass_mean(float *restrict mean, struct pass_sum sum, size_t n, float divisor)
{
    const float *restrict a = sum.a, *restrict b = sum.b;
    float inverse = inverse_of(divisor);
    if (b == NULL && inverse > 0)
        PASS(n, mean[k] = a[k] * inverse);
    else if (b == NULL)
        PASS(n, mean[k] = a[k] / divisor);
    else if (inverse > 0)
        PASS(n, mean[k] = (a[k] + b[k]) * inverse);
    else
        PASS(n, mean[k] = (a[k] + b[k]) / divisor);
}

void pass_sgd(float *restrict params, struct pass_sum sum, size_t n, float divisor, float lr)
{
    const float *restrict a = sum.a, *restrict b = sum.b;
    float inverse = inverse_of(divisor);
    if (b == NULL && inverse > 0)
        PASS(n, params[k] -= lr * (a[k] * inverse));
    else if (b == NULL)
        PASS(n, params[k] -= lr * (a[k] / divisor));
    else if (inverse > 0)
        PASS(n, params[k] -= lr * ((a[k] + b[k]) * inverse));
    else
        PASS(n, params[k] -= lr * ((a[k] + b[k]) / divisor));
}
