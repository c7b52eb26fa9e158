/* Identity of processes, from /proc. */
#include "os/alive.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { START_FIELD = 22, STATE_FIELD = 3 };

struct seen {
    char state;
    uint64_t start;
};

/* The name of the program, the second field, is in brackets and may hold brackets and blanks. */
static bool read_stat(uint64_t pid, struct seen *out)
{
    char path[48], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    if (len <= 0)
        return false;
    text[len] = '\0';
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] == '\0')
        return false;
    at += 2;
    out->state = *at;
    for (int field = STATE_FIELD; field < START_FIELD; field++) {
        at = strchr(at, ' ');
        if (at == NULL)
            return false;
        at++;
    }
    out->start = strtoull(at, NULL, 10);
    return true;
}

struct alive_id alive_self(void)
{
    struct alive_id id = {.pid = (uint64_t)getpid()};
    struct seen seen;
    if (read_stat(id.pid, &seen))
        id.start = seen.start;
    return id;
}

bool alive_is(const struct alive_id *id)
{
    struct seen seen;
    if (id->pid == 0)
        return false;
    if (!read_stat(id->pid, &seen)) /* gone, or /proc is not there */
        return kill((pid_t)id->pid, 0) == 0 || errno == EPERM;
    return seen.state != 'Z' && seen.state != 'X' && (id->start == 0 || id->start == seen.start);
}

bool alive_kill(const struct alive_id *id)
{
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)id->pid, 0);
    if (fd < 0)
        return false;
    /* The descriptor holds whoever has the number now: looked at before the shot, so that it cannot
     * hit another. */
    bool shot = alive_is(id) && syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0;
    close(fd);
    return shot;
}
