/* Inside run_watch(): the processes of a job while they run, and when they are stopped. */
#ifndef TRIDENT_CLI_RUN_WATCH_H
#define TRIDENT_CLI_RUN_WATCH_H

#include <poll.h>

#include "cli/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds that what a process has left behind may hold its output once it has ended. */
#define RUN_LEFTOVER_S 1.0

enum { RUN_TEXT = 400 };
enum run_phase { RUN_RUNNING, RUN_STOPPING, RUN_KILLED };
enum run_why {
    RUN_WHY_NONE,
    RUN_WHY_FAILURE,
    RUN_WHY_SIGNAL,
    RUN_WHY_TIMEOUT,
    RUN_WHY_OUTPUT,
    RUN_WHY_SERVERS
};

struct run_child {
    struct process process;
    struct run_lines out, err;
    char prefix[32];
    char name[32]; /* "rank 2" */
    bool ended;    /* it is over, but its output may not be */
    bool done;
    bool failed; /* by itself, not because the job was stopped */
    struct process_end end;
    double leftover_at;
};

struct run_watch {
    struct cli *cli;
    const struct run_request *request;
    struct run_child *children; /* workers, then servers */
    size_t count, workers;
    struct process_signals signals;
    struct process_keeper keeper;
    struct pollfd *fds;
    struct run_sink out, err;
    enum run_phase phase, announced;
    enum run_why why;
    size_t stopped, killed;                 /* how many ran when that phase began */
    int told;                               /* by which signal to stop */
    int output_errno;                       /* why standard output is broken */
    double timeout_at, kill_at, servers_at; /* 0: never */
    size_t failures;
    const struct run_child *first; /* to fail */
    char how[RUN_TEXT];            /* it failed */
};

/* ---- run_stop.c: prints nothing, as output may be stuck ---- */

double run_now(void); /* seconds of a clock that only goes forward */

/* Sends a signal to all, once; those that have not ended 5 seconds later are killed. */
void run_stop(struct run_watch *watch, enum run_why why, int number);
void run_take_signals(struct run_watch *watch);
void run_take_deadlines(struct run_watch *watch);
void run_take_ends(struct run_watch *watch); /* notes which processes have ended */
bool run_passed(double at, double time);     /* a deadline; 0 never does */
/* Milliseconds to the next deadline of the job, and if wanted of leftovers, as poll() takes it. */
int run_patience(const struct run_watch *watch, bool leftovers);
size_t run_left(const struct run_watch *watch, size_t from, size_t to); /* not ended */

/* ---- run_print.c ---- */

void run_sink_open(struct run_watch *watch, struct run_sink *sink, FILE *file);
void run_announce(struct run_watch *watch); /* says, once, that the job is being stopped */
/* Says that a process failed. pid is what it was. */
void run_report(struct run_watch *watch, struct run_child *child, pid_t pid);

#ifdef __cplusplus
}
#endif

#endif
