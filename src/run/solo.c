/* One worker. */
#include "run/solo.h"

#include <string.h>

#include "core/ops.h"
#include "run/save.h"
#include "store/floats.h"
#include "store/passes.h"

enum { BLOCK = 4096 };

struct solo_layer {
    struct store_layer own;
    float *state;  /* of the optimiser; NULL: it has none */
    float *copies; /* of factors that are applied later: K x M, then K x N; NULL: never needed */
    uint64_t steps;
    bool given;            /* in this iteration */
    bool open;             /* updated and not synced */
    bool pending;          /* and not applied */
    struct update waiting; /* then */
};

struct solo {
    const struct mem *mem;
    struct agreement *agreement;
    struct forms forms;
    struct solo_layer *layers;
    void *scratch;
    uint64_t clock;
    struct save *save; /* NULL: no checkpoints */
};

/* ---- applying ---- */

static const struct layout_layer *shape_of(const struct solo *solo, uint32_t layer)
{
    return &solo->agreement->layout->layers[layer];
}

static void step(const struct solo *solo, struct solo_layer *layer, float *params, float *state,
                 const float *gradient, size_t n)
{
    const struct optim *optim = &solo->agreement->optim;
    const struct update *update = &layer->waiting;
    float mean[BLOCK];
    if (ops_is_sgd(optim)) {
        pass_sgd(params, (struct pass_sum){gradient, NULL}, n, (float)update->count, update->lr);
        return;
    }
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t m = n - i < BLOCK ? n - i : BLOCK;
        pass_mean(mean, (struct pass_sum){gradient + i, NULL}, m, (float)update->count);
        optim->ops->step(optim->args, params + i, state + optim->ops->state_floats * i, mean, m,
                         update->lr, layer->steps);
    }
}

static void apply_dense(struct solo *solo, uint32_t number)
{
    struct solo_layer *layer = &solo->layers[number];
    const struct layout_layer *shape = shape_of(solo, number);
    const struct update *update = &layer->waiting;
    size_t weights = (size_t)shape->rows * shape->cols;
    if (solo->agreement->rules.aggregate) {
        struct pass_sum sums[] = {{update->dense, NULL}, {update->dense_bias, NULL}};
        pass_mean(layer->own.result, sums[0], weights, (float)update->count);
        if (shape->bias)
            pass_mean(layer->own.result + weights, sums[1], shape->rows, (float)update->count);
        return;
    }
    size_t floats = solo->agreement->optim.ops->state_floats * weights;
    step(solo, layer, layer->own.weights, layer->state, update->dense, weights);
    if (shape->bias)
        step(solo, layer, layer->own.bias, layer->state != NULL ? layer->state + floats : NULL,
             update->dense_bias, shape->rows);
}

/* Straight into the parameters, as sfb does. */
static void apply_factors(struct solo *solo, uint32_t number)
{
    struct solo_layer *layer = &solo->layers[number];
    const struct layout_layer *shape = shape_of(solo, number);
    const struct update *update = &layer->waiting;
    struct product_block block = {update->u, update->v, update->factor_rows};
    struct ops_factors factors = {.blocks = &block,
                                  .count = 1,
                                  .rows = shape->rows,
                                  .cols = shape->cols,
                                  .scratch = solo->scratch};
    ops_factor_sgd(&factors, layer->own.weights, update->count, update->lr);
    struct product bias = {.blocks = &block,
                           .count = 1,
                           .m = shape->rows,
                           .alpha = -update->lr / (float)update->count};
    if (shape->bias)
        product_bias(&bias, 0, shape->rows, layer->own.bias);
}

static void apply(struct solo *solo, uint32_t number)
{
    struct solo_layer *layer = &solo->layers[number];
    if (solo->save != NULL)
        save_wait_copied(solo->save, number);
    if (layer->waiting.u != NULL)
        apply_factors(solo, number);
    else
        apply_dense(solo, number);
    layer->steps++;
    layer->pending = false;
}

/* ---- checkpoints ---- */

/* Where float `at` of a plane of the optimiser's lies, and how many follow it there: as step() has
 * it, blocks of the weights and blocks of the bias. */
static float *find_state(const struct solo *solo, uint32_t number, uint32_t plane, uint64_t at,
                         uint64_t *count)
{
    const struct layout_layer *shape = shape_of(solo, number);
    uint64_t weights = (uint64_t)shape->rows * shape->cols;
    uint64_t base = at < weights ? 0 : weights, end = at < weights ? weights : shape->floats;
    uint64_t first = base + (at - base) / BLOCK * BLOCK;
    uint64_t len = end - first < BLOCK ? end - first : BLOCK;
    *count = first + len - at;
    return solo->layers[number].state + solo->agreement->optim.ops->state_floats * first +
           (plane - 1) * len + (at - first);
}

static uint64_t copy_layer(void *ctx, uint32_t number)
{
    const struct solo *solo = ctx;
    const struct layout_layer *shape = shape_of(solo, number);
    const struct solo_layer *layer = &solo->layers[number];
    size_t weights = (size_t)shape->rows * shape->cols;
    float *to = save_plane(solo->save, number, 0);
    memcpy(to, layer->own.weights, weights * sizeof *to);
    if (shape->bias)
        memcpy(to + weights, layer->own.bias, shape->rows * sizeof *to);
    for (uint32_t k = 1; k < save_planes(solo->save); k++) {
        to = save_plane(solo->save, number, k);
        uint64_t count = 0;
        for (uint64_t at = 0; at < shape->floats; at += count) {
            const float *from = find_state(solo, number, k, at, &count);
            memcpy(to + at, from, (size_t)count * sizeof *to);
        }
    }
    return layer->steps;
}

void solo_resume(struct solo *solo, const struct checkpoint *from)
{
    solo->clock = from->clock;
    for (uint32_t i = 0; i < solo->agreement->count; i++) {
        solo->layers[i].steps = from->layers[i].steps;
        for (uint32_t k = 1; k <= from->states; k++) {
            uint64_t count = 0;
            for (uint64_t at = 0; at < shape_of(solo, i)->floats; at += count) {
                float *to = find_state(solo, i, k, at, &count);
                memcpy(to, from->layers[i].state[k - 1] + at, (size_t)count * sizeof *to);
            }
        }
    }
}

void solo_set_save(struct solo *solo, struct save *save)
{
    solo->save = save;
}

/* ---- the calls ---- */

/* Sgd takes factors as they are; for anything else they are multiplied out. */
static bool takes_factors(const struct solo *solo, const struct update *update)
{
    return update->u != NULL && update->factor_rows > 0 && !solo->agreement->rules.aggregate &&
           ops_is_sgd(&solo->agreement->optim);
}

static tri_status keep_factors(struct solo *solo, uint32_t number, tri_error *err)
{
    struct solo_layer *layer = &solo->layers[number];
    const struct layout_layer *shape = shape_of(solo, number);
    struct update *update = &layer->waiting;
    uint64_t most = solo->agreement->layers[number].max_factor_rows;
    if (layer->copies == NULL)
        layer->copies = floats_new(solo->mem, most * ((uint64_t)shape->rows + shape->cols));
    if (layer->copies == NULL)
        return fail_nomem(err, "factors");
    float *v = layer->copies + most * shape->rows;
    memcpy(layer->copies, update->u, (size_t)update->factor_rows * shape->rows * sizeof *v);
    memcpy(v, update->v, (size_t)update->factor_rows * shape->cols * sizeof *v);
    update->u = layer->copies;
    update->v = v;
    return TRI_OK;
}

tri_status solo_update(struct solo *solo, uint32_t number, const struct update *update,
                       tri_error *err)
{
    struct solo_layer *layer = &solo->layers[number];
    if (layer->given || layer->open)
        return fail(err, TRI_EARG, "layer '%.60s' was not synced since its last update",
                    shape_of(solo, number)->name);
    layer->waiting = *update;
    tri_status status = TRI_OK;
    if (!takes_factors(solo, update))
        status = forms_make_dense(&solo->forms, number, &layer->waiting, err);
    else if (update->params_busy)
        status = keep_factors(solo, number, err);
    if (status != TRI_OK)
        return status;
    if (!takes_factors(solo, update))
        layer->waiting.u = layer->waiting.v = NULL;
    layer->given = layer->open = layer->pending = true;
    if (!update->params_busy)
        apply(solo, number);
    return TRI_OK;
}

void solo_sync(struct solo *solo, uint32_t number)
{
    struct solo_layer *layer = &solo->layers[number];
    if (layer->pending)
        apply(solo, number);
    layer->open = false;
}

uint64_t solo_clock(struct solo *solo)
{
    const struct agreement *agreement = solo->agreement;
    for (uint32_t i = 0; i < agreement->count; i++) {
        struct solo_layer *layer = &solo->layers[i];
        if (layer->pending)
            apply(solo, i);
        if (!layer->given && agreement->rules.aggregate) /* a mean of nothing */
            memset(layer->own.result, 0,
                   (size_t)shape_of(solo, i)->floats * sizeof *layer->own.result);
        layer->given = false;
    }
    solo->clock++;
    bool wanted;
    if (solo->save != NULL && save_presses(solo->save, solo->clock, 0, &wanted))
        save_wait_written(solo->save);
    if (solo->save != NULL && save_due(solo->save, solo->clock, 0) > 0) {
        save_keep(solo->save, solo->clock);
        save_begin(solo->save, solo->clock, (struct save_source){solo, copy_layer});
    }
    return solo->clock;
}

const struct agreement *solo_agreement(const struct solo *solo)
{
    return solo->agreement;
}

/* ---- making ---- */

static tri_status make(struct solo *solo, const struct store_layer *layers, tri_error *err)
{
    const struct agreement *agreement = solo->agreement;
    tri_status status = forms_init(&solo->forms, agreement->layout, solo->mem, err);
    if (status != TRI_OK)
        return status;
    solo->layers = mem_array(solo->mem, agreement->count, sizeof *solo->layers);
    solo->scratch = mem_array(solo->mem, 1, product_scratch_bytes());
    if (solo->layers == NULL || solo->scratch == NULL)
        return fail_nomem(err, "a job");
    uint64_t floats = agreement->rules.aggregate ? 0 : agreement->optim.ops->state_floats;
    for (uint32_t i = 0; i < agreement->count; i++) {
        solo->layers[i].own = layers[i];
        if (floats == 0)
            continue;
        solo->layers[i].state =
            floats_zero(solo->mem, floats * agreement->layout->layers[i].floats);
        if (solo->layers[i].state == NULL)
            return fail_nomem(err, "the optimiser's state");
    }
    return TRI_OK;
}

tri_status solo_open(struct agreement *agreement, const struct store_layer *layers,
                     const struct mem *mem, struct solo **out, tri_error *err)
{
    struct solo *solo = mem_array(mem, 1, sizeof *solo);
    if (solo == NULL) {
        agree_free(agreement);
        return fail_nomem(err, "a job");
    }
    solo->mem = mem;
    solo->agreement = agreement;
    tri_status status = make(solo, layers, err);
    if (status == TRI_OK)
        *out = solo;
    else
        solo_close(solo);
    return status;
}

void solo_close(struct solo *solo)
{
    if (solo == NULL)
        return;
    for (uint32_t i = 0; solo->layers != NULL && i < solo->agreement->count; i++) {
        floats_free(solo->mem, solo->layers[i].state);
        floats_free(solo->mem, solo->layers[i].copies);
    }
    forms_fini(&solo->forms);
    mem_free(solo->mem, solo->layers);
    mem_free(solo->mem, solo->scratch);
    agree_free(solo->agreement);
    mem_free(solo->mem, solo);
}
