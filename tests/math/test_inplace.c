/* math/inplace: every kernel steps the weights as the plain chains of fmaf do. */
#include "math/inplace.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/test.h"

/* All arrays are heap blocks of exactly the size that the header asks for, so that the
 * address sanitizer sees any step outside. */
struct trial {
    struct dense_shape shape;
    float *w, *bias, *x, *dy, *dx, *scratch; /* given */
    float *want_w, *want_bias, *want_dx;
};

static const float alpha = -0.0625F * 0.7F;

static float *heap(size_t count)
{
    float *at = malloc((count > 0 ? count : 1) * sizeof *at);
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

static float *copy_of(const float *from, size_t count)
{
    float *at = heap(count);
    memcpy(at, from, count * sizeof *at);
    return at;
}

/* Some rows have no gradient at all, some in a few samples only. */
static void switch_off(struct trial *t, struct rng *rng)
{
    const size_t rows = t->shape.rows, batch = t->shape.batch;
    for (size_t m = 0; m < rows; m++) {
        const uint64_t how = rng_below(rng, 3);
        for (size_t k = 0; k < batch; k++)
            if (how == 0 || (how == 1 && k % 2 == 0))
                t->dy[k * rows + m] = 0;
    }
}

static void want(struct trial *t, bool adds)
{
    const size_t rows = t->shape.rows, cols = t->shape.cols, batch = t->shape.batch;
    for (size_t k = 0; k < batch; k++)
        for (size_t n = 0; n < cols; n++) {
            float sum = adds ? t->dx[k * cols + n] : 0;
            for (size_t m = 0; m < rows; m++)
                sum = fmaf(t->dy[k * rows + m], t->w[m * cols + n], sum);
            t->want_dx[k * cols + n] = sum;
        }
    for (size_t m = 0; m < rows; m++) {
        float all = 0;
        for (size_t k = 0; k < batch; k++)
            all += t->dy[k * rows + m];
        t->want_bias[m] = fmaf(alpha, all, t->bias[m]);
        for (size_t n = 0; n < cols; n++) {
            float sum = 0;
            for (size_t k = 0; k < batch; k++)
                sum = fmaf(t->dy[k * rows + m], t->x[k * cols + n], sum);
            t->want_w[m * cols + n] = fmaf(alpha, sum, t->w[m * cols + n]);
        }
    }
}

static void trial_init(struct trial *t, struct dense_shape shape, bool adds, uint64_t seed)
{
    const size_t rows = shape.rows, cols = shape.cols, batch = shape.batch;
    struct rng rng;
    rng_init(&rng, seed);
    *t = (struct trial){.shape = shape,
                        .w = numbers(rows * cols, &rng),
                        .bias = numbers(rows, &rng),
                        .x = numbers(batch * cols, &rng),
                        .dy = numbers(batch * rows, &rng),
                        .dx = numbers(batch * cols, &rng),
                        .scratch = heap(inplace_scratch_floats(&shape)),
                        .want_w = heap(rows * cols),
                        .want_bias = heap(rows),
                        .want_dx = heap(batch * cols)};
    switch_off(t, &rng);
    want(t, adds);
}

static void trial_fini(struct trial *t)
{
    float *all[] = {t->w,       t->bias,   t->x,         t->dy,     t->dx,
                    t->scratch, t->want_w, t->want_bias, t->want_dx};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void equal(const char *kernel, const char *what, const struct trial *t, const float *got,
                  const float *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (got[i] != wanted[i])
            fail_msg("%s: %s[%zu] of %zu x %zu, batch %zu, is %a, not %a", kernel, what, i,
                     t->shape.rows, t->shape.cols, t->shape.batch, (double)got[i],
                     (double)wanted[i]);
}

static void try_kernel(const struct inplace_kernel *kernel, const struct trial *t, bool adds,
                       bool inputs)
{
    const size_t weights = t->shape.rows * t->shape.cols, values = t->shape.batch * t->shape.cols;
    const char *name = inplace_kernel_name(kernel);
    float *w = copy_of(t->w, weights), *bias = copy_of(t->bias, t->shape.rows);
    float *dx = copy_of(t->dx, values);
    struct inplace_dense p = {.shape = t->shape,
                              .w = w,
                              .bias = bias,
                              .x = t->x,
                              .dy = t->dy,
                              .dx = inputs ? dx : NULL,
                              .adds = adds,
                              .alpha = alpha,
                              .first = 0};
    memset(t->scratch, 0xFF, inplace_scratch_floats(&t->shape) * sizeof(float));
    inplace_dense(kernel, &p, t->scratch);
    equal(name, "w", t, w, t->want_w, weights);
    equal(name, "bias", t, bias, t->want_bias, t->shape.rows);
    equal(name, "dx", t, dx, inputs ? t->want_dx : t->dx, values);
    free(w);
    free(bias);
    free(dx);
}

/* The same dx, and the weights as they were. */
static void try_keeping(const struct inplace_kernel *kernel, const struct trial *t, bool adds)
{
    const size_t weights = t->shape.rows * t->shape.cols, values = t->shape.batch * t->shape.cols;
    float *w = copy_of(t->w, weights), *bias = copy_of(t->bias, t->shape.rows);
    float *dx = copy_of(t->dx, values);
    const struct inplace_dense p = {.shape = t->shape,
                                    .w = w,
                                    .bias = bias,
                                    .dy = t->dy,
                                    .dx = dx,
                                    .adds = adds,
                                    .keeps = true,
                                    .alpha = NAN};
    memset(t->scratch, 0xFF, inplace_scratch_floats(&t->shape) * sizeof(float));
    inplace_dense(kernel, &p, t->scratch);
    equal(inplace_kernel_name(kernel), "dx", t, dx, t->want_dx, values);
    assert_memory_equal(w, t->w, weights * sizeof *w);
    assert_memory_equal(bias, t->bias, t->shape.rows * sizeof *bias);
    free(w);
    free(bias);
    free(dx);
}

TEST(every_kernel_steps_a_layer_as_the_plain_chains_do)
{
    (void)state;
    static const struct dense_shape shapes[] = {
        {1, 1, 1},    {7, 5, 1},    {13, 900, 1}, {64, 33, 2},   {12, 16, 3},   {31, 130, 4},
        {25, 90, 8},  {50, 47, 16}, {70, 70, 32}, {300, 65, 32}, {9, 300, 33},  {100, 17, 40},
        {5, 2500, 1}, {1100, 9, 1}, {40, 8, 200}, {2, 900, 1},   {140, 70, 130}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int adds = 0; adds < 2; adds++) {
            struct trial t;
            trial_init(&t, shapes[i], adds, 7 + i);
            for (size_t j = 0; inplace_kernel_at(j) != NULL; j++) {
                try_kernel(inplace_kernel_at(j), &t, adds, true);
                try_kernel(inplace_kernel_at(j), &t, adds, false);
                try_keeping(inplace_kernel_at(j), &t, adds);
            }
            trial_fini(&t);
        }
}

/* Blocks of rows that are all to be stepped, and that tiles do not fill: scratch memory must do. */
TEST(blocks_may_be_full)
{
    (void)state;
    static const struct dense_shape shapes[] = {{1030, 9, 3}, {920, 5, 8}, {70, 5, 140}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct trial t;
        trial_init(&t, shapes[i], false, 5);
        for (size_t m = 0; m < shapes[i].rows * shapes[i].batch; m++)
            t.dy[m] = (float)(m % 5) + 0.5F;
        want(&t, false);
        for (size_t j = 0; inplace_kernel_at(j) != NULL; j++) {
            try_kernel(inplace_kernel_at(j), &t, false, true);
            try_keeping(inplace_kernel_at(j), &t, false);
        }
        trial_fini(&t);
    }
}

TEST(rows_without_a_gradient_are_left_alone)
{
    (void)state;
    struct trial t;
    trial_init(&t, (struct dense_shape){40, 30, 2}, false, 3);
    for (size_t k = 0; k < 2; k++)
        t.dy[k * 40 + 17] = 0;
    t.w[17 * 30 + 3] = NAN; /* neither read for dx nor stepped */
    t.bias[17] = 5;
    for (size_t j = 0; inplace_kernel_at(j) != NULL; j++) {
        float *w = copy_of(t.w, (size_t)40 * 30);
        struct inplace_dense p = {
            .shape = t.shape, .w = w, .x = t.x, .dy = t.dy, .dx = t.dx, .alpha = alpha};
        inplace_dense(inplace_kernel_at(j), &p, t.scratch);
        assert_memory_equal(w + (size_t)17 * 30, t.w + (size_t)17 * 30, 30 * sizeof *w);
        for (size_t i = 0; i < (size_t)2 * 30; i++)
            assert_true(t.dx[i] == t.dx[i]);
        p.keeps = true;
        inplace_dense(inplace_kernel_at(j), &p, t.scratch);
        for (size_t i = 0; i < (size_t)2 * 30; i++)
            assert_true(t.dx[i] == t.dx[i]);
        free(w);
    }
    trial_fini(&t);
}

/* The last `count` samples are somebody else's: the same steps, and a dx of the others alone. What
 * counts half is twice as much. */
static void try_others(const struct inplace_kernel *kernel, const struct trial *t, size_t count)
{
    enum { MOST = 16 };
    const size_t rows = t->shape.rows, cols = t->shape.cols, own = t->shape.batch - count;
    const char *name = inplace_kernel_name(kernel);
    float *w = copy_of(t->w, rows * cols), *bias = copy_of(t->bias, rows);
    float *dx = copy_of(t->dx, t->shape.batch * cols), *dy = copy_of(t->dy, t->shape.batch * rows);
    struct inplace_other others[MOST];
    for (size_t k = 0; k < count; k++) {
        others[k] = (struct inplace_other){
            .dy = dy + (own + k) * rows, .x = t->x + (own + k) * cols, .by = k % 2 == 0 ? 1 : 0.5F};
        for (size_t m = 0; m < rows && k % 2 == 1; m++)
            dy[(own + k) * rows + m] *= 2;
    }
    const struct inplace_dense p = {.shape = {rows, cols, own},
                                    .w = w,
                                    .bias = bias,
                                    .x = t->x,
                                    .dy = dy,
                                    .dx = dx,
                                    .others = others,
                                    .other_count = count,
                                    .alpha = alpha};
    memset(t->scratch, 0xFF, inplace_scratch_floats(&t->shape) * sizeof(float));
    inplace_dense(kernel, &p, t->scratch);
    equal(name, "w", t, w, t->want_w, rows * cols);
    equal(name, "bias", t, bias, t->want_bias, rows);
    equal(name, "dx", t, dx, t->want_dx, own * cols);
    equal(name, "dx behind", t, dx + own * cols, t->dx + own * cols, count * cols);
    float *all[] = {w, bias, dx, dy};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

TEST(samples_of_others_are_stepped_by_and_have_no_dx)
{
    (void)state;
    static const struct dense_shape shapes[] = {{7, 5, 2},   {13, 900, 2},  {64, 33, 3},
                                                {12, 16, 4}, {31, 130, 20}, {1100, 9, 2},
                                                {2, 900, 2}, {300, 65, 17}, {5, 2500, 6}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct trial t;
        trial_init(&t, shapes[i], false, 11 + i);
        for (size_t j = 0; inplace_kernel_at(j) != NULL; j++)
            for (size_t count = 0; count < t.shape.batch && count <= 16; count++)
                try_others(inplace_kernel_at(j), &t, count);
        trial_fini(&t);
    }
}

/* Three samples, whose places in dx overlap; the last may have none. */
static void try_row(const struct inplace_kernel *kernel, size_t cols, size_t back)
{
    static const size_t at[] = {3, 0, 5};
    static const float by[] = {0.3F, -0.7F, 0.11F};
    struct rng rng;
    rng_init(&rng, cols);
    float *w = numbers(cols, &rng), *x = numbers(cols + 5, &rng), *dx = numbers(cols + 5, &rng);
    float *want_w = copy_of(w, cols), *want_dx = copy_of(dx, cols + 5);
    for (size_t i = 0; i < cols; i++) {
        float sum = 0;
        for (size_t k = 0; k < 3; k++)
            sum = fmaf(by[k], x[at[k] + i], sum);
        want_w[i] = fmaf(alpha, sum, w[i]);
    }
    const float *const met[] = {x + at[0], x + at[1], x + at[2]};
    float *const meant[] = {dx + at[0], dx + at[1], dx + at[2]};
    inplace_row(kernel, &(struct inplace_row){.w = w,
                                              .cols = cols,
                                              .x = met,
                                              .dx = meant,
                                              .by = by,
                                              .count = 3,
                                              .back = back,
                                              .alpha = alpha});
    for (size_t i = 0; i < cols; i++)
        assert_true(w[i] == want_w[i]);
    rng_init(&rng, cols);
    float *before = numbers(cols, &rng);
    for (size_t k = 0; k < back; k++)
        for (size_t i = 0; i < cols; i++)
            want_dx[at[k] + i] += by[k] * before[i];
    for (size_t i = 0; i < cols + 5; i++) /* in another order where they overlap */
        assert_float_equal(dx[i], want_dx[i], 1e-6F);
    float *all[] = {w, x, dx, want_w, want_dx, before};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void try_copies(const struct inplace_kernel *kernel, size_t count)
{
    struct rng rng;
    rng_init(&rng, count);
    float *from = numbers(count, &rng), *to = numbers(count, &rng), *was = copy_of(to, count);
    inplace_add(kernel, 0.7F, from, to, count);
    for (size_t i = 0; i < count; i++)
        assert_true(to[i] == fmaf(0.7F, from[i], was[i]));
    inplace_copy(kernel, from, to, count);
    assert_memory_equal(from, to, count * sizeof *to);
    inplace_ahead(kernel, to, count);
    free(from);
    free(to);
    free(was);
}

TEST(rows_of_every_length_are_stepped_to_their_end)
{
    (void)state;
    for (size_t j = 0; inplace_kernel_at(j) != NULL; j++)
        for (size_t count = 0; count < 150; count++) {
            for (size_t back = 0; back <= 3; back++)
                try_row(inplace_kernel_at(j), count, back);
            try_copies(inplace_kernel_at(j), count);
        }
}

/* ---- learners at the same time ---- */

enum { ROWS = 60, COLS = 70, PASSES = 200 };

struct learner {
    float *w, *bias; /* of both */
    uint64_t seed;
};

/* The steps of both learners are all alike, so that whichever get lost, the sum has a sign. */
static void *step_often(void *arg)
{
    const struct learner *learner = arg;
    const struct inplace_kernel *kernel = inplace_kernel_at(0);
    struct trial t;
    trial_init(&t, (struct dense_shape){ROWS, COLS, 2}, false, learner->seed);
    for (size_t i = 0; i < (size_t)2 * COLS; i++)
        t.x[i] = 1;
    for (size_t i = 0; i < (size_t)2 * ROWS; i++)
        t.dy[i] = 1;
    const struct inplace_dense p = {.shape = t.shape,
                                    .w = learner->w,
                                    .bias = learner->bias,
                                    .x = t.x,
                                    .dy = t.dy,
                                    .dx = t.dx,
                                    .alpha = 0.25F,
                                    .first = learner->seed % ROWS};
    for (int i = 0; i < PASSES; i++) {
        inplace_dense(kernel, &p, t.scratch);
        inplace_add(kernel, 0.25F, t.x, learner->w, COLS);
        inplace_copy(kernel, learner->w + COLS, t.dx, COLS);
    }
    trial_fini(&t);
    return NULL;
}

TEST(two_learners_step_the_same_weights)
{
    (void)state;
    float *w = heap((size_t)ROWS * COLS), *bias = heap(ROWS);
    memset(w, 0, (size_t)ROWS * COLS * sizeof *w);
    memset(bias, 0, ROWS * sizeof *bias);
    struct learner learners[2] = {{w, bias, 1}, {w, bias, 33}};
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, step_often, &learners[i]), 0);
    for (size_t i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        assert_true(w[i] > 0 && w[i] <= 2 * PASSES * 0.75F);
    for (size_t i = 0; i < ROWS; i++)
        assert_true(bias[i] > 0 && bias[i] <= 2 * PASSES * 0.5F);
    free(w);
    free(bias);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_steps_a_layer_as_the_plain_chains_do),
        cmocka_unit_test(blocks_may_be_full),
        cmocka_unit_test(rows_without_a_gradient_are_left_alone),
        cmocka_unit_test(samples_of_others_are_stepped_by_and_have_no_dx),
        cmocka_unit_test(rows_of_every_length_are_stepped_to_their_end),
        cmocka_unit_test(two_learners_step_the_same_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
