/* Starting mpirun, and reading the number that comes back. */
#include "bench/mpi.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What `what` prints, cut to fit; false: it did not end with 0. */
static bool read_from(char *const *what, bool quiet, char *to, size_t room)
{
    int ends[2], how = 0;
    size_t len = 0;
    to[0] = '\0';
    if (pipe(ends) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        const int null = quiet ? open("/dev/null", O_RDWR) : -1;
        (void)dup2(ends[1], STDOUT_FILENO);
        if (null >= 0)
            (void)dup2(null, STDERR_FILENO);
        (void)execvp(what[0], what);
        _exit(127);
    }
    (void)close(ends[1]);
    for (ssize_t n = 1; pid > 0 && n > 0 && len + 1 < room; len += n > 0 ? (size_t)n : 0)
        n = read(ends[0], to + len, room - 1 - len);
    to[len] = '\0';
    (void)close(ends[0]);
    return pid > 0 && waitpid(pid, &how, 0) == pid && how == 0;
}

bool mpi_find(struct mpi *out, const char **why)
{
    char *const ask[] = {(char[]){"mpirun"}, (char[]){"--version"}, NULL};
    char own[MPI_PATH] = "", text[200];
    const ssize_t len = readlink("/proc/self/exe", own, sizeof own - 1);
    char *slash = len > 0 ? strrchr(own, '/') : NULL;
    if (slash != NULL)
        *slash = '\0';
    (void)snprintf(out->program, sizeof out->program, "%.400s/peers/mpi_learners", own);
    *why = NULL;
    if (!read_from(ask, true, text, sizeof text) || strstr(text, "Open MPI") == NULL)
        *why = "mpirun of Open MPI (openmpi-bin) is not installed";
    else if (slash == NULL || access(out->program, X_OK) != 0)
        *why = "peers/mpi_learners is not beside the command; it is built where\nlibopenmpi-dev is";
    return *why == NULL;
}

/* vader is shared memory, with one copy from process to process where the kernel lets it. More
 * processes than cores: who waits must let others run, and none may be tied to a core. */
tri_status mpi_body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err)
{
    const struct mpi_run *run = ctx;
    char batch[16], warm_up[16], seconds[24], nap[16], text[64];
    (void)number;
    (void)snprintf(batch, sizeof batch, "%u", (unsigned)run->batch);
    (void)snprintf(warm_up, sizeof warm_up, "%u", (unsigned)run->net->warm_up);
    (void)snprintf(seconds, sizeof seconds, "%g", run->seconds);
    (void)snprintf(nap, sizeof nap, "%u", (unsigned)run->nap_us);
    const char *const words[] = {"mpirun",
                                 "--allow-run-as-root",
                                 "--oversubscribe",
                                 "--bind-to",
                                 "none",
                                 "--mca",
                                 "pml",
                                 "ob1",
                                 "--mca",
                                 "btl",
                                 "self,vader",
                                 "--mca",
                                 "mpi_yield_when_idle",
                                 "1",
                                 "-n",
                                 "3",
                                 run->mpi->program,
                                 run->net->name,
                                 batch,
                                 warm_up,
                                 seconds,
                                 nap,
                                 NULL};
    char *with[sizeof words / sizeof words[0]];
    memcpy(with, words, sizeof with);
    const bool ended = read_from(with, false, text, sizeof text);
    board->work_s = strtod(text, NULL);
    if (ended && board->work_s > 0)
        return TRI_OK;
    return fail(err, TRI_EIO, "Open MPI's learners failed; the lines above may say why");
}
