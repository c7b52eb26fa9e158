/* What a job keeps beyond its end: checkpoints, and what of the program's goes into them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/export.h"
#include "api/job.h"
#include "base/error.h"

/* ---- describing ---- */

static tri_status refuse(const tri_keep_info *info, const char *what, tri_error *err)
{
    const char *name = info->name != NULL && info->name[0] != '\0' ? info->name : "(no name)";
    return fail(err, TRI_EARG, "kept values '%.60s' %s", name, what);
}

static tri_status check(const tri_job *job, const tri_keep_info *info, tri_error *err)
{
    if (info->name == NULL || info->name[0] == '\0')
        return refuse(info, "have no name", err);
    if (info->values == NULL || info->count == 0)
        return refuse(info, "are none", err);
    if (info->type != TRI_F32 && info->type != TRI_U64)
        return refuse(info, "are of a type that this version does not know", err);
    if (job->agreement != NULL)
        return refuse(info, "come after tri_start", err);
    for (uint32_t i = 0; i < job->kept_count; i++)
        if (strcmp(job->kept[i].name, info->name) == 0)
            return refuse(info, "were described before", err);
    return TRI_OK;
}

EXPORT tri_status tri_keep(tri_job *job, const tri_keep_info *given, tri_error *err)
{
    tri_keep_info info = TRI_KEEP_INIT;
    if (job == NULL || given == NULL || given->size == 0)
        return fail(err, TRI_EARG, "tri_keep got no %s", job == NULL ? "job" : "values");
    memcpy(&info, given, given->size < sizeof info ? given->size : sizeof info);
    tri_status status = check(job, &info, err);
    if (status != TRI_OK)
        return status;
    void *kept = job->kept;
    char *name = mem_text(job->mem, info.name, strlen(info.name));
    if (name == NULL ||
        mem_grow(job->mem, &kept, &job->kept_cap, job->kept_count + 1, sizeof *job->kept) == NULL) {
        mem_free(job->mem, name);
        return fail_nomem(err, "kept values");
    }
    job->kept = kept;
    job->kept[job->kept_count++] = (struct checkpoint_kept){
        .name = name, .type = info.type, .count = info.count, .values = info.values};
    return TRI_OK;
}

EXPORT tri_status tri_save(tri_job *job, uint64_t clock, tri_error *err)
{
    if (job == NULL || !job->started)
        return fail(err, TRI_EARG, "tri_save got no job that has started");
    if (job->save == NULL)
        return TRI_OK;
    if (job->host != NULL)
        host_want_save(job->host, clock);
    else
        save_want(job->save, clock);
    return TRI_OK;
}

/* ---- resuming ---- */

static tri_status differ(const tri_job *job, const char *name, const char *what, tri_error *err)
{
    fail(err, TRI_EINPUT, "the checkpoint in '%.100s' is of another model: '%.60s' %s",
         job->settings.checkpoint, name, what);
    fail_next(err, "resume with the program and the options that made it; trident checkpoint show "
                   "lists what it holds");
    return TRI_EINPUT;
}

static tri_status check_layers(const tri_job *job, const struct checkpoint *from, tri_error *err)
{
    uint32_t most = job->count > from->layer_count ? job->count : from->layer_count;
    for (uint32_t i = 0; i < most; i++) {
        char what[120];
        if (i >= from->layer_count)
            return differ(job, job->layers[i].name, "is not in it", err);
        if (i >= job->count)
            return differ(job, from->layers[i].name, "is not a layer here", err);
        const struct checkpoint_layer *saved = &from->layers[i];
        const struct agree_layer *own = &job->layers[i];
        if (strcmp(saved->name, own->name) != 0)
            return differ(job, own->name, "stands in another place, or is not in it", err);
        (void)snprintf(what, sizeof what,
                       "is %" PRIu32 " x %" PRIu32 "%s there and %" PRIu32 " x %" PRIu32 "%s here",
                       saved->rows, saved->cols, saved->bias ? " with a bias" : "", own->rows,
                       own->cols, own->bias ? " with a bias" : "");
        if (saved->rows != own->rows || saved->cols != own->cols || saved->bias != own->bias)
            return differ(job, own->name, what, err);
    }
    return TRI_OK;
}

static tri_status check_kept(const tri_job *job, const struct checkpoint *from, tri_error *err)
{
    for (uint32_t i = 0; i < job->kept_count; i++) {
        const struct checkpoint_kept *own = &job->kept[i], *saved = NULL;
        for (uint32_t k = 0; k < from->kept_count; k++)
            if (strcmp(from->kept[k].name, own->name) == 0)
                saved = &from->kept[k];
        if (saved == NULL)
            return differ(job, own->name, "is not in it", err);
        if (saved->type != own->type || saved->count != own->count)
            return differ(job, own->name, "has another type or length there", err);
    }
    return TRI_OK;
}

/* The same optimiser; what it is told may be another. */
static tri_status check_optimizer(const tri_job *job, const struct agreement *agreement,
                                  const struct checkpoint *from, tri_error *err)
{
    const char *name = agreement->optim.ops->name;
    size_t len = strcspn(from->optimizer, ":");
    if (strlen(name) == len && strncmp(from->optimizer, name, len) == 0 &&
        from->states == agreement->optim.ops->state_floats)
        return TRI_OK;
    fail(err, TRI_EINPUT,
         "the checkpoint in '%.100s' was made with optimizer '%.40s', this is '%s'",
         job->settings.checkpoint, from->optimizer, name);
    fail_next(err,
              "resume with that one: --optimizer %.40s of trident train, optimizer of tri_options",
              from->optimizer);
    return TRI_EINPUT;
}

static void fill(const tri_job *job, const struct checkpoint *from)
{
    for (uint32_t i = 0; i < job->count; i++) {
        const struct agree_layer *own = &job->layers[i];
        size_t weights = (size_t)own->rows * own->cols;
        memcpy(job->memory[i].weights, from->layers[i].values, weights * sizeof(float));
        if (own->bias)
            memcpy(job->memory[i].bias, from->layers[i].values + weights,
                   own->rows * sizeof(float));
    }
    for (uint32_t i = 0; i < job->kept_count; i++)
        for (uint32_t k = 0; k < from->kept_count; k++)
            if (strcmp(from->kept[k].name, job->kept[i].name) == 0)
                memcpy(job->kept[i].values, from->kept[k].values,
                       checkpoint_kept_bytes(&job->kept[i]));
}

/* Whoever watches over a local job makes its checkpoints. */
static bool watched(const tri_job *job)
{
    return job->settings.is_local && job->settings.server_apart;
}

static void tell_skipped(void *ctx, const tri_error *why)
{
    const tri_job *job = ctx;
    log_write(&job->log, LOG_WARN, "%s: passed over", why->text);
}

tri_status keep_find(tri_job *job, const struct agreement *agreement, struct checkpoint **out,
                     tri_error *err)
{
    const char *folder = job->settings.checkpoint;
    if (folder == NULL || job->settings.node != 0)
        return TRI_OK;
    if (agreement->rules.aggregate) {
        fail(err, TRI_EINPUT,
             "there are no checkpoints of a job whose program steps the optimiser "
             "itself");
        fail_next(err, "save in the program what it steps; do not set TRIDENT_CHECKPOINT");
        return TRI_EINPUT;
    }
    tri_status status = TRI_OK;
    if (!watched(job))
        status = checkpoint_claim(folder, job->settings.job, job->settings.resume, job->mem,
                                  &job->claim, err);
    if (status != TRI_OK || !job->settings.resume)
        return status;
    struct checkpoint *from = NULL;
    status = checkpoint_newest(folder, job->mem, tell_skipped, job, &from, err);
    if (status != TRI_OK || from == NULL)
        return status;
    status = check_layers(job, from, err);
    if (status == TRI_OK)
        status = check_kept(job, from, err);
    if (status == TRI_OK)
        status = check_optimizer(job, agreement, from, err);
    if (status != TRI_OK) {
        checkpoint_free(from, job->mem);
        return status;
    }
    fill(job, from);
    log_write(&job->log, LOG_INFO, "goes on from clock %" PRIu64 " in %s", from->clock, folder);
    *out = from;
    return TRI_OK;
}

/* ---- saving ---- */

tri_status keep_begin(tri_job *job, tri_error *err)
{
    if (job->settings.checkpoint == NULL || job->settings.node != 0 || watched(job))
        return TRI_OK;
    struct save_options options = {.mem = job->mem,
                                   .log = &job->log,
                                   .folder = job->settings.checkpoint,
                                   .job = job->settings.job,
                                   .every = job->settings.checkpoint_every,
                                   .keep = job->settings.checkpoint_keep,
                                   .agreement = job->agreement,
                                   .kept = job->kept,
                                   .kept_count = job->kept_count,
                                   .clock = job->clock};
    tri_status status = save_open(&options, &job->save, err);
    if (status != TRI_OK)
        return status;
    if (job->host != NULL)
        host_set_save(job->host, job->save);
    else if (job->shared != NULL)
        shared_set_save(job->shared, job->save);
    else
        solo_set_save(job->solo, job->save);
    return TRI_OK;
}

void keep_fini(tri_job *job)
{
    for (uint32_t i = 0; i < job->kept_count; i++)
        mem_free(job->mem, (void *)job->kept[i].name);
    mem_free(job->mem, job->kept);
    checkpoint_release(job->claim);
}
