/* Packets: asked for, sent, taken. links_break.c has what becomes of them when things break. */
#include "sim/links.h"

#include <string.h>

#include "sim/story.h"

void links_free_packet(struct sim_cluster *cluster, struct packet *packet)
{
    mem_free(cluster->mem, packet);
}

struct store_runs links_runs(const struct machine *machine, struct core_ref ref)
{
    switch (ref.space) {
    case CORE_NOWHERE:
        return (struct store_runs){0};
    case CORE_LANDING:
    case CORE_ADD:
    case CORE_PRODUCTS:
    case CORE_SHARD:
    case CORE_REPLY:
        return store_server_runs(&machine->server_store, ref);
    default:
        return store_worker_runs(&machine->worker_store, ref);
    }
}

/* ---- sending ---- */

static size_t set_words(const struct sim_cluster *cluster, const struct message *message)
{
    if (message->set == NULL)
        return 0;
    return bits_words(message->kind == WIRE_RESULT ? cluster->layout->workers
                                                   : cluster->layout->nodes);
}

/* A packet with copies of all that the action points to; NULL when memory is refused. */
static struct packet *make_packet(struct machine *machine, const struct core_action *action)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct message *message = &action->message;
    struct store_runs runs = links_runs(machine, action->ref);
    size_t words = set_words(cluster, message), len = message->bytes != NULL ? message->len : 0;
    size_t floats = (size_t)store_runs_floats(runs);
    struct packet *packet = mem_array(
        cluster->mem, 1, sizeof *packet + words * sizeof(uint64_t) + floats * sizeof(float) + len);
    if (packet == NULL)
        return NULL;
    *packet = (struct packet){.from = machine->number,
                              .to = action->to,
                              .life = cluster->machines[action->to].life,
                              .message = *message,
                              .source = action->ref,
                              .floats = floats};
    uint64_t *set = (uint64_t *)(packet + 1);
    packet->data = (float *)(set + words);
    uint8_t *bytes = (uint8_t *)(packet->data + floats);
    if (words > 0)
        packet->message.set = memcpy(set, message->set, words * sizeof *set);
    if (len > 0)
        packet->message.bytes = memcpy(bytes, message->bytes, len);
    store_runs_read(runs, packet->data);
    return packet;
}

static struct packet *next_packet(struct lane *lane)
{
    struct packet *packet = lane->front;
    struct queue_entry entry;
    if (packet != NULL) {
        lane->front = packet->next;
        packet->next = NULL;
        return packet;
    }
    return queue_pop(&lane->queue, &entry) ? entry.tag : NULL;
}

void links_go_on(struct sim_cluster *cluster, uint32_t from, uint32_t to)
{
    struct link *link = link_of(cluster, from, to);
    for (int i = 0; i < LANES; i++) {
        struct lane *lane = &link->lanes[i];
        uint32_t sockets =
            i == LANE_CONTROL || cluster->options.sockets == 0 ? 1 : cluster->options.sockets;
        struct packet *packet;
        while (lane->sending < sockets && (packet = next_packet(lane)) != NULL) {
            lane->sending++;
            sim_schedule(cluster,
                         (struct event){.kind = EVENT_HEADER, .node = to, .packet = packet}, 20);
        }
    }
}

/* A sign of life that waits says as much as two. */
static bool waits_already(const struct lane *lane, enum wire_kind kind)
{
    if (kind == WIRE_HEARTBEAT)
        for (size_t i = 0; i < lane->queue.count; i++)
            if (lane->queue.entries[i].message.kind == kind)
                return true;
    return false;
}

/* Between these two nothing passes any more; but the evicted may be told. */
static bool is_dropped(const struct machine *machine, uint32_t other, enum wire_kind kind)
{
    return bits_has(machine->dropped, other) &&
           !(is_control(kind) && (machine->number == 0 || other == 0));
}

void links_send(struct machine *machine, const struct core_action *action)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct message *message = &action->message;
    struct lane *lane = &link_of(cluster, machine->number, action->to)
                             ->lanes[is_control(message->kind) ? LANE_CONTROL : LANE_DATA];
    if (waits_already(lane, message->kind))
        return;
    story_send(machine, action);
    if (is_dropped(machine, action->to, message->kind)) {
        cluster->stats.dropped++;
        return;
    }
    struct packet *packet = make_packet(machine, action);
    if (packet == NULL ||
        queue_push(&lane->queue, &packet->message, &action->ref, packet, NULL) != TRI_OK) {
        mem_free(cluster->mem, packet);
        sim_refuse(cluster, TRI_ENOMEM, "out of memory for a message");
        return;
    }
    bool relay = message->kind == WIRE_FACTORS || message->kind == WIRE_NOTHING;
    cluster->stats.relays += relay && message->rank != machine->number;
    links_go_on(cluster, machine->number, action->to);
}

/* ---- arriving ---- */

static struct lane *lane_of(struct sim_cluster *cluster, const struct packet *packet)
{
    return &link_of(cluster, packet->from, packet->to)
                ->lanes[is_control(packet->message.kind) ? LANE_CONTROL : LANE_DATA];
}

static void finish(struct sim_cluster *cluster, struct packet *packet)
{
    uint32_t from = packet->from, to = packet->to;
    lane_of(cluster, packet)->sending--;
    links_free_packet(cluster, packet);
    links_go_on(cluster, from, to);
}

/* Is there nobody to take it? */
static bool vanishes(struct sim_cluster *cluster, const struct packet *packet)
{
    const struct machine *machine = &cluster->machines[packet->to];
    if (!machine_runs(machine) || packet->life != machine->life)
        return true;
    if (!is_dropped(machine, packet->from, packet->message.kind))
        return false;
    cluster->stats.dropped++;
    return true;
}

void links_header(struct sim_cluster *cluster, struct packet *packet)
{
    struct machine *machine = &cluster->machines[packet->to];
    if (vanishes(cluster, packet)) {
        finish(cluster, packet);
        return;
    }
    packet->taken = true;
    packet->landing = node_landing(&machine->core, &packet->message);
    if (packet->duplicate && packet->landing.space != CORE_NOWHERE)
        sim_violate(cluster, "node %u, layer %u, clock %llu: a second copy of %s was given a place",
                    packet->to, packet->message.layer, (unsigned long long)packet->message.clock,
                    wire_kind_name(packet->message.kind));
    sim_schedule(cluster, (struct event){.kind = EVENT_DATA, .node = packet->to, .packet = packet},
                 20);
}

static void count_traffic(struct sim_cluster *cluster, const struct packet *packet)
{
    const struct message *message = &packet->message;
    bool counts = message->kind == WIRE_PUSH || message->kind == WIRE_FACTORS ||
                  message->kind == WIRE_NOTHING || message->kind == WIRE_RESULT;
    if (packet->from == packet->to || !counts || packet->duplicate)
        return;
    const struct layout_layer *layer = &cluster->layout->layers[message->layer];
    uint64_t matrix = (uint64_t)layer->rows * layer->cols, bias = 0;
    if (message->kind != WIRE_FACTORS && packet->floats > 0) {
        const struct layout_part *part = &cluster->layout->parts[layer->first_part + message->part];
        uint64_t end = part->first + part->floats;
        bias = end > matrix ? end - (part->first > matrix ? part->first : matrix) : 0;
    }
    struct sim_traffic *from = &cluster->machines[packet->from].traffic;
    struct sim_traffic *to = &cluster->machines[packet->to].traffic;
    from->sent += packet->floats - bias;
    to->received += packet->floats - bias;
    from->bias_sent += bias;
    to->bias_received += bias;
    from->messages++;
}

/* What has arrived may arrive a second time, after a reset. What was read into nothing may
 * not: it would be the first copy. */
static bool keep(struct sim_cluster *cluster, struct packet *packet, bool landed)
{
    struct link *link = link_of(cluster, packet->from, packet->to);
    if (!link->keeps || packet->duplicate || packet->message.kind == WIRE_HEARTBEAT ||
        (packet->floats > 0 && !landed))
        return false;
    struct packet **place = &link->ring[link->arrived++ % LINK_RING];
    if (*place != NULL)
        links_free_packet(cluster, *place);
    *place = packet;
    return true;
}

/* Puts the values where they belong; false when that is nowhere. */
static bool land(struct machine *machine, struct packet *packet)
{
    struct store_runs runs = links_runs(machine, packet->landing);
    if (packet->landing.space == CORE_NOWHERE)
        return false;
    if (store_runs_floats(runs) != packet->floats) {
        sim_violate(machine->cluster,
                    "node %u: %s of layer %u, part %u, has %llu floats, its place %llu",
                    machine->number, wire_kind_name(packet->message.kind), packet->message.layer,
                    packet->message.part, (unsigned long long)packet->floats,
                    (unsigned long long)store_runs_floats(runs));
        return false;
    }
    if (packet->landing.space != CORE_ADD) {
        store_runs_write(runs, packet->data);
        return true;
    }
    if (!node_adds(&machine->core, &packet->message))
        return false;
    check_add(machine, packet);
    store_runs_add(runs, packet->data);
    return true;
}

void links_data(struct sim_cluster *cluster, struct packet *packet)
{
    struct machine *machine = &cluster->machines[packet->to];
    if (vanishes(cluster, packet)) {
        finish(cluster, packet);
        return;
    }
    check_source(cluster, packet);
    count_traffic(cluster, packet);
    bool landed = land(machine, packet);
    packet->message.landed = packet->landing.space != CORE_NOWHERE;
    const struct message *message = &packet->message;
    bool left_out =
        message->kind == WIRE_LEFT_OUT || (message->kind == WIRE_RESULT && message->left_out);
    cluster->stats.left_outs += left_out;
    machine->was_left_out = machine->was_left_out || left_out;
    struct core_out out = machine_out(machine);
    node_message(&machine->core, sim_now(cluster), message, &out);
    lane_of(cluster, packet)->sending--;
    uint32_t from = packet->from, to = packet->to;
    if (!keep(cluster, packet, landed))
        links_free_packet(cluster, packet);
    links_go_on(cluster, from, to);
}
