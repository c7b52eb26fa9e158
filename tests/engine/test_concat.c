/* engine/concat: vectors side by side, and their gradients back. */
#include "engine/check.h"

enum { BATCH = 3, PARTS = 3 };

TEST(vectors_lie_side_by_side_and_each_gets_its_gradient_back)
{
    (void)state;
    static const uint32_t widths[PARTS] = {2, 5, 1};
    const struct op_frame frame = check_frame(&mem_libc, BATCH);
    struct op *in[PARTS], *op = NULL;
    for (size_t i = 0; i < PARTS; i++)
        in[i] = check_source(BATCH, (struct shape3){widths[i], 1, 1}, i);
    assert_int_equal(op_concat_new(&frame, in, PARTS, &op, NULL), TRI_OK);
    assert_int_equal(op->out.shape.channels, 8);
    check_writes(op, 9);
    for (size_t k = 0; k < BATCH; k++) {
        assert_memory_equal(op->out.data + 8 * k, in[0]->out.data + 2 * k, 2 * sizeof(float));
        assert_memory_equal(op->out.data + 8 * k + 2, in[1]->out.data + 5 * k, 5 * sizeof(float));
        assert_float_equal(op->out.data[8 * k + 7], in[2]->out.data[k], 0);
    }
    for (size_t i = 0; i < PARTS; i++)
        check_slope(op, in[i]->out.data, in[i]->diff.data, check_values(in[i]), 9);
    check_adds(op);
    op_free(op);
    for (size_t i = 0; i < PARTS; i++)
        op_free(in[i]);
}

TEST(one_vector_twice_gets_the_sum)
{
    (void)state;
    const struct op_frame frame = check_frame(&mem_libc, BATCH);
    struct op *in = check_source(BATCH, (struct shape3){4, 1, 1}, 2), *op = NULL;
    struct op *both[2] = {in, in};
    assert_int_equal(op_concat_new(&frame, both, 2, &op, NULL), TRI_OK);
    check_pass(op, 9);
    check_slope(op, in->out.data, in->diff.data, check_values(in), 9);
    op_free(op);
    op_free(in);
}

TEST(shapes_that_do_not_fit_are_refused)
{
    (void)state;
    const struct op_frame frame = check_frame(&mem_libc, BATCH), other = check_frame(&mem_libc, 1);
    struct op *in = check_source(BATCH, (struct shape3){4, 1, 1}, 2), *op = NULL;
    struct op *many[OP_INPUTS + 1];
    for (size_t i = 0; i <= OP_INPUTS; i++)
        many[i] = in;
    assert_int_equal(op_concat_new(&frame, many, 0, &op, NULL), TRI_EARG);
    assert_int_equal(op_concat_new(&frame, many, OP_INPUTS + 1, &op, NULL), TRI_EARG);
    assert_int_equal(op_concat_new(&other, many, 1, &op, NULL), TRI_EARG);
    assert_null(op);
    op_free(in);
}

TEST(refused_memory_leaves_nothing_behind)
{
    (void)state;
    struct op *in = check_source(BATCH, (struct shape3){4, 1, 1}, 2);
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        const struct op_frame frame = check_frame(&fault.mem, BATCH);
        struct op *op = NULL;
        tri_status status = op_concat_new(&frame, &in, 1, &op, NULL);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        op_free(op);
    }
    op_free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_lie_side_by_side_and_each_gets_its_gradient_back),
        cmocka_unit_test(one_vector_twice_gets_the_sum),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(refused_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
