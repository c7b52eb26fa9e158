/* The protocol by numbers: random small jobs, real payloads, any order of messages.
 * Replicas must agree bit for bit after every clock, and with one process on the
 * union of all batches as far as rounding lets them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops.h"
#include "lib/books.h"
#include "lib/jobs.h"
#include "lib/test.h"
#include "lib/toy.h"

static const struct job_wish any = {0};

/* ---- what must hold ---- */

static void check_replicas(const struct job *job, const struct sim_cluster *cluster, uint64_t seed)
{
    for (uint64_t clock = 0; clock <= job->options.clocks; clock++)
        for (uint32_t r = 1; r < job->layout->workers; r++)
            if (sim_checksum(cluster, r, clock) != sim_checksum(cluster, 0, clock))
                fail_msg("seed %llu: replicas 0 and %u differ at clock %llu",
                         (unsigned long long)seed, r, (unsigned long long)clock);
}

static void check_alone(struct job *job, const struct sim_cluster *cluster, uint64_t seed)
{
    static struct toy_reference alone;
    /* Where workers step with a mean from a server, plain sgd rounds twice, not once. */
    bool twice = job->options.rules.replicated && ops_is_sgd(&job->options.optim);
    bool exact = job->all_factors && !job->options.rules.aggregate && !twice;
    toy_train_alone(&job->net, &alone, &job->options.optim, job->options.clocks, exact);
    double largest = 0, difference = 0;
    for (uint32_t l = 0; l < job->layout->layer_count; l++) {
        struct sim_values params = sim_params(cluster, 0, l);
        uint64_t matrix = (uint64_t)job->layout->layers[l].rows * job->layout->layers[l].cols;
        for (uint64_t i = 0; i < job->layout->layers[l].floats; i++) {
            float value = i < matrix ? params.weights[i] : params.bias[i - matrix];
            double a = (double)alone.params[l][i], b = (double)value;
            largest = fmax(largest, fabs(a));
            difference = fmax(difference, fabs(a - b));
        }
    }
    if (exact ? difference != 0 : !(difference <= 1e-5 * largest))
        fail_msg("seed %llu: differs from one process by %g of %g (%s, %s)",
                 (unsigned long long)seed, difference, largest, exact ? "exact" : "rounded",
                 job->options.optim.ops->name);
}

/* Every worker knows whose updates are in what came last. */
static void check_counted(const struct job *job, const struct sim_cluster *cluster, uint64_t seed)
{
    for (uint32_t r = 0; r < job->layout->workers; r++)
        for (uint32_t u = 0; u < job->layout->unit_count; u++)
            for (uint32_t of = 0; of < job->layout->workers; of++)
                if (sim_counted(cluster, r, u, of) != toy_has_update(&job->net, of,
                                                                     job->options.clocks - 1,
                                                                     job->layout->units[u].layer))
                    fail_msg("seed %llu: worker %u is wrong about rank %u in unit %u",
                             (unsigned long long)seed, r, of, u);
}

/* TRIDENT_SIM_SEED and TRIDENT_SIM_JOBS choose other or more of them. */
TEST(random_jobs_keep_replicas_equal_and_train_as_one_process_would)
{
    (void)state;
    uint64_t first = job_env("TRIDENT_SIM_SEED", 1), jobs = job_env("TRIDENT_SIM_JOBS", 2000);
    for (uint64_t seed = first; seed < first + jobs; seed++) {
        static struct job job;
        job_draw(&job, seed, &any);
        struct sim_cluster *cluster = job_run(&job, seed);
        check_replicas(&job, cluster, seed);
        check_alone(&job, cluster, seed);
        check_counted(&job, cluster, seed);
        sim_free(cluster);
        job_free(&job);
    }
}

/* ---- order ---- */

TEST(any_order_of_messages_gives_the_same_bits)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        static struct job job;
        uint32_t first = 0;
        job_draw(&job, seed, &any);
        for (uint64_t order = 0; order < 100; order++) {
            job.options.seed = 1000 + order;
            struct sim_cluster *cluster = job_run(&job, seed);
            uint32_t crc = sim_checksum(cluster, 0, job.options.clocks);
            if (order == 0)
                first = crc;
            if (crc != first)
                fail_msg("seed %llu: order %llu gives other bits", (unsigned long long)seed,
                         (unsigned long long)order);
            sim_free(cluster);
        }
        job_free(&job);
    }
}

/* A job of several workers whose layers all go through servers as dense updates. */
static void dense_job(struct job *job, uint64_t seed, unsigned workers)
{
    job_draw(job, seed, &any);
    job->book = book_of(job->profile, workers);
    job->book.schemes = book_scheme("ps");
    job_plan(job);
    job->options.rules = (struct core_rules){.reproducible = true};
    job->net.aggregate = false;
    (void)optim_read("sgd", &job->options.optim, NULL);
}

TEST(sums_on_arrival_differ_by_rounding_only)
{
    (void)state;
    unsigned others = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        static struct job job;
        dense_job(&job, seed, 6);
        struct sim_cluster *ordered = job_run(&job, seed);
        uint32_t bits = sim_checksum(ordered, 0, job.options.clocks);
        sim_free(ordered);
        job.options.rules.reproducible = job.book.reproducible = false;
        job_plan(&job);
        struct sim_cluster *arrival = job_run(&job, seed);
        check_replicas(&job, arrival, seed);
        check_alone(&job, arrival, seed);
        others += sim_checksum(arrival, 0, job.options.clocks) != bits;
        sim_free(arrival);
        job_free(&job);
    }
    assert_true(others > 0); /* else the option does nothing */
}

/* ---- Poseidon's Table 1, counted ---- */

/* One FC layer, so many workers and servers; runs three clocks. */
static struct sim_cluster *count_job(struct job *job, const char *scheme, unsigned workers,
                                     unsigned servers, unsigned both, unsigned bias)
{
    tri_error err = {0};
    memset(job, 0, sizeof *job);
    job->profile = book_one_layer("FC", 12, 20, bias);
    job->book = book_of(job->profile, workers);
    job->book.servers = servers;
    job->book.colocated = both;
    job->book.batch = 4;
    job->book.chunk_bytes = 64;
    job->book.placement = placement_find("uniform");
    job->book.forced = scheme_at(book_scheme_index(scheme));
    job->plan = book_plan(&job->book);
    if (layout_make(job->plan, &mem_libc, &job->layout, &err) != TRI_OK)
        fail_msg("%s", err.text);
    job->net = (struct toy){.layout = job->layout, .seed = 5, .lr = 0.01f};
    job->options = (struct sim_options){.seed = 9, .clocks = 3, .app = toy_app(&job->net)};
    job->options.rules.reproducible = true;
    (void)optim_read("sgd", &job->options.optim, NULL);
    return job_run(job, 9);
}

static void check_count(const char *scheme, unsigned workers, unsigned servers, unsigned both)
{
    for (unsigned bias = 0; bias <= 12; bias += 12) {
        static struct job job;
        struct sim_cluster *cluster = count_job(&job, scheme, workers, servers, both, bias);
        const tri_scheme_cost *cost = &job.plan->layers[0].costs[job.plan->layers[0].scheme].cost;
        uint64_t most = 0, most_sent = 0, most_received = 0;
        for (uint32_t n = 0; n < job.layout->nodes; n++) {
            struct sim_traffic traffic = sim_traffic(cluster, n);
            uint64_t moved = traffic.sent + traffic.received;
            most = moved > most ? moved : most;
            uint64_t sent = traffic.sent + traffic.bias_sent;
            uint64_t received = traffic.received + traffic.bias_received;
            most_sent = sent > most_sent ? sent : most_sent;
            most_received = received > most_received ? received : most_received;
            /* The columns of the table, by what the node is. */
            bool worker = n < workers, server = n >= workers || n < both;
            double column = worker && server ? cost->floats_both
                            : worker         ? cost->floats_worker
                                             : cost->floats_server;
            if (strcmp(scheme, "adam") != 0 && !isnan(column))
                assert_int_equal(moved, 3 * (uint64_t)(column + 0.5));
        }
        /* adam's rows are those of the owner: the busiest. */
        if (strcmp(scheme, "adam") == 0)
            assert_int_equal(most,
                             3 * (uint64_t)(both > 0 ? cost->floats_both : cost->floats_server));
        assert_int_equal(4 * most_sent, 3 * (uint64_t)(cost->send_bytes + 0.5));
        assert_int_equal(4 * most_received, 3 * (uint64_t)(cost->recv_bytes + 0.5));
        sim_free(cluster);
        job_free(&job);
    }
}

TEST(bytes_moved_equal_table_1)
{
    (void)state;
    check_count("ps", 4, 4, 4);
    check_count("ps", 4, 4, 0);
    check_count("ps", 6, 2, 0);
    check_count("ps", 3, 4, 0);
    check_count("sfb", 5, 5, 5);
    check_count("sfb", 2, 1, 0);
    check_count("adam", 4, 4, 4);
    check_count("adam", 4, 2, 0);
}

/* ---- memory ---- */

TEST(the_roles_allocate_nothing_once_they_are_made)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        static struct job job;
        struct fault counter;
        fault_init(&counter);
        job_draw(&job, seed, &any);
        job.options.core_mem = &counter.mem;
        struct sim_cluster *cluster = NULL;
        assert_int_equal(sim_new(job.layout, &job.options, &mem_libc, &cluster, NULL), TRI_OK);
        size_t made = counter.calls;
        assert_int_equal(sim_run(cluster, NULL), TRI_OK);
        assert_int_equal(counter.calls, made);
        sim_free(cluster);
        assert_int_equal(counter.live, 0);
        job_free(&job);
    }
}

TEST(a_server_has_the_room_that_the_plan_said)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        static struct job job;
        job_draw(&job, seed, &any);
        if (seed % 2 == 0) { /* sums on arrival: one sum in place of a slot per worker */
            tri_error err = {0};
            job.options.rules.reproducible = job.book.reproducible = false;
            layout_free(job.layout);
            plan_free(job.plan);
            job.plan = book_plan(&job.book);
            assert_int_equal(layout_make(job.plan, &mem_libc, &job.layout, &err), TRI_OK);
            job.net.layout = job.layout;
        }
        struct sim_cluster *cluster = NULL;
        assert_int_equal(sim_new(job.layout, &job.options, &mem_libc, &cluster, NULL), TRI_OK);
        uint64_t most = 0;
        for (uint32_t s = 0; s < job.layout->servers; s++) {
            uint64_t room = 4 * sim_server_floats(cluster, s);
            most = room > most ? room : most;
        }
        assert_int_equal(most, (uint64_t)job.plan->server_buffer_bytes);
        sim_free(cluster);
        job_free(&job);
    }
}

TEST(memory_that_is_refused_is_told_and_nothing_leaks)
{
    (void)state;
    struct fault fault = {0};
    static struct job job;
    job_draw(&job, 3, &any);
    job.options.clocks = 1;
    FAULT_WALK(&fault)
    {
        struct sim_cluster *cluster = NULL;
        tri_error err = {0};
        tri_status status = sim_new(job.layout, &job.options, &fault.mem, &cluster, &err);
        if (status == TRI_OK)
            status = sim_run(cluster, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        sim_free(cluster);
    }
    job_free(&job);
}

/* ---- what ranks must agree on ---- */

/* An app whose rank 1 has another learning rate. */
static struct sim_update other_rate(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer,
                                    struct sim_values dense, float *u, float *v)
{
    struct toy *net = ctx;
    struct sim_update update = toy_app(net).update(ctx, rank, clock, layer, dense, u, v);
    if (rank == 1)
        update.lr = nextafterf(update.lr, 1);
    return update;
}

TEST(learning_rates_that_differ_are_refused_and_named)
{
    (void)state;
    static const char *const schemes[] = {"ps", "sfb", "adam"};
    for (size_t i = 0; i < 3; i++) {
        static struct job job;
        sim_free(count_job(&job, schemes[i], 3, 3, 3, 0));
        job.options.app.update = other_rate;
        struct sim_cluster *cluster = NULL;
        tri_error err = {0};
        assert_int_equal(sim_new(job.layout, &job.options, &mem_libc, &cluster, NULL), TRI_OK);
        assert_int_equal(sim_run(cluster, &err), TRI_EMISMATCH);
        assert_non_null(strstr(err.text, "learning rates differ in layer '"));
        assert_non_null(strstr(err.text, "rank 1"));
        sim_free(cluster);
        job_free(&job);
    }
}

TEST(nodes_with_other_layers_are_refused_and_named)
{
    (void)state;
    static struct job job;
    sim_free(count_job(&job, "ps", 3, 2, 0, 0));
    job.options.odd_nodes = 1;
    struct sim_cluster *cluster = NULL;
    tri_error err = {0};
    assert_int_equal(sim_new(job.layout, &job.options, &mem_libc, &cluster, NULL), TRI_OK);
    assert_int_equal(sim_run(cluster, &err), TRI_EMISMATCH);
    /* whoever comes second is named beside the first */
    assert_non_null(strstr(err.text, "has other layers than "));
    assert_non_null(strstr(err.text, "server 1"));
    sim_free(cluster);
    job_free(&job);
}

TEST(a_replica_that_differs_by_one_bit_is_found)
{
    (void)state;
    static struct job job;
    sim_free(count_job(&job, "sfb", 3, 3, 3, 0));
    job.options.corrupt_at = 2;
    struct sim_cluster *cluster = NULL;
    tri_error err = {0};
    assert_int_equal(sim_new(job.layout, &job.options, &mem_libc, &cluster, NULL), TRI_OK);
    assert_int_equal(sim_run(cluster, &err), TRI_EMISMATCH);
    assert_non_null(strstr(err.text, "parameters of ranks"));
    assert_non_null(strstr(err.text, "differ at clock 2"));
    sim_free(cluster);
    job_free(&job);
}

/* ---- checkpoints ---- */

TEST(a_checkpoint_holds_every_unit_at_its_clock)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        static struct job job;
        job_draw(&job, seed, &any);
        if (!job.options.rules.aggregate) { /* else the caller owns the parameters */
            job.options.clocks = 40;        /* refused proposals look ever further ahead */
            job.options.checkpoint_after = 2;
            struct sim_cluster *cluster = job_run(&job, seed);
            uint32_t crc = 0;
            uint64_t clock = sim_checkpoint(cluster, &crc);
            assert_true(clock >= 3 && clock <= 40);
            assert_int_equal(crc, sim_checksum(cluster, 0, clock));
            sim_free(cluster);
        }
        job_free(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_jobs_keep_replicas_equal_and_train_as_one_process_would),
        cmocka_unit_test(any_order_of_messages_gives_the_same_bits),
        cmocka_unit_test(sums_on_arrival_differ_by_rounding_only),
        cmocka_unit_test(bytes_moved_equal_table_1),
        cmocka_unit_test(the_roles_allocate_nothing_once_they_are_made),
        cmocka_unit_test(a_server_has_the_room_that_the_plan_said),
        cmocka_unit_test(memory_that_is_refused_is_told_and_nothing_leaks),
        cmocka_unit_test(learning_rates_that_differ_are_refused_and_named),
        cmocka_unit_test(nodes_with_other_layers_are_refused_and_named),
        cmocka_unit_test(a_replica_that_differs_by_one_bit_is_found),
        cmocka_unit_test(a_checkpoint_holds_every_unit_at_its_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
