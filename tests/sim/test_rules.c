/* Rule time against rule bytes and against ps for all layers, by simulation. tools/rules does it
 * for ten times as many cases. */
#include <math.h>
#include <stdio.h>

#include "lib/books.h"
#include "lib/jobs.h"
#include "lib/test.h"
#include "sim/study.h"

static double iteration(const struct study *from, enum study_rule rule, double *estimate)
{
    struct study study = *from;
    struct study_result result;
    tri_error err = {0};
    study.rule = rule;
    if (study_run(&study, &mem_libc, &result, &err) != TRI_OK)
        fail_msg("%s", err.text);
    double seconds = result.timed.iteration_s;
    *estimate = result.estimate_s / seconds;
    study_free(&result, &mem_libc);
    return seconds;
}

struct tally {
    unsigned cases;
    double worst, best;     /* time over bytes */
    double worst_ps;        /* time over ps for all layers */
    double lowest, highest; /* estimate over simulation */
};

static void compare(const struct study *study, struct tally *tally)
{
    double expected[2];
    double bytes = iteration(study, STUDY_RULE_BYTES, &expected[0]);
    double time = iteration(study, STUDY_RULE_TIME, &expected[1]);
    struct study all_ps = *study;
    all_ps.system = study_system_find("wfbp");
    double ignored, ps = iteration(&all_ps, STUDY_RULE_OWN, &ignored);
    tally->worst_ps = fmax(tally->worst_ps, time / ps);
    if (time > 1.01 * bytes)
        print_error("%s, %u nodes, batch %llu, %g Gbit/s, %g TFLOP/s: %g s by time, %g by bytes\n",
                    study->profile->name, (unsigned)study->nodes, (unsigned long long)study->batch,
                    study->bits_s / 1e9, study->flops_s / 1e12, time, bytes);
    tally->cases++;
    tally->worst = fmax(tally->worst, time / bytes);
    tally->best = fmin(tally->best, time / bytes);
    for (size_t i = 0; i < 2; i++) {
        tally->lowest = fmin(tally->lowest, expected[i]);
        tally->highest = fmax(tally->highest, expected[i]);
    }
}

static void sweep(const char *model, struct tally *tally)
{
    static const double rates[] = {1e9, 10e9, 100e9}, flops[] = {0.05, 1, 10};
    static const uint32_t nodes[] = {2, 8, 16};
    static const uint64_t batches[] = {8, 128};
    struct profile *profile = book_model(model);
    double own = profile->flops_s > 0 ? profile->flops_s : 4e12;
    for (size_t i = 0; i < (size_t)3 * 3 * 3 * 2; i++) {
        struct study study = {
            .profile = profile,
            .system = study_system_find("poseidon"),
            .nodes = nodes[i % 3],
            .bits_s = rates[i / 3 % 3],
            .flops_s = flops[i / 9 % 3] * own,
            .batch = batches[i / 27],
            .latency_s = 50e-6,
            .message_s = 5e-6,
            .iterations = 3,
        };
        compare(&study, tally);
    }
    profile_free(profile);
}

static void rule_time_is_never_slower_than_rule_bytes_by_one_percent(void **state)
{
    (void)state;
    static const char *const models[] = {"gadei_joule", "vgg19", "alexnet", "cifar10_quick"};
    bool slow = job_env("TRIDENT_SIM_JOBS", 2000) < 1000; /* as builds with sanitizers are */
    struct tally tally = {.best = 1, .lowest = 1, .highest = 1};
    for (size_t i = 0; i < (slow ? 1 : sizeof models / sizeof models[0]); i++)
        sweep(models[i], &tally);
    print_message("%u cases: time over bytes %.3f to %.3f, over ps at most %.3f, estimate over "
                  "simulation %.2f to %.2f\n",
                  tally.cases, tally.best, tally.worst, tally.worst_ps, tally.lowest,
                  tally.highest);
    assert_true(tally.worst <= 1.01);
    assert_true(tally.worst_ps <= 1.03);
    assert_true(tally.best < 0.6);
}

static void the_planners_estimate_is_near_the_simulation(void **state)
{
    (void)state;
    struct tally tally = {.best = 1, .lowest = 1, .highest = 1};
    sweep("vgg19", &tally);
    assert_true(tally.lowest > 0.85 && tally.highest < 1.15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rule_time_is_never_slower_than_rule_bytes_by_one_percent),
        cmocka_unit_test(the_planners_estimate_is_near_the_simulation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
