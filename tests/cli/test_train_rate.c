/* The rate of the live line, from what all learners have done. */
#include "cli/train_rate.h"

#include "cli/train_line.h"
#include "cli/train_listener.h"
#include "lib/test.h"

static void is_near(double a, double b)
{
    if (a < b - 1e-6 || a > b + 1e-6)
        fail_msg("%g is not %g", a, b);
}

TEST(a_count_that_grows_evenly_has_that_rate_from_the_second_look_on)
{
    (void)state;
    struct train_rate rate = {.used = 0};
    assert_true(train_rate_look(&rate, 100, 7) < 0);
    for (uint64_t i = 1; i < 200; i++)
        is_near(train_rate_look(&rate, 100 + 0.05 * (double)i, 7 + 10 * i), 200);
}

TEST(what_was_long_ago_does_not_count)
{
    (void)state;
    struct train_rate rate = {.used = 0};
    for (uint64_t i = 0; i <= 100; i++)
        (void)train_rate_look(&rate, 0.05 * (double)i, 1000 * i);
    for (uint64_t i = 1; i <= 20; i++) /* a second in which nothing comes */
        (void)train_rate_look(&rate, 5 + 0.05 * (double)i, 100000);
    double half = train_rate_look(&rate, 6, 100000);
    assert_true(half > 5000 && half < 15000);
    for (uint64_t i = 1; i <= 60; i++)
        (void)train_rate_look(&rate, 6 + 0.05 * (double)i, 100000);
    is_near(train_rate_look(&rate, 9.1, 100000), 0);
}

TEST(after_a_count_that_goes_back_it_begins_anew)
{
    (void)state;
    struct train_rate rate = {.used = 0};
    (void)train_rate_look(&rate, 1, 500);
    (void)train_rate_look(&rate, 2, 900);
    assert_true(train_rate_look(&rate, 2.5, 100) < 0); /* a checkpoint was put back */
    is_near(train_rate_look(&rate, 3.5, 200), 100);
}

/* ---- what a launcher knows better ---- */

static bool speaks(const void *ctx, uint32_t rank)
{
    (void)ctx, (void)rank;
    return true;
}

static void know_better(void *ctx, struct train_moment *moment)
{
    (void)ctx;
    moment->samples_per_s = 30;
}

TEST(the_launcher_has_the_last_word_on_a_moment)
{
    (void)state;
    struct train_listener listener;
    const struct cli cli = {.mem = &mem_libc};
    const struct train_moment moment = {.iteration = 5, .samples_per_s = 20};
    struct buf line;
    buf_init(&line, &mem_libc);
    train_say_moment(&moment, &line);
    assert_true(line.len > 0 && line.data[line.len - 1] == '\n');
    assert_int_equal(train_listener_init(&listener, 1, &cli, NULL), TRI_OK);
    listener.speaks = speaks;
    assert_true(train_listener_line(&listener, 0, line.data, line.len - 1));
    is_near(listener.outcome.moment.samples_per_s, 20);
    listener.amend = know_better;
    assert_true(train_listener_line(&listener, 0, line.data, line.len - 1));
    is_near(listener.outcome.moment.samples_per_s, 30);
    assert_int_equal(listener.outcome.moment.iteration, 5);
    train_listener_fini(&listener);
    buf_fini(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_count_that_grows_evenly_has_that_rate_from_the_second_look_on),
        cmocka_unit_test(what_was_long_ago_does_not_count),
        cmocka_unit_test(after_a_count_that_goes_back_it_begins_anew),
        cmocka_unit_test(the_launcher_has_the_last_word_on_a_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
