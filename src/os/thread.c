#include "os/thread.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOWER = 10 };

uint32_t thread_cpu(void)
{
    return (uint32_t)sched_getcpu();
}

/* The priority of a single thread, which Linux has as that of a process with the thread's number.
 * From where it is: a process that was put back itself must not be put forward. */
void thread_step_back(void)
{
    id_t thread = (id_t)syscall(SYS_gettid);
    (void)setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + LOWER);
}
