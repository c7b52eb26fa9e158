/* Views: who is accused, who leaves, and what of the departed counts. docs/protocol.md 8, 9. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/coordinator_inside.h"
#include "core/decide.h"

/* ---- memory ---- */

tri_status coordinator_init_views(struct coordinator *coordinator, tri_error *err)
{
    const struct mem *mem = coordinator->mem;
    size_t nodes = coordinator->layout->nodes, words = bits_words(nodes);
    coordinator->departed = mem_array(mem, words, sizeof(uint64_t));
    coordinator->departed_before = mem_array(mem, words, sizeof(uint64_t));
    coordinator->accused = mem_array(mem, nodes * words, sizeof(uint64_t));
    coordinator->reported = mem_array(mem, words, sizeof(uint64_t));
    coordinator->missing = mem_array(mem, words, sizeof(uint64_t));
    coordinator->believed = mem_array(mem, words, sizeof(uint64_t));
    coordinator->reports =
        mem_array(mem, coordinator->layout->workers, sizeof *coordinator->reports);
    if (coordinator->departed == NULL || coordinator->departed_before == NULL ||
        coordinator->accused == NULL || coordinator->reported == NULL ||
        coordinator->missing == NULL || coordinator->believed == NULL ||
        coordinator->reports == NULL)
        return fail_nomem(err, "the coordinator");
    buf_init(&coordinator->decision, mem);
    for (uint32_t r = 0; r < coordinator->layout->workers; r++)
        buf_init(&coordinator->reports[r], mem);
    return TRI_OK;
}

void coordinator_fini_views(struct coordinator *coordinator)
{
    const struct mem *mem = coordinator->mem;
    for (uint32_t r = 0; coordinator->reports != NULL && coordinator->reports[0].mem != NULL &&
                         r < coordinator->layout->workers;
         r++)
        buf_fini(&coordinator->reports[r]);
    if (coordinator->decision.mem != NULL)
        buf_fini(&coordinator->decision);
    mem_free(mem, coordinator->reports);
    mem_free(mem, coordinator->departed);
    mem_free(mem, coordinator->departed_before);
    mem_free(mem, coordinator->accused);
    mem_free(mem, coordinator->reported);
    mem_free(mem, coordinator->missing);
    mem_free(mem, coordinator->believed);
}

/* ---- leaving ---- */

static uint64_t *accusations_of(const struct coordinator *coordinator, uint32_t accuser)
{
    return coordinator->accused + accuser * bits_words(coordinator->layout->nodes);
}

/* A node whose state nobody else has: the coordinator's, and those of servers that own units. */
bool coordinator_needs(const struct coordinator *coordinator, uint32_t node)
{
    const struct layout *layout = coordinator->layout;
    for (uint32_t s = 0; s < layout->servers; s++)
        if (layout->server_node[s] == node && layout->server_units[s] > 0)
            return true;
    return node == 0;
}

static void end_without(struct coordinator *coordinator, uint32_t node, const char *why,
                        const struct core_out *out)
{
    const struct layout *layout = coordinator->layout;
    char text[240], who[60];
    struct layout_name name = layout_name(layout, node);
    (void)snprintf(who, sizeof who, "%s", name.text);
    for (uint32_t s = 0; s < layout->servers && node < layout->workers; s++)
        if (layout->server_node[s] == node && layout->server_units[s] > 0)
            (void)snprintf(who, sizeof who, "%s (with server %u)", name.text, s);
    int used = snprintf(text, sizeof text, "%s %s; the job ends", who, why);
    if (coordinator->stage != COORDINATOR_RUNNING)
        (void)snprintf(text, sizeof text, "%s %s before the job had started", who, why);
    else if (coordinator->done > 0 && used > 0 && (size_t)used < sizeof text)
        (void)snprintf(text + used, sizeof text - (size_t)used,
                       "; the checkpoint of clock %llu is intact",
                       (unsigned long long)coordinator->done);
    coordinator_fail(coordinator, TRI_EPEER, text, out);
}

void coordinator_tell_evicted(const struct coordinator *coordinator, uint32_t node, const char *why,
                              const struct core_out *out)
{
    char text[200];
    (void)snprintf(text, sizeof text, "%s is out of the job: %s",
                   layout_name(coordinator->layout, node).text, why);
    struct message message = {.kind = WIRE_EVICTED,
                              .role = CORE_MEMBER,
                              .bytes = (const uint8_t *)text,
                              .len = strlen(text)};
    coordinator_tell(coordinator, node, message, out);
}

/* All that depart at once do so in one view. */
static void begin_view(struct coordinator *coordinator, const struct core_out *out)
{
    coordinator->view++;
    coordinator->deciding = coordinator->layout->on_workers > 0;
    bits_clear(coordinator->reported, coordinator->layout->workers);
    coordinator_tell_all(coordinator,
                         (struct message){.kind = WIRE_VIEW, .set = coordinator->departed}, out);
}

static void leave(struct coordinator *coordinator, uint32_t node, const char *why,
                  const struct core_out *out)
{
    uint32_t nodes = coordinator->layout->nodes;
    bits_add(coordinator->departed, node);
    coordinator_forget(coordinator, node);
    bits_clear(accusations_of(coordinator, node), nodes);
    for (uint32_t n = 0; n < nodes; n++)
        bits_remove(accusations_of(coordinator, n), node);
    if (coordinator->joins != NULL && node < coordinator->layout->workers)
        coordinator->joins[node].open = false;
    coordinator_tell_evicted(coordinator, node, why, out);
}

void coordinator_evict(struct coordinator *coordinator, uint32_t node, const char *why,
                       const struct core_out *out)
{
    if (coordinator->stage == COORDINATOR_OVER || bits_has(coordinator->departed, node))
        return;
    if (coordinator->stage != COORDINATOR_RUNNING || coordinator_needs(coordinator, node)) {
        end_without(coordinator, node, why, out);
        return;
    }
    leave(coordinator, node, why, out);
    begin_view(coordinator, out);
}

/* ---- accusations ---- */

void coordinator_take_accusation(struct coordinator *coordinator, const struct message *message)
{
    uint32_t nodes = coordinator->layout->nodes;
    uint64_t *row = accusations_of(coordinator, message->from);
    for (size_t w = 0; w < bits_words(nodes); w++)
        row[w] = message->set[w] & ~coordinator->departed[w];
}

/* Does this node accuse that one, and is it believed? */
static bool accuses(const struct coordinator *coordinator, uint32_t accuser, uint32_t node)
{
    return bits_has(coordinator->believed, accuser) &&
           bits_has(accusations_of(coordinator, accuser), node);
}

static uint32_t count_accusers(const struct coordinator *coordinator, uint32_t node)
{
    uint32_t accusers = 0;
    for (uint32_t n = 0; n < coordinator->layout->nodes; n++)
        accusers += accuses(coordinator, n, node);
    return accusers;
}

/* The most accused; among equals one that the job can do without, then the higher number.
 * Nobody can be given up in favour of the coordinator itself. UINT32_MAX: nobody is accused. */
static uint32_t most_accused(const struct coordinator *coordinator)
{
    uint32_t nodes = coordinator->layout->nodes, worst = UINT32_MAX, most = 0;
    if (!bits_any(coordinator->accused, nodes * bits_words(nodes) * 64))
        return UINT32_MAX;
    for (uint32_t n = 1; n < nodes; n++) {
        uint32_t accusers = count_accusers(coordinator, n);
        bool spared = worst != UINT32_MAX && accusers == most &&
                      coordinator_needs(coordinator, n) && !coordinator_needs(coordinator, worst);
        if (accusers > 0 && accusers >= most && !spared) {
            most = accusers;
            worst = n;
        }
    }
    return worst;
}

/* "was not heard by rank 0, server 2". */
static void name_accusers(const struct coordinator *coordinator, uint32_t node, char *text,
                          size_t cap)
{
    uint32_t named = 0, nodes = coordinator->layout->nodes;
    size_t used = (size_t)snprintf(text, cap, "was not heard by");
    for (uint32_t n = 0; n < nodes && used + 30 < cap && named < 6; n++)
        if (accuses(coordinator, n, node))
            used += (size_t)snprintf(text + used, cap - used, "%s %s", named++ > 0 ? "," : "",
                                     layout_name(coordinator->layout, n).text);
    uint32_t more = count_accusers(coordinator, node) - named;
    if (more > 0 && used < cap)
        (void)snprintf(text + used, cap - used, " and %u more", more);
}

/* Takes from the most accused until no accusation is left: who is gone accuses nobody. */
static void give_up_accused(struct coordinator *coordinator, const struct core_out *out)
{
    uint32_t left = 0;
    for (uint32_t node; (node = most_accused(coordinator)) != UINT32_MAX; left++) {
        char why[120];
        name_accusers(coordinator, node, why, sizeof why);
        if (coordinator->stage != COORDINATOR_RUNNING || coordinator_needs(coordinator, node)) {
            end_without(coordinator, node, why, out);
            return;
        }
        leave(coordinator, node, why, out);
    }
    if (left > 0)
        begin_view(coordinator, out);
}

/* ---- deciding ---- */

static void make_decision(struct coordinator *coordinator, const struct core_out *out)
{
    const struct layout *layout = coordinator->layout;
    struct decide_report *reports = mem_array(coordinator->mem, layout->workers, sizeof *reports);
    struct buf decision;
    tri_error err = {0};
    if (reports == NULL) {
        coordinator_fail(coordinator, TRI_ENOMEM, "out of memory for a decision", out);
        return;
    }
    buf_init(&decision, coordinator->mem);
    for (uint32_t r = 0; r < layout->workers; r++)
        if (!bits_has(coordinator->departed, r))
            reports[r] = (struct decide_report){(const uint8_t *)coordinator->reports[r].data,
                                                coordinator->reports[r].len};
    struct decide input = {.workers = layout->workers,
                           .departed = coordinator->departed,
                           .departed_before = coordinator->departed_before,
                           .before = (const uint8_t *)coordinator->decision.data,
                           .before_len = coordinator->decision.len,
                           .reports = reports};
    tri_status status = decide(&input, coordinator->mem, &decision, &err);
    mem_free(coordinator->mem, reports);
    if (status != TRI_OK) {
        buf_fini(&decision);
        coordinator_fail(coordinator, status, err.text, out);
        return;
    }
    buf_fini(&coordinator->decision);
    coordinator->decision = decision;
    coordinator->deciding = false;
    bits_copy(coordinator->departed_before, coordinator->departed, layout->nodes);
    struct message message = {.kind = WIRE_DECISION,
                              .role = CORE_WORKER,
                              .bytes = (const uint8_t *)decision.data,
                              .len = decision.len};
    for (uint32_t r = 0; r < layout->workers; r++)
        if (!bits_has(coordinator->departed, r))
            coordinator_tell(coordinator, r, message, out);
}

uint32_t coordinator_live(const struct coordinator *coordinator)
{
    uint32_t live = 0;
    for (uint32_t r = 0; r < coordinator->layout->workers; r++)
        live += !bits_has(coordinator->departed, r);
    return live;
}

void coordinator_take_report(struct coordinator *coordinator, const struct message *message,
                             const struct core_out *out)
{
    if (!coordinator->deciding || message->view != coordinator->view ||
        message->rank >= coordinator->layout->workers ||
        !bits_add(coordinator->reported, message->rank))
        return;
    struct buf *report = &coordinator->reports[message->rank];
    buf_clear(report);
    buf_add(report, message->bytes, message->len);
    if (!buf_ok(report))
        coordinator_fail(coordinator, TRI_ENOMEM, "out of memory for a report", out);
    else if (bits_count(coordinator->reported, coordinator->layout->workers) ==
             coordinator_live(coordinator))
        make_decision(coordinator, out);
}

/* ---- time ---- */

/* Whom everybody waits for because of the coordinator: who has not come or not reported. */
static void find_missing(struct coordinator *coordinator, const uint64_t *in, uint32_t members)
{
    for (uint32_t m = 0; m < members; m++)
        if (bits_has(in, m) || bits_has(coordinator->departed, m))
            bits_remove(coordinator->missing, m);
        else
            bits_add(coordinator->missing, m);
}

static void check_waits(struct coordinator *coordinator, const struct watch *watch, uint64_t now,
                        const struct core_out *out)
{
    bool starting = coordinator->stage < COORDINATOR_RUNNING;
    uint32_t members = starting ? coordinator->layout->nodes : coordinator->layout->workers;
    bool tell = watch_waits(watch, &coordinator->wait, starting || coordinator->deciding,
                            coordinator->view, now);
    bool too_late = starting && watch_gives_up(watch, &coordinator->wait, now);
    if (!tell && !too_late)
        return;
    find_missing(coordinator, starting ? coordinator->join.in : coordinator->reported, members);
    if (too_late) {
        char text[120];
        uint32_t first = 0;
        while (first + 1 < members && !bits_has(coordinator->missing, first))
            first++;
        (void)snprintf(text, sizeof text,
                       "%s did not come within %llu s: it was lost before the job had started",
                       layout_name(coordinator->layout, first).text,
                       (unsigned long long)(coordinator->times.start / 1000000));
        coordinator_fail(coordinator, TRI_EPEER, text, out);
        return;
    }
    struct watch_missing who = {.what = coordinator->stage == COORDINATOR_JOINING ? "HELLO"
                                        : starting                                ? "READY"
                                                                                  : "the report",
                                .who = starting ? "node" : "worker",
                                .set = coordinator->missing,
                                .members = members,
                                .layer = UINT32_MAX};
    watch_tell(watch, &coordinator->wait, &who, now, out);
}

void coordinator_tick(struct coordinator *coordinator, const struct watch *watch, uint64_t now,
                      const struct core_out *out)
{
    if (coordinator->stage == COORDINATOR_OVER)
        return;
    for (uint32_t n = 0; n < coordinator->layout->nodes; n++)
        if (watch_believes(watch, n, now))
            bits_add(coordinator->believed, n);
        else
            bits_remove(coordinator->believed, n);
    /* A tick for those who see the same thing to say so, then the most accused goes. */
    if (most_accused(coordinator) == UINT32_MAX)
        coordinator->accused_since = 0;
    else if (coordinator->accused_since == 0)
        coordinator->accused_since = now;
    else if (now - coordinator->accused_since >= core_tick(&coordinator->times)) {
        coordinator->accused_since = 0;
        give_up_accused(coordinator, out);
    }
    coordinator_retry_joins(coordinator, out);
    coordinator_check_end(coordinator, out);
    if (coordinator->stage != COORDINATOR_OVER)
        check_waits(coordinator, watch, now, out);
}
