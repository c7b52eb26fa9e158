/* A disk that takes as long as a test wants: fsync() of this program waits while the disk is slow.
 * For the one file of a test program. */
#ifndef TRIDENT_TESTS_LIB_SLOW_DISK_H
#define TRIDENT_TESTS_LIB_SLOW_DISK_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    bool slow;
    unsigned waiting;
} slow_disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int fsync(int fd)
{
    (void)pthread_mutex_lock(&slow_disk.lock);
    slow_disk.waiting++;
    (void)pthread_cond_broadcast(&slow_disk.changed);
    while (slow_disk.slow)
        (void)pthread_cond_wait(&slow_disk.changed, &slow_disk.lock);
    slow_disk.waiting--;
    (void)pthread_mutex_unlock(&slow_disk.lock);
    return (int)syscall(SYS_fsync, fd);
}

static inline void slow_disk_set(bool slow)
{
    (void)pthread_mutex_lock(&slow_disk.lock);
    slow_disk.slow = slow;
    (void)pthread_cond_broadcast(&slow_disk.changed);
    (void)pthread_mutex_unlock(&slow_disk.lock);
}

/* Until somebody waits for it. */
static inline void slow_disk_await(void)
{
    (void)pthread_mutex_lock(&slow_disk.lock);
    while (slow_disk.waiting == 0)
        (void)pthread_cond_wait(&slow_disk.changed, &slow_disk.lock);
    (void)pthread_mutex_unlock(&slow_disk.lock);
}

#endif
