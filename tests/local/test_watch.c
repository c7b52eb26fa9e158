/* The watchdog over real processes: the dead, the stuck, checkpoints, starting again. */
#include <errno.h>

#include "local/rig.h"

enum { SEATS = 2 };
#define COUNT 10U

/* What the processes of a job shall do, by how often they were started. */
struct plan {
    struct local_options options;
    struct local_job *job;
    struct local_snapshot from;
    enum local_step learner_dies[SEATS][4];
    enum local_step server_dies[4];
    bool hangs; /* seat 0, the first time */
    uint32_t count;
    uint32_t learner_starts[SEATS], server_starts;
    uint32_t saves, dead_calls, stuck_calls;
    uint64_t saved_version;
    uint32_t looks, looks_max;
};

struct errand {
    uint32_t seat, count;
    bool hangs;
};

static int learn(struct local_job *job, void *arg)
{
    const struct errand *errand = arg;
    struct local_learner_options wish = {.seat = errand->seat};
    struct local_learner *learner;
    if (local_join(job, &wish, &learner, NULL) != TRI_OK)
        return 2;
    while (errand->hangs)
        (void)usleep(1000);
    for (uint32_t i = 0; i < errand->count; i++)
        if (!rig_push(job, learner, 1, -1))
            return 1;
    local_leave(learner);
    return 0;
}

static tri_status start_learner(void *ctx, uint32_t seat, tri_error *err)
{
    struct plan *plan = ctx;
    uint32_t turn = plan->learner_starts[seat]++;
    struct errand errand = {seat, plan->count, plan->hangs && seat == 0 && turn == 0};
    enum local_step at = turn < 4 ? plan->learner_dies[seat][turn] : LOCAL_AT_NOTHING;
    (void)err;
    return rig_fork(&plan->options, at, 2, learn, &errand) > 0 ? TRI_OK : TRI_EIO;
}

static tri_status start_server(void *ctx, tri_error *err)
{
    struct plan *plan = ctx;
    uint32_t turn = plan->server_starts++;
    enum local_step at = turn < 4 ? plan->server_dies[turn] : LOCAL_AT_NOTHING;
    (void)err;
    return rig_fork(&plan->options, at, 3, rig_serve_child, NULL) > 0 ? TRI_OK : TRI_EIO;
}

static tri_status save(void *ctx, const struct local_snapshot *snapshot, tri_error *err)
{
    struct plan *plan = ctx;
    (void)err;
    plan->saves++;
    plan->saved_version = snapshot->version;
    return TRI_OK;
}

static void dead(void *ctx, uint32_t seat, uint64_t pid, bool stuck)
{
    struct plan *plan = ctx;
    (void)seat, (void)pid;
    plan->dead_calls++;
    plan->stuck_calls += stuck;
}

static bool each(void *ctx, const struct local_stats *stats)
{
    struct plan *plan = ctx;
    (void)stats;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    return plan->looks_max == 0 || ++plan->looks < plan->looks_max;
}

static struct local_watch_options watching(struct plan *plan)
{
    return (struct local_watch_options){.period_ms = 5,
                                        .grace_ms = 20000,
                                        .ctx = plan,
                                        .save = save,
                                        .start_server = start_server,
                                        .start_learner = start_learner,
                                        .dead = dead,
                                        .each = each};
}

static void begin(struct plan *plan, enum local_mode mode)
{
    plan->options = rig_options(mode, SEATS);
    plan->job = rig_create(&plan->options);
    assert_int_equal(local_snapshot_open(plan->job, &plan->from, NULL), TRI_OK);
    assert_int_equal(local_snapshot_take(plan->job, &plan->from, NULL), TRI_OK);
    plan->count = plan->count > 0 ? plan->count : COUNT;
    if (rig_serves(mode))
        assert_int_equal(start_server(plan, NULL), TRI_OK);
    for (uint32_t i = 0; i < SEATS; i++)
        assert_int_equal(start_learner(plan, i, NULL), TRI_OK);
}

/* Ends what is left, and nothing is. */
static struct local_stats end(struct plan *plan)
{
    struct local_stats stats;
    local_stop(plan->job);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    local_stats(plan->job, &stats);
    rig_check_counts(plan->job, &stats.counts);
    assert_int_equal(stats.alive, 0);
    local_snapshot_close(plan->job, &plan->from);
    rig_remove(plan->job);
    return stats;
}

TEST(the_rest_goes_on_without_the_dead)
{
    (void)state;
    struct plan plan = {.learner_dies = {{LOCAL_AT_TAKEN}}};
    struct local_watch_report report;
    begin(&plan, LOCAL_SERVER);
    struct local_watch_options options = watching(&plan);
    assert_int_equal(local_watch(plan.job, &options, &plan.from, &report, NULL), TRI_OK);
    assert_int_equal(report.deaths, 1);
    assert_int_equal(plan.dead_calls, 1);
    assert_int_equal(report.learner_restarts + report.full_restarts, 0);
    struct local_stats stats = end(&plan);
    assert_int_equal(stats.counts.applied, COUNT + 2);
    assert_int_equal(stats.counts.lost, 1);
}

TEST(the_dead_are_started_again_if_asked)
{
    (void)state;
    struct plan plan = {.learner_dies = {{LOCAL_AT_PUBLISHED}, {LOCAL_AT_HALF_FULL}}};
    struct local_watch_report report;
    begin(&plan, LOCAL_SERVER);
    struct local_watch_options options = watching(&plan);
    options.restart_learners = true;
    assert_int_equal(local_watch(plan.job, &options, &plan.from, &report, NULL), TRI_OK);
    assert_int_equal(report.learner_restarts, 2);
    struct local_stats stats = end(&plan);
    assert_int_equal(stats.counts.applied, 2 * COUNT + 3 + 2);
    assert_int_equal(stats.left, SEATS);
}

TEST(when_none_is_left_all_start_again_from_the_last_checkpoint)
{
    (void)state;
    struct plan plan = {
        .learner_dies = {{LOCAL_AT_TAKEN, LOCAL_AT_TAKEN}, {LOCAL_AT_TAKEN, LOCAL_AT_TAKEN}}};
    struct local_watch_report report;
    begin(&plan, LOCAL_SERVER);
    struct local_watch_options options = watching(&plan);
    options.tries = 3;
    assert_int_equal(local_watch(plan.job, &options, &plan.from, &report, NULL), TRI_OK);
    assert_int_equal(report.full_restarts, 2);
    float value = rig_value(plan.job);
    struct local_stats stats = end(&plan);
    assert_int_equal(stats.version, 2 * COUNT); /* the only checkpoint is that of the start */
    assert_int_equal(stats.counts.applied, 2 * COUNT);
    assert_true(value == 2 * COUNT);
    /* The server is ended for it, and may be in the middle of one. */
    assert_int_equal(stats.counts.discarded + stats.counts.torn, 8);
}

TEST(it_gives_up_after_so_many_tries)
{
    (void)state;
    struct plan plan = {.learner_dies = {{LOCAL_AT_TAKEN, LOCAL_AT_TAKEN},
                                         {LOCAL_AT_HALF_FULL, LOCAL_AT_HALF_FULL}}};
    struct local_watch_report report;
    tri_error err;
    begin(&plan, LOCAL_SERVER);
    struct local_watch_options options = watching(&plan);
    options.tries = 1;
    assert_int_equal(local_watch(plan.job, &options, &plan.from, &report, &err), TRI_EPEER);
    assert_non_null(strstr(err.text, "no learner of job"));
    assert_non_null(strstr(err.text, "after 1 starts"));
    (void)end(&plan);
}

TEST(a_stuck_learner_is_killed_and_replaced)
{
    (void)state;
    struct plan plan = {.hangs = true};
    struct local_watch_report report;
    begin(&plan, LOCAL_SYNC); /* where the others wait for it */
    struct local_watch_options options = watching(&plan);
    options.stuck_ms = 300;
    options.restart_learners = true;
    assert_int_equal(local_watch(plan.job, &options, &plan.from, &report, NULL), TRI_OK);
    assert_true(report.stuck >= 1);
    assert_true(plan.stuck_calls >= 1);
    struct local_stats stats = end(&plan);
    assert_int_equal(stats.left, SEATS);
    assert_true(stats.version >= COUNT);
}

TEST(a_dead_server_is_started_again_and_a_torn_gradient_taken_out)
{
    (void)state;
    static const enum local_step steps[] = {LOCAL_AT_HALF_STEP, LOCAL_AT_COMMITTED};
    for (int i = 0; i < 2; i++) {
        struct plan plan = {.server_dies = {steps[i], steps[i]}};
        struct local_watch_report report;
        begin(&plan, LOCAL_SERVER);
        struct local_watch_options options = watching(&plan);
        assert_int_equal(local_watch(plan.job, &options, &plan.from, &report, NULL), TRI_OK);
        assert_int_equal(report.server_restarts, 2);
        float value = rig_value(plan.job); /* all the same: nothing is half in */
        struct local_stats stats = end(&plan);
        assert_int_equal(stats.counts.pushed, 2 * COUNT);
        assert_true(value == (float)stats.counts.applied);
        assert_int_equal(stats.version, stats.counts.applied);
        assert_int_equal(stats.counts.torn, i == 0 ? 2 : 0);
    }
}

TEST(checkpoints_are_made_while_learners_go_on)
{
    (void)state;
    struct plan plan = {.count = 300};
    struct local_watch_report report;
    begin(&plan, LOCAL_DIRECT);
    struct local_watch_options options = watching(&plan);
    options.checkpoint_ms = 1;
    assert_int_equal(local_watch(plan.job, &options, &plan.from, &report, NULL), TRI_OK);
    assert_true(plan.saves >= 1); /* at the end, at least */
    assert_int_equal(plan.saves, report.checkpoints);
    assert_int_equal(plan.saved_version, 600);
    (void)end(&plan);
}

TEST(a_new_watchdog_takes_over_from_a_dead_one)
{
    (void)state;
    struct plan plan = {.learner_dies = {{LOCAL_AT_TAKEN}}, .looks_max = 3};
    struct local_watch_report report;
    begin(&plan, LOCAL_SERVER);
    struct local_watch_options options = watching(&plan);
    options.restart_learners = true;
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        options.each = NULL;
        options.start_learner = NULL;
        struct local_faults faults = {.at = LOCAL_AT_HELD, .hit = rig_die};
        local_set_faults(plan.job, &faults);
        (void)local_watch(plan.job, &options, NULL, NULL, NULL);
        _exit(0);
    }
    assert_int_equal(rig_wait(pid), -SIGKILL); /* while the server rested for it */
    plan.looks_max = 0;
    assert_int_equal(local_watch(plan.job, &options, &plan.from, &report, NULL), TRI_OK);
    struct local_stats stats = end(&plan);
    assert_int_equal(stats.left, SEATS);
    assert_true(stats.counts.applied >= (uint64_t)2 * COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rest_goes_on_without_the_dead),
        cmocka_unit_test(the_dead_are_started_again_if_asked),
        cmocka_unit_test(when_none_is_left_all_start_again_from_the_last_checkpoint),
        cmocka_unit_test(it_gives_up_after_so_many_tries),
        cmocka_unit_test(a_stuck_learner_is_killed_and_replaced),
        cmocka_unit_test(a_dead_server_is_started_again_and_a_torn_gradient_taken_out),
        cmocka_unit_test(checkpoints_are_made_while_learners_go_on),
        cmocka_unit_test(a_new_watchdog_takes_over_from_a_dead_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
