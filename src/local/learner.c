/* The learner's side: weights in, gradients out. */
#include "local/learner.h"

#include <stdio.h>

#include "local/replica.h"
#include "local/sets.h"
#include "os/clock.h"

/* ---- joining and leaving ---- */

static void free_learner(struct local_learner *learner)
{
    const struct mem *mem = learner->job->mem;
    for (int i = 0; i < 2; i++) {
        mem_free(mem, learner->own_base[i]);
        mem_free(mem, learner->copies[i].weights);
        mem_free(mem, learner->copies[i].changes);
    }
    crew_close(learner->crew);
    replica_close(learner);
    mem_free(mem, learner);
}

static bool has_copies(const struct local_learner *learner)
{
    return learner->copies[0].weights != NULL;
}

static tri_status make_copy(struct local_learner *learner, int i, tri_error *err)
{
    const struct local_job *job = learner->job;
    struct copy *copy = &learner->copies[i];
    copy->weights = mem_array(job->mem, job->head->floats, sizeof *copy->weights);
    copy->changes = mem_array(job->mem, job->head->layer_count, sizeof *copy->changes);
    if (copy->weights == NULL || copy->changes == NULL)
        return fail_nomem(err, "a learner's weights");
    for (uint32_t l = 0; l < job->head->layer_count; l++)
        copy->changes[l] = UINT64_MAX;
    return TRI_OK;
}

/* What a learner needs beside the region: gradients of its own to move or to step from, weights of
 * its own to read while the shared ones change. */
static tri_status make_room(struct local_learner *learner,
                            const struct local_learner_options *options, tri_error *err)
{
    const struct head *head = learner->job->head;
    const bool direct = head->mode == LOCAL_DIRECT;
    if (has_replicas(learner->job) && (options->push_thread || options->pull_thread))
        return fail(err, TRI_EARG, "learners with copies of their own need no push or pull thread");
    int owns = options->push_thread ? 2 : direct ? 1 : 0;
    int copies = head->mode == LOCAL_SYNC ? 0 : options->pull_thread ? 2 : head->locked ? 1 : 0;
    tri_status status = direct ? crew_open(learner->job, 1, &learner->crew, err) : TRI_OK;
    for (int i = 0; i < owns && status == TRI_OK; i++) {
        learner->own[i] = gradient_private(learner->job, &learner->own_base[i]);
        if (learner->own[i] == NULL)
            status = fail_nomem(err, "a learner's gradient");
    }
    for (int i = 0; i < copies && status == TRI_OK; i++)
        status = make_copy(learner, i, err);
    return status;
}

tri_status local_join(struct local_job *job, const struct local_learner_options *options,
                      struct local_learner **out, tri_error *err)
{
    struct local_learner *learner = mem_array(job->mem, 1, sizeof *learner);
    if (learner == NULL)
        return fail_nomem(err, "a learner");
    learner->job = job;
    learner->gradient.job = job;
    learner->reuse = options->reuse > 0 ? options->reuse : 4;
    tri_status status = make_room(learner, options, err);
    if (status == TRI_OK)
        status = seat_take(job, options->seat, &learner->seat, err);
    if (status != TRI_OK) {
        free_learner(learner);
        return status;
    }
    if (has_replicas(job))
        status = replica_open(learner, err);
    if (has_copies(learner))
        status = copy_refresh(learner, &learner->copies[0], err);
    if (status == TRI_OK)
        status = hands_open(learner, options, err);
    if (status != TRI_OK) {
        seat_leave(job, learner->seat);
        free_learner(learner);
        return status;
    }
    *out = learner;
    return TRI_OK;
}

void local_leave(struct local_learner *learner)
{
    if (learner == NULL)
        return;
    local_drop(learner);
    hands_close(learner);
    replica_leave(learner);
    seat_leave(learner->job, learner->seat);
    free_learner(learner);
}

uint32_t local_seat(const struct local_learner *learner)
{
    return learner->seat;
}

void local_touch(struct local_learner *learner)
{
    store(&learner->job->seats[learner->seat].progress_us, clock_us());
}

/* ---- weights ---- */

static tri_status wait_for_round(struct local_learner *learner, tri_error *err)
{
    struct local_job *job = learner->job;
    struct wait wait = wait_begin(job);
    tri_status status = TRI_OK;
    char who[32];
    while (status == TRI_OK && load(&job->head->round) < learner->wanted) {
        uint32_t key = event_key(&job->head->news); /* local.pml: round key */
        if (load(&job->head->round) < learner->wanted)
            status = wait_more(&wait, &job->head->news, key, NULL);
        local_touch(learner);
    }
    (void)snprintf(who, sizeof who, "learner %u", learner->seat);
    return wait_failed(&wait, status, who, "the end of a round", err);
}

static tri_status refresh_replica(struct local_learner *learner, tri_error *err)
{
    tri_status status = replica_refresh(learner, err);
    learner->fresh_look = status == TRI_OK;
    return status;
}

tri_status local_refresh(struct local_learner *learner, tri_error *err)
{
    struct local_job *job = learner->job;
    struct seat *seat = &job->seats[learner->seat];
    tri_status status = TRI_OK;
    local_touch(learner);
    store(&seat->clock, seat->clock + 1);
    if (job->head->mode == LOCAL_SYNC)
        status = wait_for_round(learner, err);
    else if (learner->replica != NULL)
        status = refresh_replica(learner, err);
    else if (learner->pull.on)
        status = pull_over(learner, err);
    else if (has_copies(learner))
        status = copy_refresh(learner, &learner->copies[0], err);
    if (status != TRI_OK)
        return status;
    if (learner->replica == NULL)
        learner->version = has_copies(learner) ? learner->copies[learner->front].version
                                               : load(&job->head->version);
    if (local_stopping(job))
        return fail(err, TRI_EEVICTED, "the job '%s' was stopped", job->head->name);
    return TRI_OK;
}

const float *local_weights(const struct local_learner *learner, uint32_t layer)
{
    if (learner->job->layers[layer].common)
        return set_layer(learner->job, sets_number(learner), layer);
    if (learner->replica != NULL)
        return copy_of(learner->job, learner->seat) + learner->job->layers[layer].place;
    if (!has_copies(learner))
        return local_shared(learner->job, layer);
    return learner->copies[learner->front].weights + learner->job->layers[layer].offset;
}

uint64_t local_version(const struct local_learner *learner)
{
    return learner->version;
}

/* ---- gradients ---- */

tri_status local_take(struct local_learner *learner, struct local_gradient **out, tri_error *err)
{
    tri_status status = TRI_OK;
    if (learner->taken)
        return fail(err, TRI_EARG, "learner %u has a gradient open already", learner->seat);
    if (learner->replica != NULL && !learner->fresh_look) /* or there may be no room */
        status = refresh_replica(learner, err);
    if (status != TRI_OK)
        return status;
    if (learner->own[0] != NULL)
        learner->gradient.slot = learner->own[learner->fill];
    else
        status = queue_begin(learner->job, learner->seat, &learner->gradient.slot, err);
    if (status != TRI_OK)
        return status;
    gradient_clear(learner->job, learner->gradient.slot);
    learner->taken = true;
    *out = &learner->gradient;
    return TRI_OK;
}

tri_status local_direct_begin(struct local_learner *learner, tri_error *err)
{
    struct local_job *job = learner->job;
    struct seat *seat = &job->seats[learner->seat];
    if (job->head->mode != LOCAL_DIRECT)
        return fail(err, TRI_EARG, "learners of job '%s' leave the steps to its server",
                    job->head->name);
    tri_status status = lock_write(job, err);
    if (status != TRI_OK)
        return status;
    store32(&seat->holding, 1);
    store(&seat->begun, seat->begun + 1);
    reach(job, LOCAL_AT_MARKED);
    return TRI_OK;
}

static void direct_end(struct local_learner *learner, uint64_t base)
{
    struct local_job *job = learner->job;
    struct seat *seat = &job->seats[learner->seat];
    reach(job, LOCAL_AT_STEPPED);
    store(&seat->head, seat->head + 1);
    store32(&seat->holding, 0);
    uint64_t version = __atomic_fetch_add(&job->head->version, 1, __ATOMIC_ACQ_REL);
    bump(&job->head->changes, 1);
    count_stale(seat, version, base);
    unlock_write(job);
    store(&seat->progress_us, clock_us());
}

void local_direct_end(struct local_learner *learner)
{
    for (uint32_t l = 0; l < learner->job->head->layer_count; l++)
        layers_changed(learner->job, l);
    direct_end(learner, learner->version);
}

tri_status deliver(struct local_learner *learner, const struct slot *slot, tri_error *err)
{
    struct local_job *job = learner->job;
    if (job->head->mode == LOCAL_DIRECT) {
        tri_status status = local_direct_begin(learner, err);
        if (status != TRI_OK)
            return status;
        apply_gradient(job, learner->crew, slot);
        direct_end(learner, slot->version);
        return TRI_OK;
    }
    struct slot *to;
    tri_status status = queue_begin(job, learner->seat, &to, err);
    if (status != TRI_OK)
        return status;
    gradient_copy(job, to, slot);
    queue_publish(job, learner->seat);
    return TRI_OK;
}

/* What it was computed from is taken first: the next iteration looks further. */
static void publish_replica(struct local_learner *learner, const struct slot *slot)
{
    struct local_job *job = learner->job;
    replica_take(learner);
    for (uint32_t l = 0; l < job->head->layer_count; l++)
        if (slot->parts[l].form != FORM_NONE)
            layers_changed(job, l);
    reach(job, LOCAL_AT_HALF_FULL); /* replicas.pml: FILL */
    count_stale(&job->seats[learner->seat], version_by_counts(job), slot->version);
    queue_publish(job, learner->seat); /* replicas.pml: ALONG: publish */
    replica_published(learner);
    learner->fresh_look = false;
    for (uint32_t i = 0; i < job->head->learners; i++)
        if (load32(&job->seats[i].done) != 0)
            event_wake(&job->seats[i].space);
}

static void write_head(const struct local_learner *learner, struct slot *slot, float lr,
                       float divisor)
{
    slot->version = learner->version;
    slot->clock = load(&learner->job->head->round); /* sync: it cannot move before this is in */
    slot->lr = lr;
    slot->divisor = divisor;
}

/* A step that was made cannot be taken back: what was stepped goes to all. */
static void publish_stepped(struct local_learner *learner)
{
    const struct replica *replica = learner->replica;
    struct slot *slot = learner->gradient.slot;
    replica_keep_stepped(learner, slot);
    write_head(learner, slot, replica->along_lr, replica->along_divisor);
    publish_replica(learner, slot);
}

void local_drop(struct local_learner *learner)
{
    if (learner->replica != NULL && replica_is_stepping(learner))
        publish_stepped(learner);
    else if (learner->taken && learner->own[0] == NULL)
        queue_cancel(learner->job, learner->seat);
    learner->taken = false;
}

tri_status local_publish(struct local_learner *learner, float lr, float divisor, tri_error *err)
{
    struct local_job *job = learner->job;
    struct slot *slot = learner->gradient.slot;
    if (!learner->taken || !(divisor > 0))
        return fail(err, TRI_EARG, "learner %u publishes %s", learner->seat,
                    learner->taken ? "with a divisor that is not above 0" : "what it did not take");
    tri_status status = gradient_check(job, slot, err);
    if (status != TRI_OK)
        return status;
    if (learner->replica != NULL && replica_is_stepping(learner) &&
        replica_has_other_rate(learner, lr, divisor))
        return fail(err, TRI_EARG, "learner %u publishes with another rate than it has stepped by",
                    learner->seat);
    write_head(learner, slot, lr, divisor);
    learner->wanted = slot->clock + 1;
    if (learner->push.on) {
        status = push_over(learner, err);
    } else if (job->head->mode == LOCAL_DIRECT) {
        status = deliver(learner, slot, err);
    } else if (learner->replica != NULL) {
        publish_replica(learner, slot);
    } else {
        reach(job, LOCAL_AT_HALF_FULL); /* local.pml: fill */
        queue_publish(job, learner->seat);
    }
    local_touch(learner);
    if (status == TRI_OK)
        learner->taken = false;
    return status;
}

tri_status local_flush(struct local_learner *learner, tri_error *err)
{
    struct local_job *job = learner->job;
    struct seat *seat = &job->seats[learner->seat];
    tri_status status = learner->push.on ? push_idle(learner, err) : TRI_OK;
    if (learner->replica != NULL)
        status = replica_flush(learner, err);
    if (status != TRI_OK || !has_server(job))
        return status;
    struct wait wait = wait_begin(job);
    char who[32];
    while (status == TRI_OK && waiting_in(seat) > 0) {
        uint32_t key = event_key(&seat->space);
        if (waiting_in(seat) > 0)
            status = wait_more(&wait, &seat->space, key, NULL);
        local_touch(learner);
    }
    (void)snprintf(who, sizeof who, "learner %u", learner->seat);
    return wait_failed(&wait, status, who, "its gradients to be applied", err);
}
