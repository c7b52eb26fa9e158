/* Copies of the weights while the job goes on, and putting one back. */
#include "local/inside.h"

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

/* The server rests, or there is none. One that starts meanwhile sees the hold first. */
static tri_status hold_server(struct local_job *job, tri_error *err)
{
    struct head *head = job->head;
    struct wait wait = wait_begin(job);
    tri_status status = TRI_OK;
    store32(&head->hold, 1); /* local.pml: hold */
    event_wake(&head->work);
    while (status == TRI_OK && load32(&head->held) == 0 && server_lives(job)) {
        uint32_t key = event_key(&head->news);
        if (load32(&head->held) == 0 && server_lives(job))
            status = wait_more(&wait, &head->news, key, NULL);
    }
    if (status == TRI_EEVICTED) /* the server is about to end; the weights are still there */
        status = TRI_OK;
    return wait_failed(&wait, status, "a snapshot", "the server to rest", err);
}

static void let_go(struct local_job *job)
{
    store32(&job->head->hold, 0); /* local.pml: let go */
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
    tri_status status = hold_server(job, err);
    if (status == TRI_OK) {
        reach(job, LOCAL_AT_HELD);
        copy_all(job, out);
        out->exact = load(&job->head->applying) == 0;
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

tri_status local_snapshot_take(struct local_job *job, struct local_snapshot *out, tri_error *err)
{
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

/* ---- putting one back ---- */

static tri_status may_restore(const struct local_job *job, const struct local_snapshot *snapshot,
                              bool drain, tri_error *err)
{
    struct local_stats stats;
    local_stats(job, &stats);
    if (stats.server_alive || (drain && stats.alive > 0))
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
    if (drain && job->head->mode != LOCAL_DIRECT)
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
    tri_status status = may_restore(job, snapshot, drain, err);
    if (status == TRI_OK)
        status = lock_write(job, err);
    if (status != TRI_OK)
        return status;
    (void)server_recover(job);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < head->learners; i++) {
        restore_counts(job, i, snapshot->applied[i], drain);
        sum += snapshot->applied[i];
    }
    for (uint32_t l = 0; l < head->layer_count; l++) {
        const struct local_layer *layer = &job->layers[l];
        update_copy(job->weights + layer->offset, snapshot->weights + layer->offset, layer->floats);
        store(&job->steps[l], snapshot->steps[l]);
        bump(&job->changes[l], 1);
    }
    update_copy(job->state, snapshot->state, head->state_floats);
    store(&head->version_base, snapshot->version - sum);
    store(&head->version, snapshot->version);
    bump(&head->changes, 1);
    unlock_write(job);
    event_wake(&head->news);
    return TRI_OK;
}
