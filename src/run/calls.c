/* What the transport asks and tells. Every call takes the lock, and gives it back. */
#include <stdio.h>
#include <string.h>

#include "core/bits.h"
#include "os/clock.h"
#include "run/greeting.h"
#include "run/inside.h"

/* ---- connections ---- */

static struct convert_greeting own_greeting(const struct host *host)
{
    return (struct convert_greeting){.job = host->convert.job,
                                     .node = host->options.node,
                                     .nodes = host->nodes,
                                     .incarnation = host->incarnation,
                                     .wire_min = WIRE_VERSION,
                                     .wire_max = WIRE_VERSION,
                                     .roles = host_roles(host)};
}

void calls_greeting(const struct host *host, uint8_t out[TRANSPORT_GREETING_BYTES])
{
    struct convert_greeting greeting = own_greeting(host);
    greeting_encode(&greeting, out);
}

static uint32_t greeted(void *ctx, const uint8_t bytes[TRANSPORT_GREETING_BYTES],
                        const char *address)
{
    struct host *host = ctx;
    tri_error err = {0};
    struct convert_greeting own = own_greeting(host), other;
    if (greeting_decode(bytes, &other, &err) != TRI_OK ||
        greeting_check(&own, &other, &err) != TRI_OK) {
        log_write(&host->log, LOG_WARN, "turned away %s: %s", address, err.text);
        return TRANSPORT_STRANGER;
    }
    pthread_mutex_lock(&host->lock);
    struct peer *peer = &host->peers[other.node];
    uint32_t number = other.node;
    if (number == own.node || !peer->needed ||
        (peer->incarnation != 0 && peer->incarnation != other.incarnation)) {
        log_write(&host->log, LOG_WARN, "turned away %s: node %u is %s", address, number,
                  number == own.node ? "this process" : "another process already");
        number = TRANSPORT_STRANGER;
    } else {
        peer->incarnation = other.incarnation;
        (void)snprintf(peer->seen, sizeof peer->seen, "%s", address);
    }
    pthread_mutex_unlock(&host->lock);
    return number;
}

static void up(void *ctx, uint32_t number)
{
    struct host *host = ctx;
    pthread_mutex_lock(&host->lock);
    join_up(host, number);
    pthread_mutex_unlock(&host->lock);
}

void calls_lost_early(struct host *host, uint32_t number)
{
    static const char text[] = "it hung up";
    struct message message = {.kind = WIRE_FAILED,
                              .role = CORE_COORDINATOR,
                              .from = number,
                              .status = TRI_EPEER,
                              .bytes = (const uint8_t *)text,
                              .len = sizeof text - 1};
    event_message(host, clock_us(), &message);
}

/* Node 0 may have said why before it hung up. */
static void fail_early(struct host *host, uint32_t number, const char *why)
{
    const struct peer *peer = &host->peers[number];
    char text[240];
    struct incoming *told = host_take_early(host, WIRE_REFUSED);
    if (told == NULL)
        told = host_take_early(host, WIRE_FAILED);
    if (told != NULL) {
        const struct message *message = &told->message;
        (void)snprintf(text, sizeof text, "%.*s", (int)message->len, (const char *)message->bytes);
        host_fail(host, message->kind == WIRE_REFUSED ? TRI_EMISMATCH : message->status, text);
        host_put_back(host, told);
        return;
    }
    (void)snprintf(text, sizeof text, "no connection to %s at %.80s: %.70s",
                   host_name(host, number).text,
                   peer->address[0] != '\0' ? peer->address : peer->seen, why);
    host_fail(host, TRI_EPEER, text);
}

/* Before the job begins nobody can be done without: node 0 ends it, the others wait for its word.
 */
static void lose_early(struct host *host, uint32_t number, const char *why)
{
    if (host->phase == HOST_MEETING || number == 0)
        fail_early(host, number, why);
    else if (host->phase == HOST_RUNNING && host->options.node == 0)
        calls_lost_early(host, number);
}

static void down(void *ctx, uint32_t number, const char *why)
{
    struct host *host = ctx;
    pthread_mutex_lock(&host->lock);
    struct peer *peer = &host->peers[number];
    bool started = host->has_core && host->core.member.started;
    bool ended = host->has_core && host->core.member.ended;
    peer->up = false;
    peer->down = true;
    host_purge(host, number, true);
    if (!ended && !peer->departed && !host->quit) {
        if (host->phase != HOST_MEETING)
            log_write(&host->log, LOG_WARN, "lost the connection to %s: %s",
                      host_name(host, number).text, why);
        if (started)
            event_gone(host, number, clock_us());
        else
            lose_early(host, number, why);
    }
    pthread_mutex_unlock(&host->lock);
}

static void nonsense(void *ctx, uint32_t number, const char *address, const char *what)
{
    struct host *host = ctx;
    if (number == TRANSPORT_STRANGER)
        log_write(&host->log, LOG_INFO, "turned away %s: %s", address, what);
    else
        log_write(&host->log, LOG_WARN, "%s at %s sent what is no message: %s",
                  host_name(host, number).text, address, what);
}

/* ---- going out ---- */

/* Short enough to overtake a chunk that is on its way, on a socket of its own. */
enum { SHORT_BYTES = 64 << 10 };

static bool is_short(const struct queue_entry *entry)
{
    const struct outgoing *out = entry != NULL ? entry->tag : NULL;
    return out != NULL && out->data_bytes <= SHORT_BYTES;
}

/* What steers the job keeps its order, on socket 0. On the last one there are only short messages,
 * and these only when they are the most urgent. */
static bool take_next(struct host *host, struct peer *peer, uint32_t socket,
                      struct queue_entry *out)
{
    if (socket == 0 && queue_pop(&peer->control, out))
        return true;
    if (socket == host->options.sockets && !is_short(queue_top(&peer->values)))
        return false;
    return queue_pop(&peer->values, out);
}

static bool next(void *ctx, uint32_t number, uint32_t socket, struct transport_out *out)
{
    struct host *host = ctx;
    struct queue_entry entry;
    pthread_mutex_lock(&host->lock);
    bool found = take_next(host, &host->peers[number], socket, &entry);
    if (found) {
        struct outgoing *going = entry.tag;
        *out = (struct transport_out){
            .head = (const uint8_t *)going->head.data, .head_bytes = going->head.len, .tag = going};
        memcpy(out->runs, going->runs, sizeof out->runs);
    }
    pthread_mutex_unlock(&host->lock);
    return found;
}

static void sent(void *ctx, uint32_t number, const struct transport_out *out)
{
    struct host *host = ctx;
    pthread_mutex_lock(&host->lock);
    host_sent(host, number, out->tag, true);
    pthread_mutex_unlock(&host->lock);
}

static void unsent(void *ctx, uint32_t number, const struct transport_out *out)
{
    struct host *host = ctx;
    pthread_mutex_lock(&host->lock);
    host_sent(host, number, out->tag, false);
    pthread_mutex_unlock(&host->lock);
}

/* ---- coming in ---- */

static struct incoming *new_incoming(struct host *host)
{
    struct incoming *incoming = host->free_in;
    if (incoming != NULL) {
        host->free_in = incoming->next;
    } else {
        incoming = mem_array(host->mem, 1, sizeof *incoming);
        if (incoming == NULL)
            return NULL;
        incoming->set = mem_array(host->mem, bits_words(host->nodes) + 1, sizeof *incoming->set);
        if (incoming->set == NULL) {
            mem_free(host->mem, incoming);
            return NULL;
        }
    }
    incoming->next = NULL;
    incoming->placed = incoming->ignored = false;
    incoming->ref = (struct core_ref){.space = CORE_NOWHERE};
    return incoming;
}

static bool make_room(struct host *host, struct incoming *incoming, size_t bytes)
{
    void *data = incoming->data;
    if (mem_grow(host->mem, &data, &incoming->data_cap, bytes, 1) == NULL)
        return false;
    incoming->data = data;
    return true;
}

static bool in_memory_of_its_own(const struct incoming *incoming)
{
    return !convert_has_values(incoming->message.kind) || incoming->ref.space == CORE_ADD;
}

/* A message that may be read: where do its values go? */
static bool find_place(struct host *host, uint32_t number, struct incoming *incoming,
                       struct transport_in *in)
{
    bool values = convert_has_values(incoming->message.kind);
    if (values && host->phase == HOST_RUNNING && !host->peers[number].departed &&
        in->header.data_len > 0) {
        incoming->ref = event_landing(host, &incoming->message);
        incoming->placed = incoming->ref.space != CORE_NOWHERE;
    }
    incoming->ignored = values && host->peers[number].departed;
    if (in->header.data_len == 0)
        return true;
    in->runs[0] = (struct transport_run){NULL, in->header.data_len};
    if (in_memory_of_its_own(incoming)) {
        if (!make_room(host, incoming, in->header.data_len)) {
            host_fail(host, TRI_ENOMEM, "out of memory for a message");
            return false;
        }
        in->runs[0].at = incoming->data;
    } else if (incoming->placed) {
        host_runs(host, incoming->ref, in->runs);
    }
    return true;
}

static bool place(void *ctx, uint32_t number, struct transport_in *in)
{
    struct host *host = ctx;
    tri_error err = {0};
    pthread_mutex_lock(&host->lock);
    struct incoming *incoming = new_incoming(host);
    bool good = incoming != NULL;
    if (!good)
        host_fail(host, TRI_ENOMEM, "out of memory for a message");
    memset(in->runs, 0, sizeof in->runs);
    in->tag = incoming;
    struct convert_in bytes = {.header = &in->header, .head = in->head};
    if (good && in->header.sender != number)
        good = fail(&err, TRI_EINPUT, "it says that it is of node %u", in->header.sender) == TRI_OK;
    if (good)
        good = convert_decode(&host->convert, &bytes, incoming->set, &incoming->message, &err) ==
               TRI_OK;
    if (good)
        incoming->header = in->header;
    if (good)
        good = find_place(host, number, incoming, in);
    if (!good && incoming != NULL) {
        host_put_back(host, incoming);
        log_write(&host->log, LOG_WARN, "%s sent what cannot be: %s", host_name(host, number).text,
                  err.text);
    }
    pthread_mutex_unlock(&host->lock);
    return good;
}

/* All of it is there: the core's turn, or that of those who wait for one. */
static bool take(struct host *host, struct incoming *incoming)
{
    struct message *message = &incoming->message;
    if (message->kind == WIRE_PEERS)
        return join_peers(host, incoming);
    if (host->phase != HOST_RUNNING)
        return !convert_has_values(message->kind);
    if (incoming->ignored || (host->core.over && convert_has_values(message->kind)))
        return true;
    message->landed = incoming->placed;
    if (incoming->placed && incoming->ref.space == CORE_ADD && event_adds(host, message)) {
        struct transport_run runs[TRANSPORT_RUNS];
        host_runs(host, incoming->ref, runs);
        struct store_runs to = {{runs[0].at}, {runs[0].bytes / sizeof(float)}};
        store_runs_add(to, (const float *)(const void *)incoming->data);
    }
    event_message(host, clock_us(), message);
    return true;
}

static bool done(void *ctx, uint32_t number, const struct transport_in *in)
{
    struct host *host = ctx;
    struct incoming *incoming = in->tag;
    tri_error err = {0};
    struct convert_in bytes = {.header = &in->header, .head = in->head, .data = incoming->data};
    pthread_mutex_lock(&host->lock);
    host->stats.received_bytes += in->header.data_len;
    bool good = convert_decode_data(&host->convert, &bytes, incoming->set, &incoming->message,
                                    &err) == TRI_OK;
    if (!good)
        log_write(&host->log, LOG_WARN, "%s sent what cannot be: %s", host_name(host, number).text,
                  err.text);
    else
        good = take(host, incoming);
    bool early = good && host->phase != HOST_RUNNING && incoming->message.kind != WIRE_PEERS;
    if (early) {
        *host->early_end = incoming;
        host->early_end = &incoming->next;
        pthread_cond_broadcast(&host->changed);
    } else {
        host_put_back(host, incoming);
    }
    pthread_mutex_unlock(&host->lock);
    return good;
}

static void broken(void *ctx, uint32_t number, const struct transport_in *in)
{
    struct host *host = ctx;
    struct incoming *incoming = in->tag;
    (void)number;
    pthread_mutex_lock(&host->lock);
    if (incoming->placed)
        event_lost(host, &incoming->message);
    host_put_back(host, incoming);
    pthread_mutex_unlock(&host->lock);
}

const struct transport_host host_calls = {
    .greeted = greeted,
    .up = up,
    .down = down,
    .next = next,
    .sent = sent,
    .unsent = unsent,
    .place = place,
    .done = done,
    .broken = broken,
    .nonsense = nonsense,
};
