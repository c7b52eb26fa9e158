/* What the workers of a run came to, as far as it is known here. */
#include <math.h>
#include <string.h>

#include "base/names.h"
#include "base/printable.h"
#include "cli/train.h"

tri_status train_outcome_init(struct train_outcome *outcome, uint32_t workers,
                              const struct mem *mem, tri_error *err)
{
    *outcome = (struct train_outcome){.mem = mem, .workers = workers, .tested = NAN};
    outcome->ranks = mem_array(mem, workers, sizeof *outcome->ranks);
    return outcome->ranks != NULL ? TRI_OK : fail_nomem(err, "the results");
}

static void free_report(const struct train_outcome *outcome, struct train_report *report)
{
    mem_free(outcome->mem, report->layers);
    mem_free(outcome->mem, report->ops);
    *report = (struct train_report){.rank = 0};
}

void train_outcome_fini(struct train_outcome *outcome)
{
    free_report(outcome, &outcome->report);
    mem_free(outcome->mem, outcome->ranks);
    mem_free(outcome->mem, outcome->tests);
    mem_free(outcome->mem, outcome->events);
}

static void add_test(struct train_outcome *outcome, double epoch, double accuracy)
{
    void *tests = outcome->tests;
    if (mem_grow(outcome->mem, &tests, &outcome->test_room, outcome->test_count + 1,
                 sizeof *outcome->tests) == NULL)
        return;
    outcome->tests = tests;
    outcome->tests[outcome->test_count++] = (struct train_test){epoch, accuracy};
}

void train_outcome_moment(struct train_outcome *outcome, const struct train_moment *moment)
{
    outcome->moved = true;
    outcome->moment = *moment;
    if (!moment->tested)
        return;
    outcome->tested = moment->test_accuracy;
    add_test(outcome, moment->epoch, moment->test_accuracy);
}

void train_outcome_begun(struct train_outcome *outcome, const struct train_report *report)
{
    outcome->begun = true;
    if (!(outcome->begun_s > 0) || report->begun_s < outcome->begun_s)
        outcome->begun_s = report->begun_s;
}

void train_outcome_report(struct train_outcome *outcome, struct train_report *report)
{
    uint32_t rank = report->rank;
    if (rank < outcome->workers && outcome->ranks != NULL)
        outcome->ranks[rank] = (struct train_rank){.known = true,
                                                   .crc32c = report->params_crc32c,
                                                   .sent_bytes = report->sent_bytes,
                                                   .loss = report->train_loss,
                                                   .accuracy = report->train_accuracy,
                                                   .ended_s = report->ended_s,
                                                   .tested_s = report->tested_s};
    if (rank != 0 || outcome->reported) {
        free_report(outcome, report);
        return;
    }
    outcome->report = *report;
    outcome->reported = true;
}

void train_outcome_event(struct train_outcome *outcome, const struct train_event *event)
{
    void *events = outcome->events;
    if (outcome->event_count >= TRAIN_EVENTS_MAX ||
        mem_grow(outcome->mem, &events, &outcome->event_room, outcome->event_count + 1,
                 sizeof *event) == NULL)
        return;
    outcome->events = events;
    outcome->events[outcome->event_count++] = *event;
}

/* Every worker takes as many samples, so the mean of their means is that of all samples. Who only
 * tests in a dead one's place has none. */
static double mean(const struct train_outcome *outcome, size_t field)
{
    double sum = 0;
    uint32_t known = 0;
    for (uint32_t i = 0; i < outcome->workers; i++) {
        const char *rank = (const char *)&outcome->ranks[i];
        double value = *(const double *)(const void *)(rank + field);
        if (!outcome->ranks[i].known || isnan(value))
            continue;
        sum += value;
        known++;
    }
    return known > 0 ? sum / known : NAN;
}

double train_outcome_loss(const struct train_outcome *outcome)
{
    return mean(outcome, offsetof(struct train_rank, loss));
}

double train_outcome_accuracy(const struct train_outcome *outcome)
{
    return mean(outcome, offsetof(struct train_rank, accuracy));
}

/* Tests on the way are rank 0's. In rounds, and with copies of their own, the others wait for it
 * meanwhile; else they go on, and only rank 0's own time has a test in it. */
static double ended_at(const struct train_outcome *outcome, const struct train_request *request,
                       uint32_t rank)
{
    const struct train_rank *ranks = outcome->ranks;
    bool all_wait = strcmp(request->local, "sync") == 0 || strcmp(request->local, "replicas") == 0;
    return ranks[rank].ended_s - ranks[all_wait ? 0 : rank].tested_s;
}

void train_outcome_rate(struct train_outcome *outcome, const struct train_request *request,
                        double over_s)
{
    struct train_report *report = &outcome->report;
    double last = 0;
    if (!outcome->reported)
        return;
    for (uint32_t i = 0; i < outcome->workers; i++)
        if (outcome->ranks[i].ended_s > 0)
            last = fmax(last, ended_at(outcome, request, i));
    double seconds = (last > 0 ? last : over_s) - outcome->begun_s;
    double samples = (double)(report->applied * report->batch * request->settings.exchange_every);
    report->samples_per_s = seconds > 0 ? samples / seconds : 0;
}

/* The mean of gradients that were applied, not of those that were begun: what is in the
 * parameters, and what train_keep_clock() counts. */
void train_outcome_even(struct train_outcome *outcome, const struct train_request *request)
{
    struct train_report *report = &outcome->report;
    if (!outcome->reported || outcome->workers == 0 || report->train_samples == 0)
        return;
    uint64_t mean_of_all = report->first + report->applied / outcome->workers;
    double samples = (double)report->batch * outcome->workers *
                     (double)request->settings.exchange_every / (double)report->train_samples;
    report->epochs += ((double)mean_of_all - (double)report->iterations) * samples;
    report->iterations = mean_of_all;
}

tri_status train_outcome_check(const struct train_outcome *outcome,
                               const struct train_request *request, tri_error *err)
{
    const struct train_rank *ranks = outcome->ranks;
    if (outcome->interrupted || request->settings.learners > 0 ||
        strcmp(request->settings.consistency, "bsp") != 0)
        return TRI_OK;
    for (uint32_t i = 1; i < outcome->workers; i++)
        if (ranks[i].known && ranks[0].known && ranks[i].crc32c != ranks[0].crc32c) {
            fail(err, TRI_EMISMATCH, "the workers ended with different parameters");
            fail_why(err, "their checksums are %08x on rank 0 and %08x on rank %u",
                     (unsigned)ranks[0].crc32c, (unsigned)ranks[i].crc32c, (unsigned)i);
            fail_next(err, "run it again with TRIDENT_CHECKSUM_EVERY=1, which stops at the first "
                           "iteration that differs");
            return TRI_EMISMATCH;
        }
    return TRI_OK;
}

/* What the library says of itself; the rest are warnings. */
static const struct {
    const char *says, *kind;
} kinds[] = {
    {"going on without", "evicted"},
    {"lost the connection", "connection"},
    {"turned away", "refused"},
};

#define STOPPED "stopped"

void train_event_stopping(struct train_event *event)
{
    if (strstr(event->text, "closed at clock ") != NULL || strcmp(event->kind, "evicted") == 0)
        (void)snprintf(event->kind, sizeof event->kind, STOPPED);
}

bool train_event_is_failure(const struct train_event *event)
{
    return strcmp(event->kind, STOPPED) != 0;
}

void train_event_of(int level, const char *line, struct train_event *out)
{
    /* "trident JOB worker 0: warn: text" */
    const char *text = strstr(line, ": warn: ");
    text = text != NULL ? text + 8 : strstr(line, ": error: ");
    text = text == NULL ? line : strncmp(text, ": error: ", 9) == 0 ? text + 9 : text;
    const char *kind = level <= 0 ? "error" : "warning";
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(text, kinds[i].says, strlen(kinds[i].says)) == 0)
            kind = kinds[i].kind;
    if (strstr(text, " go on without it") != NULL) /* of a learner, by the watchdog */
        kind = "evicted";
    (void)snprintf(out->kind, sizeof out->kind, "%s", kind);
    (void)snprintf(out->text, sizeof out->text, "%s", text);
    printable(out->text);
}
