/* The driver of a simulated job: events, links, and the workers' loops. */
#include "sim/cluster.h"

#include <math.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/rng.h"
#include "core/queue.h"
#include "sim/events.h"
#include "sim/memory.h"

/* A message on its way. */
struct packet {
    uint32_t from, to; /* nodes */
    struct message message;
    struct core_ref source;
    struct core_ref landing;
    float *data; /* as it was when the message was asked for */
    uint64_t floats;
};

/* Where a worker's loop stands. */
enum loop_at { LOOP_FORWARD, LOOP_UPDATE, LOOP_INPUT, LOOP_CLOCK, LOOP_LAST, LOOP_DONE };

struct loop {
    enum loop_at at;
    uint32_t layer;
    uint64_t clock;
    bool scheduled;      /* an EVENT_LOOP is under way */
    uint32_t *checksums; /* [clocks + 1] */
};

struct node {
    struct sim_cluster *cluster;
    uint32_t number;
    bool has_worker, on_server; /* on_server: whose event is being handled */
    struct member member;
    struct worker worker;
    struct server server;
    struct sim_worker_memory worker_memory;
    struct sim_server_memory server_memory;
    struct loop loop;
    struct sim_traffic traffic;
};

/* From one node to another over some sockets: one message at a time on each, the most
 * urgent next. On different sockets they overtake each other. */
struct link {
    struct queue queue;
    uint32_t sending; /* sockets in use */
};

struct sim_cluster {
    const struct mem *mem;
    const struct layout *layout;
    struct sim_options options;
    struct rng rng;
    struct node *nodes;
    struct link *links; /* [nodes x nodes] */
    struct events events;
    struct coordinator coordinator; /* on node 0 */
    float **saved;                  /* [layers] the checkpoint */
    void *scratch;                  /* for products; one operation runs at a time */
    uint64_t time, handled;
    uint32_t running; /* workers that are not done */
    tri_status status;
    tri_error error;
};

static void refuse(struct sim_cluster *cluster, tri_status status, const char *text)
{
    if (cluster->status == TRI_OK)
        cluster->status = fail(&cluster->error, status, "%s", text);
}

/* As refuse(), naming the message it is about. */
static void refuse_packet(struct sim_cluster *cluster, const struct packet *packet,
                          const char *text)
{
    const struct message *message = &packet->message;
    if (cluster->status == TRI_OK)
        cluster->status =
            fail(&cluster->error, TRI_EARG, "%s: %s of layer %u, part %u, clock %llu, %u to %u",
                 text, wire_kind_name(message->kind), message->layer, message->part,
                 (unsigned long long)message->clock, packet->from, packet->to);
}

/* ---- events ---- */

static void free_packet(struct sim_cluster *cluster, struct packet *packet)
{
    mem_free(cluster->mem, packet->data);
    mem_free(cluster->mem, packet);
}

/* After a delay of chance. */
static void schedule(struct sim_cluster *cluster, struct event event, uint64_t most)
{
    event.time = cluster->time + 1 + rng_below(&cluster->rng, most);
    if (events_add(&cluster->events, cluster->mem, event))
        return;
    refuse(cluster, TRI_ENOMEM, "out of memory for events");
    if (event.packet != NULL)
        free_packet(cluster, event.packet);
}

/* ---- links ---- */

/* The floats of a node that a ref means, in up to two runs. */
static struct sim_runs runs_of(const struct node *node, bool on_server, struct core_ref ref)
{
    return on_server ? sim_server_runs(&node->server_memory, ref)
                     : sim_worker_runs(&node->worker_memory, ref);
}

static void send_next(struct sim_cluster *cluster, uint32_t from, uint32_t to)
{
    struct link *link = &cluster->links[(size_t)from * cluster->layout->nodes + to];
    struct queue_entry entry;
    uint32_t sockets = cluster->options.sockets > 0 ? cluster->options.sockets : 1;
    if (link->sending == sockets || !queue_pop(&link->queue, &entry))
        return;
    link->sending++;
    schedule(cluster, (struct event){.kind = EVENT_HEADER, .node = to, .packet = entry.tag}, 20);
}

static void count_traffic(struct sim_cluster *cluster, const struct packet *packet)
{
    const struct message *message = &packet->message;
    bool counts = message->kind == WIRE_PUSH || message->kind == WIRE_FACTORS ||
                  message->kind == WIRE_NOTHING || message->kind == WIRE_RESULT;
    if (packet->from == packet->to || !counts)
        return;
    const struct layout_layer *layer = &cluster->layout->layers[message->layer];
    uint64_t matrix = (uint64_t)layer->rows * layer->cols, bias = 0;
    if (message->kind != WIRE_FACTORS && packet->floats > 0) {
        const struct layout_part *part = &cluster->layout->parts[layer->first_part + message->part];
        uint64_t end = part->first + part->floats;
        bias = end > matrix ? end - (part->first > matrix ? part->first : matrix) : 0;
    }
    struct sim_traffic *from = &cluster->nodes[packet->from].traffic;
    struct sim_traffic *to = &cluster->nodes[packet->to].traffic;
    from->sent += packet->floats - bias;
    to->received += packet->floats - bias;
    from->bias_sent += bias;
    to->bias_received += bias;
    from->messages++;
}

/* A role asks for a message to be sent. */
static void take_send(struct node *node, const struct core_action *action)
{
    struct sim_cluster *cluster = node->cluster;
    struct packet *packet = mem_array(cluster->mem, 1, sizeof *packet);
    if (packet == NULL) {
        refuse(cluster, TRI_ENOMEM, "out of memory for a message");
        return;
    }
    *packet = (struct packet){
        .from = node->number, .to = action->to, .message = action->message, .source = action->ref};
    struct sim_runs runs = runs_of(node, node->on_server, action->ref);
    packet->floats = runs.count[0] + runs.count[1];
    packet->data = mem_array(cluster->mem, (size_t)packet->floats, sizeof *packet->data);
    struct link *link = &cluster->links[(size_t)node->number * cluster->layout->nodes + action->to];
    if (packet->data == NULL ||
        queue_push(&link->queue, &action->message, &action->ref, packet, NULL) != TRI_OK) {
        free_packet(cluster, packet);
        refuse(cluster, TRI_ENOMEM, "out of memory for a message");
        return;
    }
    sim_runs_read(runs, packet->data);
    send_next(cluster, node->number, action->to);
}

/* The sender's memory must still be what it was when it asked. */
static void check_source(struct sim_cluster *cluster, const struct packet *packet)
{
    bool from_server = packet->source.space == CORE_SHARD;
    struct sim_runs runs = runs_of(&cluster->nodes[packet->from], from_server, packet->source);
    if (!sim_runs_equal(runs, packet->data))
        refuse_packet(cluster, packet, "memory changed while it was being sent");
}

static void emit(void *ctx, const struct core_action *action);

static struct core_out out_of(struct node *node, bool on_server)
{
    node->on_server = on_server;
    return (struct core_out){.emit = emit, .ctx = node};
}

static void take_header(struct sim_cluster *cluster, struct packet *packet)
{
    struct node *node = &cluster->nodes[packet->to];
    if (packet->message.role == CORE_SERVER)
        packet->landing = server_landing(&node->server, &packet->message);
    else if (packet->message.role == CORE_WORKER)
        packet->landing = worker_landing(&node->worker, &packet->message);
    schedule(cluster, (struct event){.kind = EVENT_DATA, .node = packet->to, .packet = packet}, 20);
}

static void take_data(struct sim_cluster *cluster, struct packet *packet)
{
    struct node *node = &cluster->nodes[packet->to];
    bool to_server = packet->message.role == CORE_SERVER;
    check_source(cluster, packet);
    count_traffic(cluster, packet);
    if (packet->landing.space == CORE_ADD)
        sim_runs_add(runs_of(node, to_server, packet->landing), packet->data);
    else if (packet->landing.space != CORE_NOWHERE)
        sim_runs_write(runs_of(node, to_server, packet->landing), packet->data);
    struct core_out out = out_of(node, to_server);
    bool forgotten = packet->floats > 0 && packet->landing.space == CORE_NOWHERE;
    switch (forgotten ? CORE_NOBODY : packet->message.role) {
    case CORE_NOBODY:
        break;
    case CORE_WORKER:
        worker_message(&node->worker, &packet->message, &out);
        break;
    case CORE_SERVER:
        server_message(&node->server, &packet->message, &out);
        break;
    case CORE_COORDINATOR:
        coordinator_message(&cluster->coordinator, &packet->message, &out);
        break;
    case CORE_MEMBER:
        member_message(&node->member, &packet->message, &out);
        break;
    }
    cluster->links[(size_t)packet->from * cluster->layout->nodes + packet->to].sending--;
    send_next(cluster, packet->from, packet->to);
    free_packet(cluster, packet);
}

/* ---- operations ---- */

/* A unit or a layer into the checkpoint. */
static void take_copy(struct sim_cluster *cluster, const struct node *node,
                      const struct event *event)
{
    const struct layout *layout = cluster->layout;
    if (!event->on_server) {
        memcpy(cluster->saved[event->op.index], node->worker_memory.params[event->op.index],
               (size_t)layout->layers[event->op.index].floats * sizeof(float));
        return;
    }
    const struct layout_unit *unit = &layout->units[node->server_memory.units[event->op.index]];
    memcpy(cluster->saved[unit->layer] + unit->first, node->server_memory.shard[event->op.index],
           (size_t)unit->floats * sizeof(float));
}

static void take_op(struct sim_cluster *cluster, const struct event *event)
{
    struct node *node = &cluster->nodes[event->node];
    struct core_out out = out_of(node, event->on_server);
    if (event->op.kind == CORE_OP_COPY)
        take_copy(cluster, node, event);
    else if (event->on_server)
        sim_server_op(&node->server_memory, &node->server, &event->op);
    else
        sim_worker_op(&node->worker_memory, &node->worker, &event->op);
    if (event->on_server)
        server_done(&node->server, &event->op, &out);
    else
        worker_done(&node->worker, &event->op, &out);
}

/* ---- the workers' loops ---- */

static void go_on(struct node *node)
{
    if (node->loop.scheduled || node->loop.at == LOOP_DONE)
        return;
    node->loop.scheduled = true;
    schedule(node->cluster, (struct event){.kind = EVENT_LOOP, .node = node->number}, 30);
}

/* Something changed for a node's loop: above all, that the job has started. */
static void wake(struct node *node)
{
    if (!node->has_worker || !node->member.started)
        return;
    if (node->number == 0 && !worker_started(&node->worker)) {
        struct core_out out = out_of(node, false);
        worker_start(&node->worker, &out);
    }
    go_on(node);
}

static void emit(void *ctx, const struct core_action *action)
{
    struct node *node = ctx;
    switch (action->kind) {
    case CORE_SEND:
        take_send(node, action);
        break;
    case CORE_OP:
        schedule(node->cluster,
                 (struct event){.kind = EVENT_OP,
                                .node = node->number,
                                .on_server = node->on_server,
                                .op = action->op},
                 25);
        break;
    case CORE_WAKE:
        wake(node);
        break;
    case CORE_FAIL:
        refuse(node->cluster, action->status, action->text);
        break;
    }
}

/* Waits for a layer; with its mean, in aggregate mode, steps it. */
static bool loop_sync(struct node *node, uint32_t layer)
{
    struct sim_cluster *cluster = node->cluster;
    const struct sim_app *app = &cluster->options.app;
    struct core_out out = out_of(node, false);
    if (!worker_sync(&node->worker, layer, &out))
        return false;
    if (cluster->options.rules.aggregate && node->loop.clock > 0)
        app->mean(app->ctx, node->number, node->loop.clock - 1, layer,
                  node->worker_memory.result[layer], node->worker_memory.params[layer]);
    return true;
}

static uint32_t checksum(const struct sim_cluster *cluster, float *const *params)
{
    const struct layout *layout = cluster->layout;
    uint32_t crc = 0;
    for (uint32_t i = 0; i < layout->layer_count; i++)
        crc = crc32c(crc, params[i], (size_t)layout->layers[i].floats * sizeof(float));
    return crc;
}

/* All layers are at the version of this clock: what the replicas must agree on. */
static void note_checksum(struct node *node)
{
    struct sim_cluster *cluster = node->cluster;
    uint64_t clock = node->loop.clock;
    if (clock > 0 && clock == cluster->options.corrupt_at &&
        node->number + 1 == cluster->layout->workers)
        node->worker_memory.params[0][0] = nextafterf(node->worker_memory.params[0][0], 9);
    node->loop.checksums[clock] = checksum(cluster, node->worker_memory.params);
    struct core_out out = out_of(node, false);
    worker_checksum(&node->worker, node->loop.checksums[clock], &out);
}

/* Forward: a layer at a time, as soon as it is synced. Also the last look at the end. */
static void loop_forward(struct node *node)
{
    struct sim_cluster *cluster = node->cluster;
    const struct sim_app *app = &cluster->options.app;
    struct loop *loop = &node->loop;
    if (!loop_sync(node, loop->layer))
        return; /* a wake follows */
    if (loop->at == LOOP_FORWARD)
        app->forward(app->ctx, node->number, loop->clock, loop->layer,
                     node->worker_memory.params[loop->layer]);
    if (++loop->layer < cluster->layout->layer_count) {
        go_on(node);
        return;
    }
    note_checksum(node);
    if (loop->at == LOOP_LAST) {
        loop->at = LOOP_DONE;
        cluster->running--;
        return;
    }
    loop->layer = cluster->layout->layer_count - 1;
    loop->at = LOOP_UPDATE;
    go_on(node);
}

static void next_layer_down(struct node *node)
{
    struct loop *loop = &node->loop;
    loop->at = loop->layer-- > 0 ? LOOP_UPDATE : LOOP_CLOCK;
    go_on(node);
}

static void loop_update(struct node *node)
{
    struct sim_cluster *cluster = node->cluster;
    const struct sim_app *app = &cluster->options.app;
    struct loop *loop = &node->loop;
    uint32_t layer = loop->layer;
    struct sim_worker_memory *memory = &node->worker_memory;
    struct worker_update ask = {.count = 1, .rows = 1};
    tri_error why = {0};
    if (worker_may_update(&node->worker, layer, &ask, &why) != TRI_OK) {
        refuse(cluster, why.status, why.text);
        return;
    }
    struct sim_factors slot = sim_worker_slot(memory, worker_slot(&node->worker, layer));
    struct sim_update update = app->update(app->ctx, node->number, loop->clock, layer,
                                           memory->gradient[layer], slot.u, slot.v);
    if (!update.busy)
        app->input_gradient(app->ctx, node->number, loop->clock, layer, memory->params[layer]);
    if (update.given) {
        struct worker_update given = {.count = update.count,
                                      .lr = update.lr,
                                      .rows = update.rows,
                                      .params_busy = update.busy};
        struct core_out out = out_of(node, false);
        tri_error err = {0};
        if (worker_update(&node->worker, layer, &given, &out, &err) != TRI_OK)
            refuse(cluster, err.status, err.text);
    }
    if (update.busy) {
        loop->at = LOOP_INPUT;
        go_on(node);
    } else {
        next_layer_down(node);
    }
}

static void loop_step(struct node *node)
{
    struct sim_cluster *cluster = node->cluster;
    const struct sim_app *app = &cluster->options.app;
    struct loop *loop = &node->loop;
    loop->scheduled = false;
    switch (loop->at) {
    case LOOP_FORWARD:
    case LOOP_LAST:
        loop_forward(node);
        break;
    case LOOP_UPDATE:
        loop_update(node);
        break;
    case LOOP_INPUT:
        app->input_gradient(app->ctx, node->number, loop->clock, loop->layer,
                            node->worker_memory.params[loop->layer]);
        next_layer_down(node);
        break;
    case LOOP_CLOCK: {
        struct core_out out = out_of(node, false);
        worker_clock(&node->worker, &out);
        loop->clock++;
        if (node->number == 0 && loop->clock == cluster->options.checkpoint_after)
            coordinator_mark(&cluster->coordinator, &out);
        loop->layer = 0;
        loop->at = loop->clock < cluster->options.clocks ? LOOP_FORWARD : LOOP_LAST;
        go_on(node);
        break;
    }
    case LOOP_DONE:
        break;
    }
}

/* ---- making and running ---- */

static const struct mem *core_mem(const struct sim_cluster *cluster)
{
    return cluster->options.core_mem != NULL ? cluster->options.core_mem : cluster->mem;
}

static tri_status init_worker(struct sim_cluster *cluster, struct node *node, tri_error *err)
{
    node->has_worker = true;
    tri_status status = worker_init(&node->worker, cluster->layout, &cluster->options.rules,
                                    node->number, 0, core_mem(cluster), err);
    if (status == TRI_OK)
        status =
            sim_worker_memory_init(&node->worker_memory, cluster->layout, &cluster->options.rules,
                                   &cluster->options.optim, cluster->scratch, cluster->mem, err);
    node->loop.checksums =
        mem_array(cluster->mem, (size_t)cluster->options.clocks + 1, sizeof *node->loop.checksums);
    if (status == TRI_OK && node->loop.checksums == NULL)
        status = fail_nomem(err, "a simulated worker");
    if (status != TRI_OK)
        return status;
    for (uint32_t i = 0; i < cluster->layout->layer_count; i++)
        cluster->options.app.init(cluster->options.app.ctx, node->number, i,
                                  node->worker_memory.params[i]);
    return TRI_OK;
}

static tri_status init_nodes(struct sim_cluster *cluster, tri_error *err)
{
    const struct layout *layout = cluster->layout;
    uint64_t hash = layout_hash(
        layout, core_rules_hash(&cluster->options.rules, cluster->options.optim.ops->name));
    for (uint32_t i = 0; i < layout->nodes; i++) {
        cluster->nodes[i].cluster = cluster;
        cluster->nodes[i].number = i;
        bool odd = i + cluster->options.odd_nodes >= layout->nodes;
        member_init(&cluster->nodes[i].member, i, hash + odd, hash);
    }
    for (size_t i = 0; i < (size_t)layout->nodes * layout->nodes; i++)
        queue_init(&cluster->links[i].queue, cluster->mem);
    tri_status status = coordinator_init(&cluster->coordinator, layout, &cluster->options.rules,
                                         core_mem(cluster), err);
    cluster->saved = mem_array(cluster->mem, layout->layer_count, sizeof *cluster->saved);
    for (uint32_t i = 0; cluster->saved != NULL && i < layout->layer_count; i++) {
        size_t floats = (size_t)layout->layers[i].floats;
        cluster->saved[i] = mem_array(cluster->mem, floats, sizeof(float));
        if (cluster->saved[i] == NULL && status == TRI_OK)
            status = fail_nomem(err, "a checkpoint");
    }
    if (cluster->saved == NULL && status == TRI_OK)
        status = fail_nomem(err, "a checkpoint");
    for (uint32_t r = 0; r < layout->workers && status == TRI_OK; r++)
        status = init_worker(cluster, &cluster->nodes[r], err);
    for (uint32_t s = 0; s < layout->servers && status == TRI_OK; s++) {
        struct node *node = &cluster->nodes[layout->server_node[s]];
        status = server_init(&node->server, layout, &cluster->options.rules, s, 0,
                             core_mem(cluster), err);
        if (status == TRI_OK)
            status = sim_server_memory_init(&node->server_memory, layout, s,
                                            &cluster->options.rules, &cluster->options.optim,
                                            cluster->scratch, cluster->mem, err);
    }
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
    cluster->running = layout->workers;
    rng_init(&cluster->rng, options->seed);
    cluster->nodes = mem_array(mem, layout->nodes, sizeof *cluster->nodes);
    cluster->links = mem_array(mem, (size_t)layout->nodes * layout->nodes, sizeof *cluster->links);
    tri_status status;
    cluster->scratch = mem_array(mem, product_scratch_bytes(), 1);
    if (cluster->nodes == NULL || cluster->links == NULL || cluster->scratch == NULL)
        status = fail_nomem(err, "a simulated cluster");
    else
        status = init_nodes(cluster, err);
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
    for (size_t i = 0; i < cluster->events.count; i++)
        if (cluster->events.heap[i].packet != NULL)
            free_packet(cluster, cluster->events.heap[i].packet);
    for (size_t i = 0; cluster->links != NULL && cluster->nodes != NULL &&
                       i < (size_t)cluster->layout->nodes * cluster->layout->nodes;
         i++) {
        struct queue_entry entry;
        while (queue_pop(&cluster->links[i].queue, &entry))
            free_packet(cluster, entry.tag);
        if (cluster->links[i].queue.mem != NULL)
            queue_fini(&cluster->links[i].queue);
    }
    for (uint32_t i = 0; cluster->nodes != NULL && i < cluster->layout->nodes; i++) {
        struct node *node = &cluster->nodes[i];
        if (node->worker.mem != NULL)
            worker_fini(&node->worker);
        if (node->server.mem != NULL)
            server_fini(&node->server);
        sim_worker_memory_fini(&node->worker_memory);
        sim_server_memory_fini(&node->server_memory);
        mem_free(cluster->mem, node->loop.checksums);
    }
    if (cluster->coordinator.mem != NULL)
        coordinator_fini(&cluster->coordinator);
    for (uint32_t i = 0; cluster->saved != NULL && i < cluster->layout->layer_count; i++)
        mem_free(cluster->mem, cluster->saved[i]);
    mem_free(cluster->mem, cluster->saved);
    mem_free(cluster->mem, cluster->nodes);
    mem_free(cluster->mem, cluster->links);
    mem_free(cluster->mem, cluster->events.heap);
    mem_free(cluster->mem, cluster->scratch);
    mem_free(cluster->mem, cluster);
}

static void handle(struct sim_cluster *cluster, const struct event *event)
{
    switch (event->kind) {
    case EVENT_HEADER:
        take_header(cluster, event->packet);
        break;
    case EVENT_DATA:
        take_data(cluster, event->packet);
        break;
    case EVENT_OP:
        take_op(cluster, event);
        break;
    case EVENT_LOOP:
        loop_step(&cluster->nodes[event->node]);
        break;
    }
}

tri_status sim_run(struct sim_cluster *cluster, tri_error *err)
{
    for (uint32_t n = 0; n < cluster->layout->nodes; n++) {
        struct core_out out = out_of(&cluster->nodes[n], false);
        member_join(&cluster->nodes[n].member, &out);
    }
    while (cluster->events.count > 0 && cluster->status == TRI_OK) {
        struct event event = events_next(&cluster->events);
        cluster->time = event.time;
        cluster->handled++;
        handle(cluster, &event);
    }
    if (cluster->status == TRI_OK && cluster->running > 0)
        refuse(cluster, TRI_EPEER, "stuck: no event is left and the job is not finished");
    if (cluster->status != TRI_OK && err != NULL)
        *err = cluster->error;
    return cluster->status;
}

const float *sim_params(const struct sim_cluster *cluster, uint32_t rank, uint32_t layer)
{
    return cluster->nodes[rank].worker_memory.params[layer];
}

bool sim_counted(const struct sim_cluster *cluster, uint32_t rank, uint32_t layer, uint32_t of)
{
    return worker_counted(&cluster->nodes[rank].worker, layer, of);
}

uint32_t sim_checksum(const struct sim_cluster *cluster, uint32_t rank, uint64_t clock)
{
    return cluster->nodes[rank].loop.checksums[clock];
}

uint64_t sim_checkpoint(const struct sim_cluster *cluster, uint32_t *crc)
{
    *crc = checksum(cluster, cluster->saved);
    return cluster->coordinator.done;
}

struct sim_traffic sim_traffic(const struct sim_cluster *cluster, uint32_t node)
{
    return cluster->nodes[node].traffic;
}

uint64_t sim_events(const struct sim_cluster *cluster)
{
    return cluster->handled;
}

uint64_t sim_server_floats(const struct sim_cluster *cluster, uint32_t server)
{
    return cluster->nodes[cluster->layout->server_node[server]].server_memory.landing_floats;
}
