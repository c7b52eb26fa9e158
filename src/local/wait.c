/* Waiting: always for somebody, never for ever. */
#include "local/inside.h"
#include "os/clock.h"

struct wait wait_begin(const struct local_job *job)
{
    uint64_t now = clock_us();
    return (struct wait){job, now, now + (uint64_t)job->wait_ms * 1000};
}

tri_status wait_more(const struct wait *wait, uint32_t *event, uint32_t key, bool *idle)
{
    if (local_stopping(wait->job))
        return TRI_EEVICTED;
    uint64_t now = clock_us();
    if (now >= wait->deadline_us)
        return TRI_ETIMEOUT;
    uint64_t left_ms = (wait->deadline_us - now) / 1000 + 1;
    bool woken = event_wait(event, key, left_ms < SLICE_MS ? (uint32_t)left_ms : SLICE_MS);
    if (idle != NULL)
        *idle = !woken;
    return TRI_OK;
}

tri_status wait_failed(const struct wait *wait, tri_status status, const char *who,
                       const char *what, tri_error *err)
{
    const struct head *head = wait->job->head;
    if (status == TRI_EEVICTED) {
        fail(err, status, "the job '%s' was stopped while %s waited for %s", head->name, who, what);
        return status;
    }
    if (status != TRI_ETIMEOUT)
        return status;
    fail(err, status, "%s of job '%s' waited %.1f s for %s", who, head->name,
         (double)(clock_us() - wait->since_us) / 1e6, what);
    struct alive_id server = load_id(&head->server);
    if (!has_server(wait->job)) {
        fail_next(err, "see what that process does; more time: TRIDENT_TIMEOUT_MS");
        return status;
    }
    if (server.pid == 0)
        fail_why(err, "there is no server");
    else
        fail_why(err, "the server, process %llu, %s", (unsigned long long)server.pid,
                 alive_is(&server) ? "lives, and does not answer" : "is gone");
    fail_next(err, "start the server again, or have a watchdog that does");
    return status;
}

tri_status lock_take(struct local_job *job, pthread_mutex_t *lock, const char *what, bool *taken_up,
                     tri_error *err)
{
    struct wait wait = wait_begin(job);
    if (taken_up != NULL)
        *taken_up = false;
    do {
        switch (robust_lock(lock, SLICE_MS)) {
        case ROBUST_TAKEN_UP: /* local.pml: take up */
            bump(&job->head->locks_taken_up, 1);
            if (taken_up != NULL)
                *taken_up = true;
            return TRI_OK;
        case ROBUST_HELD:
            return TRI_OK;
        case ROBUST_BROKEN:
            return fail(err, TRI_EIO, "the lock of %s of job '%s' is damaged", what,
                        job->head->name);
        case ROBUST_TIMEOUT:
            break;
        }
    } while (clock_us() < wait.deadline_us);
    return fail(err, TRI_ETIMEOUT, "waited %.1f s for the lock of %s of job '%s'",
                (double)(clock_us() - wait.since_us) / 1e6, what, job->head->name);
}
