/* One simulated node: a core, its memory, and what becomes of it. */
#include <string.h>

#include "base/error.h"
#include "sim/links.h"
#include "sim/loop.h"
#include "sim/story.h"

/* Operations take up to so long; a copy for a checkpoint is not waited for by who reads, and may
 * last until the next result is there. */
enum { SHORT_OP = 25, LONG_COPY = 500 };

/* ---- making ---- */

static const struct mem *core_mem(const struct sim_cluster *cluster)
{
    return cluster->options.core_mem != NULL ? cluster->options.core_mem : cluster->mem;
}

static tri_status init_core(struct machine *machine, tri_error *err)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct sim_options *options = &cluster->options;
    uint64_t hash =
        layout_hash(cluster->layout, core_rules_hash(&options->rules, options->optim.ops->name));
    bool odd = machine->number + options->odd_nodes >= cluster->layout->nodes;
    struct node_options node = {.layout = cluster->layout,
                                .rules = options->rules,
                                .times = options->times,
                                .number = machine->number,
                                .layers_hash = hash + odd,
                                .plan_hash = hash,
                                .incarnation = 1 + (uint64_t)machine->life};
    tri_status status = node_init(&machine->core, &node, core_mem(cluster), err);
    machine->made = status == TRI_OK;
    return status;
}

static tri_status init_worker(struct machine *machine, tri_error *err)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct sim_options *options = &cluster->options;
    tri_status status =
        caller_init(&machine->caller, cluster->layout, &options->rules, cluster->mem, err);
    if (status != TRI_OK)
        return status;
    struct store_worker_options store = {.layout = cluster->layout,
                                         .rules = options->rules,
                                         .optim = options->optim,
                                         .layers = machine->caller.layers,
                                         .copy_gradients = each_push(&options->rules)};
    status = store_worker_init(&machine->worker_store, &store, cluster->mem, err);
    for (uint32_t i = 0; status == TRI_OK && i < cluster->layout->layer_count; i++)
        options->app.init(options->app.ctx, machine->number, i, caller_params(&machine->caller, i));
    return status;
}

static tri_status init_server(struct machine *machine, uint32_t number, tri_error *err)
{
    const struct sim_cluster *cluster = machine->cluster;
    struct store_server_options store = {.layout = cluster->layout,
                                         .rules = cluster->options.rules,
                                         .optim = cluster->options.optim,
                                         .number = number};
    return store_server_init(&machine->server_store, &store, cluster->mem, err);
}

/* A process: a core that knows nothing yet, and memory. */
static tri_status init_process(struct machine *machine, tri_error *err)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct layout *layout = cluster->layout;
    tri_status status = init_core(machine, err);
    if (status == TRI_OK && machine->number < layout->workers)
        status = init_worker(machine, err);
    for (uint32_t s = 0; status == TRI_OK && s < layout->servers; s++)
        if (layout->server_node[s] == machine->number)
            status = init_server(machine, s, err);
    return status;
}

static void fini_process(struct machine *machine)
{
    if (machine->made)
        node_fini(&machine->core);
    machine->made = false;
    store_worker_fini(&machine->worker_store);
    store_server_fini(&machine->server_store);
    caller_fini(&machine->caller);
}

tri_status machine_init(struct machine *machine, struct sim_cluster *cluster, uint32_t number,
                        tri_error *err)
{
    size_t words = bits_words(cluster->layout->nodes);
    size_t clocks = (size_t)cluster->options.clocks + 2;
    machine->cluster = cluster;
    machine->number = number;
    machine->counted = true;
    cluster->waited_for++;
    machine->dropped = mem_array(cluster->mem, words, sizeof *machine->dropped);
    machine->accused = mem_array(cluster->mem, words, sizeof *machine->accused);
    machine->to_drop = mem_array(cluster->mem, words, sizeof *machine->to_drop);
    machine->loop.checksums = mem_array(cluster->mem, clocks, sizeof *machine->loop.checksums);
    machine->loop.began = mem_array(cluster->mem, clocks, sizeof *machine->loop.began);
    if (machine->dropped == NULL || machine->accused == NULL || machine->to_drop == NULL ||
        machine->loop.checksums == NULL || machine->loop.began == NULL)
        return fail_nomem(err, "a simulated node");
    return init_process(machine, err);
}

void machine_fini(struct machine *machine)
{
    if (machine->cluster == NULL)
        return;
    const struct mem *mem = machine->cluster->mem;
    fini_process(machine);
    mem_free(mem, machine->dropped);
    mem_free(mem, machine->accused);
    mem_free(mem, machine->to_drop);
    mem_free(mem, machine->loop.checksums);
    mem_free(mem, machine->loop.began);
}

/* ---- what the core asks for ---- */

/* A checkpoint is whole: the next one is made in the memory of the one before. */
static void commit(struct sim_cluster *cluster, uint64_t clock)
{
    cluster->whole = 1 - cluster->whole;
    cluster->whole_clock = clock;
    cluster->whole_crc = sim_crc(cluster, cluster->saved[cluster->whole]);
    cluster->stats.checkpoints++;
    story_line(cluster, "the checkpoint of clock %llu is whole", (unsigned long long)clock);
    for (uint32_t i = 0; i < cluster->layout->unit_count; i++)
        if (cluster->saved_at[i] != clock)
            sim_violate(cluster, "the checkpoint of clock %llu has unit %u of clock %llu",
                        (unsigned long long)clock, i, (unsigned long long)cluster->saved_at[i]);
    check_commit(cluster, clock);
}

static void note_failure(struct machine *machine, const struct core_action *action)
{
    if (machine->failing)
        return; /* the first reason counts */
    machine->failing = true;
    machine->status = action->status;
    memcpy(machine->text, action->text, sizeof machine->text);
}

static void emit(void *ctx, const struct core_action *action)
{
    struct machine *machine = ctx;
    switch (action->kind) {
    case CORE_SEND:
        links_send(machine, action);
        break;
    case CORE_OP:
        sim_schedule(machine->cluster,
                     (struct event){.kind = EVENT_OP, .node = machine->number, .op = action->op},
                     action->op.kind == CORE_OP_COPY ? LONG_COPY : SHORT_OP);
        break;
    case CORE_WAKE:
        machine->woken = true;
        break;
    case CORE_WAIT:
        memcpy(machine->wait, action->text, sizeof machine->wait);
        story_line(machine->cluster, "node %u  %s", machine->number, action->text);
        break;
    case CORE_DROP:
        machine->dropping = bits_add(machine->to_drop, action->to) || machine->dropping;
        break;
    case CORE_COMMIT:
        commit(machine->cluster, action->clock);
        break;
    case CORE_FAIL:
        note_failure(machine, action);
        break;
    }
}

struct core_out machine_out(struct machine *machine)
{
    return (struct core_out){.emit = emit, .ctx = machine};
}

/* ---- the end of a process ---- */

void machine_leaves(struct machine *machine)
{
    machine->cluster->waited_for -= machine->counted;
    machine->counted = false;
}

static bool is_own(const void *ctx, const struct event *event)
{
    const struct machine *machine = ctx;
    return event->packet == NULL && event->node == machine->number;
}

/* It handles nothing more; what it has sent goes on. */
static void stop(struct machine *machine, enum sim_fate fate)
{
    struct event event;
    machine->fate = fate;
    machine->over_time = machine->cluster->time;
    machine->paused_until = 0;
    while (sim_take(machine->cluster, is_own, machine, &event))
        ;
    if (!machine->restarts)
        machine_leaves(machine);
}

void machine_kill(struct machine *machine)
{
    stop(machine, SIM_KILLED);
    links_abandon(machine);
}

/* Its part is over, one way or the other. */
static void settle_fate(struct machine *machine)
{
    struct sim_cluster *cluster = machine->cluster;
    bool evicted = machine->status == TRI_EEVICTED;
    bool looping = machine->core.has_worker && machine->loop.at != LOOP_DONE;
    if (machine->failing)
        story_line(cluster, "node %u  %s: %s", machine->number, evicted ? "is told to go" : "fails",
                   machine->text);
    else if (machine->core.member.ended && !looping)
        story_line(cluster, "node %u  has ended", machine->number);
    else
        return;
    stop(machine, !machine->failing ? SIM_ENDED : evicted ? SIM_EVICTED : SIM_FAILED);
    machine->failing = false;
    check_fate(machine);
}

void machine_settle(struct machine *machine)
{
    while (machine_runs(machine) && (machine->woken || machine->dropping)) {
        bool woken = machine->woken;
        machine->woken = machine->dropping = false;
        for (uint32_t n = 0; n < machine->cluster->layout->nodes; n++)
            if (bits_has(machine->to_drop, n)) {
                bits_remove(machine->to_drop, n);
                links_drop(machine, n);
            }
        if (woken && !machine->failing)
            loop_wake(machine);
    }
    if (machine_runs(machine))
        settle_fate(machine);
}

/* ---- events ---- */

static uint64_t tick_ms(const struct sim_cluster *cluster)
{
    uint64_t tick = core_period(&cluster->options.times, &cluster->options.rules) / 1000;
    return tick > 0 ? tick : 1;
}

void machine_join(struct machine *machine)
{
    struct sim_cluster *cluster = machine->cluster;
    struct core_out out = machine_out(machine);
    uint64_t phase = 1 + rng_below(&cluster->chance, tick_ms(cluster));
    sim_put(
        cluster,
        (struct event){.time = cluster->time + phase, .kind = EVENT_TICK, .node = machine->number});
    node_join(&machine->core, sim_now(cluster), &out);
    machine_settle(machine);
}

void machine_tick(struct machine *machine)
{
    struct sim_cluster *cluster = machine->cluster;
    struct core_out out = machine_out(machine);
    sim_put(cluster, (struct event){.time = cluster->time + tick_ms(cluster),
                                    .kind = EVENT_TICK,
                                    .node = machine->number});
    node_tick(&machine->core, sim_now(cluster), &out);
}

/* A unit or a layer into the checkpoint. */
static void copy(struct machine *machine, const struct core_op *op)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct layout *layout = cluster->layout;
    const struct store_layer *saved = cluster->saved[1 - cluster->whole];
    if (op->role == CORE_WORKER) {
        const struct layout_layer *layer = &layout->layers[op->index];
        store_worker_copy(&machine->worker_store, op->index, 0, saved[op->index].weights);
        for (uint32_t i = 0; i < layer->units; i++)
            cluster->saved_at[layer->first_unit + i] = op->clock;
        return;
    }
    uint32_t number = machine->server_store.units[op->index].number;
    const struct layout_unit *unit = &layout->units[number];
    if (core_worker_saves_params(&cluster->options.rules, layout->layers[unit->layer].home))
        return; /* what is left are states of the optimiser, which are not looked at here */
    store_server_copy(&machine->server_store, op->index, 0,
                      saved[unit->layer].weights + unit->first);
    cluster->saved_at[number] = op->clock;
}

void machine_op(struct machine *machine, const struct core_op *op)
{
    struct core_out out = machine_out(machine);
    void *scratch = machine->cluster->scratch;
    check_op(machine, op);
    if (op->kind == CORE_OP_COPY)
        copy(machine, op);
    else if (op->role == CORE_SERVER)
        store_server_op(&machine->server_store, &machine->core.server, op, scratch);
    else
        store_worker_op(&machine->worker_store, &machine->core.worker, op, scratch);
    node_done(&machine->core, op, &out);
}

void machine_restart(struct machine *machine)
{
    struct sim_cluster *cluster = machine->cluster;
    tri_error err = {0};
    size_t words = bits_words(cluster->layout->nodes);
    story_line(cluster, "node %u  is started anew", machine->number);
    machine->restarts = false;
    /* Before the start it just joins, as if it had come late. */
    machine->second = machine->second || machine->core.member.started;
    links_forget(machine);
    fini_process(machine);
    machine->life++;
    memset(machine->dropped, 0, words * sizeof *machine->dropped);
    memset(machine->accused, 0, words * sizeof *machine->accused);
    memset(machine->to_drop, 0, words * sizeof *machine->to_drop);
    machine->woken = machine->failing = machine->dropping = false;
    machine->loop =
        (struct loop){.checksums = machine->loop.checksums, .began = machine->loop.began};
    machine->fate = SIM_RUNNING;
    machine->wait[0] = '\0';
    if (init_process(machine, &err) != TRI_OK)
        sim_refuse(cluster, err.status, err.text);
    else
        machine_join(machine);
}
