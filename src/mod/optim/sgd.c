/* sgd: w -= lr g. */
#include "trident/module.h"

static void step(const float args[TRI_OPTIMIZER_ARGS], float *params, float *state,
                 const float *mean, size_t n, float lr, uint64_t steps)
{
    (void)args, (void)state, (void)steps;
    for (size_t i = 0; i < n; i++)
        params[i] -= lr * mean[i];
}

static const tri_option_row options[] = {{NULL, NULL, NULL}};

extern const tri_optimizer_ops optim_sgd;
const tri_optimizer_ops optim_sgd = {
    .abi = TRI_OPTIMIZER_ABI,
    .name = "sgd",
    .summary = "plain gradient descent",
    .options = options,
    .step = step,
};
