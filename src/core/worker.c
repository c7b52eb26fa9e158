/* The worker's side of ps, sfb and adam under bsp. */
#include "core/worker.h"

#include <string.h>

#include "base/error.h"
#include "mod/consistency.h"

static bool on_workers(const struct layout_layer *layer)
{
    return layer->home == TRI_HOME_WORKERS;
}

/* Who takes a layer's updates and initial values. */
static enum core_role receiver(const struct layout_layer *layer)
{
    return on_workers(layer) ? CORE_WORKER : CORE_SERVER;
}

/* ---- memory ---- */

static tri_status init_syncer(struct worker *worker, uint32_t index, uint64_t first, tri_error *err)
{
    const struct layout *layout = worker->layout;
    const struct layout_layer *layer = &layout->layers[index];
    struct syncer *syncer = &worker->syncers[index];
    syncer->version = syncer->installed = syncer->given = first;
    syncer->parts = mem_array(worker->mem, bits_words(layer->parts), sizeof *syncer->parts);
    syncer->stage = mem_array(worker->mem, bits_words(layer->parts), sizeof *syncer->stage);
    syncer->claims = mem_array(worker->mem, bits_words(layer->parts), sizeof *syncer->claims);
    syncer->counted = mem_array(worker->mem, bits_words(layout->workers), sizeof *syncer->counted);
    if (syncer->parts == NULL || syncer->stage == NULL || syncer->claims == NULL ||
        syncer->counted == NULL)
        return fail_nomem(err, "a worker");
    if (!on_workers(layer))
        return TRI_OK;
    uint32_t parts = layout_factor_parts(layout, layer, layer->factor_rows);
    for (uint32_t g = 0; g < 2; g++) {
        struct gather *gather = &syncer->generation[g];
        tri_status status = gather_init(gather, worker->mem, layout->workers, parts, err);
        if (status != TRI_OK)
            return status;
        gather_open(gather, first + (first % 2 == g ? 0 : 1));
    }
    return TRI_OK;
}

tri_status worker_init(struct worker *worker, const struct layout *layout,
                       const struct core_rules *rules, uint32_t rank, uint64_t first,
                       const struct mem *mem, tri_error *err)
{
    *worker = (struct worker){
        .mem = mem, .layout = layout, .rules = *rules, .rank = rank, .clock = first};
    worker->rules.replicated = rules->replicated && !rules->aggregate;
    if (worker->rules.consistency == NULL)
        worker->rules.consistency = consistency_find("bsp");
    worker->consistency.workers = layout->workers;
    worker->not_started = layout->layer_count;
    worker->syncers = mem_array(mem, layout->layer_count, sizeof *worker->syncers);
    if (worker->syncers == NULL)
        return fail_nomem(err, "a worker");
    tri_status status = TRI_OK;
    for (uint32_t i = 0; i < layout->layer_count && status == TRI_OK; i++)
        status = init_syncer(worker, i, first, err);
    if (status != TRI_OK)
        worker_fini(worker);
    return status;
}

void worker_fini(struct worker *worker)
{
    for (uint32_t i = 0; worker->syncers != NULL && i < worker->layout->layer_count; i++) {
        mem_free(worker->mem, worker->syncers[i].parts);
        mem_free(worker->mem, worker->syncers[i].stage);
        mem_free(worker->mem, worker->syncers[i].claims);
        mem_free(worker->mem, worker->syncers[i].counted);
        gather_fini(&worker->syncers[i].generation[0], worker->mem);
        gather_fini(&worker->syncers[i].generation[1], worker->mem);
    }
    mem_free(worker->mem, worker->syncers);
    *worker = (struct worker){0};
}

/* ---- sending ---- */

/* The factors of part p of an update, in the slot of (layer, clock, rank). */
static struct core_ref factor_ref(uint32_t layer, uint64_t clock, uint32_t rank, uint32_t first,
                                  uint32_t count)
{
    return (struct core_ref){.space = CORE_FACTORS,
                             .index = layer,
                             .rank = rank,
                             .generation = (uint32_t)(clock % 2),
                             .first = first,
                             .count = count};
}

static struct core_ref part_ref(const struct worker *worker, enum core_space space, uint32_t layer,
                                uint32_t part)
{
    const struct layout *layout = worker->layout;
    const struct layout_part *covered = &layout->parts[layout->layers[layer].first_part + part];
    return (struct core_ref){
        .space = space, .index = layer, .first = covered->first, .count = covered->floats};
}

/* The node that a part of a layer is sent to. */
static uint32_t owner_of(const struct worker *worker, uint32_t layer, uint32_t part)
{
    const struct layout *layout = worker->layout;
    uint32_t unit = layout->parts[layout->layers[layer].first_part + part].unit;
    return layout->server_node[layout->units[unit].server];
}

static void send_dense(const struct worker *worker, const struct message *update,
                       const struct core_out *out)
{
    struct message message = *update;
    message.kind = WIRE_PUSH;
    message.role = CORE_SERVER;
    uint32_t parts = worker->layout->layers[update->layer].parts;
    for (message.part = 0; message.part < parts; message.part++)
        core_send(out, owner_of(worker, update->layer, message.part), &message,
                  part_ref(worker, CORE_GRADIENT, update->layer, message.part));
}

/* To every peer, or to the one server that owns the layer. */
static void send_factors(const struct worker *worker, const struct message *update,
                         const struct core_out *out)
{
    const struct layout *layout = worker->layout;
    const struct layout_layer *layer = &layout->layers[update->layer];
    struct message message = *update;
    message.kind = WIRE_FACTORS;
    message.role = receiver(layer);
    message.parts = layout_factor_parts(layout, layer, message.rows);
    for (message.part = 0; message.part < message.parts; message.part++) {
        uint32_t first = layout_factor_first(message.rows, message.parts, message.part);
        uint32_t last = layout_factor_first(message.rows, message.parts, message.part + 1);
        struct core_ref ref =
            factor_ref(update->layer, update->clock, worker->rank, first, last - first);
        if (!on_workers(layer)) {
            core_send(out, owner_of(worker, update->layer, 0), &message, ref);
            continue;
        }
        for (uint32_t r = 0; r < layout->workers; r++)
            if (r != worker->rank)
                core_send(out, r, &message, ref);
    }
}

static void send_nothing(struct worker *worker, uint32_t index, const struct core_out *out)
{
    const struct layout *layout = worker->layout;
    const struct layout_layer *layer = &layout->layers[index];
    struct message message = {.kind = WIRE_NOTHING,
                              .role = receiver(layer),
                              .from = worker->rank,
                              .layer = index,
                              .clock = worker->syncers[index].given,
                              .rank = worker->rank};
    struct core_ref none = {.space = CORE_NOWHERE};
    if (on_workers(layer)) {
        for (uint32_t r = 0; r < layout->workers; r++)
            if (r != worker->rank)
                core_send(out, r, &message, none);
        return;
    }
    for (uint32_t i = 0; i < layer->owners; i++) {
        uint32_t server = layout->owners[layer->first_owner + i];
        core_send(out, layout->server_node[server], &message, none);
    }
}

/* ---- getting results in ---- */

/* The gathering of a clock. The first that comes of a clock finds the factors of two
 * clocks before in its generation. They may go: its sender, we or a peer, has applied the
 * clock in between, so all ranks have applied the one before that. */
static struct gather *gather_at(struct syncer *syncer, uint64_t clock)
{
    struct gather *gather = &syncer->generation[clock % 2];
    if (gather->clock != clock)
        gather_open(gather, clock);
    return gather;
}

/* Results that come in may be written where the caller will read them, unless the
 * caller still does, or they are a mean that has to be stepped with first. */
static bool goes_in_place(const struct worker *worker, const struct syncer *syncer)
{
    return !syncer->busy && !worker->rules.replicated;
}

static enum core_space place_of(const struct worker *worker)
{
    return worker->rules.aggregate ? CORE_RESULT : CORE_PARAMS;
}

static void start_op(struct worker *worker, uint32_t layer, enum core_op_kind kind, uint64_t clock,
                     const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[layer];
    struct core_op op = {.kind = kind,
                         .index = layer,
                         .clock = clock,
                         .count = syncer->count,
                         .steps = syncer->steps,
                         .lr = core_float(syncer->lr_bits)};
    syncer->working = true;
    core_op(out, &op);
}

/* The result of clock `version` is applied; what waited for that may go on. */
static void applied(struct worker *worker, uint32_t layer, bool changed, const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[layer];
    syncer->steps += changed;
    syncer->version++;
    syncer->installed = syncer->version;
    syncer->parts_in = 0;
    syncer->placed = syncer->staged = false;
    if (syncer->stages > 0)
        bits_clear(syncer->stage, worker->layout->layers[layer].parts);
    syncer->stages = 0;
    bits_clear(syncer->parts, worker->layout->layers[layer].parts);
    bits_clear(syncer->claims, worker->layout->layers[layer].parts);
    /* The copy is under way before anything else can be applied. */
    if (worker->mark == syncer->version && worker->to_save > 0 &&
        core_worker_saves(&worker->rules, worker->layout->layers[layer].home))
        start_op(worker, layer, CORE_OP_COPY, syncer->version, out);
    if (syncer->waiting) {
        syncer->waiting = false;
        core_wake(out, layer);
    }
}

static void note_counted(const struct worker *worker, struct syncer *syncer, const uint64_t *ranks)
{
    memcpy(syncer->counted, ranks, bits_words(worker->layout->workers) * sizeof *ranks);
}

/* Nobody had an update. Parameters stay; a mean of nothing reads as zero. */
static void unchanged(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    if (worker->rules.aggregate)
        start_op(worker, layer, CORE_OP_INSTALL, worker->syncers[layer].version, out);
    else
        applied(worker, layer, false, out);
}

/* All ranks' factors are here: multiply them into the parameters, unless the caller
 * still reads those; then worker_sync() does it. */
static void try_apply(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[layer];
    const struct gather *gather = &syncer->generation[syncer->version % 2];
    if (syncer->working || syncer->busy || gather->clock != syncer->version ||
        gather->in < worker->layout->workers)
        return;
    syncer->count = gather->count;
    syncer->lr_bits = gather->lr_bits;
    note_counted(worker, syncer, gather->values);
    if (gather->count == 0)
        unchanged(worker, layer, out);
    else
        start_op(worker, layer, CORE_OP_APPLY, gather->clock, out);
}

/* All parts of the servers' results are here. */
static void try_finish(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[layer];
    if (syncer->working || syncer->parts_in < worker->layout->layers[layer].parts)
        return;
    if (syncer->count == 0)
        unchanged(worker, layer, out);
    else if (syncer->stages == 0)
        applied(worker, layer, true, out);
    else if (!syncer->busy)
        start_op(worker, layer, worker->rules.replicated ? CORE_OP_LOCAL : CORE_OP_INSTALL,
                 syncer->version, out);
}

static void try_layer(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    if (on_workers(&worker->layout->layers[layer]))
        try_apply(worker, layer, out);
    else
        try_finish(worker, layer, out);
}

/* Says nothing for the next clock that has ended without an update of this layer, once the
 * clock before it is applied here; false when there is none. */
static bool give_nothing(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[layer];
    if (syncer->given >= worker->clock || syncer->version < syncer->given)
        return false;
    send_nothing(worker, layer, out);
    uint64_t clock = syncer->given++;
    if (on_workers(&worker->layout->layers[layer]))
        (void)gather_nothing(gather_at(syncer, clock), worker->rank);
    return true;
}

/* Does whatever can be done for a layer now. A loop: one worker alone may be many clocks of
 * nothing behind. */
static void settle(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    do
        try_layer(worker, layer, out);
    while (give_nothing(worker, layer, out));
}

static void to_coordinator(const struct worker *worker, struct message message,
                           const struct core_out *out)
{
    message.role = CORE_COORDINATOR;
    message.from = message.rank = worker->rank;
    core_send(out, 0, &message, (struct core_ref){.space = CORE_NOWHERE});
}

void worker_done(struct worker *worker, const struct core_op *op, const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[op->index];
    syncer->working = false;
    if (op->kind != CORE_OP_COPY)
        applied(worker, op->index, syncer->count > 0, out);
    else if (worker->mark == op->clock && --worker->to_save == 0)
        to_coordinator(worker, (struct message){.kind = WIRE_SAVED, .clock = op->clock}, out);
    settle(worker, op->index, out);
}

/* The coordinator wants this worker's layers at a version ahead. */
static void take_mark(struct worker *worker, const struct message *message,
                      const struct core_out *out)
{
    uint64_t newest = worker->clock;
    uint32_t layers = 0;
    for (uint32_t i = 0; i < worker->layout->layer_count; i++)
        if (core_worker_saves(&worker->rules, worker->layout->layers[i].home)) {
            layers++;
            newest = worker->syncers[i].version > newest ? worker->syncers[i].version : newest;
        }
    if (message->clock <= worker->mark)
        return; /* a proposal that a later one has overtaken */
    bool accepted = newest < message->clock;
    worker->mark = accepted ? message->clock : 0;
    worker->to_save = accepted ? layers : 0;
    to_coordinator(
        worker,
        (struct message){
            .kind = WIRE_MARKED, .clock = message->clock, .count = newest, .accepted = accepted},
        out);
}

/* ---- the caller's side ---- */

struct core_ref worker_slot(const struct worker *worker, uint32_t layer)
{
    return factor_ref(layer, worker->clock, worker->rank, 0,
                      worker->layout->layers[layer].factor_rows);
}

tri_status worker_may_update(const struct worker *worker, uint32_t layer,
                             const struct worker_update *update, tri_error *err)
{
    if (layer >= worker->layout->layer_count)
        return fail(err, TRI_EARG, "there is no layer %u", (unsigned)layer);
    const struct layout_layer *described = &worker->layout->layers[layer];
    const struct syncer *syncer = &worker->syncers[layer];
    if (!syncer->started)
        return fail(err, TRI_EARG, "layer %u has no initial values yet", layer);
    if (syncer->given > worker->clock)
        return fail(err, TRI_EARG, "layer %u already has its update of clock %llu", layer,
                    (unsigned long long)worker->clock);
    if (syncer->window || !worker->rules.consistency->after_update(
                              &worker->consistency, worker->clock, syncer->installed)) {
        fail(err, TRI_EARG, "layer %u was not synced before its update of clock %llu", layer,
             (unsigned long long)worker->clock);
        fail_next(err, "call tri_sync on it before its forward pass");
        return TRI_EARG;
    }
    if (update->count == 0)
        return fail(err, TRI_EARG, "layer %u was given an update with count 0", layer);
    if (described->form == TRI_FORM_FACTORS &&
        (update->rows == 0 || update->rows > described->factor_rows))
        return fail(err, TRI_EARG, "layer %u takes 1 to %u factor rows, not %u", layer,
                    described->factor_rows, update->rows);
    return TRI_OK;
}

/* This worker's own factors are in without being sent. */
static void take_own(struct worker *worker, const struct message *update,
                     const struct core_out *out)
{
    struct gather *gather = gather_at(&worker->syncers[update->layer], update->clock);
    uint32_t parts =
        layout_factor_parts(worker->layout, &worker->layout->layers[update->layer], update->rows);
    for (uint32_t i = 0; i < parts; i++)
        (void)gather_part(gather, update, i, parts);
    if (!gather_rates_agree(gather, update))
        core_fail(out, TRI_EMISMATCH,
                  "learning rates differ in layer %u, clock %llu: rank %u and rank %u",
                  update->layer, (unsigned long long)update->clock, gather->lr_rank, update->rank);
}

tri_status worker_update(struct worker *worker, uint32_t layer, const struct worker_update *update,
                         const struct core_out *out, tri_error *err)
{
    tri_status status = worker_may_update(worker, layer, update, err);
    if (status != TRI_OK)
        return status;
    const struct layout_layer *described = &worker->layout->layers[layer];
    struct syncer *syncer = &worker->syncers[layer];
    union {
        float value;
        uint32_t bits;
    } lr = {update->lr};
    struct message message = {.from = worker->rank,
                              .layer = layer,
                              .clock = worker->clock,
                              .rank = worker->rank,
                              .rows = update->rows,
                              .count = update->count,
                              .lr_bits = lr.bits};
    syncer->given++;
    syncer->window = true;
    syncer->busy = update->params_busy;
    if (described->form == TRI_FORM_DENSE)
        send_dense(worker, &message, out);
    else
        send_factors(worker, &message, out);
    if (on_workers(described)) {
        take_own(worker, &message, out);
        settle(worker, layer, out);
    }
    return TRI_OK;
}

bool worker_sync(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[layer];
    if (syncer->busy) {
        syncer->busy = false; /* the caller has stopped reading */
        settle(worker, layer, out);
    }
    uint64_t needed = worker->rules.consistency->client_sync(&worker->consistency, worker->clock);
    if (syncer->given > worker->clock) /* its update of this iteration is on its way */
        needed = syncer->given;
    if (!syncer->started || syncer->installed < needed) {
        syncer->waiting = true;
        return false;
    }
    syncer->window = false;
    return true;
}

void worker_clock(struct worker *worker, const struct core_out *out)
{
    worker->clock++;
    to_coordinator(worker, (struct message){.kind = WIRE_CLOCK, .clock = worker->clock}, out);
    for (uint32_t i = 0; i < worker->layout->layer_count; i++) {
        struct syncer *syncer = &worker->syncers[i];
        syncer->busy = false; /* the backward pass is over, and with it the caller's reading */
        if (syncer->given < worker->clock)
            syncer->window = true; /* others may have updates: ours to write from here on */
        settle(worker, i, out);
    }
}

/* ---- messages ---- */

/* Which generation takes the factors of this clock: the open one, or the one ahead,
 * whose slot is free as soon as a peer has got that far. NULL: neither. */
static const struct gather *gather_for(const struct worker *worker, const struct message *message)
{
    const struct syncer *syncer = &worker->syncers[message->layer];
    if (message->clock != syncer->version && message->clock != syncer->version + 1)
        return NULL;
    return &syncer->generation[message->clock % 2];
}

static bool factors_fit(const struct worker *worker, const struct message *message)
{
    const struct layout_layer *layer = &worker->layout->layers[message->layer];
    return on_workers(layer) && message->rows > 0 && message->rows <= layer->factor_rows &&
           message->parts == layout_factor_parts(worker->layout, layer, message->rows) &&
           message->part < message->parts;
}

struct core_ref worker_landing(struct worker *worker, const struct message *message)
{
    struct core_ref nowhere = {.space = CORE_NOWHERE};
    if (message->layer >= worker->layout->layer_count)
        return nowhere;
    struct syncer *syncer = &worker->syncers[message->layer];
    const struct layout_layer *layer = &worker->layout->layers[message->layer];
    if (message->kind == WIRE_FACTORS) {
        if (gather_for(worker, message) == NULL || !factors_fit(worker, message) ||
            !gather_claim(gather_at(syncer, message->clock), message, message->part))
            return nowhere;
        uint32_t first = layout_factor_first(message->rows, message->parts, message->part);
        uint32_t last = layout_factor_first(message->rows, message->parts, message->part + 1);
        return factor_ref(message->layer, message->clock, message->rank, first, last - first);
    }
    bool init = message->kind == WIRE_INIT && !syncer->started;
    bool result = message->kind == WIRE_RESULT && !on_workers(layer) && !message->unchanged &&
                  message->clock == syncer->version;
    if (message->part >= layer->parts || bits_has(syncer->parts, message->part) ||
        (!init && !result) || !bits_add(syncer->claims, message->part))
        return nowhere;
    if (init)
        return part_ref(worker, CORE_PARAMS, message->layer, message->part);
    /* Decided once per result: its parts may not land half here, half there. */
    if (!syncer->placed) {
        syncer->placed = true;
        syncer->staged = !goes_in_place(worker, syncer);
    }
    /* A witness has one version or the other whole, whenever the owner dies. */
    uint32_t unit = worker->layout->parts[layer->first_part + message->part].unit;
    bool witness = worker->layout->units[unit].witness == worker->rank;
    if (!syncer->staged && !witness)
        return part_ref(worker, place_of(worker), message->layer, message->part);
    syncer->stages += bits_add(syncer->stage, message->part);
    return part_ref(worker, CORE_STAGE, message->layer, message->part);
}

void worker_lost(struct worker *worker, const struct message *message)
{
    if (message->layer >= worker->layout->layer_count)
        return;
    struct syncer *syncer = &worker->syncers[message->layer];
    if (message->kind == WIRE_FACTORS) {
        if (gather_for(worker, message) != NULL)
            gather_release(gather_at(syncer, message->clock), message, message->part);
    } else if (message->part < worker->layout->layers[message->layer].parts) {
        bits_remove(syncer->claims, message->part);
    }
}

static void take_init(struct worker *worker, const struct message *message,
                      const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[message->layer];
    uint32_t parts = worker->layout->layers[message->layer].parts;
    if (syncer->started || message->part >= parts || !bits_add(syncer->parts, message->part) ||
        ++syncer->parts_in < parts)
        return;
    syncer->started = true;
    syncer->parts_in = 0;
    bits_clear(syncer->parts, parts);
    bits_clear(syncer->claims, parts);
    worker->not_started--;
    core_wake(out, message->layer);
}

static void take_result(struct worker *worker, const struct message *message,
                        const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[message->layer];
    if (message->part >= worker->layout->layers[message->layer].parts ||
        !worker->rules.consistency->after_parameters(&worker->consistency, syncer->version,
                                                     message->clock + 1) ||
        !bits_add(syncer->parts, message->part))
        return;
    if (syncer->parts_in++ == 0) {
        syncer->count = 0;
        if (message->counted != NULL)
            note_counted(worker, syncer, message->counted);
    }
    if (!message->unchanged) {
        syncer->count = message->count;
        syncer->lr_bits = message->lr_bits;
    }
    settle(worker, message->layer, out);
}

static void take_factors(struct worker *worker, const struct message *message,
                         const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[message->layer];
    if (gather_for(worker, message) == NULL)
        return;
    struct gather *gather = gather_at(syncer, message->clock);
    enum gather_step result;
    if (message->kind == WIRE_NOTHING) {
        result = gather_nothing(gather, message->rank);
    } else if (factors_fit(worker, message)) {
        result = gather_part(gather, message, message->part, message->parts);
        if (result == GATHER_WHOLE && !gather_rates_agree(gather, message)) {
            core_fail(out, TRI_EMISMATCH,
                      "learning rates differ in layer %u, clock %llu: rank %u and rank %u",
                      message->layer, (unsigned long long)message->clock, gather->lr_rank,
                      message->rank);
            return;
        }
    } else {
        return;
    }
    if (result == GATHER_WHOLE)
        settle(worker, message->layer, out);
}

void worker_message(struct worker *worker, const struct message *message,
                    const struct core_out *out)
{
    if (message->layer >= worker->layout->layer_count)
        return;
    switch (message->kind) {
    case WIRE_MARK:
        take_mark(worker, message, out);
        break;
    case WIRE_INIT:
        take_init(worker, message, out);
        break;
    case WIRE_RESULT:
        if (!on_workers(&worker->layout->layers[message->layer]))
            take_result(worker, message, out);
        break;
    case WIRE_FACTORS:
    case WIRE_NOTHING:
        if (on_workers(&worker->layout->layers[message->layer]))
            take_factors(worker, message, out);
        break;
    default:
        break;
    }
}

void worker_checksum(const struct worker *worker, uint32_t crc, const struct core_out *out)
{
    to_coordinator(
        worker, (struct message){.kind = WIRE_CHECKSUM, .clock = worker->clock, .crc = crc}, out);
}

/* ---- starting ---- */

void worker_start(struct worker *worker, const struct core_out *out)
{
    const struct layout *layout = worker->layout;
    if (worker->rank != 0)
        return;
    for (uint32_t i = 0; i < layout->layer_count; i++) {
        const struct layout_layer *layer = &layout->layers[i];
        struct message message = {.kind = WIRE_INIT,
                                  .role = receiver(layer),
                                  .from = worker->rank,
                                  .layer = i,
                                  .clock = worker->clock};
        for (message.part = 0; message.part < layer->parts; message.part++) {
            struct core_ref ref = part_ref(worker, CORE_PARAMS, i, message.part);
            if (!on_workers(layer))
                core_send(out, owner_of(worker, i, message.part), &message, ref);
            for (uint32_t r = 1; r < layout->workers && on_workers(layer); r++)
                core_send(out, r, &message, ref);
        }
        worker->syncers[i].started = true;
        worker->not_started--;
    }
}

bool worker_started(const struct worker *worker)
{
    return worker->not_started == 0;
}

bool worker_counted(const struct worker *worker, uint32_t layer, uint32_t rank)
{
    return bits_has(worker->syncers[layer].counted, rank);
}

bool worker_part_staged(const struct worker *worker, uint32_t layer, uint32_t part)
{
    return bits_has(worker->syncers[layer].stage, part);
}

uint32_t worker_factor_rows(const struct worker *worker, uint32_t layer, uint64_t clock,
                            uint32_t rank)
{
    const struct gather *gather = &worker->syncers[layer].generation[clock % 2];
    return gather_has_values(gather, rank) ? gather->rank[rank].rows : 0;
}

uint64_t worker_version(const struct worker *worker)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < worker->layout->layer_count; i++)
        least = worker->syncers[i].installed < least ? worker->syncers[i].installed : least;
    return least;
}
