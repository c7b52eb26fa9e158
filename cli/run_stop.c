/* When the processes of a job are stopped: by signals, deadlines and failures. */
#include <limits.h>
#include <time.h>

#include "cli/run_watch.h"

/* How long a process may take to stop, and servers to follow the last worker. */
/* again_s: timeout(1) signals a process and its group at once, which is one wish. */
static const double stop_s = 5, servers_s = 5, again_s = 0.3, wake_s = 5, words_s = 0.3;
/* How long deputies may take to say that all is killed, before they are left to find out. */
static const double cut_s = 3;

double run_now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void run_signal(struct run_watch *watch, int number)
{
    for (size_t i = 0; i < watch->count; i++)
        if (!watch->children[i].done)
            process_signal(&watch->children[i].process, number);
    if (watch->links != NULL)
        run_links_signal(watch, number);
}

size_t run_left(const struct run_watch *watch, size_t from, size_t to)
{
    size_t count = 0;
    for (size_t i = from; i < to; i++)
        count += !watch->children[i].ended;
    return count;
}

void run_kill(struct run_watch *watch)
{
    run_take_ends(watch);
    if (watch->phase != RUN_KILLED)
        watch->cut_at = run_now() + cut_s;
    watch->phase = RUN_KILLED;
    watch->killed = run_left(watch, 0, watch->count);
    run_signal(watch, SIGKILL);
}

void run_stop(struct run_watch *watch, enum run_why why, int number)
{
    if (watch->phase != RUN_RUNNING)
        return;
    watch->phase = RUN_STOPPING;
    watch->why = why;
    watch->stopped = run_left(watch, 0, watch->count);
    const struct run_hooks *hooks = watch->request->hooks;
    watch->kill_at =
        run_now() + (hooks != NULL && hooks->patience_s > 0 ? hooks->patience_s : stop_s);
    run_signal(watch, number);
    run_signal(watch, SIGCONT); /* a stopped process would not hear of it */
}

void run_stop_soon(struct run_watch *watch)
{
    if (watch->phase == RUN_RUNNING && watch->failure_at <= 0)
        watch->failure_at = run_now() + words_s;
}

static void note_told(struct run_watch *watch, int number)
{
    const struct run_hooks *hooks = watch->request->hooks;
    watch->told = number;
    watch->told_at = run_now();
    if (hooks != NULL)
        hooks->told(hooks->ctx, number);
}

void run_take_signals(struct run_watch *watch)
{
    const struct run_hooks *hooks = watch->request->hooks;
    int number;
    while ((number = process_signals_next(&watch->signals)) != 0) {
        if (number == SIGCHLD) /* it has woken the loop, which looks at every child */
            continue;
        if (watch->phase == RUN_RUNNING) {
            note_told(watch, number);
            run_stop(watch, RUN_WHY_SIGNAL,
                     hooks != NULL && hooks->passed_on != 0 ? hooks->passed_on : number);
        } else if (watch->why == RUN_WHY_SIGNAL) {
            if (run_now() - watch->told_at > again_s) /* asked twice */
                run_kill(watch);
        } else { /* stopping already: now for this reason */
            note_told(watch, number);
            watch->why = RUN_WHY_SIGNAL;
        }
    }
}

bool run_passed(double at, double time)
{
    return at > 0 && time >= at;
}

void run_take_deadlines(struct run_watch *watch)
{
    double time = run_now();
    if (run_passed(watch->timeout_at, time))
        run_stop(watch, RUN_WHY_TIMEOUT, SIGTERM);
    if (run_passed(watch->failure_at, time))
        run_stop(watch, RUN_WHY_FAILURE, SIGTERM);
    if (run_passed(watch->servers_at, time))
        run_stop(watch, RUN_WHY_SERVERS, SIGTERM);
    if (run_passed(watch->wake_at, time)) { /* one that was stopped learns that it is alone */
        run_signal(watch, SIGCONT);
        watch->wake_at = 0;
    }
    if (watch->phase == RUN_STOPPING && run_passed(watch->kill_at, time))
        run_kill(watch);
    if (watch->phase == RUN_KILLED && watch->links != NULL && run_passed(watch->cut_at, time))
        run_links_cut(watch);
}

static double sooner(double a, double b)
{
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

int run_patience(const struct run_watch *watch, bool leftovers)
{
    double at = 0;
    if (watch->phase == RUN_RUNNING)
        at = sooner(sooner(watch->failure_at, watch->wake_at),
                    sooner(watch->timeout_at, watch->servers_at));
    else if (watch->phase == RUN_STOPPING)
        at = watch->kill_at;
    else if (watch->links != NULL)
        at = watch->cut_at;
    for (size_t i = 0; i < watch->count && leftovers; i++)
        if (watch->children[i].ended && !watch->children[i].done)
            at = sooner(watch->children[i].leftover_at, at);
    if (at <= 0)
        return -1;
    double ms = (at - run_now()) * 1e3 + 1; /* up, or the last one would be spent turning */
    return ms < 0 ? 0 : ms > INT_MAX ? INT_MAX : (int)ms;
}

void run_note_end(struct run_watch *watch, struct run_child *child, struct process_end end)
{
    child->end = end;
    child->ended = true;
    child->leftover_at = run_now() + RUN_LEFTOVER_S;
    child->failed = watch->phase == RUN_RUNNING && (end.code != 0 || end.signal != 0);
    run_ended_note(watch, child);
}

void run_take_ends(struct run_watch *watch)
{
    for (size_t i = 0; i < watch->count; i++) {
        struct run_child *child = &watch->children[i];
        struct process_end end;
        if (!child->ended && child->process.pid > 0 && process_ended(&child->process, &end))
            run_note_end(watch, child, end);
    }
    size_t left = run_left(watch, 0, watch->workers);
    if (left < watch->workers_left)
        watch->wake_at = run_now() + wake_s;
    watch->workers_left = left;
    if (watch->servers_at <= 0 && watch->count > watch->workers && left == 0)
        watch->servers_at = run_now() + servers_s;
}
