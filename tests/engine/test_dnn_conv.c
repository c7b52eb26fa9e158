/* engine/conv: convolutions against naive loops in doubles, and against differences. */
#include "engine/graph.h"

struct trial {
    uint32_t batch;
    struct shape3 in;
    struct op_conv conv;
    bool laid_out; /* the input lies as oneDNN likes it */
};

struct net {
    const struct trial *trial;
    struct shape3 out;
};

static const struct trial trials[] = {
    {1, {1, 7, 7}, {3, 3, 1, 1, true, false}, false},
    {3, {1, 9, 6}, {17, 5, 1, 2, true, true}, false},
    {3, {3, 9, 9}, {5, 5, 1, 2, true, true}, false},
    {1, {3, 8, 11}, {8, 3, 2, 1, true, false}, false},
    {3, {5, 9, 9}, {17, 3, 2, 1, true, true}, false},
    {1, {17, 6, 7}, {5, 3, 1, 1, false, true}, false},
    {3, {3, 9, 9}, {17, 5, 2, 2, true, true}, true},
    {1, {5, 7, 8}, {1, 3, 1, 0, true, false}, true},
    {3, {17, 5, 5}, {17, 3, 1, 1, true, true}, true},
    {2, {16, 8, 8}, {32, 1, 2, 0, false, false}, true},
    {3, {16, 8, 8}, {24, 5, 1, 2, true, true}, true},
    {2, {32, 6, 6}, {16, 3, 2, 1, true, true}, true},
};

static struct shape3 out_shape(const struct trial *t)
{
    const struct op_conv *c = &t->conv;
    return (struct shape3){c->filters, (t->in.height + 2 * c->pad - c->kernel) / c->stride + 1,
                           (t->in.width + 2 * c->pad - c->kernel) / c->stride + 1};
}

/* The numbers of the two values that a weight joins; false: outside the image. */
struct join {
    size_t in, weight, out;
};

static bool join_next(const struct net *net, size_t *k, struct join *join)
{
    const struct trial *t = net->trial;
    const struct op_conv *c = &t->conv;
    size_t n = (*k)++;
    const size_t kx = n % c->kernel, ky = (n /= c->kernel) % c->kernel;
    const size_t channel = (n /= c->kernel) % t->in.channels;
    const size_t x = (n /= t->in.channels) % net->out.width;
    const size_t y = (n /= net->out.width) % net->out.height;
    const size_t filter = (n /= net->out.height) % c->filters, sample = n / c->filters;
    const size_t row = y * c->stride + ky - c->pad, col = x * c->stride + kx - c->pad;
    join->out = ((sample * c->filters + filter) * net->out.height + y) * net->out.width + x;
    join->weight = ((filter * t->in.channels + channel) * c->kernel + ky) * c->kernel + kx;
    join->in = ((sample * t->in.channels + channel) * t->in.height + row) * t->in.width + col;
    return row < t->in.height && col < t->in.width; /* below 0 is far above */
}

static size_t joins(const struct net *net)
{
    const struct trial *t = net->trial;
    return t->batch * shape3_floats(net->out) * t->in.channels * t->conv.kernel * t->conv.kernel;
}

static void conv_reference(const void *ctx, const double *in, const double *weights,
                           const double *bias, double *out)
{
    const struct net *net = ctx;
    const struct trial *t = net->trial;
    const size_t area = (size_t)net->out.height * net->out.width;
    const size_t count = t->batch * shape3_floats(net->out);
    for (size_t i = 0; i < count; i++)
        out[i] = t->conv.bias ? bias[i / area % t->conv.filters] : 0;
    struct join j;
    for (size_t k = 0, end = joins(net); k < end;)
        if (join_next(net, &k, &j))
            out[j.out] += in[j.in] * weights[j.weight];
    for (size_t i = 0; t->conv.relu && i < count; i++)
        out[i] = out[i] > 0 ? out[i] : 0;
}

struct gradients {
    double *in, *weights, *bias;
};

/* diff: masked already. */
static void conv_backward(const struct net *net, const double *in, const double *weights,
                          const double *diff, const struct gradients *to)
{
    const size_t area = (size_t)net->out.height * net->out.width;
    const size_t count = net->trial->batch * shape3_floats(net->out);
    for (size_t i = 0; i < count; i++)
        to->bias[i / area % net->out.channels] += diff[i];
    struct join j;
    for (size_t k = 0, end = joins(net); k < end;)
        if (join_next(net, &k, &j)) {
            to->in[j.in] += diff[j.out] * weights[j.weight];
            to->weights[j.weight] += diff[j.out] * in[j.in];
        }
}

static void mask(double *diff, const double *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        diff[i] = out[i] > 0 ? diff[i] : 0;
}

static void compare(struct graph *g, const struct trial *t, struct op *in, struct op *op)
{
    const struct op *last = g->ops[g->count - 1];
    const struct net net = {.trial = t, .out = out_shape(t)};
    const struct param *param = op->param;
    const size_t ins = values(in), outs = values(last), weights = param->rows * (size_t)param->cols;
    assert_int_equal(last->out.shape.height, net.out.height);
    assert_int_equal(last->out.shape.width, net.out.width);
    double *x = widen(in->out.data, ins), *w = widen(param->weights, weights);
    double *b = param->bias == NULL ? doubles(1) : widen(param->bias, param->rows);
    double *out = doubles(outs), *diff = widen(last->diff.data, outs);
    const double *gradient = widen(last->diff.data, outs);
    struct gradients want = {doubles(ins), doubles(weights), doubles(param->rows)};
    conv_reference(&net, x, w, b, out);
    check("out", last->out.data, out, outs, param->cols);
    if (t->conv.relu)
        mask(diff, out, outs);
    conv_backward(&net, x, w, diff, &want);
    check("weight gradient", param->dense, want.weights, weights, outs / param->rows);
    if (t->conv.bias)
        check("bias gradient", param->dense_bias, want.bias, param->rows, outs / param->rows);
    check("diff", in->diff.data, want.in, ins, param->cols);
    const struct numeric n = {conv_reference, &net, x, w, b, gradient, outs};
    probe(&n, &g->rng, "weights", w, param->dense, weights);
    probe(&n, &g->rng, "in", x, in->diff.data, ins);
    probe(&n, &g->rng, "bias", b, param->dense_bias, t->conv.bias ? param->rows : 0);
    double *all[] = {x, w, b, out, diff, (double *)gradient, want.in, want.weights, want.bias};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

TEST(convolutions_equal_naive_loops_and_differences)
{
    (void)state;
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
        const struct trial *t = &trials[i];
        struct graph g = graph_new(i + 1);
        struct op *in = source(&g, t->batch, t->in);
        struct op *op = conv(&g, t->laid_out ? same(&g, in) : in, &t->conv);
        plain(&g, op);
        iterate(&g);
        compare(&g, t, in, op);
        graph_free(&g);
    }
}

TEST(new_weights_are_used_by_the_next_iteration)
{
    (void)state;
    const struct trial *t = &trials[8];
    struct graph g = graph_new(7);
    struct op *in = source(&g, t->batch, t->in);
    struct op *op = conv(&g, same(&g, in), &t->conv);
    plain(&g, op);
    iterate(&g);
    fill(&g.rng, op->param->weights, (size_t)op->param->rows * op->param->cols);
    fill(&g.rng, op->param->bias, op->param->rows);
    fill(&g.rng, in->out.data, values(in));
    iterate(&g);
    compare(&g, t, in, op);
    graph_free(&g);
}

TEST(gradients_of_two_users_add_up)
{
    (void)state;
    const struct trial *t = &trials[8];
    for (int laid_out = 0; laid_out < 2; laid_out++) {
        struct graph g = graph_new(7);
        struct op *in = source(&g, t->batch, t->in);
        struct op *from = laid_out ? same(&g, in) : in;
        struct op *a = conv(&g, from, &t->conv), *b = conv(&g, from, &t->conv);
        const struct op_frame frame = frame_of(&mem_libc, t->batch);
        struct op *sum = NULL;
        assert_int_equal(op_add_new(&frame, a, b, false, &sum, NULL), TRI_OK);
        plain(&g, keep(&g, sum));
        iterate(&g);
        const struct net net = {.trial = t, .out = out_shape(t)};
        const size_t ins = values(in), outs = values(sum),
                     weights = a->param->rows * (size_t)a->param->cols;
        struct gradients want = {doubles(ins), doubles(weights), doubles(a->param->rows)};
        double *x = widen(in->out.data, ins), *out = doubles(outs), *both = doubles(outs);
        struct op *users[] = {a, b};
        for (size_t i = 0; i < 2; i++) {
            double *w = widen(users[i]->param->weights, weights);
            double *bias = widen(users[i]->param->bias, a->param->rows);
            double *diff = widen(g.ops[g.count - 1]->diff.data, outs);
            conv_reference(&net, x, w, bias, out);
            for (size_t k = 0; k < outs; k++)
                both[k] += out[k];
            mask(diff, out, outs);
            conv_backward(&net, x, w, diff, &want);
            free(w), free(bias), free(diff);
        }
        check("sum", g.ops[g.count - 1]->out.data, both, outs, a->param->cols);
        check("diff of both", in->diff.data, want.in, ins, 2 * (size_t)a->param->cols);
        free(x), free(out), free(both), free(want.in), free(want.weights), free(want.bias);
        graph_free(&g);
    }
}

TEST(the_first_convolution_has_no_diff_to_give)
{
    (void)state;
    struct graph g = graph_new(7);
    struct op *in = source(&g, 2, (struct shape3){3, 8, 8});
    op_free_plain(in);
    in->wants_diff = false;
    assert_true(op_make_plain(in, (struct shape3){3, 8, 8}));
    fill(&g.rng, in->out.data, values(in));
    plain(&g, conv(&g, in, &(struct op_conv){8, 3, 1, 1, true, true}));
    iterate(&g);
    assert_false(in->diff_written);
    assert_null(in->diff.data);
    graph_free(&g);
}

TEST(impossible_convolutions_are_refused_by_name)
{
    (void)state;
    static const struct op_conv bad[] = {{0, 3, 1, 1, true, true}, {8, 0, 1, 0, true, true},
                                         {8, 3, 0, 1, true, true}, {8, 3, 1, 3, true, true},
                                         {8, 9, 1, 1, true, true}, {8, 70000, 1, 0, true, true}};
    struct graph g = graph_new(7);
    struct op *in = source(&g, 2, (struct shape3){3, 6, 6});
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct op_frame frame = frame_of(&mem_libc, 2);
        struct op *op = NULL;
        tri_error err = {0};
        assert_int_equal(op_conv_new(&frame, in, &bad[i], &op, &err), TRI_EARG);
        assert_null(op);
        assert_non_null(strstr(err.text, "tested"));
    }
    const struct op_frame other = frame_of(&mem_libc, 3);
    struct op *op = NULL;
    assert_int_equal(op_conv_new(&other, in, &(struct op_conv){8, 3, 1, 1, true, true}, &op, NULL),
                     TRI_EARG);
    graph_free(&g);
}

TEST(refused_memory_is_no_memory_and_no_leak)
{
    (void)state;
    struct graph g = graph_new(7);
    struct op *in = source(&g, 2, (struct shape3){17, 6, 6});
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        const struct op_frame frame = frame_of(&fault.mem, 2);
        struct op *op = NULL;
        tri_status st =
            op_conv_new(&frame, in, &(struct op_conv){8, 3, 1, 1, true, true}, &op, NULL);
        assert_int_equal(st, fault.hit ? TRI_ENOMEM : TRI_OK);
        op_free(op);
    }
    assert_true(fault.run > 8);
    graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_equal_naive_loops_and_differences),
        cmocka_unit_test(new_weights_are_used_by_the_next_iteration),
        cmocka_unit_test(gradients_of_two_users_add_up),
        cmocka_unit_test(the_first_convolution_has_no_diff_to_give),
        cmocka_unit_test(impossible_convolutions_are_refused_by_name),
        cmocka_unit_test(refused_memory_is_no_memory_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
