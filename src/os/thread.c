/* The priority of a single thread, which Linux has as that of a process with the thread's number.
 */
#include "os/thread.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOWER = 10 };

void thread_step_back(void)
{
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOWER);
}
