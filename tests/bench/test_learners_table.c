/* bench/learners_table: which mini-batch is the smallest that pays, and by how much. */
#include "bench/learners_table.h"

#include <math.h>
#include <string.h>

#include "lib/test.h"

static const struct learners_way ways[LEARNERS_WAYS] = {
    {"way 0", "zero"}, {"way 1", "one"},  {"way 2", "two"}, {"way 3", "three"},
    {"way 4", "four"}, {"way 5", "five"}, {"way 6", "six"},
};

static const struct learners_row rows[] = {
    {"a", 1, 100, {160, 40, 100, 99, 101, NAN, 5}},
    {"a", 2, 100, {160, 101, 100, 99, 90, NAN, 5}},
    {"b", 1, 10, {9, 3, 10, 20, 5, NAN, 50}},
    {"b", 4, 10, {20, 9, 11, 20, 5, NAN, 50}},
};

static char text[4000];

static void write(size_t room)
{
    memset(text, '?', sizeof text);
    learners_tables(rows, sizeof rows / sizeof rows[0], ways, text, room);
    assert_true(memchr(text, '\0', room) != NULL);
}

TEST(the_smallest_mini_batch_is_the_first_above_one_learner)
{
    (void)state;
    write(sizeof text);
    assert_non_null(strstr(text, "way 0                                         1      4\n"));
    assert_non_null(strstr(text, "way 1                                         2      -\n"));
    assert_non_null(strstr(text, "way 2                                         -      4\n"));
    assert_non_null(strstr(text, "way 3                                         -      1\n"));
    assert_non_null(strstr(text, "way 4                                         1      -\n"));
    assert_non_null(strstr(text, "way 5                                         -      -\n"));
}

TEST(two_ways_are_held_against_the_second_at_the_smallest_mini_batch)
{
    (void)state;
    write(sizeof text);
    assert_non_null(strstr(text, "zero : one: a 4.00, b 3.00\ntwo : one: a 2.50, b 3.33\n"));
}

TEST(every_rate_and_ratio_is_there_and_what_was_not_measured_is_a_dash)
{
    (void)state;
    write(sizeof text);
    assert_non_null(strstr(text, "a       1    100    160     40    100     99    101      -      5"
                                 "   1.60   0.40   1.00   0.99   1.01      -   0.05\n"));
}

TEST(a_text_that_is_too_long_is_cut)
{
    (void)state;
    for (size_t room = 1; room < 900; room++) {
        write(room);
        assert_int_equal(text[room], '?');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_mini_batch_is_the_first_above_one_learner),
        cmocka_unit_test(two_ways_are_held_against_the_second_at_the_smallest_mini_batch),
        cmocka_unit_test(every_rate_and_ratio_is_there_and_what_was_not_measured_is_a_dash),
        cmocka_unit_test(a_text_that_is_too_long_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
