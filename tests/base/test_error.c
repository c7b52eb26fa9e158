/* base/error: what ends up in a tri_error. */
#include "base/error.h"

#include <errno.h>
#include <string.h>

#include "lib/test.h"

#undef fail /* cmocka has a macro of that name; here it is the function under test */

/* What an earlier failure may have left behind. */
static tri_error used(void)
{
    tri_error err = {.status = TRI_EARG};
    strncpy(err.text, "old text", sizeof err.text - 1);
    strncpy(err.where, "old where", sizeof err.where - 1);
    strncpy(err.why, "old why", sizeof err.why - 1);
    strncpy(err.next, "old next", sizeof err.next - 1);
    return err;
}

TEST(fail_returns_its_status_and_writes_the_text)
{
    (void)state;
    tri_error err;
    assert_int_equal(fail(&err, TRI_EINPUT, "cannot read '%s', line %d", "a.conf", 7), TRI_EINPUT);
    assert_int_equal(err.status, TRI_EINPUT);
    assert_string_equal(err.text, "cannot read 'a.conf', line 7");
}

TEST(fail_clears_what_an_earlier_report_left)
{
    (void)state;
    tri_error err = used();
    fail(&err, TRI_EIO, "new");
    assert_string_equal(err.text, "new");
    assert_string_equal(err.where, "");
    assert_string_equal(err.why, "");
    assert_string_equal(err.next, "");
}

TEST(where_why_and_next_add_to_a_report)
{
    (void)state;
    tri_error err = used();
    fail(&err, TRI_EINPUT, "text");
    fail_where(&err, "%s:%d", "a.conf", 14);
    fail_why(&err, "because of %d", 1);
    fail_next(&err, "try %d", 2);
    assert_int_equal(err.status, TRI_EINPUT);
    assert_string_equal(err.text, "text");
    assert_string_equal(err.where, "a.conf:14");
    assert_string_equal(err.why, "because of 1");
    assert_string_equal(err.next, "try 2");
}

TEST(a_caller_who_does_not_care_passes_null)
{
    (void)state;
    errno = ENOENT;
    assert_int_equal(fail(NULL, TRI_EARG, "%d", 1), TRI_EARG);
    assert_int_equal(fail_errno(NULL, TRI_EIO, "%d", 1), TRI_EIO);
    assert_int_equal(fail_nomem(NULL, "a thing"), TRI_ENOMEM);
    fail_where(NULL, "%d", 1);
    fail_why(NULL, "%d", 1);
    fail_next(NULL, "%d", 1);
}

TEST(fail_errno_keeps_the_reason_of_the_system)
{
    (void)state;
    tri_error err = used();
    errno = ENOENT;
    assert_int_equal(fail_errno(&err, TRI_EIO, "cannot open '%s'", "x"), TRI_EIO);
    assert_int_equal(err.status, TRI_EIO);
    assert_string_equal(err.text, "cannot open 'x'");
    assert_string_equal(err.why, "No such file or directory");
    assert_string_equal(err.where, "");
    assert_string_equal(err.next, "");
}

TEST(fail_errno_names_a_number_the_system_does_not_know)
{
    (void)state;
    tri_error err;
    errno = 98765;
    fail_errno(&err, TRI_EIO, "text");
    assert_string_equal(err.why, "error number 98765");
}

TEST(fail_nomem_names_the_thing_and_a_next_step)
{
    (void)state;
    tri_error err = used();
    assert_int_equal(fail_nomem(&err, "the profile"), TRI_ENOMEM);
    assert_int_equal(err.status, TRI_ENOMEM);
    assert_string_equal(err.text, "out of memory for the profile");
    assert_string_equal(err.where, "");
    assert_string_equal(err.why, "");
    assert_non_null(strstr(err.next, "memory"));
}

TEST(a_text_that_just_fits_is_whole)
{
    (void)state;
    tri_error err;
    fail(&err, TRI_EARG, "%0*d", (int)sizeof err.text - 1, 7);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_int_equal(err.text[sizeof err.text - 2], '7');
}

TEST(a_text_too_long_is_cut_and_never_overruns)
{
    (void)state;
    struct {
        tri_error err;
        char fence[16];
    } box;
    memset(&box, '#', sizeof box);
    fail(&box.err, TRI_EARG, "%0*d", 5000, 7);
    fail_where(&box.err, "%0*d", 5000, 7);
    fail_why(&box.err, "%0*d", 5000, 7);
    fail_next(&box.err, "%0*d", 5000, 7);
    const char *const fields[] = {box.err.text, box.err.where, box.err.why, box.err.next};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(strlen(fields[i]), sizeof box.err.text - 1);
        assert_int_equal(strspn(fields[i], "0"), sizeof box.err.text - 1);
    }
    assert_memory_equal(box.fence, "################", sizeof box.fence);
}

/* Whether text is whole UTF-8 characters of `size` bytes from start on. */
static void check_whole(const char *text, size_t start, size_t size)
{
    size_t len = strlen(text);
    assert_int_equal((len - start) % size, 0);
    assert_in_range(len, sizeof((tri_error *)0)->text - 1 - size, sizeof((tri_error *)0)->text - 1);
}

TEST(a_cut_falls_between_utf8_characters)
{
    (void)state;
    static const char *const letters[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x94\xB1"};
    for (size_t l = 0; l < sizeof letters / sizeof letters[0]; l++) {
        size_t size = strlen(letters[l]);
        char many[401] = "";
        for (size_t i = 0; i + size < sizeof many; i += size)
            memcpy(many + i, letters[l], size);
        for (int shift = 0; shift < 4; shift++) {
            tri_error err;
            fail(&err, TRI_EARG, "%.*s%s", shift, "abcd", many);
            check_whole(err.text, (size_t)shift, size);
        }
    }
}

TEST(control_characters_do_not_get_through)
{
    (void)state;
    tri_error err;
    fail(&err, TRI_EINPUT, "there is no '%s'", "\x1B[31mred\x07\n\xC2\x9Bx");
    assert_string_equal(err.text, "there is no '?[31mred???x'");
    fail_where(&err, "%s:1", "a\rb");
    fail_why(&err, "%s", "\xE2\x80\xAE");
    fail_next(&err, "%s", "\x7F\t");
    assert_string_equal(err.where, "a?b:1");
    assert_string_equal(err.why, "?");
    assert_string_equal(err.next, "??");
}

TEST(a_name_cut_by_the_format_ends_whole)
{
    (void)state;
    tri_error err;
    fail(&err, TRI_EINPUT, "'%.4s' is not known", "abc\xC3\xA9");
    assert_string_equal(err.text, "'abc' is not known");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_returns_its_status_and_writes_the_text),
        cmocka_unit_test(fail_clears_what_an_earlier_report_left),
        cmocka_unit_test(where_why_and_next_add_to_a_report),
        cmocka_unit_test(a_caller_who_does_not_care_passes_null),
        cmocka_unit_test(fail_errno_keeps_the_reason_of_the_system),
        cmocka_unit_test(fail_errno_names_a_number_the_system_does_not_know),
        cmocka_unit_test(fail_nomem_names_the_thing_and_a_next_step),
        cmocka_unit_test(a_text_that_just_fits_is_whole),
        cmocka_unit_test(a_text_too_long_is_cut_and_never_overruns),
        cmocka_unit_test(a_cut_falls_between_utf8_characters),
        cmocka_unit_test(control_characters_do_not_get_through),
        cmocka_unit_test(a_name_cut_by_the_format_ends_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
