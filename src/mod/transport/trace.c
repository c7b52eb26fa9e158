/* A line in the log for every message and connection of another transport. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mod/transport.h"

struct transport {
    const struct mem *mem;
    const struct transport_host *host;
    struct transport_host calls; /* what the other transport calls */
    struct log log;
    const struct transport_ops *ops;
    struct transport *inner;
};

/* ---- lines ---- */

static uint64_t bytes_of(const struct transport_run runs[TRANSPORT_RUNS])
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < TRANSPORT_RUNS; i++)
        bytes += runs[i].bytes;
    return bytes;
}

static void tell(const struct transport *transport, const char *what, uint32_t peer,
                 const struct wire_header *header)
{
    unsigned uses = wire_kind_at(header->kind)->uses;
    char layer[40] = "", clock[40] = "";
    if ((uses & WIRE_USE_LAYER) != 0)
        (void)snprintf(layer, sizeof layer, ", layer %" PRIu32 ".%" PRIu32, header->layer,
                       header->chunk);
    if ((uses & WIRE_USE_CLOCK) != 0)
        (void)snprintf(clock, sizeof clock, ", clock %" PRIu64, header->clock);
    log_write(&transport->log, LOG_TRACE, "%s %" PRIu32 ": %s%s%s, %d + %u + %" PRIu32 " bytes",
              what, peer, wire_kind_name(header->kind), layer, clock, WIRE_HEADER_BYTES,
              (unsigned)header->head_len, header->data_len);
}

static void tell_out(const struct transport *transport, const char *what, uint32_t peer,
                     const struct transport_out *out)
{
    struct wire_header header;
    if (!log_wants(&transport->log, LOG_TRACE))
        return;
    if (out->head_bytes >= WIRE_HEADER_BYTES &&
        wire_header_decode(out->head, &wire_widest, &header, NULL) == TRI_OK)
        tell(transport, what, peer, &header);
    else
        log_write(&transport->log, LOG_TRACE, "%s %" PRIu32 ": %" PRIu64 " bytes", what, peer,
                  out->head_bytes + bytes_of(out->runs));
}

/* ---- calls of the host ---- */

static uint32_t greeted(void *ctx, const uint8_t greeting[TRANSPORT_GREETING_BYTES],
                        const char *address)
{
    const struct transport *transport = ctx;
    uint32_t peer = transport->host->greeted(transport->host->ctx, greeting, address);
    if (peer == TRANSPORT_STRANGER)
        log_write(&transport->log, LOG_TRACE, "a stranger at %s", address);
    else
        log_write(&transport->log, LOG_TRACE, "%" PRIu32 " is at %s", peer, address);
    return peer;
}

static void up(void *ctx, uint32_t peer)
{
    const struct transport *transport = ctx;
    log_write(&transport->log, LOG_TRACE, "%" PRIu32 " is up", peer);
    transport->host->up(transport->host->ctx, peer);
}

static void down(void *ctx, uint32_t peer, const char *why)
{
    const struct transport *transport = ctx;
    log_write(&transport->log, LOG_TRACE, "%" PRIu32 " is down: %s", peer, why);
    transport->host->down(transport->host->ctx, peer, why);
}

static bool next(void *ctx, uint32_t peer, uint32_t socket, struct transport_out *out)
{
    const struct transport *transport = ctx;
    return transport->host->next(transport->host->ctx, peer, socket, out);
}

static void sent(void *ctx, uint32_t peer, const struct transport_out *out)
{
    const struct transport *transport = ctx;
    tell_out(transport, "to", peer, out);
    transport->host->sent(transport->host->ctx, peer, out);
}

static void unsent(void *ctx, uint32_t peer, const struct transport_out *out)
{
    const struct transport *transport = ctx;
    tell_out(transport, "not sent to", peer, out);
    transport->host->unsent(transport->host->ctx, peer, out);
}

static bool place(void *ctx, uint32_t peer, struct transport_in *in)
{
    const struct transport *transport = ctx;
    return transport->host->place(transport->host->ctx, peer, in);
}

static bool done(void *ctx, uint32_t peer, const struct transport_in *in)
{
    const struct transport *transport = ctx;
    tell(transport, "from", peer, &in->header);
    return transport->host->done(transport->host->ctx, peer, in);
}

static void broken(void *ctx, uint32_t peer, const struct transport_in *in)
{
    const struct transport *transport = ctx;
    tell(transport, "a part from", peer, &in->header);
    transport->host->broken(transport->host->ctx, peer, in);
}

static void nonsense(void *ctx, uint32_t peer, const char *address, const char *what)
{
    const struct transport *transport = ctx;
    log_write(&transport->log, LOG_TRACE, "no message from %s: %s", address, what);
    transport->host->nonsense(transport->host->ctx, peer, address, what);
}

/* ---- the table ---- */

/* Without a log: to stderr, if TRIDENT_LOG says trace. */
static struct log log_of(const struct transport_options *options)
{
    struct log log;
    const char *level = getenv("TRIDENT_LOG");
    if (options->log != NULL)
        return *options->log;
    log_init(&log, LOG_TRACE, log_to_stream, stderr);
    if (level == NULL || strcmp(level, "trace") != 0)
        log.sink = NULL;
    return log;
}

static tri_status trace_open(const struct transport_options *options, struct transport **out,
                             tri_error *err)
{
    struct transport_options inner = *options;
    struct transport *transport = mem_array(options->mem, 1, sizeof *transport);
    if (transport == NULL)
        return fail_nomem(err, "a transport");
    transport->mem = options->mem;
    transport->host = options->host;
    transport->log = log_of(options);
    transport->calls = (struct transport_host){.ctx = transport,
                                               .greeted = greeted,
                                               .up = up,
                                               .down = down,
                                               .next = next,
                                               .sent = sent,
                                               .unsent = unsent,
                                               .place = place,
                                               .done = done,
                                               .broken = broken,
                                               .nonsense = nonsense};
    inner.host = &transport->calls;
    inner.name = transport_inner(options->name);
    transport->ops = transport_find(inner.name);
    tri_status status = transport->ops->open(&inner, &transport->inner, err);
    if (status == TRI_OK)
        *out = transport;
    else
        mem_free(options->mem, transport);
    return status;
}

static void trace_close(struct transport *transport)
{
    transport->ops->close(transport->inner);
    mem_free(transport->mem, transport);
}

static const char *trace_address(const struct transport *transport)
{
    return transport->ops->address(transport->inner);
}

static tri_status trace_connect(struct transport *transport, uint32_t peer, const char *address,
                                tri_error *err)
{
    log_write(&transport->log, LOG_TRACE, "calling %" PRIu32 " at %s", peer, address);
    return transport->ops->connect(transport->inner, peer, address, err);
}

static void trace_send(struct transport *transport, uint32_t peer)
{
    transport->ops->send(transport->inner, peer);
}

static void trace_wake(struct transport *transport)
{
    transport->ops->wake(transport->inner);
}

static void trace_drop(struct transport *transport, uint32_t peer)
{
    log_write(&transport->log, LOG_TRACE, "%" PRIu32 " is dropped", peer);
    transport->ops->drop(transport->inner, peer);
}

static tri_status trace_poll(struct transport *transport, int timeout_ms, tri_error *err)
{
    return transport->ops->poll(transport->inner, timeout_ms, err);
}

extern const struct transport_ops transport_trace;
const struct transport_ops transport_trace = {
    .name = "trace",
    .summary = "around another, trace:tcp: a log line per message, at level trace",
    .wraps = true,
    .open = trace_open,
    .close = trace_close,
    .address = trace_address,
    .connect = trace_connect,
    .send = trace_send,
    .wake = trace_wake,
    .drop = trace_drop,
    .poll = trace_poll,
};
