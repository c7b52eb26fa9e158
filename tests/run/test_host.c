/* run/host: whole jobs in one process, a thread and a host per node, over every transport. What
 * the workers end with is held against one process on the union of all batches. */
#include <math.h>
#include <time.h>

#include "base/rng.h"
#include "core/ops.h"
#include "lib/jobs.h"
#include "run/inside.h"
#include "run/nodes.h"

static const char *const names[NET_MAX_LAYERS] = {"l0", "l1", "l2", "l3", "l4", "l5"};

/* ---- drawing jobs ---- */

static void draw_layers(struct nodes *job, struct rng *rng, bool only_fc)
{
    uint32_t width = 1 + (uint32_t)rng_below(rng, NET_MAX_WIDTH - 1);
    job->count = 1 + (uint32_t)rng_below(rng, 4);
    for (uint32_t i = 0; i < job->count; i++) {
        bool conv = !only_fc && rng_below(rng, 3) == 0;
        uint32_t rows = 1 + (uint32_t)rng_below(rng, NET_MAX_WIDTH - 1);
        job->layers[i] = (struct agree_layer){.name = names[i],
                                              .kind = conv ? TRI_CONV : TRI_FC,
                                              .rows = rows,
                                              .cols = width,
                                              .bias = rng_below(rng, 2) == 0,
                                              .max_factor_rows = conv ? 0 : NET_MAX_BATCH};
        width = rows;
    }
}

static void draw_cluster(struct nodes *job, struct rng *rng)
{
    struct agree_options *options = &job->options;
    options->workers = 1 + (uint32_t)rng_below(rng, 5);
    options->servers = 1 + (uint32_t)rng_below(rng, 4);
    uint32_t most = options->workers < options->servers ? options->workers : options->servers;
    options->colocated = (uint32_t)rng_below(rng, most + 1);
    options->bits_s = pow(10, 6 + 4 * rng_unit(rng));
    options->flops_s = pow(10, 5 + 6 * rng_unit(rng));
    options->latency_s = 5e-5;
    options->message_s = 5e-6;
    options->chunk_bytes = 4 * (1 + rng_below(rng, 100));
    options->placement = placement_at((size_t)rng_below(rng, 6))->name;
    options->rule = PLAN_TIME;
    job->sockets = 1 + (uint32_t)rng_below(rng, 3);
    job->helpers = (uint32_t)rng_below(rng, 3);
    job->clocks = 3 + rng_below(rng, 5);
    job->two_threads = rng_below(rng, 4) == 0;
}

/* Adaptive steps with a large epsilon: see lib/jobs.c. */
static void draw_rules(struct nodes *job, struct rng *rng)
{
    static const char *const optimizers[] = {"sgd", "momentum:0.9", "nesterov:0.8", "adagrad:0.1",
                                             "adam:0.9,0.999,0.1"};
    struct agree_options *options = &job->options;
    options->reproducible = rng_below(rng, 4) > 0;
    if (rng_below(rng, 4) == 0) {
        options->aggregate = true;
    } else {
        options->replicated = rng_below(rng, 3) == 0;
        options->optimizer = optimizers[rng_below(rng, 5)];
    }
}

static void draw(struct nodes *job, uint64_t seed)
{
    static const char *const schemes[] = {NULL, NULL, "ps", "sfb", "adam"};
    struct rng rng;
    memset(job, 0, sizeof *job);
    rng_init(&rng, seed);
    job->options.scheme = schemes[rng_below(&rng, 5)];
    draw_layers(job, &rng, job->options.scheme != NULL);
    draw_cluster(job, &rng);
    draw_rules(job, &rng);
    job->net = (struct toy){.seed = seed,
                            .lr = 0.05f,
                            .vary_batch = rng_below(&rng, 2) == 0,
                            .leave_out = rng_below(&rng, 3) == 0,
                            .busy = rng_below(&rng, 2) == 0,
                            .aggregate = job->options.aggregate};
    nodes_plan(job);
}

/* ---- what must hold ---- */

static void check_ended(const struct nodes *job, uint64_t seed)
{
    bool ended = true;
    for (uint32_t n = 0; n < job->node_count; n++) {
        const struct nodes_one *one = &job->nodes[n];
        ended = ended && one->status == TRI_OK;
        if (one->status != TRI_OK)
            print_error("seed %llu, %s: node %u: %s (%s)\n", (unsigned long long)seed,
                        job->transport, n, one->err.text, one->err.why);
    }
    assert_true(ended);
    for (uint32_t r = 0; r < job->options.workers; r++)
        assert_int_equal(job->nodes[r].clock, job->clocks);
}

static bool layers_differ(const struct nodes *job, uint32_t rank, uint32_t l)
{
    const struct agree_layer *layer = &job->layers[l];
    const struct store_layer *a = &job->nodes[0].own[l], *b = &job->nodes[rank].own[l];
    return memcmp(a->weights, b->weights, (size_t)layer->rows * layer->cols * sizeof(float)) != 0 ||
           (layer->bias && memcmp(a->bias, b->bias, layer->rows * sizeof(float)) != 0);
}

static void check_replicas(const struct nodes *job, uint64_t seed)
{
    for (uint32_t r = 1; r < job->options.workers; r++)
        for (uint32_t l = 0; l < job->count; l++)
            if (layers_differ(job, r, l))
                fail_msg("seed %llu, %s: ranks 0 and %u differ in layer %u",
                         (unsigned long long)seed, job->transport, r, l);
}

static bool is_exact(const struct nodes *job)
{
    const struct core_rules *rules = &job->plan->rules;
    bool factors = true;
    for (uint32_t l = 0; l < job->count; l++)
        factors = factors && job->plan->layout->layers[l].form == TRI_FORM_FACTORS;
    /* Where workers step with a mean from a server, plain sgd rounds twice, not once. */
    bool twice = rules->replicated && ops_is_sgd(&job->plan->optim);
    return factors && rules->reproducible && !rules->aggregate && !twice;
}

static void check_alone(struct nodes *job, uint64_t seed)
{
    static struct toy_reference alone;
    bool exact = is_exact(job);
    toy_train_alone(&job->net, &alone, &job->plan->optim, job->clocks, exact);
    double largest = 0, difference = 0;
    for (uint32_t l = 0; l < job->count; l++) {
        struct sim_values params = nodes_params(&job->nodes[0], l);
        uint64_t matrix = (uint64_t)job->layers[l].rows * job->layers[l].cols;
        for (uint64_t i = 0; i < job->plan->layout->layers[l].floats; i++) {
            float value = i < matrix ? params.weights[i] : params.bias[i - matrix];
            double a = (double)alone.params[l][i], b = (double)value;
            largest = fmax(largest, fabs(a));
            difference = fmax(difference, fabs(a - b));
        }
    }
    if (exact ? difference != 0 : !(difference <= 1e-5 * largest))
        fail_msg("seed %llu, %s: differs from one process by %g of %g (%s)",
                 (unsigned long long)seed, job->transport, difference, largest,
                 exact ? "exact" : "rounded");
}

static void check_random_jobs(const char *transport)
{
    uint64_t first = job_env("TRIDENT_SIM_SEED", 1);
    uint64_t jobs = 1 + job_env("TRIDENT_SIM_JOBS", 2000) / 20;
    unsigned exact = 0;
    for (uint64_t seed = first; seed < first + jobs; seed++) {
        static struct nodes job;
        draw(&job, seed);
        nodes_meet(&job, transport);
        nodes_run(&job, 0);
        check_ended(&job, seed);
        check_replicas(&job, seed);
        check_alone(&job, seed);
        exact += is_exact(&job);
        nodes_free(&job);
    }
    assert_true(jobs < 50 || exact > 0);
}

TEST(random_jobs_over_inproc_train_as_one_process_would)
{
    (void)state;
    check_random_jobs("inproc");
}

TEST(random_jobs_over_tcp_train_as_one_process_would)
{
    (void)state;
    check_random_jobs("tcp");
}

/* ---- what need not be alike ---- */

/* A job of so many ranks, servers beside them, all layers fully connected and under one scheme. */
static void plain(struct nodes *job, uint64_t seed, uint32_t workers, const char *scheme)
{
    struct rng rng;
    memset(job, 0, sizeof *job);
    rng_init(&rng, seed);
    draw_layers(job, &rng, true);
    job->options = (struct agree_options){.workers = workers,
                                          .servers = workers,
                                          .colocated = workers,
                                          .bits_s = 1e9,
                                          .latency_s = 5e-5,
                                          .message_s = 5e-6,
                                          .flops_s = 1e9,
                                          .chunk_bytes = 256,
                                          .reproducible = true,
                                          .rule = PLAN_TIME,
                                          .scheme = scheme};
    job->clocks = 6;
    job->net = (struct toy){.seed = seed, .lr = 0.05f};
}

static double loss_of(struct nodes *job, uint32_t rank)
{
    struct sim_values params[NET_MAX_LAYERS];
    for (uint32_t l = 0; l < job->count; l++)
        params[l] = nodes_params(&job->nodes[rank], l);
    return toy_loss(&job->net, params);
}

static double loss_before(struct nodes *job)
{
    static float values[NET_MAX_LAYERS][NODES_FLOATS];
    struct sim_values params[NET_MAX_LAYERS];
    struct sim_app app = toy_app(&job->net);
    for (uint32_t l = 0; l < job->count; l++) {
        size_t matrix = (size_t)job->layers[l].rows * job->layers[l].cols;
        params[l] = (struct sim_values){values[l], job->layers[l].bias ? values[l] + matrix : NULL};
        app.init(app.ctx, 0, l, params[l]);
    }
    return toy_loss(&job->net, params);
}

TEST(stale_jobs_end_and_learn)
{
    (void)state;
    static const char *const kinds[] = {"ssp:2", "ssp:0", "asp"};
    for (uint64_t seed = 1; seed <= 9; seed++) {
        static struct nodes job;
        plain(&job, seed, 1 + (uint32_t)seed % 4, "ps");
        job.options.consistency = kinds[seed % 3];
        job.options.colocated = seed % 2 == 0 ? 0 : job.options.servers;
        job.helpers = (uint32_t)seed % 2;
        job.clocks = 150;
        nodes_plan(&job);
        nodes_meet(&job, seed % 2 == 0 ? "inproc" : "tcp");
        nodes_run(&job, 0);
        for (uint32_t n = 0; n < job.node_count; n++)
            if (job.nodes[n].status != TRI_OK)
                fail_msg("seed %u: %s", (unsigned)seed, job.nodes[n].err.text);
        double before = loss_before(&job);
        for (uint32_t r = 0; r < job.options.workers; r++)
            assert_true(loss_of(&job, r) < before);
        nodes_free(&job);
    }
}

TEST(one_stale_rank_alone_trains_as_one_process_would)
{
    (void)state;
    static const char *const kinds[] = {"ssp:2", "asp"};
    for (uint64_t seed = 1; seed <= 8; seed++) {
        static struct nodes job;
        plain(&job, seed, 1, "ps");
        job.options.servers = 2;
        job.options.colocated = 0;
        job.options.consistency = kinds[seed % 2];
        nodes_plan(&job);
        nodes_meet(&job, "inproc");
        nodes_run(&job, 0);
        check_ended(&job, seed);
        check_alone(&job, seed);
        nodes_free(&job);
    }
}

/* ---- who is missing, who disagrees ---- */

TEST(a_node_that_never_comes_is_named_by_all)
{
    (void)state;
    for (uint32_t absent = 0; absent < 4; absent++) {
        static struct nodes job;
        plain(&job, 3, 3, "ps");
        job.options.servers = 1;
        job.options.colocated = 0;
        job.timeout_ms = 300;
        nodes_plan(&job);
        nodes_meet(&job, "tcp");
        nodes_run(&job, 1u << absent);
        char name[20];
        unsigned told = 0;
        (void)snprintf(name, sizeof name, absent == 3 ? "server 0" : "rank %u", absent);
        for (uint32_t n = 0; n < 4; n++) {
            const tri_error *err = &job.nodes[n].err;
            if (n == absent)
                continue;
            assert_true(err->status == TRI_ETIMEOUT || err->status == TRI_EPEER);
            /* one that comes to the end of its patience first takes the others with it */
            if (err->status == TRI_ETIMEOUT && strstr(err->text, name) == NULL)
                fail_msg("node %u: %s", n, err->text);
            told += strstr(err->text, name) != NULL;
        }
        assert_true(told > 0);
        nodes_free(&job);
    }
}

static void other_rows(const struct nodes_one *one, struct agree_layer *layers,
                       struct agree_options *options)
{
    (void)options;
    if (one->number == 2)
        layers[0].max_factor_rows = NET_MAX_BATCH - 1;
}

static void other_chunks(const struct nodes_one *one, struct agree_layer *layers,
                         struct agree_options *options)
{
    (void)layers;
    if (one->number == 2)
        options->chunk_bytes = 512;
}

TEST(ranks_with_other_layers_or_options_are_named)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        static struct nodes job;
        plain(&job, 4, 3, "ps");
        job.describe = i % 2 == 0 ? other_rows : other_chunks;
        nodes_plan(&job);
        nodes_meet(&job, i < 4 ? "inproc" : "tcp");
        nodes_run(&job, 0);
        for (uint32_t n = 0; n < 3; n++) {
            assert_int_equal(job.nodes[n].status, TRI_EMISMATCH);
            if (strstr(job.nodes[n].err.text, "rank 2") == NULL)
                fail_msg("node %u: %s", n, job.nodes[n].err.text);
        }
        nodes_free(&job);
    }
}

/* ---- who is slow ---- */

/* Rank 0 has the others wait for several heartbeats. */
static void hesitate(struct nodes_one *one)
{
    if (one->number == 0)
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

TEST(ranks_and_servers_wait_for_a_slow_rank_0)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        static struct nodes job;
        plain(&job, 8, 2, "ps");
        job.options.servers = 1;
        job.options.colocated = 0;
        job.heartbeat_ms = 20;
        job.before_start = hesitate;
        nodes_plan(&job);
        nodes_meet(&job, i == 0 ? "inproc" : "tcp");
        nodes_run(&job, 0);
        check_ended(&job, 8);
        check_replicas(&job, 8);
        nodes_free(&job);
    }
}

/* ---- who leaves ---- */

static bool last_leaves(struct nodes_one *one, uint64_t clock)
{
    return one->number + 1 != one->job->options.workers || clock < 3;
}

TEST(the_others_go_on_without_a_rank_that_closed_early)
{
    (void)state;
    static const char *const schemes[] = {"ps", "sfb", "adam"};
    for (size_t i = 0; i < 6; i++) {
        static struct nodes job;
        plain(&job, 5 + i, 4, schemes[i % 3]);
        job.options.servers = 2;
        job.options.colocated = 0;
        job.meddle = last_leaves;
        nodes_plan(&job);
        nodes_meet(&job, i < 3 ? "inproc" : "tcp");
        nodes_run(&job, 0);
        for (uint32_t n = 0; n < job.node_count; n++)
            if (n != 3 && job.nodes[n].status != TRI_OK)
                fail_msg("%s over %s: node %u: %s", schemes[i % 3], job.transport, n,
                         job.nodes[n].err.text);
        for (uint32_t r = 1; r < 3; r++)
            for (uint32_t l = 0; l < job.count; l++)
                assert_false(layers_differ(&job, r, l));
        nodes_free(&job);
    }
}

/* ---- arguments that only a host can judge ---- */

static tri_status twice_status, form_status;
static tri_error twice_err, form_err;

/* Rank 0 gives a dense update where factors travel, and one layer twice. */
static bool give_wrong(struct nodes_one *one, uint64_t clock)
{
    struct update dense = {.dense = one->gradient[0].weights,
                           .dense_bias = one->gradient[0].bias,
                           .count = 1,
                           .lr = 0.05f};
    if (one->number != 0 || clock != 1)
        return true;
    form_status = host_update(one->host, 0, &dense, &form_err);
    for (uint32_t l = 0; l < one->job->count; l++)
        if (nodes_sync(one, l) != TRI_OK)
            return false;
    struct sim_app app = toy_app(&one->job->net);
    for (uint32_t l = 0; l < one->job->count; l++)
        app.forward(app.ctx, 0, clock, l, nodes_params(one, l));
    for (uint32_t l = one->job->count; l-- > 0;)
        if (nodes_update(one, l) != TRI_OK)
            return false;
    struct update factors = {
        .u = one->u[0], .v = one->v[0], .factor_rows = 1, .count = 1, .lr = 0.05f};
    twice_status = host_update(one->host, 0, &factors, &twice_err);
    return host_clock(one->host, &one->clock, &one->err) == TRI_OK;
}

TEST(wrong_updates_are_refused_and_change_nothing)
{
    (void)state;
    static struct nodes job;
    plain(&job, 6, 3, "sfb");
    job.meddle = give_wrong;
    nodes_plan(&job);
    nodes_meet(&job, "inproc");
    nodes_run(&job, 0);
    check_ended(&job, 6);
    check_replicas(&job, 6);
    check_alone(&job, 6);
    assert_int_equal(form_status, TRI_EARG);
    assert_non_null(strstr(form_err.text, "'l0' travels as factors"));
    assert_int_equal(twice_status, TRI_EARG);
    assert_non_null(strstr(twice_err.text, "layer 'l0'"));
    nodes_free(&job);
}

/* ---- memory ---- */

/* The allocator of fault.h for many threads. */
static struct fault fault;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;

static void *locked_resize(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    (void)pthread_mutex_lock(&fault_lock);
    void *now = fault.mem.resize(fault.mem.ctx, ptr, bytes);
    (void)pthread_mutex_unlock(&fault_lock);
    return now;
}

static const struct mem locked = {.resize = locked_resize};

static void walk(uint32_t workers, uint32_t node, const char *scheme, size_t step)
{
    fault = (struct fault){0};
    unsigned refused = 0;
    while (fault_next(&fault)) {
        static struct nodes job;
        plain(&job, 7, workers, scheme);
        fault.run += step - 1;
        fault.countdown = fault.run;
        job.clocks = 2;
        job.mem = &locked;
        job.mem_node = node;
        job.helpers = 1;
        nodes_plan(&job);
        nodes_meet(&job, "inproc");
        /* The first runs fail before they join, and the others wait for nothing. */
        bool brief = fault.run < 60;
        job.timeout_ms = brief ? 500 : 30000;
        job.heartbeat_ms = 1000; /* an eighth of it passes before one that is gone is missed */
        nodes_run(&job, 0);
        tri_status status = job.nodes[node].status;
        if (fault.hit && status != TRI_OK && status != TRI_ENOMEM)
            fail_msg("%s, allocation %zu: %s", scheme, fault.run, job.nodes[node].err.text);
        if (!fault.hit && !brief) /* on a busy machine a brief wait may be too brief */
            check_ended(&job, 7);
        fault.hit = fault.hit || brief;
        refused += status == TRI_ENOMEM;
        nodes_free(&job);
    }
    assert_true(refused > 0);
}

TEST(memory_that_is_refused_to_a_lonely_node_is_told_and_nothing_leaks)
{
    (void)state;
    walk(1, 0, "ps", 1);
    walk(1, 0, "adam", 1);
}

TEST(memory_that_is_refused_to_one_of_two_nodes_ends_the_job)
{
    (void)state;
    for (uint32_t node = 0; node < 2; node++) {
        walk(2, node, "ps", 7);
        walk(2, node, "sfb", 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_jobs_over_inproc_train_as_one_process_would),
        cmocka_unit_test(random_jobs_over_tcp_train_as_one_process_would),
        cmocka_unit_test(stale_jobs_end_and_learn),
        cmocka_unit_test(one_stale_rank_alone_trains_as_one_process_would),
        cmocka_unit_test(a_node_that_never_comes_is_named_by_all),
        cmocka_unit_test(ranks_with_other_layers_or_options_are_named),
        cmocka_unit_test(ranks_and_servers_wait_for_a_slow_rank_0),
        cmocka_unit_test(the_others_go_on_without_a_rank_that_closed_early),
        cmocka_unit_test(wrong_updates_are_refused_and_change_nothing),
        cmocka_unit_test(memory_that_is_refused_to_a_lonely_node_is_told_and_nothing_leaks),
        cmocka_unit_test(memory_that_is_refused_to_one_of_two_nodes_ends_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
