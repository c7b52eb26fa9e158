/* Forking, watching and measuring some processes. */
#include "bench/crew.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- processes ---- */

struct crew_board *crew_board_open(tri_error *err)
{
    void *at = mmap(NULL, sizeof(struct crew_board), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED)
        return at;
    (void)fail_errno(err, TRI_ENOMEM, "cannot map memory for several processes");
    return NULL;
}

void crew_board_close(struct crew_board *board)
{
    if (board != NULL)
        (void)munmap(board, sizeof *board);
}

static void be(const struct crew *crew, uint32_t number, struct crew_board *board)
{
    tri_error err = {0};
    char name[16];
    (void)snprintf(name, sizeof name, "%.12s %u", crew->name, (unsigned)number);
    (void)prctl(PR_SET_NAME, name);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    atomic_store(&board->pids[number], (int)getpid());
    tri_status status = crew->body(crew->ctx, number, board, &err);
    board->ends[number].err = err;
    board->ends[number].status = status;
    _exit(status == TRI_OK ? 0 : 1);
}

static void kill_all(const pid_t *pids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (pids[i] > 0)
            (void)kill(pids[i], SIGKILL);
}

static tri_status tell(const struct crew_board *board, uint32_t number, int how, tri_error *err)
{
    tri_status status = board->ends[number].status;
    if (status != TRI_OK && err != NULL)
        *err = board->ends[number].err;
    else if (status == TRI_OK)
        status = fail(err, TRI_EIO, "process %u of the benchmark ended by signal %d",
                      (unsigned)number, WIFSIGNALED(how) ? WTERMSIG(how) : 0);
    return status;
}

/* Waits for all; when one fails the others are ended. */
static tri_status await(const struct crew_board *board, pid_t *pids, uint32_t count, tri_error *err)
{
    tri_status status = TRI_OK;
    for (uint32_t left = count; left > 0;) {
        int how = 0;
        pid_t pid = waitpid(-1, &how, 0);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            return fail_errno(err, TRI_EIO, "cannot wait for the processes of the benchmark");
        for (uint32_t i = 0; i < count; i++) {
            if (pids[i] != pid)
                continue;
            pids[i] = 0;
            left--;
            if (how != 0 && status == TRI_OK) {
                status = tell(board, i, how, err);
                kill_all(pids, count);
            }
        }
    }
    return status;
}

tri_status crew_run(const struct crew *crew, struct crew_board *board, tri_error *err)
{
    pid_t pids[CREW_MAX] = {0};
    memset(board, 0, sizeof *board);
    (void)fflush(NULL);
    for (uint32_t i = 0; i < crew->count; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            be(crew, i, board);
        if (pids[i] < 0) {
            tri_status status = fail_errno(err, TRI_EIO, "cannot start a process");
            kill_all(pids, i);
            (void)await(board, pids, i, NULL);
            return status;
        }
    }
    return await(board, pids, crew->count, err);
}

/* ---- the window ---- */

double crew_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

float *crew_floats(size_t count)
{
    void *at = mmap(NULL, count * sizeof(float), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at != MAP_FAILED ? at : NULL;
}

/* Of all threads of all processes until now. */
static double cpu_s(struct crew_board *board, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        clockid_t clock;
        struct timespec used;
        int pid = atomic_load(&board->pids[i]);
        if (pid > 0 && clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &used) == 0)
            sum += (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    }
    return sum;
}

static uint64_t work_of(struct crew_board *board, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += atomic_load(&board->work[i]);
    return sum;
}

void crew_watch_start(struct crew_watch *watch, struct crew_board *board, uint32_t count)
{
    watch->board = board;
    watch->count = count;
    watch->work = work_of(board, count);
    watch->cpu_s = cpu_s(board, count);
    watch->start_s = crew_now_s();
}

double crew_watch_seconds(const struct crew_watch *watch)
{
    return crew_now_s() - watch->start_s;
}

void crew_watch_stop(const struct crew_watch *watch)
{
    struct crew_board *board = watch->board;
    board->seconds = crew_watch_seconds(watch);
    board->cpu_s = cpu_s(board, watch->count) - watch->cpu_s;
    board->work_s = (double)(work_of(board, watch->count) - watch->work) / board->seconds;
}

/* Rank 0 has not begun iteration i. Another rank may have begun i + 1, and then waits for updates
 * of i; none has come to i + 2. */
bool crew_goes_on(struct crew_loop *loop, uint64_t iteration)
{
    struct crew_board *board = loop->board;
    uint64_t stop = atomic_load(&board->stop);
    if (stop != 0 || loop->rank != 0)
        return stop == 0 || iteration < stop;
    if (iteration == loop->warm_up)
        crew_watch_start(&loop->watch, board, loop->processes);
    if (iteration > loop->warm_up && crew_watch_seconds(&loop->watch) >= loop->seconds) {
        crew_watch_stop(&loop->watch);
        atomic_store(&board->stop, iteration + 2);
    }
    return true;
}

/* ---- jobs ---- */

uint16_t crew_port(tri_error *err)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&name, len) == 0 &&
              getsockname(fd, (struct sockaddr *)&name, &len) == 0;
    if (!ok)
        (void)fail_errno(err, TRI_EIO, "cannot find a free port");
    if (fd >= 0)
        (void)close(fd);
    return ok ? ntohs(name.sin_port) : 0;
}

static void set_number(const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    (void)setenv(name, text, 1);
}

void crew_environment(const struct crew_job *job, uint32_t number)
{
    static const char *const others[] = {"RANK",         "WORLD_SIZE",   "LOCAL_WORLD_SIZE",
                                         "TRIDENT_RANK", "TRIDENT_NODE", "TRIDENT_SCHEME"};
    char address[80];
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        (void)unsetenv(others[i]);
    (void)snprintf(address, sizeof address, "%.60s:%u",
                   job->address != NULL ? job->address : "127.0.0.1", (unsigned)job->port);
    (void)setenv("TRIDENT_JOB", "bench", 1);
    (void)setenv("TRIDENT_TOKEN", "bench", 1);
    (void)setenv("TRIDENT_COORDINATOR", address, 1);
    set_number("TRIDENT_WORKERS", job->workers);
    set_number("TRIDENT_SERVERS", job->servers > 0 ? job->servers : job->workers);
    (void)setenv("TRIDENT_COLOCATE", job->servers > 0 ? "no" : "yes", 1);
    (void)setenv("TRIDENT_REPRODUCIBLE", job->unordered ? "off" : "on", 1);
    if (job->chunk > 0)
        set_number("TRIDENT_CHUNK", job->chunk);
    if (number < job->workers) {
        set_number("TRIDENT_RANK", number);
        set_number("LOCAL_WORLD_SIZE", job->workers);
    } else {
        set_number("TRIDENT_NODE", number);
    }
}
