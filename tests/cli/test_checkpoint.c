/* trident checkpoint with memory that is refused: the golden cases whose output has a time in it,
 * which test_walk.c does not go over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "lib/test.h"

enum { WORDS = 5 };

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

static void walk(const char *action, const char *path, const char *option, int expected)
{
    const char *const words[WORDS] = {"trident", "checkpoint", action, path, option};
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        char *printed = NULL;
        int code = run(&fault.mem, option != NULL ? WORDS : WORDS - 1, words, &printed);
        /* A damaged one is told of even where there is no memory for the table. */
        if (code != expected && (code != CLI_FAILED || strstr(printed, "out of memory") == NULL))
            fail_msg("%s %s, allocation %zu refused: exit %d, '%s'", action, path, fault.run, code,
                     printed);
        free(printed);
    }
    assert_true(fault.run > 5);
}

#define FOLDER "tests/cli/checkpoints/night"
#define FILE_0 FOLDER "/clock-000000000100.safetensors"

TEST(every_action_survives_memory_that_is_refused)
{
    (void)state;
    static const char *const options[] = {NULL, "--json"};
    for (size_t i = 0; i < 2; i++) {
        walk("ls", FOLDER, options[i], CLI_DONE);
        walk("show", FOLDER "/", options[i], CLI_DONE);
        walk("show", FILE_0, options[i], CLI_DONE);
        walk("verify", FOLDER, options[i], CLI_USAGE);
        walk("verify", FILE_0, options[i], CLI_DONE);
    }
    walk("ls", FOLDER, "--verify", CLI_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_action_survives_memory_that_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
