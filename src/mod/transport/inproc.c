/* inproc: the same calls between transports of one process, by copying. For tests.
 *
 * Addresses are "inproc:NAME"; "inproc:0" listens under a name of its own. All that two transports
 * share is guarded by one lock of the process; calls of the host are made without it. A message is
 * copied whole into the inbox of the other end, so none is ever half sent or half received. */
#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "mod/transport.h"
#include "os/poller.h"

enum {
    NAME = 64,
    RETRY_MS = 10,
    INBOX_BYTES = 32 << 20, /* full from here on: who sends more waits */
    ROUND_MESSAGES = 64,    /* sent to one peer in one round */
};

struct parcel {
    struct parcel *next;
    uint32_t peer; /* of the receiver: who sent it */
    size_t bytes;
    uint8_t data[];
};

enum state { NOT_THERE, CALLING, UP };

/* Guarded by the lock, apart from what only the owner uses. */
struct link {
    enum state state;
    struct transport *other; /* UP: in the list as long as this is set */
    uint32_t other_peer;     /* what the other end calls this one */
    bool asked;              /* CALLING: the other end has seen it */
    bool answered;           /* CALLING: the other end is up */
    bool closed;             /* UP: the other end is gone */
    bool blocked;            /* UP: its inbox was full */
    bool dropped;            /* the owner's */
    const char *why;         /* the owner's */
    char name[NAME];         /* CALLING: whom; else for logs */
    int64_t deadline_ms;     /* the owner's */
    int64_t retry_ms;        /* the owner's */
    uint8_t greeting[TRANSPORT_GREETING_BYTES];
};

struct transport {
    struct transport_options options;
    struct poller *poller;
    struct transport *next; /* lock */
    char name[NAME];
    bool called; /* lock: somebody wants to connect */
    struct link *links;
    atomic_bool *want;
    struct parcel *inbox, **inbox_end; /* lock */
    size_t inbox_bytes;                /* lock */
};

/* Whoever listens in this process: the one thing that two transports have in common. */
static struct {
    pthread_mutex_t lock;
    struct transport *first;
    uint64_t names;
} listeners = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock(void)
{
    (void)pthread_mutex_lock(&listeners.lock);
}

static void unlock(void)
{
    (void)pthread_mutex_unlock(&listeners.lock);
}

static struct transport *find(const char *name)
{
    struct transport *found = listeners.first;
    while (found != NULL && strcmp(found->name, name) != 0)
        found = found->next;
    return found;
}

static bool listens(const struct transport *transport)
{
    const struct transport *found = listeners.first;
    while (found != NULL && found != transport)
        found = found->next;
    return found != NULL;
}

/* ---- connecting ---- */

struct caller {
    struct transport *from;
    uint32_t peer; /* what it calls us */
    char name[NAME];
    uint8_t greeting[TRANSPORT_GREETING_BYTES];
};

/* Somebody who called and was not heard yet. */
static bool next_caller(struct transport *transport, struct caller *out)
{
    lock();
    bool found = false;
    for (struct transport *from = transport->called ? listeners.first : NULL;
         from != NULL && !found; from = from->next)
        for (uint32_t i = 0; i < from->options.peers && !found; i++) {
            struct link *link = &from->links[i];
            if (link->state != CALLING || link->asked || strcmp(link->name, transport->name) != 0)
                continue;
            link->asked = found = true;
            *out = (struct caller){.from = from, .peer = i};
            memcpy(out->name, from->name, sizeof out->name);
            memcpy(out->greeting, from->options.greeting, sizeof out->greeting);
        }
    transport->called = found;
    unlock();
    return found;
}

/* Two may call each other: the one with the larger greeting has its way. */
static bool may_come(const struct link *link, const struct transport *transport,
                     const struct caller *caller)
{
    return link->state == NOT_THERE ||
           (link->state == CALLING && !link->answered &&
            memcmp(caller->greeting, transport->options.greeting, sizeof caller->greeting) > 0);
}

static bool admit(struct transport *transport, uint32_t peer, const struct caller *caller)
{
    bool come = false;
    lock();
    struct link *link = &transport->links[peer];
    struct link *theirs = listens(caller->from) ? &caller->from->links[caller->peer] : NULL;
    if (theirs != NULL && theirs->state == CALLING && !theirs->answered &&
        may_come(link, transport, caller)) {
        come = theirs->answered = true;
        theirs->other = transport;
        theirs->other_peer = peer;
        memcpy(theirs->greeting, transport->options.greeting, sizeof theirs->greeting);
        *link = (struct link){.state = UP, .other = caller->from, .other_peer = caller->peer};
        memcpy(link->name, caller->name, sizeof link->name);
        poller_poke(caller->from->poller);
    }
    unlock();
    return come;
}

static void hear_callers(struct transport *transport)
{
    const struct transport_host *host = transport->options.host;
    struct caller caller;
    while (next_caller(transport, &caller)) {
        uint32_t peer = host->greeted(host->ctx, caller.greeting, caller.name);
        if (peer < transport->options.peers && admit(transport, peer, &caller))
            host->up(host->ctx, peer);
    }
}

static void call(struct link *link)
{
    lock();
    struct transport *to = find(link->name);
    link->asked = false;
    if (to != NULL) {
        to->called = true;
        poller_poke(to->poller);
    }
    unlock();
}

/* Of a link that is CALLING. */
static void go_on_calling(struct transport *transport, uint32_t peer)
{
    const struct transport_host *host = transport->options.host;
    struct link *link = &transport->links[peer];
    lock();
    bool answered = link->answered;
    unlock();
    if (answered && host->greeted(host->ctx, link->greeting, link->name) != peer) {
        link->dropped = true;
        link->why = "another process than was expected answers there";
    } else if (answered) {
        lock();
        link->state = UP;
        unlock();
        host->up(host->ctx, peer);
    } else if (poller_now_ms() >= link->deadline_ms) {
        link->dropped = true;
        link->why = "no answer in time";
    } else if (poller_now_ms() >= link->retry_ms) {
        link->retry_ms = poller_now_ms() + RETRY_MS;
        call(link);
    }
}

/* ---- down ---- */

/* Under the lock: the other end learns that there is none any more. */
static void part(struct link *link)
{
    struct transport *other = link->other;
    if (other == NULL)
        return;
    other->links[link->other_peer].closed = true;
    other->links[link->other_peer].other = NULL;
    link->other = NULL;
    poller_poke(other->poller);
}

static void throw_away(struct transport *transport, uint32_t peer)
{
    struct parcel **at = &transport->inbox;
    while (*at != NULL) {
        struct parcel *parcel = *at;
        if (parcel->peer == peer) {
            *at = parcel->next;
            transport->inbox_bytes -= parcel->bytes;
            mem_free(&mem_libc, parcel);
        } else {
            at = &parcel->next;
        }
    }
    transport->inbox_end = at;
}

static void take_down(struct transport *transport, uint32_t peer)
{
    const struct transport_host *host = transport->options.host;
    struct link *link = &transport->links[peer];
    const char *why = link->dropped ? link->why : "it closed the connection";
    lock();
    part(link);
    throw_away(transport, peer);
    *link = (struct link){0};
    unlock();
    host->down(host->ctx, peer, why);
}

/* ---- messages ---- */

/* One end takes the memory and the other gives it back, so it comes from neither's allocator. */
static struct parcel *pack(const struct transport_out *out)
{
    size_t bytes = out->head_bytes;
    for (size_t i = 0; i < TRANSPORT_RUNS; i++)
        bytes += out->runs[i].bytes;
    struct parcel *parcel = mem_libc.resize(mem_libc.ctx, NULL, sizeof *parcel + bytes);
    if (parcel == NULL)
        return NULL;
    parcel->next = NULL;
    memcpy(parcel->data, out->head, out->head_bytes);
    parcel->bytes = out->head_bytes;
    for (size_t i = 0; i < TRANSPORT_RUNS && out->runs[i].bytes > 0; i++) {
        memcpy(parcel->data + parcel->bytes, out->runs[i].at, out->runs[i].bytes);
        parcel->bytes += out->runs[i].bytes;
    }
    return parcel;
}

static bool has_room(struct link *link)
{
    lock();
    link->blocked = link->other != NULL && link->other->inbox_bytes >= INBOX_BYTES;
    bool room = link->other != NULL && !link->blocked;
    unlock();
    return room;
}

/* False: the other end is gone, and the parcel with it. */
static bool post(struct link *link, struct parcel *parcel)
{
    lock();
    struct transport *other = link->other;
    if (other != NULL) {
        parcel->peer = link->other_peer;
        *other->inbox_end = parcel;
        other->inbox_end = &parcel->next;
        other->inbox_bytes += parcel->bytes;
        poller_poke(other->poller);
    }
    unlock();
    return other != NULL;
}

/* False: there is nothing more to send on this socket, or no room. */
static bool send_one(struct transport *transport, uint32_t peer, uint32_t socket)
{
    const struct transport_host *host = transport->options.host;
    struct link *link = &transport->links[peer];
    struct transport_out out = {0};
    if (link->dropped || !has_room(link) || !host->next(host->ctx, peer, socket, &out))
        return false;
    struct parcel *parcel = pack(&out);
    if (parcel == NULL) {
        link->dropped = true;
        link->why = "no memory for a message";
    }
    if (parcel == NULL || !post(link, parcel)) {
        mem_free(&mem_libc, parcel);
        host->unsent(host->ctx, peer, &out);
        return false;
    }
    host->sent(host->ctx, peer, &out);
    return true;
}

static void send_some(struct transport *transport, uint32_t peer)
{
    for (uint32_t socket = 0; socket < transport->options.sockets; socket++)
        for (int i = 0; send_one(transport, peer, socket); i++)
            if (i == ROUND_MESSAGES) {
                atomic_store(&transport->want[peer], true);
                poller_poke(transport->poller);
                break;
            }
}

static void refuse(struct transport *transport, uint32_t peer, const char *what)
{
    const struct transport_host *host = transport->options.host;
    struct link *link = &transport->links[peer];
    link->dropped = true;
    link->why = "it sent what makes no sense";
    if (what != NULL)
        host->nonsense(host->ctx, peer, link->name, what);
}

static bool fits(const struct transport_in *in)
{
    size_t bytes = 0;
    for (size_t i = 0; i < TRANSPORT_RUNS; i++)
        bytes += in->runs[i].bytes;
    return bytes == in->header.data_len;
}

static void deliver(struct transport *transport, const struct parcel *parcel)
{
    const struct transport_host *host = transport->options.host;
    struct transport_in in = {.head = parcel->data + WIRE_HEADER_BYTES};
    tri_error err = {0};
    if (wire_header_decode(parcel->data, transport->options.limits, &in.header, &err) != TRI_OK) {
        refuse(transport, parcel->peer, err.text);
        return;
    }
    const uint8_t *data = in.head + in.header.head_len;
    assert(parcel->bytes == WIRE_HEADER_BYTES + in.header.head_len + (size_t)in.header.data_len);
    if (!host->place(host->ctx, parcel->peer, &in)) {
        refuse(transport, parcel->peer, NULL);
        return;
    }
    bool whole = wire_payload_check(&in.header, in.head, data, &err) == TRI_OK;
    if (!whole || !fits(&in)) {
        refuse(transport, parcel->peer, whole ? NULL : err.text);
        host->broken(host->ctx, parcel->peer, &in);
        return;
    }
    for (size_t i = 0; i < TRANSPORT_RUNS; data += in.runs[i++].bytes)
        if (in.runs[i].at != NULL && in.runs[i].bytes > 0)
            memcpy(in.runs[i].at, data, in.runs[i].bytes);
    if (!host->done(host->ctx, parcel->peer, &in))
        refuse(transport, parcel->peer, NULL);
}

static struct parcel *take_parcel(struct transport *transport)
{
    lock();
    struct parcel *parcel = transport->inbox;
    if (parcel != NULL) {
        transport->inbox = parcel->next;
        if (transport->inbox == NULL)
            transport->inbox_end = &transport->inbox;
        transport->inbox_bytes -= parcel->bytes;
        struct link *link = &transport->links[parcel->peer];
        if (link->other != NULL && link->other->links[link->other_peer].blocked) {
            struct transport *other = link->other;
            other->links[link->other_peer].blocked = false;
            atomic_store(&other->want[link->other_peer], true);
            poller_poke(other->poller);
        }
    }
    unlock();
    return parcel;
}

static void empty_inbox(struct transport *transport)
{
    struct parcel *parcel;
    for (int i = 0; i < ROUND_MESSAGES && (parcel = take_parcel(transport)) != NULL; i++) {
        struct link *link = &transport->links[parcel->peer];
        if (link->state == CALLING && !link->dropped)
            go_on_calling(transport, parcel->peer); /* it answered after it was last looked at */
        if (link->state == UP && !link->dropped)
            deliver(transport, parcel);
        mem_free(&mem_libc, parcel);
    }
}

/* ---- the table ---- */

/* What happens to one peer in a round. */
static void serve(struct transport *transport, uint32_t peer)
{
    struct link *link = &transport->links[peer];
    if (link->state == UP && atomic_exchange(&transport->want[peer], false))
        send_some(transport, peer);
    lock();
    bool over = link->closed && transport->inbox == NULL;
    unlock();
    if (link->dropped || over)
        take_down(transport, peer);
}

static int wait_ms(const struct transport *transport, int timeout_ms)
{
    lock();
    for (uint32_t i = 0; i < transport->options.peers; i++) {
        const struct link *link = &transport->links[i];
        if (link->dropped || link->closed)
            timeout_ms = 0;
        else if (link->state == CALLING && (timeout_ms < 0 || timeout_ms > RETRY_MS))
            timeout_ms = RETRY_MS;
    }
    if (transport->inbox != NULL)
        timeout_ms = 0;
    unlock();
    return timeout_ms;
}

static tri_status inproc_poll(struct transport *transport, int timeout_ms, tri_error *err)
{
    tri_status status = poller_wait(transport->poller, wait_ms(transport, timeout_ms), err);
    if (status != TRI_OK)
        return status;
    hear_callers(transport);
    for (uint32_t i = 0; i < transport->options.peers; i++)
        if (transport->links[i].state == CALLING && !transport->links[i].dropped)
            go_on_calling(transport, i);
    empty_inbox(transport);
    for (uint32_t i = 0; i < transport->options.peers; i++)
        serve(transport, i);
    return TRI_OK;
}

static void inproc_send(struct transport *transport, uint32_t peer)
{
    atomic_store(&transport->want[peer], true);
    poller_poke(transport->poller);
}

static void inproc_wake(struct transport *transport)
{
    poller_poke(transport->poller);
}

static void inproc_drop(struct transport *transport, uint32_t peer)
{
    struct link *link = &transport->links[peer];
    if (link->state == NOT_THERE || link->dropped)
        return;
    link->dropped = true;
    link->why = "dropped by this process";
}

static const char *inproc_address(const struct transport *transport)
{
    return transport->name;
}

static tri_status check_name(const char *name, tri_error *err)
{
    if (strncmp(name, "inproc:", 7) == 0 && name[7] != '\0' && strlen(name) < NAME)
        return TRI_OK;
    fail(err, TRI_EINPUT, "'%s' is not an address", name);
    fail_next(err, "write inproc: and a name, or inproc:0 for any");
    return TRI_EINPUT;
}

static tri_status inproc_connect(struct transport *transport, uint32_t peer, const char *address,
                                 tri_error *err)
{
    if (peer >= transport->options.peers)
        return fail(err, TRI_EARG, "there is no peer %" PRIu32, peer);
    tri_status status = check_name(address, err);
    if (status != TRI_OK)
        return status;
    struct link *link = &transport->links[peer];
    if (link->state != NOT_THERE)
        return fail(err, TRI_EARG, "peer %" PRIu32 " is connected already", peer);
    lock();
    *link = (struct link){.state = CALLING, .asked = true};
    link->deadline_ms = poller_now_ms() + transport->options.connect_ms;
    memcpy(link->name, address, strlen(address));
    unlock();
    poller_poke(transport->poller);
    return TRI_OK;
}

static void inproc_close(struct transport *transport)
{
    if (transport == NULL)
        return;
    const struct mem *mem = transport->options.mem;
    lock();
    struct transport **at = &listeners.first;
    while (*at != NULL && *at != transport)
        at = &(*at)->next;
    if (*at != NULL)
        *at = transport->next;
    for (uint32_t i = 0; transport->links != NULL && i < transport->options.peers; i++)
        part(&transport->links[i]);
    unlock();
    for (struct parcel *parcel = transport->inbox, *next; parcel != NULL; parcel = next) {
        next = parcel->next;
        mem_free(&mem_libc, parcel);
    }
    poller_close(transport->poller);
    mem_free(mem, transport->links);
    mem_free(mem, (void *)transport->want);
    mem_free(mem, transport);
}

static tri_status begin_to_listen(struct transport *transport, const char *name, tri_error *err)
{
    lock();
    if (strcmp(name, "inproc:0") == 0)
        (void)snprintf(transport->name, NAME, "inproc:#%" PRIu64, ++listeners.names);
    else
        memcpy(transport->name, name, strlen(name));
    bool taken = find(transport->name) != NULL;
    if (!taken) {
        transport->next = listeners.first;
        listeners.first = transport;
    }
    unlock();
    if (!taken)
        return TRI_OK;
    fail(err, TRI_EIO, "cannot listen on %s: somebody does", name);
    fail_next(err, "choose another name, or inproc:0");
    return TRI_EIO;
}

static tri_status inproc_open(const struct transport_options *options, struct transport **out,
                              tri_error *err)
{
    tri_status status = check_name(options->listen, err);
    if (status != TRI_OK)
        return status;
    struct transport *transport = mem_array(options->mem, 1, sizeof *transport);
    if (transport == NULL)
        return fail_nomem(err, "a transport");
    transport->options = *options;
    transport->inbox_end = &transport->inbox;
    transport->links = mem_array(options->mem, options->peers, sizeof(struct link));
    transport->want = mem_array(options->mem, options->peers, sizeof(atomic_bool));
    status = poller_open(options->mem, &transport->poller, err);
    if (status == TRI_OK && (transport->links == NULL || transport->want == NULL))
        status = fail_nomem(err, "a transport");
    if (status == TRI_OK)
        status = begin_to_listen(transport, options->listen, err);
    if (status != TRI_OK) {
        inproc_close(transport);
        return status;
    }
    *out = transport;
    return TRI_OK;
}

extern const struct transport_ops transport_inproc;
const struct transport_ops transport_inproc = {
    .name = "inproc",
    .summary = "between threads of one process, for tests",
    .open = inproc_open,
    .close = inproc_close,
    .address = inproc_address,
    .connect = inproc_connect,
    .send = inproc_send,
    .wake = inproc_wake,
    .drop = inproc_drop,
    .poll = inproc_poll,
};
