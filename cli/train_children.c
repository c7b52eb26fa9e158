/* Processes of the launcher of learners: started, heard and ended one by one. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cli/train_learners.h"

enum { EACH_FDS = 2, VARIABLES = TRAIN_VARIABLES + 8 };

/* ---- what they print ---- */

static void flush(void *ctx, struct run_sink *sink)
{
    struct train_children *children = ctx;
    if (sink->len > 0)
        children->hooks.clear(children->hooks.ctx);
    (void)fwrite(sink->data, 1, sink->len, sink->file);
    (void)fflush(sink->file);
    sink->len = 0;
}

static void read_some(struct train_children *children, struct run_lines *lines, int *fd)
{
    for (int i = 0; i < 64 && *fd >= 0; i++) {
        struct pollfd ready = {.fd = *fd, .events = POLLIN};
        if (poll(&ready, 1, 0) <= 0)
            return;
        if (!run_lines_read(lines, *fd, &children->sink))
            process_close(fd);
    }
}

static void hear_child(struct train_children *children, struct train_child *child)
{
    struct process_end end;
    if (!child->running)
        return;
    bool ended = process_ended(&child->process, &end);
    read_some(children, &child->out, &child->process.out);
    read_some(children, &child->err, &child->process.err);
    if (!ended)
        return;
    run_lines_end(&child->out, &children->sink);
    run_lines_end(&child->err, &children->sink);
    process_keeper_remove(&children->keeper, child->process.pid);
    process_reap(&child->process);
    child->running = false;
    child->wanted = true;
    child->end = end;
}

int train_children_hear(struct train_children *children, int timeout_ms)
{
    struct pollfd *fds = children->fds;
    size_t count = 0;
    fds[count++] = (struct pollfd){.fd = children->signals.fd, .events = POLLIN};
    for (uint32_t i = 0; i <= children->learners; i++) {
        const struct train_child *child = &children->all[i];
        fds[count++] =
            (struct pollfd){.fd = child->running ? child->process.out : -1, .events = POLLIN};
        fds[count++] =
            (struct pollfd){.fd = child->running ? child->process.err : -1, .events = POLLIN};
    }
    (void)poll(fds, (nfds_t)count, timeout_ms);
    int number, told = 0;
    while ((number = process_signals_next(&children->signals)) != 0)
        if (number != SIGCHLD)
            told = number;
    for (uint32_t i = 0; i <= children->learners; i++)
        hear_child(children, &children->all[i]);
    flush(children, &children->sink);
    return told;
}

/* ---- starting ---- */

static void end_child(struct train_children *children, struct train_child *child)
{
    if (!child->running)
        return;
    process_signal(&child->process, SIGKILL);
    process_keeper_remove(&children->keeper, child->process.pid);
    process_reap(&child->process);
    child->running = false;
}

static tri_status start(struct train_children *children, struct train_child *child, uint32_t rank,
                        const char *role, int input, tri_error *err)
{
    static const char *const not_theirs[] = {"MASTER_ADDR", "MASTER_PORT", "TRIDENT_PORT",
                                             "TRIDENT_COORDINATOR", "TRIDENT_TOKEN"};
    const char *variables[VARIABLES];
    char worker[64];
    size_t count = 0;
    for (; count < sizeof not_theirs / sizeof not_theirs[0]; count++)
        variables[count] = not_theirs[count];
    for (size_t i = 0; i < children->request.variable_count; i++)
        variables[count++] = children->request.variables[i];
    (void)snprintf(worker, sizeof worker, TRAIN_WORKER "=%s", role);
    variables[count++] = worker;
    struct run_request request = children->request;
    request.variables = variables;
    request.variable_count = count;
    struct run_environment environment;
    run_environment_init(&environment, children->cli->mem);
    tri_status status = run_environment_of(&request, &children->job, rank, &environment, err);
    struct process_plan plan = {.path = "/proc/self/exe",
                                .argv = (char *const *)(uintptr_t)children->words,
                                .envp = environment.list,
                                .input = input};
    if (status == TRI_OK)
        status = process_start(&plan, &child->process, err);
    run_environment_fini(&environment);
    child->running = status == TRI_OK;
    child->wanted = false;
    return status;
}

tri_status train_child_start(struct train_children *children, uint32_t number, const char *role,
                             tri_error *err)
{
    struct train_child *child = &children->all[number];
    hear_child(children, child);
    end_child(children, child);
    uint32_t rank = number < children->learners ? number : 0;
    tri_status status = start(children, child, rank, role, -1, err);
    if (status == TRI_OK)
        process_keeper_add(&children->keeper, child->process.pid);
    return status;
}

void train_children_signal(const struct train_children *children, int number)
{
    for (uint32_t i = 0; i < children->learners; i++)
        if (children->all[i].running) {
            process_signal(&children->all[i].process, number);
            process_signal(&children->all[i].process, SIGCONT);
        }
}

uint32_t train_children_running(const struct train_children *children)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < children->learners; i++)
        count += children->all[i].running;
    return count;
}

/* ---- beginning and end ---- */

static tri_status make_words(struct train_children *children, int argc, const char *const *argv,
                             tri_error *err)
{
    children->word_count = (size_t)argc + 2;
    children->words = mem_array(children->cli->mem, children->word_count + 1, sizeof(char *));
    if (children->words == NULL)
        return fail_nomem(err, "the learners' arguments");
    children->words[0] = "trident";
    children->words[1] = "train";
    memcpy((void *)(children->words + 2), (const void *)argv, (size_t)argc * sizeof *argv);
    return TRI_OK;
}

static tri_status make_children(struct train_children *children, tri_error *err)
{
    const struct mem *mem = children->cli->mem;
    size_t count = (size_t)children->learners + 1;
    children->all = mem_array(mem, count, sizeof *children->all);
    children->fds = mem_array(mem, 1 + EACH_FDS * count, sizeof *children->fds);
    if (children->all == NULL || children->fds == NULL)
        return fail_nomem(err, "the learners");
    for (uint32_t i = 0; i < count; i++) {
        struct train_child *child = &children->all[i];
        child->process = (struct process){.pid = 0, .out = -1, .err = -1};
        (void)snprintf(child->prefix, sizeof child->prefix, "[%s%u] ",
                       i < children->learners ? "" : "s",
                       (unsigned)(i < children->learners ? i : 0));
        if (!run_lines_init(&child->out, child->prefix, mem) ||
            !run_lines_init(&child->err, child->prefix, mem))
            return fail_nomem(err, "the output of a learner");
        child->out.hooks = i < children->learners ? &children->hooks : NULL;
        child->out.process = i;
    }
    return TRI_OK;
}

/* It lives until the pipe is closed, by this process or by its end. */
static tri_status start_sweeper(struct train_children *children, tri_error *err)
{
    if (pipe2(children->sweeper_pipe, O_CLOEXEC) != 0)
        return fail_errno(err, TRI_EIO, "cannot open a pipe");
    children->sweeper.process = (struct process){.pid = 0, .out = -1, .err = -1};
    return start(children, &children->sweeper, 0, TRAIN_ROLE_SWEEP, children->sweeper_pipe[0], err);
}

static tri_status open_all(struct train_children *children, const struct train_request *request,
                           int argc, const char *const *argv, tri_error *err)
{
    static const char *const locals[LOCAL_MODES] = {[LOCAL_SERVER] = "TRIDENT_LOCAL=server",
                                                    [LOCAL_DIRECT] = "TRIDENT_LOCAL=direct",
                                                    [LOCAL_SYNC] = "TRIDENT_LOCAL=sync",
                                                    [LOCAL_REPLICAS] = "TRIDENT_LOCAL=replicas"};
    enum local_mode mode = LOCAL_SERVER;
    tri_status status = local_mode_find(request->local, &mode, err);
    if (status != TRI_OK)
        return status;
    const char **variables = children->variables;
    variables[0] = "TRIDENT_MODE=local";
    variables[1] = "TRIDENT_LOCAL_SERVER=apart";
    variables[2] = locals[mode];
    variables[3] = request->settings.locked ? "TRIDENT_LOCKED=on" : "TRIDENT_LOCKED=off";
    children->request.settings.workers = children->learners;
    children->request.settings.colocate = RUN_NOT_GIVEN;
    children->request.settings.on_failure = RUN_NOT_GIVEN;
    children->request.variables = variables;
    children->request.variable_count = TRAIN_VARIABLES;
    children->job.port = 1; /* nobody looks at it */
    children->job.threads = run_threads(children->learners);
    (void)snprintf(children->job.name, sizeof children->job.name, "train-%ld", (long)getpid());
    (void)snprintf(children->job.address, sizeof children->job.address, "127.0.0.1");
    status = make_words(children, argc, argv, err);
    if (status == TRI_OK)
        status = make_children(children, err);
    if (status == TRI_OK)
        status = process_keeper_open(&children->keeper, (size_t)children->learners + 1,
                                     children->cli->mem, err);
    if (status == TRI_OK)
        status = start_sweeper(children, err);
    return status;
}

tri_status train_children_open(struct train_children *children, struct cli *cli,
                               const struct train_request *request, int argc,
                               const char *const *argv, tri_error *err)
{
    children->cli = cli;
    children->learners = (uint32_t)request->settings.learners;
    children->sweeper_pipe[0] = children->sweeper_pipe[1] = -1;
    children->sink.flush = flush;
    children->sink.ctx = children;
    children->sink.file = cli->err;
    children->sink.fd = -1;
    tri_status status = process_signals_open(&children->signals, err);
    if (status != TRI_OK)
        return status;
    children->opened = true;
    return open_all(children, request, argc, argv, err);
}

void train_children_close(struct train_children *children)
{
    const struct mem *mem = children->cli != NULL ? children->cli->mem : NULL;
    if (!children->opened)
        return;
    for (uint32_t i = 0; children->all != NULL && i <= children->learners; i++) {
        struct train_child *child = &children->all[i];
        end_child(children, child);
        if (child->out.mem != NULL)
            run_lines_fini(&child->out);
        if (child->err.mem != NULL)
            run_lines_fini(&child->err);
    }
    process_close(&children->sweeper_pipe[0]);
    process_close(&children->sweeper_pipe[1]);
    if (children->sweeper.running)
        process_reap(&children->sweeper.process);
    if (children->keeper.mem != NULL)
        process_keeper_close(&children->keeper);
    process_signals_close(&children->signals);
    mem_free(mem, children->all);
    mem_free(mem, children->fds);
    mem_free(mem, (void *)children->words);
    children->opened = false;
}
