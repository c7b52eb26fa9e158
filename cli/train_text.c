/* The summary of a run. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "cli/table.h"
#include "cli/train.h"

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void put_head(const struct train_outcome *outcome, const struct train_request *request,
                     struct buf *out)
{
    const struct train_report *report = &outcome->report;
    char params[UNITS_TEXT], wall[UNITS_TEXT], epochs[TRAIN_EPOCHS];
    (void)train_show_epochs(report->epochs, epochs);
    buf_format(out, "%s on %s: %s parameters, %s epoch%s, %llu iteration%s\n",
               request->settings.model, request->settings.data,
               units_show_count((double)report->params, params), epochs,
               strcmp(epochs, "1") == 0 ? "" : "s", (unsigned long long)report->iterations,
               plural(report->iterations));
    uint32_t batch = request->options.batch > 0 ? request->options.batch : report->batch;
    buf_format(out, "%u %s%s, batches of %u, %s, learning rate %g\n", (unsigned)outcome->workers,
               request->settings.learners > 0 ? "learner" : "worker", plural(outcome->workers),
               (unsigned)batch, request->optimizer, request->options.lr);
    if (request->settings.recipe != NULL)
        buf_format(out, "recipe %s: batches by the number of samples (%llu)\n",
                   request->settings.recipe, (unsigned long long)report->train_samples);
    if (isnan(report->test_accuracy))
        buf_text(out, "\ntest accuracy  not known\n");
    else
        buf_format(out, "\ntest accuracy  %.4f of %llu sample%s\n", report->test_accuracy,
                   (unsigned long long)report->test_samples, plural(report->test_samples));
    if (report->iterations == report->first) {
        buf_format(out,
                   "training       nothing was left to do: the checkpoint in %s is at the end\n",
                   request->options.checkpoint != NULL ? request->options.checkpoint : "?");
        return;
    }
    if (!isnan(train_outcome_loss(outcome)))
        buf_format(out, "training       loss %.4f, accuracy %.4f over the last epoch\n",
                   train_outcome_loss(outcome), train_outcome_accuracy(outcome));
    buf_format(out, "speed          %.0f samples/s; %s in all\n", report->samples_per_s,
               units_show_time(report->wall_s, wall));
}

/* Megabytes with three digits, however small. */
static void cell_mb(struct table *table, double bytes)
{
    double mb = bytes / 1e6;
    if (mb > 0 && mb < 0.001)
        table_cell(table, "<0.001");
    else
        table_cell(table, "%.3f", mb);
}

static void row_of(struct table *table, const char *name, const char *scheme, uint64_t params,
                   const double *bytes)
{
    table_cell(table, "%s", name);
    if (bytes != NULL)
        table_cell(table, "%s", scheme);
    table_cell(table, "%llu", (unsigned long long)params);
    if (bytes != NULL)
        cell_mb(table, *bytes);
}

/* How layers travel is of no interest where none does. */
static bool has_copies(const struct train_report *report)
{
    return report->learners > 0 && strcmp(report->local, "replicas") == 0;
}

/* Of learners with copies of their own: what they have no copies of. */
static void put_common(const struct train_report *report, struct buf *out)
{
    const char *before = "in common, once for all of them: ";
    for (size_t i = 0; i < report->layer_count; i++)
        if (report->layers[i].common) {
            buf_format(out, "%s%s", before, report->layers[i].name);
            before = ", ";
        }
    if (before[0] == ',')
        buf_char(out, '\n');
}

static void put_layers(const struct train_report *report, struct buf *out)
{
    struct table table;
    double bytes = 0;
    bool travels = report->workers > 1 && report->learners == 0;
    table_init(&table, out->mem, travels ? "llrr" : "lr");
    table_cell(&table, "layer");
    if (travels)
        table_cell(&table, "scheme");
    table_cell(&table, "parameters");
    if (travels)
        table_cell(&table, "MB/iteration");
    for (size_t i = 0; i < report->layer_count; i++) {
        const struct train_layer *layer = &report->layers[i];
        bytes += layer->sent_bytes;
        row_of(&table, layer->name, layer->scheme, layer->params,
               travels ? &layer->sent_bytes : NULL);
    }
    row_of(&table, "all", "", report->params, travels ? &bytes : NULL);
    buf_char(out, '\n');
    table_print(&table, 40, out);
    table_fini(&table);
    buf_text(out, travels ? "MB/iteration: what each worker sends, as planned\n"
                  : has_copies(report)
                      ? "each learner has a copy of these: gradients go through shared memory\n"
                  : report->learners > 0 ? "learners share these: nothing travels\n"
                                         : "one worker: nothing travels\n");
    put_common(report, out);
}

static void put_times(const struct train_report *report, struct buf *out)
{
    double both = report->compute_s + report->wait_s;
    if (!(both > 0))
        return;
    if (report->learners > 0) {
        buf_format(out, "\ntime: %.1f %% computing, %.1f %% waiting for %s\n",
                   100 * report->compute_s / both, 100 * report->wait_s / both,
                   has_copies(report) ? "others to take gradients" : "the server or a lock");
        return;
    }
    buf_format(out,
               "\ntime: %.1f %% computing, %.1f %% waiting for communication that did not hide "
               "behind it\n",
               100 * report->compute_s / both, 100 * report->wait_s / both);
}

static void put_ops(const struct train_report *report, struct buf *out)
{
    struct table table;
    double all = 0;
    for (size_t i = 0; i < report->op_count; i++)
        all += report->ops[i].forward_s + report->ops[i].weigh_s + report->ops[i].backward_s;
    table_init(&table, out->mem, "llrrrr");
    static const char *const titles[] = {"operator",   "kind",        "forward ms",
                                         "weights ms", "backward ms", "share"};
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++)
        table_cell(&table, "%s", titles[i]);
    for (size_t i = 0; i < report->op_count; i++) {
        const struct train_op *op = &report->ops[i];
        table_cell(&table, "%s", op->name);
        table_cell(&table, "%s", op->kind);
        table_cell(&table, "%.3f", 1e3 * op->forward_s);
        table_cell(&table, "%.3f", 1e3 * op->weigh_s);
        table_cell(&table, "%.3f", 1e3 * op->backward_s);
        table_cell(&table, "%.1f %%",
                   all > 0 ? 100 * (op->forward_s + op->weigh_s + op->backward_s) / all : 0);
    }
    buf_char(out, '\n');
    table_print(&table, 40, out);
    table_fini(&table);
    buf_text(out, "of an iteration of rank 0\n");
}

static void put_learners(const struct train_outcome *outcome, const struct train_request *request,
                         struct buf *out)
{
    const struct train_report *report = &outcome->report;
    const struct train_restarts *restarts = &outcome->restarts;
    const uint64_t every = request->settings.exchange_every;
    buf_format(out, "\nlearners: %s%s", request->local, request->settings.locked ? ", locked" : "");
    if (every > 1)
        buf_format(out, ", every %llu batches", (unsigned long long)every);
    buf_format(out, "; %llu of %llu gradients applied", (unsigned long long)report->applied,
               (unsigned long long)report->pushed);
    if (report->lost + report->torn + report->partial + report->discarded > 0)
        buf_format(out, " (%llu lost, %llu torn, %llu partial, %llu discarded)",
                   (unsigned long long)report->lost, (unsigned long long)report->torn,
                   (unsigned long long)report->partial, (unsigned long long)report->discarded);
    buf_format(out, "; staleness %.2f, at most %llu", report->stale_mean,
               (unsigned long long)report->stale_max);
    if (outcome->gone > 0)
        buf_format(out, "\nwent on with %u of %u learners",
                   (unsigned)(outcome->workers - outcome->gone), (unsigned)outcome->workers);
    if (restarts->learners + restarts->server + restarts->all > 0)
        buf_format(out, "\nstarted again: %u learner%s, the server %u time%s, everything %u time%s",
                   (unsigned)restarts->learners, plural(restarts->learners),
                   (unsigned)restarts->server, plural(restarts->server), (unsigned)restarts->all,
                   plural(restarts->all));
}

static void put_parameters(const struct train_outcome *outcome, const struct train_request *request,
                           struct buf *out)
{
    uint32_t known = 0, same = 0;
    for (uint32_t i = 0; i < outcome->workers; i++) {
        known += outcome->ranks[i].known;
        same +=
            outcome->ranks[i].known && outcome->ranks[i].crc32c == outcome->report.params_crc32c;
    }
    buf_format(out, "parameters: CRC-32C %08x", (unsigned)outcome->report.params_crc32c);
    if (request->settings.learners > 0)
        put_learners(outcome, request, out);
    else if (known > 1 && same == known)
        buf_format(out, ", the same on all %u workers", (unsigned)known);
    else if (known > 1)
        buf_format(out, " on rank 0, the same on %u of %u workers", (unsigned)same,
                   (unsigned)known);
    buf_char(out, '\n');
    if (request->settings.out != NULL)
        buf_format(out, "model: written to %s\n", request->settings.out);
    size_t warnings = 0;
    for (size_t i = 0; i < outcome->event_count; i++)
        warnings += train_event_is_failure(&outcome->events[i]);
    if (warnings > 0)
        buf_format(out, "%zu warning%s on the way; --json lists them\n", warnings,
                   plural(warnings));
}

/* Of a run that did not come to a report. */
static void put_moment(const struct train_outcome *outcome, const struct train_request *request,
                       struct buf *out)
{
    const struct train_moment *moment = &outcome->moment;
    char epochs[TRAIN_EPOCHS];
    buf_format(out, "%s on %s: %.2f of %s epochs, %llu of %llu iterations\n",
               request->settings.model, request->settings.data, moment->epoch,
               train_show_epochs(moment->epochs, epochs), (unsigned long long)moment->iteration,
               (unsigned long long)moment->iterations);
    buf_format(out, "training loss %.4f, accuracy %.4f, %.0f samples/s\n", moment->loss,
               moment->accuracy, moment->samples_per_s);
    if (!isnan(outcome->tested))
        buf_format(out, "last test accuracy %.4f\n", outcome->tested);
}

void train_text(const struct train_outcome *outcome, const struct train_request *request,
                struct buf *out)
{
    if (!outcome->reported) {
        if (outcome->moved)
            put_moment(outcome, request, out);
        return;
    }
    put_head(outcome, request, out);
    put_layers(&outcome->report, out);
    if (request->settings.profile)
        put_ops(&outcome->report, out);
    put_times(&outcome->report, out);
    put_parameters(outcome, request, out);
    train_next(outcome, request, out);
}
