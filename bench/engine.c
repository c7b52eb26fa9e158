/* How fast does one thread train, beside PyTorch?
 *
 * Whole steps (forward, backward, plain SGD through the library's calls) on one batch, over and
 * over, in a process of its own for each turn; PyTorch the same. */
#include "engine/net.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "bench/harness.h"
#include "bench/torch.h"
#include "engine/layer.h"

enum { WIDE = 4096, CLASSES = 10, WARM_UP = 3, CASES = 6 };

struct state;

struct work {
    const struct state *state;
    bool mlp, channels_last; /* the last: of PyTorch */
    uint32_t batch;
    char name[40];
};

struct state {
    struct crew_board *board;
    const char *python;
    double seconds;
    char note[300], tail[2400];
    struct work works[CASES];
    struct bench_case cases[CASES];
};

/* ---- our side ---- */

struct training {
    tri_job *job;
    struct net *net;
    uint32_t batch;
    tri_error *err;
};

static bool before(void *ctx, size_t param)
{
    const struct training *training = ctx;
    return tri_sync(training->job, (uint32_t)param, training->err) == TRI_OK;
}

static bool done(void *ctx, size_t number)
{
    const struct training *training = ctx;
    return layer_update(training->job, (uint32_t)number, net_param(training->net, number),
                        training->batch, 0.001F, false, training->err) == TRI_OK;
}

static bool step(struct training *training)
{
    const struct net_calls calls = {.ctx = training, .before = before, .done = done};
    return net_forward(training->net, true, 0, &calls) && net_backward(training->net, &calls) &&
           tri_clock(training->job, NULL, training->err) == TRI_OK;
}

static tri_status start(struct training *training)
{
    tri_status status = tri_open(NULL, &training->job, training->err);
    for (size_t i = 0; i < net_params(training->net) && status == TRI_OK; i++)
        status = layer_describe(training->job, net_param(training->net, i), training->err);
    return status == TRI_OK ? tri_start(training->job, training->err) : status;
}

static void make_batch(struct training *training, const struct net_data *data)
{
    struct net_batch batch = net_batch(training->net);
    struct rng rng;
    rng_init(&rng, 1);
    for (size_t i = 0; i < training->batch * shape3_floats(data->image); i++)
        batch.images[i] = (float)rng_unit(&rng) - 0.5F;
    for (uint32_t i = 0; i < training->batch; i++)
        batch.labels[i] = (uint32_t)rng_below(&rng, data->classes);
}

/* Times of the operators are for the default case's table. */
static tri_status measure(struct training *training, double seconds, struct crew_board *board)
{
    bool good = true;
    uint64_t steps = 0;
    for (int i = 0; i < WARM_UP && good; i++)
        good = step(training);
    net_time(training->net, crew_now_s);
    double start_s = crew_now_s(), took = 0;
    for (; good && (steps < 2 || took < seconds); steps++) {
        good = step(training);
        took = crew_now_s() - start_s;
    }
    board->work_s = (double)steps * training->batch / took;
    for (size_t i = 0; i < net_ops(training->net) && i < CREW_NUMBERS; i++) {
        struct net_times times = net_times(training->net, i);
        board->numbers[i] = (times.forward_s + times.weigh_s + times.backward_s) / (double)steps;
    }
    return good ? TRI_OK : training->err->status;
}

static tri_status body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err)
{
    const struct work *work = ctx;
    struct net_data data = {.image = {3, 32, 32}, .classes = CLASSES};
    struct training training = {.batch = work->batch, .err = err};
    (void)number;
    if (work->mlp)
        data.image = (struct shape3){WIDE, 1, 1};
    tri_status status = net_new(work->mlp ? "mlp:4096x4" : "cifar10-quick", &data, work->batch, 1,
                                &mem_libc, &training.net, err);
    if (status == TRI_OK)
        status = start(&training);
    if (status == TRI_OK) {
        make_batch(&training, &data);
        status = measure(&training, work->state->seconds, board);
    }
    tri_close(training.job);
    net_free(training.net);
    return status;
}

/* ---- the benchmark ---- */

/* The operators' times of the last turn with a batch of 100. */
static void note_times(struct state *state, const struct crew_board *board)
{
    static const char *const names[] = {"image", "conv1",       "pool1", "conv2", "pool2", "conv3",
                                        "pool3", "pool3.plain", "ip1",   "ip2",   "loss"};
    size_t len = 0;
    len += (size_t)snprintf(state->tail, sizeof state->tail,
                            "\nCIFAR-10 quick, batch 100, ms of a step by operator:");
    for (size_t i = 1; i < sizeof names / sizeof names[0] && len < sizeof state->tail; i++)
        len += (size_t)snprintf(state->tail + len, sizeof state->tail - len, "%s%s %.2f",
                                i == 1   ? "\n"
                                : i == 7 ? ",\n"
                                         : ", ",
                                names[i], 1e3 * board->numbers[i]);
    if (len < sizeof state->tail)
        (void)snprintf(state->tail + len, sizeof state->tail - len, "\n");
}

static tri_status turn(void *ctx, bool baseline, struct bench_sample *out, tri_error *err)
{
    struct work *work = ctx;
    struct state *state = (struct state *)work->state;
    struct torch_run run = {.python = state->python,
                            .net = work->mlp ? TORCH_MLP : TORCH_QUICK,
                            .workers = 1,
                            .seconds = state->seconds,
                            .batch = work->batch,
                            .channels_last = work->channels_last};
    struct crew ours = {1, "engine", body, work}, torch = {1, "torch", torch_body, &run};
    tri_status status = crew_run(baseline ? &torch : &ours, state->board, err);
    if (status != TRI_OK)
        return status;
    *out = (struct bench_sample){.rate = state->board->work_s, .cpu_s_per_gb = NAN};
    if (!baseline && !work->mlp && work->batch == 100)
        note_times(state, state->board);
    return TRI_OK;
}

static void engine_close(const struct mem *mem, struct bench_plan *plan)
{
    struct state *state = plan->state;
    crew_board_close(state->board);
    mem_free(mem, state);
}

static void add(struct state *state, size_t i, uint32_t batch, bool mlp, bool channels_last)
{
    struct work *work = &state->works[i];
    *work =
        (struct work){.state = state, .mlp = mlp, .channels_last = channels_last, .batch = batch};
    (void)snprintf(work->name, sizeof work->name, "%s, batch %u%s", mlp ? "4 x 4096" : "quick",
                   (unsigned)batch, mlp || channels_last ? "" : ", default layout");
    state->cases[i] = (struct bench_case){.name = work->name, .turn = turn, .ctx = work};
}

static tri_status engine_open(const struct mem *mem, const struct bench_wish *wish,
                              struct bench_plan *plan, tri_error *err)
{
    struct state *state = mem_array(mem, 1, sizeof *state);
    if (state == NULL)
        return fail_nomem(err, "the benchmark");
    state->seconds = wish->seconds > 0 ? wish->seconds : wish->quick ? 0.2 : 2;
    state->python = torch_python();
    state->board = crew_board_open(err);
    if (state->board == NULL) {
        mem_free(mem, state);
        return TRI_EIO;
    }
    add(state, 0, 100, false, true);
    add(state, 1, 100, false, false);
    add(state, 2, 32, false, true);
    add(state, 3, 8, false, true);
    add(state, 4, 1, false, true);
    add(state, 5, 32, true, false);
    (void)snprintf(
        state->note, sizeof state->note, "%s",
        state->python != NULL
            ? "One process, one thread, plain SGD. PyTorch: channels_last unless it says "
              "otherwise."
            : "Skipped: python3-torch is not installed.");
    *plan = (struct bench_plan){.cases = state->cases,
                                .count = state->python == NULL ? 0
                                         : wish->quick         ? 1
                                                               : CASES,
                                .value_name = "trident",
                                .baseline_name = "PyTorch",
                                .note = state->note,
                                .tail = state->tail,
                                .state = state};
    return TRI_OK;
}

extern const struct bench bench_engine;
const struct bench bench_engine = {
    .name = "engine",
    .summary = "how fast does one thread train, beside PyTorch?",
    .unit = "samples/s",
    .repeats = 5,
    .open = engine_open,
    .close = engine_close,
};
