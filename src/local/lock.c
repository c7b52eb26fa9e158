/* Readers and a writer, any of whom may die.
 *
 * Each reader has a flag of its own, the writer one for all. Both set theirs first and look at the
 * other's then, so never both go in. A dead reader's flag is taken down by who buries it, a dead
 * writer's by the next who gets the robust lock that writers hold. */
#include <stdio.h>

#include "local/inside.h"

/* Sequentially consistent: with less, both could miss the other's flag. */
static void raise_flag(uint32_t *flag, uint32_t value)
{
    __atomic_store_n(flag, value, __ATOMIC_SEQ_CST);
}

static uint32_t look_at(const uint32_t *flag)
{
    return __atomic_load_n(flag, __ATOMIC_SEQ_CST);
}

/* If the writer is dead its flag would stand for ever. */
static void take_up_writer(struct local_job *job)
{
    switch (robust_lock(&job->head->writer, 0)) {
    case ROBUST_TAKEN_UP: /* local.pml: take up */
        bump(&job->head->locks_taken_up, 1);
        raise_flag(&job->head->writing, 0);
        event_wake(&job->head->lock_event);
        robust_unlock(&job->head->writer);
        break;
    case ROBUST_HELD: /* a new writer raises it again when it comes */
        raise_flag(&job->head->writing, 0);
        event_wake(&job->head->lock_event);
        robust_unlock(&job->head->writer);
        break;
    case ROBUST_TIMEOUT:
    case ROBUST_BROKEN:
        break;
    }
}

tri_status lock_read(struct local_job *job, uint32_t seat, tri_error *err)
{
    if (!job->head->locked)
        return TRI_OK;
    uint32_t *mine = &job->seats[seat].reading, *event = &job->head->lock_event;
    struct wait wait = wait_begin(job);
    tri_status status = TRI_OK;
    while (status == TRI_OK) {
        bool idle = false;
        raise_flag(mine, 1); /* local.pml: read flag */
        if (look_at(&job->head->writing) == 0) {
            reach(job, LOCAL_AT_READING);
            return TRI_OK;
        }
        raise_flag(mine, 0);
        event_wake(event); /* the writer may have seen it */
        uint32_t key = event_key(event);
        if (look_at(&job->head->writing) != 0)
            status = wait_more(&wait, event, key, &idle);
        if (idle)
            take_up_writer(job);
    }
    return wait_failed(&wait, status, "a reader", "the weights, which are being written", err);
}

void unlock_read(struct local_job *job, uint32_t seat)
{
    if (!job->head->locked)
        return;
    raise_flag(&job->seats[seat].reading, 0); /* local.pml: read done */
    event_wake(&job->head->lock_event);
}

static bool somebody_reads(const struct local_job *job)
{
    for (uint32_t i = 0; i <= job->head->learners; i++)
        if (look_at(&job->seats[i].reading) != 0)
            return true;
    return false;
}

/* The last seat is of who takes a snapshot. */
static void drop_dead_readers(struct local_job *job)
{
    uint32_t last = job->head->learners;
    struct alive_id who = load_id(&job->head->snapshooter);
    (void)local_bury(job);
    if (look_at(&job->seats[last].reading) != 0 && !alive_is(&who))
        raise_flag(&job->seats[last].reading, 0);
}

tri_status lock_write(struct local_job *job, tri_error *err)
{
    if (!job->head->locked)
        return TRI_OK;
    uint32_t *event = &job->head->lock_event;
    tri_status status = lock_take(job, &job->head->writer, "the weights", NULL, err);
    if (status != TRI_OK)
        return status;
    raise_flag(&job->head->writing, 1); /* local.pml: write flag */
    struct wait wait = wait_begin(job);
    while (status == TRI_OK && somebody_reads(job)) {
        bool idle = false;
        uint32_t key = event_key(event);
        if (somebody_reads(job))
            status = wait_more(&wait, event, key, &idle);
        if (idle)
            drop_dead_readers(job); /* local.pml: bury reader */
    }
    if (status == TRI_OK) {
        reach(job, LOCAL_AT_WRITING);
        return TRI_OK;
    }
    unlock_write(job);
    return wait_failed(&wait, status, "the writer", "the last reader of the weights", err);
}

void unlock_write(struct local_job *job)
{
    if (!job->head->locked)
        return;
    raise_flag(&job->head->writing, 0); /* local.pml: write done */
    event_wake(&job->head->lock_event);
    robust_unlock(&job->head->writer);
}
