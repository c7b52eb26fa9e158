/* Making, finding and removing regions. */
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "local/sets.h"
#include "os/clock.h"

static const char *const folders[] = {"/dev/shm", "/tmp"};
enum { FOLDERS = 2, ATTACH_PAUSE_US = 10000 };

static const char *const modes[LOCAL_MODES] = {"server", "direct", "sync", "replicas"};

const char *local_mode_name(enum local_mode mode)
{
    return (unsigned)mode < LOCAL_MODES ? modes[mode] : "?";
}

static const char *mode_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return i < LOCAL_MODES ? modes[i] : NULL;
}

tri_status local_mode_find(const char *name, enum local_mode *out, tri_error *err)
{
    char next[NAMES_TEXT];
    for (int i = 0; i < LOCAL_MODES; i++)
        if (names_equal(modes[i], name)) {
            *out = (enum local_mode)i;
            return TRI_OK;
        }
    names_advise(name, mode_candidate, NULL, next);
    fail(err, TRI_EINPUT, "there is no mode '%.60s'", name);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

static const char *const steps[LOCAL_STEPS] = {
    "nothing",   "taken", "half-full", "published", "pull",  "marked", "half-step", "stepped",
    "committed", "round", "reading",   "writing",   "seats", "held",   "set"};

const char *local_step_name(enum local_step step)
{
    return (unsigned)step < LOCAL_STEPS ? steps[step] : NULL;
}

void local_fault(struct local_faults *faults)
{
    if (__atomic_fetch_sub(&faults->nth, 1, __ATOMIC_RELAXED) == 0)
        faults->hit(faults->ctx, faults->at);
}

void local_set_faults(struct local_job *job, struct local_faults *faults)
{
    job->faults = faults;
}

/* ---- a handle on a mapped region ---- */

static void make_blocks(struct local_job *job)
{
    for (uint32_t l = 0; l < job->head->layer_count; l++)
        for (uint64_t at = 0; at < job->layers[l].floats; at += BLOCK) {
            uint64_t left = job->layers[l].floats - at;
            job->blocks[job->block_count++] = (struct block){
                .layer = l, .count = (uint32_t)(left < BLOCK ? left : BLOCK), .first = at};
        }
}

static tri_status find_optim(struct local_job *job, tri_error *err)
{
    for (size_t i = 0; optim_at(i) != NULL; i++)
        if (strncmp(optim_at(i)->name, job->head->optim_name, sizeof job->head->optim_name) == 0)
            job->optim.ops = optim_at(i);
    if (job->optim.ops == NULL)
        return fail(err, TRI_EINPUT, "the job's optimizer '%.31s' is not in this program",
                    job->head->optim_name);
    memcpy(job->optim.args, job->head->optim_args, sizeof job->optim.args);
    job->plain = strcmp(job->optim.ops->name, "sgd") == 0;
    return TRI_OK;
}

/* Takes the region over, also when it fails. */
static tri_status wrap(const struct local_options *options, struct region *region,
                       struct local_job **out, tri_error *err)
{
    struct local_job *job = mem_array(options->mem, 1, sizeof *job);
    if (job == NULL) {
        region_close(region);
        return fail_nomem(err, "a job");
    }
    unsigned char *base = region->base;
    struct head *head = region->base;
    *job = (struct local_job){.mem = options->mem,
                              .log = options->log,
                              .region = *region,
                              .head = head,
                              .seats = (struct seat *)(base + head->seats_at),
                              .layers = (struct local_layer *)(base + head->layers_at),
                              .changes = (uint64_t *)(base + head->counts_at),
                              .steps = (uint64_t *)(base + head->counts_at) + head->layer_count,
                              .taken = (uint64_t *)(base + head->taken_at),
                              .weights = (float *)(base + head->weights_at),
                              .sets = (float *)(base + head->sets_at),
                              .state = (float *)(base + head->state_at),
                              .slots = base + head->slots_at,
                              .sgd = update_kernel_at(0)->sgd,
                              .two = update_kernel_at(0)->two};
    local_set_wait(job, options->wait_ms);
    size_t blocks = 0;
    for (uint32_t l = 0; l < head->layer_count; l++)
        blocks += (size_t)((job->layers[l].floats + BLOCK - 1) / BLOCK);
    job->blocks = mem_array(job->mem, blocks, sizeof *job->blocks);
    tri_status status = job->blocks != NULL ? TRI_OK : fail_nomem(err, "a job");
    if (status == TRI_OK)
        status = find_optim(job, err);
    if (status != TRI_OK || job->blocks == NULL) {
        local_close(job);
        return status;
    }
    make_blocks(job);
    *out = job;
    return TRI_OK;
}

void local_set_wait(struct local_job *job, uint32_t wait_ms)
{
    job->wait_ms = wait_ms > 0 ? wait_ms : 30000;
}

void local_close(struct local_job *job)
{
    if (job == NULL)
        return;
    region_close(&job->region);
    mem_free(job->mem, job->blocks);
    mem_free(job->mem, job);
}

void local_remove(struct local_job *job)
{
    region_remove(&job->region);
}

/* ---- the dead ---- */

/* The locks already say that nobody has it mapped; this is the second opinion. */
static bool all_dead(void *ctx, const void *base, size_t bytes)
{
    (void)ctx;
    if (local_layout_check(base, bytes, NULL) != TRI_OK)
        return true;
    const struct head *head = base;
    const struct seat *seats = (const struct seat *)((const char *)base + head->seats_at);
    bool lives = alive_is(&head->creator) || alive_is(&head->server) || alive_is(&head->watch);
    for (uint32_t i = 0; i < head->learners && !lives; i++)
        lives = seat_sitter(&seats[i]).alive;
    return !lives;
}

struct sweep {
    const char *folder;
    const struct log *log;
    uint32_t removed;
};

static void sweep_one(void *ctx, const char *file)
{
    struct sweep *sweep = ctx;
    if (!region_sweep(sweep->folder, file, all_dead, NULL))
        return;
    sweep->removed++;
    log_write(sweep->log, LOG_INFO, "removed '%s/%s': the processes of its job are gone",
              sweep->folder, file);
}

tri_status local_sweep(const char *folder, const struct mem *mem, const struct log *log,
                       uint32_t *removed, tri_error *err)
{
    struct sweep sweep = {.folder = folder, .log = log};
    tri_status status = TRI_OK;
    if (folder != NULL)
        status = region_each(folder, mem, sweep_one, &sweep, err);
    for (size_t i = 0; folder == NULL && i < FOLDERS && status == TRI_OK; i++) {
        sweep.folder = folders[i];
        tri_status one = region_each(folders[i], mem, sweep_one, &sweep, err);
        status = one == TRI_EINPUT ? TRI_OK : one; /* a system without that folder */
    }
    *removed = sweep.removed;
    return status;
}

/* ---- creating ---- */

static tri_status fill_region(const struct local_options *options, const struct head *head,
                              const struct local_layer *layers, struct region *region,
                              tri_error *err)
{
    struct head *to = region->base;
    (void)options;
    memcpy((char *)region->base + head->layers_at, layers, head->layer_count * sizeof *layers);
    *to = *head;
    to->creator = alive_self();
    tri_status status = robust_init(&to->seats, err);
    if (status == TRI_OK)
        status = robust_init(&to->writer, err);
    if (status == TRI_OK)
        status = robust_init(&to->snapshot, err);
    if (status == TRI_OK)
        status = robust_init(&to->maker, err);
    return status;
}

static tri_status name_taken(const char *name, const struct region *region, tri_error *err)
{
    fail(err, TRI_EINPUT, "there is a job '%s' on this machine already", name);
    fail_where(err, "%s", region->named);
    fail_next(err, "give this one another name, or end that one");
    return TRI_EINPUT;
}

static tri_status create_in(const struct local_options *options, const char *folder,
                            const struct head *head, const struct local_layer *layers,
                            struct region *region, tri_error *err)
{
    bool taken;
    tri_status status = region_make(folder, options->name, head->bytes, region, err);
    if (status != TRI_OK)
        return status;
    status = fill_region(options, head, layers, region, err);
    if (status == TRI_OK)
        status = region_publish(region, &taken, err);
    if (status == TRI_OK && taken) { /* by a dead one? */
        const char *file = strrchr(region->named, '/') + 1;
        if (region_sweep(folder, file, all_dead, NULL))
            status = region_publish(region, &taken, err);
        if (status == TRI_OK && taken)
            status = name_taken(options->name, region, err);
    }
    if (status != TRI_OK)
        region_discard(region);
    return status;
}

/* Where the user did not say, the next folder is tried when there is no room in one. */
static tri_status create_somewhere(const struct local_options *options, const struct head *head,
                                   const struct local_layer *layers, struct region *region,
                                   tri_error *err)
{
    if (options->folder != NULL)
        return create_in(options, options->folder, head, layers, region, err);
    tri_error first;
    tri_status status = create_in(options, folders[0], head, layers, region, &first);
    if (status == TRI_OK)
        return status;
    struct region other;
    bool missing;
    /* A job of that name is no lack of room. */
    if (region_open(folders[0], options->name, &other, &missing, NULL) == TRI_OK)
        region_close(&other);
    else if (missing) {
        status = create_in(options, folders[1], head, layers, region, NULL);
        if (status == TRI_OK)
            log_write(options->log, LOG_WARN,
                      "%s; the weights are in '%s' instead, which is slower", first.text,
                      region->path);
    }
    if (status != TRI_OK && err != NULL)
        *err = first;
    return status;
}

tri_status local_create(const struct local_options *options, struct local_job **out, tri_error *err)
{
    struct head head;
    struct region region;
    size_t count = options->layer_count > 0 ? options->layer_count : 1;
    struct local_layer *layers = mem_array(options->mem, count, sizeof *layers);
    if (layers == NULL)
        return fail_nomem(err, "the layers of a job");
    tri_status status = local_layout_make(options, &head, layers, err);
    if (status == TRI_OK)
        status = create_somewhere(options, &head, layers, &region, err);
    mem_free(options->mem, layers);
    if (status != TRI_OK)
        return status;
    char path[REGION_PATH];
    memcpy(path, region.path, sizeof path);
    status = wrap(options, &region, out, err);
    if (status != TRI_OK)
        (void)remove(path);
    return status;
}

/* ---- attaching ---- */

static tri_status open_somewhere(const struct local_options *options, struct region *region,
                                 bool *missing, tri_error *err)
{
    if (options->folder != NULL)
        return region_open(options->folder, options->name, region, missing, err);
    tri_status status = TRI_EINPUT;
    for (size_t i = 0; i < FOLDERS; i++) {
        status = region_open(folders[i], options->name, region, missing, err);
        if (status == TRI_OK || !*missing)
            return status;
    }
    return status;
}

tri_status local_attach(const struct local_options *options, struct local_job **out, tri_error *err)
{
    struct region region;
    bool missing;
    uint64_t wait_us = (uint64_t)(options->wait_ms > 0 ? options->wait_ms : 30000) * 1000;
    uint64_t deadline = clock_us() + wait_us;
    tri_status status = open_somewhere(options, &region, &missing, err);
    while (status != TRI_OK && missing && clock_us() < deadline) {
        clock_sleep_us(ATTACH_PAUSE_US);
        status = open_somewhere(options, &region, &missing, err);
    }
    if (status != TRI_OK && missing) {
        fail(err, TRI_EINPUT, "there is no job '%.63s' on this machine", options->name);
        fail_next(err, "start the process that creates it first");
    }
    if (status != TRI_OK)
        return status;
    status = local_layout_check(region.base, region.bytes, err);
    if (status != TRI_OK) {
        if (err != NULL)
            fail_where(err, "%s", region.path);
        region_close(&region);
        return status;
    }
    return wrap(options, &region, out, err);
}

/* ---- about a job ---- */

void local_about(const struct local_job *job, struct local_about *out)
{
    const struct head *head = job->head;
    *out = (struct local_about){.name = head->name,
                                .path = job->region.path,
                                .mode = (enum local_mode)head->mode,
                                .locked = head->locked != 0,
                                .learners = head->learners,
                                .slots = head->slots,
                                .layer_count = head->layer_count,
                                .layers = job->layers,
                                .optim = job->optim,
                                .floats = head->floats,
                                .bytes = head->bytes,
                                .slot_bytes = head->slot_bytes};
}

float *local_shared(const struct local_job *job, uint32_t layer)
{
    if (job->layers[layer].common)
        return set_layer(job, set_now(job), layer);
    const bool first = !has_replicas(job) || load(&job->steps[layer]) == 0;
    const float *weights = first ? job->weights : copy_of(job, load32(&job->head->base));
    return (float *)(uintptr_t)weights + job->layers[layer].place;
}

void local_stop(struct local_job *job)
{
    store32(&job->head->stopping, 1);
    event_wake(&job->head->work);
    event_wake(&job->head->news);
    event_wake(&job->head->lock_event);
    for (uint32_t i = 0; i < job->head->learners; i++)
        event_wake(&job->seats[i].space);
}

bool local_stopping(const struct local_job *job)
{
    return load32(&job->head->stopping) != 0;
}
