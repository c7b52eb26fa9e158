/* math/dense: every kernel equals the plain chain of fmaf, bit for bit. */
#include "math/dense.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/test.h"

/* All arrays are heap blocks of exactly the size that the header asks for, so that the
 * address sanitizer sees any step outside. */
struct trial {
    struct dense_shape shape;
    float *w, *bias, *x, *dy;
    float *y, *dx, *g; /* what is wanted */
    float *scratch;
};

static float *heap(size_t count)
{
    float *at = malloc(count * sizeof *at);
    assert_non_null(at);
    return at;
}

static float *numbers(size_t count, struct rng *rng)
{
    float *at = heap(count);
    for (size_t i = 0; i < count; i++)
        at[i] = (float)(2 * rng_unit(rng) - 1);
    return at;
}

static void want(struct trial *t)
{
    const size_t rows = t->shape.rows, cols = t->shape.cols, batch = t->shape.batch;
    for (size_t k = 0; k < batch; k++)
        for (size_t m = 0; m < rows; m++) {
            float sum = t->bias[m];
            for (size_t n = 0; n < cols; n++)
                sum = fmaf(t->w[m * cols + n], t->x[k * cols + n], sum);
            t->y[k * rows + m] = sum;
        }
    for (size_t k = 0; k < batch; k++)
        for (size_t n = 0; n < cols; n++) {
            float sum = 0;
            for (size_t m = 0; m < rows; m++)
                sum = fmaf(t->dy[k * rows + m], t->w[m * cols + n], sum);
            t->dx[k * cols + n] = sum;
        }
    for (size_t m = 0; m < rows; m++)
        for (size_t n = 0; n < cols; n++) {
            float sum = 0;
            for (size_t k = 0; k < batch; k++)
                sum = fmaf(t->dy[k * rows + m], t->x[k * cols + n], sum);
            t->g[m * cols + n] = sum;
        }
}

/* What a relu leaves: one of `keep` stays. 1: all. */
static void thin_out(float *at, size_t count, uint64_t keep, struct rng *rng)
{
    for (size_t i = 0; i < count; i++)
        if (rng_below(rng, keep) != 0)
            at[i] = i % 2 == 0 ? 0.0F : -0.0F;
}

static void trial_init(struct trial *t, struct dense_shape shape, uint64_t keep, uint64_t seed)
{
    const size_t rows = shape.rows, cols = shape.cols, batch = shape.batch;
    struct rng rng;
    rng_init(&rng, seed);
    *t = (struct trial){.shape = shape,
                        .w = numbers(rows * cols, &rng),
                        .bias = numbers(rows, &rng),
                        .x = numbers(batch * cols, &rng),
                        .dy = numbers(batch * rows, &rng),
                        .y = heap(batch * rows),
                        .dx = heap(batch * cols),
                        .g = heap(rows * cols),
                        .scratch = heap(dense_scratch_floats(&shape))};
    thin_out(t->dy, batch * rows, keep, &rng);
    thin_out(t->x, batch * cols, keep, &rng);
    want(t);
}

static void trial_fini(struct trial *t)
{
    float *all[] = {t->w, t->bias, t->x, t->dy, t->y, t->dx, t->g, t->scratch};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

/* Old memory must not shine through. */
static float *fresh(const struct trial *t, size_t count)
{
    float *got = heap(count);
    memset(got, 0xFF, count * sizeof *got);
    memset(t->scratch, 0xFF, dense_scratch_floats(&t->shape) * sizeof *t->scratch);
    return got;
}

static uint32_t bits(float x)
{
    uint32_t out;
    memcpy(&out, &x, sizeof out);
    return out;
}

static void equal(float *got, const float *wanted, size_t count, const char *what,
                  const struct dense_kernel *kernel)
{
    for (size_t i = 0; i < count; i++)
        if (bits(got[i]) != bits(wanted[i]))
            fail_msg("%s of %s: [%zu] is %a, not %a", what, dense_kernel_name(kernel), i,
                     (double)got[i], (double)wanted[i]);
    free(got);
}

static void check(const struct trial *t, const struct dense_kernel *kernel)
{
    const struct dense_shape *s = &t->shape;
    float *got = fresh(t, s->batch * s->rows);
    dense_forward(kernel, &(struct dense_outputs){*s, t->w, t->bias, t->x, got}, t->scratch);
    equal(got, t->y, s->batch * s->rows, "forward", kernel);
    got = fresh(t, s->batch * s->cols);
    dense_backward(kernel, &(struct dense_inputs){*s, t->w, t->dy, got}, t->scratch);
    equal(got, t->dx, s->batch * s->cols, "backward", kernel);
    got = fresh(t, s->rows * s->cols);
    dense_gradient(kernel, &(struct dense_weights){*s, t->dy, t->x, got}, t->scratch);
    equal(got, t->g, s->rows * s->cols, "gradient", kernel);
}

static void check_thinned(struct dense_shape shape, uint64_t keep, uint64_t seed)
{
    struct trial t;
    trial_init(&t, shape, keep, seed);
    for (size_t i = 0; dense_kernel_at(i) != NULL; i++)
        check(&t, dense_kernel_at(i));
    trial_fini(&t);
}

static void check_all(struct dense_shape shape, uint64_t seed)
{
    check_thinned(shape, 1, seed);
}

TEST(every_kernel_follows_the_chain)
{
    (void)state;
    static const struct dense_shape shapes[] = {
        {1, 1, 1},     {64, 64, 8},   {96, 192, 32},  {97, 193, 33}, {192, 96, 64},  {193, 97, 31},
        {3, 500, 2},   {500, 3, 70},  {400, 416, 32}, {33, 31, 5},   {64, 8, 16},    {100, 100, 5},
        {40, 41, 1},   {37, 40, 2},   {7, 9, 3},      {35, 35, 4},   {8, 1, 1},      {16, 16, 4},
        {200, 320, 3}, {200, 320, 4}, {400, 300, 3},  {400, 300, 9}, {193, 240, 12},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        check_all(shapes[i], i);
}

TEST(drawn_shapes_follow_the_chain)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 5);
    for (uint64_t i = 0; i < 60; i++)
        check_all((struct dense_shape){.rows = (size_t)rng_below(&rng, 300) + 1,
                                       .cols = (size_t)rng_below(&rng, 300) + 1,
                                       .batch = (size_t)rng_below(&rng, i % 2 == 0 ? 70 : 6) + 1},
                  i);
}

TEST(zeros_that_are_left_out_change_no_bit)
{
    (void)state;
    static const struct dense_shape shapes[] = {
        {64, 96, 8},    {65, 97, 9},  {1, 1, 8},     {63, 95, 32},  {128, 288, 33},
        {200, 400, 70}, {300, 8, 8},  {5, 500, 100}, {96, 192, 16}, {97, 256, 17},
        {200, 320, 32}, {8, 448, 33}, {300, 384, 70}};
    for (uint64_t keep = 2; keep <= 50; keep *= 5)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            check_thinned(shapes[i], keep, i);
}

TEST(without_a_bias_the_chain_begins_at_zero)
{
    (void)state;
    const float w[] = {2, 3, 5, 7}, x[] = {1, 10};
    struct dense_shape shape = {.rows = 2, .cols = 2, .batch = 1};
    float y[2], *scratch = heap(dense_scratch_floats(&shape));
    dense_forward(dense_kernel_at(0), &(struct dense_outputs){shape, w, NULL, x, y}, scratch);
    assert_float_equal(y[0], 32, 0);
    assert_float_equal(y[1], 75, 0);
    free(scratch);
}

TEST(the_last_kernel_is_plain)
{
    (void)state;
    size_t count = 0;
    while (dense_kernel_at(count) != NULL)
        count++;
    assert_true(count >= 1);
    assert_string_equal(dense_kernel_name(dense_kernel_at(count - 1)), "plain");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_follows_the_chain),
        cmocka_unit_test(drawn_shapes_follow_the_chain),
        cmocka_unit_test(zeros_that_are_left_out_change_no_bit),
        cmocka_unit_test(without_a_bias_the_chain_begins_at_zero),
        cmocka_unit_test(the_last_kernel_is_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
