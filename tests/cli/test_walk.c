/* Every golden case again, in process, with the 1st, 2nd, 3rd ... allocation refused:
 * each run ends with exit code 1 and a word about memory, or as if nothing had
 * happened; none crashes, hangs or leaks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "lib/test.h"
#include "os/file.h"

enum { MAX_WORDS = 40 };

/* Splits "trident plan --model x" at its spaces; false for lines only a shell understands. */
static bool split(char *line, const char *words[MAX_WORDS], int *count)
{
    if (strncmp(line, "trident", 7) != 0 || strpbrk(line, "|<>'") != NULL)
        return false;
    char *rest = NULL;
    *count = 0;
    for (char *word = strtok_r(line, " ", &rest); word != NULL && *count < MAX_WORDS;
         word = strtok_r(NULL, " ", &rest))
        /* the same paths through the code, with fewer allocations to walk over */
        words[(*count)++] = strncmp(word, "vgg19", 5) == 0 ? "small" : word;
    return true;
}

static int run(const struct mem *mem, int count, const char *const *words, char **printed)
{
    size_t len = 0;
    FILE *err = open_memstream(printed, &len), *out = fopen("/dev/null", "w");
    assert_non_null(err);
    assert_non_null(out);
    struct cli cli = {.mem = mem, .out = out, .err = err, .models = "tests/cli/profiles"};
    int code = cli_main(&cli, count, words);
    fclose(out);
    fclose(err);
    return code;
}

static void walk(int count, const char *const *words)
{
    char *printed = NULL;
    struct fault fault = {0};
    int expected = run(&mem_libc, count, words, &printed);
    free(printed);
    FAULT_WALK(&fault)
    {
        int code = run(&fault.mem, count, words, &printed);
        if (code != expected && (code != CLI_FAILED || strstr(printed, "out of memory") == NULL))
            fail_msg("%s %s, allocation %zu refused: exit %d, '%s'", words[0],
                     count > 1 ? words[1] : "", fault.run, code, printed);
        free(printed);
    }
}

/* Slow builds walk over every nth case: TRIDENT_WALK_EACH. */
static size_t each(void)
{
    const char *text = getenv("TRIDENT_WALK_EACH");
    size_t n = text != NULL ? (size_t)strtoul(text, NULL, 10) : 1;
    return n > 0 ? n : 1;
}

static tri_status walk_case(void *ctx, const char *name)
{
    size_t *walked = ctx;
    char path[300];
    struct buf text;
    (void)snprintf(path, sizeof path, "tests/cli/cases/%s", name);
    buf_init(&text, &mem_libc);
    assert_int_equal(file_read(path, 1 << 24, &text, NULL), TRI_OK);
    text.data[strcspn(text.data, "\n")] = '\0';
    const char *words[MAX_WORDS];
    int count = 0;
    if (split(text.data + 2, words, &count) && ++*walked % each() == 0)
        walk(count, words);
    buf_fini(&text);
    return TRI_OK;
}

TEST(every_command_survives_memory_that_is_refused)
{
    (void)state;
    size_t walked = 0;
    assert_int_equal(file_each("tests/cli/cases", ".txt", &mem_libc, walk_case, &walked, NULL),
                     TRI_OK);
    assert_true(walked > 30);
}

TEST(a_hundred_plans_leak_nothing)
{
    (void)state;
    static const char *const words[] = {"trident", "plan",      "--model", "models/vgg19.json",
                                        "--json",  "--workers", "16",      "--placement",
                                        "lpt"};
    struct fault fault;
    fault_init(&fault);
    for (int i = 0; i < 100; i++) {
        char *printed = NULL;
        assert_int_equal(run(&fault.mem, sizeof words / sizeof words[0], words, &printed), 0);
        free(printed);
        assert_int_equal(fault.live, 0);
    }
    assert_true(fault.calls > 100);
}

/* With words: `trident run --hosts` has started its own program again, as a deputy. */
int main(int argc, char **argv)
{
    struct cli cli = {.mem = &mem_libc, .out = stdout, .err = stderr};
    if (argc > 1)
        return cli_main(&cli, argc, (const char *const *)argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_survives_memory_that_is_refused),
        cmocka_unit_test(a_hundred_plans_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
