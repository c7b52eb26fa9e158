/* run/forms: factors and rows made dense, for layers of any shape. */
#include "run/forms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/fault.h"
#include "lib/test.h"
#include "run/agree.h"

enum { MOST = 40, K = 9 };

static struct agreement *one_layer(uint32_t rows, uint32_t cols, bool bias)
{
    struct agree_layer layer = {.name = "a",
                                .kind = TRI_FC,
                                .rows = rows,
                                .cols = cols,
                                .bias = bias,
                                .max_factor_rows = K};
    struct agree_options options = {.workers = 1,
                                    .servers = 1,
                                    .colocated = 1,
                                    .bits_s = 1e9,
                                    .flops_s = 1e9,
                                    .rule = PLAN_TIME};
    struct agreement *agreement = NULL;
    tri_error err = {0};
    if (agree_make(&layer, 1, &options, &mem_libc, &agreement, &err) != TRI_OK)
        fail_msg("%s", err.text);
    return agreement;
}

static void fill(struct rng *rng, float *floats, size_t count)
{
    for (size_t i = 0; i < count; i++)
        floats[i] = (float)(2 * rng_unit(rng) - 1);
}

static void check(const struct update *update, const double *want, size_t matrix, size_t bias)
{
    for (size_t i = 0; i < matrix; i++)
        assert_true(fabs((double)update->dense[i] - want[i]) < 1e-5);
    if (bias == 0)
        assert_null(update->dense_bias);
    for (size_t i = 0; i < bias; i++)
        assert_true(fabs((double)update->dense_bias[i] - want[matrix + i]) < 1e-5);
}

TEST(factors_are_multiplied_out_with_their_bias)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 3);
    for (int n = 0; n < 60; n++) {
        uint32_t rows = 1 + (uint32_t)rng_below(&rng, MOST),
                 cols = 1 + (uint32_t)rng_below(&rng, MOST);
        uint32_t k = 1 + (uint32_t)rng_below(&rng, K);
        bool bias = rng_below(&rng, 2) == 0;
        static float u[K * MOST], v[K * MOST];
        static double want[MOST * (MOST + 1)];
        struct agreement *agreement = one_layer(rows, cols, bias);
        struct forms forms;
        assert_int_equal(forms_init(&forms, agreement->layout, &mem_libc, NULL), TRI_OK);
        fill(&rng, u, (size_t)k * rows);
        fill(&rng, v, (size_t)k * cols);
        memset(want, 0, sizeof want);
        for (size_t s = 0; s < k; s++)
            for (size_t i = 0; i < rows; i++) {
                for (size_t j = 0; j < cols; j++)
                    want[i * cols + j] += (double)u[s * rows + i] * (double)v[s * cols + j];
                want[(size_t)rows * cols + i] += (double)u[s * rows + i];
            }
        struct update update = {.u = u, .v = v, .factor_rows = k, .count = 1};
        assert_int_equal(forms_make_dense(&forms, 0, &update, NULL), TRI_OK);
        check(&update, want, (size_t)rows * cols, bias ? rows : 0);
        forms_fini(&forms);
        agree_free(agreement);
    }
}

TEST(after_the_first_product_no_memory_is_taken)
{
    (void)state;
    float u[K * MOST] = {1}, v[K * MOST] = {1};
    struct agreement *agreement = one_layer(7, 5, true);
    struct fault fault;
    struct forms forms;
    fault_init(&fault);
    assert_int_equal(forms_init(&forms, agreement->layout, &fault.mem, NULL), TRI_OK);
    size_t calls = 0;
    for (int i = 0; i < 4; i++) {
        struct update update = {.u = u, .v = v, .factor_rows = K, .count = 1};
        assert_int_equal(forms_make_dense(&forms, 0, &update, NULL), TRI_OK);
        calls = i == 0 ? fault.calls : calls;
    }
    assert_int_equal(fault.calls, calls);
    forms_fini(&forms);
    assert_int_equal(fault.live, 0);
    agree_free(agreement);
}

TEST(rows_are_added_where_they_belong_and_nothing_is_left_of_earlier_ones)
{
    (void)state;
    enum { ROWS = 6, COLS = 3, MATRIX = ROWS * COLS };
    struct agreement *agreement = one_layer(ROWS, COLS, true);
    struct forms forms;
    struct rng rng;
    rng_init(&rng, 4);
    assert_int_equal(forms_init(&forms, agreement->layout, &mem_libc, NULL), TRI_OK);
    for (int n = 0; n < 20; n++) {
        float values[5 * COLS];
        uint32_t numbers[5], count = (uint32_t)rng_below(&rng, 6);
        double want[MATRIX + ROWS] = {0};
        fill(&rng, values, sizeof values / sizeof values[0]);
        for (uint32_t i = 0; i < count; i++) {
            numbers[i] = (uint32_t)rng_below(&rng, ROWS);
            for (uint32_t j = 0; j < COLS; j++)
                want[(size_t)numbers[i] * COLS + j] += (double)values[(size_t)i * COLS + j];
        }
        struct update update = {
            .row_values = values, .row_numbers = numbers, .row_count = count, .count = 1};
        assert_int_equal(forms_make_dense(&forms, 0, &update, NULL), TRI_OK);
        check(&update, want, MATRIX, ROWS);
    }
    forms_fini(&forms);
    agree_free(agreement);
}

TEST(what_is_dense_stays_where_it_is)
{
    (void)state;
    float dense[6] = {0}, bias[2] = {0};
    struct agreement *agreement = one_layer(2, 3, true);
    struct forms forms;
    assert_int_equal(forms_init(&forms, agreement->layout, &mem_libc, NULL), TRI_OK);
    struct update update = {.dense = dense, .dense_bias = bias, .count = 1};
    assert_int_equal(forms_make_dense(&forms, 0, &update, NULL), TRI_OK);
    assert_ptr_equal(update.dense, dense);
    assert_ptr_equal(update.dense_bias, bias);
    forms_fini(&forms);
    agree_free(agreement);
}

TEST(rows_beyond_the_last_are_refused_by_number)
{
    (void)state;
    float values[3] = {0};
    uint32_t number = 2;
    struct agreement *agreement = one_layer(2, 3, false);
    struct forms forms;
    tri_error err = {0};
    assert_int_equal(forms_init(&forms, agreement->layout, &mem_libc, NULL), TRI_OK);
    struct update update = {
        .row_values = values, .row_numbers = &number, .row_count = 1, .count = 1};
    assert_int_equal(forms_make_dense(&forms, 0, &update, &err), TRI_EARG);
    assert_non_null(strstr(err.text, "layer 'a' has no row 2, only 2 rows"));
    forms_fini(&forms);
    agree_free(agreement);
}

TEST(memory_that_is_refused_is_told_and_nothing_leaks)
{
    (void)state;
    struct agreement *agreement = one_layer(4, 4, true);
    struct fault fault = {0};
    float u[4] = {0}, v[4] = {0};
    FAULT_WALK(&fault)
    {
        struct forms forms = {0};
        struct update update = {.u = u, .v = v, .factor_rows = 1, .count = 1};
        tri_status status = forms_init(&forms, agreement->layout, &fault.mem, NULL);
        if (status == TRI_OK)
            status = forms_make_dense(&forms, 0, &update, NULL);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        forms_fini(&forms);
    }
    agree_free(agreement);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_are_multiplied_out_with_their_bias),
        cmocka_unit_test(after_the_first_product_no_memory_is_taken),
        cmocka_unit_test(rows_are_added_where_they_belong_and_nothing_is_left_of_earlier_ones),
        cmocka_unit_test(what_is_dense_stays_where_it_is),
        cmocka_unit_test(rows_beyond_the_last_are_refused_by_number),
        cmocka_unit_test(memory_that_is_refused_is_told_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
