/* Child processes by fork(), exec() and signalfd(). */
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- finding ---- */

/* 0, or why it cannot be executed. */
static int executable(const char *path)
{
    struct stat info;
    if (stat(path, &info) < 0)
        return errno;
    if (S_ISDIR(info.st_mode))
        return EISDIR;
    if (!S_ISREG(info.st_mode))
        return EACCES;
    return access(path, X_OK) < 0 ? errno : 0;
}

static tri_status refused(const char *name, int reason, tri_error *err)
{
    errno = reason;
    fail_errno(err, TRI_EINPUT, "cannot start the program '%.200s'", name);
    if (reason == EACCES)
        fail_next(err, "chmod +x %.200s", name);
    else
        fail_next(err, "give the path of a program that exists");
    return TRI_EINPUT;
}

static tri_status not_in_path(const char *name, tri_error *err)
{
    char here[256];
    fail(err, TRI_EINPUT, "cannot start the program '%.200s'", name);
    fail_why(err, "no folder of PATH has it");
    int used = snprintf(here, sizeof here, "./%s", name);
    if (used > 0 && (size_t)used < sizeof here && executable(here) == 0)
        fail_next(err, "did you mean %s?", here);
    else
        fail_next(err, "give its path, such as ./train");
    return TRI_EINPUT;
}

tri_status process_find(const char *name, struct buf *path, tri_error *err)
{
    if (strchr(name, '/') != NULL || name[0] == '\0') {
        int reason = executable(name);
        buf_text(path, name);
        if (reason != 0)
            return refused(name, reason, err);
        return buf_ok(path) ? TRI_OK : fail_nomem(err, "a path");
    }
    const char *folders = getenv("PATH");
    if (folders == NULL || folders[0] == '\0')
        folders = "/usr/local/bin:/usr/bin:/bin";
    size_t start = path->len;
    while (*folders != '\0') {
        size_t len = strcspn(folders, ":");
        path->len = start;
        buf_add(path, len > 0 ? folders : ".", len > 0 ? len : 1);
        buf_format(path, "/%s", name);
        if (!buf_ok(path))
            return fail_nomem(err, "a path");
        if (executable(path->data + start) == 0)
            return TRI_OK;
        folders += len + (folders[len] == ':');
    }
    return not_in_path(name, err);
}

/* ---- starting ---- */

void process_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* Pipes of a start: what it prints, and a word back when exec() failed. */
struct pipes {
    int out[2], err[2], word[2];
    int input;
};

static void close_pair(int pair[2])
{
    process_close(&pair[0]);
    process_close(&pair[1]);
}

static void close_pipes(struct pipes *pipes)
{
    close_pair(pipes->out);
    close_pair(pipes->err);
    close_pair(pipes->word);
    process_close(&pipes->input);
}

/* Opens what is closed of 0, 1 and 2, so that no pipe takes a number at which a child, or
 * a stream of this program, expects something else. Writing to these stays an error. */
static bool fill_low(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd < 3);
    if (fd < 0)
        return false;
    (void)close(fd);
    return true;
}

static tri_status open_pipes(struct pipes *pipes, tri_error *err)
{
    *pipes = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}, -1};
    pipes->input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (pipes->input >= 0 && pipe2(pipes->out, O_CLOEXEC) == 0 &&
        pipe2(pipes->err, O_CLOEXEC) == 0 && pipe2(pipes->word, O_CLOEXEC) == 0 &&
        fcntl(pipes->out[0], F_SETFL, O_NONBLOCK) == 0 &&
        fcntl(pipes->err[0], F_SETFL, O_NONBLOCK) == 0)
        return TRI_OK;
    fail_errno(err, TRI_EIO, "cannot open pipes to a process");
    if (errno == EMFILE || errno == ENFILE)
        fail_next(err, "raise the limit on open files (ulimit -n), or start fewer processes");
    close_pipes(pipes);
    return TRI_EIO;
}

static void default_signals(void)
{
    static const int ours[] = {SIGPIPE, SIGXFSZ, SIGCHLD};
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        (void)sigaction(ours[i], &action, NULL);
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The child, from fork() to exec(): calls only what is safe between the two. */
static _Noreturn void become(const struct process_plan *plan, const struct pipes *pipes,
                             pid_t parent)
{
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it was gone before the line above */
        _exit(127);
    int input = plan->input >= 0 ? plan->input : pipes->input;
    if ((input == 0 || dup2(input, 0) == 0) && dup2(pipes->out[1], 1) == 1 &&
        dup2(pipes->err[1], 2) == 2) {
        default_signals();
        (void)execve(plan->path, plan->argv, plan->envp);
    }
    int reason = errno;
    ssize_t put = write(pipes->word[1], &reason, sizeof reason);
    (void)put;
    _exit(127);
}

static tri_status cannot_run(const struct process_plan *plan, int reason, tri_error *err)
{
    bool format = reason == ENOEXEC;
    tri_status status = format || reason == ENOENT || reason == EACCES ? TRI_EINPUT : TRI_EIO;
    errno = reason;
    fail_errno(err, status, "cannot start '%.200s'", plan->path);
    if (format)
        fail_next(err, "begin a script with its interpreter, such as #!/bin/sh");
    else if (reason == ENOENT)
        fail_next(err, "see whether the interpreter in its first line exists");
    return status;
}

/* 0 when the child runs its program, else why not. */
static int hear(int word)
{
    int reason = 0;
    ssize_t got;
    do
        got = read(word, &reason, sizeof reason);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof reason ? reason : 0;
}

tri_status process_start(const struct process_plan *plan, struct process *out, tri_error *err)
{
    struct pipes pipes;
    tri_status status = open_pipes(&pipes, err);
    if (status != TRI_OK)
        return status;
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        become(plan, &pipes, parent);
    if (pid < 0) {
        fail_errno(err, TRI_EIO, "cannot start a process");
        fail_next(err, "raise the limit on processes (ulimit -u), or start fewer");
        close_pipes(&pipes);
        return TRI_EIO;
    }
    process_close(&pipes.word[1]);
    int reason = hear(pipes.word[0]);
    if (reason != 0) {
        (void)waitpid(pid, NULL, 0);
        close_pipes(&pipes);
        return cannot_run(plan, reason, err);
    }
    *out = (struct process){.pid = pid, .out = pipes.out[0], .err = pipes.err[0]};
    pipes.out[0] = pipes.err[0] = -1;
    close_pipes(&pipes);
    return TRI_OK;
}

/* ---- ending ---- */

bool process_ended(const struct process *process, struct process_end *end)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
        info.si_pid == 0)
        return false;
    bool exited = info.si_code == CLD_EXITED;
    *end = (struct process_end){.code = exited ? info.si_status : 0,
                                .signal = exited ? 0 : info.si_status};
    return true;
}

void process_signal(const struct process *process, int number)
{
    if (process->pid > 0)
        (void)kill(-process->pid, number);
}

void process_reap(struct process *process)
{
    if (process->pid > 0) {
        process_signal(process, SIGKILL);
        while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        process->pid = 0;
    }
    process_close(&process->out);
    process_close(&process->err);
}

const char *process_signal_name(int number, char out[PROCESS_SIGNAL_TEXT])
{
    const char *name = sigabbrev_np(number);
    if (name != NULL)
        (void)snprintf(out, PROCESS_SIGNAL_TEXT, "SIG%s", name);
    else
        (void)snprintf(out, PROCESS_SIGNAL_TEXT, "signal %d", number);
    return out;
}

/* ---- signals of this process ---- */

static void add_unless_ignored(sigset_t *set, int number)
{
    struct sigaction now;
    if (sigaction(number, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaddset(set, number);
}

tri_status process_signals_open(struct process_signals *signals, tri_error *err)
{
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    add_unless_ignored(&wanted, SIGINT);
    add_unless_ignored(&wanted, SIGTERM);
    add_unless_ignored(&wanted, SIGHUP);
    if (!fill_low())
        return fail_errno(err, TRI_EIO, "cannot open /dev/null");
    signals->fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd < 0)
        return fail_errno(err, TRI_EIO, "cannot wait for signals");
    struct sigaction usual = {.sa_handler = SIG_DFL}, ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGCHLD, &usual,
                    &signals->child); /* if ignored, no child could be waited for */
    (void)sigaction(SIGPIPE, &ignore, &signals->pipe);
    (void)sigprocmask(SIG_BLOCK, &wanted, &signals->mask);
    return TRI_OK;
}

int process_signals_next(const struct process_signals *signals)
{
    struct signalfd_siginfo info;
    ssize_t got = read(signals->fd, &info, sizeof info);
    return got == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

void process_signals_close(struct process_signals *signals)
{
    while (process_signals_next(signals) != 0) /* a late Ctrl-C is not to end us now */
        continue;
    process_close(&signals->fd);
    (void)sigaction(SIGCHLD, &signals->child, NULL);
    (void)sigaction(SIGPIPE, &signals->pipe, NULL);
    (void)sigprocmask(SIG_SETMASK, &signals->mask, NULL);
}

/* ---- the keeper ---- */

static void note_group(pid_t *groups, size_t max, pid_t word)
{
    pid_t from = word > 0 ? 0 : -word, to = word > 0 ? word : 0;
    for (size_t i = 0; i < max; i++)
        if (groups[i] == from) {
            groups[i] = to;
            return;
        }
}

/* Holds nothing open but its pipe: readers of our output must see its end. */
static _Noreturn void keep(int pipe, pid_t *groups, size_t max)
{
    (void)setsid();
    sigset_t all;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)dup2(pipe, 0);
    (void)close_range(1, ~0U, 0);
    pid_t word;
    ssize_t got;
    while ((got = read(0, &word, sizeof word)) == (ssize_t)sizeof word ||
           (got < 0 && errno == EINTR))
        if (got > 0)
            note_group(groups, max, word);
    for (size_t i = 0; i < max; i++)
        if (groups[i] > 0)
            (void)kill(-groups[i], SIGKILL);
    _exit(0);
}

tri_status process_keeper_open(struct process_keeper *keeper, size_t max, const struct mem *mem,
                               tri_error *err)
{
    int pair[2];
    pid_t *groups = mem_array(mem, max, sizeof *groups);
    if (groups == NULL)
        return fail_nomem(err, "a table of processes");
    if (pipe2(pair, O_CLOEXEC) < 0) {
        mem_free(mem, groups);
        return fail_errno(err, TRI_EIO, "cannot open a pipe");
    }
    pid_t pid = fork();
    if (pid == 0)
        keep(pair[0], groups, max);
    process_close(&pair[0]);
    if (pid < 0) {
        fail_errno(err, TRI_EIO, "cannot start a process");
        process_close(&pair[1]);
        mem_free(mem, groups);
        return TRI_EIO;
    }
    *keeper = (struct process_keeper){.mem = mem, .pid = pid, .groups = groups, .pipe = pair[1]};
    return TRI_OK;
}

static void tell(const struct process_keeper *keeper, pid_t word)
{
    ssize_t put = write(keeper->pipe, &word, sizeof word);
    (void)put; /* without a keeper the kernel still kills the leaders */
}

void process_keeper_add(const struct process_keeper *keeper, pid_t group)
{
    tell(keeper, group);
}

void process_keeper_remove(const struct process_keeper *keeper, pid_t group)
{
    tell(keeper, -group);
}

void process_keeper_close(struct process_keeper *keeper)
{
    process_close(&keeper->pipe);
    while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    mem_free(keeper->mem, keeper->groups);
}
