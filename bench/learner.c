/* Learners read weights in place and step them in place, each in a process of its own. */
#include "bench/learner.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "base/mem.h"

/* COPY_FLOATS: room for the largest net, 4 x 4096. Memory that is not touched costs nothing. */
enum {
    COPY_FLOATS = 70000000,
    TIMES = 65536,
    FEW = 8,
};
#define COPY_BYTES (COPY_FLOATS * sizeof(float))

/* The weights come behind it: a copy, and another for a learner that has its own. */
struct learner_shared {
    atomic_uint ready;
    atomic_bool stop;
    atomic_ullong steps[CREW_MAX];
    float weights[] __attribute__((aligned(4096)));
};

static size_t map_bytes(void)
{
    return sizeof(struct learner_shared) + 2 * COPY_BYTES;
}

struct learner_shared *learner_map(tri_error *err)
{
    void *at = mmap(NULL, map_bytes(), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED)
        return at;
    (void)fail_errno(err, TRI_ENOMEM, "cannot map weights for several processes");
    return NULL;
}

void learner_unmap(struct learner_shared *shared)
{
    if (shared != NULL)
        (void)munmap(shared, map_bytes());
}

struct learner {
    const struct learner_run *run;
    struct learner_shared *shared;
    struct lesson lesson;
    uint32_t number;
    double *times; /* of steps that nothing disturbed */
    size_t count;
    uint64_t other[2]; /* the other's steps when the last two of this one began */
};

/* ---- steps ---- */

static double cpu_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint64_t others_steps(const struct learner *l)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < l->run->learners; i++)
        if (i != l->number)
            sum += atomic_load_explicit(&l->shared->steps[i], memory_order_relaxed);
    return sum;
}

static void learn(struct learner *l)
{
    lesson_next(&l->lesson);
    (void)net_forward(l->lesson.net, true, 0, NULL);
    lesson_note(&l->lesson);
    (void)net_learn(l->lesson.net, -LESSON_LR / (float)l->run->batch, NULL);
    atomic_fetch_add_explicit(&l->shared->steps[l->number], 1, memory_order_relaxed);
}

/* A step, and whether it had the processor to itself. */
static void step(struct learner *l, struct crew_board *board)
{
    const double most = 1.03; /* of the processor's time, the clock's */
    const double start_s = crew_now_s(), cpu_s = cpu_now_s();
    learn(l);
    const double took = crew_now_s() - start_s;
    const uint64_t other = others_steps(l);
    const bool together = l->run->learners == 1 || other > l->other[0];
    l->other[0] = l->other[1];
    l->other[1] = other;
    if (together && took < most * (cpu_now_s() - cpu_s) && l->count < TIMES)
        l->times[l->count++] = took;
    atomic_fetch_add(&board->work[l->number], l->run->batch);
}

static void await_all(const struct learner *l)
{
    atomic_fetch_add(&l->shared->ready, 1);
    while (atomic_load(&l->shared->ready) < l->run->learners)
        (void)sched_yield();
}

static void train(struct learner *l, struct crew_board *board)
{
    struct crew_watch watch;
    const bool keeps_time = l->number == 0;
    await_all(l);
    for (uint32_t i = 0; i < l->run->net->warm_up; i++)
        learn(l);
    if (keeps_time)
        crew_watch_start(&watch, board, l->run->learners);
    for (uint64_t i = 0; !atomic_load(&l->shared->stop); i++) {
        step(l, board);
        if (keeps_time && i >= 1 && crew_watch_seconds(&watch) >= l->run->seconds) {
            crew_watch_stop(&watch);
            atomic_store(&l->shared->stop, true);
        }
    }
}

/* ---- the end ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static tri_status sum_up(const struct learner *l, struct crew_board *board, tri_error *err)
{
    qsort(l->times, l->count, sizeof l->times[0], by_size);
    board->numbers[l->number] = l->count >= FEW ? l->run->batch / l->times[l->count / 2] : 0;
    return lesson_check(&l->lesson, err);
}

tri_status learner_body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err)
{
    const struct learner_run *run = ctx;
    struct learner l = {.run = run, .shared = run->shared, .number = number};
    tri_status status = lesson_open(&l.lesson, run->net, run->batch, run->learners, number, err);
    if (status != TRI_OK)
        return status;
    l.times = mem_array(&mem_libc, TIMES, sizeof *l.times);
    if (l.times == NULL) {
        lesson_close(&l.lesson);
        return fail_nomem(err, "a learner");
    }
    /* All begin with the same values and write them before any begins. */
    lesson_move(&l.lesson, l.shared->weights + (run->apart ? number * (size_t)COPY_FLOATS : 0));
    if (run->learners > 1)
        net_avoid(l.lesson.net, number + 1);
    train(&l, board);
    status = sum_up(&l, board, err);
    mem_free(&mem_libc, l.times);
    lesson_close(&l.lesson);
    return status;
}
