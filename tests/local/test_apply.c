/* What comes out of gradients: every mode, every form, every optimiser. */
#include <math.h>

#include "base/rng.h"
#include "local/rig.h"
#include "local/update.h"

static void fill(float *to, size_t n, struct rng *rng)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)(2 * rng_unit(rng) - 1);
}

static void serve_as(struct local_job *job, struct local_serve_options options)
{
    struct rig_server server = {.options = options};
    server.options.until_done = true;
    rig_server_start(&server, job);
    rig_server_end(&server);
}

TEST(every_kernel_has_the_same_bits)
{
    (void)state;
    enum { N = 1003 };
    float start[N], values[N], want[N], got[N];
    struct rng rng;
    rng_init(&rng, 1);
    fill(start, N, &rng);
    fill(values, N, &rng);
    for (size_t i = 0; i < N; i++) {
        volatile float product = 0.3F * values[i];
        want[i] = start[i] - product;
    }
    for (size_t k = 0; update_kernel_at(k) != NULL; k++) {
        memcpy(got, start, sizeof got);
        update_kernel_at(k)->sgd(got, values, N, 0.3F);
        assert_memory_equal(got, want, sizeof got);
    }
    assert_non_null(update_kernel_at(0));
}

TEST(two_steps_in_one_pass_are_one_after_the_other)
{
    (void)state;
    enum { N = 70003 }; /* more than one chunk of the kernels, and a rest */
    float *all = mem_array(&mem_libc, (size_t)4 * N, sizeof *all);
    float *first = all, *second = all + N, *want = second + N, *got = want + N;
    struct rng rng;
    rng_init(&rng, 2);
    fill(all, (size_t)4 * N, &rng);
    for (size_t k = 0; update_kernel_at(k) != NULL; k++)
        for (size_t n = N; n > 0; n = n / 2 - n / 9) {
            const struct update_two values = {first, second, 0.3F, -0.7F};
            memcpy(got, want, n * sizeof *got);
            update_kernel_at(k)->sgd(want, first, n, 0.3F);
            update_kernel_at(k)->sgd(want, second, n, -0.7F);
            update_kernel_at(k)->two(got, &values, n);
            assert_memory_equal(got, want, n * sizeof *got);
        }
    mem_free(&mem_libc, all);
}

/* Random dense gradients through a queue against the same steps by hand. */
static void compare_dense(const char *optimizer, uint32_t threads, uint64_t pair_floats)
{
    enum { STEPS = 5 };
    struct optim optim;
    assert_int_equal(optim_read(optimizer, &optim, NULL), TRI_OK);
    struct local_options options = rig_options(LOCAL_SERVER, 1);
    options.slots = STEPS;
    options.optim = &optim;
    struct local_job *job = rig_create(&options);
    struct local_about about;
    struct rng rng;
    rng_init(&rng, 7);
    local_about(job, &about);
    /* by hand: the layer is one run of values, whatever the library cuts it into */
    const uint64_t n = about.layers[1].floats;
    float *w = mem_array(&mem_libc, n, sizeof *w), *s = mem_array(&mem_libc, 2 * n, sizeof *s);
    float *mean = mem_array(&mem_libc, n, sizeof *mean);
    fill(w, n, &rng);
    memcpy(local_shared(job, 1), w, n * sizeof *w);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    for (uint64_t step = 0; step < STEPS; step++) {
        struct local_gradient *gradient;
        assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
        float *to = local_dense(gradient, 1);
        fill(to, n, &rng);
        for (uint64_t i = 0; i < n; i++)
            mean[i] = to[i] / 2;
        assert_int_equal(local_publish(learner, 0.1F, 2, NULL), TRI_OK);
        optim.ops->step(optim.args, w, s, mean, n, 0.1F, step);
    }
    local_leave(learner);
    serve_as(job, (struct local_serve_options){.threads = threads, .pair_floats = pair_floats});
    for (uint64_t i = 0; i < n; i++)
        if (local_shared(job, 1)[i] != w[i])
            fail_msg("%s: value %llu is %g, not %g", optimizer, (unsigned long long)i,
                     (double)local_shared(job, 1)[i], (double)w[i]);
    mem_free(&mem_libc, w);
    mem_free(&mem_libc, s);
    mem_free(&mem_libc, mean);
    rig_remove(job);
}

TEST(dense_gradients_step_as_the_optimiser_says)
{
    (void)state;
    static const char *const names[] = {"sgd", "momentum:0.9", "nesterov:0.9", "adagrad", "adam"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        compare_dense(names[i], 1, 0);
        compare_dense(names[i], 2, 0);
        compare_dense(names[i], 2, 1); /* what has a memory goes one by one all the same */
    }
}

static void push_rows(struct local_learner *learner, const uint32_t *numbers, uint32_t count,
                      const float *values, float lr)
{
    struct local_gradient *gradient;
    struct local_rows rows;
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    assert_true(local_rows(gradient, 2, count, &rows));
    memcpy(rows.numbers, numbers, count * sizeof *numbers);
    memcpy(rows.values, values, (size_t)count * rows.stride * sizeof *values);
    assert_int_equal(local_publish(learner, lr, 1, NULL), TRI_OK);
}

static void push_as_dense(struct local_learner *learner, const uint32_t *numbers, uint32_t count,
                          const float *values, float lr)
{
    struct local_gradient *gradient;
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    float *to = local_dense(gradient, 2);
    memset(to, 0, (size_t)800 * sizeof *to);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < 8; k++)
            to[numbers[i] * 8 + k] += values[i * 8 + k];
    assert_int_equal(local_publish(learner, lr, 1, NULL), TRI_OK);
}

/* The same gradients as rows in one job and dense in another. adagrad: a value without a gradient
 * stays, so that both must come to the same. */
static void compare_rows(enum local_mode mode, const char *optimizer, bool push_thread)
{
    enum { STEPS = 6, COUNT = 9 };
    struct local_job *jobs[2];
    struct optim optim;
    assert_int_equal(optim_read(optimizer, &optim, NULL), TRI_OK);
    for (int dense = 0; dense < 2; dense++) {
        struct local_options options = rig_options(mode, 1);
        struct rng rng;
        options.optim = &optim;
        jobs[dense] = rig_create(&options);
        rng_init(&rng, 3);
        fill(local_shared(jobs[dense], 2), 800, &rng);
        struct rig_server server = {.options = {.until_done = true}};
        struct local_learner *learner =
            rig_join(jobs[dense], (struct local_learner_options){.push_thread = push_thread});
        if (rig_serves(mode))
            rig_server_start(&server, jobs[dense]);
        for (int step = 0; step < STEPS; step++) {
            uint32_t numbers[COUNT];
            float values[COUNT * 8];
            for (uint32_t i = 0; i < COUNT; i++) /* distinct: adagrad squares the sum of a row */
                numbers[i] = (i * 11 + (uint32_t)step * 3) % 100;
            fill(values, (size_t)COUNT * 8, &rng);
            assert_int_equal(local_refresh(learner, NULL), TRI_OK);
            (dense ? push_as_dense : push_rows)(learner, numbers, COUNT, values, 0.1F);
        }
        local_leave(learner);
        if (rig_serves(mode))
            rig_server_end(&server);
    }
    assert_memory_equal(local_shared(jobs[0], 2), local_shared(jobs[1], 2), 800 * sizeof(float));
    for (int i = 0; i < 2; i++)
        rig_remove(jobs[i]);
}

TEST(rows_equal_dense_gradients_with_zeros)
{
    (void)state;
    for (int mode = 0; mode < LOCAL_MODES; mode++)
        for (int push_thread = 0; push_thread < 2; push_thread++) {
            if (mode == LOCAL_REPLICAS)
                continue;
            compare_rows((enum local_mode)mode, "sgd", push_thread != 0);
            compare_rows((enum local_mode)mode, "adagrad", push_thread != 0);
        }
    compare_rows(LOCAL_REPLICAS, "sgd", false);
}

TEST(rows_have_their_bias_and_touch_no_other_row)
{
    (void)state;
    static const struct local_layer_info layer = {
        .name = "filters", .rows = 10, .cols = 3, .bias = true, .max_rows = 4};
    struct local_options options = rig_options(LOCAL_DIRECT, 1);
    options.layers = &layer;
    options.layer_count = 1;
    struct local_job *job = rig_create(&options);
    struct local_learner *learner = rig_join(job, (struct local_learner_options){0});
    struct local_gradient *gradient;
    struct local_rows rows;
    tri_error err;
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    assert_null(local_dense(gradient, 0));
    assert_false(local_rows(gradient, 0, 5, &rows));
    assert_true(local_rows(gradient, 0, 2, &rows));
    assert_int_equal(rows.stride, 4);
    rows.numbers[0] = 7;
    rows.numbers[1] = 10;
    for (int i = 0; i < 8; i++)
        rows.values[i] = 1;
    assert_int_equal(local_publish(learner, 1, 1, &err), TRI_EARG);
    assert_string_equal(err.text, "layer 'filters' has no row 10: it has 10");
    rows.numbers[1] = 7; /* twice the same: added twice */
    assert_int_equal(local_publish(learner, 1, 1, &err), TRI_OK);
    const float *w = local_shared(job, 0);
    for (int i = 0; i < 30; i++)
        assert_true(w[i] == (i / 3 == 7 ? -2.0F : 0.0F));
    for (int i = 0; i < 10; i++)
        assert_true(w[30 + i] == (i == 7 ? -2.0F : 0.0F));
    local_leave(learner);
    rig_remove(job);
}

/* ---- two in one pass ---- */

/* What a layer is given in one gradient: nothing, a dense one, or rows if it takes them. */
static void fill_part(struct local_gradient *gradient, const struct local_layer_info *layer,
                      uint32_t number, bool rows_only, struct rng *rng)
{
    struct local_rows rows;
    const uint64_t form = rng_below(rng, 4);
    if (form == 0 || (rows_only && layer->max_rows == 0))
        return;
    if (rows_only || (form == 1 && layer->max_rows > 0)) {
        assert_true(local_rows(gradient, number, layer->max_rows, &rows));
        for (uint32_t i = 0; i < layer->max_rows; i++)
            rows.numbers[i] = (uint32_t)rng_below(rng, layer->rows);
        fill(rows.values, (size_t)layer->max_rows * rows.stride, rng);
        return;
    }
    fill(local_dense(gradient, number),
         (size_t)layer->rows * layer->cols + (layer->bias ? layer->rows : 0), rng);
}

enum { MIXED_STEPS = 9 };

static void push_mixed(struct local_learner *learner, uint32_t step, struct rng *rng)
{
    struct local_gradient *gradient;
    assert_int_equal(local_take(learner, &gradient, NULL), TRI_OK);
    for (uint32_t l = 0; l < RIG_LAYERS; l++)
        fill_part(gradient, &rig_layers[l], l, step == 3, rng);
    assert_int_equal(local_publish(learner, 0.1F + (float)step, 3, NULL), TRI_OK);
}

static struct local_job *create_mixed(uint32_t learners, struct rng *rng)
{
    struct local_options options = rig_options(LOCAL_SERVER, learners);
    options.slots = MIXED_STEPS;
    struct local_job *job = rig_create(&options);
    rng_init(rng, 11);
    for (uint32_t l = 0; l < RIG_LAYERS; l++)
        fill(local_shared(job, l), (size_t)rig_layers[l].rows * rig_layers[l].cols, rng);
    return job;
}

static void check_applied(const struct local_job *job)
{
    struct local_stats stats;
    local_stats(job, &stats);
    rig_check_counts(job, &stats.counts);
    assert_int_equal(stats.counts.applied, stats.counts.pushed);
    assert_int_equal(stats.version, stats.counts.pushed);
}

/* All gradients of `learners` wait when the server begins. */
static struct local_job *serve_waiting(uint32_t learners, struct local_serve_options serve)
{
    struct rng rng;
    struct local_job *job = create_mixed(learners, &rng);
    for (uint32_t i = 0; i < learners; i++) {
        struct local_learner *learner = rig_join(job, (struct local_learner_options){.seat = i});
        for (uint32_t step = 0; step < MIXED_STEPS - i; step++)
            push_mixed(learner, step, &rng);
        local_leave(learner);
    }
    serve_as(job, serve);
    check_applied(job);
    return job;
}

static void compare_and_remove(struct local_job *one, struct local_job *two)
{
    struct local_snapshot first, second;
    assert_int_equal(local_snapshot_open(one, &first, NULL), TRI_OK);
    assert_int_equal(local_snapshot_open(two, &second, NULL), TRI_OK);
    assert_int_equal(local_snapshot_take(one, &first, NULL), TRI_OK);
    assert_int_equal(local_snapshot_take(two, &second, NULL), TRI_OK);
    assert_true(second.exact);
    assert_memory_equal(second.weights, first.weights, first.floats * sizeof(float));
    assert_memory_equal(second.steps, first.steps, RIG_LAYERS * sizeof first.steps[0]);
    local_snapshot_close(one, &first);
    local_snapshot_close(two, &second);
    rig_remove(one);
    rig_remove(two);
}

TEST(two_gradients_in_one_pass_give_the_bits_of_one_after_the_other)
{
    (void)state;
    for (uint32_t learners = 1; learners <= 3; learners++)
        for (uint32_t threads = 1; threads <= 2; threads++) {
            struct local_serve_options single = {.threads = threads, .pair_floats = UINT64_MAX};
            struct local_serve_options pairs = {.threads = threads, .pair_floats = 1};
            compare_and_remove(serve_waiting(learners, single), serve_waiting(learners, pairs));
        }
}

/* A learner that publishes the next gradient in the middle of a pass, from then on in every one. */
struct latecomer {
    struct local_faults faults;
    struct local_learner *learner;
    struct rng rng;
    uint32_t steps;
};

static void come_late(void *ctx, enum local_step at)
{
    struct latecomer *self = ctx;
    (void)at;
    if (self->steps == MIXED_STEPS)
        return;
    push_mixed(self->learner, self->steps++, &self->rng);
    if (self->steps == MIXED_STEPS)
        local_leave(self->learner);
    self->faults.nth = 0;
}

static struct local_job *serve_late(struct local_serve_options serve, uint32_t first)
{
    struct latecomer self = {.faults = {.at = LOCAL_AT_HALF_STEP, .hit = come_late}};
    struct local_job *job = create_mixed(1, &self.rng);
    self.faults.ctx = &self;
    self.learner = rig_join(job, (struct local_learner_options){0});
    while (self.steps < first)
        push_mixed(self.learner, self.steps++, &self.rng);
    local_set_faults(job, &self.faults);
    serve_as(job, serve);
    local_set_faults(job, NULL);
    assert_int_equal(self.steps, MIXED_STEPS);
    check_applied(job);
    return job;
}

TEST(a_gradient_that_comes_in_the_middle_of_a_pass_gets_the_blocks_it_has_missed)
{
    (void)state;
    for (uint32_t first = 1; first <= 2; first++)
        for (uint32_t threads = 1; threads <= 2; threads++) {
            struct local_serve_options single = {.threads = threads, .pair_floats = UINT64_MAX};
            struct local_serve_options pairs = {.threads = threads, .pair_floats = 1};
            compare_and_remove(serve_late(single, first), serve_late(pairs, first));
        }
}

/* ---- sync ---- */

struct sync_learner {
    struct local_job *job;
    uint32_t seat;
    pthread_t thread;
    bool rows;
    bool went_well;
};

enum { ROUNDS = 8, SYNC_LEARNERS = 3 };

/* A gradient that depends on the weights, so that a late or early read would show. */
static void sync_gradient(const float *w, float *to, uint64_t n, uint32_t seat)
{
    for (uint64_t i = 0; i < n; i++)
        to[i] = 0.5F * w[i] + (float)seat - (float)(i % 7);
}

static bool sync_step(struct sync_learner *self, struct local_learner *learner)
{
    struct local_about about;
    struct local_gradient *gradient;
    local_about(self->job, &about);
    if (local_refresh(learner, NULL) != TRI_OK || local_take(learner, &gradient, NULL) != TRI_OK)
        return false;
    for (uint32_t l = 0; l < about.layer_count; l++) {
        if (l == 2 && self->seat == 1) { /* as rows, the others dense */
            struct local_rows rows;
            if (!local_rows(gradient, l, 20, &rows))
                return false;
            for (uint32_t i = 0; i < 20; i++) {
                rows.numbers[i] = 99 - i;
                sync_gradient(local_weights(learner, l) + (size_t)(99 - i) * 8,
                              rows.values + (size_t)i * 8, 8, self->seat);
            }
            continue;
        }
        sync_gradient(local_weights(learner, l), local_dense(gradient, l), about.layers[l].floats,
                      self->seat);
    }
    return local_publish(learner, 0.1F, (float)(self->seat + 1), NULL) == TRI_OK;
}

static void *sync_live(void *arg)
{
    struct sync_learner *self = arg;
    struct local_learner *learner;
    struct local_learner_options wish = {.seat = self->seat, .push_thread = self->seat == 2};
    if (local_join(self->job, &wish, &learner, NULL) != TRI_OK)
        return NULL;
    self->went_well = true;
    for (int i = 0; i < ROUNDS; i++)
        self->went_well = self->went_well && sync_step(self, learner);
    local_leave(learner);
    return NULL;
}

static void sync_by_hand(float *w, uint64_t n, bool embed)
{
    float *to = mem_array(&mem_libc, n, sizeof *to), *sum = mem_array(&mem_libc, n, sizeof *sum);
    for (int round = 0; round < ROUNDS; round++) {
        memset(sum, 0, n * sizeof *sum);
        for (uint32_t seat = 0; seat < SYNC_LEARNERS; seat++) {
            sync_gradient(w, to, n, seat);
            for (uint64_t i = 0; i < n; i++) {
                if (embed && seat == 1 && i / 8 < 80)
                    continue;
                /* as rows the pattern starts anew with each row */
                float value = embed && seat == 1 ? 0.5F * w[i] + 1 - (float)(i % 8 % 7) : to[i];
                sum[i] += value;
            }
        }
        for (uint64_t i = 0; i < n; i++)
            w[i] -= 0.1F * (sum[i] / 6);
    }
    mem_free(&mem_libc, to);
    mem_free(&mem_libc, sum);
}

static void run_sync(uint32_t threads)
{
    struct local_options options = rig_options(LOCAL_SYNC, SYNC_LEARNERS);
    struct local_job *job = rig_create(&options);
    struct local_about about;
    struct sync_learner learners[SYNC_LEARNERS];
    struct rig_server server = {.options = {.threads = threads, .until_done = true}};
    rig_server_start(&server, job);
    for (uint32_t i = 0; i < SYNC_LEARNERS; i++) {
        learners[i] = (struct sync_learner){.job = job, .seat = i};
        assert_int_equal(pthread_create(&learners[i].thread, NULL, sync_live, &learners[i]), 0);
    }
    for (uint32_t i = 0; i < SYNC_LEARNERS; i++) {
        assert_int_equal(pthread_join(learners[i].thread, NULL), 0);
        assert_true(learners[i].went_well);
    }
    rig_server_end(&server);
    local_about(job, &about);
    for (uint32_t l = 0; l < about.layer_count; l++) {
        uint64_t n = about.layers[l].floats;
        float *w = mem_array(&mem_libc, n, sizeof *w);
        sync_by_hand(w, n, l == 2);
        for (uint64_t i = 0; i < n; i++)
            if (fabsf(local_shared(job, l)[i] - w[i]) > 1e-5F)
                fail_msg("layer %u, value %llu: %g, not %g", l, (unsigned long long)i,
                         (double)local_shared(job, l)[i], (double)w[i]);
        mem_free(&mem_libc, w);
    }
    struct local_stats stats;
    local_stats(job, &stats);
    assert_int_equal(stats.version, ROUNDS);
    assert_int_equal(stats.counts.applied, ROUNDS * SYNC_LEARNERS);
    assert_int_equal(stats.counts.stale_max, 0);
    rig_remove(job);
}

TEST(sync_equals_one_process_on_the_union)
{
    (void)state;
    run_sync(1);
    run_sync(2);
}

TEST(sync_learners_must_agree_on_the_rate)
{
    (void)state;
    struct local_options options = rig_options(LOCAL_SYNC, 2);
    struct local_job *job = rig_create(&options);
    struct local_learner *a = rig_join(job, (struct local_learner_options){.seat = 0});
    struct local_learner *b = rig_join(job, (struct local_learner_options){.seat = 1});
    tri_error err;
    assert_true(rig_push(job, a, 1, 0.1F));
    assert_true(rig_push(job, b, 1, 0.2F));
    const struct local_serve_options serve = {.until_done = true};
    assert_int_equal(local_serve(job, &serve, &err), TRI_EMISMATCH);
    assert_string_equal(err.text, "learners 0 and 1 want to step with lr 0.1 and 0.2");
    local_leave(a);
    local_leave(b);
    rig_remove(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_has_the_same_bits),
        cmocka_unit_test(two_steps_in_one_pass_are_one_after_the_other),
        cmocka_unit_test(two_gradients_in_one_pass_give_the_bits_of_one_after_the_other),
        cmocka_unit_test(
            a_gradient_that_comes_in_the_middle_of_a_pass_gets_the_blocks_it_has_missed),
        cmocka_unit_test(dense_gradients_step_as_the_optimiser_says),
        cmocka_unit_test(rows_equal_dense_gradients_with_zeros),
        cmocka_unit_test(rows_have_their_bias_and_touch_no_other_row),
        cmocka_unit_test(sync_equals_one_process_on_the_union),
        cmocka_unit_test(sync_learners_must_agree_on_the_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
