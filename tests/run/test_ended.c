/* The launcher's list of processes that have ended. */
#include "run/ended.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/test.h"

static bool is_at_least(const void *ctx, uint32_t node)
{
    return node >= *(const uint32_t *)ctx;
}

static bool find(const char *text, uint32_t least, uint32_t *node, char how[ENDED_HOW])
{
    char path[] = "/tmp/trident-ended-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
    bool found = ended_find(path, is_at_least, &least, node, how);
    unlink(path);
    return found;
}

TEST(the_first_that_is_wanted_is_found)
{
    (void)state;
    static const char text[] = "0 exited with 0\n2 was killed by SIGKILL\n3 exited with 3\n";
    uint32_t node = 9;
    char how[ENDED_HOW];
    assert_true(find(text, 1, &node, how));
    assert_int_equal(node, 2);
    assert_string_equal(how, "was killed by SIGKILL");
    assert_true(find(text, 3, &node, how));
    assert_string_equal(how, "exited with 3");
    assert_false(find(text, 4, &node, how));
}

TEST(what_is_no_list_is_empty)
{
    (void)state;
    static const char *const texts[] = {"",    "\n\n",        "x exited with 1\n",
                                        "1\n", "-1 exited\n", "1 "};
    uint32_t node = 0;
    char how[ENDED_HOW];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (find(texts[i], 0, &node, how) && node < 1000)
            fail_msg("'%s' has node %u", texts[i], (unsigned)node);
    assert_false(ended_find("/nowhere/at/all", is_at_least, &node, &node, how));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_is_wanted_is_found),
        cmocka_unit_test(what_is_no_list_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
