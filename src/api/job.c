/* Joining, describing, agreeing, leaving. */
#include "api/job.h"

#include <string.h>

#include "api/export.h"
#include "base/error.h"

/* ---- joining ---- */

static void pass_on(void *ctx, enum log_level level, const char *line)
{
    const tri_job *job = ctx;
    job->line(job->line_ctx, level < LOG_DEBUG ? (int)level : 3, line);
}

static tri_status open_host(tri_job *job, tri_error *err)
{
    struct host_options options = settings_host(&job->settings);
    options.mem = job->mem;
    options.log = job->log;
    return host_open(&options, &job->host, err);
}

static bool is_alone(const struct settings *settings)
{
    return settings->agree.workers == 1 && settings->agree.servers == settings->agree.colocated;
}

/* Fields that an older program does not have are as if not set. */
static tri_options complete(const tri_options *options)
{
    tri_options all = TRI_OPTIONS_INIT;
    if (options != NULL)
        memcpy(&all, options, options->size < sizeof all ? options->size : sizeof all);
    return all;
}

EXPORT tri_status tri_open(const tri_options *given, tri_job **out, tri_error *err)
{
    if (out == NULL || (given != NULL && given->size == 0)) {
        fail(err, TRI_EARG, "tri_open got %s",
             out == NULL ? "nowhere to put the job" : "options of size 0");
        fail_next(err, "start from tri_options options = TRI_OPTIONS_INIT");
        return TRI_EARG;
    }
    tri_options options = complete(given);
    tri_job *job = mem_array(&mem_libc, 1, sizeof *job);
    if (job == NULL)
        return fail_nomem(err, "a job");
    job->mem = &mem_libc;
    tri_status status = settings_read(&options, false, &job->settings, err);
    job->log = job->settings.log;
    if (options.log != NULL) {
        job->line = options.log;
        job->line_ctx = options.log_ctx;
        log_init(&job->log, LOG_DEBUG, pass_on, job);
    }
    job->log.role = "worker";
    job->log.rank = (int32_t)job->settings.node;
    if (status == TRI_OK && job->settings.is_local)
        status = shared_check(job, err);
    else if (status == TRI_OK && !is_alone(&job->settings))
        status = open_host(job, err);
    if (status == TRI_OK)
        *out = job;
    else
        tri_close(job);
    return status;
}

EXPORT uint32_t tri_rank(const tri_job *job)
{
    return job->settings.node;
}

EXPORT uint32_t tri_workers(const tri_job *job)
{
    return job->settings.agree.workers;
}

/* ---- describing ---- */

static tri_status refuse(const tri_layer_info *info, const char *what, tri_error *err)
{
    const char *name = info->name != NULL && info->name[0] != '\0' ? info->name : "(no name)";
    return fail(err, TRI_EARG, "layer '%.60s' %s", name, what);
}

static tri_status check_layer(const tri_job *job, const tri_layer_info *info, tri_error *err)
{
    if (info->name == NULL || info->name[0] == '\0')
        return refuse(info, "has no name", err);
    if (info->rows == 0 || info->cols == 0)
        return refuse(info, "has no rows or no columns", err);
    if (info->weights == NULL)
        return refuse(info, "has no weights", err);
    if (job->settings.agree.aggregate && info->result == NULL)
        return refuse(info, "has no room for the result, which TRI_AGGREGATE needs", err);
    if ((unsigned)info->kind > TRI_OTHER)
        return refuse(info, "is of a kind that this version does not know", err);
    if (info->window_floats > 0 && (info->window_floats < info->cols || info->max_factor_rows == 0))
        return refuse(info, "has windows shorter than its rows, or none of them", err);
    if (info->window_floats > 0 &&
        !(job->settings.is_local && job->settings.local == LOCAL_REPLICAS))
        return refuse(info, "has windows, which only local = replicas takes", err);
    for (uint32_t i = 0; i < job->count; i++)
        if (strcmp(job->layers[i].name, info->name) == 0)
            return refuse(info, "was described before", err);
    return TRI_OK;
}

EXPORT tri_status tri_layer(tri_job *job, const tri_layer_info *given, uint32_t *layer,
                            tri_error *err)
{
    tri_layer_info info = TRI_LAYER_INIT;
    if (job == NULL || given == NULL || given->size == 0)
        return fail(err, TRI_EARG, "tri_layer got no %s", job == NULL ? "job" : "layer");
    memcpy(&info, given, given->size < sizeof info ? given->size : sizeof info);
    if (job->started)
        return refuse(&info, "comes after tri_start", err);
    tri_status status = check_layer(job, &info, err);
    if (status != TRI_OK)
        return status;
    void *layers = job->layers, *memory = job->memory;
    char *name = mem_text(job->mem, info.name, strlen(info.name));
    if (mem_grow(job->mem, &layers, &job->cap, job->count + 1, sizeof *job->layers) != NULL)
        job->layers = layers;
    else
        status = TRI_ENOMEM;
    if (mem_grow(job->mem, &memory, &job->memory_cap, job->count + 1, sizeof *job->memory) != NULL)
        job->memory = memory;
    else
        status = TRI_ENOMEM;
    if (status != TRI_OK || name == NULL) {
        mem_free(job->mem, name);
        return fail_nomem(err, "a layer");
    }
    job->layers[job->count] = (struct agree_layer){.name = name,
                                                   .kind = info.kind,
                                                   .rows = info.rows,
                                                   .cols = info.cols,
                                                   .bias = info.bias != NULL,
                                                   .max_factor_rows = info.max_factor_rows,
                                                   .max_rows = info.max_rows,
                                                   .window_floats = info.window_floats,
                                                   .reads_pending = info.reads_pending != 0};
    job->memory[job->count] = (struct store_layer){info.weights, info.bias, info.result};
    if (layer != NULL)
        *layer = job->count;
    job->count++;
    return TRI_OK;
}

/* ---- agreeing ---- */

/* Takes the agreement over. */
static tri_status start(tri_job *job, struct agreement *agreement, const struct checkpoint *from,
                        tri_error *err)
{
    tri_status status;
    if (job->settings.is_local)
        return shared_start(job, agreement, from, err);
    if (job->host == NULL) {
        status = solo_open(agreement, job->memory, job->mem, &job->solo, err);
        job->agreement = job->solo != NULL ? solo_agreement(job->solo) : NULL;
        if (status == TRI_OK && from != NULL)
            solo_resume(job->solo, from);
        job->clock = from != NULL ? from->clock : 0;
        return status;
    }
    struct host_job with = {.agreement = agreement,
                            .layers = job->memory,
                            .from = from,
                            .kept = job->kept,
                            .kept_count = job->kept_count};
    status = host_start(job->host, &with, err);
    job->agreement = host_agreement(job->host);
    job->clock = host_first(job->host);
    return status;
}

EXPORT tri_status tri_start(tri_job *job, tri_error *err)
{
    struct agreement *agreement = NULL;
    bool tried = job != NULL && job->agreement != NULL;
    if (job == NULL || tried || job->count == 0)
        return fail(err, TRI_EARG, "tri_start got %s",
                    job == NULL    ? "no job"
                    : job->started ? "a job that has started"
                    : tried        ? "a job that could not start: close it"
                                   : "a job without layers");
    tri_status status =
        agree_make(job->layers, job->count, &job->settings.agree, job->mem, &agreement, err);
    if (status != TRI_OK)
        return status;
    struct checkpoint *from = NULL;
    status = keep_find(job, agreement, &from, err);
    if (status == TRI_OK) {
        status = start(job, agreement, from, err);
    } else {
        if (job->host != NULL && err != NULL)
            host_refuse(job->host, err);
        agree_free(agreement);
    }
    checkpoint_free(from, job->mem);
    if (status == TRI_OK)
        status = keep_begin(job, err);
    job->started = status == TRI_OK;
    return status;
}

/* ---- leaving ---- */

EXPORT void tri_close(tri_job *job)
{
    if (job == NULL)
        return;
    host_close(job->host);
    save_close(job->save);
    solo_close(job->solo);
    shared_close(job);
    keep_fini(job);
    for (uint32_t i = 0; i < job->count; i++)
        mem_free(job->mem, (void *)job->layers[i].name);
    mem_free(job->mem, job->layers);
    mem_free(job->mem, job->memory);
    mem_free(job->mem, job);
}
