/* Runs, passes over them, and arrays that begin on a cache line. */
#include "store/runs.h"

#include <string.h>

#include "lib/test.h"
#include "store/floats.h"
#include "store/passes.h"

enum { MOST = 70 };

static void count_up(float *values, size_t n, float from)
{
    for (size_t i = 0; i < n; i++)
        values[i] = from + (float)i;
}

TEST(a_cut_gives_the_floats_of_both_pieces_in_order)
{
    (void)state;
    enum { CUT = 7, BEHIND = 4 };
    float before[CUT], behind[BEHIND], whole[CUT + BEHIND], out[CUT + BEHIND];
    count_up(whole, CUT + BEHIND, 1);
    memcpy(before, whole, sizeof before);
    memcpy(behind, whole + CUT, sizeof behind);
    for (uint64_t first = 0; first < CUT + BEHIND; first++)
        for (uint64_t count = 1; first + count <= CUT + BEHIND; count++) {
            struct store_runs runs = store_runs_cut(before, behind, CUT, first, count);
            assert_int_equal(store_runs_floats(runs), count);
            assert_int_equal(runs.count[1] > 0, first < CUT && first + count > CUT);
            store_runs_read(runs, out);
            assert_memory_equal(out, whole + first, count * sizeof *out);
            assert_true(store_runs_equal(runs, whole + first));
            out[count - 1] += 1;
            assert_false(store_runs_equal(runs, out));
        }
}

TEST(pieces_that_adjoin_are_one_run)
{
    (void)state;
    float whole[11] = {0};
    struct store_runs runs = store_runs_cut(whole, whole + 7, 7, 3, 8);
    assert_ptr_equal(runs.at[0], whole + 3);
    assert_int_equal(runs.count[0], 8);
    assert_int_equal(runs.count[1], 0);
}

TEST(values_are_written_and_added_across_runs)
{
    (void)state;
    float a[3] = {0}, b[2] = {0}, c[4] = {0};
    static const float in[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct store_runs runs = {.at = {a, b, c}, .count = {3, 2, 4}};
    store_runs_write(runs, in);
    store_runs_add(runs, in);
    static const float twice[9] = {2, 4, 6, 8, 10, 12, 14, 16, 18};
    assert_true(store_runs_equal(runs, twice));
    assert_true(a[2] == 6 && b[0] == 8 && c[0] == 12);
}

TEST(no_runs_are_no_floats)
{
    (void)state;
    struct store_runs none = {0};
    float untouched = 5;
    store_runs_read(none, &untouched);
    store_runs_write(none, NULL);
    store_runs_add(none, NULL);
    assert_true(store_runs_equal(none, NULL));
    assert_int_equal(store_runs_floats(none), 0);
    assert_true(untouched == 5);
}

TEST(passes_of_any_length_compute_every_element_and_no_more)
{
    (void)state;
    for (size_t n = 0; n <= MOST; n++) {
        float sum[MOST + 1], src[MOST + 1], mean[MOST + 1], params[MOST + 1];
        count_up(sum, MOST + 1, 0.3f);
        count_up(src, MOST + 1, -20.7f);
        count_up(mean, MOST + 1, 0);
        count_up(params, MOST + 1, 3.1f);
        pass_add(sum, src, n);
        pass_mean(mean, (struct pass_sum){sum, NULL}, n, 7);
        pass_sgd(params, (struct pass_sum){sum, NULL}, n, 7, 0.3f);
        for (size_t i = 0; i <= MOST; i++) {
            float added = 0.3f + (float)i, stepped = 3.1f + (float)i, divided = (float)i;
            if (i < n) {
                added += -20.7f + (float)i;
                divided = added / 7;
                stepped -= 0.3f * divided;
            }
            assert_true(sum[i] == added && mean[i] == divided && params[i] == stepped);
        }
    }
}

/* Powers of two are multiplied by instead of divided by: the same bits. */
TEST(sums_of_two_arrays_are_the_same_in_one_pass_as_in_two)
{
    (void)state;
    static const float divisors[] = {1, 2, 3, 7, 8, 0.5f, 1024, 1e30f, 1e-30f};
    float a[MOST], b[MOST], sum[MOST], mean[MOST], params[MOST];
    count_up(a, MOST, 0.3f);
    count_up(b, MOST, -20.7f);
    pass_sum(sum, (struct pass_sum){a, b}, MOST);
    for (size_t d = 0; d < sizeof divisors / sizeof divisors[0]; d++) {
        count_up(params, MOST, 3.1f);
        pass_mean(mean, (struct pass_sum){a, b}, MOST, divisors[d]);
        pass_sgd(params, (struct pass_sum){a, b}, MOST, divisors[d], 0.3f);
        for (size_t i = 0; i < MOST; i++) {
            float added = a[i] + b[i], divided = added / divisors[d];
            assert_true(sum[i] == added && mean[i] == divided);
            assert_true(params[i] == 3.1f + (float)i - 0.3f * divided);
        }
    }
    pass_sum(sum, (struct pass_sum){a, NULL}, MOST);
    assert_memory_equal(sum, a, sizeof a);
    pass_sum(a, (struct pass_sum){a, b}, MOST);
    for (size_t i = 0; i < MOST; i++)
        assert_true(a[i] == sum[i] + b[i]);
}

TEST(floats_begin_on_a_cache_line_whatever_the_allocator_gives)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        for (uint64_t n = 0; n < 40; n++) {
            float *some = floats_new(&fault.mem, n), *zero = floats_zero(&fault.mem, n);
            assert_int_equal((uintptr_t)some % FLOATS_ALIGN, 0);
            assert_int_equal((uintptr_t)zero % FLOATS_ALIGN, 0);
            for (uint64_t i = 0; i < n && some != NULL && zero != NULL; i++)
                some[i] = zero[i] + 1;
            for (uint64_t i = 0; i < n && zero != NULL; i++)
                assert_true(zero[i] == 0);
            floats_free(&fault.mem, some);
            floats_free(&fault.mem, zero);
        }
    }
    floats_free(&mem_libc, NULL);
}

TEST(more_floats_than_memory_can_have_are_refused)
{
    (void)state;
    assert_null(floats_new(&mem_libc, UINT64_MAX));
    assert_null(floats_zero(&mem_libc, SIZE_MAX / sizeof(float)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_gives_the_floats_of_both_pieces_in_order),
        cmocka_unit_test(pieces_that_adjoin_are_one_run),
        cmocka_unit_test(values_are_written_and_added_across_runs),
        cmocka_unit_test(no_runs_are_no_floats),
        cmocka_unit_test(passes_of_any_length_compute_every_element_and_no_more),
        cmocka_unit_test(sums_of_two_arrays_are_the_same_in_one_pass_as_in_two),
        cmocka_unit_test(floats_begin_on_a_cache_line_whatever_the_allocator_gives),
        cmocka_unit_test(more_floats_than_memory_can_have_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
