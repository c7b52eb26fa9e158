/* Inside trident run: what was asked for, where the job lives, and what is printed of it. */
#ifndef TRIDENT_CLI_RUN_H
#define TRIDENT_CLI_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/cli.h"
#include "os/process.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RUN_MAX = 1024, RUN_NOT_GIVEN = 99 };
enum run_on_failure { RUN_CONTINUE, RUN_STOP };

/* What the options fill; choices that were not given are RUN_NOT_GIVEN. */
struct run_settings {
    uint64_t workers, servers;
    unsigned colocate; /* 0: yes, 1: no */
    unsigned on_failure;
    const char *hosts, *ssh, *env;
    double timeout_s; /* 0: none */
};

/* For a command that starts processes of its own. What its workers print on standard output comes
 * to line(); all else is as in trident run. */
struct run_hooks {
    void *ctx;
    const char *command; /* "train": who speaks on standard error */
    double patience_s;   /* who has not ended so long after a signal is killed; 0: 5 seconds */
    int passed_on;       /* what a signal to the command is to its processes; 0: the same signal */
    void (*told)(void *ctx, int number); /* such a signal has come, and stops the job */
    /* A line without its newline. False: it is not for the command, and is passed on to
     * standard error. */
    bool (*line)(void *ctx, size_t process, const char *line, size_t len);
    void (*clear)(void *ctx); /* something else is about to be written to standard error */
    /* A worker failed by itself; how: "rank 1 (pid 42) exited with 1: its last line". */
    void (*failed)(void *ctx, size_t process, const struct process_end *end, const char *how);
};

/* The processes of a job that one of several hosts has; workers come first. */
struct run_part {
    size_t *process;
    size_t count, workers;
};

struct run_hosts;

/* A command line of trident run. The texts are argv's; variables is the reader's memory. */
struct run_request {
    struct run_settings settings;
    bool help;
    const char **variables; /* "K=V" */
    size_t variable_count;
    const char *const *program; /* its name and arguments */
    size_t program_count;
    const struct run_hosts *hosts; /* what settings.hosts says; NULL: this machine */
    const struct run_hooks *hooks; /* NULL: none */
    /* In the deputy on a host of several: what it has, whom it tells, and variables of the host
     * where the job was started. */
    const struct run_part *part;
    struct run_deputy *deputy;
    const char **inherited;
    size_t inherited_count;
};

extern const struct option_row run_rows[];
tri_status run_read(int argc, const char *const *argv, struct run_request *request,
                    const struct mem *mem, tri_error *err);
void run_request_free(struct run_request *request, const struct mem *mem);

/* TRI_EINPUT if the settings (environment, --env, file) want servers in processes of their own and
 * the request starts none: all would wait for them. Without a next step, which is the command's. */
tri_status run_check_apart(const struct run_request *request, const struct mem *mem,
                           tri_error *err);

static inline size_t run_workers(const struct run_request *request)
{
    return (size_t)request->settings.workers;
}

/* Servers in processes of their own. */
static inline size_t run_servers(const struct run_request *request)
{
    const struct run_settings *settings = &request->settings;
    if (settings->colocate != 1)
        return 0;
    return (size_t)(settings->servers != 0 ? settings->servers : settings->workers);
}

/* ---- the job, as its processes find it in their environment ---- */

enum { RUN_TOKEN_BYTES = 16, RUN_ADDRESS = 256 };

struct run_job {
    char name[64];
    char address[RUN_ADDRESS]; /* of rank 0's host; "127.0.0.1" if there is no other */
    char token[2 * RUN_TOKEN_BYTES + 1];
    unsigned port;    /* MASTER_PORT; the one above it is Trident's */
    unsigned threads; /* of each worker's arithmetic */
    char ended[64];   /* where the list of those that have ended is; "": there is none */
};

/* A name and a token nobody can guess; and for a job on this machine alone, two free ports in a
 * row. */
tri_status run_job_init(struct run_job *job, const struct run_request *request, tri_error *err);
/* The first of two that are free on loopback, or at all addresses. */
tri_status run_pick_ports(bool everywhere, unsigned *port, tri_error *err);
unsigned run_threads(size_t workers); /* of each, if so many share this machine */

/* Strings "K=V" one behind the other, and pointers to those that hold: of several with one
 * name the last, none if that is a name alone. */
struct run_environment {
    const struct mem *mem;
    struct buf text;
    char **list; /* ended by NULL; made by run_environment_of() */
};

/* The environment of process i: workers first, servers behind them. */
tri_status run_environment_of(const struct run_request *request, const struct run_job *job,
                              size_t i, struct run_environment *environment, tri_error *err);
void run_environment_init(struct run_environment *environment, const struct mem *mem);
void run_environment_fini(struct run_environment *environment);

/* ---- what a process prints ---- */

/* Where whole lines go. flush() writes len bytes; it may not fail, but forget them. */
struct run_sink {
    void (*flush)(void *ctx, struct run_sink *sink);
    void *ctx;
    FILE *file;
    int fd;      /* of file; -1: it has none */
    bool broken; /* nothing more can be written */
    size_t len;
    char data[1 << 16];
};

void run_sink_add(struct run_sink *sink, const char *bytes, size_t len);

/* One output of a process: its bytes, made lines with a prefix. A line is kept until its end
 * has come, so that no other line can break it; one longer than RUN_LINE_MAX, or for which
 * there is no memory, is cut. An empty prefix passes all on as it comes. */
enum { RUN_LINE_ROOM = 1 << 14, RUN_LINE_MAX = 1 << 24, RUN_LAST = 160 };

struct run_lines {
    const struct mem *mem;
    const char *prefix;
    char *data;
    size_t len, cap;
    /* The last line that was not empty, or its beginning. */
    char last[RUN_LAST];
    size_t last_len;
    bool last_whole, last_skips;   /* it has ended; it is none to keep */
    const struct run_hooks *hooks; /* get whole lines before the sink; NULL: nobody does */
    size_t process;                /* for the hooks */
};

bool run_lines_init(struct run_lines *lines, const char *prefix, const struct mem *mem);
void run_lines_fini(struct run_lines *lines);
void run_lines_add(struct run_lines *lines, const char *bytes, size_t len, struct run_sink *sink);
/* Reads once; what came goes to sink. False when there is nothing more to come. */
bool run_lines_read(struct run_lines *lines, int fd, struct run_sink *sink);
void run_lines_end(struct run_lines *lines, struct run_sink *sink); /* the line without an end */
const char *run_lines_last(struct run_lines *lines);                /* harmless; "" for none */

/* ---- the processes ---- */

/* Starts them all and stays until all have ended. path is that of the program, if it is started on
 * this machine; otherwise the job gets its address and ports here. */
tri_status run_watch(struct cli *cli, const struct run_request *request, struct run_job *job,
                     const char *path, tri_error *err);

/* trident run --deputy, as ssh starts it on another host: does what comes on standard input. */
tri_status run_deputy_main(struct cli *cli, tri_error *err);

/* The whole command, as commands.c calls it: the words behind "trident run". */
tri_status run_main(struct cli *cli, int argc, const char *const *argv, struct buf *out,
                    tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
