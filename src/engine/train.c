/* The loop of one worker. */
#include "engine/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "engine/apart.h"
#include "engine/layer.h"
#include "engine/model.h"
#include "os/clock.h"

#define MOMENT_S 0.2 /* between two moments */

/* What training came to since the last moment, or in an epoch. */
struct tally {
    double loss;
    uint64_t right, samples;
};

struct run {
    struct train_options own;
    const struct train_options *options; /* these */
    const struct train_calls *calls;
    const struct mem *mem;
    tri_error *err;
    tri_status status;
    struct data_set *set;
    struct net *net;
    struct loader *loader;
    tri_job *job;
    struct net_calls hooks;
    uint64_t iterations, done; /* to do, and ended */
    uint64_t first;            /* ended when this run began */
    uint64_t from;             /* ended when this process began; a learner may be a later one */
    double epochs;
    /* What a checkpoint keeps: the position in the stream of samples behind the last iteration, and
     * what that depends on. */
    uint64_t kept[4];
    uint64_t start; /* the position when this run began */
    /* One number that all workers share, as a layer of its own: it stays 0 until one of them wants
     * to stop, and then changes for all of them after the same iteration. (It stays what a resumed
     * job has of it.) */
    float stop, stop_then, stop_gradient;
    bool wants_stop;
    uint64_t end;                    /* iterations, or less once the workers have agreed to stop */
    bool stop_agreed;                /* as of the last iteration */
    bool stopping;                   /* they have, and a checkpoint is still to be made */
    bool local;                      /* learners of one machine */
    bool in_place;                   /* they step the shared parameters themselves */
    bool replicas;                   /* each has parameters of its own, all make all steps */
    bool apart;                      /* they step their own between exchanges */
    struct apart own_steps;          /* for that */
    float *final;                    /* the net's parameters when the shared ones are gone */
    float lr;                        /* of this iteration */
    double loop_s;                   /* in iterations, not in tests */
    double said_s;                   /* when the last moment was told */
    struct tally since, epoch, last; /* the last moment; this epoch; the one before */
    uint64_t sent_then, samples_then;
    double loop_then;
    struct train_report report;
};

double train_lr(const struct train_options *options, double epoch, double epochs)
{
    if (options->schedule == TRAIN_COSINE && epochs > 0)
        return options->lr * 0.5 * (1 + cos(acos(-1.0) * fmin(epoch / epochs, 1)));
    if (options->schedule == TRAIN_STEP && options->every > 0)
        return options->lr * pow(options->gamma, floor(epoch / options->every));
    return options->lr;
}

/* ---- between the operators and the library ---- */

static bool before(void *ctx, size_t param)
{
    struct run *run = ctx;
    run->status = tri_sync(run->job, (uint32_t)param, run->err);
    return run->status == TRI_OK;
}

static bool rows(void *ctx, size_t param, size_t count)
{
    struct run *run = ctx;
    run->status = tri_sync_rows(run->job, (uint32_t)param, (uint32_t)count, run->err);
    return run->status == TRI_OK;
}

static bool pending(void *ctx, size_t param, struct op_pending *out)
{
    struct run *run = ctx;
    tri_pending steps;
    run->status = tri_sync_pending(run->job, (uint32_t)param, &steps, run->err);
    if (run->status == TRI_OK)
        *out = (struct op_pending){steps.count, steps.u, steps.v, steps.weights, steps.bias};
    return run->status == TRI_OK;
}

static bool update(struct run *run, size_t number, bool busy)
{
    run->status = layer_update(run->job, (uint32_t)number, net_param(run->net, number),
                               run->options->batch, run->lr, busy, run->err);
    return run->status == TRI_OK;
}

static bool ready(void *ctx, size_t number)
{
    return update(ctx, number, true);
}

/* In copies of their own learners make steps while they pass over the layer. */
static bool learns(void *ctx, size_t number, bool *here, struct op_step *step)
{
    struct run *run = ctx;
    run->status = layer_learn(run->job, (uint32_t)number, net_param(run->net, number),
                              run->options->batch, run->lr, here, step, run->err);
    return run->status == TRI_OK;
}

/* Alone, nobody waits for an update: it comes when the parameters are free, and is applied at once
 * where it is. */
static bool ready_alone(void *ctx, size_t number)
{
    return update(ctx, number, false);
}

/* ---- beginning ---- */

static bool is_sgd(const struct run *run)
{
    return run->options->optimizer == NULL || strcmp(run->options->optimizer, "sgd") == 0;
}

static bool is_said(const struct run *run, const char *name, const char *wanted)
{
    char said[TRAIN_SCHEME] = "";
    (void)tri_query(run->job, name, said, sizeof said, NULL);
    return strcmp(said, wanted) == 0;
}

static tri_status join(struct run *run)
{
    tri_options options = TRI_OPTIONS_INIT;
    options.optimizer = run->options->optimizer;
    options.scheme = run->options->scheme;
    options.consistency = run->options->consistency;
    options.placement = run->options->placement;
    options.servers = run->options->servers;
    options.checksum_every = run->options->checksum_every;
    options.checkpoint = run->options->checkpoint;
    options.resume = run->options->resume ? 1 : 0;
    uint64_t every = run->options->checkpoint_every;
    if (run->options->checkpoint != NULL) /* 0: by tri_save() alone */
        options.checkpoint_every = every > 0 && every < UINT32_MAX ? (uint32_t)every : UINT32_MAX;
    options.log = run->calls->log;
    options.log_ctx = run->calls->ctx;
    tri_status status = tri_open(&options, &run->job, run->err);
    if (status != TRI_OK)
        return status;
    run->report.rank = tri_rank(run->job);
    run->report.workers = tri_workers(run->job);
    run->local = is_said(run, "mode", "local");
    run->report.learners = run->local ? run->report.workers : 0;
    run->apart = run->options->exchange_every > 1;
    if (run->apart && !(run->local && is_sgd(run)))
        return fail(run->err, TRI_EARG, "only learners with optimizer sgd can exchange every %u",
                    (unsigned)run->options->exchange_every);
    run->replicas = run->local && !run->apart && is_said(run, "local", "replicas");
    return TRI_OK;
}

/* Learners do not wait for each other: each stops when it is told to. */
static bool shares_stop(const struct run *run)
{
    return run->report.workers > 1 && !run->local;
}

static uint32_t stop_layer(const struct run *run)
{
    return (uint32_t)net_params(run->net); /* behind all others */
}

static tri_status describe_stop(struct run *run)
{
    uint32_t number;
    tri_layer_info info = TRI_LAYER_INIT;
    info.name = "stop";
    info.kind = TRI_OTHER;
    info.rows = info.cols = 1;
    info.weights = &run->stop;
    return tri_layer(run->job, &info, &number, run->err);
}

enum kept { POSITION, SEED, SAMPLES, DATA };

static tri_status describe_kept(struct run *run)
{
    tri_keep_info info = TRI_KEEP_INIT;
    info.name = "train";
    info.type = TRI_U64;
    info.values = run->kept;
    info.count = sizeof run->kept / sizeof run->kept[0];
    tri_status status = tri_keep(run->job, &info, run->err);
    for (size_t i = 0; i < net_buffers(run->net) && status == TRI_OK; i++) {
        struct net_buffer buffer = net_buffer(run->net, i);
        tri_keep_info own = TRI_KEEP_INIT;
        own.name = buffer.name;
        own.values = buffer.at;
        own.count = buffer.floats;
        status = tri_keep(run->job, &own, run->err);
    }
    return status;
}

static uint64_t ask_count(const struct run *run, const char *name)
{
    char text[32] = "";
    unsigned long long value = 0;
    if (tri_query(run->job, name, text, sizeof text, NULL) == TRI_OK)
        (void)sscanf(text, "%llu", &value);
    return value;
}

/* The position says nothing about another order of samples, or about other samples. */
static tri_status check_kept(struct run *run, const uint64_t asked[4])
{
    const char *what = run->kept[SEED] != asked[SEED]         ? "seed"
                       : run->kept[SAMPLES] != asked[SAMPLES] ? "number of samples"
                       : run->kept[DATA] != asked[DATA]       ? "data set (a checksum)"
                                                              : NULL;
    tri_stats stats;
    tri_get_stats(run->job, &stats);
    run->done = run->first = stats.clocks;
    if (run->local) /* a learner that was started again goes on where it was */
        run->first = ask_count(run, "clock.first");
    run->report.first = run->first;
    run->from = run->done;
    run->start = run->kept[POSITION];
    run->stop_then = run->stop;
    if (what == NULL)
        return TRI_OK;
    size_t i = run->kept[SEED] != asked[SEED]         ? SEED
               : run->kept[SAMPLES] != asked[SAMPLES] ? SAMPLES
                                                      : DATA;
    fail(run->err, TRI_EINPUT, "the checkpoint in '%.100s' is of another %s: %llu, not %llu",
         run->options->checkpoint, what, (unsigned long long)run->kept[i],
         (unsigned long long)asked[i]);
    fail_next(run->err, "resume with the same --data and --seed");
    return TRI_EINPUT;
}

/* The net's parameters are the shared ones from here on. With plain SGD and no server in between it
 * steps them, too. */
static tri_status use_shared(struct run *run)
{
    char *local = run->report.local;
    (void)tri_query(run->job, "local", local, TRAIN_SCHEME, NULL);
    if (run->apart)
        return apart_open(&run->own_steps, run->net, run->mem, run->err);
    run->in_place = is_sgd(run) && strcmp(local, "direct") == 0;
    for (size_t i = 0; i < net_params(run->net); i++) {
        float *weights, *bias;
        tri_status status = tri_shared(run->job, (uint32_t)i, &weights, &bias, run->err);
        if (status != TRI_OK)
            return status;
        if (weights != NULL)
            net_use_weights(run->net, i, weights, bias);
        run->in_place = run->in_place && weights != NULL;
    }
    if (run->in_place && run->report.workers > 1)
        net_avoid(run->net, (uint64_t)run->report.rank + 1);
    return TRI_OK;
}

/* Those that the learners end with, in memory that outlives the job. */
static tri_status keep_shared(struct run *run)
{
    size_t floats = 0;
    for (size_t i = 0; i < net_params(run->net); i++) {
        const struct param *param = net_param(run->net, i);
        floats += (size_t)param->rows * param->cols + param->rows;
    }
    run->final = mem_array(run->mem, floats, sizeof *run->final);
    if (run->final == NULL)
        return fail_nomem(run->err, "the parameters");
    float *to = run->final;
    for (size_t i = 0; i < net_params(run->net); i++) {
        const struct param *param = net_param(run->net, i);
        size_t matrix = (size_t)param->rows * param->cols;
        memcpy(to, param->weights, matrix * sizeof *to);
        if (param->bias != NULL)
            memcpy(to + matrix, param->bias, param->rows * sizeof *to);
        net_use_weights(run->net, i, to, param->bias != NULL ? to + matrix : NULL);
        to += matrix + param->rows;
    }
    return TRI_OK;
}

static tri_status describe(struct run *run)
{
    run->kept[SEED] = run->options->seed;
    run->kept[SAMPLES] = run->set->train.samples;
    const struct data *data = &run->set->train;
    run->kept[DATA] = crc32c(0, data->labels, data->samples * sizeof *data->labels);
    const uint64_t asked[] = {0, run->kept[SEED], run->kept[SAMPLES], run->kept[DATA]};
    if (run->replicas)
        net_give_windows(run->net);
    for (size_t i = 0; i < net_params(run->net); i++) {
        const struct param *param = net_param(run->net, i);
        tri_status status = layer_describe(run->job, param, run->err);
        if (status != TRI_OK)
            return status;
        run->report.params +=
            (uint64_t)param->rows * param->cols + (param->bias != NULL ? param->rows : 0);
    }
    tri_status status = describe_stop(run); /* learners have it for checkpoints' sake */
    if (status == TRI_OK)
        status = describe_kept(run);
    if (status == TRI_OK)
        status = tri_start(run->job, run->err);
    if (status == TRI_OK)
        status = check_kept(run, asked);
    return status == TRI_OK && run->local ? use_shared(run) : status;
}

/* What a worker sends in an iteration for a layer: as worker and, where servers are with the
 * workers, as server. */
static double planned_bytes(const struct run *run, const struct param *param, const char *scheme)
{
    double others = run->report.workers - 1.0, dense = (double)param->rows * param->cols;
    double row = param->as_windows ? 2.0 * param->rows + param->window_floats
                                   : (double)param->rows + param->cols;
    double factors = param->factor_rows * row;
    dense += param->bias != NULL ? param->rows : 0;
    if (strcmp(scheme, "sfb") == 0)
        return 4 * others * factors;
    double share = others / run->report.workers;
    if (strcmp(scheme, "adam") == 0)
        return 4 * share * (factors + dense);
    return 8 * share * dense;
}

/* Where each learner has parameters of its own, a layer that no learner has lies there for all. */
static bool is_common(const struct run *run, size_t number)
{
    float *weights = NULL, *bias;
    return run->replicas &&
           tri_shared(run->job, (uint32_t)number, &weights, &bias, NULL) == TRI_OK &&
           weights == NULL;
}

static tri_status note_layers(struct run *run)
{
    struct train_report *report = &run->report;
    char servers[16] = "";
    report->layers = mem_array(run->mem, net_params(run->net), sizeof *report->layers);
    if (report->layers == NULL)
        return fail_nomem(run->err, "a report");
    report->layer_count = net_params(run->net);
    for (size_t i = 0; i < report->layer_count; i++) {
        const struct param *param = net_param(run->net, i);
        struct train_layer *layer = &report->layers[i];
        const char *scheme = tri_scheme_of(run->job, (uint32_t)i);
        scheme = scheme != NULL ? scheme : "?";
        (void)snprintf(layer->name, sizeof layer->name, "%s", param->name);
        (void)snprintf(layer->scheme, sizeof layer->scheme, "%s", scheme);
        layer->params =
            (uint64_t)param->rows * param->cols + (param->bias != NULL ? param->rows : 0);
        layer->sent_bytes = planned_bytes(run, param, scheme);
        layer->common = is_common(run, i);
    }
    (void)tri_query(run->job, "servers", servers, sizeof servers, NULL);
    (void)sscanf(servers, "%u", &report->servers);
    return TRI_OK;
}

/* Batches that a worker takes in an iteration. */
static uint32_t batches(const struct run *run)
{
    return run->apart ? run->options->exchange_every : 1;
}

/* Samples that all workers take in an iteration. */
static uint64_t batch_of_all(const struct run *run)
{
    return (uint64_t)run->options->batch * run->report.workers * batches(run);
}

/* Behind so many iterations, in the stream of samples. */
static uint64_t position(const struct run *run, uint64_t iterations)
{
    return run->start + (iterations - run->first) * batch_of_all(run);
}

static void plan_length(struct run *run)
{
    double samples = (double)run->set->train.samples, all = (double)batch_of_all(run);
    double left = run->options->epochs * samples - (double)run->start;
    run->iterations = run->options->iterations;
    if (run->iterations == 0)
        run->iterations = run->first + (uint64_t)fmax(run->first == 0, ceil(left / all));
    if (run->iterations < run->first)
        run->iterations = run->first;
    run->epochs = (double)position(run, run->iterations) / samples;
}

/* The end of the epoch that the next iteration is in, or of all. */
static tri_status ask_to_save(const struct run *run)
{
    uint64_t samples = run->set->train.samples, all = batch_of_all(run);
    uint64_t end = (position(run, run->done) / samples + 1) * samples;
    uint64_t clock = run->first + (end - run->start + all - 1) / all;
    if (run->options->checkpoint_every > 0 || clock > run->iterations)
        clock = run->iterations;
    return tri_save(run->job, clock, run->err);
}

/* GaDei, Table 3: what a service that knows nothing else of its users' data takes. */
static uint32_t batch_by_size(uint64_t samples)
{
    return samples < 10000 ? 2 : samples <= 100000 ? 4 : 32;
}

/* Learners with parameters of their own hand an update over like one of several workers even when
 * they are alone. */
static void set_hooks(struct run *run)
{
    run->hooks = (struct net_calls){.ctx = run, .before = before};
    if (run->replicas) {
        run->hooks.rows = rows;
        run->hooks.pending = pending;
        run->hooks.learns = learns;
    }
    if (run->report.workers > 1 || run->replicas)
        run->hooks.ready = ready;
    else
        run->hooks.done = ready_alone;
}

static tri_status begin(struct run *run)
{
    struct train_options *options = &run->own;
    tri_status status = data_open(&options->data, run->mem, &run->set, run->err);
    if (status == TRI_OK && options->batch == 0)
        options->batch = batch_by_size(run->set->train.samples);
    run->report.batch = options->batch;
    if (status == TRI_OK)
        status = net_new(options->model, &run->set->train.shape, options->batch, options->seed,
                         run->mem, &run->net, run->err);
    if (status == TRI_OK)
        status = join(run);
    if (status == TRI_OK)
        status = describe(run);
    if (status == TRI_OK)
        status = note_layers(run);
    if (status != TRI_OK)
        return status;
    plan_length(run);
    set_hooks(run);
    run->report.train_samples = run->set->train.samples;
    run->report.test_samples = run->set->test.samples;
    struct loader_options loader = {.data = &run->set->train,
                                    .batch = options->batch,
                                    .rank = run->report.rank,
                                    .workers = run->report.workers,
                                    .seed = options->seed,
                                    .start = position(run, run->done)};
    status = ask_to_save(run);
    if (status != TRI_OK)
        return status;
    return loader_open(&loader, run->mem, &run->loader, run->err);
}

/* ---- testing ---- */

/* The last batch is filled up with samples that were counted already. */
static tri_status test(struct run *run, const struct net_calls *calls)
{
    const struct data *data = &run->set->test;
    uint32_t batch = run->options->batch;
    uint64_t right = 0;
    uint64_t *numbers = mem_array(run->mem, batch, sizeof *numbers);
    struct net_batch place = net_batch(run->net);
    if (numbers == NULL)
        return fail_nomem(run->err, "a test");
    for (uint64_t at = 0; at < data->samples && run->status == TRI_OK; at += batch) {
        uint64_t left = data->samples - at;
        uint32_t count = left < batch ? (uint32_t)left : batch, good = 0;
        double loss;
        for (uint32_t i = 0; i < batch; i++)
            numbers[i] = i < count ? at + i : at;
        data_batch(data, numbers, batch, &place);
        if (net_forward(run->net, false, 0, calls)) {
            net_loss(run->net, count, &loss, &good);
            right += good;
        }
    }
    mem_free(run->mem, numbers);
    if (data->samples > 0)
        run->report.test_accuracy = (double)right / (double)data->samples;
    return run->status;
}

/* ---- the loop ---- */

static double share(const struct tally *tally, double of)
{
    return tally->samples > 0 ? of / (double)tally->samples : NAN;
}

static uint64_t sent_bytes(const struct run *run)
{
    tri_stats stats;
    tri_get_stats(run->job, &stats);
    return stats.sent_bytes + stats.header_bytes;
}

static bool tell(struct run *run, bool tested)
{
    double spent = run->loop_s - run->loop_then;
    uint64_t sent = sent_bytes(run);
    double rate = run->loop_s > 0 ? (double)(run->done - run->from) / run->loop_s : 0;
    struct train_moment moment = {
        .iteration = run->done,
        .iterations = run->iterations,
        .epoch = (double)position(run, run->done) / (double)run->set->train.samples,
        .epochs = run->epochs,
        .loss = share(&run->since, run->since.loss),
        .accuracy = share(&run->since, (double)run->since.right),
        .samples_per_s = spent > 0 ? (double)run->since.samples * run->report.workers / spent : 0,
        .sent_per_s = spent > 0 ? (double)(sent - run->sent_then) / spent : 0,
        .left_s = rate > 0 ? (double)(run->iterations - run->done) / rate : NAN,
        .lr = run->lr,
        .tested = tested,
        .test_accuracy = run->report.test_accuracy};
    run->since = (struct tally){0};
    run->sent_then = sent;
    run->loop_then = run->loop_s;
    run->said_s = clock_seconds();
    return run->calls->moment == NULL || run->calls->moment(run->calls->ctx, &moment);
}

static void add(struct tally *tally, double loss, uint32_t right, uint32_t samples)
{
    tally->loss += loss;
    tally->right += right;
    tally->samples += samples;
}

/* Whether the workers have agreed to stop here. */
static bool stops(const struct run *run)
{
    return shares_stop(run) ? run->stop_agreed : run->wants_stop;
}

/* A checkpoint is made some iterations ahead, of one worker at once. */
enum { LEAD = 5 };

/* True: on to the next iteration. Who is to stop and has a folder for checkpoints makes one first.
 */
static bool goes_on(struct run *run)
{
    if (run->done >= run->end || run->options->only_finish)
        return false;
    if (run->stopping || !stops(run))
        return true;
    if (run->status != TRI_OK || run->options->checkpoint == NULL)
        return false;
    uint64_t last = run->done + (shares_stop(run) ? LEAD : 1);
    run->end = last < run->end ? last : run->end;
    run->stopping = true;
    run->status = tri_save(run->job, run->end, run->err);
    return run->status == TRI_OK;
}

/* Not before the backward pass is over: what the others said in the iteration before has come by
 * then, and nobody waits for it. All see the same in the same iteration. */
static bool share_stop(struct run *run)
{
    run->status = tri_sync(run->job, stop_layer(run), run->err);
    if (run->status != TRI_OK)
        return false;
    run->stop_agreed = run->stop != run->stop_then;
    if (!run->wants_stop) /* an update of 0 would let momentum of an earlier stop go on */
        return true;
    tri_update_info update = TRI_UPDATE_INIT;
    run->stop_gradient = 1;
    update.dense = &run->stop_gradient;
    update.lr = 1;
    run->status = tri_update(run->job, stop_layer(run), &update, run->err);
    return run->status == TRI_OK;
}

/* The next batch, forward. `at`: where all workers' next batches begin in the stream. */
static bool look(struct run *run, uint64_t at, const struct net_calls *calls)
{
    const struct train_options *options = run->options;
    double epoch = (double)at / (double)run->set->train.samples, loss;
    uint32_t right;
    struct net_batch place = net_batch(run->net);
    run->lr = (float)train_lr(options, epoch, run->epochs);
    loader_next(run->loader, &place);
    if (!net_forward(run->net, true, at + (uint64_t)options->batch * run->report.rank, calls))
        return false;
    net_loss(run->net, options->batch, &loss, &right);
    add(&run->since, loss, right, options->batch);
    add(&run->epoch, loss, right, options->batch);
    return true;
}

static bool step_here(struct run *run)
{
    return net_learn(run->net, -run->lr / (float)run->options->batch, NULL);
}

static bool learn(struct run *run)
{
    run->status = tri_step(run->job, run->err);
    return run->status == TRI_OK && step_here(run);
}

/* Steps of its own, and their sum for the others. */
static bool learn_apart(struct run *run, uint64_t at)
{
    uint64_t all = batch_of_all(run) / batches(run);
    run->status = apart_fetch(&run->own_steps, run->net, run->job, run->err);
    for (uint32_t i = 0; i < batches(run) && run->status == TRI_OK; i++)
        if (!look(run, at + i * all, NULL) || !step_here(run))
            return false;
    if (run->status == TRI_OK)
        run->status = apart_give(&run->own_steps, run->net, run->job, run->err);
    return run->status == TRI_OK;
}

static bool learn_together(struct run *run, uint64_t at)
{
    if (!look(run, at, &run->hooks))
        return false;
    if (run->in_place)
        return learn(run);
    return net_backward(run->net, &run->hooks) && (!shares_stop(run) || share_stop(run));
}

static bool iterate(struct run *run)
{
    double since = clock_seconds();
    uint64_t at = position(run, run->done);
    if (!(run->apart ? learn_apart(run, at) : learn_together(run, at)))
        return false;
    run->kept[POSITION] = at + batch_of_all(run);
    run->status = tri_clock(run->job, &run->done, run->err);
    run->loop_s += clock_seconds() - since;
    return run->status == TRI_OK;
}

static tri_status fail_diverged(const struct run *run)
{
    fail(run->err, TRI_EINPUT, "the loss is no number any more after %llu iterations",
         (unsigned long long)run->done);
    fail_next(run->err, "try a smaller learning rate, --lr %g", run->options->lr / 4);
    return TRI_EINPUT;
}

/* Whether an epoch ends with the iteration that was just done. */
static bool ends_epoch(const struct run *run)
{
    uint64_t samples = run->set->train.samples;
    return position(run, run->done) / samples != position(run, run->done - 1) / samples;
}

static bool test_now(const struct run *run)
{
    uint64_t epoch = position(run, run->done) / run->set->train.samples;
    uint32_t every = run->options->evaluate_every;
    return every > 0 && epoch % every == 0 && run->report.rank == 0 && run->done < run->iterations;
}

/* In the middle of training. What is read here the next iteration begins with: of learners, without
 * what the others publish meanwhile. */
static tri_status test_between(struct run *run)
{
    const struct net_calls calls = {.ctx = run, .before = before};
    double since = clock_seconds();
    tri_status status = test(run, &calls);
    run->report.tested_s += clock_seconds() - since;
    return status;
}

static tri_status loop(struct run *run)
{
    run->said_s = clock_seconds();
    run->end = run->iterations;
    while (goes_on(run)) {
        if (!iterate(run))
            return run->status;
        bool ends = ends_epoch(run), tested = ends && test_now(run);
        if (!isfinite(run->epoch.loss))
            return fail_diverged(run);
        if (tested && test_between(run) != TRI_OK)
            return run->status;
        if (ends && !run->stopping && ask_to_save(run) != TRI_OK)
            return TRI_EARG;
        if (ends) {
            run->last = run->epoch;
            run->epoch = (struct tally){0};
        }
        if (ends || tested || clock_seconds() - run->said_s >= MOMENT_S)
            run->wants_stop = !tell(run, tested);
    }
    return run->status;
}

/* ---- the end ---- */

static tri_status note_ops(struct run *run)
{
    struct train_report *report = &run->report;
    double n = run->done > run->from ? (double)(run->done - run->from) : 1;
    if (!run->options->time_ops)
        return TRI_OK;
    size_t count = net_ops(run->net);
    double rest = report->compute_s / n;
    report->ops = mem_array(run->mem, count + 1, sizeof *report->ops);
    if (report->ops == NULL)
        return fail_nomem(run->err, "a report");
    report->op_count = count + 1;
    for (size_t i = 0; i < count; i++) {
        struct net_times times = net_times(run->net, i);
        struct train_op *op = &report->ops[i];
        (void)snprintf(op->name, sizeof op->name, "%s", times.name);
        (void)snprintf(op->kind, sizeof op->kind, "%s", times.kind);
        op->forward_s = times.forward_s / n;
        op->weigh_s = times.weigh_s / n;
        op->backward_s = times.backward_s / n;
        rest -= op->forward_s + op->weigh_s + op->backward_s;
    }
    struct train_op *others = &report->ops[count];
    (void)snprintf(others->name, sizeof others->name, "optimiser, batches");
    (void)snprintf(others->kind, sizeof others->kind, "rest");
    others->forward_s = fmax(rest, 0);
    return TRI_OK;
}

static void note_rates(struct run *run)
{
    struct train_report *report = &run->report;
    const struct tally *tally = run->last.samples > 0 ? &run->last : &run->epoch;
    double samples = (double)((run->done - run->from) * batch_of_all(run));
    tri_stats stats;
    tri_get_stats(run->job, &stats);
    report->iterations = run->done;
    report->epochs = (double)position(run, run->done) / (double)run->set->train.samples;
    report->samples_per_s = run->loop_s > 0 ? samples / run->loop_s : 0;
    report->train_loss = share(tally, tally->loss);
    report->train_accuracy = share(tally, (double)tally->right);
    report->sent_bytes = stats.sent_bytes + stats.header_bytes;
    report->received_bytes = stats.received_bytes;
    report->wait_s = fmin(stats.wait_s, run->loop_s);
    report->compute_s = run->loop_s - report->wait_s;
}

static tri_status save(struct run *run)
{
    if (run->options->out == NULL)
        return TRI_OK;
    struct model_info info = {.model = run->options->model,
                              .data = &run->set->train,
                              .data_name = run->set->name,
                              .test_accuracy = run->report.test_accuracy,
                              .seed = run->options->seed,
                              .iterations = run->done};
    return model_save(run->options->out, run->net, &info, run->mem, run->err);
}

/* As tri_checksum() has it, of the net's parameters alone. */
static uint32_t checksum(struct run *run)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < net_params(run->net); i++) {
        const struct param *param = net_param(run->net, i);
        crc = crc32c(crc, param->weights, (size_t)param->rows * param->cols * sizeof(float));
        if (param->bias != NULL)
            crc = crc32c(crc, param->bias, param->rows * sizeof(float));
    }
    return crc;
}

static void note_learners(struct run *run)
{
    struct train_report *report = &run->report;
    char text[32] = "";
    (void)tri_query(run->job, "staleness.mean", text, sizeof text, NULL);
    (void)sscanf(text, "%lf", &report->stale_mean);
    report->stale_max = ask_count(run, "staleness.max");
    report->pushed = ask_count(run, "gradients.pushed");
    report->applied = ask_count(run, "gradients.applied");
    report->lost = ask_count(run, "gradients.lost");
    report->torn = ask_count(run, "gradients.torn");
    report->partial = ask_count(run, "gradients.partial");
    report->discarded = ask_count(run, "gradients.discarded");
}

/* Learners begin and end each at its own time, so what one of them measures of its loop says
 * nothing of the others. Rank 0 knows when all are done: now. */
static void note_rate_of_all(struct run *run)
{
    struct train_report *report = &run->report;
    double seconds = clock_seconds() - report->begun_s - report->tested_s;
    double samples = (double)(report->applied * run->options->batch * batches(run));
    report->samples_per_s = seconds > 0 ? samples / seconds : 0;
}

/* Rank 0 tests what all learners have come to; the others need not wait for it. */
static tri_status finish_learning(struct run *run)
{
    tri_status status = TRI_OK;
    if (run->report.rank == 0)
        status = tri_finish(run->job, run->err);
    if (status != TRI_OK)
        return status;
    note_learners(run);
    if (run->report.rank == 0)
        note_rate_of_all(run);
    return keep_shared(run);
}

/* The others need not wait for the test and the file: the job is closed first. */
static tri_status finish(struct run *run)
{
    note_rates(run);
    tri_status status = note_ops(run);
    if (status == TRI_OK && run->local)
        status = finish_learning(run);
    else if (status == TRI_OK)
        status = tri_checksum(run->job, &run->report.params_crc32c, run->err);
    if (status != TRI_OK)
        return status;
    run->report.params_crc32c = checksum(run);
    tri_close(run->job);
    run->job = NULL;
    if (run->report.rank == 0)
        status = test(run, NULL);
    if (status == TRI_OK && run->report.rank == 0)
        status = save(run);
    return status;
}

static tri_status train(struct run *run)
{
    double since = clock_seconds();
    run->report.test_accuracy = NAN;
    tri_status status = begin(run);
    run->report.begun_s = clock_seconds();
    if (status == TRI_OK)
        run->report.epochs = (double)run->start / (double)run->set->train.samples;
    if (status == TRI_OK && run->calls->begun != NULL)
        run->calls->begun(run->calls->ctx, &run->report);
    if (status == TRI_OK && run->options->time_ops)
        net_time(run->net, clock_seconds);
    if (status == TRI_OK)
        status = loop(run);
    if (!run->options->only_finish)
        run->report.ended_s = clock_seconds();
    if (status == TRI_OK)
        status = finish(run);
    run->report.wall_s = clock_seconds() - since;
    return status;
}

tri_status train_run(const struct train_options *options, const struct train_calls *calls,
                     const struct mem *mem, struct train_report *out, tri_error *err)
{
    static const struct train_calls none = {0};
    tri_error own = {0};
    struct run run = {.own = *options,
                      .calls = calls != NULL ? calls : &none,
                      .mem = mem,
                      .err = err != NULL ? err : &own,
                      .status = TRI_OK};
    run.options = &run.own;
    tri_status status = train(&run);
    loader_close(run.loader);
    apart_close(&run.own_steps);
    tri_close(run.job);
    net_free(run.net);
    mem_free(mem, run.final);
    data_close(run.set);
    if (status == TRI_OK)
        *out = run.report;
    else
        train_report_fini(&run.report, mem);
    return status;
}

void train_report_fini(struct train_report *report, const struct mem *mem)
{
    mem_free(mem, report->layers);
    mem_free(mem, report->ops);
    *report = (struct train_report){0};
}
