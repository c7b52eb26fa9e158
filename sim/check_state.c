/* What must always be true, the part about what nodes agree on and what becomes of them:
 *
 *  1. bsp: every worker that reaches a version of a layer has the same bits, from the same ranks.
 *  4. A rank that is live at the end and was never late counts wherever it gave an update.
 *  6. Views rise, and one view is the same on all nodes.
 *  8. A checkpoint holds all parameters as they were at its clock, and keeps them.
 *  9. No node loses its place that no fault has touched.
 * 10. The job does not fail while nothing has touched the nodes it cannot do without.
 * 11. A job that ends has the same parameters everywhere; one that fails says why.
 * 12. A process that was started anew takes no part in a job that others are in.
 *
 * check.c has the others. */
#include <string.h>

#include "base/crc32c.h"
#include "sim/inside.h"

/* ---- agreeing ---- */

static bool all_departed(const struct sim_cluster *cluster, const uint64_t *ranks)
{
    for (uint32_t r = 0; r < cluster->layout->workers; r++)
        if (bits_has(ranks, r) && !sim_is_departed(cluster, r))
            return false;
    return true;
}

/* Is this the value that the others have? What only departed ranks had does not bind: they may
 * have gone on with an update that no survivor holds. *fresh: nobody binding was there before. */
static bool agrees(const struct sim_cluster *cluster, struct check_agreed *agreed,
                   uint64_t *reached, uint32_t rank, uint32_t crc, bool *fresh)
{
    *fresh = !agreed->known || all_departed(cluster, reached);
    if (*fresh) {
        *agreed = (struct check_agreed){.crc = crc, .known = true};
        bits_clear(reached, cluster->layout->workers);
    }
    bits_add(reached, rank);
    return agreed->crc == crc;
}

/* Replicas are made to differ in one test, and callers who step by themselves and have missed a
 * mean are on their own. */
static bool compares_values(const struct machine *machine)
{
    const struct sim_options *options = &machine->cluster->options;
    return options->corrupt_at == 0 && !(options->rules.aggregate && machine->was_behind);
}

/* ---- versions (1) ---- */

/* Whose updates are in a unit of this version, and are they those that were used? */
static void check_mask(struct machine *machine, uint32_t unit, uint64_t clock, bool fresh)
{
    struct sim_cluster *cluster = machine->cluster;
    struct check *check = &cluster->check;
    const struct layout *layout = cluster->layout;
    bool on_server = layout->units[unit].server != LAYOUT_NO_SERVER;
    size_t at = ((size_t)unit * check->clocks + clock) * check->words;
    size_t place = on_server ? 0 : 1 + (size_t)machine->number;
    const uint64_t *used =
        &check->consumed[place * layout->unit_count * check->clocks * check->words + at];
    bool told = clock + 1 != machine->core.worker.joined; /* of that one it is not */
    for (uint32_t r = 0; r < layout->workers; r++) {
        bool in = told ? worker_counted(&machine->core.worker, unit, r) : bits_has(used, r);
        if (fresh && in)
            bits_add(&check->in[at], r);
        else if (fresh)
            bits_remove(&check->in[at], r);
        if (in != bits_has(&check->in[at], r))
            sim_violate(cluster, "node %u, layer %u, unit %u, clock %llu: rank %u is %s here only",
                        machine->number, layout->units[unit].layer, unit, (unsigned long long)clock,
                        r, in ? "in" : "left out");
        else if (in != bits_has(used, r))
            sim_violate(cluster, "node %u, layer %u, unit %u, clock %llu: rank %u is said to be %s",
                        machine->number, layout->units[unit].layer, unit, (unsigned long long)clock,
                        r, in ? "in, and is not" : "out, and is in");
    }
}

/* Of the result of a layer: the mean in aggregate mode, else the parameters. */
static uint32_t version_crc(const struct machine *machine, uint32_t layer)
{
    const struct layout_layer *shape = &machine->cluster->layout->layers[layer];
    const struct store_layer *own = &machine->caller.layers[layer];
    if (machine->cluster->options.rules.aggregate)
        return crc32c(0, own->result, (size_t)shape->floats * sizeof(float));
    uint32_t crc = crc32c(0, own->weights, (size_t)shape->rows * shape->cols * sizeof(float));
    return shape->bias ? crc32c(crc, own->bias, shape->rows * sizeof(float)) : crc;
}

static void check_version(struct machine *machine, uint32_t layer, uint64_t clock)
{
    struct sim_cluster *cluster = machine->cluster;
    struct check *check = &cluster->check;
    const struct layout_layer *shape = &cluster->layout->layers[layer];
    if (clock >= check->clocks)
        return;
    size_t at = layer * (size_t)check->clocks + (size_t)clock;
    bool fresh;
    if (!agrees(cluster, &check->versions[at], &check->reached[at * check->words], machine->number,
                version_crc(machine, layer), &fresh) &&
        compares_values(machine))
        sim_violate(cluster, "node %u, layer %u, clock %llu: the result differs from the others'",
                    machine->number, layer, (unsigned long long)clock);
    for (uint32_t i = 0; i < shape->units; i++)
        check_mask(machine, shape->first_unit + i, clock, fresh);
}

/* 13, 14. Layers on the workers: a clock is applied after all of the clock before it; and what a
 * departed rank gave counts only if it was computed from parameters that the others have, too. */
static void check_base(struct machine *machine, uint32_t layer, uint64_t clock)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct check *check = &cluster->check;
    const struct layout *layout = cluster->layout;
    for (uint32_t l = 0; clock > 0 && clock < check->clocks && l < layout->layer_count; l++) {
        uint32_t unit = layout->layers[l].first_unit;
        size_t before = ((size_t)unit * check->clocks + clock - 1) * check->words;
        if (layout->layers[l].home != TRI_HOME_WORKERS)
            continue;
        if (machine->core.worker.syncers[l].version < clock)
            sim_violate(cluster,
                        "node %u applies clock %llu of layer %u before clock %llu of layer %u",
                        machine->number, (unsigned long long)clock, layer,
                        (unsigned long long)clock - 1, l);
        for (uint32_t r = 0; r < layout->workers; r++) {
            const uint64_t *used = &check->consumed[(1 + (size_t)r) * layout->unit_count *
                                                        check->clocks * check->words +
                                                    before];
            bool applied = check->seen[(size_t)r * layout->layer_count + l] >= clock;
            if (applied && cluster->machines[r].life == 0 && sim_is_departed(cluster, r) &&
                worker_counted(&machine->core.worker, layout->layers[layer].first_unit, r) &&
                memcmp(used, &check->in[before], check->words * sizeof *used) != 0)
                sim_violate(cluster,
                            "node %u, layer %u, clock %llu: departed rank %u counts, which had "
                            "applied clock %llu of layer %u with others",
                            machine->number, layer, (unsigned long long)clock, r,
                            (unsigned long long)clock - 1, l);
        }
    }
}

static void check_versions(struct machine *machine)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct worker *worker = &machine->core.worker;
    uint64_t *seen = &cluster->check.seen[(size_t)machine->number * cluster->layout->layer_count];
    machine->was_behind = machine->was_behind || worker->behind;
    /* One that joins again jumps to a version whose values are still to come. */
    bool skip = worker->behind || machine->is_behind || each_push(&cluster->options.rules) ||
                sim_is_departed(cluster, machine->number);
    machine->is_behind = worker->behind;
    for (uint32_t i = 0; i < cluster->layout->layer_count; i++) {
        uint64_t version = worker->syncers[i].version;
        if (version > seen[i] && !skip) {
            check_version(machine, i, version - 1);
            if (cluster->layout->layers[i].home == TRI_HOME_WORKERS)
                check_base(machine, i, version - 1);
        }
        seen[i] = version;
    }
}

void check_all(struct machine *machine, uint64_t clock, uint32_t crc)
{
    struct sim_cluster *cluster = machine->cluster;
    struct check *check = &cluster->check;
    bool fresh;
    if (!check->on || clock >= check->clocks || !compares_values(machine) ||
        sim_is_departed(cluster, machine->number))
        return;
    if (!agrees(cluster, &check->all[clock], &check->all_reached[clock * check->words],
                machine->number, crc, &fresh))
        sim_violate(cluster, "node %u, clock %llu: the parameters differ from the others'",
                    machine->number, (unsigned long long)clock);
    if (cluster->whole_clock == clock && cluster->stats.checkpoints > 0)
        check_commit(cluster, clock);
}

/* ---- views (6) ---- */

static void check_view(struct machine *machine)
{
    struct sim_cluster *cluster = machine->cluster;
    struct check *check = &cluster->check;
    const struct member *member = &machine->core.member;
    uint32_t *last = &check->view[machine->number];
    if (member->view < *last)
        sim_violate(cluster, "node %u: view %u comes after view %u", machine->number, member->view,
                    *last);
    if (member->view == *last || member->view >= check->views)
        return;
    *last = member->view;
    uint64_t *known = &check->departed[member->view * check->node_words];
    size_t bytes = check->node_words * sizeof *known;
    if (check->viewed[member->view] && memcmp(known, member->watch.departed, bytes) != 0)
        sim_violate(cluster, "node %u: others have departed in its view %u than in other nodes'",
                    machine->number, member->view);
    check->viewed[member->view] = true;
    memcpy(known, member->watch.departed, bytes);
}

/* 12. */
static void check_second_life(struct machine *machine)
{
    struct sim_cluster *cluster = machine->cluster;
    for (uint32_t n = 0; machine->core.member.started && n < cluster->layout->nodes; n++) {
        const struct machine *other = &cluster->machines[n];
        if (machine_runs(other) && !other->second && other->core.member.started)
            sim_violate(cluster, "node %u was started anew and takes part beside node %u",
                        machine->number, n);
    }
}

void check_machine(struct machine *machine)
{
    if (!machine->cluster->check.on || !machine_runs(machine) || !machine->made)
        return;
    if (machine->second) {
        check_second_life(machine);
        return;
    }
    check_view(machine);
    if (machine->core.has_worker)
        check_versions(machine);
}

/* ---- checkpoints (8) ---- */

void check_commit(struct sim_cluster *cluster, uint64_t clock)
{
    const struct check *check = &cluster->check;
    const struct core_rules *rules = &cluster->options.rules;
    if (!check->on || each_push(rules) || rules->aggregate || cluster->options.corrupt_at > 0)
        return;
    bool known = clock < check->clocks && check->all[clock].known &&
                 !all_departed(cluster, &check->all_reached[clock * check->words]);
    if (known && check->all[clock].crc != cluster->whole_crc)
        sim_violate(cluster, "the checkpoint of clock %llu is not what the parameters were then",
                    (unsigned long long)clock);
    if (sim_crc(cluster, cluster->saved[cluster->whole]) != cluster->whole_crc)
        sim_violate(cluster, "the checkpoint of clock %llu has changed", (unsigned long long)clock);
}

/* ---- how nodes come out of it (9, 10, 11) ---- */

void check_fate(struct machine *machine)
{
    struct sim_cluster *cluster = machine->cluster;
    const struct sim_options *options = &cluster->options;
    /* Those who are slow may be given up, where the rules say so. */
    bool patient =
        options->rules.left_outs == 0 && options->times.limit == 0 && options->early == 0;
    if (machine->fate == SIM_EVICTED && !machine->touched && !cluster->machines[0].touched &&
        patient)
        sim_violate(cluster, "node %u is evicted, and no fault touched it: %s", machine->number,
                    machine->text);
    /* Ranks that disagree end the job, and are no fault; the others then fail with them. */
    if (machine->fate == SIM_FAILED && machine->status == TRI_EMISMATCH)
        cluster->disagreed = true;
    if (machine->fate == SIM_FAILED && machine->status == TRI_ENOMEM)
        sim_refuse(cluster, TRI_ENOMEM, machine->text);
    if (machine->fate == SIM_FAILED && !machine->touched && !cluster->vital_touched && patient &&
        !cluster->disagreed)
        sim_violate(cluster, "node %u fails, and no fault touched what it needs: %s",
                    machine->number, machine->text);
    if (machine->fate != SIM_ENDED && machine->text[0] == '\0')
        sim_violate(cluster, "node %u fails without a word", machine->number);
}

/* 4. */
static void check_counts(struct sim_cluster *cluster, const struct machine *machine)
{
    struct check *check = &cluster->check;
    const struct layout *layout = cluster->layout;
    for (uint32_t u = 0; u < layout->unit_count; u++)
        for (uint64_t c = 0; c < cluster->options.clocks; c++) {
            uint32_t layer = layout->units[u].layer;
            const struct check_update *given =
                &check->given[(machine->number * check->clocks + c) * layout->layer_count + layer];
            if (given->given && check->versions[layer * check->clocks + c].known &&
                !bits_has(&check->in[(u * check->clocks + c) * check->words], machine->number))
                sim_violate(cluster, "layer %u, unit %u, clock %llu: rank %u does not count", layer,
                            u, (unsigned long long)c, machine->number);
        }
}

static bool is_at_the_end(const struct sim_cluster *cluster, const struct machine *machine)
{
    return machine->fate == SIM_ENDED && machine->number < cluster->layout->workers &&
           !machine->second && !machine->core.worker.behind && !machine->was_behind;
}

void check_end(struct sim_cluster *cluster, bool ended)
{
    const struct machine *first = NULL;
    if (cluster->stats.checkpoints > 0)
        check_commit(cluster, cluster->whole_clock);
    if (!cluster->check.on || !ended || each_push(&cluster->options.rules))
        return;
    for (uint32_t r = 0; r < cluster->layout->workers; r++) {
        const struct machine *machine = &cluster->machines[r];
        if (!is_at_the_end(cluster, machine))
            continue;
        if (machine->loop.clock != cluster->options.clocks)
            sim_violate(cluster, "node %u ended at clock %llu", r,
                        (unsigned long long)machine->loop.clock);
        if (!machine->was_left_out)
            check_counts(cluster, machine);
        if (first != NULL && compares_values(machine) &&
            sim_crc(cluster, machine->caller.layers) != sim_crc(cluster, first->caller.layers))
            sim_violate(cluster, "nodes %u and %u end with other parameters", first->number, r);
        first = first != NULL ? first : machine;
    }
}
