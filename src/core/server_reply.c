/* Answering workers: straight from the shard, or from slots of their own. */
#include "core/server_inside.h"

struct core_ref server_part_ref(const struct server *server, const struct server_unit *unit,
                                enum core_space space, uint32_t part)
{
    const struct layout_unit *owned = owned_by(server, unit);
    const struct layout_layer *layer = &server->layout->layers[owned->layer];
    const struct layout_part *covered = &server->layout->parts[layer->first_part + part];
    return (struct core_ref){.space = space,
                             .index = owned->index,
                             .first = covered->first - owned->first,
                             .count = covered->floats};
}

/* A result as it is to be told to a rank. */
static struct message result_for(const struct server *server, const struct server_unit *unit,
                                 uint32_t rank)
{
    return (struct message){.kind = WIRE_RESULT,
                            .role = CORE_WORKER,
                            .from = server->node,
                            .layer = owned_by(server, unit)->layer,
                            .clock =
                                steps_each(server) ? unit->pushed[rank] - 1 : unit->version - 1,
                            .version = unit->version,
                            .count = unit->count,
                            .lr_bits = unit->lr_bits,
                            .set = unit->counted};
}

void server_answer_all(const struct server *server, const struct server_unit *unit,
                       const struct core_out *out)
{
    const struct layout_unit *owned = owned_by(server, unit);
    for (uint32_t i = 0; i < owned->parts; i++)
        for (uint32_t r = 0; r < server->layout->workers; r++) {
            if (!bits_has(server->live, r))
                continue;
            struct message message = result_for(server, unit, r);
            struct core_ref ref = {.space = CORE_NOWHERE};
            message.part = owned->first_part + i;
            message.unchanged = unit->unchanged;
            if (!unit->unchanged)
                ref = server_part_ref(server, unit, CORE_SHARD, message.part);
            core_send(out, r, &message, ref);
        }
}

/* ---- slots ---- */

/* The parts of a unit to one rank: from its slot, or none where nothing has changed. */
static void send_parts(const struct server *server, const struct server_unit *unit, uint32_t rank,
                       struct message message, enum core_space space, const struct core_out *out)
{
    const struct layout_unit *owned = owned_by(server, unit);
    for (uint32_t i = 0; i < owned->parts; i++) {
        struct core_ref ref = {.space = CORE_NOWHERE};
        message.part = owned->first_part + i;
        if (space != CORE_NOWHERE)
            ref = server_part_ref(server, unit, space, message.part);
        ref.rank = rank;
        core_send(out, rank, &message, ref);
    }
}

void server_forward_init(struct server *server, struct server_unit *unit,
                         const struct core_out *out)
{
    for (uint32_t r = 1; r < server->layout->workers; r++) {
        if (!bits_has(server->live, r))
            continue;
        struct message message = {.kind = WIRE_INIT,
                                  .role = CORE_WORKER,
                                  .from = server->node,
                                  .layer = owned_by(server, unit)->layer,
                                  .clock = unit->version};
        if (core_has_replies(&server->rules))
            bits_add(unit->due, r);
        else
            send_parts(server, unit, r, message, CORE_SHARD, out);
    }
    unit->inited = !core_has_replies(&server->rules);
}

/* Does a rank that is answered get values? */
static bool gets_values(const struct server_unit *unit, uint32_t rank)
{
    return !unit->unchanged || bits_has(unit->left_out, rank) || bits_has(unit->joined, rank);
}

bool server_reply(struct server *server, struct server_unit *unit, const struct core_out *out)
{
    uint32_t ranks = server->layout->workers;
    if (!core_has_replies(&server->rules))
        return false;
    if (!bits_any(unit->due, ranks)) {
        unit->inited = true; /* there was nobody to send initial values on to */
        return false;
    }
    bool values = !unit->inited;
    bits_copy(unit->replying, unit->due, ranks);
    bits_clear(unit->due, ranks);
    for (uint32_t r = 0; r < ranks; r++)
        values = values || (bits_has(unit->replying, r) && gets_values(unit, r));
    if (values)
        server_start_op(server, unit, (struct core_op){.kind = CORE_OP_REPLY}, out);
    else
        server_replied(server, unit, out);
    return true;
}

static void send_reply(struct server *server, struct server_unit *unit, uint32_t rank,
                       const struct core_out *out)
{
    struct message message = result_for(server, unit, rank);
    bool values = gets_values(unit, rank);
    message.left_out = bits_has(unit->left_out, rank);
    message.unchanged = !values;
    if (bits_has(unit->joined, rank)) { /* the unit may be past it by now, its slot is not */
        message.version = server->absent[rank];
        message.clock = message.version - 1;
        message.set = NULL;
    }
    if (!unit->inited)
        message = (struct message){.kind = WIRE_INIT,
                                   .role = CORE_WORKER,
                                   .from = server->node,
                                   .layer = message.layer,
                                   .clock = unit->version};
    unit->read[rank] = unit->steps;
    bits_remove(unit->left_out, rank);
    bits_remove(unit->joined, rank);
    send_parts(server, unit, rank, message, values || !unit->inited ? CORE_REPLY : CORE_NOWHERE,
               out);
}

void server_replied(struct server *server, struct server_unit *unit, const struct core_out *out)
{
    for (uint32_t r = 0; r < server->layout->workers; r++) {
        if (!bits_has(unit->replying, r))
            continue;
        bits_remove(unit->replying, r);
        /* For a join it stays in its slot until all have agreed on the clock. */
        bool waits = bits_has(unit->joined, r) && !bits_has(server->agreed, r);
        if (bits_has(server->live, r) && !waits)
            send_reply(server, unit, r, out);
    }
    unit->inited = true;
}

void server_release_join(struct server *server, uint32_t rank, const struct core_out *out)
{
    for (uint32_t i = 0; i < server->unit_count; i++) {
        struct server_unit *unit = &server->units[i];
        if (bits_has(unit->joined, rank) && !bits_has(unit->due, rank) &&
            !bits_has(unit->replying, rank))
            send_reply(server, unit, rank, out);
    }
}
