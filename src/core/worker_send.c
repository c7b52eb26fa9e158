/* What a worker sends, and from where. */
#include "core/worker_inside.h"

struct core_ref worker_factor_ref(uint32_t layer, uint64_t clock, uint32_t rank, uint32_t first,
                                  uint32_t count)
{
    return (struct core_ref){.space = CORE_FACTORS,
                             .index = layer,
                             .rank = rank,
                             .generation = (uint32_t)(clock % 2),
                             .first = first,
                             .count = count};
}

struct core_ref worker_part_ref(const struct worker *worker, enum core_space space, uint32_t layer,
                                uint32_t part)
{
    const struct layout *layout = worker->layout;
    const struct layout_part *covered = &layout->parts[layout->layers[layer].first_part + part];
    return (struct core_ref){
        .space = space, .index = layer, .first = covered->first, .count = covered->floats};
}

/* The node that a part of a layer is sent to. */
static uint32_t owner_of(const struct worker *worker, uint32_t layer, uint32_t part)
{
    const struct layout *layout = worker->layout;
    uint32_t unit = layout->parts[layout->layers[layer].first_part + part].unit;
    return layout->server_node[layout->units[unit].server];
}

/* To every live worker but this one. */
static void to_peers(const struct worker *worker, const struct message *message,
                     struct core_ref ref, const struct core_out *out)
{
    for (uint32_t r = 0; r < worker->layout->workers; r++)
        if (r != worker->rank && bits_has(worker->live, r))
            core_send(out, r, message, ref);
}

static void send_dense(const struct worker *worker, const struct message *update,
                       const struct core_out *out)
{
    struct message message = *update;
    message.kind = WIRE_PUSH;
    message.role = CORE_SERVER;
    uint32_t parts = worker->layout->layers[update->layer].parts;
    for (message.part = 0; message.part < parts; message.part++)
        core_send(out, owner_of(worker, update->layer, message.part), &message,
                  worker_part_ref(worker, CORE_GRADIENT, update->layer, message.part));
}

/* The rows of a part of an update, in the slot of the rank that gave it. */
static struct core_ref rows_of(const struct message *message)
{
    uint32_t first = layout_factor_first(message->rows, message->parts, message->part);
    uint32_t last = layout_factor_first(message->rows, message->parts, message->part + 1);
    return worker_factor_ref(message->layer, message->clock, message->rank, first, last - first);
}

/* To every peer, or to the one server that owns the layer. */
static void send_factors(const struct worker *worker, const struct message *update,
                         const struct core_out *out)
{
    const struct layout_layer *layer = &worker->layout->layers[update->layer];
    struct message message = *update;
    message.kind = WIRE_FACTORS;
    message.role = receiver(layer);
    message.parts = layout_factor_parts(worker->layout, layer, message.rows);
    for (message.part = 0; message.part < message.parts; message.part++)
        if (on_workers(layer))
            to_peers(worker, &message, rows_of(&message), out);
        else
            core_send(out, owner_of(worker, update->layer, 0), &message, rows_of(&message));
}

void worker_send_update(const struct worker *worker, const struct message *update,
                        const struct core_out *out)
{
    if (worker->layout->layers[update->layer].form == TRI_FORM_DENSE)
        send_dense(worker, update, out);
    else
        send_factors(worker, update, out);
}

void worker_send_nothing(const struct worker *worker, uint32_t layer, uint64_t clock,
                         const struct core_out *out)
{
    const struct layout *layout = worker->layout;
    const struct layout_layer *described = &layout->layers[layer];
    const struct core_ref none = {.space = CORE_NOWHERE};
    struct message message = {.kind = WIRE_NOTHING,
                              .role = receiver(described),
                              .from = worker->rank,
                              .layer = layer,
                              .clock = clock,
                              .rank = worker->rank};
    if (on_workers(described)) {
        to_peers(worker, &message, none, out);
        return;
    }
    for (uint32_t i = 0; i < described->owners; i++) {
        uint32_t server = layout->owners[described->first_owner + i];
        core_send(out, layout->server_node[server], &message, none);
    }
}

void worker_send_init(const struct worker *worker, uint32_t layer, const struct core_out *out)
{
    const struct layout_layer *described = &worker->layout->layers[layer];
    struct message message = {.kind = WIRE_INIT,
                              .role = receiver(described),
                              .from = worker->rank,
                              .layer = layer,
                              .clock = worker->clock};
    for (message.part = 0; message.part < described->parts; message.part++) {
        struct core_ref ref = worker_part_ref(worker, CORE_PARAMS, layer, message.part);
        if (on_workers(described))
            to_peers(worker, &message, ref, out);
        else
            core_send(out, owner_of(worker, layer, message.part), &message, ref);
    }
}

void worker_send_relay(const struct worker *worker, const struct gather *gather, uint32_t layer,
                       uint32_t rank, uint32_t to, const struct core_out *out)
{
    const struct gather_rank *held = &gather->rank[rank];
    struct message message = {.kind = WIRE_NOTHING,
                              .role = CORE_WORKER,
                              .from = worker->rank,
                              .layer = layer,
                              .clock = gather->clock,
                              .rank = rank};
    if (!gather_has_values(gather, rank)) {
        core_send(out, to, &message, (struct core_ref){.space = CORE_NOWHERE});
        return;
    }
    message.kind = WIRE_FACTORS;
    message.rows = held->rows;
    message.parts = layout_factor_parts(worker->layout, &worker->layout->layers[layer], held->rows);
    message.count = held->count;
    message.lr_bits = held->lr_bits;
    for (message.part = 0; message.part < message.parts; message.part++)
        core_send(out, to, &message, rows_of(&message));
}

void worker_tell(const struct worker *worker, struct message message, const struct core_out *out)
{
    message.role = CORE_COORDINATOR;
    message.from = message.rank = worker->rank;
    message.owner = CORE_OWNER_WORKER;
    core_send(out, 0, &message, (struct core_ref){.space = CORE_NOWHERE});
}
