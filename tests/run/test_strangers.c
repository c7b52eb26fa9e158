/* run/strangers: which of those turned away are told. */
#include "run/strangers.h"

#include <stdio.h>
#include <string.h>

#include "lib/test.h"

static struct strangers strangers;

static int clear(void **state)
{
    (void)state;
    strangers = (struct strangers){0};
    return 0;
}

TEST(a_host_and_a_kind_are_told_once_then_sixteen_times_later)
{
    (void)state;
    unsigned lines = 0;
    for (unsigned i = 1; i <= 1000; i++) {
        char address[40], what[60];
        (void)snprintf(address, sizeof address, "10.0.0.7:%u", 1000 + i);
        (void)snprintf(what, sizeof what, "not a trident node: it begins with '%u'", i);
        uint64_t times = strangers_note(&strangers, address, what);
        assert_int_equal(times, i == 1 || i == 16 || i == 256 ? i : 0);
        lines += times > 0;
    }
    assert_int_equal(lines, 3);
    assert_string_equal(strangers.last, "10.0.0.7:2000: not a trident node: it begins with '1000'");
}

TEST(other_hosts_and_other_kinds_are_told_apart)
{
    (void)state;
    static const struct {
        const char *address, *what;
        unsigned times;
    } rows[] = {
        {"10.0.0.7:1", "not a trident node: x", 1}, {"10.0.0.8:1", "not a trident node: x", 1},
        {"10.0.0.7:2", "not a trident node: y", 0}, {"10.0.0.7:2", "it speaks version 1 of it", 1},
        {"10.0.0.7:2", "it speaks version 3", 0},   {"[fd00::7]:2", "it speaks version 3", 1},
        {"[fd00::8]:2", "it speaks version 3", 1},  {"unknown", "it speaks version 3", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(strangers_note(&strangers, rows[i].address, rows[i].what), rows[i].times);
}

TEST(a_full_table_counts_the_others_as_one)
{
    (void)state;
    unsigned lines = 0;
    for (unsigned i = 0; i < 10000; i++) {
        char address[40];
        (void)snprintf(address, sizeof address, "10.0.%u.%u:99", i / 250, i % 250);
        lines += strangers_note(&strangers, address, "noise") > 0;
    }
    assert_int_equal(lines, STRANGERS_MOST + 4); /* 1, 16, 256, 4096 */
}

TEST(texts_that_are_too_long_are_cut)
{
    (void)state;
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(strangers_note(&strangers, text, text), 1);
    assert_int_equal(strangers_note(&strangers, text, text), 0);
    assert_true(strlen(strangers.last) < sizeof strangers.last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_host_and_a_kind_are_told_once_then_sixteen_times_later, clear),
        cmocka_unit_test_setup(other_hosts_and_other_kinds_are_told_apart, clear),
        cmocka_unit_test_setup(a_full_table_counts_the_others_as_one, clear),
        cmocka_unit_test_setup(texts_that_are_too_long_are_cut, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
