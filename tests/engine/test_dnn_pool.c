/* engine/pool: maxima and averages against naive loops in doubles, and against differences. */
#include "engine/graph.h"
#include "engine/window.h"

struct trial {
    uint32_t batch;
    struct shape3 in;
    struct op_pool pool;
    uint32_t height, width; /* of the output */
    bool laid_out;
};

static const struct trial trials[] = {
    {1, {1, 6, 6}, {false, 2, 2, 0, false}, 3, 3, false},
    {3, {3, 7, 8}, {false, 3, 2, 0, false}, 3, 3, false},
    {3, {3, 8, 9}, {true, 3, 2, 0, true}, 4, 4, false},
    {3, {5, 32, 32}, {false, 3, 2, 0, true}, 16, 16, true},
    {1, {17, 16, 15}, {true, 3, 2, 0, true}, 8, 7, true},
    {3, {8, 9, 9}, {false, 3, 2, 1, false}, 5, 5, true},
    {3, {17, 9, 10}, {true, 3, 2, 1, true}, 5, 6, true},
    {1, {3, 5, 5}, {true, 5, 1, 2, false}, 5, 5, true},
    {2, {16, 5, 6}, {false, 2, 3, 1, true}, 2, 3, true}, /* no window begins behind the image */
    {2, {8, 8, 8}, {true, 8, 1, 0, false}, 1, 1, true},
    {2, {8, 7, 7}, {false, 2, 3, 0, true}, 3, 3, true},
};

/* The value of a window whose largest, or whose number of values, is wanted too. */
static double pool_at(const struct trial *t, const double *plane, size_t y, size_t x,
                      size_t *largest, size_t *count)
{
    const struct op_pool *p = &t->pool;
    double sum = 0, max = -INFINITY;
    *count = 0;
    for (size_t k = 0; k < (size_t)p->kernel * p->kernel; k++) {
        const size_t row = y * p->stride + k / p->kernel - p->pad;
        const size_t col = x * p->stride + k % p->kernel - p->pad;
        if (row >= t->in.height || col >= t->in.width)
            continue;
        const size_t at = row * t->in.width + col;
        sum += plane[at];
        ++*count;
        if (plane[at] > max) {
            max = plane[at];
            *largest = at;
        }
    }
    return p->average ? sum / (double)*count : max;
}

static void pool_reference(const void *ctx, const double *in, const double *weights,
                           const double *bias, double *out)
{
    const struct trial *t = ctx;
    const size_t area = (size_t)t->height * t->width, full = (size_t)t->in.height * t->in.width;
    size_t largest = 0, count = 0;
    (void)weights;
    (void)bias;
    for (size_t i = 0; i < (size_t)t->batch * t->in.channels * area; i++)
        out[i] =
            pool_at(t, in + i / area * full, i % area / t->width, i % t->width, &largest, &count);
}

static void pool_backward(const struct trial *t, const double *in, const double *diff, double *to)
{
    const struct op_pool *p = &t->pool;
    const size_t area = (size_t)t->height * t->width, full = (size_t)t->in.height * t->in.width;
    for (size_t i = 0; i < (size_t)t->batch * t->in.channels * area; i++) {
        const size_t y = i % area / t->width, x = i % t->width, plane = i / area * full;
        size_t largest = 0, count = 0;
        (void)pool_at(t, in + plane, y, x, &largest, &count);
        if (!p->average)
            to[plane + largest] += diff[i];
        for (size_t k = 0; p->average && k < (size_t)p->kernel * p->kernel; k++) {
            const size_t row = y * p->stride + k / p->kernel - p->pad;
            const size_t col = x * p->stride + k % p->kernel - p->pad;
            if (row < t->in.height && col < t->in.width)
                to[plane + row * t->in.width + col] += diff[i] / (double)count;
        }
    }
}

static struct op *pool(struct graph *g, struct op *in, const struct op_pool *like)
{
    const struct op_frame frame = frame_of(&mem_libc, in->batch);
    struct op *op = NULL;
    assert_int_equal(op_pool_new(&frame, in, like, &op, NULL), TRI_OK);
    return keep(g, op);
}

TEST(pools_equal_naive_loops_and_differences)
{
    (void)state;
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
        const struct trial *t = &trials[i];
        struct graph g = graph_new(i + 1);
        struct op *in = source(&g, t->batch, t->in);
        pool(&g, t->laid_out ? same(&g, in) : in, &t->pool);
        struct op *last = plain(&g, g.ops[g.count - 1]);
        assert_int_equal(last->out.shape.height, t->height);
        assert_int_equal(last->out.shape.width, t->width);
        iterate(&g);
        const size_t ins = values(in), outs = values(last);
        double *x = widen(in->out.data, ins), *diff = widen(last->diff.data, outs);
        double *out = doubles(outs), *want = doubles(ins);
        pool_reference(t, x, NULL, NULL, out);
        check("out", last->out.data, out, outs, 9);
        pool_backward(t, x, diff, want);
        check("diff", in->diff.data, want, ins, 9);
        const struct numeric n = {pool_reference, t, x, NULL, NULL, diff, outs};
        probe(&n, &g.rng, "in", x, in->diff.data, ins);
        free(x), free(diff), free(out), free(want);
        graph_free(&g);
    }
}

/* relu fused into the convolution before: pools see to the mask, once each. */
static void check_masked(const struct trial *t, bool second_user)
{
    struct graph g = graph_new(3);
    struct op *in = source(&g, t->batch, t->in);
    struct op *conv1 = same(&g, in);
    const struct op_conv like = {t->in.channels, 1, 1, 0, false, true};
    struct op *fused = conv(&g, conv1, &like);
    const size_t weights = (size_t)fused->param->rows * fused->param->cols;
    memcpy(fused->param->weights, conv1->param->weights, weights * sizeof(float));
    const struct op_frame frame = frame_of(&mem_libc, t->batch);
    struct op *a = pool(&g, fused, &t->pool), *b = a, *sum = NULL;
    if (second_user) /* at a place of its own: same values, but nobody knows of a relu */
        b = pool(&g, same(&g, fused), &t->pool);
    assert_int_equal(op_add_new(&frame, a, b, false, &sum, NULL), TRI_OK);
    struct op *last = plain(&g, keep(&g, sum));
    iterate(&g);
    const size_t ins = values(in), outs = values(last);
    double *x = widen(in->out.data, ins), *diff = widen(last->diff.data, outs);
    double *want = doubles(ins);
    for (size_t i = 0; i < ins; i++)
        x[i] = x[i] > 0 ? x[i] : 0;
    for (size_t i = 0; i < outs; i++)
        diff[i] *= 2;
    pool_backward(t, x, diff, want);
    for (size_t i = 0; i < ins; i++)
        want[i] = x[i] > 0 ? want[i] : 0;
    check("masked diff", in->diff.data, want, ins, 9);
    free(x), free(diff), free(want);
    graph_free(&g);
}

TEST(a_relu_before_a_pool_gets_its_mask_from_it)
{
    (void)state;
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++)
        for (int second = 0; second < 2; second++)
            check_masked(&trials[i], second != 0);
}

TEST(a_sum_with_relu_before_a_pool_gets_its_mask_from_it)
{
    (void)state;
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
        const struct trial *t = &trials[i];
        struct graph g = graph_new(i + 1);
        struct op *in = source(&g, t->batch, t->in), *from = t->laid_out ? same(&g, in) : in;
        const struct op_frame frame = frame_of(&mem_libc, t->batch);
        struct op *sum = NULL;
        assert_int_equal(op_add_new(&frame, from, from, true, &sum, NULL), TRI_OK);
        struct op *last = plain(&g, pool(&g, keep(&g, sum), &t->pool));
        iterate(&g);
        assert_int_equal(sum->masking, 1);
        const size_t ins = values(in);
        double *x = widen(in->out.data, ins), *diff = widen(last->diff.data, values(last));
        double *want = doubles(ins);
        for (size_t k = 0; k < ins; k++)
            x[k] = x[k] > 0 ? x[k] : 0;
        pool_backward(t, x, diff, want);
        for (size_t k = 0; k < ins; k++)
            want[k] = x[k] > 0 ? 2 * want[k] : 0;
        check("masked diff", in->diff.data, want, ins, 9);
        free(x), free(diff), free(want);
        graph_free(&g);
    }
}

/* Images, a convolution and maxima; `users`: how many look at the convolution. */
struct peaked {
    uint32_t batch;
    struct shape3 in;
    struct op_conv conv;
    struct op_pool pool;
    int users;
};

static const struct peaked peaked[] = {
    {3, {3, 12, 11}, {32, 5, 1, 2, true, true}, {false, 3, 2, 0, true}, 1},
    {2, {1, 9, 9}, {5, 5, 1, 0, true, false}, {false, 2, 2, 0, false}, 1},
    {1, {3, 10, 10}, {17, 3, 2, 1, false, true}, {false, 3, 2, 1, true}, 1},
    {2, {5, 4, 3}, {8, 1, 1, 0, true, true}, {false, 2, 1, 1, false}, 1},
    {2, {2, 2, 2}, {8, 3, 1, 1, true, true}, {false, 15, 1, 14, false}, 1},
    {3, {3, 12, 11}, {32, 5, 1, 2, true, true}, {false, 3, 2, 0, true}, 2},
};

/* A gradient of the weights, then of the bias; with the help of peaks, or without. */
static void weigh_peaked(const struct peaked *t, bool dense, double *weights, double *bias)
{
    struct graph g = graph_new(11);
    struct op *in = source(&g, t->batch, t->in);
    op_floats_free(in->mem, in->diff.data);
    in->diff.data = NULL;
    in->wants_diff = false;
    struct op *op = conv(&g, in, &t->conv);
    if (dense)
        op->takes_peaks = false;
    struct op *above = pool(&g, op, &t->pool);
    if (t->users > 1) {
        const struct op_frame frame = frame_of(&mem_libc, t->batch);
        struct op *sum = NULL;
        assert_int_equal(op_add_new(&frame, above, pool(&g, op, &t->pool), false, &sum, NULL), 0);
        above = keep(&g, sum);
    }
    plain(&g, above);
    iterate(&g);
    assert_int_equal(op->peaks != NULL, op->takes_peaks && t->users == 1);
    for (size_t i = 0; i < (size_t)op->param->rows * op->param->cols; i++)
        weights[i] = op->param->dense[i];
    for (size_t i = 0; t->conv.bias && i < op->param->rows; i++)
        bias[i] = op->param->dense_bias[i];
    graph_free(&g);
}

TEST(peaks_give_the_gradient_that_a_dense_diff_gives)
{
    (void)state;
    for (size_t i = 0; i < sizeof peaked / sizeof peaked[0]; i++) {
        static double weights[2][4096], bias[2][64];
        for (int dense = 0; dense < 2; dense++)
            weigh_peaked(&peaked[i], dense != 0, weights[dense], bias[dense]);
        for (size_t k = 0; k < 4096; k++)
            assert_true(fabs(weights[0][k] - weights[1][k]) < 1e-4);
        for (size_t k = 0; k < 64; k++)
            assert_true(fabs(bias[0][k] - bias[1][k]) < 1e-4);
    }
}

TEST(vectors_and_single_lanes_give_the_same_bits)
{
    (void)state;
    struct window w = {.planes = 3,
                       .lanes = 16,
                       .in_height = 9,
                       .in_width = 10,
                       .out_height = 5,
                       .out_width = 6,
                       .kernel = 3,
                       .stride = 2,
                       .pad = 1};
    enum { IN = 3 * 16 * 90, OUT = 3 * 16 * 30 };
    static float in[IN], out[2][OUT], diff[OUT], back[2][IN], average[2][OUT], average_back[2][IN];
    static uint8_t which[2][OUT];
    struct rng rng;
    rng_init(&rng, 5);
    for (size_t i = 0; i < IN; i++) /* few values: the first of equal ones counts */
        in[i] = (float)rng_below(&rng, 5) - 1;
    for (size_t i = 0; i < OUT; i++)
        diff[i] = (float)draw(&rng);
    for (int i = 0; i < 2; i++) {
        w.plain = i == 1;
        window_max(&w, in, out[i], which[i]);
        window_max_back(&w, diff, which[i], out[i], back[i], false);
        window_max_back(&w, diff, which[i], NULL, back[i], true);
        window_average(&w, in, average[i]);
        window_average_back(&w, diff, in, average_back[i], false);
        window_average_back(&w, diff, NULL, average_back[i], true);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    assert_memory_equal(which[0], which[1], sizeof which[0]);
    assert_memory_equal(back[0], back[1], sizeof back[0]);
    assert_memory_equal(average[0], average[1], sizeof average[0]);
    assert_memory_equal(average_back[0], average_back[1], sizeof average_back[0]);
}

TEST(impossible_pools_are_refused_by_name)
{
    (void)state;
    static const struct op_pool bad[] = {{false, 0, 1, 0, false},  {false, 2, 0, 0, false},
                                         {false, 2, 2, 2, false},  {true, 9, 1, 1, false},
                                         {false, 16, 1, 8, false}, {true, 70000, 1, 69999, true}};
    struct graph g = graph_new(1);
    struct op *in = source(&g, 2, (struct shape3){3, 6, 6});
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct op_frame frame = frame_of(&mem_libc, 2);
        struct op *op = NULL;
        tri_error err = {0};
        assert_int_equal(op_pool_new(&frame, in, &bad[i], &op, &err), TRI_EARG);
        assert_null(op);
        assert_non_null(strstr(err.text, "tested"));
    }
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
        tri_status st = op_pool_new(&frame, in, &trials[0].pool, &op, NULL);
        assert_int_equal(st, fault.hit ? TRI_ENOMEM : TRI_OK);
        op_free(op);
    }
    assert_true(fault.run > 4);
    graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_equal_naive_loops_and_differences),
        cmocka_unit_test(a_relu_before_a_pool_gets_its_mask_from_it),
        cmocka_unit_test(a_sum_with_relu_before_a_pool_gets_its_mask_from_it),
        cmocka_unit_test(peaks_give_the_gradient_that_a_dense_diff_gives),
        cmocka_unit_test(vectors_and_single_lanes_give_the_same_bits),
        cmocka_unit_test(impossible_pools_are_refused_by_name),
        cmocka_unit_test(refused_memory_is_no_memory_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
