/* The option parser: every type, every way to write a value, every refusal. */
#include "cli/options.h"

#include <string.h>

#include "lib/test.h"

struct settings {
    bool flag;
    const char *text;
    uint64_t count, size;
    double rate, time, flops;
    unsigned choice;
};

static const char *const fruits[] = {"apple", "red-currant", NULL};

static const struct option_row rows[] = {
    {.name = "flag", .type = OPTION_FLAG, .offset = offsetof(struct settings, flag)},
    {.name = "text", .value = "T", .type = OPTION_TEXT, .offset = offsetof(struct settings, text)},
    {.name = "count",
     .value = "N",
     .fallback = "7",
     .type = OPTION_COUNT,
     .min = 1,
     .max = 100,
     .offset = offsetof(struct settings, count)},
    {.name = "size",
     .value = "S",
     .type = OPTION_SIZE,
     .max = 1e9,
     .offset = offsetof(struct settings, size)},
    {.name = "rate",
     .value = "R",
     .fallback = "10Gbit",
     .type = OPTION_RATE,
     .min = 1,
     .max = 1e12,
     .offset = offsetof(struct settings, rate)},
    {.name = "time",
     .value = "T",
     .type = OPTION_TIME,
     .max = 10,
     .offset = offsetof(struct settings, time)},
    {.name = "flops",
     .value = "F",
     .type = OPTION_FLOPS,
     .max = 1e15,
     .offset = offsetof(struct settings, flops)},
    {.name = "fruit",
     .value = "F",
     .fallback = "apple",
     .type = OPTION_CHOICE,
     .choices = fruits,
     .offset = offsetof(struct settings, choice)},
    {.name = NULL},
};

static const struct option_row with_required[] = {
    {.name = "text",
     .value = "T",
     .type = OPTION_TEXT,
     .required = true,
     .help = "a text",
     .offset = offsetof(struct settings, text)},
    {.name = NULL},
};

#define PARSE(settings, arguments, err, ...)                                                       \
    options_parse(rows, 1,                                                                         \
                  (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)),        \
                  (const char *const[]){__VA_ARGS__}, settings, arguments, err)

TEST(defaults_are_parsed_like_values)
{
    (void)state;
    struct settings s = {0};
    struct arguments a;
    assert_int_equal(options_parse(rows, 1, 0, NULL, &s, &a, NULL), TRI_OK);
    assert_int_equal(s.count, 7);
    assert_true(s.rate == 1e10);
    assert_int_equal(s.choice, 0);
    assert_int_equal(a.count, 0);
}

TEST(values_come_after_a_space_or_an_equals_sign)
{
    (void)state;
    struct settings s = {0};
    struct arguments a;
    assert_int_equal(PARSE(&s, &a, NULL, "--flag", "--text", "a b", "--count=9", "--size", "2MB",
                           "--rate=1GB/s", "--time", "50us", "--flops", "100G",
                           "--fruit=red_currant"),
                     TRI_OK);
    assert_true(s.flag);
    assert_string_equal(s.text, "a b");
    assert_int_equal(s.count, 9);
    assert_int_equal(s.size, 2000000);
    assert_true(s.rate == 8e9 && s.flops == 1e11);
    assert_true(s.time > 4.999e-5 && s.time < 5.001e-5);
    assert_int_equal(s.choice, 1);
}

TEST(the_last_value_counts)
{
    (void)state;
    struct settings s = {0};
    struct arguments a;
    assert_int_equal(PARSE(&s, &a, NULL, "--count", "3", "--count", "4"), TRI_OK);
    assert_int_equal(s.count, 4);
}

TEST(two_dashes_alone_end_the_options)
{
    (void)state;
    struct settings s = {0};
    struct arguments a;
    assert_int_equal(PARSE(&s, &a, NULL, "--", "--flag"), TRI_OK);
    assert_false(s.flag);
    assert_int_equal(a.count, 1);
    assert_string_equal(a.at[0], "--flag");
}

TEST(help_wins_over_everything_that_is_wrong)
{
    (void)state;
    struct settings s = {0};
    struct arguments a;
    assert_int_equal(PARSE(&s, &a, NULL, "--count", "x", "--help"), TRI_OK);
    assert_true(a.help);
    assert_int_equal(PARSE(&s, &a, NULL, "--", "--help"), TRI_OK);
    assert_false(a.help);
}

static void refused(const char *first, const char *second, const char *text, const char *next)
{
    const char *const argv[] = {first, second};
    struct settings s = {0};
    struct arguments a;
    tri_error err = {0};
    int argc = second != NULL ? 2 : 1;
    assert_int_equal(options_parse(rows, 1, argc, argv, &s, &a, &err), TRI_EINPUT);
    assert_string_equal(err.text, text);
    if (strstr(err.next, next) == NULL)
        fail_msg("'%s' does not say '%s'", err.next, next);
}

TEST(refusals_name_the_option_and_what_would_be_right)
{
    (void)state;
    refused("--cuont", "3", "unknown option '--cuont'", "did you mean --count?");
    refused("--zzz", NULL, "unknown option '--zzz'", "--help lists");
    refused("--count", NULL, "option '--count' needs a value", "--count N");
    refused("--count", "--flag", "option '--count' needs a value", "--count N");
    refused("--count", "0", "option '--count' cannot be '0'", "a whole number from 1 to 100");
    refused("--count", "101", "option '--count' cannot be '101'", "1 to 100");
    refused("--count=", NULL, "option '--count' cannot be ''", "1 to 100");
    refused("--size", "2GB", "option '--size' cannot be '2GB'", "from 0 B to 1 GB");
    refused("--rate", "10", "option '--rate' cannot be '10'", "such as 10Gbit");
    refused("--time", "11s", "option '--time' cannot be '11s'", "from 0 s to 10 s");
    refused("--flops", "-1", "option '--flops' cannot be '-1'", "such as 100G");
    refused("--fruit", "aple", "option '--fruit' does not know 'aple'", "did you mean apple?");
    refused("--fruit", "kiwi", "option '--fruit' does not know 'kiwi'",
            "choose one of: apple, red-currant");
    refused("--flag=1", NULL, "option '--flag' takes no value", "--flag alone");
    refused("one", "two", "unexpected argument 'two'", "--name value");
    refused("--text", "", "option '--text' cannot be empty", "write --text T");
    refused("one", "-x", "unexpected argument '-x'", "two dashes");
}

TEST(what_is_required_is_asked_for)
{
    (void)state;
    struct settings s = {0};
    struct arguments a;
    tri_error err = {0};
    assert_int_equal(options_parse(with_required, 0, 0, NULL, &s, &a, &err), TRI_EINPUT);
    assert_string_equal(err.text, "option '--text' is missing");
    assert_string_equal(err.why, "a text");
}

TEST(a_surplus_argument_is_told_how_many_there_may_be)
{
    (void)state;
    struct settings s = {0};
    struct arguments a;
    tri_error err = {0};
    assert_int_equal(PARSE(&s, &a, &err, "one", "two"), TRI_EINPUT);
    assert_string_equal(err.why, "the command takes at most 1 argument");
    static const char *const words[] = {"one"};
    assert_int_equal(options_parse(rows, 0, 1, words, &s, &a, &err), TRI_EINPUT);
    assert_string_equal(err.why, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_parsed_like_values),
        cmocka_unit_test(values_come_after_a_space_or_an_equals_sign),
        cmocka_unit_test(the_last_value_counts),
        cmocka_unit_test(two_dashes_alone_end_the_options),
        cmocka_unit_test(help_wins_over_everything_that_is_wrong),
        cmocka_unit_test(refusals_name_the_option_and_what_would_be_right),
        cmocka_unit_test(what_is_required_is_asked_for),
        cmocka_unit_test(a_surplus_argument_is_told_how_many_there_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
