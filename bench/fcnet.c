/* Forward, backward and the step of a net of equal layers. */
#include "bench/fcnet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/rng.h"
#include "math/product.h"

/* ---- memory ---- */

static float *take(float **at, size_t floats)
{
    float *here = *at;
    *at += (floats + 15) / 16 * 16;
    return here;
}

static size_t floats_of(const struct fcnet *net)
{
    const size_t width = net->shape.rows, batch = net->shape.batch;
    return FCNET_LAYERS * (width * width + width + 32) + (FCNET_LAYERS + 4) * (batch * width + 16) +
           dense_scratch_floats(&net->shape) + 16;
}

static void lay_out(struct fcnet *net)
{
    const size_t width = net->shape.rows, outputs = net->shape.batch * width;
    float *at = net->memory;
    for (size_t i = 0; i < FCNET_LAYERS; i++) {
        net->weights[i] = take(&at, width * width);
        net->bias[i] = take(&at, width);
    }
    for (size_t i = 0; i <= FCNET_LAYERS; i++)
        net->values[i] = take(&at, outputs);
    net->targets = take(&at, outputs);
    net->deltas[0] = take(&at, outputs);
    net->deltas[1] = take(&at, outputs);
    net->scratch = take(&at, dense_scratch_floats(&net->shape));
}

static void fill(float *at, size_t count, float limit, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    for (size_t i = 0; i < count; i++)
        at[i] = limit * (float)(2 * rng_unit(&rng) - 1);
}

tri_status fcnet_open(struct fcnet *net, size_t width, uint64_t seed, uint64_t rank, tri_error *err)
{
    *net = (struct fcnet){.kernel = dense_kernel_at(0), .lr = 0.01F};
    net->shape = (struct dense_shape){.rows = width, .cols = width, .batch = FCNET_BATCH};
    size_t bytes = floats_of(net) * sizeof(float);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return fail_nomem(err, "the net");
    (void)madvise(at, bytes, MADV_HUGEPAGE);
    net->memory = at;
    net->products = mem_array(&mem_libc, product_scratch_bytes(), 1);
    if (net->products == NULL) {
        fcnet_close(net);
        return fail_nomem(err, "the net");
    }
    lay_out(net);
    const float limit = sqrtf(6 / (float)width);
    for (size_t i = 0; i < FCNET_LAYERS; i++)
        fill(net->weights[i], width * width, limit, seed + i);
    fill(net->values[0], FCNET_BATCH * width, 1, seed + 100 + 2 * rank);
    fill(net->targets, FCNET_BATCH * width, 1, seed + 101 + 2 * rank);
    return TRI_OK;
}

void fcnet_close(struct fcnet *net)
{
    tri_close(net->job);
    mem_free(&mem_libc, net->products);
    if (net->memory != NULL)
        (void)munmap(net->memory, floats_of(net) * sizeof(float));
    *net = (struct fcnet){0};
}

/* ---- the calls ---- */

tri_status fcnet_start(struct fcnet *net, tri_error *err)
{
    for (size_t i = 0; i < FCNET_LAYERS; i++) {
        char name[16];
        uint32_t number;
        tri_layer_info info = TRI_LAYER_INIT;
        (void)snprintf(name, sizeof name, "fc%zu", i + 1);
        info.name = name;
        info.rows = (uint32_t)net->shape.rows;
        info.cols = (uint32_t)net->shape.cols;
        info.max_factor_rows = (uint32_t)net->shape.batch;
        info.weights = net->weights[i];
        info.bias = net->bias[i];
        tri_status status = tri_layer(net->job, &info, &number, err);
        if (status != TRI_OK)
            return status;
    }
    return tri_start(net->job, err);
}

static tri_status give(const struct fcnet *net, uint32_t i, const float *delta, tri_error *err)
{
    tri_update_info update = TRI_UPDATE_INIT;
    update.u = delta;
    update.v = net->values[i];
    update.factor_rows = update.count = (uint32_t)net->shape.batch;
    update.lr = net->lr;
    update.params_busy = i > 0;
    return tri_update(net->job, i, &update, err);
}

/* The same by hand, once the weights are no longer read. */
static void step_layer(const struct fcnet *net, size_t i, const float *delta)
{
    struct product_block block = {delta, net->values[i], net->shape.batch};
    struct product product = {.blocks = &block,
                              .count = 1,
                              .m = net->shape.rows,
                              .n = net->shape.cols,
                              .w = net->weights[i],
                              .stride = net->shape.cols,
                              .alpha = -net->lr / (float)net->shape.batch};
    product_add(&product, 0, product.m, net->products);
    product_bias(&product, 0, product.m, net->bias[i]);
}

/* ---- the net ---- */

static tri_status forward(struct fcnet *net, tri_error *err)
{
    const size_t count = net->shape.batch * net->shape.rows;
    for (uint32_t i = 0; i < FCNET_LAYERS; i++) {
        tri_status status = net->job != NULL ? tri_sync(net->job, i, err) : TRI_OK;
        if (status != TRI_OK)
            return status;
        struct dense_outputs product = {.shape = net->shape,
                                        .w = net->weights[i],
                                        .bias = net->bias[i],
                                        .x = net->values[i],
                                        .y = net->values[i + 1]};
        dense_forward(net->kernel, &product, net->scratch);
        float *out = net->values[i + 1];
        for (size_t k = 0; i + 1 < FCNET_LAYERS && k < count; k++)
            out[k] = out[k] > 0 ? out[k] : 0;
    }
    return TRI_OK;
}

static void through(struct fcnet *net, size_t i, const float *delta, float *before)
{
    const size_t count = net->shape.batch * net->shape.rows;
    struct dense_inputs product = {
        .shape = net->shape, .w = net->weights[i], .dy = delta, .dx = before};
    dense_backward(net->kernel, &product, net->scratch);
    for (size_t k = 0; k < count; k++)
        before[k] = net->values[i][k] > 0 ? before[k] : 0;
}

static tri_status backward(struct fcnet *net, tri_error *err)
{
    float *delta = net->deltas[0], *before = net->deltas[1];
    const float *out = net->values[FCNET_LAYERS];
    for (size_t k = 0; k < net->shape.batch * net->shape.rows; k++)
        delta[k] = (out[k] - net->targets[k]) / (float)net->shape.rows;
    for (uint32_t i = FCNET_LAYERS; i-- > 0;) {
        tri_status status = net->job != NULL ? give(net, i, delta, err) : TRI_OK;
        if (status != TRI_OK)
            return status;
        if (i > 0)
            through(net, i, delta, before);
        if (net->job == NULL)
            step_layer(net, i, delta);
        float *swap = delta;
        delta = before;
        before = swap;
    }
    return TRI_OK;
}

tri_status fcnet_step(struct fcnet *net, tri_error *err)
{
    tri_status status = forward(net, err);
    if (status == TRI_OK)
        status = backward(net, err);
    if (status == TRI_OK && net->job != NULL)
        status = tri_clock(net->job, NULL, err);
    return status;
}

tri_status fcnet_sync(struct fcnet *net, tri_error *err)
{
    tri_status status = TRI_OK;
    for (uint32_t i = 0; net->job != NULL && i < FCNET_LAYERS && status == TRI_OK; i++)
        status = tri_sync(net->job, i, err);
    return status;
}
