/* The small net. */
#include "lib/toy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "core/ops.h"
#include "lib/test.h"

/* A number in [0, n) that depends on what it is for. */
static uint64_t chance(const struct toy *net, uint64_t a, uint64_t b, uint64_t c, uint64_t n)
{
    struct rng rng;
    rng_init(&rng, net->seed * 1000003 + a * 10007 + b * 101 + c);
    return rng_below(&rng, n);
}

static uint32_t batch_of(const struct toy *net, uint32_t rank, uint64_t clock)
{
    return net->vary_batch ? 1 + (uint32_t)chance(net, rank, clock, 50, NET_MAX_BATCH - 1) : 4;
}

bool toy_has_update(const struct toy *net, uint32_t rank, uint64_t clock, uint32_t layer)
{
    /* Once in a while nobody has one. */
    if (net->leave_out && chance(net, clock, layer, 51, 7) == 0)
        return false;
    return !net->leave_out || chance(net, rank, clock, 60 + layer, 4) > 0;
}

static float unit(struct rng *rng)
{
    return (float)(2 * rng_unit(rng) - 1);
}

/* ---- the computation of one rank ---- */

static void init(void *ctx, uint32_t rank, uint32_t layer, struct sim_values params)
{
    const struct toy *net = ctx;
    const struct layout_layer *shape = &net->layout->layers[layer];
    struct rng rng;
    /* Only rank 0's values count; the others must be overwritten by them. */
    rng_init(&rng, net->seed + 77 * (uint64_t)layer + 1000 * (uint64_t)rank);
    float scale = 1 / sqrtf((float)shape->cols);
    for (size_t i = 0; i < (size_t)shape->rows * shape->cols; i++)
        params.weights[i] = scale * unit(&rng);
    for (uint32_t i = 0; shape->bias && i < shape->rows; i++)
        params.bias[i] = scale * unit(&rng);
}

static void make_input(struct toy *net, uint32_t rank, uint64_t clock)
{
    struct rng rng;
    rng_init(&rng, net->seed + 31 * clock + 7919 * (uint64_t)rank);
    uint32_t width = net->layout->layers[0].cols;
    for (uint32_t i = 0; i < NET_MAX_BATCH * width; i++)
        net->a[rank][0][i] = unit(&rng);
}

/* The last layer is linear and wants the tanh of the sum of the inputs in every output. */
static void last_gradient(struct toy *net, uint32_t rank, uint64_t clock, uint32_t layer)
{
    uint32_t width = net->layout->layers[layer].rows, in = net->layout->layers[0].cols;
    for (uint32_t s = 0; s < batch_of(net, rank, clock); s++) {
        float sum = 0;
        for (uint32_t i = 0; i < in; i++)
            sum += net->a[rank][0][s * in + i];
        for (uint32_t i = 0; i < width; i++)
            net->d[rank][layer + 1][s * width + i] =
                net->a[rank][layer + 1][s * width + i] - tanhf(sum);
    }
}

static void forward(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer,
                    struct sim_values params)
{
    struct toy *net = ctx;
    const struct layout_layer *shape = &net->layout->layers[layer];
    bool last = layer + 1 == net->layout->layer_count;
    if (layer == 0)
        make_input(net, rank, clock);
    for (uint32_t s = 0; s < batch_of(net, rank, clock); s++)
        for (uint32_t i = 0; i < shape->rows; i++) {
            float sum = shape->bias ? params.bias[i] : 0;
            for (uint32_t j = 0; j < shape->cols; j++)
                sum += params.weights[(size_t)i * shape->cols + j] *
                       net->a[rank][layer][s * shape->cols + j];
            net->a[rank][layer + 1][s * shape->rows + i] = last ? sum : tanhf(sum);
        }
    if (last)
        last_gradient(net, rank, clock, layer);
}

static void input_gradient(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer,
                           struct sim_values params)
{
    struct toy *net = ctx;
    const struct layout_layer *shape = &net->layout->layers[layer];
    if (layer == 0)
        return;
    for (uint32_t s = 0; s < batch_of(net, rank, clock); s++)
        for (uint32_t j = 0; j < shape->cols; j++) {
            float sum = 0, a = net->a[rank][layer][s * shape->cols + j];
            for (uint32_t i = 0; i < shape->rows; i++)
                sum += params.weights[(size_t)i * shape->cols + j] *
                       net->d[rank][layer + 1][s * shape->rows + i];
            net->d[rank][layer][s * shape->cols + j] = sum * (1 - a * a);
        }
}

static void dense_gradient(const struct toy *net, uint32_t rank, uint32_t batch, uint32_t layer,
                           struct sim_values dense)
{
    const struct layout_layer *shape = &net->layout->layers[layer];
    memset(dense.weights, 0, (size_t)shape->rows * shape->cols * sizeof *dense.weights);
    if (shape->bias)
        memset(dense.bias, 0, shape->rows * sizeof *dense.bias);
    for (uint32_t s = 0; s < batch; s++)
        for (uint32_t i = 0; i < shape->rows; i++) {
            float d = net->d[rank][layer + 1][s * shape->rows + i];
            for (uint32_t j = 0; j < shape->cols; j++)
                dense.weights[(size_t)i * shape->cols + j] +=
                    d * net->a[rank][layer][s * shape->cols + j];
            if (shape->bias)
                dense.bias[i] += d;
        }
}

static struct sim_update update(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer,
                                struct sim_values dense, float *u, float *v)
{
    struct toy *net = ctx;
    const struct layout_layer *shape = &net->layout->layers[layer];
    uint32_t batch = batch_of(net, rank, clock);
    struct sim_update result = {.given = toy_has_update(net, rank, clock, layer),
                                .busy = net->busy && chance(net, rank, clock, layer, 2) == 0,
                                .count = batch,
                                .lr = net->lr,
                                .rows = batch};
    if (!result.given) {
        result.busy = false;
    } else if (shape->form == TRI_FORM_DENSE) {
        dense_gradient(net, rank, batch, layer, dense);
    } else {
        memcpy(u, net->d[rank][layer + 1], (size_t)batch * shape->rows * sizeof *u);
        memcpy(v, net->a[rank][layer], (size_t)batch * shape->cols * sizeof *v);
    }
    return result;
}

static void mean(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer, const float *values,
                 struct sim_values params)
{
    (void)rank, (void)clock;
    const struct toy *net = ctx;
    const struct layout_layer *shape = &net->layout->layers[layer];
    size_t matrix = (size_t)shape->rows * shape->cols;
    for (size_t i = 0; i < matrix; i++)
        params.weights[i] -= net->lr * values[i];
    for (uint32_t i = 0; shape->bias && i < shape->rows; i++)
        params.bias[i] -= net->lr * values[matrix + i];
}

struct sim_app toy_app(struct toy *net)
{
    return (struct sim_app){.ctx = net,
                            .init = init,
                            .forward = forward,
                            .update = update,
                            .input_gradient = input_gradient,
                            .mean = mean};
}

double toy_loss(struct toy *net, const struct sim_values params[])
{
    uint32_t last = net->layout->layer_count - 1, width = net->layout->layers[last].rows;
    double sum = 0;
    uint64_t count = 0;
    for (uint64_t clock = 1000000; clock < 1000050; clock++) {
        for (uint32_t l = 0; l <= last; l++)
            forward(net, 0, clock, l, params[l]);
        for (uint32_t i = 0; i < batch_of(net, 0, clock) * width; i++, count++)
            sum += (double)net->d[0][last + 1][i] * (double)net->d[0][last + 1][i];
    }
    return sum / (double)count;
}

/* ---- alone ---- */

/* Weights and the bias behind them. */
static struct sim_values in_one(const struct layout_layer *shape, float *values)
{
    return (struct sim_values){values, values + (size_t)shape->rows * shape->cols};
}

/* The mean over the union of all batches that have an update, in doubles. */
static uint64_t union_mean(const struct toy *net, uint64_t clock, uint32_t layer, float *out)
{
    const struct layout_layer *shape = &net->layout->layers[layer];
    uint64_t count = 0;
    static _Thread_local double sum[NET_MAX_WIDTH * (NET_MAX_WIDTH + 1)];
    static _Thread_local float dense[NET_MAX_WIDTH * (NET_MAX_WIDTH + 1)];
    memset(sum, 0, sizeof sum);
    for (uint32_t r = 0; r < net->layout->workers; r++) {
        if (!toy_has_update(net, r, clock, layer))
            continue;
        count += batch_of(net, r, clock);
        dense_gradient(net, r, batch_of(net, r, clock), layer, in_one(shape, dense));
        for (uint64_t i = 0; i < shape->floats; i++)
            sum[i] += (double)dense[i];
    }
    for (uint64_t i = 0; i < shape->floats && count > 0; i++)
        out[i] = (float)(sum[i] / (double)count);
    return count;
}

/* All samples stacked in rank order: one block, as one process would have it. */
static uint64_t stack(const struct toy *net, uint64_t clock, uint32_t layer, float *u, float *v)
{
    const struct layout_layer *shape = &net->layout->layers[layer];
    uint64_t count = 0;
    for (uint32_t r = 0; r < net->layout->workers; r++) {
        uint32_t batch = batch_of(net, r, clock);
        if (!toy_has_update(net, r, clock, layer))
            continue;
        memcpy(u + count * shape->rows, net->d[r][layer + 1],
               (size_t)batch * shape->rows * sizeof *u);
        memcpy(v + count * shape->cols, net->a[r][layer], (size_t)batch * shape->cols * sizeof *v);
        count += batch;
    }
    return count;
}

static void step_by_kernel(struct toy *net, struct toy_reference *alone, const struct optim *optim,
                           uint64_t clock, uint32_t layer)
{
    static _Thread_local float u[NET_MAX_RANKS * NET_MAX_BATCH * NET_MAX_WIDTH];
    static _Thread_local float v[NET_MAX_RANKS * NET_MAX_BATCH * NET_MAX_WIDTH];
    static _Thread_local float values[NET_MAX_WIDTH * (NET_MAX_WIDTH + 1)];
    const struct layout_layer *shape = &net->layout->layers[layer];
    uint64_t count = stack(net, clock, layer, u, v);
    if (count == 0)
        return;
    struct product_block block = {u, v, (size_t)count};
    void *scratch = malloc(product_scratch_bytes());
    struct ops_factors factors = {&block, 1, shape->rows, shape->cols, shape->bias, scratch};
    if (ops_is_sgd(optim)) {
        ops_factor_sgd(&factors, alone->params[layer], count, net->lr);
    } else {
        ops_factor_mean(&factors, values, count);
        optim->ops->step(optim->args, alone->params[layer], alone->state[layer], values,
                         (size_t)shape->floats, net->lr, alone->steps[layer]);
    }
    alone->steps[layer]++;
    free(scratch);
}

static void step_by_sum(struct toy *net, struct toy_reference *alone, const struct optim *optim,
                        uint64_t clock, uint32_t layer)
{
    static _Thread_local float values[NET_MAX_WIDTH * (NET_MAX_WIDTH + 1)];
    if (union_mean(net, clock, layer, values) == 0)
        return;
    optim->ops->step(optim->args, alone->params[layer], alone->state[layer], values,
                     (size_t)net->layout->layers[layer].floats, net->lr, alone->steps[layer]);
    alone->steps[layer]++;
}

void toy_train_alone(struct toy *net, struct toy_reference *alone, const struct optim *optim,
                     uint64_t clocks, bool by_kernel)
{
    uint32_t layers = net->layout->layer_count;
    memset(alone, 0, sizeof *alone);
    for (uint32_t l = 0; l < layers; l++)
        init(net, 0, l, in_one(&net->layout->layers[l], alone->params[l]));
    for (uint64_t clock = 0; clock < clocks; clock++) {
        for (uint32_t r = 0; r < net->layout->workers; r++) {
            for (uint32_t l = 0; l < layers; l++)
                forward(net, r, clock, l, in_one(&net->layout->layers[l], alone->params[l]));
            for (uint32_t l = layers; l-- > 0;)
                input_gradient(net, r, clock, l, in_one(&net->layout->layers[l], alone->params[l]));
        }
        for (uint32_t l = 0; l < layers; l++) {
            if (by_kernel)
                step_by_kernel(net, alone, optim, clock, l);
            else
                step_by_sum(net, alone, optim, clock, l);
        }
    }
}
