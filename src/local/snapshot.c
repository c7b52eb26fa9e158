/* Copies of the weights while the job goes on, and putting one back. */
#include <stdio.h>

#include "local/sets.h"
#include "os/clock.h"

tri_status local_snapshot_open(const struct local_job *job, struct local_snapshot *out,
                               tri_error *err)
{
    const struct head *head = job->head;
    struct local_snapshot snapshot = {.floats = head->floats, .state_floats = head->state_floats};
    snapshot.weights = mem_array(job->mem, head->floats, sizeof(float));
    snapshot.state = mem_array(job->mem, head->state_floats, sizeof(float));
    snapshot.steps = mem_array(job->mem, head->layer_count, sizeof(uint64_t));
    snapshot.applied = mem_array(job->mem, head->learners, sizeof(uint64_t));
    if (snapshot.weights == NULL || snapshot.state == NULL || snapshot.steps == NULL ||
        snapshot.applied == NULL) {
        local_snapshot_close(job, &snapshot);
        return fail_nomem(err, "a snapshot of the weights");
    }
    *out = snapshot;
    return TRI_OK;
}

void local_snapshot_close(const struct local_job *job, struct local_snapshot *snapshot)
{
    mem_free(job->mem, snapshot->weights);
    mem_free(job->mem, snapshot->state);
    mem_free(job->mem, snapshot->steps);
    mem_free(job->mem, snapshot->applied);
    *snapshot = (struct local_snapshot){0};
}

static bool server_lives(const struct local_job *job)
{
    struct alive_id server = load_id(&job->head->server);
    return alive_is(&server);
}

void rest_if_held(struct local_job *job, uint32_t target)
{
    struct head *head = job->head;
    uint32_t word;
    if (!is_held(job, target, &word))
        return;
    store32(&head->held, word); /* local.pml: rest */
    event_wake(&head->news);
    while (load32(&head->hold) == word && !local_stopping(job)) {
        uint32_t key = event_key(&head->work);
        bool woken = load32(&head->hold) != word || event_wait(&head->work, key, SLICE_MS);
        if (target != HOLD_SERVER) /* it is not this learner that is stuck */
            store(&job->seats[target].progress_us, clock_us());
        struct alive_id who = load_id(&head->snapshooter);
        uint32_t theirs = word;
        if (!woken && !alive_is(&who)) /* replicas.pml: TAKE OFF */
            (void)__atomic_compare_exchange_n(&head->hold, &theirs, 0, false, __ATOMIC_ACQ_REL,
                                              __ATOMIC_ACQUIRE);
    }
}

/* It has said so, or is a learner that is between two iterations and will see the wish before the
 * next. */
static bool rests(const struct local_job *job, uint32_t target, uint32_t word)
{
    return load32(&job->head->held) == word ||
           (target != HOLD_SERVER && is_quiet(&job->seats[target]));
}

static bool target_lives(const struct local_job *job, uint32_t target)
{
    if (target == HOLD_SERVER)
        return server_lives(job);
    return seat_sitter(&job->seats[target]).alive && load32(&job->seats[target].whole) != 0;
}

/* Under the lock of snapshots: the target rests, or is not there (*held). One that starts meanwhile
 * sees the wish first. For most_ms and wait_ms at most. */
static tri_status hold(struct local_job *job, uint32_t target, uint32_t most_ms, bool *held)
{
    struct head *head = job->head;
    struct wait wait = wait_begin(job);
    tri_status status = TRI_OK;
    if (wait.since_us + (uint64_t)most_ms * 1000 < wait.deadline_us)
        wait.deadline_us = wait.since_us + (uint64_t)most_ms * 1000;
    store32(&head->hold_number, head->hold_number + 1);
    const uint32_t word = hold_word(head->hold_number, target);
    SAID(&head->hold);
    __atomic_store_n(&head->hold, word, __ATOMIC_SEQ_CST); /* local.pml: hold */
    event_wake(&head->work);
    if (target != HOLD_SERVER)
        event_wake(&job->seats[target].space);
    while (status == TRI_OK && !rests(job, target, word) && target_lives(job, target)) {
        uint32_t key = event_key(&head->news);
        if (!rests(job, target, word) && target_lives(job, target))
            status = wait_more(&wait, &head->news, key, NULL);
    }
    *held = rests(job, target, word);
    /* Evicted: the target is about to end; the weights are still there. */
    return status == TRI_EEVICTED ? TRI_OK : status;
}

static void let_go(struct local_job *job)
{
    store32(&job->head->hold, 0); /* local.pml: let go; replicas.pml: LET GO */
    event_wake(&job->head->work);
}

static void copy_all(const struct local_job *job, struct local_snapshot *out)
{
    const struct head *head = job->head;
    out->version = load(&head->version);
    for (uint32_t i = 0; i < head->learners; i++)
        out->applied[i] = seat_applied(job, &job->seats[i]);
    for (uint32_t l = 0; l < head->layer_count; l++) {
        const struct local_layer *layer = &job->layers[l];
        out->steps[l] = load(&job->steps[l]);
        update_copy(out->weights + layer->offset, job->weights + layer->offset, layer->floats);
    }
    update_copy(out->state, job->state, head->state_floats);
}

static tri_status take_with_server(struct local_job *job, struct local_snapshot *out,
                                   tri_error *err)
{
    bool held;
    const struct wait wait = wait_begin(job);
    tri_status status = wait_failed(&wait, hold(job, HOLD_SERVER, HOLD_ANY_MS, &held), "a snapshot",
                                    "the server to rest", err);
    if (status == TRI_OK) {
        /* A server that ends, or takes up what a dead one left, does not rest for anybody. */
        const uint64_t changes = load(&job->head->changes);
        const bool whole = !is_applying(job);
        reach(job, LOCAL_AT_HELD);
        copy_all(job, out);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        out->exact = whole && !is_applying(job) && load(&job->head->changes) == changes;
    }
    let_go(job);
    return status;
}

static tri_status take_direct(struct local_job *job, struct local_snapshot *out, tri_error *err)
{
    uint32_t seat = job->head->learners;
    tri_status status = lock_read(job, seat, err);
    if (status != TRI_OK)
        return status;
    copy_all(job, out);
    out->exact = job->head->locked != 0;
    unlock_read(job, seat);
    return TRI_OK;
}

static tri_status take_replica(struct local_job *job, struct local_snapshot *out, tri_error *err);

tri_status local_snapshot_take(struct local_job *job, struct local_snapshot *out, tri_error *err)
{
    if (has_replicas(job))
        return take_replica(job, out, err);
    tri_status status = lock_take(job, &job->head->snapshot, "snapshots", NULL, err);
    if (status != TRI_OK)
        return status;
    store_id(&job->head->snapshooter, alive_self());
    status = job->head->mode == LOCAL_DIRECT ? take_direct(job, out, err)
                                             : take_with_server(job, out, err);
    store_id(&job->head->snapshooter, (struct alive_id){0});
    robust_unlock(&job->head->snapshot);
    return status;
}

/* ---- replicas ---- */

/* A learner whose copy is whole: one that is quiet, or the next after `last` by turns, for one that
 * is in the middle of something may be stopped there. */
static uint32_t find_whole(const struct local_job *job, uint32_t except, uint32_t last)
{
    const uint32_t count = job->head->learners;
    uint32_t found = LOCAL_ANY;
    for (uint32_t k = 1; k <= count; k++) {
        const uint32_t i = (uint32_t)(((uint64_t)last + k) % count);
        if (i == except || !target_lives(job, i))
            continue;
        if (is_quiet(&job->seats[i]))
            return i;
        found = found == LOCAL_ANY ? i : found;
    }
    return found;
}

tri_status source_hold(struct local_job *job, uint32_t except, uint32_t most_ms, struct source *out,
                       tri_error *err)
{
    tri_status status = lock_take(job, &job->head->snapshot, "snapshots", NULL, err);
    if (status != TRI_OK)
        return status;
    const struct wait wait = wait_begin(job);
    const uint64_t end_us = wait.since_us + (uint64_t)most_ms * 1000;
    store_id(&job->head->snapshooter, alive_self());
    *out = (struct source){.reader = load32(&job->head->base), .exact = true};
    bool found = false, held;
    uint32_t seat = job->head->learners - 1;
    while (status == TRI_OK && !found && (seat = find_whole(job, except, seat)) != LOCAL_ANY) {
        status = hold(job, seat, 2 * SLICE_MS, &held); /* replicas.pml: HOLD */
        found = held || local_stopping(job); /* else it has died or left, or takes its time */
        if (found)
            *out = (struct source){.reader = seat, .exact = held};
        if (status == TRI_ETIMEOUT && clock_us() < end_us && clock_us() < wait.deadline_us)
            status = TRI_OK;
    }
    char what[32];
    (void)snprintf(what, sizeof what, "learner %u to rest", seat);
    status = wait_failed(&wait, status, "who copies weights", what, err);
    if (status != TRI_OK)
        source_let_go(job);
    return status;
}

void source_let_go(struct local_job *job)
{
    let_go(job);
    store_id(&job->head->snapshooter, (struct alive_id){0});
    robust_unlock(&job->head->snapshot);
}

/* Layers that no gradient was of are as they were when the region was filled. */
static const float *own_layer(const struct local_job *job, uint32_t reader, uint32_t layer)
{
    const float *from = load(&job->steps[layer]) > 0 ? copy_of(job, reader) : job->weights;
    return from + job->layers[layer].place;
}

void copy_own_layers(const struct local_job *job, uint32_t reader, float *to)
{
    for (uint32_t l = 0; l < job->head->layer_count; l++) {
        const struct local_layer *layer = &job->layers[l];
        const float *from = own_layer(job, reader, l);
        if (!layer->common && from != to + layer->place)
            update_copy(to + layer->place, from, layer->floats);
    }
}

static void snapshot_of(const struct local_job *job, uint32_t reader, struct local_snapshot *out)
{
    const uint64_t *row = taken_row(job, reader);
    out->version = version_of_row(job, row);
    for (uint32_t i = 0; i < job->head->learners; i++)
        out->applied[i] =
            load(&job->seats[i].carried) + load(&row[i]) - load(&job->seats[i].discarded);
    const uint64_t set = set_of(job, reader);
    for (uint32_t l = 0; l < job->head->layer_count; l++) {
        const struct local_layer *layer = &job->layers[l];
        out->steps[l] = load(&job->steps[l]);
        update_copy(out->weights + layer->offset,
                    layer->common ? set_layer(job, set, l) : own_layer(job, reader, l),
                    layer->floats);
    }
    out->exact = set_is(job, set, row);
}

tri_status local_snapshot_own(struct local_learner *learner, struct local_snapshot *out,
                              tri_error *err)
{
    tri_status status = local_settle(learner, err);
    if (status == TRI_OK)
        snapshot_of(learner->job, learner->seat, out);
    return status;
}

/* A learner that is buried keeps its copy, but not the set that it has read: others may have
 * written to it since. */
static bool source_was_kept(const struct local_job *job, const struct source *source)
{
    return !has_sets(job) || source->reader == load32(&job->head->base) ||
           __atomic_load_n(&job->seats[source->reader].whole, __ATOMIC_SEQ_CST) != 0;
}

static tri_status take_replica(struct local_job *job, struct local_snapshot *out, tri_error *err)
{
    enum { MOST_MS = 3000 }; /* a watchdog has more to do, and takes another one soon */
    for (bool kept = false; !kept;) {
        struct source source;
        tri_status status = source_hold(job, LOCAL_ANY, MOST_MS, &source, err);
        if (status != TRI_OK)
            return status;
        reach(job, LOCAL_AT_HELD);
        snapshot_of(job, source.reader, out); /* replicas.pml: SNAPSHOT; sets.pml: COPY */
        kept = source_was_kept(job, &source); /* sets.pml: COPY: thrown away */
        out->exact = out->exact && source.exact && !local_stopping(job); /* nobody rests then */
        source_let_go(job);
    }
    return TRI_OK;
}

/* ---- putting one back ---- */

/* A learner lives that has a copy, or is about to. */
static bool has_copies(const struct local_job *job)
{
    for (uint32_t i = 0; i < job->head->learners; i++)
        if (seat_sitter(&job->seats[i]).alive && load32(&job->seats[i].reads) != 0)
            return true;
    return false;
}

bool local_copies_lost(const struct local_job *job)
{
    if (!has_replicas(job) || has_copies(job))
        return false;
    const uint64_t *row = taken_row(job, load32(&job->head->base));
    for (uint32_t w = 0; w < job->head->learners; w++)
        if (load(&job->seats[w].head) - load(&row[w]) >= job->head->slots)
            return true;
    return false;
}

static tri_status may_restore(const struct local_job *job, const struct local_snapshot *snapshot,
                              bool drain, tri_error *err)
{
    struct local_stats stats;
    local_stats(job, &stats);
    if (stats.server_alive || (has_replicas(job) ? has_copies(job) : drain && stats.alive > 0))
        return fail(err, TRI_EARG, "weights cannot be put back while %s",
                    stats.server_alive ? "the server lives" : "learners live");
    if (snapshot->floats != job->head->floats || snapshot->state_floats != job->head->state_floats)
        return fail(err, TRI_EINPUT, "the snapshot is of another model than job '%s'",
                    job->head->name);
    return TRI_OK;
}

/* Counts of a seat become the snapshot's; what is more was for nothing. */
static void restore_counts(struct local_job *job, uint32_t i, uint64_t applied, bool drain)
{
    struct seat *seat = &job->seats[i];
    if (has_replicas(job))
        store(&taken_row(job, job->head->learners)[i], load(&seat->head));
    if (has_sets(job))
        store(&set_counts(job, set_now(job))[i], load(&seat->head));
    if (drain && has_server(job))
        store(&seat->tail, load(&seat->tail) + waiting_in(seat));
    uint64_t have = seat_applied(job, seat);
    if (have > applied)
        store(&seat->discarded, load(&seat->discarded) + have - applied);
    else
        store(&seat->carried, load(&seat->carried) + applied - have);
    event_wake(&seat->space);
}

tri_status local_restore(struct local_job *job, const struct local_snapshot *snapshot, bool drain,
                         tri_error *err)
{
    struct head *head = job->head;
    tri_status status = lock_take(job, &head->snapshot, "snapshots", NULL, err); /* nobody joins */
    if (status != TRI_OK)
        return status;
    status = may_restore(job, snapshot, drain, err);
    if (status == TRI_OK)
        status = lock_write(job, err);
    if (status != TRI_OK) {
        robust_unlock(&head->snapshot);
        return status;
    }
    if (has_server(job))
        (void)passes_recover(job);
    store32(&head->base, head->learners); /* replicas.pml: RESTORE */
    uint64_t sum = 0;
    for (uint32_t i = 0; i < head->learners; i++) {
        restore_counts(job, i, snapshot->applied[i], drain);
        sum += snapshot->applied[i];
    }
    for (uint32_t l = 0; l < head->layer_count; l++) {
        const struct local_layer *layer = &job->layers[l];
        float *to = layer->common ? set_layer(job, set_now(job), l) : job->weights + layer->place;
        update_copy(to, snapshot->weights + layer->offset, layer->floats);
        store(&job->steps[l], snapshot->steps[l]);
        bump(&job->changes[l], 1);
    }
    update_copy(job->state, snapshot->state, head->state_floats);
    passes_note_torn(job);
    store(&head->version_base, snapshot->version - sum);
    store(&head->version, snapshot->version);
    bump(&head->changes, 1);
    unlock_write(job);
    robust_unlock(&head->snapshot);
    event_wake(&head->news);
    return TRI_OK;
}
