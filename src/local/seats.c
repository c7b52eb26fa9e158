/* Who sits where, and who is dead. */
#include <stdio.h>

#include "local/inside.h"
#include "os/clock.h"

_Static_assert(sizeof(struct seat) % LINE == 0, "seats lie line by line");
_Static_assert(offsetof(struct seat, begun) == LINE, "a line of its own");
_Static_assert(offsetof(struct seat, tail) == (size_t)2 * LINE, "a line of its own");
_Static_assert(offsetof(struct seat, space) == (size_t)3 * LINE, "a line of its own");

/* The word is read before and after the rest: `who` is written before it says that somebody sits
 * there, and who leaves and ends has changed it. */
struct sitter seat_sitter(const struct seat *seat)
{
    struct sitter out;
    uint64_t word;
    do {
        word = load(&seat->sitting);
        out.who = load_id(&seat->who);
        out.state = (uint32_t)word;
        out.joins = (uint32_t)(word >> JOINS_SHIFT);
        out.alive = out.state == LOCAL_SEAT_TAKEN && alive_is(&out.who);
    } while (load(&seat->sitting) != word);
    return out;
}

bool seat_is_dead(const struct local_job *job, uint32_t seat)
{
    struct sitter sitter = seat_sitter(&job->seats[seat]);
    return sitter.state == LOCAL_SEAT_TAKEN && !sitter.alive;
}

static void set_state(struct seat *seat, enum local_seat_state state, uint32_t joins)
{
    store(&seat->sitting, (uint64_t)joins << JOINS_SHIFT | (uint64_t)state);
}

/* Under head.seats. Every store may be made twice, by one who takes up after a dead one. */
static void bury(struct local_job *job, uint32_t i)
{
    struct seat *seat = &job->seats[i];
    store32(&seat->holding, 0);
    __atomic_store_n(&seat->whole, 0, __ATOMIC_SEQ_CST); /* replicas.pml: BURY, before it is DEAD */
    __atomic_store_n(&seat->reads_set, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&seat->reading, 0, __ATOMIC_SEQ_CST); /* local.pml: bury reader */
    reach(job, LOCAL_AT_SEATS);
    set_state(seat, LOCAL_SEAT_DEAD, joins_of(seat)); /* local.pml: bury */
    event_wake(&job->head->lock_event);
    event_wake(&job->head->work);
    if (has_replicas(job)) /* who waits for it to read need not */
        wake_all(job);
}

uint32_t local_bury(struct local_job *job)
{
    uint32_t count = 0;
    bool any = false;
    for (uint32_t i = 0; i < job->head->learners && !any; i++)
        any = seat_is_dead(job, i);
    if (!any || lock_take(job, &job->head->seats, "the seats", NULL, NULL) != TRI_OK)
        return 0;
    for (uint32_t i = 0; i < job->head->learners; i++)
        if (seat_is_dead(job, i)) {
            bury(job, i);
            count++;
        }
    robust_unlock(&job->head->seats);
    return count;
}

static tri_status none_free(const struct local_job *job, uint32_t wish, tri_error *err)
{
    if (wish == LOCAL_ANY)
        fail(err, TRI_EINPUT, "job '%s' has no free seat: %u learners are there", job->head->name,
             job->head->learners);
    else
        fail(err, TRI_EINPUT, "seat %u of job '%s' is taken by process %llu", wish, job->head->name,
             (unsigned long long)load(&job->seats[wish].who.pid));
    fail_next(err, "create the job with more learners, or end that one first");
    return TRI_EINPUT;
}

/* Under head.seats. Until the state is written the seat counts as it did before. */
static void sit_down(struct local_job *job, uint32_t i)
{
    struct seat *seat = &job->seats[i];
    store_id(&seat->who, alive_self());
    store32(&seat->holding, 0);
    store32(&seat->given_up, 0);
    store32(&seat->reads, 0);
    store32(&seat->whole, 0);
    store32(&seat->quiet, 0);
    store32(&seat->done, 0);
    store(&seat->reads_set, 0);
    store(&seat->progress_us, clock_us());
    reach(job, LOCAL_AT_SEATS);
    set_state(seat, LOCAL_SEAT_TAKEN, joins_of(seat) + 1); /* local.pml, replicas.pml: sit down */
}

/* Under head.seats. Who has no wish gets a seat that nobody had yet, if there is one. */
static uint32_t find_seat(struct local_job *job, uint32_t wish)
{
    uint32_t found = LOCAL_ANY;
    for (uint32_t i = 0; i < job->head->learners; i++) {
        if (wish != LOCAL_ANY && i != wish)
            continue;
        if (seat_is_dead(job, i))
            bury(job, i);
        uint32_t state = state_of(&job->seats[i]);
        if (state == LOCAL_SEAT_FREE)
            return i;
        if (state != LOCAL_SEAT_TAKEN && found == LOCAL_ANY)
            found = i;
    }
    return found;
}

tri_status seat_take(struct local_job *job, uint32_t wish, uint32_t *out, tri_error *err)
{
    if (wish != LOCAL_ANY && wish >= job->head->learners)
        return fail(err, TRI_EINPUT, "job '%s' has no seat %u: it has %u", job->head->name, wish,
                    job->head->learners);
    tri_status status = lock_take(job, &job->head->seats, "the seats", NULL, err);
    if (status != TRI_OK)
        return status;
    uint32_t found = find_seat(job, wish);
    if (found != LOCAL_ANY)
        sit_down(job, found);
    robust_unlock(&job->head->seats);
    *out = found;
    return found != LOCAL_ANY ? TRI_OK : none_free(job, wish, err);
}

void seat_leave(struct local_job *job, uint32_t seat)
{
    store32(&job->seats[seat].holding, 0);
    set_state(&job->seats[seat], LOCAL_SEAT_LEFT,
              joins_of(&job->seats[seat])); /* local.pml: leave; replicas.pml: LEAVE: left */
    event_wake(&job->head->work);
    event_wake(&job->head->news);
    if (has_replicas(job))
        wake_all(job);
}

void local_give_up(struct local_job *job, uint32_t seat)
{
    store32(&job->seats[seat].given_up, 1);
    event_wake(&job->head->work);
    if (has_replicas(job))
        wake_all(job);
}

bool local_done(const struct local_job *job)
{
    for (uint32_t i = 0; i < job->head->learners; i++) {
        const struct seat *seat = &job->seats[i];
        uint32_t state = state_of(seat);
        bool over =
            state == LOCAL_SEAT_LEFT || (state != LOCAL_SEAT_TAKEN && load32(&seat->given_up) != 0);
        if (!over || (has_server(job) && waiting_in(seat) > 0))
            return false;
    }
    return true;
}
