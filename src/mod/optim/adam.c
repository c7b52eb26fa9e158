/* adam: running means of g and g^2, corrected for their start at zero. Not the scheme of that name.
 */
#include <math.h>

#include "trident/module.h"

/* b^n by squaring: libm's pow may differ in the last bit between machines, and
 * replicas must not. */
static double power(double b, uint64_t n)
{
    double result = 1;
    for (; n > 0; n >>= 1, b *= b)
        if (n & 1)
            result *= b;
    return result;
}

static void step(const float args[TRI_OPTIMIZER_ARGS], float *restrict params,
                 float *restrict state, const float *restrict mean, size_t n, float lr,
                 uint64_t steps)
{
    float b1 = args[0], b2 = args[1], epsilon = args[2];
    float unbias1 = (float)(1 / (1 - power((double)b1, steps + 1)));
    float unbias2 = (float)(1 / (1 - power((double)b2, steps + 1)));
    float *first = state, *second = state + n;
    for (size_t i = 0; i < n; i++) {
        first[i] = b1 * first[i] + (1 - b1) * mean[i];
        second[i] = b2 * second[i] + (1 - b2) * (mean[i] * mean[i]);
        params[i] -= lr * (first[i] * unbias1) / (sqrtf(second[i] * unbias2) + epsilon);
    }
}

static const tri_option_row options[] = {
    {"beta1", "0.9", "how slowly the mean of gradients moves"},
    {"beta2", "0.999", "how slowly the mean of their squares moves"},
    {"epsilon", "1e-8", "keeps the first steps finite"},
    {NULL, NULL, NULL},
};

extern const tri_optimizer_ops optim_adam;
const tri_optimizer_ops optim_adam = {
    .abi = TRI_OPTIMIZER_ABI,
    .name = "adam",
    .summary = "adaptive moments",
    .options = options,
    .state_floats = 2,
    .step = step,
};
