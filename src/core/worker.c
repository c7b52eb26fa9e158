/* The worker's side of ps, sfb and adam: the caller's calls, and messages. */
#include "core/worker.h"

#include <string.h>

#include "base/error.h"
#include "core/worker_inside.h"
#include "mod/consistency.h"

/* ---- memory ---- */

static bool init_sets(const struct worker *worker, struct syncer *syncer, uint32_t parts)
{
    const struct mem *mem = worker->mem;
    size_t words = bits_words(parts);
    syncer->parts = mem_array(mem, words, sizeof *syncer->parts);
    syncer->claims = mem_array(mem, words, sizeof *syncer->claims);
    syncer->stage = mem_array(mem, words, sizeof *syncer->stage);
    syncer->change = mem_array(mem, words, sizeof *syncer->change);
    return syncer->parts != NULL && syncer->claims != NULL && syncer->stage != NULL &&
           syncer->change != NULL;
}

static tri_status init_syncer(struct worker *worker, uint32_t index, uint64_t first, tri_error *err)
{
    const struct layout *layout = worker->layout;
    const struct layout_layer *layer = &layout->layers[index];
    struct syncer *syncer = &worker->syncers[index];
    syncer->version = syncer->least = syncer->given = first;
    syncer->came = UINT64_MAX;
    if (!init_sets(worker, syncer, layer->parts))
        return fail_nomem(err, "a worker");
    if (!on_workers(layer))
        return TRI_OK;
    worker->at_base++;
    syncer->with = mem_array(worker->mem, bits_words(layout->workers), sizeof *syncer->with);
    if (syncer->with == NULL)
        return fail_nomem(err, "a worker");
    uint32_t parts = layout_factor_parts(layout, layer, layer->factor_rows);
    for (uint32_t g = 0; g < 2; g++) {
        struct gather *gather = &syncer->generation[g];
        tri_status status = gather_init(gather, worker->mem, layout->workers, parts, err);
        if (status != TRI_OK)
            return status;
        gather_open(gather, first + (first % 2 == g ? 0 : 1));
        syncer->decided_clock[g] = UINT64_MAX;
        syncer->decided[g] =
            mem_array(worker->mem, bits_words(layout->workers), sizeof *syncer->decided[g]);
        if (syncer->decided[g] == NULL)
            return fail_nomem(err, "a worker");
    }
    return TRI_OK;
}

tri_status worker_init(struct worker *worker, const struct layout *layout,
                       const struct core_rules *rules, uint32_t rank, uint64_t first,
                       const struct mem *mem, tri_error *err)
{
    uint32_t ranks = layout->workers;
    uint32_t most = ranks > layout->servers ? ranks : layout->servers;
    *worker = (struct worker){.mem = mem,
                              .layout = layout,
                              .rules = *rules,
                              .rank = rank,
                              .clock = first,
                              .base = first,
                              .view = 1,
                              .not_started = layout->layer_count,
                              .consistency = {.bound = rules->bound, .workers = ranks}};
    worker->rules.replicated = rules->replicated && !rules->aggregate;
    if (worker->rules.consistency == NULL)
        worker->rules.consistency = consistency_find("bsp");
    buf_init(&worker->report, mem);
    worker->syncers = mem_array(mem, layout->layer_count, sizeof *worker->syncers);
    worker->counted =
        mem_array(mem, layout->unit_count * bits_words(ranks), sizeof *worker->counted);
    worker->steps = mem_array(mem, layout->unit_count, sizeof *worker->steps);
    worker->live = mem_array(mem, bits_words(ranks), sizeof *worker->live);
    worker->needed = mem_array(mem, bits_words(ranks), sizeof *worker->needed);
    worker->missing = mem_array(mem, bits_words(most), sizeof *worker->missing);
    worker->list = mem_array(mem, ranks, sizeof *worker->list);
    if (worker->syncers == NULL || worker->counted == NULL || worker->steps == NULL ||
        worker->live == NULL || worker->needed == NULL || worker->missing == NULL ||
        worker->list == NULL) {
        worker_fini(worker);
        return fail_nomem(err, "a worker");
    }
    tri_status status = TRI_OK;
    for (uint32_t i = 0; i < layout->layer_count && status == TRI_OK; i++)
        status = init_syncer(worker, i, first, err);
    if (status == TRI_OK)
        bits_fill(worker->live, ranks);
    else
        worker_fini(worker);
    return status;
}

void worker_fini(struct worker *worker)
{
    for (uint32_t i = 0; worker->syncers != NULL && i < worker->layout->layer_count; i++) {
        struct syncer *syncer = &worker->syncers[i];
        mem_free(worker->mem, syncer->parts);
        mem_free(worker->mem, syncer->claims);
        mem_free(worker->mem, syncer->stage);
        mem_free(worker->mem, syncer->change);
        mem_free(worker->mem, syncer->with);
        for (uint32_t g = 0; g < 2; g++) {
            gather_fini(&syncer->generation[g], worker->mem);
            mem_free(worker->mem, syncer->decided[g]);
        }
    }
    mem_free(worker->mem, worker->syncers);
    mem_free(worker->mem, worker->counted);
    mem_free(worker->mem, worker->steps);
    mem_free(worker->mem, worker->live);
    mem_free(worker->mem, worker->needed);
    mem_free(worker->mem, worker->missing);
    mem_free(worker->mem, worker->list);
    buf_fini(&worker->report);
    *worker = (struct worker){0};
}

/* ---- the caller's side ---- */

void worker_start(struct worker *worker, const struct core_out *out)
{
    if (worker->rank != 0)
        return;
    for (uint32_t i = 0; i < worker->layout->layer_count; i++) {
        worker_send_init(worker, i, out);
        worker->syncers[i].started = true;
        worker->not_started--;
    }
}

bool worker_started(const struct worker *worker)
{
    return worker->not_started == 0;
}

struct core_ref worker_slot(const struct worker *worker, uint32_t layer)
{
    return worker_factor_ref(layer, worker->clock, worker->rank, 0,
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
        return fail(err, TRI_EARG, "layer '%.60s' has no initial values yet", described->name);
    if (!worker->behind && syncer->given > worker->clock)
        return fail(err, TRI_EARG, "layer '%.60s' already has its update of clock %llu",
                    described->name, (unsigned long long)worker->clock);
    if (!worker->behind &&
        (syncer->window || !worker->rules.consistency->after_update(
                               &worker->consistency, worker->clock, syncer->least))) {
        fail(err, TRI_EARG, "layer '%.60s' was not synced before its update of clock %llu",
             described->name, (unsigned long long)worker->clock);
        fail_next(err, "call tri_sync on it before its forward pass");
        return TRI_EARG;
    }
    if (update->count == 0)
        return fail(err, TRI_EARG, "layer '%.60s' was given an update with count 0",
                    described->name);
    if (described->form == TRI_FORM_FACTORS &&
        (update->rows == 0 || update->rows > described->factor_rows))
        return fail(err, TRI_EARG, "layer '%.60s' takes 1 to %u factor rows, not %u",
                    described->name, described->factor_rows, update->rows);
    return TRI_OK;
}

static void check_rates(const struct worker *worker, struct gather *gather,
                        const struct message *message, const struct core_out *out)
{
    if (!gather_rates_agree(gather, message))
        core_fail(out, TRI_EMISMATCH,
                  "learning rates differ in layer '%.60s', clock %llu: rank %u has %g, rank %u has "
                  "%g",
                  worker->layout->layers[message->layer].name, (unsigned long long)message->clock,
                  gather->lr_rank, (double)core_float(gather->lr_bits), message->rank,
                  (double)core_float(message->lr_bits));
}

/* This worker's own factors are in without being sent. */
static void take_own(struct worker *worker, const struct message *update,
                     const struct core_out *out)
{
    struct gather *gather = worker_gather(&worker->syncers[update->layer], update->clock);
    uint32_t parts =
        layout_factor_parts(worker->layout, &worker->layout->layers[update->layer], update->rows);
    for (uint32_t i = 0; i < parts; i++)
        (void)gather_part(gather, update, i, parts);
    check_rates(worker, gather, update, out);
    worker_settle(worker, update->layer, out);
}

tri_status worker_update(struct worker *worker, uint32_t layer, const struct worker_update *update,
                         const struct core_out *out, tri_error *err)
{
    tri_status status = worker_may_update(worker, layer, update, err);
    if (status != TRI_OK)
        return status;
    if (worker->behind)
        return TRI_OK; /* the others are past this clock: it would not count */
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
    worker_send_update(worker, &message, out);
    if (on_workers(&worker->layout->layers[layer]))
        take_own(worker, &message, out);
    return TRI_OK;
}

/* What was given is answered, and the copy is as new as the rule wants it. */
static bool is_ready(const struct worker *worker, const struct syncer *syncer)
{
    if (worker->behind)
        return worker->join > 0 || syncer->version == syncer->given;
    uint64_t clock = syncer->given > worker->clock ? syncer->given : worker->clock;
    uint64_t least = worker->rules.consistency->client_sync(&worker->consistency, clock);
    return syncer->version == clock && syncer->least >= least;
}

bool worker_sync(struct worker *worker, uint32_t layer, const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[layer];
    if (syncer->busy && worker->join == 0) {
        syncer->busy = false; /* the caller has stopped reading */
        worker_settle(worker, layer, out);
    }
    if (!syncer->started || !is_ready(worker, syncer)) {
        syncer->waiting = true;
        return false;
    }
    syncer->window = false;
    return true;
}

/* Layers go on from the clock that all have agreed on; results of it are in the stage. */
static void join_again(struct worker *worker, const struct core_out *out)
{
    worker->clock = worker->joined = worker->join;
    worker->behind = worker->asked = false;
    worker->join = 0;
    for (uint32_t i = 0; i < worker->layout->layer_count; i++) {
        worker->syncers[i].busy = false;
        worker->syncers[i].window = true;
    }
    worker_settle_all(worker, out);
}

/* Has it gone on to a clock to join at whose results are still to come? */
static bool awaits_join(const struct worker *worker)
{
    return !worker->behind && worker->joined > 0 &&
           worker->syncers[0].version + 1 == worker->joined;
}

void worker_clock(struct worker *worker, const struct core_out *out)
{
    if (worker->behind && worker->join > 0) {
        join_again(worker, out);
    } else if (!worker->behind) { /* an iteration that went nowhere does not count */
        worker->clock++;
        /* Nor has one been ended by who has gone on to a clock that may never be. */
        if (!awaits_join(worker))
            worker_tell(worker, (struct message){.kind = WIRE_CLOCK, .clock = worker->clock}, out);
    }
    for (uint32_t i = 0; i < worker->layout->layer_count; i++) {
        struct syncer *syncer = &worker->syncers[i];
        syncer->busy = false; /* the backward pass is over, and with it the caller's reading */
        if (syncer->version < worker->clock)
            syncer->window = true; /* others may have updates: ours to write from here on */
        worker_settle(worker, i, out);
    }
}

void worker_close(struct worker *worker, const struct core_out *out)
{
    worker->closing = true;
    if (worker->behind && worker->join > 0)
        join_again(worker, out);
    worker_settled(worker, out);
}

void worker_checksum(const struct worker *worker, uint32_t crc, const struct core_out *out)
{
    struct message message = {.kind = WIRE_CHECKSUM, .clock = worker->clock, .crc = crc};
    /* Old parameters, or by the rule everybody's own, are not to be compared. */
    if (!worker->behind && !worker->rules.consistency->each_push)
        worker_tell(worker, message, out);
}

/* ---- messages: where they land ---- */

static enum core_space place_of(const struct worker *worker)
{
    return worker->rules.aggregate ? CORE_RESULT : CORE_PARAMS;
}

/* Can the factors of this message be taken? Those of the open clock, or of the one ahead, whose
 * slot is free as soon as a peer has got that far; and another's only if he has departed. */
static bool factors_fit(const struct worker *worker, const struct message *message)
{
    const struct layout_layer *layer = &worker->layout->layers[message->layer];
    uint64_t version = worker->syncers[message->layer].version;
    if (!on_workers(layer) || message->rank >= worker->layout->workers ||
        (message->clock != version && message->clock != version + 1) ||
        (message->rank != message->from && bits_has(worker->live, message->rank)))
        return false;
    return message->kind == WIRE_NOTHING ||
           (message->rows > 0 && message->rows <= layer->factor_rows &&
            message->parts == layout_factor_parts(worker->layout, layer, message->rows) &&
            message->part < message->parts);
}

static struct core_ref land_factors(struct worker *worker, const struct message *message)
{
    struct syncer *syncer = &worker->syncers[message->layer];
    if (!factors_fit(worker, message) ||
        !gather_claim(worker_gather(syncer, message->clock), message, message->part))
        return (struct core_ref){.space = CORE_NOWHERE};
    uint32_t first = layout_factor_first(message->rows, message->parts, message->part);
    uint32_t last = layout_factor_first(message->rows, message->parts, message->part + 1);
    return worker_factor_ref(message->layer, message->clock, message->rank, first, last - first);
}

static struct core_ref land_result(struct worker *worker, const struct message *message)
{
    const struct layout_layer *layer = &worker->layout->layers[message->layer];
    struct syncer *syncer = &worker->syncers[message->layer];
    /* Decided once per result: its parts may not land half here, half there. In place, unless
     * the caller still reads, or a copy for a checkpoint is under way, or it is a mean that has to
     * be stepped with first. */
    if (!syncer->placed) {
        syncer->placed = true;
        syncer->staged = syncer->busy || syncer->working || worker->rules.replicated;
    }
    /* A witness has one version or the other whole, whenever the owner dies. */
    uint32_t unit = worker->layout->parts[layer->first_part + message->part].unit;
    bool witness = worker->layout->units[unit].witness == worker->rank;
    if (!syncer->staged && !witness)
        return worker_part_ref(worker, place_of(worker), message->layer, message->part);
    syncer->stages += bits_add(syncer->stage, message->part);
    return worker_part_ref(worker, CORE_STAGE, message->layer, message->part);
}

struct core_ref worker_landing(struct worker *worker, const struct message *message)
{
    struct core_ref nowhere = {.space = CORE_NOWHERE};
    if (message->layer >= worker->layout->layer_count)
        return nowhere;
    struct syncer *syncer = &worker->syncers[message->layer];
    const struct layout_layer *layer = &worker->layout->layers[message->layer];
    if (message->kind == WIRE_FACTORS)
        return land_factors(worker, message);
    bool init = message->kind == WIRE_INIT && !syncer->started;
    bool result = message->kind == WIRE_RESULT && !on_workers(layer) && !message->unchanged &&
                  message->clock == syncer->version && syncer->version < syncer->given;
    if (message->part >= layer->parts || bits_has(syncer->parts, message->part) ||
        (!init && !result) || !bits_add(syncer->claims, message->part))
        return nowhere;
    return init ? worker_part_ref(worker, CORE_PARAMS, message->layer, message->part)
                : land_result(worker, message);
}

void worker_lost(struct worker *worker, const struct message *message)
{
    if (message->layer >= worker->layout->layer_count)
        return;
    struct syncer *syncer = &worker->syncers[message->layer];
    if (message->kind == WIRE_FACTORS) {
        struct gather *gather = &syncer->generation[message->clock % 2];
        if (on_workers(&worker->layout->layers[message->layer]) && gather->clock == message->clock)
            gather_release(gather, message, message->part);
    } else if (message->part < worker->layout->layers[message->layer].parts &&
               (message->kind == WIRE_INIT ||
                (message->kind == WIRE_RESULT && message->clock == syncer->version))) {
        bits_remove(syncer->claims, message->part);
    }
}

/* ---- messages: what they bring ---- */

static void take_init(struct worker *worker, const struct message *message,
                      const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[message->layer];
    uint32_t parts = worker->layout->layers[message->layer].parts;
    if (!message->landed || syncer->started || message->part >= parts ||
        !bits_add(syncer->parts, message->part) || ++syncer->parts_in < parts)
        return;
    syncer->started = true;
    worker_clear_result(worker, message->layer);
    worker->not_started--;
    syncer->waiting = false;
    core_wake(out, message->layer);
    worker_settle(worker, message->layer, out);
}

static void take_result(struct worker *worker, const struct message *message,
                        const struct core_out *out)
{
    const struct layout *layout = worker->layout;
    const struct layout_layer *layer = &layout->layers[message->layer];
    struct syncer *syncer = &worker->syncers[message->layer];
    if (message->part >= layer->parts || message->clock != syncer->version ||
        syncer->version == syncer->given || !(message->landed || message->unchanged) ||
        !worker->rules.consistency->after_parameters(&worker->consistency, syncer->least,
                                                     message->version) ||
        !bits_add(syncer->parts, message->part))
        return;
    uint64_t *counted = worker->counted + layout->parts[layer->first_part + message->part].unit *
                                              bits_words(layout->workers);
    if (message->set != NULL)
        bits_copy(counted, message->set, layout->workers);
    else /* of the clock that it joins at it is not told */
        bits_clear(counted, layout->workers);
    syncer->parts_in++;
    syncer->came = message->version < syncer->came ? message->version : syncer->came;
    if (!message->unchanged) {
        bits_add(syncer->change, message->part);
        syncer->changes++;
        syncer->lr_bits = message->lr_bits;
    }
    worker_settle(worker, message->layer, out);
}

/* The server has closed more clocks of a unit since: its parameters of this one are not to be
 * had. The message names the unit by its first part. */
static void take_left_out(struct worker *worker, const struct message *message,
                          const struct core_out *out)
{
    const struct layout *layout = worker->layout;
    const struct layout_layer *layer = &layout->layers[message->layer];
    struct syncer *syncer = &worker->syncers[message->layer];
    if (message->part >= layer->parts || message->clock != syncer->version ||
        syncer->version == syncer->given)
        return;
    const struct layout_unit *unit =
        &layout->units[layout->parts[layer->first_part + message->part].unit];
    for (uint32_t i = 0; i < unit->parts; i++)
        syncer->parts_in += bits_add(syncer->parts, unit->first_part + i);
    syncer->missed = true;
    worker_settle(worker, message->layer, out);
}

static void take_factors(struct worker *worker, const struct message *message,
                         const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[message->layer];
    if (!factors_fit(worker, message) || (message->kind == WIRE_FACTORS && !message->landed))
        return;
    struct gather *gather = worker_gather(syncer, message->clock);
    enum gather_step step = message->kind == WIRE_NOTHING
                                ? gather_nothing(gather, message->rank)
                                : gather_part(gather, message, message->part, message->parts);
    if (step != GATHER_WHOLE)
        return;
    if (message->kind == WIRE_FACTORS)
        check_rates(worker, gather, message, out);
    worker_settle(worker, message->layer, out);
}

/* The coordinator wants this worker's layers at a version ahead. */
static void take_mark(struct worker *worker, const struct message *message,
                      const struct core_out *out)
{
    uint64_t newest = worker->clock;
    uint32_t layers = 0;
    for (uint32_t i = 0; i < worker->layout->layer_count; i++)
        if (core_worker_saves_params(&worker->rules, worker->layout->layers[i].home)) {
            layers++;
            newest = worker->syncers[i].version > newest ? worker->syncers[i].version : newest;
        }
    if (message->clock <= worker->mark)
        return; /* a proposal that a later one has overtaken */
    bool accepted = newest < message->clock;
    worker->mark = accepted ? message->clock : 0;
    worker->to_save = accepted ? layers : 0;
    worker_tell(
        worker,
        (struct message){
            .kind = WIRE_MARKED, .clock = message->clock, .count = newest, .accepted = accepted},
        out);
}

/* From here on a layer waits for the result of the clock before the join. */
static void await_join(struct worker *worker, uint32_t layer, uint64_t join,
                       const struct core_out *out)
{
    struct syncer *syncer = &worker->syncers[layer];
    worker_clear_result(worker, layer);
    syncer->version = syncer->least = join - 1;
    syncer->given = join;
    syncer->placed = syncer->staged = syncer->busy = true;
    if (syncer->waiting) {
        syncer->waiting = false;
        core_wake(out, layer);
    }
}

/* The coordinator names a clock to join again at. Results of the clock before it land in the
 * stage and stay there until the caller has ended its iteration; one that has closed, or waits
 * past the end of the others, has nothing more to end. A later proposal takes the place of an
 * earlier one, also of one that the worker has already gone on to: no server has sent anything
 * before all have agreed. A second copy is answered a second time. */
static void take_join(struct worker *worker, const struct message *message,
                      const struct core_out *out)
{
    bool awaits = awaits_join(worker);
    uint64_t present = awaits ? worker->joined : worker->join;
    bool known = present > 0 && message->clock == present;
    bool newer = message->last || message->clock > present;
    if (!(awaits || (worker->behind && worker->asked)) || !(known || newer) ||
        (worker->last && !message->last))
        return;
    worker->last = message->last;
    bool accepted = known || message->last || message->clock > worker->clock;
    for (uint32_t i = 0; i < worker->layout->layer_count && accepted && !known; i++)
        await_join(worker, i, message->clock, out);
    if (accepted && !known) {
        worker->join = message->clock;
        worker->behind = worker->asked = true;
    }
    worker_tell(worker,
                (struct message){.kind = WIRE_MARKED,
                                 .mark = CORE_MARK_JOIN,
                                 .clock = message->clock,
                                 .count = worker->clock,
                                 .accepted = accepted},
                out);
    if (accepted && worker->behind &&
        (worker->closing || (awaits && message->clock < worker->clock)))
        join_again(worker, out);
}

void worker_message(struct worker *worker, const struct message *message,
                    const struct core_out *out)
{
    if (message->layer >= worker->layout->layer_count)
        return;
    bool peers = on_workers(&worker->layout->layers[message->layer]);
    switch (message->kind) {
    case WIRE_MARK:
        if (message->mark == CORE_MARK_JOIN && message->clock > 0)
            take_join(worker, message, out);
        else if (message->mark == CORE_MARK_SAVE)
            take_mark(worker, message, out);
        break;
    case WIRE_INIT:
        take_init(worker, message, out);
        break;
    case WIRE_RESULT:
        if (!peers)
            take_result(worker, message, out);
        break;
    case WIRE_LEFT_OUT:
        if (!peers && core_leaves_out(&worker->rules))
            take_left_out(worker, message, out);
        break;
    case WIRE_FACTORS:
    case WIRE_NOTHING:
        take_factors(worker, message, out);
        break;
    case WIRE_DECISION:
        worker_decision(worker, message, out);
        break;
    default:
        break;
    }
}

/* ---- questions of the host ---- */

bool worker_counted(const struct worker *worker, uint32_t unit, uint32_t rank)
{
    return bits_has(worker->counted + unit * bits_words(worker->layout->workers), rank);
}

bool worker_part_staged(const struct worker *worker, uint32_t layer, uint32_t part)
{
    return bits_has(worker->syncers[layer].stage, part);
}

bool worker_part_changed(const struct worker *worker, uint32_t layer, uint32_t part)
{
    return bits_has(worker->syncers[layer].change, part);
}

uint64_t worker_part_steps(const struct worker *worker, uint32_t layer, uint32_t part)
{
    return worker
        ->steps[worker->layout->parts[worker->layout->layers[layer].first_part + part].unit];
}

uint32_t worker_factor_rows(const struct worker *worker, uint32_t layer, uint64_t clock,
                            uint32_t rank)
{
    const struct gather *gather = &worker->syncers[layer].generation[clock % 2];
    bool counts = bits_has(worker->syncers[layer].with, rank);
    return counts && gather_has_values(gather, rank) ? gather->rank[rank].rows : 0;
}
