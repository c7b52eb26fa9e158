/* engine/loss: softmax, cross-entropy, and how many are right. */
#include "engine/check.h"

enum { BATCH = 4, CLASSES = 5 };

static struct op *loss_of(struct op *in)
{
    static const uint32_t labels[BATCH] = {0, 4, 2, 1};
    const struct op_frame frame = check_frame(&mem_libc, BATCH);
    struct op *op = NULL;
    assert_int_equal(op_loss_new(&frame, in, &op, NULL), TRI_OK);
    memcpy(op_labels(op), labels, sizeof labels);
    return op;
}

static double loss_now(struct op *op)
{
    double loss;
    uint32_t right;
    op->kind->forward(op, true);
    op_loss_of(op, op->batch, &loss, &right);
    return loss;
}

TEST(probabilities_and_losses_are_the_plain_ones)
{
    (void)state;
    struct op *in = check_source(BATCH, (struct shape3){CLASSES, 1, 1}, 3), *op = loss_of(in);
    double want = 0;
    uint32_t hits = 0;
    op->kind->forward(op, false);
    for (size_t k = 0; k < BATCH; k++) {
        const float *x = in->out.data + k * CLASSES;
        double sum = 0;
        size_t top = 0;
        for (size_t i = 0; i < CLASSES; i++) {
            sum += exp((double)x[i]);
            top = x[i] > x[top] ? i : top;
        }
        for (size_t i = 0; i < CLASSES; i++)
            assert_float_equal(op->out.data[k * CLASSES + i], (float)(exp((double)x[i]) / sum),
                               1e-6F);
        want += log(sum) - (double)x[op_labels(op)[k]];
        hits += top == op_labels(op)[k];
        double loss;
        uint32_t right;
        op_loss_of(op, (uint32_t)k + 1, &loss, &right);
        assert_true(fabs(loss - want) < 1e-6);
        assert_int_equal(right, hits);
    }
    op_free(op);
    op_free(in);
}

TEST(the_gradient_is_that_of_the_sum_of_losses)
{
    (void)state;
    struct op *in = check_source(BATCH, (struct shape3){CLASSES, 1, 1}, 3), *op = loss_of(in);
    op->kind->forward(op, true);
    for (size_t i = 0; i < check_values(in); i++)
        in->diff.data[i] = NAN;
    op->kind->backward(op);
    const float step = 0x1p-8F;
    for (size_t i = 0; i < check_values(in); i++) {
        const float keep = in->out.data[i];
        in->out.data[i] = keep + step;
        const double above = loss_now(op);
        in->out.data[i] = keep - step;
        const double below = loss_now(op);
        in->out.data[i] = keep;
        assert_true(fabs((above - below) / (2 * (double)step) - (double)in->diff.data[i]) < 1e-4);
    }
    op->kind->forward(op, true);
    in->diff_written = false;
    op->kind->backward(op);
    check_adds(op);
    op_free(op);
    op_free(in);
}

TEST(large_values_do_not_overflow)
{
    (void)state;
    struct op *in = check_source(BATCH, (struct shape3){CLASSES, 1, 1}, 3), *op = loss_of(in);
    for (size_t i = 0; i < check_values(in); i++)
        in->out.data[i] = i % CLASSES == 0 ? 1000 : -1000;
    const double loss = loss_now(op);
    assert_float_equal(op->out.data[0], 1, 0);
    assert_float_equal(op->out.data[1], 0, 0);
    assert_true(fabs(loss - 6000) < 1e-3); /* three of four labels are not 0 */
    op_free(op);
    op_free(in);
}

TEST(shapes_that_do_not_fit_are_refused)
{
    (void)state;
    const struct op_frame other = check_frame(&mem_libc, BATCH + 1);
    struct op *in = check_source(BATCH, (struct shape3){CLASSES, 1, 1}, 3), *op = NULL;
    assert_int_equal(op_loss_new(&other, in, &op, NULL), TRI_EARG);
    assert_null(op);
    op_free(in);
}

TEST(refused_memory_leaves_nothing_behind)
{
    (void)state;
    struct op *in = check_source(BATCH, (struct shape3){CLASSES, 1, 1}, 3);
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        const struct op_frame frame = check_frame(&fault.mem, BATCH);
        struct op *op = NULL;
        tri_status status = op_loss_new(&frame, in, &op, NULL);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        op_free(op);
    }
    op_free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probabilities_and_losses_are_the_plain_ones),
        cmocka_unit_test(the_gradient_is_that_of_the_sum_of_losses),
        cmocka_unit_test(large_values_do_not_overflow),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(refused_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
