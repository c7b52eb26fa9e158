/* Log lines: a level, a prefix that names the process, and a sink to write to.
 *
 * A struct log is handed down like an allocator; there is no global one. What a
 * line ends up in, and whether it gets a time in front, is the sink's business:
 * nothing here reads a clock. */
#ifndef TRIDENT_BASE_LOG_H
#define TRIDENT_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trident/trident.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From the rarest to the most talkative; a log lets through its level and those
 * above it in this list. */
enum log_level {
    LOG_ERROR, /* we stop */
    LOG_WARN,  /* we go on, worse */
    LOG_INFO,  /* once per state change */
    LOG_DEBUG, /* per object */
    LOG_TRACE, /* per message */
};
#define LOG_LEVEL_COUNT 5

/* Longest line handed to a sink, in bytes, with its NUL. Longer ones end in "...". */
#define LOG_LINE_BYTES 512

/* Takes one finished line, without control characters and without a newline at
 * its end; the text is gone when the call returns. A sink runs on the thread that
 * logs, so one that is shared between threads must stand that; it must not log
 * through the same struct log. Failures are its own to deal with. */
typedef void log_sink(void *ctx, enum log_level level, const char *line);

#define LOG_NO_RANK (-1)

/* Plain data, only read by log_write(): threads may share one, and a copy with
 * another rank is another log. All pointers are borrowed and must outlive it. */
struct log {
    enum log_level level;
    log_sink *sink; /* NULL is silent */
    void *ctx;      /* first argument of the sink */
    const char *job;
    const char *role; /* "worker", "server", ...; NULL or "" leaves the part out */
    int32_t rank;     /* negative, as LOG_NO_RANK, leaves it out */
};

/* A log without job, role and rank; set them in the struct when they are known. */
void log_init(struct log *log, enum log_level level, log_sink *sink, void *ctx);

/* Whether a line of this level would be written; false for log = NULL. */
static inline bool log_wants(const struct log *log, enum log_level level)
{
    return log != NULL && log->sink != NULL && level <= log->level;
}

/* Writes one line: "trident <job> <role> <rank>: <level>: <text>", text as printf
 * makes it from the rest of the arguments. Those are not evaluated when the level
 * is off. One call is one line: every control character becomes "?", and what is
 * too long is cut between two characters. Leaves errno as it was, so that a line
 * may come between a failure and its report. */
#define log_write(to, level, ...)                                                                  \
    do {                                                                                           \
        const struct log *log_write_to = (to);                                                     \
        if (log_wants(log_write_to, (level)))                                                      \
            log_line(log_write_to, (level), __VA_ARGS__);                                          \
    } while (0)

/* The body of log_write(), which see; does not look at the level again. */
void log_line(const struct log *log, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A sink. ctx is the FILE * to write to; a newline follows each line, the two in
 * one call, so that lines of several threads do not mix. Flushing is as the
 * stream is set up. */
void log_to_stream(void *ctx, enum log_level level, const char *line);

/* The word users type and read: "error", "warn", "info", "debug", "trace"; "?"
 * for a value that is none of them. Static storage. */
const char *log_level_name(enum log_level level);

/* The level of a word; TRI_EINPUT, with *level untouched, when it is none. */
tri_status log_level_find(const char *name, enum log_level *level);

#ifdef __cplusplus
}
#endif

#endif
