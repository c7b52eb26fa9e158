/* A crew: some processes that do one thing together while it is measured.
 *
 * The processes are forked from this one and share a board. Each says on it how much work it has
 * done; one of them, the timekeeper, reads the clock, the board and the processor time of all
 * when the window opens and when it closes. So neither starting nor ending is counted. */
#ifndef TRIDENT_BENCH_CREW_H
#define TRIDENT_BENCH_CREW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { CREW_MAX = 4, CREW_NUMBERS = 16 };

/* Shared by the crew and the process that forked it. */
struct crew_board {
    atomic_int pids[CREW_MAX];
    atomic_ullong work[CREW_MAX];  /* bytes or samples, as the benchmark counts */
    atomic_ullong stop;            /* the iteration that no longer runs */
    atomic_int ports[2];           /* for whom listens to say where */
    double seconds, work_s, cpu_s; /* of the window: its length, work a second, processor time */
    double numbers[CREW_NUMBERS];  /* whatever else one has to report */
    struct {
        tri_status status;
        tri_error err;
    } ends[CREW_MAX];
};

struct crew {
    uint32_t count;
    const char *name; /* of the processes, for top and perf; short */
    /* Run by each, with its number; what it returns is told to the others' parent. */
    tri_status (*body)(void *ctx, uint32_t number, struct crew_board *board, tri_error *err);
    void *ctx;
};

/* Runs a crew to its end; board is zeroed first. The first failure ends all of them. */
tri_status crew_run(const struct crew *crew, struct crew_board *board, tri_error *err);

/* A board, or NULL with a report. */
struct crew_board *crew_board_open(tri_error *err);
void crew_board_close(struct crew_board *board); /* NULL is fine */

/* The timekeeper's watch. */
struct crew_watch {
    struct crew_board *board;
    uint32_t count;
    double start_s, cpu_s;
    uint64_t work;
};
void crew_watch_start(struct crew_watch *watch, struct crew_board *board, uint32_t count);
double crew_watch_seconds(const struct crew_watch *watch); /* since it was started */
void crew_watch_stop(const struct crew_watch *watch);      /* writes to the board */

double crew_now_s(void);

/* Zeroed floats that begin with a page, as long as the process lives; NULL when refused. Copies
 * between buffers whose places in a page differ a little are slow on some processors, so what is
 * compared must begin alike. */
float *crew_floats(size_t count);

/* ---- jobs ---- */

struct crew_job {
    uint32_t workers;
    uint32_t servers;    /* of their own, numbered behind the workers; 0: one in each worker */
    const char *address; /* of worker 0; NULL: this host */
    uint16_t port;       /* of worker 0 */
    uint64_t chunk;      /* 0: as the library has it */
    bool unordered;      /* sums in the order of arrival */
};

/* A port that is free on this host now; 0 with a report when there is none. */
uint16_t crew_port(tri_error *err);

/* Sets the environment of process `number`, as trident run would. */
void crew_environment(const struct crew_job *job, uint32_t number);

/* The loop's end: the timekeeper (rank 0) closes the window after `seconds`, at a moment that
 * all ranks of a synchronous job meet in the same iteration. True: go on. */
struct crew_loop {
    struct crew_board *board;
    struct crew_watch watch;
    uint32_t rank, processes;
    uint64_t warm_up; /* iterations before the window opens, at least 1 */
    double seconds;
};
bool crew_goes_on(struct crew_loop *loop, uint64_t iteration);

#endif
