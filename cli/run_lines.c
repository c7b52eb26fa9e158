/* The output of a process as lines with its rank in front. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "cli/run.h"

void run_sink_add(struct run_sink *sink, const char *bytes, size_t len)
{
    while (len > 0) {
        size_t room = sizeof sink->data - sink->len;
        size_t part = len < room ? len : room;
        memcpy(sink->data + sink->len, bytes, part);
        sink->len += part;
        bytes += part;
        len -= part;
        if (sink->len == sizeof sink->data)
            sink->flush(sink->ctx, sink);
    }
}

bool run_lines_init(struct run_lines *lines, const char *prefix, const struct mem *mem)
{
    *lines = (struct run_lines){.mem = mem, .prefix = prefix, .last_whole = true};
    lines->data = mem_array(mem, RUN_LINE_ROOM, 1);
    lines->cap = lines->data != NULL ? RUN_LINE_ROOM : 0;
    return lines->data != NULL;
}

void run_lines_fini(struct run_lines *lines)
{
    mem_free(lines->mem, lines->data);
    lines->data = NULL;
}

static void note_last(struct run_lines *lines, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == '\n' || bytes[i] == '\r') {
            lines->last_whole = true;
            continue;
        }
        if (lines->last_whole) { /* what is indented goes on with the line before: "  try: ..." */
            lines->last_skips = bytes[i] == ' ' && lines->last_len > 0;
            lines->last_len = lines->last_skips ? lines->last_len : 0;
        }
        lines->last_whole = false;
        if (!lines->last_skips && lines->last_len + 1 < sizeof lines->last)
            lines->last[lines->last_len++] = bytes[i];
    }
}

const char *run_lines_last(struct run_lines *lines)
{
    lines->last[lines->last_len] = '\0';
    printable(lines->last);
    return lines->last + strspn(lines->last, " ");
}

static void put_line(struct run_lines *lines, const char *line, size_t len, struct run_sink *sink)
{
    const struct run_hooks *hooks = lines->hooks;
    if (hooks != NULL && hooks->line(hooks->ctx, lines->process, line, len))
        return;
    run_sink_add(sink, lines->prefix, strlen(lines->prefix));
    run_sink_add(sink, line, len);
    run_sink_add(sink, "\n", 1);
}

/* Sends the whole lines off; from is where the newest bytes begin. */
static void put_whole(struct run_lines *lines, size_t from, struct run_sink *sink)
{
    size_t start = 0;
    const char *newline;
    while ((newline = memchr(lines->data + from, '\n', lines->len - from)) != NULL) {
        size_t end = (size_t)(newline - lines->data);
        put_line(lines, lines->data + start, end - start, sink);
        start = from = end + 1;
    }
    if (start == 0)
        return;
    lines->len -= start;
    memmove(lines->data, lines->data + start, lines->len);
}

/* Memory that one long line needed is not kept for the short ones behind it. */
static void shrink(struct run_lines *lines)
{
    if (lines->cap <= RUN_LINE_ROOM || lines->len > RUN_LINE_ROOM / 2)
        return;
    void *smaller = lines->mem->resize(lines->mem->ctx, lines->data, RUN_LINE_ROOM);
    if (smaller == NULL)
        return;
    lines->data = smaller;
    lines->cap = RUN_LINE_ROOM;
}

static void make_room(struct run_lines *lines, struct run_sink *sink)
{
    if (lines->len < lines->cap)
        return;
    void *data = lines->data;
    if (lines->cap < RUN_LINE_MAX &&
        mem_grow(lines->mem, &data, &lines->cap, lines->cap + 1, 1) != NULL) {
        lines->data = data;
        return;
    }
    put_line(lines, lines->data, lines->len, sink);
    lines->len = 0;
}

/* So many bytes have been put behind the others. */
static void took(struct run_lines *lines, size_t len, struct run_sink *sink)
{
    size_t from = lines->len;
    lines->len += len;
    note_last(lines, lines->data + from, len);
    if (lines->prefix[0] != '\0') {
        put_whole(lines, from, sink);
        shrink(lines);
    } else {
        run_sink_add(sink, lines->data, lines->len);
        lines->len = 0;
    }
    if (sink->len > 0)
        sink->flush(sink->ctx, sink);
}

bool run_lines_read(struct run_lines *lines, int fd, struct run_sink *sink)
{
    make_room(lines, sink);
    ssize_t got = read(fd, lines->data + lines->len, lines->cap - lines->len);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    took(lines, (size_t)got, sink);
    return got > 0;
}

void run_lines_add(struct run_lines *lines, const char *bytes, size_t len, struct run_sink *sink)
{
    while (len > 0) {
        make_room(lines, sink);
        size_t room = lines->cap - lines->len, part = len < room ? len : room;
        memcpy(lines->data + lines->len, bytes, part);
        took(lines, part, sink);
        bytes += part;
        len -= part;
    }
}

void run_lines_end(struct run_lines *lines, struct run_sink *sink)
{
    if (lines->len > 0)
        put_line(lines, lines->data, lines->len, sink);
    lines->len = 0;
    if (sink->len > 0)
        sink->flush(sink->ctx, sink);
}
