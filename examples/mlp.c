/* A fully connected net that gives Trident the factors of its gradients.
 *
 *     mlp                                 one process, 4 layers of 4096
 *     trident run -n 2 -- mlp --steps 50  two, each with its own samples
 *
 * The order of the calls is what lets communication hide: a layer's update is handed over
 * as soon as its factors are known, before the backward pass goes on through its weights,
 * and waited for just before the layer's next forward. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <trident/trident.h>

#include "examples/kernels.h"
#include "examples/mlp_data.h"
#include "examples/mlp_options.h"
#include "examples/report.h"

enum { MAX_LAYERS = 64 };
#define STREAM_WEIGHTS  (UINT64_C(3) << 62) /* of the seed: after those of the data */
#define FIRST_TEST_DATA (UINT64_C(1) << 62) /* samples from here on are not trained with */

struct layer {
    uint32_t number;
    char name[16];
    float *weights, *bias;
    float *dense, *dense_bias; /* only with --give dense */
};

struct net {
    struct mlp_options options;
    const struct kernel *kernel;
    tri_job *job;
    struct data data;
    struct shape shape; /* of every layer; its batch is what this process computes */
    struct layer layers[MAX_LAYERS];
    float *values[MAX_LAYERS + 1]; /* the input, then the output of each layer */
    float *targets, *deltas[2], *scratch;
};

struct result {
    uint64_t clocks;
    double first_loss, loss, seconds;
    double timed_samples; /* of all ranks, in those seconds */
    uint32_t crc;
};

/* ---- memory ---- */

/* All arrays are cut from one mapping. With base NULL they are only added up. */
struct arena {
    float *base;
    size_t used;
};

static float *take(struct arena *arena, size_t floats)
{
    float *at = arena->base != NULL ? arena->base + arena->used : NULL;
    arena->used += (floats + 15) / 16 * 16;
    return at;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void lay_out(struct net *net, struct arena *arena)
{
    const size_t width = net->shape.rows, weights = width * width;
    const size_t outputs = net->shape.batch * width;
    const size_t layers = net->options.layers;
    for (struct layer *l = net->layers; l < net->layers + layers; l++) {
        l->weights = take(arena, weights);
        l->bias = take(arena, width);
        if (net->options.give == MLP_DENSE) {
            l->dense = take(arena, weights);
            l->dense_bias = take(arena, width);
        }
    }
    for (size_t i = 0; i <= layers; i++)
        net->values[i] = take(arena, outputs);
    net->targets = take(arena, outputs);
    net->deltas[0] = take(arena, outputs);
    net->deltas[1] = take(arena, outputs);
    net->data.inputs = take(arena, width * DATA_HIDDEN_VALUES);
    net->data.targets = take(arena, width * DATA_HIDDEN_VALUES);
    net->scratch = take(arena, most(kernel_scratch_floats(&net->shape),
                                    data_scratch_floats(width, net->shape.batch)));
}

/* Large pages, where the system has them: neighbouring rows of the weights lie far apart.
 * The mapping is zero, and lives as long as the program. */
static int map(struct net *net)
{
    struct arena arena = {0};
    lay_out(net, &arena);
    const size_t bytes = arena.used * sizeof(float);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        fprintf(stderr, "mlp: no memory for a net of %zu MiB\n  try:   a smaller --hidden\n",
                bytes >> 20);
        return 1;
    }
    (void)madvise(at, bytes, MADV_HUGEPAGE);
    arena = (struct arena){.base = at};
    lay_out(net, &arena);
    return 0;
}

/* ---- the net ---- */

static void init_weights(struct net *net)
{
    const float gain = net->options.activation == MLP_RELU ? 6 : 3; /* keeps the variance */
    const float limit = sqrtf(gain / (float)net->shape.cols);
    for (size_t i = 0; i < net->options.layers; i++)
        data_fill(net->options.seed, STREAM_WEIGHTS + i, limit, net->layers[i].weights,
                  net->shape.rows * net->shape.cols);
}

static void activate(const struct net *net, float *values)
{
    const size_t count = net->shape.batch * net->shape.rows;
    if (net->options.activation == MLP_TANH) {
        for (size_t i = 0; i < count; i++)
            values[i] = tanhf(values[i]);
        return;
    }
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] > 0 ? values[i] : 0;
}

/* delta *= the derivative of the activation, told from what came out of it. */
static void activate_back(const struct net *net, const float *values, float *delta)
{
    const size_t count = net->shape.batch * net->shape.rows;
    if (net->options.activation == MLP_TANH) {
        for (size_t i = 0; i < count; i++)
            delta[i] *= 1 - values[i] * values[i];
        return;
    }
    for (size_t i = 0; i < count; i++)
        delta[i] = values[i] > 0 ? delta[i] : 0;
}

/* The layer's output; the last one has no activation. */
static void forward_layer(struct net *net, size_t i)
{
    struct forward product = {.shape = net->shape,
                              .w = net->layers[i].weights,
                              .bias = net->layers[i].bias,
                              .x = net->values[i],
                              .y = net->values[i + 1]};
    kernel_forward(net->kernel, &product, net->scratch);
    if (i + 1 < net->options.layers)
        activate(net, net->values[i + 1]);
}

static tri_status forward(struct net *net, tri_error *err)
{
    for (size_t i = 0; i < net->options.layers; i++) {
        tri_status status = tri_sync(net->job, net->layers[i].number, err);
        if (status != TRI_OK)
            return status;
        forward_layer(net, i);
    }
    return TRI_OK;
}

static void load(struct net *net, uint64_t first)
{
    data_batch(&net->data, first, net->shape.batch, net->values[0], net->targets, net->scratch);
}

/* The loss of a sample is half the mean square of its errors: each output's share of
 * the gradient is its error / width. */
static void loss_back(const struct net *net, float *delta)
{
    const float *outputs = net->values[net->options.layers];
    const float scale = 1 / (float)net->shape.rows;
    for (size_t i = 0; i < net->shape.batch * net->shape.rows; i++)
        delta[i] = scale * (outputs[i] - net->targets[i]);
}

/* On `batch` samples that no rank trains with, so equal on all ranks and with any union.
 * All layers are synced. */
static double test_loss(struct net *net)
{
    const struct shape shape = net->shape;
    net->shape.batch = net->options.batch;
    load(net, FIRST_TEST_DATA);
    for (size_t i = 0; i < net->options.layers; i++)
        forward_layer(net, i);
    const size_t count = net->shape.batch * shape.rows;
    const float *outputs = net->values[net->options.layers];
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double error = outputs[i] - net->targets[i];
        sum += error * error;
    }
    net->shape = shape;
    return sum / (2 * (double)count);
}

static void make_dense(struct net *net, size_t i, const float *delta)
{
    struct layer *layer = &net->layers[i];
    struct gradient product = {
        .shape = net->shape, .dy = delta, .x = net->values[i], .g = layer->dense};
    kernel_gradient(net->kernel, &product, net->scratch);
    memset(layer->dense_bias, 0, net->shape.rows * sizeof(float));
    for (size_t k = 0; k < net->shape.batch; k++)
        for (size_t m = 0; m < net->shape.rows; m++)
            layer->dense_bias[m] += delta[k * net->shape.rows + m];
}

static tri_status give(struct net *net, size_t i, const float *delta, tri_error *err)
{
    tri_update_info update = TRI_UPDATE_INIT;
    update.count = (uint32_t)net->shape.batch;
    update.lr = (float)net->options.lr;
    update.params_busy = i > 0; /* the first layer's input needs no gradient */
    if (net->options.give == MLP_DENSE) {
        make_dense(net, i, delta);
        update.dense = net->layers[i].dense;
        update.dense_bias = net->layers[i].dense_bias;
    } else {
        update.u = delta;
        update.v = net->values[i];
        update.factor_rows = (uint32_t)net->shape.batch;
    }
    return tri_update(net->job, net->layers[i].number, &update, err);
}

static tri_status backward(struct net *net, tri_error *err)
{
    float *delta = net->deltas[0], *before = net->deltas[1];
    loss_back(net, delta);
    for (size_t i = net->options.layers; i-- > 0;) {
        tri_status status = give(net, i, delta, err);
        if (status != TRI_OK)
            return status;
        if (i == 0)
            break;
        struct backward product = {
            .shape = net->shape, .w = net->layers[i].weights, .dy = delta, .dx = before};
        kernel_backward(net->kernel, &product, net->scratch);
        activate_back(net, net->values[i], before);
        float *swap = delta;
        delta = before;
        before = swap;
    }
    return TRI_OK;
}

/* ---- the job ---- */

static tri_status describe(struct net *net, tri_error *err)
{
    for (size_t i = 0; i < net->options.layers; i++) {
        struct layer *layer = &net->layers[i];
        snprintf(layer->name, sizeof layer->name, "fc%zu", i + 1);
        tri_layer_info info = TRI_LAYER_INIT;
        info.name = layer->name;
        info.rows = (uint32_t)net->shape.rows;
        info.cols = (uint32_t)net->shape.cols;
        info.max_factor_rows = net->options.give == MLP_FACTORS ? (uint32_t)net->shape.batch : 0;
        info.weights = layer->weights;
        info.bias = layer->bias;
        tri_status status = tri_layer(net->job, &info, &layer->number, err);
        if (status != TRI_OK)
            return status;
    }
    return tri_start(net->job, err);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Rank r of W takes the r-th part of each global batch, which begins where the last ended. */
static tri_status step(struct net *net, uint64_t *clock, tri_error *err)
{
    const uint64_t ranks = tri_workers(net->job);
    load(net, (*clock * ranks + tri_rank(net->job)) * net->shape.batch);
    tri_status status = forward(net, err);
    if (status == TRI_OK)
        status = backward(net, err);
    return status == TRI_OK ? tri_clock(net->job, clock, err) : status;
}

static tri_status sync_all(struct net *net, tri_error *err)
{
    tri_status status = TRI_OK;
    for (size_t i = 0; i < net->options.layers && status == TRI_OK; i++)
        status = tri_sync(net->job, net->layers[i].number, err);
    return status;
}

/* The first of several steps is not timed: it touches much memory for the first time. */
static tri_status train(struct net *net, struct result *result, tri_error *err)
{
    const uint64_t steps = net->options.steps;
    tri_stats stats;
    tri_get_stats(net->job, &stats);
    uint64_t clock = stats.clocks, timed_from = 0; /* not 0 where a job is resumed */
    double start_s = now_s();
    while (clock < steps) {
        tri_status status = step(net, &clock, err);
        if (status != TRI_OK)
            return status;
        if (timed_from == 0 && clock < steps) {
            timed_from = clock;
            start_s = now_s();
        }
    }
    tri_status status = sync_all(net, err);
    result->seconds = now_s() - start_s;
    result->clocks = clock;
    result->timed_samples =
        (double)((clock - timed_from) * tri_workers(net->job)) * (double)net->shape.batch;
    return status;
}

static tri_status run(struct net *net, struct result *result, tri_error *err)
{
    tri_options options = TRI_OPTIONS_INIT;
    options.scheme = net->options.scheme;
    tri_status status = tri_open(&options, &net->job, err);
    if (status == TRI_OK)
        status = describe(net, err);
    if (status != TRI_OK)
        return status;
    result->first_loss = test_loss(net);
    status = train(net, result, err);
    if (status == TRI_OK)
        status = tri_checksum(net->job, &result->crc, err);
    if (status == TRI_OK)
        result->loss = test_loss(net);
    return status;
}

/* ---- what came out ---- */

static void print_schemes(const struct net *net, const char *quote)
{
    for (size_t i = 0; i < net->options.layers; i++)
        printf("%s%s%s%s:%s%s%s", i > 0 ? "," : "", quote, net->layers[i].name, quote, quote,
               tri_scheme_of(net->job, net->layers[i].number), quote);
}

static void print_json(const struct net *net, const struct result *r)
{
    const struct mlp_options *o = &net->options;
    tri_stats stats;
    tri_get_stats(net->job, &stats);
    printf("{\"example\":\"mlp\",\"rank\":%u,\"workers\":%u,\"hidden\":%zu,\"layers\":%zu,",
           tri_rank(net->job), tri_workers(net->job), net->shape.rows, (size_t)o->layers);
    printf("\"batch\":%zu,\"union\":%zu,\"activation\":\"%s\",\"give\":\"%s\",", (size_t)o->batch,
           (size_t)o->stacked, mlp_activation_name(o->activation), mlp_give_name(o->give));
    printf("\"kernel\":\"%s\",\"clocks\":%zu,\"first_loss\":%.9g,\"loss\":%.9g,",
           kernel_name(net->kernel), (size_t)r->clocks, r->first_loss, r->loss);
    printf("\"samples_per_s\":%.6g,\"seconds\":%.6g,\"wait_s\":%.6g,\"sent_bytes\":%zu,",
           r->timed_samples / r->seconds, r->seconds, stats.wait_s, (size_t)stats.sent_bytes);
    printf("\"schemes\":{");
    print_schemes(net, "\"");
    printf("},\"params_crc32c\":\"%08x\"}\n", r->crc);
}

static void print_text(const struct net *net, const struct result *r)
{
    printf("rank %u of %u: loss %.4g, was %.4g, after %zu steps; %.4g samples/s; ",
           tri_rank(net->job), tri_workers(net->job), r->loss, r->first_loss, (size_t)r->clocks,
           r->timed_samples / r->seconds);
    print_schemes(net, "");
    printf("; parameters %08x\n", r->crc);
}

int main(int argc, char **argv)
{
    static struct net net;
    int code = mlp_options_read(argc, argv, &net.options);
    if (code != 0)
        return code;
    if (net.options.help) {
        mlp_options_help();
        return 0;
    }
    net.kernel = kernel_at(0);
    net.shape = (struct shape){.rows = net.options.hidden,
                               .cols = net.options.hidden,
                               .batch = net.options.batch * net.options.stacked};
    net.data =
        (struct data){.kernel = net.kernel, .seed = net.options.seed, .width = net.options.hidden};
    if (map(&net) != 0)
        return 1;
    data_init(&net.data);
    init_weights(&net);

    struct result result = {0};
    tri_error err;
    if (run(&net, &result, &err) != TRI_OK)
        code = report_error("mlp", &err);
    else if (net.options.json)
        print_json(&net, &result);
    else
        print_text(&net, &result);
    tri_close(net.job);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "mlp: cannot write the result\n  try:   another place for stdout\n");
        return 1;
    }
    return code;
}
