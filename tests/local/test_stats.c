/* What a watchdog sees while others sit down and leave: never somebody alive who counts as dead. */
#include "local/rig.h"

enum { SEATS = 64, ROUNDS = 20 };

/* The window is between two words that a look reads. With learners to ask the system about, it is
 * long enough for most servers to fall into it, if the words are read in the wrong order. */
TEST(a_server_that_sits_down_never_looks_as_if_it_had_come_and_died)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct local_options options = rig_options(LOCAL_SERVER, 8);
        struct local_job *job = rig_create(&options);
        struct local_learner *learners[8];
        struct local_stats stats = {0};
        struct rig_server server = {.options.threads = 1};
        for (uint32_t i = 0; i < 8; i++)
            learners[i] = rig_join(job, (struct local_learner_options){.seat = i});
        rig_server_start(&server, job);
        while (!stats.server_alive) {
            local_stats(job, &stats);
            assert_true(stats.server_alive || stats.server_starts == 0);
        }
        for (uint32_t i = 0; i < 8; i++)
            local_leave(learners[i]);
        local_stop(job);
        rig_server_end(&server);
        rig_remove(job);
    }
}

static void *join_all(void *arg)
{
    struct local_job *job = arg;
    static struct local_learner *learners[SEATS];
    for (uint32_t i = 0; i < SEATS; i++)
        learners[i] = rig_join(job, (struct local_learner_options){.seat = i});
    return learners;
}

TEST(a_learner_that_sits_down_never_looks_dead)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct local_options options = rig_options(LOCAL_SERVER, SEATS);
        options.layer_count = 1; /* a small one */
        struct local_job *job = rig_create(&options);
        pthread_t thread;
        void *joined = NULL;
        assert_int_equal(pthread_create(&thread, NULL, join_all, job), 0);
        for (uint32_t i = 0; i < SEATS; i++) {
            struct local_seat_stats seat = {0};
            while (!seat.alive) {
                local_seat_stats(job, i, &seat);
                assert_true(seat.alive || (seat.state == LOCAL_SEAT_FREE && seat.joins == 0));
            }
        }
        assert_int_equal(pthread_join(thread, &joined), 0);
        for (uint32_t i = 0; i < SEATS; i++)
            local_leave(((struct local_learner **)joined)[i]);
        rig_remove(job);
    }
}

static int sit(struct local_job *job, void *arg)
{
    struct local_learner_options wish = {.seat = 0};
    struct local_learner *learner;
    (void)arg;
    return local_join(job, &wish, &learner, NULL) == TRI_OK ? 0 : 1;
}

static void look_again(void *ctx, enum local_step at)
{
    struct local_seat_stats seat;
    (void)at;
    local_seat_stats(ctx, 0, &seat);
    assert_int_equal(seat.state, LOCAL_SEAT_DEAD);
    assert_int_equal(seat.joins, 1); /* one has died, and one death is to be told */
}

TEST(a_seat_of_a_dead_one_counts_its_next_learner_only_when_that_sits)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    struct local_job *job = rig_create(&options);
    struct local_faults faults = {.at = LOCAL_AT_SEATS, .hit = look_again, .ctx = job};
    assert_int_equal(rig_wait(rig_fork(&options, LOCAL_AT_NOTHING, 0, sit, NULL)), 0);
    assert_int_equal(local_bury(job), 1);
    local_set_faults(job, &faults);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){.seat = 0});
    struct local_seat_stats seat;
    local_seat_stats(job, 0, &seat);
    assert_true(seat.alive && seat.joins == 2);
    local_leave(learner);
    rig_remove(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_sits_down_never_looks_as_if_it_had_come_and_died),
        cmocka_unit_test(a_learner_that_sits_down_never_looks_dead),
        cmocka_unit_test(a_seat_of_a_dead_one_counts_its_next_learner_only_when_that_sits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
