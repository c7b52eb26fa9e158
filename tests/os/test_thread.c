/* Where a thread runs. */
#include "os/thread.h"

#include <sched.h>
#include <stdio.h>

#include "lib/test.h"

enum { TRIES = 200 };

static cpu_set_t allowed(void)
{
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    return set;
}

/* The system may move it back at any time. */
static void who_moves_off_is_elsewhere_and_may_run_where_it_could(void **state)
{
    (void)state;
    const cpu_set_t before = allowed();
    uint32_t moved = 0;
    if (CPU_COUNT(&before) < 2) {
        (void)fputs("skipped: this process may run on one processor only\n", stderr);
        skip();
    }
    for (uint32_t i = 0; i < TRIES && moved == 0; i++) {
        const uint32_t here = thread_cpu();
        thread_move_off(&here, 1);
        moved += thread_cpu() != here;
        const cpu_set_t after = allowed();
        assert_true(CPU_EQUAL(&before, &after));
    }
    assert_int_equal(moved, 1);
}

static void who_can_go_nowhere_stays(void **state)
{
    (void)state;
    const cpu_set_t before = allowed();
    uint32_t all[CPU_SETSIZE + 1];
    for (uint32_t i = 0; i <= CPU_SETSIZE; i++)
        all[i] = i;
    thread_move_off(all, CPU_SETSIZE + 1);
    const cpu_set_t after = allowed();
    assert_true(CPU_EQUAL(&before, &after));
}

static void a_processor_that_is_none_is_passed_over(void **state)
{
    (void)state;
    const cpu_set_t before = allowed();
    const uint32_t none[2] = {UINT32_MAX, CPU_SETSIZE};
    thread_move_off(none, 2);
    const cpu_set_t after = allowed();
    assert_true(CPU_EQUAL(&before, &after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_moves_off_is_elsewhere_and_may_run_where_it_could),
        cmocka_unit_test(who_can_go_nowhere_stays),
        cmocka_unit_test(a_processor_that_is_none_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
