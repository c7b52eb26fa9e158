/* Inside the launcher of learners: its children, and what it saves. */
#ifndef TRIDENT_CLI_TRAIN_LEARNERS_H
#define TRIDENT_CLI_TRAIN_LEARNERS_H

#include "api/local.h"
#include "checkpoint/writer.h"
#include "cli/run.h"
#include "cli/train_line.h"
#include "os/process.h"

struct pollfd;

#ifdef __cplusplus
extern "C" {
#endif

/* ---- children (train_children.c) ---- */

struct train_child {
    struct process process;
    struct run_lines out, err;
    char prefix[16];
    bool running;   /* it was started, and has not been seen to end */
    bool wanted;    /* its end was not dealt with yet */
    uint32_t quick; /* ends in a row before it had a seat */
    bool given_up;  /* and it is not started again: the others go on without it */
    struct process_end end;
    uint32_t before; /* how often its seat had been taken when it was started */
};

enum { TRAIN_VARIABLES = 4 };

struct train_children {
    struct cli *cli;
    const char *variables[TRAIN_VARIABLES];
    struct run_hooks hooks; /* for lines of learners */
    struct run_request request;
    struct run_job job;
    const char **words;
    size_t word_count;
    struct train_child *all; /* learners, then the server */
    uint32_t learners;
    struct train_child sweeper;
    int sweeper_pipe[2];
    struct process_signals signals;
    struct process_keeper keeper;
    struct pollfd *fds;
    struct run_sink sink;
    bool opened;
};

/* The words are those behind "trident train". mode: train_request.local. */
tri_status train_children_open(struct train_children *children, struct cli *cli,
                               const struct train_request *request, int argc,
                               const char *const *argv, tri_error *err);
void train_children_close(struct train_children *children); /* kills all; zeroed is fine */
/* number: a learner's, or children->learners for the server. One that runs is killed first. */
tri_status train_child_start(struct train_children *children, uint32_t number, const char *role,
                             tri_error *err);
/* Hears what they print, for at most so long; returns the signal that has come, or 0. */
int train_children_hear(struct train_children *children, int timeout_ms);
void train_children_signal(const struct train_children *children, int number); /* learners */
uint32_t train_children_running(const struct train_children *children);        /* learners */

/* ---- checkpoints (train_keep.c) ---- */

struct train_keep {
    const struct mem *mem;
    const struct log *log;
    const struct train_request *request;
    const struct local_job *job;
    const char *name; /* of the job */
    struct checkpoint_claim *claim;
    uint64_t batch_of_all, samples; /* known when training has begun */
    uint64_t next;                  /* clock of the next one; 0: not known yet */
    uint64_t saved;                 /* clock of the last one that is written */
    struct checkpoint_writer writer;
    struct checkpoint *writing; /* what it writes; NULL: nothing */
    struct checkpoint *last;    /* what it writes then: that of the end */
    bool ends;                  /* the last one was asked for: what becomes of it is in: */
    tri_status status;
    tri_error err;
};

/* Claims the folder, if there is one to save in. The job's name is borrowed. */
tri_status train_keep_open(struct train_keep *keep, const char *job, tri_error *err);
/* Waits for what is being written. Before the job is closed: names of layers are its own. */
void train_keep_close(struct train_keep *keep);
/* The clock of a snapshot: gradients applied of each learner, on average. */
uint64_t train_keep_clock(const struct train_keep *keep, const struct local_snapshot *snapshot);
/* Saves a copy of the snapshot if it is time to, or if it is the `last` one. It is written while
 * the caller goes on. While that goes on, none but the last is taken: the next snapshot is. */
tri_status train_keep_save(struct train_keep *keep, const struct local_snapshot *snapshot,
                           bool last, tri_error *err);
/* Looks what has become of what is being written, and tells it. Does not wait. */
void train_keep_look(struct train_keep *keep);
/* Waits until all is written; what has become of the last one. */
tri_status train_keep_end(struct train_keep *keep, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
