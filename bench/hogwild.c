/* How fast do learners learn that step one set of weights in place, without waiting for each other?
 *
 * GaDei's text CNN in the sizes of models/gadei_{joule,watt,mr}.json, and the four layers of 4096.
 * Two learners beside one, beside two that share nothing (the most that can be had), and beside
 * PyTorch's two on weights in shared memory. */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "bench/harness.h"
#include "bench/learner.h"
#include "bench/lesson.h"
#include "bench/series.h"
#include "bench/torch.h"

enum {
    BATCHES = 6,
    TEXTS = 3,
    TEXT_PLACES = TEXTS * BATCHES,
    WIDE_PLACES = 3,
    PLACES = TEXT_PLACES + WIDE_PLACES,
    AGAINST = 3,
};

/* What two learners are held against. */
enum against { ONE, APART, TORCH };

static const struct learner_net wide_net = {.name = "4 x 4096",
                                            .model = "mlp:4096x4",
                                            .data = {.image = {4096, 1, 1}, .classes = 10},
                                            .warm_up = 2};

/* A net and a batch, and what all turns came to. */
struct place {
    struct state *state;
    const struct learner_net *net;
    uint32_t batch;
    struct series one, two, apart, torch_one, torch_two;
    struct series clean_one, clean_two, clean_apart;
};

struct work {
    struct place *place;
    enum against against;
    char name[48];
};

struct state {
    struct crew_board *board;
    const char *python;
    double seconds;
    size_t places;
    char note[500], tail[6000];
    struct place place[PLACES];
    struct work works[PLACES * AGAINST];
    struct bench_case cases[PLACES * AGAINST];
};

/* ---- what came out ---- */

static void keep(struct series *series, double value)
{
    if (value > 0)
        series_keep(series, value);
}

static size_t put(char *to, size_t room, double value, int digits)
{
    const int len = isnan(value) ? snprintf(to, room, " %7s", "-")
                                 : snprintf(to, room, " %7.*f", digits, value);
    return len > 0 && (size_t)len < room ? (size_t)len : 0;
}

static size_t put_place(const struct place *place, char *to, size_t room)
{
    const double one = series_median(&place->one), two = series_median(&place->two);
    const double clean_one = series_median(&place->clean_one),
                 clean_two = series_median(&place->clean_two);
    const double rates[] = {one,
                            two,
                            series_median(&place->apart),
                            series_median(&place->torch_one),
                            series_median(&place->torch_two),
                            clean_one,
                            clean_two,
                            series_median(&place->clean_apart)};
    const double ratios[] = {two / one, two / series_median(&place->torch_two),
                             clean_two / clean_one};
    const int head = snprintf(to, room, "%-8s %3u", place->net->name, (unsigned)place->batch);
    size_t len = head > 0 && (size_t)head < room ? (size_t)head : 0;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        len += put(to + len, room - len, rates[i], 0);
    for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++)
        len += put(to + len, room - len, ratios[i], 2);
    if (len + 1 < room)
        to[len++] = '\n';
    to[len] = '\0';
    return len;
}

static void write_tail(struct state *state)
{
    const size_t room = sizeof state->tail;
    size_t len = (size_t)snprintf(
        state->tail, room,
        "samples/s, medians. Undisturbed: by the steps that had their processors to themselves\n"
        "                                       PyTorch         undisturbed   ratios\n"
        "net      batch   one     two   apart     one     two     one     two   apart   2:1  "
        "2:torch"
        " 2:1 undisturbed\n");
    for (size_t i = 0; i < state->places; i++)
        len += put_place(&state->place[i], state->tail + len, room - len);
}

/* ---- turns ---- */

static tri_status run_learners(struct place *place, uint32_t learners, bool apart, double *rate,
                               tri_error *err)
{
    struct crew_board *board = place->state->board;
    struct learner_run run = {.net = place->net,
                              .batch = place->batch,
                              .learners = learners,
                              .apart = apart,
                              .seconds = place->state->seconds,
                              .shared = learner_map(err)};
    const struct crew crew = {learners, "learner", learner_body, &run};
    if (run.shared == NULL)
        return TRI_ENOMEM;
    tri_status status = crew_run(&crew, board, err);
    learner_unmap(run.shared);
    if (status != TRI_OK)
        return status;
    *rate = board->work_s;
    keep(learners == 1 ? &place->one : apart ? &place->apart : &place->two, *rate);
    struct series *clean = learners == 1 ? &place->clean_one
                           : apart       ? &place->clean_apart
                                         : &place->clean_two;
    if (board->numbers[0] > 0 && (learners == 1 || board->numbers[1] > 0))
        keep(clean, board->numbers[0] + board->numbers[1]);
    return TRI_OK;
}

static tri_status run_torch(struct place *place, double *rate, tri_error *err)
{
    const struct state *state = place->state;
    const struct net_data *data = &place->net->data;
    struct torch_run run = {.python = state->python,
                            .net = TORCH_HOGWILD,
                            .workers = 1,
                            .seconds = state->seconds,
                            .batch = place->batch,
                            .words = data->words,
                            .length = data->length,
                            .classes = data->classes};
    const struct crew crew = {1, "torch", torch_body, &run};
    tri_status status = crew_run(&crew, state->board, err);
    if (status != TRI_OK)
        return status;
    *rate = state->board->work_s;
    keep(&place->torch_two, *rate);
    keep(&place->torch_one, state->board->numbers[0]);
    return TRI_OK;
}

static tri_status turn(void *ctx, bool baseline, struct bench_sample *out, tri_error *err)
{
    struct work *work = ctx;
    struct place *place = work->place;
    tri_status status;
    *out = (struct bench_sample){.cpu_s_per_gb = (double)NAN};
    if (!baseline)
        status = run_learners(place, 2, false, &out->rate, err);
    else if (work->against == TORCH)
        status = run_torch(place, &out->rate, err);
    else
        status = run_learners(place, work->against == ONE ? 1 : 2, work->against == APART,
                              &out->rate, err);
    if (status == TRI_OK)
        write_tail(place->state);
    return status;
}

/* ---- the plan ---- */

static void set_places(struct state *state, bool quick)
{
    static const uint32_t batches[BATCHES] = {1, 2, 4, 8, 16, 32};
    for (size_t i = 0; i < TEXT_PLACES && (!quick || i == 0); i++)
        state->place[state->places++] = (struct place){
            .state = state, .net = lesson_text(i / BATCHES), .batch = batches[i % BATCHES]};
    static const uint32_t wide[WIDE_PLACES] = {1, 8, 32};
    for (size_t i = 0; i < WIDE_PLACES && !quick; i++)
        state->place[state->places++] =
            (struct place){.state = state, .net = &wide_net, .batch = wide[i]};
}

static size_t set_cases(struct state *state)
{
    static const char *const names[AGAINST] = {"2 : 1", "2 : 2 apart", "2 : PyTorch's 2"};
    size_t count = 0;
    for (size_t i = 0; i < state->places; i++)
        for (size_t j = 0; j < AGAINST && (j != TORCH || state->python != NULL); j++) {
            struct work *work = &state->works[count];
            work->place = &state->place[i];
            work->against = (enum against)j;
            (void)snprintf(work->name, sizeof work->name, "%s, batch %u, %s",
                           work->place->net->name, (unsigned)work->place->batch, names[j]);
            state->cases[count++] =
                (struct bench_case){.name = work->name, .turn = turn, .ctx = work};
        }
    return count;
}

static void hogwild_close(const struct mem *mem, struct bench_plan *plan)
{
    struct state *state = plan->state;
    crew_board_close(state->board);
    mem_free(mem, state);
}

static tri_status hogwild_open(const struct mem *mem, const struct bench_wish *wish,
                               struct bench_plan *plan, tri_error *err)
{
    struct state *state = mem_array(mem, 1, sizeof *state);
    if (state == NULL)
        return fail_nomem(err, "the benchmark");
    state->seconds = wish->seconds > 0 ? wish->seconds : wish->quick ? 0.2 : 1;
    state->python = torch_python();
    state->board = crew_board_open(err);
    if (state->board == NULL) {
        mem_free(mem, state);
        return TRI_EIO;
    }
    set_places(state, wish->quick);
    (void)snprintf(
        state->note, sizeof state->note,
        "Processes that step one set of weights in place, one thread each, plain SGD; turns of\n"
        "%g s. %s",
        state->seconds,
        state->python != NULL
            ? "PyTorch: share_memory(), one thread each, sparse or dense embedding: the faster."
            : "PyTorch skipped: python3-torch is not installed.");
    *plan = (struct bench_plan){.cases = state->cases,
                                .count = set_cases(state),
                                .value_name = "trident, 2",
                                .baseline_name = "baseline",
                                .note = state->note,
                                .tail = state->tail,
                                .state = state};
    return TRI_OK;
}

extern const struct bench bench_hogwild;
const struct bench bench_hogwild = {
    .name = "hogwild",
    .summary = "do learners pay that step one set of weights in place?",
    .unit = "samples/s",
    .repeats = 3,
    .open = hogwild_open,
    .close = hogwild_close,
};
