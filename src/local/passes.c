/* Gradients of queues on their way into the weights.
 *
 * A gradient that goes over all blocks by itself has every weight read and written for it alone. So
 * another that is there, or comes meanwhile, comes along from the next block on: where two pass,
 * the weights are read and written once for both. When the first is done, the second goes over the
 * blocks that it has missed, and a third comes along there. Each weight gets them in the order in
 * which they were begun, to the same bits as one after the other; rows are stepped when all that
 * was begun before their gradient is in. Nobody waits for a second one.
 *
 * head.applying says what the server is in the middle of, by turns in its two words: the seat + 1
 * above TORN_SHIFT, the number of the gradient below. A mark is written before the first weight
 * changes and taken back after the tail was moved; who finds one beside a tail that has not moved
 * knows of a torn gradient. */
#include <string.h>

#include "local/inside.h"

/* A gradient that is begun. */
struct flight {
    const struct slot *slot; /* NULL: there is none */
    uint64_t number;         /* in its queue */
    uint32_t seat;
    uint32_t word;         /* of head.applying */
    unsigned char *passed; /* by block: whether it has passed it; NULL: it came first */
};

struct passes {
    struct apply_pass pass; /* first: what look() is called with */
    struct local_job *job;
    struct crew *crew;
    bool pairs;
    uint32_t next; /* seat to look at */
    struct flight first, second;
    unsigned char *blocks[2]; /* for two who came second, by turns */
    uint32_t turn;
};

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
    const size_t first = marks[0] <= marks[1] ? 0 : 1; /* of two of one seat, the earlier */
    recover(job, marks[first]);
    recover(job, marks[1 - first]);
    store(&head->applying[0], 0);
    store(&head->applying[1], 0);
    if (head->mode == LOCAL_SERVER)
        store(&head->version, version_by_counts(job));
    if (marks[0] != 0 || marks[1] != 0)
        bump(&head->changes, 1); /* else who copies meanwhile has whole weights all the same */
    for (uint32_t i = 0; i < head->learners; i++)
        event_wake(&job->seats[i].space); /* it may have died before it could say so */
    event_wake(&head->news);
    return all_torn(job) - load(&head->torn_noted);
}

void passes_note_torn(struct local_job *job)
{
    store(&job->head->torn_noted, all_torn(job));
}

/* ---- opening ---- */

/* Less than that is in a near cache when the next gradient comes. */
enum { PAIR_FLOATS = 1 << 19 };

tri_status passes_open(struct local_job *job, struct crew *crew, uint64_t pair_floats,
                       struct passes **out, tri_error *err)
{
    const uint64_t least = pair_floats > 0 ? pair_floats : PAIR_FLOATS;
    struct passes *passes = mem_array(job->mem, 1, sizeof *passes);
    if (passes == NULL)
        return fail_nomem(err, "the server's passes");
    passes->job = job;
    passes->crew = crew;
    /* Who reads under a lock is to find no gradient by half. */
    passes->pairs = job->plain && job->head->locked == 0 && job->head->floats >= least;
    for (int i = 0; i < 2 && passes->pairs; i++) {
        passes->blocks[i] = mem_array(job->mem, job->block_count, 1);
        if (passes->blocks[i] == NULL) {
            passes_close(passes);
            return fail_nomem(err, "the server's passes");
        }
    }
    *out = passes;
    return TRI_OK;
}

void passes_close(struct passes *passes)
{
    if (passes == NULL)
        return;
    const struct mem *mem = passes->job->mem;
    mem_free(mem, passes->blocks[0]);
    mem_free(mem, passes->blocks[1]);
    mem_free(mem, passes);
}

/* ---- which, and when ---- */

static uint64_t begun_of(const struct passes *passes, uint32_t seat)
{
    return (uint64_t)(passes->first.slot != NULL && passes->first.seat == seat) +
           (passes->second.slot != NULL && passes->second.seat == seat);
}

static bool is_to_end(const struct local_job *job)
{
    return load32(&job->head->hold) != 0 || local_stopping(job);
}

/* The next gradient that is not begun, of the seats by turns. */
static bool find_next(struct passes *passes, struct flight *out)
{
    const struct local_job *job = passes->job;
    for (uint32_t k = 0; k < job->head->learners; k++) {
        const uint32_t i = (passes->next + k) % job->head->learners;
        const uint64_t begun = begun_of(passes, i);
        if (waiting_in(&job->seats[i]) <= begun)
            continue;
        const uint64_t number = tail_of(&job->seats[i]) + begun;
        *out = (struct flight){.slot = slot_at(job, i, number), .number = number, .seat = i};
        return true;
    }
    return false;
}

/* It counts as begun, in the word that the other one has not. */
static void begin(struct passes *passes, struct flight *flight, const struct flight *other)
{
    struct local_job *job = passes->job;
    passes->next = (flight->seat + 1) % job->head->learners;
    flight->word = other->slot != NULL ? 1 - other->word : 0;
    store(&job->head->applying[flight->word],
          applying_mark(flight->seat, flight->number)); /* local.pml: mark */
    reach(job, LOCAL_AT_MARKED);
}

/* In the middle of a pass, in the server's thread: has somebody come to take along? */
static void look_for_second(void *ctx)
{
    struct passes *passes = ctx;
    struct flight second;
    if (!passes->pairs || passes->second.slot != NULL || is_to_end(passes->job) ||
        !find_next(passes, &second))
        return;
    begin(passes, &second, &passes->first);
    second.passed = passes->blocks[passes->turn];
    passes->turn = 1 - passes->turn;
    memset(second.passed, 0, passes->job->block_count);
    passes->second = second;
    passes->pass.second_passed = second.passed;
    apply_second(&passes->pass, second.slot); /* local.pml: along */
}

/* ---- passes ---- */

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

static bool has_passed_all(const struct passes *passes, const struct flight *flight)
{
    return flight->passed != NULL && memchr(flight->passed, 0, passes->job->block_count) == NULL;
}

/* The first goes over what it has not passed, and is done. */
static void end_first(struct passes *passes, bool takes_along)
{
    struct local_job *job = passes->job;
    passes->pass = (struct apply_pass){.job = job,
                                       .slot = passes->first.slot,
                                       .passed = passes->first.passed,
                                       .look = takes_along ? look_for_second : NULL};
    if (!has_passed_all(passes, &passes->first)) {
        if (takes_along)
            look_for_second(passes);
        apply_dense(passes->crew, &passes->pass); /* local.pml: pass */
    }
    slot_changed(job, passes->first.slot);
    commit(passes, &passes->first);
    tell(passes, &passes->first);
    passes->first = passes->second;
    passes->second = (struct flight){0};
    if (passes->first.slot != NULL)
        apply_rows(job, passes->crew, passes->first.slot);
}

void passes_finish(struct passes *passes)
{
    while (passes->first.slot != NULL)
        end_first(passes, false);
}

static tri_status take_whole(struct passes *passes, struct flight *flight, tri_error *err)
{
    struct local_job *job = passes->job;
    tri_status status = lock_write(job, err);
    if (status != TRI_OK)
        return status;
    begin(passes, flight, &passes->first);
    apply_gradient(job, passes->crew, flight->slot); /* local.pml: step */
    commit(passes, flight);
    unlock_write(job);
    tell(passes, flight);
    return TRI_OK;
}

static tri_status begin_first(struct passes *passes, tri_error *err)
{
    struct flight flight;
    if (!find_next(passes, &flight))
        return TRI_OK;
    if (!passes->pairs || !slot_has(passes->job, flight.slot, FORM_DENSE))
        return take_whole(passes, &flight, err);
    begin(passes, &flight, &passes->first);
    passes->first = flight;
    apply_rows(passes->job, passes->crew, flight.slot);
    return TRI_OK;
}

tri_status passes_go(struct passes *passes, tri_error *err)
{
    tri_status status = TRI_OK;
    if (is_to_end(passes->job))
        return TRI_OK;
    if (passes->first.slot == NULL)
        status = begin_first(passes, err);
    if (passes->first.slot != NULL)
        end_first(passes, true);
    return status;
}
