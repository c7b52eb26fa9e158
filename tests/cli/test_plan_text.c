/* What trident plan prints for people: every line fits, none ends in blanks, nothing in it
 * drives the terminal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "lib/test.h"
#include "os/file.h"

enum { MAX_WORDS = 12 };

/* Runs a command line, as words; what it prints on both streams must be freed. */
static int run(const char *const *words, char **printed)
{
    size_t len = 0;
    FILE *out = open_memstream(printed, &len);
    assert_non_null(out);
    struct cli cli = {.mem = &mem_libc, .out = out, .err = out, .models = "models"};
    int count = 0;
    while (words[count] != NULL)
        count++;
    int code = cli_main(&cli, count, words);
    fclose(out);
    return code;
}

/* Looks at every line of a text, which it takes apart. */
static void check_lines(char *text, const char *const *words)
{
    for (char *line = text, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        size_t len = strlen(line);
        if (printable_columns(line) > TABLE_COLUMNS)
            fail_msg("%s --workers %s %s: wider than 100 columns:\n%s", words[3], words[5],
                     words[6] != NULL ? words[6] : "", line);
        if (len > 0 && line[len - 1] == ' ')
            fail_msg("%s %s: blanks at the end of\n%s", words[3], words[6], line);
        for (size_t at = 0, n; at < len; at += n) {
            n = utf8_length(line + at, len - at);
            assert_true(n > 0);
            assert_true(printable_code(utf8_code(line + at, n)));
        }
    }
}

static const char *const workers[] = {"2", "8", "64"};
static const char *const options[][3] = {
    {NULL},
    {"--rule=bytes", NULL},
    {"--schemes=all", NULL},
    {"--compare", NULL},
    {"--schemes=all", "--compare", NULL},
    {"--scheme=ps", "--placement=lpt", NULL},
};

static tri_status check_model(void *ctx, const char *file)
{
    size_t *checked = ctx;
    char path[300];
    (void)snprintf(path, sizeof path, "models/%s", file);
    for (size_t w = 0; w < sizeof workers / sizeof workers[0]; w++)
        for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
            const char *words[MAX_WORDS] = {"trident",   "plan",     "--model", path,
                                            "--workers", workers[w], NULL};
            for (size_t i = 0; i < 3 && options[o][i] != NULL; i++)
                words[6 + i] = options[o][i];
            char *printed = NULL;
            assert_int_equal(run(words, &printed), CLI_DONE);
            check_lines(printed, words);
            free(printed);
        }
    ++*checked;
    return TRI_OK;
}

TEST(every_model_fits_a_hundred_columns)
{
    (void)state;
    size_t checked = 0;
    assert_int_equal(file_each("models", ".json", &mem_libc, check_model, &checked, NULL), TRI_OK);
    assert_true(checked > 20);
}

TEST(names_that_could_drive_a_terminal_are_shown_harmless)
{
    (void)state;
    static const char file[] = "tests/cli/profiles/escape.json";
    static const char *const lines[][MAX_WORDS] = {
        {"trident", "plan", "--model", file, "--workers", "4", NULL},
        {"trident", "plan", "--model", file, "--workers", "4", "--compare", NULL},
        {"trident", "plan", "--model", file, "--workers", "4", "--json", NULL},
        {"trident", "plan", "--model", file, "--workers", "4", "--explain", "a\033[31m\nb", NULL},
        {"trident", "plan", "--model", file, "--workers", "4", "--explain", "\xC2\x9Bx", NULL},
        {"trident", "plan", "--model", "\033[2J", "--workers", "4", NULL},
        {"trident", "\033[2J", "--model", "m", "--workers", "4", NULL},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char *printed = NULL;
        (void)run(lines[i], &printed);
        bool json = lines[i][6] != NULL && strcmp(lines[i][6], "--json") == 0;
        for (char *c = printed; *c != '\0'; c++)
            if (*c == '\033' || *c == '\x7F' || strncmp(c, "\xC2\x9B", 2) == 0 ||
                strncmp(c, "\xE2\x80\xAE", 3) == 0)
                fail_msg("line %zu: byte 0x%02x got through", i, (unsigned char)*c);
        if (json)
            assert_non_null(strstr(printed, "\"a\\u001b[31m\\u000ab\""));
        free(printed);
    }
}

static void explain(const char *count, const char *servers, char **printed)
{
    const char *const words[] = {"trident",   "plan", "--model",   "tests/cli/profiles/fc4096.json",
                                 "--batch",   "32",   "--workers", count,
                                 "--explain", "fc",   "--schemes", "ps,sfb",
                                 servers,     NULL};
    assert_int_equal(run(words, printed), CLI_DONE);
}

TEST(explaining_looks_beyond_the_cluster_and_back)
{
    (void)state;
    char *printed = NULL;
    explain("40", NULL, &printed);
    assert_non_null(strstr(printed, "It was sfb up to "));
    assert_non_null(strstr(printed, "It stays with ps at least up to 4096 workers."));
    free(printed);
    explain("5000", NULL, &printed);
    assert_non_null(strstr(printed, "It stays with ps at least up to 20000 workers."));
    free(printed);
    explain("65536", NULL, &printed);
    assert_non_null(strstr(printed, "It was sfb up to "));
    assert_null(strstr(printed, "It stays"));
    free(printed);
}

TEST(a_table_gives_way_in_its_first_column)
{
    (void)state;
    struct table table;
    struct buf out;
    table_init(&table, &mem_libc, "ll");
    buf_init(&out, &mem_libc);
    table_cell(&table, "abcdefghijklmnopqrstuvwxyz");
    table_cell(&table, "%085d ", 1);
    table_print(&table, 24, &out);
    assert_int_equal(strcspn(buf_string(&out), "\n"), 99); /* the blank counts, unprinted */
    assert_memory_equal(buf_string(&out), "abcdefghij..  0", 15);
    buf_fini(&out);
    table_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_fits_a_hundred_columns),
        cmocka_unit_test(names_that_could_drive_a_terminal_are_shown_harmless),
        cmocka_unit_test(explaining_looks_beyond_the_cluster_and_back),
        cmocka_unit_test(a_table_gives_way_in_its_first_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
