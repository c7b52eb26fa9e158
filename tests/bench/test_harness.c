/* What a benchmark opened is closed, also the cases that were not asked for. */
#include "bench/harness.h"

#include <string.h>

#include "lib/test.h"

enum { CASES = 3 };

static struct {
    uint32_t turns[CASES], closed;
} seen;

static tri_status turn(void *ctx, bool baseline, struct bench_sample *out, tri_error *err)
{
    (void)baseline;
    (void)err;
    ++*(uint32_t *)ctx;
    *out = (struct bench_sample){1, 1};
    return TRI_OK;
}

static tri_status open_three(const struct mem *mem, const struct bench_wish *wish,
                             struct bench_plan *plan, tri_error *err)
{
    static const struct bench_case cases[CASES] = {
        {.name = "first", .turn = turn, .ctx = &seen.turns[0]},
        {.name = "second", .turn = turn, .ctx = &seen.turns[1]},
        {.name = "third", .turn = turn, .ctx = &seen.turns[2]},
    };
    (void)mem;
    (void)wish;
    (void)err;
    *plan = (struct bench_plan){
        .cases = cases, .count = CASES, .value_name = "new", .baseline_name = "old"};
    return TRI_OK;
}

static void close_three(const struct mem *mem, struct bench_plan *plan)
{
    (void)mem;
    seen.closed += (uint32_t)plan->count;
}

static tri_status run(const char *only, tri_error *err)
{
    static const struct bench bench = {.name = "three",
                                       .summary = "three cases",
                                       .unit = "GB/s",
                                       .repeats = 2,
                                       .open = open_three,
                                       .close = close_three};
    const struct bench_options options = {.only = only, .repeats = 2};
    struct buf out;
    seen.closed = seen.turns[0] = seen.turns[1] = seen.turns[2] = 0;
    buf_init(&out, &mem_libc);
    tri_status status = bench_run(&bench, &options, &mem_libc, &out, err);
    buf_fini(&out);
    return status;
}

static void only_what_was_asked_for_is_measured_and_all_is_closed(void **state)
{
    (void)state;
    assert_int_equal(run("second", NULL), TRI_OK);
    assert_int_equal(seen.turns[0] + seen.turns[2], 0);
    assert_true(seen.turns[1] > 0);
    assert_int_equal(seen.closed, CASES);
    assert_int_equal(run(NULL, NULL), TRI_OK);
    assert_true(seen.turns[0] > 0 && seen.turns[2] > 0);
    assert_int_equal(seen.closed, CASES);
}

static void a_case_that_is_none_is_named_and_all_is_closed(void **state)
{
    (void)state;
    tri_error err = {0};
    assert_int_equal(run("fourth", &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "fourth"));
    assert_int_equal(seen.closed, CASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_was_asked_for_is_measured_and_all_is_closed),
        cmocka_unit_test(a_case_that_is_none_is_named_and_all_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
