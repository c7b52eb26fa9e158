/* What the core is told, and the trace of it. Without a trace that is a branch more. */
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
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_MESSAGE, .now = now, .message = message});
    node_message(&host->core, now, message, &out);
    end(host, 0);
}

void event_done(struct host *host, const struct core_op *op)
{
    struct core_out out = host_out(host);
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
    return there;
}

void event_clock(struct host *host)
{
    struct core_out out = host_out(host);
    if (host->trace != NULL)
        begin(host, (struct trace_event){.kind = TRACE_CLOCK});
    node_clock(&host->core, &out);
    end(host, 0);
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
