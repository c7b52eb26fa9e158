/* Sums, means, factor products. */
#include "core/ops.h"

#include <string.h>

void ops_sum(float *sum, const float *src, size_t n, bool first)
{
    if (first) {
        memcpy(sum, src, n * sizeof *sum);
        return;
    }
    for (size_t i = 0; i < n; i++)
        sum[i] += src[i];
}

void ops_mean(float *mean, const float *sum, size_t n, uint64_t count)
{
    float divisor = (float)count;
    for (size_t i = 0; i < n; i++)
        mean[i] = sum[i] / divisor;
}

static struct product product_of(const struct ops_factors *factors, float *w, float alpha)
{
    return (struct product){.blocks = factors->blocks,
                            .count = factors->count,
                            .m = factors->rows,
                            .n = factors->cols,
                            .w = w,
                            .stride = factors->cols,
                            .alpha = alpha};
}

void ops_factor_mean(const struct ops_factors *factors, float *mean, uint64_t samples)
{
    struct product product = product_of(factors, mean, 1 / (float)samples);
    product_store(&product, 0, factors->rows, factors->scratch);
    if (factors->bias) {
        float *bias = mean + factors->rows * factors->cols;
        memset(bias, 0, factors->rows * sizeof *bias);
        product_bias(&product, 0, factors->rows, bias);
    }
}

void ops_factor_sgd(const struct ops_factors *factors, float *params, uint64_t samples, float lr)
{
    struct product product = product_of(factors, params, -lr / (float)samples);
    product_add(&product, 0, factors->rows, factors->scratch);
    if (factors->bias)
        product_bias(&product, 0, factors->rows, params + factors->rows * factors->cols);
}

bool ops_is_sgd(const struct optim *optim)
{
    return strcmp(optim->ops->name, "sgd") == 0;
}
