/* The list of processes that have ended, for those that wait for all to join: they do not wait for
 * one that cannot come. It is a file in memory, which they find through /proc and which goes away
 * with this process. Where it cannot be had they wait as long as without it. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/run_watch.h"

void run_ended_open(struct run_watch *watch, struct run_job *job)
{
    watch->ended_fd = memfd_create("trident-ended", MFD_CLOEXEC);
    job->ended[0] = '\0';
    if (watch->ended_fd >= 0)
        (void)snprintf(job->ended, sizeof job->ended, "/proc/%ld/fd/%d", (long)getpid(),
                       watch->ended_fd);
}

void run_ended_close(struct run_watch *watch)
{
    process_close(&watch->ended_fd);
}

void run_ended_add(struct run_watch *watch, const char *line, size_t len)
{
    if (watch->ended_fd >= 0 && write(watch->ended_fd, line, len) < 0)
        process_close(&watch->ended_fd);
}

void run_ended_note(struct run_watch *watch, const struct run_child *child)
{
    char line[120], name[PROCESS_SIGNAL_TEXT];
    if (watch->request->deputy != NULL) /* it is told, as those on other hosts are */
        return;
    if (child->lost)
        (void)snprintf(line, sizeof line, "%zu is lost with its host\n", child->number);
    else if (child->end.signal != 0)
        (void)snprintf(line, sizeof line, "%zu was killed by %s\n", child->number,
                       process_signal_name(child->end.signal, name));
    else
        (void)snprintf(line, sizeof line, "%zu exited with %d\n", child->number, child->end.code);
    run_ended_add(watch, line, strlen(line));
    if (watch->links != NULL)
        run_links_tell_ended(watch, line, strlen(line));
}
