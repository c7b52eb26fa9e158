/* Slow workers and relaxed rules: ssp, asp, stragglers left out; how fast silence is noticed, and
 * what a user reads meanwhile. Times are virtual. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/jobs.h"
#include "lib/test.h"
#include "mod/consistency.h"

/* Worker 1 is slow from the start. */
static const struct sim_fault slow = {.kind = SIM_SLOW_NODE, .a = 1, .at = 0, .factor = 20};
static const struct sim_fault five_times = {.kind = SIM_SLOW_NODE, .a = 1, .at = 0, .factor = 5};

static void draw(struct job *job, unsigned workers, const char *consistency)
{
    struct job_wish wish = {
        .scheme = "ps", .workers = workers, .layers = 4, .apart = true, .plain = true};
    const tri_consistency_ops *ops = NULL;
    uint32_t bound = 0;
    job_draw(job, 5, &wish);
    job->net.busy = false;
    job->options.clocks = 24;
    assert_int_equal(consistency_read(consistency, &ops, &bound, NULL), TRI_OK);
    job->options.rules.consistency = ops;
    job->options.rules.bound = bound;
}

static struct sim_cluster *run(struct job *job, const struct sim_fault *fault)
{
    job->options.faults = fault;
    job->options.fault_count = fault != NULL;
    return job_run(job, job->options.seed);
}

/* ---- ssp ---- */

/* How many iterations ahead of worker 1 worker 0 has been. */
static uint64_t most_ahead(const struct sim_cluster *cluster, uint64_t clocks)
{
    uint64_t most = 0;
    for (uint64_t fast = 0; fast < clocks; fast++) {
        uint64_t done = 0;
        while (done < clocks && sim_began(cluster, 1, done) != 0 &&
               sim_began(cluster, 1, done) <= sim_began(cluster, 0, fast))
            done++;
        most = fast + 1 - done > most && fast + 1 > done ? fast + 1 - done : most;
    }
    return most;
}

TEST(ssp_lets_the_fast_run_ahead_up_to_the_bound_and_no_further)
{
    (void)state;
    static const struct {
        const char *rule;
        uint64_t bound;
    } rows[] = {{"bsp", 0}, {"ssp:1", 1}, {"ssp:5", 5}};
    for (size_t i = 0; i < 3; i++) {
        static struct job job;
        draw(&job, 3, rows[i].rule);
        struct sim_cluster *cluster = run(&job, &slow); /* the bound is checked at every event */
        uint64_t ahead = most_ahead(cluster, job.options.clocks);
        /* Begun, not ended: at most the bound plus the one it is in, and it gets there. */
        assert_true(ahead <= rows[i].bound + 1);
        assert_true(ahead >= rows[i].bound);
        sim_free(cluster);
        job_free(&job);
    }
}

TEST(a_slow_worker_slows_the_others_only_at_the_bound)
{
    (void)state;
    static struct job job;
    draw(&job, 3, "ssp:5");
    struct sim_cluster *even = run(&job, NULL), *uneven = run(&job, &slow);
    job.options.rules.consistency = NULL;
    struct sim_cluster *bsp = run(&job, &slow);
    /* Five iterations in, it is as fast as if nobody were slow; bsp is not. */
    assert_true(sim_began(uneven, 0, 5) < 2 * sim_began(even, 0, 5));
    assert_true(sim_began(bsp, 0, 5) > 3 * sim_began(even, 0, 5));
    /* In the end it waits as everybody must. */
    assert_true(sim_began(uneven, 0, 23) > 3 * sim_began(even, 0, 23));
    printf("  worker 0 began iteration 5 after %" PRIu64 " ms with nobody slow, %" PRIu64
           " with ssp:5, %" PRIu64 " with bsp\n",
           sim_began(even, 0, 5), sim_began(uneven, 0, 5), sim_began(bsp, 0, 5));
    sim_free(even);
    sim_free(uneven);
    sim_free(bsp);
    job_free(&job);
}

TEST(ssp_0_gives_the_bits_of_bsp)
{
    (void)state;
    static struct job job;
    draw(&job, 4, "bsp");
    struct sim_cluster *bsp = run(&job, NULL);
    uint32_t bits = sim_checksum(bsp, 0, job.options.clocks);
    sim_free(bsp);
    job_free(&job);
    draw(&job, 4, "ssp:0");
    struct sim_cluster *ssp = run(&job, NULL);
    assert_int_equal(sim_checksum(ssp, 0, job.options.clocks), bits);
    sim_free(ssp);
    job_free(&job);
}

/* ---- asp ---- */

TEST(asp_applies_every_update_once_about_as_stale_as_there_are_workers)
{
    (void)state;
    for (unsigned workers = 2; workers <= 8; workers += 3) {
        static struct job job;
        draw(&job, workers, "asp");
        job.options.clocks = 60;
        struct sim_cluster *cluster = run(&job, NULL); /* no update twice: checked at every step */
        struct server_staleness staleness = sim_staleness(cluster);
        assert_int_equal(staleness.updates,
                         (uint64_t)workers * job.options.clocks * job.layout->unit_count);
        double mean = (double)staleness.total / (double)staleness.updates;
        printf("  asp, %u workers: mean staleness %.2f, most %" PRIu64 "\n", workers, mean,
               staleness.most);
        assert_true(mean > 0.5 * (workers - 1) && mean < 1.5 * workers);
        sim_free(cluster);
        job_free(&job);
    }
}

static double loss_of(struct job *job, const struct sim_cluster *cluster)
{
    struct sim_values params[NET_MAX_LAYERS];
    for (uint32_t i = 0; i < job->layout->layer_count; i++)
        params[i] = sim_params(cluster, 0, i);
    return toy_loss(&job->net, params);
}

/* ---- stragglers ---- */

static uint64_t times_left_out(const struct job *job, const struct sim_cluster *cluster,
                               uint32_t rank)
{
    uint64_t out = 0;
    for (uint64_t t = 0; t < job->options.clocks; t++)
        out += !sim_in(cluster, 0, t, rank);
    return out;
}

struct straggler_row {
    const char *name;
    bool slow;
    uint64_t deadline;
    uint32_t backup, left_outs;
};

/* The loss of the untrained net, for comparison. */
static double first_loss(struct job *job)
{
    uint64_t clocks = job->options.clocks;
    float lr = job->net.lr;
    job->options.clocks = 1;
    job->net.lr = 0;
    struct sim_cluster *cluster = run(job, NULL);
    double loss = loss_of(job, cluster);
    sim_free(cluster);
    job->options.clocks = clocks;
    job->net.lr = lr;
    return loss;
}

TEST(a_straggler_that_is_left_out_does_not_set_the_pace)
{
    (void)state;
    static const struct straggler_row rows[] = {
        {"bsp, nobody slow", false, 0, 0, 0},         {"bsp, one 5x slower", true, 0, 0, 0},
        {"deadline 50 ms", true, 50000, 0, 0},        {"one backup worker", true, 0, 1, 0},
        {"deadline, out after 3", true, 50000, 0, 3},
    };
    double pace[5], loss[5], start = 0;
    printf("  %-24s %12s %10s %12s %8s\n", "", "ms a clock", "left out", "joins", "loss");
    for (size_t i = 0; i < 5; i++) {
        static struct job job;
        draw(&job, 4, "bsp");
        job.options.clocks = 40;
        if (i == 0)
            start = first_loss(&job);
        job.options.rules.deadline = rows[i].deadline;
        job.options.rules.backup = rows[i].backup;
        job.options.rules.left_outs = rows[i].left_outs;
        struct sim_cluster *cluster = run(&job, rows[i].slow ? &five_times : NULL);
        pace[i] = (double)(sim_began(cluster, 0, 39) - sim_began(cluster, 0, 1)) / 38;
        loss[i] = loss_of(&job, cluster);
        uint64_t out = times_left_out(&job, cluster, 1);
        printf("  %-24s %12.1f %7" PRIu64 "/40 %12" PRIu64 " %8.4f\n", rows[i].name, pace[i], out,
               sim_stats(cluster).joins, loss[i]);
        if (rows[i].deadline > 0 || rows[i].backup > 0)
            assert_true(out > 10); /* the mask shows it */
        else
            assert_int_equal(out, 0);
        for (uint32_t r = 2; r < 4; r++)
            assert_true(times_left_out(&job, cluster, r) <= (rows[i].backup > 0 ? 40u : 5u));
        assert_int_equal(sim_departed(cluster, 1), rows[i].left_outs > 0);
        sim_free(cluster);
        job_free(&job);
    }
    printf("  %-24s %44.4f\n", "untrained", start);
    assert_true(pace[1] > 2 * pace[0]);
    for (size_t i = 2; i < 5; i++) {
        assert_true(pace[i] < 1.4 * pace[0]);
        assert_true(loss[i] < 0.7 * start);
    }
}

/* ---- detection ---- */

/* The time of the first line of a story that has this in it; UINT64_MAX: none. */
static uint64_t told_at(const struct buf *story, const char *what)
{
    const char *at = strstr(buf_string(story), what);
    while (at != NULL && at > story->data && at[-1] != '\n')
        at--;
    return at != NULL ? strtoull(at, NULL, 10) : UINT64_MAX;
}

TEST(a_silent_cut_is_acted_on_within_three_heartbeats)
{
    (void)state;
    static const char *const schemes[] = {"ps", "sfb"};
    uint64_t longest = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        static struct job job;
        struct buf story;
        struct job_wish wish = {
            .scheme = schemes[seed % 2], .workers = 4, .layers = 2, .apart = true, .plain = true};
        struct sim_fault cut = {.kind = SIM_ISOLATE, .a = 2, .at = 200 + 10 * seed};
        job_draw(&job, seed, &wish);
        job.options.clocks = 30;
        buf_init(&story, &mem_libc);
        job.options.story = &story;
        struct sim_cluster *cluster = run(&job, &cut);
        uint64_t when = told_at(&story, "fault before event");
        assert_true(sim_departed(cluster, 2));
        assert_int_equal(sim_view(cluster), 2);
        uint64_t took = sim_view_time(cluster) - when;
        longest = took > longest ? took : longest;
        sim_free(cluster);
        buf_fini(&story);
        job_free(&job);
    }
    printf("  60 silent cuts: acted on after at most %" PRIu64 " ms, the heartbeat being 1000\n",
           longest);
    assert_true(longest <= 3000);
}

TEST(a_shorter_pause_changes_nothing)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        static struct job job;
        struct job_wish wish = {.workers = 4, .layers = 2, .plain = true};
        job_draw(&job, seed, &wish);
        job.options.clocks = 30;
        struct sim_cluster *even = run(&job, NULL);
        uint32_t bits = sim_checksum(even, 0, 30);
        sim_free(even);
        struct sim_fault pause = {
            .kind = SIM_PAUSE, .a = (uint32_t)(seed % 4), .at = 100 + 10 * seed, .lasts = 2200};
        struct sim_cluster *cluster = run(&job, &pause);
        assert_int_equal(sim_view(cluster), 1);
        assert_int_equal(sim_stats(cluster).evictions, 0);
        assert_int_equal(sim_checksum(cluster, 0, 30), bits);
        sim_free(cluster);
        job_free(&job);
    }
}

/* ---- closing ---- */

TEST(a_rank_that_closes_early_is_given_up_and_the_others_go_on)
{
    (void)state;
    static const char *const schemes[] = {"ps", "sfb", "adam"};
    for (size_t i = 0; i < 3; i++) {
        static struct job job;
        struct job_wish wish = {
            .scheme = schemes[i], .workers = 4, .layers = 2, .apart = true, .plain = true};
        job_draw(&job, 11, &wish);
        job.options.clocks = 10;
        job.options.early = 4;
        struct sim_cluster *cluster = run(&job, NULL);
        struct sim_outcome outcome = sim_outcome(cluster, 3);
        assert_int_equal(outcome.fate, SIM_EVICTED);
        assert_non_null(strstr(outcome.text, "closed at clock 6, and others go on"));
        for (uint32_t r = 0; r < 3; r++) {
            assert_int_equal(sim_outcome(cluster, r).fate, SIM_ENDED);
            assert_int_equal(sim_checksum(cluster, r, 10), sim_checksum(cluster, 0, 10));
        }
        sim_free(cluster);
        job_free(&job);
    }
}

/* ---- what a user reads ---- */

TEST(every_node_says_what_it_waits_for_and_of_whom)
{
    (void)state;
    static const struct {
        const char *scheme, *text;
    } rows[] = {{"ps", "node 4  waiting 10 s for l0 of worker 2 (last heard "},
                {"ps", "node 0  waiting 10 s for l0 of server"},
                {"sfb", "node 1  waiting 10 s for l0 of worker 2 (last heard "}};
    for (size_t i = 0; i < 3; i++) {
        static struct job job;
        struct buf story;
        struct job_wish wish = {
            .scheme = rows[i].scheme, .workers = 4, .layers = 1, .apart = true, .plain = true};
        struct sim_fault pause = {.kind = SIM_PAUSE, .a = 2, .at = 300, .lasts = 45000};
        job_draw(&job, 3, &wish);
        job.options.clocks = 30;
        /* So patient that nobody is given up. */
        job.options.times = (struct core_times){.heartbeat = 40000000, .warn = 10000000};
        buf_init(&story, &mem_libc);
        job.options.story = &story;
        struct sim_cluster *cluster = run(&job, &pause);
        if (strstr(buf_string(&story), rows[i].text) == NULL)
            fail_msg("no \"%s\" in\n%s", rows[i].text, buf_string(&story));
        assert_non_null(strstr(buf_string(&story), "waiting 20 s for l0 of"));
        sim_free(cluster);
        buf_fini(&story);
        job_free(&job);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ssp_lets_the_fast_run_ahead_up_to_the_bound_and_no_further),
        cmocka_unit_test(a_slow_worker_slows_the_others_only_at_the_bound),
        cmocka_unit_test(ssp_0_gives_the_bits_of_bsp),
        cmocka_unit_test(asp_applies_every_update_once_about_as_stale_as_there_are_workers),
        cmocka_unit_test(a_straggler_that_is_left_out_does_not_set_the_pace),
        cmocka_unit_test(a_silent_cut_is_acted_on_within_three_heartbeats),
        cmocka_unit_test(a_shorter_pause_changes_nothing),
        cmocka_unit_test(a_rank_that_closes_early_is_given_up_and_the_others_go_on),
        cmocka_unit_test(every_node_says_what_it_waits_for_and_of_whom),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
