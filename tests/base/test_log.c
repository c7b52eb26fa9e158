/* base/log: levels, the prefix, and lines that stay one line. */
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/test.h"

/* A sink that remembers its last line. */
struct seen {
    int lines;
    enum log_level level;
    char line[2 * LOG_LINE_BYTES];
};

static void remember(void *ctx, enum log_level level, const char *line)
{
    struct seen *seen = ctx;
    seen->lines++;
    seen->level = level;
    (void)snprintf(seen->line, sizeof seen->line, "%s", line);
}

TEST(a_line_carries_job_role_rank_and_level)
{
    (void)state;
    struct seen seen = {0};
    struct log log;
    log_init(&log, LOG_INFO, remember, &seen);
    log.job = "mnist";
    log.role = "worker";
    log.rank = 3;
    log_write(&log, LOG_WARN, "server %d is %s", 2, "slow");
    assert_string_equal(seen.line, "trident mnist worker 3: warn: server 2 is slow");
    assert_int_equal(seen.level, LOG_WARN);
    assert_int_equal(seen.lines, 1);
}

TEST(parts_that_are_not_set_are_left_out)
{
    (void)state;
    struct seen seen = {0};
    struct log log;
    log_init(&log, LOG_INFO, remember, &seen);
    log_write(&log, LOG_ERROR, "text");
    assert_string_equal(seen.line, "trident: error: text");
    log.rank = 0;
    log_write(&log, LOG_ERROR, "text");
    assert_string_equal(seen.line, "trident 0: error: text");
    log.role = "server";
    log_write(&log, LOG_ERROR, "text");
    assert_string_equal(seen.line, "trident server 0: error: text");
    log.rank = LOG_NO_RANK;
    log.job = "";
    log_write(&log, LOG_ERROR, "text");
    assert_string_equal(seen.line, "trident server: error: text");
    log.role = "";
    log.job = "mnist";
    log_write(&log, LOG_ERROR, "%s", "");
    assert_string_equal(seen.line, "trident mnist: error: ");
}

TEST(a_log_passes_its_level_and_the_graver_ones)
{
    (void)state;
    for (unsigned set = 0; set < LOG_LEVEL_COUNT; set++)
        for (unsigned at = 0; at < LOG_LEVEL_COUNT; at++) {
            struct seen seen = {0};
            struct log log;
            log_init(&log, (enum log_level)set, remember, &seen);
            log_write(&log, (enum log_level)at, "x");
            assert_int_equal(seen.lines, at <= set);
            assert_int_equal(log_wants(&log, (enum log_level)at), at <= set);
        }
}

TEST(no_log_and_no_sink_are_silent)
{
    (void)state;
    struct log log;
    log_init(&log, LOG_TRACE, NULL, NULL);
    log_write(&log, LOG_ERROR, "nobody hears %d", 1);
    log_write((const struct log *)NULL, LOG_ERROR, "nor %d", 2);
    assert_false(log_wants(&log, LOG_ERROR));
    assert_false(log_wants(NULL, LOG_ERROR));
}

TEST(arguments_of_a_level_that_is_off_are_not_evaluated)
{
    (void)state;
    struct seen seen = {0};
    struct log log;
    log_init(&log, LOG_INFO, remember, &seen);
    int evaluated = 0;
    log_write(&log, LOG_DEBUG, "%d", ++evaluated);
    assert_int_equal(evaluated, 0);
    log_write(&log, LOG_INFO, "%d", ++evaluated);
    assert_int_equal(evaluated, 1);
}

TEST(a_line_that_fits_exactly_is_kept_whole)
{
    (void)state;
    struct seen seen = {0};
    struct log log;
    log_init(&log, LOG_INFO, remember, &seen);
    int room = LOG_LINE_BYTES - 1 - (int)strlen("trident: info: ");
    log_write(&log, LOG_INFO, "%0*d", room, 7);
    assert_int_equal(strlen(seen.line), LOG_LINE_BYTES - 1);
    assert_int_equal(seen.line[LOG_LINE_BYTES - 2], '7');
    log_write(&log, LOG_INFO, "%0*d", room + 1, 7);
    assert_int_equal(strlen(seen.line), LOG_LINE_BYTES - 1);
    assert_string_equal(seen.line + LOG_LINE_BYTES - 5, "0...");
}

TEST(a_line_far_too_long_ends_in_dots)
{
    (void)state;
    struct seen seen = {0};
    struct log log;
    log_init(&log, LOG_INFO, remember, &seen);
    char name[3000];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    log.job = log.role = name; /* the prefix alone is too long */
    log_write(&log, LOG_INFO, "%s", name);
    assert_int_equal(strlen(seen.line), LOG_LINE_BYTES - 1);
    assert_memory_equal(seen.line, "trident nnnn", 12);
    assert_string_equal(seen.line + LOG_LINE_BYTES - 5, "n...");
}

TEST(a_cut_falls_between_characters)
{
    (void)state;
    struct seen seen = {0};
    struct log log;
    log_init(&log, LOG_INFO, remember, &seen);
    char text[1000] = "";
    for (size_t i = 0; i < 300; i++)
        memcpy(text + 3 * i, "\xE2\x82\xAC", 4); /* a euro sign, three bytes */
    for (int shift = 0; shift < 3; shift++) {
        log_write(&log, LOG_INFO, "%.*s%s", shift, "abc", text);
        size_t len = strlen(seen.line);
        size_t start = strlen("trident: info: ") + (size_t)shift;
        assert_string_equal(seen.line + len - 3, "...");
        assert_int_equal((len - 3 - start) % 3, 0);
        assert_in_range(len, LOG_LINE_BYTES - 3, LOG_LINE_BYTES - 1); /* no shorter than needed */
    }
}

TEST(one_call_is_one_line_without_control_characters)
{
    (void)state;
    struct seen seen = {0};
    struct log log;
    log_init(&log, LOG_INFO, remember, &seen);
    log.job = "a\nb";
    log_write(&log, LOG_INFO, "%s",
              "1\n2\r\t\x1B[31m\x7F"
              "3");
    assert_string_equal(seen.line, "trident a?b: info: 1?2???[31m?3");
    log.job = NULL;
    for (int c = 1; c < 0x20; c++) {
        log_write(&log, LOG_INFO, "%c", c);
        assert_string_equal(seen.line, "trident: info: ?");
    }
}

TEST(control_characters_beyond_ascii_go_and_letters_stay)
{
    (void)state;
    struct seen seen = {0};
    struct log log;
    log_init(&log, LOG_INFO, remember, &seen);
    log_write(&log, LOG_INFO,
              "\xC2\x9B"
              "31m \xC2\x85 \xC3\xA9 \xC2\xA0 \xE2\x82\xAC");
    assert_string_equal(seen.line, "trident: info: ?31m ? \xC3\xA9 \xC2\xA0 \xE2\x82\xAC");
    log_write(&log, LOG_INFO, "ends in half a character \xC2");
    assert_string_equal(seen.line, "trident: info: ends in half a character ");
    log_write(&log, LOG_INFO, "turned \xE2\x80\xAE");
    assert_string_equal(seen.line, "trident: info: turned ?");
}

static void spoil_errno(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
    errno = EBADF;
}

TEST(errno_survives_a_log_line)
{
    (void)state;
    struct log log;
    log_init(&log, LOG_INFO, spoil_errno, NULL);
    errno = ENOENT;
    log_write(&log, LOG_INFO, "x");
    assert_int_equal(errno, ENOENT);
}

TEST(the_stream_sink_ends_each_line)
{
    (void)state;
    char text[200] = "";
    FILE *stream = fmemopen(text, sizeof text, "w");
    assert_non_null(stream);
    struct log log;
    log_init(&log, LOG_DEBUG, log_to_stream, stream);
    log_write(&log, LOG_INFO, "100%% done");
    log_write(&log, LOG_TRACE, "not this");
    log_write(&log, LOG_DEBUG, "two\n");
    fclose(stream);
    assert_string_equal(text, "trident: info: 100% done\ntrident: debug: two?\n");
}

TEST(every_level_is_found_by_its_name)
{
    (void)state;
    static const char *const names[] = {"error", "warn", "info", "debug", "trace"};
    for (unsigned i = 0; i < LOG_LEVEL_COUNT; i++) {
        enum log_level level = LOG_ERROR;
        assert_string_equal(log_level_name((enum log_level)i), names[i]);
        assert_int_equal(log_level_find(names[i], &level), TRI_OK);
        assert_int_equal(level, i);
    }
}

TEST(a_word_that_is_no_level_changes_nothing)
{
    (void)state;
    static const char *const words[] = {"", "err", "Error", "errors", "2"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        enum log_level level = LOG_DEBUG;
        assert_int_equal(log_level_find(words[i], &level), TRI_EINPUT);
        assert_int_equal(level, LOG_DEBUG);
    }
    assert_string_equal(log_level_name((enum log_level)LOG_LEVEL_COUNT), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_carries_job_role_rank_and_level),
        cmocka_unit_test(parts_that_are_not_set_are_left_out),
        cmocka_unit_test(a_log_passes_its_level_and_the_graver_ones),
        cmocka_unit_test(no_log_and_no_sink_are_silent),
        cmocka_unit_test(arguments_of_a_level_that_is_off_are_not_evaluated),
        cmocka_unit_test(a_line_that_fits_exactly_is_kept_whole),
        cmocka_unit_test(a_line_far_too_long_ends_in_dots),
        cmocka_unit_test(a_cut_falls_between_characters),
        cmocka_unit_test(one_call_is_one_line_without_control_characters),
        cmocka_unit_test(control_characters_beyond_ascii_go_and_letters_stay),
        cmocka_unit_test(errno_survives_a_log_line),
        cmocka_unit_test(the_stream_sink_ends_each_line),
        cmocka_unit_test(every_level_is_found_by_its_name),
        cmocka_unit_test(a_word_that_is_no_level_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
