/* Starting the processes of a job and watching over them: one loop, no threads. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/run_watch.h"

/* ---- the end of a process ---- */

/* The last of an output. What still writes to it is about to be killed, so there is a limit. */
static void drain(struct run_lines *lines, int fd, struct run_sink *sink)
{
    for (int i = 0; i < 64 && fd >= 0; i++)
        if (!run_lines_read(lines, fd, sink))
            break;
    run_lines_end(lines, sink);
}

/* Standard output is the command's own where it has hooks. */
static struct run_sink *output_of(struct run_watch *watch, const struct run_child *child, bool err)
{
    if (watch->request->deputy == NULL)
        return err || child->out.hooks != NULL ? &watch->err : &watch->out;
    run_deputy_output(watch, child, err);
    return &watch->out;
}

static void finish(struct run_watch *watch, struct run_child *child)
{
    drain(&child->out, child->process.out, output_of(watch, child, false));
    drain(&child->err, child->process.err, output_of(watch, child, true));
    if (child->process.pid > 0)
        process_keeper_remove(&watch->keeper, child->process.pid);
    process_reap(&child->process);
    child->done = true;
    if (watch->request->deputy != NULL)
        run_deputy_ended(watch, child);
    else if (child->failed)
        run_report(watch, child);
}

/* True while one is not done. */
static bool finish_ended(struct run_watch *watch)
{
    bool more = false;
    for (size_t i = 0; i < watch->count; i++) {
        struct run_child *child = &watch->children[i];
        bool silent = child->process.out < 0 && child->process.err < 0;
        if (child->ended && !child->done &&
            (silent || watch->phase == RUN_KILLED || run_passed(child->leftover_at, run_now())))
            finish(watch, child);
        more = more || !child->done;
    }
    return more;
}

/* ---- the loop ---- */

static void read_output(struct run_lines *lines, int *fd, const struct pollfd *ready,
                        struct run_sink *sink)
{
    if (*fd >= 0 && ready->fd == *fd && ready->revents != 0 && !run_lines_read(lines, *fd, sink))
        process_close(fd);
}

static void await(struct run_watch *watch)
{
    struct pollfd *fds = watch->fds;
    size_t count = 2;
    fds[0] = (struct pollfd){.fd = watch->signals.fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = run_deputy_fd(watch), .events = POLLIN};
    for (size_t i = 0; i < watch->count; i++) {
        const struct process *process = &watch->children[i].process;
        fds[count++] = (struct pollfd){.fd = process->out, .events = POLLIN};
        fds[count++] = (struct pollfd){.fd = process->err, .events = POLLIN};
    }
    struct pollfd *links = fds + count;
    count += run_links_poll(watch, links);
    if (poll(fds, (nfds_t)count, run_patience(watch, true)) < 0)
        return;
    run_take_signals(watch);
    if (fds[1].revents != 0)
        run_deputy_take(watch);
    for (size_t i = 0; i < watch->count; i++) {
        struct run_child *child = &watch->children[i];
        read_output(&child->out, &child->process.out, &fds[2 + 2 * i],
                    output_of(watch, child, false));
        read_output(&child->err, &child->process.err, &fds[3 + 2 * i],
                    output_of(watch, child, true));
    }
    run_links_take(watch, links);
}

static void loop(struct run_watch *watch)
{
    bool more = true;
    run_deputy_obey(watch);
    while (more) {
        await(watch);
        run_take_deadlines(watch);
        run_announce(watch);
        run_take_ends(watch);
        more = finish_ended(watch);
    }
}

static tri_status result(struct run_watch *watch, tri_error *err)
{
    char text[UNITS_TEXT], name[PROCESS_SIGNAL_TEXT];
    if (watch->why == RUN_WHY_SIGNAL && watch->told == SIGINT) {
        watch->cli->interrupted = true;
        return TRI_OK;
    }
    if (watch->why == RUN_WHY_SIGNAL)
        return fail(err, TRI_EIO, "stopped by %s", process_signal_name(watch->told, name));
    if (watch->why == RUN_WHY_TIMEOUT) {
        fail(err, TRI_ETIMEOUT, "the job did not end within %s and was stopped",
             units_show_time(watch->request->settings.timeout_s, text));
        fail_next(err, "give it more time with --timeout");
        return TRI_ETIMEOUT;
    }
    if (watch->why == RUN_WHY_OUTPUT) {
        errno = watch->output_errno;
        fail_errno(err, TRI_EIO, "cannot write the output, so the job was stopped");
        fail_next(err, "check where the output goes, then run it again");
        return TRI_EIO;
    }
    if (watch->refused.status != TRI_OK) {
        if (err != NULL)
            *err = watch->refused;
        return watch->refused.status;
    }
    if (watch->failures == 0)
        return TRI_OK;
    if (watch->count == 1)
        return fail(err, TRI_EPEER, "the program failed");
    fail(err, TRI_EPEER, "%zu of %zu processes failed", watch->failures, watch->count);
    fail_why(err, "%s%s", watch->failures > 1 ? "first " : "", watch->how);
    if (watch->first->prefix[0] != '\0')
        fail_next(err, "see the lines behind %.*s", (int)strcspn(watch->first->prefix, " "),
                  watch->first->prefix);
    return TRI_EPEER;
}

/* ---- beginning and end ---- */

static tri_status prepare(struct run_watch *watch, tri_error *err)
{
    const struct run_part *part = watch->request->part;
    size_t workers = run_workers(watch->request);
    bool bare = watch->count == 1 || part != NULL;
    for (size_t i = 0; i < watch->count; i++) {
        struct run_child *child = &watch->children[i];
        child->number = part != NULL ? part->process[i] : i;
        bool server = child->number >= workers;
        size_t number = server ? child->number - workers : child->number;
        child->process = (struct process){.pid = 0, .out = -1, .err = -1};
        (void)snprintf(child->name, sizeof child->name, "%s %zu", server ? "server" : "rank",
                       number);
        if (!bare)
            (void)snprintf(child->prefix, sizeof child->prefix, "[%s%zu] ", server ? "s" : "",
                           number);
        if (!run_lines_init(&child->out, child->prefix, watch->cli->mem) ||
            !run_lines_init(&child->err, child->prefix, watch->cli->mem))
            return fail_nomem(err, "the output of a process");
        child->out.hooks = server ? NULL : watch->request->hooks;
        child->out.process = i;
    }
    return TRI_OK;
}

static tri_status start(struct run_watch *watch, const struct run_job *job, const char *path,
                        char *const *argv, size_t i, tri_error *err)
{
    char self[] = "trident", command[] = "server";
    char *const server_argv[] = {self, command, NULL};
    struct run_child *child = &watch->children[i];
    struct run_environment environment;
    run_environment_init(&environment, watch->cli->mem);
    tri_status status = run_environment_of(watch->request, job, child->number, &environment, err);
    bool server = child->number >= run_workers(watch->request);
    bool deputy = watch->request->deputy != NULL; /* its standard input is orders */
    struct process_plan plan = {
        .path = server ? "/proc/self/exe" : path,
        .argv = server ? server_argv : argv,
        .envp = environment.list,
        /* A terminal would stop a process that is not in its foreground. */
        .input = i == 0 && !deputy && isatty(STDIN_FILENO) == 0 ? STDIN_FILENO : -1,
    };
    if (status == TRI_OK)
        status = process_start(&plan, &child->process, err);
    if (status == TRI_OK) {
        child->pid = child->process.pid;
        process_keeper_add(&watch->keeper, child->pid);
    }
    if (status == TRI_OK && deputy)
        run_deputy_started(watch, child);
    run_environment_fini(&environment);
    return status;
}

static tri_status start_all(struct run_watch *watch, const struct run_job *job, const char *path,
                            tri_error *err)
{
    const struct run_request *request = watch->request;
    char **argv = mem_array(watch->cli->mem, request->program_count + 1, sizeof *argv);
    if (argv == NULL)
        return fail_nomem(err, "arguments");
    memcpy((void *)argv, (const void *)request->program, request->program_count * sizeof *argv);
    tri_status status = TRI_OK;
    for (size_t i = 0; i < watch->count && status == TRI_OK; i++)
        status = start(watch, job, path, argv, i, err);
    mem_free(watch->cli->mem, (void *)argv);
    return status;
}

/* Everything between the signals' being taken and given back. */
static tri_status watch_over(struct run_watch *watch, struct run_job *job, const char *path,
                             tri_error *err)
{
    bool far = watch->request->settings.hosts != NULL;
    tri_status status = process_keeper_open(&watch->keeper, watch->count, watch->cli->mem, err);
    if (status != TRI_OK)
        return status;
    double timeout_s = watch->request->settings.timeout_s;
    watch->timeout_at = timeout_s > 0 ? run_now() + timeout_s : 0;
    status = far ? run_links_open(watch, job, err) : start_all(watch, job, path, err);
    if (status == TRI_OK) {
        loop(watch);
        status = result(watch, err);
    }
    run_links_close(watch);
    for (size_t i = 0; i < watch->count; i++) /* none is left unless starting failed */
        process_reap(&watch->children[i].process);
    process_keeper_close(&watch->keeper);
    return status;
}

static void watch_free(struct run_watch *watch)
{
    const struct mem *mem = watch->cli->mem;
    for (size_t i = 0; i < watch->count && watch->children != NULL; i++) {
        struct run_child *child = &watch->children[i];
        if (child->out.mem != NULL)
            run_lines_fini(&child->out);
        if (child->err.mem != NULL)
            run_lines_fini(&child->err);
    }
    mem_free(mem, watch->children);
    mem_free(mem, watch->fds);
    mem_free(mem, watch);
}

tri_status run_watch(struct cli *cli, const struct run_request *request, struct run_job *job,
                     const char *path, tri_error *err)
{
    struct run_watch *watch = mem_array(cli->mem, 1, sizeof *watch);
    if (watch == NULL)
        return fail_nomem(err, "the job");
    watch->cli = cli;
    watch->request = request;
    watch->workers = run_workers(request);
    watch->count = watch->workers + run_servers(request);
    if (request->part != NULL) /* who stops servers is the one with all the workers */
        watch->count = watch->workers = request->part->count;
    watch->children = mem_array(cli->mem, watch->count, sizeof *watch->children);
    watch->fds =
        mem_array(cli->mem, 2 + 2 * watch->count + run_links_fds(watch), sizeof *watch->fds);
    run_sink_open(watch, &watch->out, cli->out);
    run_sink_open(watch, &watch->err, cli->err);
    tri_status status = TRI_ENOMEM;
    if (watch->children == NULL || watch->fds == NULL)
        fail_nomem(err, "the job");
    else
        status = prepare(watch, err);
    if (status == TRI_OK)
        status = process_signals_open(&watch->signals, err);
    if (status == TRI_OK) {
        run_ended_open(watch, job);
        status = watch_over(watch, job, path, err);
        run_ended_close(watch);
        process_signals_close(&watch->signals);
    }
    watch_free(watch);
    return status;
}
