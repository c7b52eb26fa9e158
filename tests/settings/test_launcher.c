/* Who started this process: variables of other launchers, and Slurm's notation. What PMIx does is
 * seen by tests/jobs/launch.py, with mpirun and srun. */
#include "settings/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "os/interfaces.h"

static const char *const names[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_NODEID",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PMIX_NAMESPACE",
    "TRIDENT_INTERFACE",
};

static int clean(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]);
    return 0;
}

/* Sets "A=1 B=2" in place of all that was set. */
static void environment(const char *entries)
{
    char text[600];
    char *rest = text, *entry;
    (void)clean(NULL);
    (void)snprintf(text, sizeof text, "%s", entries);
    while ((entry = strsep(&rest, " ")) != NULL) {
        char *value = strchr(entry, '=');
        assert_non_null(value);
        *value++ = '\0';
        assert_int_equal(setenv(entry, value, 1), 0);
    }
}

static struct launcher found(const char *entries)
{
    struct launcher launcher;
    tri_error err = {0};
    environment(entries);
    if (launcher_find(&launcher, &err) != TRI_OK)
        fail_msg("%s: %s", entries, err.text);
    return launcher;
}

#define OMPI "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2"
#define SLURM                                                                                      \
    "SLURM_PROCID=3 SLURM_NTASKS=9 SLURM_STEP_NUM_TASKS=5 SLURM_STEP_TASKS_PER_NODE=2(x2),1 "      \
    "SLURM_NODEID=1"

TEST(each_launcher_is_known_by_its_variables)
{
    (void)state;
    static const struct {
        const char *entries, *name, *rank_origin;
        uint32_t rank, workers, local;
    } rows[] = {
        {"RANK=2 WORLD_SIZE=3 LOCAL_WORLD_SIZE=1", "torchrun", "RANK", 2, 3, 1},
        {OMPI, "Open MPI", "OMPI_COMM_WORLD_RANK", 1, 4, 2},
        {"PMI_RANK=0 PMI_SIZE=2 MPI_LOCALNRANKS=2", "PMI", "PMI_RANK", 0, 2, 2},
        {SLURM, "Slurm", "SLURM_PROCID", 3, 5, 2},
        {"RANK=0 WORLD_SIZE=3 " OMPI " " SLURM, "torchrun", "RANK", 0, 3, 0},
        {OMPI " " SLURM, "Open MPI", "OMPI_COMM_WORLD_RANK", 1, 4, 2},
        {"RANK=0 " OMPI, "Open MPI", "OMPI_COMM_WORLD_RANK", 1, 4, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct launcher launcher = found(rows[i].entries);
        assert_non_null(launcher.name);
        assert_string_equal(launcher.name, rows[i].name);
        assert_true(launcher.rank.given && launcher.workers.given);
        assert_string_equal(launcher.rank.origin, rows[i].rank_origin);
        assert_int_equal(launcher.rank.value, rows[i].rank);
        assert_int_equal(launcher.workers.value, rows[i].workers);
        assert_int_equal(launcher.local_workers.given, rows[i].local > 0);
        assert_int_equal(launcher.local_workers.value, rows[i].local);
    }
}

TEST(a_script_of_slurm_is_no_job)
{
    (void)state;
    assert_null(found("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_NODEID=0").name);
    assert_null(found("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1").name);
    assert_null(found("SLURM_STEP_NUM_TASKS=4").name);
}

TEST(half_of_what_is_needed_is_no_launcher)
{
    (void)state;
    assert_null(found("WORLD_SIZE=3").name);
    assert_null(found("OMPI_COMM_WORLD_RANK=3").name);
    assert_null(found("RANK= WORLD_SIZE=").name);
}

TEST(what_is_no_number_is_refused_by_name)
{
    (void)state;
    static const char *const rows[][2] = {
        {"RANK=x WORLD_SIZE=2", "RANK cannot be 'x'"},
        {"RANK=0 WORLD_SIZE=-2", "WORLD_SIZE cannot be '-2'"},
        {"RANK=4294967296 WORLD_SIZE=2", "RANK cannot be '4294967296'"},
        {"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=many", "SLURM_STEP_NUM_TASKS cannot be 'many'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct launcher launcher;
        tri_error err = {0};
        environment(rows[i][0]);
        assert_int_equal(launcher_find(&launcher, &err), TRI_EINPUT);
        assert_string_equal(err.text, rows[i][1]);
    }
}

TEST(the_first_host_of_slurms_lists)
{
    (void)state;
    static const char *const rows[][2] = {
        {"n1", "n1"},
        {"n1,n2", "n1"},
        {"n[1-3,7],m1", "n1"},
        {"n[001-010]", "n001"},
        {"rack[2,4]node[08-16]-ib.cluster,x", "rack2node08-ib.cluster"},
        {"[7]", "7"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char host[64];
        assert_true(launcher_first_host(rows[i][0], host, sizeof host));
        assert_string_equal(host, rows[i][1]);
    }
}

TEST(what_is_no_list_of_slurm_is_refused)
{
    (void)state;
    static const char *const rows[] = {
        "",     ",n1",   "n[",     "n]",     "n[]",      "n[1",         "n[-2]",     "n[,2]",
        "n[a]", "n[1a]", "n[[1]]", "n 1",    "n;reboot", "n\n",         "n[1-2",     "n[1]]",
        "\xff", "n/../", "n:80",   "n@host", "$(n)",     "a-long-name", "123456789", "[123456789]"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char host[9] = "before";
        if (launcher_first_host(rows[i], host, sizeof host))
            fail_msg("'%s' is taken as '%s'", rows[i], host);
    }
}

TEST(tasks_of_a_node)
{
    (void)state;
    static const struct {
        const char *list;
        uint32_t node, tasks; /* 0: the list does not say */
    } rows[] = {
        {"2", 0, 2},       {"2", 1, 0},           {"2(x3),1", 2, 2},
        {"2(x3),1", 3, 1}, {"2(x3),1", 4, 0},     {"1,2,3(x2)", 3, 3},
        {"", 0, 0},        {"2(x", 1, 0},         {"2(x0)", 1, 0},
        {"2(x2", 0, 0},    {"0", 0, 0},           {"-1", 0, 0},
        {"2;3", 1, 0},     {"99999999999", 0, 0}, {"2(x99999999999999999999)", 7, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t tasks = 0;
        bool known = launcher_tasks(rows[i].list, rows[i].node, &tasks);
        if (known != (rows[i].tasks > 0) || (known && tasks != rows[i].tasks))
            fail_msg("node %u of '%s': %u", rows[i].node, rows[i].list, tasks);
    }
}

TEST(an_address_is_made_of_slurms_variables)
{
    (void)state;
    char one[LAUNCHER_ADDRESS], two[LAUNCHER_ADDRESS];
    environment("SLURM_JOB_NODELIST=n[3-4] SLURM_JOB_ID=17 SLURM_STEP_ID=0");
    assert_true(launcher_slurm_address(one));
    assert_int_equal(strncmp(one, "n3:", 3), 0);
    assert_true(atol(one + 3) >= 10240 && atol(one + 3) < 32768);
    assert_true(launcher_slurm_address(two));
    assert_string_equal(one, two);
    environment("SLURM_STEP_NODELIST=n4 SLURM_JOB_NODELIST=n[3-4] SLURM_JOB_ID=17 SLURM_STEP_ID=1");
    assert_true(launcher_slurm_address(two));
    assert_int_equal(strncmp(two, "n4:", 3), 0);
    assert_string_not_equal(one + 3, two + 3); /* two steps at once do not meet */
    (void)clean(NULL);
    assert_false(launcher_slurm_address(two));
}

TEST(without_pmix_nobody_is_met)
{
    (void)state;
    struct launcher_meeting meeting = {.token = "untouched"};
    bool met = true;
    (void)clean(NULL);
    assert_int_equal(launcher_meet(0, 2, 100, &meeting, &met, NULL), TRI_OK);
    assert_false(met);
    assert_string_equal(meeting.token, "untouched");
}

/* PMIx's library loses memory when it finds nobody, which a sanitizer would take for ours. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

TEST(a_pmix_that_does_not_answer_is_told_of)
{
    (void)state;
#ifdef SANITIZED
    skip();
#endif
    struct launcher_meeting meeting;
    tri_error err = {0};
    bool met = true;
    environment("PMIX_NAMESPACE=none");
    assert_int_equal(launcher_meet(0, 2, 100, &meeting, &met, &err), TRI_EIO);
    assert_false(met);
    assert_non_null(strstr(err.text, "PMIx"));
    assert_true(err.why[0] != '\0' && strstr(err.next, "TRIDENT_COORDINATOR") != NULL);
}

TEST(the_address_for_others_is_not_loopback_if_there_is_another)
{
    (void)state;
    struct interface all[INTERFACES_MOST];
    char address[NET_TEXT], any[NET_TEXT];
    size_t count = 0;
    (void)clean(NULL);
    assert_int_equal(interfaces_list(all, &count, NULL), TRI_OK);
    bool other = interfaces_pick("^docker0,^virbr0", all, count, false, any, NULL) == TRI_OK;
    assert_int_equal(launcher_own_address(address, NULL), TRI_OK);
    assert_int_equal(interfaces_is_loopback(address), !other);
    tri_error err = {0};
    environment("TRIDENT_INTERFACE=nosuch0");
    assert_int_equal(launcher_own_address(address, &err), TRI_EINPUT);
    assert_string_equal(err.where, "TRIDENT_INTERFACE=nosuch0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_launcher_is_known_by_its_variables),
        cmocka_unit_test(a_script_of_slurm_is_no_job),
        cmocka_unit_test(half_of_what_is_needed_is_no_launcher),
        cmocka_unit_test(what_is_no_number_is_refused_by_name),
        cmocka_unit_test(the_first_host_of_slurms_lists),
        cmocka_unit_test(what_is_no_list_of_slurm_is_refused),
        cmocka_unit_test(tasks_of_a_node),
        cmocka_unit_test(an_address_is_made_of_slurms_variables),
        cmocka_unit_test(without_pmix_nobody_is_met),
        cmocka_unit_test(a_pmix_that_does_not_answer_is_told_of),
        cmocka_unit_test(the_address_for_others_is_not_loopback_if_there_is_another),
    };
    return cmocka_run_group_tests(tests, clean, clean);
}
