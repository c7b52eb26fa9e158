/* The loop: update, sync, clock; and asking. */
#include <stdio.h>
#include <string.h>

#include "api/export.h"
#include "api/job.h"
#include "base/crc32c.h"
#include "base/error.h"

static tri_status check(const tri_job *job, uint32_t layer, const char *call, tri_error *err)
{
    if (job == NULL)
        return fail(err, TRI_EARG, "%s got no job", call);
    if (!job->started)
        return fail(err, TRI_EARG, "%s comes before tri_start", call);
    if (layer >= job->count)
        return fail(err, TRI_EARG, "%s got layer %u, there are %u", call, (unsigned)layer,
                    (unsigned)job->count);
    return TRI_OK;
}

/* Exactly one form, with all that belongs to it. */
static tri_status check_form(const tri_job *job, uint32_t number, const tri_update_info *info,
                             tri_error *err)
{
    const struct agree_layer *layer = &job->layers[number];
    int forms = (info->dense != NULL) + (info->u != NULL || info->v != NULL) +
                (info->row_values != NULL || info->row_numbers != NULL);
    if (forms != 1)
        return fail(err, TRI_EARG, "the update of layer '%.60s' has %s", layer->name,
                    forms == 0 ? "no form" : "several forms");
    if (info->count == 0)
        return fail(err, TRI_EARG, "the update of layer '%.60s' has count 0", layer->name);
    if (info->dense != NULL && (info->dense_bias != NULL) != layer->bias)
        return fail(err, TRI_EARG, "the update of layer '%.60s' has %s bias", layer->name,
                    layer->bias ? "no gradient of its" : "a gradient of a");
    if (info->u != NULL || info->v != NULL) {
        if (info->u == NULL || info->v == NULL)
            return fail(err, TRI_EARG, "the update of layer '%.60s' has u or v, not both",
                        layer->name);
        if (info->factor_rows == 0 || info->factor_rows > layer->max_factor_rows)
            return fail(err, TRI_EARG,
                        "the update of layer '%.60s' has %u rows of factors, from 1 to %u are "
                        "allowed",
                        layer->name, (unsigned)info->factor_rows, (unsigned)layer->max_factor_rows);
    }
    if ((info->at != NULL) != (layer->window_floats > 0 && info->u != NULL))
        return fail(err, TRI_EARG, "the update of layer '%.60s' has %s", layer->name,
                    info->at != NULL ? "windows, which tri_layer was not told of"
                                     : "factors that are no windows");
    if (info->row_count > 0 && (info->row_values == NULL || info->row_numbers == NULL))
        return fail(err, TRI_EARG, "the update of layer '%.60s' has rows or numbers, not both",
                    layer->name);
    return TRI_OK;
}

static tri_status read_update(const tri_job *job, uint32_t layer, const tri_update_info *given,
                              const char *call, struct update *out, tri_error *err)
{
    tri_update_info info = TRI_UPDATE_INIT;
    tri_status status = check(job, layer, call, err);
    if (status != TRI_OK)
        return status;
    if (given == NULL || given->size == 0)
        return fail(err, TRI_EARG, "%s got no update", call);
    memcpy(&info, given, given->size < sizeof info ? given->size : sizeof info);
    status = check_form(job, layer, &info, err);
    if (status != TRI_OK)
        return status;
    *out = (struct update){.dense = info.dense,
                           .dense_bias = info.dense_bias,
                           .u = info.u,
                           .v = info.v,
                           .factor_rows = info.factor_rows,
                           .at = info.at,
                           .row_values = info.row_values,
                           .row_numbers = info.row_numbers,
                           .row_count = info.row_count,
                           .count = info.count,
                           .lr = job->settings.agree.aggregate ? 0 : info.lr,
                           .params_busy = info.params_busy != 0};
    return TRI_OK;
}

static tri_status hand_over(tri_job *job, uint32_t layer, const struct update *update,
                            tri_error *err)
{
    if (job->shared != NULL)
        return shared_update(job, layer, update, err);
    return job->solo != NULL ? solo_update(job->solo, layer, update, err)
                             : host_update(job->host, layer, update, err);
}

EXPORT tri_status tri_update(tri_job *job, uint32_t layer, const tri_update_info *given,
                             tri_error *err)
{
    struct update update;
    tri_status status = read_update(job, layer, given, "tri_update", &update, err);
    return status == TRI_OK ? hand_over(job, layer, &update, err) : status;
}

EXPORT tri_status tri_learn(tri_job *job, uint32_t layer, const tri_update_info *given,
                            tri_learning *out, tri_error *err)
{
    struct update update;
    tri_status status = read_update(job, layer, given, "tri_learn", &update, err);
    if (status != TRI_OK)
        return status;
    if (out == NULL)
        return fail(err, TRI_EARG, "tri_learn got nowhere to say who makes the step");
    *out = (tri_learning){0};
    return job->shared != NULL ? shared_learn(job, layer, &update, out, err)
                               : hand_over(job, layer, &update, err);
}

EXPORT tri_status tri_sync(tri_job *job, uint32_t layer, tri_error *err)
{
    tri_status status = check(job, layer, "tri_sync", err);
    if (status != TRI_OK)
        return status;
    if (job->shared != NULL)
        return shared_sync_rows(job, layer, job->layers[layer].rows, err);
    if (job->solo == NULL)
        return host_sync(job->host, layer, err);
    solo_sync(job->solo, layer);
    return TRI_OK;
}

EXPORT tri_status tri_sync_rows(tri_job *job, uint32_t layer, uint32_t rows, tri_error *err)
{
    tri_status status = check(job, layer, "tri_sync_rows", err);
    if (status == TRI_OK && rows > job->layers[layer].rows)
        status = fail(err, TRI_EARG, "tri_sync_rows got %u rows, layer '%.60s' has %u",
                      (unsigned)rows, job->layers[layer].name, (unsigned)job->layers[layer].rows);
    if (status != TRI_OK)
        return status;
    return job->shared != NULL ? shared_sync_rows(job, layer, rows, err)
                               : tri_sync(job, layer, err);
}

EXPORT tri_status tri_sync_pending(tri_job *job, uint32_t layer, tri_pending *out, tri_error *err)
{
    tri_status status = check(job, layer, "tri_sync_pending", err);
    if (status != TRI_OK)
        return status;
    if (out == NULL)
        return fail(err, TRI_EARG, "tri_sync_pending got nowhere to put the steps");
    *out = (tri_pending){.weights = job->memory[layer].weights, .bias = job->memory[layer].bias};
    return job->shared != NULL ? shared_sync_pending(job, layer, out, err)
                               : tri_sync(job, layer, err);
}

static uint32_t crc_of(const tri_job *job)
{
    uint32_t crc = 0;
    for (uint32_t i = 0; i < job->count; i++) {
        const struct agree_layer *layer = &job->layers[i];
        size_t weights = (size_t)layer->rows * layer->cols;
        crc = crc32c(crc, job->memory[i].weights, weights * sizeof(float));
        if (layer->bias)
            crc = crc32c(crc, job->memory[i].bias, layer->rows * sizeof(float));
    }
    return crc;
}

static tri_status sync_all(tri_job *job, tri_error *err)
{
    tri_status status = TRI_OK;
    for (uint32_t i = 0; i < job->count && status == TRI_OK; i++)
        status = tri_sync(job, i, err);
    return status;
}

EXPORT tri_status tri_checksum(tri_job *job, uint32_t *crc, tri_error *err)
{
    tri_status status = check(job, 0, "tri_checksum", err);
    if (status == TRI_OK && crc == NULL)
        status = fail(err, TRI_EARG, "tri_checksum got nowhere to put the checksum");
    if (status == TRI_OK)
        status = sync_all(job, err);
    if (status == TRI_OK)
        *crc = crc_of(job);
    return status;
}

EXPORT tri_status tri_clock(tri_job *job, uint64_t *clock, tri_error *err)
{
    tri_status status = check(job, 0, "tri_clock", err);
    uint64_t now = 0;
    if (status != TRI_OK)
        return status;
    if (job->shared != NULL)
        status = shared_clock(job, &now, err);
    else if (job->solo != NULL)
        now = solo_clock(job->solo);
    else
        status = host_clock(job->host, &now, err);
    if (status != TRI_OK)
        return status;
    __atomic_store_n(&job->clock, now, __ATOMIC_RELAXED);
    if (clock != NULL)
        *clock = now;
    uint32_t every = job->settings.checksum_every;
    if (job->host == NULL || every == 0 || now % every != 0)
        return TRI_OK;
    uint32_t crc = 0;
    status = tri_checksum(job, &crc, err);
    if (status == TRI_OK)
        host_checksum(job->host, crc);
    return status;
}

EXPORT tri_status tri_finish(tri_job *job, tri_error *err)
{
    tri_status status = check(job, 0, "tri_finish", err);
    if (status != TRI_OK)
        return status;
    return job->shared != NULL ? shared_finish(job, err) : sync_all(job, err);
}

/* ---- in place ---- */

EXPORT tri_status tri_shared(tri_job *job, uint32_t layer, float **weights, float **bias,
                             tri_error *err)
{
    tri_status status = check(job, layer, "tri_shared", err);
    if (status != TRI_OK)
        return status;
    if (weights == NULL || bias == NULL)
        return fail(err, TRI_EARG, "tri_shared got nowhere to put the addresses");
    if (job->shared != NULL)
        return shared_place(job, layer, weights, bias);
    *weights = *bias = NULL;
    return TRI_OK;
}

EXPORT tri_status tri_step(tri_job *job, tri_error *err)
{
    tri_status status = check(job, 0, "tri_step", err);
    if (status == TRI_OK && job->shared == NULL)
        status = fail(err, TRI_EARG, "tri_step needs mode = local, local = direct");
    return status == TRI_OK ? shared_step(job, err) : status;
}

/* ---- asking ---- */

EXPORT const char *tri_scheme_of(const tri_job *job, uint32_t layer)
{
    if (job == NULL || job->agreement == NULL || layer >= job->count)
        return NULL;
    const char *own = job->shared != NULL && job->started ? shared_scheme(job, layer) : NULL;
    return own != NULL ? own : agree_scheme(job->agreement, layer);
}

EXPORT tri_status tri_query(const tri_job *job, const char *name, char *out, size_t cap,
                            tri_error *err)
{
    if (job != NULL && name != NULL && out != NULL && cap > 0 && strcmp(name, "mode") == 0) {
        (void)snprintf(out, cap, "%s", job->settings.is_local ? "local" : "network");
        return TRI_OK;
    }
    if (job != NULL && name != NULL && out != NULL && cap > 0 && job->settings.is_local &&
        strcmp(name, "local") == 0) {
        (void)snprintf(out, cap, "%s", local_mode_name((enum local_mode)job->settings.local));
        return TRI_OK;
    }
    if (job == NULL || job->agreement == NULL || name == NULL || out == NULL || cap == 0)
        return fail(err, TRI_EARG, "tri_query got no %s",
                    job == NULL              ? "job"
                    : job->agreement == NULL ? "job that has started"
                    : name == NULL           ? "name"
                                             : "room");
    if (job->shared != NULL && job->started && shared_query(job, name, out, cap))
        return TRI_OK;
    return agree_query(job->agreement, name, out, cap, err);
}

EXPORT void tri_get_stats(const tri_job *job, tri_stats *out)
{
    struct host_stats stats = {
        .view = 1, .live_workers = 1, .clocks = __atomic_load_n(&job->clock, __ATOMIC_RELAXED)};
    if (job->host != NULL)
        host_get_stats(job->host, &stats);
    else if (job->shared != NULL && job->started)
        shared_stats(job, &stats);
    *out = (tri_stats){.clocks = stats.clocks,
                       .sent_bytes = stats.sent_bytes,
                       .received_bytes = stats.received_bytes,
                       .header_bytes = stats.header_bytes,
                       .messages = stats.messages,
                       .wait_s = stats.wait_s,
                       .view = stats.view,
                       .live_workers = stats.live_workers};
}
