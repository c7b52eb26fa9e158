/* What do the library's calls cost one worker that needs none of them?
 *
 * The same loop twice, in this process: with the calls, which then make the step, and without,
 * the step made by hand with the same arithmetic. Both end with the same weights, bit by bit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "bench/crew.h"
#include "bench/fcnet.h"
#include "bench/harness.h"

enum { SMALL_LAYERS = 5, CASES = 3 };
#define TURN_S 0.1

/* CIFAR-10 quick, as models/cifar10_quick.json has it. */
static const struct {
    const char *name;
    tri_kind kind;
    uint32_t rows, cols;
} small_layers[SMALL_LAYERS] = {{"conv1", TRI_CONV, 32, 75},
                                {"conv2", TRI_CONV, 32, 800},
                                {"conv3", TRI_CONV, 64, 800},
                                {"ip1", TRI_FC, 64, 1024},
                                {"ip2", TRI_FC, 10, 64}};
enum { SMALL_FLOATS = 145578 };

/* What 100 samples cost, 69.4 MFLOP each, as products of this shape. */
enum { STAND_IN_WIDTH = 1024, STAND_IN_BATCH = 32, STAND_IN_CALLS = 103 };

/* One of the two loops over the small net. */
struct small {
    tri_job *job; /* NULL: by hand */
    float *weights, *gradient;
    size_t compute; /* products of the stand-in in each step */
    float *stand_in, *inputs, *outputs, *scratch;
};

struct work {
    bool is_small;
    struct fcnet nets[2]; /* by hand, with the library */
    struct small smalls[2];
};

struct state {
    char note[300];
    struct work works[CASES];
    struct bench_case cases[CASES];
};

/* ---- the small net ---- */

static size_t floats_of(size_t layer)
{
    return (size_t)small_layers[layer].rows * (small_layers[layer].cols + 1);
}

/* restrict: else gcc -O2 makes no vector code of it, and the library looks faster than it is. */
static void step_by_hand(float *restrict weights, const float *restrict gradient, size_t n,
                         float lr)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (size_t k = i; k < i + 16; k++)
            weights[k] -= lr * gradient[k];
    for (; i < n; i++)
        weights[i] -= lr * gradient[i];
}

static tri_status update_small(const struct small *small, uint32_t i, size_t at, tri_error *err)
{
    const float lr = 1e-3F;
    if (small->job == NULL) {
        step_by_hand(small->weights + at, small->gradient + at, floats_of(i), lr);
        return TRI_OK;
    }
    tri_update_info update = TRI_UPDATE_INIT;
    update.dense = small->gradient + at;
    update.dense_bias = update.dense + (size_t)small_layers[i].rows * small_layers[i].cols;
    update.lr = lr;
    return tri_update(small->job, i, &update, err);
}

static void compute(const struct small *small)
{
    struct dense_outputs product = {.shape = {STAND_IN_WIDTH, STAND_IN_WIDTH, STAND_IN_BATCH},
                                    .w = small->stand_in,
                                    .x = small->inputs,
                                    .y = small->outputs};
    for (size_t i = 0; i < small->compute; i++)
        dense_forward(dense_kernel_at(0), &product, small->scratch);
}

static tri_status step_small(const struct small *small, tri_error *err)
{
    tri_status status = TRI_OK;
    size_t at = SMALL_FLOATS;
    for (uint32_t i = 0; small->job != NULL && i < SMALL_LAYERS && status == TRI_OK; i++)
        status = tri_sync(small->job, i, err);
    compute(small);
    for (uint32_t i = SMALL_LAYERS; i-- > 0 && status == TRI_OK;) {
        at -= floats_of(i);
        status = update_small(small, i, at, err);
    }
    if (status == TRI_OK && small->job != NULL)
        status = tri_clock(small->job, NULL, err);
    return status;
}

static tri_status start_small(const struct small *small, tri_error *err)
{
    float *at = small->weights;
    for (size_t i = 0; i < SMALL_LAYERS; i++) {
        uint32_t number;
        tri_layer_info info = TRI_LAYER_INIT;
        info.name = small_layers[i].name;
        info.kind = small_layers[i].kind;
        info.rows = small_layers[i].rows;
        info.cols = small_layers[i].cols;
        info.weights = at;
        info.bias = at + (size_t)info.rows * info.cols;
        at += floats_of(i);
        tri_status status = tri_layer(small->job, &info, &number, err);
        if (status != TRI_OK)
            return status;
    }
    return tri_start(small->job, err);
}

static void fill(float *at, size_t count, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    for (size_t i = 0; i < count; i++)
        at[i] = (float)(2 * rng_unit(&rng) - 1);
}

/* One block, so that both loops meet the same alignment. */
static tri_status open_small(const struct mem *mem, size_t products, struct small *small,
                             tri_error *err)
{
    const struct dense_shape shape = {STAND_IN_WIDTH, STAND_IN_WIDTH, STAND_IN_BATCH};
    const size_t model = ((size_t)SMALL_FLOATS + 15) / 16 * 16,
                 square = (size_t)STAND_IN_WIDTH * STAND_IN_WIDTH;
    const size_t batch = (size_t)STAND_IN_BATCH * STAND_IN_WIDTH;
    float *at = mem_array(mem, 2 * model + square + 2 * batch + dense_scratch_floats(&shape),
                          sizeof(float));
    if (at == NULL)
        return fail_nomem(err, "a net");
    *small = (struct small){.weights = at,
                            .gradient = at + model,
                            .compute = products,
                            .stand_in = at + 2 * model,
                            .inputs = at + 2 * model + square,
                            .outputs = at + 2 * model + square + batch,
                            .scratch = at + 2 * model + square + 2 * batch};
    fill(small->weights, SMALL_FLOATS, 1);
    fill(small->gradient, SMALL_FLOATS, 2);
    fill(small->stand_in, square, 3);
    fill(small->inputs, batch, 4);
    return TRI_OK;
}

/* ---- both ---- */

/* Nothing here can fail but for memory that was there a moment ago, and then the numbers must not
 * be believed. */
static void step(struct work *work, size_t side)
{
    tri_error err;
    tri_status status = work->is_small ? step_small(&work->smalls[side], &err)
                                       : fcnet_step(&work->nets[side], &err);
    if (status != TRI_OK)
        abort();
}

/* Processor time: one thread that waits for nothing, and neighbours that come and go. */
static double used_s(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static tri_status turn(void *ctx, bool baseline, struct bench_sample *out, tri_error *err)
{
    (void)err;
    double start = used_s(), took;
    uint64_t steps = 0, next = 1;
    do {
        for (uint64_t i = 0; i < next; i++)
            step(ctx, baseline ? 0 : 1);
        steps += next;
        next = steps;
        took = used_s() - start;
    } while (took < TURN_S);
    *out = (struct bench_sample){(double)steps / took, (double)NAN};
    return TRI_OK;
}

static bool same_bits(const float *a, const float *b, size_t count)
{
    return memcmp(a, b, count * sizeof *a) == 0;
}

static bool same_nets(struct work *work)
{
    const struct fcnet *a = &work->nets[0], *b = &work->nets[1];
    const size_t width = a->shape.rows;
    tri_error err;
    bool same = fcnet_sync(&work->nets[1], &err) == TRI_OK;
    for (size_t i = 0; i < FCNET_LAYERS; i++)
        same = same && same_bits(a->weights[i], b->weights[i], width * width) &&
               same_bits(a->bias[i], b->bias[i], width);
    return same;
}

static bool same(void *ctx)
{
    struct work *work = ctx;
    for (int i = 0; i < 2; i++) {
        step(work, 0);
        step(work, 1);
    }
    if (!work->is_small)
        return same_nets(work);
    return same_bits(work->smalls[0].weights, work->smalls[1].weights, SMALL_FLOATS);
}

static tri_status open_case(const struct mem *mem, struct work *work, size_t side, size_t width,
                            size_t products, tri_error *err)
{
    struct crew_job alone = {.workers = 1};
    tri_options options = TRI_OPTIONS_INIT;
    options.workers = 1;
    options.rank = 0;
    crew_environment(&alone, 0);
    work->is_small = width == 0;
    tri_status status = work->is_small ? open_small(mem, products, &work->smalls[side], err)
                                       : fcnet_open(&work->nets[side], width, 1, 0, err);
    if (status != TRI_OK || side == 0)
        return status;
    tri_job **job = work->is_small ? &work->smalls[1].job : &work->nets[1].job;
    status = tri_open(&options, job, err);
    if (status == TRI_OK)
        status =
            work->is_small ? start_small(&work->smalls[1], err) : fcnet_start(&work->nets[1], err);
    return status;
}

static void step_close(const struct mem *mem, struct bench_plan *plan)
{
    struct state *state = plan->state;
    for (size_t i = 0; i < CASES; i++)
        for (size_t side = 0; side < 2; side++) {
            fcnet_close(&state->works[i].nets[side]);
            tri_close(state->works[i].smalls[side].job);
            mem_free(mem, state->works[i].smalls[side].weights);
        }
    mem_free(mem, state);
}

static tri_status step_open(const struct mem *mem, const struct bench_wish *wish,
                            struct bench_plan *plan, tri_error *err)
{
    static const struct {
        const char *name;
        size_t width, products;
    } rows[CASES] = {{"4 x 4096, factors of 32 rows", FCNET_WIDTH, 0},
                     {"CIFAR-10 quick, dense, 6.9 GFLOP", 0, STAND_IN_CALLS},
                     {"CIFAR-10 quick, dense, no compute", 0, 0}};
    struct state *state = mem_array(mem, 1, sizeof *state);
    tri_status status = TRI_OK;
    if (state == NULL)
        return fail_nomem(err, "the benchmark");
    (void)snprintf(
        state->note, sizeof state->note,
        "one process, kernel %s; steps in a second of processor time. The 4096-wide net "
        "computes its\nreal forward and backward. CIFAR-10 quick has its layers' sizes, and "
        "matrix products of as many\nFLOP as a batch of 100 stand in for its compute; "
        "without them is the worst case.",
        dense_kernel_name(dense_kernel_at(0)));
    *plan = (struct bench_plan){.cases = state->cases,
                                .count = CASES,
                                .value_name = "with calls",
                                .baseline_name = "bare loop",
                                .note = state->note,
                                .state = state};
    for (size_t i = 0; i < CASES && status == TRI_OK; i++) {
        struct work *work = &state->works[i];
        size_t width = wish->quick ? rows[i].width / 4 : rows[i].width;
        status = open_case(mem, work, 0, width, rows[i].products, err);
        if (status == TRI_OK)
            status = open_case(mem, work, 1, width, rows[i].products, err);
        state->cases[i] =
            (struct bench_case){.name = rows[i].name, .turn = turn, .same = same, .ctx = work};
    }
    if (status != TRI_OK)
        step_close(mem, plan);
    return status;
}

extern const struct bench bench_step;
const struct bench bench_step = {
    .name = "step",
    .summary = "what do the calls cost one worker that needs none of them?",
    .unit = "steps/s",
    .repeats = 20,
    .open = step_open,
    .close = step_close,
};
