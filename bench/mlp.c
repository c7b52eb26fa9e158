/* Does a second process pay for a net whose gradients are far larger than its factors?
 *
 * 4 x 4096, batch 32 in each process, exact synchronous sgd: factors from each worker to the
 * other over TCP. Against one process with the same kernels, and against PyTorch's two. */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "bench/crew.h"
#include "bench/fcnet.h"
#include "bench/harness.h"
#include "bench/torch.h"

enum { WARM_UP = 2, CASES = 2 };

struct state;

struct work {
    struct state *state;
    bool torch; /* the baseline is PyTorch, not one process of ours */
    uint32_t workers;
    uint16_t port;
};

struct state {
    struct crew_board *board;
    double seconds;
    const char *python;
    char note[400], tail[300];
    double cpu_s[2], steps[2]; /* of one process, of two; all turns together */
    struct work works[CASES];
    struct bench_case cases[CASES];
};

static tri_status train(struct fcnet *net, struct crew_loop *loop, tri_error *err)
{
    tri_status status = TRI_OK;
    for (uint64_t i = 0; status == TRI_OK && crew_goes_on(loop, i); i++) {
        status = fcnet_step(net, err);
        atomic_fetch_add(&loop->board->work[loop->rank], net->shape.batch);
    }
    return status;
}

/* Ranks must end with the same weights. */
static tri_status sum_up(struct fcnet *net, uint32_t rank, struct crew_board *board, tri_error *err)
{
    uint32_t crc = 0;
    tri_status status = tri_checksum(net->job, &crc, err);
    board->numbers[rank] = crc;
    return status;
}

static tri_status body(void *ctx, uint32_t rank, struct crew_board *board, tri_error *err)
{
    const struct work *work = ctx;
    struct crew_job job = {.workers = work->workers, .port = work->port};
    struct crew_loop loop = {.board = board,
                             .rank = rank,
                             .processes = work->workers,
                             .warm_up = WARM_UP,
                             .seconds = work->state->seconds};
    struct fcnet net;
    tri_options options = TRI_OPTIONS_INIT;
    crew_environment(&job, rank);
    options.scheme = work->workers > 1 ? "sfb" : NULL;
    tri_status status = fcnet_open(&net, FCNET_WIDTH, 1, rank, err);
    if (status != TRI_OK)
        return status;
    status = tri_open(&options, &net.job, err);
    if (status == TRI_OK)
        status = fcnet_start(&net, err);
    if (status == TRI_OK)
        status = train(&net, &loop, err);
    if (status == TRI_OK)
        status = sum_up(&net, rank, board, err);
    fcnet_close(&net);
    return status;
}

static tri_status run_torch(const struct work *work, struct crew_board *board, tri_error *err)
{
    struct torch_run run = {.python = work->state->python,
                            .workers = 2,
                            .port = work->port,
                            .seconds = work->state->seconds};
    struct crew crew = {run.workers, "torch", torch_body, &run};
    return crew_run(&crew, board, err);
}

/* Where others use the cores, too, processor time tells more than the clock. */
static void note_cpu(struct state *state, uint32_t workers)
{
    const struct crew_board *board = state->board;
    state->cpu_s[workers - 1] += board->cpu_s;
    state->steps[workers - 1] += board->work_s * board->seconds / FCNET_BATCH;
    double one = 1e3 * state->cpu_s[0] / state->steps[0];
    double two = 1e3 * state->cpu_s[1] / state->steps[1];
    (void)snprintf(
        state->tail, sizeof state->tail,
        "processor time of one process's step: %.1f ms alone, %.1f ms as one of two. With "
        "these and two\nfree cores the first ratio could come to 2 x %.1f / %.1f = %.2f\n",
        one, two, one, two, 2 * one / two);
}

static tri_status turn(void *ctx, bool baseline, struct bench_sample *out, tri_error *err)
{
    struct work *work = ctx;
    struct crew_board *board = work->state->board;
    tri_status status = TRI_OK;
    work->workers = baseline ? 1 : 2;
    work->port = crew_port(err);
    if (work->port == 0)
        return TRI_EIO;
    struct crew crew = {work->workers, "mlp", body, work};
    status = baseline && work->torch ? run_torch(work, board, err) : crew_run(&crew, board, err);
    if (status != TRI_OK)
        return status;
    if (!baseline && board->numbers[0] != board->numbers[1])
        return fail(err, TRI_EIO, "the two ranks' weights differ, so their speed means nothing");
    if (!baseline || !work->torch)
        note_cpu(work->state, work->workers);
    *out = (struct bench_sample){.rate = board->work_s, .cpu_s_per_gb = (double)NAN};
    return TRI_OK;
}

static void mlp_close(const struct mem *mem, struct bench_plan *plan)
{
    struct state *state = plan->state;
    crew_board_close(state->board);
    mem_free(mem, state);
}

static void set_cases(struct state *state, size_t count)
{
    static const char *const names[CASES] = {"2 processes : 1 process",
                                             "2 : PyTorch DDP + gloo, 2"};
    for (size_t i = 0; i < count; i++) {
        state->works[i] = (struct work){.state = state, .torch = i == 1};
        state->cases[i] =
            (struct bench_case){.name = names[i], .turn = turn, .ctx = &state->works[i]};
    }
}

static tri_status mlp_open(const struct mem *mem, const struct bench_wish *wish,
                           struct bench_plan *plan, tri_error *err)
{
    struct state *state = mem_array(mem, 1, sizeof *state);
    if (state == NULL)
        return fail_nomem(err, "the benchmark");
    state->seconds = wish->seconds > 0 ? wish->seconds : wish->quick ? 0.5 : 3;
    state->python = torch_python();
    (void)snprintf(
        state->note, sizeof state->note,
        "4 x 4096, batch 32 per process, sgd, bsp, sfb over TCP, kernel %s, one thread of "
        "compute per\nprocess; turns of %g s. %s",
        dense_kernel_name(dense_kernel_at(0)), state->seconds,
        state->python != NULL ? "PyTorch: one thread per process, buckets of 25 MB."
                              : "PyTorch skipped: python3-torch is not installed.");
    *plan = (struct bench_plan){.cases = state->cases,
                                .count = state->python != NULL ? 2 : 1,
                                .value_name = "trident, 2",
                                .baseline_name = "baseline",
                                .note = state->note,
                                .tail = state->tail,
                                .state = state};
    set_cases(state, plan->count);
    state->board = crew_board_open(err);
    if (state->board != NULL)
        return TRI_OK;
    mlp_close(mem, plan);
    return TRI_ENOMEM;
}

extern const struct bench bench_mlp;
const struct bench bench_mlp = {
    .name = "mlp",
    .summary = "does a second process pay where gradients are far larger than factors?",
    .unit = "samples/s",
    .repeats = 5,
    .open = mlp_open,
    .close = mlp_close,
};
