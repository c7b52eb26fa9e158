/* api: mode = local. Ranks are threads of this process, each with a job handle of its own. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/test.h"
#include "trident/trident.h"

enum { ROWS = 24, COLS = 5, MATRIX = ROWS * COLS, K = 2, RANKS = 3 };
enum { FC, EMBED, LAYERS };

struct rank {
    int32_t number;
    const struct plan *plan;
    tri_job *job;
    tri_status status;
    tri_error err;
    float weights[LAYERS][MATRIX], bias[ROWS];
    float mean; /* of a layer at the end */
    uint32_t crc;
    uint64_t applied, first;
    uint64_t learned, others; /* steps that it has made itself, and those of others among them */
    uint64_t kept[2];
};

/* What the ranks do. */
struct plan {
    const char *local, *optimizer, *folder;
    bool locked, copies, in_place, resume, reads_pending, learns;
    uint32_t ranks;
    uint64_t clocks;
};

/* ---- surroundings ---- */

static unsigned job_number;

static int set_up(void **state)
{
    static const char *const names[] = {
        "TRIDENT_RANK",        "TRIDENT_WORKERS",      "RANK",
        "WORLD_SIZE",          "TRIDENT_LOCAL",        "TRIDENT_LOCKED",
        "TRIDENT_CONSISTENCY", "TRIDENT_LOCAL_SERVER", "TRIDENT_LOCAL_COPIES",
        "TRIDENT_OPTIMIZER",   "TRIDENT_LOCAL_COMMON"};
    char job[64];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]);
    (void)snprintf(job, sizeof job, "api test/%ld-%u", (long)getpid(), job_number++);
    (void)setenv("TRIDENT_JOB", job, 1);
    (void)setenv("TRIDENT_MODE", "local", 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unsetenv("TRIDENT_MODE");
    (void)unsetenv("TRIDENT_JOB");
    return 0;
}

/* ---- a rank ---- */

static tri_status open_rank(struct rank *rank)
{
    const struct plan *plan = rank->plan;
    tri_options options = TRI_OPTIONS_INIT;
    options.rank = rank->number;
    options.workers = plan->ranks;
    options.optimizer = plan->optimizer;
    options.timeout_ms = 20000;
    options.checkpoint = plan->folder;
    options.checkpoint_every = 1;
    options.resume = plan->resume ? 1 : 0;
    return tri_open(&options, &rank->job, &rank->err);
}

static tri_status start_rank(struct rank *rank)
{
    tri_layer_info fc = TRI_LAYER_INIT, embed = TRI_LAYER_INIT;
    tri_keep_info keep = TRI_KEEP_INIT;
    uint32_t number;
    fc.name = "fc";
    fc.rows = embed.rows = ROWS;
    fc.cols = embed.cols = COLS;
    fc.max_factor_rows = K;
    fc.weights = rank->weights[FC];
    fc.bias = rank->bias;
    fc.reads_pending = rank->plan->reads_pending;
    embed.name = "embed";
    embed.kind = TRI_EMBED;
    embed.weights = rank->weights[EMBED];
    keep.name = "mine";
    keep.type = TRI_U64;
    keep.values = rank->kept;
    keep.count = 2;
    tri_status status = tri_layer(rank->job, &fc, &number, &rank->err);
    if (status == TRI_OK)
        status = tri_layer(rank->job, &embed, &number, &rank->err);
    if (status == TRI_OK)
        status = tri_keep(rank->job, &keep, &rank->err);
    return status == TRI_OK ? tri_start(rank->job, &rank->err) : status;
}

/* parameters -= rate x (its own gradient, and those of others) */
static void step_by(float rate, const float *u, const float *v, float *weights)
{
    for (size_t m = 0; m < ROWS; m++) {
        for (size_t n = 0; n < COLS; n++)
            weights[m * COLS + n] -= rate * u[m] * v[n];
        weights[MATRIX + m] -= rate * u[m];
    }
}

static tri_status learn(struct rank *rank, const tri_update_info *update)
{
    float *weights, *bias;
    tri_learning learning = {.steps = 9, .count = 9};
    const float rate = update->lr / (float)update->count;
    tri_status status = tri_learn(rank->job, FC, update, &learning, &rank->err);
    if (status == TRI_OK)
        status = tri_shared(rank->job, FC, &weights, &bias, &rank->err);
    if (status != TRI_OK || learning.steps == 0)
        return status;
    rank->learned++;
    rank->others += learning.count;
    for (uint32_t k = 0; k < K; k++)
        step_by(rate, update->u + (size_t)k * ROWS, update->v + (size_t)k * COLS, weights);
    for (uint32_t k = 0; k < learning.count; k++)
        step_by(rate * learning.others[k].by, learning.others[k].u, learning.others[k].v, weights);
    return TRI_OK;
}

/* All values of fc go down by 1 with lr 1, whatever the form; so do two rows of embed. */
static tri_status give(struct rank *rank, uint64_t clock, uint32_t samples)
{
    const bool learns = rank->plan->learns;
    float u[K * ROWS], v[K * COLS], dense[MATRIX], bias[ROWS], rows[2 * COLS];
    const uint32_t numbers[] = {1, 7};
    tri_update_info fc = TRI_UPDATE_INIT, embed = TRI_UPDATE_INIT;
    for (int i = 0; i < K * ROWS; i++)
        u[i] = (learns ? 2 : 1) * (float)samples / K;
    for (int i = 0; i < K * COLS; i++)
        v[i] = 1;
    for (size_t i = 0; i < MATRIX; i++)
        dense[i] = (float)samples;
    for (size_t i = 0; i < ROWS; i++)
        bias[i] = (float)samples;
    for (size_t i = 0; i < 2 * (size_t)COLS; i++)
        rows[i] = (float)samples;
    fc.lr = learns ? 0.5F : 1; /* as many steps, by another rate than that of the other layer */
    embed.lr = 1;
    fc.count = embed.count = samples;
    if (clock % 2 == 0 || strcmp(tri_scheme_of(rank->job, FC), "sfb") == 0) {
        fc.u = u;
        fc.v = v;
        fc.factor_rows = K;
    } else {
        fc.dense = dense;
        fc.dense_bias = bias;
    }
    embed.row_values = rows;
    embed.row_numbers = numbers;
    embed.row_count = 2;
    tri_status status = tri_update(rank->job, EMBED, &embed, &rank->err);
    if (status != TRI_OK)
        return status;
    return learns ? learn(rank, &fc) : tri_update(rank->job, FC, &fc, &rank->err);
}

static tri_status step_in_place(struct rank *rank, float *places[LAYERS])
{
    tri_status status = tri_step(rank->job, &rank->err);
    for (size_t i = 0; i < MATRIX + ROWS && status == TRI_OK; i++)
        places[FC][i] -= 1;
    for (size_t i = 0; i < COLS && status == TRI_OK; i++) {
        places[EMBED][COLS + i] -= 1;
        places[EMBED][(size_t)7 * COLS + i] -= 1;
    }
    return status;
}

static tri_status train(struct rank *rank)
{
    float *places[LAYERS] = {rank->weights[FC], rank->weights[EMBED]}, *bias = NULL;
    tri_status status = TRI_OK;
    tri_stats stats;
    tri_get_stats(rank->job, &stats);
    uint64_t clock = rank->first = stats.clocks;
    status = tri_save(rank->job, rank->plan->clocks, &rank->err);
    for (uint32_t i = 0; i < LAYERS && status == TRI_OK; i++)
        if (rank->plan->in_place || (rank->plan->learns && i == FC))
            status = tri_shared(rank->job, i, &places[i], &bias, &rank->err);
    while (clock < rank->plan->clocks && status == TRI_OK) {
        for (uint32_t i = 0; i < LAYERS && status == TRI_OK; i++)
            status = tri_sync(rank->job, i, &rank->err);
        if (status == TRI_OK)
            status = rank->plan->in_place ? step_in_place(rank, places)
                                          : give(rank, clock, 1 + (uint32_t)rank->number);
        rank->kept[0]++;
        if (status == TRI_OK)
            status = tri_clock(rank->job, &clock, &rank->err);
    }
    if (status == TRI_OK)
        status = tri_finish(rank->job, &rank->err);
    if (status == TRI_OK)
        status = tri_checksum(rank->job, &rank->crc, &rank->err);
    for (size_t i = 0; i < MATRIX && status == TRI_OK; i++)
        rank->mean += places[FC][i] / MATRIX;
    if (rank->plan->in_place && status == TRI_OK) /* what it ends with is checked by the caller */
        memcpy(rank->weights[EMBED], places[EMBED], sizeof rank->weights[EMBED]);
    return status;
}

static uint64_t ask(const struct rank *rank, const char *name)
{
    char text[32] = "";
    assert_int_equal(tri_query(rank->job, name, text, sizeof text, NULL), TRI_OK);
    return strtoull(text, NULL, 10);
}

static void *live(void *ctx)
{
    struct rank *rank = ctx;
    rank->status = open_rank(rank);
    if (rank->status == TRI_OK)
        rank->status = start_rank(rank);
    if (rank->status == TRI_OK)
        rank->status = train(rank);
    if (rank->status == TRI_OK)
        rank->applied = ask(rank, "gradients.applied");
    tri_close(rank->job);
    return NULL;
}

static void run(const struct plan *plan, struct rank ranks[RANKS])
{
    pthread_t threads[RANKS];
    (void)setenv("TRIDENT_LOCAL", plan->local, 1);
    (void)setenv("TRIDENT_LOCKED", plan->locked ? "on" : "off", 1);
    (void)setenv("TRIDENT_LOCAL_COPIES", plan->copies ? "on" : "off", 1);
    memset(ranks, 0, RANKS * sizeof *ranks);
    for (uint32_t i = 0; i < plan->ranks; i++) {
        ranks[i].number = (int32_t)i;
        ranks[i].plan = plan;
        for (size_t k = 0; k < MATRIX; k++)
            ranks[i].weights[FC][k] = ranks[i].weights[EMBED][k] = i == 0 ? 5 : -77;
        for (size_t k = 0; k < ROWS; k++)
            ranks[i].bias[k] = i == 0 ? 5 : -77;
        assert_int_equal(pthread_create(&threads[i], NULL, live, &ranks[i]), 0);
    }
    for (uint32_t i = 0; i < plan->ranks; i++) {
        (void)pthread_join(threads[i], NULL);
        if (ranks[i].status != TRI_OK)
            fail_msg("rank %u: %s: %s", (unsigned)i, tri_status_name(ranks[i].status),
                     ranks[i].err.text);
    }
}

/* Rank 0's values, less 1 for each step. */
static void check_end(const struct rank *rank, float steps)
{
    assert_float_equal(rank->mean, 5 - steps, 1e-4);
    for (size_t row = 0; row < ROWS; row++)
        assert_float_equal(rank->weights[EMBED][row * COLS], row == 1 || row == 7 ? 5 - steps : 5,
                           1e-4);
}

/* ---- what comes out ---- */

TEST(every_gradient_is_in_the_parameters_of_all_ranks)
{
    static const char *const modes[] = {"server", "direct"};
    (void)state;
    for (size_t m = 0; m < 2; m++)
        for (int i = 0; i < 4; i++) {
            struct rank ranks[RANKS];
            const struct plan plan = {.local = modes[m],
                                      .locked = i % 2 == 1 || m == 1, /* else steps may be lost */
                                      .copies = i / 2 == 1,
                                      .ranks = RANKS,
                                      .clocks = 12};
            run(&plan, ranks);
            for (uint32_t r = 0; r < RANKS; r++) {
                check_end(&ranks[r], RANKS * 12);
                assert_int_equal(ranks[r].crc, ranks[0].crc);
                assert_int_equal(ranks[r].applied, RANKS * 12);
            }
            set_up(state);
        }
}

TEST(with_replicas_every_gradient_is_in_the_copy_of_each_rank)
{
    struct rank ranks[RANKS];
    const struct plan plan = {.local = "replicas", .ranks = RANKS, .clocks = 40};
    (void)state;
    run(&plan, ranks);
    for (uint32_t r = 0; r < RANKS; r++) {
        check_end(&ranks[r], RANKS * 40);
        assert_int_equal(ranks[r].applied, RANKS * 40);
    }
}

static void refused(tri_status status, const tri_error *err, const char *text)
{
    if (status != TRI_EARG || strstr(err->text, text) == NULL)
        fail_msg("%s: '%s' instead of '%s'", tri_status_name(status), err->text, text);
}

static void open_one(struct rank *rank, struct plan *plan)
{
    memset(rank, 0, sizeof *rank);
    rank->plan = plan;
    assert_int_equal(open_rank(rank), TRI_OK);
    assert_int_equal(start_rank(rank), TRI_OK);
    assert_int_equal(tri_sync(rank->job, FC, NULL), TRI_OK);
    assert_int_equal(tri_sync(rank->job, EMBED, NULL), TRI_OK);
}

/* Each gradient is in each copy once, whoever puts it there; ranks count and weigh differently. */
TEST(with_replicas_the_program_may_make_the_steps)
{
    struct rank ranks[RANKS];
    const struct plan plan = {.local = "replicas", .ranks = RANKS, .clocks = 60, .learns = true};
    (void)state;
    run(&plan, ranks);
    for (uint32_t r = 0; r < RANKS; r++) {
        check_end(&ranks[r], RANKS * 60);
        assert_int_equal(ranks[r].applied, RANKS * 60);
        assert_true(ranks[r].learned > 0 && ranks[r].learned <= 60);
    }
}

/* By turns in one thread: the second is told of what the first has published. */
TEST(the_samples_of_others_come_with_what_they_count)
{
    struct plan plan = {.ranks = 2, .learns = true};
    struct rank ranks[2];
    uint64_t clock;
    (void)state;
    (void)setenv("TRIDENT_LOCAL", "replicas", 1);
    for (int r = 0; r < 2; r++) {
        ranks[r] = (struct rank){.number = r, .plan = &plan};
        assert_int_equal(open_rank(&ranks[r]), TRI_OK);
        assert_int_equal(start_rank(&ranks[r]), TRI_OK);
        float *weights, *bias;
        assert_int_equal(tri_shared(ranks[r].job, FC, &weights, &bias, NULL), TRI_OK);
        assert_int_equal(tri_sync(ranks[r].job, FC, NULL), TRI_OK);
        assert_int_equal(tri_sync(ranks[r].job, EMBED, NULL), TRI_OK);
    }
    for (int r = 0; r < 2; r++) {
        assert_int_equal(give(&ranks[r], 0, 1 + (uint32_t)r), TRI_OK);
        assert_int_equal(tri_clock(ranks[r].job, &clock, NULL), TRI_OK);
        assert_int_equal(ranks[r].others, r * K);
    }
    for (int r = 0; r < 2; r++) {
        float *weights, *bias;
        assert_int_equal(tri_sync(ranks[r].job, FC, NULL), TRI_OK);
        assert_int_equal(tri_shared(ranks[r].job, FC, &weights, &bias, NULL), TRI_OK);
        for (size_t i = 0; i < MATRIX; i++)
            assert_float_equal(weights[i], -1 - (float)r, 1e-5); /* rank 0 has not looked again */
        assert_float_equal(bias[ROWS - 1], -1 - (float)r, 1e-5);
    }
    tri_close(ranks[1].job);
    assert_int_equal(tri_finish(ranks[0].job, NULL), TRI_OK);
    tri_close(ranks[0].job);
}

TEST(elsewhere_learning_is_an_update)
{
    struct plan plan = {.ranks = 1};
    struct rank rank;
    float u[K * ROWS], v[K * COLS];
    tri_update_info update = TRI_UPDATE_INIT;
    tri_learning learning;
    uint64_t clock;
    (void)state;
    for (int i = 0; i < K * ROWS; i++)
        u[i] = 1;
    for (int i = 0; i < K * COLS; i++)
        v[i] = 1;
    update.u = u;
    update.v = v;
    update.factor_rows = K;
    update.lr = 1.0F / K;
    for (int mode = 0; mode < 3; mode++) {
        (void)setenv("TRIDENT_MODE", mode == 0 ? "network" : "local", 1);
        (void)setenv("TRIDENT_LOCAL", mode == 1 ? "direct" : "replicas", 1);
        open_one(&rank, &plan);
        const float before = rank.weights[FC][0]; /* which is where it is read: no place is asked */
        for (int i = 0; i < 3; i++) {
            learning = (tri_learning){.steps = 9, .count = 9};
            assert_int_equal(tri_sync(rank.job, FC, &rank.err), TRI_OK);
            assert_int_equal(tri_learn(rank.job, FC, &update, &learning, &rank.err), TRI_OK);
            assert_int_equal(learning.steps, 0);
            assert_int_equal(learning.count, 0);
            assert_int_equal(tri_clock(rank.job, &clock, &rank.err), TRI_OK);
        }
        refused(tri_learn(rank.job, FC, NULL, &learning, &rank.err), &rank.err, "tri_learn got no");
        refused(tri_learn(rank.job, FC, &update, NULL, &rank.err), &rank.err, "nowhere to say");
        assert_int_equal(tri_finish(rank.job, &rank.err), TRI_OK);
        assert_float_equal(rank.weights[FC][0], before - 3, 1e-4);
        tri_close(rank.job);
    }
}

TEST(a_round_is_one_step_with_the_mean_of_all_samples)
{
    (void)state;
    for (int copies = 0; copies < 2; copies++) {
        struct rank ranks[RANKS];
        const struct plan plan = {
            .local = "sync", .ranks = RANKS, .clocks = 9, .copies = copies == 1};
        run(&plan, ranks);
        for (uint32_t i = 0; i < RANKS; i++) {
            check_end(&ranks[i], 9);
            assert_int_equal(ranks[i].crc, ranks[0].crc);
        }
        set_up(state);
    }
}

TEST(a_program_may_read_and_step_in_place)
{
    struct rank ranks[RANKS];
    const struct plan plan = {.local = "direct", .ranks = 1, .clocks = 20, .in_place = true};
    (void)state;
    run(&plan, ranks);
    check_end(&ranks[0], 20);
    assert_int_equal(ranks[0].applied, 20);
}

TEST(a_job_goes_on_from_its_checkpoint)
{
    static const char *const modes[] = {"server", "direct", "sync"};
    (void)state;
    for (size_t m = 0; m < 3; m++) {
        char folder[] = "/tmp/trident-api-local-XXXXXX", command[80];
        struct rank ranks[RANKS];
        assert_non_null(mkdtemp(folder));
        struct plan plan = {.local = modes[m],
                            .ranks = 1,
                            .clocks = 4,
                            .folder = folder,
                            .optimizer = "momentum:0.5"};
        run(&plan, ranks);
        const float then = ranks[0].weights[FC][3];
        plan.resume = true;
        plan.clocks = 5;
        plan.ranks = 2;
        run(&plan, ranks);
        assert_int_equal(ranks[0].first, 4);
        assert_int_equal(ranks[1].first, 4);
        assert_int_equal(ranks[1].kept[0], 5);
        /* Momentum after 4 steps of 1 is 1.875; the fifth makes it 1.9375, and the one of the
         * other learner 1.96875, or both are one step. */
        float more = strcmp(modes[m], "sync") == 0 ? 1.9375F : 1.9375F + 1.96875F;
        assert_float_equal(ranks[0].weights[FC][3], then - more, 1e-4);
        (void)snprintf(command, sizeof command, "rm -r %s", folder);
        assert_int_equal(system(command), 0);
        set_up(state);
    }
}

/* ---- what is refused ---- */

TEST(layers_of_one_iteration_may_differ_in_lr_with_sgd_alone)
{
    float dense[MATRIX], bias[ROWS] = {0};
    tri_update_info update = TRI_UPDATE_INIT;
    (void)state;
    (void)setenv("TRIDENT_LOCAL", "sync", 1);
    for (size_t i = 0; i < MATRIX; i++)
        dense[i] = 1;
    for (int sgd = 0; sgd < 2; sgd++) {
        struct plan plan = {.optimizer = sgd ? "sgd" : "momentum:0.9", .ranks = 1};
        struct rank rank;
        open_one(&rank, &plan);
        update.dense = dense;
        update.dense_bias = bias;
        update.lr = 1;
        assert_int_equal(tri_update(rank.job, FC, &update, &rank.err), TRI_OK);
        update.dense_bias = NULL;
        update.count = 2;
        refused(tri_update(rank.job, EMBED, &update, &rank.err), &rank.err, "counts 2");
        update.count = 1;
        update.lr = 0.25F;
        tri_status status = tri_update(rank.job, EMBED, &update, &rank.err);
        if (sgd) {
            assert_int_equal(status, TRI_OK);
            assert_int_equal(tri_clock(rank.job, NULL, &rank.err), TRI_OK);
            assert_int_equal(tri_finish(rank.job, &rank.err), TRI_OK);
            assert_float_equal(rank.weights[EMBED][9], -0.25, 1e-6);
            assert_float_equal(rank.weights[FC][9], -1, 1e-6);
        } else {
            refused(status, &rank.err, "'embed' has another lr");
        }
        tri_close(rank.job);
        set_up(state);
        (void)setenv("TRIDENT_LOCAL", "sync", 1);
    }
}

TEST(what_cannot_be_is_refused_and_changes_nothing)
{
    struct plan plan = {.ranks = 1};
    struct rank rank;
    float row[COLS] = {0};
    const uint32_t far = ROWS;
    tri_update_info update = TRI_UPDATE_INIT;
    char text[32];
    (void)state;
    open_one(&rank, &plan);
    refused(tri_step(rank.job, &rank.err), &rank.err, "needs local = direct");
    update.row_values = row;
    update.row_numbers = &far;
    update.row_count = 1;
    refused(tri_update(rank.job, EMBED, &update, &rank.err), &rank.err, "no row 24");
    assert_int_equal(give(&rank, 0, 1), TRI_OK);
    refused(give(&rank, 0, 1), &rank.err, "was not synced");
    assert_int_equal(tri_query(rank.job, "staleness.mean", text, sizeof text, NULL), TRI_OK);
    assert_int_equal(tri_query(rank.job, "mode", text, sizeof text, NULL), TRI_OK);
    assert_string_equal(text, "local");
    refused(tri_query(rank.job, "staleness.median", text, sizeof text, &rank.err), &rank.err, "");
    assert_int_equal(tri_clock(rank.job, NULL, NULL), TRI_OK);
    assert_int_equal(tri_finish(rank.job, &rank.err), TRI_OK);
    refused(give(&rank, 0, 1), &rank.err, "comes after tri_finish");
    tri_close(rank.job);
}

TEST(with_copies_of_its_own_nothing_is_read_or_stepped_in_place)
{
    struct plan plan = {.ranks = 1};
    struct rank rank;
    float *weights = rank.weights[0], *bias = rank.bias;
    (void)state;
    (void)setenv("TRIDENT_LOCAL", "direct", 1);
    (void)setenv("TRIDENT_LOCAL_COPIES", "on", 1);
    open_one(&rank, &plan);
    assert_int_equal(tri_shared(rank.job, FC, &weights, &bias, &rank.err), TRI_OK);
    assert_null(weights);
    refused(tri_step(rank.job, &rank.err), &rank.err, "does not go with local_copies");
    assert_int_equal(tri_finish(rank.job, &rank.err), TRI_OK);
    tri_close(rank.job);
}

TEST(settings_that_do_not_go_together_are_refused)
{
    static const struct {
        const char *variable, *value, *text;
    } rows[] = {{"TRIDENT_CONSISTENCY", "ssp:3", "'ssp:3' does not go with"},
                {"TRIDENT_LOCKED", "on", "replicas does not go with locked"},
                {"TRIDENT_LOCAL_COPIES", "on", "replicas does not go with local_copies"},
                {"TRIDENT_OPTIMIZER", "adam", "replicas does not go with adam"},
                {"TRIDENT_LOCAL", "hogwild", "TRIDENT_LOCAL cannot be"},
                {"TRIDENT_MODE", "nowhere", "TRIDENT_MODE cannot be"}};
    tri_error err = {0};
    tri_job *job = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        set_up(state);
        if (strstr(rows[i].text, "replicas") != NULL)
            (void)setenv("TRIDENT_LOCAL", "replicas", 1);
        (void)setenv(rows[i].variable, rows[i].value, 1);
        assert_int_equal(tri_open(NULL, &job, &err), TRI_EINPUT);
        if (strstr(err.text, rows[i].text) == NULL)
            fail_msg("'%s' instead of '%s'", err.text, rows[i].text);
    }
    set_up(state);
    tri_options options = TRI_OPTIONS_INIT;
    options.result = TRI_AGGREGATE;
    assert_int_equal(tri_open(&options, &job, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "steps by itself"));
}

TEST(a_rank_without_rank_0_says_so)
{
    struct plan plan = {.ranks = 2};
    struct rank rank = {.plan = &plan, .number = 1};
    tri_options options = TRI_OPTIONS_INIT;
    (void)state;
    options.rank = 1;
    options.workers = 2;
    options.timeout_ms = 50;
    assert_int_equal(tri_open(&options, &rank.job, &rank.err), TRI_OK);
    assert_int_not_equal(start_rank(&rank), TRI_OK);
    assert_non_null(strstr(rank.err.text, "on this machine"));
    tri_close(rank.job);
}

/* Rows come up to date as they are asked for; what is read in place is this rank's own. */
TEST(with_replicas_rows_are_synced_as_they_are_read)
{
    struct plan plan = {.ranks = 1};
    struct rank rank;
    float *weights, *bias;
    uint64_t clock;
    (void)state;
    (void)setenv("TRIDENT_LOCAL", "replicas", 1);
    open_one(&rank, &plan);
    assert_string_equal(tri_scheme_of(rank.job, FC), "sfb");
    assert_string_equal(tri_scheme_of(rank.job, EMBED), "ps");
    assert_int_equal(tri_shared(rank.job, FC, &weights, &bias, &rank.err), TRI_OK);
    const float first = weights[0];
    assert_int_equal(tri_sync(rank.job, FC, &rank.err), TRI_OK);
    assert_int_equal(give(&rank, 0, 2), TRI_OK);
    assert_int_equal(tri_clock(rank.job, &clock, &rank.err), TRI_OK);
    assert_float_equal(weights[0], first, 0); /* not before it is asked for */
    assert_int_equal(tri_sync_rows(rank.job, FC, 3, &rank.err), TRI_OK);
    assert_float_equal(weights[0], first - 1, 1e-6);
    assert_float_equal(weights[(size_t)2 * COLS], first - 1, 1e-6);
    assert_float_equal(weights[(size_t)3 * COLS], first, 0);
    assert_float_equal(bias[2] - bias[3], -1, 1e-6);
    assert_int_equal(tri_sync_rows(rank.job, FC, ROWS, &rank.err), TRI_OK);
    assert_float_equal(weights[MATRIX - 1], first - 1, 1e-6);
    refused(tri_sync_rows(rank.job, FC, ROWS + 1, &rank.err), &rank.err, "25 rows");
    refused(tri_step(rank.job, &rank.err), &rank.err, "needs local = direct");
    tri_update_info dense = TRI_UPDATE_INIT;
    dense.dense = rank.weights[FC];
    dense.dense_bias = rank.bias;
    refused(tri_update(rank.job, FC, &dense, &rank.err), &rank.err, "is not factors");
    assert_int_equal(tri_finish(rank.job, &rank.err), TRI_OK);
    tri_close(rank.job);
}

/* What one rank reads is w, and what is to come. */
static float first_weight(struct rank *rank, float *bias)
{
    tri_pending steps;
    assert_int_equal(tri_sync_pending(rank->job, FC, &steps, &rank->err), TRI_OK);
    float sum = steps.weights[0];
    *bias = steps.bias[0];
    for (uint32_t k = 0; k < steps.count; k++) {
        sum += steps.u[(size_t)k * ROWS] * steps.v[(size_t)k * COLS];
        *bias += steps.u[(size_t)k * ROWS];
    }
    return sum;
}

/* It has no place of its own: what is asked for comes with where it lies, or is copied. */
TEST(with_replicas_a_large_layer_lies_there_once)
{
    struct plan plan = {.ranks = 1, .reads_pending = true};
    struct rank rank;
    float *weights, *bias, got_bias;
    uint64_t clock;
    uint32_t crc;
    (void)state;
    (void)setenv("TRIDENT_LOCAL", "replicas", 1);
    (void)setenv("TRIDENT_LOCAL_COMMON", "1", 1);
    open_one(&rank, &plan);
    refused(tri_sync_pending(rank.job, FC, NULL, &rank.err), &rank.err, "nowhere to put");
    const float first = rank.weights[FC][0], first_bias = rank.bias[0];
    assert_int_equal(tri_shared(rank.job, FC, &weights, &bias, &rank.err), TRI_OK);
    assert_null(weights);
    assert_int_equal(tri_shared(rank.job, EMBED, &weights, &bias, &rank.err), TRI_OK);
    assert_non_null(weights);
    for (uint64_t i = 0; i < 70; i++) { /* some sets are made on the way */
        assert_float_equal(first_weight(&rank, &got_bias), first - (float)i, 1e-4);
        assert_float_equal(got_bias, first_bias - (float)i, 1e-4);
        assert_float_equal(rank.weights[FC][0], first, 0); /* nobody has asked for a copy */
        assert_int_equal(tri_sync(rank.job, EMBED, &rank.err), TRI_OK);
        assert_int_equal(give(&rank, i, 2), TRI_OK);
        assert_int_equal(tri_clock(rank.job, &clock, &rank.err), TRI_OK);
    }
    assert_int_equal(tri_checksum(rank.job, &crc, &rank.err), TRI_OK);
    assert_float_equal(rank.weights[FC][0], first - 70, 1e-4);
    assert_float_equal(rank.bias[0], first_bias - 70, 1e-4);
    assert_int_equal(give(&rank, 70, 2), TRI_OK);
    assert_int_equal(tri_clock(rank.job, &clock, &rank.err), TRI_OK);
    assert_int_equal(tri_finish(rank.job, &rank.err), TRI_OK);
    assert_float_equal(rank.weights[FC][MATRIX - 1], first - 71, 1e-4);
    assert_float_equal(first_weight(&rank, &got_bias), first - 71, 1e-4); /* as tri_sync */
    tri_close(rank.job);
}

TEST(windows_are_for_replicas)
{
    struct plan plan = {.ranks = 1};
    struct rank rank = {.plan = &plan};
    tri_layer_info conv = TRI_LAYER_INIT;
    (void)state;
    conv.name = "conv";
    conv.kind = TRI_CONV;
    conv.rows = ROWS;
    conv.cols = COLS;
    conv.max_factor_rows = 1;
    conv.window_floats = COLS + 3;
    conv.weights = rank.weights[FC];
    assert_int_equal(open_rank(&rank), TRI_OK);
    refused(tri_layer(rank.job, &conv, NULL, &rank.err), &rank.err, "only local = replicas takes");
    tri_close(rank.job);
    (void)setenv("TRIDENT_LOCAL", "replicas", 1);
    assert_int_equal(open_rank(&rank), TRI_OK);
    conv.window_floats = COLS - 1;
    refused(tri_layer(rank.job, &conv, NULL, &rank.err), &rank.err, "windows shorter");
    conv.window_floats = COLS + 3;
    assert_int_equal(tri_layer(rank.job, &conv, NULL, &rank.err), TRI_OK);
    assert_int_equal(tri_start(rank.job, &rank.err), TRI_OK);
    float u[ROWS] = {0}, v[COLS + 3] = {0};
    uint32_t at[ROWS] = {0}, crc;
    for (size_t i = 0; i < COLS + 3; i++)
        v[i] = (float)i;
    u[4] = 2;
    at[4] = 3;
    tri_update_info update = TRI_UPDATE_INIT;
    update.u = u;
    update.v = v;
    update.factor_rows = 1;
    update.lr = 1;
    refused(tri_update(rank.job, 0, &update, &rank.err), &rank.err, "no windows");
    update.at = at;
    assert_int_equal(tri_update(rank.job, 0, &update, &rank.err), TRI_OK);
    assert_int_equal(tri_clock(rank.job, NULL, &rank.err), TRI_OK);
    assert_int_equal(tri_checksum(rank.job, &crc, &rank.err), TRI_OK); /* syncs */
    for (size_t i = 0; i < COLS; i++)
        assert_float_equal(rank.weights[FC][(size_t)4 * COLS + i], -2 * (float)(3 + i), 1e-6);
    assert_float_equal(rank.weights[FC][(size_t)5 * COLS], 0, 0);
    tri_close(rank.job);
}

TEST(in_a_network_there_is_no_shared_memory)
{
    struct plan plan = {.ranks = 1};
    struct rank rank;
    float *weights = rank.weights[0], *bias = rank.bias;
    char text[32];
    (void)state;
    (void)setenv("TRIDENT_MODE", "network", 1);
    open_one(&rank, &plan);
    assert_int_equal(tri_shared(rank.job, 0, &weights, &bias, &rank.err), TRI_OK);
    assert_null(weights);
    assert_null(bias);
    refused(tri_step(rank.job, &rank.err), &rank.err, "needs mode = local");
    assert_int_equal(tri_query(rank.job, "mode", text, sizeof text, NULL), TRI_OK);
    assert_string_equal(text, "network");
    assert_int_equal(tri_finish(rank.job, &rank.err), TRI_OK);
    tri_close(rank.job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_gradient_is_in_the_parameters_of_all_ranks, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(with_replicas_every_gradient_is_in_the_copy_of_each_rank,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(with_replicas_rows_are_synced_as_they_are_read, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(with_replicas_the_program_may_make_the_steps, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_samples_of_others_come_with_what_they_count, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(elsewhere_learning_is_an_update, set_up, tear_down),
        cmocka_unit_test_setup_teardown(with_replicas_a_large_layer_lies_there_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(windows_are_for_replicas, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_round_is_one_step_with_the_mean_of_all_samples, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_program_may_read_and_step_in_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_job_goes_on_from_its_checkpoint, set_up, tear_down),
        cmocka_unit_test_setup_teardown(layers_of_one_iteration_may_differ_in_lr_with_sgd_alone,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused_and_changes_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(with_copies_of_its_own_nothing_is_read_or_stepped_in_place,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(settings_that_do_not_go_together_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_rank_without_rank_0_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(in_a_network_there_is_no_shared_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
