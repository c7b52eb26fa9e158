/* Every learner has a copy of its own: each gradient is in each copy once, whole, in every form. */
#include "local/rig.h"

#include <math.h>

#include "base/rng.h"
#include "local/share.h"

static void check_copy(const struct local_job *job, const struct local_learner *learner, float want)
{
    struct local_about about;
    local_about(job, &about);
    for (uint32_t l = 0; l < about.layer_count; l++)
        for (uint64_t i = 0; i < about.layers[l].floats; i++)
            if (local_weights(learner, l)[i] != want)
                fail_msg("learner %u, layer %u, value %llu: %g, not %g", local_seat(learner), l,
                         (unsigned long long)i, (double)local_weights(learner, l)[i], (double)want);
}

/* ---- together ---- */

enum { LEARNERS = 3, COUNT = 200 / RIG_LESS };

struct body {
    struct local_job *job;
    uint32_t seat;
    struct local_learner *learner;
    bool good;
};

/* As in test_queue.c every weight counts the gradients that are in it. */
static void *learn(void *arg)
{
    struct body *body = arg;
    const struct local_learner_options wish = {.seat = body->seat};
    body->good = local_join(body->job, &wish, &body->learner, NULL) == TRI_OK;
    for (uint32_t i = 0; i < COUNT && body->good; i++)
        body->good = rig_push(body->job, body->learner, 1, -1);
    body->good = body->good && local_share_drain(body->learner, false, NULL) == TRI_OK;
    return NULL;
}

static void train_together(uint32_t slots, bool snapshots)
{
    struct local_options options = rig_options(LOCAL_REPLICAS, LEARNERS);
    options.slots = slots;
    struct local_job *job = rig_create(&options);
    struct body bodies[LEARNERS];
    pthread_t threads[LEARNERS];
    struct local_snapshot snapshot;
    struct local_stats stats;
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    for (uint32_t i = 0; i < LEARNERS; i++) {
        bodies[i] = (struct body){.job = job, .seat = i};
        assert_int_equal(pthread_create(&threads[i], NULL, learn, &bodies[i]), 0);
    }
    for (int i = 0; i < 20 && snapshots; i++) {
        assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
        assert_true(snapshot.exact);
        for (uint64_t k = 0; k < (uint64_t)rig_layers[0].rows * rig_layers[0].cols; k++)
            assert_true(snapshot.weights[k] == (float)snapshot.version);
        assert_true(snapshot.weights[snapshot.floats - 16] == (float)snapshot.version);
    }
    for (uint32_t i = 0; i < LEARNERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(bodies[i].good);
        check_copy(job, bodies[i].learner, LEARNERS * COUNT);
    }
    for (uint32_t i = 0; i < LEARNERS; i++)
        local_leave(bodies[i].learner);
    assert_true(local_done(job));
    assert_true(rig_value(job) == LEARNERS * COUNT);
    local_stats(job, &stats);
    rig_check_counts(job, &stats.counts);
    assert_int_equal(stats.counts.applied, LEARNERS * COUNT);
    assert_int_equal(stats.version, LEARNERS * COUNT);
    assert_int_equal(stats.counts.lost + stats.counts.partial + stats.counts.torn, 0);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

TEST(every_gradient_is_in_every_copy_once)
{
    (void)state;
    train_together(0, false);
}

/* Who waits for others must take what they publish, or two wait for each other. */
TEST(one_slot_is_enough)
{
    (void)state;
    train_together(1, false);
}

TEST(a_snapshot_has_no_gradient_in_part)
{
    (void)state;
    train_together(2, true);
}

TEST(who_does_not_take_is_waited_for_and_named)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_REPLICAS, 2);
    options.slots = 3;
    options.wait_ms = 30;
    struct local_job *job = rig_create(&options);
    struct local_learner *fast = rig_join(job, (struct local_learner_options){.seat = 0});
    struct local_learner *slow = rig_join(job, (struct local_learner_options){.seat = 1});
    tri_error err;
    for (int i = 0; i < 3; i++)
        assert_true(rig_push(job, fast, 1, -1));
    assert_int_equal(local_refresh(fast, &err), TRI_ETIMEOUT);
    assert_non_null(strstr(err.text, "learner 0"));
    assert_non_null(strstr(err.text, "learner 1 to take its gradients"));
    assert_int_equal(local_flush(slow, NULL), TRI_OK); /* which takes them */
    check_copy(job, slow, 3);
    assert_true(rig_push(job, fast, 1, -1));
    local_leave(slow); /* who has left is not waited for */
    for (int i = 0; i < 9; i++)
        assert_true(rig_push(job, fast, 1, -1));
    local_leave(fast);
    assert_true(rig_value(job) == 13);
    rig_remove(job);
}

TEST(who_comes_later_has_what_the_others_have)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_REPLICAS, 2);
    options.slots = 2;
    struct local_job *job = rig_create(&options);
    for (uint64_t i = 0; i < (uint64_t)rig_layers[0].rows * rig_layers[0].cols; i++)
        local_shared(job, 0)[i] = 0.5F;
    struct local_learner *first = rig_join(job, (struct local_learner_options){.seat = 0});
    assert_true(local_weights(first, 0)[7] == 0.5F);
    for (int i = 0; i < 7; i++)
        assert_true(rig_push(job, first, 1, -1));
    local_leave(first); /* with more gradients than there are slots for */
    struct local_learner *second = rig_join(job, (struct local_learner_options){.seat = 1});
    assert_int_equal(local_refresh(second, NULL), TRI_OK);
    local_catch_up(second, 0, rig_layers[0].rows);
    assert_true(local_weights(second, 0)[7] == 7.5F);
    assert_true(rig_push(job, second, 1, -1));
    local_leave(second);
    assert_true(local_shared(job, 0)[7] == 8.5F);
    struct local_stats stats;
    local_stats(job, &stats);
    assert_int_equal(stats.counts.discarded, 0);
    rig_remove(job);
}

/* ---- forms ---- */

enum { ROWS = 70, COLS = 19, SAMPLES = 30, WINDOW = 41 };

static const struct local_layer_info forms[3] = {
    {.name = "fc", .rows = ROWS, .cols = COLS, .bias = true, .max_factors = SAMPLES},
    {.name = "conv",
     .rows = ROWS,
     .cols = COLS,
     .bias = true,
     .max_factors = SAMPLES,
     .window = WINDOW},
    {.name = "plain", .rows = ROWS, .cols = COLS, .max_factors = SAMPLES, .dense_too = true},
};

static float draw(struct rng *rng)
{
    const float value = (float)rng_unit(rng) - 0.5F;
    return value < -0.2F ? 0 : value; /* as behind a relu */
}

/* Fills the factors of a layer, and adds what they make to `sum`, in doubles. */
static void put_factors(struct local_gradient *gradient, uint32_t layer, uint32_t count,
                        struct rng *rng, double *sum)
{
    struct local_factors to;
    assert_true(local_factors(gradient, layer, count, &to));
    assert_int_equal(to.width, layer == 1 ? WINDOW : COLS);
    for (uint32_t i = 0; i < count * to.width; i++)
        to.v[i] = draw(rng);
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t m = 0; m < ROWS; m++) {
            const float u = to.u[k * ROWS + m] = draw(rng);
            uint32_t at = 0;
            if (to.at != NULL)
                at = to.at[k * ROWS + m] = (uint32_t)rng_below(rng, WINDOW - COLS + 1);
            for (uint32_t n = 0; n < COLS; n++)
                sum[m * COLS + n] += (double)u * (double)to.v[k * to.width + at + n];
            sum[ROWS * COLS + m] += (double)u;
        }
}

static void push_factors(struct local_learner *learner, uint32_t count, struct rng *rng,
                         double (*sums)[ROWS * COLS + ROWS])
{
    struct local_gradient *gradient;
    assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    for (uint32_t l = 0; l < 2; l++)
        put_factors(gradient, l, count, rng, sums[l]);
    float *dense = local_dense(gradient, 2);
    for (uint32_t i = 0; i < ROWS * COLS; i++) {
        dense[i] = draw(rng);
        sums[2][i] += (double)dense[i];
    }
    assert_int_equal(local_publish(learner, 0.25F, 2, NULL), TRI_OK);
}

static void check_sums(const struct local_learner *learner, double (*sums)[ROWS * COLS + ROWS])
{
    for (uint32_t l = 0; l < 3; l++)
        for (uint32_t i = 0; i < ROWS * COLS + (l < 2 ? ROWS : 0); i++) {
            const double want = -0.125 * sums[l][i], got = (double)local_weights(learner, l)[i];
            if (fabs(want - got) > 1e-5 * (1 + fabs(want)))
                fail_msg("layer %u, value %u: %g, not %g", l, i, got, want);
        }
}

/* The rows of a layer come up to date as they are asked for, and not before; layers may take turns.
 */
static void ask_by_rows(struct local_learner *learner, bool few)
{
    static const uint32_t asks[] = {1, 7, 7, 48, 69, ROWS};
    assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    const float before = local_weights(learner, 0)[(size_t)(ROWS - 1) * COLS];
    local_catch_up(learner, 0, 1);
    if (few) /* many are stepped in all rows at once */
        assert_true(local_weights(learner, 0)[(size_t)(ROWS - 1) * COLS] == before);
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++)
        for (uint32_t l = 0; l < 3; l++)
            local_catch_up(learner, l, asks[i]);
}

static struct local_job *create_forms(uint32_t learners)
{
    struct local_options options = rig_options(LOCAL_REPLICAS, learners);
    options.layers = forms;
    options.layer_count = 3;
    return rig_create(&options);
}

static void exchange_factors(uint32_t count, uint32_t times, bool by_rows)
{
    static double sums[3][ROWS * COLS + ROWS];
    struct local_job *job = create_forms(2);
    struct local_learner *one = rig_join(job, (struct local_learner_options){.seat = 0});
    struct local_learner *two = rig_join(job, (struct local_learner_options){.seat = 1});
    struct rng rng;
    rng_init(&rng, count);
    memset(sums, 0, sizeof sums);
    for (uint32_t i = 0; i < times; i++)
        push_factors(one, count, &rng, sums);
    if (by_rows)
        ask_by_rows(two, count * times < 64);
    else
        assert_int_equal(local_flush(two, NULL), TRI_OK);
    check_sums(two, sums);
    push_factors(two, count, &rng, sums);
    assert_int_equal(local_flush(one, NULL), TRI_OK);
    assert_int_equal(local_flush(two, NULL), TRI_OK);
    check_sums(one, sums);
    check_sums(two, sums);
    local_leave(one);
    local_leave(two);
    rig_remove(job);
}

TEST(factors_and_windows_are_multiplied_out_in_every_copy)
{
    (void)state;
    exchange_factors(1, 1, true);
    exchange_factors(1, 3, true);
    exchange_factors(3, 2, true);
    exchange_factors(2, 1, false);
}

TEST(more_factors_than_are_stepped_together_are_stepped_in_turns)
{
    (void)state;
    exchange_factors(SAMPLES, 5, true);
    exchange_factors(SAMPLES, 5, false);
}

/* ---- what cannot be ---- */

TEST(a_window_that_leaves_its_text_is_refused)
{
    (void)state;
    struct local_job *job = create_forms(1);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    struct local_gradient *gradient;
    struct local_factors to;
    tri_error err;
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    assert_null(local_dense(gradient, 0));
    assert_false(local_factors(gradient, 0, SAMPLES + 1, &to));
    assert_false(local_factors(gradient, 0, 0, &to));
    assert_true(local_factors(gradient, 1, 1, &to));
    for (uint32_t i = 0; i < ROWS; i++)
        to.at[i] = 0;
    to.at[ROWS - 1] = WINDOW - COLS + 1;
    assert_int_equal(local_publish(learner, 1, 1, &err), TRI_EARG);
    assert_non_null(strstr(err.text, "'conv'"));
    local_leave(learner);
    rig_remove(job);
}

TEST(what_does_not_go_with_copies_is_refused)
{
    (void)state;
    struct local_job *job = NULL;
    struct local_learner *learner;
    struct optim optim;
    tri_error err;
    struct local_options options = rig_options(LOCAL_REPLICAS, 1);
    assert_int_equal(optim_read("momentum:0.9", &optim, NULL), TRI_OK);
    options.optim = &optim;
    assert_int_equal(local_create(&options, &job, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "momentum"));
    options.optim = NULL;
    options.locked = true;
    assert_int_equal(local_create(&options, &job, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "locked"));
    options.locked = false;
    job = rig_create(&options);
    const struct local_learner_options wish = {.push_thread = true};
    assert_int_equal(local_join(job, &wish, &learner, &err), TRI_EARG);
    assert_int_equal(local_serve(job, &(struct local_serve_options){.threads = 1}, &err), TRI_EARG);
    assert_non_null(strstr(err.text, "replicas"));
    rig_remove(job);
}

/* ---- putting back ---- */

TEST(after_a_restore_all_go_on_from_it)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_REPLICAS, 2);
    struct local_job *job = rig_create(&options);
    struct local_snapshot snapshot;
    struct local_stats stats;
    struct local_learner *learner = rig_join(job, (struct local_learner_options){.seat = 1});
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    for (int i = 0; i < 5; i++)
        assert_true(rig_push(job, learner, 1, -1));
    assert_int_equal(local_flush(learner, NULL), TRI_OK);
    assert_int_equal(local_snapshot_own(learner, &snapshot, NULL), TRI_OK);
    assert_true(snapshot.exact);
    assert_int_equal(snapshot.version, 5);
    for (int i = 0; i < 4; i++)
        assert_true(rig_push(job, learner, 1, -1));
    assert_int_equal(local_restore(job, &snapshot, true, NULL), TRI_EARG); /* a learner lives */
    local_leave(learner);
    assert_true(rig_value(job) == 9);
    assert_int_equal(local_restore(job, &snapshot, true, NULL), TRI_OK);
    assert_true(rig_value(job) == 5);
    learner = rig_join(job, (struct local_learner_options){.seat = 0});
    assert_true(rig_push(job, learner, 1, -1));
    local_leave(learner);
    assert_true(rig_value(job) == 6);
    local_stats(job, &stats);
    rig_check_counts(job, &stats.counts);
    assert_int_equal(stats.counts.discarded, 4);
    assert_int_equal(stats.counts.applied, 6);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_is_in_every_copy_once),
        cmocka_unit_test(one_slot_is_enough),
        cmocka_unit_test(a_snapshot_has_no_gradient_in_part),
        cmocka_unit_test(who_does_not_take_is_waited_for_and_named),
        cmocka_unit_test(who_comes_later_has_what_the_others_have),
        cmocka_unit_test(factors_and_windows_are_multiplied_out_in_every_copy),
        cmocka_unit_test(more_factors_than_are_stepped_together_are_stepped_in_turns),
        cmocka_unit_test(a_window_that_leaves_its_text_is_refused),
        cmocka_unit_test(what_does_not_go_with_copies_is_refused),
        cmocka_unit_test(after_a_restore_all_go_on_from_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
