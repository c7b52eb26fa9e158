/* Checks of operators: sources of values, and gradients against differences of the forward pass.
 *
 * The loss of a check is the sum of the operator's outputs, each times a weight of its own; the
 * weights are what the operator finds in its diff. */
#ifndef TRIDENT_TESTS_ENGINE_CHECK_H
#define TRIDENT_TESTS_ENGINE_CHECK_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/op.h"
#include "lib/test.h"

static inline struct op_frame check_frame(const struct mem *mem, uint32_t batch)
{
    return (struct op_frame){.mem = mem, .name = "tested", .batch = batch};
}

static inline size_t check_values(const struct op *op)
{
    return op->batch * shape3_floats(op->out.shape);
}

static inline void check_fill(float *at, size_t count, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    for (size_t i = 0; i < count; i++)
        at[i] = (float)(2 * rng_unit(&rng) - 1);
}

static inline void check_fill_param(struct param *param, uint64_t seed)
{
    check_fill(param->weights, (size_t)param->rows * param->cols, seed);
    if (param->bias != NULL)
        check_fill(param->bias, param->rows, seed + 1);
}

static inline void check_no_forward(struct op *op, bool training)
{
    (void)op;
    (void)training;
}

/* Random values that want a gradient. */
static inline struct op *check_source(uint32_t batch, struct shape3 shape, uint64_t seed)
{
    static const struct op_kind kind = {
        .name = "source", .forward = check_no_forward, .free = op_free_plain};
    struct op *op = op_new(&mem_libc, &kind, "source", batch, NULL, 0, true);
    assert_non_null(op);
    assert_true(op_make_plain(op, shape));
    check_fill(op->out.data, check_values(op), seed);
    return op;
}

/* Forward, then weigh and backward with random diffs. */
static inline void check_pass(struct op *op, uint64_t seed)
{
    for (size_t i = 0; i < op->in_count; i++)
        op->in[i]->diff_written = false;
    op->kind->forward(op, true);
    check_fill(op->diff.data, check_values(op), seed);
    if (op->kind->weigh != NULL)
        op->kind->weigh(op);
    op->kind->backward(op);
}

static inline double check_loss(struct op *op, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    double loss = 0;
    op->kind->forward(op, true);
    for (size_t i = 0; i < check_values(op); i++)
        loss += (double)(float)(2 * rng_unit(&rng) - 1) * (double)op->out.data[i];
    return loss;
}

static inline bool check_near(double a, double b)
{
    return fabs(a - b) <= 4e-3 * (1 + fabs(b));
}

/* Is got[i] how fast the loss grows with value[i]? `seed` is that of check_pass(). Where relu or
 * a maximum turns between the two ends, one side of the middle has the slope. */
static inline void check_slope(struct op *op, float *value, const float *got, size_t count,
                               uint64_t seed)
{
    const double step = 0x1p-10;
    const double middle = check_loss(op, seed);
    for (size_t i = 0; i < count; i++) {
        const float keep = value[i];
        value[i] = keep + (float)step;
        const double above = (check_loss(op, seed) - middle) / step;
        value[i] = keep - (float)step;
        const double below = (middle - check_loss(op, seed)) / step;
        value[i] = keep;
        if (!check_near((double)got[i], (above + below) / 2) &&
            !check_near((double)got[i], above) && !check_near((double)got[i], below))
            fail_msg("slope %zu is %g, not %g to %g", i, (double)got[i], below, above);
    }
}

/* The gradient that u and v stand for; to be freed. */
static inline float *check_product(const struct param *param)
{
    float *g = calloc((size_t)param->rows * param->cols, sizeof *g);
    assert_non_null(g);
    for (uint32_t k = 0; k < param->factor_rows; k++)
        for (uint32_t m = 0; m < param->rows; m++)
            for (uint32_t n = 0; n < param->cols; n++)
                g[(size_t)m * param->cols + n] +=
                    param->u[(size_t)k * param->rows + m] * param->v[(size_t)k * param->cols + n];
    return g;
}

/* backward() once more must add to what is there. Of one input, right after check_pass(). */
static inline void check_adds(struct op *op)
{
    struct op *in = op->in[0];
    const size_t count = check_values(in);
    float *once = malloc(count * sizeof *once);
    assert_non_null(once);
    assert_true(in->diff_written);
    memcpy(once, in->diff.data, count * sizeof *once);
    for (size_t i = 0; i < count; i++)
        in->diff.data[i] = (float)(i % 7);
    op->kind->backward(op);
    for (size_t i = 0; i < count; i++)
        assert_float_equal(in->diff.data[i], (float)(i % 7) + once[i], 1e-5F);
    free(once);
}

/* The first user of an input writes: what was there before does not count. */
static inline void check_writes(struct op *op, uint64_t seed)
{
    struct op *in = op->in[0];
    const size_t count = check_values(in);
    check_pass(op, seed);
    float *clean = malloc(count * sizeof *clean);
    assert_non_null(clean);
    memcpy(clean, in->diff.data, count * sizeof *clean);
    for (size_t i = 0; i < count; i++)
        in->diff.data[i] = NAN;
    check_pass(op, seed);
    assert_memory_equal(in->diff.data, clean, count * sizeof *clean);
    free(clean);
}

#endif
