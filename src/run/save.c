/* Planes, what has come of them, and the thread that writes. */
#include "run/save.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "os/file.h"
#include "os/thread.h"
#include "store/floats.h"

/* Workers may be so many clocks past the one that is saved before all have copied. */
enum { SNAPSHOTS = 16 };

struct snapshot {
    bool taken;
    uint64_t clock;
    uint8_t *bytes;
};

enum copying { TO_COPY, COPYING, COPIED };

enum stage {
    IDLE,
    GATHERING, /* parts come in */
    READY,     /* the thread's from here on */
};

struct save {
    const struct mem *mem;
    const struct log *log;
    const struct agreement *agreement;
    uint32_t every, keep, planes;
    char *folder, *job, *optimizer;
    char **written; /* [keep] the newest that this job has written, the oldest of them first */
    size_t written_count;
    struct checkpoint what;
    size_t kept_bytes;
    void **sources; /* [kept] the caller's values */
    struct snapshot snapshots[SNAPSHOTS];
    uint64_t wanted; /* by save_want(); 0: none */
    uint64_t next;   /* by every; 0: none */
    /* of the one that is under way */
    uint64_t *came;            /* [parts x planes] the clock of what is there, plus 1; 0: nothing */
    uint64_t newest;           /* of those clocks, plus 1 */
    uint64_t have;             /* that are of it */
    uint64_t committed;        /* its clock, plus 1; 0: not yet */
    uint32_t landing;          /* parts that are coming into their planes */
    uint64_t landing_clock;    /* of these */
    struct save_source source; /* of a job of one worker; copy NULL: of another */

    pthread_t thread;
    bool threaded;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    enum stage stage;
    enum copying *copying; /* [layers] of a job of one worker */
    bool quit;
};

static enum stage stage_of(struct save *save)
{
    pthread_mutex_lock(&save->lock);
    enum stage stage = save->stage;
    pthread_mutex_unlock(&save->lock);
    return stage;
}

static void set_stage(struct save *save, enum stage stage)
{
    pthread_mutex_lock(&save->lock);
    save->stage = stage;
    pthread_cond_broadcast(&save->changed);
    pthread_mutex_unlock(&save->lock);
}

/* ---- the thread ---- */

/* With the lock, which is given up meanwhile. Who comes first copies, and others wait for it. */
static void copy_layer(struct save *save, uint32_t layer)
{
    if (save->copying[layer] == TO_COPY) {
        save->copying[layer] = COPYING;
        pthread_mutex_unlock(&save->lock);
        uint64_t steps = save->source.copy(save->source.ctx, layer);
        pthread_mutex_lock(&save->lock);
        save->what.layers[layer].steps = steps;
        save->copying[layer] = COPIED;
        pthread_cond_broadcast(&save->changed);
    }
    while (save->copying[layer] != COPIED)
        pthread_cond_wait(&save->changed, &save->lock);
}

/* Those that this job has written are known to be whole, and need not be read to be counted. */
static tri_status prune(struct save *save, const struct buf *newest, tri_error *err)
{
    char *path = mem_text(save->mem, newest->data, newest->len);
    if (path == NULL || save->written_count < save->keep) {
        if (path != NULL)
            save->written[save->written_count++] = path;
        return checkpoint_prune(save->folder, save->keep, save->mem, err);
    }
    char *oldest = save->written[0];
    memmove((void *)save->written, (const void *)(save->written + 1),
            (save->written_count - 1) * sizeof *save->written);
    save->written[save->written_count - 1] = path;
    tri_status status = file_remove(oldest, err);
    mem_free(save->mem, oldest);
    return status;
}

static void write_file(struct save *save)
{
    struct buf path;
    tri_error err = {0};
    buf_init(&path, save->mem);
    tri_status status = checkpoint_write(save->folder, &save->what, save->mem, &path, &err);
    /* With room for one less of them, the newest whole one is enough until this one is there. */
    if (status == TRI_EIO && checkpoint_prune(save->folder, 1, save->mem, NULL) == TRI_OK) {
        buf_clear(&path);
        status = checkpoint_write(save->folder, &save->what, save->mem, &path, &err);
    }
    if (status == TRI_OK)
        log_write(save->log, LOG_INFO, "saved clock %" PRIu64 " as %s", save->what.clock,
                  buf_string(&path));
    else
        log_write(save->log, LOG_WARN, "clock %" PRIu64 " is not saved: %s%s%s", save->what.clock,
                  err.text, err.why[0] != '\0' ? ": " : "", err.why);
    if (status == TRI_OK && prune(save, &path, &err) != TRI_OK)
        log_write(save->log, LOG_WARN, "old checkpoints stay: %s", err.text);
    buf_fini(&path);
}

static void *work(void *ctx)
{
    struct save *save = ctx;
    thread_step_back();
    pthread_mutex_lock(&save->lock);
    for (;;) {
        while (save->stage != READY && !save->quit)
            pthread_cond_wait(&save->changed, &save->lock);
        if (save->stage != READY)
            break;
        for (uint32_t i = save->what.layer_count; save->source.copy != NULL && i-- > 0;)
            copy_layer(save, i);
        pthread_mutex_unlock(&save->lock);
        write_file(save);
        pthread_mutex_lock(&save->lock);
        save->stage = IDLE;
        pthread_cond_broadcast(&save->changed);
    }
    pthread_mutex_unlock(&save->lock);
    return NULL;
}

/* ---- memory ---- */

/* Pages are taken now: the first copy must not wait for them. */
static float *new_plane(const struct save *save, uint64_t floats)
{
    float *plane = floats_new(save->mem, floats);
    if (plane != NULL)
        memset(plane, 0, (size_t)floats * sizeof *plane);
    return plane;
}

static bool init_layers(struct save *save)
{
    const struct agreement *agreement = save->agreement;
    struct checkpoint *what = &save->what;
    what->layers = mem_array(save->mem, agreement->count, sizeof *what->layers);
    save->copying = mem_array(save->mem, agreement->count, sizeof *save->copying);
    if (what->layers == NULL || save->copying == NULL)
        return false;
    what->layer_count = agreement->count;
    for (uint32_t i = 0; i < agreement->count; i++) {
        const struct layout_layer *shape = &agreement->layout->layers[i];
        struct checkpoint_layer *layer = &what->layers[i];
        *layer =
            (struct checkpoint_layer){.name = mem_text(save->mem, shape->name, strlen(shape->name)),
                                      .rows = shape->rows,
                                      .cols = shape->cols,
                                      .bias = shape->bias};
        layer->values = new_plane(save, shape->floats);
        if (layer->values == NULL || layer->name == NULL)
            return false;
        for (uint32_t k = 0; k < what->states; k++)
            if ((layer->state[k] = new_plane(save, shape->floats)) == NULL)
                return false;
    }
    return true;
}

static bool init_kept(struct save *save, const struct save_options *options)
{
    struct checkpoint *what = &save->what;
    what->kept = mem_array(save->mem, options->kept_count, sizeof *what->kept);
    save->sources = mem_array(save->mem, options->kept_count, sizeof *save->sources);
    if (what->kept == NULL || save->sources == NULL)
        return options->kept_count == 0;
    what->kept_count = options->kept_count;
    for (uint32_t i = 0; i < options->kept_count; i++) {
        what->kept[i] = options->kept[i];
        save->sources[i] = options->kept[i].values;
        save->kept_bytes += checkpoint_kept_bytes(&options->kept[i]);
    }
    for (size_t i = 0; i < SNAPSHOTS && save->kept_bytes > 0; i++)
        if ((save->snapshots[i].bytes = mem_array(save->mem, 1, save->kept_bytes)) == NULL)
            return false;
    return true;
}

static bool init(struct save *save, const struct save_options *options)
{
    const struct agreement *agreement = options->agreement;
    save->folder = mem_text(save->mem, options->folder, strlen(options->folder));
    save->job = mem_text(save->mem, options->job, strlen(options->job));
    save->planes = 1 + agreement->optim.ops->state_floats;
    save->what.states = save->planes - 1;
    save->what.job = save->job;
    const char *optimizer = agreement->options.optimizer;
    optimizer = optimizer != NULL ? optimizer : "sgd";
    save->optimizer = mem_text(save->mem, optimizer, strlen(optimizer));
    save->what.optimizer = save->optimizer;
    size_t parts = (size_t)agreement->layout->part_count * save->planes;
    save->came = mem_array(save->mem, parts, sizeof *save->came);
    save->written = mem_array(save->mem, save->keep, sizeof *save->written);
    return save->written != NULL && save->folder != NULL && save->optimizer != NULL &&
           save->job != NULL && save->came != NULL && init_layers(save) && init_kept(save, options);
}

tri_status save_open(const struct save_options *options, struct save **out, tri_error *err)
{
    if (options->agreement->optim.ops->state_floats > CHECKPOINT_STATES)
        return fail(err, TRI_EINPUT, "the optimiser '%s' keeps more than a checkpoint can hold",
                    options->agreement->optim.ops->name);
    struct save *save = mem_array(options->mem, 1, sizeof *save);
    if (save == NULL)
        return fail_nomem(err, "checkpoints");
    save->mem = options->mem;
    save->log = options->log;
    save->agreement = options->agreement;
    save->every = options->every;
    save->keep = options->keep;
    if (save->every > 0)
        save->next = (options->clock / save->every + 1) * save->every;
    (void)pthread_mutex_init(&save->lock, NULL);
    (void)pthread_cond_init(&save->changed, NULL);
    tri_status status = init(save, options) ? TRI_OK : fail_nomem(err, "checkpoints");
    if (status == TRI_OK && pthread_create(&save->thread, NULL, work, save) != 0)
        status = fail(err, TRI_EIO, "cannot start a thread");
    save->threaded = status == TRI_OK;
    if (status == TRI_OK)
        *out = save;
    else
        save_close(save);
    return status;
}

static void stop_thread(struct save *save)
{
    pthread_mutex_lock(&save->lock);
    save->quit = true;
    pthread_cond_broadcast(&save->changed);
    pthread_mutex_unlock(&save->lock);
    (void)pthread_join(save->thread, NULL);
}

void save_close(struct save *save)
{
    if (save == NULL)
        return;
    if (save->threaded)
        stop_thread(save);
    for (uint32_t i = 0; i < save->what.layer_count; i++) {
        mem_free(save->mem, (void *)save->what.layers[i].name);
        floats_free(save->mem, save->what.layers[i].values);
        for (uint32_t k = 0; k < save->what.states; k++)
            floats_free(save->mem, save->what.layers[i].state[k]);
    }
    for (size_t i = 0; i < SNAPSHOTS; i++)
        mem_free(save->mem, save->snapshots[i].bytes);
    mem_free(save->mem, save->what.layers);
    mem_free(save->mem, save->copying);
    mem_free(save->mem, save->what.kept);
    mem_free(save->mem, save->sources);
    for (size_t i = 0; i < save->written_count; i++)
        mem_free(save->mem, save->written[i]);
    mem_free(save->mem, (void *)save->written);
    mem_free(save->mem, save->came);
    mem_free(save->mem, save->folder);
    mem_free(save->mem, save->job);
    mem_free(save->mem, save->optimizer);
    (void)pthread_mutex_destroy(&save->lock);
    (void)pthread_cond_destroy(&save->changed);
    mem_free(save->mem, save);
}

uint32_t save_planes(const struct save *save)
{
    return save->planes;
}

float *save_plane(const struct save *save, uint32_t layer, uint32_t plane)
{
    const struct checkpoint_layer *at = &save->what.layers[layer];
    return plane == 0 ? at->values : at->state[plane - 1];
}

/* ---- when ---- */

void save_want(struct save *save, uint64_t clock)
{
    save->wanted = clock;
}

/* The next one that is wanted; past ones are given up, and so is one by `every` that another is
 * close behind: parts of both would be under way at once. */
static uint64_t find_next(struct save *save, uint64_t clock, uint32_t lead)
{
    if (save->wanted != 0 && save->wanted < clock)
        save->wanted = 0;
    while (save->every > 0 && save->next < clock)
        save->next += save->every;
    if (save->next == 0 || (save->wanted != 0 && save->wanted <= save->next + 2 * (uint64_t)lead))
        return save->wanted;
    return save->next;
}

bool save_presses(struct save *save, uint64_t clock, uint32_t lead, bool *wanted)
{
    uint64_t at = find_next(save, clock, lead);
    *wanted = at != 0 && at == save->wanted;
    return at != 0 && at <= clock + lead;
}

bool save_gathers(struct save *save)
{
    return stage_of(save) == GATHERING;
}

void save_wait_written(struct save *save)
{
    pthread_mutex_lock(&save->lock);
    while (save->stage == READY)
        pthread_cond_wait(&save->changed, &save->lock);
    pthread_mutex_unlock(&save->lock);
}

static void begin(struct save *save, uint64_t at)
{
    if (save->wanted == at)
        save->wanted = 0;
    if (save->next == at)
        save->next += save->every;
    memset(save->came, 0,
           (size_t)save->agreement->layout->part_count * save->planes * sizeof *save->came);
    for (size_t i = 0; i < SNAPSHOTS; i++)
        save->snapshots[i].taken = false;
    for (uint32_t i = 0; i < save->what.layer_count; i++)
        save->what.layers[i].steps = 0;
    save->newest = save->have = save->committed = 0;
    set_stage(save, GATHERING);
}

uint64_t save_due(struct save *save, uint64_t clock, uint32_t lead)
{
    uint64_t at = find_next(save, clock, lead);
    if (at == 0 || at > clock + lead)
        return 0;
    if (stage_of(save) != IDLE || save->landing > 0)
        return 0;
    begin(save, at);
    return at;
}

/* ---- what comes ---- */

static uint64_t *came_of(const struct save *save, const struct save_part *part)
{
    return &save->came[(size_t)part->part * save->planes + part->plane];
}

/* Is it of the newest clock, and not there yet? One of a newer clock, of owners that were too quick
 * for the first, gives up the parts before it; if one of those is still coming into its plane,
 * which nobody can stop, the checkpoint is given up. */
static bool is_wanted(struct save *save, const struct save_part *part)
{
    if (stage_of(save) != GATHERING || part->clock + 1 < save->newest ||
        *came_of(save, part) == part->clock + 1)
        return false;
    if (save->landing == 0 || save->landing_clock == part->clock)
        return true;
    log_write(save->log, LOG_WARN,
              "no checkpoint of clock %" PRIu64 ": parts of clock %" PRIu64
              " are still on their way, as ranks do not wait for each other; the one before stays",
              part->clock, save->landing_clock);
    set_stage(save, IDLE);
    return false;
}

/* Of that clock; else the nearest one behind it, which only a rule that does not wait makes
 * possible. NULL: rank 0 has not ended the clock yet, though all its parameters are there. */
static const struct snapshot *find_kept(const struct save *save, uint64_t clock)
{
    const struct snapshot *best = NULL;
    for (size_t i = 0; i < SNAPSHOTS; i++) {
        const struct snapshot *one = &save->snapshots[i];
        if (one->taken && one->clock >= clock && (best == NULL || one->clock < best->clock))
            best = one;
    }
    return best;
}

static bool is_whole(const struct save *save)
{
    uint64_t all = (uint64_t)save->agreement->layout->part_count * save->planes;
    return save->committed != 0 && save->committed == save->newest && save->have == all &&
           (save->kept_bytes == 0 || find_kept(save, save->committed - 1) != NULL);
}

static void choose_kept(struct save *save, uint64_t clock)
{
    uint8_t *at = find_kept(save, clock)->bytes;
    for (uint32_t i = 0; i < save->what.kept_count; i++) {
        save->what.kept[i].values = at;
        at += checkpoint_kept_bytes(&save->what.kept[i]);
    }
}

static void check_whole(struct save *save)
{
    if (!is_whole(save))
        return;
    save->what.clock = save->committed - 1;
    if (save->kept_bytes > 0)
        choose_kept(save, save->what.clock);
    set_stage(save, READY);
}

void save_keep(struct save *save, uint64_t clock)
{
    if (save->kept_bytes == 0 || stage_of(save) != GATHERING)
        return;
    struct snapshot *snapshot = &save->snapshots[clock % SNAPSHOTS];
    uint8_t *to = snapshot->bytes;
    for (uint32_t i = 0; i < save->what.kept_count; i++) {
        memcpy(to, save->sources[i], checkpoint_kept_bytes(&save->what.kept[i]));
        to += checkpoint_kept_bytes(&save->what.kept[i]);
    }
    snapshot->clock = clock;
    snapshot->taken = true;
    check_whole(save);
}

void save_take(struct save *save, const struct save_part *part)
{
    const struct layout *layout = save->agreement->layout;
    struct checkpoint_layer *layer =
        &save->what.layers[layout->units[layout->parts[part->part].unit].layer];
    if (!is_wanted(save, part))
        return;
    if (part->clock + 1 > save->newest) {
        save->newest = part->clock + 1;
        save->have = 0;
    }
    *came_of(save, part) = part->clock + 1;
    save->have++;
    layer->steps = part->steps > layer->steps ? part->steps : layer->steps;
    check_whole(save);
}

bool save_land(struct save *save, const struct save_part *part)
{
    if (!is_wanted(save, part))
        return false;
    save->landing++;
    save->landing_clock = part->clock;
    return true;
}

void save_landed(struct save *save, const struct save_part *part, bool there)
{
    save->landing--;
    if (there)
        save_take(save, part);
}

void save_commit(struct save *save, uint64_t clock)
{
    if (stage_of(save) != GATHERING)
        return;
    save->committed = clock + 1;
    check_whole(save);
}

bool save_waits(const struct save *save)
{
    return save->committed != 0 && !is_whole(save);
}

/* ---- one worker ---- */

void save_begin(struct save *save, uint64_t clock, struct save_source source)
{
    save->source = source;
    save->what.clock = clock;
    if (save->kept_bytes > 0)
        choose_kept(save, clock);
    pthread_mutex_lock(&save->lock);
    for (uint32_t i = 0; i < save->what.layer_count; i++)
        save->copying[i] = TO_COPY;
    save->stage = READY;
    pthread_cond_broadcast(&save->changed);
    pthread_mutex_unlock(&save->lock);
}

void save_wait_copied(struct save *save, uint32_t layer)
{
    pthread_mutex_lock(&save->lock);
    if (save->stage == READY)
        copy_layer(save, layer);
    pthread_mutex_unlock(&save->lock);
}
