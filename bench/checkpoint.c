/* How much longer do the steps around a checkpoint take?
 *
 * One job saves every so many steps. The steps from before its copy until the file is on the disk
 * are one window, as many steps behind them another one, and so by turns to the end of the job:
 * what the first take longer than their neighbours is the checkpoint's price. The last checkpoint
 * is resumed from, and must have the weights that the job ended with. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "bench/crew.h"
#include "bench/harness.h"
#include "math/dense.h"

enum { LAYERS = 4, WIDTH = 2048, QUICK_WIDTH = 512, BATCH = 128, CASES = 3 };
/* The job saves every EVERY steps: LEAD of a window are before the copy (workers tell each other
 * ahead of it), the others behind it. */
enum { WINDOW = 10, EVERY = 2 * WINDOW, LEAD = 4, WINDOWS_MAX = 400 };
enum { PATH = 600 };

#define SLEEP_S       150e-3 /* of a step: a third of it forward */
#define QUICK_SLEEP_S 15e-3

/* Of one side: time and processor time of each window. */
struct windows {
    double seconds[WINDOWS_MAX], cpu_s[WINDOWS_MAX], calls_s[WINDOWS_MAX];
    size_t count;
};

/* Shared with the crew. */
struct seen {
    struct windows with, without;
    size_t late; /* checkpoints that were not there at the end of their window */
};

struct work {
    struct state *state;
    const char *name;
    uint32_t workers;
    bool sleeps;
    uint16_t port;
    bool half; /* the other side of this turn is measured already */
    struct bench_sample other;
    char folder[PATH], text[700];
};

struct state {
    struct crew_board *board;
    double sleep_s;
    size_t width, pairs; /* of windows, in a turn */
    const char *above;   /* the folder that those of the turns are made in */
    char note[700], tail[CASES * 700];
    struct seen *seen; /* [CASES] */
    struct work works[CASES];
    struct bench_case cases[CASES];
};

/* ---- a worker ---- */

struct net {
    tri_job *job;
    double sleep_s;    /* of a step; 0: real arithmetic */
    double late_s;     /* slept too long until now, all together */
    double calls_s;    /* in the library's calls until now */
    double calls_at_s; /* when the window began */
    struct dense_shape shape;
    float *weights[LAYERS], *gradients[LAYERS];
    float *inputs, *outputs, *deltas, *scratch;
};

static bool make_net(struct net *net, size_t width)
{
    net->shape = (struct dense_shape){.rows = width, .cols = width, .batch = BATCH};
    bool there = true;
    for (size_t i = 0; i < LAYERS; i++) {
        net->weights[i] = crew_floats(width * width);
        net->gradients[i] = crew_floats(width * width);
        there = there && net->weights[i] != NULL && net->gradients[i] != NULL;
    }
    net->inputs = crew_floats(BATCH * width);
    net->outputs = crew_floats(BATCH * width);
    net->deltas = crew_floats(BATCH * width);
    net->scratch = crew_floats(dense_scratch_floats(&net->shape));
    if (!there || net->inputs == NULL || net->outputs == NULL || net->deltas == NULL ||
        net->scratch == NULL)
        return false;
    for (size_t i = 0; i < LAYERS; i++)
        for (size_t k = 0; k < width * width; k++) {
            net->weights[i][k] = (float)((k + i) % 97) / 970;
            net->gradients[i][k] = (float)(k % 89) / 8900;
        }
    for (size_t k = 0; k < BATCH * width; k++) {
        net->inputs[k] = (float)(k % 83) / 830;
        net->deltas[k] = (float)(k % 79) / 7900;
    }
    return true;
}

/* Sleeps that are a little long are made up for by those to come. */
static void rest(struct net *net, double seconds)
{
    double start = crew_now_s(), wanted = seconds - net->late_s;
    if (wanted > 0) {
        struct timespec time = {.tv_nsec = (long)(1e9 * wanted)};
        (void)nanosleep(&time, NULL);
    }
    net->late_s += crew_now_s() - start - seconds;
}

static void forward(struct net *net, size_t i)
{
    struct dense_outputs product = {
        .shape = net->shape, .w = net->weights[i], .x = net->inputs, .y = net->outputs};
    if (net->sleep_s > 0)
        rest(net, net->sleep_s / 3 / LAYERS);
    else
        dense_forward(dense_kernel_at(0), &product, net->scratch);
}

/* The gradient last, so that it leaves as soon as it is there. */
static void backward(struct net *net, size_t i)
{
    struct dense_inputs before = {
        .shape = net->shape, .w = net->weights[i], .dy = net->deltas, .dx = net->outputs};
    struct dense_weights gradient = {
        .shape = net->shape, .dy = net->deltas, .x = net->inputs, .g = net->gradients[i]};
    if (net->sleep_s > 0) {
        rest(net, net->sleep_s * 2 / 3 / LAYERS);
        return;
    }
    dense_backward(dense_kernel_at(0), &before, net->scratch);
    dense_gradient(dense_kernel_at(0), &gradient, net->scratch);
}

static tri_status sync_all(const struct net *net, tri_error *err)
{
    tri_status status = TRI_OK;
    for (uint32_t i = 0; i < LAYERS && status == TRI_OK; i++)
        status = tri_sync(net->job, i, err);
    return status;
}

static tri_status step(struct net *net, tri_error *err)
{
    tri_status status = TRI_OK;
    double start;
    for (uint32_t i = 0; i < LAYERS && status == TRI_OK; i++) {
        start = crew_now_s();
        status = tri_sync(net->job, i, err);
        net->calls_s += crew_now_s() - start;
        forward(net, i);
    }
    for (uint32_t i = LAYERS; i-- > 0 && status == TRI_OK;) {
        tri_update_info update = TRI_UPDATE_INIT;
        update.dense = net->gradients[i];
        update.lr = 1e-6F;
        backward(net, i);
        start = crew_now_s();
        status = tri_update(net->job, i, &update, err);
        net->calls_s += crew_now_s() - start;
    }
    start = crew_now_s();
    if (status == TRI_OK)
        status = tri_clock(net->job, NULL, err);
    net->calls_s += crew_now_s() - start;
    return status;
}

static tri_status start(struct net *net, const struct work *work, bool resume, tri_error *err)
{
    tri_options options = TRI_OPTIONS_INIT;
    options.scheme = "ps";
    options.optimizer = "momentum:0.9";
    options.checkpoint = work->folder;
    options.checkpoint_every = EVERY;
    options.resume = resume;
    tri_status status = tri_open(&options, &net->job, err);
    for (size_t i = 0; i < LAYERS && status == TRI_OK; i++) {
        char name[16];
        uint32_t number;
        tri_layer_info info = TRI_LAYER_INIT;
        (void)snprintf(name, sizeof name, "fc%zu", i + 1);
        info.name = name;
        info.rows = info.cols = (uint32_t)net->shape.rows;
        info.weights = net->weights[i];
        status = tri_layer(net->job, &info, &number, err);
    }
    return status == TRI_OK ? tri_start(net->job, err) : status;
}

static bool is_there(const struct work *work, uint64_t clock)
{
    char path[PATH + 60];
    (void)snprintf(path, sizeof path, "%s/clock-%012llu.safetensors", work->folder,
                   (unsigned long long)clock);
    return access(path, F_OK) == 0;
}

/* The step that ends with this clock is over; on rank 0. */
static void look(struct net *net, const struct work *work, struct seen *seen,
                 struct crew_watch *watch, uint64_t clock)
{
    if (clock < EVERY - LEAD || (clock + LEAD) % WINDOW != 0)
        return;
    uint64_t window = (clock + LEAD) / WINDOW - 2; /* that begins now */
    if (window > 0) {
        bool saved = (window - 1) % 2 == 0;
        struct windows *windows = saved ? &seen->with : &seen->without;
        crew_watch_stop(watch);
        if (windows->count < WINDOWS_MAX) {
            windows->seconds[windows->count] = watch->board->seconds;
            windows->calls_s[windows->count] = net->calls_s - net->calls_at_s;
            windows->cpu_s[windows->count++] = watch->board->cpu_s;
        }
        seen->late += saved && !is_there(work, clock + LEAD - WINDOW);
    }
    net->calls_at_s = net->calls_s;
    crew_watch_start(watch, watch->board, work->workers);
}

static uint32_t sum_of(const struct net *net)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < LAYERS; i++)
        crc = crc32c(crc, net->weights[i], net->shape.rows * net->shape.cols * sizeof(float));
    return crc;
}

/* What was saved last is what the job ended with. */
static tri_status check(struct net *net, const struct work *work, uint64_t clock, tri_error *err)
{
    struct crew_job alone = {.workers = 1};
    uint32_t crc = sum_of(net);
    tri_stats stats = {0};
    for (size_t i = 0; i < LAYERS; i++)
        net->weights[i][0] += 1;
    crew_environment(&alone, 0);
    tri_status status = start(net, work, true, err);
    if (status == TRI_OK)
        tri_get_stats(net->job, &stats);
    tri_close(net->job);
    net->job = NULL;
    if (status != TRI_OK)
        return status;
    if (stats.clocks == clock && sum_of(net) == crc)
        return TRI_OK;
    fail(err, TRI_EIO, "the newest checkpoint is not what the job ended with");
    fail_why(err, "it is of clock %llu, the job ended with %llu", (unsigned long long)stats.clocks,
             (unsigned long long)clock);
    return TRI_EIO;
}

static tri_status train(struct net *net, const struct work *work, uint32_t rank,
                        struct crew_board *board, tri_error *err)
{
    struct state *state = work->state;
    struct seen *seen = &state->seen[work - state->works];
    struct crew_watch watch = {.board = board, .count = work->workers};
    uint64_t seen_steps = EVERY * ((uint64_t)state->pairs + 1) - LEAD; /* then one more is saved */
    uint64_t steps = EVERY * ((uint64_t)state->pairs + 2);
    tri_status status = start(net, work, false, err);
    for (uint64_t i = 0; i < steps && status == TRI_OK; i++) {
        status = step(net, err);
        if (rank == 0 && i < seen_steps)
            look(net, work, seen, &watch, i + 1);
    }
    if (status == TRI_OK)
        status = sync_all(net, err);
    tri_close(net->job);
    net->job = NULL;
    return status == TRI_OK && rank == 0 ? check(net, work, steps, err) : status;
}

static tri_status body(void *ctx, uint32_t rank, struct crew_board *board, tri_error *err)
{
    const struct work *work = ctx;
    struct crew_job job = {.workers = work->workers, .port = work->port};
    struct net net = {.sleep_s = work->sleeps ? work->state->sleep_s : 0};
    crew_environment(&job, rank);
    tri_status status = make_net(&net, work->state->width) ? train(&net, work, rank, board, err)
                                                           : fail_nomem(err, "the net");
    tri_close(net.job);
    return status;
}

/* ---- what it comes to ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct summary {
    double low, median, high; /* quartiles */
};

static struct summary sum_up(const double *values, size_t count)
{
    double sorted[WINDOWS_MAX];
    if (count == 0)
        return (struct summary){(double)NAN, (double)NAN, (double)NAN};
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_size);
    return (struct summary){sorted[count / 4], (sorted[(count - 1) / 2] + sorted[count / 2]) / 2,
                            sorted[count - 1 - count / 4]};
}

/* Of each window with a checkpoint, beside the one behind it. */
static void extra(const double *with, const double *without, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = with[i] - without[i];
}

static void tell(struct work *work)
{
    struct state *state = work->state;
    struct seen *seen = &state->seen[work - state->works];
    size_t count = seen->with.count < seen->without.count ? seen->with.count : seen->without.count;
    double values[WINDOWS_MAX];
    struct summary usual = sum_up(seen->without.seconds, count);
    double step_s = usual.median / WINDOW, percent = 100 / step_s;
    extra(seen->with.seconds, seen->without.seconds, count, values);
    struct summary stall = sum_up(values, count);
    extra(seen->with.cpu_s, seen->without.cpu_s, count, values);
    double cpu_s = sum_up(values, count).median;
    extra(seen->with.calls_s, seen->without.calls_s, count, values);
    struct summary calls = sum_up(values, count);
    (void)snprintf(work->text, sizeof work->text,
                   "%s: a checkpoint costs %.1f %% of a step of %.1f ms (quartiles %.1f to %.1f; "
                   "%zu checkpoints);\n  the calls hold the loop up for %.1f %% of it (%.1f to "
                   "%.1f). Without, as many steps differ by +-%.1f %% of a step. A\n  "
                   "checkpoint takes %.0f ms of processor time, %.0f %% of a step on one core; "
                   "%zu were not on the disk %d steps behind their copy.\n",
                   work->name, percent * stall.median, 1e3 * step_s, percent * stall.low,
                   percent * stall.high, count, percent * calls.median, percent * calls.low,
                   percent * calls.high, percent * (usual.high - usual.low) / 2, 1e3 * cpu_s,
                   percent * cpu_s, seen->late, WINDOW - LEAD);
    for (size_t i = 0, at = 0; i < CASES && at < sizeof state->tail; i++) {
        int len = snprintf(state->tail + at, sizeof state->tail - at, "%s", state->works[i].text);
        at += len > 0 ? (size_t)len : 0;
    }
}

/* ---- the benchmark ---- */

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char path[PATH + 300];
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        (void)unlink(path); /* fails for . and .. */
    }
    if (dir != NULL)
        (void)closedir(dir);
    (void)rmdir(folder);
}

/* A process that removes the folder when this one and all that it forks later are gone, however
 * they end: until then they have the other end of its pipe. */
struct sweeper {
    pid_t pid;
    int pipe;
};

static void sweep(const char *folder, int pipe)
{
    char byte;
    ssize_t got;
    (void)setsid(); /* Ctrl-C is not for it */
    do
        got = read(pipe, &byte, 1);
    while (got < 0 && errno == EINTR);
    remove_folder(folder);
    _exit(0);
}

static tri_status sweeper_start(struct sweeper *sweeper, const char *folder, tri_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail_errno(err, TRI_EIO, "cannot open a pipe");
    sweeper->pipe = ends[1];
    sweeper->pid = fork();
    if (sweeper->pid == 0) {
        (void)close(ends[1]);
        sweep(folder, ends[0]);
    }
    (void)close(ends[0]);
    if (sweeper->pid > 0)
        return TRI_OK;
    (void)close(ends[1]);
    return fail_errno(err, TRI_EIO, "cannot start a process");
}

static void sweeper_stop(const struct sweeper *sweeper)
{
    (void)close(sweeper->pipe);
    while (waitpid(sweeper->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

static tri_status run(struct work *work, tri_error *err)
{
    struct state *state = work->state;
    struct crew crew = {work->workers, "checkpoint", body, work};
    struct sweeper sweeper = {.pipe = -1};
    (void)snprintf(work->folder, sizeof work->folder, "%.500s/trident-bench-XXXXXX", state->above);
    if (mkdtemp(work->folder) == NULL)
        return fail_errno(err, TRI_EIO, "cannot make a folder in '%s'", state->above);
    tri_status status = sweeper_start(&sweeper, work->folder, err);
    if (status != TRI_OK) {
        remove_folder(work->folder);
        return status;
    }
    work->port = crew_port(err);
    status = work->port != 0 ? crew_run(&crew, state->board, err) : TRI_EIO;
    sweeper_stop(&sweeper);
    return status;
}

static double rate_of(const struct windows *windows, size_t from)
{
    return WINDOW / sum_up(windows->seconds + from, windows->count - from).median;
}

/* One job has both sides: the second turn only hands out what the first has seen. */
static tri_status turn(void *ctx, bool baseline, struct bench_sample *out, tri_error *err)
{
    struct work *work = ctx;
    struct seen *seen = &work->state->seen[work - work->state->works];
    if (work->half) {
        *out = work->other;
        work->half = false;
        return TRI_OK;
    }
    size_t from = seen->with.count;
    tri_status status = run(work, err);
    if (status != TRI_OK)
        return status;
    struct bench_sample with = {rate_of(&seen->with, from), (double)NAN};
    struct bench_sample without = {rate_of(&seen->without, from), (double)NAN};
    *out = baseline ? without : with;
    work->other = baseline ? with : without;
    work->half = true;
    tell(work);
    return TRI_OK;
}

static void checkpoint_close(const struct mem *mem, struct bench_plan *plan)
{
    struct state *state = plan->state;
    if (state->seen != NULL)
        (void)munmap(state->seen, CASES * sizeof *state->seen);
    crew_board_close(state->board);
    mem_free(mem, state);
}

static void set_cases(struct state *state)
{
    static const struct {
        const char *name;
        uint32_t workers;
        bool sleeps;
    } rows[CASES] = {{"1 worker", 1, false},
                     {"2 workers, compute elsewhere", 2, true},
                     {"2 workers, both cores busy", 2, false}};
    for (size_t i = 0; i < CASES; i++) {
        state->works[i] = (struct work){.state = state,
                                        .name = rows[i].name,
                                        .workers = rows[i].workers,
                                        .sleeps = rows[i].sleeps};
        state->cases[i] =
            (struct bench_case){.name = rows[i].name, .turn = turn, .ctx = &state->works[i]};
    }
}

static tri_status share(struct state *state, tri_error *err)
{
    void *at = mmap(NULL, CASES * sizeof *state->seen, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    state->board = crew_board_open(err);
    if (at == MAP_FAILED)
        return fail_nomem(err, "the measurements");
    state->seen = at;
    return state->board != NULL ? TRI_OK : TRI_ENOMEM;
}

static tri_status checkpoint_open(const struct mem *mem, const struct bench_wish *wish,
                                  struct bench_plan *plan, tri_error *err)
{
    struct state *state = mem_array(mem, 1, sizeof *state);
    if (state == NULL)
        return fail_nomem(err, "the benchmark");
    state->above = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/var/tmp";
    state->sleep_s = wish->quick ? QUICK_SLEEP_S : SLEEP_S;
    state->width = wish->quick ? QUICK_WIDTH : WIDTH;
    state->pairs = wish->seconds > 0 ? (size_t)(wish->seconds / (EVERY * state->sleep_s))
                   : wish->quick     ? 1
                                     : 8;
    if (state->pairs == 0)
        state->pairs = 1;
    (void)snprintf(
        state->note, sizeof state->note,
        "%d layers of %zu x %zu with momentum, %.0f MB, saved every %d steps in %.100s. The rates "
        "are of %d\nsteps from %d before a checkpoint's copy on, and of the %d steps behind them. "
        "Compute is real\narithmetic on one core per worker; \"elsewhere\" it is a sleep of %.0f "
        "ms, as of a processor that\nwaits for an accelerator.",
        LAYERS, state->width, state->width,
        2e-6 * LAYERS * sizeof(float) * (double)(state->width * state->width), EVERY, state->above,
        WINDOW, LEAD, WINDOW, 1e3 * state->sleep_s);
    set_cases(state);
    *plan = (struct bench_plan){.cases = state->cases,
                                .count = CASES,
                                .value_name = "checkpoint",
                                .baseline_name = "none",
                                .note = state->note,
                                .tail = state->tail,
                                .state = state};
    tri_status status = share(state, err);
    if (status != TRI_OK)
        checkpoint_close(mem, plan);
    return status;
}

extern const struct bench bench_checkpoint;
const struct bench bench_checkpoint = {
    .name = "checkpoint",
    .summary = "how much longer do the steps around a checkpoint take?",
    .unit = "steps/s",
    .repeats = 3,
    .open = checkpoint_open,
    .close = checkpoint_close,
};
