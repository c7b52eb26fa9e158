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
    keep->writer = (struct checkpoint_writer){
        .folder = settings->checkpoint, .keep = all.checkpoint_keep, .mem = keep->mem};
    return checkpoint_claim(settings->checkpoint, job, settings->resume, keep->mem, &keep->claim,
                            err);
}

void train_keep_close(struct train_keep *keep)
{
    (void)train_keep_end(keep, NULL);
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

/* ---- copies ---- */

static float *copy_floats(const struct train_keep *keep, const float *from, uint64_t count)
{
    float *to = mem_array(keep->mem, (size_t)count, sizeof *to);
    if (to != NULL)
        memcpy(to, from, (size_t)count * sizeof *to);
    return to;
}

/* One layer of the region: parameters, or a kept value. */
static bool add(const struct train_keep *keep, const struct local_snapshot *snapshot,
                uint32_t number, struct checkpoint *what)
{
    struct local_about about;
    struct checkpoint_kept kept;
    local_about(keep->job, &about);
    const struct local_layer *layer = &about.layers[number];
    float *values = copy_floats(keep, snapshot->weights + layer->offset, layer->floats);
    if (shared_kept(layer, &kept)) {
        kept.values = values;
        what->kept[what->kept_count++] = kept;
        if (values != NULL)
            set_position(keep, &kept, what->clock);
        return values != NULL;
    }
    struct checkpoint_layer *to = &what->layers[what->layer_count++];
    *to = (struct checkpoint_layer){.name = layer->name,
                                    .rows = layer->rows,
                                    .cols = layer->cols,
                                    .bias = layer->bias > 0,
                                    .steps = snapshot->steps[number],
                                    .values = values};
    for (uint32_t k = 0; k < what->states && values != NULL; k++) {
        to->state[k] = mem_array(keep->mem, layer->floats, sizeof(float));
        if (to->state[k] == NULL)
            return false;
        local_plane_get(keep->job, snapshot, number, k, to->state[k]);
    }
    return values != NULL;
}

static void free_copy(const struct train_keep *keep, struct checkpoint *what)
{
    if (what == NULL)
        return;
    for (uint32_t i = 0; i < what->layer_count; i++) {
        mem_free(keep->mem, what->layers[i].values);
        for (uint32_t k = 0; k < what->states; k++)
            mem_free(keep->mem, what->layers[i].state[k]);
    }
    for (uint32_t i = 0; i < what->kept_count; i++)
        mem_free(keep->mem, what->kept[i].values);
    mem_free(keep->mem, what->layers);
    mem_free(keep->mem, what->kept);
    mem_free(keep->mem, what);
}

/* The snapshot is the watchdog's, which takes the next one while this is written. */
static tri_status copy(const struct train_keep *keep, const struct local_snapshot *snapshot,
                       uint64_t clock, struct checkpoint **out, tri_error *err)
{
    struct local_about about;
    local_about(keep->job, &about);
    struct checkpoint *what = mem_array(keep->mem, 1, sizeof *what);
    if (what == NULL)
        return fail_nomem(err, "a checkpoint");
    *what = (struct checkpoint){.clock = clock,
                                .job = keep->name,
                                .optimizer = keep->request->optimizer,
                                .states = (uint32_t)about.optim.ops->state_floats};
    what->layers = mem_array(keep->mem, about.layer_count, sizeof *what->layers);
    what->kept = mem_array(keep->mem, about.layer_count, sizeof *what->kept);
    bool whole = what->layers != NULL && what->kept != NULL;
    uint32_t note = local_note(keep->job);
    for (uint32_t i = 0; i < about.layer_count && i != note && whole; i++)
        whole = add(keep, snapshot, i, what);
    if (!whole) {
        free_copy(keep, what);
        return fail_nomem(err, "a checkpoint");
    }
    *out = what;
    return TRI_OK;
}

/* ---- writing ---- */

/* After which clock the next one is due: by --checkpoint-every, or at the end of the epoch. */
static uint64_t after(const struct train_keep *keep, uint64_t clock)
{
    uint64_t every = keep->request->settings.checkpoint_every;
    if (every == 0)
        every = (keep->samples + keep->batch_of_all - 1) / keep->batch_of_all;
    return every > 0 ? clock + every : UINT64_MAX;
}

/* What has become of the one that was being written. One on the way that failed is tried again with
 * the next snapshot. */
static void settle(struct train_keep *keep, tri_status status, const tri_error *err)
{
    if (status == TRI_OK) {
        keep->saved = keep->writing->clock;
        keep->next = after(keep, keep->saved);
        log_write(keep->log, LOG_INFO, "saved clock %llu in %s", (unsigned long long)keep->saved,
                  keep->writer.folder);
    } else if (!keep->ends || keep->last != NULL) {
        log_write(keep->log, LOG_WARN, "no checkpoint: %s%s%s%s", err->text,
                  err->why[0] != '\0' ? " (" : "", err->why, err->why[0] != '\0' ? ")" : "");
    } else {
        keep->status = status;
        keep->err = *err;
    }
    free_copy(keep, keep->writing);
    keep->writing = NULL;
}

static void begin(struct train_keep *keep, struct checkpoint *what)
{
    tri_error err = {0};
    keep->writing = what;
    tri_status status = checkpoint_writer_begin(&keep->writer, what, &err);
    if (status != TRI_OK)
        settle(keep, status, &err);
}

static void look(struct train_keep *keep, bool wait)
{
    tri_status status;
    tri_error err;
    while (checkpoint_writer_ended(&keep->writer, wait, &status, &err)) {
        settle(keep, status, &err);
        struct checkpoint *last = keep->last;
        keep->last = NULL;
        if (last != NULL)
            begin(keep, last);
    }
}

void train_keep_look(struct train_keep *keep)
{
    look(keep, false);
}

tri_status train_keep_end(struct train_keep *keep, tri_error *err)
{
    look(keep, true);
    if (keep->status != TRI_OK && err != NULL)
        *err = keep->err;
    return keep->status;
}

/* Is there, or will there be, a checkpoint that is as new? */
static bool has(const struct train_keep *keep, uint64_t clock)
{
    return clock <= keep->saved || (keep->writing != NULL && clock <= keep->writing->clock) ||
           (keep->last != NULL && clock <= keep->last->clock);
}

tri_status train_keep_save(struct train_keep *keep, const struct local_snapshot *snapshot,
                           bool last, tri_error *err)
{
    if (keep->claim == NULL || keep->batch_of_all == 0)
        return TRI_OK;
    look(keep, false);
    keep->ends = keep->ends || last;
    uint64_t clock = train_keep_clock(keep, snapshot);
    if (keep->next == 0) {
        keep->saved = local_share_first(keep->job);
        keep->next = after(keep, keep->saved);
    }
    bool due = last || (clock >= keep->next && keep->writing == NULL);
    struct checkpoint *what = NULL;
    if (!due || has(keep, clock))
        return TRI_OK;
    tri_status status = copy(keep, snapshot, clock, &what, err);
    if (status != TRI_OK)
        return status;
    if (keep->writing == NULL) {
        begin(keep, what);
        return TRI_OK;
    }
    free_copy(keep, keep->last);
    keep->last = what;
    return TRI_OK;
}
