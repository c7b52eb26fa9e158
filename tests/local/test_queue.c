/* Queues, hand-over, locks: many learners, threads and processes, and every gradient counts once.
 *
 * Gradients are all ones and lr is -1, so that after n of them every weight is n: a gradient that
 * is lost, doubled or torn shows in the weights as well as in the counts. */
#include "local/rig.h"

struct learner_thread {
    struct local_job *job;
    struct local_learner_options wish;
    uint32_t count;
    bool went_well;
    pthread_t thread;
};

static void *learn(void *arg)
{
    struct learner_thread *self = arg;
    struct local_learner *learner;
    if (local_join(self->job, &self->wish, &learner, NULL) != TRI_OK)
        return NULL;
    self->went_well = true;
    for (uint32_t i = 0; i < self->count; i++)
        self->went_well = self->went_well && rig_push(self->job, learner, 1, -1);
    local_leave(learner);
    return NULL;
}

static void check_all(const struct local_job *job, uint64_t count)
{
    struct local_stats stats;
    local_stats(job, &stats);
    rig_check_counts(job, &stats.counts);
    assert_int_equal(stats.counts.applied, count);
    assert_int_equal(stats.version, count);
    assert_int_equal(stats.counts.lost + stats.counts.torn + stats.counts.partial, 0);
    uint64_t bars = 0;
    for (int i = 0; i < LOCAL_STALE; i++)
        bars += stats.counts.stale[i];
    assert_int_equal(bars, count);
}

static void run_served(const struct local_options *options,
                       const struct local_learner_options *wish, struct local_serve_options serve)
{
    enum { COUNT = RIG_LESS > 1 ? 5 : 25 };
    struct learner_thread learners[8];
    struct local_job *job = rig_create(options);
    struct rig_server server = {.options = serve};
    server.options.until_done = true;
    if (options->mode != LOCAL_DIRECT)
        rig_server_start(&server, job);
    for (uint32_t i = 0; i < options->learners; i++) {
        learners[i] = (struct learner_thread){.job = job, .wish = *wish, .count = COUNT};
        learners[i].wish.seat = LOCAL_ANY;
        assert_int_equal(pthread_create(&learners[i].thread, NULL, learn, &learners[i]), 0);
    }
    for (uint32_t i = 0; i < options->learners; i++) {
        assert_int_equal(pthread_join(learners[i].thread, NULL), 0);
        assert_true(learners[i].went_well);
    }
    if (options->mode != LOCAL_DIRECT)
        rig_server_end(&server);
    check_all(job, COUNT * (uint64_t)options->learners);
    /* Two learners that step one weight at once may lose one of the steps, unless locked. */
    if (options->mode == LOCAL_SERVER || options->locked || options->learners == 1)
        assert_true(rig_value(job) == COUNT * (float)options->learners);
    rig_remove(job);
}

static void run_threads(const struct local_options *options,
                        const struct local_learner_options *wish, uint32_t threads)
{
    run_served(options, wish, (struct local_serve_options){.threads = threads});
}

TEST(every_gradient_of_many_threads_is_applied_once)
{
    (void)state;
    for (int locked = 0; locked < 2; locked++)
        for (int hands = 0; hands < 4; hands++)
            for (int mode = LOCAL_SERVER; mode <= LOCAL_DIRECT; mode++) {
                struct local_options options = rig_options((enum local_mode)mode, 3);
                struct local_learner_options wish = {.push_thread = (hands & 1) != 0,
                                                     .pull_thread = (hands & 2) != 0};
                options.locked = locked != 0;
                run_threads(&options, &wish, hands == 0 ? 2 : 1);
            }
}

/* One comes along where another passes, whenever it comes. */
TEST(every_gradient_is_applied_once_also_two_in_one_pass)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 3; threads++)
        for (uint32_t slots = 1; slots <= 3; slots++) {
            struct local_options options = rig_options(LOCAL_SERVER, threads);
            const struct local_learner_options wish = {.push_thread = slots == 3};
            options.slots = slots;
            run_served(&options, &wish,
                       (struct local_serve_options){.threads = threads, .pair_floats = 1});
        }
}

struct turns {
    struct local_job *job;
    uint64_t applied[3];
};

static void note_turns(void *ctx, enum local_step at)
{
    struct turns *self = ctx;
    (void)at;
    for (uint32_t i = 0; i < 3; i++) {
        struct local_seat_stats seat;
        local_seat_stats(self->job, i, &seat);
        self->applied[i] = seat.counts.applied;
    }
}

TEST(queues_are_taken_by_turns)
{
    (void)state;
    for (uint64_t pair_floats = 0; pair_floats <= 1; pair_floats++) {
        struct local_options options = rig_options(LOCAL_SERVER, 3);
        options.slots = 4;
        struct local_job *job = rig_create(&options);
        struct turns self = {.job = job};
        struct local_faults faults = {
            .at = LOCAL_AT_COMMITTED, .nth = 5, .hit = note_turns, .ctx = &self};
        struct rig_server server = {.options = {.until_done = true, .pair_floats = pair_floats}};
        for (uint32_t i = 0; i < 3; i++) {
            struct local_learner *learner =
                rig_join(job, (struct local_learner_options){.seat = i});
            for (int k = 0; k < 4; k++)
                assert_true(rig_push(job, learner, 1, -1));
            local_leave(learner);
        }
        local_set_faults(job, &faults);
        rig_server_start(&server, job);
        rig_server_end(&server);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(self.applied[i], 2);
        assert_true(rig_value(job) == 12);
        rig_remove(job);
    }
}

TEST(more_learners_than_cores_and_one_slot_each)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 8);
    struct local_learner_options wish = {.push_thread = true, .pull_thread = true, .reuse = 1};
    options.slots = 1;
    run_threads(&options, &wish, 2);
}

static int learn_in_child(struct local_job *job, void *arg)
{
    struct learner_thread self = *(struct learner_thread *)arg;
    self.job = job;
    (void)learn(&self);
    return self.went_well ? 0 : 1;
}

/* Update threads look out for the next gradient a while, then sleep: both ways, and between. */
TEST(update_threads_take_up_work_after_a_pause_of_any_length)
{
    (void)state;
    static const useconds_t pauses[] = {0, 10, 300, 500, 700, 5000};
    enum { PAUSES = sizeof pauses / sizeof pauses[0], ROUNDS = RIG_LESS > 1 ? 2 : 10 };
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct rig_server server = {.options = {.threads = 3, .until_done = true}};
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    rig_server_start(&server, job);
    for (int i = 0; i < ROUNDS * PAUSES; i++) {
        assert_true(rig_push(job, learner, 1, -1));
        assert_int_equal(local_flush(learner, NULL), TRI_OK);
        (void)usleep(pauses[i % PAUSES]);
    }
    local_leave(learner);
    rig_server_end(&server);
    check_all(job, (uint64_t)ROUNDS * PAUSES);
    assert_true(rig_value(job) == ROUNDS * PAUSES);
    rig_remove(job);
}

TEST(every_gradient_of_many_processes_is_applied_once)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 4);
    struct local_job *job = rig_create(&options);
    struct learner_thread self = {.count = 40, .wish = {.seat = LOCAL_ANY}};
    pid_t server = rig_fork(&options, LOCAL_AT_NOTHING, 0, rig_serve_child, NULL), learners[4];
    for (int i = 0; i < 4; i++)
        learners[i] = rig_fork(&options, LOCAL_AT_NOTHING, 0, learn_in_child, &self);
    for (int i = 0; i < 4; i++)
        assert_int_equal(rig_wait(learners[i]), 0);
    assert_int_equal(rig_wait(server), 0);
    check_all(job, 160);
    assert_true(rig_value(job) == 160);
    rig_remove(job);
}

TEST(a_learner_with_a_pull_thread_sees_its_own_steps_soon)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct rig_server server = {.options = {.until_done = true}};
    rig_server_start(&server, job);
    struct local_learner *learner =
        rig_join(job, (struct local_learner_options){.pull_thread = true, .reuse = 1});
    assert_true(local_weights(learner, 0) != local_shared(job, 0));
    assert_true(rig_push(job, learner, 1, -1));
    assert_int_equal(local_flush(learner, NULL), TRI_OK);
    /* With reuse 1 the third is the answer to a request made after the flush. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    assert_true(local_weights(learner, 0)[0] == 1);
    assert_int_equal(local_version(learner), 1);
    struct local_seat_stats before, after;
    local_seat_stats(job, 0, &before);
    for (int i = 0; i < 10; i++) /* nothing changes: nothing is copied */
        assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    local_seat_stats(job, 0, &after);
    assert_int_equal(after.counts.pulls, before.counts.pulls);
    assert_true(after.counts.pulls_skipped > before.counts.pulls_skipped);
    local_leave(learner);
    rig_server_end(&server);
    rig_remove(job);
}

TEST(gradients_are_computed_in_place_and_given_back)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    struct local_gradient *gradient;
    struct local_stats stats;
    struct local_about about;
    local_about(job, &about);
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    const char *at = (const char *)local_dense(gradient, 0), *base = (char *)local_shared(job, 0);
    assert_true(at > base && at < base + about.bytes); /* in the region itself */
    assert_int_equal((uintptr_t)at % 64, 0);
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_EARG);
    local_drop(learner);
    local_stats(job, &stats);
    assert_int_equal(stats.counts.begun, 0);
    assert_int_equal(local_publish(learner, 1, 1, NULL), TRI_EARG);
    local_leave(learner);
    rig_remove(job);
}

TEST(a_wait_without_a_server_ends_with_a_reason)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    options.wait_ms = 50;
    struct local_job *job = rig_create(&options);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    struct local_gradient *gradient;
    tri_error err;
    assert_true(rig_push(job, learner, 1, 1) && rig_push(job, learner, 1, 1));
    assert_int_equal(local_take(learner, &gradient, &err), TRI_ETIMEOUT);
    assert_non_null(strstr(err.text, "learner 0 of job"));
    assert_non_null(strstr(err.text, "a free slot"));
    assert_string_equal(err.why, "there is no server");
    local_stop(job);
    assert_int_equal(local_take(learner, &gradient, &err), TRI_EEVICTED);
    local_leave(learner);
    rig_remove(job);
}

TEST(a_seat_is_one_learners)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 2);
    struct local_job *job = rig_create(&options);
    struct local_learner *a = rig_join(job, (struct local_learner_options){.seat = 1}), *b;
    struct local_learner_options wish = {.seat = 1};
    tri_error err;
    assert_int_equal(local_join(job, &wish, &b, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "is taken by process"));
    wish.seat = 2;
    assert_int_equal(local_join(job, &wish, &b, &err), TRI_EINPUT);
    wish.seat = LOCAL_ANY;
    assert_int_equal(local_join(job, &wish, &b, &err), TRI_OK);
    assert_int_equal(local_seat(b), 0);
    local_leave(b);
    local_leave(a);
    assert_true(local_done(job));
    rig_remove(job);
}

TEST(kernels_of_ones_own_count_as_gradients_in_direct_mode)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_DIRECT, 1);
    struct local_job *job = rig_create(&options);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    struct local_stats stats;
    assert_int_equal(local_direct_begin(learner, NULL), TRI_OK);
    local_shared(job, 0)[3] += 1;
    local_direct_end(learner);
    local_stats(job, &stats);
    assert_int_equal(stats.version, 1);
    assert_int_equal(stats.counts.applied, 1);
    assert_int_equal(stats.counts.partial, 0);
    local_leave(learner);
    rig_remove(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_of_many_threads_is_applied_once),
        cmocka_unit_test(every_gradient_is_applied_once_also_two_in_one_pass),
        cmocka_unit_test(queues_are_taken_by_turns),
        cmocka_unit_test(more_learners_than_cores_and_one_slot_each),
        cmocka_unit_test(update_threads_take_up_work_after_a_pause_of_any_length),
        cmocka_unit_test(every_gradient_of_many_processes_is_applied_once),
        cmocka_unit_test(a_learner_with_a_pull_thread_sees_its_own_steps_soon),
        cmocka_unit_test(gradients_are_computed_in_place_and_given_back),
        cmocka_unit_test(a_wait_without_a_server_ends_with_a_reason),
        cmocka_unit_test(a_seat_is_one_learners),
        cmocka_unit_test(kernels_of_ones_own_count_as_gradients_in_direct_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
