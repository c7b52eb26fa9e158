/* engine/dropout: what is dropped follows from the seed and the sample's number alone. */
#include "engine/check.h"

enum { WIDTH = 501 };

static struct op *dropout_of(struct op *in, float drop, uint64_t seed)
{
    const struct op_frame frame = check_frame(&mem_libc, in->batch);
    struct op *op = NULL;
    assert_int_equal(op_dropout_new(&frame, in, drop, seed, &op, NULL), TRI_OK);
    return op;
}

static struct op *ones(uint32_t batch)
{
    struct op *in = check_source(batch, (struct shape3){WIDTH, 1, 1}, 1);
    for (size_t i = 0; i < check_values(in); i++)
        in->out.data[i] = 1;
    return in;
}

TEST(a_sample_loses_the_same_values_in_any_batch)
{
    (void)state;
    struct op *in = ones(6), *one = ones(1);
    struct op *all = dropout_of(in, 0.3F, 7), *alone = dropout_of(one, 0.3F, 7);
    op_dropout_at(all, 100);
    all->kind->forward(all, true);
    for (uint32_t k = 0; k < 6; k++) {
        op_dropout_at(alone, 100 + k);
        alone->kind->forward(alone, true);
        assert_memory_equal(alone->out.data, all->out.data + (size_t)k * WIDTH,
                            WIDTH * sizeof(float));
    }
    assert_memory_not_equal(all->out.data, all->out.data + WIDTH, WIDTH * sizeof(float));
    op_free(all);
    op_free(alone);
    op_free(in);
    op_free(one);
}

TEST(seeds_differ_and_the_share_is_as_asked)
{
    (void)state;
    struct op *in = ones(20), *a = dropout_of(in, 0.3F, 7), *b = dropout_of(in, 0.3F, 8);
    a->kind->forward(a, true);
    b->kind->forward(b, true);
    size_t dropped = 0;
    for (size_t i = 0; i < check_values(a); i++) {
        dropped += a->out.data[i] == 0;
        assert_true(a->out.data[i] == 0 || fabsf(a->out.data[i] - 1 / 0.7F) < 1e-6F);
    }
    /* 10020 values: 5 standard deviations are 230. */
    assert_in_range(dropped, 3006 - 230, 3006 + 230);
    assert_memory_not_equal(a->out.data, b->out.data, check_values(a) * sizeof(float));
    op_free(a);
    op_free(b);
    op_free(in);
}

TEST(without_training_nothing_is_dropped)
{
    (void)state;
    struct op *in = check_source(2, (struct shape3){5, 3, 1}, 4), *op = dropout_of(in, 0.5F, 7);
    op->kind->forward(op, false);
    assert_memory_equal(op->out.data, in->out.data, check_values(in) * sizeof(float));
    op_free(op);
    op_free(in);
}

TEST(gradients_are_those_of_the_forward_pass)
{
    (void)state;
    struct op *in = check_source(3, (struct shape3){5, 3, 1}, 4), *op = dropout_of(in, 0.4F, 7);
    check_writes(op, 5);
    check_slope(op, in->out.data, in->diff.data, check_values(in), 5);
    check_pass(op, 5);
    check_adds(op);
    op_free(op);
    op_free(in);
}

TEST(impossible_shares_are_refused)
{
    (void)state;
    const struct op_frame frame = check_frame(&mem_libc, 2), other = check_frame(&mem_libc, 1);
    struct op *in = ones(2), *op = NULL;
    const float bad[] = {-0.1F, 1, 2, NAN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(op_dropout_new(&frame, in, bad[i], 1, &op, NULL), TRI_EARG);
    assert_int_equal(op_dropout_new(&other, in, 0.5F, 1, &op, NULL), TRI_EARG);
    assert_null(op);
    op_free(in);
}

TEST(refused_memory_leaves_nothing_behind)
{
    (void)state;
    struct op *in = ones(2);
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        const struct op_frame frame = check_frame(&fault.mem, 2);
        struct op *op = NULL;
        tri_status status = op_dropout_new(&frame, in, 0.5F, 1, &op, NULL);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        op_free(op);
    }
    op_free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_loses_the_same_values_in_any_batch),
        cmocka_unit_test(seeds_differ_and_the_share_is_as_asked),
        cmocka_unit_test(without_training_nothing_is_dropped),
        cmocka_unit_test(gradients_are_those_of_the_forward_pass),
        cmocka_unit_test(impossible_shares_are_refused),
        cmocka_unit_test(refused_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
