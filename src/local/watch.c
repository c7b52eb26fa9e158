/* The watchdog: looks, writes down, starts again. It decides once per period and owns no state that
 * a new one could not do without. */
#include <string.h>

#include "local/inside.h"
#include "os/clock.h"

struct watch {
    struct local_job *job;
    const struct local_watch_options *options;
    struct local_watch_report *report;
    struct local_snapshot last, next; /* last: what everything would start from */
    uint32_t restarts[LOCAL_LEARNERS_MAX];
    uint64_t expected[LOCAL_LEARNERS_MAX]; /* by then somebody must sit there; 0: nobody comes */
    bool shot[LOCAL_LEARNERS_MAX];         /* it was stuck */
    uint32_t mourned[LOCAL_LEARNERS_MAX];  /* learners of the seat whose death was dealt with */
    uint64_t server_expected;
    uint32_t server_starts; /* as they were when it was started last */
    uint64_t report_at, save_at;
    uint64_t looked_us, awake_us; /* the last look; looks came in time since */
    uint64_t reported;            /* version */
    uint32_t tries, server_restarts;
};

static uint64_t or_else(uint32_t value, uint32_t fallback)
{
    return value > 0 ? value : fallback;
}

static uint64_t grace_us(const struct watch *watch)
{
    return or_else(watch->options->grace_ms, 30000) * 1000;
}

/* ---- checkpoints ---- */

static void checkpoint(struct watch *watch, bool first)
{
    struct local_job *job = watch->job;
    tri_error err;
    tri_status status = local_snapshot_take(job, &watch->next, &err);
    if (status == TRI_OK && !first && !watch->next.exact && job->head->mode != LOCAL_DIRECT)
        status = fail(&err, TRI_EPEER, "%s",
                      has_server(job) ? "a dead server has left a gradient half applied"
                                      : "no learner rests while the job is stopped");
    if (status == TRI_OK && has_replicas(job) && watch->next.version < watch->last.version)
        return; /* all copies are lost, and not put back yet */
    if (status == TRI_OK) {
        struct local_snapshot old = watch->last;
        watch->last = watch->next;
        watch->next = old;
        if (watch->options->save != NULL)
            status = watch->options->save(watch->options->ctx, &watch->last, &err);
    }
    if (status != TRI_OK) {
        log_write(job->log, LOG_WARN, "no checkpoint: %s", err.text);
        return;
    }
    watch->report->checkpoints++;
    log_write(job->log, first ? LOG_DEBUG : LOG_INFO, "checkpoint of version %llu",
              (unsigned long long)watch->last.version);
}

static void copy_snapshot(const struct local_job *job, struct local_snapshot *to,
                          const struct local_snapshot *from)
{
    memcpy(to->weights, from->weights, from->floats * sizeof(float));
    memcpy(to->state, from->state, from->state_floats * sizeof(float));
    memcpy(to->steps, from->steps, job->head->layer_count * sizeof(uint64_t));
    memcpy(to->applied, from->applied, job->head->learners * sizeof(uint64_t));
    to->version = from->version;
    to->exact = from->exact;
}

/* ---- learners ---- */

static tri_status start_learner(struct watch *watch, uint32_t seat, tri_error *err)
{
    watch->expected[seat] = clock_us() + grace_us(watch);
    return watch->options->start_learner(watch->options->ctx, seat, err);
}

static bool may_restart(const struct watch *watch, uint32_t seat)
{
    return watch->options->restart_learners && watch->options->start_learner != NULL &&
           watch->restarts[seat] < or_else(watch->options->restarts, 3);
}

/* Who starts learners has given up one that died before it sat down. */
static void look_for_given_up(struct watch *watch, uint32_t seat)
{
    if (watch->expected[seat] == 0 || load32(&watch->job->seats[seat].given_up) == 0)
        return;
    watch->expected[seat] = 0;
    watch->report->given_up++;
}

/* Is there somebody to go on? Who has died at the same moment is not. */
static bool others_go_on(const struct watch *watch, uint32_t seat)
{
    struct local_seat_stats other;
    for (uint32_t i = 0; i < watch->job->head->learners; i++) {
        local_seat_stats(watch->job, i, &other);
        if (i != seat && (other.alive || watch->expected[i] != 0))
            return true;
    }
    return false;
}

/* What becomes of a dead learner, for the line that tells of its death. */
static const char *fate(const struct watch *watch, uint32_t seat)
{
    return may_restart(watch, seat)    ? "and is started again"
           : others_go_on(watch, seat) ? "and the others go on without it"
                                       : "and is not started again";
}

static tri_status after_death(struct watch *watch, uint32_t seat, tri_error *err)
{
    watch->expected[seat] = 0;
    if (!may_restart(watch, seat)) {
        local_give_up(watch->job, seat); /* the rest goes on */
        watch->report->given_up++;
        return TRI_OK;
    }
    watch->restarts[seat]++;
    watch->report->learner_restarts++;
    return start_learner(watch, seat, err);
}

static void tell_dead(struct watch *watch, uint32_t seat, uint64_t pid, bool stuck)
{
    watch->report->deaths++;
    if (watch->options->dead != NULL)
        watch->options->dead(watch->options->ctx, seat, pid, stuck);
}

/* Kills what has given no sign of life; a learner in this very process can only be reported. */
static void look_for_stuck(struct watch *watch, uint32_t seat, const struct local_seat_stats *stats)
{
    uint64_t most = (uint64_t)watch->options->stuck_ms * 1000;
    uint64_t watched = clock_us() - watch->awake_us;
    struct alive_id who = load_id(&watch->job->seats[seat].who);
    if (most == 0 || !stats->alive || stats->idle_us < most || watched < most ||
        who.pid == alive_self().pid)
        return;
    log_write(watch->job->log, LOG_WARN,
              "learner %u, process %llu, gave no sign of life for %.1f s and is killed", seat,
              (unsigned long long)who.pid, (double)stats->idle_us / 1e6);
    watch->shot[seat] = alive_kill(&who);
    watch->report->stuck += watch->shot[seat];
}

static tri_status look_at_learner(struct watch *watch, uint32_t seat, tri_error *err)
{
    struct local_job *job = watch->job;
    struct local_seat_stats stats;
    local_seat_stats(job, seat, &stats);
    if (stats.state == LOCAL_SEAT_TAKEN && stats.alive) {
        watch->expected[seat] = 0;
        look_for_stuck(watch, seat, &stats);
        return TRI_OK;
    }
    look_for_given_up(watch, seat);
    /* The server buries, too: what counts is whether this watchdog knows. */
    bool is_dead = stats.state == LOCAL_SEAT_TAKEN || stats.state == LOCAL_SEAT_DEAD;
    if (is_dead && stats.joins > watch->mourned[seat]) {
        watch->mourned[seat] = stats.joins;
        log_write(job->log, LOG_WARN, "learner %u, process %llu, is dead after %llu gradients %s",
                  seat, (unsigned long long)stats.pid, (unsigned long long)stats.counts.pushed,
                  fate(watch, seat));
        (void)local_bury(job);
        tell_dead(watch, seat, stats.pid, watch->shot[seat]);
        watch->shot[seat] = false;
        return after_death(watch, seat, err);
    }
    if (watch->expected[seat] != 0 && clock_us() > watch->expected[seat] &&
        stats.state != LOCAL_SEAT_LEFT) {
        log_write(job->log, LOG_WARN, "learner %u did not start %s", seat, fate(watch, seat));
        tell_dead(watch, seat, 0, false);
        return after_death(watch, seat, err);
    }
    return TRI_OK;
}

/* ---- the server ---- */

static tri_status start_server(struct watch *watch, tri_error *err)
{
    watch->server_expected = clock_us() + grace_us(watch);
    watch->server_starts = load32(&watch->job->head->server_starts);
    return watch->options->start_server(watch->options->ctx, err);
}

static tri_status look_at_server(struct watch *watch, const struct local_stats *stats,
                                 tri_error *err)
{
    struct local_job *job = watch->job;
    if (!has_server(job) || watch->options->start_server == NULL)
        return TRI_OK;
    if (stats->server_alive) {
        watch->server_expected = 0;
        return TRI_OK;
    }
    bool came = stats->server_starts > watch->server_starts; /* and went */
    if (!came && watch->server_expected != 0 && clock_us() < watch->server_expected)
        return TRI_OK;
    if (local_done(job)) /* it has ended because all have, since the last look */
        return TRI_OK;
    if (watch->server_restarts >= or_else(watch->options->restarts, 3) + watch->options->tries) {
        fail(err, TRI_EPEER, "the server of job '%s' died %u times", job->head->name,
             watch->server_restarts);
        return TRI_EPEER;
    }
    watch->server_restarts++;
    watch->report->server_restarts++;
    log_write(job->log, LOG_WARN, "the server is dead and is started again");
    tri_status status = TRI_OK;
    if (is_applying(job)) /* a gradient is torn: take it back out */
        status = local_restore(job, &watch->last, false, err);
    return status == TRI_OK ? start_server(watch, err) : status;
}

/* ---- everything ---- */

/* Nobody is left who has a copy of the weights; those who are started again wait for one. One that
 * has just come to count among those who read is all that is needed. */
static tri_status put_back(struct watch *watch, tri_error *err)
{
    tri_status status = local_restore(watch->job, &watch->last, true, err);
    if (status == TRI_OK)
        log_write(watch->job->log, LOG_WARN,
                  "no copy of the weights is left: learners go on from the last snapshot, of %llu "
                  "gradients",
                  (unsigned long long)watch->last.version);
    return status == TRI_EARG ? TRI_OK : status;
}

static tri_status stop_server(struct watch *watch, tri_error *err)
{
    struct local_job *job = watch->job;
    struct alive_id server = load_id(&job->head->server);
    struct wait wait = wait_begin(job);
    if (server.pid != alive_self().pid)
        (void)alive_kill(&server);
    while (alive_is(&server) && clock_us() < wait.deadline_us) {
        clock_sleep_us(1000);
        server = load_id(&job->head->server);
    }
    if (alive_is(&server))
        return fail(err, TRI_EPEER, "the server of job '%s' cannot be ended", job->head->name);
    return TRI_OK;
}

static tri_status give_up(const struct watch *watch, tri_error *err)
{
    fail(err, TRI_EPEER, "no learner of job '%s' is left, after %u starts from a checkpoint",
         watch->job->head->name, watch->tries);
    fail_next(err, "look at what the learners said last; the last checkpoint has version %llu",
              (unsigned long long)watch->last.version);
    return TRI_EPEER;
}

static tri_status restart_all(struct watch *watch, tri_error *err)
{
    struct local_job *job = watch->job;
    const struct local_watch_options *options = watch->options;
    if (watch->tries >= options->tries || options->start_learner == NULL)
        return give_up(watch, err);
    watch->tries++;
    watch->report->full_restarts++;
    watch->report->given_up = 0;
    log_write(job->log, LOG_WARN,
              "no learner is left: all start again from version %llu (%u of %u)",
              (unsigned long long)watch->last.version, watch->tries, options->tries);
    tri_status status = stop_server(watch, err);
    if (status == TRI_OK)
        status = local_restore(job, &watch->last, true, err);
    if (status == TRI_OK && has_server(job) && options->start_server != NULL)
        status = start_server(watch, err);
    for (uint32_t i = 0; i < job->head->learners && status == TRI_OK; i++) {
        store32(&job->seats[i].given_up, 0);
        watch->restarts[i] = 0;
        status = start_learner(watch, i, err);
    }
    return status;
}

static bool somebody_comes(const struct watch *watch)
{
    for (uint32_t i = 0; i < watch->job->head->learners; i++)
        if (watch->expected[i] != 0)
            return true;
    return false;
}

static void say(struct watch *watch, const struct local_stats *stats)
{
    uint64_t now = clock_us();
    if (watch->options->report_ms == 0 || now < watch->report_at)
        return;
    double seconds = (double)watch->options->report_ms / 1e3;
    double applied = (double)stats->counts.applied;
    log_write(watch->job->log, LOG_INFO,
              "version %llu, %.0f a second; %u learners, %u left, %u dead; staleness %.1f",
              (unsigned long long)stats->version,
              (double)(stats->version - watch->reported) / seconds, stats->alive, stats->left,
              stats->dead, applied > 0 ? (double)stats->counts.stale_sum / applied : 0);
    watch->reported = stats->version;
    watch->report_at = now + (uint64_t)watch->options->report_ms * 1000;
}

/* Who was stopped, or slept with the whole machine, has not seen whether others were silent. */
static void note_gap(struct watch *watch)
{
    const uint64_t gap_us =
        (uint64_t)1000000 + 10000 * (uint64_t)or_else(watch->options->period_ms, 200);
    const uint64_t now = clock_us();
    if (now - watch->looked_us > gap_us)
        watch->awake_us = now;
    watch->looked_us = now;
}

/* One look. *over: the job is done. */
static tri_status look(struct watch *watch, bool *over, tri_error *err)
{
    struct local_job *job = watch->job;
    struct local_stats stats;
    tri_status status = TRI_OK;
    note_gap(watch);
    local_stats(job, &stats);
    if (watch->options->each != NULL && !watch->options->each(watch->options->ctx, &stats))
        return fail(err, TRI_EEVICTED, "the watch over job '%s' was ended", job->head->name);
    say(watch, &stats);
    for (uint32_t i = 0; i < job->head->learners && status == TRI_OK; i++)
        status = look_at_learner(watch, i, err);
    if (status == TRI_OK && local_copies_lost(job))
        status = put_back(watch, err);
    local_stats(job, &stats);
    *over = local_stopping(job) || (local_done(job) && stats.left > 0);
    if (status != TRI_OK || *over)
        return status;
    if (stats.taken == 0 && stats.left == 0 && !somebody_comes(watch))
        return restart_all(watch, err);
    status = look_at_server(watch, &stats, err);
    if (status == TRI_OK && watch->options->checkpoint_ms > 0 && clock_us() >= watch->save_at) {
        checkpoint(watch, false);
        watch->save_at = clock_us() + (uint64_t)watch->options->checkpoint_ms * 1000;
    }
    return status;
}

static tri_status sit_down(struct local_job *job, tri_error *err)
{
    tri_status status = lock_take(job, &job->head->seats, "the seats", NULL, err);
    if (status != TRI_OK)
        return status;
    struct alive_id other = load_id(&job->head->watch);
    if (alive_is(&other) && other.pid != alive_self().pid)
        status = fail(err, TRI_EINPUT, "job '%s' has a watchdog already, process %llu",
                      job->head->name, (unsigned long long)other.pid);
    else
        store_id(&job->head->watch, alive_self());
    robust_unlock(&job->head->seats);
    return status;
}

static tri_status live(struct watch *watch, const struct local_snapshot *from, tri_error *err)
{
    const struct local_watch_options *options = watch->options;
    struct local_job *job = watch->job;
    bool over = false;
    tri_status status = TRI_OK;
    if (from != NULL)
        copy_snapshot(job, &watch->last, from);
    else
        checkpoint(watch, true);
    uint64_t now = clock_us();
    watch->save_at = now + (uint64_t)options->checkpoint_ms * 1000;
    watch->report_at = now + (uint64_t)options->report_ms * 1000;
    watch->server_expected = now + grace_us(watch);
    for (uint32_t i = 0; i < job->head->learners; i++)
        watch->expected[i] = now + grace_us(watch);
    while (status == TRI_OK && !over) {
        status = look(watch, &over, err);
        if (status == TRI_OK && !over)
            clock_sleep_us(or_else(options->period_ms, 200) * 1000);
    }
    if (status == TRI_OK && options->checkpoint_ms > 0)
        checkpoint(watch, false);
    return status;
}

tri_status local_watch(struct local_job *job, const struct local_watch_options *options,
                       const struct local_snapshot *from, struct local_watch_report *report,
                       tri_error *err)
{
    struct local_watch_report unread;
    if (report == NULL)
        report = &unread;
    *report = (struct local_watch_report){0};
    if (from != NULL &&
        (from->floats != job->head->floats || from->state_floats != job->head->state_floats))
        return fail(err, TRI_EINPUT, "the checkpoint is of another model than job '%s'",
                    job->head->name);
    struct watch *watch = mem_array(job->mem, 1, sizeof *watch);
    if (watch == NULL)
        return fail_nomem(err, "the watchdog");
    watch->job = job;
    watch->options = options;
    watch->report = report;
    tri_status status = local_snapshot_open(job, &watch->last, err);
    if (status == TRI_OK)
        status = local_snapshot_open(job, &watch->next, err);
    if (status == TRI_OK)
        status = sit_down(job, err);
    if (status == TRI_OK) {
        status = live(watch, from, err);
        store_id(&job->head->watch, (struct alive_id){0});
    }
    local_snapshot_close(job, &watch->last);
    local_snapshot_close(job, &watch->next);
    mem_free(job->mem, watch);
    return status;
}
