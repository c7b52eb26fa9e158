/* Summing, stepping, closing a clock. */
#include "core/server_inside.h"

void server_start_op(const struct server *server, struct server_unit *unit, struct core_op op,
                     const struct core_out *out)
{
    op.role = CORE_SERVER;
    op.index = owned_by(server, unit)->index;
    if (op.kind != CORE_OP_COPY)
        op.clock = unit->version;
    unit->busy = true;
    core_op(out, &op);
}

/* mean = sum / count, and a step with it. */
static void apply(const struct server *server, struct server_unit *unit, const struct core_out *out)
{
    float lr = core_float(unit->gather.lr_bits);
    struct core_op op = {.kind = is_dense(server, unit) ? CORE_OP_STEP : CORE_OP_PRODUCT,
                         .count = unit->gather.count,
                         .steps = unit->steps,
                         .lr = server->rules.consistency->lr(&server->consistency, lr)};
    server_start_op(server, unit, op, out);
}

void server_raise_version(struct server *server, struct server_unit *unit, uint64_t version)
{
    if (server->to_save > 0 && unit->version < server->mark && server->mark <= version)
        unit->to_copy = server->mark; /* before the unit can step again */
    unit->version = version;
}

/* The clock is closed: answer, and open the next. */
static void close_clock(struct server *server, struct server_unit *unit, const struct core_out *out)
{
    uint32_t ranks = server->layout->workers;
    unit->unchanged = unit->gather.count == 0;
    unit->count = unit->gather.count;
    unit->lr_bits = unit->gather.lr_bits;
    unit->steps += !unit->unchanged;
    server_raise_version(server, unit, unit->version + 1);
    bits_copy(unit->counted, unit->gather.values, ranks);
    if (core_has_replies(&server->rules))
        server_note_in(server, unit);
    else
        server_answer_all(server, unit, out);
    unit->next = unit->sums = 0;
    unit->closing = false;
    unit->half = 0;
    bits_clear(unit->summed, ranks);
    gather_open(&unit->gather, unit->version);
}

static void sum(struct server *server, struct server_unit *unit, uint32_t rank,
                const struct core_out *out)
{
    struct core_op op = {.kind = CORE_OP_SUM, .rank = rank, .first = unit->sums == 0};
    bits_add(unit->summed, rank);
    unit->sums++;
    server_start_op(server, unit, op, out);
}

/* Sums the next rank in rank order: ranks with nothing are passed over, and those that will not
 * come; another that is missing stops it. False when there is none to sum now. */
static bool sum_in_order(struct server *server, struct server_unit *unit,
                         const struct core_out *out)
{
    const struct gather *gather = &unit->gather;
    for (; unit->next < gather->ranks; unit->next++) {
        bool waits = !unit->closing && bits_has(server->live, unit->next);
        if (!bits_has(gather->whole, unit->next) && waits)
            return false;
        if (gather_has_values(gather, unit->next)) {
            sum(server, unit, unit->next++, out);
            return true;
        }
    }
    return false;
}

/* Sums any rank that is in: two ranks commute, so their order does not matter. */
static bool sum_any(struct server *server, struct server_unit *unit, const struct core_out *out)
{
    const struct gather *gather = &unit->gather;
    size_t rank = bits_first_without(gather->values, unit->summed, gather->ranks);
    if (rank == gather->ranks)
        return false;
    sum(server, unit, (uint32_t)rank, out);
    return true;
}

static bool sum_next(struct server *server, struct server_unit *unit, const struct core_out *out)
{
    if (!is_dense(server, unit) || !core_has_slots(&server->rules))
        return false; /* multiplied out at once, or in the sum already */
    return unit->gather.ranks > 2 ? sum_in_order(server, unit, out) : sum_any(server, unit, out);
}

void server_find_present(const struct server *server, const struct server_unit *unit)
{
    uint32_t ranks = server->layout->workers;
    bits_copy(server->present, server->live, ranks);
    for (uint32_t r = 0; server->absent != NULL && r < ranks; r++)
        if (server->absent[r] > unit->version)
            bits_remove(server->present, r);
}

/* All live ranks are absent, each behind in some other unit. What came is answered; and when all
 * have clocks to join at, the unit goes there without a step, or nobody ever would. */
static bool is_deserted(const struct server *server, const struct server_unit *unit)
{
    for (uint32_t r = 0; r < server->layout->workers && unit->gather.in == 0; r++)
        if (bits_has(server->live, r) && server->absent[r] == UINT64_MAX)
            return false;
    return true;
}

/* Are all here that the clock waits for? */
static bool is_complete(const struct server *server, const struct server_unit *unit)
{
    uint32_t ranks = server->layout->workers, in = 0;
    server_find_present(server, unit);
    uint32_t live = bits_count(server->present, ranks);
    for (size_t w = 0; w < bits_words(ranks); w++)
        in += (uint32_t)__builtin_popcountll(server->present[w] & unit->gather.whole[w]);
    if (live == 0)
        return is_deserted(server, unit);
    return server->rules.consistency->after_push(&server->consistency, in, live);
}

/* One step per clock. False when nothing can be done now. */
static bool step_clock(struct server *server, struct server_unit *unit, const struct core_out *out)
{
    /* Backup workers are spares: one that has departed is used up. */
    bool enough = server->rules.backup > 0 && server_leaves_out(server, unit) &&
                  unit->gather.in + server->rules.backup >= server->layout->workers;
    if (!unit->closing && (enough || is_complete(server, unit)))
        server_begin_close(server, unit);
    if (sum_next(server, unit, out))
        return true;
    if (!unit->closing)
        return false;
    if (unit->gather.count == 0)
        close_clock(server, unit, out);
    else
        apply(server, unit, out);
    return true;
}

void server_advance(struct server *server, struct server_unit *unit, const struct core_out *out)
{
    /* Updates may overtake the initial values, above all of one worker alone. */
    for (bool more = unit->init_parts == owned_by(server, unit)->parts; more && !unit->busy;) {
        if (core_leaves_out(&server->rules))
            server_answer_late(server, unit, out);
        if (unit->to_copy > 0) {
            struct core_op copy = {
                .kind = CORE_OP_COPY, .clock = unit->to_copy, .steps = unit->steps};
            unit->to_copy = 0;
            server_start_op(server, unit, copy, out);
        } else if (!server_reply(server, unit, out)) {
            more = steps_each(server) ? server_step_each(server, unit, out)
                                      : step_clock(server, unit, out);
        }
    }
}

void server_done(struct server *server, const struct core_op *op, const struct core_out *out)
{
    struct server_unit *unit = &server->units[op->index];
    unit->busy = false;
    switch (op->kind) {
    case CORE_OP_STEP:
    case CORE_OP_PRODUCT:
        if (steps_each(server))
            server_stepped_each(server, unit, out);
        else
            close_clock(server, unit, out);
        break;
    case CORE_OP_COPY:
        if (server->mark == op->clock && server->to_save > 0 && --server->to_save == 0)
            server_tell(server, (struct message){.kind = WIRE_SAVED, .clock = op->clock}, out);
        break;
    case CORE_OP_REPLY:
        server_replied(server, unit, out);
        break;
    default:
        break;
    }
    server_advance(server, unit, out);
}
