/* Connections until both ends have said who they are. */
#include "os/meet_inside.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RETRY_FIRST_MS = 10, RETRY_MOST_MS = 500, ACCEPT_AT_ONCE = 64 };

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

void visit_free(struct visit *visit)
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

/* A call is tried again later. */
static void pause_visit(struct visit *visit)
{
    leave(visit);
    visit->stage = VISIT_PAUSED;
    visit->at_ms = poller_now_ms() + visit->pause_ms;
    visit->pause_ms = visit->pause_ms * 2 < RETRY_MOST_MS ? visit->pause_ms * 2 : RETRY_MOST_MS;
    visit->address_at = (visit->address_at + 1) % visit->address_count;
}

void visit_fail(struct visit *visit, const char *why)
{
    if (visit->peer == MEET_NOBODY) {
        visit_free(visit);
        return;
    }
    (void)snprintf(visit->why, sizeof visit->why, "%s: %.130s", visit->address, why);
    pause_visit(visit);
}

static void miss(struct visit *visit)
{
    const struct meet_host *host = visit->meet->options.host;
    char why[MEET_WHY];
    uint32_t peer = visit->peer;
    memcpy(why, visit->why, sizeof why);
    visit_free(visit);
    host->missed(host->ctx, peer, why[0] != '\0' ? why : "no answer in time");
}

void visit_give_up(struct visit *visit, const char *why)
{
    int64_t now = poller_now_ms();
    (void)snprintf(visit->why, sizeof visit->why, MEET_REFUSED "%s", why);
    if (visit->refused_ms == 0)
        visit->refused_ms = now;
    if (now - visit->refused_ms >= MEET_REFUSED_MS)
        miss(visit);
    else
        pause_visit(visit);
}

void visit_nonsense(struct visit *visit, const char *what)
{
    const struct meet_host *host = visit->meet->options.host;
    host->nonsense(host->ctx, visit->peer, visit->address, what);
    visit_fail(visit, what);
}

/* ---- calling ---- */

static void visit_ready(struct poller_source *source, unsigned what)
{
    struct visit *visit = (struct visit *)source; /* its first member */
    if (visit->stage == VISIT_CONNECTING) {
        if ((what & (POLLER_WRITE | POLLER_END)) == 0)
            return;
        int why = net_connected(source->fd);
        if (why == 0 && !visit_ask(visit))
            why = ECONNRESET;
        if (why != 0) {
            visit_fail(visit, strerror(why));
            return;
        }
        visit->stage = VISIT_LISTENING;
    }
    if ((what & (POLLER_READ | POLLER_END)) != 0)
        visit_hear(visit);
}

static void attempt(struct visit *visit, int64_t now)
{
    const struct net_address *to = &visit->addresses[visit->address_at];
    net_text(to, visit->address);
    visit->heard = 0;
    visit->stage = VISIT_CONNECTING;
    visit->at_ms = now + visit->meet->options.patience_ms;
    visit->source.ready = visit_ready;
    visit->source.fd = net_connect(to);
    if (visit->source.fd < 0) {
        visit_fail(visit, strerror(errno));
        return;
    }
    tri_error err = {0};
    if (poller_add(visit->meet->options.poller, &visit->source, &err) != TRI_OK) {
        net_close(visit->source.fd);
        visit->source.fd = -1;
        visit_fail(visit, err.text);
    }
}

/* Any process that reaches an address could take part, if there is no token. */
static tri_status fail_unguarded(const struct net_address *address, const char *what,
                                 tri_error *err)
{
    char text[NET_TEXT];
    net_text(address, text);
    fail(err, TRI_EINPUT, "cannot %s %s without a token", what, text);
    fail_why(err, "whoever reaches that address could join the job or disturb it");
    fail_next(err, "set TRIDENT_TOKEN to the same secret on all nodes, or start with trident run");
    return TRI_EINPUT;
}

static bool is_own_machine(const struct net_address *address)
{
    char text[NET_TEXT];
    net_text(address, text); /* IPv4 in the clothes of IPv6 is undressed there */
    return strncmp(text, "127.", 4) == 0 || strncmp(text, "[::1]:", 6) == 0;
}

tri_status meet_dial(struct meet *meet, const struct meet_call *call, tri_error *err)
{
    assert(call->count >= 1 && call->count <= NET_ADDRESSES);
    for (size_t i = 0; i < call->count && !meet->guarded; i++)
        if (!is_own_machine(&call->addresses[i]))
            return fail_unguarded(&call->addresses[i], "connect to", err);
    struct visit *visit = visit_new(meet, call->peer);
    if (visit == NULL)
        return fail_nomem(err, "a connection");
    visit->index = call->index;
    visit->deadline_ms = call->deadline_ms;
    visit->pause_ms = RETRY_FIRST_MS;
    memcpy(visit->addresses, call->addresses, call->count * sizeof call->addresses[0]);
    visit->address_count = call->count;
    visit->stage = VISIT_PAUSED;
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
    visit_nonsense(visit, "it has not said who it is, and others wait");
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
    visit->stage = VISIT_LISTENING;
    visit->at_ms = poller_now_ms() + meet->options.patience_ms;
    visit->source.fd = fd;
    visit->source.ready = visit_ready;
    if (poller_add(meet->options.poller, &visit->source, NULL) != TRI_OK)
        visit_free(visit);
    else
        visit_hear(
            visit); /* the words are often there already; so friends need not queue with strangers
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

static tri_status check_listen(const struct meet_options *options, tri_error *err)
{
    struct net_address found[NET_ADDRESSES];
    size_t count = 0;
    tri_status status = net_resolve(options->listen, found, &count, err);
    if (status == TRI_OK && !is_own_machine(&found[0])) /* where net_listen() listens */
        status = fail_unguarded(&found[0], "listen on", err);
    return status;
}

static tri_status open_with(struct meet *meet, const struct meet_options *options, tri_error *err)
{
    tri_status status = keyed_start(err);
    if (status == TRI_OK && !meet->guarded)
        status = check_listen(options, err);
    if (status == TRI_OK)
        status = net_listen(options->listen, &meet->door.fd, meet->address, err);
    if (status != TRI_OK)
        return status;
    keyed_key(options->token, options->job != NULL ? options->job : "", meet->key);
    return poller_add(options->poller, &meet->door, err);
}

tri_status meet_open(const struct meet_options *options, struct meet **out, tri_error *err)
{
    struct meet *meet = mem_array(options->mem, 1, sizeof *meet);
    if (meet == NULL)
        return fail_nomem(err, "a listening socket");
    meet->options = *options;
    meet->options.listen = meet->options.token = meet->options.job = NULL;
    if (options->patience_ms == 0)
        meet->options.patience_ms = MEET_PATIENCE_MS;
    meet->guarded = options->token != NULL && options->token[0] != '\0';
    (void)snprintf(meet->job, sizeof meet->job, "%s", options->job != NULL ? options->job : "");
    meet->door = (struct poller_source){.fd = -1, .ready = door_ready};
    meet->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    tri_status status = open_with(meet, options, err);
    if (status != TRI_OK) {
        net_close(meet->door.fd);
        net_close(meet->spare);
        keyed_wipe(meet->key, sizeof meet->key);
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
    keyed_wipe(meet->key, sizeof meet->key);
    mem_free(meet->options.mem, meet);
}

const char *meet_address(const struct meet *meet)
{
    return meet->address;
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
    else if (visit->stage == VISIT_PAUSED)
        attempt(visit, now);
    else if (visit->stage == VISIT_PROVING)
        visit_nonsense(visit, "it says who it is, and does not go on");
    else if (visit->peer == MEET_NOBODY || visit->heard > 0)
        visit_nonsense(visit, "it does not say who it is");
    else
        visit_fail(visit, "no answer");
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
