/* What does the parameter server cost beside plain sockets?
 *
 * Two workers and a server of its own, three processes on this host. Every iteration each worker
 * gives the dense gradient of 64 MiB of parameters, layer after layer from the top, and takes the
 * new ones, synchronously, by the library's six calls. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "bench/crew.h"
#include "bench/harness.h"
#include "bench/ps_plain.h"

#define LAYER_BYTES ((uint64_t)2 << 20) /* unless chunks are larger */
enum { MAX_LAYERS = 64, ROWS = 512, MAX_CASES = 2 * BENCH_CHUNKS_MAX, WARM_UP = 3 };

struct work {
    const struct state *state;
    uint64_t chunk;
    bool unordered;
    uint16_t port;
};

struct state {
    struct bench_wish wish;
    struct crew_board *board;
    double seconds;
    char note[300];
    char names[MAX_CASES][48];
    struct work works[MAX_CASES];
    struct bench_case cases[MAX_CASES];
};

/* ---- a worker ---- */

struct model {
    tri_job *job;
    uint32_t layers;
    size_t floats; /* of a layer */
    float *weights, *gradient;
};

static uint32_t layers_of(uint64_t chunk)
{
    return (uint32_t)(PS_MODEL_BYTES / (chunk > LAYER_BYTES ? chunk : LAYER_BYTES));
}

static tri_status describe(struct model *model, tri_error *err)
{
    for (uint32_t i = 0; i < model->layers; i++) {
        char name[16];
        uint32_t number;
        tri_layer_info info = TRI_LAYER_INIT;
        (void)snprintf(name, sizeof name, "layer%u", (unsigned)i);
        info.name = name;
        info.rows = ROWS;
        info.cols = (uint32_t)(model->floats / ROWS);
        info.weights = model->weights + i * model->floats;
        tri_status status = tri_layer(model->job, &info, &number, err);
        if (status != TRI_OK)
            return status;
    }
    return tri_start(model->job, err);
}

static tri_status iterate(const struct model *model, atomic_ullong *work, tri_error *err)
{
    tri_status status = TRI_OK;
    for (uint32_t i = model->layers; i-- > 0 && status == TRI_OK;) {
        tri_update_info update = TRI_UPDATE_INIT;
        update.dense = model->gradient + i * model->floats;
        update.lr = PS_LR;
        status = tri_update(model->job, i, &update, err);
    }
    if (status == TRI_OK)
        status = tri_clock(model->job, NULL, err);
    for (uint32_t i = 0; i < model->layers && status == TRI_OK; i++) {
        status = tri_sync(model->job, i, err);
        atomic_fetch_add(work, 2 * model->floats * sizeof(float));
    }
    return status;
}

static tri_status check(const struct model *model, uint64_t iterations, tri_error *err)
{
    float mean = (ps_gradient(0) + ps_gradient(1)) / PS_WORKERS;
    float wanted = -PS_LR * mean * (float)iterations;
    for (size_t i = 0; i < PS_MODEL_FLOATS; i++)
        if (model->weights[i] != wanted)
            return fail(err, TRI_EIO, "after %llu iterations a weight is %g instead of %g",
                        (unsigned long long)iterations, (double)model->weights[i], (double)wanted);
    return TRI_OK;
}

static tri_status train(const struct model *model, struct crew_loop *loop, tri_error *err)
{
    uint64_t i = 0;
    tri_status status = TRI_OK;
    for (; status == TRI_OK && crew_goes_on(loop, i); i++)
        status = iterate(model, &loop->board->work[loop->rank], err);
    return status == TRI_OK ? check(model, i, err) : status;
}

static tri_status be_worker(const struct work *work, uint32_t rank, struct crew_board *board,
                            tri_error *err)
{
    struct crew_loop loop = {.board = board,
                             .rank = rank,
                             .processes = PS_PROCESSES,
                             .warm_up = WARM_UP,
                             .seconds = work->state->seconds};
    struct model model = {.layers = layers_of(work->chunk),
                          .weights = crew_floats(PS_MODEL_FLOATS),
                          .gradient = crew_floats(PS_MODEL_FLOATS)};
    tri_options options = TRI_OPTIONS_INIT;
    if (model.weights == NULL || model.gradient == NULL)
        return fail_nomem(err, "the model");
    model.floats = PS_MODEL_FLOATS / model.layers;
    options.scheme = "ps";
    for (size_t i = 0; i < PS_MODEL_FLOATS; i++)
        model.gradient[i] = ps_gradient(rank);
    tri_status status = tri_open(&options, &model.job, err);
    if (status == TRI_OK)
        status = describe(&model, err);
    if (status == TRI_OK)
        status = train(&model, &loop, err);
    tri_close(model.job);
    return status;
}

static tri_status body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err)
{
    const struct work *work = ctx;
    struct crew_job job = {.workers = PS_WORKERS,
                           .servers = 1,
                           .port = work->port,
                           .chunk = work->chunk,
                           .unordered = work->unordered};
    crew_environment(&job, number);
    if (number < PS_WORKERS)
        return be_worker(work, number, board, err);
    return work->state->wish.serve(&mem_libc, err);
}

/* ---- the benchmark ---- */

static tri_status turn(void *ctx, bool baseline, struct bench_sample *out, tri_error *err)
{
    struct work *work = ctx;
    struct crew_board *board = work->state->board;
    struct ps_plain plain = {.seconds = work->state->seconds};
    struct crew ours = {PS_PROCESSES, "ps", body, work};
    struct crew other = {PS_PROCESSES, "plain", ps_plain_body, &plain};
    work->port = crew_port(err);
    if (work->port == 0)
        return TRI_EIO;
    tri_status status = crew_run(baseline ? &other : &ours, board, err);
    if (status != TRI_OK)
        return status;
    double gb_s = board->work_s * 1e-9;
    *out = (struct bench_sample){.rate = gb_s / PS_WORKERS,
                                 .cpu_s_per_gb = board->cpu_s / (gb_s * board->seconds)};
    return TRI_OK;
}

static void ps_close(const struct mem *mem, struct bench_plan *plan)
{
    struct state *state = plan->state;
    crew_board_close(state->board);
    mem_free(mem, state);
}

static tri_status check_chunk(uint64_t chunk, tri_error *err)
{
    if (chunk >= 1024 && chunk <= PS_MODEL_BYTES && (chunk & (chunk - 1)) == 0)
        return TRI_OK;
    fail(err, TRI_EINPUT, "chunks cannot have %llu bytes here", (unsigned long long)chunk);
    fail_next(err, "give powers of two from 1KiB to 64MiB, such as 256KiB,2MiB");
    return TRI_EINPUT;
}

static void set_case(struct state *state, size_t i, uint64_t chunk, bool unordered)
{
    state->works[i] = (struct work){.state = state, .chunk = chunk, .unordered = unordered};
    (void)snprintf(state->names[i], sizeof state->names[i], "%llu KiB, %s",
                   (unsigned long long)chunk >> 10, unordered ? "on arrival" : "rank order");
    state->cases[i] =
        (struct bench_case){.name = state->names[i], .turn = turn, .ctx = &state->works[i]};
}

/* The first case is the default one: 2 MiB in rank order, or the first chunk asked for. */
static tri_status set_cases(struct state *state, size_t *count, tri_error *err)
{
    static const uint64_t usual[] = {(uint64_t)2 << 20, (uint64_t)256 << 10, (uint64_t)16 << 20};
    const bool own = state->wish.chunk_count > 0;
    const uint64_t *chunks = own ? state->wish.chunks : usual;
    size_t n = own ? state->wish.chunk_count : state->wish.quick ? 1 : sizeof usual / sizeof *usual;
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        tri_status status = check_chunk(chunks[i], err);
        if (status != TRI_OK)
            return status;
        set_case(state, (*count)++, chunks[i], false);
        set_case(state, (*count)++, chunks[i], true);
    }
    return TRI_OK;
}

static tri_status ps_open(const struct mem *mem, const struct bench_wish *wish,
                          struct bench_plan *plan, tri_error *err)
{
    struct state *state = mem_array(mem, 1, sizeof *state);
    if (state == NULL)
        return fail_nomem(err, "the benchmark");
    state->wish = *wish;
    state->seconds = wish->seconds > 0 ? wish->seconds : wish->quick ? 0.3 : 1;
    (void)snprintf(
        state->note, sizeof state->note,
        "2 workers, 1 server of its own; 64 MiB in layers of 2 MiB, or of a chunk where "
        "that is\nlarger; bsp, sgd, dense gradients; turns of %g s. GB/s of a worker, "
        "push + pull; CPU of all\nthree. Baseline: plain blocking sockets, asynchronous, "
        "pieces of 256 KiB.",
        state->seconds);
    *plan = (struct bench_plan){.cases = state->cases,
                                .value_name = "trident",
                                .baseline_name = "plain sockets",
                                .note = state->note,
                                .state = state};
    tri_status status = set_cases(state, &plan->count, err);
    if (status == TRI_OK && (state->board = crew_board_open(err)) == NULL)
        status = TRI_ENOMEM;
    if (status != TRI_OK)
        ps_close(mem, plan);
    return status;
}

extern const struct bench bench_ps;
const struct bench bench_ps = {
    .name = "ps",
    .summary = "what does the parameter server cost beside plain sockets?",
    .unit = "GB/s",
    .repeats = 5,
    .open = ps_open,
    .close = ps_close,
};
