/* Robust locks: mutexes in shared memory that survive who held them. */
#ifndef TRIDENT_OS_ROBUST_H
#define TRIDENT_OS_ROBUST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum robust_got {
    ROBUST_HELD,     /* it is the caller's */
    ROBUST_TAKEN_UP, /* it is, and who held it before died: what it protects may be half done */
    ROBUST_TIMEOUT,
    ROBUST_BROKEN, /* its memory is damaged */
};

tri_status robust_init(pthread_mutex_t *lock, tri_error *err); /* TRI_EIO */
enum robust_got robust_lock(pthread_mutex_t *lock, uint32_t timeout_ms);
void robust_unlock(pthread_mutex_t *lock);

#ifdef __cplusplus
}
#endif

#endif
