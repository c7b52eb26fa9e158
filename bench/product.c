/* Does the factor product keep up with a library's matrix product?
 *
 * Both add alpha u'v straight into W on one thread: ours as chains in a fixed
 * order, OpenBLAS in whatever order its tiles ask for. */
#include "math/product.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/rng.h"
#include "bench/harness.h"
#include "bench/openblas.h"

enum { MAX_CASES = 8, QUICK_CASES = 4, MAX_DEPTH = 1024, ALIGN_FLOATS = 16 };

static const float learning_rate = 1e-3F;

static const struct shape {
    size_t m, n, depth;
} shapes[MAX_CASES] = {
    {4096, 4096, 32},  {4096, 4096, 64},  {4096, 4096, 256},  {4096, 4096, 1024},
    {25088, 4096, 32}, {25088, 4096, 64}, {25088, 4096, 256}, {25088, 4096, 1024},
};

struct state {
    float *w, *u, *v; /* as allocated: room for the largest case, shared by all */
    void *scratch;
    struct openblas blas;
    char note[160];
    char names[MAX_CASES][32];
    struct work {
        struct product product;
        struct product_block block;
        struct state *state;
    } works[MAX_CASES];
    struct bench_case cases[MAX_CASES];
};

static void run(void *ctx)
{
    struct work *work = ctx;
    product_add(&work->product, 0, work->product.m, work->state->scratch);
}

static void multiply(const struct work *work, float alpha)
{
    const struct product *p = &work->product;
    const struct product_block *b = &work->block;
    work->state->blas.sgemm(OPENBLAS_ROW_MAJOR, OPENBLAS_TRANSPOSED, OPENBLAS_AS_IS, (int)p->m,
                            (int)p->n, (int)b->rows, alpha, b->u, (int)p->m, b->v, (int)p->n, 1,
                            p->w, (int)p->stride);
}

static void baseline(void *ctx)
{
    const struct work *work = ctx;
    multiply(work, work->product.alpha);
}

/* What our side puts into an empty W, the other takes out again, but for rounding:
 * at most one rounding of the largest sum per link of the chain, on both sides.
 * Factors are in [-1, 1). */
static bool same(void *ctx)
{
    const struct work *work = ctx;
    const struct product *p = &work->product;
    const size_t count = p->m * p->n;
    const double depth = (double)work->block.rows;
    const double most = 2 * depth * depth * 0x1p-24 * (double)learning_rate;
    for (size_t i = 0; i < count; i++)
        p->w[i] = 0;
    run(ctx);
    double size = 0, left = 0;
    for (size_t i = 0; i < count; i++)
        size += fabs((double)p->w[i]);
    multiply(work, -p->alpha);
    for (size_t i = 0; i < count; i++)
        left += fabs((double)p->w[i]) <= most ? 0 : 1; /* counts a NaN, too */
    /* A third is the mean square of a factor: sums are about sqrt(depth)/3. */
    return left == 0 && size > 0.1 * sqrt(depth) * (double)learning_rate * (double)count;
}

static void product_close(const struct mem *mem, struct bench_plan *plan)
{
    struct state *state = plan->state;
    openblas_close(&state->blas);
    mem_free(mem, state->scratch);
    mem_free(mem, state->v);
    mem_free(mem, state->u);
    mem_free(mem, state->w);
    mem_free(mem, state);
}

/* As frameworks lay out their tensors: at the beginning of a cache line. */
static float *aligned(float *at)
{
    return at + (ALIGN_FLOATS - (uintptr_t)at / sizeof *at % ALIGN_FLOATS) % ALIGN_FLOATS;
}

static void fill(float *at, size_t count, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    for (size_t i = 0; i < count; i++)
        at[i] = (float)(2 * rng_unit(&rng) - 1);
}

/* Room for the largest case; false when refused. */
static bool reserve(const struct mem *mem, struct state *state, const struct shape *largest)
{
    const size_t u_count = largest->m * MAX_DEPTH, v_count = largest->n * MAX_DEPTH;
    state->w = mem_array(mem, largest->m * largest->n + ALIGN_FLOATS, sizeof(float));
    state->u = mem_array(mem, u_count + ALIGN_FLOATS, sizeof(float));
    state->v = mem_array(mem, v_count + ALIGN_FLOATS, sizeof(float));
    state->scratch = mem_array(mem, product_scratch_bytes(), 1);
    if (state->w == NULL || state->u == NULL || state->v == NULL || state->scratch == NULL)
        return false;
    fill(aligned(state->u), u_count, 1);
    fill(aligned(state->v), v_count, 2);
    return true;
}

static void set_case(struct state *state, size_t i)
{
    const struct shape *shape = &shapes[i];
    struct work *work = &state->works[i];
    *work = (struct work){
        .product = {.blocks = &work->block,
                    .count = 1,
                    .m = shape->m,
                    .n = shape->n,
                    .w = aligned(state->w),
                    .stride = shape->n,
                    .alpha = -learning_rate},
        .block = {.u = aligned(state->u), .v = aligned(state->v), .rows = shape->depth},
        .state = state,
    };
    (void)snprintf(state->names[i], sizeof state->names[i], "%zux%zu, K %zu", shape->m, shape->n,
                   shape->depth);
    state->cases[i] = (struct bench_case){
        .name = state->names[i],
        .work = 2e-9 * (double)shape->m * (double)shape->n * (double)shape->depth,
        .run = run,
        .baseline = baseline,
        .same = same,
        .ctx = work,
    };
}

static tri_status product_open(const struct mem *mem, const struct bench_wish *wish,
                               struct bench_plan *plan, tri_error *err)
{
    struct state *state = mem_array(mem, 1, sizeof *state);
    if (state == NULL)
        return fail_nomem(err, "the benchmark");
    tri_status status = openblas_open(&state->blas, err);
    if (status != TRI_OK) {
        mem_free(mem, state);
        return status;
    }
    const char *kernel = product_kernel_name(product_kernel_at(0));
    (void)snprintf(state->note, sizeof state->note, "baseline: %s; ours: kernel %s, 1 thread",
                   state->blas.text, kernel);
    const size_t count = wish->quick ? QUICK_CASES : MAX_CASES;
    *plan = (struct bench_plan){
        .cases = state->cases,
        .count = count,
        .value_name = kernel,
        .baseline_name = "OpenBLAS",
        .note = state->note,
        .state = state,
    };
    if (!reserve(mem, state, &shapes[count - 1])) {
        product_close(mem, plan);
        return fail_nomem(err, "the matrices");
    }
    for (size_t i = 0; i < count; i++)
        set_case(state, i);
    return TRI_OK;
}

extern const struct bench bench_product;
const struct bench bench_product = {
    .name = "product",
    .summary = "does the factor product keep up with a library's matrix product?",
    .unit = "GFLOP/s",
    .repeats = 7,
    .open = product_open,
    .close = product_close,
};
