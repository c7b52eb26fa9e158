/* api: jobs of several ranks, each a thread of this process with a job handle of its own. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/test.h"
#include "trident/trident.h"

enum {
    RANKS = 3,
    ROWS = 24,
    COLS = 17,
    MATRIX = ROWS * COLS,
    K = 4,
    U = K * ROWS,
    V = K * COLS,
    LAYERS = 2
};

static const char *const names[LAYERS] = {"fc1", "fc2"};

struct group;

struct rank {
    struct group *group;
    int32_t number;
    pthread_t thread;
    tri_job *job;
    tri_status status, start_again;
    tri_error err;
    float weights[LAYERS][MATRIX], bias[LAYERS][ROWS], result[LAYERS][MATRIX + ROWS];
    float u[U], v[V];
    uint32_t crc, state;
    tri_stats stats;
    unsigned timeouts;
    tri_error timeout;
    atomic_uint lines;
};

/* A job, and what is odd about it. */
struct group {
    tri_options options;
    char coordinator[40];
    uint64_t clocks;
    float odd_lr;     /* of rank 1; 0: as all others */
    bool odd_layers;  /* rank 1 has fewer columns */
    bool late;        /* the last rank comes to its last update after rank 0's patience */
    atomic_bool seen; /* and rank 0 has run out of it */
    struct rank ranks[RANKS];
};

static void choose_port(struct group *group)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    (void)close(fd);
    (void)snprintf(group->coordinator, sizeof group->coordinator, "127.0.0.1:%u",
                   (unsigned)ntohs(at.sin_port));
}

static void fill(struct rank *rank, float *floats, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rank->state = rank->state * 1664525u + 1013904223u;
        floats[i] = (float)(int32_t)rank->state / 2147483648.0f;
    }
}

static void count_line(void *ctx, int level, const char *line)
{
    struct rank *rank = ctx;
    if (level >= 0 && level <= 3 && line[0] != '\0')
        atomic_fetch_add(&rank->lines, 1);
}

static tri_status describe(struct rank *rank)
{
    tri_status status = TRI_OK;
    for (uint32_t l = 0; l < LAYERS && status == TRI_OK; l++) {
        tri_layer_info info = TRI_LAYER_INIT;
        info.name = names[l];
        info.rows = ROWS;
        info.cols = rank->group->odd_layers && rank->number == 1 && l == 1 ? COLS - 1 : COLS;
        info.max_factor_rows = K;
        info.weights = rank->weights[l];
        info.bias = rank->bias[l];
        info.result = rank->result[l];
        status = tri_layer(rank->job, &info, NULL, &rank->err);
    }
    return status;
}

static tri_status update(struct rank *rank, uint32_t layer)
{
    tri_update_info info = TRI_UPDATE_INIT;
    fill(rank, rank->u, U);
    fill(rank, rank->v, V);
    info.u = rank->u;
    info.v = rank->v;
    info.factor_rows = K;
    info.count = K;
    info.lr = rank->number == 1 && rank->group->odd_lr > 0 ? rank->group->odd_lr : 0.1f;
    return tri_update(rank->job, layer, &info, &rank->err);
}

/* Again and again until the others are there, as a program may. */
static tri_status sync_patiently(struct rank *rank, uint32_t layer)
{
    tri_status status;
    while ((status = tri_sync(rank->job, layer, &rank->err)) == TRI_ETIMEOUT) {
        rank->timeouts++;
        rank->timeout = rank->err;
        if (rank->number == 0)
            atomic_store(&rank->group->seen, true);
    }
    return status;
}

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void be_late(struct rank *rank, uint64_t clock)
{
    const struct group *group = rank->group;
    if (!group->late || rank->number + 1 != RANKS || clock + 1 != group->clocks)
        return;
    while (!atomic_load(&group->seen))
        nap();
}

static tri_status train(struct rank *rank)
{
    uint64_t clock = 0;
    tri_status status = TRI_OK;
    while (clock < rank->group->clocks && status == TRI_OK) {
        for (uint32_t l = 0; l < LAYERS && status == TRI_OK; l++)
            status = sync_patiently(rank, l);
        if (status == TRI_OK)
            be_late(rank, clock);
        for (uint32_t l = LAYERS; l-- > 0 && status == TRI_OK;)
            status = update(rank, l);
        if (status == TRI_OK)
            status = tri_clock(rank->job, &clock, &rank->err);
    }
    for (uint32_t l = 0; l < LAYERS && status == TRI_OK; l++)
        status = sync_patiently(rank, l);
    return status == TRI_OK ? tri_checksum(rank->job, &rank->crc, &rank->err) : status;
}

/* Asks for numbers all the time, as a thread that draws a progress bar would. */
struct asker {
    const tri_job *job;
    atomic_bool stop;
    pthread_t thread;
};

static void *ask(void *ctx)
{
    struct asker *asker = ctx;
    tri_stats stats;
    while (!atomic_load(&asker->stop)) {
        tri_get_stats(asker->job, &stats);
        if (tri_rank(asker->job) >= tri_workers(asker->job))
            abort();
        nap();
    }
    return NULL;
}

static tri_status train_and_ask(struct rank *rank)
{
    struct asker asker = {.job = rank->job};
    if (pthread_create(&asker.thread, NULL, ask, &asker) != 0)
        abort();
    tri_status status = train(rank);
    atomic_store(&asker.stop, true);
    (void)pthread_join(asker.thread, NULL);
    return status;
}

static void *live(void *ctx)
{
    struct rank *rank = ctx;
    tri_options options = rank->group->options;
    options.workers = RANKS;
    options.rank = rank->number;
    options.coordinator = rank->group->coordinator;
    options.log = count_line;
    options.log_ctx = rank;
    rank->state = 100 + (uint32_t)rank->number;
    for (int l = 0; l < LAYERS; l++) {
        fill(rank, rank->weights[l], MATRIX);
        fill(rank, rank->bias[l], ROWS);
    }
    rank->status = tri_open(&options, &rank->job, &rank->err);
    if (rank->status == TRI_OK)
        rank->status = describe(rank);
    if (rank->status == TRI_OK && (rank->status = tri_start(rank->job, &rank->err)) != TRI_OK)
        rank->start_again = tri_start(rank->job, NULL);
    if (rank->status == TRI_OK)
        rank->status = train_and_ask(rank);
    if (rank->job != NULL)
        tri_get_stats(rank->job, &rank->stats);
    tri_close(rank->job);
    return NULL;
}

static void start_ranks(struct group *group)
{
    choose_port(group);
    for (int32_t r = 0; r < RANKS; r++) {
        group->ranks[r] = (struct rank){.group = group, .number = r};
        assert_int_equal(pthread_create(&group->ranks[r].thread, NULL, live, &group->ranks[r]), 0);
    }
}

static void join_ranks(struct group *group)
{
    for (int r = 0; r < RANKS; r++)
        (void)pthread_join(group->ranks[r].thread, NULL);
}

static void run(struct group *group)
{
    start_ranks(group);
    join_ranks(group);
}

static void begin(struct group *group, const char *scheme)
{
    memset(group, 0, sizeof *group);
    group->options = (tri_options)TRI_OPTIONS_INIT;
    group->options.scheme = scheme;
    group->options.timeout_ms = 60000;
    group->clocks = 12;
}

static void check_trained(struct group *group)
{
    for (int r = 0; r < RANKS; r++)
        if (group->ranks[r].status != TRI_OK)
            fail_msg("rank %d: %s", r, group->ranks[r].err.text);
    for (int r = 1; r < RANKS; r++) {
        assert_int_equal(group->ranks[r].crc, group->ranks[0].crc);
        assert_memory_equal(group->ranks[r].weights, group->ranks[0].weights,
                            sizeof group->ranks[0].weights);
    }
}

static int clear(void **state)
{
    (void)state;
    static const char *const variables[] = {
        "TRIDENT_SERVERS",   "TRIDENT_COLOCATE", "TRIDENT_SCHEME",    "TRIDENT_CONSISTENCY",
        "TRIDENT_OPTIMIZER", "TRIDENT_LISTEN",   "TRIDENT_TRANSPORT", "TRIDENT_CHUNK"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        (void)unsetenv(variables[i]);
    (void)setenv("TRIDENT_FLIGHT", "off", 1);
    /* The machine may be busy, and nobody is to be given up for that. */
    return setenv("TRIDENT_HEARTBEAT_MS", "20000", 1);
}

TEST(ranks_end_with_the_same_bits_and_true_counters)
{
    (void)state;
    static const char *const schemes[] = {"ps", "sfb", "adam", NULL};
    for (size_t i = 0; i < 4; i++) {
        static struct group group;
        begin(&group, schemes[i]);
        group.options.checksum_every = 3;
        run(&group);
        check_trained(&group);
        for (int r = 0; r < RANKS; r++) {
            const tri_stats *stats = &group.ranks[r].stats;
            assert_int_equal(stats->clocks, group.clocks);
            assert_int_equal(stats->live_workers, RANKS);
            assert_int_equal(stats->view, 1);
            assert_true(stats->sent_bytes > 0 && stats->received_bytes > 0);
            assert_true(stats->messages > 0 && stats->header_bytes >= 32 * stats->messages);
        }
    }
}

TEST(a_mean_comes_back_to_all_in_aggregate_mode)
{
    (void)state;
    static struct group group;
    begin(&group, NULL);
    group.options.result = TRI_AGGREGATE;
    run(&group);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(group.ranks[r].status, TRI_OK);
        assert_memory_equal(group.ranks[r].result, group.ranks[0].result,
                            sizeof group.ranks[0].result);
    }
    assert_true(group.ranks[0].result[0][0] != 0);
}

TEST(several_jobs_share_a_process)
{
    (void)state;
    static struct group groups[2];
    begin(&groups[0], "sfb");
    begin(&groups[1], "ps");
    for (int i = 0; i < 2; i++)
        start_ranks(&groups[i]);
    for (int i = 0; i < 2; i++)
        join_ranks(&groups[i]);
    check_trained(&groups[0]);
    check_trained(&groups[1]);
}

TEST(a_wait_past_its_limit_names_who_is_missing_and_may_be_made_again)
{
    (void)state;
    static const char *const schemes[] = {"ps", "sfb", "adam"};
    for (size_t i = 0; i < 3; i++) {
        static struct group group;
        begin(&group, schemes[i]);
        group.late = true;
        group.clocks = 3;
        group.options.timeout_ms = 1500;
        assert_int_equal(setenv("TRIDENT_HEARTBEAT_MS", "1000", 1), 0);
        run(&group);
        (void)clear(NULL);
        check_trained(&group);
        const struct rank *rank = &group.ranks[0];
        assert_true(rank->timeouts > 0);
        /* its worker waits for a server, and the server on its node for the late one: what was
           said last is what the error says */
        bool named = strstr(rank->timeout.why, "worker 2") != NULL ||
                     strstr(rank->timeout.why, "of server") != NULL;
        if (strstr(rank->timeout.text, "layer 'fc") == NULL || !named)
            fail_msg("%s (%s)", rank->timeout.text, rank->timeout.why);
    }
}

TEST(another_learning_rate_is_found_and_named)
{
    (void)state;
    static const char *const schemes[] = {"ps", "sfb", "adam"};
    for (size_t i = 0; i < 3; i++) {
        static struct group group;
        begin(&group, schemes[i]);
        group.odd_lr = 0.2f;
        run(&group);
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(group.ranks[r].status, TRI_EMISMATCH);
            assert_non_null(strstr(group.ranks[r].err.text, "learning rates differ"));
            assert_non_null(strstr(group.ranks[r].err.text, "rank 1"));
            assert_true(atomic_load(&group.ranks[r].lines) > 0);
        }
    }
}

TEST(other_layers_are_found_and_a_failed_start_is_final)
{
    (void)state;
    static struct group group;
    begin(&group, "sfb");
    group.odd_layers = true;
    run(&group);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(group.ranks[r].status, TRI_EMISMATCH);
        assert_int_equal(group.ranks[r].start_again, TRI_EARG);
    }
}

TEST(an_address_that_is_taken_is_told)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    char address[40];
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
    tri_options options = TRI_OPTIONS_INIT;
    tri_job *job = NULL;
    tri_error err = {0};
    options.workers = 2;
    options.rank = 0;
    options.coordinator = address;
    assert_int_equal(tri_open(&options, &job, &err), TRI_EIO);
    assert_non_null(strstr(err.text, address));
    assert_null(job);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_end_with_the_same_bits_and_true_counters),
        cmocka_unit_test(a_mean_comes_back_to_all_in_aggregate_mode),
        cmocka_unit_test(several_jobs_share_a_process),
        cmocka_unit_test(a_wait_past_its_limit_names_who_is_missing_and_may_be_made_again),
        cmocka_unit_test(another_learning_rate_is_found_and_named),
        cmocka_unit_test(other_layers_are_found_and_a_failed_start_is_final),
        cmocka_unit_test(an_address_that_is_taken_is_told),
    };
    return cmocka_run_group_tests(tests, clear, NULL);
}
