/* settings/file: the format line by line, what is refused and where, and files that win or do
 * not. */
#include "settings/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/test.h"
#include "settings/view.h"

static struct settings_file file;
static tri_error err;

static tri_status parse_bytes(const char *text, size_t len)
{
    memset(&err, 0, sizeof err);
    settings_file_init(&file, &mem_libc);
    file.name = "job.conf";
    buf_add(&file.text, text, len);
    return settings_file_parse(&file, &err);
}

static tri_status parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

static const struct settings_entry *entry(const char *name)
{
    size_t i = 0;
    assert_non_null(setting_find(name, &i));
    return &file.entries[i];
}

static void has(const char *text, const char *name, const char *value)
{
    if (parse(text) != TRI_OK)
        fail_msg("%s (%s)", err.text, err.where);
    if (entry(name)->value == NULL || strcmp(entry(name)->value, value) != 0)
        fail_msg("'%s' gives '%s'", text, entry(name)->value);
    settings_file_fini(&file);
}

TEST(values_stand_bare_or_in_quotes)
{
    (void)state;
    has("job = a", "job", "a");
    has("job=a", "job", "a");
    has(" \tjob\t=\t a \t", "job", "a");
    has("job = a # why", "job", "a");
    has("job = a\t#", "job", "a");
    has("job = \"a b\"", "job", "a b");
    has("job = \"a # b\" # why", "job", "a # b");
    has("job = \"a\\\"b\\\\c\"", "job", "a\"b\\c");
    has("job = \"\xC3\xA4\" ", "job", "\xC3\xA4");
    has("job = \xC3\xA4", "job", "\xC3\xA4");
    has("interface = ^docker0,10.0.0.0/8", "interface", "^docker0,10.0.0.0/8");
    has("trace = x=y", "trace", "x=y");
    has("timeout-ms = 5", "timeout_ms", "5"); /* as everywhere, - is _ */
}

TEST(lines_end_as_anywhere)
{
    (void)state;
    has("# one\n\n  \njob = a\nsockets = 2", "sockets", "2");
    has("# one\r\n\r\njob = a\r\nsockets = 2\r\n", "job", "a");
    has("\xEF\xBB\xBFjob = a\n", "job", "a");
    assert_int_equal(parse("\n\njob = a\n  sockets  =  2"), TRI_OK);
    assert_int_equal(entry("job")->line, 3);
    assert_int_equal(entry("sockets")->line, 4);
    assert_int_equal(entry("sockets")->column, 15);
    assert_null(entry("listen")->value);
    settings_file_fini(&file);
    assert_int_equal(parse("\n"), TRI_OK);
    settings_file_fini(&file);
}

TEST(headings_are_those_of_the_table)
{
    (void)state;
    has("[job]\njob = a\n[ network ] # links\nsockets = 2", "sockets", "2");
    has("job = a\n[network]\nsockets = 2\n[job]\ntimeout_ms = 5", "timeout_ms", "5");
}

TEST(what_is_refused_is_told_with_line_column_and_a_way_out)
{
    (void)state;
    static const struct {
        const char *text, *what, *where, *next;
    } rows[] = {
        {"\ntimeot_ms = 5", "there is no setting 'timeot_ms'", "job.conf:2:1",
         "did you mean timeout_ms?"},
        {"TRIDENT_TIMEOUT_MS = 5", "there is no setting 'TRIDENT_TIMEOUT_MS'", "job.conf:1:1",
         "did you mean timeout_ms?"},
        {"qqqqqq = 5", "there is no setting", "job.conf:1:1", "trident config"},
        {"# c\n timeout_ms = soon", "timeout_ms cannot be 'soon'", "job.conf:2:15",
         "a whole number from 1 to"},
        {"scheme = \"ring\"", "scheme 'ring' cannot run a job", "job.conf:1:10", "ps"},
        {"job = a\nsockets = 1\njob = b", "'job' is given twice", "job.conf:3:1", "leave one"},
        {"job", "this is no setting", "job.conf:1:4", "name = value"},
        {"job a", "this is no setting", "job.conf:1:5", "name = value"},
        {"= a", "this is no setting", "job.conf:1:1", "name = value"},
        {"job =", "'job' has no value", "job.conf:1:6", "leave the line out"},
        {"job = # none", "'job' has no value", "job.conf:1:7", "leave the line out"},
        {"job = \"\"", "'job' has no value", "job.conf:1:7", "leave the line out"},
        {"job = a b", "something follows", "job.conf:1:9", "quotes"},
        {"job = \"a\" b", "something follows", "job.conf:1:11", "quotes"},
        {"job = a#b", "a value with # in it needs quotes", "job.conf:1:8", "= \"value\""},
        {"job = 'a'", "a value with ' in it needs quotes", "job.conf:1:7", "= \"value\""},
        {"job = a\"b\"", "a value with \" in it needs quotes", "job.conf:1:8", "= \"value\""},
        {"job = \"a", "a quote is not closed", "job.conf:1:7", "same line"},
        {"job = \"a\\", "a backslash stands alone", "job.conf:1:9", "\\\\"},
        {"job = \"a\\n\"", "a backslash stands alone", "job.conf:1:9", "\\\\"},
        {"[netwrk]", "there is no heading [netwrk]", "job.conf:1:1", "did you mean network?"},
        {"[network", "a heading is not closed", "job.conf:1:1", "[network]"},
        {"[]", "a heading is not closed", "job.conf:1:1", "[network]"},
        {"[network] sockets = 2", "something follows", "job.conf:1:11", "comment"},
        {"[network]\njob = a", "'job' stands under [network]", "job.conf:2:1",
         "put it under [job]"},
        {"rank = 1", "'rank' cannot stand in a file", "job.conf:1:1", "set TRIDENT_RANK"},
        {"fault = seed=1", "'fault' cannot stand in a file", "job.conf:1:1", "TRIDENT_FAULT"},
        {"job = a\x01", "this is not text", "job.conf:1:8", "UTF-8"},
        {"job = \xFF", "this is not text", "job.conf:1:7", "UTF-8"},
        {"# \x1B[31m", "this is not text", "job.conf:1:3", "UTF-8"},
        {"job = \"\xC3\xA4\" b", "something follows", "job.conf:1:11", "quotes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (parse(rows[i].text) != TRI_EINPUT || strstr(err.text, rows[i].what) == NULL ||
            strcmp(err.where, rows[i].where) != 0 || strstr(err.next, rows[i].next) == NULL)
            fail_msg("'%s': '%s' at %s, try '%s'", rows[i].text, err.text, err.where, err.next);
        settings_file_fini(&file);
    }
    assert_int_equal(parse("sockets = 1\n\njob = a\nsockets = 2"), TRI_EINPUT);
    assert_string_equal(err.why, "line 1 has it already");
    settings_file_fini(&file);
    assert_int_equal(parse_bytes("job = a\0b", 9), TRI_EINPUT);
    assert_string_equal(err.text, "this is not text");
    settings_file_fini(&file);
}

TEST(a_token_is_in_no_error)
{
    (void)state;
    static const char *const wrong[] = {"token = hush hush", "token = \"hush", "token = 'hush'",
                                        "token = hush#hush", "token = hush\ntoken = hush"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(parse(wrong[i]), TRI_EINPUT);
        assert_null(strstr(err.text, "hush"));
        assert_null(strstr(err.why, "hush"));
        assert_null(strstr(err.next, "hush"));
        settings_file_fini(&file);
    }
}

/* ---- files ---- */

static char path[64];

static int make_file(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/settings.XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 && close(fd) == 0 ? 0 : -1;
}

static int remove_file(void **state)
{
    (void)state;
    (void)unsetenv("TRIDENT_CONFIG");
    (void)unsetenv("TRIDENT_SOCKETS");
    (void)unsetenv("TRIDENT_JOB");
    return unlink(path);
}

static void write_file(const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static struct settings settings;

TEST(the_program_wins_over_the_environment_and_that_over_the_file)
{
    (void)state;
    tri_options options = TRI_OPTIONS_INIT;
    write_file("job = of-file\nsockets = 2\ntimeout_ms = 3000\nscheme = ps\n");
    (void)setenv("TRIDENT_CONFIG", path, 1);
    (void)setenv("TRIDENT_SOCKETS", "3", 1);
    (void)setenv("TRIDENT_JOB", "of-env", 1);
    options.job = "own";
    assert_int_equal(settings_read(&options, false, &settings, &err), TRI_OK);
    assert_string_equal(settings.job, "own");
    assert_int_equal(settings.sockets, 3);
    assert_int_equal(settings.timeout_ms, 3000);
    assert_string_equal(settings.agree.scheme, "ps");
    assert_int_equal(settings.heartbeat_ms, 1000);
}

TEST(the_programs_file_goes_before_the_environments)
{
    (void)state;
    tri_options options = TRI_OPTIONS_INIT;
    write_file("sockets = 2\n");
    (void)setenv("TRIDENT_CONFIG", "/no/such/file", 1);
    assert_int_equal(settings_read(&options, false, &settings, &err), TRI_EINPUT);
    assert_string_equal(err.text, "cannot open '/no/such/file'");
    assert_non_null(strstr(err.next, "configuration file"));
    options.config = path;
    assert_int_equal(settings_read(&options, false, &settings, &err), TRI_OK);
    assert_int_equal(settings.sockets, 2);
}

TEST(what_is_overruled_is_checked_too)
{
    (void)state;
    write_file("sockets = 99\n");
    (void)setenv("TRIDENT_CONFIG", path, 1);
    (void)setenv("TRIDENT_SOCKETS", "3", 1);
    assert_int_equal(settings_read(NULL, false, &settings, &err), TRI_EINPUT);
    assert_string_equal(err.text, "sockets cannot be '99'");
    assert_non_null(strstr(err.where, ":1:11"));
}

TEST(a_token_that_others_may_read_is_refused)
{
    (void)state;
    write_file("token = hush\n");
    (void)setenv("TRIDENT_CONFIG", path, 1);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(settings_read(NULL, false, &settings, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "holds the job's token"));
    assert_non_null(strstr(err.where, ":1, mode 640"));
    assert_memory_equal(err.next, "chmod 600 ", 10);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(settings_read(NULL, false, &settings, &err), TRI_OK);
    assert_string_equal(settings.token, "hush");
    write_file("job = open\n");
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(settings_read(NULL, false, &settings, &err), TRI_OK);
}

TEST(files_without_end_and_folders_are_refused)
{
    (void)state;
    (void)setenv("TRIDENT_CONFIG", "/dev/zero", 1);
    assert_int_equal(settings_read(NULL, false, &settings, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "longer than 65536 bytes"));
    (void)setenv("TRIDENT_CONFIG", "/tmp", 1);
    assert_int_equal(settings_read(NULL, false, &settings, &err), TRI_EINPUT);
    write_file("");
    (void)setenv("TRIDENT_CONFIG", path, 1);
    assert_int_equal(settings_read(NULL, false, &settings, &err), TRI_OK);
}

TEST(refused_memory_is_told_and_nothing_leaks)
{
    (void)state;
    struct fault fault = {0};
    write_file("job = \"a b\"\nsockets = 2\n");
    FAULT_WALK(&fault)
    {
        static struct settings_view view;
        const struct settings_request request = {.mem = &fault.mem, .file = path};
        tri_status status = settings_explain(&request, &view, &settings, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        settings_view_fini(&view);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_stand_bare_or_in_quotes),
        cmocka_unit_test(lines_end_as_anywhere),
        cmocka_unit_test(headings_are_those_of_the_table),
        cmocka_unit_test(what_is_refused_is_told_with_line_column_and_a_way_out),
        cmocka_unit_test(a_token_is_in_no_error),
        cmocka_unit_test_setup_teardown(
            the_program_wins_over_the_environment_and_that_over_the_file, make_file, remove_file),
        cmocka_unit_test_setup_teardown(the_programs_file_goes_before_the_environments, make_file,
                                        remove_file),
        cmocka_unit_test_setup_teardown(what_is_overruled_is_checked_too, make_file, remove_file),
        cmocka_unit_test_setup_teardown(a_token_that_others_may_read_is_refused, make_file,
                                        remove_file),
        cmocka_unit_test_setup_teardown(files_without_end_and_folders_are_refused, make_file,
                                        remove_file),
        cmocka_unit_test_setup_teardown(refused_memory_is_told_and_nothing_leaks, make_file,
                                        remove_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
