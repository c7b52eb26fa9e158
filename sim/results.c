/* What can be asked about a run. */
#include "sim/inside.h"

struct sim_outcome sim_outcome(const struct sim_cluster *cluster, uint32_t node)
{
    const struct machine *machine = &cluster->machines[node];
    return (struct sim_outcome){.fate = machine->fate,
                                .status = machine->status,
                                .text = machine->text,
                                .time = machine->over_time};
}

const char *sim_wait_text(const struct sim_cluster *cluster, uint32_t node)
{
    return cluster->machines[node].wait;
}

struct sim_stats sim_stats(const struct sim_cluster *cluster)
{
    struct sim_stats stats = cluster->stats;
    stats.events = cluster->handled;
    stats.time = cluster->time;
    return stats;
}

uint32_t sim_view(const struct sim_cluster *cluster)
{
    return cluster->view;
}

uint64_t sim_view_time(const struct sim_cluster *cluster)
{
    return cluster->view_time;
}

bool sim_departed(const struct sim_cluster *cluster, uint32_t node)
{
    return sim_is_departed(cluster, node);
}

uint64_t sim_began(const struct sim_cluster *cluster, uint32_t rank, uint64_t clock)
{
    return clock < cluster->options.clocks + 2 ? cluster->machines[rank].loop.began[clock] : 0;
}

struct server_staleness sim_staleness(const struct sim_cluster *cluster)
{
    struct server_staleness all = {0};
    for (uint32_t n = 0; n < cluster->layout->nodes; n++) {
        const struct node *core = &cluster->machines[n].core;
        for (uint32_t i = 0; core->has_server && i < core->server.unit_count; i++) {
            const struct server_staleness *unit = &core->server.units[i].staleness;
            all.updates += unit->updates;
            all.total += unit->total;
            all.most = unit->most > all.most ? unit->most : all.most;
        }
    }
    return all;
}

bool sim_in(const struct sim_cluster *cluster, uint32_t unit, uint64_t clock, uint32_t rank)
{
    const struct check *check = &cluster->check;
    return check->on && clock < check->clocks &&
           bits_has(&check->in[(unit * check->clocks + clock) * check->words], rank);
}

struct sim_values sim_params(const struct sim_cluster *cluster, uint32_t rank, uint32_t layer)
{
    return caller_params(&cluster->machines[rank].caller, layer);
}

bool sim_counted(const struct sim_cluster *cluster, uint32_t rank, uint32_t unit, uint32_t of)
{
    return worker_counted(&cluster->machines[rank].core.worker, unit, of);
}

uint32_t sim_checksum(const struct sim_cluster *cluster, uint32_t rank, uint64_t clock)
{
    return cluster->machines[rank].loop.checksums[clock];
}

uint64_t sim_checkpoint(const struct sim_cluster *cluster, uint32_t *crc)
{
    *crc = sim_crc(cluster, cluster->saved[cluster->whole]);
    return cluster->whole_clock;
}

struct sim_traffic sim_traffic(const struct sim_cluster *cluster, uint32_t node)
{
    return cluster->machines[node].traffic;
}

uint64_t sim_events(const struct sim_cluster *cluster)
{
    return cluster->handled;
}

uint64_t sim_server_floats(const struct sim_cluster *cluster, uint32_t server)
{
    return cluster->machines[cluster->layout->server_node[server]].server_store.landing_floats;
}
