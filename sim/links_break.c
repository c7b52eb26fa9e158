/* Packets that are torn, sent again, or lost with their sender. */
#include <math.h>
#include <string.h>

#include "sim/links.h"

/* ---- picking packets out of what is under way ---- */

struct route {
    uint32_t from, to; /* UINT32_MAX: anybody */
    bool only_data, only_doomed;
};

static bool on_route(const void *ctx, const struct event *event)
{
    const struct route *route = ctx;
    const struct packet *packet = event->packet;
    return packet != NULL && (route->from == UINT32_MAX || packet->from == route->from) &&
           (route->to == UINT32_MAX || packet->to == route->to) &&
           (!route->only_data || !is_control(packet->message.kind)) &&
           (!route->only_doomed || packet->doomed);
}

static enum lane_kind lane_kind(const struct packet *packet)
{
    return is_control(packet->message.kind) ? LANE_CONTROL : LANE_DATA;
}

/* Half of the values were written before the connection broke; what they were is anybody's
 * guess, so that nobody may use them. */
static void spoil(const struct machine *machine, const struct packet *packet)
{
    if (packet->landing.space == CORE_ADD)
        return;
    struct store_runs runs = links_runs(machine, packet->landing);
    for (int run = 0; run < STORE_RUNS; run++)
        for (uint64_t i = 0; i < (runs.count[run] + 1) / 2; i++)
            runs.at[run][i] = NAN;
}

/* The connection broke under a packet, whose event is gone. */
static void tear(struct sim_cluster *cluster, struct packet *packet)
{
    struct machine *to = &cluster->machines[packet->to];
    link_of(cluster, packet->from, packet->to)->lanes[lane_kind(packet)].sending--;
    if (packet->taken && machine_runs(to) && packet->life == to->life) {
        spoil(to, packet);
        if (packet->landing.space != CORE_NOWHERE)
            node_lost(&to->core, &packet->message);
    }
    packet->taken = packet->doomed = false;
    packet->landing = (struct core_ref){.space = CORE_NOWHERE};
    cluster->stats.torn++;
}

static void tear_all(struct sim_cluster *cluster, struct route route)
{
    struct event event;
    while (sim_take(cluster, on_route, &route, &event)) {
        tear(cluster, event.packet);
        links_free_packet(cluster, event.packet);
    }
}

/* ---- what waits ---- */

static void purge(struct sim_cluster *cluster, struct lane *lane)
{
    struct queue_entry entry;
    while (lane->front != NULL) {
        struct packet *packet = lane->front;
        lane->front = packet->next;
        links_free_packet(cluster, packet);
    }
    while (queue_pop(&lane->queue, &entry))
        links_free_packet(cluster, entry.tag);
}

static void purge_link(struct sim_cluster *cluster, struct link *link)
{
    for (int i = 0; i < LANES; i++)
        purge(cluster, &link->lanes[i]);
    for (int i = 0; i < LINK_RING; i++) {
        if (link->ring[i] != NULL)
            links_free_packet(cluster, link->ring[i]);
        link->ring[i] = NULL;
    }
}

void link_fini(struct sim_cluster *cluster, struct link *link)
{
    purge_link(cluster, link);
    for (int i = 0; i < LANES; i++)
        if (link->lanes[i].queue.mem != NULL)
            queue_fini(&link->lanes[i].queue);
}

/* ---- faults ---- */

void links_drop(struct machine *machine, uint32_t node)
{
    struct sim_cluster *cluster = machine->cluster;
    /* Who is evicted must hear of it, and may ask: control with node 0 goes on. */
    bool told = machine->number == 0 || node == 0;
    struct link *link = link_of(cluster, machine->number, node);
    bits_add(machine->dropped, node);
    purge(cluster, &link->lanes[LANE_DATA]);
    if (!told)
        purge(cluster, &link->lanes[LANE_CONTROL]);
    tear_all(cluster, (struct route){machine->number, node, told, false});
    tear_all(cluster, (struct route){node, machine->number, told, false});
    links_go_on(cluster, node, machine->number);
}

void links_abandon(struct machine *machine)
{
    struct sim_cluster *cluster = machine->cluster;
    struct route all = {machine->number, UINT32_MAX, false, false};
    for (uint32_t n = 0; n < cluster->layout->nodes; n++)
        purge_link(cluster, link_of(cluster, machine->number, n));
    /* What has reached the receiver's kernel gets there; of the rest nothing does. */
    for (size_t i = 0; i < cluster->events.count; i++)
        if (on_route(&all, &cluster->events.heap[i]))
            cluster->events.heap[i].packet->doomed = rng_below(&cluster->chance, 2) == 0;
    tear_all(cluster, (struct route){machine->number, UINT32_MAX, false, true});
}

void links_forget(struct machine *machine)
{
    struct sim_cluster *cluster = machine->cluster;
    uint32_t self = machine->number;
    tear_all(cluster, (struct route){self, UINT32_MAX, false, false});
    tear_all(cluster, (struct route){UINT32_MAX, self, false, false});
    for (uint32_t n = 0; n < cluster->layout->nodes; n++)
        purge_link(cluster, link_of(cluster, n, self));
}

/* A copy that comes a second time: its sender may have reused the memory meanwhile. */
static struct packet *second_copy(struct sim_cluster *cluster, struct packet *packet)
{
    packet->duplicate = true;
    packet->taken = false;
    packet->landing = (struct core_ref){.space = CORE_NOWHERE};
    for (uint64_t i = 0; i < packet->floats; i++)
        packet->data[i] = NAN;
    cluster->stats.duplicates++;
    return packet;
}

/* Some of what has arrived, in that order, to be sent again before what was under way. */
static void again(struct sim_cluster *cluster, struct link *link, struct packet **ends[LANES])
{
    for (uint64_t i = 0; i < LINK_RING; i++) {
        struct packet **kept = &link->ring[(link->arrived + i) % LINK_RING];
        if (*kept == NULL || rng_below(&cluster->chance, 2) == 0)
            continue;
        struct packet *packet = second_copy(cluster, *kept);
        *kept = NULL;
        *ends[lane_kind(packet)] = packet;
        ends[lane_kind(packet)] = &packet->next;
    }
}

void links_reset(struct sim_cluster *cluster, uint32_t from, uint32_t to)
{
    struct link *link = link_of(cluster, from, to);
    struct route route = {from, to, false, false};
    struct packet *front[LANES] = {NULL}, **ends[LANES] = {&front[0], &front[1]};
    struct event event;
    again(cluster, link, ends);
    while (sim_take(cluster, on_route, &route, &event)) {
        tear(cluster, event.packet);
        *ends[lane_kind(event.packet)] = event.packet;
        ends[lane_kind(event.packet)] = &event.packet->next;
    }
    for (int i = 0; i < LANES; i++) {
        *ends[i] = link->lanes[i].front;
        link->lanes[i].front = front[i];
    }
    links_go_on(cluster, from, to);
}
