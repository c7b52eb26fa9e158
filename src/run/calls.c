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

/* With the lock. Somebody is not taken; told once for a host and a reason. */
static void turn_away(struct host *host, const char *who, const char *address, const char *what)
{
    uint64_t times = strangers_note(&host->join.strangers, address, what);
    if (times == 1)
        log_write(&host->log, LOG_WARN, "%s %s: %s", who, address, what);
    else if (times > 0)
        log_write(&host->log, LOG_WARN, "%s %s: %s (%llu such connections by now)", who, address,
                  what, (unsigned long long)times);
}

static uint32_t greeted(void *ctx, const uint8_t bytes[TRANSPORT_GREETING_BYTES],
                        const char *address)
{
    struct host *host = ctx;
    tri_error err = {0};
    struct convert_greeting own = own_greeting(host), other = {0};
    tri_status status = greeting_decode(bytes, &other, &err);
    if (status == TRI_OK)
        status = greeting_check(&own, &other, &err);
    pthread_mutex_lock(&host->lock);
    struct peer *peer = status == TRI_OK ? &host->peers[other.node] : NULL;
    if (peer != NULL && (other.node == own.node || !peer->needed ||
                         (peer->incarnation != 0 && peer->incarnation != other.incarnation)))
        status = fail(&err, TRI_EMISMATCH, "it says that it is %s, which is %s",
                      host_name(host, other.node).text,
                      other.node == own.node ? "this process" : "another process already");
    if (status == TRI_OK && peer != NULL) {
        peer->incarnation = other.incarnation;
        (void)snprintf(peer->seen, sizeof peer->seen, "%s", address);
    } else {
        turn_away(host, "turned away", address, err.text);
    }
    pthread_mutex_unlock(&host->lock);
    return status == TRI_OK ? other.node : TRANSPORT_STRANGER;
}

static void up(void *ctx, uint32_t number)
{
    struct host *host = ctx;
    pthread_mutex_lock(&host->lock);
    flight_note(host->flight,
                (struct flight_event){.kind = FLIGHT_UP, .node = number, .layer = FLIGHT_NONE});
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

/* What the loss of a node means. */
static const char *then(const struct host *host, uint32_t number)
{
    const struct layout *layout = host->agreement != NULL ? host->agreement->layout : NULL;
    bool needed = number == 0 || host->options.stop_on_failure;
    if (layout == NULL || !host->has_core || !host->core.member.started)
        return "";
    for (uint32_t s = 0; s < layout->servers; s++)
        needed = needed || (layout->server_node[s] == number && layout->server_units[s] > 0);
    return needed ? "; the job cannot go on without it" : "; the others go on without it";
}

/* When a job ends, the first to hear of it hang up before the others have heard. A server is told
 * last of all, and says in any case whom it goes on without. */
static bool may_be_the_end(const struct host *host)
{
    return host->has_core && (!host->core.has_worker || host->core.worker.closing);
}

static void down(void *ctx, uint32_t number, const char *why)
{
    struct host *host = ctx;
    pthread_mutex_lock(&host->lock);
    struct peer *peer = &host->peers[number];
    bool started = host->has_core && host->core.member.started;
    bool ended = host->has_core && host->core.member.ended;
    bool was_up = peer->up;
    peer->up = false;
    peer->down = true;
    (void)snprintf(peer->why, sizeof peer->why, "%s", why);
    flight_note(host->flight,
                (struct flight_event){
                    .kind = FLIGHT_DOWN, .node = number, .layer = FLIGHT_NONE, .text = why});
    host_purge(host, number, true);
    if (!ended && !peer->departed && !host->quit) {
        if (host->phase != HOST_MEETING && host->status == TRI_OK)
            log_write(&host->log, may_be_the_end(host) ? LOG_INFO : LOG_WARN,
                      "lost the connection to %s: %s%s", host_place(host, number).text, why,
                      then(host, number));
        if (started)
            event_gone(host, number, clock_us());
        else
            join_lost(host, number, was_up, why);
    }
    pthread_mutex_unlock(&host->lock);
}

static void nonsense(void *ctx, uint32_t number, const char *address, const char *what)
{
    struct host *host = ctx;
    char who[100] = "turned away";
    pthread_mutex_lock(&host->lock);
    if (number != TRANSPORT_STRANGER)
        (void)snprintf(who, sizeof who, "cut off %s at", host_name(host, number).text);
    turn_away(host, who, address, what);
    pthread_mutex_unlock(&host->lock);
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
        event_passed(host, FLIGHT_SEND, number, &entry.message);
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
    incoming->placed = incoming->ignored = incoming->landing = false;
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
    return !convert_has_values(incoming->message.kind) || incoming->ref.space == CORE_ADD ||
           incoming->message.kind == WIRE_STATE;
}

/* A message that may be read: where do its values go? */
static bool find_place(struct host *host, uint32_t number, struct incoming *incoming,
                       struct transport_in *in)
{
    bool values = convert_has_values(incoming->message.kind);
    bool core = incoming->message.kind != WIRE_STATE;
    if (values && core && host->phase == HOST_RUNNING && !host->peers[number].departed &&
        in->header.data_len > 0) {
        incoming->ref = event_landing(host, &incoming->message);
        incoming->placed = incoming->ref.space != CORE_NOWHERE;
    }
    incoming->ignored = values && host->peers[number].departed;
    if (in->header.data_len == 0)
        return true;
    in->runs[0] = (struct transport_run){NULL, in->header.data_len};
    if (!core && !incoming->ignored)
        in->runs[0].at = state_place(host, incoming);
    if (incoming->landing)
        return true;
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
        log_write(&host->log, LOG_WARN, "%s sent what cannot be: %s; it is cut off",
                  host_place(host, number).text, err.text);
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
    if (incoming->landing) {
        state_settle(host, incoming, true);
        return true;
    }
    if (host->phase != HOST_RUNNING)
        return !convert_has_values(message->kind);
    if (incoming->ignored || (host->core.over && convert_has_values(message->kind)) ||
        message->kind == WIRE_RESUME)
        return true;
    if (message->kind == WIRE_STATE)
        return state_take(host, incoming);
    if (alike_take(host, incoming))
        return true;
    message->landed = incoming->placed;
    if (incoming->placed && incoming->ref.space == CORE_ADD && event_adds(host, message)) {
        struct transport_run runs[TRANSPORT_RUNS];
        host_runs(host, incoming->ref, runs);
        struct store_runs to = {{runs[0].at}, {runs[0].bytes / sizeof(float)}};
        store_runs_add(to, (const float *)(const void *)incoming->data);
    }
    event_message(host, clock_us(), message);
    if (message->kind == WIRE_MARKED) /* somebody may wait for all to agree */
        pthread_cond_broadcast(&host->changed);
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
        log_write(&host->log, LOG_WARN, "%s sent what cannot be: %s; it is cut off",
                  host_place(host, number).text, err.text);
    else
        good = take(host, incoming);
    state_settle(host, incoming, false); /* unless it is taken */
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
    state_settle(host, incoming, false);
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
