/* tools/netns, by tests/tools/netns.sh. */
#include <stdlib.h>
#include <sys/wait.h>

#include "lib/test.h"

enum { NOT_HERE = 77 }; /* the script's exit code where namespaces are not permitted */

TEST(nodes_reach_each_other_until_cut_and_nothing_is_left)
{
    (void)state;
    int status = system("sh tests/tools/netns.sh"); // NOLINT(bugprone-command-processor)
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_HERE) {
        print_message("skipped: this machine permits no network namespaces, or has no iproute2\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_reach_each_other_until_cut_and_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
