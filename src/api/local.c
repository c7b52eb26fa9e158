/* mode = local: the calls of the loop around a region of shared memory.
 *
 * The learner of rank i has seat i. An update goes into this iteration's slot as it is given, and
 * tri_clock publishes the slot; what the program reads is refreshed by the first tri_sync of an
 * iteration. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/local_inside.h"
#include "local/planes.h"

/* ---- the loop ---- */

static tri_status refresh(struct shared *shared, tri_error *err)
{
    tri_status status = TRI_OK;
    (void)pthread_mutex_lock(&shared->lock);
    if (!shared->refreshed)
        status = local_share_refresh(shared->learner, &shared->wait_us, err);
    shared->refreshed = shared->refreshed || status == TRI_OK;
    (void)pthread_mutex_unlock(&shared->lock);
    return note(shared, status);
}

tri_status shared_sync_rows(tri_job *job, uint32_t number, uint32_t rows, tri_error *err)
{
    struct shared *shared = job->shared;
    struct shared_layer *layer = &shared->layers[number];
    layer->open = false;
    if (shared->learner == NULL) /* nothing changes any more */
        return TRI_OK;
    tri_status status = refresh(shared, err);
    if (status != TRI_OK)
        return status;
    (void)pthread_mutex_lock(&shared->lock);
    local_catch_up(shared->learner, number, layer->in_place ? rows : job->layers[number].rows);
    (void)pthread_mutex_unlock(&shared->lock);
    local_touch(shared->learner);
    uint64_t version = local_version(shared->learner);
    if (layer->in_place || (layer->copied && layer->version == version))
        return TRI_OK;
    shared_copy_layer(job, number);
    layer->version = version;
    layer->copied = true;
    return TRI_OK;
}

tri_status shared_sync_pending(tri_job *job, uint32_t number, tri_pending *out, tri_error *err)
{
    struct shared *shared = job->shared;
    struct shared_layer *layer = &shared->layers[number];
    const struct local_layer *shape = &shared->about.layers[number];
    struct local_pending pending;
    *out = (tri_pending){.weights = job->memory[number].weights, .bias = job->memory[number].bias};
    if ((!layer->in_place && !shape->common) || shared->learner == NULL)
        return shared_sync_rows(job, number, job->layers[number].rows, err);
    layer->open = false;
    tri_status status = refresh(shared, err);
    if (status != TRI_OK)
        return status;
    (void)pthread_mutex_lock(&shared->lock);
    local_pend(shared->learner, number, &pending);
    (void)pthread_mutex_unlock(&shared->lock);
    local_touch(shared->learner);
    *out = (tri_pending){
        .count = (uint32_t)pending.count,
        .u = pending.u,
        .v = pending.v,
        .weights = pending.weights,
        .bias = shape->bias > 0 ? pending.weights + (size_t)shape->rows * shape->cols : NULL};
    return TRI_OK;
}

static tri_status check_update(const struct shared *shared, uint32_t number,
                               const struct update *update, tri_error *err)
{
    const struct shared_layer *layer = &shared->layers[number];
    const struct local_layer *shape = &shared->about.layers[number];
    if (layer->given || layer->open)
        return fail(err, TRI_EARG, "layer '%.60s' was not synced since its last update",
                    shape->name);
    if (shared->learner == NULL || shared->stepping)
        return fail(err, TRI_EARG, "the update of layer '%.60s' comes after %s", shape->name,
                    shared->stepping ? "tri_step" : "tri_finish");
    for (uint32_t i = 0; i < update->row_count; i++)
        if (update->row_numbers[i] >= shape->rows)
            return fail(err, TRI_EARG, "layer '%.60s' has no row %u, only %u rows", shape->name,
                        (unsigned)update->row_numbers[i], (unsigned)shape->rows);
    return TRI_OK;
}

static bool is_same(float a, float b)
{
    return !(a < b || a > b);
}

/* One rate and one count for a gradient. With sgd another rate is another factor. */
static tri_status check_alike(const struct shared *shared, uint32_t number,
                              const struct update *update, tri_error *err)
{
    const char *name = shared->about.layers[number].name;
    if (update->count != shared->count)
        return fail(err, TRI_EARG,
                    "the update of layer '%.60s' counts %" PRIu64 ", others of this iteration "
                    "%" PRIu64,
                    name, update->count, shared->count);
    bool same = is_same(update->lr, shared->lr);
    bool can = strcmp(shared->about.optim.ops->name, "sgd") == 0 && shared->lr > 0;
    if (same || can)
        return TRI_OK;
    fail(err, TRI_EARG, "the update of layer '%.60s' has another lr than those before it", name);
    fail_next(err, "in mode = local layers can differ in lr with optimizer sgd only");
    return TRI_EARG;
}

/* Opens the slot of this iteration with its first update. */
static tri_status open_slot(struct shared *shared, uint32_t number, const struct update *update,
                            tri_error *err)
{
    tri_status status = TRI_OK;
    (void)pthread_mutex_lock(&shared->lock);
    if (shared->gradient == NULL) {
        status = local_share_take(shared->learner, &shared->gradient, &shared->wait_us, err);
        shared->lr = update->lr;
        shared->count = update->count;
    } else {
        status = check_alike(shared, number, update, err);
    }
    (void)pthread_mutex_unlock(&shared->lock);
    return note(shared, status);
}

static uint64_t put_rows(const struct local_rows *rows, const struct local_layer *shape,
                         const struct update *update, float scale)
{
    for (uint32_t i = 0; i < update->row_count; i++) {
        float *to = rows->values + (size_t)i * rows->stride;
        const float *from = update->row_values + (size_t)i * shape->cols;
        rows->numbers[i] = update->row_numbers[i];
        for (uint32_t k = 0; k < shape->cols; k++)
            to[k] = scale * from[k];
        if (shape->bias > 0)
            to[shape->cols] = 0;
    }
    return (uint64_t)update->row_count * (rows->stride + 1);
}

static void put_floats(float *to, const float *from, size_t n, float scale)
{
    if (from == to && !(scale < 1 || scale > 1))
        return;
    for (size_t i = 0; i < n; i++)
        to[i] = scale * from[i];
}

static uint64_t put_factors(const struct local_factors *factors, const struct local_layer *shape,
                            const struct update *update, float scale)
{
    const size_t us = (size_t)update->factor_rows * shape->rows;
    const size_t vs = (size_t)update->factor_rows * factors->width;
    put_floats(factors->u, update->u, us, scale);
    memcpy(factors->v, update->v, vs * sizeof *factors->v);
    if (factors->at != NULL)
        memcpy(factors->at, update->at, us * sizeof *factors->at);
    return us + vs + (factors->at != NULL ? us : 0);
}

static tri_status no_room(const struct local_layer *shape, tri_error *err)
{
    fail(err, TRI_EARG, "the update of layer '%.60s' is not %s", shape->name,
         shape->max_factors > 0 ? "factors" : "rows, or of too many rows");
    fail_why(err, "with local = replicas it has room for what tri_layer was told of: up to %u",
             (unsigned)(shape->max_factors > 0 ? shape->max_factors : shape->max_rows));
    fail_next(err, "give what tri_scheme_of() says, or describe the layer otherwise");
    return TRI_EARG;
}

/* Factors and rows are made dense right in the slot. */
static tri_status put_dense(struct shared *shared, uint32_t number, const struct update *update,
                            float scale, tri_error *err)
{
    const struct local_layer *shape = &shared->about.layers[number];
    size_t matrix = (size_t)shape->rows * shape->cols;
    struct update dense = *update;
    float *to = local_dense(shared->gradient, number);
    if (to == NULL)
        return no_room(shape, err);
    shared->forms.dense[number] = to;
    tri_status status = forms_make_dense(&shared->forms, number, &dense, err);
    shared->forms.dense[number] = NULL;
    if (status != TRI_OK)
        return status;
    put_floats(to, dense.dense, matrix, scale);
    if (shape->bias > 0)
        put_floats(to + matrix, dense.dense_bias, shape->rows, scale);
    return TRI_OK;
}

tri_status shared_update(tri_job *job, uint32_t number, const struct update *update, tri_error *err)
{
    struct shared *shared = job->shared;
    const struct local_layer *shape = &shared->about.layers[number];
    struct local_rows rows;
    struct local_factors factors;
    tri_status status = check_update(shared, number, update, err);
    if (status == TRI_OK)
        status = open_slot(shared, number, update, err);
    if (status != TRI_OK)
        return status;
    float scale = is_same(update->lr, shared->lr) ? 1 : update->lr / shared->lr;
    uint64_t floats = shape->floats;
    if (update->row_numbers != NULL &&
        local_rows(shared->gradient, number, update->row_count, &rows))
        floats = put_rows(&rows, shape, update, scale);
    else if (update->u != NULL &&
             local_factors(shared->gradient, number, update->factor_rows, &factors))
        floats = put_factors(&factors, shape, update, scale);
    else
        status = put_dense(shared, number, update, scale, err);
    if (status != TRI_OK)
        return note(shared, status);
    (void)__atomic_fetch_add(&shared->sent, floats * sizeof(float), __ATOMIC_RELAXED);
    shared->layers[number].given = shared->layers[number].open = true;
    return TRI_OK;
}

#define SCALE_LEAST 1e-6F /* of a layer's rate by the gradient's: by less nobody divides */

/* Their steps in units of this update's rate, which may be another than that of the gradient. */
static void tell_others(const struct local_others *from, float scale, tri_other *to)
{
    for (size_t k = 0; k < from->count; k++)
        to[k] = (tri_other){.u = from->at[k].u,
                            .v = from->at[k].v,
                            .at = from->at[k].at,
                            .by = from->at[k].by / scale};
}

tri_status shared_learn(tri_job *job, uint32_t number, const struct update *update,
                        tri_learning *out, tri_error *err)
{
    struct shared *shared = job->shared;
    struct shared_layer *layer = &shared->layers[number];
    struct local_others others;
    tri_status status = shared_update(job, number, update, err);
    const float scale = update->lr / shared->lr;
    if (status != TRI_OK || !layer->in_place || update->u == NULL || !(fabsf(scale) >= SCALE_LEAST))
        return status;
    if (layer->others == NULL)
        layer->others = mem_array(shared->mem, LOCAL_OTHERS, sizeof *layer->others);
    if (layer->others == NULL) /* others make the step */
        return TRI_OK;
    (void)pthread_mutex_lock(&shared->lock);
    out->steps =
        local_learn(shared->learner, number, shared->lr, (float)shared->count, &others) ? 1 : 0;
    (void)pthread_mutex_unlock(&shared->lock);
    if (out->steps == 0)
        return TRI_OK;
    tell_others(&others, scale, layer->others);
    out->count = (uint32_t)others.count;
    out->others = layer->others;
    return TRI_OK;
}

/* ---- the end of an iteration ---- */

static uint64_t copy_saved(void *ctx, uint32_t number)
{
    struct shared *shared = ctx;
    const struct local_layer *layer = &shared->about.layers[number];
    memcpy(save_plane(shared->save, number, 0), shared->snapshot.weights + layer->offset,
           (size_t)layer->floats * sizeof(float));
    for (uint32_t k = 1; k < save_planes(shared->save); k++)
        local_plane_get(shared->job, &shared->snapshot, number, k - 1,
                        save_plane(shared->save, number, k));
    return shared->snapshot.steps[number];
}

static tri_status save(struct shared *shared, tri_error *err)
{
    bool wanted;
    tri_status status = TRI_OK;
    if (save_presses(shared->save, shared->clock, 0, &wanted)) {
        status = local_settle(shared->learner, err); /* it may take long */
        save_wait_written(shared->save);
    }
    if (status != TRI_OK || save_due(shared->save, shared->clock, 0) == 0)
        return status;
    if (shared->snapshot.weights == NULL)
        status = local_snapshot_open(shared->job, &shared->snapshot, err);
    if (status == TRI_OK && shared->about.mode == LOCAL_REPLICAS)
        status = local_snapshot_own(shared->learner, &shared->snapshot, err);
    else if (status == TRI_OK)
        status = local_snapshot_take(shared->job, &shared->snapshot, err);
    if (status != TRI_OK)
        return status;
    save_keep(shared->save, shared->clock);
    save_begin(shared->save, shared->clock, (struct save_source){shared, copy_saved});
    return TRI_OK;
}

void shared_set_save(struct shared *shared, struct save *with)
{
    shared->save = with;
}

tri_status shared_clock(tri_job *job, uint64_t *clock, tri_error *err)
{
    struct shared *shared = job->shared;
    tri_status status = TRI_OK;
    if (shared->learner == NULL)
        return fail(err, TRI_EARG, "tri_clock comes after tri_finish");
    if (shared->stepping)
        local_direct_end(shared->learner);
    else if (shared->gradient != NULL)
        status = local_publish(shared->learner, shared->lr, (float)shared->count, err);
    if (status != TRI_OK)
        return note(shared, status);
    shared->stepping = shared->refreshed = false;
    shared->gradient = NULL;
    for (uint32_t i = 0; i < job->count; i++)
        shared->layers[i].given = false;
    shared->clock++;
    for (uint32_t i = 0; i < job->kept_count && job->settings.node == 0; i++)
        if (job->kept[i].type == TRI_F32)
            memcpy(shared_kept_at(job, i), job->kept[i].values, shared_kept_bytes(&job->kept[i]));
    if (shared->save != NULL)
        status = note(shared, save(shared, err));
    *clock = shared->clock;
    return status;
}

/* ---- in place ---- */

/* What can be read is a copy: one that is made under a lock, or the pull thread's. */
static bool reads_copies(const tri_job *job)
{
    const struct local_about *about = &job->shared->about;
    return about->locked || (job->settings.local_copies && about->mode != LOCAL_SYNC);
}

tri_status shared_place(tri_job *job, uint32_t number, float **weights, float **bias)
{
    struct shared *shared = job->shared;
    const struct local_layer *layer = &shared->about.layers[number];
    *weights = *bias = NULL;
    if (reads_copies(job) || layer->common)
        return TRI_OK;
    const float *own = shared->learner != NULL ? local_weights(shared->learner, number)
                                               : local_shared(shared->job, number);
    *weights = (float *)(uintptr_t)own; /* the region's, or this learner's part of it */
    if (layer->bias > 0)
        *bias = *weights + (size_t)layer->rows * layer->cols;
    shared->layers[number].in_place = true;
    job->memory[number].weights = *weights;
    job->memory[number].bias = *bias;
    return TRI_OK;
}

tri_status shared_step(tri_job *job, tri_error *err)
{
    struct shared *shared = job->shared;
    const char *what = shared->about.mode != LOCAL_DIRECT ? "needs local = direct"
                       : shared->about.locked             ? "does not go with locked"
                       : job->settings.local_copies       ? "does not go with local_copies"
                       : strcmp(shared->about.optim.ops->name, "sgd") != 0
                           ? "needs optimizer sgd: other optimisers remember something"
                       : shared->gradient != NULL ? "comes after tri_update"
                       : shared->learner == NULL  ? "comes after tri_finish"
                       : shared->stepping         ? "comes twice in an iteration"
                                                  : NULL;
    if (what != NULL)
        return fail(err, TRI_EARG, "tri_step %s", what);
    tri_status status = refresh(shared, err);
    if (status == TRI_OK)
        status = note(shared, local_direct_begin(shared->learner, err));
    shared->stepping = status == TRI_OK;
    return status;
}

/* ---- asking ---- */

const char *shared_scheme(const tri_job *job, uint32_t layer)
{
    const struct shared *shared = job->shared;
    return shared->about.layers[layer].max_factors > 0 ? "sfb" : NULL;
}

bool shared_query(const tri_job *job, const char *name, char *out, size_t cap)
{
    const struct shared *shared = job->shared;
    struct local_stats stats;
    local_stats(shared->job, &stats);
    const struct local_counts *counts = &stats.counts;
    const uint64_t before = shared->first * shared->about.learners; /* in an earlier region */
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"clock.first", shared->first},
        {"learners.alive", stats.alive},
        {"gradients.pushed", counts->pushed - before},
        {"gradients.applied", counts->applied - before},
        {"gradients.lost", counts->lost},
        {"gradients.torn", counts->torn},
        {"gradients.partial", counts->partial},
        {"gradients.discarded", counts->discarded},
        {"staleness.max", counts->stale_max},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(name, rows[i].name) == 0) {
            (void)snprintf(out, cap, "%" PRIu64, rows[i].value);
            return true;
        }
    uint64_t seen = 0;
    for (int i = 0; i < LOCAL_STALE; i++)
        seen += counts->stale[i];
    bool mean = strcmp(name, "staleness.mean") == 0;
    if (mean)
        (void)snprintf(out, cap, "%.6g", seen > 0 ? (double)counts->stale_sum / (double)seen : 0);
    return mean;
}

void shared_stats(const tri_job *job, struct host_stats *out)
{
    const struct shared *shared = job->shared;
    struct local_stats stats;
    local_stats(shared->job, &stats);
    out->sent_bytes = __atomic_load_n(&shared->sent, __ATOMIC_RELAXED);
    out->received_bytes = __atomic_load_n(&shared->received, __ATOMIC_RELAXED);
    out->messages = out->clocks - shared->first;
    out->wait_s = (double)__atomic_load_n(&shared->wait_us, __ATOMIC_RELAXED) / 1e6;
    out->live_workers = stats.alive;
}
