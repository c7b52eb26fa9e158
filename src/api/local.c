/* mode = local: the calls around a region of shared memory.
 *
 * The learner of rank i has seat i. An update goes into this iteration's slot as it is given, and
 * tri_clock publishes the slot; what the program reads is refreshed by the first tri_sync of an
 * iteration. Behind the program's layers the region has its kept values, as layers that nobody
 * steps, so that a process that comes later finds them. */
#include "api/local.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/job.h"
#include "base/crc32c.h"
#include "local/planes.h"
#include "local/update.h"

struct shared_layer {
    bool given, open; /* updated in this iteration; and not synced since */
    bool in_place;    /* the program reads the shared ones */
    bool copied;      /* the program's copy is of version: */
    uint64_t version;
};

struct shared {
    const struct mem *mem;
    struct agreement *agreement;
    struct forms forms;
    struct local_job *job;
    struct local_about about;
    struct local_learner *learner; /* NULL: it has left */
    struct local_service *service; /* rank 0, if nobody else serves */
    bool watched;
    struct local_faults faults; /* for tests */
    pthread_mutex_t lock;       /* of the next six, for layers in several threads */
    struct local_gradient *gradient;
    bool refreshed, stepping;
    float lr;
    uint64_t count;
    uint64_t wait_us;
    struct shared_layer *layers;
    uint64_t first, clock;
    uint64_t sent, received; /* bytes; __atomic */
    bool failed;             /* nobody is to be waited for */
    struct save *save;
    struct local_snapshot snapshot; /* for it */
};

/* ---- names ---- */

void shared_name(const char *job, char out[LOCAL_NAME_BYTES])
{
    int len = snprintf(out, LOCAL_NAME_BYTES, "%u-%s", (unsigned)getuid(), job);
    bool same = len < LOCAL_NAME_BYTES;
    for (char *c = out; *c != '\0'; c++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *c) ==
            NULL) {
            *c = '_';
            same = false;
        }
    size_t end = strlen(out) < LOCAL_NAME_BYTES - 10 ? strlen(out) : LOCAL_NAME_BYTES - 10;
    if (!same) /* two names may look alike now */
        (void)snprintf(out + end, 10, "-%08x", (unsigned)crc32c(0, job, strlen(job)));
}

static const char *const kept_prefixes[] = {[TRI_F32] = "#f32:", [TRI_U64] = "#u64:"};

bool shared_kept(const struct local_layer *layer, struct checkpoint_kept *out)
{
    for (int type = TRI_F32; type <= TRI_U64; type++) {
        size_t len = strlen(kept_prefixes[type]);
        if (strncmp(layer->name, kept_prefixes[type], len) != 0)
            continue;
        uint64_t floats = (uint64_t)layer->rows * layer->cols;
        *out = (struct checkpoint_kept){.name = layer->name + len,
                                        .type = (tri_type)type,
                                        .count = type == TRI_U64 ? floats / 2 : floats};
        return true;
    }
    return false;
}

static uint64_t kept_floats(const struct checkpoint_kept *kept)
{
    return kept->type == TRI_U64 ? 2 * kept->count : kept->count;
}

static size_t kept_bytes(const struct checkpoint_kept *kept)
{
    return (size_t)kept_floats(kept) * sizeof(float);
}

/* ---- checks ---- */

tri_status shared_check(tri_job *job, tri_error *err)
{
    struct agree_options *agree = &job->settings.agree;
    bool sync = job->settings.local == LOCAL_SYNC;
    const char *asked = agree->consistency;
    if (agree->aggregate) {
        fail(err, TRI_EINPUT, "mode = local cannot run a program that steps by itself");
        fail_why(err, "with TRI_AGGREGATE every rank has parameters of its own");
        fail_next(err, "let Trident step (TRI_PARAMETERS), or set mode = network");
        return TRI_EINPUT;
    }
    if (strncmp(asked, "ssp", 3) == 0 || (sync && strcmp(asked, "asp") == 0)) {
        fail(err, TRI_EINPUT, "consistency '%.40s' does not go with mode = local, local = %s",
             asked, local_mode_name((enum local_mode)job->settings.local));
        fail_next(err, "leave it out: sync is bsp, the others are asp");
        return TRI_EINPUT;
    }
    const char *optimizer = agree->optimizer != NULL ? agree->optimizer : "sgd";
    const char *against = job->settings.local != LOCAL_REPLICAS ? NULL
                          : job->settings.locked                ? "locked = on"
                          : job->settings.local_copies          ? "local_copies = on"
                          : strncmp(optimizer, "sgd", 3) != 0   ? optimizer
                                                                : NULL;
    if (against != NULL) {
        fail(err, TRI_EINPUT, "local = replicas does not go with %.40s", against);
        fail_why(err, "%s",
                 against == optimizer
                     ? "only sgd comes to the same in whatever order gradients come"
                     : "learners read nothing but their own copies anyway");
        fail_next(err, "%s",
                  against == optimizer ? "take optimizer sgd, or local = server"
                                       : "leave that out");
        return TRI_EINPUT;
    }
    if (agree->workers > LOCAL_LEARNERS_MAX) {
        fail(err, TRI_EINPUT, "%u learners are too many for one machine", (unsigned)agree->workers);
        fail_next(err, "take at most %d, or mode = network", LOCAL_LEARNERS_MAX);
        return TRI_EINPUT;
    }
    agree->consistency = sync ? "bsp" : "asp";
    agree->scheme = "ps"; /* any form may come, from call to call */
    agree->servers = agree->colocated = 1;
    return TRI_OK;
}

static tri_status differ(const struct shared *shared, const char *name, const char *what,
                         tri_error *err)
{
    fail(err, TRI_EMISMATCH, "rank 0 of job '%s' has %s '%.60s'", shared->about.name, what, name);
    fail_next(err, "run the same program with the same options on all ranks");
    return TRI_EMISMATCH;
}

/* Is the region that was found the one that this process would have made? */
static tri_status check_region(const struct shared *shared, const struct local_options *want,
                               tri_error *err)
{
    const struct local_about *about = &shared->about;
    if (about->layer_count != want->layer_count)
        return differ(shared, local_mode_name(about->mode), "another number of layers, mode", err);
    if (about->learners != want->learners || about->mode != want->mode ||
        about->locked != want->locked)
        return differ(shared, local_mode_name(about->mode),
                      "another number of ranks, or local =", err);
    if (strcmp(about->optim.ops->name, want->optim->ops->name) != 0)
        return differ(shared, about->optim.ops->name, "optimizer", err);
    for (uint32_t i = 0; i < want->layer_count; i++) {
        const struct local_layer_info *own = &want->layers[i];
        const struct local_layer *other = &about->layers[i];
        if (strcmp(own->name, other->name) != 0 || own->rows != other->rows ||
            own->cols != other->cols || own->bias != (other->bias > 0))
            return differ(shared, own->name, "no such layer as", err);
    }
    return TRI_OK;
}

/* ---- beginning ---- */

/* Every learner multiplies the factors of all out, so they must be smaller than what they make. */
static bool gives_factors(const struct agree_layer *layer)
{
    const uint64_t sides = (uint64_t)layer->rows + layer->cols;
    return layer->window_floats > 0 ||
           (layer->max_factor_rows > 0 &&
            layer->max_factor_rows * sides < (uint64_t)layer->rows * layer->cols);
}

/* Rows go as rows where they take no more room than a dense gradient would. */
static struct local_layer_info describe(const struct settings *settings,
                                        const struct agree_layer *layer)
{
    const bool replicas = settings->local == LOCAL_REPLICAS;
    struct local_layer_info info = {
        .name = layer->name, .rows = layer->rows, .cols = layer->cols, .bias = layer->bias};
    if (replicas && gives_factors(layer)) {
        info.max_factors = layer->max_factor_rows;
        info.window = layer->window_floats;
        info.common = layer->reads_pending && info.window == 0 && settings->local_common > 0 &&
                      (uint64_t)layer->rows * layer->cols >= settings->local_common;
    } else if (replicas && layer->kind == TRI_EMBED && layer->max_rows > 0) {
        info.max_rows = layer->max_rows;
    } else if (layer->kind == TRI_EMBED) {
        uint64_t most = (uint64_t)layer->rows * layer->cols / (layer->cols + 2);
        info.max_rows = (uint32_t)(most > 16 ? most - 16 : 0);
        info.dense_too = true;
    }
    return info;
}

static tri_status describe_kept(const struct checkpoint_kept *kept, char name[LOCAL_NAME_BYTES],
                                struct local_layer_info *out, tri_error *err)
{
    int len = snprintf(name, LOCAL_NAME_BYTES, "%s%s", kept_prefixes[kept->type], kept->name);
    if (len >= LOCAL_NAME_BYTES || kept_floats(kept) > UINT32_MAX)
        return fail(err, TRI_EARG, "kept values '%.60s' are too long, or their name is",
                    kept->name);
    *out = (struct local_layer_info){.name = name, .rows = 1, .cols = (uint32_t)kept_floats(kept)};
    return TRI_OK;
}

/* Makes or finds the region. *filled: it has its parameters. */
static tri_status find_region(tri_job *job, struct shared *shared, struct local_options *want,
                              bool *filled, tri_error *err)
{
    tri_status status;
    *filled = true;
    if (job->settings.node == 0)
        status = local_share_make(want, shared->watched, &shared->job, filled, err);
    else
        status = local_share_find(want, shared->watched, &shared->job, err);
    if (status != TRI_OK)
        return status;
    local_about(shared->job, &shared->about);
    return check_region(shared, want, err);
}

/* The program's layers, the kept values, the note: one behind the other. */
static tri_status describe_all(const tri_job *job, struct local_layer_info *layers,
                               char (*names)[LOCAL_NAME_BYTES], tri_error *err)
{
    tri_status status = TRI_OK;
    for (uint32_t i = 0; i < job->count; i++)
        layers[i] = describe(&job->settings, &job->layers[i]);
    for (uint32_t i = 0; i < job->kept_count && status == TRI_OK; i++)
        status = describe_kept(&job->kept[i], names[i], &layers[job->count + i], err);
    layers[job->count + job->kept_count] =
        (struct local_layer_info){.name = LOCAL_NOTE_NAME, .rows = 1, .cols = LOCAL_NOTE_COLS};
    return status;
}

static tri_status open_region(tri_job *job, struct shared *shared, bool *filled, tri_error *err)
{
    uint32_t count = job->count + job->kept_count + 1;
    char name[LOCAL_NAME_BYTES];
    struct local_layer_info *layers = mem_array(job->mem, count, sizeof *layers);
    char(*names)[LOCAL_NAME_BYTES] =
        mem_array(job->mem, (size_t)job->kept_count + 1, sizeof *names);
    if (layers == NULL || names == NULL) {
        mem_free(job->mem, layers);
        mem_free(job->mem, names);
        return fail_nomem(err, "a job");
    }
    shared_name(job->settings.job, name);
    struct local_options want = {.mem = job->mem,
                                 .log = &job->log,
                                 .name = name,
                                 .mode = (enum local_mode)job->settings.local,
                                 .locked = job->settings.locked,
                                 .learners = job->settings.agree.workers,
                                 .optim = &shared->agreement->optim,
                                 .layers = layers,
                                 .layer_count = count,
                                 .wait_ms = job->settings.timeout_ms};
    tri_status status = describe_all(job, layers, names, err);
    if (status == TRI_OK)
        status = find_region(job, shared, &want, filled, err);
    mem_free(job->mem, layers);
    mem_free(job->mem, names);
    return status;
}

static float *kept_at(const tri_job *job, uint32_t kept)
{
    return local_shared(job->shared->job, job->count + kept);
}

/* What the optimiser remembers, and the counts, go on from a checkpoint. */
static tri_status resume(struct shared *shared, const struct checkpoint *from, tri_error *err)
{
    struct local_snapshot snapshot = {0};
    tri_status status = local_snapshot_open(shared->job, &snapshot, err);
    if (status == TRI_OK)
        status = local_snapshot_take(shared->job, &snapshot, err);
    if (status == TRI_OK) {
        for (uint32_t i = 0; i < from->layer_count; i++) {
            snapshot.steps[i] = from->layers[i].steps;
            for (uint32_t k = 0; k < from->states; k++)
                local_plane_put(shared->job, &snapshot, i, k, from->layers[i].state[k]);
        }
        for (uint32_t i = 0; i < shared->about.learners; i++)
            snapshot.applied[i] = from->clock;
        snapshot.version =
            from->clock * (shared->about.mode == LOCAL_SYNC ? 1 : shared->about.learners);
        status = local_restore(shared->job, &snapshot, false, err);
    }
    local_snapshot_close(shared->job, &snapshot);
    return status;
}

static tri_status fill(const tri_job *job, const struct checkpoint *from, tri_error *err)
{
    struct shared *shared = job->shared;
    for (uint32_t i = 0; i < job->count; i++) {
        const struct agree_layer *layer = &job->layers[i];
        size_t matrix = (size_t)layer->rows * layer->cols;
        float *to = local_shared(shared->job, i);
        memcpy(to, job->memory[i].weights, matrix * sizeof *to);
        if (layer->bias)
            memcpy(to + matrix, job->memory[i].bias, layer->rows * sizeof *to);
    }
    for (uint32_t i = 0; i < job->kept_count; i++)
        memcpy(kept_at(job, i), job->kept[i].values, kept_bytes(&job->kept[i]));
    tri_status status = from != NULL ? resume(shared, from, err) : TRI_OK;
    if (status == TRI_OK)
        local_share_filled(shared->job, from != NULL ? from->clock : 0);
    return status;
}

/* Iterations that this seat has done. In a round all have done the same number; a round that ended
 * while this learner sat down is waited for, since those that follow wait for this learner. */
static tri_status find_clock(const tri_job *job, uint64_t *clock, tri_error *err)
{
    struct shared *shared = job->shared;
    struct local_seat_stats seat;
    local_seat_stats(shared->job, job->settings.node, &seat);
    *clock = seat.counts.applied + seat.counts.waiting + seat.counts.torn;
    if (shared->about.mode != LOCAL_SYNC)
        return TRI_OK;
    struct local_stats stats;
    local_stats(shared->job, &stats);
    *clock = stats.version;
    if (seat.joins == 1) /* no round can have begun without it */
        return TRI_OK;
    struct local_snapshot snapshot = {0};
    tri_status status = local_snapshot_open(shared->job, &snapshot, err);
    if (status == TRI_OK)
        status = local_snapshot_take(shared->job, &snapshot, err);
    *clock = snapshot.version;
    local_snapshot_close(shared->job, &snapshot);
    return status;
}

static void copy_layer(tri_job *job, uint32_t number)
{
    struct shared *shared = job->shared;
    const struct agree_layer *layer = &job->layers[number];
    const struct store_layer *to = &job->memory[number];
    const size_t matrix = (size_t)layer->rows * layer->cols;
    if (shared->learner != NULL) {
        local_copy(shared->learner, number, to->weights, to->bias);
    } else {
        const float *from = local_shared(shared->job, number);
        update_copy(to->weights, from, matrix);
        if (layer->bias)
            update_copy(to->bias, from + matrix, layer->rows);
    }
    (void)__atomic_fetch_add(&shared->received, shared->about.layers[number].floats * sizeof(float),
                             __ATOMIC_RELAXED);
}

static tri_status sit_down(tri_job *job, tri_error *err)
{
    struct shared *shared = job->shared;
    const bool copies = job->settings.local_copies;
    const struct local_learner_options options = {
        .seat = job->settings.node, .push_thread = copies, .pull_thread = copies};
    tri_status status = local_join(shared->job, &options, &shared->learner, err);
    if (status == TRI_OK)
        status = find_clock(job, &shared->clock, err);
    if (status != TRI_OK)
        return status;
    shared->first = local_share_first(shared->job);
    for (uint32_t i = 0; i < job->kept_count; i++)
        memcpy(job->kept[i].values, kept_at(job, i), kept_bytes(&job->kept[i]));
    for (uint32_t i = 0; i < job->count; i++)
        copy_layer(job, i);
    return TRI_OK;
}

static tri_status begin(tri_job *job, const struct checkpoint *from, tri_error *err)
{
    struct shared *shared = job->shared;
    bool filled = true;
    tri_status status = forms_init(&shared->forms, shared->agreement->layout, job->mem, err);
    shared->layers = mem_array(job->mem, job->count, sizeof *shared->layers);
    if (status == TRI_OK && shared->layers == NULL)
        status = fail_nomem(err, "a job");
    if (status == TRI_OK)
        status = open_region(job, shared, &filled, err);
    if (status == TRI_OK)
        status = local_faults_arm(shared->job, job->settings.node, job->settings.local_fault,
                                  &shared->faults, err);
    if (status == TRI_OK && !filled)
        status = fill(job, from, err);
    const enum local_mode mode = shared->about.mode;
    if (status == TRI_OK && job->settings.node == 0 && !shared->watched &&
        (mode == LOCAL_SERVER || mode == LOCAL_SYNC))
        status = local_service_start(shared->job, &shared->service, err);
    if (status == TRI_OK)
        status = sit_down(job, err);
    return status;
}

tri_status shared_start(tri_job *job, struct agreement *agreement, const struct checkpoint *from,
                        tri_error *err)
{
    struct shared *shared = mem_array(job->mem, 1, sizeof *shared);
    if (shared == NULL) {
        agree_free(agreement);
        return fail_nomem(err, "a job");
    }
    job->shared = shared;
    shared->mem = job->mem;
    shared->agreement = agreement;
    shared->watched = job->settings.server_apart;
    (void)pthread_mutex_init(&shared->lock, NULL);
    job->agreement = agreement;
    tri_status status = begin(job, from, err);
    shared->failed = status != TRI_OK;
    job->clock = shared->clock;
    return status;
}

/* ---- the loop ---- */

/* All that is not the caller's mistake ends the job. */
static tri_status note(struct shared *shared, tri_status status)
{
    if (status != TRI_OK && status != TRI_EARG && status != TRI_ETIMEOUT)
        shared->failed = true;
    return status;
}

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
    copy_layer(job, number);
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
            memcpy(kept_at(job, i), job->kept[i].values, kept_bytes(&job->kept[i]));
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

/* ---- leaving ---- */

static tri_status leave(struct shared *shared, tri_error *err)
{
    tri_status status = TRI_OK;
    if (shared->learner == NULL)
        return TRI_OK;
    if (shared->stepping)
        local_direct_end(shared->learner);
    if (!shared->failed)
        status = local_flush(shared->learner, err);
    local_leave(shared->learner);
    shared->learner = NULL;
    shared->gradient = NULL;
    shared->stepping = false;
    return status;
}

tri_status shared_finish(tri_job *job, tri_error *err)
{
    struct shared *shared = job->shared;
    tri_status status = TRI_OK;
    if (shared->about.mode == LOCAL_REPLICAS && shared->learner != NULL)
        status = note(shared, local_share_drain(shared->learner, shared->watched, err));
    if (status == TRI_OK)
        status = note(shared, leave(shared, err));
    if (status == TRI_OK)
        status = local_share_end(shared->job, job->settings.node, shared->watched, err);
    if (status != TRI_OK)
        return note(shared, status);
    for (uint32_t i = 0; i < job->count; i++) {
        shared->layers[i].open = false;
        if (!shared->layers[i].in_place)
            copy_layer(job, i);
    }
    return TRI_OK;
}

void shared_close(tri_job *job)
{
    struct shared *shared = job->shared;
    if (shared == NULL)
        return;
    uint32_t seat = job->settings.node;
    if (shared->job != NULL) {
        (void)leave(shared, NULL);
        if (shared->service != NULL && !shared->failed)
            (void)local_share_end(shared->job, seat, false, NULL);
        if (shared->service != NULL)
            local_stop(shared->job);
        local_service_stop(shared->service);
        if (!shared->watched && !shared->failed)
            local_share_await_all(shared->job);
        if (!shared->watched && local_share_is_last(shared->job, seat))
            local_remove(shared->job);
        local_snapshot_close(shared->job, &shared->snapshot);
        local_close(shared->job);
    }
    forms_fini(&shared->forms);
    mem_free(shared->mem, shared->layers);
    agree_free(shared->agreement);
    (void)pthread_mutex_destroy(&shared->lock);
    mem_free(shared->mem, shared);
    job->shared = NULL;
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
