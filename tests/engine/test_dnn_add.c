/* engine/add, relu, plain: operators that work value by value. */
#include "engine/graph.h"

static const struct shape3 shapes[] = {{1, 3, 3}, {3, 5, 4}, {5, 4, 4}, {17, 3, 5}, {16, 4, 4}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static struct op *add(struct graph *g, struct op *a, struct op *b, bool relu)
{
    const struct op_frame frame = frame_of(&mem_libc, a->batch);
    struct op *op = NULL;
    assert_int_equal(op_add_new(&frame, a, b, relu, &op, NULL), TRI_OK);
    return keep(g, op);
}

static struct op *relu(struct graph *g, struct op *in)
{
    const struct op_frame frame = frame_of(&mem_libc, in->batch);
    struct op *op = NULL;
    assert_int_equal(op_relu_new(&frame, in, &op, NULL), TRI_OK);
    return keep(g, op);
}

/* Each of the two plain, or as oneDNN likes it. */
static void check_add(struct shape3 shape, bool a_laid_out, bool b_laid_out, bool with_relu)
{
    struct graph g = graph_new(2);
    struct op *a = source(&g, 3, shape), *b = source(&g, 3, shape);
    struct op *sum = add(&g, a_laid_out ? same(&g, a) : a, b_laid_out ? same(&g, b) : b, with_relu);
    struct op *last = plain(&g, sum);
    iterate(&g);
    for (size_t i = 0; i < values(last); i++) {
        const float s = a->out.data[i] + b->out.data[i];
        const float out = with_relu && s < 0 ? 0 : s;
        const float diff = with_relu && s <= 0 ? 0 : last->diff.data[i];
        assert_true(last->out.data[i] == out);
        assert_true(a->diff.data[i] == diff);
        assert_true(b->diff.data[i] == diff);
    }
    graph_free(&g);
}

TEST(sums_and_their_gradients_are_exact_however_the_two_lie)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++)
        for (unsigned k = 0; k < 8; k++)
            check_add(shapes[i], (k & 1) != 0, (k & 2) != 0, (k & 4) != 0);
}

TEST(a_value_added_to_itself_gets_both_gradients)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        struct graph g = graph_new(2);
        struct op *in = source(&g, 3, shapes[i]);
        struct op *from = same(&g, in);
        struct op *last = plain(&g, add(&g, from, from, false));
        iterate(&g);
        for (size_t k = 0; k < values(last); k++)
            assert_true(in->diff.data[k] == 2 * last->diff.data[k]);
        graph_free(&g);
    }
}

/* A way around: the values and what relu makes of them, the sum either way round. */
static void check_residual(struct shape3 shape, bool laid_out, bool first)
{
    struct graph g = graph_new(5);
    struct op *in = source(&g, 2, shape), *from = laid_out ? same(&g, in) : in;
    struct op *above = relu(&g, from);
    struct op *last = plain(&g, add(&g, first ? from : above, first ? above : from, false));
    iterate(&g);
    for (size_t i = 0; i < values(last); i++) {
        const float d = last->diff.data[i];
        assert_true(in->diff.data[i] == (in->out.data[i] > 0 ? 2 * d : d));
    }
    graph_free(&g);
}

TEST(a_residual_gets_the_gradients_of_both_ways)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++)
        for (unsigned k = 0; k < 4; k++)
            check_residual(shapes[i], (k & 1) != 0, (k & 2) != 0);
}

static void check_relu(struct shape3 shape, bool laid_out)
{
    struct graph g = graph_new(6);
    struct op *in = source(&g, 3, shape);
    in->out.data[2] = 0;
    struct op *last = plain(&g, relu(&g, laid_out ? same(&g, in) : in));
    iterate(&g);
    for (size_t i = 0; i < values(last); i++) {
        const float x = in->out.data[i];
        assert_true(last->out.data[i] == (x > 0 ? x : 0));
        assert_true(in->diff.data[i] == (x > 0 ? last->diff.data[i] : 0));
    }
    graph_free(&g);
}

TEST(relu_passes_what_is_above_zero_both_ways)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++)
        for (int laid_out = 0; laid_out < 2; laid_out++)
            check_relu(shapes[i], laid_out != 0);
}

/* Two relus and the values themselves, plain: three users of one output. The first to be made is
 * the last to give its gradient back. */
static void check_users(struct shape3 shape, bool laid_out, bool plain_first)
{
    struct graph g = graph_new(8);
    struct op *in = source(&g, 2, shape), *from = laid_out ? same(&g, in) : in;
    struct op *flat = plain_first ? plain(&g, from) : NULL;
    struct op *above = relu(&g, from), *twice = relu(&g, from);
    if (!plain_first)
        flat = plain(&g, from);
    struct op *last = plain(&g, add(&g, add(&g, above, twice, false), flat, false));
    iterate(&g);
    for (size_t i = 0; i < values(last); i++) {
        const float x = in->out.data[i], d = last->diff.data[i];
        const float out = x > 0 ? 2 * x + x : x;
        assert_true(fabsf(last->out.data[i] - out) < 1e-6F);
        assert_true(fabsf(in->diff.data[i] - (x > 0 ? 3 * d : d)) < 1e-6F);
    }
    graph_free(&g);
}

TEST(gradients_of_three_users_add_up)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++)
        for (unsigned k = 0; k < 4; k++)
            check_users(shapes[i], (k & 1) != 0, (k & 2) != 0);
}

TEST(plain_values_stay_where_they_are)
{
    (void)state;
    struct graph g = graph_new(8);
    struct op *in = source(&g, 2, shapes[3]);
    struct op *op = plain(&g, in);
    assert_ptr_equal(op->out.data, in->out.data);
    assert_null(op->out.layout);
    iterate(&g);
    assert_memory_equal(op->diff.data, in->diff.data, values(in) * sizeof(float));
    graph_free(&g);
}

TEST(what_does_not_fit_together_is_refused_by_name)
{
    (void)state;
    struct graph g = graph_new(8);
    struct op *a = source(&g, 2, shapes[3]), *b = source(&g, 2, shapes[4]), *op = NULL;
    const struct op_frame frame = frame_of(&mem_libc, 2), other = frame_of(&mem_libc, 3);
    tri_error err = {0};
    assert_int_equal(op_add_new(&frame, a, b, false, &op, &err), TRI_EARG);
    assert_non_null(strstr(err.text, "tested"));
    assert_int_equal(op_add_new(&other, a, a, false, &op, &err), TRI_EARG);
    assert_int_equal(op_relu_new(&other, a, &op, &err), TRI_EARG);
    assert_int_equal(op_plain_new(&other, a, &op, &err), TRI_EARG);
    assert_int_equal(op_norm_new(&other, a, false, &op, &err), TRI_EARG);
    assert_null(op);
    graph_free(&g);
}

/* One of the constructors, by number. */
static tri_status make(size_t which, const struct op_frame *frame, struct op *in, struct op *flat,
                       struct op **out)
{
    if (which == 0)
        return op_add_new(frame, in, flat, true, out, NULL);
    if (which == 1)
        return op_relu_new(frame, in, out, NULL);
    return op_plain_new(frame, which == 2 ? in : flat, out, NULL);
}

TEST(refused_memory_is_no_memory_and_no_leak)
{
    (void)state;
    for (size_t which = 0; which < 4; which++) {
        struct graph g = graph_new(1);
        struct op *flat = source(&g, 2, shapes[3]), *in = same(&g, flat);
        struct fault fault = {0};
        FAULT_WALK(&fault)
        {
            const struct op_frame frame = frame_of(&fault.mem, 2);
            struct op *op = NULL;
            tri_status st = make(which, &frame, in, flat, &op);
            assert_int_equal(st, fault.hit ? TRI_ENOMEM : TRI_OK);
            op_free(op);
        }
        assert_true(fault.run > 2);
        graph_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_their_gradients_are_exact_however_the_two_lie),
        cmocka_unit_test(a_value_added_to_itself_gets_both_gradients),
        cmocka_unit_test(a_residual_gets_the_gradients_of_both_ways),
        cmocka_unit_test(relu_passes_what_is_above_zero_both_ways),
        cmocka_unit_test(gradients_of_three_users_add_up),
        cmocka_unit_test(plain_values_stay_where_they_are),
        cmocka_unit_test(what_does_not_fit_together_is_refused_by_name),
        cmocka_unit_test(refused_memory_is_no_memory_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
