/* Clusters in which things go wrong: random faults at any event, invariants after every one.
 * A run that breaks one is shrunk to the fewest faults and told as a story. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/jobs.h"
#include "lib/test.h"
#include "mod/consistency.h"

enum { MOST_FAULTS = 16, MOST_DRAWN = 5 };

/* ---- drawing ---- */

enum rule { RULE_BSP, RULE_SSP, RULE_ASP, RULE_STRAGGLERS };

/* TRIDENT_FAULT_RULE=ssp (or bsp, asp, stragglers): only jobs with that one. */
static enum rule draw_rule(struct rng *rng)
{
    static const char *const names[] = {"bsp", "ssp", "asp", "stragglers"};
    const char *wanted = getenv("TRIDENT_FAULT_RULE");
    uint64_t pick = rng_below(rng, 10);
    for (size_t i = 0; wanted != NULL && i < 4; i++)
        if (strcmp(wanted, names[i]) == 0)
            return (enum rule)i;
    return pick < 6 ? RULE_BSP : pick == 6 ? RULE_SSP : pick == 7 ? RULE_ASP : RULE_STRAGGLERS;
}

static void set_rule(struct job *job, enum rule rule, struct rng *rng)
{
    struct core_rules *rules = &job->options.rules;
    if (rule == RULE_SSP || rule == RULE_ASP) {
        rules->consistency = consistency_find(rule == RULE_SSP ? "ssp" : "asp");
        rules->bound = rule == RULE_SSP ? 1 + (uint32_t)rng_below(rng, 5) : 0;
    }
    if (rule == RULE_STRAGGLERS) {
        uint32_t most = job->book.workers - 1;
        if (rng_below(rng, 2) == 0 && most > 0)
            rules->backup = 1 + (uint32_t)rng_below(rng, most < 2 ? most : 2);
        else
            rules->deadline = 1000 * (50 + rng_below(rng, 1000));
        rules->left_outs = rng_below(rng, 2) == 0 ? 3 : 0;
        job->options.clocks += rng_below(rng, 20);
    }
    if (rng_below(rng, 4) == 0) {
        rules->reproducible = job->book.reproducible = false;
        job_plan(job);
    }
}

static bool is_vital(const struct layout *layout, uint32_t node)
{
    for (uint32_t s = 0; s < layout->servers; s++)
        if (layout->server_node[s] == node && layout->server_units[s] > 0)
            return true;
    return node == 0;
}

/* Mostly a node that the job can do without, so that it goes on. */
static uint32_t draw_node(const struct layout *layout, struct rng *rng)
{
    uint32_t node = 0;
    for (int tries = 0; tries < 6; tries++) {
        node = (uint32_t)rng_below(rng, layout->nodes);
        if (!is_vital(layout, node) || rng_below(rng, 8) == 0)
            break;
    }
    return node;
}

static struct sim_fault draw_fault(const struct job *job, struct rng *rng, uint64_t events)
{
    struct sim_fault fault = {.kind = (enum sim_fault_kind)rng_below(rng, SIM_FAULT_KINDS),
                              .at = rng_below(rng, events),
                              .a = draw_node(job->layout, rng)};
    fault.b = (uint32_t)rng_below(rng, job->layout->nodes);
    if (fault.b == fault.a)
        fault.b = (fault.a + 1) % job->layout->nodes;
    switch (fault.kind) {
    case SIM_PAUSE:
        fault.lasts =
            rng_below(rng, 3) == 0 ? 2000 + rng_below(rng, 1000) : 1 + rng_below(rng, 6000);
        break;
    case SIM_RESTART:
        fault.lasts = 1 + rng_below(rng, 5000);
        break;
    case SIM_SLOW_NODE:
        fault.factor = 2 + (uint32_t)rng_below(rng, 18);
        fault.lasts = rng_below(rng, 3) == 0 ? 0 : 100 + rng_below(rng, 4000);
        break;
    case SIM_SLOW_LINK:
        fault.factor = 2 + (uint32_t)rng_below(rng, 2);
        fault.lasts = rng_below(rng, 3) == 0 ? 0 : 100 + rng_below(rng, 4000);
        break;
    default: /* also about as long as it takes to be given up */
        fault.lasts = rng_below(rng, 3) == 0   ? 0
                      : rng_below(rng, 2) == 0 ? 2300 + rng_below(rng, 600)
                                               : 1 + rng_below(rng, 6000);
        break;
    }
    return fault;
}

struct run {
    struct job job;
    struct sim_fault faults[MOST_FAULTS];
    size_t fault_count;
};

/* ---- running ---- */

static bool is_broken(const tri_error *err)
{
    return strncmp(err->text, "invariant: ", 11) == 0 || strncmp(err->text, "stuck: ", 7) == 0 ||
           err->status == TRI_EMISMATCH;
}

/* Runs a list of faults; the cluster is the caller's. */
static struct sim_cluster *run_faults(struct job *job, const struct sim_fault *faults, size_t count,
                                      struct buf *story, tri_error *err)
{
    struct sim_cluster *cluster = NULL;
    job->options.faults = faults;
    job->options.fault_count = count;
    job->options.story = story;
    *err = (tri_error){0};
    if (sim_new(job->layout, &job->options, &mem_libc, &cluster, err) != TRI_OK)
        fail_msg("%s", err->text);
    (void)sim_run(cluster, err);
    return cluster;
}

/* How many events the job has when nothing goes wrong. */
static uint64_t count_events(struct job *job)
{
    tri_error err;
    job->options.check = false;
    struct sim_cluster *cluster = run_faults(job, NULL, 0, NULL, &err);
    if (err.status != TRI_OK) {
        struct buf story;
        buf_init(&story, &mem_libc);
        sim_free(run_faults(job, NULL, 0, &story, &err));
        fprintf(stderr, "%s\n", buf_string(&story));
        fail_msg("without faults: %s", err.text);
    }
    uint64_t events = sim_events(cluster);
    job->options.check = true;
    sim_free(cluster);
    return events;
}

static void draw_faults(struct run *run, struct rng *rng, uint64_t events)
{
    run->fault_count = 1 + (size_t)rng_below(rng, MOST_DRAWN);
    for (size_t i = 0; i < run->fault_count; i++)
        run->faults[i] = draw_fault(&run->job, rng, events);
    if (core_leaves_out(&run->job.options.rules)) /* somebody to be left out */
        run->faults[0] = (struct sim_fault){.kind = SIM_SLOW_NODE,
                                            .at = rng_below(rng, events),
                                            .a = (uint32_t)rng_below(rng, run->job.layout->workers),
                                            .factor = 3 + (uint32_t)rng_below(rng, 17),
                                            .lasts = 500 + rng_below(rng, 3000)};
}

/* Workers that die just after some of their peers could no longer hear them, so that what they
 * sent last has reached some and not others. One that is started again at once is noticed at once:
 * then the others are not yet waiting for it, but in the middle of everything. */
static void draw_lonely_deaths(struct run *run, struct rng *rng, uint64_t events)
{
    const struct layout *layout = run->job.layout;
    uint64_t at = rng_below(rng, events);
    size_t deaths = 1 + (size_t)rng_below(rng, 3);
    run->fault_count = 0;
    for (size_t i = 0; i < deaths && run->fault_count < MOST_FAULTS; i++) {
        uint32_t victim = draw_node(layout, rng);
        for (uint32_t n = 0; n < layout->workers && run->fault_count + 1 < MOST_FAULTS; n++)
            if (n != victim && rng_below(rng, 2) == 0)
                run->faults[run->fault_count++] =
                    (struct sim_fault){.kind = SIM_CUT, .at = at, .a = victim, .b = n};
        at += rng_below(rng, 150);
        bool restart = rng_below(rng, 2) == 0;
        run->faults[run->fault_count++] =
            (struct sim_fault){.kind = restart ? SIM_RESTART : SIM_KILL,
                               .at = at,
                               .a = victim,
                               .lasts = restart ? 1 + rng_below(rng, 60) : 0};
        at += rng_below(rng, 3) == 0 ? rng_below(rng, events) : rng_below(rng, 100);
    }
}

/* Silences about as long as it takes to be given up, also of the coordinator. */
static void draw_brink(struct run *run, struct rng *rng, uint64_t events)
{
    static const enum sim_fault_kind kinds[] = {SIM_PAUSE, SIM_ISOLATE, SIM_SPLIT, SIM_CUT};
    const struct layout *layout = run->job.layout;
    run->fault_count = 1 + (size_t)rng_below(rng, 2);
    for (size_t i = 0; i < run->fault_count; i++) {
        struct sim_fault fault = draw_fault(&run->job, rng, events);
        fault.kind = kinds[rng_below(rng, 4)];
        fault.lasts = 2400 + rng_below(rng, 500);
        if (fault.kind == SIM_PAUSE && rng_below(rng, 2) == 0) {
            fault.a = 0;
            fault.lasts = 2400 + rng_below(rng, 300);
        }
        if (fault.b == fault.a)
            fault.b = (fault.a + 1) % layout->nodes;
        run->faults[i] = fault;
    }
}

static void draw_run(struct run *run, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed ^ 0x6661756c7473);
    enum rule rule = draw_rule(&rng);
    uint64_t kind = getenv("TRIDENT_FAULT_RULE") != NULL ? 9 : rng_below(&rng, 10);
    bool lonely = kind < 4, brink = kind == 4 || kind == 5;
    rule = lonely ? RULE_BSP : rule;
    bool servers = rule != RULE_BSP;
    struct job_wish wish = {.on_servers = servers,
                            .plain = servers,
                            .apart = rng_below(&rng, 3) > 0,
                            .workers = 2 + (unsigned)rng_below(&rng, NET_MAX_RANKS - 1),
                            .on_workers = !servers && rng_below(&rng, lonely ? 2 : 4) == 0};
    job_draw(&run->job, seed, &wish);
    set_rule(&run->job, rule, &rng);
    if (!run->job.options.rules.aggregate && rng_below(&rng, 2) == 0)
        run->job.options.checkpoint_every = 1 + rng_below(&rng, 3);
    uint64_t events = count_events(&run->job);
    if (lonely)
        draw_lonely_deaths(run, &rng, events);
    else if (brink)
        draw_brink(run, &rng, events);
    else
        draw_faults(run, &rng, events);
}

static bool breaks(void *ctx, const struct sim_fault *faults, size_t count)
{
    tri_error err;
    sim_free(run_faults(ctx, faults, count, NULL, &err));
    return is_broken(&err);
}

/* The fewest faults that still break it, and what happened. */
static void tell(struct run *run, uint64_t seed, const char *text)
{
    struct buf story;
    tri_error err;
    buf_init(&story, &mem_libc);
    size_t count = sim_shrink(run->faults, run->fault_count, breaks, &run->job);
    sim_free(run_faults(&run->job, run->faults, count, &story, &err));
    fprintf(stderr, "seed %" PRIu64 ": %s\n  %u workers, %u servers, %u nodes; %s\n", seed, text,
            run->job.layout->workers, run->job.layout->servers, run->job.layout->nodes,
            run->job.options.rules.consistency != NULL ? run->job.options.rules.consistency->name
                                                       : "bsp");
    for (size_t i = 0; i < count; i++)
        fprintf(stderr,
                "  fault: %s of %u (and %u) before event %" PRIu64 ", for %" PRIu64 " ms, x%u\n",
                sim_fault_name(run->faults[i].kind), run->faults[i].a, run->faults[i].b,
                run->faults[i].at, run->faults[i].lasts, run->faults[i].factor);
    fprintf(stderr, "%s\n  %s\n", buf_string(&story), err.text);
    buf_fini(&story);
}

static void add_stats(struct sim_stats *sum, const struct sim_stats *more)
{
    for (size_t i = 0; i < SIM_FAULT_KINDS; i++)
        sum->faults[i] += more->faults[i];
    sum->views += more->views;
    sum->evictions += more->evictions;
    sum->relays += more->relays;
    sum->joins += more->joins;
    sum->left_outs += more->left_outs;
    sum->torn += more->torn;
    sum->duplicates += more->duplicates;
    sum->dropped += more->dropped;
    sum->checkpoints += more->checkpoints;
    sum->events += more->events;
}

static void print_stats(const struct sim_stats *sum, uint64_t first, uint64_t runs, uint64_t failed)
{
    printf("  seeds %" PRIu64 " to %" PRIu64 ": %" PRIu64 " jobs ended, %" PRIu64
           " failed as they should; %" PRIu64 " events\n  faults:",
           first, first + runs - 1, runs - failed, failed, sum->events);
    for (size_t i = 0; i < SIM_FAULT_KINDS; i++)
        printf(" %s %" PRIu64, sim_fault_name((enum sim_fault_kind)i), sum->faults[i]);
    printf("\n  views %" PRIu64 ", evictions %" PRIu64 ", relays %" PRIu64 ", left out %" PRIu64
           ", joins %" PRIu64 ", torn %" PRIu64 ", sent twice %" PRIu64 ", dropped %" PRIu64
           ", checkpoints %" PRIu64 "\n",
           sum->views, sum->evictions, sum->relays, sum->left_outs, sum->joins, sum->torn,
           sum->duplicates, sum->dropped, sum->checkpoints);
}

/* TRIDENT_FAULT_SEED and TRIDENT_FAULT_RUNS choose other or more of them. */
TEST(random_faults_break_nothing_and_leave_nothing_stuck)
{
    (void)state;
    uint64_t first = job_env("TRIDENT_FAULT_SEED", 1), runs = job_env("TRIDENT_FAULT_RUNS", 200);
    struct sim_stats sum = {0};
    uint64_t failed = 0;
    for (uint64_t seed = first; seed < first + runs; seed++) {
        static struct run run;
        tri_error err;
        draw_run(&run, seed);
        struct sim_cluster *cluster = run_faults(&run.job, run.faults, run.fault_count, NULL, &err);
        struct sim_stats stats = sim_stats(cluster);
        sim_free(cluster);
        add_stats(&sum, &stats);
        failed += err.status != TRI_OK;
        if (is_broken(&err)) {
            char text[300];
            (void)snprintf(text, sizeof text, "%s", err.text);
            tell(&run, seed, text);
            fail_msg("seed %" PRIu64 " (the %" PRIu64 "th run): %s", seed, seed - first + 1, text);
        }
        job_free(&run.job);
    }
    print_stats(&sum, first, runs, failed);
}

TEST(the_same_seed_gives_the_same_run_byte_for_byte)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        static struct run run;
        struct buf story[2];
        tri_error err;
        for (int twice = 0; twice < 2; twice++) {
            buf_init(&story[twice], &mem_libc);
            draw_run(&run, seed);
            sim_free(run_faults(&run.job, run.faults, run.fault_count, &story[twice], &err));
            job_free(&run.job);
        }
        assert_true(story[0].len > 0);
        assert_string_equal(buf_string(&story[0]), buf_string(&story[1]));
        buf_fini(&story[0]);
        buf_fini(&story[1]);
    }
}

/* Fails as long as both of two faults are there, one of them for at least 100 ms. */
static bool needs_two(void *ctx, const struct sim_fault *faults, size_t count)
{
    bool kill = false, pause = false;
    ++*(int *)ctx;
    for (size_t i = 0; i < count; i++) {
        kill = kill || (faults[i].kind == SIM_KILL && faults[i].a == 2);
        pause = pause || (faults[i].kind == SIM_PAUSE && faults[i].lasts >= 100);
    }
    return kill && pause;
}

TEST(a_failure_is_shrunk_to_the_faults_it_needs)
{
    (void)state;
    struct sim_fault faults[] = {{.kind = SIM_CUT, .a = 1, .b = 2, .lasts = 50},
                                 {.kind = SIM_KILL, .a = 2},
                                 {.kind = SIM_RESET, .a = 0, .b = 1},
                                 {.kind = SIM_PAUSE, .a = 3, .lasts = 4000},
                                 {.kind = SIM_KILL, .a = 1}};
    int runs = 0;
    assert_int_equal(sim_shrink(faults, 5, needs_two, &runs), 2);
    assert_int_equal(faults[0].kind, SIM_KILL);
    assert_int_equal(faults[0].a, 2);
    assert_int_equal(faults[1].kind, SIM_PAUSE);
    assert_true(faults[1].lasts >= 100 && faults[1].lasts < 200);
}

/* ---- a worker dies at every event ---- */

static void check_survivors(const struct job *job, const struct sim_cluster *cluster,
                            const tri_error *err, uint64_t at)
{
    uint32_t first = UINT32_MAX;
    if (err->status != TRI_OK)
        fail_msg("death at event %" PRIu64 ": %s", at, err->text);
    for (uint32_t r = 0; r < job->layout->workers; r++) {
        struct sim_outcome outcome = sim_outcome(cluster, r);
        if (outcome.fate == SIM_KILLED)
            continue;
        if (outcome.fate != SIM_ENDED)
            fail_msg("death at event %" PRIu64 ": worker %u did not end", at, r);
        first = first == UINT32_MAX ? r : first;
        if (sim_checksum(cluster, r, job->options.clocks) !=
            sim_checksum(cluster, first, job->options.clocks))
            fail_msg("death at event %" PRIu64 ": workers %u and %u differ", at, first, r);
    }
}

static uint64_t kill_everywhere(const struct job_wish *wish, uint64_t seed, uint32_t victim)
{
    static struct job job;
    job_draw(&job, seed, wish);
    job.options.clocks = 3;
    uint64_t events = count_events(&job);
    for (uint64_t at = 0; at <= events; at += job_env("TRIDENT_DEATH_STEP", 1)) {
        struct sim_fault fault = {.kind = SIM_KILL, .a = victim, .at = at};
        tri_error err;
        struct sim_cluster *cluster = run_faults(&job, &fault, 1, NULL, &err);
        /* Before the start there is nothing to go on with. */
        if (strstr(err.text, "before the job had started") == NULL)
            check_survivors(&job, cluster, &err, at);
        sim_free(cluster);
    }
    job_free(&job);
    return events;
}

TEST(a_worker_may_die_at_any_event_whatever_the_schemes)
{
    (void)state;
    static const char *const schemes[] = {"ps", "sfb", "adam", NULL};
    uint64_t deaths = 0;
    for (size_t i = 0; i < 4; i++)
        for (uint32_t victim = 1; victim <= 2; victim++)
            for (uint64_t seed = 1; seed <= job_env("TRIDENT_DEATH_SEEDS", 1); seed++) {
                struct job_wish wish = {
                    .scheme = schemes[i], .workers = 3, .layers = 3, .apart = true};
                deaths += kill_everywhere(&wish, 100 * i + seed, victim);
            }
    /* With servers beside the workers, only plans that need no server go on. */
    for (uint32_t victim = 1; victim <= 2; victim++) {
        struct job_wish wish = {.on_workers = true, .workers = 3, .layers = 3};
        deaths += kill_everywhere(&wish, 7, victim);
    }
    printf("  %" PRIu64 " deaths, one at every event\n", deaths);
}

TEST(two_of_four_workers_may_die_at_any_two_events)
{
    (void)state;
    static const char *const schemes[] = {"ps", "sfb", "adam", NULL};
    uint64_t runs = job_env("TRIDENT_DEATH_RUNS", 60);
    struct rng rng;
    rng_init(&rng, 42);
    for (uint64_t i = 0; i < runs; i++) {
        static struct job job;
        struct job_wish wish = {
            .scheme = schemes[i % 4], .workers = 4, .layers = 1 + (unsigned)(i % 3), .apart = true};
        tri_error err;
        job_draw(&job, i + 1, &wish);
        uint64_t events = count_events(&job);
        uint32_t a = 1 + (uint32_t)rng_below(&rng, 3),
                 b = 1 + (a + (uint32_t)rng_below(&rng, 2)) % 3;
        struct sim_fault faults[] = {{.kind = SIM_KILL, .a = a, .at = rng_below(&rng, events)},
                                     {.kind = SIM_KILL, .a = b, .at = rng_below(&rng, events)}};
        struct sim_cluster *cluster = run_faults(&job, faults, 2, NULL, &err);
        if (strstr(err.text, "before the job had started") == NULL)
            check_survivors(&job, cluster, &err, faults[0].at);
        sim_free(cluster);
        job_free(&job);
    }
}

/* The name of a test, or a pattern, runs only that. */
int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_faults_break_nothing_and_leave_nothing_stuck),
        cmocka_unit_test(the_same_seed_gives_the_same_run_byte_for_byte),
        cmocka_unit_test(a_failure_is_shrunk_to_the_faults_it_needs),
        cmocka_unit_test(a_worker_may_die_at_any_event_whatever_the_schemes),
        cmocka_unit_test(two_of_four_workers_may_die_at_any_two_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
