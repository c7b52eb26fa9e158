/* From updates and results that are in to parameters that may be used. */
#include "core/worker_inside.h"

struct gather *worker_gather(struct syncer *syncer, uint64_t clock)
{
    /* The first that comes of a clock finds the factors of two clocks before in its generation.
     * They may go: its sender, we or a peer, has applied the clock in between, so all live ranks
     * have applied the one before that. */
    struct gather *gather = &syncer->generation[clock % 2];
    if (gather->clock != clock)
        gather_open(gather, clock);
    return gather;
}

/* Of a layer: that of its unit which has stepped most often. */
static uint64_t steps_of(const struct worker *worker, uint32_t layer)
{
    const struct layout_layer *described = &worker->layout->layers[layer];
    uint64_t most = 0;
    for (uint32_t i = 0; i < described->units; i++) {
        uint64_t steps = worker->steps[described->first_unit + i];
        most = steps > most ? steps : most;
    }
    return most;
}

static void start_op(struct worker *worker, uint32_t layer, enum core_op_kind kind, uint64_t clock,
                     const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[layer];
    struct core_op op = {.kind = kind,
                         .role = CORE_WORKER,
                         .index = layer,
                         .clock = clock,
                         .count = syncer->count,
                         .steps = steps_of(worker, layer),
                         .lr = core_float(syncer->lr_bits)};
    syncer->working = true;
    syncer->applying = kind == CORE_OP_APPLY;
    core_op(out, &op);
}

void worker_clear_result(const struct worker *worker, uint32_t layer)
{
    struct syncer *syncer = &worker->syncers[layer];
    uint32_t parts = worker->layout->layers[layer].parts;
    syncer->parts_in = syncer->stages = syncer->changes = 0;
    syncer->placed = syncer->staged = syncer->missed = false;
    syncer->came = UINT64_MAX;
    bits_clear(syncer->parts, parts);
    bits_clear(syncer->claims, parts);
    bits_clear(syncer->stage, parts);
    bits_clear(syncer->change, parts);
}

/* A layer that lives on the workers has a clock more. When it was the last to reach it, those
 * that wait for it may go on: no worker applies a pair of clock t + 1 before all its pairs of
 * clock t, or the base of what it applied could be lost with a departed rank. */
static void raise_base(struct worker *worker, uint64_t from)
{
    if (from != worker->base || --worker->at_base > 0)
        return;
    worker->base++;
    worker->moved = true;
    for (uint32_t i = 0; i < worker->layout->layer_count; i++)
        worker->at_base +=
            on_workers(&worker->layout->layers[i]) && worker->syncers[i].version == worker->base;
}

/* The optimiser has stepped the units that had something to step with, here or on their servers. */
static void count_steps(struct worker *worker, uint32_t layer)
{
    const struct layout_layer *described = &worker->layout->layers[layer];
    const struct syncer *syncer = &worker->syncers[layer];
    for (uint32_t i = 0; i < described->units; i++) {
        const struct layout_unit *unit = &worker->layout->units[described->first_unit + i];
        bool changed =
            on_workers(described) ? syncer->count > 0 : bits_has(syncer->change, unit->first_part);
        worker->steps[described->first_unit + i] += changed;
    }
}

/* The open clock of a layer is answered; what waited for that may go on. */
static void answered(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    const struct layout_layer *described = &worker->layout->layers[layer];
    struct syncer *syncer = &worker->syncers[layer];
    bool each = worker->rules.consistency->each_push;
    count_steps(worker, layer);
    syncer->version++;
    if (on_workers(described)) {
        bits_copy(worker->counted + described->first_unit * bits_words(worker->layout->workers),
                  syncer->with, worker->layout->workers);
        raise_base(worker, syncer->version - 1);
    }
    syncer->least = each ? syncer->came : syncer->version;
    worker_clear_result(worker, layer);
    /* The copy is under way before anything else can be applied. */
    if (worker->mark == syncer->version && worker->to_save > 0 &&
        core_worker_saves_params(&worker->rules, described->home))
        start_op(worker, layer, CORE_OP_COPY, syncer->version, out);
    if (syncer->waiting) {
        syncer->waiting = false;
        core_wake(out, layer);
    }
    worker_settled(worker, out);
}

void worker_find_needed(const struct worker *worker, const struct syncer *syncer, uint64_t clock)
{
    size_t words = bits_words(worker->layout->workers);
    bool decided = syncer->decided_clock[clock % 2] == clock;
    for (size_t w = 0; w < words; w++)
        worker->needed[w] = worker->live[w] | (decided ? syncer->decided[clock % 2][w] : 0);
}

/* With exactly the needed ranks, whatever else is held. */
static void count_needed(struct worker *worker, uint32_t layer, const struct gather *gather)
{
    struct syncer *syncer = &worker->syncers[layer];
    uint32_t ranks = worker->layout->workers;
    bits_clear(syncer->with, ranks);
    syncer->count = 0;
    for (uint32_t r = 0; r < ranks; r++)
        if (bits_has(worker->needed, r) && gather_has_values(gather, r)) {
            bits_add(syncer->with, r);
            syncer->count += gather->rank[r].count;
            syncer->lr_bits = gather->rank[r].lr_bits;
        }
}

/* All factors that count are here: multiply them into the parameters, unless the caller
 * still reads those; then worker_sync() does it. */
static void try_apply(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[layer];
    const struct gather *gather = &syncer->generation[syncer->version % 2];
    if (worker->frozen || syncer->working || syncer->busy || !syncer->started ||
        gather->clock != syncer->version || syncer->version != worker->base)
        return;
    worker_find_needed(worker, syncer, gather->clock);
    if (!bits_within(worker->needed, gather->whole, worker->layout->workers))
        return;
    count_needed(worker, layer, gather);
    if (syncer->count > 0)
        start_op(worker, layer, CORE_OP_APPLY, gather->clock, out);
    else if (worker->rules.aggregate) /* a mean of nothing reads as zero */
        start_op(worker, layer, CORE_OP_INSTALL, gather->clock, out);
    else
        answered(worker, layer, out);
}

/* All parts of the servers' results are here, or known never to come. */
static void try_finish(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[layer];
    uint32_t parts = worker->layout->layers[layer].parts;
    if (syncer->working || syncer->parts_in < parts)
        return;
    if (syncer->missed) {
        worker->behind = true;
        answered(worker, layer, out);
        return;
    }
    bool zero = worker->rules.aggregate && syncer->changes < parts;
    if (syncer->stages == 0 && !zero)
        answered(worker, layer, out);
    else if (!syncer->busy)
        start_op(worker, layer, worker->rules.replicated ? CORE_OP_LOCAL : CORE_OP_INSTALL,
                 syncer->version, out);
}

/* Says nothing for the next clock that has ended without an update of this layer, once the
 * clock before it is applied here; false when there is none. */
static bool give_nothing(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[layer];
    if (worker->behind || !syncer->started || syncer->given >= worker->clock ||
        syncer->version < syncer->given)
        return false;
    uint64_t clock = syncer->given++;
    worker_send_nothing(worker, layer, clock, out);
    if (on_workers(&worker->layout->layers[layer]))
        (void)gather_nothing(worker_gather(syncer, clock), worker->rank);
    return true;
}

/* A loop: one worker alone may be many clocks of nothing behind. */
static void settle_layer(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    do
        if (on_workers(&worker->layout->layers[layer]))
            try_apply(worker, layer, out);
        else
            try_finish(worker, layer, out);
    while (give_nothing(worker, layer, out));
}

void worker_settle(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    settle_layer(worker, layer, out);
    while (worker->moved)
        worker_settle_all(worker, out);
}

void worker_settle_all(struct worker *worker, const struct core_out *out)
{
    worker->moved = false;
    for (uint32_t i = 0; i < worker->layout->layer_count; i++)
        settle_layer(worker, i, out);
}

static bool all_answered(const struct worker *worker, uint64_t clock)
{
    for (uint32_t i = 0; i < worker->layout->layer_count; i++) {
        const struct syncer *syncer = &worker->syncers[i];
        if (syncer->version < syncer->given || syncer->given < clock)
            return false;
    }
    return true;
}

void worker_settled(struct worker *worker, const struct core_out *out)
{
    /* Nothing is on its way here any more: a good moment to be given a clock to join at. */
    if (worker->behind && !worker->asked && all_answered(worker, 0)) {
        worker->asked = true;
        worker_tell(worker, (struct message){.kind = WIRE_LEFT_OUT, .clock = worker->clock}, out);
    }
    if (worker->closing && !worker->said_bye && !worker->behind &&
        all_answered(worker, worker->clock)) {
        worker->said_bye = true;
        worker_tell(worker, (struct message){.kind = WIRE_BYE, .clock = worker->clock}, out);
    }
}

void worker_done(struct worker *worker, const struct core_op *op, const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[op->index];
    syncer->working = syncer->applying = false;
    if (op->kind != CORE_OP_COPY) {
        answered(worker, op->index, out);
    } else if (worker->mark == op->clock && --worker->to_save == 0) {
        worker_tell(worker, (struct message){.kind = WIRE_SAVED, .clock = op->clock}, out);
    }
    worker_settle(worker, op->index, out);
}
