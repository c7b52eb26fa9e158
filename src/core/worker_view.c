/* The worker's part in a view change: report, relay, resume. docs/protocol.md section 8. */
#include "core/worker_inside.h"

#include "wire/decision.h"
#include "wire/report.h"

/* Departed ranks whose update is held whole; `nothing` is one, too. */
static void report_held(struct worker *worker, const struct gather *gather,
                        struct wire_report_out *report)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < worker->layout->workers; r++)
        if (!bits_has(worker->live, r) && bits_has(gather->whole, r))
            worker->list[count++] = r;
    if (count > 0)
        wire_report_held(report, gather->clock, worker->list, count);
}

/* For every pair that is kept: applied, open or ahead. What is being applied counts as applied:
 * it cannot be stopped any more. */
static void report(struct worker *worker, const struct core_out *out)
{
    struct wire_report_out report;
    buf_clear(&worker->report);
    wire_report_begin(&report, &worker->report);
    for (uint32_t i = 0; i < worker->layout->layer_count; i++) {
        const struct syncer *syncer = &worker->syncers[i];
        if (!on_workers(&worker->layout->layers[i]))
            continue;
        wire_report_layer(&report, i, syncer->version + syncer->applying);
        const struct gather *a = &syncer->generation[0], *b = &syncer->generation[1];
        report_held(worker, a->clock < b->clock ? a : b, &report);
        report_held(worker, a->clock < b->clock ? b : a, &report);
    }
    if (!buf_ok(&worker->report)) {
        core_fail(out, TRI_ENOMEM, "out of memory for a report");
        return;
    }
    worker_tell(worker,
                (struct message){.kind = WIRE_REPORT,
                                 .view = worker->view,
                                 .bytes = (const uint8_t *)worker->report.data,
                                 .len = worker->report.len},
                out);
}

void worker_view(struct worker *worker, const struct message *message, const struct core_out *out)
{
    if (message->view <= worker->view)
        return;
    worker->view = message->view;
    for (uint32_t r = 0; r < worker->layout->workers; r++)
        if (bits_has(message->set, r))
            bits_remove(worker->live, r);
    worker->consistency.workers = bits_count(worker->live, worker->layout->workers);
    if (worker->layout->on_workers == 0)
        return; /* servers decide by themselves */
    worker->frozen = true;
    report(worker, out);
}

/* Whom the decision counts here. What it does not mention does not count. */
static void note_decided(struct worker *worker, struct wire_in entries)
{
    uint32_t ranks = worker->layout->workers;
    struct wire_entry entry;
    for (uint32_t i = 0; i < worker->layout->layer_count; i++)
        worker->syncers[i].decided_clock[0] = worker->syncers[i].decided_clock[1] = UINT64_MAX;
    while (wire_entry_next(&entries, &entry)) {
        struct syncer *syncer = &worker->syncers[entry.layer];
        if (!on_workers(&worker->layout->layers[entry.layer]) ||
            entry.clock < syncer->version + syncer->applying)
            continue;
        uint64_t *decided = syncer->decided[entry.clock % 2];
        syncer->decided_clock[entry.clock % 2] = entry.clock;
        bits_clear(decided, ranks);
        for (uint32_t i = 0; i < entry.ranks.count; i++)
            bits_add(decided, wire_ranks_at(&entry.ranks, i));
    }
}

/* A pair that is no longer held was freed: then nobody needs it. */
static void relay(const struct worker *worker, struct wire_in relays, const struct core_out *out)
{
    struct wire_relay order;
    while (wire_relay_next(&relays, &order)) {
        if (order.relayer != worker->rank || !on_workers(&worker->layout->layers[order.layer]))
            continue;
        const struct gather *gather = &worker->syncers[order.layer].generation[order.clock % 2];
        if (gather->clock != order.clock || !bits_has(gather->whole, order.rank))
            continue;
        for (uint32_t i = 0; i < order.receivers.count; i++)
            worker_send_relay(worker, gather, order.layer, order.rank,
                              wire_ranks_at(&order.receivers, i), out);
    }
}

void worker_decision(struct worker *worker, const struct message *message,
                     const struct core_out *out)
{
    struct wire_limits limits = wire_widest;
    struct wire_header header = {.kind = WIRE_DECISION,
                                 .sender = message->from,
                                 .view = message->view,
                                 .data_len = (uint32_t)message->len};
    struct wire_decision decision;
    tri_error err = {0};
    if (message->view != worker->view || !worker->frozen)
        return;
    limits.workers = worker->layout->workers;
    limits.layers = worker->layout->layer_count;
    if (wire_decision_decode(&header, message->bytes, &limits, &decision, &err) != TRI_OK) {
        core_fail(out, err.status, "%s", err.text);
        return;
    }
    note_decided(worker, decision.entries);
    relay(worker, decision.relays, out);
    worker->frozen = false;
    worker_settle_all(worker, out);
    while (worker->moved)
        worker_settle_all(worker, out);
}

/* ---- waits ---- */

const uint64_t *worker_waits_for(struct worker *worker, uint32_t layer)
{
    const struct layout *layout = worker->layout;
    const struct layout_layer *described = &layout->layers[layer];
    const struct syncer *syncer = &worker->syncers[layer];
    uint32_t most = layout->workers > layout->servers ? layout->workers : layout->servers;
    bits_clear(worker->missing, most);
    if (!on_workers(described)) {
        for (uint32_t i = 0; i < described->parts; i++)
            if (!bits_has(syncer->parts, i))
                bits_add(worker->missing,
                         layout->units[layout->parts[described->first_part + i].unit].server);
    } else if (!syncer->started) {
        bits_add(worker->missing, 0);
    } else {
        const struct gather *gather = &syncer->generation[syncer->version % 2];
        worker_find_needed(worker, syncer, syncer->version);
        for (uint32_t r = 0; r < layout->workers; r++)
            if (bits_has(worker->needed, r) &&
                (gather->clock != syncer->version || !bits_has(gather->whole, r)))
                bits_add(worker->missing, r);
    }
    return worker->missing;
}

static void tell_wait(struct worker *worker, struct watch *watch, uint32_t layer, uint64_t now,
                      const struct core_out *out)
{
    const struct layout_layer *described = &worker->layout->layers[layer];
    const struct syncer *syncer = &worker->syncers[layer];
    bool peers = on_workers(described);
    struct watch_missing missing = {.what = described->name,
                                    .who = peers ? "worker" : "server",
                                    .set = worker->missing,
                                    .members =
                                        peers ? worker->layout->workers : worker->layout->servers,
                                    .node_of = peers ? NULL : worker->layout->server_node,
                                    .layer = layer};
    uint64_t coordinator = 1;
    if (peers && worker->frozen)
        missing = (struct watch_missing){.what = "the decision on who counts",
                                         .who = "node",
                                         .set = &coordinator,
                                         .members = 1,
                                         .layer = layer};
    watch_tell(watch, &syncer->wait, &missing, now, out);
}

void worker_tick(struct worker *worker, struct watch *watch, uint64_t now,
                 const struct core_out *out)
{
    for (uint32_t i = 0; i < worker->layout->layer_count; i++) {
        struct syncer *syncer = &worker->syncers[i];
        bool peers = on_workers(&worker->layout->layers[i]);
        bool tell = watch_waits(watch, &syncer->wait, syncer->waiting, syncer->version, now);
        bool overdue = peers && !worker->frozen && watch_overdue(watch, &syncer->wait, now);
        if (!tell && !overdue)
            continue;
        (void)worker_waits_for(worker, i);
        if (tell)
            tell_wait(worker, watch, i, now, out);
        /* A server is not accused while it is heard: it waits for somebody itself, and says so. */
        for (uint32_t r = 0; overdue && r < worker->layout->workers; r++)
            if (bits_has(worker->missing, r) && r != worker->rank)
                bits_add(watch->accused, r);
    }
}
