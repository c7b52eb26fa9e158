/* One queue per seat: one learner fills it, one server empties it.
 *
 * head counts what was published, tail what is done with; slot n % slots is the learner's while
 * n - tail < slots and not published, the server's after that. A push is one store of the head, an
 * application one store of the tail: who dies before it has done nothing, who dies after it all. */
#include <stdio.h>

#include "local/inside.h"
#include "os/clock.h"
#include "os/thread.h"

enum { SPINS = 16 }; /* looks before the first sleep: less than a microsecond */

struct slot *slot_at(const struct local_job *job, uint32_t seat, uint64_t number)
{
    uint64_t index = (uint64_t)seat * job->head->slots + number % job->head->slots;
    return (struct slot *)(job->slots + index * job->head->slot_bytes);
}

static bool has_space(const struct local_job *job, const struct seat *seat)
{
    return has_replicas(job) ? has_room(job, (uint32_t)(seat - job->seats), NULL)
                             : waiting_in(seat) < job->head->slots;
}

static tri_status wait_for_space(struct local_job *job, uint32_t number, tri_error *err)
{
    struct seat *seat = &job->seats[number];
    struct wait wait = wait_begin(job);
    tri_status status = TRI_OK;
    char who[32];
    for (int i = 0; i < SPINS && !has_space(job, seat); i++)
        event_pause();
    while (status == TRI_OK && !has_space(job, seat)) {
        uint32_t key = event_key(&seat->space); /* local.pml: space key */
        store32(&seat->cpu, thread_cpu());
        if (!has_space(job, seat))
            status = wait_more(&wait, &seat->space, key, NULL);
        store(&seat->progress_us, clock_us()); /* it is not this learner that is stuck */
    }
    (void)snprintf(who, sizeof who, "learner %u", number);
    return wait_failed(&wait, status, who, "a free slot", err);
}

tri_status queue_begin(struct local_job *job, uint32_t number, struct slot **out, tri_error *err)
{
    struct seat *seat = &job->seats[number];
    if (local_stopping(job)) {
        struct wait wait = wait_begin(job);
        return wait_failed(&wait, TRI_EEVICTED, "a learner", "a free slot", err);
    }
    tri_status status = wait_for_space(job, number, err);
    if (status != TRI_OK)
        return status;
    store32(&seat->holding, 1);
    store(&seat->begun, seat->begun + 1); /* local.pml: begin */
    reach(job, LOCAL_AT_TAKEN);
    *out = slot_at(job, number, seat->head);
    return TRI_OK;
}

void queue_publish(struct local_job *job, uint32_t number)
{
    struct seat *seat = &job->seats[number];
    store(&seat->head, seat->head + 1); /* local.pml: publish */
    reach(job, LOCAL_AT_PUBLISHED);
    store32(&seat->holding, 0);
    store(&seat->progress_us, clock_us());
    event_wake(&job->head->work); /* local.pml: wake server */
}

void queue_cancel(struct local_job *job, uint32_t number)
{
    struct seat *seat = &job->seats[number];
    store(&seat->begun, seat->begun - 1);
    store32(&seat->holding, 0);
}

void queue_finish(struct local_job *job, uint32_t number, bool torn)
{
    struct seat *seat = &job->seats[number];
    uint64_t step = 1 + (torn ? (uint64_t)1 << TORN_SHIFT : 0);
    store(&seat->tail, seat->tail + step); /* local.pml: commit */
}

/* Where there is no server, what is published is applied. */
uint64_t seat_applied(const struct local_job *job, const struct seat *seat)
{
    uint64_t done = has_server(job) ? tail_of(seat) - torn_of(seat) : load(&seat->head);
    return load(&seat->carried) + done - load(&seat->discarded);
}

uint64_t version_by_counts(const struct local_job *job)
{
    uint64_t sum = load(&job->head->version_base);
    for (uint32_t i = 0; i < job->head->learners; i++)
        sum += seat_applied(job, &job->seats[i]);
    return sum;
}
