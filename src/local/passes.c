/* Gradients of queues on their way into the weights.
 *
 * A gradient that goes over all blocks by itself has every weight read and written for it alone. So
 * where there are many blocks it goes over them in two halves, and the second half of one and the
 * first half of the next are one pass: the weights are read and written once for two gradients.
 * Each weight still gets them in the order in which they were begun, to the same bits; rows come
 * after the pass in which their gradient is begun, when all that was begun before it is in. Nobody
 * waits for a second one: if none is there when a half is done, the other half goes alone.
 *
 * head.applying says what the server is in the middle of, by turns in its two words: the seat + 1
 * above TORN_SHIFT, the number of the gradient below. A mark is written before the first weight
 * changes and taken back after the tail was moved; who finds one beside a tail that has not moved
 * knows of a torn gradient. */
#include "local/inside.h"

/* Weights and gradients that a cache holds: there is little to save, and with the two slots that a
 * learner has by default more passes to begin and to end. */
enum { PAIR_FLOATS = 1 << 22 };

void passes_init(struct passes *passes, struct local_job *job, struct crew *crew,
                 uint64_t pair_floats)
{
    const uint64_t least = pair_floats > 0 ? pair_floats : PAIR_FLOATS;
    /* Who reads under a lock is to find no gradient by half. */
    const bool halves = job->plain && job->head->locked == 0 && job->head->floats >= least;
    *passes = (struct passes){.job = job, .crew = crew, .halves = halves};
}

/* ---- marks ---- */

uint64_t applying_mark(uint32_t seat, uint64_t number)
{
    return ((uint64_t)(seat == ROUND_MARK ? ROUND_MARK : seat + 1) << TORN_SHIFT) | number;
}

bool is_applying(const struct local_job *job)
{
    return load(&job->head->applying[0]) != 0 || load(&job->head->applying[1]) != 0;
}

static uint64_t all_torn(const struct local_job *job)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < job->head->learners; i++)
        sum += torn_of(&job->seats[i]);
    return sum;
}

static void recover(struct local_job *job, uint64_t mark)
{
    const uint64_t number = mark & (((uint64_t)1 << TORN_SHIFT) - 1);
    if (mark >> TORN_SHIFT == ROUND_MARK)
        round_recover(job);
    else if (mark != 0 && tail_of(&job->seats[(mark >> TORN_SHIFT) - 1]) == number)
        queue_finish(job, (uint32_t)(mark >> TORN_SHIFT) - 1, true); /* local.pml: torn */
}

uint64_t passes_recover(struct local_job *job)
{
    struct head *head = job->head;
    const uint64_t marks[2] = {load(&head->applying[0]), load(&head->applying[1])};
    const uint64_t before = all_torn(job);
    const size_t first = marks[0] <= marks[1] ? 0 : 1; /* of two of one seat, the earlier */
    recover(job, marks[first]);
    recover(job, marks[1 - first]);
    store(&head->applying[0], 0);
    store(&head->applying[1], 0);
    if (head->mode == LOCAL_SERVER)
        store(&head->version, version_by_counts(job));
    bump(&head->changes, 1);
    for (uint32_t i = 0; i < head->learners; i++)
        event_wake(&job->seats[i].space); /* it may have died before it could say so */
    event_wake(&head->news);
    return all_torn(job) - before;
}

/* ---- passes ---- */

uint64_t passes_waiting(const struct passes *passes, uint32_t seat)
{
    const bool begun = passes->flight.slot != NULL && passes->flight.seat == seat;
    return waiting_in(&passes->job->seats[seat]) - (begun ? 1 : 0);
}

static void begin(const struct passes *passes, const struct flight *flight)
{
    struct local_job *job = passes->job;
    store(&job->head->applying[flight->word],
          applying_mark(flight->seat, flight->number)); /* local.pml: mark */
    reach(job, LOCAL_AT_MARKED);
}

static void commit(const struct passes *passes, const struct flight *flight)
{
    struct local_job *job = passes->job;
    struct seat *seat = &job->seats[flight->seat];
    reach(job, LOCAL_AT_STEPPED);
    count_stale(seat, load(&job->head->version), flight->slot->version);
    queue_finish(job, flight->seat, false); /* local.pml: commit */
    bump(&job->head->version, 1);
    bump(&job->head->changes, 1);
    reach(job, LOCAL_AT_COMMITTED);
    store(&job->head->applying[flight->word], 0); /* local.pml: unmark */
}

/* Its slot may be filled again. */
static void tell(const struct passes *passes, const struct flight *flight)
{
    struct local_job *job = passes->job;
    struct seat *seat = &job->seats[flight->seat];
    crew_wake_later(passes->crew, &seat->space, load32(&seat->cpu));
    event_wake(&job->head->news);
}

static tri_status take_whole(struct passes *passes, const struct flight *flight, tri_error *err)
{
    struct local_job *job = passes->job;
    tri_status status = lock_write(job, err);
    if (status != TRI_OK)
        return status;
    begin(passes, flight);
    apply_gradient(job, passes->crew, flight->slot); /* local.pml: step */
    commit(passes, flight);
    unlock_write(job);
    tell(passes, flight);
    return TRI_OK;
}

/* Half of the blocks get the one that has passed the other half, and the next, if there is one. */
static void pass_half(struct passes *passes, const struct flight *next, uint32_t half)
{
    struct local_job *job = passes->job;
    const size_t middle = job->block_count / 2;
    struct apply_pass pass = {.first = half == 0 ? 0 : middle,
                              .end = half == 0 ? middle : job->block_count};
    if (passes->flight.slot != NULL)
        pass.slots[pass.count++] = passes->flight.slot;
    if (next->slot != NULL)
        pass.slots[pass.count++] = next->slot;
    apply_dense(job, passes->crew, &pass); /* local.pml: half */
    if (passes->flight.slot != NULL) {
        slot_changed(job, passes->flight.slot);
        commit(passes, &passes->flight);
        tell(passes, &passes->flight);
    }
    passes->flight = *next;
}

void passes_finish(struct passes *passes)
{
    const struct flight none = {0};
    if (passes->flight.slot != NULL)
        pass_half(passes, &none, 1 - passes->flight.half);
}

static void take_half(struct passes *passes, struct flight *next)
{
    if (passes->flight.slot != NULL) {
        next->half = 1 - passes->flight.half;
        next->word = 1 - passes->flight.word;
    }
    begin(passes, next);
    pass_half(passes, next, next->half);
    apply_rows(passes->job, passes->crew, next->slot);
}

tri_status passes_take(struct passes *passes, uint32_t seat, tri_error *err)
{
    struct local_job *job = passes->job;
    const bool begun = passes->flight.slot != NULL && passes->flight.seat == seat;
    struct flight next = {.seat = seat, .number = tail_of(&job->seats[seat]) + (begun ? 1 : 0)};
    next.slot = slot_at(job, seat, next.number);
    if (passes->halves && slot_has(job, next.slot, FORM_DENSE)) {
        take_half(passes, &next);
        return TRI_OK;
    }
    passes_finish(passes);
    return take_whole(passes, &next, err);
}
