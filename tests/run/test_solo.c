/* run/solo: a job of one worker against plain arithmetic. */
#include "run/solo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/test.h"

enum {
    ROWS = 7,
    COLS = 5,
    MATRIX = ROWS * COLS,
    ALL = MATRIX + ROWS,
    K = 4,
    U = K * ROWS,
    V = K * COLS,
    LAYERS = 2,
    GIVEN = 6,
    VALUES = GIVEN * COLS
};

static const char *const optimizers[] = {"sgd", "momentum:0.9", "nesterov:0.8", "adagrad:0.1",
                                         "adam:0.9,0.999,0.1"};
enum { OPTIMIZERS = sizeof optimizers / sizeof optimizers[0] };

/* A job of two layers, the second without a bias. */
struct one {
    struct solo *solo;
    struct agreement *agreement;
    float weights[LAYERS][MATRIX], bias[ROWS], result[LAYERS][ALL];
    struct rng rng;
};

static const struct agree_layer layers[LAYERS] = {
    {.name = "a", .kind = TRI_FC, .rows = ROWS, .cols = COLS, .bias = true, .max_factor_rows = K},
    {.name = "b", .kind = TRI_EMBED, .rows = ROWS, .cols = COLS},
};

static void fill(struct rng *rng, float *floats, size_t count)
{
    for (size_t i = 0; i < count; i++)
        floats[i] = (float)(2 * rng_unit(rng) - 1);
}

static tri_status try_open(struct one *one, const char *optimizer, bool aggregate,
                           const struct mem *mem, tri_error *err)
{
    struct agree_options options = {.workers = 1,
                                    .servers = 1,
                                    .colocated = 1,
                                    .bits_s = 1e9,
                                    .flops_s = 1e9,
                                    .reproducible = true,
                                    .aggregate = aggregate,
                                    .rule = PLAN_TIME,
                                    .optimizer = optimizer};
    memset(one, 0, sizeof *one);
    rng_init(&one->rng, 11);
    fill(&one->rng, one->weights[0], MATRIX);
    fill(&one->rng, one->weights[1], MATRIX);
    fill(&one->rng, one->bias, ROWS);
    struct store_layer memory[LAYERS] = {
        {one->weights[0], one->bias, aggregate ? one->result[0] : NULL},
        {one->weights[1], NULL, aggregate ? one->result[1] : NULL}};
    struct agreement *agreement = NULL;
    tri_status status = agree_make(layers, LAYERS, &options, mem, &agreement, err);
    if (status == TRI_OK)
        status = solo_open(agreement, memory, mem, &one->solo, err);
    one->agreement = status == TRI_OK ? agreement : NULL;
    return status;
}

static void open_one(struct one *one, const char *optimizer, bool aggregate)
{
    tri_error err = {0};
    if (try_open(one, optimizer, aggregate, &mem_libc, &err) != TRI_OK)
        fail_msg("%s", err.text);
}

/* What layer a should be, in doubles where that is easy and by the optimiser's own step. */
struct plain {
    float params[ALL], state[2 * ALL];
    uint64_t steps;
};

static void plain_begin(struct plain *plain, const struct one *one)
{
    memset(plain, 0, sizeof *plain);
    memcpy(plain->params, one->weights[0], sizeof one->weights[0]);
    memcpy(plain->params + MATRIX, one->bias, sizeof one->bias);
}

static void plain_step(struct plain *plain, const struct optim *optim, const double *sum,
                       uint32_t count, float lr)
{
    float mean[ALL];
    for (size_t i = 0; i < ALL; i++)
        mean[i] = (float)(sum[i] / count);
    optim->ops->step(optim->args, plain->params, plain->state, mean, ALL, lr, plain->steps++);
}

static void check_near(const struct plain *plain, const struct one *one)
{
    for (size_t i = 0; i < ALL; i++) {
        float got = i < MATRIX ? one->weights[0][i] : one->bias[i - MATRIX];
        if (!(fabsf(got - plain->params[i]) <= 2e-5f))
            fail_msg("parameter %zu is %g, not %g", i, (double)got, (double)plain->params[i]);
    }
}

/* An update of layer a in one of the three forms, and the sum that it stands for. */
struct given {
    float dense[ALL], u[U], v[V], values[VALUES];
    uint32_t numbers[GIVEN];
    double sum[ALL];
    struct update update;
};

enum form { DENSE, FACTORS, ROW_LIST, FORMS };

static void make_dense(struct given *given, struct rng *rng)
{
    fill(rng, given->dense, ALL);
    for (size_t i = 0; i < ALL; i++)
        given->sum[i] = (double)given->dense[i];
    given->update.dense = given->dense;
    given->update.dense_bias = given->dense + MATRIX;
}

static void make_factors(struct given *given, struct rng *rng)
{
    fill(rng, given->u, U);
    fill(rng, given->v, V);
    for (size_t k = 0; k < K; k++)
        for (size_t i = 0; i < ROWS; i++) {
            double u = (double)given->u[k * ROWS + i];
            for (size_t j = 0; j < COLS; j++)
                given->sum[i * COLS + j] += u * (double)given->v[k * COLS + j];
            given->sum[MATRIX + i] += u;
        }
    given->update.u = given->u;
    given->update.v = given->v;
    given->update.factor_rows = K;
}

/* Some rows twice, some not at all; the bias gets nothing. */
static void make_rows(struct given *given, struct rng *rng)
{
    fill(rng, given->values, VALUES);
    for (size_t i = 0; i < GIVEN; i++) {
        given->numbers[i] = (uint32_t)rng_below(rng, ROWS);
        for (size_t j = 0; j < COLS; j++)
            given->sum[(size_t)given->numbers[i] * COLS + j] += (double)given->values[i * COLS + j];
    }
    given->update.row_values = given->values;
    given->update.row_numbers = given->numbers;
    given->update.row_count = GIVEN;
}

static void make_given(struct given *given, struct rng *rng, enum form form, bool busy)
{
    memset(given, 0, sizeof *given);
    if (form == DENSE)
        make_dense(given, rng);
    else if (form == FACTORS)
        make_factors(given, rng);
    else
        make_rows(given, rng);
    given->update.count = 1 + (uint32_t)rng_below(rng, 5);
    given->update.lr = 0.1f;
    given->update.params_busy = busy;
}

/* What was copied may be overwritten at once. */
static void forget(struct given *given)
{
    for (size_t i = 0; i < U; i++)
        given->u[i] = NAN;
    for (size_t i = 0; i < V; i++)
        given->v[i] = NAN;
    for (size_t i = 0; i < VALUES; i++)
        given->values[i] = NAN;
    memset(given->numbers, 0xff, sizeof given->numbers);
}

TEST(every_optimizer_steps_with_every_form_as_plain_code_would)
{
    (void)state;
    for (size_t o = 0; o < OPTIMIZERS; o++)
        for (int form = 0; form < FORMS; form++)
            for (int busy = 0; busy < 2; busy++) {
                static struct one one;
                static struct given given;
                struct plain plain;
                open_one(&one, optimizers[o], false);
                plain_begin(&plain, &one);
                for (int clock = 0; clock < 8; clock++) {
                    make_given(&given, &one.rng, (enum form)form, busy);
                    assert_int_equal(solo_update(one.solo, 0, &given.update, NULL), TRI_OK);
                    forget(&given);
                    plain_step(&plain, &one.agreement->optim, given.sum,
                               (uint32_t)given.update.count, 0.1f);
                    assert_int_equal(solo_clock(one.solo), clock + 1);
                    solo_sync(one.solo, 0);
                    check_near(&plain, &one);
                }
                solo_close(one.solo);
            }
}

TEST(busy_parameters_stay_until_sync_or_clock)
{
    (void)state;
    for (int form = 0; form < FORMS; form++)
        for (int by_clock = 0; by_clock < 2; by_clock++) {
            static struct one one;
            static struct given given;
            float before[MATRIX];
            open_one(&one, "sgd", false);
            memcpy(before, one.weights[0], sizeof before);
            make_given(&given, &one.rng, (enum form)form, true);
            assert_int_equal(solo_update(one.solo, 0, &given.update, NULL), TRI_OK);
            assert_memory_equal(one.weights[0], before, sizeof before);
            if (by_clock)
                (void)solo_clock(one.solo);
            else
                solo_sync(one.solo, 0);
            assert_memory_not_equal(one.weights[0], before, sizeof before);
            solo_close(one.solo);
        }
}

TEST(a_mean_is_what_comes_back_in_aggregate_mode)
{
    (void)state;
    for (int form = 0; form < FORMS; form++) {
        static struct one one;
        static struct given given;
        float before[MATRIX];
        open_one(&one, NULL, true);
        memcpy(before, one.weights[0], sizeof before);
        make_given(&given, &one.rng, (enum form)form, form == DENSE);
        assert_int_equal(solo_update(one.solo, 0, &given.update, NULL), TRI_OK);
        (void)solo_clock(one.solo);
        solo_sync(one.solo, 0);
        for (size_t i = 0; i < ALL; i++)
            assert_true(fabs((double)one.result[0][i] - given.sum[i] / (double)given.update.count) <
                        1e-5);
        assert_memory_equal(one.weights[0], before, sizeof before);
        solo_sync(one.solo, 1);
        for (size_t i = 0; i < MATRIX; i++)
            assert_true(one.result[1][i] == 0); /* it got none */
        (void)solo_clock(one.solo);
        solo_sync(one.solo, 0);
        for (size_t i = 0; i < ALL; i++)
            assert_true(one.result[0][i] == 0); /* nor this one, this time */
        solo_close(one.solo);
    }
}

TEST(a_second_update_is_refused_until_the_layer_is_synced_and_the_clock_ticks)
{
    (void)state;
    static struct one one;
    static struct given given;
    tri_error err = {0};
    open_one(&one, "sgd", false);
    make_given(&given, &one.rng, DENSE, false);
    assert_int_equal(solo_update(one.solo, 0, &given.update, &err), TRI_OK);
    float after[MATRIX];
    memcpy(after, one.weights[0], sizeof after);
    assert_int_equal(solo_update(one.solo, 0, &given.update, &err), TRI_EARG);
    assert_non_null(strstr(err.text, "layer 'a'"));
    solo_sync(one.solo, 0);
    assert_int_equal(solo_update(one.solo, 0, &given.update, &err), TRI_EARG); /* same clock */
    (void)solo_clock(one.solo);
    assert_memory_equal(one.weights[0], after, sizeof after);
    assert_int_equal(solo_update(one.solo, 0, &given.update, &err), TRI_OK);
    (void)solo_clock(one.solo);
    assert_int_equal(solo_update(one.solo, 0, &given.update, &err), TRI_EARG); /* not synced */
    solo_sync(one.solo, 0);
    assert_int_equal(solo_update(one.solo, 0, &given.update, &err), TRI_OK);
    solo_close(one.solo);
}

TEST(a_clock_without_updates_changes_nothing)
{
    (void)state;
    static struct one one;
    float before[LAYERS][MATRIX], bias[ROWS];
    open_one(&one, "momentum:0.9", false);
    memcpy(before, one.weights, sizeof before);
    memcpy(bias, one.bias, sizeof bias);
    for (uint64_t clock = 1; clock <= 3; clock++) {
        assert_int_equal(solo_clock(one.solo), clock);
        solo_sync(one.solo, 0);
        solo_sync(one.solo, 1);
    }
    assert_memory_equal(one.weights, before, sizeof before);
    assert_memory_equal(one.bias, bias, sizeof bias);
    solo_close(one.solo);
}

TEST(rows_that_are_not_there_are_refused_and_may_be_given_again)
{
    (void)state;
    static struct one one;
    static struct given given;
    tri_error err = {0};
    open_one(&one, "sgd", false);
    make_given(&given, &one.rng, ROW_LIST, false);
    given.numbers[5] = ROWS;
    assert_int_equal(solo_update(one.solo, 0, &given.update, &err), TRI_EARG);
    assert_non_null(strstr(err.text, "no row 7"));
    given.numbers[5] = ROWS - 1;
    assert_int_equal(solo_update(one.solo, 0, &given.update, &err), TRI_OK);
    solo_close(one.solo);
}

TEST(memory_that_is_refused_is_told_and_nothing_leaks)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        static struct one one;
        static struct given given;
        tri_error err = {0};
        tri_status status = try_open(&one, "adam", false, &fault.mem, &err);
        for (int form = FACTORS; form < FORMS && status == TRI_OK; form++) {
            make_given(&given, &one.rng, (enum form)form, true);
            status = solo_update(one.solo, 0, &given.update, &err);
            (void)solo_clock(one.solo);
            solo_sync(one.solo, 0);
        }
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        solo_close(one.solo);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer_steps_with_every_form_as_plain_code_would),
        cmocka_unit_test(busy_parameters_stay_until_sync_or_clock),
        cmocka_unit_test(a_mean_is_what_comes_back_in_aggregate_mode),
        cmocka_unit_test(a_second_update_is_refused_until_the_layer_is_synced_and_the_clock_ticks),
        cmocka_unit_test(a_clock_without_updates_changes_nothing),
        cmocka_unit_test(rows_that_are_not_there_are_refused_and_may_be_given_again),
        cmocka_unit_test(memory_that_is_refused_is_told_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
