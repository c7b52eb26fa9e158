/* From which mini-batch on do two learners beat one?
 *
 * Table 8 of the GaDei paper: the smaller the mini-batch, the more there is to exchange for each
 * sample, and the sooner a second learner only costs. The text CNN in the sizes of
 * models/gadei_{joule,watt,mr}.json; two learners by each way to exchange, beside one that steps
 * its weights in place and exchanges nothing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bench/exchange.h"
#include "bench/harness.h"
#include "bench/learner.h"
#include "bench/learners_table.h"
#include "bench/mpi.h"
#include "bench/series.h"

enum { PLACES = LEARNERS_NETS * LEARNERS_BATCHES, CASES = PLACES * LEARNERS_WAYS };

enum way { DIRECT, QUEUE, REPLICAS, SYNC, ASP, BSP, MPI };

static const struct learners_way ways[LEARNERS_WAYS] = {
    [DIRECT] = {"shared memory, direct", "direct"},
    [REPLICAS] = {"shared memory, replicas", "repl"},
    [QUEUE] = {"shared memory, server with dense queue", "queue"},
    [SYNC] = {"shared memory, synchronous", "sync"},
    [ASP] = {"messages, ps asp over loopback", "asp"},
    [BSP] = {"messages, ps bsp over loopback", "bsp"},
    [MPI] = {"messages, Open MPI, shared memory", "mpi"},
};

/* Some ways can be run in two manners. Each place first tries both for a moment, and then takes the
 * faster. */
enum { MANNERS = 2, NAP_US = 20 };
static const char *const manners[LEARNERS_WAYS][MANNERS] = {
    [ASP] = {"with a server process", "with servers in the learners"},
    [BSP] = {"with a server process", "with servers in the learners"},
    [MPI] = {"with a server that yields", "with a server that naps"},
};

/* A net and a mini-batch, and what all turns came to. */
struct place {
    struct state *state;
    struct learner_net net; /* with a warm-up for this mini-batch */
    uint32_t batch;
    struct series one, two[LEARNERS_WAYS];
    size_t manner[LEARNERS_WAYS];
};

struct work {
    struct place *place;
    enum way way;
    size_t rounds; /* baselines that were asked for */
    char name[80];
};

struct state {
    struct crew_board *board;
    struct bench_wish wish;
    double seconds;
    struct mpi mpi;
    bool has_mpi;
    size_t places;
    char note[1200], tail[6000];
    struct place place[PLACES];
    struct learners_row rows[PLACES];
    struct work works[CASES];
    struct bench_case cases[CASES];
};

/* ---- what came out ---- */

/* "asp was faster with a server process at 12 of 21 places, ..." */
static void write_manner(struct state *state, size_t way)
{
    size_t measured = 0, second = 0, len = strlen(state->tail);
    for (size_t i = 0; i < state->places; i++) {
        measured += state->place[i].two[way].count > 0;
        second += state->place[i].two[way].count > 0 && state->place[i].manner[way] == 1;
    }
    if (measured > 0)
        (void)snprintf(state->tail + len, sizeof state->tail - len,
                       "%s: %s in %zu rows, %s in %zu, as was faster\n", ways[way].head,
                       manners[way][0], measured - second, manners[way][1], second);
}

static bool is_measured(const struct place *place)
{
    bool any = place->one.count > 0;
    for (size_t w = 0; w < LEARNERS_WAYS; w++)
        any = any || place->two[w].count > 0;
    return any;
}

static void write_tail(struct state *state)
{
    size_t count = 0;
    for (size_t i = 0; i < state->places; i++) {
        const struct place *place = &state->place[i];
        if (!is_measured(place))
            continue;
        struct learners_row *row = &state->rows[count++];
        row->net = place->net.name;
        row->batch = place->batch;
        row->one = series_median(&place->one);
        for (size_t w = 0; w < LEARNERS_WAYS; w++)
            row->two[w] = series_median(&place->two[w]);
    }
    learners_tables(state->rows, count, ways, state->tail, sizeof state->tail);
    for (size_t w = 0; w < LEARNERS_WAYS; w++)
        if (manners[w][0] != NULL)
            write_manner(state, w);
}

/* ---- turns ---- */

static tri_status run_in_place(const struct place *place, uint32_t learners, double *rate,
                               tri_error *err)
{
    struct crew_board *board = place->state->board;
    struct learner_run run = {.net = &place->net,
                              .batch = place->batch,
                              .learners = learners,
                              .seconds = place->state->seconds,
                              .shared = learner_map(err)};
    const struct crew crew = {learners, "learner", learner_body, &run};
    if (run.shared == NULL)
        return TRI_ENOMEM;
    tri_status status = crew_run(&crew, board, err);
    learner_unmap(run.shared);
    *rate = board->work_s;
    return status;
}

/* Two learners, for a while and in a manner. */
struct attempt {
    const struct place *place;
    enum way way;
    size_t manner;
    double seconds;
};

static tri_status run_mpi(const struct attempt *attempt, double *rate, tri_error *err)
{
    const struct place *place = attempt->place;
    const struct state *state = place->state;
    struct mpi_run run = {.mpi = &state->mpi,
                          .net = &place->net,
                          .batch = place->batch,
                          .nap_us = attempt->manner == 0 ? 0 : NAP_US,
                          .seconds = attempt->seconds};
    const struct crew crew = {1, "mpi", mpi_body, &run};
    tri_status status = crew_run(&crew, state->board, err);
    *rate = state->board->work_s;
    return status;
}

static tri_status run_two(const struct attempt *attempt, double *rate, tri_error *err)
{
    static const enum exchange_way exchanges[LEARNERS_WAYS] = {[REPLICAS] = EXCHANGE_REPLICAS,
                                                               [QUEUE] = EXCHANGE_QUEUE,
                                                               [SYNC] = EXCHANGE_SYNC,
                                                               [ASP] = EXCHANGE_ASP,
                                                               [BSP] = EXCHANGE_BSP};
    const struct place *place = attempt->place;
    const struct state *state = place->state;
    const struct exchange_run run = {.net = &place->net,
                                     .batch = place->batch,
                                     .way = exchanges[attempt->way],
                                     .in_workers = attempt->manner == 1,
                                     .seconds = attempt->seconds,
                                     .serve = state->wish.serve};
    if (attempt->way == DIRECT)
        return run_in_place(place, 2, rate, err);
    if (attempt->way == MPI)
        return run_mpi(attempt, rate, err);
    return exchange(&run, state->board, rate, err);
}

/* Which manner is the faster one here. */
static tri_status choose(struct place *place, enum way way, tri_error *err)
{
    double best = 0, rate = 0;
    for (size_t m = 0; m < MANNERS && manners[way][m] != NULL; m++) {
        const struct attempt attempt = {place, way, m, place->state->seconds / 2};
        tri_status status = run_two(&attempt, &rate, err);
        if (status != TRI_OK)
            return status;
        if (rate > best) {
            best = rate;
            place->manner[way] = m;
        }
    }
    return TRI_OK;
}

static tri_status measure_two(struct place *place, enum way way, double *rate, tri_error *err)
{
    tri_status status = place->two[way].count == 0 ? choose(place, way, err) : TRI_OK;
    const struct attempt attempt = {place, way, place->manner[way], place->state->seconds};
    if (status == TRI_OK)
        status = run_two(&attempt, rate, err);
    if (status == TRI_OK)
        series_keep(&place->two[way], *rate);
    return status;
}

/* One learner's rate stands for all ways of the same repeat: they are seconds apart, and the whole
 * must not last for an hour. */
static tri_status run_one(struct work *work, double *rate, tri_error *err)
{
    struct place *place = work->place;
    tri_status status = TRI_OK;
    if (work->rounds++ == place->one.count) {
        status = run_in_place(place, 1, rate, err);
        if (status == TRI_OK)
            series_keep(&place->one, *rate);
    } else {
        *rate = place->one.at[place->one.count - 1];
    }
    return status;
}

static tri_status turn(void *ctx, bool baseline, struct bench_sample *out, tri_error *err)
{
    struct work *work = ctx;
    *out = (struct bench_sample){.cpu_s_per_gb = (double)NAN};
    tri_status status = baseline ? run_one(work, &out->rate, err)
                                 : measure_two(work->place, work->way, &out->rate, err);
    if (status == TRI_OK)
        write_tail(work->place->state);
    return status;
}

/* ---- the plan ---- */

static void set_places(struct state *state, bool quick)
{
    static const uint32_t batches[LEARNERS_BATCHES] = {1, 2, 4, 8, 16, 32, 64};
    for (size_t i = 0; i < PLACES && (!quick || i == 0); i++) {
        struct place *place = &state->place[state->places++];
        *place = (struct place){.state = state,
                                .net = *lesson_text(i / LEARNERS_BATCHES),
                                .batch = batches[i % LEARNERS_BATCHES]};
        const uint32_t steps = place->net.warm_up / place->batch;
        place->net.warm_up = steps > 2 ? steps : 2;
    }
}

static size_t set_cases(struct state *state)
{
    size_t count = 0;
    for (size_t i = 0; i < state->places; i++)
        for (size_t w = 0; w < LEARNERS_WAYS && (w != MPI || state->has_mpi); w++) {
            struct work *work = &state->works[count];
            work->place = &state->place[i];
            work->way = (enum way)w;
            (void)snprintf(work->name, sizeof work->name, "%s, %u, %s", work->place->net.name,
                           (unsigned)work->place->batch, ways[w].head);
            state->cases[count++] =
                (struct bench_case){.name = work->name, .turn = turn, .ctx = work};
        }
    return count;
}

static void set_note(struct state *state, const char *why)
{
    (void)snprintf(
        state->note, sizeof state->note,
        "Two learners (processes of one thread) against one that exchanges nothing; plain SGD,\n"
        "mini-batch per learner; turns of %g s.\n"
        "direct: each steps one set of shared weights in place. repl: each steps a copy of its "
        "own\n"
        "by the gradients of both, which go as factors. queue: whole gradients are\n"
        "computed into slots of shared memory, two per learner, a server process steps, weights\n"
        "are read in place. sync: as queue, in rounds, and embeddings by rows. asp, bsp: whole\n"
        "gradients over loopback TCP to a parameter server and weights back, layer by layer. mpi:\n"
        "the same as asp by Open MPI and a server rank%s%s.",
        state->seconds,
        state->has_mpi ? ": ob1, self,vader with one copy, mpi_yield_when_idle,\nbound to no core"
                       : "; skipped: ",
        state->has_mpi ? "" : why);
}

static void learners_close(const struct mem *mem, struct bench_plan *plan)
{
    struct state *state = plan->state;
    crew_board_close(state->board);
    mem_free(mem, state);
}

static tri_status learners_open(const struct mem *mem, const struct bench_wish *wish,
                                struct bench_plan *plan, tri_error *err)
{
    struct state *state = mem_array(mem, 1, sizeof *state);
    const char *why = NULL;
    if (state == NULL)
        return fail_nomem(err, "the benchmark");
    state->wish = *wish;
    state->seconds = wish->seconds > 0 ? wish->seconds : wish->quick ? 0.1 : 0.4;
    state->has_mpi = mpi_find(&state->mpi, &why);
    state->board = crew_board_open(err);
    if (state->board == NULL) {
        mem_free(mem, state);
        return TRI_ENOMEM;
    }
    set_places(state, wish->quick);
    set_note(state, why);
    *plan = (struct bench_plan){.cases = state->cases,
                                .count = set_cases(state),
                                .value_name = "2 learners",
                                .baseline_name = "1 learner",
                                .note = state->note,
                                .tail = state->tail,
                                .state = state};
    return TRI_OK;
}

extern const struct bench bench_learners;
const struct bench bench_learners = {
    .name = "learners",
    .summary = "from which mini-batch on do two learners beat one?",
    .unit = "samples/s",
    .repeats = 3,
    .open = learners_open,
    .close = learners_close,
};
