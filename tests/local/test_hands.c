/* The push and the pull thread: who trains goes on while they copy. */
#include "local/rig.h"

#include <semaphore.h>

enum { STEPS = 200 / RIG_LESS };

/* Holds the thread that comes to a step until it is let go. */
struct barrier {
    struct local_faults faults;
    sem_t reached, go;
};

static void hold(void *ctx, enum local_step at)
{
    struct barrier *barrier = ctx;
    (void)at;
    (void)sem_post(&barrier->reached);
    while (sem_wait(&barrier->go) != 0)
        ;
}

static void hold_at(struct barrier *barrier, struct local_job *job, enum local_step at)
{
    barrier->faults = (struct local_faults){.at = at, .hit = hold, .ctx = barrier};
    assert_int_equal(sem_init(&barrier->reached, 0, 0), 0);
    assert_int_equal(sem_init(&barrier->go, 0, 0), 0);
    local_set_faults(job, &barrier->faults);
}

static void await(sem_t *event)
{
    while (sem_wait(event) != 0)
        ;
}

/* The first gradient is half moved. Meanwhile the second is asked for, filled, and only its
 * handing over would wait. */
TEST(who_trains_goes_on_while_a_gradient_is_moved)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct barrier barrier;
    struct local_gradient *gradient;
    struct local_stats stats;
    hold_at(&barrier, job, LOCAL_AT_HALF_FULL);
    struct local_learner *learner =
        rig_join(job, (struct local_learner_options){.push_thread = true});
    assert_true(rig_push(job, learner, 1, -1));
    await(&barrier.reached);
    assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    for (uint32_t l = 0; l < RIG_LAYERS; l++)
        memset(local_dense(gradient, l), 0, sizeof(float));
    local_stats(job, &stats);
    assert_int_equal(stats.counts.pushed, 0); /* still not */
    assert_int_equal(stats.counts.begun, 1);
    local_drop(learner);
    (void)sem_post(&barrier.go);
    struct rig_server server = {.options.threads = 1};
    rig_server_start(&server, job);
    assert_int_equal(local_flush(learner, NULL), TRI_OK);
    assert_true(rig_value(job) == 1);
    local_leave(learner);
    local_stop(job);
    rig_server_end(&server);
    rig_remove(job);
}

/* The copy is half made. Iterations begin on the one before, `reuse` of them. */
TEST(who_trains_goes_on_while_the_weights_are_copied)
{
    (void)state;
    for (int locked = 0; locked < 2; locked++) {
        struct local_options options = rig_options(LOCAL_DIRECT, 2);
        options.locked = locked != 0;
        struct local_job *job = rig_create(&options), *pulled = NULL;
        struct barrier barrier;
        assert_int_equal(local_attach(&options, &pulled, NULL), TRI_OK);
        hold_at(&barrier, pulled, LOCAL_AT_PULL);
        barrier.faults.nth = 1; /* the first is made by joining */
        struct local_learner *reader = rig_join(
            pulled, (struct local_learner_options){.seat = 0, .pull_thread = true, .reuse = 6});
        struct local_learner *writer = rig_join(job, (struct local_learner_options){.seat = 1});
        assert_true(rig_push(job, writer, 1, -1));
        for (int i = 0; i < 2; i++) /* the thread is told to look again, and does */
            assert_int_equal(local_refresh(reader, NULL), TRI_OK);
        await(&barrier.reached);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(local_refresh(reader, NULL), TRI_OK);
            assert_true(local_weights(reader, 0)[0] == 0);
            assert_int_equal(local_version(reader), 0);
        }
        (void)sem_post(&barrier.go);
        while (local_version(reader) == 0)
            assert_int_equal(local_refresh(reader, NULL), TRI_OK);
        assert_true(local_weights(reader, 0)[0] == 1);
        local_leave(reader);
        local_leave(writer);
        local_close(pulled);
        rig_remove(job);
    }
}

/* What an iteration reads stands still, and what it gives is applied once, in every mode that has
 * one set of weights. */
TEST(with_both_threads_every_gradient_is_applied_once)
{
    (void)state;
    for (int mode = 0; mode < LOCAL_REPLICAS; mode++) {
        struct local_options options = rig_options((enum local_mode)mode, 1);
        struct local_job *job = rig_create(&options);
        struct rig_server server = {.options.threads = 1};
        struct local_stats stats;
        struct local_learner *learner =
            rig_join(job, (struct local_learner_options){.push_thread = true, .pull_thread = true});
        if (rig_serves((enum local_mode)mode))
            rig_server_start(&server, job);
        for (int i = 0; i < STEPS; i++)
            assert_true(rig_push(job, learner, 1, -1));
        assert_int_equal(local_flush(learner, NULL), TRI_OK);
        assert_true(rig_value(job) == STEPS);
        local_stats(job, &stats);
        rig_check_counts(job, &stats.counts);
        assert_int_equal(stats.counts.applied, STEPS);
        local_leave(learner);
        local_stop(job);
        if (rig_serves((enum local_mode)mode))
            rig_server_end(&server);
        rig_remove(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_trains_goes_on_while_a_gradient_is_moved),
        cmocka_unit_test(who_trains_goes_on_while_the_weights_are_copied),
        cmocka_unit_test(with_both_threads_every_gradient_is_applied_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
