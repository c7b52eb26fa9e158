/* The part of the time that a host took. */
#include "bench/steal.h"

#include <math.h>

#include "lib/test.h"

static void the_part_is_of_all_ticks_in_between(void **state)
{
    (void)state;
    const struct steal then = {.all = 1000, .taken = 40}, now = {.all = 1200, .taken = 50};
    assert_true(steal_part(then, now) == 0.05);
}

static void without_ticks_nothing_is_known(void **state)
{
    (void)state;
    const struct steal none = {0, 0}, some = {.all = 1000, .taken = 40};
    assert_true(isnan(steal_part(none, some)));
    assert_true(isnan(steal_part(some, some)));
    assert_true(isnan(steal_part(some, (struct steal){.all = 2000, .taken = 39})));
}

static void the_machine_counts_ticks(void **state)
{
    (void)state;
    const struct steal now = steal_now();
    assert_true(now.all > 0);
    assert_true(now.taken < now.all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_part_is_of_all_ticks_in_between),
        cmocka_unit_test(without_ticks_nothing_is_known),
        cmocka_unit_test(the_machine_counts_ticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
