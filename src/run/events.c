/* What the core is told, and the trace of it. Without a trace that is a branch more. */
#include "core/bits.h"
#include "run/inside.h"
#include "run/trace.h"

static void begin(struct host *host, struct trace_event event)
{
    trace_begin(host->trace, &event);
}

static void end(struct host *host, int answer)
{
    if (host->trace != NULL)
        trace_end(host->trace, answer);
}

/* ---- for the recorder ---- */

static void note_layer(struct host *host, enum flight_kind kind, uint32_t layer)
{
    flight_note(host->flight, (struct flight_event){.kind = kind,
                                                    .node = FLIGHT_NONE,
                                                    .layer = layer,
                                                    .clock = host->core.worker.clock});
}

void event_waits(struct host *host, uint32_t layer)
{
    note_layer(host, FLIGHT_SYNC, layer);
}

void event_op(struct host *host, enum flight_kind kind, const struct core_op *op)
{
    if (host->flight == NULL)
        return;
    const struct layout *layout = host->agreement->layout;
    bool server = op->role == CORE_SERVER;
    uint32_t layer =
        server ? layout->units[host->core.server.units[op->index].unit].layer : op->index;
    flight_note(host->flight,
                (struct flight_event){.kind = kind,
                                      .what = (uint8_t)op->kind,
                                      .node = FLIGHT_NONE,
                                      .layer = layer,
                                      .part = op->kind == CORE_OP_SUM ? op->rank : FLIGHT_NONE,
                                      .clock = op->clock});
}

static void note_accused(struct host *host, uint32_t by, const uint64_t *set)
{
    for (uint32_t n = 0; set != NULL && n < host->nodes; n++)
        if (bits_has(set, n))
            flight_note(host->flight,
                        (struct flight_event){
                            .kind = FLIGHT_ACCUSED, .node = n, .layer = FLIGHT_NONE, .part = by});
}

/* Heartbeats would fill the ring; when a peer was last heard is in the file anyway. */
void event_passed(struct host *host, enum flight_kind kind, uint32_t node,
                  const struct message *message)
{
    if (host->flight == NULL || message->kind == WIRE_HEARTBEAT)
        return;
    flight_note(host->flight, (struct flight_event){.kind = kind,
                                                    .what = (uint8_t)message->kind,
                                                    .node = node,
                                                    .layer = message->layer,
                                                    .part = message->part,
                                                    .clock = message->clock});
    if (message->kind == WIRE_ACCUSE)
        note_accused(host, kind == FLIGHT_SEND ? host->options.node : node, message->set);
}

static void note_view(struct host *host)
{
    uint32_t view = host->core.member.view, live = 0;
    for (uint32_t r = 0; r < host->options.workers; r++)
        live += !watch_departed(&host->core.member.watch, r);
    flight_note(host->flight,
                (struct flight_event){
                    .kind = FLIGHT_VIEW, .node = FLIGHT_NONE, .layer = FLIGHT_NONE, .clock = view});
    if (view > 1)
        log_write(&host->log, LOG_INFO, "view %u begins: %u of %u workers", view, live,
                  host->options.workers);
}

/* ---- time ---- */

void event_join(struct host *host, uint64_t now)
{
    struct core_out out = host_out(host);
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_JOIN, .now = now});
    node_join(&host->core, now, &out);
    end(host, 0);
}

void event_tick(struct host *host, uint64_t now)
{
    struct core_out out = host_out(host);
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_TICK, .now = now});
    node_tick(&host->core, now, &out);
    end(host, 0);
}

void event_gone(struct host *host, uint32_t node, uint64_t now)
{
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_GONE, .now = now, .number = node});
    node_gone(&host->core, node, now);
    end(host, 0);
}

/* ---- messages ---- */

struct core_ref event_landing(struct host *host, const struct message *message)
{
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_LANDING, .message = message});
    struct core_ref ref = node_landing(&host->core, message);
    if (host->trace != NULL)
        trace_end_landing(host->trace, &ref);
    return ref;
}

void event_lost(struct host *host, const struct message *message)
{
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_LOST, .message = message});
    node_lost(&host->core, message);
    end(host, 0);
}

bool event_adds(struct host *host, const struct message *message)
{
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_ADDS, .message = message});
    bool adds = node_adds(&host->core, message);
    end(host, adds);
    return adds;
}

void event_message(struct host *host, uint64_t now, const struct message *message)
{
    struct core_out out = host_out(host);
    uint32_t view = host->core.member.view;
    event_passed(host, FLIGHT_RECEIVED, message->from, message);
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_MESSAGE, .now = now, .message = message});
    node_message(&host->core, now, message, &out);
    end(host, 0);
    if (host->core.member.view != view)
        note_view(host);
}

void event_done(struct host *host, const struct core_op *op)
{
    struct core_out out = host_out(host);
    event_op(host, FLIGHT_OP_DONE, op);
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_DONE, .op = *op});
    node_done(&host->core, op, &out);
    end(host, 0);
}

/* ---- the caller's side ---- */

void event_start(struct host *host)
{
    struct core_out out = host_out(host);
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_START});
    node_start(&host->core, &out);
    end(host, 0);
}

tri_status event_update(struct host *host, uint32_t layer, const struct worker_update *update,
                        tri_error *err)
{
    struct core_out out = host_out(host);
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_UPDATE, .number = layer, .update = *update});
    note_layer(host, FLIGHT_UPDATE, layer);
    tri_status status = node_update(&host->core, layer, update, &out, err);
    end(host, status);
    return status;
}

bool event_sync(struct host *host, uint32_t layer)
{
    struct core_out out = host_out(host);
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_SYNC, .number = layer});
    bool there = node_sync(&host->core, layer, &out);
    end(host, there);
    if (there)
        note_layer(host, FLIGHT_SYNCED, layer);
    return there;
}

void event_clock(struct host *host)
{
    struct core_out out = host_out(host);
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_CLOCK});
    node_clock(&host->core, &out);
    end(host, 0);
    note_layer(host, FLIGHT_CLOCK, FLIGHT_NONE);
}

void event_checksum(struct host *host, uint32_t crc)
{
    struct core_out out = host_out(host);
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_CHECKSUM, .number = crc});
    node_checksum(&host->core, crc, &out);
    end(host, 0);
}

void event_close(struct host *host)
{
    struct core_out out = host_out(host);
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_CLOSE});
    node_close(&host->core, &out);
    end(host, 0);
}

void event_mark(struct host *host, uint64_t at)
{
    struct core_out out = host_out(host);
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_MARK, .now = at});
    node_mark(&host->core, at, &out);
    end(host, 0);
}
