/* Meeting the other nodes: everybody connects to node 0 and says where it listens; node 0 tells
 * all of it to all; then each connects to those before it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "os/clock.h"
#include "os/interfaces.h"
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
        status = wire_peers_add(&out, &peer, &err);
    }
    for (uint32_t n = 1; n < host->nodes && status == TRI_OK; n++)
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
    note_address(peer, address);
    if (node >= host->options.node || !peer->needed || node == 0)
        return; /* it comes to us */
    if (host->transport_ops->connect(host->transport, node, peer->address, &err) != TRI_OK)
        host_fail(host, err.status, err.text);
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

/* "ranks 2, 3 and 5 more" */
static void name_missing(const struct host *host, char *out, size_t size)
{
    size_t at = 0, named = 0;
    for (uint32_t n = 0; n < host->nodes; n++) {
        if (!host->peers[n].needed || host->peers[n].up)
            continue;
        int length = 0;
        if (named++ < 8 && at < size)
            length =
                snprintf(out + at, size - at, "%s%s", at > 0 ? ", " : "", host_name(host, n).text);
        at += length > 0 ? (size_t)length : 0;
    }
    if (named > 8 && at < size)
        (void)snprintf(out + at, size - at, " and %zu more", named - 8);
}

static tri_status fail_missing(const struct host *host, tri_error *err)
{
    char who[200] = "";
    name_missing(host, who, sizeof who);
    fail(err, TRI_ETIMEOUT, "waited %.3g s in vain for %s to join", host->options.timeout_ms / 1e3,
         who);
    if (host->options.node == 0)
        fail_why(err, "this is node 0 of job '%.40s', listening at %.60s", host->options.job,
                 host->transport_ops->address(host->transport));
    else
        fail_why(err, "node 0 is at %.60s", host->options.coordinator);
    fail_next(err, "see whether they run, and reach that address; timeout_ms makes it wait longer");
    return TRI_ETIMEOUT;
}

tri_status join_wait(struct host *host, tri_error *err)
{
    struct timespec until = clock_after_ms(host->options.timeout_ms);
    int timed_out = 0;
    pthread_mutex_lock(&host->lock);
    while (host->phase == HOST_MEETING && host->status == TRI_OK && timed_out == 0)
        timed_out = pthread_cond_timedwait(&host->changed, &host->lock, &until);
    tri_status status = host->status;
    if (status != TRI_OK && err != NULL)
        *err = host->err;
    else if (status == TRI_OK && host->phase == HOST_MEETING)
        status = fail_missing(host, err);
    pthread_mutex_unlock(&host->lock);
    return status;
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
    if (interfaces_is_loopback(options->coordinator))
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
                                        .self = host->options.node};
    calls_greeting(host, options.greeting);
    count(host);
    tri_status status = host->transport_ops->open(&options, &host->transport, err);
    if (status == TRI_OK && host->options.node != 0)
        status = host->transport_ops->connect(host->transport, 0, host->options.coordinator, err);
    if (status == TRI_OK && host->missing == 0)
        host->phase = HOST_MET;
    return status;
}
