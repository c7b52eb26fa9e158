/* Child processes, and the signals of this one as events to read.
 *
 * A child is the leader of a process group of its own, so that a signal reaches
 * what it has started as well. It does not outlive its parent, however that ends:
 * the kernel kills the child, the keeper below the rest of its group. */
#ifndef TRIDENT_OS_PROCESS_H
#define TRIDENT_OS_PROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- children ---- */

struct process_plan {
    const char *path;  /* of the program, as execve() takes it */
    char *const *argv; /* ended by NULL, as envp */
    char *const *envp;
    int input; /* becomes its standard input and stays the caller's; -1: it reads nothing */
};

struct process {
    pid_t pid; /* and its group's; 0: none */
    int out;   /* read ends of its standard output and error, which do not block; -1: closed */
    int err;
};

/* How a child ended: one of the two is not 0 unless all was well. */
struct process_end {
    int code;
    int signal;
};

/* Appends the path that starts `name`: itself if it has a slash, else where PATH has it.
 * TRI_EINPUT when there is no such program, or it cannot be executed. */
tri_status process_find(const char *name, struct buf *path, tri_error *err);

/* Starts a program, and returns when it runs or could not be started. Its signals are at
 * their defaults and none is blocked, apart from those that were ignored before this
 * program began (nohup). Needs process_signals_open() before it. */
tri_status process_start(const struct process_plan *plan, struct process *out, tri_error *err);

/* Has it ended? It stays in the table of processes, so that its pid means nobody else,
 * until process_reap(). */
bool process_ended(const struct process *process, struct process_end *end);

/* Sends a signal to its group. */
void process_signal(const struct process *process, int number);

/* Kills it and what is left of its group, waits for it and closes its outputs. */
void process_reap(struct process *process);

void process_close(int *fd); /* and makes it -1; -1 is fine */

enum { PROCESS_SIGNAL_TEXT = 16 };
const char *process_signal_name(int number, char out[PROCESS_SIGNAL_TEXT]); /* SIGKILL */

/* ---- signals of this process ---- */

struct process_signals {
    int fd; /* readable when one has come */
    sigset_t mask;
    struct sigaction child, pipe;
};

/* From here on SIGCHLD, SIGINT, SIGTERM and SIGHUP wait to be read, those of the last three
 * apart that were ignored, and SIGPIPE is ignored. */
tri_status process_signals_open(struct process_signals *signals, tri_error *err);
int process_signals_next(const struct process_signals *signals); /* 0: none has come */
void process_signals_close(struct process_signals *signals);     /* all as before */

/* ---- the keeper ---- */

/* A process that does nothing but wait for the end of this one, and then kills the groups
 * it was told of. */
struct process_keeper {
    const struct mem *mem;
    pid_t pid;
    pid_t *groups; /* the keeper's table */
    int pipe;
};

tri_status process_keeper_open(struct process_keeper *keeper, size_t max, const struct mem *mem,
                               tri_error *err);
void process_keeper_add(const struct process_keeper *keeper, pid_t group);
void process_keeper_remove(const struct process_keeper *keeper, pid_t group);
void process_keeper_close(struct process_keeper *keeper);

#ifdef __cplusplus
}
#endif

#endif
