/* Connections until both ends have said who they are. */
#include "os/meet.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"

/* The first 16 bytes, all little-endian. Asking and answering differ so that an echo, or a
 * connection to oneself, is no answer. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_ROLE = 6,
    AT_INDEX = 8,
    AT_SOCKETS = 12,
    AT_GREETING = 16,
    VERSION = 1,
    ASKS = 1,
    ANSWERS = 2,
};
static const uint8_t magic[4] = {'T', 'R', 'I', 'P'};

enum { RETRY_FIRST_MS = 10, RETRY_MOST_MS = 500, ACCEPT_AT_ONCE = 64, WHY = 160 };

enum stage {
    PAUSED,     /* until at_ms, then it is tried again */
    CONNECTING, /* until writable */
    LISTENING,  /* to the words of the other end */
};

/* A connection that is being made, by a call or by a knock at the door. */
struct visit {
    struct poller_source source; /* fd -1 while paused */
    struct meet *meet;
    struct visit *prev, *next; /* by age, the oldest first */
    enum stage stage;
    int64_t at_ms; /* paused: when to go on; else: when patience ends */
    char address[NET_TEXT];
    uint8_t words[MEET_BYTES];
    size_t heard;
    /* Of calls; peer is MEET_NOBODY for knocks. */
    uint32_t peer, index;
    int64_t deadline_ms;
    int pause_ms;
    struct net_address addresses[NET_ADDRESSES];
    size_t address_count, address_at;
    char why[WHY]; /* the last try failed */
};

struct meet {
    struct meet_options options;
    struct poller_source door;
    struct visit *first, *last;
    size_t strangers;
    int spare; /* a descriptor to give up when there are no others: then one can be refused */
    bool knocked;
    char address[NET_TEXT];
};

/* ---- the list ---- */

static struct visit *visit_new(struct meet *meet, uint32_t peer)
{
    struct visit *visit = mem_array(meet->options.mem, 1, sizeof *visit);
    if (visit == NULL)
        return NULL;
    visit->source.fd = -1;
    visit->meet = meet;
    visit->peer = peer;
    visit->prev = meet->last;
    if (meet->last != NULL)
        meet->last->next = visit;
    else
        meet->first = visit;
    meet->last = visit;
    if (peer == MEET_NOBODY)
        meet->strangers++;
    return visit;
}

static void leave(struct visit *visit)
{
    if (visit->source.fd < 0)
        return;
    poller_remove(visit->meet->options.poller, &visit->source);
    net_close(visit->source.fd);
    visit->source.fd = -1;
}

static void visit_free(struct visit *visit)
{
    struct meet *meet = visit->meet;
    leave(visit);
    if (visit->prev != NULL)
        visit->prev->next = visit->next;
    else
        meet->first = visit->next;
    if (visit->next != NULL)
        visit->next->prev = visit->prev;
    else
        meet->last = visit->prev;
    if (visit->peer == MEET_NOBODY)
        meet->strangers--;
    mem_free(meet->options.mem, visit);
}

/* The connection came to nothing: a knock is forgotten, a call is tried again. */
static void fail_visit(struct visit *visit, const char *why)
{
    if (visit->peer == MEET_NOBODY) {
        visit_free(visit);
        return;
    }
    leave(visit);
    (void)snprintf(visit->why, sizeof visit->why, "%s: %s", visit->address, why);
    visit->stage = PAUSED;
    visit->at_ms = poller_now_ms() + visit->pause_ms;
    visit->pause_ms = visit->pause_ms * 2 < RETRY_MOST_MS ? visit->pause_ms * 2 : RETRY_MOST_MS;
    visit->address_at = (visit->address_at + 1) % visit->address_count;
}

static void nonsense(struct visit *visit, const char *what)
{
    const struct meet_host *host = visit->meet->options.host;
    host->nonsense(host->ctx, visit->peer, visit->address, what);
    fail_visit(visit, what);
}

/* ---- the words ---- */

static void put_u32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *in)
{
    return in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

/* A new connection has room for so few bytes, or it is broken. */
static bool say(struct visit *visit, uint8_t role, uint32_t index)
{
    const struct meet_options *options = &visit->meet->options;
    uint8_t words[MEET_BYTES] = {0};
    memcpy(words + AT_MAGIC, magic, sizeof magic);
    words[AT_VERSION] = VERSION;
    words[AT_ROLE] = role;
    put_u32(words + AT_INDEX, index);
    put_u32(words + AT_SOCKETS, options->sockets);
    memcpy(words + AT_GREETING, options->greeting, MEET_GREETING_BYTES);
    struct iovec run = {.iov_base = words, .iov_len = sizeof words};
    return net_send(visit->source.fd, &run, 1) == (ssize_t)sizeof words;
}

/* What is wrong with the words so far; false when nothing is. */
static bool wrong_words(const struct visit *visit, char out[WHY])
{
    const uint8_t *words = visit->words;
    size_t heard = visit->heard;
    uint8_t role = visit->peer == MEET_NOBODY ? ASKS : ANSWERS;
    if (memcmp(words, magic, heard < sizeof magic ? heard : sizeof magic) != 0) {
        char begin[13] = "";
        memcpy(begin, words, heard < 12 ? heard : 12);
        printable(begin);
        (void)snprintf(out, WHY, "not a trident node: it begins with '%s'", begin);
        return true;
    }
    if (heard < AT_GREETING)
        return false;
    unsigned version = words[AT_VERSION] | (unsigned)words[AT_VERSION + 1] << 8;
    uint32_t index = get_u32(words + AT_INDEX), sockets = get_u32(words + AT_SOCKETS);
    uint32_t own = visit->meet->options.sockets;
    if (version != VERSION)
        (void)snprintf(out, WHY, "it speaks version %u, this is version %u", version, VERSION);
    else if (words[AT_ROLE] != role || words[AT_ROLE + 1] != 0)
        (void)snprintf(out, WHY, "not a trident node: it repeats what it hears");
    else if (sockets != own)
        (void)snprintf(out, WHY, "it uses %u sockets for each peer, this process %u",
                       (unsigned)sockets, (unsigned)own);
    else if (index >= sockets || (role == ANSWERS && index != visit->index))
        (void)snprintf(out, WHY, "it speaks of socket %u", (unsigned)index);
    else
        return false;
    return true;
}

/* All words are in and good. */
static void judge(struct visit *visit)
{
    struct meet *meet = visit->meet;
    const struct meet_host *host = meet->options.host;
    struct meet_guest guest = {.dialled = visit->peer,
                               .index = get_u32(visit->words + AT_INDEX),
                               .greeting = visit->words + AT_GREETING,
                               .address = visit->address};
    uint32_t peer = host->judge(host->ctx, &guest);
    if (peer == MEET_NOBODY) {
        fail_visit(visit, "another process than was expected answers there");
        return;
    }
    if (visit->peer == MEET_NOBODY && !say(visit, ANSWERS, guest.index)) {
        fail_visit(visit, "it closed the connection");
        return;
    }
    char address[NET_TEXT];
    memcpy(address, visit->address, sizeof address);
    int fd = visit->source.fd;
    poller_remove(meet->options.poller, &visit->source);
    visit->source.fd = -1;
    visit_free(visit);
    host->met(host->ctx, peer, guest.index, fd, address);
}

static void hear_end(struct visit *visit)
{
    const char *why =
        errno == 0 ? "it closed the connection before it said who it is" : strerror(errno);
    if (visit->heard > 0)
        nonsense(visit, why);
    else
        fail_visit(visit, why);
}

static void hear(struct visit *visit)
{
    char what[WHY];
    while (visit->heard < MEET_BYTES) {
        struct iovec run = {.iov_base = visit->words + visit->heard,
                            .iov_len = MEET_BYTES - visit->heard};
        ssize_t got = net_recv(visit->source.fd, &run, 1);
        if (got == 0)
            return;
        if (got < 0) {
            hear_end(visit);
            return;
        }
        visit->heard += (size_t)got;
        if (wrong_words(visit, what)) {
            nonsense(visit, what);
            return;
        }
    }
    judge(visit);
}

/* ---- calling ---- */

static void visit_ready(struct poller_source *source, unsigned what)
{
    struct visit *visit = (struct visit *)source; /* its first member */
    if (visit->stage == CONNECTING) {
        if ((what & (POLLER_WRITE | POLLER_END)) == 0)
            return;
        int why = net_connected(source->fd);
        if (why == 0 && !say(visit, ASKS, visit->index))
            why = ECONNRESET;
        if (why != 0) {
            fail_visit(visit, strerror(why));
            return;
        }
        visit->stage = LISTENING;
    }
    if ((what & (POLLER_READ | POLLER_END)) != 0)
        hear(visit);
}

static void attempt(struct visit *visit, int64_t now)
{
    const struct net_address *to = &visit->addresses[visit->address_at];
    net_text(to, visit->address);
    visit->heard = 0;
    visit->stage = CONNECTING;
    visit->at_ms = now + MEET_PATIENCE_MS;
    visit->source.ready = visit_ready;
    visit->source.fd = net_connect(to);
    if (visit->source.fd < 0) {
        fail_visit(visit, strerror(errno));
        return;
    }
    tri_error err = {0};
    if (poller_add(visit->meet->options.poller, &visit->source, &err) != TRI_OK) {
        net_close(visit->source.fd);
        visit->source.fd = -1;
        fail_visit(visit, err.text);
    }
}

tri_status meet_dial(struct meet *meet, const struct meet_call *call, tri_error *err)
{
    assert(call->count >= 1 && call->count <= NET_ADDRESSES);
    struct visit *visit = visit_new(meet, call->peer);
    if (visit == NULL)
        return fail_nomem(err, "a connection");
    visit->index = call->index;
    visit->deadline_ms = call->deadline_ms;
    visit->pause_ms = RETRY_FIRST_MS;
    memcpy(visit->addresses, call->addresses, call->count * sizeof call->addresses[0]);
    visit->address_count = call->count;
    visit->stage = PAUSED;
    visit->at_ms = poller_now_ms() + call->after_ms; /* from meet_tick(), never from here */
    return TRI_OK;
}

void meet_hang_up(struct meet *meet, uint32_t peer, uint32_t index)
{
    for (struct visit *visit = meet->first, *next; visit != NULL; visit = next) {
        next = visit->next;
        if (peer != MEET_NOBODY && visit->peer == peer &&
            (index == MEET_NOBODY || visit->index == index))
            visit_free(visit);
    }
}

bool meet_dialling(const struct meet *meet, uint32_t peer, uint32_t index)
{
    for (const struct visit *visit = meet->first; visit != NULL; visit = visit->next)
        if (visit->peer == peer && visit->index == index)
            return true;
    return false;
}

/* ---- the door ---- */

static void drop_oldest_stranger(struct meet *meet)
{
    struct visit *visit = meet->first;
    while (visit->peer != MEET_NOBODY)
        visit = visit->next;
    nonsense(visit, "it has not said who it is, and others wait");
}

static void admit(struct meet *meet, int fd, const struct net_address *from)
{
    if (meet->strangers >= MEET_STRANGERS)
        drop_oldest_stranger(meet);
    struct visit *visit = visit_new(meet, MEET_NOBODY);
    if (visit == NULL) {
        net_close(fd);
        return;
    }
    net_text(from, visit->address);
    visit->stage = LISTENING;
    visit->at_ms = poller_now_ms() + MEET_PATIENCE_MS;
    visit->source.fd = fd;
    visit->source.ready = visit_ready;
    if (poller_add(meet->options.poller, &visit->source, NULL) != TRI_OK)
        visit_free(visit);
    else
        hear(visit); /* the words are often there already; so friends need not queue with strangers
                      */
}

/* No descriptor is left for a connection: it is taken with the spare one, and closed. */
static bool turn_away(struct meet *meet)
{
    const struct meet_host *host = meet->options.host;
    struct net_address from;
    char address[NET_TEXT];
    net_close(meet->spare);
    int fd = net_accept(meet->door.fd, &from);
    net_close(fd);
    meet->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    net_text(&from, address);
    host->nonsense(host->ctx, MEET_NOBODY, address,
                   "turned away: this process has no file descriptors left; raise  ulimit -n");
    return true;
}

static void open_door(struct meet *meet)
{
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        struct net_address from;
        int fd = net_accept(meet->door.fd, &from);
        if (fd >= 0) {
            admit(meet, fd, &from);
        } else if ((errno != EMFILE && errno != ENFILE) || !turn_away(meet)) {
            meet->knocked = false;
            return;
        }
    }
}

static void door_ready(struct poller_source *source, unsigned what)
{
    struct meet *meet = (struct meet *)((char *)source - offsetof(struct meet, door));
    (void)what;
    meet->knocked = true;
    open_door(meet);
}

/* ---- all of it ---- */

tri_status meet_open(const struct meet_options *options, struct meet **out, tri_error *err)
{
    struct meet *meet = mem_array(options->mem, 1, sizeof *meet);
    if (meet == NULL)
        return fail_nomem(err, "a listening socket");
    meet->options = *options;
    meet->door = (struct poller_source){.fd = -1, .ready = door_ready};
    meet->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    tri_status status = net_listen(options->listen, &meet->door.fd, meet->address, err);
    if (status == TRI_OK)
        status = poller_add(options->poller, &meet->door, err);
    if (status != TRI_OK) {
        net_close(meet->door.fd);
        net_close(meet->spare);
        mem_free(options->mem, meet);
        return status;
    }
    *out = meet;
    return TRI_OK;
}

void meet_close(struct meet *meet)
{
    if (meet == NULL)
        return;
    while (meet->first != NULL)
        visit_free(meet->first);
    poller_remove(meet->options.poller, &meet->door);
    net_close(meet->door.fd);
    net_close(meet->spare);
    mem_free(meet->options.mem, meet);
}

const char *meet_address(const struct meet *meet)
{
    return meet->address;
}

static void miss(struct visit *visit)
{
    const struct meet_host *host = visit->meet->options.host;
    char why[WHY];
    uint32_t peer = visit->peer;
    memcpy(why, visit->why, sizeof why);
    visit_free(visit);
    host->missed(host->ctx, peer, why[0] != '\0' ? why : "no answer in time");
}

static int64_t due_ms(const struct visit *visit)
{
    bool ends = visit->peer != MEET_NOBODY && visit->deadline_ms < visit->at_ms;
    return ends ? visit->deadline_ms : visit->at_ms;
}

static void move_on(struct visit *visit, int64_t now)
{
    if (visit->peer != MEET_NOBODY && visit->deadline_ms <= now)
        miss(visit);
    else if (visit->stage == PAUSED)
        attempt(visit, now);
    else if (visit->peer == MEET_NOBODY || visit->heard > 0)
        nonsense(visit, "it does not say who it is");
    else
        fail_visit(visit, "no answer");
}

int meet_wait_ms(const struct meet *meet)
{
    int64_t now = poller_now_ms(), soonest = now + 3600000;
    if (meet->knocked)
        return 0;
    if (meet->first == NULL)
        return -1;
    for (const struct visit *visit = meet->first; visit != NULL; visit = visit->next)
        soonest = due_ms(visit) < soonest ? due_ms(visit) : soonest;
    return soonest > now ? (int)(soonest - now) : 0;
}

void meet_tick(struct meet *meet)
{
    int64_t now = poller_now_ms();
    if (meet->knocked)
        open_door(meet);
    for (struct visit *visit = meet->first, *next; visit != NULL; visit = next) {
        next = visit->next; /* move_on() ends no other visit */
        if (due_ms(visit) <= now)
            move_on(visit, now);
    }
}
