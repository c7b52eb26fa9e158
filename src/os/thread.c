#include "os/thread.h"

#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOWER = 10 };

uint32_t thread_cpu(void)
{
    return (uint32_t)sched_getcpu();
}

void thread_yield(void)
{
    (void)sched_yield();
}

void thread_move_off(const uint32_t *cpus, size_t count)
{
    cpu_set_t allowed, others;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    others = allowed;
    for (size_t i = 0; i < count; i++)
        if (cpus[i] < CPU_SETSIZE)
            CPU_CLR(cpus[i], &others);
    if (CPU_COUNT(&allowed) == sysconf(_SC_NPROCESSORS_ONLN))
        memset(&allowed, 0xff, sizeof allowed); /* no limit, also for processors that come later */
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
        (void)sched_setaffinity(0, sizeof allowed, &allowed);
}

/* The priority of a single thread, which Linux has as that of a process with the thread's number.
 * From where it is: a process that was put back itself must not be put forward. */
void thread_step_back(void)
{
    id_t thread = (id_t)syscall(SYS_gettid);
    (void)setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + LOWER);
}
