/* Making, filling and leaving a job of equal processes. */
#include "local/share.h"

#include <string.h>

#include "local/replica.h"
#include "os/clock.h"

enum { PAUSE_US = 1000 };

/* What the note holds. */
struct note {
    uint64_t filled, first;
};
_Static_assert(sizeof(struct note) <= LOCAL_NOTE_COLS * sizeof(float), "the note has a row");

uint32_t local_note(const struct local_job *job)
{
    uint32_t last = job->head->layer_count - 1;
    const struct local_layer *layer = &job->layers[last];
    bool is_note = strcmp(layer->name, LOCAL_NOTE_NAME) == 0 && layer->cols >= LOCAL_NOTE_COLS;
    return is_note ? last : LOCAL_ANY;
}

static struct note *note_of(const struct local_job *job)
{
    return (struct note *)(void *)local_shared(job, local_note(job));
}

static tri_status has_note(const struct local_job *job, tri_error *err)
{
    if (local_note(job) != LOCAL_ANY)
        return TRI_OK;
    fail(err, TRI_EINPUT, "the job '%s' on this machine is of another program", job->head->name);
    fail_where(err, "%s", job->region.path);
    fail_next(err, "give this one another name with TRIDENT_JOB");
    return TRI_EINPUT;
}

/* ---- beginning ---- */

/* Nobody is rank 0 there any more. Where a watchdog starts processes again, it knows what it does.
 */
static bool may_take_over(const struct local_job *job, bool watched)
{
    struct local_seat_stats seat;
    local_seat_stats(job, 0, &seat);
    bool dead = seat.state == LOCAL_SEAT_DEAD || (seat.state == LOCAL_SEAT_TAKEN && !seat.alive);
    bool unborn = !local_share_is_filled(job) && !alive_is(&job->head->creator);
    return !local_stopping(job) && (watched || dead || unborn);
}

/* The region is there, and somebody has it. */
static tri_status take_over(const struct local_options *options, bool watched,
                            struct local_job **out, tri_error *err)
{
    struct local_options soon = *options;
    struct local_job *job = NULL;
    soon.wait_ms = 1;
    if (local_attach(&soon, &job, NULL) != TRI_OK)
        return TRI_EINPUT; /* err says why there is no other */
    local_set_wait(job, options->wait_ms);
    tri_status status = has_note(job, err);
    if (status == TRI_OK && !may_take_over(job, watched))
        status = TRI_EINPUT;
    if (status == TRI_OK)
        *out = job;
    else
        local_close(job);
    return status;
}

tri_status local_share_make(const struct local_options *options, bool watched,
                            struct local_job **out, bool *filled, tri_error *err)
{
    tri_status status = local_create(options, out, err);
    *filled = false;
    if (status != TRI_EINPUT)
        return status;
    status = take_over(options, watched, out, err);
    *filled = status == TRI_OK && local_share_is_filled(*out);
    return status;
}

void local_share_filled(struct local_job *job, uint64_t first)
{
    store(&note_of(job)->first, first);
    store(&note_of(job)->filled, 1);
}

bool local_share_is_filled(const struct local_job *job)
{
    return local_note(job) != LOCAL_ANY && load(&note_of(job)->filled) != 0;
}

uint64_t local_share_first(const struct local_job *job)
{
    return load(&note_of(job)->first);
}

/* What a job that was killed has left behind. */
static bool is_stale(const struct local_job *job)
{
    const struct head *head = job->head;
    struct alive_id server = load_id(&head->server), watch = load_id(&head->watch);
    struct local_stats stats;
    local_stats(job, &stats);
    return stats.alive == 0 && !alive_is(&head->creator) && !alive_is(&server) && !alive_is(&watch);
}

static tri_status tell_unfilled(const struct local_options *options, tri_error *err)
{
    fail(err, TRI_ETIMEOUT, "rank 0 of job '%s' did not begin in %.1f s", options->name,
         (double)options->wait_ms / 1e3);
    fail_next(err, "see what rank 0 says; more time: TRIDENT_TIMEOUT_MS");
    return TRI_ETIMEOUT;
}

tri_status local_share_find(const struct local_options *options, bool watched,
                            struct local_job **out, tri_error *err)
{
    uint64_t wait_us = (uint64_t)(options->wait_ms > 0 ? options->wait_ms : 30000) * 1000;
    uint64_t deadline = clock_us() + wait_us;
    struct local_options soon = *options;
    soon.wait_ms = 1;
    for (;;) {
        struct local_job *job = NULL;
        tri_status status = local_attach(&soon, &job, err);
        if (status != TRI_OK && (status != TRI_EINPUT || clock_us() >= deadline))
            return status;
        if (status == TRI_OK && local_share_is_filled(job) && (watched || !is_stale(job))) {
            local_set_wait(job, options->wait_ms);
            *out = job;
            return TRI_OK;
        }
        local_close(job); /* another one may come by that name */
        if (clock_us() >= deadline)
            return tell_unfilled(options, err);
        clock_sleep_us(PAUSE_US);
    }
}

/* ---- the loop ---- */

tri_status local_share_refresh(struct local_learner *learner, uint64_t *wait_us, tri_error *err)
{
    uint64_t since = clock_us();
    tri_status status = local_refresh(learner, err);
    *wait_us += clock_us() - since;
    return status;
}

tri_status local_share_take(struct local_learner *learner, struct local_gradient **out,
                            uint64_t *wait_us, tri_error *err)
{
    uint64_t since = clock_us();
    tri_status status = local_take(learner, out, err);
    *wait_us += clock_us() - since;
    return status;
}

/* ---- the end ---- */

/* Nobody has sat there, and somebody may. */
static bool is_awaited(const struct local_job *job, uint32_t i)
{
    return state_of(&job->seats[i]) == LOCAL_SEAT_FREE && joins_of(&job->seats[i]) == 0 &&
           load32(&job->seats[i].given_up) == 0;
}

/* Of the others: one that is still to be waited for, or LOCAL_ANY. *silent_us: since when nothing
 * was heard of it. */
static uint32_t who_trains(const struct local_job *job, uint32_t own, uint64_t since_us,
                           uint64_t *silent_us)
{
    for (uint32_t i = 0; i < job->head->learners; i++) {
        struct local_seat_stats seat;
        local_seat_stats(job, i, &seat);
        bool comes = is_awaited(job, i);
        bool waits = has_server(job) && seat.counts.waiting > 0;
        bool done = has_replicas(job) && load32(&job->seats[i].done) != 0;
        if (i == own ? !waits : (!seat.alive || done) && !comes && !waits)
            continue;
        *silent_us = seat.alive ? seat.idle_us : clock_us() - since_us;
        return i;
    }
    return LOCAL_ANY;
}

static tri_status tell_waiting(const struct local_job *job, uint32_t seat, tri_error *err)
{
    fail(err, TRI_ETIMEOUT, "waited %.1f s in vain for learner %u of job '%s' to end",
         (double)job->wait_ms / 1e3, seat, job->head->name);
    fail_next(err, "see what that process does; more time: TRIDENT_TIMEOUT_MS");
    return TRI_ETIMEOUT;
}

tri_status local_share_end(struct local_job *job, uint32_t own, bool watched, tri_error *err)
{
    uint64_t since = clock_us(), silent = 0;
    for (;;) {
        bool stopping = local_stopping(job); /* by one that has seen all of them end, perhaps */
        uint32_t seat = who_trains(job, own, since, &silent);
        if (watched ? local_done(job) : seat == LOCAL_ANY)
            return TRI_OK;
        if (stopping)
            return fail(err, TRI_EEVICTED, "the job '%s' was stopped", job->head->name);
        if (!watched && silent >= (uint64_t)job->wait_ms * 1000)
            return tell_waiting(job, seat, err);
        clock_sleep_us(PAUSE_US);
    }
}

/* With a watchdog: nobody publishes any more, and nobody comes who would. */
static bool others_are_done(const struct local_job *job, uint32_t own)
{
    for (uint32_t i = 0; i < job->head->learners; i++) {
        const struct sitter sitter = seat_sitter(&job->seats[i]);
        const bool ended = sitter.state == LOCAL_SEAT_LEFT ||
                           (sitter.alive && load32(&job->seats[i].done) != 0) ||
                           (!sitter.alive && load32(&job->seats[i].given_up) != 0);
        if (i != own && !ended)
            return false;
    }
    return true;
}

tri_status local_share_drain(struct local_learner *learner, bool watched, tri_error *err)
{
    struct local_job *job = learner->job;
    const uint32_t own = learner->seat;
    uint64_t since = clock_us(), silent = 0;
    store32(&job->seats[own].done, 1); /* replicas.pml: DONE */
    wake_all(job);
    for (;;) {
        const uint32_t key = event_key(&job->seats[own].space);
        const bool stopping = local_stopping(job);
        const uint32_t seat = watched ? LOCAL_ANY : who_trains(job, own, since, &silent);
        const bool over = watched ? others_are_done(job, own) : seat == LOCAL_ANY;
        local_touch(learner);
        if (replica_take_all(learner))
            continue;
        if (over) /* looked at before the last look at what they published */
            return local_settle(learner, err);
        if (stopping)
            return fail(err, TRI_EEVICTED, "the job '%s' was stopped", job->head->name);
        if (!watched && silent >= (uint64_t)job->wait_ms * 1000)
            return tell_waiting(job, seat, err);
        (void)event_wait(&job->seats[own].space, key, SLICE_MS);
    }
}

void local_share_await_all(struct local_job *job)
{
    const uint64_t deadline = clock_us() + (uint64_t)job->wait_ms * 1000;
    for (uint32_t i = 0; i < job->head->learners; i++) {
        while (is_awaited(job, i) && !local_stopping(job) && clock_us() < deadline)
            clock_sleep_us(PAUSE_US);
        if (is_awaited(job, i))
            local_give_up(job, i);
    }
}

bool local_share_is_last(const struct local_job *job, uint32_t own)
{
    uint64_t silent;
    return who_trains(job, own, clock_us(), &silent) == LOCAL_ANY;
}

/* ---- serving ---- */

struct local_service {
    struct local_job *job;
    pthread_t thread;
};

static void *serve(void *ctx)
{
    struct local_service *service = ctx;
    const struct local_serve_options options = {.threads = 1};
    tri_error why = {0};
    if (local_serve(service->job, &options, &why) != TRI_OK) {
        log_write(service->job->log, LOG_ERROR, "the server ends: %s", why.text);
        local_stop(service->job);
    }
    return NULL;
}

tri_status local_service_start(struct local_job *job, struct local_service **out, tri_error *err)
{
    struct local_service *service = mem_array(job->mem, 1, sizeof *service);
    if (service == NULL)
        return fail_nomem(err, "a server");
    service->job = job;
    int refused = pthread_create(&service->thread, NULL, serve, service);
    if (refused != 0) {
        mem_free(job->mem, service);
        return fail(err, TRI_EIO, "cannot start a thread: error %d", refused);
    }
    *out = service;
    return TRI_OK;
}

void local_service_stop(struct local_service *service)
{
    if (service == NULL)
        return;
    (void)pthread_join(service->thread, NULL);
    mem_free(service->job->mem, service);
}
