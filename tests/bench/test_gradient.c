/* bench/gradient: the dense form is the sum of what the other forms say. */
#include "bench/gradient.h"

#include <string.h>

#include "lib/test.h"

enum { ROWS = 5, COLS = 3, FLOATS = ROWS * COLS };

static struct gradient_maker make(uint32_t rows)
{
    struct gradient_maker maker;
    assert_int_equal(gradient_open(&maker, rows, NULL), TRI_OK);
    return maker;
}

static void put_rows(struct gradient_maker *maker, const uint32_t *numbers, uint32_t count,
                     float *to)
{
    static const float values[4 * COLS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    struct param param = {.rows = ROWS,
                          .cols = COLS,
                          .row_values = values,
                          .row_numbers = numbers,
                          .row_count = count};
    gradient_put(maker, &param, to);
}

TEST(factors_are_multiplied_out_and_the_bias_is_their_sum)
{
    (void)state;
    const float u[2 * ROWS] = {1, 2, 3, 4, 5, 10, 20, 30, 40, 50}, v[2 * COLS] = {1, 0, 2, 3, 1, 0};
    float bias[ROWS], to[FLOATS + ROWS];
    struct param param = {
        .rows = ROWS, .cols = COLS, .bias = bias, .u = u, .v = v, .factor_rows = 2};
    struct gradient_maker maker = make(1);
    memset(to, 0xff, sizeof to);
    gradient_put(&maker, &param, to);
    for (int i = 0; i < ROWS; i++) {
        const float first = u[i], second = u[ROWS + i];
        assert_true(to[(size_t)i * COLS] == first + 3 * second);
        assert_true(to[i * COLS + 1] == second);
        assert_true(to[i * COLS + 2] == 2 * first);
        assert_true(to[FLOATS + i] == first + second);
    }
    gradient_close(&maker);
}

TEST(rows_leave_nothing_of_the_gradient_before)
{
    (void)state;
    const uint32_t first[] = {4, 1, 4}, second[] = {2};
    const float twice[] = {8, 10, 12}, once[] = {1, 2, 3}, zeros[COLS] = {0};
    float to[FLOATS];
    struct gradient_maker maker = make(4);
    memset(to, 0xff, sizeof to);
    put_rows(&maker, first, 3, to);
    assert_memory_equal(to + (size_t)4 * COLS, twice, sizeof twice);
    assert_memory_equal(to, zeros, sizeof zeros);
    put_rows(&maker, second, 1, to);
    for (int i = 0; i < ROWS; i++)
        assert_memory_equal(to + (size_t)i * COLS, i == 2 ? once : zeros, sizeof zeros);
    gradient_close(&maker);
}

TEST(places_are_told_apart_and_more_than_there_is_room_for_are_cleared_whole)
{
    (void)state;
    const uint32_t numbers[] = {0, 1, 2};
    const float zeros[COLS] = {0};
    float to[GRADIENT_PLACES + 1][FLOATS];
    struct gradient_maker maker = make(2);
    memset(to, 0xff, sizeof to);
    for (size_t i = 0; i <= GRADIENT_PLACES; i++)
        put_rows(&maker, numbers, i == 0 ? 3 : 2, to[i]); /* 3 are too many to remember */
    for (size_t i = 0; i <= GRADIENT_PLACES; i++) {
        put_rows(&maker, numbers, 1, to[i]);
        for (int r = 1; r < ROWS; r++)
            assert_memory_equal(to[i] + (size_t)r * COLS, zeros, sizeof zeros);
        assert_true(to[i][0] == 1);
    }
    gradient_close(&maker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_are_multiplied_out_and_the_bias_is_their_sum),
        cmocka_unit_test(rows_leave_nothing_of_the_gradient_before),
        cmocka_unit_test(places_are_told_apart_and_more_than_there_is_room_for_are_cleared_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
