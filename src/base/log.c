/* Building one bounded log line. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

static const char *const level_names[LOG_LEVEL_COUNT] = {
    [LOG_ERROR] = "error", [LOG_WARN] = "warn",   [LOG_INFO] = "info",
    [LOG_DEBUG] = "debug", [LOG_TRACE] = "trace",
};

struct line {
    char text[LOG_LINE_BYTES];
    size_t len;
    bool cut; /* something did not fit; later parts are dropped */
};

__attribute__((format(printf, 2, 0))) static void add_args(struct line *line, const char *format,
                                                           va_list args)
{
    if (line->cut)
        return;
    size_t room = sizeof line->text - line->len;
    int len = vsnprintf(line->text + line->len, room, format, args);
    if (len < 0) { /* an argument that cannot be converted: keep what we have */
        line->text[line->len] = '\0';
    } else if ((size_t)len < room) {
        line->len += (size_t)len;
    } else {
        line->len = sizeof line->text - 1;
        line->cut = true;
    }
}

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_args(line, format, args);
    va_end(args);
}

/* Makes room for the dots, at the start of a character: a terminal should not
 * get half of one. */
static void end_in_dots(struct line *line)
{
    size_t end = sizeof line->text - sizeof "...";
    while (end > 0 && ((unsigned char)line->text[end] & 0xC0) == 0x80)
        end--;
    memcpy(line->text + end, "...", sizeof "...");
    line->len = end + 3;
}

void log_init(struct log *log, enum log_level level, log_sink *sink, void *ctx)
{
    *log = (struct log){.level = level, .sink = sink, .ctx = ctx, .rank = LOG_NO_RANK};
}

void log_line(const struct log *log, enum log_level level, const char *format, ...)
{
    int kept = errno;
    struct line line = {.len = 0};
    add(&line, "trident");
    if (log->job != NULL && log->job[0] != '\0')
        add(&line, " %s", log->job);
    if (log->role != NULL && log->role[0] != '\0')
        add(&line, " %s", log->role);
    if (log->rank >= 0)
        add(&line, " %d", (int)log->rank);
    add(&line, ": %s: ", log_level_name(level));
    va_list args;
    va_start(args, format);
    add_args(&line, format, args);
    va_end(args);
    if (line.cut)
        end_in_dots(&line);
    /* Text may come from a peer or a file name: a newline would forge a line, an
     * escape sequence drive the reader's terminal. */
    printable(line.text);
    log->sink(log->ctx, level, line.text);
    errno = kept;
}

void log_to_stream(void *ctx, enum log_level level, const char *line)
{
    (void)level;
    (void)fprintf(ctx, "%s\n", line); /* a log that cannot be written has nowhere to say so */
}

const char *log_level_name(enum log_level level)
{
    return (unsigned)level < LOG_LEVEL_COUNT ? level_names[level] : "?";
}

tri_status log_level_find(const char *name, enum log_level *level)
{
    for (unsigned i = 0; i < LOG_LEVEL_COUNT; i++)
        if (strcmp(level_names[i], name) == 0) {
            *level = (enum log_level)i;
            return TRI_OK;
        }
    return TRI_EINPUT;
}
