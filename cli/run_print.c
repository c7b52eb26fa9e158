/* What trident run prints: the lines of its processes, and what it has to say of them. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/run_watch.h"

/* Waits until fd takes bytes, and heeds signals and deadlines meanwhile. False when the job
 * has been killed and the reader still does not read. */
static bool writable(struct run_watch *watch, int fd)
{
    for (;;) {
        struct pollfd fds[3] = {{.fd = fd, .events = POLLOUT},
                                {.fd = watch->signals.fd, .events = POLLIN},
                                {.fd = run_deputy_fd(watch), .events = POLLIN}};
        bool killed = watch->phase == RUN_KILLED;
        int wait_ms = killed ? (int)(RUN_LEFTOVER_S * 1e3) : run_patience(watch, false);
        int ready = poll(fds, killed ? 1 : 3, wait_ms);
        if (ready > 0 && fds[0].revents != 0)
            return true;
        if (killed)
            return false;
        run_take_signals(watch);
        if (ready > 0 && fds[2].revents != 0)
            run_deputy_take(watch);
        run_take_deadlines(watch);
    }
}

bool run_write(struct run_watch *watch, int fd, const void *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        if (!writable(watch, fd))
            return false;
        size_t part = len - at < PIPE_BUF ? len - at : PIPE_BUF;
        ssize_t put = write(fd, (const char *)bytes + at, part);
        if (put >= 0)
            at += (size_t)put;
        else if (errno != EAGAIN && errno != EINTR)
            return false;
    }
    return true;
}

/* run_sink.flush: after a failure the rest is forgotten, and if it was standard output, the
 * job stopped. */
static void flush(void *ctx, struct run_sink *sink)
{
    struct run_watch *watch = ctx;
    const struct run_hooks *hooks = watch->request->hooks;
    bool ok = sink->broken;
    if (hooks != NULL)
        hooks->clear(hooks->ctx);
    if (watch->request->deputy != NULL) {
        run_deputy_flush(watch, sink);
        return;
    }
    if (!ok && sink->fd >= 0)
        ok = run_write(watch, sink->fd, sink->data, sink->len);
    else if (!ok)
        ok = fwrite(sink->data, 1, sink->len, sink->file) == sink->len && fflush(sink->file) == 0;
    sink->len = 0;
    if (ok)
        return;
    sink->broken = true;
    if (sink == &watch->out) {
        watch->output_errno = errno;
        run_stop(watch, RUN_WHY_OUTPUT, SIGTERM);
    }
}

void run_sink_open(struct run_watch *watch, struct run_sink *sink, FILE *file)
{
    (void)fflush(file);
    sink->flush = flush;
    sink->ctx = watch;
    sink->file = file;
    sink->fd = fileno(file);
}

static const char *command_of(const struct run_watch *watch)
{
    return watch->request->hooks != NULL ? watch->request->hooks->command : "run";
}

__attribute__((format(printf, 2, 3))) static void say(struct run_watch *watch, const char *format,
                                                      ...)
{
    const char *command = command_of(watch);
    char text[RUN_TEXT + 100];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len < 0)
        return;
    run_sink_add(&watch->err, "trident ", 8);
    run_sink_add(&watch->err, command, strlen(command));
    run_sink_add(&watch->err, ": ", 2);
    run_sink_add(&watch->err, text, strlen(text));
    run_sink_add(&watch->err, "\n", 1);
    flush(watch, &watch->err);
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "es";
}

/* Says once what each phase is about; of a failure run_report() has told. */
void run_announce(struct run_watch *watch)
{
    char text[UNITS_TEXT], name[PROCESS_SIGNAL_TEXT];
    if (watch->announced == watch->phase || watch->request->deputy != NULL)
        return;
    if (watch->announced == RUN_RUNNING && watch->why == RUN_WHY_SIGNAL)
        say(watch, "%s: stopping %zu process%s", process_signal_name(watch->told, name),
            watch->stopped, plural(watch->stopped));
    if (watch->announced == RUN_RUNNING && watch->why == RUN_WHY_TIMEOUT)
        say(watch, "%s have passed: stopping %zu process%s",
            units_show_time(watch->request->settings.timeout_s, text), watch->stopped,
            plural(watch->stopped));
    if (watch->announced == RUN_RUNNING && watch->why == RUN_WHY_SERVERS)
        say(watch, "all workers have ended: stopping %zu server%s", watch->stopped,
            watch->stopped == 1 ? "" : "s");
    if (watch->phase == RUN_KILLED && watch->killed > 0 && watch->refused.status == TRI_OK)
        say(watch, "%zu process%s did not stop: killed", watch->killed, plural(watch->killed));
    watch->announced = watch->phase;
}

static void describe(struct run_child *child, char out[RUN_TEXT])
{
    char name[PROCESS_SIGNAL_TEXT], who[RUN_TEXT / 2];
    const char *last = child->lost ? run_link_words(child->link) : run_lines_last(&child->err);
    const char *host = child->link != NULL ? run_link_host(child->link) : NULL;
    int used;
    (void)snprintf(who, sizeof who, "%s (pid %ld%s%.120s)", child->name, (long)child->pid,
                   host != NULL ? " on " : "", host != NULL ? host : "");
    if (child->lost)
        used = snprintf(out, RUN_TEXT, "%s is lost: the connection to %.120s broke", who, host);
    else if (child->end.signal != 0)
        used = snprintf(out, RUN_TEXT, "%s was killed by %s", who,
                        process_signal_name(child->end.signal, name));
    else
        used = snprintf(out, RUN_TEXT, "%s exited with %d", who, child->end.code);
    if (last[0] != '\0' && used > 0 && used < RUN_TEXT)
        (void)snprintf(out + used, (size_t)(RUN_TEXT - used), ": %s", last);
}

void run_report(struct run_watch *watch, struct run_child *child)
{
    const struct run_hooks *hooks = watch->request->hooks;
    bool stops = watch->request->settings.on_failure == RUN_STOP;
    size_t others = run_left(watch, 0, watch->count);
    char how[RUN_TEXT];
    watch->failures++;
    describe(child, how);
    if (watch->first == NULL) {
        watch->first = child;
        memcpy(watch->how, how, sizeof how);
    } else if (stops && hooks == NULL) {
        return;
    }
    if (hooks != NULL)
        hooks->failed(hooks->ctx, (size_t)(child - watch->children), &child->end, how);
    const char *then = stops ? "; stopping the others" : "; the others go on";
    if (hooks == NULL)
        say(watch, "%s%s", how, others > 0 ? then : "");
    if (stops)
        run_stop_soon(watch);
}
