/* Steps that a learner with a copy of its own leaves for later: nobody sees a copy without them. */
#include "local/rig.h"

#include <math.h>
#include <sched.h>

#include "base/rng.h"
#include "local/inside.h"
#include "local/share.h"

enum {
    ROWS = 70,
    COLS = 19,
    FLOATS_OF = ROWS * COLS + ROWS,
    SAMPLES = 5,
    WINDOW = 41,
    MANY = 16,
    WIDE = 40
};

static const struct local_layer_info layers[4] = {
    {.name = "fc", .rows = ROWS, .cols = COLS, .bias = true, .max_factors = SAMPLES},
    {.name = "conv",
     .rows = ROWS,
     .cols = COLS,
     .bias = true,
     .max_factors = SAMPLES,
     .window = WINDOW},
    {.name = "rows", .rows = ROWS, .cols = COLS, .max_rows = 3},
    {.name = "wide",
     .rows = ROWS,
     .cols = COLS,
     .bias = true,
     .max_factors = WIDE,
     .dense_too = true},
};

static struct local_job *create(uint32_t learners, uint32_t slots, uint32_t count)
{
    struct local_options options = rig_options(LOCAL_REPLICAS, learners);
    options.layers = layers;
    options.layer_count = count;
    options.slots = slots;
    return rig_create(&options);
}

/* ---- what it comes to ---- */

/* Factors of a layer; what they make of the weights is added to `sum`, in doubles. */
static void put(struct local_gradient *gradient, uint32_t layer, uint32_t count, struct rng *rng,
                double *sum)
{
    struct local_factors to;
    assert_true(local_factors(gradient, layer, count, &to));
    for (uint32_t i = 0; i < count * ROWS; i++)
        to.u[i] = rng_below(rng, 3) == 0 ? 0 : (float)rng_normal(rng);
    for (uint32_t i = 0; i < count * COLS; i++)
        to.v[i] = (float)rng_normal(rng);
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t m = 0; m < ROWS; m++) {
            const double step = -0.125 * (double)to.u[k * ROWS + m];
            for (uint32_t n = 0; n < COLS; n++)
                sum[m * COLS + n] += step * (double)to.v[k * COLS + n];
            sum[ROWS * COLS + m] += step;
        }
}

/* A gradient of the first layer. */
static void push(struct local_learner *learner, uint32_t count, struct rng *rng, double *sum)
{
    struct local_gradient *gradient;
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    put(gradient, 0, count, rng, sum);
    assert_int_equal(local_publish(learner, 0.25F, 2, NULL), TRI_OK);
}

/* One of the first layer and of the wide one. */
static void push_both(struct local_learner *learner, uint32_t wide, struct rng *rng,
                      double (*sums)[FLOATS_OF])
{
    struct local_gradient *gradient;
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    put(gradient, 0, 2, rng, sums[0]);
    put(gradient, 3, wide, rng, sums[1]);
    assert_int_equal(local_publish(learner, 0.25F, 2, NULL), TRI_OK);
}

static void check(const float *weights, const struct local_pending *pending, const double *sum)
{
    for (uint32_t i = 0; i < FLOATS_OF; i++) {
        const uint32_t row = i < ROWS * COLS ? i / COLS : i - ROWS * COLS;
        double got = (double)weights[i];
        for (size_t k = 0; k < pending->count; k++)
            got += (double)pending->u[k * ROWS + row] *
                   (i < ROWS * COLS ? (double)pending->v[k * COLS + i % COLS] : 1);
        if (fabs(sum[i] - got) > 1e-4 * (1 + fabs(sum[i])))
            fail_msg("value %u with %zu to come: %g, not %g", i, pending->count, got, sum[i]);
    }
}

TEST(weights_and_steps_to_come_are_all_that_was_published)
{
    (void)state;
    static double sum[FLOATS_OF];
    struct local_job *job = create(2, 0, 1);
    struct local_learner *one = rig_join(job, (struct local_learner_options){.seat = 0});
    struct local_learner *two = rig_join(job, (struct local_learner_options){.seat = 1});
    struct local_pending pending;
    size_t most = 0, before = 0;
    bool grew = false, began_again = false;
    struct rng rng;
    rng_init(&rng, 3);
    for (uint32_t i = 0; i < 60; i++) {
        assert_int_equal(local_refresh(two, NULL), TRI_OK);
        local_pend(two, 0, &pending);
        check(local_weights(two, 0), &pending, sum);
        grew = grew || (before > 0 && pending.count > before);
        began_again = began_again || pending.count < before;
        before = pending.count;
        most = pending.count > most ? pending.count : most;
        push(i % 3 == 0 ? two : one, 1 + i % SAMPLES, &rng, sum);
        if (i % 7 == 0) /* it is the same in the same iteration, whoever published since */
            assert_int_equal(local_refresh(two, NULL), TRI_OK);
    }
    assert_true(grew && began_again && most <= MANY);
    assert_int_equal(local_flush(two, NULL), TRI_OK);
    check(local_weights(two, 0), &(struct local_pending){0}, sum);
    local_leave(one);
    local_leave(two);
    check(local_shared(job, 0), &(struct local_pending){0}, sum);
    rig_remove(job);
}

/* Who asks for the weights themselves gets them with all steps, also when nothing new came. */
TEST(asking_for_rows_makes_the_steps)
{
    (void)state;
    static double sum[FLOATS_OF];
    struct local_job *job = create(1, 0, 1);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    struct local_pending pending;
    struct rng rng;
    rng_init(&rng, 5);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 2; i++) {
            assert_int_equal(local_refresh(learner, NULL), TRI_OK);
            local_pend(learner, 0, &pending);
            push(learner, 2, &rng, sum);
        }
        assert_int_equal(local_refresh(learner, NULL), TRI_OK);
        if (turn == 0) { /* asked for rows in the middle of it */
            local_pend(learner, 0, &pending);
            assert_int_equal(pending.count, 4);
        }
        local_catch_up(learner, 0, turn == 1 ? 20 : ROWS);
        local_pend(learner, 0, &pending);
        assert_int_equal(pending.count, 0);
        check(local_weights(learner, 0), &pending, sum);
    }
    local_leave(learner);
    rig_remove(job);
}

struct wish {
    struct local_job *job;
    struct local_snapshot snapshot;
    tri_status status;
};

static void *copy(void *arg)
{
    struct wish *wish = arg;
    wish->status = local_snapshot_take(wish->job, &wish->snapshot, NULL);
    return NULL;
}

/* Somebody who wants a copy in the middle of an iteration gets it after that: until then the
 * program reckons with what it was told of. */
TEST(steps_that_were_told_of_are_not_made_before_the_iteration_ends)
{
    (void)state;
    static double sums[2][FLOATS_OF], ignored[2][FLOATS_OF];
    struct local_job *job = create(1, 0, 4);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    struct wish wish = {.job = job};
    struct local_pending first, wide;
    struct local_about about;
    struct rng rng;
    pthread_t thread;
    uint32_t word;
    rng_init(&rng, 6);
    local_about(job, &about);
    assert_int_equal(local_snapshot_open(job, &wish.snapshot, NULL), TRI_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(local_refresh(learner, NULL), TRI_OK);
        local_pend(learner, 0, &first);
        local_pend(learner, 3, &wide);
        push_both(learner, 3, &rng, sums);
    }
    assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    local_pend(learner, 0, &first);
    assert_int_equal(pthread_create(&thread, NULL, copy, &wish), 0);
    while (!is_held(job, 0, &word))
        (void)sched_yield();
    for (uint32_t l = 1; l < 4; l++) /* now all that was looked at counts */
        local_pend(learner, l, &wide);
    assert_int_equal(first.count, 4);
    assert_int_equal(wide.count, 6);
    push_both(learner, 3, &rng, ignored);
    check(local_weights(learner, 0), &first, sums[0]);
    check(local_weights(learner, 3), &wide, sums[1]);
    assert_false(is_quiet(&job->seats[0]));
    assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wish.status, TRI_OK);
    assert_true(wish.snapshot.exact);
    check(wish.snapshot.weights, &(struct local_pending){0}, sums[0]);
    check(wish.snapshot.weights + about.layers[3].offset, &(struct local_pending){0}, sums[1]);
    local_snapshot_close(job, &wish.snapshot);
    local_leave(learner);
    rig_remove(job);
}

/* Who has asked for all of all layers may pause: others can copy from it meanwhile. So may who has
 * settled. */
TEST(who_has_made_all_steps_can_be_copied_in_a_pause)
{
    (void)state;
    static double sums[2][FLOATS_OF];
    struct local_job *job = create(2, 0, 4);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){.seat = 0});
    struct local_pending pending;
    struct rng rng;
    rng_init(&rng, 7);
    push_both(learner, 1, &rng, sums);
    assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    local_pend(learner, 0, &pending);
    local_catch_up(learner, 0, ROWS);
    assert_false(is_quiet(&job->seats[0])); /* the other layer is behind */
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < 3; i++) {
            assert_int_equal(local_refresh(learner, NULL), TRI_OK);
            local_pend(learner, 0, &pending);
            local_pend(learner, 3, &pending);
            push_both(learner, 1, &rng, sums);
        }
        assert_false(is_quiet(&job->seats[0]));
        assert_int_equal(local_refresh(learner, NULL), TRI_OK);
        if (turn == 1)
            local_pend(learner, 3, &pending); /* which then is looked at, and taken */
        local_catch_up(learner, 0, ROWS);
        assert_false(is_quiet(&job->seats[0]));
        if (turn < 2)
            local_catch_up(learner, 3, ROWS);
        else
            assert_int_equal(local_settle(learner, NULL), TRI_OK);
        assert_true(is_quiet(&job->seats[0]));
        struct local_learner *other = rig_join(job, (struct local_learner_options){.seat = 1});
        check(local_weights(other, 0), &(struct local_pending){0}, sums[0]);
        check(local_weights(other, 3), &(struct local_pending){0}, sums[1]);
        local_leave(other);
    }
    local_leave(learner);
    rig_remove(job);
}

TEST(more_samples_than_wait_are_stepped_or_told_of)
{
    (void)state;
    static double sums[2][FLOATS_OF];
    struct local_job *job = create(1, 0, 4);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    struct local_pending pending;
    struct rng rng;
    rng_init(&rng, 8);
    for (uint32_t i = 0; i < 6; i++) {
        push_both(learner, i % 2 == 0 ? WIDE : 1, &rng, sums);
        assert_int_equal(local_refresh(learner, NULL), TRI_OK);
        local_pend(learner, 3, &pending);
        assert_true(pending.count > 0 && pending.count <= WIDE);
        check(local_weights(learner, 3), &pending, sums[1]);
    }
    local_leave(learner);
    check(local_shared(job, 3), &(struct local_pending){0}, sums[1]);
    rig_remove(job);
}

/* A dense gradient of a layer of factors is stepped at once; an empty one counts, too. */
TEST(other_gradients_come_between)
{
    (void)state;
    static double sums[2][FLOATS_OF];
    struct local_job *job = create(1, 2, 4);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    struct local_gradient *gradient;
    struct local_pending pending;
    struct rng rng;
    rng_init(&rng, 9);
    for (int i = 0; i < 5; i++) { /* before any layer was stepped */
        assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
        assert_int_equal(local_publish(learner, 1, 1, NULL), TRI_OK);
    }
    for (int i = 0; i < 9; i++) {
        assert_int_equal(local_refresh(learner, NULL), TRI_OK);
        local_pend(learner, 3, &pending);
        check(local_weights(learner, 3), &pending, sums[1]);
        if (i % 3 == 0) {
            push_both(learner, 2, &rng, sums);
            continue;
        }
        assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
        float *dense = i % 3 == 1 ? local_dense(gradient, 3) : NULL;
        for (uint32_t k = 0; k < FLOATS_OF && dense != NULL; k++) {
            dense[k] = (float)k;
            sums[1][k] -= (double)k;
        }
        assert_int_equal(local_publish(learner, 1, 1, NULL), TRI_OK);
    }
    local_leave(learner);
    check(local_shared(job, 3), &(struct local_pending){0}, sums[1]);
    rig_remove(job);
}

/* Other forms are stepped as ever. */
TEST(what_is_no_factors_leaves_nothing_to_come)
{
    (void)state;
    struct local_job *job = create(1, 0, 3);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    struct local_gradient *gradient;
    struct local_factors factors;
    struct local_rows rows;
    struct local_pending pending;
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    assert_true(local_factors(gradient, 1, 1, &factors));
    for (uint32_t i = 0; i < ROWS; i++) {
        factors.u[i] = -1;
        factors.at[i] = i % (WINDOW - COLS + 1);
    }
    for (uint32_t i = 0; i < WINDOW; i++)
        factors.v[i] = (float)i;
    assert_true(local_rows(gradient, 2, 1, &rows));
    rows.numbers[0] = 7;
    for (uint32_t i = 0; i < rows.stride; i++)
        rows.values[i] = -3;
    assert_int_equal(local_publish(learner, 1, 1, NULL), TRI_OK);
    assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    for (uint32_t l = 0; l < 3; l++) {
        local_pend(learner, l, &pending);
        assert_int_equal(pending.count, 0);
    }
    assert_true(local_weights(learner, 0)[0] == 0);
    assert_true(local_weights(learner, 1)[(size_t)5 * COLS + 2] == 7);
    assert_true(local_weights(learner, 2)[(size_t)7 * COLS + 4] == 3);
    local_leave(learner);
    rig_remove(job);
}

TEST(in_other_modes_there_is_nothing_to_come)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_DIRECT, 1);
    struct local_job *job = rig_create(&options);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    struct local_pending pending = {.count = 9};
    local_pend(learner, 0, &pending);
    assert_int_equal(pending.count, 0);
    local_leave(learner);
    rig_remove(job);
}

/* ---- together ---- */

enum { LEARNERS = 3, COUNT = 200 / RIG_LESS };

struct body {
    struct local_job *job;
    uint32_t seat;
    struct local_learner *learner;
    bool good;
};

/* Every weight counts the gradients that are in it: with those to come it is the version. */
static bool counts(struct local_learner *learner)
{
    struct local_pending pending;
    local_pend(learner, 0, &pending);
    const float *weights = local_weights(learner, 0);
    for (uint32_t i = 0; i < FLOATS_OF; i++) {
        const uint32_t row = i < ROWS * COLS ? i / COLS : i - ROWS * COLS;
        float value = weights[i];
        for (size_t k = 0; k < pending.count; k++)
            value += pending.u[k * ROWS + row];
        if (value != (float)local_version(learner))
            return false;
    }
    return true;
}

static bool count_one(struct local_learner *learner)
{
    struct local_gradient *gradient;
    struct local_factors to;
    if (local_refresh(learner, NULL) != TRI_OK || !counts(learner) ||
        local_take(learner, &gradient, NULL) != TRI_OK || !local_factors(gradient, 0, 1, &to))
        return false;
    for (uint32_t i = 0; i < ROWS; i++)
        to.u[i] = 1;
    for (uint32_t i = 0; i < COLS; i++)
        to.v[i] = 1;
    return local_publish(learner, -1, 1, NULL) == TRI_OK;
}

static void *learn(void *arg)
{
    struct body *body = arg;
    const struct local_learner_options wish = {.seat = body->seat};
    body->good = local_join(body->job, &wish, &body->learner, NULL) == TRI_OK;
    for (uint32_t i = 0; i < COUNT && body->good; i++)
        body->good = count_one(body->learner);
    body->good = body->good && local_share_drain(body->learner, false, NULL) == TRI_OK;
    return NULL;
}

static void train_together(uint32_t slots)
{
    struct local_job *job = create(LEARNERS, slots, 1);
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
        for (uint32_t k = 0; k < FLOATS_OF; k++)
            assert_true(snapshot.weights[k] == (float)snapshot.version);
    }
    for (uint32_t i = 0; i < LEARNERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(bodies[i].good);
        assert_true(local_weights(bodies[i].learner, 0)[0] == LEARNERS * COUNT);
        assert_true(local_weights(bodies[i].learner, 0)[FLOATS_OF - 1] == LEARNERS * COUNT);
    }
    for (uint32_t i = 0; i < LEARNERS; i++)
        local_leave(bodies[i].learner);
    for (uint32_t k = 0; k < FLOATS_OF; k++)
        assert_true(local_shared(job, 0)[k] == LEARNERS * COUNT);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

/* Also who comes while the others are in the middle of it. */
TEST(who_copies_gets_the_steps_to_come)
{
    (void)state;
    train_together(0);
    train_together(2);
    train_together(1);
}

TEST(a_snapshot_of_its_own_has_them)
{
    (void)state;
    struct local_job *job = create(1, 0, 1);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    struct local_snapshot snapshot;
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    for (uint32_t i = 0; i < 5; i++)
        assert_true(count_one(learner));
    assert_int_equal(local_snapshot_own(learner, &snapshot, NULL), TRI_OK);
    assert_int_equal(snapshot.version, 4); /* the last is published, and not looked at */
    for (uint32_t k = 0; k < FLOATS_OF; k++)
        assert_true(snapshot.weights[k] == 4);
    local_snapshot_close(job, &snapshot);
    local_leave(learner);
    assert_true(local_shared(job, 0)[0] == 5);
    rig_remove(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_and_steps_to_come_are_all_that_was_published),
        cmocka_unit_test(asking_for_rows_makes_the_steps),
        cmocka_unit_test(steps_that_were_told_of_are_not_made_before_the_iteration_ends),
        cmocka_unit_test(who_has_made_all_steps_can_be_copied_in_a_pause),
        cmocka_unit_test(more_samples_than_wait_are_stepped_or_told_of),
        cmocka_unit_test(other_gradients_come_between),
        cmocka_unit_test(what_is_no_factors_leaves_nothing_to_come),
        cmocka_unit_test(in_other_modes_there_is_nothing_to_come),
        cmocka_unit_test(who_copies_gets_the_steps_to_come),
        cmocka_unit_test(a_snapshot_of_its_own_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
