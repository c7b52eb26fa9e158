/* Whose copy a learner begins with, and which one it leaves behind (mode replicas).
 *
 * The comments "replicas.pml: x" name the steps of verify/replicas.pml. */
#include "local/replica.h"
#include "local/sets.h"
#include "os/clock.h"

/* ---- coming ---- */

/* What was published by learners that are all dead, and is not in the base, can be had as long as
 * it is in their slots. What is further back than that is lost. */
static void skip_lost(struct local_job *job)
{
    uint64_t *base = taken_row(job, load32(&job->head->base));
    for (uint32_t w = 0; w < job->head->learners; w++) {
        const uint64_t behind = load(&job->seats[w].head) - load(&base[w]);
        if (behind < job->head->slots)
            continue;
        store(&base[w], load(&base[w]) + behind); /* first: who dies in between counts none twice */
        store(&job->seats[w].discarded, load(&job->seats[w].discarded) + behind);
        log_write(job->log, LOG_WARN,
                  "%llu gradients of learner %u are lost: all who had them are dead",
                  (unsigned long long)behind, w);
    }
}

/* The seat begins to read where the source is, before anything is copied: from then on nobody fills
 * a slot that it has yet to read, whatever becomes of the source. False: the source was buried
 * before that, and slots may have been filled; another must be found. */
static bool begin_to_read(struct local_job *job, uint32_t seat, uint32_t source)
{
    uint64_t *own = taken_row(job, seat);
    const uint64_t *row = taken_row(job, source);
    const bool learns = source != load32(&job->head->base);
    if (!learns)
        skip_lost(job);
    for (uint32_t w = 0; w < job->head->learners; w++)
        store(&own[w], load(&row[w])); /* replicas.pml: row */
    __atomic_store_n(&job->seats[seat].reads_set, set_of(job, source), __ATOMIC_SEQ_CST);
    __atomic_store_n(&job->seats[seat].reads, 1, __ATOMIC_SEQ_CST);    /* replicas.pml: counted */
    (void)__atomic_fetch_add(&job->head->joined, 1, __ATOMIC_SEQ_CST); /* replicas.pml: said */
    if (!learns || __atomic_load_n(&job->seats[source].whole, __ATOMIC_SEQ_CST) != 0)
        return true; /* replicas.pml: check */
    __atomic_store_n(&job->seats[seat].reads, 0, __ATOMIC_SEQ_CST);
    return false;
}

/* A base that is this seat's old copy would be one that lives, and changes: it becomes the first.
 */
static void move_base(struct local_job *job, uint32_t seat, struct source *source)
{
    const uint32_t first = job->head->learners;
    if (load32(&job->head->base) != seat)
        return;
    copy_own_layers(job, seat, job->weights);
    for (uint32_t w = 0; w < first; w++)
        store(&taken_row(job, first)[w], load(&taken_row(job, seat)[w]));
    store32(&job->head->base, first); /* replicas.pml: base moves */
    if (source->reader == seat)
        source->reader = first;
}

/* A watchdog puts the last snapshot back; without one there is nothing to wait for. */
static void await_restore(const struct local_job *job)
{
    const struct wait wait = wait_begin(job);
    while (local_copies_lost(job) && is_watched(job) && !local_stopping(job) &&
           clock_us() < wait.deadline_us)
        clock_sleep_us(1000);
}

tri_status replica_begin(struct local_job *job, uint32_t seat, tri_error *err)
{
    struct source source;
    tri_status status;
    for (bool found = false; !found;) {
        await_restore(job);
        status = source_hold(job, seat, HOLD_ANY_MS, &source, err);
        if (status != TRI_OK)
            return status;
        if (!source.exact) {
            source_let_go(job);
            return fail(err, TRI_EEVICTED, "the job '%s' was stopped", job->head->name);
        }
        move_base(job, seat, &source);
        found = begin_to_read(job, seat, source.reader);
        if (!found)
            source_let_go(job);
    }
    reach(job, LOCAL_AT_HELD);
    copy_own_layers(job, source.reader, copy_of(job, seat)); /* replicas.pml: copy */
    if (local_stopping(job)) { /* nobody rests any more: it may be of two moments */
        source_let_go(job);
        return fail(err, TRI_EEVICTED, "the job '%s' was stopped", job->head->name);
    }
    const bool exact = set_is(job, set_of(job, seat), taken_row(job, seat));
    __atomic_store_n(&job->seats[seat].quiet, exact ? 1 : 0, __ATOMIC_SEQ_CST);
    store32(&job->seats[seat].whole, 1); /* replicas.pml: complete */
    source_let_go(job);
    return TRI_OK;
}

/* ---- leaving ---- */

/* The lock is taken in short turns: who has it may want this learner to rest. */
static bool lock_copies(struct local_learner *learner)
{
    enum { TURN_MS = 2 };
    struct local_job *job = learner->job;
    const struct wait wait = wait_begin(job);
    for (;;) {
        const enum robust_got got = robust_lock(&job->head->snapshot, TURN_MS);
        if (got == ROBUST_TAKEN_UP)
            bump(&job->head->locks_taken_up, 1);
        if (got == ROBUST_HELD || got == ROBUST_TAKEN_UP)
            return true;
        if (got == ROBUST_BROKEN || clock_us() >= wait.deadline_us)
            return false;
        (void)replica_take_all(learner); /* replicas.pml: LEAVE: in turns */
    }
}

/* Looks once more under the lock: so the last who leaves has the last gradient of all who left
 * before. One store makes its copy the one that who comes later begins with; also when common
 * layers could not get the last steps, for the base before it may lack far more. */
void replica_leave(struct local_learner *learner)
{
    struct local_job *job = learner->job;
    if (learner->replica == NULL || load32(&job->seats[learner->seat].whole) == 0)
        return;
    store32(&job->seats[learner->seat].done, 1);
    if (!lock_copies(learner)) {
        log_write(job->log, LOG_WARN, "learner %u leaves without its copy of the weights",
                  learner->seat);
        __atomic_store_n(&job->seats[learner->seat].whole, 0, __ATOMIC_SEQ_CST);
        return;
    }
    store32(&job->seats[learner->seat].whole, 0); /* replicas.pml: LEAVE: not whole */
    if (replica_flush(learner, NULL) != TRI_OK)
        log_write(job->log, LOG_WARN,
                  "learner %u leaves, and common layers lack its last steps: somebody who stands "
                  "still reads an old set",
                  learner->seat);
    store32(&job->head->base, learner->seat); /* replicas.pml: LEAVE: base */
    robust_unlock(&job->head->snapshot);
}
