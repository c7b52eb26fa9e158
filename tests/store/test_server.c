/* The memory of a server: refs, and operations against plain arithmetic. */
#include "store/server.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/bits.h"
#include "lib/books.h"
#include "lib/test.h"
#include "mod/consistency.h"
#include "store/floats.h"

/* More floats in a unit than the optimiser steps at once, and no round number of them. */
enum { ROWS = 61, COLS = 50, MATRIX = ROWS * COLS, FLOATS = MATRIX + ROWS, RANKS = 3 };

static const char *const optimizers[] = {"sgd", "momentum:0.9", "nesterov:0.8", "adagrad:0.1",
                                         "adam:0.9,0.999,0.1"};
enum { OPTIMIZERS = sizeof optimizers / sizeof optimizers[0] };

struct bench {
    struct profile *profile;
    struct book book;
    struct plan *plan;
    struct layout *layout;
    struct core_rules rules;
    struct optim optim;
    struct server server;
    struct store_server store;
    void *scratch;
    /* the layer in plain arrays */
    float params[FLOATS], optim_state[2 * FLOATS], sum[FLOATS];
};

/* Some number, other for every n. */
static float number(size_t n)
{
    return sinf(1.7f * (float)n) + 0.01f;
}

static struct store_server_options options_of(const struct bench *bench)
{
    return (struct store_server_options){
        .layout = bench->layout, .rules = bench->rules, .optim = bench->optim};
}

static const struct layout_unit *unit_of(const struct bench *bench, uint32_t index)
{
    return &bench->layout->units[bench->store.units[index].number];
}

static struct store_runs whole(const struct bench *bench, enum core_space space, uint32_t index,
                               uint32_t rank)
{
    struct core_ref ref = {
        .space = space, .index = index, .rank = rank, .count = unit_of(bench, index)->floats};
    return store_server_runs(&bench->store, ref);
}

static void init_shards(struct bench *bench)
{
    for (size_t i = 0; i < FLOATS; i++)
        bench->params[i] = number(i);
    for (uint32_t i = 0; i < bench->store.count; i++)
        store_runs_write(whole(bench, CORE_SHARD, i, 0), bench->params + unit_of(bench, i)->first);
}

static void set_up(struct bench *bench, const char *scheme, struct core_rules rules,
                   const char *optimizer)
{
    memset(bench, 0, sizeof *bench);
    bench->rules = rules;
    bench->profile = book_one_layer("FC", ROWS, COLS, ROWS);
    bench->book = book_of(bench->profile, RANKS);
    bench->book.forced = scheme_at(book_scheme_index(scheme));
    bench->book.servers = bench->book.colocated = 1;
    bench->book.batch = 4;
    bench->book.chunk_bytes = 8400; /* two units, the first more than one block of a step */
    bench->plan = book_plan(&bench->book);
    assert_int_equal(layout_make(bench->plan, &mem_libc, &bench->layout, NULL), TRI_OK);
    assert_int_equal(optim_read(optimizer, &bench->optim, NULL), TRI_OK);
    assert_int_equal(server_init(&bench->server, bench->layout, &rules, 0, 0, &mem_libc, NULL),
                     TRI_OK);
    struct store_server_options options = options_of(bench);
    assert_int_equal(store_server_init(&bench->store, &options, &mem_libc, NULL), TRI_OK);
    bench->scratch = malloc(store_scratch_bytes(bench->layout));
    assert_non_null(bench->scratch);
    init_shards(bench);
}

static void tear_down(struct bench *bench)
{
    free(bench->scratch);
    store_server_fini(&bench->store);
    server_fini(&bench->server);
    layout_free(bench->layout);
    plan_free(bench->plan);
    profile_free(bench->profile);
}

static void check_shards(const struct bench *bench)
{
    for (uint32_t i = 0; i < bench->store.count; i++)
        assert_true(store_runs_equal(whole(bench, CORE_SHARD, i, 0),
                                     bench->params + unit_of(bench, i)->first));
}

static const struct core_rules in_order = {.reproducible = true};

static struct core_rules each_push(void)
{
    return (struct core_rules){.consistency = consistency_find("asp")};
}

/* ---- refs ---- */

TEST(slots_of_updates_and_replies_lie_apart_on_cache_lines)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "ps", each_push(), "sgd");
    static const enum core_space spaces[] = {CORE_LANDING, CORE_REPLY};
    for (int pass = 0; pass < 2; pass++)
        for (size_t s = 0; s < 2; s++)
            for (uint32_t i = 0; i < bench.store.count; i++)
                for (uint32_t r = 0; r < RANKS; r++) {
                    struct store_runs runs = whole(&bench, spaces[s], i, r);
                    assert_int_equal((uintptr_t)runs.at[0] % FLOATS_ALIGN, 0);
                    for (uint64_t k = 0; k < runs.count[0]; k++)
                        if (pass == 0)
                            runs.at[0][k] = (float)(10 * s + r);
                        else
                            assert_true(runs.at[0][k] == (float)(10 * s + r));
                }
    tear_down(&bench);
}

TEST(a_ref_is_some_floats_of_its_unit)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "ps", in_order, "sgd");
    struct core_ref ref = {.space = CORE_SHARD, .first = 5, .count = 9};
    struct store_runs runs = store_server_runs(&bench.store, ref);
    assert_true(store_runs_equal(runs, bench.params + unit_of(&bench, 0)->first + 5));
    assert_int_equal(store_runs_floats(runs), 9);
    assert_int_equal(store_runs_floats(store_server_runs(&bench.store, (struct core_ref){0})), 0);
    tear_down(&bench);
}

TEST(slots_of_factors_are_runs_of_u_and_of_v)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "adam", in_order, "sgd");
    struct core_ref ref = {.space = CORE_PRODUCTS, .rank = 2, .first = 1, .count = 3};
    struct store_runs runs = store_server_runs(&bench.store, ref);
    struct store_factors slot = store_server_slot(&bench.store, 0, 2);
    assert_true(runs.at[0] == slot.u + ROWS && runs.count[0] == (uint64_t)3 * ROWS);
    assert_true(runs.at[1] == slot.v + COLS && runs.count[1] == (uint64_t)3 * COLS);
    tear_down(&bench);
}

TEST(room_for_landing_is_counted_as_the_plan_does)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "ps", in_order, "sgd");
    assert_int_equal(bench.store.landing_floats, (size_t)RANKS * FLOATS);
    tear_down(&bench);
    set_up(&bench, "ps", (struct core_rules){0}, "sgd");
    assert_int_equal(bench.store.landing_floats, FLOATS);
    tear_down(&bench);
    set_up(&bench, "adam", in_order, "sgd");
    assert_int_equal(bench.store.landing_floats,
                     RANKS * bench.layout->layers[0].factor_rows * (ROWS + COLS));
    tear_down(&bench);
}

/* ---- operations ---- */

/* An update of every rank, into its slot or onto the sum; the sum in plain loops. */
static void sum_updates(struct bench *bench, size_t round)
{
    bool slots = core_has_slots(&bench->rules);
    for (uint32_t r = 0; r < RANKS; r++) {
        float update[FLOATS];
        for (size_t i = 0; i < FLOATS; i++) {
            update[i] = number(1000 * round + 300 * (size_t)r + i);
            bench->sum[i] = r == 0 && slots ? update[i] : bench->sum[i] + update[i];
        }
        for (uint32_t u = 0; u < bench->store.count; u++) {
            const float *of_unit = update + unit_of(bench, u)->first;
            struct core_op op = {
                .kind = CORE_OP_SUM, .role = CORE_SERVER, .index = u, .rank = r, .first = r == 0};
            if (slots) {
                store_runs_write(whole(bench, CORE_LANDING, u, r), of_unit);
                store_server_op(&bench->store, &bench->server, &op, bench->scratch);
            } else {
                store_runs_add(whole(bench, CORE_ADD, u, r), of_unit);
            }
        }
    }
}

/* The optimiser on plain arrays, float by float. */
static void step_one(struct bench *bench, size_t i, float mean, const struct core_op *op)
{
    bench->optim.ops->step(bench->optim.args, &bench->params[i], &bench->optim_state[2 * i], &mean,
                           1, op->lr, op->steps);
}

static void step_units(struct bench *bench, struct core_op op)
{
    for (uint32_t u = 0; u < bench->store.count; u++) {
        op.index = u;
        store_server_op(&bench->store, &bench->server, &op, bench->scratch);
    }
}

static void check_steps(struct core_rules rules, const char *optimizer)
{
    struct bench bench;
    set_up(&bench, "ps", rules, optimizer);
    for (size_t round = 0; round < 4; round++) {
        struct core_op op = {.kind = CORE_OP_STEP,
                             .role = CORE_SERVER,
                             .count = 7 + round,
                             .steps = round,
                             .lr = 0.1f};
        sum_updates(&bench, round);
        step_units(&bench, op);
        for (size_t i = 0; i < FLOATS; i++) {
            float mean = bench.sum[i] / (float)op.count;
            if (rules.aggregate || rules.replicated)
                bench.params[i] = mean;
            else
                step_one(&bench, i, mean, &op);
            bench.sum[i] = 0;
        }
        check_shards(&bench);
    }
    tear_down(&bench);
}

TEST(sums_in_rank_order_step_with_every_optimiser)
{
    (void)state;
    for (size_t o = 0; o < OPTIMIZERS; o++)
        check_steps(in_order, optimizers[o]);
}

TEST(sums_on_arrival_step_with_every_optimiser_and_are_zero_again)
{
    (void)state;
    for (size_t o = 0; o < OPTIMIZERS; o++)
        check_steps((struct core_rules){0}, optimizers[o]);
}

TEST(where_others_step_the_shard_is_the_mean)
{
    (void)state;
    check_steps((struct core_rules){.reproducible = true, .aggregate = true}, "sgd");
    check_steps((struct core_rules){.reproducible = true, .replicated = true}, "adam");
    check_steps((struct core_rules){.aggregate = true}, "sgd");
}

/* Factors of all ranks but the round's; the product in plain loops. */
static uint64_t fill_factors(struct bench *bench, size_t round)
{
    struct gather *gather = &bench->server.units[0].gather;
    uint64_t count = 0;
    memset(bench->sum, 0, sizeof bench->sum);
    for (uint32_t r = 0; r < RANKS; r++) {
        struct store_factors slot = store_server_slot(&bench->store, 0, r);
        uint32_t rows = r == round % RANKS ? 0 : 1 + (uint32_t)((r + round) % 4);
        bits_remove(gather->values, r);
        if (rows > 0)
            bits_add(gather->values, r);
        gather->rank[r].rows = rows;
        for (size_t i = 0; i < (size_t)rows * ROWS; i++)
            slot.u[i] = number(7 * round + 100 * (size_t)r + i);
        for (size_t i = 0; i < (size_t)rows * COLS; i++)
            slot.v[i] = number(11 * round + 200 * (size_t)r + i);
        for (size_t k = 0; k < rows; k++)
            for (size_t m = 0; m < ROWS; m++) {
                for (size_t n = 0; n < COLS; n++)
                    bench->sum[m * COLS + n] =
                        fmaf(slot.u[k * ROWS + m], slot.v[k * COLS + n], bench->sum[m * COLS + n]);
                bench->sum[MATRIX + m] += slot.u[k * ROWS + m];
            }
        count += rows;
    }
    return count;
}

static void check_products(struct core_rules rules, const char *optimizer)
{
    struct bench bench;
    set_up(&bench, "adam", rules, optimizer);
    assert_int_equal(bench.store.count, 1);
    for (size_t round = 0; round < 4; round++) {
        struct core_op op = {.kind = CORE_OP_PRODUCT,
                             .role = CORE_SERVER,
                             .count = fill_factors(&bench, round),
                             .steps = round,
                             .lr = 0.1f};
        float share = 1 / (float)op.count, alpha = -op.lr / (float)op.count;
        bool sgd = strcmp(optimizer, "sgd") == 0;
        step_units(&bench, op);
        for (size_t i = 0; i < FLOATS; i++) {
            float sum = bench.sum[i], mean = i < MATRIX ? share * sum : fmaf(share, sum, 0);
            if (rules.aggregate || rules.replicated)
                bench.params[i] = mean;
            else if (sgd)
                bench.params[i] = fmaf(alpha, sum, bench.params[i]);
            else
                step_one(&bench, i, mean, &op);
        }
        check_shards(&bench);
    }
    tear_down(&bench);
}

TEST(products_step_with_every_optimiser)
{
    (void)state;
    for (size_t o = 0; o < OPTIMIZERS; o++)
        check_products(in_order, optimizers[o]);
}

TEST(where_others_step_the_product_is_a_mean)
{
    (void)state;
    check_products((struct core_rules){.reproducible = true, .aggregate = true}, "sgd");
    check_products((struct core_rules){.reproducible = true, .replicated = true}, "adam");
}

TEST(a_reply_fills_the_slots_of_those_it_is_for)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "ps", each_push(), "sgd");
    static const float nothing[FLOATS] = {0};
    for (uint32_t u = 0; u < bench.store.count; u++)
        for (uint32_t r = 0; r < RANKS; r++) {
            store_runs_write(whole(&bench, CORE_REPLY, u, r), nothing);
            if (r != 1)
                bits_add(bench.server.units[u].replying, r);
        }
    step_units(&bench, (struct core_op){.kind = CORE_OP_REPLY, .role = CORE_SERVER});
    for (uint32_t u = 0; u < bench.store.count; u++)
        for (uint32_t r = 0; r < RANKS; r++)
            assert_true(
                store_runs_equal(whole(&bench, CORE_REPLY, u, r),
                                 r != 1 ? bench.params + unit_of(&bench, u)->first : nothing));
    tear_down(&bench);
}

TEST(a_copy_is_the_shard)
{
    (void)state;
    struct bench bench;
    float copy[FLOATS];
    set_up(&bench, "ps", in_order, "sgd");
    for (uint32_t u = 0; u < bench.store.count; u++) {
        struct core_op op = {.kind = CORE_OP_COPY, .role = CORE_SERVER, .index = u};
        store_server_copy(&bench.store, op.index, 0, copy + unit_of(&bench, u)->first);
    }
    assert_memory_equal(copy, bench.params, sizeof copy);
    tear_down(&bench);
}

/* What the optimiser keeps lies in blocks of its own; a checkpoint knows nothing of these. */
TEST(planes_of_the_optimiser_come_back_as_they_were_put)
{
    (void)state;
    struct bench bench;
    float plane[FLOATS], copy[FLOATS];
    set_up(&bench, "ps", in_order, "adam");
    for (uint32_t u = 0; u < bench.store.count; u++)
        for (uint32_t k = 1; k <= 2; k++) {
            uint64_t n = unit_of(&bench, u)->floats, piece = 0;
            for (size_t i = 0; i < n; i++)
                plane[i] = number(i + (size_t)7 * k + (size_t)1000 * u);
            for (uint64_t at = 0; at < n; at += piece) {
                piece = n - at < 700 ? n - at : 700; /* across blocks */
                struct store_span span = {at, piece, plane + at};
                store_server_restore(&bench.store, u, k, &span);
            }
            store_server_copy(&bench.store, u, k, copy);
            assert_memory_equal(copy, plane, n * sizeof *copy);
            memset(copy, 0, sizeof copy);
            for (uint64_t at = 0; at < n; at += piece) {
                piece = n - at < 300 ? n - at : 300;
                struct store_room room = {at, piece, copy + at};
                store_server_copy_some(&bench.store, u, k, &room);
            }
            assert_memory_equal(copy, plane, n * sizeof *copy);
        }
    /* and where the step looks for them: the first mean of float 0 is the first float of plane 1 */
    assert_true(bench.store.units[0].state[0] == number(7) &&
                bench.store.units[0].state[1] == number(8));
    tear_down(&bench);
}

/* ---- threads ---- */

struct task {
    struct bench *bench;
    uint32_t first; /* unit, and every second after it */
    void *scratch;
};

static void *run_task(void *arg)
{
    const struct task *task = arg;
    for (uint32_t u = task->first; u < task->bench->store.count; u += 2) {
        struct core_op op = {
            .kind = CORE_OP_STEP, .role = CORE_SERVER, .index = u, .count = 7, .lr = 0.1f};
        store_server_do(&task->bench->store, &op, task->scratch);
    }
    return NULL;
}

TEST(units_may_step_on_several_threads_at_once)
{
    (void)state;
    static struct bench bench;
    pthread_t threads[2];
    struct task tasks[2];
    set_up(&bench, "ps", in_order, "adam");
    assert_true(bench.store.count > 1);
    sum_updates(&bench, 0);
    for (uint32_t i = 0; i < 2; i++) {
        tasks[i] = (struct task){&bench, i, malloc(store_scratch_bytes(bench.layout))};
        assert_int_equal(pthread_create(&threads[i], NULL, run_task, &tasks[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        free(tasks[i].scratch);
    }
    struct core_op op = {.count = 7, .lr = 0.1f};
    for (size_t i = 0; i < FLOATS; i++)
        step_one(&bench, i, bench.sum[i] / 7, &op);
    check_shards(&bench);
    tear_down(&bench);
}

/* ---- memory ---- */

TEST(every_refused_allocation_is_reported_and_leaves_nothing)
{
    (void)state;
    static const char *const schemes[] = {"ps", "adam"};
    for (size_t i = 0; i < 4; i++) {
        struct bench bench;
        struct fault fault = {0};
        set_up(&bench, schemes[i % 2], i < 2 ? in_order : each_push(), "adam");
        struct store_server_options options = options_of(&bench);
        FAULT_WALK(&fault)
        {
            struct store_server store;
            tri_error err = {0};
            if (store_server_init(&store, &options, &fault.mem, &err) != TRI_OK) {
                assert_int_equal(err.status, TRI_ENOMEM);
                assert_non_null(strstr(err.text, "the memory of a server"));
            }
            store_server_fini(&store);
        }
        assert_true(fault.run >= 6);
        tear_down(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_of_updates_and_replies_lie_apart_on_cache_lines),
        cmocka_unit_test(a_ref_is_some_floats_of_its_unit),
        cmocka_unit_test(slots_of_factors_are_runs_of_u_and_of_v),
        cmocka_unit_test(room_for_landing_is_counted_as_the_plan_does),
        cmocka_unit_test(sums_in_rank_order_step_with_every_optimiser),
        cmocka_unit_test(sums_on_arrival_step_with_every_optimiser_and_are_zero_again),
        cmocka_unit_test(where_others_step_the_shard_is_the_mean),
        cmocka_unit_test(products_step_with_every_optimiser),
        cmocka_unit_test(where_others_step_the_product_is_a_mean),
        cmocka_unit_test(a_reply_fills_the_slots_of_those_it_is_for),
        cmocka_unit_test(a_copy_is_the_shard),
        cmocka_unit_test(planes_of_the_optimiser_come_back_as_they_were_put),
        cmocka_unit_test(units_may_step_on_several_threads_at_once),
        cmocka_unit_test(every_refused_allocation_is_reported_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
