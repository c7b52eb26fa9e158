/* The server's side of ps and adam under bsp. */
#include "core/server.h"

#include <string.h>

#include "base/error.h"
#include "mod/consistency.h"

static uint32_t most_parts(const struct layout *layout, const struct layout_unit *unit)
{
    const struct layout_layer *layer = &layout->layers[unit->layer];
    return layer->form == TRI_FORM_FACTORS ? layout_factor_parts(layout, layer, layer->factor_rows)
                                           : unit->parts;
}

tri_status server_init(struct server *server, const struct layout *layout,
                       const struct core_rules *rules, uint32_t number, uint64_t first,
                       const struct mem *mem, tri_error *err)
{
    *server = (struct server){.mem = mem,
                              .layout = layout,
                              .rules = *rules,
                              .number = number,
                              .node = layout->server_node[number]};
    server->rules.replicated = rules->replicated && !rules->aggregate;
    if (server->rules.consistency == NULL)
        server->rules.consistency = consistency_find("bsp");
    server->consistency.workers = layout->workers;
    server->units = mem_array(mem, layout->server_units[number], sizeof *server->units);
    if (server->units == NULL)
        return fail_nomem(err, "a server");
    for (uint32_t i = 0; i < layout->unit_count; i++) {
        const struct layout_unit *owned = &layout->units[i];
        if (owned->server != number)
            continue;
        struct server_unit *unit = &server->units[server->unit_count];
        server->unit_count++; /* from here on server_fini() frees what it has */
        tri_status status =
            gather_init(&unit->gather, mem, layout->workers, most_parts(layout, owned), err);
        unit->summed = mem_array(mem, bits_words(layout->workers), sizeof *unit->summed);
        unit->counted = mem_array(mem, bits_words(layout->workers), sizeof *unit->counted);
        unit->inits = mem_array(mem, bits_words(owned->parts), sizeof *unit->inits);
        unit->init_claims = mem_array(mem, bits_words(owned->parts), sizeof *unit->init_claims);
        if (status == TRI_OK && (unit->summed == NULL || unit->counted == NULL ||
                                 unit->inits == NULL || unit->init_claims == NULL))
            status = fail_nomem(err, "a server");
        if (status != TRI_OK) {
            server_fini(server);
            return status;
        }
        unit->unit = i;
        unit->version = first;
        gather_open(&unit->gather, first);
    }
    return TRI_OK;
}

void server_fini(struct server *server)
{
    for (uint32_t i = 0; i < server->unit_count; i++) {
        gather_fini(&server->units[i].gather, server->mem);
        mem_free(server->mem, server->units[i].summed);
        mem_free(server->mem, server->units[i].counted);
        mem_free(server->mem, server->units[i].inits);
        mem_free(server->mem, server->units[i].init_claims);
    }
    mem_free(server->mem, server->units);
    *server = (struct server){0};
}

/* ---- from a message to its unit ---- */

/* The unit that a part of a layer belongs to, NULL if it is not this server's. */
static struct server_unit *unit_of(const struct server *server, const struct message *message)
{
    const struct layout *layout = server->layout;
    if (message->layer >= layout->layer_count)
        return NULL;
    const struct layout_layer *layer = &layout->layers[message->layer];
    uint32_t unit = layer->first_unit;
    if (message->kind != WIRE_FACTORS) {
        if (message->part >= layer->parts)
            return NULL;
        unit = layout->parts[layer->first_part + message->part].unit;
    }
    const struct layout_unit *found = &layout->units[unit];
    return found->server == server->number ? &server->units[found->index] : NULL;
}

/* Floats of the unit that a part of its layer covers. */
static struct core_ref part_ref(const struct server *server, const struct server_unit *unit,
                                enum core_space space, uint32_t part)
{
    const struct layout_unit *owned = &server->layout->units[unit->unit];
    const struct layout_layer *layer = &server->layout->layers[owned->layer];
    const struct layout_part *covered = &server->layout->parts[layer->first_part + part];
    return (struct core_ref){.space = space,
                             .index = owned->index,
                             .first = covered->first - owned->first,
                             .count = covered->floats};
}

/* The number of a message's part within its update. */
static uint32_t part_within(const struct server *server, const struct server_unit *unit,
                            const struct message *message)
{
    return message->kind == WIRE_FACTORS
               ? message->part
               : message->part - server->layout->units[unit->unit].first_part;
}

/* Is this an update of the form and size that the unit's layer takes? */
static bool fits(const struct server *server, const struct server_unit *unit,
                 const struct message *message)
{
    const struct layout *layout = server->layout;
    const struct layout_layer *layer = &layout->layers[layout->units[unit->unit].layer];
    if (layer->form == TRI_FORM_DENSE)
        return message->kind == WIRE_PUSH;
    return message->kind == WIRE_FACTORS && message->rows > 0 &&
           message->rows <= layer->factor_rows &&
           message->parts == layout_factor_parts(layout, layer, message->rows) &&
           message->part < message->parts;
}

/* Without a promise of order, updates need no slots: they are added as they come. */
static bool adds(const struct server *server)
{
    return !server->rules.reproducible;
}

struct core_ref server_landing(struct server *server, const struct message *message)
{
    struct core_ref nowhere = {.space = CORE_NOWHERE};
    struct server_unit *unit = unit_of(server, message);
    if (unit == NULL)
        return nowhere;
    uint32_t within = part_within(server, unit, message);
    if (message->kind == WIRE_INIT)
        return bits_has(unit->inits, within) || !bits_add(unit->init_claims, within)
                   ? nowhere
                   : part_ref(server, unit, CORE_SHARD, message->part);
    if (message->clock != unit->version || !fits(server, unit, message) ||
        !gather_claim(&unit->gather, message, within))
        return nowhere;
    if (message->kind == WIRE_PUSH) {
        struct core_ref ref =
            part_ref(server, unit, adds(server) ? CORE_ADD : CORE_LANDING, message->part);
        ref.rank = message->rank;
        return ref;
    }
    uint32_t first = layout_factor_first(message->rows, message->parts, message->part);
    uint32_t last = layout_factor_first(message->rows, message->parts, message->part + 1);
    return (struct core_ref){.space = CORE_PRODUCTS,
                             .index = server->layout->units[unit->unit].index,
                             .rank = message->rank,
                             .first = first,
                             .count = last - first};
}

void server_lost(struct server *server, const struct message *message, const struct core_out *out)
{
    struct server_unit *unit = unit_of(server, message);
    if (unit == NULL)
        return;
    uint32_t within = part_within(server, unit, message);
    if (message->kind == WIRE_INIT)
        bits_remove(unit->init_claims, within);
    else if (message->clock == unit->version && fits(server, unit, message))
        gather_release(&unit->gather, message, within);
    /* Some of it is in the sum already, and cannot be told from the rest. */
    if (message->kind == WIRE_PUSH && adds(server))
        core_fail(out, TRI_EPEER, "an update of rank %u for layer %u was torn while it was summed",
                  message->rank, message->layer);
}

/* ---- applying and answering ---- */

static void answer(struct server *server, struct server_unit *unit, bool unchanged,
                   const struct core_out *out)
{
    const struct layout *layout = server->layout;
    const struct layout_unit *owned = &layout->units[unit->unit];
    for (uint32_t i = 0; i < owned->parts; i++)
        for (uint32_t r = 0; r < layout->workers; r++) {
            struct message message = {.kind = WIRE_RESULT,
                                      .role = CORE_WORKER,
                                      .from = server->node,
                                      .layer = owned->layer,
                                      .part = owned->first_part + i,
                                      .clock = unit->version - 1,
                                      .count = unit->gather.count,
                                      .lr_bits = unit->gather.lr_bits,
                                      .unchanged = unchanged,
                                      .counted = unit->counted};
            struct core_ref ref = {.space = CORE_NOWHERE};
            if (!unchanged)
                ref = part_ref(server, unit, CORE_SHARD, message.part);
            core_send(out, r, &message, ref);
        }
}

static void apply(struct server *server, struct server_unit *unit, enum core_op_kind kind,
                  const struct core_out *out)
{
    struct core_op op = {.kind = kind,
                         .index = server->layout->units[unit->unit].index,
                         .clock = unit->version,
                         .count = unit->gather.count,
                         .steps = unit->steps,
                         .lr = server->rules.consistency->lr(&server->consistency,
                                                             core_float(unit->gather.lr_bits))};
    unit->busy = true;
    core_op(out, &op);
}

/* The clock is closed: answer, and open the next. */
static void close_clock(struct server *server, struct server_unit *unit, const struct core_out *out)
{
    bool unchanged = unit->gather.count == 0;
    unit->steps += !unchanged;
    unit->version++;
    memcpy(unit->counted, unit->gather.values,
           bits_words(unit->gather.ranks) * sizeof *unit->counted);
    answer(server, unit, unchanged, out);
    unit->next = unit->sums = 0;
    bits_clear(unit->summed, unit->gather.ranks);
    gather_open(&unit->gather, unit->version);
    /* The copy is under way before the unit can step again. */
    if (server->mark == unit->version && server->to_save > 0)
        apply(server, unit, CORE_OP_COPY, out);
}

static void sum(struct server *server, struct server_unit *unit, uint32_t rank,
                const struct core_out *out)
{
    struct core_op op = {.kind = CORE_OP_SUM,
                         .index = server->layout->units[unit->unit].index,
                         .rank = rank,
                         .clock = unit->version,
                         .first = unit->sums == 0};
    bits_add(unit->summed, rank);
    unit->sums++;
    unit->busy = true;
    core_op(out, &op);
}

/* Sums the next rank in rank order: ranks with nothing are passed over, a rank that is
 * missing stops it. False when there is none to sum now. */
static bool sum_in_order(struct server *server, struct server_unit *unit,
                         const struct core_out *out)
{
    const struct gather *gather = &unit->gather;
    for (; unit->next < gather->ranks && bits_has(gather->whole, unit->next); unit->next++)
        if (gather_has_values(gather, unit->next)) {
            sum(server, unit, unit->next++, out);
            return true;
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
    if (adds(server))
        return false; /* they are in the sum already */
    return unit->gather.ranks > 2 ? sum_in_order(server, unit, out) : sum_any(server, unit, out);
}

/* Does whatever can be done now; one operation at a time per unit. */
static void advance(struct server *server, struct server_unit *unit, const struct core_out *out)
{
    const struct layout *layout = server->layout;
    const struct layout_unit *owned = &layout->units[unit->unit];
    bool dense = layout->layers[owned->layer].form == TRI_FORM_DENSE;
    if (unit->busy || (dense && sum_next(server, unit, out)))
        return;
    /* Updates may overtake the initial values, above all of one worker alone. */
    if (unit->init_parts < owned->parts ||
        !server->rules.consistency->after_push(&server->consistency, unit->gather.in,
                                               layout->workers))
        return;
    if (unit->gather.count == 0)
        close_clock(server, unit, out);
    else
        apply(server, unit, dense ? CORE_OP_STEP : CORE_OP_PRODUCT, out);
}

/* ---- events ---- */

/* Initial values came from worker 0: once the unit is whole, all others get them. */
static void take_init(struct server *server, struct server_unit *unit,
                      const struct message *message, const struct core_out *out)
{
    const struct layout *layout = server->layout;
    const struct layout_unit *owned = &layout->units[unit->unit];
    if (!bits_add(unit->inits, part_within(server, unit, message)) ||
        ++unit->init_parts < owned->parts)
        return;
    for (uint32_t i = 0; i < owned->parts; i++)
        for (uint32_t r = 1; r < layout->workers; r++) {
            struct message forward = {.kind = WIRE_INIT,
                                      .from = server->node,
                                      .layer = owned->layer,
                                      .part = owned->first_part + i,
                                      .clock = unit->version};
            core_send(out, r, &forward, part_ref(server, unit, CORE_SHARD, forward.part));
        }
    advance(server, unit, out);
}

static void take_update(struct server *server, struct server_unit *unit,
                        const struct message *message, const struct core_out *out)
{
    if (message->clock != unit->version || !fits(server, unit, message))
        return;
    const struct layout_unit *owned = &server->layout->units[unit->unit];
    uint32_t parts = message->kind == WIRE_FACTORS ? message->parts : owned->parts;
    uint32_t part = part_within(server, unit, message);
    enum gather_step result = gather_part(&unit->gather, message, part, parts);
    if (result != GATHER_WHOLE)
        return;
    if (!gather_rates_agree(&unit->gather, message)) {
        core_fail(out, TRI_EMISMATCH,
                  "learning rates differ in layer %u, clock %llu: rank %u has %g, rank %u has %g",
                  owned->layer, (unsigned long long)message->clock, unit->gather.lr_rank,
                  (double)core_float(unit->gather.lr_bits), message->rank,
                  (double)core_float(message->lr_bits));
        return;
    }
    advance(server, unit, out);
}

/* One message for all units of a layer that this server owns. */
static void take_nothing(struct server *server, const struct message *message,
                         const struct core_out *out)
{
    const struct layout *layout = server->layout;
    if (message->layer >= layout->layer_count)
        return;
    const struct layout_layer *layer = &layout->layers[message->layer];
    for (uint32_t i = 0; i < layer->units; i++) {
        const struct layout_unit *owned = &layout->units[layer->first_unit + i];
        if (owned->server != server->number)
            continue;
        struct server_unit *unit = &server->units[owned->index];
        if (message->clock == unit->version &&
            gather_nothing(&unit->gather, message->rank) == GATHER_WHOLE)
            advance(server, unit, out);
    }
}

static void to_coordinator(const struct server *server, struct message message,
                           const struct core_out *out)
{
    message.role = CORE_COORDINATOR;
    message.from = server->node;
    core_send(out, 0, &message, (struct core_ref){.space = CORE_NOWHERE});
}

/* The coordinator wants all units at a version ahead. */
static void take_mark(struct server *server, const struct message *message,
                      const struct core_out *out)
{
    uint64_t newest = 0;
    for (uint32_t i = 0; i < server->unit_count; i++)
        newest = server->units[i].version > newest ? server->units[i].version : newest;
    if (message->clock <= server->mark)
        return; /* a proposal that a later one has overtaken */
    bool accepted = newest < message->clock;
    server->mark = accepted ? message->clock : 0;
    server->to_save = accepted ? server->unit_count : 0;
    to_coordinator(
        server,
        (struct message){
            .kind = WIRE_MARKED, .clock = message->clock, .count = newest, .accepted = accepted},
        out);
}

void server_message(struct server *server, const struct message *message,
                    const struct core_out *out)
{
    if (message->kind == WIRE_MARK) {
        take_mark(server, message, out);
        return;
    }
    if (message->kind == WIRE_NOTHING) {
        take_nothing(server, message, out);
        return;
    }
    struct server_unit *unit = unit_of(server, message);
    if (unit == NULL)
        return;
    if (message->kind == WIRE_INIT)
        take_init(server, unit, message, out);
    else
        take_update(server, unit, message, out);
}

void server_done(struct server *server, const struct core_op *op, const struct core_out *out)
{
    struct server_unit *unit = &server->units[op->index];
    unit->busy = false;
    if (op->kind == CORE_OP_STEP || op->kind == CORE_OP_PRODUCT)
        close_clock(server, unit, out);
    else if (op->kind == CORE_OP_COPY && server->mark == op->clock && --server->to_save == 0)
        to_coordinator(server, (struct message){.kind = WIRE_SAVED, .clock = op->clock}, out);
    advance(server, unit, out);
}
