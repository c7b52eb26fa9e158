/* Meeting the other nodes: everybody connects to node 0 and says where it listens; node 0 tells
 * all of it to all; then each connects to those before it. Who waits says for whom. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "os/interfaces.h"
#include "run/ended.h"
#include "run/greeting.h"
#include "run/inside.h"
#include "wire/peers.h"

static bool is_worker(const struct host *host, uint32_t node)
{
    return node < host->options.workers;
}

/* Servers have nothing to say to each other. */
static bool is_needed(const struct host *host, uint32_t node)
{
    uint32_t self = host->options.node;
    return node != self &&
           (node == 0 || self == 0 || is_worker(host, node) || is_worker(host, self));
}

static void count(struct host *host)
{
    for (uint32_t n = 0; n < host->nodes; n++) {
        host->peers[n].needed = is_needed(host, n);
        host->missing += host->peers[n].needed;
    }
    host->unknown = host->options.node == 0 ? host->nodes - 1 : 0;
}

/* ---- addresses ---- */

static void send_peers(struct host *host, uint32_t to, struct buf *data)
{
    struct message message = {.kind = WIRE_PEERS,
                              .role = CORE_NOBODY,
                              .bytes = (const uint8_t *)data->data,
                              .len = data->len};
    if (!buf_ok(data))
        host_fail(host, TRI_ENOMEM, "out of memory for a message");
    else
        host_send(host, to, &message, (struct core_ref){.space = CORE_NOWHERE});
}

static struct wire_text text_of(const char *text)
{
    return (struct wire_text){text, strlen(text)};
}

static void tell_own(struct host *host)
{
    struct buf data;
    struct wire_peers_out out;
    tri_error err = {0};
    buf_init(&data, host->mem);
    wire_peers_begin(&out, &data);
    struct wire_peer own = {host->options.node,
                            text_of(host->transport_ops->address(host->transport))};
    if (wire_peers_add(&out, &own, &err) != TRI_OK)
        host_fail(host, err.status, err.text);
    else
        send_peers(host, 0, &data);
    buf_fini(&data);
}

/* To all that are there: where those listen that have said it. */
static void tell_all(struct host *host)
{
    struct buf data;
    struct wire_peers_out out;
    tri_error err = {0};
    tri_status status = TRI_OK;
    buf_init(&data, host->mem);
    wire_peers_begin(&out, &data);
    for (uint32_t n = 1; n < host->nodes && status == TRI_OK; n++) {
        struct wire_peer peer = {n, text_of(host->peers[n].address)};
        if (peer.address.len > 0)
            status = wire_peers_add(&out, &peer, &err);
    }
    for (uint32_t n = 1; n < host->nodes && status == TRI_OK; n++)
        if (host->peers[n].up)
            send_peers(host, n, &data);
    if (status != TRI_OK)
        host_fail(host, err.status, err.text);
    buf_fini(&data);
}

/* Who listens on all its addresses is reached where it came from. */
static void note_address(struct peer *peer, struct wire_text said)
{
    char text[HOST_ADDRESS_TEXT];
    (void)snprintf(text, sizeof text, "%.*s", (int)said.len, said.at);
    const char *port = strrchr(text, ':'), *end = strrchr(peer->seen, ':');
    bool anywhere = strncmp(text, "0.0.0.0:", 8) == 0 || strncmp(text, "[::]:", 5) == 0;
    if (anywhere && port != NULL && end != NULL)
        (void)snprintf(peer->address, sizeof peer->address, "%.*s%.7s", (int)(end - peer->seen),
                       peer->seen, port);
    else
        (void)snprintf(peer->address, sizeof peer->address, "%s", text);
}

static void connect_to(struct host *host, uint32_t node, struct wire_text address)
{
    struct peer *peer = &host->peers[node];
    tri_error err = {0};
    if (peer->address[0] != '\0')
        return; /* node 0 tells it again when more have come */
    note_address(peer, address);
    if (node >= host->options.node || !peer->needed || node == 0)
        return; /* it comes to us */
    if (host->transport_ops->connect(host->transport, node, peer->address, &err) != TRI_OK)
        host_fail_as(host, &err);
}

bool join_peers(struct host *host, const struct incoming *incoming)
{
    struct wire_in list;
    struct wire_peer peer;
    tri_error err = {0};
    uint32_t from = incoming->message.from;
    if (from != 0 && host->options.node != 0)
        return false;
    if (wire_peers_decode(&incoming->header, incoming->data, &host->convert.limits, &list, &err) !=
        TRI_OK)
        return false;
    host->join.listed = host->options.node != 0;
    while (wire_peer_next(&list, &peer)) {
        if (peer.node >= host->nodes)
            return false;
        if (host->options.node != 0) {
            connect_to(host, peer.node, peer.address);
        } else if (peer.node == from && host->peers[from].address[0] == '\0') {
            note_address(&host->peers[from], peer.address);
            if (--host->unknown == 0)
                tell_all(host);
        }
    }
    return true;
}

/* ---- connections ---- */

void join_up(struct host *host, uint32_t number)
{
    struct peer *peer = &host->peers[number];
    if (peer->up || !peer->needed)
        return;
    peer->up = true;
    if (number == 0)
        tell_own(host);
    if (--host->missing == 0 && host->phase == HOST_MEETING) {
        host->phase = HOST_MET;
        pthread_cond_broadcast(&host->changed);
    }
    host->transport_ops->send(host->transport, number);
}

/* ---- who is missing ---- */

/* Has it not come, as far as is known here? Node 0 sees it, and tells the others. */
static bool is_absent(const struct host *host, uint32_t node)
{
    const struct peer *peer = &host->peers[node];
    if (node == host->options.node || peer->up)
        return false;
    if (host->options.node == 0 || !host->peers[0].up)
        return host->options.node == 0 || node == 0;
    return host->join.listed && peer->address[0] == '\0';
}

static bool is_unmet(const struct host *host, uint32_t node)
{
    return host->peers[node].needed && !host->peers[node].up;
}

/* Appends "rank 2" or "ranks 2, 3 and 5 more": of the nodes from `first` to before `end`. */
static void name_some(const struct host *host, uint32_t first, uint32_t end,
                      bool (*is_one)(const struct host *host, uint32_t node), struct buf *out)
{
    enum { MOST = 8 };
    size_t count = 0, named = 0;
    for (uint32_t n = first; n < end; n++)
        count += is_one(host, n);
    for (uint32_t n = first; n < end && named < MOST; n++) {
        if (!is_one(host, n))
            continue;
        struct host_name name = host_name(host, n);
        size_t kind = strcspn(name.text, " ");
        if (named == 0)
            buf_format(out, "%s%.*s%s", out->len > 0 ? ", " : "", (int)kind, name.text,
                       count > 1 ? "s" : "");
        buf_format(out, "%s%s", named++ > 0 ? "," : "", name.text + kind);
    }
    if (count > named)
        buf_format(out, " and %zu more", count - named);
}

static void name_missing(const struct host *host, char *out, size_t size)
{
    struct buf text;
    buf_init(&text, host->mem);
    name_some(host, 0, host->options.workers, is_absent, &text);
    name_some(host, host->options.workers, host->nodes, is_absent, &text);
    if (text.len == 0 && host->join.listed) { /* all have come, and do not reach each other */
        name_some(host, 0, host->options.workers, is_unmet, &text);
        name_some(host, host->options.workers, host->nodes, is_unmet, &text);
    }
    bool told = text.len > 0 && buf_ok(&text);
    (void)snprintf(out, size, "%.*s", told ? (int)text.len : 20,
                   told ? text.data : "the other nodes");
    buf_fini(&text);
}

static const char *meeting_place(const struct host *host)
{
    return host->options.node == 0 ? host->transport_ops->address(host->transport)
                                   : host->options.coordinator;
}

/* False: there were none. */
static bool blame_strangers(const struct host *host, tri_error *err)
{
    const char *last = host->join.strangers.last;
    if (last[0] != '\0')
        fail_why(err, "last %s %s", host->options.node == 0 ? "turned away:" : "heard from", last);
    return last[0] != '\0';
}

static tri_status fail_missing(const struct host *host, tri_error *err)
{
    char who[160] = "";
    name_missing(host, who, sizeof who);
    fail(err, TRI_ETIMEOUT, "waited %.3g s in vain for %s to join at %.60s",
         host->options.timeout_ms / 1e3, who, meeting_place(host));
    if (!blame_strangers(host, err))
        fail_why(err, "this is %s of job '%.40s'%s", host_name(host, host->options.node).text,
                 host->options.job,
                 host->options.node == 0 || host->peers[0].up ? "; it hears the others that came"
                                                              : "; nobody answers there");
    fail_next(err,
              "see whether they run%s, and reach that address; TRIDENT_TIMEOUT_MS makes it wait "
              "longer",
              strncmp(who, "server", 6) == 0
                  ? " (trident server; or inside the workers, with TRIDENT_COLOCATE on)"
                  : "");
    return TRI_ETIMEOUT;
}

/* ---- waiting ---- */

static void tell_wait(const struct host *host, uint64_t since_ms)
{
    char who[160] = "";
    name_missing(host, who, sizeof who);
    log_write(&host->log, LOG_WARN, "waiting %.3g s for %s to join at %.80s",
              (double)since_ms / 1e3, who, meeting_place(host));
}

/* The last words of a node that gives up: node 0 to all, the others to node 0. */
static void tell_failure(struct host *host, const tri_error *err)
{
    const uint32_t self = host->options.node;
    struct message message = {.kind = WIRE_FAILED,
                              .role = self == 0 ? CORE_MEMBER : CORE_COORDINATOR,
                              .from = self,
                              .status = err->status,
                              .bytes = (const uint8_t *)err->text,
                              .len = strlen(err->text)};
    for (uint32_t n = 0; n < host->nodes; n++)
        if (n != self && host->peers[n].up && (self == 0 || n == 0))
            host_send(host, n, &message, (struct core_ref){.space = CORE_NOWHERE});
    struct timespec until = clock_after_ms(500);
    int timed_out = 0;
    while (host->waiting_out > 0 && timed_out == 0)
        timed_out = pthread_cond_timedwait(&host->changed, &host->lock, &until);
}

/* A launcher that has seen one end before it came knows that waiting is in vain. */
static bool cannot_come(const void *ctx, uint32_t node)
{
    const struct host *host = ctx;
    return node < host->nodes && is_unmet(host, node);
}

static bool one_has_ended(struct host *host)
{
    const char *path = getenv("TRIDENT_ENDED");
    char how[ENDED_HOW];
    uint32_t node = 0;
    tri_error err = {0};
    if (path == NULL || !ended_find(path, cannot_come, host, &node, how))
        return false;
    fail(&err, TRI_EPEER, "%s %s before it had joined", host_name(host, node).text, how);
    (void)blame_strangers(host, &err);
    fail_next(&err, "see what that process printed, and start the job again");
    host_fail_as(host, &err);
    return true;
}

/* Waits until all are there, and says now and then who is not: after a tenth of the limit, but at
 * least two seconds, then whenever it has been twice as long. Where the limit is short, node 0
 * tells the others in time who is there, and nobody is bothered. */
static void wait_for_all(struct host *host)
{
    enum { LEAST_MS = 2000, LOOK_MS = 200 };
    uint64_t limit = host->options.timeout_ms, at = limit / 10;
    at = at > LEAST_MS ? at : LEAST_MS;
    at = at < limit / 4 ? at : limit / 4 + 1;
    double begin = clock_seconds();
    while (host->phase == HOST_MEETING && host->status == TRI_OK) {
        double left = (double)at - 1e3 * (clock_seconds() - begin);
        struct timespec until = clock_after_ms(left > LOOK_MS ? LOOK_MS
                                               : left > 1     ? (uint32_t)left
                                                              : 1);
        if (pthread_cond_timedwait(&host->changed, &host->lock, &until) == 0)
            continue;
        if (one_has_ended(host) || left > LOOK_MS)
            continue;
        if (at >= limit)
            return;
        if (at >= LEAST_MS)
            tell_wait(host, at);
        if (host->options.node == 0)
            tell_all(host);
        at = 2 * at < limit ? 2 * at : limit;
    }
}

tri_status join_wait(struct host *host, tri_error *err)
{
    tri_error why = {0};
    pthread_mutex_lock(&host->lock);
    wait_for_all(host);
    tri_status status = host->status;
    if (status != TRI_OK)
        why = host->err;
    else if (host->phase == HOST_MEETING)
        status = fail_missing(host, &why);
    if (status != TRI_OK)
        tell_failure(host, &why);
    pthread_mutex_unlock(&host->lock);
    if (status != TRI_OK && err != NULL)
        *err = why;
    return status;
}

/* ---- losing somebody before the job begins ---- */

/* It may have said why before it hung up. */
static bool fail_as_told(struct host *host)
{
    struct incoming *told = host_take_early(host, WIRE_REFUSED);
    if (told == NULL)
        told = host_take_early(host, WIRE_FAILED);
    if (told == NULL)
        return false;
    const struct message *message = &told->message;
    bool rank = host->options.node == 0; /* node 0 speaks for all */
    char text[240];
    (void)snprintf(text, sizeof text, "%s%s%.*s", rank ? host_name(host, message->from).text : "",
                   rank ? ": " : "", (int)message->len, (const char *)message->bytes);
    host_fail(host, message->kind == WIRE_REFUSED ? TRI_EMISMATCH : message->status, text);
    host_put_back(host, told);
    return true;
}

static void fail_early(struct host *host, uint32_t number, bool was_up, const char *why)
{
    const size_t prefix = sizeof TRANSPORT_REFUSED - 1;
    const struct host_place place = host_place(host, number);
    tri_error err = {0};
    bool refused = strncmp(why, TRANSPORT_REFUSED, prefix) == 0;
    if (fail_as_told(host))
        return;
    if (!refused && !was_up && host->phase == HOST_MEETING && one_has_ended(host))
        return; /* it has given up for the same reason, before it could say so */
    if (refused)
        fail(&err, TRI_EMISMATCH, "%.90s refused this process: %s", place.text, why + prefix);
    else if (was_up)
        fail(&err, TRI_EPEER, "%.100s hung up before all had joined: %s", place.text, why);
    else
        fail(&err, TRI_EPEER, "no connection to %.100s: %s", place.text, why);
    host_fail_as(host, &err);
}

void join_lost(struct host *host, uint32_t number, bool was_up, const char *why)
{
    bool meeting = host->phase == HOST_MEETING;
    if (number == 0 || (meeting && (host->options.node == 0 || !was_up)))
        fail_early(host, number, was_up, why);
    else if (host->phase == HOST_RUNNING && host->options.node == 0)
        calls_lost_early(host, number);
    else if (meeting && host->peers[number].needed)
        host->missing++; /* and node 0, which has lost it, too, will say so */
}

/* ---- the beginning ---- */

static const char *listen_at(const struct host_options *options)
{
    if (options->node == 0)
        return options->coordinator;
    if (options->listen != NULL)
        return options->listen;
    if (strncmp(options->coordinator, "inproc:", 7) == 0)
        return "inproc:0";
    bool guarded = options->token != NULL && options->token[0] != '\0';
    if (!guarded || interfaces_is_loopback(options->coordinator))
        return options->coordinator[0] == '[' ? "[::1]:0" : "127.0.0.1:0";
    return options->coordinator[0] == '[' ? "[::]:0" : "0.0.0.0:0";
}

tri_status join_open(struct host *host, tri_error *err)
{
    struct transport_options options = {.mem = host->mem,
                                        .host = &host->calls,
                                        .peers = host->nodes,
                                        .sockets = host->options.sockets + 1,
                                        .limits = &host->convert.limits,
                                        .listen = listen_at(&host->options),
                                        .silence_ms = 20 * host->options.heartbeat_ms,
                                        .connect_ms = 2 * host->options.timeout_ms,
                                        .name = host->options.transport,
                                        .log = &host->log,
                                        .self = host->options.node,
                                        .token = host->options.token,
                                        .job = host->options.job,
                                        .fits = greeting_fits};
    calls_greeting(host, options.greeting);
    count(host);
    tri_status status = host->transport_ops->open(&options, &host->transport, err);
    host->options.token = NULL; /* the caller's, and not needed any more */
    if (status == TRI_OK && host->options.node != 0)
        status = host->transport_ops->connect(host->transport, 0, host->options.coordinator, err);
    if (status == TRI_OK && host->missing == 0)
        host->phase = HOST_MET;
    return status;
}
