/* Event counts on futex words.
 *
 * Taking a key and waking are both read-modify-writes of the one word, so one of the two comes
 * first. If the waker does, the waiter's second look sees what it wrote; if the waiter does, the
 * waker sees the bit. No fence is needed beside that. */
#include "os/event.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WAITING = 1 };

uint32_t event_key(uint32_t *event)
{
    return __atomic_fetch_or(event, WAITING, __ATOMIC_ACQ_REL) | WAITING;
}

bool event_wait(uint32_t *event, uint32_t key, uint32_t timeout_ms)
{
    struct timespec most = {.tv_sec = (time_t)(timeout_ms / 1000),
                            .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    /* Not FUTEX_PRIVATE: the others may be in other processes. */
    long wrong = syscall(SYS_futex, event, FUTEX_WAIT, key, &most, NULL, 0);
    return wrong == 0 || errno != ETIMEDOUT;
}

bool event_wake(uint32_t *event)
{
    uint32_t seen = __atomic_fetch_or(event, 0, __ATOMIC_ACQ_REL);
    while ((seen & WAITING) != 0)
        if (__atomic_compare_exchange_n(event, &seen, seen + 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            (void)syscall(SYS_futex, event, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
            return true;
        }
    return false;
}

void event_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
