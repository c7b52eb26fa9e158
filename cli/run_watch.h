/* Inside run_watch(): the processes of a job while they run, and when they are stopped. */
#ifndef TRIDENT_CLI_RUN_WATCH_H
#define TRIDENT_CLI_RUN_WATCH_H

#include <poll.h>

#include "cli/run.h"
#include "cli/run_frame.h"

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
    RUN_WHY_SERVERS,
    RUN_WHY_ORDER /* a deputy: of the one that started it, or because that is gone */
};

struct run_child {
    struct process process; /* none, if a deputy has it */
    struct run_lines out, err;
    char prefix[32];
    char name[32];         /* "rank 2" */
    size_t number;         /* in the job */
    struct run_link *link; /* to the deputy; NULL: it is ours */
    pid_t pid;
    bool ended; /* it is over, but its output may not be */
    bool done;
    bool failed; /* by itself, not because the job was stopped */
    bool lost;   /* its deputy is gone, and nobody knows how it ended */
    struct process_end end;
    double leftover_at;
};

struct run_watch {
    struct cli *cli;
    const struct run_request *request;
    struct run_child *children; /* workers, then servers */
    size_t count, workers;
    struct run_links *links; /* NULL: all processes are on this machine */
    int ended_fd;            /* the list of those that have ended; -1: there is none */
    struct process_signals signals;
    struct process_keeper keeper;
    struct pollfd *fds;
    struct run_sink out, err;
    enum run_phase phase, announced;
    enum run_why why;
    size_t stopped, killed;                             /* how many ran when that phase began */
    int told;                                           /* by which signal to stop */
    double told_at;                                     /* when it came */
    int output_errno;                                   /* why standard output is broken */
    double timeout_at, kill_at, servers_at, failure_at; /* 0: never */
    size_t workers_left;
    double wake_at; /* some have ended: the others are told to go on, should they be stopped */
    double cut_at;  /* deputies have had their time to kill */
    size_t failures;
    const struct run_child *first; /* to fail */
    char how[RUN_TEXT];            /* it failed */
    tri_error refused;             /* a deputy could not start a process */
};

/* ---- run_stop.c: prints nothing, as output may be stuck ---- */

double run_now(void); /* seconds of a clock that only goes forward */

/* Sends a signal to all, once; those that have not ended 5 seconds later are killed. */
void run_stop(struct run_watch *watch, enum run_why why, int number);
/* One has failed. The others may have more to say about it, and have a moment for that. */
void run_stop_soon(struct run_watch *watch);
void run_kill(struct run_watch *watch);
void run_signal(struct run_watch *watch, int number); /* to all, and no more than that */
void run_take_signals(struct run_watch *watch);
void run_take_deadlines(struct run_watch *watch);
void run_take_ends(struct run_watch *watch); /* notes which processes have ended */
void run_note_end(struct run_watch *watch, struct run_child *child, struct process_end end);
bool run_passed(double at, double time); /* a deadline; 0 never does */
/* Milliseconds to the next deadline of the job, and if wanted of leftovers, as poll() takes it. */
int run_patience(const struct run_watch *watch, bool leftovers);
size_t run_left(const struct run_watch *watch, size_t from, size_t to); /* not ended */

/* ---- run_print.c ---- */

void run_sink_open(struct run_watch *watch, struct run_sink *sink, FILE *file);
void run_announce(struct run_watch *watch); /* says, once, that the job is being stopped */
void run_report(struct run_watch *watch, struct run_child *child); /* says that it failed */
/* Writes all, and heeds signals and deadlines meanwhile; false when it cannot. */
bool run_write(struct run_watch *watch, int fd, const void *bytes, size_t len);

/* ---- run_links.c: the deputies on other hosts ---- */

/* Starts them, and the processes by them. After a failure nothing runs. The caller closes. */
tri_status run_links_open(struct run_watch *watch, struct run_job *job, tri_error *err);
void run_links_close(struct run_watch *watch);
size_t run_links_fds(const struct run_watch *watch); /* how many it polls at most */
size_t run_links_poll(struct run_watch *watch, struct pollfd *fds);
void run_links_take(struct run_watch *watch, const struct pollfd *fds);
void run_links_signal(struct run_watch *watch, int number); /* to all their processes */
void run_links_cut(struct run_watch *watch);                /* they have had their time */
const char *run_link_host(const struct run_link *link);
const char *run_link_words(struct run_link *link); /* the last line of ssh; "" for none */

void run_links_tell_ended(struct run_watch *watch, const char *line, size_t len);

/* ---- run_ended.c: who has ended, for those that wait for it ---- */

void run_ended_open(struct run_watch *watch, struct run_job *job);
void run_ended_close(struct run_watch *watch);
void run_ended_note(struct run_watch *watch, const struct run_child *child);
void run_ended_add(struct run_watch *watch, const char *line, size_t len);

/* ---- run_deputy.c: this is one of them ---- */

int run_deputy_fd(const struct run_watch *watch); /* to poll for orders; -1: it is none */
void run_deputy_obey(struct run_watch *watch);    /* orders that have come already */
void run_deputy_take(struct run_watch *watch);    /* when it is readable */
void run_deputy_output(struct run_watch *watch, const struct run_child *child, bool err);
void run_deputy_flush(struct run_watch *watch, struct run_sink *sink);
void run_deputy_started(struct run_watch *watch, const struct run_child *child);
void run_deputy_ended(struct run_watch *watch, const struct run_child *child);

#ifdef __cplusplus
}
#endif

#endif
