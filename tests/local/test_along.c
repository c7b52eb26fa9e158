/* Steps that learners with copies of their own make along with their backward pass: all are made
 * once, and nobody sees a copy with a gradient that was not published. */
#include "local/rig.h"

#include <math.h>
#include <sched.h>

#include "base/rng.h"
#include "local/learner.h"
#include "local/share.h"

enum { ROWS = 70, COLS = 19, FLOATS_OF = ROWS * COLS + ROWS, SAMPLES = 3, WINDOW = 41 };
enum { FC, CONV, EMBED, WIDE, LAYERS };

static const struct local_layer_info layers[LAYERS] = {
    {.name = "fc", .rows = ROWS, .cols = COLS, .bias = true, .max_factors = SAMPLES},
    {.name = "conv",
     .rows = ROWS,
     .cols = COLS,
     .bias = true,
     .max_factors = SAMPLES,
     .window = WINDOW},
    {.name = "embed", .rows = ROWS, .cols = COLS, .max_rows = ROWS},
    {.name = "wide",
     .rows = ROWS,
     .cols = COLS,
     .bias = true,
     .max_factors = SAMPLES,
     .dense_too = true},
};

static struct local_options options_of(uint32_t learners, uint32_t slots, uint32_t count)
{
    struct local_options options = rig_options(LOCAL_REPLICAS, learners);
    options.layers = layers;
    options.layer_count = count;
    options.slots = slots;
    return options;
}

static struct local_job *create(uint32_t learners, uint32_t slots, uint32_t count)
{
    const struct local_options options = options_of(learners, slots, count);
    return rig_create(&options);
}

static struct local_learner *join(struct local_job *job, uint32_t seat)
{
    return rig_join(job, (struct local_learner_options){.seat = seat});
}

/* ---- a program that steps ---- */

/* w += rate * the sum over samples of by * u' v, in the learner's own copy. */
static void step_by(struct local_learner *learner, uint32_t layer, float rate,
                    const struct local_other *from)
{
    float *w = (float *)(uintptr_t)local_weights(learner, layer);
    for (uint32_t m = 0; m < ROWS; m++) {
        const float by = rate * from->by * from->u[m];
        const float *v = from->v + (from->at != NULL ? from->at[m] : 0);
        for (uint32_t n = 0; n < COLS; n++)
            w[m * COLS + n] += by * v[n];
        w[ROWS * COLS + m] += by;
    }
}

/* Its own samples are those that it has put into the slot. Whether it was told to. */
static bool learn(struct local_learner *learner, uint32_t layer, float lr, float divisor,
                  size_t *others)
{
    struct local_others out;
    if (!local_learn(learner, layer, lr, divisor, &out))
        return false;
    const struct slot *slot = learner->gradient.slot;
    const struct local_factors own = gradient_factors(learner->job, slot, layer);
    for (uint32_t k = 0; k < slot->parts[layer].count; k++) {
        const size_t first = (size_t)k * ROWS;
        const struct local_other sample = {own.u + first, own.v + (size_t)k * own.width,
                                           own.at != NULL ? own.at + first : NULL, 1};
        step_by(learner, layer, -lr / divisor, &sample);
    }
    for (size_t k = 0; k < out.count; k++)
        step_by(learner, layer, -lr / divisor, &out.at[k]);
    if (others != NULL)
        *others = out.count;
    return true;
}

/* Factors, or windows, of some samples; what they make of the weights is added to sum. */
static void put(struct local_gradient *gradient, uint32_t layer, uint32_t count, struct rng *rng,
                double rate, double *sum)
{
    struct local_factors to;
    assert_true(local_factors(gradient, layer, count, &to));
    for (uint32_t i = 0; i < count * to.width; i++)
        to.v[i] = (float)rng_normal(rng);
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t m = 0; m < ROWS; m++) {
            const uint32_t place = k * ROWS + m;
            to.u[place] = rng_below(rng, 3) == 0 ? 0 : (float)rng_normal(rng);
            uint32_t at = 0;
            if (to.at != NULL)
                at = to.at[place] = (uint32_t)rng_below(rng, WINDOW - COLS + 1);
            for (uint32_t n = 0; n < COLS; n++)
                sum[m * COLS + n] +=
                    rate * (double)to.u[place] * (double)to.v[k * to.width + at + n];
            sum[ROWS * COLS + m] += rate * (double)to.u[place];
        }
}

static void put_row(struct local_gradient *gradient, struct rng *rng, double rate, double *sum)
{
    struct local_rows rows;
    assert_true(local_rows(gradient, EMBED, 1, &rows));
    rows.numbers[0] = (uint32_t)rng_below(rng, ROWS);
    for (uint32_t i = 0; i < COLS; i++) {
        rows.values[i] = (float)rng_normal(rng);
        sum[rows.numbers[0] * COLS + i] += rate * (double)rows.values[i];
    }
}

static void check(const struct local_learner *learner, double (*sums)[FLOATS_OF])
{
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t i = 0; i < FLOATS_OF - (l == EMBED ? ROWS : 0); i++) {
            const double want = sums[l][i], got = (double)local_weights(learner, l)[i];
            if (fabs(want - got) > 1e-4 * (1 + fabs(want)))
                fail_msg("layer %u, value %u: %g, not %g", l, i, got, want);
        }
}

/* ---- what it comes to ---- */

struct turn {
    uint32_t samples;
    float lr, divisor;
    uint32_t here; /* bits of layers that the program steps itself */
};

static void take_turn(struct local_learner *learner, const struct turn *turn, struct rng *rng,
                      double (*sums)[FLOATS_OF])
{
    const double rate = -(double)turn->lr / (double)turn->divisor;
    struct local_gradient *gradient;
    assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    if (turn->here % 2 == 0) /* some layers are read, some are not */
        local_catch_up(learner, FC, ROWS);
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    for (uint32_t l = LAYERS; l-- > 0;) {
        if (l == EMBED)
            put_row(gradient, rng, rate, sums[l]);
        else
            put(gradient, l, turn->samples, rng, rate, sums[l]);
        if ((turn->here >> l & 1) != 0 && l != EMBED)
            assert_true(learn(learner, l, turn->lr, turn->divisor, NULL));
    }
    assert_int_equal(local_publish(learner, turn->lr, turn->divisor, NULL), TRI_OK);
}

/* Two learners take turns, by draw; each in the end has everything, and what is left behind too. */
TEST(every_gradient_is_in_every_copy_once_whoever_makes_the_step)
{
    (void)state;
    static double sums[LAYERS][FLOATS_OF];
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct local_job *job = create(2, 8, LAYERS);
        struct local_learner *both[2] = {join(job, 0), join(job, 1)};
        struct rng rng;
        rng_init(&rng, seed);
        memset(sums, 0, sizeof sums);
        for (uint32_t i = 0, same = 0, last = 0; i < 40; i++) {
            uint32_t who = (uint32_t)rng_below(&rng, 2);
            same = who == last ? same + 1 : 1;
            if (same > 3) { /* more than its slots, and it would wait for the other */
                who = 1 - who;
                same = 1;
            }
            last = who;
            const struct turn turn = {.samples = 1 + (uint32_t)rng_below(&rng, SAMPLES),
                                      .lr = (float)(1 + rng_below(&rng, 3)) / 8,
                                      .divisor = (float)(1 + rng_below(&rng, 2)),
                                      .here = (uint32_t)rng_below(&rng, 1 << LAYERS)};
            take_turn(both[who], &turn, &rng, sums);
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(local_flush(both[i], NULL), TRI_OK);
            check(both[i], sums);
        }
        local_leave(both[0]);
        local_leave(both[1]);
        rig_remove(job);
    }
}

/* What was looked at in the middle of an iteration is what the next begins with. */
TEST(the_next_iteration_has_what_was_stepped_and_no_more)
{
    (void)state;
    static double sums[LAYERS][FLOATS_OF], later[LAYERS][FLOATS_OF];
    struct local_job *job = create(2, 0, LAYERS);
    struct local_learner *one = join(job, 0), *two = join(job, 1);
    const struct turn all = {.samples = 1, .lr = 0.5F, .divisor = 2, .here = 15};
    struct rng rng;
    rng_init(&rng, 3);
    take_turn(one, &all, &rng, sums);
    take_turn(two, &all, &rng, sums); /* which has looked, and steps by both */
    memcpy(later, sums, sizeof sums);
    take_turn(one, &all, &rng, later);
    assert_int_equal(local_refresh(two, NULL), TRI_OK);
    assert_int_equal(local_version(two), 2);
    check(two, sums);
    assert_int_equal(local_flush(two, NULL), TRI_OK); /* now it has */
    check(two, later);
    local_leave(one);
    local_leave(two);
    rig_remove(job);
}

TEST(others_are_told_with_their_rate_by_ones_own)
{
    (void)state;
    static double sums[LAYERS][FLOATS_OF];
    struct local_job *job = create(2, 0, LAYERS);
    struct local_learner *one = join(job, 0), *two = join(job, 1);
    struct local_gradient *gradient;
    struct local_others others;
    struct rng rng;
    rng_init(&rng, 4);
    take_turn(one, &(struct turn){.samples = 2, .lr = 0.5F, .divisor = 2}, &rng, sums);
    take_turn(one, &(struct turn){.samples = 1, .lr = 1, .divisor = 1}, &rng, sums);
    assert_int_equal(local_take(two, &gradient, NULL), TRI_OK);
    local_drop(two);
    take_turn(one, &(struct turn){.samples = 1, .lr = 0.125F, .divisor = 1}, &rng, sums);
    assert_int_equal(local_take(two, &gradient, NULL), TRI_OK);
    put(gradient, CONV, 1, &rng, -0.25, sums[CONV]);
    assert_true(local_learn(two, CONV, 0.5F, 2, &others));
    assert_int_equal(others.count, 1); /* the first two were looked at before */
    assert_true(others.at[0].by == 0.5F);
    assert_non_null(others.at[0].at);
    local_leave(one);
    local_leave(two);
    rig_remove(job);
}

TEST(too_many_others_are_stepped_later)
{
    (void)state;
    static double sums[LAYERS][FLOATS_OF];
    struct local_job *job = create(2, 0, LAYERS);
    struct local_learner *one = join(job, 0), *two = join(job, 1);
    struct local_gradient *gradient;
    size_t others = 0;
    struct rng rng;
    rng_init(&rng, 5);
    assert_int_equal(local_take(two, &gradient, NULL), TRI_OK);
    for (int i = 0; i < 6; i++) { /* 18 samples */
        const struct turn turn = {.samples = SAMPLES, .lr = 0.5F, .divisor = 2};
        take_turn(one, &turn, &rng, sums);
    }
    put(gradient, FC, 1, &rng, -0.25, sums[FC]);
    assert_false(learn(two, FC, 0.5F, 2, &others));
    assert_int_equal(local_publish(two, 0.5F, 2, NULL), TRI_OK);
    assert_int_equal(local_refresh(two, NULL), TRI_OK);
    check(two, sums);
    assert_int_equal(local_take(two, &gradient, NULL), TRI_OK);
    put(gradient, FC, 1, &rng, -0.25, sums[FC]);
    assert_true(learn(two, FC, 0.5F, 2, &others));
    assert_int_equal(others, 0);
    local_leave(one);
    assert_int_equal(local_publish(two, 0.5F, 2, NULL), TRI_OK);
    assert_int_equal(local_flush(two, NULL), TRI_OK);
    check(two, sums);
    local_leave(two);
    rig_remove(job);
}

/* ---- when it cannot be ---- */

TEST(steps_that_cannot_go_along_are_made_as_ever)
{
    (void)state;
    static double sums[LAYERS][FLOATS_OF];
    struct local_job *job = create(2, 0, LAYERS);
    struct local_learner *one = join(job, 0), *two = join(job, 1);
    struct local_gradient *gradient;
    struct local_others out;
    struct rng rng;
    rng_init(&rng, 6);
    assert_false(local_learn(one, FC, 1, 1, &out)); /* there is no gradient */
    assert_int_equal(local_take(one, &gradient, NULL), TRI_OK);
    assert_false(local_learn(one, FC, 1, 1, &out)); /* of this layer, either */
    float *dense = local_dense(gradient, WIDE);
    for (uint32_t i = 0; i < FLOATS_OF; i++) {
        dense[i] = 1;
        sums[WIDE][i] -= 1;
    }
    assert_false(local_learn(one, WIDE, 1, 1, &out)); /* no factors */
    put(gradient, FC, 1, &rng, -1, sums[FC]);
    assert_false(local_learn(one, FC, 0, 1, &out));
    assert_false(local_learn(one, FC, 1, 0, &out));
    assert_false(local_learn(one, FC, NAN, 1, &out));
    assert_true(learn(one, FC, 1, 1, NULL));
    assert_false(local_learn(one, FC, 1, 1, &out)); /* twice */
    assert_int_equal(local_publish(one, 1, 1, NULL), TRI_OK);
    assert_int_equal(local_take(two, &gradient, NULL), TRI_OK);
    local_drop(two);
    assert_int_equal(local_refresh(two, NULL), TRI_OK);
    assert_int_equal(local_take(one, &gradient, NULL), TRI_OK);
    dense = local_dense(gradient, WIDE);
    for (uint32_t i = 0; i < FLOATS_OF; i++) {
        dense[i] = 1;
        sums[WIDE][i] -= 1;
    }
    assert_int_equal(local_publish(one, 1, 1, NULL), TRI_OK);
    assert_int_equal(local_take(two, &gradient, NULL), TRI_OK);
    put(gradient, WIDE, 1, &rng, -1, sums[WIDE]);
    assert_false(local_learn(two, WIDE, 1, 1, &out)); /* the other's are none */
    assert_int_equal(local_publish(two, 1, 1, NULL), TRI_OK);
    assert_int_equal(local_refresh(two, NULL), TRI_OK);
    check(two, sums);
    local_leave(one);
    local_leave(two);
    rig_remove(job);
}

TEST(in_other_modes_the_program_makes_no_steps)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_DIRECT, 1);
    struct local_job *job = rig_create(&options);
    struct local_learner *learner = join(job, 0);
    struct local_gradient *gradient;
    struct local_others out;
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    assert_false(local_learn(learner, 0, 1, 1, &out));
    local_leave(learner);
    rig_remove(job);
}

static void refused(tri_status status, const tri_error *err, const char *text)
{
    assert_int_equal(status, TRI_EARG);
    if (strstr(err->text, text) == NULL)
        fail_msg("'%s' does not say '%s'", err->text, text);
}

TEST(what_would_lose_a_step_is_refused)
{
    (void)state;
    static double sums[LAYERS][FLOATS_OF];
    struct local_job *job = create(1, 0, LAYERS);
    struct local_learner *learner = join(job, 0);
    struct local_gradient *gradient;
    struct local_factors windows;
    struct local_others out;
    tri_error err;
    struct rng rng;
    rng_init(&rng, 7);
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    assert_true(local_factors(gradient, CONV, 1, &windows));
    for (uint32_t m = 0; m < ROWS; m++)
        windows.at[m] = WINDOW;
    assert_false(local_learn(learner, CONV, 0.5F, 2, &out)); /* it would read something else */
    put(gradient, CONV, 1, &rng, -0.25, sums[CONV]);
    put(gradient, FC, 2, &rng, -0.25, sums[FC]);
    assert_true(learn(learner, FC, 0.5F, 2, NULL));
    refused(local_refresh(learner, &err), &err, "not published");
    refused(local_flush(learner, &err), &err, "not published");
    refused(local_settle(learner, &err), &err, "not published");
    assert_false(local_learn(learner, CONV, 0.25F, 2, &out));
    refused(local_publish(learner, 0.25F, 2, &err), &err, "another rate");
    refused(local_publish(learner, 0.5F, 1, &err), &err, "another rate");
    local_catch_up(learner, CONV, ROWS); /* in this iteration it is what it was */
    assert_true(local_weights(learner, CONV)[0] == 0);
    assert_int_equal(local_publish(learner, 0.5F, 2, NULL), TRI_OK);
    assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    check(learner, sums);
    local_leave(learner);
    rig_remove(job);
}

/* It cannot be taken back. What was only put there was not stepped, and is not known to be whole.
 */
TEST(a_gradient_that_is_given_up_is_published_as_far_as_it_was_stepped)
{
    (void)state;
    static double sums[LAYERS][FLOATS_OF], ignored[FLOATS_OF];
    struct local_job *job = create(2, 0, LAYERS);
    struct local_learner *one = join(job, 0), *two = join(job, 1);
    struct local_gradient *gradient;
    struct local_stats stats;
    struct rng rng;
    rng_init(&rng, 8);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(local_take(one, &gradient, NULL), TRI_OK);
        put(gradient, FC, 2, &rng, -0.25, sums[FC]);
        put(gradient, CONV, 1, &rng, -0.25, ignored);
        assert_true(learn(one, FC, 0.5F, 2, NULL));
        if (i == 0)
            local_drop(one);
        else
            local_leave(one);
    }
    local_stats(job, &stats);
    rig_check_counts(job, &stats.counts);
    assert_int_equal(stats.counts.pushed, 2);
    assert_int_equal(local_flush(two, NULL), TRI_OK);
    check(two, sums);
    local_leave(two);
    rig_remove(job);
}

/* ---- who copies ---- */

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

/* Wanted in the middle of the steps it is given after them, and with what was published. */
TEST(nobody_copies_a_gradient_that_is_not_published)
{
    (void)state;
    static double sums[LAYERS][FLOATS_OF];
    struct local_job *job = create(1, 0, LAYERS);
    struct local_learner *learner = join(job, 0);
    struct wish wish = {.job = job};
    struct local_gradient *gradient;
    pthread_t thread;
    uint32_t word;
    struct rng rng;
    rng_init(&rng, 9);
    assert_int_equal(local_snapshot_open(job, &wish.snapshot, NULL), TRI_OK);
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    assert_true(is_quiet(&job->seats[0]));
    put(gradient, FC, 1, &rng, -0.25, sums[FC]);
    put_row(gradient, &rng, -0.25, sums[EMBED]);
    assert_true(learn(learner, FC, 0.5F, 2, NULL));
    assert_false(is_quiet(&job->seats[0]));
    assert_int_equal(pthread_create(&thread, NULL, copy, &wish), 0);
    while (!is_held(job, 0, &word))
        (void)sched_yield();
    assert_int_equal(local_publish(learner, 0.5F, 2, NULL), TRI_OK);
    assert_false(is_quiet(&job->seats[0])); /* a layer is behind */
    assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wish.status, TRI_OK);
    assert_true(wish.snapshot.exact);
    assert_int_equal(wish.snapshot.version, 1);
    assert_memory_equal(wish.snapshot.weights, local_weights(learner, FC),
                        FLOATS_OF * sizeof(float));
    check(learner, sums);
    local_snapshot_close(job, &wish.snapshot);
    local_leave(learner);
    rig_remove(job);
}

/* Its slot, and those of others, are free then. */
TEST(when_all_layers_were_stepped_all_is_taken_with_the_publishing)
{
    (void)state;
    static double sums[LAYERS][FLOATS_OF];
    struct local_job *job = create(1, 0, 2);
    struct local_learner *learner = join(job, 0);
    struct local_gradient *gradient;
    struct rng rng;
    rng_init(&rng, 12);
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    for (uint32_t l = FC; l <= CONV; l++) {
        put(gradient, l, 1, &rng, -1, sums[l]);
        assert_true(learn(learner, l, 1, 1, NULL));
    }
    assert_int_equal(taken_row(job, 0)[0], 0);
    assert_int_equal(local_publish(learner, 1, 1, NULL), TRI_OK);
    assert_int_equal(taken_row(job, 0)[0], 1);
    assert_true(is_quiet(&job->seats[0]));
    local_leave(learner);
    rig_remove(job);
}

TEST(a_snapshot_of_its_own_has_what_was_stepped)
{
    (void)state;
    static double sums[LAYERS][FLOATS_OF];
    struct local_job *job = create(1, 0, LAYERS);
    struct local_learner *learner = join(job, 0);
    const struct turn all = {.samples = 1, .lr = 0.5F, .divisor = 2, .here = 15};
    struct local_snapshot snapshot;
    struct rng rng;
    rng_init(&rng, 10);
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    for (int i = 0; i < 5; i++)
        take_turn(learner, &all, &rng, sums);
    assert_int_equal(local_snapshot_own(learner, &snapshot, NULL), TRI_OK);
    assert_true(snapshot.exact);
    assert_int_equal(snapshot.version, 5);
    check(learner, sums);
    assert_memory_equal(snapshot.weights, local_weights(learner, FC), FLOATS_OF * sizeof(float));
    local_snapshot_close(job, &snapshot);
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

static bool counts_all(const struct local_learner *learner, uint32_t layer, float count)
{
    for (uint32_t i = 0; i < FLOATS_OF; i++)
        if (local_weights(learner, layer)[i] != count)
            return false;
    return true;
}

static bool fill_ones(struct local_gradient *gradient, uint32_t layer)
{
    struct local_factors to;
    if (!local_factors(gradient, layer, 1, &to))
        return false;
    for (uint32_t i = 0; i < ROWS; i++) {
        to.u[i] = 1;
        if (to.at != NULL)
            to.at[i] = i % (WINDOW - COLS + 1);
    }
    for (uint32_t i = 0; i < to.width; i++)
        to.v[i] = 1;
    return true;
}

/* Every weight counts the gradients that are in it. Layers go along or not, by turns. */
static bool count_one(struct local_learner *learner, uint32_t turn)
{
    struct local_gradient *gradient;
    if (local_refresh(learner, NULL) != TRI_OK)
        return false;
    for (uint32_t l = FC; l <= CONV; l++) {
        local_catch_up(learner, l, ROWS);
        if (!counts_all(learner, l, (float)local_version(learner)))
            return false;
    }
    if (local_take(learner, &gradient, NULL) != TRI_OK || !fill_ones(gradient, FC) ||
        !fill_ones(gradient, CONV))
        return false;
    for (uint32_t l = FC; l <= CONV; l++)
        if (turn % 5 < 4 - l)
            (void)learn(learner, l, -1, 1, NULL);
    return local_publish(learner, -1, 1, NULL) == TRI_OK;
}

static void *count_many(void *arg)
{
    struct body *body = arg;
    const struct local_learner_options wish = {.seat = body->seat};
    body->good = local_join(body->job, &wish, &body->learner, NULL) == TRI_OK;
    for (uint32_t i = 0; i < COUNT && body->good; i++)
        body->good = count_one(body->learner, i);
    body->good = body->good && local_share_drain(body->learner, false, NULL) == TRI_OK;
    return NULL;
}

static void train_together(uint32_t slots)
{
    struct local_job *job = create(LEARNERS, slots, 2);
    struct body bodies[LEARNERS];
    pthread_t threads[LEARNERS];
    struct local_snapshot snapshot;
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    for (uint32_t i = 0; i < LEARNERS; i++) {
        bodies[i] = (struct body){.job = job, .seat = i};
        assert_int_equal(pthread_create(&threads[i], NULL, count_many, &bodies[i]), 0);
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
        assert_true(counts_all(bodies[i].learner, FC, LEARNERS * COUNT));
        assert_true(counts_all(bodies[i].learner, CONV, LEARNERS * COUNT));
    }
    for (uint32_t i = 0; i < LEARNERS; i++)
        local_leave(bodies[i].learner);
    for (uint32_t k = 0; k < FLOATS_OF; k++)
        assert_true(local_shared(job, FC)[k] == LEARNERS * COUNT);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

TEST(many_who_step_along_the_way_and_those_who_copy_meanwhile)
{
    (void)state;
    train_together(0);
    train_together(2);
    train_together(1);
}

/* ---- beside common layers ---- */

/* The second lies there once for all, and is reckoned with. */
static const struct local_layer_info with_common[2] = {
    {.name = "fc", .rows = ROWS, .cols = COLS, .bias = true, .max_factors = SAMPLES},
    {.name = "large", .rows = ROWS, .cols = COLS, .bias = true, .max_factors = 1, .common = true},
};

/* What the learner reads of the common layer; it may be ahead of its own. -1: weights differ. */
static float common_count(struct local_learner *learner)
{
    struct local_pending pending;
    local_pend(learner, 1, &pending);
    const float count = pending.weights[0] + (float)pending.count;
    for (uint32_t i = 0; i < FLOATS_OF; i++) {
        const uint32_t row = i < ROWS * COLS ? i / COLS : i - ROWS * COLS;
        float value = pending.weights[i];
        for (size_t k = 0; k < pending.count; k++)
            value += pending.u[k * ROWS + row];
        if (value != count)
            return -1;
    }
    return count;
}

static bool count_beside(struct local_learner *learner, uint32_t turn)
{
    struct local_gradient *gradient;
    struct local_others others;
    if (local_refresh(learner, NULL) != TRI_OK)
        return false;
    const float version = (float)local_version(learner);
    local_catch_up(learner, FC, ROWS);
    if (!counts_all(learner, FC, version) || common_count(learner) < version ||
        local_take(learner, &gradient, NULL) != TRI_OK || !fill_ones(gradient, 0) ||
        !fill_ones(gradient, 1) || local_learn(learner, 1, -1, 1, &others))
        return false;
    if (turn % 7 > 0)
        (void)learn(learner, FC, -1, 1, NULL);
    return common_count(learner) >= version && local_publish(learner, -1, 1, NULL) == TRI_OK;
}

static void *count_many_beside(void *arg)
{
    struct body *body = arg;
    const struct local_learner_options wish = {.seat = body->seat};
    body->good = local_join(body->job, &wish, &body->learner, NULL) == TRI_OK;
    for (uint32_t i = 0; i < COUNT && body->good; i++)
        body->good = count_beside(body->learner, i);
    body->good = body->good && local_share_drain(body->learner, false, NULL) == TRI_OK;
    return NULL;
}

TEST(common_layers_beside_them_have_every_gradient_once)
{
    (void)state;
    struct local_options options = options_of(LEARNERS, 0, 2);
    options.layers = with_common;
    struct local_job *job = rig_create(&options);
    struct body bodies[LEARNERS];
    pthread_t threads[LEARNERS];
    struct local_snapshot snapshot;
    assert_int_equal(local_snapshot_open(job, &snapshot, NULL), TRI_OK);
    for (uint32_t i = 0; i < LEARNERS; i++) {
        bodies[i] = (struct body){.job = job, .seat = i};
        assert_int_equal(pthread_create(&threads[i], NULL, count_many_beside, &bodies[i]), 0);
    }
    for (int i = 0; i < 10; i++) {
        assert_int_equal(local_snapshot_take(job, &snapshot, NULL), TRI_OK);
        assert_true(snapshot.exact);
        for (uint64_t k = 0; k < FLOATS_OF; k++) {
            assert_true(snapshot.weights[k] == (float)snapshot.version);
            assert_true(snapshot.weights[job->layers[1].offset + k] == (float)snapshot.version);
        }
    }
    for (uint32_t i = 0; i < LEARNERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(bodies[i].good);
        assert_true(counts_all(bodies[i].learner, FC, LEARNERS * COUNT));
    }
    for (uint32_t i = 0; i < LEARNERS; i++)
        local_leave(bodies[i].learner);
    for (uint32_t k = 0; k < FLOATS_OF; k++)
        assert_true(local_shared(job, 1)[k] == LEARNERS * COUNT);
    local_snapshot_close(job, &snapshot);
    rig_remove(job);
}

enum { PILED = 40 };

/* A gradient, of the common layer PILED samples. */
static void give_many(struct local_learner *learner, bool along)
{
    struct local_gradient *gradient;
    struct local_factors to;
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    assert_true(fill_ones(gradient, FC));
    assert_true(local_factors(gradient, 1, PILED, &to));
    for (uint32_t i = 0; i < PILED * ROWS; i++)
        to.u[i] = 1;
    for (uint32_t i = 0; i < PILED * COLS; i++)
        to.v[i] = 1;
    if (along)
        assert_true(learn(learner, FC, -1, 1, NULL));
    assert_int_equal(local_publish(learner, -1, 1, NULL), TRI_OK);
}

static void read_both(struct local_learner *learner)
{
    struct local_pending pending;
    assert_int_equal(local_refresh(learner, NULL), TRI_OK);
    local_catch_up(learner, FC, ROWS);
    local_pend(learner, 1, &pending);
}

/* Who looks when its iteration begins and again in the backward pass takes twice as much before it
 * can make a set: here all slots of the other, twice. */
TEST(two_looks_in_one_iteration_have_room)
{
    (void)state;
    struct local_options options = options_of(2, 2, 2);
    struct local_layer_info many[2] = {with_common[0], with_common[1]};
    many[1].max_factors = PILED;
    options.layers = many;
    struct local_job *job = rig_create(&options);
    struct local_learner *one = join(job, 0), *two = join(job, 1);
    struct local_pending pending;
    read_both(one);
    give_many(one, false);
    read_both(two);
    for (int i = 0; i < 2; i++) {
        read_both(one);
        read_both(one);
        give_many(one, false);
    }
    give_many(two, false);
    read_both(two); /* looks, and has three gradients to reckon with */
    assert_int_equal(local_flush(one, NULL), TRI_OK); /* makes a set, and is free to go on */
    for (int i = 0; i < 2; i++) {
        read_both(one);
        give_many(one, false);
    }
    give_many(two, true); /* looks again */
    read_both(two);
    local_pend(two, 1, &pending);
    assert_int_equal(local_flush(one, NULL), TRI_OK);
    local_leave(two);
    local_leave(one);
    assert_true(local_shared(job, 1)[0] == 7 * PILED);
    rig_remove(job);
}

/* ---- death ---- */

static int count_in_child(struct local_job *job, void *arg)
{
    const uint32_t *gradients = arg;
    const struct local_learner_options wish = {.seat = 1};
    struct local_learner *learner;
    if (local_join(job, &wish, &learner, NULL) != TRI_OK)
        return 2;
    for (uint32_t i = 0; i < *gradients; i++)
        if (!count_one(learner, 0))
            return 3;
    local_leave(learner);
    return 0;
}

/* Its copy is gone, with what it had not published. Who comes after it begins with another's. */
static void die_at(enum local_step at, uint32_t nth)
{
    const struct local_options options = options_of(2, 4, 2);
    struct local_job *job = rig_create(&options);
    struct local_learner *learner = join(job, 0);
    struct local_stats stats;
    uint32_t gradients = 3;
    for (uint32_t i = 0; i < 2; i++)
        assert_true(count_one(learner, i));
    assert_int_equal(local_settle(learner, NULL), TRI_OK); /* a copy can be had */
    assert_int_equal(rig_wait(rig_fork(&options, at, nth, count_in_child, &gradients)), -SIGKILL);
    assert_int_equal(local_bury(job), 1);
    assert_true(count_one(learner, 0));
    assert_int_equal(local_settle(learner, NULL), TRI_OK);
    gradients = 1;
    assert_int_equal(rig_wait(rig_fork(&options, LOCAL_AT_NOTHING, 0, count_in_child, &gradients)),
                     0);
    assert_true(count_one(learner, 4));
    assert_int_equal(local_flush(learner, NULL), TRI_OK);
    local_stats(job, &stats);
    rig_check_counts(job, &stats.counts);
    assert_true(counts_all(learner, FC, (float)stats.counts.pushed));
    assert_true(counts_all(learner, CONV, (float)stats.counts.pushed));
    local_leave(learner);
    rig_remove(job);
}

TEST(who_dies_in_the_middle_of_its_steps_takes_them_along)
{
    (void)state;
    static const enum local_step steps[] = {LOCAL_AT_TAKEN,     LOCAL_AT_HALF_STEP,
                                            LOCAL_AT_HALF_FULL, LOCAL_AT_PUBLISHED,
                                            LOCAL_AT_STEPPED,   LOCAL_AT_COMMITTED};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        for (uint32_t nth = 1; nth < 3; nth++)
            die_at(steps[i], nth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_is_in_every_copy_once_whoever_makes_the_step),
        cmocka_unit_test(the_next_iteration_has_what_was_stepped_and_no_more),
        cmocka_unit_test(others_are_told_with_their_rate_by_ones_own),
        cmocka_unit_test(too_many_others_are_stepped_later),
        cmocka_unit_test(steps_that_cannot_go_along_are_made_as_ever),
        cmocka_unit_test(in_other_modes_the_program_makes_no_steps),
        cmocka_unit_test(what_would_lose_a_step_is_refused),
        cmocka_unit_test(a_gradient_that_is_given_up_is_published_as_far_as_it_was_stepped),
        cmocka_unit_test(nobody_copies_a_gradient_that_is_not_published),
        cmocka_unit_test(when_all_layers_were_stepped_all_is_taken_with_the_publishing),
        cmocka_unit_test(a_snapshot_of_its_own_has_what_was_stepped),
        cmocka_unit_test(common_layers_beside_them_have_every_gradient_once),
        cmocka_unit_test(two_looks_in_one_iteration_have_room),
        cmocka_unit_test(many_who_step_along_the_way_and_those_who_copy_meanwhile),
        cmocka_unit_test(who_dies_in_the_middle_of_its_steps_takes_them_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
