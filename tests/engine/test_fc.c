/* engine/fc: the plain chain, factors, and gradients by differences. */
#include "engine/check.h"

struct sizes {
    uint32_t batch, outputs;
    struct shape3 in;
    bool relu;
};

static struct op *fc_of(const struct sizes *s, struct op *in, uint64_t seed)
{
    const struct op_frame frame = check_frame(&mem_libc, s->batch);
    struct op *op = NULL;
    assert_int_equal(op_fc_new(&frame, in, s->outputs, s->relu, &op, NULL), TRI_OK);
    check_fill_param(op->param, seed);
    return op;
}

static void equal_plain(const struct op *op, bool relu)
{
    const struct param *p = op->param;
    const float *x = op->in[0]->out.data;
    for (uint32_t k = 0; k < op->batch; k++)
        for (uint32_t m = 0; m < p->rows; m++) {
            float sum = p->bias[m];
            for (uint32_t n = 0; n < p->cols; n++)
                sum = fmaf(p->weights[(size_t)m * p->cols + n], x[(size_t)k * p->cols + n], sum);
            sum = relu && sum < 0 ? 0 : sum;
            assert_float_equal(op->out.data[(size_t)k * p->rows + m], sum, 0);
        }
}

static void check(const struct sizes *s, uint64_t seed)
{
    struct op *in = check_source(s->batch, s->in, seed), *op = fc_of(s, in, seed + 1);
    struct param *p = op->param;
    check_pass(op, seed + 2);
    equal_plain(op, s->relu);
    assert_int_equal(p->kind, TRI_FC);
    assert_int_equal(p->factor_rows, s->batch);
    assert_ptr_equal(p->u, op->diff.data);
    assert_ptr_equal(p->v, in->out.data);
    assert_null(p->dense);
    check_slope(op, in->out.data, in->diff.data, check_values(in), seed + 2);
    float *g = check_product(p);
    check_slope(op, p->weights, g, (size_t)p->rows * p->cols, seed + 2);
    free(g);
    float *bias = calloc((size_t)p->rows + 1, sizeof *bias);
    assert_non_null(bias);
    for (size_t i = 0; i < (size_t)s->batch * p->rows; i++)
        bias[i % p->rows] += p->u[i];
    check_slope(op, p->bias, bias, p->rows, seed + 2);
    free(bias);
    op_free(op);
    op_free(in);
}

TEST(gradients_are_those_of_the_forward_pass)
{
    (void)state;
    static const struct sizes all[] = {
        {1, 1, {1, 1, 1}, false}, {1, 17, {3, 2, 3}, true},   {2, 9, {35, 1, 1}, true},
        {5, 8, {8, 1, 1}, false}, {33, 5, {2, 3, 3}, true},   {4, 21, {13, 1, 1}, true},
        {3, 7, {1, 5, 1}, true},  {40, 3, {33, 1, 1}, false},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        check(&all[i], 10 * i);
}

TEST(the_first_user_of_an_input_writes_and_the_second_adds)
{
    (void)state;
    for (uint32_t batch = 1; batch < 8; batch++) {
        const struct sizes s = {batch, 6, {5, 2, 1}, true};
        struct op *in = check_source(s.batch, s.in, 1), *op = fc_of(&s, in, 2);
        check_writes(op, 3);
        check_pass(op, 3);
        check_adds(op);
        op_free(op);
        op_free(in);
    }
}

TEST(a_sample_s_gradient_has_the_same_bits_in_any_batch)
{
    (void)state;
    enum { MOST = 20, OUTPUTS = 70, INPUTS = 53 };
    for (uint32_t batch = 1; batch <= MOST; batch++) {
        const struct sizes s = {batch, OUTPUTS, {INPUTS, 1, 1}, true};
        struct op *in = check_source(batch, s.in, 1), *op = fc_of(&s, in, 2);
        check_pass(op, 3);
        for (size_t i = 0; i < check_values(in); i++) {
            float sum = 0;
            for (size_t m = 0; m < OUTPUTS; m++)
                sum = fmaf(op->diff.data[i / INPUTS * OUTPUTS + m],
                           op->param->weights[m * INPUTS + i % INPUTS], sum);
            assert_true(in->diff.data[i] == sum);
        }
        op_free(op);
        op_free(in);
    }
}

TEST(an_input_that_wants_no_gradient_gets_none)
{
    (void)state;
    const struct op_frame frame = check_frame(&mem_libc, 2);
    struct op *in = NULL;
    assert_int_equal(op_input_new(&frame, (struct shape3){4, 1, 1}, &in, NULL), TRI_OK);
    assert_null(in->diff.data);
    check_fill(in->out.data, 8, 3);
    struct op *op = fc_of(&(struct sizes){2, 3, {4, 1, 1}, true}, in, 4);
    check_pass(op, 5);
    assert_false(in->diff_written);
    op_free(op);
    op_free(in);
}

TEST(shapes_that_do_not_fit_are_refused)
{
    (void)state;
    const struct op_frame frame = check_frame(&mem_libc, 2), other = check_frame(&mem_libc, 3);
    struct op *in = check_source(2, (struct shape3){4, 1, 1}, 1), *op = NULL;
    tri_error err;
    assert_int_equal(op_fc_new(&frame, in, 0, true, &op, &err), TRI_EARG);
    assert_non_null(strstr(err.text, "'tested'"));
    assert_int_equal(op_fc_new(&other, in, 3, true, &op, &err), TRI_EARG);
    assert_int_equal(op_input_new(&frame, (struct shape3){4, 0, 1}, &op, &err), TRI_EARG);
    assert_null(op);
    op_free(in);
}

TEST(refused_memory_leaves_nothing_behind)
{
    (void)state;
    struct op *in = check_source(2, (struct shape3){4, 1, 1}, 1);
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        const struct op_frame frame = check_frame(&fault.mem, 2);
        struct op *first = NULL, *op = NULL;
        tri_status status = op_input_new(&frame, in->out.shape, &first, NULL);
        if (status == TRI_OK)
            status = op_fc_new(&frame, in, 3, true, &op, NULL);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        op_free(op);
        op_free(first);
    }
    op_free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_forward_pass),
        cmocka_unit_test(the_first_user_of_an_input_writes_and_the_second_adds),
        cmocka_unit_test(a_sample_s_gradient_has_the_same_bits_in_any_batch),
        cmocka_unit_test(an_input_that_wants_no_gradient_gets_none),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(refused_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
