/* adagrad: s += g^2; w -= lr g / (sqrt(s) + e). */
#include <math.h>

#include "trident/module.h"

static void step(const float args[TRI_OPTIMIZER_ARGS], float *restrict params,
                 float *restrict state, const float *restrict mean, size_t n, float lr,
                 uint64_t steps)
{
    float epsilon = args[0];
    (void)steps;
    for (size_t i = 0; i < n; i++) {
        state[i] += mean[i] * mean[i];
        params[i] -= lr * mean[i] / (sqrtf(state[i]) + epsilon);
    }
}

static const tri_option_row options[] = {
    {"epsilon", "1e-8", "keeps the first steps finite"},
    {NULL, NULL, NULL},
};

extern const tri_optimizer_ops optim_adagrad;
const tri_optimizer_ops optim_adagrad = {
    .abi = TRI_OPTIMIZER_ABI,
    .name = "adagrad",
    .summary = "steps that shrink with the squared gradients so far",
    .options = options,
    .state_floats = 1,
    .step = step,
};
