/* Layers that lie there once for all learners: each reads a set that stays as it is, and with what
 * it reckons with beside it that is every gradient, once. */
#include "local/sets.h"

#include <math.h>
#include <sched.h>

#include "base/rng.h"
#include "local/rig.h"
#include "local/share.h"

enum { ROWS = 70, COLS = 19, FLOATS_OF = ROWS * COLS + ROWS, SAMPLES = 5 };
enum { COMMON, OWN, EMBED, LAYERS };

static const struct local_layer_info layers[LAYERS] = {
    {.name = "common",
     .rows = ROWS,
     .cols = COLS,
     .bias = true,
     .max_factors = SAMPLES,
     .common = true},
    {.name = "own", .rows = ROWS, .cols = COLS, .bias = true, .max_factors = SAMPLES},
    {.name = "embed", .rows = 9, .cols = 8, .max_rows = 9},
};

static struct local_options options_of(uint32_t learners)
{
    struct local_options options = rig_options(LOCAL_REPLICAS, learners);
    options.layers = layers;
    options.layer_count = LAYERS;
    return options;
}

static struct local_job *create(uint32_t learners)
{
    const struct local_options options = options_of(learners);
    return rig_create(&options);
}

static struct local_learner *join(struct local_job *job, uint32_t seat)
{
    return rig_join(job, (struct local_learner_options){.seat = seat});
}

/* ---- every weight counts the gradients that are in it ---- */

/* A gradient that adds 1 to every weight, in as many samples as fit. */
static bool push_one(struct local_learner *learner)
{
    struct local_gradient *gradient;
    struct local_rows rows;
    if (local_take(learner, &gradient, NULL) != TRI_OK || !local_rows(gradient, EMBED, 9, &rows))
        return false;
    for (uint32_t l = COMMON; l <= OWN; l++) {
        struct local_factors to;
        if (!local_factors(gradient, l, SAMPLES, &to))
            return false;
        for (uint32_t i = 0; i < SAMPLES * ROWS; i++)
            to.u[i] = i < ROWS ? 1 : 0;
        for (uint32_t i = 0; i < SAMPLES * COLS; i++)
            to.v[i] = 1;
    }
    for (uint32_t i = 0; i < 9; i++)
        rows.numbers[i] = i;
    for (uint32_t i = 0; i < 9 * rows.stride; i++)
        rows.values[i] = 1;
    return local_publish(learner, -1, 1, NULL) == TRI_OK;
}

/* What all weights of a layer count, with the steps to come; NAN when they differ. */
static float counted(struct local_learner *learner, uint32_t layer)
{
    struct local_pending pending;
    float first = 0;
    local_pend(learner, layer, &pending);
    for (uint32_t i = 0; i < FLOATS_OF; i++) {
        const uint32_t row = i < ROWS * COLS ? i / COLS : i - ROWS * COLS;
        float value = pending.weights[i];
        for (size_t k = 0; k < pending.count; k++)
            value +=
                pending.u[k * ROWS + row] * (i < ROWS * COLS ? pending.v[k * COLS + i % COLS] : 1);
        if (i > 0 && value != first)
            return NAN;
        first = value;
    }
    return first;
}

/* Common layers may be ahead of the others, by what other learners have taken. */
static bool iterate(struct local_learner *learner)
{
    if (local_refresh(learner, NULL) != TRI_OK)
        return false;
    const float version = (float)local_version(learner), common = counted(learner, COMMON);
    const bool good = common >= version && counted(learner, OWN) == version;
    if (!good || !push_one(learner))
        return false;
    return counted(learner, COMMON) == common; /* also in the backward pass */
}

static void check_all(const float *weights, float value)
{
    for (uint32_t i = 0; i < FLOATS_OF; i++)
        if (weights[i] != value)
            fail_msg("value %u is %g, not %g", i, (double)weights[i], (double)value);
}

static void check_snapshot(struct local_job *job, struct local_snapshot *snapshot)
{
    struct local_about about;
    local_about(job, &about);
    for (uint32_t l = COMMON; l <= OWN; l++)
        check_all(snapshot->weights + about.layers[l].offset, (float)snapshot->version);
}

static void check_settled(struct local_learner *learner, float value)
{
    float weights[ROWS * COLS], bias[ROWS];
    check_all(local_weights(learner, COMMON), value);
    local_copy(learner, COMMON, weights, bias);
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        assert_true(weights[i] == value);
    for (uint32_t i = 0; i < ROWS; i++)
        assert_true(bias[i] == value);
}

/* ---- one after the other ---- */

TEST(sets_are_made_of_what_learners_have_taken)
{
    (void)state;
    struct local_job *job = create(2);
    struct local_learner *one = join(job, 0), *two = join(job, 1);
    const uint64_t first = set_now(job);
    for (uint32_t i = 0; i < 90; i++) {
        assert_true(iterate(i % 3 == 0 ? two : one));
        assert_true(sets_pile(one, COMMON)->count <= 64 + 32 * SAMPLES);
    }
    assert_true(set_now(job) > first + 5);
    assert_int_equal(local_refresh(two, NULL), TRI_OK); /* or it would be waited for */
    assert_int_equal(local_flush(one, NULL), TRI_OK);
    check_settled(one, 90);
    check_all(local_weights(one, OWN), 90);
    local_leave(two);
    local_leave(one);
    check_all(local_shared(job, COMMON), 90);
    check_all(local_shared(job, OWN), 90);
    rig_remove(job);
}

TEST(a_copy_has_the_steps_that_are_still_to_be_made)
{
    (void)state;
    struct local_job *job = create(1);
    struct local_learner *learner = join(job, 0);
    float weights[ROWS * COLS], bias[ROWS];
    for (uint32_t i = 0; i < 3; i++)
        assert_true(iterate(learner));
    assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    local_catch_up(learner, COMMON, ROWS);
    check_all(local_weights(learner, COMMON), 0);
    local_copy(learner, COMMON, weights, bias);
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        assert_true(weights[i] == 3);
    for (uint32_t i = 0; i < ROWS; i++)
        assert_true(bias[i] == 3);
    local_leave(learner);
    rig_remove(job);
}

/* The steps are those of the factors, by doubles, whatever they are. */
TEST(a_set_is_what_its_factors_make)
{
    (void)state;
    static double sum[FLOATS_OF];
    struct local_job *job = create(1);
    struct local_learner *learner = join(job, 0);
    struct rng rng;
    rng_init(&rng, 4);
    for (uint32_t i = 0; i < 40; i++) {
        struct local_gradient *gradient;
        struct local_factors to;
        assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
        if (i % 7 == 3) { /* one without this layer */
            assert_int_equal(local_publish(learner, 1, 1, NULL), TRI_OK);
            continue;
        }
        const uint32_t count = 1 + i % SAMPLES;
        assert_true(local_factors(gradient, COMMON, count, &to));
        for (uint32_t k = 0; k < count * ROWS; k++)
            to.u[k] = rng_below(&rng, 3) == 0 ? 0 : (float)rng_normal(&rng);
        for (uint32_t k = 0; k < count * COLS; k++)
            to.v[k] = (float)rng_normal(&rng);
        for (uint32_t k = 0; k < count; k++)
            for (uint32_t m = 0; m < ROWS; m++) {
                const double step = -0.125 * (double)to.u[k * ROWS + m];
                for (uint32_t n = 0; n < COLS; n++)
                    sum[m * COLS + n] += step * (double)to.v[k * COLS + n];
                sum[ROWS * COLS + m] += step;
            }
        assert_int_equal(local_publish(learner, 0.25F, 2, NULL), TRI_OK);
    }
    local_leave(learner);
    assert_true(set_now(job) > SETS_FIRST + 2);
    for (uint32_t i = 0; i < FLOATS_OF; i++)
        assert_true(fabs((double)local_shared(job, COMMON)[i] - sum[i]) <
                    1e-4 * (1 + fabs(sum[i])));
    rig_remove(job);
}

/* Who is in the middle of an iteration reads what it has read, whoever makes sets meanwhile; and
 * who must make a second one waits for it, and says so. */
TEST(a_set_that_somebody_reads_stays)
{
    (void)state;
    struct local_options options = options_of(2);
    options.slots = 40;
    options.wait_ms = 200;
    struct local_job *job = rig_create(&options);
    struct local_learner *one = join(job, 0), *two = join(job, 1);
    tri_error err = {0};
    assert_true(iterate(one));
    assert_int_equal(local_refresh(one, NULL), TRI_OK);
    const float seen = counted(one, COMMON);
    tri_status status = TRI_OK;
    uint32_t pushed = 0;
    for (; pushed < 40 && status == TRI_OK; pushed++) {
        status = local_refresh(two, &err);
        if (status == TRI_OK)
            assert_true(push_one(two));
        assert_true(counted(one, COMMON) == seen);
    }
    assert_int_equal(status, TRI_ETIMEOUT);
    assert_non_null(strstr(err.text, "learner 0 to begin its next iteration"));
    assert_int_equal(set_now(job), SETS_FIRST + 1);
    assert_true(sets_are_full(two)); /* before that it has gone on with what it had */
    assert_true(push_one(one));
    assert_int_equal(local_refresh(one, NULL), TRI_OK); /* it does */
    assert_true(iterate(two));
    assert_int_equal(local_refresh(one, NULL), TRI_OK);
    local_leave(two);
    local_leave(one);
    check_all(local_shared(job, COMMON), (float)(pushed + 2));
    check_all(local_shared(job, OWN), (float)(pushed + 2));
    rig_remove(job);
}

struct holder {
    struct local_job *job;
    uint32_t held, let_go;
};

static void *hold_lock(void *arg)
{
    struct holder *holder = arg;
    (void)robust_lock(&holder->job->head->maker, 1000);
    __atomic_store_n(&holder->held, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&holder->let_go, __ATOMIC_SEQ_CST) == 0)
        (void)sched_yield();
    robust_unlock(&holder->job->head->maker);
    return NULL;
}

TEST(who_waits_for_the_lock_in_vain_says_for_whom_and_does_not_hold_it)
{
    (void)state;
    struct local_options options = options_of(1);
    options.wait_ms = 50;
    struct local_job *job = rig_create(&options);
    struct local_learner *learner = join(job, 0);
    struct holder holder = {.job = job};
    tri_error err = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, hold_lock, &holder), 0);
    while (__atomic_load_n(&holder.held, __ATOMIC_SEQ_CST) == 0)
        (void)sched_yield();
    assert_int_equal(sets_lock(learner, &err), TRI_ETIMEOUT);
    assert_non_null(strstr(err.text, "learner 0, which steps common layers"));
    __atomic_store_n(&holder.let_go, 1, __ATOMIC_SEQ_CST);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sets_lock(learner, &err), TRI_OK);
    sets_unlock(learner);
    local_leave(learner);
    rig_remove(job);
}

/* A set may have gradients in it that this learner has not taken: a copy of it has them in all
 * layers or in none. */
TEST(who_settles_takes_what_the_set_has)
{
    (void)state;
    struct local_job *job = create(2);
    struct local_learner *one = join(job, 0), *two = join(job, 1);
    struct local_snapshot snapshot;
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    for (int turn = 0; turn < 3; turn++) {
        for (uint32_t i = 0; i < 10; i++)
            assert_true(iterate(i < 2 ? one : two));
        assert_true(set_now(job) > SETS_FIRST);
        assert_false(is_quiet(&job->seats[0]));
        assert_true(counted(one, COMMON) < counted(two, COMMON));
        assert_int_equal(local_snapshot_own(one, &snapshot, NULL), TRI_OK);
        assert_true(snapshot.exact);
        assert_true(is_quiet(&job->seats[0]));
        check_snapshot(job, &snapshot);
    }
    local_leave(one);
    local_leave(two);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

/* The others go on, and make the next one. */
TEST(the_set_that_goes_with_a_copy_stays)
{
    (void)state;
    struct local_job *job = create(2);
    struct local_learner *one = join(job, 0), *two = join(job, 1);
    struct local_snapshot snapshot;
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    for (uint32_t i = 0; i < 6; i++)
        assert_true(iterate(one));
    assert_int_equal(local_settle(one, NULL), TRI_OK);
    for (uint32_t i = 0; i < 10; i++)
        assert_true(iterate(two));
    assert_true(set_now(job) > sets_number(one));
    assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
    assert_true(snapshot.exact);
    assert_int_equal(snapshot.version, 5);
    check_snapshot(job, &snapshot);
    assert_int_equal(local_refresh(one, NULL), TRI_OK);
    local_leave(two);
    local_leave(one);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

TEST(who_comes_later_begins_with_the_set)
{
    (void)state;
    struct local_job *job = create(3);
    struct local_learner *one = join(job, 0);
    for (uint32_t i = 0; i < 20; i++)
        assert_true(iterate(one));
    assert_int_equal(local_settle(one, NULL), TRI_OK);
    struct local_learner *two = join(job, 1);
    assert_int_equal(sets_number(two), sets_number(one)); /* which nobody writes to meanwhile */
    check_all(local_weights(two, COMMON), 19);
    for (uint32_t i = 0; i < 20; i++)
        assert_true(iterate(i % 2 == 0 ? one : two));
    local_leave(one);
    local_leave(two);
    struct local_learner *three = join(job, 2); /* of one that has left */
    for (uint32_t i = 0; i < 20; i++)
        assert_true(iterate(three));
    local_leave(three);
    check_all(local_shared(job, COMMON), 60);
    check_all(local_shared(job, OWN), 60);
    rig_remove(job);
}

TEST(layers_that_cannot_be_common_are_refused)
{
    (void)state;
    static const struct local_layer_info wrong[] = {
        {.name = "a", .rows = 2, .cols = 2, .common = true},
        {.name = "b", .rows = 2, .cols = 2, .max_factors = 1, .window = 3, .common = true},
        {.name = "c", .rows = 2, .cols = 2, .max_factors = 1, .dense_too = true, .common = true},
    };
    for (size_t i = 0; i < 3; i++) {
        struct local_options options = options_of(1);
        struct local_job *job;
        tri_error err;
        options.layers = &wrong[i];
        options.layer_count = 1;
        assert_int_equal(local_create(&options, &job, &err), TRI_EARG);
        assert_non_null(strstr(err.text, "is common"));
    }
    struct local_options options = options_of(1);
    struct local_job *job;
    tri_error err;
    options.mode = LOCAL_SERVER;
    assert_int_equal(local_create(&options, &job, &err), TRI_EARG);
    assert_non_null(strstr(err.text, "mode replicas"));
}

/* ---- together ---- */

enum { LEARNERS = 3, COUNT = 200 / RIG_LESS };

struct body {
    struct local_job *job;
    uint32_t seat;
    struct local_learner *learner;
    bool good;
};

static void *learn(void *arg)
{
    struct body *body = arg;
    const struct local_learner_options wish = {.seat = body->seat};
    body->good = local_join(body->job, &wish, &body->learner, NULL) == TRI_OK;
    for (uint32_t i = 0; i < COUNT && body->good; i++)
        body->good = iterate(body->learner);
    body->good = body->good && local_share_drain(body->learner, false, NULL) == TRI_OK;
    return NULL;
}

static void train_together(uint32_t slots)
{
    struct local_options options = options_of(LEARNERS);
    options.slots = slots;
    struct local_job *job = rig_create(&options);
    struct body bodies[LEARNERS];
    pthread_t threads[LEARNERS];
    struct local_snapshot snapshot;
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    for (uint32_t i = 0; i < LEARNERS; i++) {
        bodies[i] = (struct body){.job = job, .seat = i};
        assert_int_equal(pthread_create(&threads[i], NULL, learn, &bodies[i]), 0);
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
        assert_true(snapshot.exact);
        check_snapshot(job, &snapshot);
    }
    for (uint32_t i = 0; i < LEARNERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(bodies[i].good);
        check_settled(bodies[i].learner, LEARNERS * COUNT);
    }
    for (uint32_t i = 0; i < LEARNERS; i++)
        local_leave(bodies[i].learner);
    check_all(local_shared(job, COMMON), LEARNERS * COUNT);
    check_all(local_shared(job, OWN), LEARNERS * COUNT);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

TEST(learners_that_come_go_on_and_are_copied_agree)
{
    (void)state;
    train_together(0);
    train_together(2);
    train_together(1);
}

/* ---- deaths ---- */

enum { DEATHS = 40 };

static int learn_apart(struct local_job *job, void *arg)
{
    const struct local_learner_options wish = {.seat = *(const uint32_t *)arg};
    struct local_learner *learner;
    if (local_join(job, &wish, &learner, NULL) != TRI_OK)
        return 2;
    for (uint32_t i = 0; i < DEATHS; i++)
        if (!iterate(learner))
            return 1;
    local_leave(learner);
    return 0;
}

/* One dies at a step, the other goes on; the dead one's seat is then taken by a third. */
static void kill_one(enum local_step at, uint32_t nth)
{
    const struct local_options options = options_of(2);
    struct local_job *job = rig_create(&options);
    uint32_t seats[2] = {0, 1};
    pid_t victim = rig_fork(&options, at, nth, learn_apart, &seats[0]);
    pid_t other = rig_fork(&options, LOCAL_AT_NOTHING, 0, learn_apart, &seats[1]);
    const int end = rig_wait(victim);
    if (end != -SIGKILL)
        fail_msg("the learner did not die at '%s': %d", local_step_name(at), end);
    pid_t third = rig_fork(&options, LOCAL_AT_NOTHING, 0, learn_apart, &seats[0]);
    assert_int_equal(rig_wait(other), 0);
    assert_int_equal(rig_wait(third), 0);
    struct local_stats stats;
    local_stats(job, &stats);
    rig_check_counts(job, &stats.counts);
    assert_true(stats.counts.lost <= 1);
    assert_true(stats.counts.applied >= (uint64_t)2 * DEATHS);
    check_all(local_shared(job, COMMON), (float)stats.counts.applied);
    check_all(local_shared(job, OWN), (float)stats.counts.applied);
    rig_remove(job);
}

TEST(a_learner_may_die_while_it_makes_a_set)
{
    (void)state;
    kill_one(LOCAL_AT_SET, 0); /* with the lock; somebody else may make most of them */
    kill_one(LOCAL_AT_HALF_STEP, 9);
    kill_one(LOCAL_AT_STEPPED, 9);
    kill_one(LOCAL_AT_COMMITTED, 9);
    kill_one(LOCAL_AT_PUBLISHED, 9);
    kill_one(LOCAL_AT_HELD, 0);
}

static int settle_and_wait(struct local_job *job, void *arg)
{
    struct local_learner *learner;
    const int *pipe_to = arg;
    if (local_join(job, &(struct local_learner_options){.seat = 0}, &learner, NULL) != TRI_OK)
        return 2;
    for (uint32_t i = 0; i < 6; i++)
        if (!iterate(learner))
            return 1;
    if (local_settle(learner, NULL) != TRI_OK || write(pipe_to[1], "!", 1) != 1)
        return 1;
    for (;;)
        (void)pause();
}

struct scene {
    struct local_job *job;
    struct local_learner *learner;
    pid_t source;
};

/* The source dies when it is held, and the sets go on. */
static void source_dies(void *ctx, enum local_step at)
{
    struct scene *scene = ctx;
    (void)at;
    if (scene->source == 0)
        return;
    (void)kill(scene->source, SIGKILL);
    (void)rig_wait(scene->source);
    scene->source = 0;
    (void)local_bury(scene->job);
    for (uint32_t i = 0; i < 30; i++)
        assert_true(iterate(scene->learner));
    assert_int_equal(local_settle(scene->learner, NULL), TRI_OK);
}

TEST(a_set_of_one_that_dies_while_it_is_copied_does_not_count)
{
    (void)state;
    const struct local_options options = options_of(2);
    struct local_job *job = rig_create(&options);
    struct scene scene = {.job = job};
    struct local_faults faults = {.at = LOCAL_AT_HELD, .hit = source_dies, .ctx = &scene};
    struct local_snapshot snapshot;
    int pipe_to[2];
    char told;
    assert_int_equal(pipe(pipe_to), 0);
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    scene.source = rig_fork(&options, LOCAL_AT_NOTHING, 0, settle_and_wait, pipe_to);
    assert_int_equal(read(pipe_to[0], &told, 1), 1);
    scene.learner = join(job, 1);
    assert_true(iterate(scene.learner) && iterate(scene.learner)); /* it is not quiet */
    local_set_faults(job, &faults);
    assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
    local_set_faults(job, NULL);
    assert_int_equal(scene.source, 0);
    assert_true(snapshot.exact);
    assert_int_equal(snapshot.version, 6 + 31); /* that of the other */
    check_snapshot(job, &snapshot);
    local_leave(scene.learner);
    local_snapshot_close(job, &snapshot);
    (void)close(pipe_to[0]);
    (void)close(pipe_to[1]);
    rig_remove(job);
}

/* Of one that has died with steps to be made, and gradients that are in no set. */
TEST(a_snapshot_is_put_back_in_common_layers)
{
    (void)state;
    const struct local_options options = options_of(1);
    struct local_job *job = rig_create(&options);
    struct local_learner *learner = join(job, 0);
    struct local_snapshot snapshot;
    uint32_t seat = 0;
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    for (uint32_t i = 0; i < 9; i++)
        assert_true(iterate(learner));
    assert_int_equal(local_snapshot_own(learner, &snapshot, NULL), TRI_OK);
    const float then = (float)snapshot.version;
    local_leave(learner);
    assert_int_equal(
        rig_wait(rig_fork(&options, LOCAL_AT_PUBLISHED, DEATHS - 6, learn_apart, &seat)), -SIGKILL);
    (void)local_bury(job);
    assert_int_equal(local_restore(job, &snapshot, true, NULL), TRI_OK);
    check_all(local_shared(job, COMMON), then);
    learner = join(job, 0);
    for (uint32_t i = 0; i < 30; i++)
        assert_true(iterate(learner));
    local_leave(learner);
    check_all(local_shared(job, COMMON), then + 30);
    check_all(local_shared(job, OWN), then + 30);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_made_of_what_learners_have_taken),
        cmocka_unit_test(a_copy_has_the_steps_that_are_still_to_be_made),
        cmocka_unit_test(a_set_is_what_its_factors_make),
        cmocka_unit_test(a_set_that_somebody_reads_stays),
        cmocka_unit_test(who_waits_for_the_lock_in_vain_says_for_whom_and_does_not_hold_it),
        cmocka_unit_test(who_settles_takes_what_the_set_has),
        cmocka_unit_test(the_set_that_goes_with_a_copy_stays),
        cmocka_unit_test(who_comes_later_begins_with_the_set),
        cmocka_unit_test(layers_that_cannot_be_common_are_refused),
        cmocka_unit_test(learners_that_come_go_on_and_are_copied_agree),
        cmocka_unit_test(a_learner_may_die_while_it_makes_a_set),
        cmocka_unit_test(a_set_of_one_that_dies_while_it_is_copied_does_not_count),
        cmocka_unit_test(a_snapshot_is_put_back_in_common_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
