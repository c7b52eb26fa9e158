/* A run as JSON. The names of the fields are a contract: add, never rename. */
#include <math.h>
#include <string.h>

#include "base/json_out.h"
#include "cli/train.h"

static const char *const schedules[] = {
    [TRAIN_CONSTANT] = "constant", [TRAIN_STEP] = "step", [TRAIN_COSINE] = "cosine"};

static void put_crc(struct json_out *json, const char *key, bool known, uint32_t crc)
{
    char text[9];
    (void)snprintf(text, sizeof text, "%08x", (unsigned)crc);
    json_out_string(json, key, known ? text : NULL);
}

/* What was measured; of a run without a report, what the last moment knew. */
static void put_results(struct json_out *json, const struct train_outcome *outcome)
{
    const struct train_report *report = &outcome->report;
    const struct train_moment *moment = &outcome->moment;
    bool done = outcome->reported, moved = outcome->moved;
    uint64_t sent = 0;
    for (uint32_t i = 0; i < outcome->workers; i++)
        sent += outcome->ranks[i].sent_bytes;
    json_out_number(json, "epochs", done ? report->epochs : moved ? moment->epoch : 0);
    json_out_count(json, "iterations", done ? report->iterations : moved ? moment->iteration : 0);
    json_out_count(json, "resumed_at", report->first);
    json_out_number(json, "samples_per_s",
                    done    ? report->samples_per_s
                    : moved ? moment->samples_per_s
                            : NAN);
    json_out_number(json, "wall_s", done ? report->wall_s : NAN);
    json_out_number(json, "train_loss",
                    done    ? train_outcome_loss(outcome)
                    : moved ? moment->loss
                            : NAN);
    json_out_number(json, "train_accuracy",
                    done    ? train_outcome_accuracy(outcome)
                    : moved ? moment->accuracy
                            : NAN);
    json_out_number(json, "test_accuracy", done ? report->test_accuracy : outcome->tested);
    json_out_count(json, "test_samples", report->test_samples);
    json_out_count(json, "train_samples", report->train_samples);
    json_out_count(json, "params", report->params);
    json_out_count(json, "sent_bytes", sent);
    json_out_number(json, "compute_s", done ? report->compute_s : NAN);
    json_out_number(json, "wait_s", done ? report->wait_s : NAN);
}

static void put_learners(struct json_out *json, const struct train_outcome *outcome,
                         const struct train_request *request)
{
    const struct train_report *report = &outcome->report;
    json_out_string(json, "local", request->local);
    json_out_bool(json, "locked", request->settings.locked);
    json_out_count(json, "exchange_every", request->settings.exchange_every);
    json_out_object(json, "staleness");
    json_out_number(json, "mean", outcome->reported ? report->stale_mean : NAN);
    json_out_number(json, "max", outcome->reported ? (double)report->stale_max : NAN);
    json_out_close(json);
    json_out_object(json, "gradients");
    json_out_count(json, "pushed", report->pushed);
    json_out_count(json, "applied", report->applied);
    json_out_count(json, "lost", report->lost);
    json_out_count(json, "torn", report->torn);
    json_out_count(json, "possibly_partial", report->partial);
    json_out_count(json, "discarded", report->discarded);
    json_out_close(json);
    json_out_count(json, "learners_gone", outcome->gone);
    json_out_object(json, "restarts");
    json_out_count(json, "learners", outcome->restarts.learners);
    json_out_count(json, "server", outcome->restarts.server);
    json_out_count(json, "all", outcome->restarts.all);
    json_out_close(json);
}

/* Learners have no servers, rule, placement and schemes: names of the contract are null there, the
 * others are left out. */
static bool has_workers(const struct train_request *request)
{
    return request->settings.learners == 0;
}

static void put_settings(struct json_out *json, const struct train_request *request,
                         const struct train_report *report)
{
    const struct train_options *options = &request->options;
    json_out_string(json, "recipe", request->settings.recipe);
    json_out_count(json, "batch", options->batch > 0 ? options->batch : report->batch);
    json_out_number(json, "lr", options->lr);
    json_out_string(json, "schedule", schedules[options->schedule]);
    json_out_string(json, "optimizer", request->optimizer);
    if (has_workers(request)) {
        json_out_string(json, "consistency", options->consistency);
        json_out_string(json, "placement", options->placement);
    }
    json_out_count(json, "seed", options->seed);
    json_out_string(json, "out", options->out);
    json_out_string(json, "checkpoint", options->checkpoint);
}

static void put_schemes(struct json_out *json, const struct train_report *report)
{
    json_out_object(json, "schemes");
    for (size_t i = 0; i < report->layer_count; i++)
        json_out_string(json, report->layers[i].name, report->layers[i].scheme);
    json_out_close(json);
}

static void put_layers(struct json_out *json, const struct train_request *request,
                       const struct train_report *report)
{
    const bool travels = has_workers(request);
    if (travels)
        put_schemes(json, report);
    else
        json_out_string(json, "schemes", NULL);
    json_out_array(json, "layers");
    for (size_t i = 0; i < report->layer_count; i++) {
        const struct train_layer *layer = &report->layers[i];
        json_out_object(json, NULL);
        json_out_string(json, "name", layer->name);
        if (travels)
            json_out_string(json, "scheme", layer->scheme);
        json_out_count(json, "params", layer->params);
        if (travels)
            json_out_number(json, "send_bytes", layer->sent_bytes);
        if (!travels && strcmp(request->local, "replicas") == 0)
            json_out_bool(json, "common", layer->common);
        json_out_close(json);
    }
    json_out_close(json);
}

static void put_ops(struct json_out *json, const struct train_report *report)
{
    json_out_array(json, "operators");
    for (size_t i = 0; i < report->op_count; i++) {
        const struct train_op *op = &report->ops[i];
        json_out_object(json, NULL);
        json_out_string(json, "name", op->name);
        json_out_string(json, "kind", op->kind);
        json_out_number(json, "forward_s", op->forward_s);
        json_out_number(json, "weights_s", op->weigh_s);
        json_out_number(json, "backward_s", op->backward_s);
        json_out_close(json);
    }
    json_out_close(json);
}

static void put_crcs(struct json_out *json, const struct train_outcome *outcome)
{
    json_out_array(json, "params_crc32c_by_rank");
    for (uint32_t i = 0; i < outcome->workers; i++)
        put_crc(json, NULL, outcome->ranks[i].known, outcome->ranks[i].crc32c);
    json_out_close(json);
}

/* Each learner but rank 0 is gone before the others are done, and what it has read last is of no
 * interest to anybody. */
static void put_ranks(struct json_out *json, const struct train_request *request,
                      const struct train_outcome *outcome)
{
    put_crc(json, "params_crc32c", outcome->reported, outcome->report.params_crc32c);
    if (has_workers(request))
        put_crcs(json, outcome);
    else
        json_out_string(json, "params_crc32c_by_rank", NULL);
    json_out_array(json, "sent_bytes_by_rank");
    for (uint32_t i = 0; i < outcome->workers; i++)
        json_out_number(json, NULL,
                        outcome->ranks[i].known ? (double)outcome->ranks[i].sent_bytes : NAN);
    json_out_close(json);
}

static void put_test(struct json_out *json, double epoch, double accuracy)
{
    json_out_object(json, NULL);
    json_out_number(json, "epoch", epoch);
    json_out_number(json, "test_accuracy", accuracy);
    json_out_close(json);
}

/* Those on the way, and the one at the end. */
static void put_tests(struct json_out *json, const struct train_outcome *outcome)
{
    const struct train_report *report = &outcome->report;
    json_out_array(json, "tests");
    for (size_t i = 0; i < outcome->test_count; i++)
        put_test(json, outcome->tests[i].epoch, outcome->tests[i].accuracy);
    if (outcome->reported && !isnan(report->test_accuracy))
        put_test(json, report->epochs, report->test_accuracy);
    json_out_close(json);
}

static void put_events(struct json_out *json, const struct train_outcome *outcome)
{
    json_out_array(json, "events");
    for (size_t i = 0; i < outcome->event_count; i++) {
        const struct train_event *event = &outcome->events[i];
        json_out_object(json, NULL);
        json_out_number(json, "t_s", event->t_s);
        json_out_count(json, "clock", event->clock);
        json_out_string(json, "kind", event->kind);
        json_out_count(json, "rank", event->rank);
        json_out_string(json, "text", event->text);
        json_out_close(json);
    }
    json_out_close(json);
}

void train_json(const struct train_outcome *outcome, const struct train_request *request,
                struct buf *out)
{
    struct json_out json;
    json_out_init(&json, out, 2);
    json_out_object(&json, NULL);
    json_out_string(&json, "model", request->settings.model);
    json_out_string(&json, "data", request->settings.data);
    json_out_bool(&json, "complete", outcome->reported && !outcome->interrupted);
    uint64_t learners = request->settings.learners;
    json_out_count(&json, "workers", learners > 0 ? 0 : outcome->workers);
    json_out_count(&json, "learners", learners);
    if (has_workers(request))
        json_out_count(&json, "servers", outcome->report.servers);
    put_results(&json, outcome);
    put_settings(&json, request, &outcome->report);
    if (learners > 0)
        put_learners(&json, outcome, request);
    put_layers(&json, request, &outcome->report);
    if (request->settings.profile)
        put_ops(&json, &outcome->report);
    put_ranks(&json, request, outcome);
    put_tests(&json, outcome);
    put_events(&json, outcome);
    json_out_close(&json);
}
