/* How near does the shared-memory server come to the memory limit?
 *
 * The limit is w -= lr g by the same kernel over arrays of this process, in large pages, with as
 * many threads and as many gradients to go through; nobody hands anything over. Beside it the whole
 * way: a learner takes a slot, publishes it (its content is there already: computing is not the
 * question), the server finds it, steps the weights in place, commits and wakes. Two reads and a
 * write count, 12 bytes for each weight and gradient, also where the server needs fewer because two
 * gradients pass together: the ratio is that of gradients per second, and may be above 1. */
#include "local/local.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench/harness.h"
#include "bench/local_kernels.h"
#include "local/update.h"

/* Before the clock of a turn starts, either side has been at it for so long: all threads are awake,
 * and have begun to put what the case before left out of the caches. */
static const double warm_s = 0.005;

enum { SIZES = 4, CASES = 2 * SIZES + 1, COLS = 1000, SLOTS = 2, THREADS_MAX = 2 };

struct work {
    const struct mem *mem;
    size_t megabytes;
    double turn_s;
    uint32_t threads;
    bool copies; /* the learner has a push and a pull thread */
    uint64_t floats;
    /* ours */
    struct local_job *job;
    struct local_learner *learner;
    pthread_t server;
    bool serving;
    char name[64];
    /* the limit's */
    float *plain; /* weights, then SLOTS gradients */
    size_t plain_bytes;
};

struct state {
    char note[400], tail[2000];
    struct work works[CASES];
    struct bench_case cases[CASES];
    char names[CASES][48];
};

static double now_s(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static double used_s(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static double used_by_thread_s(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static struct bench_sample sample(double passes, uint64_t floats, double took, double cpu)
{
    double gb = passes * 12e-9 * (double)floats;
    return (struct bench_sample){gb / took, cpu / gb};
}

/* ---- ours ---- */

static void *serve(void *arg)
{
    struct work *work = arg;
    const struct local_serve_options options = {.threads = work->threads};
    (void)local_serve(work->job, &options, NULL);
    return NULL;
}

static tri_status push(struct work *work, tri_error *err)
{
    struct local_gradient *gradient;
    tri_status status = local_refresh(work->learner, err);
    if (status == TRI_OK)
        status = local_take(work->learner, &gradient, err);
    if (status != TRI_OK)
        return status;
    (void)local_dense(gradient, 0);
    return local_publish(work->learner, 1e-6F, 1, err);
}

static tri_status push_for(struct work *work, double seconds, uint64_t *passes, tri_error *err)
{
    const double until = now_s() + seconds;
    tri_status status = TRI_OK;
    do {
        status = push(work, err);
        ++*passes;
    } while (status == TRI_OK && now_s() < until);
    return status;
}

/* As many gradients are on their way when the clock starts as when it stops. */
static tri_status turn_ours(struct work *work, struct bench_sample *out, tri_error *err)
{
    uint64_t passes = 0;
    tri_status status = push_for(work, warm_s, &passes, err);
    double start = now_s(), cpu = used_s();
    passes = 0;
    if (status == TRI_OK)
        status = push_for(work, work->turn_s, &passes, err);
    *out = sample((double)passes, work->floats, now_s() - start, used_s() - cpu);
    return status == TRI_OK ? local_flush(work->learner, err) : status;
}

/* ---- the limit ---- */

struct share {
    const struct work *work;
    uint64_t first, count;
    double from, until; /* of what counts */
    uint64_t passes;
    double took, cpu;
    pthread_t thread;
};

static void *pass_over(void *arg)
{
    struct share *share = arg;
    const struct work *work = share->work;
    update_sgd *sgd = update_kernel_at(0)->sgd;
    double start = 0, cpu = 0;
    for (double at = now_s(); start == 0 || at < share->until; at = now_s()) {
        if (start == 0 && at >= share->from) {
            start = at;
            cpu = used_by_thread_s();
            share->passes = 0;
        }
        sgd(work->plain + share->first,
            work->plain + (1 + share->passes % SLOTS) * work->floats + share->first, share->count,
            1e-6F);
        share->passes++;
    }
    share->took = now_s() - start;
    share->cpu = used_by_thread_s() - cpu;
    return NULL;
}

static tri_status turn_limit(const struct work *work, struct bench_sample *out, tri_error *err)
{
    struct share shares[THREADS_MAX] = {{0}};
    const double from = now_s() + warm_s, until = from + work->turn_s;
    double cpu = 0, rate = 0, gb = 0;
    const uint32_t threads = work->threads > 1 ? 2 : 1;
    uint32_t started = 0;
    for (uint32_t i = 0; i < threads; i++) {
        uint64_t first = work->floats * i / threads;
        shares[i] = (struct share){.work = work,
                                   .first = first,
                                   .count = work->floats * (i + 1) / threads - first,
                                   .from = from,
                                   .until = until};
    }
    for (; started + 1 < threads; started++)
        if (pthread_create(&shares[started].thread, NULL, pass_over, &shares[started]) != 0)
            return fail(err, TRI_EIO, "cannot start a thread");
    (void)pass_over(&shares[threads - 1]);
    for (uint32_t i = 0; i < started; i++)
        (void)pthread_join(shares[i].thread, NULL);
    for (uint32_t i = 0; i < threads; i++) {
        const double moved = 12e-9 * (double)shares[i].count * (double)shares[i].passes;
        rate += moved / shares[i].took;
        cpu += shares[i].cpu;
        gb += moved;
    }
    *out = (struct bench_sample){rate, cpu / gb};
    return TRI_OK;
}

static tri_status turn(void *ctx, bool baseline, struct bench_sample *out, tri_error *err)
{
    return baseline ? turn_limit(ctx, out, err) : turn_ours(ctx, out, err);
}

/* ---- opening ---- */

static tri_status open_limit(struct work *work, tri_error *err)
{
    const size_t page = (size_t)2 << 20;
    work->plain_bytes = ((1 + SLOTS) * work->floats * sizeof(float) / page + 1) * page;
    work->plain =
        mmap(NULL, work->plain_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (work->plain == MAP_FAILED) {
        work->plain = NULL;
        return fail_nomem(err, "the arrays of the memory limit");
    }
    (void)madvise(work->plain, work->plain_bytes, MADV_HUGEPAGE);
    for (uint64_t i = 0; i < (1 + SLOTS) * work->floats; i++)
        work->plain[i] = (float)(i % 7);
    return TRI_OK;
}

/* Every slot is filled once, by the first gradients; their sum is looked at. */
static tri_status check(struct work *work, tri_error *err)
{
    struct local_gradient *gradient;
    for (uint32_t k = 0; k < 2 * SLOTS; k++) {
        tri_status status = local_refresh(work->learner, err);
        if (status == TRI_OK)
            status = local_take(work->learner, &gradient, err);
        if (status != TRI_OK)
            return status;
        float *to = local_dense(gradient, 0);
        for (uint64_t i = 0; i < work->floats; i++)
            to[i] = (float)(i % 7 + k % SLOTS);
        status = local_publish(work->learner, 1, 1, err);
        if (status != TRI_OK)
            return status;
    }
    tri_status status = local_flush(work->learner, err);
    for (uint64_t i = 0; i < work->floats && status == TRI_OK; i++)
        if (local_shared(work->job, 0)[i] != -(float)(4 * (i % 7) + 2))
            status = fail(err, TRI_EIO, "weight %llu is wrong", (unsigned long long)i);
    return status;
}

static tri_status open_ours(struct work *work, size_t number, tri_error *err)
{
    (void)snprintf(work->name, sizeof work->name, "bench-%ld-%zu", (long)getpid(), number);
    const struct local_layer_info layer = {
        .name = "w", .rows = (uint32_t)(work->floats / COLS), .cols = COLS};
    const struct local_options options = {.mem = work->mem,
                                          .name = work->name,
                                          .learners = 1,
                                          .slots = SLOTS,
                                          .layers = &layer,
                                          .layer_count = 1};
    const struct local_learner_options wish = {.push_thread = work->copies,
                                               .pull_thread = work->copies};
    tri_status status = local_create(&options, &work->job, err);
    if (status != TRI_OK)
        return status;
    local_remove(work->job); /* nothing is left, however this ends */
    status = local_join(work->job, &wish, &work->learner, err);
    if (status != TRI_OK)
        return status;
    if (pthread_create(&work->server, NULL, serve, work) != 0)
        return fail(err, TRI_EIO, "cannot start a thread");
    work->serving = true;
    return check(work, err);
}

static void close_work(struct work *work)
{
    if (work->job != NULL)
        local_stop(work->job);
    if (work->serving)
        (void)pthread_join(work->server, NULL);
    local_leave(work->learner);
    local_close(work->job);
    if (work->plain != NULL)
        (void)munmap(work->plain, work->plain_bytes);
}

static void local_bench_close(const struct mem *mem, struct bench_plan *plan)
{
    struct state *state = plan->state;
    for (size_t i = 0; i < plan->count; i++)
        close_work(&state->works[i]);
    mem_free(mem, state);
}

static void set_case(struct state *state, size_t i, const struct mem *mem)
{
    static const size_t sizes[SIZES] = {8, 20, 73, 100}; /* GaDei's models */
    bool copies = i == CASES - 1;
    struct work *work = &state->works[i];
    *work = (struct work){.mem = mem,
                          .megabytes = copies ? 20 : sizes[i % SIZES],
                          .threads = i < SIZES || copies ? 1 : 2,
                          .copies = copies};
    work->floats = work->megabytes * 250000;
    (void)snprintf(state->names[i], sizeof state->names[i], "%zu MB, %u update thread%s%s",
                   work->megabytes, work->threads, work->threads > 1 ? "s" : "",
                   copies ? ", copied in and out" : "");
    state->cases[i] = (struct bench_case){.name = state->names[i], .turn = turn, .ctx = work};
}

static void set_texts(struct state *state, bool quick)
{
    (void)snprintf(
        state->note, sizeof state->note,
        "kernel %s; 12 bytes a weight count (two reads, a write). The limit is w -= lr g "
        "by the same\nkernel over arrays of its own in large pages, with as many threads.",
        update_kernel_at(0)->name);
    int len = snprintf(
        state->tail, sizeof state->tail,
        "Bytes that move for one gradient, per weight: 4 written where it is computed and 12 by "
        "the step, 8\nwhere two gradients go over the weights together. Copied in and out as well "
        "(a push and a pull\nthread): 8 and 8 more, 28 to 32 in all against 12 to 16.\n");
    if (!quick && len > 0 && (size_t)len < sizeof state->tail)
        local_kernels_table(state->tail + len, sizeof state->tail - (size_t)len);
}

static tri_status local_bench_open(const struct mem *mem, const struct bench_wish *wish,
                                   struct bench_plan *plan, tri_error *err)
{
    struct state *state = mem_array(mem, 1, sizeof *state);
    if (state == NULL)
        return fail_nomem(err, "the benchmark");
    *plan = (struct bench_plan){.cases = state->cases,
                                .count = wish->quick ? 1 : CASES,
                                .default_case = wish->quick ? 0 : 1,
                                .value_name = "server",
                                .baseline_name = "memory limit",
                                .note = state->note,
                                .tail = state->tail,
                                .state = state};
    tri_status status = TRI_OK;
    set_texts(state, wish->quick);
    for (size_t i = 0; i < plan->count && status == TRI_OK; i++) {
        set_case(state, i, mem);
        state->works[i].turn_s = wish->seconds > 0 ? wish->seconds : 0.1;
        status = open_ours(&state->works[i], i, err);
        if (status == TRI_OK)
            status = open_limit(&state->works[i], err);
    }
    if (status != TRI_OK)
        local_bench_close(mem, plan);
    return status;
}

extern const struct bench bench_local;
const struct bench bench_local = {
    .name = "local",
    .summary = "how near does the shared-memory server come to the memory limit?",
    .unit = "GB/s",
    .repeats = 25, /* short turns: the host changes from second to second */
    .open = local_bench_open,
    .close = local_bench_close,
};
