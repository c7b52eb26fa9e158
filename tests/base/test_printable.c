/* base/printable, base/utf8: what of a text from outside may reach a terminal. */
#include "base/printable.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/utf8.h"
#include "lib/test.h"

static void becomes(const char *text, const char *want)
{
    char copy[100];
    (void)snprintf(copy, sizeof copy, "%s", text);
    printable(copy);
    if (strcmp(copy, want) != 0)
        fail_msg("'%s' was wanted, not '%s'", want, copy);
}

TEST(harmless_text_stays_as_it_is)
{
    (void)state;
    becomes("", "");
    becomes("conv1_1 ~!", "conv1_1 ~!");
    becomes("\xC2\xA0\xC3\xA9\xE2\x82\xAC\xF0\x9F\x94\xB1",
            "\xC2\xA0\xC3\xA9\xE2\x82\xAC\xF0\x9F\x94\xB1");
}

TEST(every_control_character_becomes_a_question_mark)
{
    (void)state;
    for (char c = 1; c < 0x20; c++)
        becomes((char[]){'a', c, 'b', '\0'}, "a?b");
    becomes("a\x7F"
            "b",
            "a?b");
    for (int c = 0x80; c < 0xA0; c++)
        becomes((char[]){'a', '\xC2', (char)c, 'b', '\0'}, "a?b");
}

TEST(what_turns_or_breaks_a_line_becomes_a_question_mark)
{
    (void)state;
    static const char *const turns[] = {
        "\xE2\x80\x8E", "\xE2\x80\x8F", "\xE2\x80\xAA", "\xE2\x80\xAB", "\xE2\x80\xAC",
        "\xE2\x80\xAD", "\xE2\x80\xAE", "\xE2\x81\xA6", "\xE2\x81\xA7", "\xE2\x81\xA8",
        "\xE2\x81\xA9", "\xE2\x80\xA8", "\xE2\x80\xA9", "\xD8\x9C",
    };
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++)
        becomes(turns[i], "?");
    becomes("\xE2\x80\x8D\xE2\x80\x90", "\xE2\x80\x8D\xE2\x80\x90"); /* the neighbours */
}

TEST(a_character_that_was_cut_goes)
{
    (void)state;
    becomes("ab\xC3", "ab");
    becomes("ab\xE2\x82", "ab");
    becomes("ab\xF0\x9F\x94", "ab");
    becomes("'ab\xE2\x82' and more", "'ab' and more");
    becomes("\xC3\xE2\x82\xAC", "\xE2\x82\xAC");
}

TEST(bytes_that_cannot_be_utf8_become_question_marks)
{
    (void)state;
    becomes("a\x80"
            "b",
            "a?b");
    becomes("a\xFF\xC0"
            "b",
            "a??b");
    becomes("\xED\xA0\x80", "???"); /* a surrogate */
    becomes("\xC0\x9B", "??");      /* an overlong escape */
}

TEST(whatever_comes_in_only_harmless_characters_come_out)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 7);
    for (int run = 0; run < 20000; run++) {
        char text[12] = {0};
        for (size_t i = 0; i + 1 < sizeof text; i++)
            text[i] = (char)(rng_below(&rng, 2) == 0 ? rng_below(&rng, 256)
                                                     : 0x80 + rng_below(&rng, 0x70));
        size_t before = strlen(text);
        printable(text);
        size_t room = strlen(text);
        assert_true(room <= before);
        for (size_t at = 0, len; at < room; at += len) {
            len = utf8_length(text + at, room - at);
            assert_true(len > 0);
            assert_true(printable_code(utf8_code(text + at, len)));
        }
    }
}

TEST(columns_count_characters)
{
    (void)state;
    assert_int_equal(printable_columns(""), 0);
    assert_int_equal(printable_columns("a\xC3\xA9\xE2\x82\xAC"), 3);
}

TEST(codes_are_read)
{
    (void)state;
    assert_int_equal(utf8_code("a", 1), 'a');
    assert_int_equal(utf8_code("\xC3\xA9", 2), 0xE9);
    assert_int_equal(utf8_code("\xE2\x82\xAC", 3), 0x20AC);
    assert_int_equal(utf8_code("\xF0\x9F\x94\xB1", 4), 0x1F531);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(harmless_text_stays_as_it_is),
        cmocka_unit_test(every_control_character_becomes_a_question_mark),
        cmocka_unit_test(what_turns_or_breaks_a_line_becomes_a_question_mark),
        cmocka_unit_test(a_character_that_was_cut_goes),
        cmocka_unit_test(bytes_that_cannot_be_utf8_become_question_marks),
        cmocka_unit_test(whatever_comes_in_only_harmless_characters_come_out),
        cmocka_unit_test(columns_count_characters),
        cmocka_unit_test(codes_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
