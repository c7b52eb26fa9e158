/* Robust locks by pthreads. */
#include "os/robust.h"

#include <errno.h>
#include <time.h>

tri_status robust_init(pthread_mutex_t *lock, tri_error *err)
{
    pthread_mutexattr_t how;
    int wrong = pthread_mutexattr_init(&how);
    if (wrong == 0) {
        (void)pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
        (void)pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
        wrong = pthread_mutex_init(lock, &how);
        (void)pthread_mutexattr_destroy(&how);
    }
    errno = wrong;
    return wrong == 0 ? TRI_OK : fail_errno(err, TRI_EIO, "cannot make a lock in shared memory");
}

/* The clock of pthread_mutex_timedlock() is the wall's. When that is set back the wait gets longer,
 * so a caller that must not be late asks for short waits and looks at a better clock itself. */
static struct timespec until(uint32_t timeout_ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += (time_t)(timeout_ms / 1000);
    at.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
/* ThreadSanitizer knows what a dead owner means for a try, and not for a timed wait. */
static int timed_lock(pthread_mutex_t *lock, const struct timespec *at)
{
    for (;;) {
        struct timespec now, pause = {.tv_nsec = 1000000};
        int wrong = pthread_mutex_trylock(lock);
        (void)clock_gettime(CLOCK_REALTIME, &now);
        if (wrong != EBUSY)
            return wrong;
        if (now.tv_sec > at->tv_sec || (now.tv_sec == at->tv_sec && now.tv_nsec >= at->tv_nsec))
            return ETIMEDOUT;
        (void)nanosleep(&pause, NULL);
    }
}
#define pthread_mutex_timedlock timed_lock
#endif
#endif

enum robust_got robust_lock(pthread_mutex_t *lock, uint32_t timeout_ms)
{
    struct timespec at = until(timeout_ms);
    switch (pthread_mutex_timedlock(lock, &at)) {
    case 0:
        return ROBUST_HELD;
    case EOWNERDEAD:
        (void)pthread_mutex_consistent(lock);
        return ROBUST_TAKEN_UP;
    case ETIMEDOUT:
        return ROBUST_TIMEOUT;
    default:
        return ROBUST_BROKEN;
    }
}

void robust_unlock(pthread_mutex_t *lock)
{
    (void)pthread_mutex_unlock(lock);
}
