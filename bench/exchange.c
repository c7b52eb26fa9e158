/* The loop of a learner, and the end that all come to after the same iteration. */
#include "bench/exchange.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/exchange_way.h"

enum { MEET_START, MEET_CLOSING = EXCHANGE_MEETINGS - 1 };

static const struct exchange_ops *ops_of(enum exchange_way way)
{
    return way == EXCHANGE_ASP || way == EXCHANGE_BSP ? &exchange_by_messages : &exchange_by_memory;
}

uint32_t exchange_processes(const struct exchange_run *run)
{
    const bool serves = !run->in_workers && run->way != EXCHANGE_REPLICAS;
    return EXCHANGE_LEARNERS + (serves ? 1U : 0U);
}

void exchange_meet(const struct exchange_learner *learner, uint32_t which)
{
    struct exchange_shared *shared = learner->all->shared;
    atomic_fetch_add(&shared->met[which], 1);
    while (atomic_load(&shared->met[which]) < EXCHANGE_LEARNERS)
        (void)sched_yield();
}

tri_status exchange_check(float counted, uint64_t steps, tri_error *err)
{
    if (fabs((double)counted - (double)steps) <= 1e-3 * (double)steps)
        return TRI_OK;
    return fail(err, TRI_EIO, "%llu gradients were given, and %.0f are in the weights",
                (unsigned long long)steps, (double)counted);
}

/* ---- a learner ---- */

struct window {
    struct crew_watch watch;
    struct crew_board *board;
    bool closed;
    uint64_t end; /* when closed: iterations that all do */
};

static bool in_rounds(enum exchange_way way)
{
    return way == EXCHANGE_SYNC || way == EXCHANGE_BSP;
}

/* Jobs end after the same iteration of all. In rounds nobody may wait here, for the other may
 * already wait for a gradient: when learner 0 has not begun iteration i, the other may have begun i
 * + 1, and has not come to i + 2. Otherwise the one that is ahead says where the end is. */
static void close_window(struct exchange_learner *learner, struct window *window)
{
    struct exchange_shared *shared = learner->all->shared;
    window->closed = true;
    window->end = atomic_load(&shared->ended[0]) + 2;
    if (learner->all->run->way == EXCHANGE_REPLICAS)
        window->end = learner->steps; /* who waited here would not take the other's gradients */
    if (in_rounds(learner->all->run->way) || learner->all->run->way == EXCHANGE_REPLICAS)
        return;
    atomic_store(&shared->ended[learner->number], learner->steps);
    exchange_meet(learner, MEET_CLOSING);
    window->end = 0;
    for (size_t i = 0; i < EXCHANGE_LEARNERS; i++) {
        const uint64_t steps = atomic_load(&shared->ended[i]);
        window->end = steps > window->end ? steps : window->end;
    }
}

static bool goes_on(struct exchange_learner *learner, struct window *window)
{
    const struct exchange_run *run = learner->all->run;
    struct exchange_shared *shared = learner->all->shared;
    const uint64_t first = run->net->warm_up, i = learner->steps;
    if (learner->number == 0 && i == first)
        crew_watch_start(&window->watch, window->board, exchange_processes(run));
    if (learner->number == 0 && i > first && !window->closed &&
        crew_watch_seconds(&window->watch) >= run->seconds) {
        crew_watch_stop(&window->watch);
        atomic_store(&shared->ended[0], i);
        atomic_store(&shared->closing, true);
    }
    if (!window->closed && atomic_load(&shared->closing))
        close_window(learner, window);
    return !window->closed || i < window->end;
}

static tri_status learn(struct exchange_learner *learner, struct crew_board *board, tri_error *err)
{
    const struct exchange_ops *ops = ops_of(learner->all->run->way);
    struct window window = {.board = board};
    tri_status status = ops->join(learner, err);
    if (status != TRI_OK)
        return status;
    exchange_meet(learner, MEET_START);
    while (status == TRI_OK && goes_on(learner, &window)) {
        lesson_next(&learner->lesson);
        status = ops->step(learner, err);
        learner->steps++;
        atomic_fetch_add(&board->work[learner->number], learner->lesson.batch);
    }
    if (status == TRI_OK)
        status = ops->end(learner, err);
    return status == TRI_OK ? lesson_check(&learner->lesson, err) : status;
}

static tri_status body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err)
{
    const struct exchange *all = ctx;
    const struct exchange_run *run = all->run;
    const struct exchange_ops *ops = ops_of(run->way);
    struct exchange_learner learner = {.all = all, .number = number, .err = err};
    if (number >= EXCHANGE_LEARNERS)
        return ops->serve(all, err);
    tri_status status =
        lesson_open(&learner.lesson, run->net, run->batch, EXCHANGE_LEARNERS, number, err);
    if (status == TRI_OK)
        status = gradient_open(&learner.maker, run->batch * run->net->data.length, err);
    if (status == TRI_OK)
        status = learn(&learner, board, err);
    ops->leave(&learner);
    gradient_close(&learner.maker);
    lesson_close(&learner.lesson);
    return status;
}

/* ---- all of them ---- */

static tri_status run_all(struct exchange *all, struct crew_board *board, tri_error *err)
{
    const struct exchange_ops *ops = ops_of(all->run->way);
    const struct crew crew = {exchange_processes(all->run), "exchange", body, all};
    tri_error spare;
    tri_status status = ops->prepare(all, err);
    if (status == TRI_OK)
        status = crew_run(&crew, board, err);
    uint64_t steps = 0;
    for (size_t i = 0; i < EXCHANGE_LEARNERS && status == TRI_OK; i++)
        steps += atomic_load(&board->work[i]) / all->run->batch;
    const tri_status last = ops->finish(all, steps, status == TRI_OK ? err : &spare);
    return status == TRI_OK ? last : status;
}

static tri_status try_once(const struct exchange_run *run, struct crew_board *board, double *rate,
                           tri_error *err)
{
    struct exchange all = {.run = run};
    all.shared =
        mmap(NULL, sizeof *all.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all.shared == MAP_FAILED)
        return fail_errno(err, TRI_ENOMEM, "cannot map memory for several processes");
    tri_status status = run_all(&all, board, err);
    (void)munmap(all.shared, sizeof *all.shared);
    if (status == TRI_OK)
        *rate = board->work_s;
    return status;
}

/* A port that was free may be somebody else's by the time a server listens there. */
static bool lost_its_port(tri_status status, const tri_error *err)
{
    return status == TRI_EIO && strstr(err->why, "already in use") != NULL;
}

tri_status exchange(const struct exchange_run *run, struct crew_board *board, double *rate,
                    tri_error *err)
{
    enum { TRIES = 5 };
    tri_status status = try_once(run, board, rate, err);
    for (int i = 1; i < TRIES && lost_its_port(status, err); i++)
        status = try_once(run, board, rate, err);
    return status;
}
