/* Small nets around one operator, for the tests of those on oneDNN: values go in and come out
 * plain, gradients too, and what they should be is computed in doubles.
 *
 *     source -> [same] -> operator -> plain
 *
 * `same` is a convolution that changes nothing, so that the operator finds its input as oneDNN
 * likes it to lie, padded channels and all. */
#ifndef TRIDENT_TESTS_ENGINE_GRAPH_H
#define TRIDENT_TESTS_ENGINE_GRAPH_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/op.h"
#include "lib/test.h"

enum { GRAPH_OPS = 12, PROBES = 24 };

struct graph {
    struct op *ops[GRAPH_OPS];
    size_t count;
    struct rng rng;
};

static inline struct graph graph_new(uint64_t seed)
{
    struct graph g = {.count = 0};
    rng_init(&g.rng, seed);
    return g;
}

static inline double draw(struct rng *rng)
{
    return 2 * rng_unit(rng) - 1;
}

static inline double *doubles(size_t count)
{
    double *at = calloc(count + 1, sizeof *at);
    assert_non_null(at);
    return at;
}

static inline double *widen(const float *from, size_t count)
{
    double *at = doubles(count);
    for (size_t i = 0; i < count; i++)
        at[i] = from[i];
    return at;
}

static inline void fill(struct rng *rng, float *at, size_t count)
{
    for (size_t i = 0; i < count; i++)
        at[i] = (float)draw(rng);
}

static inline size_t values(const struct op *op)
{
    return op->batch * shape3_floats(op->out.shape);
}

static inline struct op_frame frame_of(const struct mem *mem, uint32_t batch)
{
    return (struct op_frame){.mem = mem, .name = "tested", .batch = batch};
}

static inline void source_free(struct op *op)
{
    op_free_plain(op);
}

static inline struct op *keep(struct graph *g, struct op *op)
{
    assert_true(g->count < GRAPH_OPS);
    g->ops[g->count++] = op;
    return op;
}

/* Plain random values that want a gradient. */
static inline struct op *source(struct graph *g, uint32_t batch, struct shape3 shape)
{
    static const struct op_kind kind = {.name = "source", .free = source_free};
    struct op *op = op_new(&mem_libc, &kind, "source", batch, NULL, 0, true);
    assert_non_null(op);
    assert_true(op_make_plain(op, shape));
    fill(&g->rng, op->out.data, values(op));
    return keep(g, op);
}

static inline struct op *conv(struct graph *g, struct op *in, const struct op_conv *like)
{
    const struct op_frame frame = frame_of(&mem_libc, in->batch);
    struct op *op = NULL;
    assert_int_equal(op_conv_new(&frame, in, like, &op, NULL), TRI_OK);
    fill(&g->rng, op->param->weights, (size_t)op->param->rows * op->param->cols);
    if (op->param->bias != NULL)
        fill(&g->rng, op->param->bias, op->param->rows);
    return keep(g, op);
}

static inline struct op *same(struct graph *g, struct op *in)
{
    const uint32_t channels = in->out.shape.channels;
    struct op *op = conv(g, in, &(struct op_conv){.filters = channels, .kernel = 1, .stride = 1});
    for (uint32_t i = 0; i < channels; i++)
        for (uint32_t j = 0; j < channels; j++)
            op->param->weights[(size_t)i * channels + j] = i == j ? 1.0F : 0.0F;
    return op;
}

static inline struct op *plain(struct graph *g, struct op *in)
{
    const struct op_frame frame = frame_of(&mem_libc, in->batch);
    struct op *op = NULL;
    assert_int_equal(op_plain_new(&frame, in, &op, NULL), TRI_OK);
    return keep(g, op);
}

static inline void forward(struct graph *g, bool training)
{
    for (size_t i = 0; i < g->count; i++) {
        g->ops[i]->diff_written = false;
        if (g->ops[i]->kind->forward != NULL)
            g->ops[i]->kind->forward(g->ops[i], training);
    }
}

/* From the last operator, whose diff the caller wrote; it must be plain. */
static inline void backward(struct graph *g)
{
    g->ops[g->count - 1]->diff_written = true;
    for (size_t i = g->count; i-- > 0;) {
        if (g->ops[i]->kind->weigh != NULL)
            g->ops[i]->kind->weigh(g->ops[i]);
        if (g->ops[i]->kind->backward != NULL)
            g->ops[i]->kind->backward(g->ops[i]);
    }
}

/* A whole iteration with a random gradient at the end; twice, as the second must not see anything
 * of the first. */
static inline void iterate(struct graph *g)
{
    struct op *last = g->ops[g->count - 1];
    fill(&g->rng, last->diff.data, values(last));
    for (int i = 0; i < 2; i++) {
        forward(g, true);
        backward(g);
    }
}

static inline void graph_free(struct graph *g)
{
    while (g->count > 0)
        op_free(g->ops[--g->count]);
}

/* got: of the engine; want: of the reference; equal but for rounding of sums of `terms` terms. */
static inline void check(const char *what, const float *got, const double *want, size_t count,
                         size_t terms)
{
    const double slack = 4e-7 * sqrt((double)terms + 1);
    for (size_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= slack * (3 + fabs(want[i]))))
            fail_msg("%s[%zu] is %.8g, not %.8g", what, i, (double)got[i], want[i]);
}

/* What the reference says of a net with one operator: out from in and parameters. */
typedef void reference_fn(const void *ctx, const double *in, const double *weights,
                          const double *bias, double *out);

struct numeric {
    reference_fn *reference;
    const void *ctx;
    double *in, *weights, *bias; /* changed for a moment */
    const double *gradient;      /* of the output */
    size_t out_count;
};

static inline double loss(const struct numeric *n)
{
    double *out = doubles(n->out_count), sum = 0;
    n->reference(n->ctx, n->in, n->weights, n->bias, out);
    for (size_t i = 0; i < n->out_count; i++)
        sum += out[i] * n->gradient[i];
    free(out);
    return sum;
}

/* Compares gradients with central differences, at some of the places. */
static inline void probe(const struct numeric *n, struct rng *rng, const char *what, double *at,
                         const float *got, size_t count)
{
    const double step = 1e-6;
    for (size_t i = 0; i < PROBES && count > 0; i++) {
        const size_t k = (size_t)rng_below(rng, count);
        const double old = at[k];
        at[k] = old + step;
        double slope = loss(n);
        at[k] = old - step;
        slope = (slope - loss(n)) / (2 * step);
        at[k] = old;
        if (!(fabs(slope - got[k]) <= 2e-4 * (1 + fabs(slope))))
            fail_msg("gradient of %s[%zu] is %.8g, differences say %.8g", what, k, (double)got[k],
                     slope);
    }
}

#endif
