/* Processes killed at every step: nothing lost, nothing twice, nobody waits for ever.
 *
 * As in test_queue.c every weight counts the gradients that are in it. */
#include "local/inside.h"
#include "local/rig.h"

#define COUNT ((size_t)12)

struct wish {
    struct local_learner_options options;
    uint32_t count;
};

static int learn(struct local_job *job, void *arg)
{
    const struct wish *wish = arg;
    struct local_learner *learner;
    if (local_join(job, &wish->options, &learner, NULL) != TRI_OK)
        return 2;
    for (uint32_t i = 0; i < wish->count; i++)
        if (!rig_push(job, learner, 1, -1))
            return 1;
    local_leave(learner);
    return 0;
}

/* One learner dies at a step, the other goes on; the dead one's seat is then taken by a third. */
static void kill_learner(enum local_mode mode, bool locked, int hands, enum local_step at)
{
    struct local_options options = rig_options(mode, 2);
    options.locked = locked;
    struct local_job *job = rig_create(&options);
    struct wish wishes[2];
    for (uint32_t i = 0; i < 2; i++)
        wishes[i] = (struct wish){.options = {.seat = i,
                                              .push_thread = (hands & 1) != 0,
                                              .pull_thread = (hands & 2) != 0},
                                  .count = COUNT};
    pid_t server = 0;
    if (rig_serves(mode)) {
        static const struct local_serve_options serve = {.until_done = false};
        server = rig_fork(&options, LOCAL_AT_NOTHING, 0, rig_serve_child, (void *)&serve);
    }
    /* Pulls are skipped when nothing has changed: the second comes for sure, a fourth may not. */
    uint32_t nth = at == LOCAL_AT_PULL || at == LOCAL_AT_READING ? 1 : at == LOCAL_AT_HELD ? 0 : 3;
    pid_t victim = rig_fork(&options, at, nth, learn, &wishes[0]);
    pid_t other = rig_fork(&options, LOCAL_AT_NOTHING, 0, learn, &wishes[1]);
    int end = rig_wait(victim);
    if (end != -SIGKILL)
        fail_msg("the learner did not die at '%s': %d", local_step_name(at), end);
    pid_t third = rig_fork(&options, LOCAL_AT_NOTHING, 0, learn, &wishes[0]);
    assert_int_equal(rig_wait(other), 0);
    assert_int_equal(rig_wait(third), 0);
    while (!local_done(job))
        (void)usleep(1000);
    local_stop(job);
    if (server != 0)
        assert_int_equal(rig_wait(server), 0);
    struct local_stats stats;
    local_stats(job, &stats);
    rig_check_counts(job, &stats.counts);
    assert_int_equal(stats.counts.waiting, 0);
    assert_int_equal(stats.counts.torn + stats.counts.discarded, 0);
    assert_true(stats.counts.lost + stats.counts.partial <= 1);
    assert_true(stats.counts.applied >= 2 * COUNT);
    assert_int_equal(stats.version, stats.counts.applied);
    if (at == LOCAL_AT_TAKEN || at == LOCAL_AT_HALF_FULL)
        assert_int_equal(stats.counts.lost, 1);
    if (at == LOCAL_AT_PUBLISHED)
        assert_int_equal(stats.counts.lost, 0);
    if (mode == LOCAL_DIRECT && at == LOCAL_AT_HALF_STEP)
        assert_int_equal(stats.counts.partial, 1);
    if (mode == LOCAL_SERVER || mode == LOCAL_REPLICAS)
        assert_true(rig_value(job) == (float)stats.counts.applied);
    rig_remove(job);
}

TEST(a_learner_may_die_at_every_step_of_a_push)
{
    (void)state;
    static const enum local_step steps[] = {LOCAL_AT_TAKEN, LOCAL_AT_HALF_FULL, LOCAL_AT_PUBLISHED};
    for (size_t i = 0; i < 3; i++)
        for (int hands = 0; hands < 4; hands++)
            kill_learner(LOCAL_SERVER, hands == 3, hands, steps[i]);
}

TEST(a_learner_may_die_in_a_pull_and_with_the_lock)
{
    (void)state;
    kill_learner(LOCAL_SERVER, false, 2, LOCAL_AT_PULL);
    kill_learner(LOCAL_SERVER, true, 0, LOCAL_AT_PULL);
    kill_learner(LOCAL_SERVER, true, 2, LOCAL_AT_READING);
    kill_learner(LOCAL_DIRECT, true, 0, LOCAL_AT_READING);
}

TEST(a_learner_may_die_in_the_middle_of_a_step_of_its_own)
{
    (void)state;
    static const enum local_step steps[] = {LOCAL_AT_MARKED, LOCAL_AT_HALF_STEP, LOCAL_AT_STEPPED};
    for (size_t i = 0; i < 3; i++)
        for (int locked = 0; locked < 2; locked++)
            kill_learner(LOCAL_DIRECT, locked != 0, 0, steps[i]);
    kill_learner(LOCAL_DIRECT, true, 0, LOCAL_AT_WRITING);
    kill_learner(LOCAL_DIRECT, true, 3, LOCAL_AT_WRITING);
}

TEST(a_learner_with_a_copy_of_its_own_may_die_at_every_step)
{
    (void)state;
    static const enum local_step steps[] = {
        LOCAL_AT_TAKEN,   LOCAL_AT_HALF_FULL, LOCAL_AT_PUBLISHED, LOCAL_AT_HALF_STEP,
        LOCAL_AT_STEPPED, LOCAL_AT_COMMITTED, LOCAL_AT_HELD};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        kill_learner(LOCAL_REPLICAS, false, 0, steps[i]);
}

static int join_only(struct local_job *job, void *arg)
{
    struct local_learner *learner;
    if (local_join(job, arg, &learner, NULL) != TRI_OK)
        return 2;
    local_leave(learner);
    return 0;
}

TEST(a_learner_may_die_with_the_lock_of_the_seats)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct local_learner_options wish = {0};
    struct local_stats stats;
    assert_int_equal(rig_wait(rig_fork(&options, LOCAL_AT_SEATS, 0, join_only, &wish)), -SIGKILL);
    assert_int_equal(rig_wait(rig_fork(&options, LOCAL_AT_NOTHING, 0, join_only, &wish)), 0);
    local_stats(job, &stats);
    assert_int_equal(stats.locks_taken_up, 1);
    assert_true(local_done(job));
    rig_remove(job);
}

/* The server dies at a step and another one takes up. */
static void kill_server(enum local_mode mode, bool locked, enum local_step at)
{
    struct local_options options = rig_options(mode, 2);
    options.locked = locked;
    struct local_job *job = rig_create(&options);
    struct wish wishes[2];
    pid_t learners[2];
    pid_t server = rig_fork(&options, at, 5, rig_serve_child, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        wishes[i] = (struct wish){.options = {.seat = i}, .count = COUNT};
        learners[i] = rig_fork(&options, LOCAL_AT_NOTHING, 0, learn, &wishes[i]);
    }
    int end = rig_wait(server);
    if (end != -SIGKILL)
        fail_msg("the server did not die at '%s': %d", local_step_name(at), end);
    server = rig_fork(&options, LOCAL_AT_NOTHING, 0, rig_serve_child, NULL);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(rig_wait(learners[i]), 0);
    assert_int_equal(rig_wait(server), 0);
    struct local_stats stats;
    local_stats(job, &stats);
    rig_check_counts(job, &stats.counts);
    bool middle = at == LOCAL_AT_MARKED || at == LOCAL_AT_HALF_STEP || at == LOCAL_AT_STEPPED;
    uint64_t torn = !middle ? 0 : mode == LOCAL_SYNC ? 2 : 1;
    assert_int_equal(stats.counts.pushed, 2 * COUNT);
    assert_int_equal(stats.counts.torn, torn);
    assert_int_equal(stats.counts.applied, 2 * COUNT - torn);
    assert_int_equal(stats.server_starts, 2);
    assert_int_equal(stats.version, mode == LOCAL_SYNC ? COUNT - torn / 2 : 2 * COUNT - torn);
    if (locked)
        assert_true(stats.locks_taken_up >= 1);
    if (mode == LOCAL_SERVER && at != LOCAL_AT_HALF_STEP) /* torn before or after all of it */
        assert_true(rig_value(job) == 2 * COUNT - (at == LOCAL_AT_MARKED ? 1 : 0));
    rig_remove(job);
}

TEST(a_server_may_die_at_every_step_and_each_gradient_is_applied_once)
{
    (void)state;
    static const enum local_step steps[] = {LOCAL_AT_MARKED, LOCAL_AT_HALF_STEP, LOCAL_AT_STEPPED,
                                            LOCAL_AT_COMMITTED};
    for (size_t i = 0; i < 4; i++)
        for (int locked = 0; locked < 2; locked++)
            kill_server(LOCAL_SERVER, locked != 0, steps[i]);
    kill_server(LOCAL_SERVER, true, LOCAL_AT_WRITING);
    static const enum local_step rounds[] = {LOCAL_AT_MARKED, LOCAL_AT_HALF_STEP, LOCAL_AT_STEPPED,
                                             LOCAL_AT_ROUND};
    for (size_t i = 0; i < 4; i++)
        kill_server(LOCAL_SYNC, false, rounds[i]);
}

/* All gradients of one learner wait, so that each pass has two from its beginning. Nobody
 * has taken the weights for whole before another server has looked what is torn. */
static void kill_server_of_pairs(enum local_step at, uint32_t nth, uint64_t torn)
{
    struct local_snapshot snapshot;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    options.slots = COUNT;
    struct local_job *job = rig_create(&options);
    const struct local_serve_options serve = {
        .threads = 2, .until_done = true, .pair_floats = 1, .torn = LOCAL_TORN_KEEP};
    struct wish wish = {.count = COUNT};
    assert_int_equal(learn(job, &wish), 0);
    assert_int_equal(rig_wait(rig_fork(&options, at, nth, rig_serve_child, (void *)&serve)),
                     -SIGKILL);
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
    assert_false(snapshot.exact);
    assert_int_equal(
        rig_wait(rig_fork(&options, LOCAL_AT_NOTHING, 0, rig_serve_child, (void *)&serve)), 0);
    struct local_stats stats;
    struct local_about about;
    local_stats(job, &stats);
    rig_check_counts(job, &stats.counts);
    if (stats.counts.torn != torn)
        fail_msg("died at '%s': %llu torn, not %llu", local_step_name(at),
                 (unsigned long long)stats.counts.torn, (unsigned long long)torn);
    assert_int_equal(stats.counts.applied, COUNT - torn);
    assert_int_equal(stats.version, COUNT - torn);
    local_about(job, &about);
    for (uint32_t l = 0; l < about.layer_count; l++)
        for (uint64_t i = 0; i < about.layers[l].floats; i++) {
            const float times = local_shared(job, l)[i];
            assert_true(times >= (float)(COUNT - torn) && times <= COUNT);
        }
    assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
    assert_true(snapshot.exact);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

TEST(a_server_that_dies_in_a_pass_of_two_has_torn_just_those)
{
    (void)state;
    kill_server_of_pairs(LOCAL_AT_MARKED, 0, 1); /* the second does not count yet */
    kill_server_of_pairs(LOCAL_AT_MARKED, 5, 2);
    kill_server_of_pairs(LOCAL_AT_HALF_STEP, 4, 2);
    kill_server_of_pairs(LOCAL_AT_STEPPED, 4, 2);
    kill_server_of_pairs(LOCAL_AT_COMMITTED, 4, 1);
    kill_server_of_pairs(LOCAL_AT_STEPPED, 5, 1);
    kill_server_of_pairs(LOCAL_AT_COMMITTED, COUNT - 2, 1); /* and no other comes after it */
}

static void stop_job(void *ctx, enum local_step at)
{
    (void)at;
    local_stop(ctx);
}

TEST(a_server_that_is_stopped_leaves_no_gradient_by_half)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    options.slots = COUNT;
    struct local_job *job = rig_create(&options);
    struct local_faults faults = {.at = LOCAL_AT_STEPPED, .nth = 2, .hit = stop_job, .ctx = job};
    const struct local_serve_options serve = {.until_done = true, .pair_floats = 1};
    struct wish wish = {.count = COUNT};
    struct local_stats stats;
    assert_int_equal(learn(job, &wish), 0);
    local_set_faults(job, &faults);
    assert_int_equal(local_serve(job, &serve, NULL), TRI_OK);
    local_stats(job, &stats);
    rig_check_counts(job, &stats.counts);
    assert_int_equal(stats.counts.torn, 0);
    assert_true(stats.counts.waiting > 0);
    assert_true(rig_value(job) == (float)stats.counts.applied);
    rig_remove(job);
}

/* What is read under the lock are whole gradients, so there each goes by itself. */
TEST(who_reads_under_the_lock_finds_no_gradient_by_half)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 2);
    options.locked = true;
    struct local_job *job = rig_create(&options);
    struct rig_server server = {.options = {.until_done = true, .pair_floats = 1}};
    struct wish wish = {.options = {.seat = 0}, .count = 10 * COUNT};
    struct local_learner *reader = rig_join(job, (struct local_learner_options){.seat = 1});
    struct local_about about;
    local_about(job, &about);
    rig_server_start(&server, job);
    pid_t writer = rig_fork(&options, LOCAL_AT_NOTHING, 0, learn, &wish);
    float last = 0;
    while (last < (float)(10 * COUNT)) {
        assert_int_equal(local_refresh(reader, NULL), TRI_OK);
        const float *w = local_weights(reader, 1);
        for (uint64_t i = 0; i < about.layers[1].floats; i++)
            assert_true(w[i] == w[0]);
        last = w[0];
    }
    assert_int_equal(rig_wait(writer), 0);
    local_leave(reader);
    rig_server_end(&server);
    rig_remove(job);
}

/* Of two seats in one pass, too. */
TEST(gradients_of_two_learners_in_one_pass_are_applied_once_if_the_server_dies)
{
    (void)state;
    static const enum local_step steps[] = {LOCAL_AT_MARKED, LOCAL_AT_HALF_STEP, LOCAL_AT_STEPPED,
                                            LOCAL_AT_COMMITTED};
    const struct local_serve_options serve = {.until_done = true, .pair_floats = 1};
    for (size_t i = 0; i < 4; i++) {
        struct local_options options = rig_options(LOCAL_SERVER, 2);
        struct local_job *job = rig_create(&options);
        struct wish wishes[2] = {{.options = {.seat = 0}, .count = COUNT},
                                 {.options = {.seat = 1}, .count = COUNT}};
        pid_t learners[2];
        pid_t server = rig_fork(&options, steps[i], 5, rig_serve_child, (void *)&serve);
        for (uint32_t k = 0; k < 2; k++)
            learners[k] = rig_fork(&options, LOCAL_AT_NOTHING, 0, learn, &wishes[k]);
        assert_int_equal(rig_wait(server), -SIGKILL);
        server = rig_fork(&options, LOCAL_AT_NOTHING, 0, rig_serve_child, (void *)&serve);
        for (uint32_t k = 0; k < 2; k++)
            assert_int_equal(rig_wait(learners[k]), 0);
        assert_int_equal(rig_wait(server), 0);
        struct local_stats stats;
        local_stats(job, &stats);
        rig_check_counts(job, &stats.counts);
        assert_int_equal(stats.counts.pushed, 2 * COUNT);
        assert_int_equal(stats.counts.waiting + stats.counts.discarded + stats.counts.lost, 0);
        assert_true(stats.counts.torn <= 2);
        assert_true(stats.counts.torn >= 1 || steps[i] == LOCAL_AT_COMMITTED);
        assert_int_equal(stats.version, stats.counts.applied);
        rig_remove(job);
    }
}

TEST(sync_goes_on_without_the_dead)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SYNC, 2);
    struct local_job *job = rig_create(&options);
    struct wish wishes[2] = {{.options = {.seat = 0}, .count = COUNT},
                             {.options = {.seat = 1}, .count = COUNT}};
    pid_t server = rig_fork(&options, LOCAL_AT_NOTHING, 0, rig_serve_child, NULL);
    pid_t victim = rig_fork(&options, LOCAL_AT_TAKEN, 4, learn, &wishes[0]);
    pid_t other = rig_fork(&options, LOCAL_AT_NOTHING, 0, learn, &wishes[1]);
    assert_int_equal(rig_wait(victim), -SIGKILL);
    assert_int_equal(rig_wait(other), 0);
    assert_int_equal(rig_wait(server), 0);
    struct local_stats stats;
    local_stats(job, &stats);
    rig_check_counts(job, &stats.counts);
    assert_int_equal(stats.counts.applied, COUNT + 4);
    assert_int_equal(stats.version, COUNT);
    assert_int_equal(stats.dead, 1);
    rig_remove(job);
}

static int snap(struct local_job *job, void *arg)
{
    struct local_snapshot snapshot;
    (void)arg;
    if (local_snapshot_open(job, &snapshot, NULL) != TRI_OK)
        return 2;
    return local_snapshot_take(job, &snapshot, NULL) == TRI_OK ? 0 : 1;
}

TEST(who_dies_while_the_server_rests_for_it_does_not_stop_the_job)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct wish wish = {.count = COUNT};
    struct local_snapshot snapshot;
    pid_t server = rig_fork(&options, LOCAL_AT_NOTHING, 0, rig_serve_child, NULL);
    assert_int_equal(rig_wait(rig_fork(&options, LOCAL_AT_HELD, 0, snap, NULL)), -SIGKILL);
    assert_int_equal(rig_wait(rig_fork(&options, LOCAL_AT_NOTHING, 0, learn, &wish)), 0);
    assert_int_equal(rig_wait(server), 0);
    assert_true(rig_value(job) == COUNT);
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
    assert_true(snapshot.exact);
    assert_int_equal(snapshot.version, COUNT);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

/* ---- snapshots ---- */

struct pusher {
    struct local_job *job;
    struct local_learner *learner;
    uint32_t stop;
};

static void *push_on(void *arg)
{
    struct pusher *self = arg;
    while (__atomic_load_n(&self->stop, __ATOMIC_ACQUIRE) == 0)
        if (!rig_push(self->job, self->learner, 1, -1))
            break;
    return NULL;
}

struct snapper {
    struct local_job *job;
    struct local_snapshot snapshot;
    tri_status status;
    pthread_t thread;
};

static void *snap_once(void *arg)
{
    struct snapper *self = arg;
    self->status = local_snapshot_take(self->job, &self->snapshot, NULL);
    return NULL;
}

/* In the server, with a gradient done and the next one by half: somebody wants a snapshot. */
static void have_snapped(void *ctx, enum local_step at)
{
    struct snapper *self = ctx;
    (void)at;
    if (pthread_create(&self->thread, NULL, snap_once, self) == 0)
        while (load32(&self->job->head->hold) == 0)
            event_pause();
}

TEST(a_snapshot_has_whole_gradients_also_if_one_was_by_half_in_when_it_was_wanted)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    options.slots = COUNT;
    struct local_job *job = rig_create(&options);
    struct snapper self = {.job = job};
    struct local_faults faults = {
        .at = LOCAL_AT_STEPPED, .nth = 2, .hit = have_snapped, .ctx = &self};
    const struct local_serve_options serve = {.until_done = true, .pair_floats = 1};
    struct wish wish = {.count = COUNT};
    struct local_about about;
    assert_int_equal(local_snapshot_open(job, &self.snapshot, NULL), TRI_OK);
    assert_int_equal(learn(job, &wish), 0);
    local_set_faults(job, &faults);
    assert_int_equal(local_serve(job, &serve, NULL), TRI_OK);
    assert_int_equal(pthread_join(self.thread, NULL), 0);
    assert_int_equal(self.status, TRI_OK);
    assert_true(self.snapshot.exact);
    assert_int_equal(self.snapshot.version, 4); /* what was done, and what was begun */
    local_about(job, &about);
    for (uint32_t l = 0; l < about.layer_count; l++)
        for (uint64_t i = 0; i < about.layers[l].floats; i++)
            assert_true(self.snapshot.weights[about.layers[l].offset + i] == 4);
    assert_true(rig_value(job) == COUNT);
    local_snapshot_close(job, &self.snapshot);
    rig_remove(job);
}

struct late_snapper {
    struct snapper snapper;
    struct local_learner *learner;
};

static void have_snapped_and_push(void *ctx, enum local_step at)
{
    struct late_snapper *self = ctx;
    have_snapped(&self->snapper, at);
    (void)rig_push(self->snapper.job, self->learner, 1, -1);
    local_leave(self->learner);
}

TEST(who_wants_a_snapshot_does_not_wait_for_gradients_that_come_later)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct late_snapper self = {.snapper = {.job = job}};
    struct local_snapshot *snapshot = &self.snapper.snapshot;
    struct local_faults faults = {
        .at = LOCAL_AT_HALF_STEP, .hit = have_snapped_and_push, .ctx = &self};
    const struct local_serve_options serve = {.until_done = true, .pair_floats = 1};
    self.learner = rig_join(job, (struct local_learner_options){0});
    assert_int_equal(local_snapshot_open(job, snapshot, NULL), TRI_OK);
    assert_true(rig_push(job, self.learner, 1, -1));
    local_set_faults(job, &faults);
    assert_int_equal(local_serve(job, &serve, NULL), TRI_OK);
    assert_int_equal(pthread_join(self.snapper.thread, NULL), 0);
    assert_int_equal(self.snapper.status, TRI_OK);
    assert_true(snapshot->exact);
    assert_int_equal(snapshot->version, 1);
    assert_true(rig_value(job) == 2);
    local_snapshot_close(job, snapshot);
    rig_remove(job);
}

static void take_up(void *ctx, enum local_step at)
{
    (void)at;
    (void)passes_recover(ctx);
}

TEST(a_snapshot_is_not_exact_if_another_server_takes_up_torn_gradients_meanwhile)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct local_faults faults = {.at = LOCAL_AT_HELD, .hit = take_up, .ctx = job};
    struct wish wish = {.count = 1};
    struct local_snapshot snapshot;
    assert_int_equal(learn(job, &wish), 0);
    assert_int_equal(rig_wait(rig_fork(&options, LOCAL_AT_HALF_STEP, 0, rig_serve_child, NULL)),
                     -SIGKILL);
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    local_set_faults(job, &faults);
    assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
    assert_false(snapshot.exact);
    local_set_faults(job, NULL);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

TEST(a_server_that_sits_down_meanwhile_spoils_no_snapshot)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct local_faults faults = {.at = LOCAL_AT_HELD, .hit = take_up, .ctx = job};
    struct local_snapshot snapshot;
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    local_set_faults(job, &faults);
    assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
    assert_true(snapshot.exact);
    local_set_faults(job, NULL);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

/* One that ends the gradient that it is in the middle of while the weights are copied. */
static void end_gradient(void *ctx, enum local_step at)
{
    struct local_job *job = ctx;
    (void)at;
    queue_finish(job, 0, false);
    bump(&job->head->changes, 1);
    store(&job->head->applying[0], 0);
}

TEST(a_snapshot_is_not_exact_if_a_gradient_ends_meanwhile)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct local_faults faults = {.at = LOCAL_AT_HELD, .hit = end_gradient, .ctx = job};
    struct wish wish = {.count = 1};
    struct local_snapshot snapshot;
    assert_int_equal(learn(job, &wish), 0);
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    local_set_faults(job, &faults); /* begun and ended between two looks at the marks */
    assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
    assert_false(snapshot.exact);
    local_set_faults(job, NULL);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

static void snap_while_learning(uint64_t pair_floats)
{
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct rig_server server = {
        .options = {.threads = 2, .until_done = true, .pair_floats = pair_floats}};
    struct pusher self = {.job = job};
    struct local_snapshot snapshot;
    pthread_t thread;
    self.learner = rig_join(job, (struct local_learner_options){0});
    rig_server_start(&server, job);
    assert_int_equal(pthread_create(&thread, NULL, push_on, &self), 0);
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    for (int k = 0; k < 20; k++) {
        struct local_about about;
        local_about(job, &about);
        assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
        assert_true(snapshot.exact);
        assert_int_equal(snapshot.version, snapshot.applied[0]);
        for (uint32_t l = 0; l < about.layer_count; l++)
            for (uint64_t i = 0; i < about.layers[l].floats; i += 97)
                assert_true(snapshot.weights[about.layers[l].offset + i] ==
                            (float)snapshot.version);
    }
    __atomic_store_n(&self.stop, 1, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    local_leave(self.learner);
    rig_server_end(&server);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

TEST(snapshots_are_exact_while_learners_go_on)
{
    (void)state;
    snap_while_learning(0);
    snap_while_learning(1); /* two gradients in one pass */
}

TEST(a_snapshot_put_back_is_where_counting_goes_on)
{
    (void)state;
    struct optim optim;
    assert_int_equal(optim_read("momentum:0.5", &optim, NULL), TRI_OK);
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    options.optim = &optim;
    options.slots = 8;
    struct local_job *job = rig_create(&options);
    struct local_serve_options serve = {.until_done = true};
    struct wish wish = {.count = 4};
    struct local_snapshot snapshot;
    struct local_stats stats;
    assert_int_equal(learn(job, &wish), 0);
    assert_int_equal(local_serve(job, &serve, NULL), TRI_OK);
    float value = rig_value(job);
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
    for (int turn = 0; turn < 2; turn++) {
        wish.count = 3;
        assert_int_equal(learn(job, &wish), 0);
        assert_int_equal(local_serve(job, &serve, NULL), TRI_OK);
        float later = rig_value(job);
        assert_true(later > value);
        wish.count = 2;
        assert_int_equal(learn(job, &wish), 0); /* these wait, and go too */
        assert_int_equal(local_restore(job, &snapshot, true, NULL), TRI_OK);
        assert_true(rig_value(job) == value);
        local_stats(job, &stats);
        rig_check_counts(job, &stats.counts);
        assert_int_equal(stats.counts.applied, 4);
        assert_int_equal(stats.counts.discarded, 5 * (turn + 1));
        assert_int_equal(stats.version, 4);
    }
    /* The same steps again give the same weights: the optimiser's memory was put back, too. */
    struct local_options anew = rig_options(LOCAL_SERVER, 1);
    anew.optim = &optim;
    struct local_job *other = rig_create(&anew);
    assert_int_equal(local_restore(other, &snapshot, true, NULL), TRI_OK);
    wish.count = 1;
    struct local_job *const both[] = {job, other};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(learn(both[i], &wish), 0);
        assert_int_equal(local_serve(both[i], &serve, NULL), TRI_OK);
        local_stats(both[i], &stats);
        rig_check_counts(both[i], &stats.counts);
        assert_int_equal(stats.counts.applied, 5);
        assert_int_equal(stats.version, 5);
    }
    assert_true(rig_value(job) == rig_value(other));
    local_snapshot_close(job, &snapshot);
    rig_remove(other);
    rig_remove(job);
}

/* The first server dies in the middle of a gradient. If more_deaths, the second counts it as torn
 * and dies before it can say so. */
static void serve_torn(bool more_deaths)
{
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    options.slots = 4;
    struct local_job *job = rig_create(&options);
    const struct local_serve_options wary = {.until_done = true, .torn = LOCAL_TORN_FAIL};
    struct wish wish = {.count = 3};
    struct local_snapshot snapshot;
    struct local_stats stats;
    tri_error err;
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
    assert_int_equal(learn(job, &wish), 0);
    assert_int_equal(rig_wait(rig_fork(&options, LOCAL_AT_HALF_STEP, 1, rig_serve_child, NULL)),
                     -SIGKILL);
    if (more_deaths)
        queue_finish(job, 0, true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(local_serve(job, &wary, &err), TRI_EPEER);
        assert_non_null(strstr(err.text, "died in the middle of a gradient"));
    }
    assert_int_equal(local_restore(job, &snapshot, false, NULL), TRI_OK);
    assert_int_equal(local_serve(job, &wary, NULL), TRI_OK);
    assert_true(rig_value(job) == 1); /* the last of the three */
    local_stats(job, &stats);
    rig_check_counts(job, &stats.counts);
    assert_int_equal(stats.counts.torn, 1);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

TEST(a_torn_gradient_is_known_until_a_checkpoint_is_put_back)
{
    (void)state;
    serve_torn(true);
    serve_torn(false);
}

TEST(who_goes_on_with_a_torn_gradient_has_taken_note_of_it)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct local_serve_options serve = {.until_done = true, .torn = LOCAL_TORN_KEEP};
    struct wish wish = {.count = 1};
    assert_int_equal(learn(job, &wish), 0);
    assert_int_equal(rig_wait(rig_fork(&options, LOCAL_AT_HALF_STEP, 0, rig_serve_child, NULL)),
                     -SIGKILL);
    assert_int_equal(local_serve(job, &serve, NULL), TRI_OK);
    serve.torn = LOCAL_TORN_FAIL;
    assert_int_equal(local_serve(job, &serve, NULL), TRI_OK);
    rig_remove(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_learner_may_die_at_every_step_of_a_push),
        cmocka_unit_test(a_learner_may_die_in_a_pull_and_with_the_lock),
        cmocka_unit_test(a_learner_may_die_in_the_middle_of_a_step_of_its_own),
        cmocka_unit_test(a_learner_with_a_copy_of_its_own_may_die_at_every_step),
        cmocka_unit_test(a_learner_may_die_with_the_lock_of_the_seats),
        cmocka_unit_test(a_server_may_die_at_every_step_and_each_gradient_is_applied_once),
        cmocka_unit_test(a_server_that_dies_in_a_pass_of_two_has_torn_just_those),
        cmocka_unit_test(a_server_that_is_stopped_leaves_no_gradient_by_half),
        cmocka_unit_test(who_reads_under_the_lock_finds_no_gradient_by_half),
        cmocka_unit_test(gradients_of_two_learners_in_one_pass_are_applied_once_if_the_server_dies),
        cmocka_unit_test(sync_goes_on_without_the_dead),
        cmocka_unit_test(who_dies_while_the_server_rests_for_it_does_not_stop_the_job),
        cmocka_unit_test(
            a_snapshot_has_whole_gradients_also_if_one_was_by_half_in_when_it_was_wanted),
        cmocka_unit_test(who_wants_a_snapshot_does_not_wait_for_gradients_that_come_later),
        cmocka_unit_test(
            a_snapshot_is_not_exact_if_another_server_takes_up_torn_gradients_meanwhile),
        cmocka_unit_test(a_server_that_sits_down_meanwhile_spoils_no_snapshot),
        cmocka_unit_test(a_snapshot_is_not_exact_if_a_gradient_ends_meanwhile),
        cmocka_unit_test(snapshots_are_exact_while_learners_go_on),
        cmocka_unit_test(a_snapshot_put_back_is_where_counting_goes_on),
        cmocka_unit_test(a_torn_gradient_is_known_until_a_checkpoint_is_put_back),
        cmocka_unit_test(who_goes_on_with_a_torn_gradient_has_taken_note_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
