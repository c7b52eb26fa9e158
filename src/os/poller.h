/* Waiting for many descriptors at once, and being woken.
 *
 * Edges, not levels: a source hears once that it became readable or writable, and must go on until
 * it would block, or remember that it did not. */
#ifndef TRIDENT_OS_POLLER_H
#define TRIDENT_OS_POLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    POLLER_READ = 1,  /* there are bytes, or connections */
    POLLER_WRITE = 2, /* there is room */
    POLLER_END = 4,   /* the other end closed, or the connection broke: read to the end */
};

/* Something with a descriptor: part of what it belongs to. */
struct poller_source {
    int fd;
    void (*ready)(struct poller_source *source, unsigned what); /* from poller_wait() */
};

struct poller; /* one thread's, apart from poller_poke() */

tri_status poller_open(const struct mem *mem, struct poller **out, tri_error *err);
void poller_close(struct poller *poller); /* NULL is fine; sources need not be removed before */

/* TRI_EIO when the system refuses, TRI_OK else. */
tri_status poller_add(struct poller *poller, struct poller_source *source, tri_error *err);

/* Before the descriptor is closed. ready() is not called any more, also when it is called of. */
void poller_remove(struct poller *poller, struct poller_source *source);

/* Calls ready() of all sources that are, after at most timeout_ms (negative: no limit), and sooner
 * when poked. TRI_EIO when the system cannot wait. */
tri_status poller_wait(struct poller *poller, int timeout_ms, tri_error *err);

/* Ends a poller_wait(), this one or the next. What was written before it is seen after that. From
 * any thread, and from a signal handler. */
void poller_poke(struct poller *poller);

/* Milliseconds of a clock that only runs forward. */
int64_t poller_now_ms(void);

#ifdef __cplusplus
}
#endif

#endif
