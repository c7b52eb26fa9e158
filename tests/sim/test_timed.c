/* Timed jobs against arithmetic: what a cluster must take, worked out by hand. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/books.h"
#include "lib/test.h"
#include "sim/study.h"

/* So many samples that a single message is a small part of an exchange. */
enum { K = 2048 };

/* One FC layer; a batch computes for 10 ms. */
static struct profile *one_layer(unsigned rows, unsigned cols)
{
    char text[500];
    (void)snprintf(text, sizeof text,
                   "{\"format\": \"layer-profile/1\", \"name\": \"one\", \"default_batch\": 8, "
                   "\"layers\": [{\"name\": \"fc\", \"type\": \"FC\", \"M\": %u, \"N\": %u, "
                   "\"bias\": 0, \"fwd_flops\": 1e6, \"bwd_flops\": 2e6}]}",
                   rows, cols);
    struct profile *profile = NULL;
    tri_error err = {0};
    if (profile_read("one", text, strlen(text), &mem_libc, &profile, &err) != TRI_OK)
        fail_msg("%s", err.text);
    return profile;
}

struct timing {
    const char *scheme;
    unsigned workers;
    bool shared;
    double seconds; /* that the exchange must take */
};

/* All layers with one scheme, no overlap, so many bytes a second each way. */
static double run_one(const struct profile *profile, const struct timing *timing, double bytes_s)
{
    struct book book = book_of(profile, timing->workers);
    book.batch = K;
    book.chunk_bytes = 4096;
    book.forced = scheme_at(book_scheme_index(timing->scheme));
    book.placement = placement_find("hash");
    book.flops_s = K * 3e6 / 0.01;
    struct plan *plan = book_plan(&book);
    struct timed_options options = {.iterations = 3,
                                    .bytes_s = bytes_s,
                                    .shared = timing->shared,
                                    .flops_s = 1e30,
                                    .fifo = true,
                                    .barrier = true,
                                    .rules = {.reproducible = true}};
    struct timed_result result;
    tri_error err = {0};
    if (timed_run(plan, &options, &mem_libc, &result, &err) != TRI_OK)
        fail_msg("%s", err.text);
    double compute = result.compute_s, iteration = result.iteration_s;
    assert_true(fabs(compute - 0.01) < 1e-12);
    timed_free(&result, &mem_libc);
    plan_free(plan);
    return iteration - compute;
}

TEST(an_exchange_takes_the_bytes_of_the_busiest_node_over_the_rate)
{
    (void)state;
    enum { M = 2048, N = 4096, P = 4 };
    const double rate = 1e8, matrix = 4.0 * M * N, factors = 4.0 * K * (M + N);
    const double share = (P - 1.0) / P * matrix / rate; /* pushed to others, or sent to them */
    const struct timing rows[] = {
        {"ps", P, false, 2 * share}, /* pushes out, then results out; as much comes in meanwhile */
        {"ps", P, true, 4 * share},
        {"sfb", P, false, (P - 1) * factors / rate},
        {"sfb", P, true, 2 * (P - 1) * factors / rate},
        {"adam", P, false,
         (P - 1) * (factors + matrix) / rate}, /* in to the owner, then out of it */
        {"adam", P, true, (P - 1) * (factors + matrix) / rate},
        {"ps", 1, false, 0},
    };
    struct profile *profile = one_layer(M, N);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double seconds = run_one(profile, &rows[i], rate);
        printf("  %-4s %u workers, %s: %.6f s, by hand %.6f s\n", rows[i].scheme, rows[i].workers,
               rows[i].shared ? "shared" : "full duplex", seconds, rows[i].seconds);
        double iteration = 0.01 + rows[i].seconds;
        if (fabs(0.01 + seconds - iteration) > 1e-3 * iteration)
            fail_msg("%s, %s: %g s, not %g s", rows[i].scheme,
                     rows[i].shared ? "shared" : "full duplex", seconds, rows[i].seconds);
    }
    profile_free(profile);
}

/* ---- studies ---- */

static struct study study_of(const struct profile *profile, const char *system)
{
    return (struct study){.profile = profile,
                          .system = study_system_find(system),
                          .nodes = 4,
                          .bits_s = 1e9,
                          .flops_s = 2.4e9};
}

static double speedup(const struct study *study)
{
    struct study_result result;
    tri_error err = {0};
    if (study_run(study, &mem_libc, &result, &err) != TRI_OK)
        fail_msg("%s", err.text);
    double value = result.speedup;
    study_free(&result, &mem_libc);
    return value;
}

TEST(one_node_alone_has_a_speed_up_of_one)
{
    (void)state;
    struct profile *profile = one_layer(512, 512);
    struct study study = study_of(profile, "single");
    assert_true(fabs(speedup(&study) - 1) < 1e-12);
    study = study_of(profile, "wfbp");
    study.nodes = 1;
    assert_true(fabs(speedup(&study) - 1) < 1e-9);
    profile_free(profile);
}

/* Its own product is a part of the backward pass. */
TEST(a_node_without_peers_multiplies_nothing_more)
{
    (void)state;
    static const char *const names[] = {"poseidon", "adam", "trident"};
    struct profile *profile = one_layer(512, 512);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct study study = study_of(profile, names[i]);
        study.nodes = 1;
        study.rule = STUDY_RULE_BYTES;
        assert_true(fabs(speedup(&study) - 1) < 1e-9);
    }
    profile_free(profile);
}

/* What the device does beyond compute when links take no time, in factor rows over K. */
static double product_rows(const char *scheme, unsigned workers, bool apart)
{
    enum { SIDE = 256 };
    const double flops_s = 1e9;
    struct profile *profile = one_layer(SIDE, SIDE);
    struct book book = book_of(profile, workers);
    book.batch = K;
    book.colocated = apart ? 0 : workers;
    book.forced = scheme_at(book_scheme_index(scheme));
    book.flops_s = flops_s;
    struct plan *plan = book_plan(&book);
    double expected = plan->layers[0].costs[plan->layers[0].scheme].cost.extra_flops;
    struct timed_options options = {.iterations = 3,
                                    .bytes_s = 1e30,
                                    .flops_s = flops_s,
                                    .fifo = true,
                                    .barrier = true,
                                    .rules = {.reproducible = true}};
    struct timed_result result;
    tri_error err = {0};
    if (timed_run(plan, &options, &mem_libc, &result, &err) != TRI_OK)
        fail_msg("%s", err.text);
    double flops = result.stall_s * flops_s;
    assert_true(fabs(flops - expected) <= 1e-6 * expected);
    timed_free(&result, &mem_libc);
    plan_free(plan);
    profile_free(profile);
    return flops / (2.0 * K * SIDE * SIDE);
}

TEST(products_cost_what_the_planner_says)
{
    (void)state;
    assert_true(fabs(product_rows("sfb", 2, false) - 1) < 1e-6);
    assert_true(fabs(product_rows("sfb", 5, false) - 4) < 1e-6);
    assert_true(fabs(product_rows("adam", 5, false) - 4) < 1e-6);
    assert_true(fabs(product_rows("adam", 5, true) - 5) < 1e-6);
}

/* One of four workers is four times as slow; the link is free. Three at full pace and one at a
 * quarter of it are 3.25 workers; in lockstep all are as slow as the slowest. */
TEST(workers_that_do_not_wait_for_each_other_count_by_what_they_do_together)
{
    (void)state;
    struct profile *profile = one_layer(64, 64);
    struct study study = study_of(profile, "wfbp");
    study.bits_s = 1e15;
    study.slow_nodes = 1;
    study.slow_times = 4;
    study.iterations = 20;
    assert_true(fabs(speedup(&study) - 1) < 1e-3);
    study.consistency = "asp";
    assert_true(fabs(speedup(&study) - 3.25) < 1e-2);
    study.consistency = "ssp:100";
    assert_true(fabs(speedup(&study) - 3.25) < 1e-2);
    study.consistency = "ssp:0";
    assert_true(fabs(speedup(&study) - 1) < 1e-3);
    profile_free(profile);
}

/* A time for the whole iteration, and nothing about its layers. */
TEST(a_profile_that_knows_only_its_iteration_can_be_simulated)
{
    (void)state;
    static const char text[] =
        "{\"format\": \"layer-profile/1\", \"name\": \"m\", \"default_batch\": 8, \"compute\": "
        "{\"default\": {\"iteration_s\": 0.01, \"batch\": 8}}, \"layers\": [{\"name\": \"a\", "
        "\"type\": \"FC\", \"M\": 64, \"N\": 64}, {\"name\": \"b\", \"type\": \"FC\", \"M\": "
        "64, \"N\": 64}]}";
    struct profile *profile = NULL;
    assert_int_equal(profile_read("m", text, strlen(text), &mem_libc, &profile, NULL), TRI_OK);
    struct study study = study_of(profile, "wfbp");
    double now = speedup(&study);
    assert_true(now > 1 && now <= 4);
    profile_free(profile);
}

/* Chunks that grow with the rate must not leave servers without any. */
TEST(a_better_network_is_no_slower_for_small_models_on_many_nodes)
{
    (void)state;
    static const char *const models[] = {"lstm_lm_medium", "alexnet", "cifar10_quick", "googlenet"};
    static const double rates[] = {10e9, 25e9, 40e9, 100e9};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct profile *profile = book_model(models[m]);
        for (unsigned nodes = 8; nodes <= 32; nodes *= 4) {
            double last = 0;
            for (size_t r = 0; r < sizeof rates / sizeof rates[0]; r++) {
                struct study study = study_of(profile, "wfbp");
                study.nodes = nodes;
                study.bits_s = rates[r];
                study.flops_s = 0;
                study.latency_s = 50e-6;
                study.message_s = 5e-6;
                study.iterations = 3;
                double now = speedup(&study);
                if (now < last * (1 - 1e-3))
                    fail_msg("%s on %u nodes: %g at %g Gbit/s, %g below", models[m], nodes, now,
                             rates[r] / 1e9, last);
                last = now;
            }
        }
        profile_free(profile);
    }
}

TEST(a_better_network_is_never_slower)
{
    (void)state;
    struct profile *profile = one_layer(1024, 1024);
    const struct study_system *system;
    for (size_t i = 0; (system = study_system_at(i)) != NULL; i++) {
        double last = 0;
        for (unsigned gbit = 1; gbit <= 32; gbit *= 2) {
            struct study study = study_of(profile, system->name);
            study.bits_s = gbit * 1e9;
            double now = speedup(&study);
            assert_true(now >= last * (1 - 1e-9));
            last = now;
        }
        assert_true(last <= 4 * (1 + 1e-9));
    }
    profile_free(profile);
}

TEST(what_cannot_be_is_refused_with_a_next_step)
{
    (void)state;
    struct profile *profile = one_layer(64, 64);
    struct study rows[6];
    for (size_t i = 0; i < 6; i++)
        rows[i] = study_of(profile, "poseidon");
    rows[0].nodes = 0;
    rows[1].bits_s = 0;
    rows[2].efficiency = 1.5;
    rows[3].jitter = 1;
    rows[4].iterations = 1;
    rows[5].consistency = "ssp:2"; /* with a layer on the workers */
    for (size_t i = 0; i < 6; i++) {
        struct study_result result;
        tri_error err = {0};
        assert_int_equal(study_run(&rows[i], &mem_libc, &result, &err), TRI_EINPUT);
        assert_true(err.text[0] != '\0');
        assert_true(err.next[0] != '\0');
    }
    profile_free(profile);
}

TEST(memory_that_is_refused_is_told_and_nothing_leaks)
{
    (void)state;
    struct profile *profile = one_layer(16, 16);
    struct study study = study_of(profile, "poseidon");
    struct fault fault = {0};
    study.nodes = 2;
    study.iterations = 2;
    FAULT_WALK(&fault)
    {
        struct study_result result;
        tri_status status = study_run(&study, &fault.mem, &result, NULL);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        if (status == TRI_OK)
            study_free(&result, &fault.mem);
    }
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exchange_takes_the_bytes_of_the_busiest_node_over_the_rate),
        cmocka_unit_test(one_node_alone_has_a_speed_up_of_one),
        cmocka_unit_test(a_node_without_peers_multiplies_nothing_more),
        cmocka_unit_test(products_cost_what_the_planner_says),
        cmocka_unit_test(workers_that_do_not_wait_for_each_other_count_by_what_they_do_together),
        cmocka_unit_test(a_profile_that_knows_only_its_iteration_can_be_simulated),
        cmocka_unit_test(a_better_network_is_no_slower_for_small_models_on_many_nodes),
        cmocka_unit_test(a_better_network_is_never_slower),
        cmocka_unit_test(what_cannot_be_is_refused_with_a_next_step),
        cmocka_unit_test(memory_that_is_refused_is_told_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
