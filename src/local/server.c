/* The server: takes the queues in turn, one gradient each.
 *
 * What it does to the weights is passes.c, or for rounds of all learners round.c. */
#include <stdio.h>

#include "local/inside.h"
#include "os/clock.h"

/* Looks for work before it sleeps, a microsecond or two. To sleep and be woken takes 20 and more,
 * and the learners wait for it; so a server whose last wait was short looks for longer. One that
 * waits for learners that compute leaves its core to them soon. */
enum { LOOKS = 64, LOOK_US = 25, SHORT_US = 50 };

struct server {
    struct local_job *job;
    const struct local_serve_options *options;
    struct crew *crew;
    struct rounds *rounds;
    struct passes *passes;
    bool patient; /* the last wait was short */
};

/* ---- taking up what a dead server left ---- */

static tri_status take_up(struct server *server, tri_error *err)
{
    struct local_job *job = server->job;
    uint64_t torn = passes_recover(job);
    if (torn == 0)
        return TRI_OK;
    log_write(job->log, LOG_WARN, "the last server died in the middle of %llu gradient(s)",
              (unsigned long long)torn);
    if (server->options->torn == LOCAL_TORN_KEEP) {
        passes_note_torn(job);
        return TRI_OK;
    }
    fail(err, TRI_EPEER, "the last server of job '%s' died in the middle of a gradient",
         job->head->name);
    fail_next(err, "put the last checkpoint back, then serve again");
    return TRI_EPEER;
}

static tri_status sit_down(struct local_job *job, tri_error *err)
{
    tri_status status = lock_take(job, &job->head->seats, "the seats", NULL, err);
    if (status != TRI_OK)
        return status;
    struct alive_id server = load_id(&job->head->server);
    if (alive_is(&server)) {
        status = fail(err, TRI_EINPUT, "job '%s' has a server already, process %llu",
                      job->head->name, (unsigned long long)server.pid);
    } else {
        store_id(&job->head->server, alive_self()); /* before it counts: see stats.c */
        store32(&job->head->server_starts, job->head->server_starts + 1);
    }
    robust_unlock(&job->head->seats);
    return status;
}

/* ---- serving ---- */

static bool has_work(const struct local_job *job)
{
    if (local_stopping(job) || load32(&job->head->hold) != 0)
        return true;
    if (job->head->mode == LOCAL_SYNC)
        return round_ready(job);
    for (uint32_t i = 0; i < job->head->learners; i++)
        if (waiting_in(&job->seats[i]) > 0)
            return true;
    return false;
}

/* A gradient or two, or one round. */
static tri_status go(struct server *server, tri_error *err)
{
    struct local_job *job = server->job;
    if (job->head->mode != LOCAL_SYNC)
        return passes_go(server->passes, err);
    return round_ready(job) ? round_apply(job, server->crew, server->rounds, err) : TRI_OK;
}

/* With nobody to start another, the dead are done, too. */
static bool is_over(const struct local_job *job)
{
    struct alive_id watch = load_id(&job->head->watch);
    if (local_done(job))
        return true;
    for (uint32_t i = 0; i < job->head->learners; i++) {
        uint32_t state = state_of(&job->seats[i]);
        if (state == LOCAL_SEAT_TAKEN || waiting_in(&job->seats[i]) > 0 ||
            (state == LOCAL_SEAT_FREE && load32(&job->seats[i].given_up) == 0))
            return false;
    }
    return !alive_is(&watch);
}

/* Who is to be woken is, by the thread on its processor if one is there and looks out. */
static bool look_for_work(struct server *server)
{
    const uint64_t until_us = clock_us() + LOOK_US;
    (void)crew_wake_here(server->crew);
    for (int i = 0; i < LOOKS || (server->patient && clock_us() < until_us); i++) {
        if (has_work(server->job))
            return true;
        if (i == LOOKS)
            (void)crew_wake_due(server->crew);
        event_pause();
    }
    (void)crew_wake_due(server->crew);
    return false;
}

/* No longer than a slice. */
static void wait_for_work(struct server *server)
{
    struct local_job *job = server->job;
    if (look_for_work(server)) {
        server->patient = true;
        return;
    }
    const bool in_vain = server->patient;
    const uint64_t asleep_us = clock_us();
    uint32_t key = event_key(&job->head->work); /* local.pml: work key */
    if (!has_work(job) && !event_wait(&job->head->work, key, SLICE_MS))
        (void)local_bury(job);
    server->patient = !in_vain && clock_us() - asleep_us < SHORT_US;
}

static tri_status serve(struct server *server, tri_error *err)
{
    struct local_job *job = server->job;
    tri_status status = take_up(server, err);
    while (status == TRI_OK && !local_stopping(job)) {
        if (load32(&job->head->hold) != 0) {
            passes_finish(server->passes); /* who copies is to find whole gradients */
            (void)crew_wake_due(server->crew);
            rest_if_held(job, HOLD_SERVER);
        } else if (has_work(job))
            status = go(server, err);
        else if (server->options->until_done && is_over(job))
            break;
        else
            wait_for_work(server);
    }
    passes_finish(server->passes);
    (void)crew_wake_due(server->crew);
    return status == TRI_EEVICTED ? TRI_OK : status;
}

tri_status local_serve(struct local_job *job, const struct local_serve_options *options,
                       tri_error *err)
{
    struct server server = {.job = job, .options = options};
    if (!has_server(job))
        return fail(err, TRI_EARG, "a job in mode %s has no server",
                    local_mode_name((enum local_mode)job->head->mode));
    tri_status status = sit_down(job, err);
    if (status != TRI_OK)
        return status;
    status = crew_open(job, options->threads, &server.crew, err);
    if (status == TRI_OK && job->head->mode == LOCAL_SYNC)
        status = rounds_open(job, &server.rounds, err);
    if (status == TRI_OK)
        status = passes_open(job, server.crew, options->pair_floats, &server.passes, err);
    if (status == TRI_OK)
        status = serve(&server, err);
    passes_close(server.passes);
    rounds_close(job, server.rounds);
    crew_close(server.crew);
    store_id(&job->head->server, (struct alive_id){0});
    event_wake(&job->head->news);
    return status;
}
