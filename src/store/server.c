/* Slots, sums, shards and replies of a server. */
#include "store/server.h"

#include <string.h>

#include "base/error.h"
#include "store/floats.h"
#include "store/passes.h"

/* The optimiser steps so many floats at once, so that what it reads twice is still in the
 * nearest cache. Its state lies in such chunks. */
enum { CHUNK = 2048 };

static const struct layout_unit *shape_of(const struct store_server *store, uint32_t index)
{
    return &store->layout->units[store->units[index].number];
}

static const struct layout_layer *layer_of(const struct store_server *store, uint32_t index)
{
    return &store->layout->layers[shape_of(store, index)->layer];
}

/* Does the optimiser run here? Otherwise shards hold means. */
static bool steps_here(const struct store_server *store)
{
    return !store->rules.aggregate && !store->rules.replicated;
}

/* ---- memory ---- */

/* From one slot to the next, so that all are aligned like the first. */
static uint64_t stride(uint64_t floats)
{
    uint64_t step = floats_align(floats) / sizeof(float);
    return (floats + step - 1) / step * step;
}

static float *room(const struct mem *mem, uint64_t n, bool zero, bool *ok)
{
    if (n == 0 || !*ok)
        return NULL;
    float *at = zero ? floats_zero(mem, n) : floats_new(mem, n);
    *ok = at != NULL;
    return at;
}

/* Floats of all landing slots, as the plan counts them; without slots, of the sum that takes
 * their place. */
static uint64_t count_landing(const struct store_server *store, const struct layout_unit *shape)
{
    const struct layout_layer *layer = &store->layout->layers[shape->layer];
    if (layer->form == TRI_FORM_FACTORS)
        return store->layout->workers * store_slot_floats(layer);
    return core_has_slots(&store->rules) ? store->layout->workers * shape->floats : shape->floats;
}

static bool init_unit(struct store_server *store, struct store_server_unit *unit, uint32_t number)
{
    const struct layout_unit *shape = &store->layout->units[number];
    const struct layout_layer *layer = &store->layout->layers[shape->layer];
    const struct mem *mem = store->mem;
    uint64_t ranks = store->layout->workers, n = shape->floats;
    bool ok = true, factors = layer->form == TRI_FORM_FACTORS, steps = steps_here(store);
    bool slots = factors || core_has_slots(&store->rules);
    bool sums = !factors || (steps && !ops_is_sgd(&store->optim));
    unit->number = number;
    unit->slot = factors ? store_slot_floats(layer) : stride(n);
    unit->reply_slot = core_has_replies(&store->rules) ? stride(n) : 0;
    unit->landing = room(mem, slots ? ranks * unit->slot : 0, false, &ok);
    unit->sum = room(mem, sums ? n : 0, true, &ok);
    unit->shard = room(mem, n, true, &ok);
    unit->state = room(mem, steps ? n * store->optim.ops->state_floats : 0, true, &ok);
    unit->reply = room(mem, ranks * unit->reply_slot, false, &ok);
    store->landing_floats += count_landing(store, shape);
    return ok;
}

tri_status store_server_init(struct store_server *store, const struct store_server_options *options,
                             const struct mem *mem, tri_error *err)
{
    const struct layout *layout = options->layout;
    size_t count = layout->server_units[options->number];
    *store = (struct store_server){
        .mem = mem, .layout = layout, .rules = options->rules, .optim = options->optim};
    store->units = mem_array(mem, count, sizeof *store->units);
    store->noted = mem_array(mem, count * layout->workers, sizeof *store->noted);
    bool ok = store->units != NULL && store->noted != NULL;
    for (uint32_t i = 0; ok && i < layout->unit_count; i++)
        if (layout->units[i].server == options->number)
            ok = init_unit(store, &store->units[store->count++], i);
    if (ok)
        return TRI_OK;
    store_server_fini(store);
    return fail_nomem(err, "the memory of a server");
}

void store_server_fini(struct store_server *store)
{
    if (store->mem == NULL)
        return;
    for (uint32_t i = 0; store->units != NULL && i < store->count; i++) {
        struct store_server_unit *unit = &store->units[i];
        floats_free(store->mem, unit->landing);
        floats_free(store->mem, unit->sum);
        floats_free(store->mem, unit->shard);
        floats_free(store->mem, unit->state);
        floats_free(store->mem, unit->reply);
    }
    mem_free(store->mem, store->units);
    mem_free(store->mem, store->noted);
    *store = (struct store_server){0};
}

/* ---- refs ---- */

static float *base_of(const struct store_server_unit *unit, struct core_ref ref)
{
    switch (ref.space) {
    case CORE_LANDING:
        return unit->landing + ref.rank * unit->slot;
    case CORE_REPLY:
        return unit->reply + ref.rank * unit->reply_slot;
    case CORE_ADD:
        return unit->sum;
    default:
        return unit->shard;
    }
}

struct store_runs store_server_runs(const struct store_server *store, struct core_ref ref)
{
    if (ref.space == CORE_NOWHERE)
        return (struct store_runs){0};
    const struct store_server_unit *unit = &store->units[ref.index];
    if (ref.space == CORE_PRODUCTS)
        return store_slot_runs(layer_of(store, ref.index), unit->landing, ref.rank, ref);
    return (struct store_runs){.at = {base_of(unit, ref) + ref.first}, .count = {ref.count}};
}

struct store_factors store_server_slot(const struct store_server *store, uint32_t index,
                                       uint32_t rank)
{
    return store_slot_at(layer_of(store, index), store->units[index].landing, rank);
}

/* ---- operations ---- */

void store_server_note(struct store_server *store, const struct server *server,
                       const struct core_op *op)
{
    uint32_t ranks = store->layout->workers;
    uint32_t *noted = &store->noted[(size_t)op->index * ranks];
    for (uint32_t r = 0; r < ranks; r++)
        if (op->kind == CORE_OP_PRODUCT)
            noted[r] = server_factor_rows(server, op->index, r);
        else if (op->kind == CORE_OP_REPLY)
            noted[r] = server_replies(server, op->index, r);
}

/* The shard by the mean of the sum, or by a mean (divisor 0). */
static void step(const struct store_server *store, const struct core_op *op, struct pass_sum sum,
                 float divisor)
{
    const struct store_server_unit *unit = &store->units[op->index];
    const tri_optimizer_ops *ops = store->optim.ops;
    size_t n = (size_t)shape_of(store, op->index)->floats;
    float mean[CHUNK];
    for (size_t first = 0; first < n; first += CHUNK) {
        size_t count = n - first < CHUNK ? n - first : CHUNK;
        float *state = unit->state != NULL ? unit->state + ops->state_floats * first : NULL;
        struct pass_sum some = {sum.a + first, sum.b != NULL ? sum.b + first : NULL};
        if (divisor > 0)
            pass_mean(mean, some, count, divisor);
        ops->step(store->optim.args, unit->shard + first, state, divisor > 0 ? mean : some.a, count,
                  op->lr, op->steps);
    }
}

static void product(const struct store_server *store, const struct core_op *op, void *scratch)
{
    const struct store_server_unit *unit = &store->units[op->index];
    struct ops_factors factors =
        store_blocks(store->layout, layer_of(store, op->index), unit->landing,
                     &store->noted[(size_t)op->index * store->layout->workers], scratch);
    if (!steps_here(store)) {
        ops_factor_mean(&factors, unit->shard, op->count);
    } else if (ops_is_sgd(&store->optim)) {
        ops_factor_sgd(&factors, unit->shard, op->count, op->lr);
    } else {
        ops_factor_mean(&factors, unit->sum, op->count);
        step(store, op, (struct pass_sum){unit->sum, NULL}, 0);
    }
}

/* sum to shard, by way of the mean. */
static void step_sum(const struct store_server *store, const struct core_op *op)
{
    struct store_server_unit *unit = &store->units[op->index];
    size_t n = (size_t)shape_of(store, op->index)->floats;
    float divisor = (float)op->count;
    bool slots = core_has_slots(&store->rules);
    struct pass_sum sum = slots ? unit->open : (struct pass_sum){unit->sum, NULL};
    if (!steps_here(store))
        pass_mean(unit->shard, sum, n, divisor);
    else if (ops_is_sgd(&store->optim))
        pass_sgd(unit->shard, sum, n, divisor, op->lr);
    else
        step(store, op, sum, divisor);
    unit->open = (struct pass_sum){NULL, NULL};
    if (!slots)
        memset(unit->sum, 0, n * sizeof(float));
}

/* Slots stay as they are until the unit has stepped. So the last two of a sum need not be added
 * before: the step does it on its way, and of two ranks none is. */
static void sum(const struct store_server *store, const struct core_op *op)
{
    struct store_server_unit *unit = &store->units[op->index];
    const float *slot = unit->landing + op->rank * unit->slot;
    size_t n = (size_t)shape_of(store, op->index)->floats;
    if (op->first) {
        unit->open = (struct pass_sum){slot, NULL};
        return;
    }
    if (unit->open.b != NULL) {
        pass_sum(unit->sum, unit->open, n);
        unit->open.a = unit->sum;
    }
    unit->open.b = slot;
}

static void reply(const struct store_server *store, const struct core_op *op)
{
    const struct store_server_unit *unit = &store->units[op->index];
    uint32_t ranks = store->layout->workers;
    size_t n = (size_t)shape_of(store, op->index)->floats;
    for (uint32_t r = 0; r < ranks; r++)
        if (store->noted[(size_t)op->index * ranks + r] > 0)
            memcpy(unit->reply + r * unit->reply_slot, unit->shard, n * sizeof(float));
}

void store_server_do(struct store_server *store, const struct core_op *op, void *scratch)
{
    if (op->kind == CORE_OP_SUM)
        sum(store, op);
    else if (op->kind == CORE_OP_STEP)
        step_sum(store, op);
    else if (op->kind == CORE_OP_PRODUCT)
        product(store, op, scratch);
    else if (op->kind == CORE_OP_REPLY)
        reply(store, op);
}

void store_server_op(struct store_server *store, const struct server *server,
                     const struct core_op *op, void *scratch)
{
    store_server_note(store, server, op);
    store_server_do(store, op, scratch);
}

/* ---- checkpoints ---- */

/* Where float `at` of a plane of the optimiser's lies, and how many follow it there. */
static float *find_state(const struct store_server *store, uint32_t index, uint32_t plane,
                         uint64_t at, uint64_t *count)
{
    const struct store_server_unit *unit = &store->units[index];
    uint64_t n = shape_of(store, index)->floats, first = at / CHUNK * CHUNK;
    uint64_t len = n - first < CHUNK ? n - first : CHUNK;
    *count = first + len - at;
    return unit->state + store->optim.ops->state_floats * first + (plane - 1) * len + (at - first);
}

void store_server_copy_some(const struct store_server *store, uint32_t index, uint32_t plane,
                            const struct store_room *room)
{
    if (plane == 0) {
        memcpy(room->at, store->units[index].shard + room->first,
               (size_t)room->count * sizeof *room->at);
        return;
    }
    uint64_t count = 0;
    for (uint64_t done = 0; done < room->count; done += count) {
        const float *from = find_state(store, index, plane, room->first + done, &count);
        count = count < room->count - done ? count : room->count - done;
        memcpy(room->at + done, from, (size_t)count * sizeof *from);
    }
}

void store_server_copy(const struct store_server *store, uint32_t index, uint32_t plane, float *out)
{
    const struct store_room all = {0, shape_of(store, index)->floats, out};
    store_server_copy_some(store, index, plane, &all);
}

void store_server_restore(struct store_server *store, uint32_t index, uint32_t plane,
                          const struct store_span *span)
{
    uint64_t count = 0;
    for (uint64_t done = 0; done < span->count; done += count) {
        float *to = find_state(store, index, plane, span->first + done, &count);
        count = count < span->count - done ? count : span->count - done;
        memcpy(to, span->values + done, (size_t)count * sizeof *to);
    }
}
