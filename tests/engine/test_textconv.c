/* engine/textconv and math/textconv: every kernel gives the bits of the plain chain, and the
 * gradients are those of the forward pass. */
#include "math/textconv.h"

#include "engine/check.h"

static size_t windows(const struct textconv_shape *s)
{
    return s->length + s->window - 1;
}

/* Window q of a text, where what lies outside is zero. */
static float plain(const struct textconv_best *p, size_t k, size_t f, size_t q)
{
    const struct textconv_shape *s = &p->shape;
    float sum = p->bias[f];
    for (size_t j = 0; j < s->window; j++)
        for (size_t d = 0; d < s->width; d++) {
            const size_t at = q + j;
            const bool inside = at >= s->window - 1 && at - (s->window - 1) < s->length;
            float x = inside ? p->x[(k * s->length + at - (s->window - 1)) * s->width + d] : 0;
            sum = fmaf(p->w[(f * s->window + j) * s->width + d], x, sum);
        }
    return sum;
}

static float *numbers(size_t count, uint64_t seed)
{
    float *at = malloc(count * sizeof *at);
    assert_non_null(at);
    check_fill(at, count, seed);
    return at;
}

static void equal_plain(const struct textconv_best *p, const char *kernel)
{
    const struct textconv_shape *s = &p->shape;
    for (size_t k = 0; k < s->batch; k++)
        for (size_t f = 0; f < s->filters; f++) {
            size_t at = 0;
            float best = plain(p, k, f, 0);
            for (size_t q = 1; q < windows(s); q++) {
                const float x = plain(p, k, f, q);
                at = x > best ? q : at;
                best = x > best ? x : best;
            }
            if (p->best[k * s->filters + f] != best || p->at[k * s->filters + f] != at)
                fail_msg("%s: filter %zu of text %zu: %a at %u, not %a at %zu", kernel, f, k,
                         (double)p->best[k * s->filters + f], p->at[k * s->filters + f],
                         (double)best, at);
        }
}

static void check_kernels(const struct textconv_shape *s, uint64_t seed)
{
    float *w = numbers(s->filters * s->window * s->width, seed);
    float *bias = numbers(s->filters, seed + 1),
          *x = numbers(s->batch * s->length * s->width, seed);
    float *best = numbers(s->batch * s->filters, seed);
    uint32_t *at = malloc(s->batch * s->filters * sizeof *at);
    assert_non_null(at);
    const size_t floats = textconv_scratch_floats(s);
    float *scratch = malloc(floats * sizeof *scratch);
    assert_non_null(scratch);
    struct textconv_best p = {
        .shape = *s, .w = w, .bias = bias, .x = x, .best = best, .at = at, .first = seed % 100};
    for (size_t i = 0; dense_kernel_at(i) != NULL; i++) {
        memset(scratch, 0xFF, floats * sizeof *scratch);
        textconv_forward(dense_kernel_at(i), &p, scratch);
        equal_plain(&p, dense_kernel_name(dense_kernel_at(i)));
    }
    float *all[] = {w, bias, x, best, scratch};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    free(at);
}

TEST(every_kernel_finds_the_plain_maximum)
{
    (void)state;
    static const struct textconv_shape shapes[] = {
        {1, 1, 1, 1, 1},   {7, 3, 5, 4, 2},    {50, 5, 12, 12, 1}, {49, 4, 9, 21, 2},
        {13, 2, 8, 40, 3}, {100, 3, 17, 7, 9}, {3, 6, 4, 2, 5},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        check_kernels(&shapes[i], 10 * i);
}

TEST(of_equal_windows_the_first_wins)
{
    (void)state;
    const struct textconv_shape shape = {
        .filters = 3, .window = 2, .width = 4, .length = 20, .batch = 2};
    float w[24] = {0}, bias[3] = {1, 2, 3}, x[160], best[6];
    uint32_t at[6] = {9, 9, 9, 9, 9, 9};
    check_fill(x, 160, 1);
    float *scratch = malloc(textconv_scratch_floats(&shape) * sizeof *scratch);
    assert_non_null(scratch);
    struct textconv_best p = {.shape = shape, .w = w, .bias = bias, .x = x, .best = best, .at = at};
    textconv_forward(dense_kernel_at(0), &p, scratch);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(at[i], 0);
        assert_float_equal(best[i], bias[i % 3], 0);
    }
    free(scratch);
}

static struct op *conv_of(struct op *in, uint32_t filters, uint32_t window, uint64_t seed)
{
    const struct op_frame frame = check_frame(&mem_libc, in->batch);
    struct op *op = NULL;
    assert_int_equal(op_textconv_new(&frame, in, filters, window, &op, NULL), TRI_OK);
    check_fill_param(op->param, seed);
    return op;
}

static void check(uint32_t batch, struct shape3 shape, uint32_t filters, uint32_t window,
                  uint64_t seed)
{
    struct op *in = check_source(batch, shape, seed), *op = conv_of(in, filters, window, seed + 1);
    struct param *p = op->param;
    for (uint32_t f = 0; f < filters; f++) /* so that some are off */
        p->bias[f] = f % 3 == 0 ? -100 : p->bias[f] - 1;
    check_writes(op, seed + 2);
    check_slope(op, in->out.data, in->diff.data, check_values(in), seed + 2);
    check_slope(op, p->weights, p->dense, (size_t)p->rows * p->cols, seed + 2);
    check_slope(op, p->bias, p->dense_bias, p->rows, seed + 2);
    check_pass(op, seed + 2);
    check_adds(op);
    op_free(op);
    op_free(in);
}

TEST(gradients_are_those_of_the_forward_pass)
{
    (void)state;
    check(1, (struct shape3){1, 1, 1}, 2, 1, 1);
    check(2, (struct shape3){6, 1, 5}, 10, 3, 20);
    check(3, (struct shape3){2, 1, 9}, 8, 4, 30);
    check(5, (struct shape3){9, 1, 3}, 7, 2, 40);
}

/* A gradient of the step before must not stay, whatever was on then. */
TEST(the_gradient_holds_one_step_only)
{
    (void)state;
    struct op *in = check_source(2, (struct shape3){5, 1, 4}, 3), *op = conv_of(in, 6, 3, 4);
    const size_t count = (size_t)op->param->rows * op->param->cols;
    for (uint64_t turn = 0; turn < 6; turn++) {
        check_fill(in->out.data, check_values(in), 100 + turn);
        for (uint32_t f = 0; f < 6; f++)
            op->param->bias[f] = (turn + f) % 3 == 0 ? -100 : 0;
        check_pass(op, turn);
        struct op *fresh = conv_of(in, 6, 3, 4);
        memcpy(fresh->param->bias, op->param->bias, 6 * sizeof(float));
        check_pass(fresh, turn);
        assert_memory_equal(op->param->dense, fresh->param->dense, count * sizeof(float));
        assert_memory_equal(op->param->dense_bias, fresh->param->dense_bias, 6 * sizeof(float));
        op_free(fresh);
    }
    op_free(op);
    op_free(in);
}

/* The windows of the gradient multiplied out, sample after sample: the chain of the dense one. */
static void multiply(const struct param *p, uint32_t f, float *to, float *bias)
{
    for (uint32_t n = 0; n < p->cols; n++)
        to[n] = 0;
    *bias = 0;
    for (uint32_t k = 0; k < p->factor_rows; k++) {
        const float by = p->u[(size_t)k * p->rows + f];
        const uint32_t at = p->at[(size_t)k * p->rows + f];
        assert_true(at + p->cols <= p->window_floats);
        const float *from = p->v + (size_t)k * p->window_floats + at;
        for (uint32_t n = 0; n < p->cols; n++)
            to[n] = fmaf(by, from[n], to[n]);
        *bias += by;
    }
}

static void check_windows(uint32_t batch, struct shape3 shape, uint32_t filters, uint32_t window,
                          uint64_t seed)
{
    struct op *in = check_source(batch, shape, seed), *dense = conv_of(in, filters, window, seed),
              *op = conv_of(in, filters, window, seed);
    struct param *p = op->param, *wanted = dense->param;
    float *row = malloc(p->cols * sizeof *row), bias;
    float *diff = malloc(check_values(in) * sizeof *diff);
    assert_non_null(row);
    assert_non_null(diff);
    assert_int_equal(p->factor_rows, 0);
    op_give_windows(op);
    assert_null(p->dense);
    for (uint64_t turn = 0; turn < 3; turn++) {
        check_fill(in->out.data, check_values(in), seed + turn);
        for (uint32_t f = 0; f < filters; f++)
            p->bias[f] = wanted->bias[f] = (turn + f) % 3 == 0 ? -100 : 0.25F;
        check_pass(dense, turn);
        memcpy(diff, in->diff.data, check_values(in) * sizeof *diff);
        check_pass(op, turn);
        assert_memory_equal(diff, in->diff.data, check_values(in) * sizeof *diff);
        assert_int_equal(p->factor_rows, batch);
        assert_int_equal(p->window_floats, (shape.channels + 2 * (window - 1)) * shape.width);
        for (uint32_t f = 0; f < filters; f++) {
            multiply(p, f, row, &bias);
            for (uint32_t n = 0; n < p->cols; n++)
                assert_true(row[n] == wanted->dense[(size_t)f * p->cols + n]);
            assert_true(bias == wanted->dense_bias[f]);
        }
    }
    free(row);
    free(diff);
    op_free(dense);
    op_free(op);
    op_free(in);
}

TEST(windows_multiplied_out_are_the_dense_gradient)
{
    (void)state;
    for (uint32_t batch = 1; batch <= 3; batch += 2) {
        check_windows(batch, (struct shape3){1, 1, 1}, 2, 1, 1);
        check_windows(batch, (struct shape3){9, 1, 5}, 50, 3, 20);
        check_windows(batch, (struct shape3){2, 1, 9}, 8, 4, 30); /* shorter than a window */
        check_windows(batch, (struct shape3){1, 1, 3}, 7, 6, 40);
    }
}

TEST(a_sample_has_the_same_bits_in_any_batch)
{
    (void)state;
    struct op *in = check_source(7, (struct shape3){9, 1, 6}, 3), *op = conv_of(in, 11, 4, 4);
    struct op *one = check_source(1, (struct shape3){9, 1, 6}, 3), *alone = conv_of(one, 11, 4, 4);
    op->kind->forward(op, true);
    for (size_t k = 0; k < 7; k++) {
        memcpy(one->out.data, in->out.data + k * 54, 54 * sizeof(float));
        alone->kind->forward(alone, true);
        assert_memory_equal(alone->out.data, op->out.data + k * 11, 11 * sizeof(float));
    }
    struct op *all[] = {op, in, alone, one};
    for (size_t i = 0; i < 4; i++)
        op_free(all[i]);
}

TEST(shapes_that_do_not_fit_are_refused)
{
    (void)state;
    const struct op_frame frame = check_frame(&mem_libc, 2), other = check_frame(&mem_libc, 3);
    struct op *in = check_source(2, (struct shape3){5, 1, 4}, 3), *op = NULL;
    struct op *image = check_source(2, (struct shape3){5, 2, 4}, 3);
    assert_int_equal(op_textconv_new(&frame, in, 0, 3, &op, NULL), TRI_EARG);
    assert_int_equal(op_textconv_new(&frame, in, 3, 0, &op, NULL), TRI_EARG);
    assert_int_equal(op_textconv_new(&other, in, 3, 3, &op, NULL), TRI_EARG);
    assert_int_equal(op_textconv_new(&frame, image, 3, 3, &op, NULL), TRI_EARG);
    assert_null(op);
    op_free(in);
    op_free(image);
}

TEST(refused_memory_leaves_nothing_behind)
{
    (void)state;
    struct op *in = check_source(2, (struct shape3){5, 1, 4}, 3);
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        const struct op_frame frame = check_frame(&fault.mem, 2);
        struct op *op = NULL;
        tri_status status = op_textconv_new(&frame, in, 3, 2, &op, NULL);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        op_free(op);
    }
    op_free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_finds_the_plain_maximum),
        cmocka_unit_test(of_equal_windows_the_first_wins),
        cmocka_unit_test(gradients_are_those_of_the_forward_pass),
        cmocka_unit_test(the_gradient_holds_one_step_only),
        cmocka_unit_test(windows_multiplied_out_are_the_dense_gradient),
        cmocka_unit_test(a_sample_has_the_same_bits_in_any_batch),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(refused_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
