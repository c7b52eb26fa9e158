/* Parameters, stages, gradients and factors of a worker. */
#include "store/worker.h"

#include <string.h>

#include "base/error.h"
#include "store/floats.h"

struct store_part {
    bool staged, changed;
    uint64_t steps;
};

struct store_worker_layer {
    struct store_layer own;
    const float *dense, *dense_bias; /* the last update */
    float *copy;                     /* where copies of gradients are wanted */
    float *stage;
    float *state;   /* of the optimiser: state_floats for each float of a run, run after run */
    float *factors; /* generation, rank, then K x M and K x N */
};

static uint64_t matrix_floats(const struct layout_layer *shape)
{
    return (uint64_t)shape->rows * shape->cols;
}

/* ---- memory ---- */

static float *room(const struct mem *mem, uint64_t n, bool zero, bool *ok)
{
    if (n == 0 || !*ok)
        return NULL;
    float *at = zero ? floats_zero(mem, n) : floats_new(mem, n);
    *ok = at != NULL;
    return at;
}

/* Results of servers may have to wait; what a layer here steps with is formed in the stage,
 * but for plain sgd, which needs it nowhere. */
static bool needs_stage(const struct store_worker *store, const struct layout_layer *shape)
{
    if (shape->home != TRI_HOME_WORKERS)
        return true;
    return !store->rules.aggregate && !ops_is_sgd(&store->optim);
}

static bool steps_here(const struct store_worker *store, const struct layout_layer *shape)
{
    return !store->rules.aggregate && (shape->home == TRI_HOME_WORKERS || store->rules.replicated);
}

static bool init_layer(struct store_worker *store, uint32_t number, bool copies)
{
    const struct layout_layer *shape = &store->layout->layers[number];
    struct store_worker_layer *layer = &store->layers[number];
    bool ok = true, dense = shape->form == TRI_FORM_DENSE;
    uint64_t state = shape->floats * store->optim.ops->state_floats;
    uint64_t slots = (uint64_t)2 * store->layout->workers * store_slot_floats(shape);
    layer->copy = room(store->mem, dense && copies ? shape->floats : 0, false, &ok);
    layer->stage = room(store->mem, needs_stage(store, shape) ? shape->floats : 0, false, &ok);
    layer->state = room(store->mem, steps_here(store, shape) ? state : 0, true, &ok);
    layer->factors = room(store->mem, dense ? 0 : slots, false, &ok);
    return ok;
}

tri_status store_worker_init(struct store_worker *store, const struct store_worker_options *options,
                             const struct mem *mem, tri_error *err)
{
    const struct layout *layout = options->layout;
    *store = (struct store_worker){
        .mem = mem, .layout = layout, .rules = options->rules, .optim = options->optim};
    store->layers = mem_array(mem, layout->layer_count, sizeof *store->layers);
    store->parts = mem_array(mem, layout->part_count, sizeof *store->parts);
    store->rows =
        mem_array(mem, (size_t)layout->layer_count * layout->workers, sizeof *store->rows);
    bool ok = store->layers != NULL && store->parts != NULL && store->rows != NULL;
    for (uint32_t i = 0; ok && i < layout->layer_count; i++) {
        store->layers[i].own = options->layers[i];
        ok = init_layer(store, i, options->copy_gradients);
    }
    if (ok)
        return TRI_OK;
    store_worker_fini(store);
    return fail_nomem(err, "the memory of a worker");
}

void store_worker_fini(struct store_worker *store)
{
    if (store->mem == NULL)
        return;
    for (uint32_t i = 0; store->layers != NULL && i < store->layout->layer_count; i++) {
        struct store_worker_layer *layer = &store->layers[i];
        floats_free(store->mem, layer->copy);
        floats_free(store->mem, layer->stage);
        floats_free(store->mem, layer->state);
        floats_free(store->mem, layer->factors);
    }
    mem_free(store->mem, store->layers);
    mem_free(store->mem, store->parts);
    mem_free(store->mem, store->rows);
    *store = (struct store_worker){0};
}

/* ---- refs ---- */

void store_worker_gradient(struct store_worker *store, uint32_t layer, const float *dense,
                           const float *dense_bias)
{
    const struct layout_layer *shape = &store->layout->layers[layer];
    struct store_worker_layer *own = &store->layers[layer];
    if (own->copy != NULL) {
        float *bias = own->copy + matrix_floats(shape);
        memcpy(own->copy, dense, (size_t)matrix_floats(shape) * sizeof *dense);
        if (shape->bias)
            memcpy(bias, dense_bias, shape->rows * sizeof *bias);
        dense = own->copy;
        dense_bias = shape->bias ? bias : NULL;
    }
    own->dense = dense;
    own->dense_bias = dense_bias;
}

static struct store_runs params_runs(const struct store_worker *store, uint32_t layer,
                                     uint64_t first, uint64_t count)
{
    const struct store_layer *own = &store->layers[layer].own;
    uint64_t cut = matrix_floats(&store->layout->layers[layer]);
    return store_runs_cut(own->weights, own->bias, cut, first, count);
}

struct store_runs store_worker_runs(const struct store_worker *store, struct core_ref ref)
{
    const struct layout_layer *shape = &store->layout->layers[ref.index];
    const struct store_worker_layer *layer = &store->layers[ref.index];
    switch (ref.space) {
    case CORE_PARAMS:
        return params_runs(store, ref.index, ref.first, ref.count);
    case CORE_RESULT:
        return (struct store_runs){.at = {layer->own.result + ref.first}, .count = {ref.count}};
    case CORE_STAGE:
        return (struct store_runs){.at = {layer->stage + ref.first}, .count = {ref.count}};
    case CORE_GRADIENT:
        return store_runs_cut((float *)layer->dense, (float *)layer->dense_bias,
                              matrix_floats(shape), ref.first, ref.count);
    case CORE_FACTORS:
        return store_slot_runs(shape, layer->factors,
                               (size_t)ref.generation * store->layout->workers + ref.rank, ref);
    default:
        return (struct store_runs){0};
    }
}

struct store_factors store_worker_slot(const struct store_worker *store, struct core_ref slot)
{
    const struct layout_layer *shape = &store->layout->layers[slot.index];
    if (shape->form != TRI_FORM_FACTORS)
        return (struct store_factors){NULL, NULL};
    return store_slot_at(shape, store->layers[slot.index].factors,
                         (size_t)slot.generation * store->layout->workers + slot.rank);
}

/* ---- operations ---- */

void store_worker_note(struct store_worker *store, const struct worker *worker,
                       const struct core_op *op)
{
    const struct layout *layout = store->layout;
    const struct layout_layer *shape = &layout->layers[op->index];
    if (op->kind == CORE_OP_APPLY) {
        uint32_t *rows = &store->rows[(size_t)op->index * layout->workers];
        for (uint32_t r = 0; r < layout->workers; r++)
            rows[r] = worker_factor_rows(worker, op->index, op->clock, r);
    } else if (op->kind != CORE_OP_COPY) {
        for (uint32_t i = 0; i < shape->parts; i++)
            store->parts[shape->first_part + i] =
                (struct store_part){.staged = worker_part_staged(worker, op->index, i),
                                    .changed = worker_part_changed(worker, op->index, i),
                                    .steps = worker_part_steps(worker, op->index, i)};
    }
}

/* Floats first .. first + count of a layer, by their mean in the stage. Cut at the bias, always:
 * where state lies must not depend on which memory a caller happens to have. */
static void step(const struct store_worker *store, const struct core_op *op, uint64_t first,
                 uint64_t count, uint64_t steps)
{
    const tri_optimizer_ops *ops = store->optim.ops;
    const struct store_worker_layer *layer = &store->layers[op->index];
    uint64_t cut = matrix_floats(&store->layout->layers[op->index]), end = first + count;
    while (first < end) {
        uint64_t stop = first < cut && cut < end ? cut : end;
        struct store_runs run = params_runs(store, op->index, first, stop - first);
        float *state = layer->state != NULL ? layer->state + ops->state_floats * first : NULL;
        ops->step(store->optim.args, run.at[0], state, layer->stage + first, (size_t)(stop - first),
                  op->lr, steps);
        first = stop;
    }
}

/* Plain sgd without forming the gradient. */
static void apply_sgd(const struct store_layer *own, struct ops_factors *factors,
                      const struct core_op *op)
{
    struct product bias = {.blocks = factors->blocks,
                           .count = factors->count,
                           .m = factors->rows,
                           .alpha = -op->lr / (float)op->count};
    bool has_bias = factors->bias;
    factors->bias = false;
    ops_factor_sgd(factors, own->weights, op->count, op->lr);
    if (has_bias)
        product_bias(&bias, 0, factors->rows, own->bias);
}

static void apply(const struct store_worker *store, const struct core_op *op, void *scratch)
{
    const struct layout *layout = store->layout;
    const struct layout_layer *shape = &layout->layers[op->index];
    const struct store_worker_layer *layer = &store->layers[op->index];
    size_t generation = (size_t)(op->clock % 2) * layout->workers * store_slot_floats(shape);
    struct ops_factors factors =
        store_blocks(layout, shape, layer->factors + generation,
                     &store->rows[(size_t)op->index * layout->workers], scratch);
    if (store->rules.aggregate) {
        ops_factor_mean(&factors, layer->own.result, op->count);
    } else if (ops_is_sgd(&store->optim)) {
        apply_sgd(&layer->own, &factors, op);
    } else {
        ops_factor_mean(&factors, layer->stage, op->count);
        step(store, op, 0, shape->floats, op->steps);
    }
}

/* What is in the stage goes where the rest already is; a mean of nothing is zero. */
static void install(const struct store_worker *store, uint32_t number)
{
    const struct layout_layer *shape = &store->layout->layers[number];
    const struct store_worker_layer *layer = &store->layers[number];
    bool aggregate = store->rules.aggregate;
    for (uint32_t i = 0; i < shape->parts; i++) {
        const struct layout_part *part = &store->layout->parts[shape->first_part + i];
        const struct store_part *noted = &store->parts[shape->first_part + i];
        size_t bytes = part->floats * sizeof(float);
        if (!noted->changed && aggregate)
            memset(layer->own.result + part->first, 0, bytes);
        else if (noted->changed && noted->staged && aggregate)
            memcpy(layer->own.result + part->first, layer->stage + part->first, bytes);
        else if (noted->changed && noted->staged)
            store_runs_write(params_runs(store, number, part->first, part->floats),
                             layer->stage + part->first);
    }
}

/* Parts are of units, which may have stepped more or less often than each other. */
static void step_locally(const struct store_worker *store, const struct core_op *op)
{
    const struct layout_layer *shape = &store->layout->layers[op->index];
    for (uint32_t i = 0; i < shape->parts; i++) {
        const struct layout_part *part = &store->layout->parts[shape->first_part + i];
        const struct store_part *noted = &store->parts[shape->first_part + i];
        if (noted->changed)
            step(store, op, part->first, part->floats, noted->steps);
    }
}

void store_worker_do(struct store_worker *store, const struct core_op *op, void *scratch)
{
    if (op->kind == CORE_OP_APPLY)
        apply(store, op, scratch);
    else if (op->kind == CORE_OP_INSTALL)
        install(store, op->index);
    else if (op->kind == CORE_OP_LOCAL)
        step_locally(store, op);
}

void store_worker_op(struct store_worker *store, const struct worker *worker,
                     const struct core_op *op, void *scratch)
{
    store_worker_note(store, worker, op);
    store_worker_do(store, op, scratch);
}

/* ---- checkpoints ---- */

/* Where float `at` of a plane of the optimiser's lies, and how many follow it there. What step()
 * takes at once is a run: all of a layer up to its bias and the bias, or of a part where parts are
 * stepped one by one. */
static float *find_state(const struct store_worker *store, uint32_t layer, uint32_t plane,
                         uint64_t at, uint64_t *count)
{
    const struct layout_layer *shape = &store->layout->layers[layer];
    uint64_t cut = matrix_floats(shape), first = 0, end = shape->floats;
    bool in_parts = shape->home != TRI_HOME_WORKERS;
    for (uint32_t i = 0; in_parts && i < shape->parts; i++) {
        const struct layout_part *part = &store->layout->parts[shape->first_part + i];
        if (part->first <= at && at < part->first + part->floats) {
            first = part->first;
            end = part->first + part->floats;
        }
    }
    if (first < cut && cut < end) {
        first = at < cut ? first : cut;
        end = at < cut ? cut : end;
    }
    *count = end - at;
    return store->layers[layer].state + store->optim.ops->state_floats * first +
           (plane - 1) * (end - first) + (at - first);
}

void store_worker_copy(const struct store_worker *store, uint32_t layer, uint32_t plane, float *out)
{
    uint64_t n = store->layout->layers[layer].floats, count = 0;
    if (plane == 0) {
        store_runs_read(params_runs(store, layer, 0, n), out);
        return;
    }
    for (uint64_t at = 0; at < n; at += count) {
        const float *from = find_state(store, layer, plane, at, &count);
        memcpy(out + at, from, (size_t)count * sizeof *out);
    }
}

void store_worker_restore(struct store_worker *store, uint32_t layer, uint32_t plane,
                          const struct store_span *span)
{
    uint64_t count = 0;
    for (uint64_t done = 0; done < span->count; done += count) {
        float *to = find_state(store, layer, plane, span->first + done, &count);
        count = count < span->count - done ? count : span->count - done;
        memcpy(to, span->values + done, (size_t)count * sizeof *to);
    }
}
