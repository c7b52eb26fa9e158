/* engine/norm: batch normalisation against its formulas in doubles, and against differences. */
#include "engine/graph.h"

struct trial {
    uint32_t batch;
    struct shape3 in;
    bool relu, laid_out;
};

static const struct trial trials[] = {
    {3, {1, 5, 4}, false, false}, {3, {3, 4, 4}, true, false}, {1, {5, 6, 6}, false, true},
    {3, {17, 5, 5}, true, true},  {2, {16, 4, 4}, true, true}, {3, {8, 3, 7}, false, true},
    {4, {17, 1, 1}, true, true},
};

static const double epsilon = 1e-5;

/* The number of channel c's k-th value. */
static size_t value(const struct trial *t, size_t c, size_t k)
{
    const size_t area = (size_t)t->in.height * t->in.width;
    return (k / area * t->in.channels + c) * area + k % area;
}

static size_t per_channel(const struct trial *t)
{
    return t->batch * (size_t)t->in.height * t->in.width;
}

static void statistics(const struct trial *t, const double *in, size_t c, double *mean,
                       double *variance)
{
    const size_t n = per_channel(t);
    *mean = *variance = 0;
    for (size_t k = 0; k < n; k++)
        *mean += in[value(t, c, k)] / (double)n;
    for (size_t k = 0; k < n; k++)
        *variance += pow(in[value(t, c, k)] - *mean, 2) / (double)n;
}

static void norm_reference(const void *ctx, const double *in, const double *weights,
                           const double *bias, double *out)
{
    const struct trial *t = ctx;
    for (size_t c = 0; c < t->in.channels; c++) {
        double mean, variance;
        statistics(t, in, c, &mean, &variance);
        for (size_t k = 0; k < per_channel(t); k++) {
            const size_t i = value(t, c, k);
            out[i] = (in[i] - mean) / sqrt(variance + epsilon) * weights[c] + bias[c];
            if (t->relu && out[i] < 0)
                out[i] = 0;
        }
    }
}

struct gradients {
    double *in, *weights, *bias;
};

static void norm_backward(const struct trial *t, const double *in, const double *weights,
                          const double *diff, const struct gradients *to)
{
    const double n = (double)per_channel(t);
    for (size_t c = 0; c < t->in.channels; c++) {
        double mean, variance;
        statistics(t, in, c, &mean, &variance);
        const double scale = 1 / sqrt(variance + epsilon);
        for (size_t k = 0; k < per_channel(t); k++) {
            const size_t i = value(t, c, k);
            to->bias[c] += diff[i];
            to->weights[c] += diff[i] * (in[i] - mean) * scale;
        }
        for (size_t k = 0; k < per_channel(t); k++) {
            const size_t i = value(t, c, k);
            const double normal = (in[i] - mean) * scale;
            to->in[i] =
                weights[c] * scale * (diff[i] - to->bias[c] / n - normal * to->weights[c] / n);
        }
    }
}

static struct op *norm(struct graph *g, struct op *in, bool relu)
{
    const struct op_frame frame = frame_of(&mem_libc, in->batch);
    struct op *op = NULL;
    assert_int_equal(op_norm_new(&frame, in, relu, &op, NULL), TRI_OK);
    fill(&g->rng, op->param->weights, op->param->rows);
    fill(&g->rng, op->param->bias, op->param->rows);
    return keep(g, op);
}

TEST(normalisation_equals_its_formulas_and_differences)
{
    (void)state;
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
        const struct trial *t = &trials[i];
        struct graph g = graph_new(i + 1);
        struct op *in = source(&g, t->batch, t->in);
        struct op *op = norm(&g, t->laid_out ? same(&g, in) : in, t->relu);
        struct op *last = plain(&g, op);
        iterate(&g);
        const size_t count = values(in), channels = t->in.channels;
        double *x = widen(in->out.data, count), *w = widen(op->param->weights, channels);
        double *b = widen(op->param->bias, channels), *out = doubles(count);
        double *diff = widen(last->diff.data, count), *gradient = widen(last->diff.data, count);
        struct gradients want = {doubles(count), doubles(channels), doubles(channels)};
        norm_reference(t, x, w, b, out);
        check("out", last->out.data, out, count, 30);
        for (size_t k = 0; t->relu && k < count; k++)
            diff[k] = out[k] > 0 ? diff[k] : 0;
        norm_backward(t, x, w, diff, &want);
        check("scale gradient", op->param->dense, want.weights, channels, per_channel(t));
        check("shift gradient", op->param->dense_bias, want.bias, channels, per_channel(t));
        check("diff", in->diff.data, want.in, count, per_channel(t));
        const struct numeric n = {norm_reference, t, x, w, b, gradient, count};
        probe(&n, &g.rng, "in", x, in->diff.data, count);
        probe(&n, &g.rng, "scale", w, op->param->dense, channels);
        probe(&n, &g.rng, "shift", b, op->param->dense_bias, channels);
        free(x), free(w), free(b), free(out), free(diff), free(gradient);
        free(want.in), free(want.weights), free(want.bias);
        graph_free(&g);
    }
}

TEST(training_moves_the_running_statistics_and_inference_uses_them)
{
    (void)state;
    const struct trial *t = &trials[3];
    struct graph g = graph_new(9);
    struct op *in = source(&g, t->batch, t->in);
    struct op *op = norm(&g, same(&g, in), t->relu), *last = plain(&g, op);
    const size_t count = values(in), n = per_channel(t);
    double means[17] = {0}, variances[17];
    float *mean, *variance;
    op_norm_running(op, &mean, &variance);
    for (size_t c = 0; c < 17; c++) {
        assert_true(mean[c] == 0 && variance[c] == 1);
        variances[c] = 1;
    }
    for (int round = 0; round < 3; round++) {
        fill(&g.rng, in->out.data, count);
        forward(&g, true);
        double *x = widen(in->out.data, count), m, v;
        for (size_t c = 0; c < 17; c++) {
            statistics(t, x, c, &m, &v);
            means[c] = 0.9 * means[c] + 0.1 * m;
            variances[c] = 0.9 * variances[c] + 0.1 * v * (double)n / (double)(n - 1);
        }
        free(x);
    }
    check("running mean", mean, means, 17, n);
    check("running variance", variance, variances, 17, n);
    forward(&g, false);
    check("running mean after inference", mean, means, 17, n);
    double *x = widen(in->out.data, count), *out = doubles(count);
    for (size_t c = 0; c < 17; c++)
        for (size_t k = 0; k < n; k++) {
            const size_t i = value(t, c, k);
            out[i] = (x[i] - means[c]) / sqrt(variances[c] + epsilon) * op->param->weights[c] +
                     op->param->bias[c];
            out[i] = out[i] > 0 ? out[i] : 0;
        }
    check("inference", last->out.data, out, count, 30);
    free(x), free(out);
    graph_free(&g);
}

TEST(gradients_of_two_users_add_up)
{
    (void)state;
    const struct trial *t = &trials[3];
    struct graph g = graph_new(4);
    struct op *in = source(&g, t->batch, t->in), *from = same(&g, in);
    struct op *users[] = {norm(&g, from, true), norm(&g, from, true)}, *sum = NULL;
    const struct op_frame frame = frame_of(&mem_libc, t->batch);
    assert_int_equal(op_add_new(&frame, users[0], users[1], false, &sum, NULL), TRI_OK);
    struct op *last = plain(&g, keep(&g, sum));
    iterate(&g);
    const size_t count = values(in);
    double *x = widen(in->out.data, count), *want = doubles(count), *out = doubles(count);
    for (size_t u = 0; u < 2; u++) {
        double *w = widen(users[u]->param->weights, 17), *b = widen(users[u]->param->bias, 17);
        double *diff = widen(last->diff.data, count);
        struct gradients one = {doubles(count), doubles(17), doubles(17)};
        norm_reference(t, x, w, b, out);
        for (size_t k = 0; k < count; k++)
            diff[k] = out[k] > 0 ? diff[k] : 0;
        norm_backward(t, x, w, diff, &one);
        for (size_t k = 0; k < count; k++)
            want[k] += one.in[k];
        free(w), free(b), free(diff), free(one.in), free(one.weights), free(one.bias);
    }
    check("diff of both", in->diff.data, want, count, 2 * per_channel(t));
    free(x), free(want), free(out);
    graph_free(&g);
}

TEST(an_input_that_wants_no_diff_gets_none)
{
    (void)state;
    struct graph g = graph_new(4);
    struct op *in = source(&g, 3, trials[3].in);
    op_free_plain(in);
    in->wants_diff = false;
    assert_true(op_make_plain(in, trials[3].in));
    fill(&g.rng, in->out.data, values(in));
    struct op *op = norm(&g, in, false);
    plain(&g, op);
    iterate(&g);
    assert_false(in->diff_written);
    double shift = 0;
    for (size_t k = 0; k < per_channel(&trials[3]); k++)
        shift += g.ops[g.count - 1]->diff.data[value(&trials[3], 5, k)];
    assert_true(fabs(shift - op->param->dense_bias[5]) < 1e-4);
    graph_free(&g);
}

TEST(refused_memory_is_no_memory_and_no_leak)
{
    (void)state;
    struct graph g = graph_new(1);
    struct op *in = source(&g, 2, (struct shape3){3, 6, 6});
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        const struct op_frame frame = frame_of(&fault.mem, 2);
        struct op *op = NULL;
        tri_status st = op_norm_new(&frame, in, true, &op, NULL);
        assert_int_equal(st, fault.hit ? TRI_ENOMEM : TRI_OK);
        op_free(op);
    }
    assert_true(fault.run > 10);
    graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normalisation_equals_its_formulas_and_differences),
        cmocka_unit_test(training_moves_the_running_statistics_and_inference_uses_them),
        cmocka_unit_test(gradients_of_two_users_add_up),
        cmocka_unit_test(an_input_that_wants_no_diff_gets_none),
        cmocka_unit_test(refused_memory_is_no_memory_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
