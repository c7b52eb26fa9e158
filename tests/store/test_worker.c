/* The memory of a worker: refs, gradients, and operations against plain arithmetic. */
#include "store/worker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/bits.h"
#include "lib/books.h"
#include "lib/test.h"

enum { ROWS = 6, COLS = 10, MATRIX = ROWS * COLS, FLOATS = MATRIX + ROWS, RANKS = 3 };

static const char *const optimizers[] = {"sgd", "momentum:0.9", "nesterov:0.8", "adagrad:0.1",
                                         "adam:0.9,0.999,0.1"};
enum { OPTIMIZERS = sizeof optimizers / sizeof optimizers[0] };

/* One layer, weights and bias apart. */
struct bench {
    struct profile *profile;
    struct book book;
    struct plan *plan;
    struct layout *layout;
    struct core_rules rules;
    struct optim optim;
    struct worker worker;
    struct store_worker store;
    float weights[MATRIX], gap, bias[ROWS], result[FLOATS];
    void *scratch;
    /* the same in plain arrays */
    float params[FLOATS], optim_state[2 * FLOATS];
};

/* Some number, other for every n. */
static float number(size_t n)
{
    return sinf(1.7f * (float)n) + 0.01f;
}

static void init_params(struct bench *bench)
{
    for (size_t i = 0; i < FLOATS; i++)
        bench->params[i] = number(i);
    memcpy(bench->weights, bench->params, sizeof bench->weights);
    memcpy(bench->bias, bench->params + MATRIX, sizeof bench->bias);
    bench->gap = 77;
}

static void set_up(struct bench *bench, const char *scheme, struct core_rules rules,
                   const char *optimizer, bool copy)
{
    memset(bench, 0, sizeof *bench);
    rules.reproducible = true;
    bench->rules = rules;
    bench->profile = book_one_layer("FC", ROWS, COLS, ROWS);
    bench->book = book_of(bench->profile, RANKS);
    bench->book.forced = scheme_at(book_scheme_index(scheme));
    bench->book.servers = bench->book.colocated = 1;
    bench->book.batch = 4;
    bench->book.chunk_bytes = 100;
    bench->plan = book_plan(&bench->book);
    assert_int_equal(layout_make(bench->plan, &mem_libc, &bench->layout, NULL), TRI_OK);
    assert_int_equal(optim_read(optimizer, &bench->optim, NULL), TRI_OK);
    assert_int_equal(worker_init(&bench->worker, bench->layout, &rules, 0, 0, &mem_libc, NULL),
                     TRI_OK);
    struct store_layer layer = {bench->weights, bench->bias,
                                rules.aggregate ? bench->result : NULL};
    struct store_worker_options options = {.layout = bench->layout,
                                           .rules = rules,
                                           .optim = bench->optim,
                                           .layers = &layer,
                                           .copy_gradients = copy};
    assert_int_equal(store_worker_init(&bench->store, &options, &mem_libc, NULL), TRI_OK);
    bench->scratch = malloc(store_scratch_bytes(bench->layout));
    assert_non_null(bench->scratch);
    init_params(bench);
}

static void tear_down(struct bench *bench)
{
    assert_true(bench->gap == 77);
    free(bench->scratch);
    store_worker_fini(&bench->store);
    worker_fini(&bench->worker);
    layout_free(bench->layout);
    plan_free(bench->plan);
    profile_free(bench->profile);
}

static void check_params(const struct bench *bench)
{
    assert_memory_equal(bench->weights, bench->params, sizeof bench->weights);
    assert_memory_equal(bench->bias, bench->params + MATRIX, sizeof bench->bias);
}

static struct store_runs runs_of(const struct bench *bench, enum core_space space, uint64_t first,
                                 uint64_t count)
{
    struct core_ref ref = {.space = space, .first = first, .count = count};
    return store_worker_runs(&bench->store, ref);
}

/* ---- refs ---- */

TEST(a_part_may_cross_from_the_weights_to_the_bias)
{
    (void)state;
    struct bench bench;
    unsigned crossing = 0;
    set_up(&bench, "ps", (struct core_rules){0}, "sgd", false);
    for (uint32_t i = 0; i < bench.layout->part_count; i++) {
        const struct layout_part *part = &bench.layout->parts[i];
        struct store_runs runs = runs_of(&bench, CORE_PARAMS, part->first, part->floats);
        bool crosses = part->first < MATRIX && part->first + part->floats > MATRIX;
        assert_int_equal(runs.count[1] > 0, crosses);
        assert_int_equal(store_runs_floats(runs), part->floats);
        assert_true(store_runs_equal(runs, bench.params + part->first));
        crossing += crosses;
    }
    assert_int_equal(crossing, 1);
    tear_down(&bench);
}

TEST(nowhere_has_no_runs)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "ps", (struct core_rules){0}, "sgd", false);
    assert_int_equal(store_runs_floats(runs_of(&bench, CORE_NOWHERE, 0, 9)), 0);
    tear_down(&bench);
}

TEST(the_result_of_aggregation_is_the_callers_memory)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "ps", (struct core_rules){.aggregate = true}, "sgd", false);
    struct store_runs runs = runs_of(&bench, CORE_RESULT, 50, 16);
    assert_ptr_equal(runs.at[0], bench.result + 50);
    assert_int_equal(runs.count[0], 16);
    tear_down(&bench);
}

TEST(slots_of_factors_lie_apart)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "sfb", (struct core_rules){0}, "sgd", false);
    uint32_t most = bench.layout->layers[0].factor_rows;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t slot = 0; slot < 2 * RANKS; slot++) {
            struct core_ref ref = {.space = CORE_FACTORS,
                                   .generation = slot / RANKS,
                                   .rank = slot % RANKS,
                                   .count = most};
            struct store_runs runs = store_worker_runs(&bench.store, ref);
            struct store_factors at = store_worker_slot(&bench.store, ref);
            assert_int_equal(runs.count[0], most * ROWS);
            assert_int_equal(runs.count[1], most * COLS);
            assert_true(runs.at[0] == at.u && runs.at[1] == at.v);
            for (int run = 0; run < 2; run++)
                for (uint64_t i = 0; i < runs.count[run]; i++)
                    if (pass == 0)
                        runs.at[run][i] = (float)slot;
                    else
                        assert_true(runs.at[run][i] == (float)slot);
        }
    tear_down(&bench);
}

TEST(some_rows_of_a_slot_are_a_run_of_u_and_a_run_of_v)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "sfb", (struct core_rules){0}, "sgd", false);
    struct core_ref ref = {
        .space = CORE_FACTORS, .generation = 1, .rank = 2, .first = 1, .count = 2};
    struct store_factors at = store_worker_slot(&bench.store, ref);
    struct store_runs runs = store_worker_runs(&bench.store, ref);
    assert_true(runs.at[0] == at.u + ROWS && runs.at[1] == at.v + COLS);
    assert_true(runs.count[0] == (uint64_t)2 * ROWS && runs.count[1] == (uint64_t)2 * COLS);
    tear_down(&bench);
}

TEST(dense_layers_have_no_slots)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "ps", (struct core_rules){0}, "sgd", false);
    struct store_factors at = store_worker_slot(&bench.store, worker_slot(&bench.worker, 0));
    assert_true(at.u == NULL && at.v == NULL);
    tear_down(&bench);
}

/* ---- gradients ---- */

TEST(a_gradient_is_borrowed_where_no_copy_is_asked_for)
{
    (void)state;
    struct bench bench;
    float memory[MATRIX + 1 + ROWS], *dense = memory, *dense_bias = memory + MATRIX + 1;
    set_up(&bench, "ps", (struct core_rules){0}, "sgd", false);
    store_worker_gradient(&bench.store, 0, dense, dense_bias);
    struct store_runs runs = runs_of(&bench, CORE_GRADIENT, 50, 16);
    assert_true(runs.at[0] == dense + 50 && runs.count[0] == 10);
    assert_true(runs.at[1] == dense_bias && runs.count[1] == 6);
    tear_down(&bench);
}

TEST(a_gradient_that_is_copied_may_change_at_once)
{
    (void)state;
    struct bench bench;
    float dense[MATRIX], dense_bias[ROWS], was[FLOATS];
    set_up(&bench, "ps", (struct core_rules){0}, "sgd", true);
    for (size_t i = 0; i < FLOATS; i++)
        was[i] = *(i < MATRIX ? &dense[i] : &dense_bias[i - MATRIX]) = number(100 + i);
    store_worker_gradient(&bench.store, 0, dense, dense_bias);
    memset(dense, 0, sizeof dense);
    memset(dense_bias, 0, sizeof dense_bias);
    struct store_runs runs = runs_of(&bench, CORE_GRADIENT, 0, FLOATS);
    assert_int_equal(runs.count[0], FLOATS);
    assert_true(store_runs_equal(runs, was));
    tear_down(&bench);
}

/* ---- operations ---- */

/* Part i of the result is in: changed or not, in the stage or in its place. */
static void set_part(struct bench *bench, uint32_t i, bool changed, bool staged)
{
    struct syncer *syncer = &bench->worker.syncers[0];
    bits_remove(syncer->change, i);
    bits_remove(syncer->stage, i);
    if (changed)
        bits_add(syncer->change, i);
    if (staged)
        bits_add(syncer->stage, i);
}

static void fill_stage(const struct bench *bench, float *values, size_t seed)
{
    for (size_t i = 0; i < FLOATS; i++)
        values[i] = number(seed + i);
    store_runs_write(runs_of(bench, CORE_STAGE, 0, FLOATS), values);
}

static void install(bool aggregate)
{
    struct bench bench;
    float stage[FLOATS];
    set_up(&bench, "ps", (struct core_rules){.aggregate = aggregate}, "sgd", false);
    memcpy(bench.result, bench.params, sizeof bench.result);
    struct core_op op = {.kind = CORE_OP_INSTALL, .role = CORE_WORKER};
    uint32_t parts = bench.layout->layers[0].parts;
    assert_true(parts >= 3);
    for (uint32_t shift = 0; shift < 3; shift++) {
        fill_stage(&bench, stage, 1000 * (size_t)(1 + shift));
        for (uint32_t i = 0; i < parts; i++) {
            const struct layout_part *part = &bench.layout->parts[i];
            unsigned way = (i + shift) % 3; /* unchanged, in place, staged */
            set_part(&bench, i, way > 0, way == 2);
            for (uint64_t k = part->first; k < part->first + part->floats; k++)
                if (way == 2)
                    bench.params[k] = stage[k];
                else if (way == 0 && aggregate)
                    bench.params[k] = 0;
        }
        store_worker_op(&bench.store, &bench.worker, &op, bench.scratch);
        if (aggregate)
            assert_memory_equal(bench.result, bench.params, sizeof bench.result);
        else
            check_params(&bench);
    }
    tear_down(&bench);
}

TEST(what_is_staged_is_installed_and_the_rest_stays)
{
    (void)state;
    install(false);
}

TEST(a_mean_of_nothing_is_installed_as_zero)
{
    (void)state;
    install(true);
}

/* The optimiser on plain arrays, float by float. */
static void step_one(struct bench *bench, size_t i, float mean, float lr, uint64_t steps)
{
    const tri_optimizer_ops *ops = bench->optim.ops;
    ops->step(bench->optim.args, &bench->params[i], &bench->optim_state[2 * i], &mean, 1, lr,
              steps);
}

TEST(means_step_the_parts_they_are_of_with_every_optimiser)
{
    (void)state;
    for (size_t o = 0; o < OPTIMIZERS; o++) {
        struct bench bench;
        float stage[FLOATS];
        set_up(&bench, "ps", (struct core_rules){.replicated = true}, optimizers[o], false);
        struct core_op op = {.kind = CORE_OP_LOCAL, .role = CORE_WORKER, .lr = 0.1f};
        for (size_t round = 0; round < 6; round++) {
            fill_stage(&bench, stage, 1000 * (1 + round));
            for (uint32_t i = 0; i < bench.layout->part_count; i++) {
                const struct layout_part *part = &bench.layout->parts[i];
                uint64_t steps = bench.worker.steps[part->unit];
                bool changed = (i + round) % 3 > 0;
                set_part(&bench, i, changed, true);
                for (size_t k = 0; changed && k < part->floats; k++)
                    step_one(&bench, part->first + k, stage[part->first + k], op.lr, steps);
            }
            store_worker_op(&bench.store, &bench.worker, &op, bench.scratch);
            check_params(&bench);
            for (uint32_t u = 0; u < bench.layout->unit_count; u++)
                bench.worker.steps[u] += u + 1;
        }
        tear_down(&bench);
    }
}

/* Every rank but the round's has factors, of 1 to 3 rows; the product in plain loops. */
static uint64_t fill_factors(struct bench *bench, uint64_t clock, float *sum)
{
    struct syncer *syncer = &bench->worker.syncers[0];
    struct gather *gather = &syncer->generation[clock % 2];
    uint64_t count = 0;
    memset(sum, 0, FLOATS * sizeof *sum);
    for (uint32_t r = 0; r < RANKS; r++) {
        uint32_t rows = 1 + (uint32_t)((r + clock) % 3);
        struct core_ref ref = {
            .space = CORE_FACTORS, .generation = (uint32_t)(clock % 2), .rank = r};
        struct store_factors slot = store_worker_slot(&bench->store, ref);
        bits_add(gather->values, r);
        gather->rank[r].rows = rows;
        bits_add(syncer->with, r);
        if (r == clock % RANKS) { /* held, and does not count */
            bits_remove(syncer->with, r);
            rows = 0;
        }
        for (size_t i = 0; i < (size_t)rows * ROWS; i++)
            slot.u[i] = number(7 * clock + 100 * (size_t)r + i);
        for (size_t i = 0; i < (size_t)rows * COLS; i++)
            slot.v[i] = number(11 * clock + 200 * (size_t)r + i);
        for (size_t k = 0; k < rows; k++)
            for (size_t m = 0; m < ROWS; m++) {
                for (size_t n = 0; n < COLS; n++)
                    sum[m * COLS + n] =
                        fmaf(slot.u[k * ROWS + m], slot.v[k * COLS + n], sum[m * COLS + n]);
                sum[MATRIX + m] += slot.u[k * ROWS + m];
            }
        count += rows;
    }
    return count;
}

TEST(factors_are_applied_with_every_optimiser)
{
    (void)state;
    for (size_t o = 0; o < OPTIMIZERS; o++) {
        struct bench bench;
        float sum[FLOATS];
        set_up(&bench, "sfb", (struct core_rules){0}, optimizers[o], false);
        for (uint64_t clock = 0; clock < 6; clock++) {
            struct core_op op = {.kind = CORE_OP_APPLY,
                                 .role = CORE_WORKER,
                                 .clock = clock,
                                 .count = fill_factors(&bench, clock, sum),
                                 .steps = clock,
                                 .lr = 0.1f};
            float share = 1 / (float)op.count, alpha = -op.lr / (float)op.count;
            for (size_t i = 0; i < FLOATS; i++)
                if (o == 0)
                    bench.params[i] = fmaf(alpha, sum[i], bench.params[i]);
                else
                    step_one(&bench, i, i < MATRIX ? share * sum[i] : fmaf(share, sum[i], 0), op.lr,
                             clock);
            store_worker_op(&bench.store, &bench.worker, &op, bench.scratch);
            check_params(&bench);
        }
        tear_down(&bench);
    }
}

TEST(factors_become_a_mean_where_the_caller_steps)
{
    (void)state;
    struct bench bench;
    float sum[FLOATS];
    set_up(&bench, "sfb", (struct core_rules){.aggregate = true}, "sgd", false);
    struct core_op op = {.kind = CORE_OP_APPLY,
                         .role = CORE_WORKER,
                         .clock = 1,
                         .count = fill_factors(&bench, 1, sum)};
    store_worker_op(&bench.store, &bench.worker, &op, bench.scratch);
    for (size_t i = 0; i < FLOATS; i++)
        assert_true(bench.result[i] == 1 / (float)op.count * sum[i]);
    check_params(&bench);
    op.kind = CORE_OP_INSTALL; /* nobody had an update */
    store_worker_op(&bench.store, &bench.worker, &op, bench.scratch);
    for (size_t i = 0; i < FLOATS; i++)
        assert_true(bench.result[i] == 0);
    tear_down(&bench);
}

TEST(an_operation_is_about_what_was_noted_before_it)
{
    (void)state;
    struct bench bench;
    float stage[FLOATS];
    set_up(&bench, "ps", (struct core_rules){0}, "sgd", false);
    struct core_op op = {.kind = CORE_OP_INSTALL, .role = CORE_WORKER};
    fill_stage(&bench, stage, 1000);
    for (uint32_t i = 0; i < bench.layout->part_count; i++)
        set_part(&bench, i, true, true);
    store_worker_note(&bench.store, &bench.worker, &op);
    worker_fini(&bench.worker);
    store_worker_do(&bench.store, &op, bench.scratch);
    memcpy(bench.params, stage, sizeof stage);
    check_params(&bench);
    assert_int_equal(worker_init(&bench.worker, bench.layout, &bench.rules, 0, 0, &mem_libc, NULL),
                     TRI_OK);
    tear_down(&bench);
}

TEST(a_copy_has_the_bias_behind_the_weights)
{
    (void)state;
    struct bench bench;
    float copy[FLOATS];
    set_up(&bench, "sfb", (struct core_rules){0}, "sgd", false);
    struct core_op op = {.kind = CORE_OP_COPY, .role = CORE_WORKER};
    store_worker_copy(&bench.store, op.index, 0, copy);
    assert_memory_equal(copy, bench.params, sizeof copy);
    tear_down(&bench);
}

static void check_planes(const char *scheme, struct core_rules rules)
{
    struct bench bench;
    float plane[FLOATS], copy[FLOATS];
    set_up(&bench, scheme, rules, "adam", false);
    for (uint32_t k = 1; k <= 2; k++)
        for (uint64_t at = 0, piece = 0; at < FLOATS; at += piece) {
            piece = FLOATS - at < 9 ? FLOATS - at : 9; /* across parts and the bias */
            for (size_t i = 0; i < FLOATS; i++)
                plane[i] = number(i + (size_t)99 * k);
            struct store_span span = {at, piece, plane + at};
            store_worker_restore(&bench.store, 0, k, &span);
        }
    for (uint32_t k = 1; k <= 2; k++) {
        store_worker_copy(&bench.store, 0, k, copy);
        for (size_t i = 0; i < FLOATS; i++)
            assert_true(copy[i] == number(i + (size_t)99 * k));
    }
    tear_down(&bench);
}

TEST(planes_of_the_optimiser_come_back_as_they_were_put)
{
    (void)state;
    check_planes("sfb", (struct core_rules){0});
    check_planes("ps", (struct core_rules){.replicated = true});
}

/* ---- memory ---- */

TEST(every_refused_allocation_is_reported_and_leaves_nothing)
{
    (void)state;
    static const char *const schemes[] = {"ps", "sfb", "adam"};
    for (size_t i = 0; i < 6; i++) {
        struct bench bench;
        struct fault fault = {0};
        set_up(&bench, schemes[i % 3], (struct core_rules){.replicated = i >= 3}, "adam", true);
        struct store_layer layer = {bench.weights, bench.bias, NULL};
        struct store_worker_options options = {.layout = bench.layout,
                                               .rules = bench.rules,
                                               .optim = bench.optim,
                                               .layers = &layer,
                                               .copy_gradients = true};
        FAULT_WALK(&fault)
        {
            struct store_worker store;
            tri_error err = {0};
            if (store_worker_init(&store, &options, &fault.mem, &err) != TRI_OK) {
                assert_int_equal(err.status, TRI_ENOMEM);
                assert_non_null(strstr(err.text, "the memory of a worker"));
            }
            store_worker_fini(&store);
        }
        assert_true(fault.run >= 4);
        tear_down(&bench);
    }
}

TEST(plain_sgd_on_the_workers_takes_no_memory_but_the_slots)
{
    (void)state;
    struct bench bench;
    struct fault sgd, adam;
    set_up(&bench, "sfb", (struct core_rules){0}, "adam", false);
    struct store_layer layer = {bench.weights, bench.bias, NULL};
    struct store_worker_options options = {.layout = bench.layout, .layers = &layer};
    struct store_worker store;
    fault_init(&sgd);
    fault_init(&adam);
    options.optim = bench.optim;
    assert_int_equal(store_worker_init(&store, &options, &adam.mem, NULL), TRI_OK);
    store_worker_fini(&store);
    assert_int_equal(optim_read("sgd", &options.optim, NULL), TRI_OK);
    assert_int_equal(store_worker_init(&store, &options, &sgd.mem, NULL), TRI_OK);
    store_worker_fini(&store);
    assert_int_equal(adam.calls, sgd.calls + 2); /* stage and state */
    tear_down(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_may_cross_from_the_weights_to_the_bias),
        cmocka_unit_test(nowhere_has_no_runs),
        cmocka_unit_test(the_result_of_aggregation_is_the_callers_memory),
        cmocka_unit_test(slots_of_factors_lie_apart),
        cmocka_unit_test(some_rows_of_a_slot_are_a_run_of_u_and_a_run_of_v),
        cmocka_unit_test(dense_layers_have_no_slots),
        cmocka_unit_test(a_gradient_is_borrowed_where_no_copy_is_asked_for),
        cmocka_unit_test(a_gradient_that_is_copied_may_change_at_once),
        cmocka_unit_test(what_is_staged_is_installed_and_the_rest_stays),
        cmocka_unit_test(a_mean_of_nothing_is_installed_as_zero),
        cmocka_unit_test(means_step_the_parts_they_are_of_with_every_optimiser),
        cmocka_unit_test(factors_are_applied_with_every_optimiser),
        cmocka_unit_test(factors_become_a_mean_where_the_caller_steps),
        cmocka_unit_test(an_operation_is_about_what_was_noted_before_it),
        cmocka_unit_test(a_copy_has_the_bias_behind_the_weights),
        cmocka_unit_test(planes_of_the_optimiser_come_back_as_they_were_put),
        cmocka_unit_test(every_refused_allocation_is_reported_and_leaves_nothing),
        cmocka_unit_test(plain_sgd_on_the_workers_takes_no_memory_but_the_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
