/* ssp and asp: every update is a step of its own. */
#include "core/server_inside.h"

/* After a rank that took part in the step under way: its update is in, an answer is due. */
static void finish(struct server *server, struct server_unit *unit, uint32_t rank)
{
    unit->pushed[rank]++;
    gather_forget(&unit->gather, rank);
    bits_add(unit->held, rank);
    server_find_least(server, unit);
}

void server_find_least(struct server *server, struct server_unit *unit)
{
    uint32_t ranks = server->layout->workers;
    uint64_t least = UINT64_MAX;
    for (uint32_t r = 0; r < ranks; r++)
        if (bits_has(server->live, r) && unit->pushed[r] < least)
            least = unit->pushed[r];
    if (least != UINT64_MAX && least > unit->version)
        server_raise_version(server, unit, least);
    for (uint32_t r = 0; r < ranks; r++) {
        if (!bits_has(unit->held, r))
            continue;
        bool lives = bits_has(server->live, r);
        if (lives && unit->version < server->rules.consistency->before_serving(&server->consistency,
                                                                               unit->pushed[r] - 1))
            continue;
        bits_remove(unit->held, r);
        if (lives)
            bits_add(unit->due, r);
    }
}

/* Ranks take turns, so that none is kept waiting by those with lower numbers. */
static uint32_t next_rank(struct server_unit *unit)
{
    const struct gather *gather = &unit->gather;
    for (uint32_t i = 0; i < gather->ranks; i++) {
        uint32_t rank = (unit->next + i) % gather->ranks;
        if (bits_has(gather->whole, rank)) {
            unit->next = rank + 1;
            return rank;
        }
    }
    return UINT32_MAX;
}

static void step(struct server *server, struct server_unit *unit, const struct core_out *out)
{
    const struct gather_rank *update = &unit->gather.rank[unit->stepping];
    struct core_op op = {
        .kind = is_dense(server, unit) ? CORE_OP_STEP : CORE_OP_PRODUCT,
        .rank = unit->stepping,
        .count = update->count,
        .steps = unit->steps,
        .lr = server->rules.consistency->lr(&server->consistency, core_float(update->lr_bits))};
    server_start_op(server, unit, op, out);
}

bool server_step_each(struct server *server, struct server_unit *unit, const struct core_out *out)
{
    if (unit->stepping != UINT32_MAX) { /* its sum is ready */
        step(server, unit, out);
        return true;
    }
    uint32_t rank = next_rank(unit);
    if (rank == UINT32_MAX ||
        !server->rules.consistency->after_push(&server->consistency, unit->gather.in,
                                               server->consistency.workers))
        return false;
    if (!gather_has_values(&unit->gather, rank)) {
        finish(server, unit, rank);
        return true;
    }
    unit->stepping = rank;
    if (is_dense(server, unit))
        server_start_op(server, unit,
                        (struct core_op){.kind = CORE_OP_SUM, .rank = rank, .first = true}, out);
    else
        step(server, unit, out);
    return true;
}

/* How many steps has the unit made since this rank had its last answer? */
static void note_staleness(struct server_unit *unit, uint32_t rank)
{
    struct server_staleness *staleness = &unit->staleness;
    uint64_t behind = unit->steps - unit->read[rank];
    staleness->updates++;
    staleness->total += behind;
    staleness->most = behind > staleness->most ? behind : staleness->most;
}

void server_stepped_each(struct server *server, struct server_unit *unit,
                         const struct core_out *out)
{
    uint32_t rank = unit->stepping;
    (void)out;
    note_staleness(unit, rank);
    unit->stepping = UINT32_MAX;
    unit->steps++;
    unit->count = unit->gather.rank[rank].count;
    unit->lr_bits = unit->gather.rank[rank].lr_bits;
    bits_clear(unit->counted, unit->gather.ranks);
    bits_add(unit->counted, rank);
    finish(server, unit, rank);
}
