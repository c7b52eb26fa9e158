/* Faults happen: from a list to what they do to nodes and links. */
#include "sim/faults.h"

#include "sim/links.h"
#include "sim/story.h"

const char *sim_fault_name(enum sim_fault_kind kind)
{
    static const char *const names[SIM_FAULT_KINDS] = {
        [SIM_KILL] = "kill",   [SIM_RESTART] = "restart",     [SIM_PAUSE] = "pause",
        [SIM_CUT] = "cut",     [SIM_SPLIT] = "split",         [SIM_ISOLATE] = "isolate",
        [SIM_RESET] = "reset", [SIM_SLOW_LINK] = "slow-link", [SIM_SLOW_NODE] = "slow-node",
    };
    return (unsigned)kind < SIM_FAULT_KINDS ? names[kind] : "?";
}

void faults_plan(struct sim_cluster *cluster)
{
    cluster->next_fault = UINT64_MAX;
    for (size_t i = 0; i < cluster->options.fault_count; i++)
        if (!cluster->fault_done[i] && cluster->options.faults[i].at < cluster->next_fault)
            cluster->next_fault = cluster->options.faults[i].at;
}

/* When what begins now is over. */
static uint64_t end_of(struct sim_cluster *cluster, uint64_t lasts)
{
    if (lasts == 0)
        return EVENT_NEVER;
    uint64_t end = cluster->time + lasts;
    cluster->heals = end > cluster->heals ? end : cluster->heals;
    return end;
}

static void extend(uint64_t *until, uint64_t end)
{
    *until = end > *until ? end : *until;
}

/* Without these nodes there is no job. */
static bool is_vital(const struct layout *layout, uint32_t node)
{
    for (uint32_t s = 0; s < layout->servers; s++)
        if (layout->server_node[s] == node && layout->server_units[s] > 0)
            return true;
    return node == 0;
}

/* From now on the node may lose its place, and be no bug. */
static void touch(struct sim_cluster *cluster, uint32_t node)
{
    cluster->machines[node].touched = true;
    /* Before the start the job can do without nobody. */
    bool starting = cluster->machines[0].core.coordinator.stage < COORDINATOR_RUNNING;
    cluster->vital_touched = cluster->vital_touched || starting || is_vital(cluster->layout, node);
}

static void cut(struct sim_cluster *cluster, uint32_t from, uint32_t to, uint64_t end)
{
    extend(&link_of(cluster, from, to)->cut_until, end);
}

static void isolate(struct sim_cluster *cluster, uint32_t node, uint64_t end)
{
    touch(cluster, node);
    for (uint32_t n = 0; n < cluster->layout->nodes; n++)
        if (n != node) {
            cut(cluster, node, n, end);
            cut(cluster, n, node, end);
        }
}

static void kill(struct sim_cluster *cluster, const struct sim_fault *fault)
{
    struct machine *machine = &cluster->machines[fault->a];
    touch(cluster, fault->a);
    machine->restarts = fault->kind == SIM_RESTART && fault->lasts > 0;
    machine_kill(machine);
    if (machine->restarts)
        sim_put(cluster, (struct event){.time = end_of(cluster, fault->lasts),
                                        .kind = EVENT_RESTART,
                                        .node = fault->a});
}

/* A pause that is short enough changes nothing, alone or with those right before it. Node 0 may
 * take longer: others give it up by themselves, and later. */
static bool is_shrugged_off(struct sim_cluster *cluster, const struct sim_fault *fault)
{
    struct machine *machine = &cluster->machines[fault->a];
    uint64_t heartbeat = cluster->options.times.heartbeat / 1000;
    if (cluster->time > machine->paused_until + heartbeat)
        machine->paused_from = cluster->time;
    uint64_t most = fault->a == 0 ? heartbeat * 27 / 10 : heartbeat * 22 / 10;
    uint64_t end = end_of(cluster, fault->lasts);
    end = end > machine->paused_until ? end : machine->paused_until;
    return fault->lasts > 0 && end - machine->paused_from < most;
}

static void pause_node(struct sim_cluster *cluster, const struct sim_fault *fault)
{
    struct machine *machine = &cluster->machines[fault->a];
    if (!is_shrugged_off(cluster, fault))
        touch(cluster, fault->a);
    extend(&machine->paused_until, end_of(cluster, fault->lasts));
    if (machine->paused_until == EVENT_NEVER)
        machine_leaves(machine);
}

/* A link so slow that a sign of life and the next are too far apart cuts its nodes off. */
static void slow_link(struct sim_cluster *cluster, const struct sim_fault *fault)
{
    struct link *link = link_of(cluster, fault->a, fault->b);
    uint64_t heartbeat = cluster->options.times.heartbeat / 1000;
    link->slow_until = end_of(cluster, fault->lasts);
    link->slowness = fault->factor;
    if (40 * (uint64_t)fault->factor > heartbeat) {
        touch(cluster, fault->a);
        touch(cluster, fault->b);
    }
}

static void slow_node(struct sim_cluster *cluster, const struct sim_fault *fault)
{
    struct machine *machine = &cluster->machines[fault->a];
    machine->slow_until = end_of(cluster, fault->lasts);
    machine->slowness = fault->factor;
}

static bool needs_two(enum sim_fault_kind kind)
{
    return kind == SIM_CUT || kind == SIM_SPLIT || kind == SIM_RESET || kind == SIM_SLOW_LINK;
}

/* Nothing happens to nodes that are gone, to links of a node with itself, and to nobody. */
static bool is_possible(const struct sim_cluster *cluster, const struct sim_fault *fault)
{
    uint32_t nodes = cluster->layout->nodes;
    if ((unsigned)fault->kind >= SIM_FAULT_KINDS || fault->a >= nodes ||
        !machine_runs(&cluster->machines[fault->a]))
        return false;
    return !needs_two(fault->kind) ||
           (fault->b < nodes && fault->a != fault->b && machine_runs(&cluster->machines[fault->b]));
}

static void happen(struct sim_cluster *cluster, const struct sim_fault *fault)
{
    switch (fault->kind) {
    case SIM_KILL:
    case SIM_RESTART:
        kill(cluster, fault);
        break;
    case SIM_PAUSE:
        pause_node(cluster, fault);
        break;
    case SIM_SPLIT:
        cut(cluster, fault->b, fault->a, end_of(cluster, fault->lasts)); /* fall through */
    case SIM_CUT:
        cut(cluster, fault->a, fault->b, end_of(cluster, fault->lasts));
        touch(cluster, fault->a);
        touch(cluster, fault->b);
        break;
    case SIM_ISOLATE:
        isolate(cluster, fault->a, end_of(cluster, fault->lasts));
        break;
    case SIM_RESET:
        links_reset(cluster, fault->a, fault->b);
        links_reset(cluster, fault->b, fault->a);
        break;
    case SIM_SLOW_LINK:
        slow_link(cluster, fault);
        break;
    case SIM_SLOW_NODE:
        slow_node(cluster, fault);
        break;
    case SIM_FAULT_KINDS:
        break;
    }
}

void faults_apply(struct sim_cluster *cluster)
{
    for (size_t i = 0; i < cluster->options.fault_count; i++) {
        const struct sim_fault *fault = &cluster->options.faults[i];
        if (cluster->fault_done[i] || fault->at > cluster->handled)
            continue;
        cluster->fault_done[i] = true;
        if (!is_possible(cluster, fault))
            continue;
        cluster->stats.faults[fault->kind]++;
        story_fault(cluster, fault);
        happen(cluster, fault);
    }
    faults_plan(cluster);
}
