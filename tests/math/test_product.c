/* math/product: every kernel equals the plain chain of fmaf, bit for bit. */
#include "math/product.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/test.h"

enum { MAX_BLOCKS = 6, THREADS = 4 };

/* One product to try. All arrays are heap blocks of exactly the size that the
 * header asks for, so that the address sanitizer sees any step outside. */
struct trial {
    struct product p;
    struct product_block blocks[MAX_BLOCKS];
    size_t rows;        /* of all blocks */
    size_t w_count;     /* floats of w: up to the last element of the last row */
    float *start;       /* w before, gaps between the rows included */
    float *want[2];     /* w after PRODUCT_ADD and PRODUCT_STORE */
    size_t first, last; /* the rows asked for */
};

static void *heap(size_t bytes)
{
    void *at = malloc(bytes);
    assert_true(at != NULL || bytes == 0);
    return at;
}

static float draw(struct rng *rng)
{
    return (float)(2 * rng_unit(rng) - 1);
}

/* Numbers that are easily got wrong: most of them are not plain ones. */
static float draw_odd(struct rng *rng)
{
    static const float odd[] = {NAN,     INFINITY, -INFINITY, 0.0F,      -0.0F,   1e-45F,
                                -1e-45F, 1e-39F,   0x1p-100F, -0x1p-64F, 3.4e38F, -3.4e38F};
    const size_t count = sizeof odd / sizeof odd[0];
    size_t i = (size_t)rng_below(rng, 4 * count);
    return i < count ? odd[i] : draw(rng) * 0x1p-62F;
}

/* What a relu leaves. */
static float draw_few(struct rng *rng)
{
    float x = draw(rng);
    return x > 0 ? x : x > -0.5F ? 0.0F : -0.0F;
}

static float *numbers(size_t count, struct rng *rng, float (*next)(struct rng *))
{
    float *at = heap(count * sizeof *at);
    for (size_t i = 0; i < count; i++)
        at[i] = next(rng);
    return at;
}

/* The definition, element by element. */
static float element(const struct product *p, enum product_end end, size_t m, size_t n, float w)
{
    float s = 0;
    for (size_t b = 0; b < p->count; b++)
        for (size_t k = 0; k < p->blocks[b].rows; k++)
            s = fmaf(p->blocks[b].u[k * p->m + m], p->blocks[b].v[k * p->n + n], s);
    return end == PRODUCT_ADD ? fmaf(p->alpha, s, w) : p->alpha * s;
}

struct shape {
    size_t m, n, gap; /* gap: floats between the rows of w */
    size_t rows[MAX_BLOCKS];
    size_t count; /* of blocks */
};

static void trial_init(struct trial *t, const struct shape *shape, uint64_t seed,
                       float (*next)(struct rng *))
{
    struct rng rng;
    rng_init(&rng, seed);
    *t = (struct trial){.last = shape->m};
    t->p = (struct product){
        .blocks = t->blocks,
        .count = shape->count,
        .m = shape->m,
        .n = shape->n,
        .stride = shape->n + shape->gap,
        .alpha = -0.37F,
    };
    for (size_t b = 0; b < shape->count; b++) {
        const size_t rows = shape->rows[b];
        t->blocks[b].rows = rows;
        t->blocks[b].u = rows > 0 ? numbers(rows * shape->m, &rng, next) : NULL;
        t->blocks[b].v = rows > 0 ? numbers(rows * shape->n, &rng, next) : NULL;
        t->rows += rows;
    }
    t->w_count = shape->m > 0 && shape->n > 0 ? (shape->m - 1) * t->p.stride + shape->n : 0;
    t->start = numbers(t->w_count, &rng, next);
}

static void trial_fini(struct trial *t)
{
    for (size_t b = 0; b < t->p.count; b++) {
        free((void *)t->blocks[b].u);
        free((void *)t->blocks[b].v);
    }
    free(t->start);
    free(t->want[PRODUCT_ADD]);
    free(t->want[PRODUCT_STORE]);
}

/* What w must hold: rows first to last - 1 by the definition, all else as before. */
static void trial_expect(struct trial *t)
{
    for (int end = PRODUCT_ADD; end <= PRODUCT_STORE; end++) {
        float *want = heap(t->w_count * sizeof *want);
        for (size_t i = 0; i < t->w_count; i++) {
            size_t m = i / t->p.stride, n = i % t->p.stride;
            bool ours = n < t->p.n && m >= t->first && m < t->last;
            want[i] = ours ? element(&t->p, (enum product_end)end, m, n, t->start[i]) : t->start[i];
        }
        t->want[end] = want;
    }
}

/* The same bits; any NaN is as good as another. */
static bool same(float a, float b)
{
    uint32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y || (isnan(a) && isnan(b));
}

static void check_same(const struct trial *t, const float *want, const char *kernel)
{
    for (size_t i = 0; i < t->w_count; i++) {
        const float *got = t->p.w;
        if (!same(got[i], want[i]))
            fail_msg("%s: %zu x %zu, %zu rows of factors, element %zu,%zu is %a, not %a", kernel,
                     t->p.m, t->p.n, t->rows, i / t->p.stride, i % t->p.stride, (double)got[i],
                     (double)want[i]);
    }
}

struct part {
    const struct product_kernel *kernel;
    const struct product *p;
    enum product_end end;
    size_t first, last;
    void *scratch;
};

static void *run_part(void *ctx)
{
    const struct part *part = ctx;
    product_with(part->kernel, part->p, part->end, part->first, part->last, part->scratch);
    return NULL;
}

/* Runs the rows asked for in so many parts of about equal size, each on a thread. */
static void run_threads(struct trial *t, const struct product_kernel *kernel, enum product_end end,
                        size_t count)
{
    pthread_t threads[THREADS];
    struct part parts[THREADS];
    for (size_t i = 0; i < count; i++) {
        const size_t rows = t->last - t->first;
        parts[i] = (struct part){kernel,
                                 &t->p,
                                 end,
                                 t->first + rows * i / count,
                                 t->first + rows * (i + 1) / count,
                                 heap(product_scratch_bytes())};
        assert_int_equal(pthread_create(&threads[i], NULL, run_part, &parts[i]), 0);
    }
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        free(parts[i].scratch);
    }
}

/* The same sums of a matrix that stays as it is; where they go there is something else. */
static void run_apart(struct trial *t, const struct product_kernel *kernel)
{
    void *scratch = heap(product_scratch_bytes());
    t->p.w = heap(t->w_count * sizeof *t->p.w);
    for (size_t i = 0; i < t->w_count; i++) {
        const size_t m = i / t->p.stride, n = i % t->p.stride;
        const bool ours = n < t->p.n && m >= t->first && m < t->last;
        t->p.w[i] = ours ? -7 : t->start[i];
    }
    t->p.from = t->start;
    product_with(kernel, &t->p, PRODUCT_ADD, t->first, t->last, scratch);
    t->p.from = NULL;
    check_same(t, t->want[PRODUCT_ADD], product_kernel_name(kernel));
    free(t->p.w);
    free(scratch);
}

/* Every kernel of this machine, both ways to end; in one part, or dealt to threads. */
static void trial_run(struct trial *t, size_t threads)
{
    const struct product_kernel *kernel;
    trial_expect(t);
    for (size_t i = 0; (kernel = product_kernel_at(i)) != NULL; i++) {
        run_apart(t, kernel);
        for (int end = PRODUCT_ADD; end <= PRODUCT_STORE; end++) {
            t->p.w = heap(t->w_count * sizeof *t->p.w);
            if (t->w_count > 0)
                memcpy(t->p.w, t->start, t->w_count * sizeof *t->p.w);
            if (threads == 0) {
                void *scratch = heap(product_scratch_bytes());
                product_with(kernel, &t->p, (enum product_end)end, t->first, t->last, scratch);
                free(scratch);
            } else {
                run_threads(t, kernel, (enum product_end)end, threads);
            }
            check_same(t, t->want[end], product_kernel_name(kernel));
            free(t->p.w);
        }
    }
}

static void try_shape(const struct shape *shape, uint64_t seed)
{
    struct trial t;
    trial_init(&t, shape, seed, draw);
    trial_run(&t, 0);
    trial_fini(&t);
}

TEST(one_by_one_is_the_chain)
{
    (void)state;
    try_shape(&(struct shape){.m = 1, .n = 1, .rows = {1}, .count = 1}, 1);
    try_shape(&(struct shape){.m = 1, .n = 1, .rows = {1000}, .count = 1}, 2);
}

TEST(every_size_of_an_edge_is_the_chain)
{
    (void)state;
    /* Past twice the largest tile, which has 12 rows and 32 columns. */
    for (size_t m = 1; m <= 26; m++)
        for (size_t n = 1; n <= 66; n += m == 7 || m == 12 ? 1 : 5)
            try_shape(&(struct shape){.m = m, .n = n, .rows = {3}, .count = 1}, 100 * m + n);
}

TEST(every_depth_is_the_chain)
{
    (void)state;
    static const size_t depths[] = {0, 1, 2, 31, 255, 256, 257, 511, 512, 513, 1000};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++)
        try_shape(&(struct shape){.m = 13, .n = 37, .gap = 3, .rows = {depths[i]}, .count = 1}, i);
}

TEST(more_than_one_pass_in_each_direction_is_the_chain)
{
    (void)state;
    /* A pass takes at most 504 rows and 256 k, and columns by depth: 512 at 256 k. */
    try_shape(&(struct shape){.m = 510, .n = 40, .rows = {300}, .count = 1}, 1);
    try_shape(&(struct shape){.m = 5, .n = 1100, .rows = {300}, .count = 1}, 2);
    try_shape(&(struct shape){.m = 505, .n = 520, .rows = {258}, .count = 1}, 3);
    try_shape(&(struct shape){.m = 3, .n = 131080, .rows = {1}, .count = 1}, 4);
    try_shape(&(struct shape){.m = 1009, .n = 33, .rows = {20, 20}, .count = 2}, 5);
}

TEST(random_shapes_and_blocks_are_the_chain)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 7);
    for (int round = 0; round < 60; round++) {
        struct shape shape = {
            .m = 1 + (size_t)rng_below(&rng, 60),
            .n = 1 + (size_t)rng_below(&rng, 90),
            .gap = (size_t)rng_below(&rng, 20),
            .count = 1 + (size_t)rng_below(&rng, MAX_BLOCKS),
        };
        for (size_t b = 0; b < shape.count; b++)
            shape.rows[b] = rng_below(&rng, 4) > 0 ? (size_t)rng_below(&rng, 130) : 0;
        try_shape(&shape, rng_u64(&rng));
    }
}

TEST(no_factors_still_add_alpha_times_zero)
{
    (void)state;
    try_shape(&(struct shape){.m = 9, .n = 40, .count = 0}, 1);
    try_shape(&(struct shape){.m = 9, .n = 40, .rows = {0, 0, 0}, .count = 3}, 2);
    /* -0 + -0.37 * 0 stays -0; an infinite alpha makes NaN: as the definition has it. */
    struct trial t;
    trial_init(&t, &(struct shape){.m = 7, .n = 19, .rows = {0}, .count = 1}, 3, draw_odd);
    t.p.alpha = INFINITY;
    trial_run(&t, 0);
    trial_fini(&t);
}

TEST(an_empty_matrix_is_left_alone)
{
    (void)state;
    try_shape(&(struct shape){.m = 0, .n = 5, .rows = {3}, .count = 1}, 1);
    try_shape(&(struct shape){.m = 5, .n = 0, .rows = {3}, .count = 1}, 2);
}

TEST(odd_numbers_go_where_the_chain_puts_them)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct trial t;
        struct shape shape = {.m = 14, .n = 45, .gap = 1, .rows = {1, 2}, .count = 2};
        trial_init(&t, &shape, seed, draw_odd);
        trial_run(&t, 0);
        trial_fini(&t);
    }
}

TEST(a_zero_factor_times_infinity_is_nan)
{
    (void)state;
    for (size_t i = 0; product_kernel_at(i) != NULL; i++) {
        const float u = 0, v = INFINITY;
        float w = 1;
        const struct product_block block = {&u, &v, 1};
        const struct product p = {&block, 1, 1, 1, &w, 1, 1, NULL};
        void *scratch = heap(product_scratch_bytes());
        product_with(product_kernel_at(i), &p, PRODUCT_ADD, 0, 1, scratch);
        free(scratch);
        assert_true(isnan(w));
    }
}

TEST(four_threads_give_the_bits_of_one)
{
    (void)state;
    static const size_t heights[] = {1, 3, 4, 50, 200};
    for (size_t i = 0; i < sizeof heights / sizeof heights[0]; i++)
        for (size_t threads = 1; threads <= THREADS; threads += THREADS - 1) {
            struct trial t;
            struct shape shape = {.m = heights[i], .n = 70, .rows = {200, 0, 90}, .count = 3};
            trial_init(&t, &shape, i, draw);
            trial_run(&t, threads);
            trial_fini(&t);
        }
}

TEST(rows_that_were_not_asked_for_are_left_alone)
{
    (void)state;
    for (size_t first = 0; first <= 30; first += 5)
        for (size_t last = first; last <= 30; last += 3) {
            struct trial t;
            struct shape shape = {.m = 30, .n = 35, .gap = 5, .rows = {4}, .count = 1};
            trial_init(&t, &shape, first, draw);
            t.first = first;
            t.last = last;
            trial_run(&t, 0);
            trial_fini(&t);
        }
}

TEST(zeros_that_are_left_out_change_no_bit)
{
    (void)state;
    static const size_t heights[] = {1, 63, 64, 65, 200}, widths[] = {1, 95, 96, 97, 500};
    static const size_t depths[] = {8, 31, 64, 65};
    for (size_t i = 0; i < 100; i++)
        for (size_t threads = 0; threads <= 3; threads += 3) {
            struct trial t;
            const size_t depth = depths[i / 25];
            const struct shape shape = {.m = heights[i % 5],
                                        .n = widths[i / 5 % 5],
                                        .gap = i % 3,
                                        .rows = {depth / 3, 0, depth - depth / 3},
                                        .count = 3};
            trial_init(&t, &shape, i, draw_few);
            trial_run(&t, threads);
            trial_fini(&t);
        }
}

/* Columns in more than one pass. */
TEST(wide_products_leave_zeros_out_too)
{
    (void)state;
    struct trial t;
    trial_init(&t, &(struct shape){.m = 66, .n = 4500, .rows = {40}, .count = 1}, 1, draw_few);
    trial_run(&t, 0);
    trial_fini(&t);
}

/* Left out, it would be hidden. */
TEST(a_zero_times_infinity_is_nan_among_many_zeros)
{
    (void)state;
    struct trial t;
    trial_init(&t, &(struct shape){.m = 70, .n = 100, .rows = {10, 10}, .count = 2}, 1, draw_few);
    ((float *)(uintptr_t)t.blocks[1].v)[700] = -INFINITY;
    trial_run(&t, 0);
    size_t hidden = 0;
    for (size_t m = 0; m < t.p.m; m++)
        hidden += isnan(t.want[PRODUCT_STORE][m * t.p.stride]) != 0;
    assert_true(hidden > 0 && hidden < t.p.m);
    trial_fini(&t);
}

/* 300 rows as one block, and as the same rows cut at two other places. */
TEST(how_the_rows_are_cut_changes_no_bit)
{
    (void)state;
    enum { M = 20, N = 50 };
    const size_t rows = 300;
    struct rng rng;
    rng_init(&rng, 5);
    float *u = numbers(rows * M, &rng, draw), *v = numbers(rows * N, &rng, draw);
    const struct product_block whole = {u, v, rows};
    const size_t at = 17, then = 267;
    const struct product_block cut[] = {
        {u, v, at},
        {NULL, NULL, 0},
        {u + at * M, v + at * N, then - at},
        {u + then * M, v + then * N, rows - then},
    };
    float one[M * N] = {0}, other[M * N] = {0};
    void *scratch = heap(product_scratch_bytes());
    const struct product a = {&whole, 1, M, N, one, N, 0.1F, NULL},
                         b = {cut, 4, M, N, other, N, 0.1F, NULL};
    product_add(&a, 0, M, scratch);
    product_add(&b, 0, M, scratch);
    assert_memory_equal(one, other, sizeof one);
    product_store(&a, 0, M, scratch);
    product_store(&b, 0, M, scratch);
    assert_memory_equal(one, other, sizeof one);
    product_bias(&a, 0, M, one);
    product_bias(&b, 0, M, other);
    assert_memory_equal(one, other, sizeof one);
    free(scratch);
    free(v);
    free(u);
}

TEST(nothing_needs_to_be_aligned)
{
    (void)state;
    enum { M = 25, N = 67, ROWS = 5 };
    struct rng rng;
    rng_init(&rng, 6);
    float *u = numbers(1 + ROWS * M, &rng, draw), *v = numbers(3 + ROWS * N, &rng, draw);
    float w[5 + M * N], want[M * N];
    char *scratch = heap(product_scratch_bytes() + 65);
    const struct product_block block = {u + 1, v + 3, ROWS};
    for (size_t shift = 0; shift < 5; shift++) {
        const struct product p = {&block, 1, M, N, w + shift, N, 0.5F, NULL};
        for (size_t i = 0; i < (size_t)M * N; i++)
            want[i] = element(&p, PRODUCT_STORE, i / N, i % N, 0);
        for (size_t i = 0; product_kernel_at(i) != NULL; i++) {
            product_with(product_kernel_at(i), &p, PRODUCT_STORE, 0, M, scratch + 16 * shift + 1);
            assert_memory_equal(w + shift, want, sizeof want);
        }
    }
    free(scratch);
    free(v);
    free(u);
}

TEST(the_bias_is_a_chain_of_additions)
{
    (void)state;
    static const size_t sizes[] = {1, 7, 256, 600};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct trial t;
        struct shape shape = {.m = sizes[i], .n = 1, .rows = {33, 0, 8}, .count = 3};
        trial_init(&t, &shape, i, i % 2 ? draw_odd : draw);
        float *bias = heap(sizes[i] * sizeof *bias);
        memcpy(bias, t.start, sizes[i] * sizeof *bias);
        const size_t first = sizes[i] / 3, last = sizes[i] - sizes[i] / 5;
        product_bias(&t.p, first, last, bias);
        for (size_t m = 0; m < sizes[i]; m++) {
            float s = 0, want = t.start[m];
            for (size_t b = 0; b < t.p.count; b++)
                for (size_t k = 0; k < t.blocks[b].rows; k++)
                    s += t.blocks[b].u[k * sizes[i] + m];
            if (m >= first && m < last)
                want = fmaf(t.p.alpha, s, want);
            assert_true(same(bias[m], want));
        }
        free(bias);
        trial_fini(&t);
    }
}

TEST(the_plain_kernel_is_always_there_and_the_last)
{
    (void)state;
    size_t count = 0;
    while (product_kernel_at(count) != NULL)
        count++;
    assert_true(count >= 1);
    assert_string_equal(product_kernel_name(product_kernel_at(count - 1)), "plain");
#ifdef __x86_64__
    size_t want = 1;
    want += __builtin_cpu_supports("avx512f") != 0;
    want += __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    assert_int_equal(count, want);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_by_one_is_the_chain),
        cmocka_unit_test(every_size_of_an_edge_is_the_chain),
        cmocka_unit_test(every_depth_is_the_chain),
        cmocka_unit_test(more_than_one_pass_in_each_direction_is_the_chain),
        cmocka_unit_test(random_shapes_and_blocks_are_the_chain),
        cmocka_unit_test(no_factors_still_add_alpha_times_zero),
        cmocka_unit_test(an_empty_matrix_is_left_alone),
        cmocka_unit_test(odd_numbers_go_where_the_chain_puts_them),
        cmocka_unit_test(a_zero_factor_times_infinity_is_nan),
        cmocka_unit_test(four_threads_give_the_bits_of_one),
        cmocka_unit_test(rows_that_were_not_asked_for_are_left_alone),
        cmocka_unit_test(zeros_that_are_left_out_change_no_bit),
        cmocka_unit_test(wide_products_leave_zeros_out_too),
        cmocka_unit_test(a_zero_times_infinity_is_nan_among_many_zeros),
        cmocka_unit_test(how_the_rows_are_cut_changes_no_bit),
        cmocka_unit_test(nothing_needs_to_be_aligned),
        cmocka_unit_test(the_bias_is_a_chain_of_additions),
        cmocka_unit_test(the_plain_kernel_is_always_there_and_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
