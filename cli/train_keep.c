/* Checkpoints of learners, from snapshots of their region: the form is that of all checkpoints, so
 * that any number of workers or learners can go on from them. */
#include <string.h>

#include "cli/train_learners.h"
#include "local/planes.h"
#include "settings/settings.h"

tri_status train_keep_open(struct train_keep *keep, const char *job, tri_error *err)
{
    const struct train_settings *settings = &keep->request->settings;
    keep->name = job;
    if (settings->checkpoint == NULL)
        return TRI_OK;
    struct settings all;
    tri_status status = settings_read(NULL, false, &all, err);
    if (status != TRI_OK)
        return status;
    keep->keep = all.checkpoint_keep;
    return checkpoint_claim(settings->checkpoint, job, settings->resume, keep->mem, &keep->claim,
                            err);
}

void train_keep_close(struct train_keep *keep)
{
    checkpoint_release(keep->claim);
    keep->claim = NULL;
}

uint64_t train_keep_clock(const struct train_keep *keep, const struct local_snapshot *snapshot)
{
    struct local_about about;
    uint64_t sum = 0;
    local_about(keep->job, &about);
    for (uint32_t i = 0; i < about.learners; i++)
        sum += snapshot->applied[i];
    return about.learners > 0 ? sum / about.learners : 0;
}

/* Values that the engine keeps, as train.c of the engine has them: where the learners are in the
 * stream of samples is as far as they have come on average. */
static void set_position(const struct train_keep *keep, struct checkpoint_kept *kept,
                         uint64_t clock)
{
    uint64_t *values = kept->values;
    if (strcmp(kept->name, "train") == 0 && kept->type == TRI_U64)
        values[0] += (clock - local_share_first(keep->job)) * keep->batch_of_all;
}

/* One layer of the region: parameters, or a kept value. */
static tri_status add(const struct train_keep *keep, const struct local_snapshot *snapshot,
                      uint32_t number, struct checkpoint *what, tri_error *err)
{
    struct local_about about;
    struct checkpoint_kept kept;
    local_about(keep->job, &about);
    const struct local_layer *layer = &about.layers[number];
    float *values = snapshot->weights + layer->offset;
    if (shared_kept(layer, &kept)) {
        size_t bytes = (size_t)layer->floats * sizeof(float);
        kept.values = mem_array(keep->mem, 1, bytes);
        if (kept.values == NULL)
            return fail_nomem(err, "a checkpoint");
        memcpy(kept.values, values, bytes);
        set_position(keep, &kept, what->clock);
        what->kept[what->kept_count++] = kept;
        return TRI_OK;
    }
    struct checkpoint_layer *to = &what->layers[what->layer_count++];
    *to = (struct checkpoint_layer){.name = layer->name,
                                    .rows = layer->rows,
                                    .cols = layer->cols,
                                    .bias = layer->bias > 0,
                                    .steps = snapshot->steps[number],
                                    .values = values};
    for (uint32_t k = 0; k < what->states; k++) {
        to->state[k] = mem_array(keep->mem, layer->floats, sizeof(float));
        if (to->state[k] == NULL)
            return fail_nomem(err, "a checkpoint");
        local_plane_get(keep->job, snapshot, number, k, to->state[k]);
    }
    return TRI_OK;
}

static void free_all(const struct train_keep *keep, struct checkpoint *what)
{
    for (uint32_t i = 0; i < what->layer_count; i++)
        for (uint32_t k = 0; k < what->states; k++)
            mem_free(keep->mem, what->layers[i].state[k]);
    for (uint32_t i = 0; i < what->kept_count; i++)
        mem_free(keep->mem, what->kept[i].values);
    mem_free(keep->mem, what->layers);
    mem_free(keep->mem, what->kept);
}

static tri_status write_it(const struct train_keep *keep, const struct local_snapshot *snapshot,
                           uint64_t clock, tri_error *err)
{
    const char *folder = keep->request->settings.checkpoint;
    struct local_about about;
    local_about(keep->job, &about);
    struct checkpoint what = {.clock = clock,
                              .job = keep->name,
                              .optimizer = keep->request->optimizer,
                              .states = (uint32_t)about.optim.ops->state_floats};
    what.layers = mem_array(keep->mem, about.layer_count, sizeof *what.layers);
    what.kept = mem_array(keep->mem, about.layer_count, sizeof *what.kept);
    if (what.layers == NULL || what.kept == NULL) {
        mem_free(keep->mem, what.layers);
        mem_free(keep->mem, what.kept);
        return fail_nomem(err, "a checkpoint");
    }
    tri_status status = TRI_OK;
    uint32_t note = local_note(keep->job);
    for (uint32_t i = 0; i < about.layer_count && i != note && status == TRI_OK; i++)
        status = add(keep, snapshot, i, &what, err);
    if (status == TRI_OK)
        status = checkpoint_write(folder, &what, keep->mem, NULL, err);
    if (status == TRI_OK)
        status = checkpoint_prune(folder, keep->keep, keep->mem, err);
    free_all(keep, &what);
    return status;
}

/* After which clock the next one is due: by --checkpoint-every, or at the end of the epoch. */
static uint64_t after(const struct train_keep *keep, uint64_t clock)
{
    uint64_t every = keep->request->settings.checkpoint_every;
    if (every == 0)
        every = (keep->samples + keep->batch_of_all - 1) / keep->batch_of_all;
    return every > 0 ? clock + every : UINT64_MAX;
}

tri_status train_keep_save(struct train_keep *keep, const struct local_snapshot *snapshot, bool now,
                           tri_error *err)
{
    if (keep->claim == NULL || keep->batch_of_all == 0)
        return TRI_OK;
    uint64_t clock = train_keep_clock(keep, snapshot);
    if (keep->next == 0) {
        keep->saved = local_share_first(keep->job);
        keep->next = after(keep, keep->saved);
    }
    if (clock <= keep->saved || (clock < keep->next && !now))
        return TRI_OK;
    tri_status status = write_it(keep, snapshot, clock, err);
    if (status != TRI_OK)
        return status;
    keep->saved = clock;
    keep->next = after(keep, clock);
    log_write(keep->log, LOG_INFO, "saved clock %llu in %s", (unsigned long long)clock,
              keep->request->settings.checkpoint);
    return TRI_OK;
}
