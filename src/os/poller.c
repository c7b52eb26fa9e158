/* epoll, and an eventfd that is written only when somebody sleeps. */
#include "os/poller.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64 };

struct poller {
    const struct mem *mem;
    int epoll;
    int event;
    /* poker: poked = true, then asleep? Sleeper: asleep = true, then poked? All in one order, so
     * that at least one of them sees the other. */
    atomic_bool poked;
    atomic_bool asleep;
    struct epoll_event batch[BATCH];
    int batch_at, batch_count;
};

tri_status poller_open(const struct mem *mem, struct poller **out, tri_error *err)
{
    struct poller *poller = mem_array(mem, 1, sizeof *poller);
    if (poller == NULL)
        return fail_nomem(err, "a poller");
    poller->mem = mem;
    poller->epoll = epoll_create1(EPOLL_CLOEXEC);
    poller->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    if (poller->epoll < 0 || poller->event < 0 ||
        epoll_ctl(poller->epoll, EPOLL_CTL_ADD, poller->event, &event) != 0) {
        (void)fail_errno(err, TRI_EIO, "cannot make descriptors to wait with");
        fail_next(err, "see how many are open, and the limit with  ulimit -n");
        poller_close(poller);
        return TRI_EIO;
    }
    *out = poller;
    return TRI_OK;
}

void poller_close(struct poller *poller)
{
    if (poller == NULL)
        return;
    if (poller->epoll >= 0)
        (void)close(poller->epoll);
    if (poller->event >= 0)
        (void)close(poller->event);
    mem_free(poller->mem, poller);
}

tri_status poller_add(struct poller *poller, struct poller_source *source, tri_error *err)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = source};
    if (epoll_ctl(poller->epoll, EPOLL_CTL_ADD, source->fd, &event) != 0)
        return fail_errno(err, TRI_EIO, "cannot wait for a descriptor");
    return TRI_OK;
}

void poller_remove(struct poller *poller, struct poller_source *source)
{
    struct epoll_event event = {0};
    (void)epoll_ctl(poller->epoll, EPOLL_CTL_DEL, source->fd, &event);
    for (int i = poller->batch_at; i < poller->batch_count; i++)
        if (poller->batch[i].data.ptr == source)
            poller->batch[i].data.ptr = NULL;
}

static unsigned meaning(uint32_t events)
{
    unsigned what = 0;
    if ((events & EPOLLIN) != 0)
        what |= POLLER_READ;
    if ((events & EPOLLOUT) != 0)
        what |= POLLER_WRITE;
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
        what |= POLLER_END;
    return what;
}

tri_status poller_wait(struct poller *poller, int timeout_ms, tri_error *err)
{
    bool sleeps = timeout_ms != 0;
    if (sleeps) {
        atomic_store(&poller->asleep, true);
        if (atomic_load(&poller->poked))
            timeout_ms = 0;
    }
    int count = epoll_wait(poller->epoll, poller->batch, BATCH, timeout_ms);
    int why = errno;
    if (sleeps)
        atomic_store(&poller->asleep, false);
    atomic_store(&poller->poked, false);
    errno = why;
    if (count < 0 && errno != EINTR)
        return fail_errno(err, TRI_EIO, "cannot wait for the network");
    poller->batch_count = count > 0 ? count : 0;
    for (poller->batch_at = 0; poller->batch_at < poller->batch_count;) {
        struct epoll_event event = poller->batch[poller->batch_at++];
        struct poller_source *source = event.data.ptr;
        if (source != NULL) {
            source->ready(source, meaning(event.events));
        } else {
            uint64_t
                forgotten; /* a source that was removed leaves NULL, too: then nothing is read */
            (void)!read(poller->event, &forgotten, sizeof forgotten);
        }
    }
    return TRI_OK;
}

void poller_poke(struct poller *poller)
{
    atomic_store(&poller->poked, true);
    if (atomic_exchange(&poller->asleep, false)) {
        int why = errno; /* of the thread that a signal handler interrupted */
        const uint64_t one = 1;
        (void)!write(poller->event, &one, sizeof one);
        errno = why;
    }
}

int64_t poller_now_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
