/* mode = local: how a job around a region of shared memory begins and ends.
 *
 * Rank 0 makes the region and fills it, the others find it. Behind the program's layers the region
 * has its kept values, as layers that nobody steps, so that a process that comes later finds them.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/local_inside.h"
#include "base/crc32c.h"
#include "local/planes.h"
#include "local/update.h"

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

uint64_t shared_kept_floats(const struct checkpoint_kept *kept)
{
    return kept->type == TRI_U64 ? 2 * kept->count : kept->count;
}

size_t shared_kept_bytes(const struct checkpoint_kept *kept)
{
    return (size_t)shared_kept_floats(kept) * sizeof(float);
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
    if (len >= LOCAL_NAME_BYTES || shared_kept_floats(kept) > UINT32_MAX)
        return fail(err, TRI_EARG, "kept values '%.60s' are too long, or their name is",
                    kept->name);
    *out = (struct local_layer_info){
        .name = name, .rows = 1, .cols = (uint32_t)shared_kept_floats(kept)};
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

float *shared_kept_at(const tri_job *job, uint32_t kept)
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
        memcpy(shared_kept_at(job, i), job->kept[i].values, shared_kept_bytes(&job->kept[i]));
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

void shared_copy_layer(tri_job *job, uint32_t number)
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
        memcpy(job->kept[i].values, shared_kept_at(job, i), shared_kept_bytes(&job->kept[i]));
    for (uint32_t i = 0; i < job->count; i++)
        shared_copy_layer(job, i);
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
            shared_copy_layer(job, i);
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
    for (uint32_t i = 0; i < job->count && shared->layers != NULL; i++)
        mem_free(shared->mem, shared->layers[i].others);
    mem_free(shared->mem, shared->layers);
    agree_free(shared->agreement);
    (void)pthread_mutex_destroy(&shared->lock);
    mem_free(shared->mem, shared);
    job->shared = NULL;
}
