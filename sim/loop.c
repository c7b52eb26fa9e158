/* Forward, backward, clock: what a caller of the library does. */
#include "sim/loop.h"

#include <math.h>

static void go_on(struct machine *machine)
{
    if (machine->loop.scheduled || machine->loop.at == LOOP_DONE)
        return;
    machine->loop.scheduled = true;
    sim_schedule(machine->cluster, (struct event){.kind = EVENT_LOOP, .node = machine->number}, 30);
}

void loop_wake(struct machine *machine)
{
    if (!machine->core.has_worker || !machine->core.member.started)
        return;
    if (machine->number == 0 && !machine->loop.asked) {
        struct core_out out = machine_out(machine);
        machine->loop.asked = true;
        node_start(&machine->core, &out);
    }
    go_on(machine);
}

/* Arrays by clock end two after the last: one that joins later than that is not noted. Nor is
 * what a second process does. */
static bool is_noted(const struct machine *machine)
{
    return !machine->second && machine->loop.clock < machine->cluster->options.clocks + 2;
}

/* Waits for a layer; with its mean, in aggregate mode, steps it. */
static bool loop_sync(struct machine *machine, uint32_t layer)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct sim_app *app = &cluster->options.app;
    struct loop *loop = &machine->loop;
    struct core_out out = machine_out(machine);
    if (!node_sync(&machine->core, layer, &out))
        return false;
    if (layer == 0 && is_noted(machine))
        loop->began[loop->clock] = cluster->time;
    if (cluster->options.rules.aggregate && loop->clock > 0 && !machine->core.worker.behind)
        app->mean(app->ctx, machine->number, loop->clock - 1, layer,
                  machine->caller.layers[layer].result, caller_params(&machine->caller, layer));
    return true;
}

/* All layers are at the version of this clock: what the replicas must agree on. One that is
 * behind has old parameters, and where every push is a step each has its own. */
static void note_checksum(struct machine *machine)
{
    struct sim_cluster *cluster = machine->cluster;
    struct loop *loop = &machine->loop;
    const struct store_layer *params = machine->caller.layers;
    if (machine->core.worker.behind || !is_noted(machine))
        return;
    if (loop->clock > 0 && loop->clock == cluster->options.corrupt_at &&
        machine->number + 1 == cluster->layout->workers)
        params[0].weights[0] = nextafterf(params[0].weights[0], 9);
    loop->checksums[loop->clock] = sim_crc(cluster, params);
    if (each_push(&cluster->options.rules))
        return;
    check_all(machine, loop->clock, loop->checksums[loop->clock]);
    struct core_out out = machine_out(machine);
    node_checksum(&machine->core, loop->checksums[loop->clock], &out);
}

/* Forward: a layer at a time, as soon as it is synced. Also the last look at the end. */
static void loop_forward(struct machine *machine)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct sim_app *app = &cluster->options.app;
    struct loop *loop = &machine->loop;
    if (!loop_sync(machine, loop->layer))
        return; /* a wake follows */
    if (loop->at == LOOP_FORWARD) {
        check_begun(machine, loop->layer);
        app->forward(app->ctx, machine->number, loop->clock, loop->layer,
                     caller_params(&machine->caller, loop->layer));
    }
    if (++loop->layer < cluster->layout->layer_count) {
        go_on(machine);
        return;
    }
    note_checksum(machine);
    if (loop->at == LOOP_LAST) {
        struct core_out out = machine_out(machine);
        loop->at = LOOP_DONE;
        node_close(&machine->core, &out);
        return;
    }
    loop->layer = cluster->layout->layer_count - 1;
    loop->at = LOOP_UPDATE;
    go_on(machine);
}

static void next_layer_down(struct machine *machine)
{
    struct loop *loop = &machine->loop;
    loop->at = loop->layer-- > 0 ? LOOP_UPDATE : LOOP_CLOCK;
    go_on(machine);
}

/* Hands the gradient over. Of one that is copied the caller makes something else at once. */
static void give_gradient(struct machine *machine, uint32_t layer)
{
    const struct sim_cluster *cluster = machine->cluster;
    const struct layout_layer *shape = &cluster->layout->layers[layer];
    struct sim_values dense = machine->caller.gradients[layer];
    store_worker_gradient(&machine->worker_store, layer, dense.weights, dense.bias);
    if (!each_push(&cluster->options.rules))
        return;
    for (size_t i = 0; i < (size_t)shape->rows * shape->cols; i++)
        dense.weights[i] = NAN;
    for (size_t i = 0; shape->bias && i < shape->rows; i++)
        dense.bias[i] = NAN;
}

static void give(struct machine *machine, uint32_t layer, const struct sim_update *update)
{
    struct worker_update given = {.count = update->count,
                                  .lr = update->lr,
                                  .rows = update->rows,
                                  .params_busy = update->busy};
    struct core_out out = machine_out(machine);
    tri_error err = {0};
    check_given(machine, layer, update);
    if (machine->cluster->layout->layers[layer].form == TRI_FORM_DENSE)
        give_gradient(machine, layer);
    if (node_update(&machine->core, layer, &given, &out, &err) != TRI_OK && !machine->failing)
        sim_refuse(machine->cluster, err.status, err.text);
}

static void loop_update(struct machine *machine)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct sim_app *app = &cluster->options.app;
    struct loop *loop = &machine->loop;
    uint32_t layer = loop->layer;
    struct worker_update ask = {.count = 1, .rows = 1};
    tri_error why = {0};
    if (worker_may_update(&machine->core.worker, layer, &ask, &why) != TRI_OK) {
        sim_refuse(cluster, why.status, why.text);
        return;
    }
    struct store_factors slot =
        store_worker_slot(&machine->worker_store, worker_slot(&machine->core.worker, layer));
    struct sim_update update = app->update(app->ctx, machine->number, loop->clock, layer,
                                           machine->caller.gradients[layer], slot.u, slot.v);
    if (!update.busy)
        app->input_gradient(app->ctx, machine->number, loop->clock, layer,
                            caller_params(&machine->caller, layer));
    if (update.given)
        give(machine, layer, &update);
    if (update.busy) {
        loop->at = LOOP_INPUT;
        go_on(machine);
    } else {
        next_layer_down(machine);
    }
}

static void loop_clock(struct machine *machine)
{
    const struct sim_options *options = &machine->cluster->options;
    struct loop *loop = &machine->loop;
    struct core_out out = machine_out(machine);
    bool behind = machine->core.worker.behind;
    node_clock(&machine->core, &out);
    loop->clock = machine->core.worker.clock;
    machine->cluster->stats.joins += behind && !machine->core.worker.behind;
    bool due = loop->clock == options->checkpoint_after ||
               (options->checkpoint_every > 0 && loop->clock % options->checkpoint_every == 0);
    if (machine->number == 0 && due)
        node_mark(&machine->core, 0, &out);
    loop->layer = 0;
    bool early = machine->number + 1 == machine->cluster->layout->workers;
    uint64_t clocks = options->clocks - (early ? options->early : 0);
    loop->at = loop->clock < clocks ? LOOP_FORWARD : LOOP_LAST;
    go_on(machine);
}

void loop_step(struct machine *machine)
{
    const struct sim_app *app = &machine->cluster->options.app;
    struct loop *loop = &machine->loop;
    loop->scheduled = false;
    switch (loop->at) {
    case LOOP_FORWARD:
    case LOOP_LAST:
        loop_forward(machine);
        break;
    case LOOP_UPDATE:
        loop_update(machine);
        break;
    case LOOP_INPUT:
        app->input_gradient(app->ctx, machine->number, loop->clock, loop->layer,
                            caller_params(&machine->caller, loop->layer));
        next_layer_down(machine);
        break;
    case LOOP_CLOCK:
        loop_clock(machine);
        break;
    case LOOP_DONE:
        break;
    }
}
