/* Does communication hide behind the backward pass, and does what is urgent overtake?
 *
 * Two nodes over a link that tools/netns limits; each is a worker and a server. The net has slow
 * layers with few parameters at the bottom and a fast one with many at the top. Compute is a
 * sleep, as of a processor that waits for an accelerator. With overlap each update is given as soon
 * as its layer's backward is over; without, all of them after the whole backward pass. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "bench/crew.h"
#include "bench/harness.h"
#include "bench/nodes.h"

enum { BOTTOM = 4, LAYERS = BOTTOM + 1, TOP = BOTTOM, WARM_UP = 2, ROUNDS = 9 };

static const struct layer {
    uint32_t rows, cols;
    double forward_s, backward_s;
} layers[LAYERS] = {{64, 256, 10e-3, 30e-3},
                    {64, 256, 10e-3, 30e-3},
                    {64, 256, 10e-3, 30e-3},
                    {64, 256, 10e-3, 30e-3},
                    {2048, 2048, 2e-3, 4e-3}};

struct work {
    struct state *state;
    uint64_t chunk;
    char name[32];
    uint16_t port;
    bool overlap;
    size_t turns;
    struct seen {
        double step_s, off_s, wire_s, bound_s, round_s, worst_s, chunk_s;
    } seen[BENCH_REPEATS_MAX]; /* by pairs of turns */
    double sorted[BENCH_REPEATS_MAX];
    char text[600]; /* what all of it comes to */
};

struct state {
    struct nodes nodes;
    struct crew_board *board;
    double seconds;
    char note[400], tail[BENCH_CHUNKS_MAX * 600];
    size_t count;
    struct work works[BENCH_CHUNKS_MAX];
    struct bench_case cases[BENCH_CHUNKS_MAX];
};

/* ---- a worker ---- */

struct net {
    tri_job *job;
    float *weights[LAYERS], *gradient; /* the same for all */
    double late_s;                     /* slept too long until now, all together */
};

static size_t floats_of(size_t i)
{
    return (size_t)layers[i].rows * layers[i].cols;
}

/* Sleeps that are a little long are made up for by those to come. */
static void compute(struct net *net, double seconds)
{
    double start = crew_now_s(), wanted = seconds - net->late_s;
    if (wanted > 0) {
        struct timespec time = {.tv_nsec = (long)(1e9 * wanted)};
        (void)nanosleep(&time, NULL);
    }
    net->late_s += crew_now_s() - start - seconds;
}

static tri_status give(const struct net *net, uint32_t i, tri_error *err)
{
    tri_update_info update = TRI_UPDATE_INIT;
    update.dense = net->gradient;
    update.lr = 1e-3F;
    return tri_update(net->job, i, &update, err);
}

static tri_status step(struct net *net, bool overlap, tri_error *err)
{
    tri_status status = TRI_OK;
    for (uint32_t i = 0; i < LAYERS && status == TRI_OK; i++) {
        status = tri_sync(net->job, i, err);
        compute(net, layers[i].forward_s);
    }
    for (uint32_t i = LAYERS; i-- > 0 && status == TRI_OK;) {
        compute(net, layers[i].backward_s);
        if (overlap)
            status = give(net, i, err);
    }
    for (uint32_t i = LAYERS; !overlap && i-- > 0 && status == TRI_OK;)
        status = give(net, i, err);
    return status == TRI_OK ? tri_clock(net->job, NULL, err) : status;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    if (count == 0)
        return (double)NAN;
    qsort(values, count, sizeof *values, by_size);
    return values[count / 2];
}

static tri_status sync_all(const struct net *net, tri_error *err)
{
    tri_status status = TRI_OK;
    for (uint32_t i = 0; i < LAYERS && status == TRI_OK; i++)
        status = tri_sync(net->job, i, err);
    return status;
}

/* One round trip of the bottom layer, begun so long after the top one that fills the link. */
static tri_status overtake_once(const struct net *net, long after_ns, double *out, tri_error *err)
{
    const struct timespec moment = {.tv_nsec = after_ns};
    tri_status status = give(net, TOP, err);
    (void)nanosleep(&moment, NULL);
    double start = crew_now_s();
    if (status == TRI_OK)
        status = give(net, 0, err);
    if (status == TRI_OK)
        status = tri_sync(net->job, 0, err);
    *out = crew_now_s() - start;
    if (status == TRI_OK)
        status = tri_clock(net->job, NULL, err);
    return status == TRI_OK ? sync_all(net, err) : status;
}

/* Many of them, from 20 ms on, at all moments of a chunk: rounds[] sorted. */
static tri_status overtake(const struct net *net, double rounds[ROUNDS], tri_error *err)
{
    tri_status status = sync_all(net, err);
    for (long r = 0; r < ROUNDS && status == TRI_OK; r++)
        status = overtake_once(net, 20000000 + 2000000 * r, &rounds[r], err);
    qsort(rounds, ROUNDS, sizeof *rounds, by_size);
    return status;
}

static tri_status describe(struct net *net, tri_error *err)
{
    for (size_t i = 0; i < LAYERS; i++) {
        char name[16];
        uint32_t number;
        tri_layer_info info = TRI_LAYER_INIT;
        (void)snprintf(name, sizeof name, "layer%zu", i);
        info.name = name;
        info.kind = i == TOP ? TRI_FC : TRI_CONV;
        info.rows = layers[i].rows;
        info.cols = layers[i].cols;
        info.weights = net->weights[i];
        tri_status status = tri_layer(net->job, &info, &number, err);
        if (status != TRI_OK)
            return status;
    }
    return tri_start(net->job, err);
}

/* Bytes that this node sends in a step go to numbers[1], the round trip to numbers[2], the
 * longest to numbers[3]. */
static tri_status train(struct net *net, struct crew_loop *loop, bool overlap, tri_error *err)
{
    tri_stats stats;
    uint64_t i = 0;
    tri_status status = describe(net, err);
    for (; status == TRI_OK && crew_goes_on(loop, i); i++) {
        status = step(net, overlap, err);
        atomic_fetch_add(&loop->board->work[loop->rank], 1);
    }
    if (status == TRI_OK)
        status = sync_all(net, err);
    double rounds[ROUNDS] = {0};
    tri_get_stats(net->job, &stats);
    if (status == TRI_OK)
        status = overtake(net, rounds, err);
    if (loop->rank == 0) {
        loop->board->numbers[1] = (double)(stats.sent_bytes + stats.header_bytes) / (double)i;
        loop->board->numbers[2] = rounds[ROUNDS / 2];
        loop->board->numbers[3] = rounds[ROUNDS - 1];
    }
    return status;
}

static tri_status body(void *ctx, uint32_t rank, struct crew_board *board, tri_error *err)
{
    const struct work *work = ctx;
    const struct state *state = work->state;
    struct crew_job job = {.workers = 2,
                           .address = state->nodes.addresses[0],
                           .port = work->port,
                           .chunk = work->chunk};
    struct crew_loop loop = {.board = board,
                             .rank = rank,
                             .processes = 2,
                             .warm_up = WARM_UP,
                             .seconds = state->seconds};
    struct net net = {.gradient = mem_array(&mem_libc, floats_of(TOP), sizeof(float))};
    tri_options options = TRI_OPTIONS_INIT;
    bool there = net.gradient != NULL;
    for (size_t i = 0; i < LAYERS; i++)
        there = (net.weights[i] = mem_array(&mem_libc, floats_of(i), sizeof(float))) && there;
    tri_status status = there ? nodes_enter(&state->nodes, rank, err) : fail_nomem(err, "the net");
    crew_environment(&job, rank);
    options.scheme = "ps";
    if (status == TRI_OK)
        status = tri_open(&options, &net.job, err);
    if (status == TRI_OK)
        status = train(&net, &loop, work->overlap, err);
    tri_close(net.job);
    for (size_t i = 0; i < LAYERS; i++)
        mem_free(&mem_libc, net.weights[i]);
    mem_free(&mem_libc, net.gradient);
    return status;
}

/* ---- the benchmark ---- */

static double compute_s(void)
{
    double sum = 0;
    for (size_t i = 0; i < LAYERS; i++)
        sum += layers[i].forward_s + layers[i].backward_s;
    return sum;
}

static double middle(struct work *work, size_t offset)
{
    double *values = work->sorted;
    const size_t pairs = work->turns / 2;
    for (size_t i = 0; i < pairs; i++)
        memcpy(&values[i], (const char *)&work->seen[i] + offset, sizeof values[i]);
    return 1e3 * median(values, pairs);
}

#define MIDDLE(work, field) middle(work, offsetof(struct seen, field))

static void sum_up(struct work *work)
{
    struct state *state = work->state;
    double on = MIDDLE(work, step_s), off = MIDDLE(work, off_s), bound = MIDDLE(work, bound_s);
    double wire = MIDDLE(work, wire_s), chunk = MIDDLE(work, chunk_s);
    (void)snprintf(
        work->text, sizeof work->text,
        "%s: a step takes %.1f ms with overlap, %.1f ms without. Compute %.1f ms, wire "
        "%.1f ms: at\n  least %.1f ms, %.0f %% of what it takes; %.0f %% of the possible "
        "saving reached.\n  64 KiB of the bottom layer there and back, 16 MiB in flight: "
        "%.1f ms, at worst %.1f ms;\n  two chunks take %.1f ms.\n",
        work->name, on, off, 1e3 * compute_s(), wire, bound, 100 * bound / on,
        100 * (off - on) / (off - bound), MIDDLE(work, round_s), MIDDLE(work, worst_s), 2 * chunk);
    for (size_t i = 0, at = 0; i < state->count && at < sizeof state->tail; i++) {
        int len = snprintf(state->tail + at, sizeof state->tail - at, "%s", state->works[i].text);
        at += len > 0 ? (size_t)len : 0;
    }
}

static tri_status measure_link(struct state *state, double *bytes_s, tri_error *err)
{
    struct nodes_link link = {.nodes = &state->nodes, .port = crew_port(err)};
    struct crew crew = {2, "link", nodes_link_body, &link};
    tri_status status = link.port == 0 ? TRI_EIO : crew_run(&crew, state->board, err);
    *bytes_s = state->board->numbers[0];
    return status;
}

/* What the top layer's bytes allow: they start after its backward, and its forward waits for
 * them. */
static void note(struct work *work, double bytes_s)
{
    const struct crew_board *board = work->state->board;
    struct seen *seen = &work->seen[work->turns / 2];
    double wire = board->numbers[1] / bytes_s;
    double least = wire + layers[TOP].forward_s + layers[TOP].backward_s;
    seen->step_s = 2 / board->work_s;
    seen->wire_s = wire;
    seen->bound_s = least > compute_s() ? least : compute_s();
    seen->round_s = board->numbers[2];
    seen->worst_s = board->numbers[3];
    seen->chunk_s = (double)work->chunk / bytes_s;
}

static tri_status turn(void *ctx, bool baseline, struct bench_sample *out, tri_error *err)
{
    struct work *work = ctx;
    struct state *state = work->state;
    struct crew crew = {2, "wfbp", body, work};
    double bytes_s = 0;
    tri_status status = baseline ? TRI_OK : measure_link(state, &bytes_s, err);
    work->overlap = !baseline;
    work->port = crew_port(err);
    if (status == TRI_OK && work->port == 0)
        status = TRI_EIO;
    if (status == TRI_OK)
        status = crew_run(&crew, state->board, err);
    if (status != TRI_OK)
        return status;
    *out = (struct bench_sample){state->board->work_s / 2, (double)NAN};
    if (baseline)
        work->seen[work->turns / 2].off_s = 2 / state->board->work_s;
    else
        note(work, bytes_s);
    if (++work->turns % 2 == 0)
        sum_up(work);
    return TRI_OK;
}

/* Smaller chunks let what is urgent overtake sooner. */
static void set_cases(struct state *state, const struct bench_wish *wish)
{
    static const uint64_t usual[] = {(uint64_t)2 << 20, (uint64_t)256 << 10};
    const bool own = wish->chunk_count > 0;
    const uint64_t *chunks = own ? wish->chunks : usual;
    const size_t count = own ? wish->chunk_count : sizeof usual / sizeof usual[0];
    for (size_t i = 0; i < count && i < BENCH_CHUNKS_MAX; i++) {
        struct work *work = &state->works[i];
        work->state = state;
        work->chunk = chunks[i];
        (void)snprintf(work->name, sizeof work->name, "%llu KiB",
                       (unsigned long long)work->chunk >> 10);
        state->cases[i] = (struct bench_case){.name = work->name, .turn = turn, .ctx = work};
        state->count++;
    }
}

static void wfbp_close(const struct mem *mem, struct bench_plan *plan)
{
    struct state *state = plan->state;
    crew_board_close(state->board);
    mem_free(mem, state);
}

static tri_status wfbp_open(const struct mem *mem, const struct bench_wish *wish,
                            struct bench_plan *plan, tri_error *err)
{
    struct state *state = mem_array(mem, 1, sizeof *state);
    if (state == NULL)
        return fail_nomem(err, "the benchmark");
    bool there = nodes_find(&state->nodes);
    state->seconds = wish->seconds > 0 ? wish->seconds : wish->quick ? 1 : 3;
    (void)snprintf(
        state->note, sizeof state->note, "%s",
        there ? "2 nodes, each a worker and a server; 4 layers of 64 KiB that take 10 ms "
                "forward and 30 ms\nbackward, above them one of 16 MiB that takes 2 and 4 "
                "ms; dense, bsp.\nWithout overlap all updates are given "
                "after the whole backward pass."
              : "skipped: it needs two nodes and a slow link. Run it as\n  tools/netns run 2 "
                "--rate 1gbit -- trident bench wfbp");
    if (there)
        set_cases(state, wish);
    *plan = (struct bench_plan){.cases = state->cases,
                                .count = state->count,
                                .value_name = "overlap",
                                .baseline_name = "none",
                                .note = state->note,
                                .tail = state->tail,
                                .state = state};
    state->board = crew_board_open(err);
    if (state->board != NULL)
        return TRI_OK;
    wfbp_close(mem, plan);
    return TRI_ENOMEM;
}

extern const struct bench bench_wfbp;
const struct bench bench_wfbp = {
    .name = "wfbp",
    .summary = "does communication hide behind backward? does what is urgent overtake?",
    .unit = "steps/s",
    .repeats = 5,
    .open = wfbp_open,
    .close = wfbp_close,
};
