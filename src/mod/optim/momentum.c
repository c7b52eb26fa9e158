/* momentum: v = m v + g; w -= lr v. */
#include "trident/module.h"

static void step(const float args[TRI_OPTIMIZER_ARGS], float *restrict params,
                 float *restrict state, const float *restrict mean, size_t n, float lr,
                 uint64_t steps)
{
    float keep = args[0];
    (void)steps;
    for (size_t i = 0; i < n; i++) {
        state[i] = keep * state[i] + mean[i];
        params[i] -= lr * state[i];
    }
}

static const tri_option_row options[] = {
    {"momentum", "0.9", "share of the last step that is kept"},
    {NULL, NULL, NULL},
};

extern const tri_optimizer_ops optim_momentum;
const tri_optimizer_ops optim_momentum = {
    .abi = TRI_OPTIMIZER_ABI,
    .name = "momentum",
    .summary = "gradient descent with momentum",
    .options = options,
    .state_floats = 1,
    .step = step,
};
