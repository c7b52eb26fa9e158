/* The driver of a simulated job: making it, its events, its end. */
#include "sim/cluster.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/error.h"
#include "sim/links.h"
#include "sim/loop.h"
#include "sim/story.h"

/* More events than any run that gets anywhere: two nodes keep each other busy. */
#define EVENTS_MAX UINT64_C(50000000)

void sim_refuse(struct sim_cluster *cluster, tri_status status, const char *text)
{
    if (cluster->status == TRI_OK)
        cluster->status = fail(&cluster->error, status, "%s", text);
}

void sim_violate(struct sim_cluster *cluster, const char *format, ...)
{
    char text[200];
    va_list args;
    if (cluster->status != TRI_OK)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cluster->status = fail(&cluster->error, TRI_EARG, "invariant: %s", text);
    story_line(cluster, "invariant: %s", text);
    story_current(cluster);
}

/* ---- events ---- */

static bool is_real(const struct event *event)
{
    return event->packet != NULL ? !is_sign_of_life(event->packet->message.kind)
                                 : event->kind != EVENT_TICK;
}

static bool is_pending(const struct event *event)
{
    return is_real(event) && event->time != EVENT_NEVER;
}

void sim_put(struct sim_cluster *cluster, struct event event)
{
    if (events_add(&cluster->events, cluster->mem, event)) {
        cluster->pending += is_pending(&event);
        return;
    }
    sim_refuse(cluster, TRI_ENOMEM, "out of memory for events");
    if (event.packet != NULL)
        links_free_packet(cluster, event.packet);
}

bool sim_take(struct sim_cluster *cluster,
              bool (*match)(const void *ctx, const struct event *event), const void *ctx,
              struct event *out)
{
    if (!events_take(&cluster->events, match, ctx, out))
        return false;
    cluster->pending -= is_pending(out);
    return true;
}

/* How much slower a fault makes it. */
static uint64_t slowness(struct sim_cluster *cluster, const struct event *event)
{
    const struct machine *machine = &cluster->machines[event->node];
    if (event->packet == NULL)
        return cluster->time < machine->slow_until ? machine->slowness : 1;
    const struct link *link = link_of(cluster, event->packet->from, event->packet->to);
    return cluster->time < link->slow_until ? link->slowness : 1;
}

void sim_schedule(struct sim_cluster *cluster, struct event event, uint64_t most)
{
    struct rng *rng = is_real(&event) ? &cluster->rng : &cluster->chance;
    event.time = cluster->time + (1 + rng_below(rng, most)) * slowness(cluster, &event);
    sim_put(cluster, event);
}

/* An event that cannot happen now is put off: the node is paused, or its message stalls. True
 * when it was. In either case the order is kept, on a socket because it has one message at a
 * time. */
static bool put_off(struct sim_cluster *cluster, struct event *event)
{
    const struct packet *packet = event->packet;
    const struct machine *machine = &cluster->machines[event->node];
    if (cluster->time < machine->paused_until) {
        event->time = machine->paused_until;
    } else if (packet != NULL && packet->from != packet->to) {
        uint64_t until = link_of(cluster, packet->from, packet->to)->cut_until;
        if (cluster->time >= until)
            return false;
        event->time = until;
        if (until != EVENT_NEVER)
            event->time += 1 + rng_below(&cluster->chance, 20);
    } else {
        return false;
    }
    sim_put(cluster, *event);
    return true;
}

static void handle(struct sim_cluster *cluster, const struct event *event)
{
    struct machine *machine = &cluster->machines[event->node];
    switch (event->kind) {
    case EVENT_HEADER:
        links_header(cluster, event->packet);
        break;
    case EVENT_DATA:
        links_data(cluster, event->packet);
        break;
    case EVENT_OP:
        machine_op(machine, &event->op);
        break;
    case EVENT_LOOP:
        loop_step(machine);
        break;
    case EVENT_TICK:
        machine_tick(machine);
        break;
    case EVENT_RESTART:
        machine_restart(machine);
        break;
    }
    machine_settle(machine);
}

static void note_view(struct sim_cluster *cluster)
{
    const struct machine *machine = &cluster->machines[0];
    if (machine->core.coordinator.view <= cluster->view)
        return;
    cluster->stats.views += cluster->view > 0;
    cluster->view = machine->core.coordinator.view;
    cluster->view_time = cluster->time;
    cluster->stats.evictions = 0;
    for (uint32_t n = 0; n < cluster->layout->nodes; n++)
        cluster->stats.evictions += sim_is_departed(cluster, n);
}

static void step(struct sim_cluster *cluster)
{
    struct event event = events_next(&cluster->events);
    cluster->pending -= is_pending(&event);
    cluster->time = event.time;
    if (put_off(cluster, &event))
        return;
    if (is_real(&event)) {
        cluster->handled++;
        cluster->last_real = event.time;
    }
    cluster->current = event;
    if (event.packet != NULL) {
        cluster->current_message = event.packet->message;
        cluster->current_from = event.packet->from;
    }
    handle(cluster, &event);
    if (event.node == 0)
        note_view(cluster);
    check_machine(&cluster->machines[event.node]);
}

/* ---- the run ---- */

/* Nothing but signs of life for so long that every timer must have run out. */
static bool is_stuck(const struct sim_cluster *cluster)
{
    const struct sim_options *options = &cluster->options;
    uint64_t patience = 60 * options->times.heartbeat + options->times.start +
                        2 * options->times.limit + 2 * options->rules.deadline;
    uint64_t since = cluster->last_real > cluster->heals ? cluster->last_real : cluster->heals;
    return cluster->handled > EVENTS_MAX ||
           (cluster->pending == 0 && cluster->time > since + patience / 1000);
}

static void tell_stuck(struct sim_cluster *cluster)
{
    char text[200];
    size_t used = 0;
    for (uint32_t n = 0; n < cluster->layout->nodes; n++) {
        const struct machine *machine = &cluster->machines[n];
        if (!machine->counted)
            continue;
        story_line(cluster, "node %u  is stuck at clock %llu, layer %u, view %u%s: %s", n,
                   (unsigned long long)machine->loop.clock, machine->loop.layer,
                   machine->core.member.view, machine->loop.at == LOOP_DONE ? ", closed" : "",
                   machine->wait[0] != '\0' ? machine->wait : "no word of a wait");
        if (used < sizeof text)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%snode %u at clock %llu (%s)",
                                 used > 0 ? ", " : "", n, (unsigned long long)machine->loop.clock,
                                 machine->wait[0] != '\0' ? machine->wait : "silent");
    }
    if (cluster->status == TRI_OK)
        cluster->status = fail(&cluster->error, TRI_EARG, "stuck: %s", text);
}

/* Whose failure was that of the job: the first one's; sooner a node's that no fault touched,
 * for others may have failed for themselves alone. */
static const struct machine *first_failed(const struct sim_cluster *cluster)
{
    const struct machine *first = NULL;
    for (uint32_t n = 0; n < cluster->layout->nodes; n++) {
        const struct machine *machine = &cluster->machines[n];
        if (machine->fate != SIM_FAILED)
            continue;
        if (first == NULL || (first->touched && !machine->touched) ||
            (first->touched == machine->touched && machine->over_time < first->over_time))
            first = machine;
    }
    return first;
}

/* How the job came out, when nothing was wrong with the run. */
static void conclude(struct sim_cluster *cluster)
{
    const struct machine *failed = first_failed(cluster);
    bool ended = cluster->machines[0].fate == SIM_ENDED;
    for (uint32_t n = 0; n < cluster->layout->nodes && failed == NULL; n++)
        ended = ended || cluster->machines[n].fate == SIM_ENDED;
    check_end(cluster, ended);
    if (!ended && failed != NULL)
        sim_refuse(cluster, failed->status, failed->text);
    else if (!ended)
        sim_refuse(cluster, TRI_EPEER, "no node is left to end the job");
}

tri_status sim_run(struct sim_cluster *cluster, tri_error *err)
{
    for (uint32_t n = 0; n < cluster->layout->nodes; n++)
        machine_join(&cluster->machines[n]);
    while (cluster->waited_for > 0 && cluster->status == TRI_OK && cluster->events.count > 0) {
        /* Only before the kind of event that is numbered, so that a number means one place. */
        if (cluster->handled >= cluster->next_fault && is_real(&cluster->events.heap[0])) {
            faults_apply(cluster);
            continue;
        }
        step(cluster);
        if (is_stuck(cluster))
            tell_stuck(cluster);
    }
    if (cluster->status == TRI_OK)
        conclude(cluster);
    if (cluster->status != TRI_OK && err != NULL)
        *err = cluster->error;
    return cluster->status;
}

/* ---- making ---- */

/* Both ends of a reset keep what has arrived. */
static void prepare_links(struct sim_cluster *cluster)
{
    uint32_t nodes = cluster->layout->nodes;
    for (size_t i = 0; i < (size_t)nodes * nodes; i++)
        for (int lane = 0; lane < LANES; lane++)
            queue_init(&cluster->links[i].lanes[lane].queue, cluster->mem);
    for (size_t i = 0; i < cluster->options.fault_count; i++) {
        const struct sim_fault *fault = &cluster->options.faults[i];
        if (fault->kind == SIM_RESET && fault->a < nodes && fault->b < nodes) {
            link_of(cluster, fault->a, fault->b)->keeps = true;
            link_of(cluster, fault->b, fault->a)->keeps = true;
        }
    }
}

/* Room for two checkpoints: the one that is whole, and the next. */
static bool make_saved(struct sim_cluster *cluster)
{
    const struct layout *layout = cluster->layout;
    cluster->saved_at = mem_array(cluster->mem, layout->unit_count, sizeof *cluster->saved_at);
    bool ok = cluster->saved_at != NULL;
    for (int c = 0; c < 2 && ok; c++) {
        cluster->saved[c] = mem_array(cluster->mem, layout->layer_count, sizeof *cluster->saved[c]);
        ok = cluster->saved[c] != NULL;
        for (uint32_t i = 0; ok && i < layout->layer_count; i++) {
            const struct layout_layer *layer = &layout->layers[i];
            float *floats = mem_array(cluster->mem, (size_t)layer->floats, sizeof *floats);
            ok = floats != NULL;
            if (ok)
                cluster->saved[c][i] = (struct store_layer){
                    .weights = floats, .bias = floats + (size_t)layer->rows * layer->cols};
        }
    }
    return ok;
}

static tri_status make_all(struct sim_cluster *cluster, tri_error *err)
{
    const struct mem *mem = cluster->mem;
    size_t nodes = cluster->layout->nodes;
    cluster->scratch = mem_array(mem, store_scratch_bytes(cluster->layout), 1);
    cluster->machines = mem_array(mem, nodes, sizeof *cluster->machines);
    cluster->links = mem_array(mem, nodes * nodes, sizeof *cluster->links);
    cluster->fault_done = mem_array(mem, cluster->options.fault_count, sizeof *cluster->fault_done);
    if (cluster->scratch == NULL || cluster->machines == NULL || cluster->links == NULL ||
        cluster->fault_done == NULL || !make_saved(cluster))
        return fail_nomem(err, "a simulated cluster");
    prepare_links(cluster);
    faults_plan(cluster);
    tri_status status = check_init(cluster, err);
    for (uint32_t n = 0; n < nodes && status == TRI_OK; n++)
        status = machine_init(&cluster->machines[n], cluster, n, err);
    return status;
}

tri_status sim_new(const struct layout *layout, const struct sim_options *options,
                   const struct mem *mem, struct sim_cluster **out, tri_error *err)
{
    struct sim_cluster *cluster = mem_array(mem, 1, sizeof *cluster);
    if (cluster == NULL)
        return fail_nomem(err, "a simulated cluster");
    cluster->mem = mem;
    cluster->layout = layout;
    cluster->options = *options;
    if (options->times.heartbeat == 0)
        cluster->options.times =
            (struct core_times){.heartbeat = 1000000, .warn = 10000000, .start = 30000000};
    rng_init(&cluster->rng, options->seed);
    rng_init(&cluster->chance, options->seed ^ 0x7269646e74);
    tri_status status = make_all(cluster, err);
    if (status == TRI_OK)
        *out = cluster;
    else
        sim_free(cluster);
    return status;
}

void sim_free(struct sim_cluster *cluster)
{
    if (cluster == NULL)
        return;
    const struct mem *mem = cluster->mem;
    size_t nodes = cluster->layout->nodes;
    for (size_t i = 0; i < cluster->events.count; i++)
        if (cluster->events.heap[i].packet != NULL)
            links_free_packet(cluster, cluster->events.heap[i].packet);
    for (size_t i = 0; cluster->links != NULL && i < nodes * nodes; i++)
        link_fini(cluster, &cluster->links[i]);
    for (size_t n = 0; cluster->machines != NULL && n < nodes; n++)
        machine_fini(&cluster->machines[n]);
    check_fini(cluster);
    for (int c = 0; c < 2; c++) {
        for (uint32_t i = 0; cluster->saved[c] != NULL && i < cluster->layout->layer_count; i++)
            mem_free(mem, cluster->saved[c][i].weights);
        mem_free(mem, cluster->saved[c]);
    }
    mem_free(mem, cluster->saved_at);
    mem_free(mem, cluster->machines);
    mem_free(mem, cluster->links);
    mem_free(mem, cluster->fault_done);
    mem_free(mem, cluster->events.heap);
    mem_free(mem, cluster->scratch);
    mem_free(mem, cluster);
}

uint32_t sim_crc(const struct sim_cluster *cluster, const struct store_layer *layers)
{
    const struct layout *layout = cluster->layout;
    uint32_t crc = 0;
    for (uint32_t i = 0; i < layout->layer_count; i++) {
        const struct layout_layer *shape = &layout->layers[i];
        crc = crc32c(crc, layers[i].weights, (size_t)shape->rows * shape->cols * sizeof(float));
        if (shape->bias)
            crc = crc32c(crc, layers[i].bias, shape->rows * sizeof(float));
    }
    return crc;
}

bool sim_is_departed(const struct sim_cluster *cluster, uint32_t node)
{
    const struct machine *machine = &cluster->machines[0];
    return machine->made && machine->core.coordinator.departed != NULL &&
           bits_has(machine->core.coordinator.departed, node);
}
