/* What must always be true, the part about values:
 *
 *  2. What an operation uses, or what is added, is bit for bit what its rank gave for that
 *     clock, and it is used once on the server and once on each worker.
 *  3. The count that a sum is divided by is that of the updates in it.
 *  5. ssp: no layer is begun more than the bound ahead of the slowest live rank.
 *  7. The memory of a message does not change on its way.
 *
 * check_state.c has the others. A process that was started anew is not looked at here: it may
 * take no part (12). */
#include "sim/check.h"

#include <string.h>

#include "base/error.h"
#include "sim/links.h"

/* ---- memory ---- */

static void *room(struct sim_cluster *cluster, size_t a, size_t b, size_t size, bool *ok)
{
    void *at = mem_array(cluster->mem, a * b, size);
    *ok = *ok && at != NULL;
    return at;
}

tri_status check_init(struct sim_cluster *cluster, tri_error *err)
{
    const struct layout *layout = cluster->layout;
    struct check *check = &cluster->check;
    bool ok = true;
    if (!cluster->options.check)
        return TRI_OK;
    check->on = true;
    check->clocks = cluster->options.clocks + 2;
    check->words = bits_words(layout->workers);
    check->node_words = bits_words(layout->nodes);
    check->views = layout->nodes + 2;
    size_t ranks = layout->workers, layers = layout->layer_count, units = layout->unit_count;
    size_t clocks = (size_t)check->clocks, sets = clocks * check->words;
    check->given = room(cluster, ranks * clocks, layers, sizeof *check->given, &ok);
    check->in = room(cluster, units, sets, sizeof *check->in, &ok);
    check->consumed = room(cluster, (1 + ranks) * units, sets, sizeof *check->consumed, &ok);
    check->versions = room(cluster, layers, clocks, sizeof *check->versions, &ok);
    check->reached = room(cluster, layers, sets, sizeof *check->reached, &ok);
    check->all = room(cluster, clocks, 1, sizeof *check->all, &ok);
    check->all_reached = room(cluster, sets, 1, sizeof *check->all_reached, &ok);
    check->seen = room(cluster, ranks, layers, sizeof *check->seen, &ok);
    check->samples = room(cluster, units, 1, sizeof *check->samples, &ok);
    check->added = room(cluster, layout->part_count, ranks, sizeof *check->added, &ok);
    check->departed = room(cluster, check->views, check->node_words, sizeof *check->departed, &ok);
    check->viewed = room(cluster, check->views, 1, sizeof *check->viewed, &ok);
    check->view = room(cluster, layout->nodes, 1, sizeof *check->view, &ok);
    return ok ? TRI_OK : fail_nomem(err, "the checks of a simulation");
}

void check_fini(struct sim_cluster *cluster)
{
    const struct mem *mem = cluster->mem;
    struct check *check = &cluster->check;
    size_t given = check->given == NULL ? 0
                                        : cluster->layout->workers * (size_t)check->clocks *
                                              cluster->layout->layer_count;
    for (size_t i = 0; i < given; i++)
        mem_free(mem, check->given[i].values);
    mem_free(mem, check->given);
    mem_free(mem, check->in);
    mem_free(mem, check->consumed);
    mem_free(mem, check->versions);
    mem_free(mem, check->reached);
    mem_free(mem, check->all);
    mem_free(mem, check->all_reached);
    mem_free(mem, check->seen);
    mem_free(mem, check->samples);
    mem_free(mem, check->added);
    mem_free(mem, check->departed);
    mem_free(mem, check->viewed);
    mem_free(mem, check->view);
}

/* ---- what was given ---- */

static struct check_update *update_of(struct sim_cluster *cluster, uint32_t rank, uint64_t clock,
                                      uint32_t layer)
{
    struct check *check = &cluster->check;
    if (clock >= check->clocks)
        return NULL;
    return &check->given[(rank * check->clocks + clock) * cluster->layout->layer_count + layer];
}

void check_given(struct machine *machine, uint32_t layer, const struct sim_update *update)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct layout_layer *shape = &cluster->layout->layers[layer];
    if (!cluster->check.on || machine->second)
        return;
    struct check_update *given =
        update_of(cluster, machine->number, machine->core.worker.clock, layer);
    if (given == NULL || given->values != NULL || machine->core.worker.behind)
        return; /* what is given while behind goes nowhere */
    bool dense = shape->form == TRI_FORM_DENSE;
    size_t u = (size_t)update->rows * shape->rows, v = (size_t)update->rows * shape->cols;
    given->values =
        mem_array(cluster->mem, dense ? (size_t)shape->floats : u + v, sizeof *given->values);
    if (given->values == NULL) {
        sim_refuse(cluster, TRI_ENOMEM, "out of memory for the checks of a simulation");
        return;
    }
    given->given = true;
    given->count = update->count;
    given->rows = dense ? 0 : update->rows;
    struct store_factors slot =
        store_worker_slot(&machine->worker_store, worker_slot(&machine->core.worker, layer));
    if (dense) {
        struct sim_values gradient = machine->caller.gradients[layer];
        size_t matrix = (size_t)shape->rows * shape->cols;
        memcpy(given->values, gradient.weights, matrix * sizeof(float));
        if (shape->bias)
            memcpy(given->values + matrix, gradient.bias, shape->rows * sizeof(float));
    } else {
        memcpy(given->values, slot.u, u * sizeof(float));
        memcpy(given->values + u, slot.v, v * sizeof(float));
    }
}

/* ---- what is used (2, 3) ---- */

/* One use of an update: of which unit, on the server (place 0) or on worker place - 1. */
struct use {
    uint32_t place, unit, rank;
    uint64_t clock;
};

static void complain(struct machine *machine, const struct use *use, const char *text)
{
    sim_violate(machine->cluster, "node %u, layer %u, unit %u, clock %llu, rank %u: %s",
                machine->number, machine->cluster->layout->units[use->unit].layer, use->unit,
                (unsigned long long)use->clock, use->rank, text);
}

/* Marks it as used; what the rank gave, or NULL after a complaint. */
static const struct check_update *use_up(struct machine *machine, const struct use *use)
{
    struct sim_cluster *cluster = machine->cluster;
    struct check *check = &cluster->check;
    const struct layout *layout = cluster->layout;
    const struct check_update *given =
        update_of(cluster, use->rank, use->clock, layout->units[use->unit].layer);
    if (given == NULL || !given->given) {
        complain(machine, use, "an update is used that was never given");
        return NULL;
    }
    size_t at = (use->place * (size_t)layout->unit_count + use->unit) * check->clocks + use->clock;
    if (!bits_add(&check->consumed[at * check->words], use->rank)) {
        complain(machine, use, "an update is used a second time");
        return NULL;
    }
    return given;
}

static const struct check_update *use_factors(struct machine *machine, const struct use *use,
                                              struct store_factors slot, uint32_t rows)
{
    const struct layout *layout = machine->cluster->layout;
    const struct layout_layer *layer = &layout->layers[layout->units[use->unit].layer];
    const struct check_update *given = use_up(machine, use);
    size_t u = (size_t)rows * layer->rows, v = (size_t)rows * layer->cols;
    if (given == NULL)
        return NULL;
    if (rows != given->rows || memcmp(slot.u, given->values, u * sizeof(float)) != 0 ||
        memcmp(slot.v, given->values + u, v * sizeof(float)) != 0) {
        complain(machine, use, "the factors used are not those that were given");
        return NULL;
    }
    return given;
}

static void check_count(struct machine *machine, const struct core_op *op, uint32_t unit,
                        uint64_t count)
{
    if (op->count != count)
        sim_violate(machine->cluster,
                    "node %u, layer %u, unit %u, clock %llu: divided by %llu, not %llu",
                    machine->number, machine->cluster->layout->units[unit].layer, unit,
                    (unsigned long long)op->clock, (unsigned long long)op->count,
                    (unsigned long long)count);
}

/* The clock that the update of a rank for a unit is of, when it is used. */
static uint64_t clock_of(const struct server_unit *unit, const struct core_rules *rules,
                         uint32_t rank)
{
    return each_push(rules) ? unit->pushed[rank] : unit->version;
}

static void check_sum(struct machine *machine, const struct core_op *op)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct server_unit *open = &machine->core.server.units[op->index];
    uint32_t unit = machine->server_store.units[op->index].number;
    const struct layout_unit *shape = &cluster->layout->units[unit];
    struct use use = {0, unit, op->rank, clock_of(open, &cluster->options.rules, op->rank)};
    const struct check_update *given = use_up(machine, &use);
    if (given == NULL)
        return;
    struct core_ref slot = {
        .space = CORE_LANDING, .index = op->index, .rank = op->rank, .count = shape->floats};
    if (!store_runs_equal(store_server_runs(&machine->server_store, slot),
                          given->values + shape->first))
        complain(machine, &use, "the update summed is not the one that was given");
    if (op->first)
        cluster->check.samples[unit] = 0;
    cluster->check.samples[unit] += given->count;
}

void check_add(struct machine *machine, const struct packet *packet)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct layout *layout = cluster->layout;
    const struct message *message = &packet->message;
    if (!cluster->check.on || machine->second)
        return;
    uint32_t number = layout->layers[message->layer].first_part + message->part;
    const struct layout_part *part = &layout->parts[number];
    struct use use = {0, part->unit, message->rank, message->clock};
    const struct check_update *given =
        update_of(cluster, message->rank, message->clock, message->layer);
    uint64_t *added = &cluster->check.added[(size_t)number * layout->workers + message->rank];
    if (given == NULL || !given->given ||
        memcmp(packet->data, given->values + part->first, part->floats * sizeof(float)) != 0)
        complain(machine, &use, "the update added is not the one that was given");
    else if (*added > message->clock)
        complain(machine, &use, "an update is added a second time");
    *added = message->clock + 1;
}

/* Where updates are added as they come: whose are in the sum, and all of each. */
static uint64_t count_added(struct machine *machine, uint32_t unit, uint64_t clock)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct layout *layout = cluster->layout;
    const struct layout_unit *shape = &layout->units[unit];
    uint32_t first = layout->layers[shape->layer].first_part + shape->first_part;
    uint64_t count = 0;
    for (uint32_t r = 0; r < layout->workers; r++) {
        struct use use = {0, unit, r, clock};
        uint32_t parts = 0;
        for (uint32_t p = 0; p < shape->parts; p++)
            parts += cluster->check.added[(first + p) * (size_t)layout->workers + r] == clock + 1;
        if (parts > 0 && parts < shape->parts)
            complain(machine, &use, "only some of an update is in the sum");
        const struct check_update *given = parts > 0 ? use_up(machine, &use) : NULL;
        count += given != NULL ? given->count : 0;
    }
    return count;
}

static void check_step(struct machine *machine, const struct core_op *op)
{
    struct sim_cluster *cluster = machine->cluster;
    uint32_t unit = machine->server_store.units[op->index].number;
    uint64_t *samples = &cluster->check.samples[unit];
    if (!core_has_slots(&cluster->options.rules))
        *samples = count_added(machine, unit, machine->core.server.units[op->index].version);
    check_count(machine, op, unit, *samples);
    *samples = 0;
}

static void check_product(struct machine *machine, const struct core_op *op)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct server *server = &machine->core.server;
    uint32_t unit = machine->server_store.units[op->index].number;
    uint64_t count = 0;
    for (uint32_t r = 0; r < cluster->layout->workers; r++) {
        uint32_t rows = server_factor_rows(server, op->index, r);
        if (rows == 0)
            continue;
        struct use use = {0, unit, r,
                          clock_of(&server->units[op->index], &cluster->options.rules, r)};
        const struct check_update *given = use_factors(
            machine, &use, store_server_slot(&machine->server_store, op->index, r), rows);
        count += given != NULL ? given->count : 0;
    }
    check_count(machine, op, unit, count);
}

static void check_apply(struct machine *machine, const struct core_op *op)
{
    struct sim_cluster *cluster = machine->cluster;
    uint32_t unit = cluster->layout->layers[op->index].first_unit;
    uint64_t count = 0;
    for (uint32_t r = 0; r < cluster->layout->workers; r++) {
        uint32_t rows = worker_factor_rows(&machine->core.worker, op->index, op->clock, r);
        struct core_ref slot = {.space = CORE_FACTORS,
                                .index = op->index,
                                .generation = (uint32_t)(op->clock % 2),
                                .rank = r};
        struct use use = {1 + machine->number, unit, r, op->clock};
        if (rows == 0)
            continue;
        const struct check_update *given =
            use_factors(machine, &use, store_worker_slot(&machine->worker_store, slot), rows);
        count += given != NULL ? given->count : 0;
    }
    check_count(machine, op, unit, count);
}

void check_op(struct machine *machine, const struct core_op *op)
{
    if (!machine->cluster->check.on || machine->second)
        return;
    if (op->kind == CORE_OP_SUM)
        check_sum(machine, op);
    else if (op->kind == CORE_OP_STEP)
        check_step(machine, op);
    else if (op->kind == CORE_OP_PRODUCT)
        check_product(machine, op);
    else if (op->kind == CORE_OP_APPLY)
        check_apply(machine, op);
}

/* ---- on the way (7) ---- */

void check_source(struct sim_cluster *cluster, const struct packet *packet)
{
    const struct machine *from = &cluster->machines[packet->from];
    const struct message *message = &packet->message;
    if (packet->duplicate || !machine_runs(from) || sim_is_departed(cluster, packet->to) ||
        store_runs_equal(links_runs(from, packet->source), packet->data))
        return;
    sim_violate(cluster,
                "memory changed while it was being sent: %s of layer %u, part %u, clock %llu, "
                "%u to %u",
                wire_kind_name(message->kind), message->layer, message->part,
                (unsigned long long)message->clock, packet->from, packet->to);
}

/* ---- how far ahead (5) ---- */

/* The fewest clocks that a live rank has pushed of a unit, as its server knows. */
static uint64_t slowest(const struct sim_cluster *cluster, const struct layout_unit *unit)
{
    const struct machine *owner = &cluster->machines[cluster->layout->server_node[unit->server]];
    const struct server *server = &owner->core.server;
    uint64_t least = UINT64_MAX;
    for (uint32_t r = 0; !owner->second && r < cluster->layout->workers; r++)
        if (bits_has(server->live, r) && server->units[unit->index].pushed[r] < least)
            least = server->units[unit->index].pushed[r];
    return least;
}

void check_begun(struct machine *machine, uint32_t layer)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct core_rules *rules = &cluster->options.rules;
    const struct layout_layer *shape = &cluster->layout->layers[layer];
    if (!cluster->check.on || !each_push(rules) || !rules->consistency->bounded ||
        shape->home == TRI_HOME_WORKERS)
        return;
    for (uint32_t i = 0; i < shape->units; i++) {
        const struct layout_unit *unit = &cluster->layout->units[shape->first_unit + i];
        uint64_t least = slowest(cluster, unit);
        if (least != UINT64_MAX && machine->loop.clock > least + rules->bound)
            sim_violate(cluster,
                        "node %u, layer %u: clock %llu is begun, and the slowest has pushed %llu",
                        machine->number, layer, (unsigned long long)machine->loop.clock,
                        (unsigned long long)least);
    }
}
