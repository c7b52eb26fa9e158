/* What waits to be sent, what this node sends to itself, and what came too early. */
#include <string.h>

#include "core/bits.h"
#include "os/clock.h"
#include "run/inside.h"
#include "store/floats.h"

static bool is_control(enum wire_kind kind)
{
    return !convert_has_values(kind) && kind != WIRE_NOTHING;
}

/* ---- going out ---- */

static struct outgoing *new_outgoing(struct host *host)
{
    struct outgoing *out = host->free_out;
    if (out != NULL) {
        host->free_out = out->next;
    } else {
        out = mem_array(host->mem, 1, sizeof *out);
        if (out != NULL)
            buf_init(&out->head, host->mem);
    }
    return out;
}

static void free_outgoing(struct host *host, struct outgoing *out)
{
    out->next = host->free_out;
    host->free_out = out;
}

static struct store_runs runs_of(const struct host *host, struct core_ref ref)
{
    switch (ref.space) {
    case CORE_PARAMS:
    case CORE_RESULT:
    case CORE_STAGE:
    case CORE_GRADIENT:
    case CORE_FACTORS:
        return store_worker_runs(&host->worker, ref);
    case CORE_LANDING:
    case CORE_ADD:
    case CORE_PRODUCTS:
    case CORE_SHARD:
    case CORE_REPLY:
        return store_server_runs(&host->server, ref);
    case CORE_NOWHERE:
        break;
    }
    return (struct store_runs){{NULL}, {0}};
}

void host_runs(const struct host *host, struct core_ref ref,
               struct transport_run runs[TRANSPORT_RUNS])
{
    struct store_runs from = runs_of(host, ref);
    size_t n = 0;
    for (size_t i = 0; i < STORE_RUNS; i++)
        if (from.count[i] > 0)
            runs[n++] = (struct transport_run){from.at[i], from.count[i] * sizeof(float)};
    while (n < TRANSPORT_RUNS)
        runs[n++] = (struct transport_run){NULL, 0};
}

static bool fill(struct host *host, const struct message *message, struct core_ref ref,
                 struct outgoing *out)
{
    tri_error err = {0};
    buf_clear(&out->head);
    if (convert_encode(&host->convert, message, &out->head, &out->head_bytes, &err) != TRI_OK) {
        host_fail(host, err.status, err.text);
        return false;
    }
    memset(out->runs, 0, sizeof out->runs);
    out->owned = NULL;
    out->data_bytes = out->head.len - out->head_bytes;
    if (convert_has_values(message->kind)) {
        out->data_bytes = convert_data_bytes(message, host->convert.layout);
        if (out->data_bytes > 0)
            host_runs(host, ref, out->runs);
    }
    out->beat = message->kind == WIRE_HEARTBEAT;
    return true;
}

/* False: there is nobody to send it to, or no memory. */
static bool send_to(struct host *host, uint32_t to, const struct message *message,
                    struct core_ref ref, const struct transport_run *memory)
{
    struct peer *peer = &host->peers[to];
    bool control = is_control(message->kind);
    if (peer->down || (peer->departed && !control) ||
        (message->kind == WIRE_HEARTBEAT && peer->beating))
        return false;
    struct outgoing *out = new_outgoing(host);
    if (out == NULL) {
        host_fail(host, TRI_ENOMEM, "out of memory for a message");
        return false;
    }
    tri_error err = {0};
    if (!fill(host, message, ref, out)) {
        free_outgoing(host, out);
        return false;
    }
    if (memory != NULL)
        out->runs[0] = (struct transport_run){memory->at, (size_t)out->data_bytes};
    struct queue *queue = control ? &peer->control : &peer->values;
    if (queue_push(queue, message, &ref, out, &err) != TRI_OK) {
        free_outgoing(host, out);
        host_fail(host, err.status, err.text);
        return false;
    }
    if (memory != NULL && memory->bytes > 0)
        out->owned = memory->at;
    peer->beating = peer->beating || out->beat;
    host->waiting_out++;
    host->transport_ops->send(host->transport, to);
    return true;
}

void host_send_memory(struct host *host, uint32_t to, const struct message *message, float *values,
                      bool owned)
{
    struct transport_run memory = {values, owned};
    bool sent = send_to(host, to, message, (struct core_ref){.space = CORE_NOWHERE}, &memory);
    if (!sent && owned)
        floats_free(host->mem, values);
}

void host_sent(struct host *host, uint32_t to, struct outgoing *out, bool sent)
{
    if (out->beat)
        host->peers[to].beating = false;
    if (sent) {
        host->stats.messages++;
        host->stats.sent_bytes += out->data_bytes;
        host->stats.header_bytes += out->head_bytes;
    }
    if (out->owned != NULL)
        state_put_back(host, out->owned, out->data_bytes / sizeof *out->owned);
    out->owned = NULL;
    free_outgoing(host, out);
    if (--host->waiting_out == 0)
        pthread_cond_broadcast(&host->changed);
}

void host_purge(struct host *host, uint32_t to, bool control)
{
    struct queue_entry entry;
    while (queue_pop(&host->peers[to].values, &entry))
        host_sent(host, to, entry.tag, false);
    while (control && queue_pop(&host->peers[to].control, &entry))
        host_sent(host, to, entry.tag, false);
}

/* ---- to this node itself ---- */

static struct local *new_local(struct host *host)
{
    struct local *local = host->free_local;
    if (local != NULL) {
        host->free_local = local->next;
    } else {
        local = mem_array(host->mem, 1, sizeof *local);
        if (local == NULL)
            return NULL;
        buf_init(&local->set, host->mem);
        buf_init(&local->bytes, host->mem);
    }
    local->next = NULL;
    return local;
}

static size_t set_members(const struct host *host, enum wire_kind kind)
{
    return kind == WIRE_RESULT ? host->options.workers : host->nodes;
}

static void send_to_self(struct host *host, const struct message *message, struct core_ref ref)
{
    struct local *local = new_local(host);
    if (local == NULL) {
        host_fail(host, TRI_ENOMEM, "out of memory for a message");
        return;
    }
    local->message = *message;
    local->message.from = host->options.node;
    local->ref = ref;
    buf_clear(&local->set);
    buf_clear(&local->bytes);
    if (message->set != NULL) {
        size_t words = bits_words(set_members(host, message->kind));
        buf_add(&local->set, message->set, words * sizeof *message->set);
        local->message.set = (const uint64_t *)(const void *)local->set.data;
    }
    if (message->len > 0) {
        buf_add(&local->bytes, message->bytes, message->len);
        local->message.bytes = (const uint8_t *)local->bytes.data;
    }
    if (!buf_ok(&local->set) || !buf_ok(&local->bytes))
        host_fail(host, TRI_ENOMEM, "out of memory for a message");
    *host->local_end = local;
    host->local_end = &local->next;
    host_wake(host);
}

/* From where it lies to where it is wanted. */
static void copy(const struct transport_run from[TRANSPORT_RUNS],
                 const struct transport_run to[TRANSPORT_RUNS])
{
    size_t i = 0, j = 0, at_i = 0, at_j = 0;
    while (i < TRANSPORT_RUNS && j < TRANSPORT_RUNS && from[i].bytes > 0 && to[j].bytes > 0) {
        size_t left = from[i].bytes - at_i, room = to[j].bytes - at_j;
        size_t n = left < room ? left : room;
        memcpy((char *)to[j].at + at_j, (const char *)from[i].at + at_i, n);
        at_i += n;
        at_j += n;
        if (at_i == from[i].bytes) {
            i++;
            at_i = 0;
        }
        if (at_j == to[j].bytes) {
            j++;
            at_j = 0;
        }
    }
}

static void add_local(struct host *host, const struct core_ref *to, const struct core_ref *from)
{
    struct store_runs source = runs_of(host, *from), target = runs_of(host, *to);
    uint64_t at = 0;
    for (size_t i = 0; i < STORE_RUNS; i++) {
        struct store_runs part = {{target.at[0] + at}, {source.count[i]}};
        if (source.count[i] > 0)
            store_runs_add(part, source.at[i]);
        at += source.count[i];
    }
}

static void deliver(struct host *host, struct local *local)
{
    struct message *message = &local->message;
    if (convert_has_values(message->kind) && !message->unchanged) {
        struct core_ref to = event_landing(host, message);
        message->landed = to.space != CORE_NOWHERE;
        if (to.space == CORE_ADD) {
            if (event_adds(host, message))
                add_local(host, &to, &local->ref);
        } else if (message->landed) {
            struct transport_run runs[2][TRANSPORT_RUNS];
            host_runs(host, local->ref, runs[0]);
            host_runs(host, to, runs[1]);
            pthread_mutex_unlock(&host->lock);
            copy(runs[0], runs[1]);
            pthread_mutex_lock(&host->lock);
        }
    }
    event_message(host, clock_us(), message);
}

void host_deliver_local(struct host *host)
{
    bool any = host->local != NULL;
    while (host->local != NULL) {
        struct local *local = host->local;
        deliver(host, local); /* in the list until its values are copied: some wait for that */
        host->local = local->next;
        if (host->local == NULL)
            host->local_end = &host->local;
        local->next = host->free_local;
        host->free_local = local;
    }
    if (any)
        pthread_cond_broadcast(&host->changed);
}

void host_send(struct host *host, uint32_t to, const struct message *message, struct core_ref ref)
{
    if (to == host->options.node)
        send_to_self(host, message, ref);
    else
        (void)send_to(host, to, message, ref, NULL);
}

/* ---- before there is a core ---- */

void host_put_back(struct host *host, struct incoming *incoming)
{
    incoming->next = host->free_in;
    host->free_in = incoming;
}

void host_replay(struct host *host)
{
    struct incoming *incoming = host->early;
    host->early = NULL;
    host->early_end = &host->early;
    while (incoming != NULL) {
        struct incoming *next = incoming->next;
        if (!alike_take(host, incoming))
            event_message(host, clock_us(), &incoming->message);
        host_put_back(host, incoming);
        incoming = next;
    }
}

struct incoming *host_take_early(struct host *host, enum wire_kind kind)
{
    for (struct incoming **at = &host->early; *at != NULL; at = &(*at)->next)
        if ((*at)->message.kind == kind) {
            struct incoming *found = *at;
            *at = found->next;
            if (*at == NULL)
                host->early_end = at;
            return found;
        }
    return NULL;
}

/* ---- the end ---- */

static void free_incoming(const struct host *host, struct incoming *incoming)
{
    while (incoming != NULL) {
        struct incoming *next = incoming->next;
        mem_free(host->mem, incoming->set);
        mem_free(host->mem, incoming->data);
        mem_free(host->mem, incoming);
        incoming = next;
    }
}

static void free_locals(const struct host *host, struct local *local)
{
    while (local != NULL) {
        struct local *next = local->next;
        buf_fini(&local->set);
        buf_fini(&local->bytes);
        mem_free(host->mem, local);
        local = next;
    }
}

void host_messages_fini(struct host *host)
{
    for (uint32_t n = 0; host->peers != NULL && n < host->nodes; n++) {
        host_purge(host, n, true);
        queue_fini(&host->peers[n].control);
        queue_fini(&host->peers[n].values);
    }
    for (struct outgoing *out = host->free_out, *next; out != NULL; out = next) {
        next = out->next;
        buf_fini(&out->head);
        mem_free(host->mem, out);
    }
    free_incoming(host, host->free_in);
    free_incoming(host, host->early);
    free_locals(host, host->free_local);
    free_locals(host, host->local);
}
