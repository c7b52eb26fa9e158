/* The launcher of learners, and their watchdog: starts them around one region, shows what they
 * tell, starts the dead again, saves, and leaves nothing behind. */
#include "cli/train_learners.h"

#include <signal.h>
#include <string.h>

#include "cli/train_listener.h"
#include "cli/train_rate.h"
#include "os/clock.h"
#include "settings/settings.h"

enum {
    PERIOD_MS = 50,
    GRACE_MS = 600000, /* reading the data may take its time; who dies meanwhile is seen at once */
    STUCK_MS = 120000,
    TRIES = 3,      /* starts from a checkpoint, and of who tests, or serves while all stop */
    AGAIN_MS = 300, /* two signals within it are one: see docs/train.md */
    STOP_MS = 5000, /* for all to leave */
    TEST_MS = 60000,
    SNAPSHOT_MS = 1000,
    BIG_SNAPSHOT_MS = 10000,
    BIG_FLOATS = 1 << 23,
};

struct launch {
    struct cli *cli;
    const struct train_request *request;
    struct train_listener heard;
    struct train_children children;
    struct train_keep keep;
    struct log log, user; /* what is told here; what the user asked for by TRIDENT_LOG */
    struct local_job *job;
    struct train_rate rate;
    double applied_per_s; /* gradients, of all learners; negative: not known */
    enum local_mode mode;
    double begun_at;
    int told;                        /* the signal that ends it */
    bool failed;                     /* and the reason is in: */
    tri_error reason;                /* of the one that failed */
    uint32_t finishes, late_servers; /* started to test; started when all were told to stop */
    double over_s;                   /* when the learners were done, or told to be */
};

/* ---- what the learners tell ---- */

/* The first of those that live speaks for all. */
static bool speaks(const void *ctx, uint32_t rank)
{
    const struct launch *launch = ctx;
    for (uint32_t i = 0; i < rank; i++)
        if (launch->children.all[i].running)
            return false;
    return true;
}

static void on_begun(void *ctx, uint32_t rank, const struct train_report *report)
{
    struct launch *launch = ctx;
    (void)rank; /* all say the same, and any of them may be the first, or die before it has */
    train_outcome_begun(&launch->heard.outcome, report);
    if (launch->keep.batch_of_all == 0)
        train_live_begun(&launch->heard.live, launch->request, report);
    launch->keep.batch_of_all = (uint64_t)report->batch * launch->heard.outcome.workers *
                                launch->request->settings.exchange_every;
    launch->keep.samples = report->train_samples;
}

/* One learner knows its own rate only. Until it is watched, that has to do for all. */
static void amend(void *ctx, struct train_moment *moment)
{
    const struct launch *launch = ctx;
    const uint32_t learners = launch->heard.outcome.workers;
    if (launch->applied_per_s >= 0 && learners > 0)
        moment->samples_per_s =
            launch->applied_per_s * (double)launch->keep.batch_of_all / (double)learners;
}

static bool on_line(void *ctx, size_t process, const char *line, size_t len)
{
    struct launch *launch = ctx;
    return train_listener_line(&launch->heard, process, line, len);
}

static void on_clear(void *ctx)
{
    struct launch *launch = ctx;
    train_live_clear(&launch->heard.live);
}

/* Warnings are for the user, and part of the result. */
static void on_log(void *ctx, enum log_level level, const char *line)
{
    struct launch *launch = ctx;
    struct train_event event = {.t_s = clock_seconds() - launch->begun_at,
                                .clock = launch->heard.outcome.moment.iteration};
    if (log_wants(&launch->user, level)) {
        train_live_clear(&launch->heard.live);
        launch->user.sink(launch->user.ctx, level, line);
    }
    if (level > LOG_WARN)
        return;
    train_event_of((int)level, line, &event);
    train_outcome_event(&launch->heard.outcome, &event);
    if (log_wants(&launch->user, level))
        return;
    train_live_clear(&launch->heard.live);
    (void)fprintf(launch->cli->err, "trident train: %s\n", event.text);
}

/* ---- ends ---- */

static bool blames_another(const tri_error *error)
{
    return error->status == TRI_EEVICTED;
}

static void fail_with(struct launch *launch, uint32_t rank, const tri_error *error)
{
    if (launch->failed && !blames_another(&launch->reason))
        return;
    launch->failed = true;
    launch->reason = *error;
    if (error->status != TRI_EINPUT && error->status != TRI_EARG)
        (void)snprintf(launch->reason.text, sizeof launch->reason.text, "learner %u failed: %.200s",
                       (unsigned)rank, error->text);
}

static void tell_end(struct launch *launch, uint32_t rank, const struct process_end *end,
                     const char *next)
{
    char name[PROCESS_SIGNAL_TEXT];
    if (end->signal != 0)
        log_write(&launch->log, LOG_WARN, "learner %u was ended by %s before it had begun and %s",
                  (unsigned)rank, process_signal_name(end->signal, name), next);
    else
        log_write(&launch->log, LOG_WARN, "learner %u exited with %d before it had begun and %s",
                  (unsigned)rank, end->code, next);
}

/* Attaches to the learners' region if it is there. It is not waited for, but what is asked of it
 * is. */
static void find_job(struct launch *launch)
{
    char name[LOCAL_NAME_BYTES];
    shared_name(launch->children.job.name, name);
    const struct local_options options = {
        .mem = launch->cli->mem, .log = &launch->log, .name = name, .wait_ms = 1};
    if (launch->job != NULL || local_attach(&options, &launch->job, NULL) != TRI_OK)
        return;
    local_set_wait(launch->job, 0);
    launch->keep.job = launch->job;
    for (uint32_t i = 0; i < launch->children.learners; i++)
        if (launch->children.all[i].given_up)
            local_give_up(launch->job, i);
}

static bool has_begun(const struct launch *launch)
{
    return launch->job != NULL && local_share_is_filled(launch->job);
}

/* How often the seat was taken; of the server how often one has sat down. */
static uint32_t taken(const struct launch *launch, uint32_t number)
{
    struct local_seat_stats seat;
    struct local_stats stats;
    if (launch->job == NULL)
        return 0;
    if (number < launch->children.learners) {
        local_seat_stats(launch->job, number, &seat);
        return seat.joins;
    }
    local_stats(launch->job, &stats);
    return stats.server_starts;
}

static tri_status start_child(struct launch *launch, uint32_t number, const char *role,
                              tri_error *err)
{
    launch->children.all[number].before = taken(launch, number);
    return train_child_start(&launch->children, number, role, err);
}

/* Not by its process id, which is written down a moment before it counts: one that is killed in
 * between has sat nowhere. */
static bool had_seat(struct launch *launch, uint32_t number)
{
    find_job(launch); /* it may have sat down, and died, since the last look */
    return taken(launch, number) > launch->children.all[number].before;
}

static bool others_run(const struct launch *launch, uint32_t rank)
{
    for (uint32_t i = 0; i < launch->children.learners; i++)
        if (i != rank && launch->children.all[i].running)
            return true;
    return false;
}

/* The watchdog hears of it by the region: when it is there, if it is not yet. */
static void give_up(struct launch *launch, uint32_t rank)
{
    launch->children.all[rank].given_up = true;
    if (launch->job != NULL)
        local_give_up(launch->job, rank);
}

/* One that never sat down: the watchdog of the region does not know of it. Without rank 0 there is
 * no region, or nothing in it. */
static void after_early_end(struct launch *launch, uint32_t rank, struct train_child *child)
{
    tri_error err = {0};
    bool again = child->quick++ < launch->request->settings.restarts;
    bool lacked = !again && rank == 0 && !has_begun(launch);
    tell_end(launch, rank, &child->end,
             again                                 ? "is started again"
             : lacked || !others_run(launch, rank) ? "is not started again"
                                                   : "the others go on without it");
    if (again) {
        launch->heard.outcome.restarts.learners++;
        if (start_child(launch, rank, TRAIN_ROLE_WORKER, &err) != TRI_OK)
            fail_with(launch, rank, &err);
        return;
    }
    if (!lacked) {
        give_up(launch, rank);
        return;
    }
    char times[24] = "once";
    if (child->quick > 1)
        (void)snprintf(times, sizeof times, "%u times", (unsigned)child->quick);
    fail(&err, TRI_EPEER, "it was ended %s before it had begun", times);
    fail_next(&err, "see the lines behind [%u]", (unsigned)rank);
    fail_with(launch, rank, &err);
}

/* Deals with learners that have ended since the last look. A learner that tells of an error has not
 * died: starting it again would end in the same way. */
static void look_at_ends(struct launch *launch, bool restart)
{
    for (uint32_t i = 0; i < launch->children.learners; i++) {
        struct train_child *child = &launch->children.all[i];
        if (!child->wanted || child->running)
            continue;
        child->wanted = false;
        bool well = child->end.code == 0 && child->end.signal == 0;
        if (!well && launch->heard.errors[i].status != TRI_OK && child->end.signal == 0)
            fail_with(launch, i, &launch->heard.errors[i]);
        else if (!well && restart && !had_seat(launch, i))
            after_early_end(launch, i, child);
    }
    struct train_child *server = &launch->children.all[launch->children.learners];
    if (!server->wanted || server->running || launch->job == NULL)
        return;
    server->wanted = false;
    if (!restart || server->end.signal == 0 || had_seat(launch, launch->children.learners))
        return;
    launch->heard.outcome.restarts.server++;
    (void)start_child(launch, launch->children.learners, TRAIN_ROLE_SERVER, NULL);
}

/* Hears the children. False: it is over, by a signal or a failure. */
static bool pump(struct launch *launch, int timeout_ms, bool restart)
{
    int told = train_children_hear(&launch->children, timeout_ms);
    if (told != 0 && launch->told == 0)
        launch->told = told;
    train_keep_look(&launch->keep);
    look_at_ends(launch, restart);
    return launch->told == 0 && !launch->failed;
}

/* ---- the watchdog's hands ---- */

static tri_status save(void *ctx, const struct local_snapshot *snapshot, tri_error *err)
{
    struct launch *launch = ctx;
    return train_keep_save(&launch->keep, snapshot, false, err);
}

static bool is_served(const struct launch *launch)
{
    return launch->mode == LOCAL_SERVER || launch->mode == LOCAL_SYNC;
}

static tri_status start_server(void *ctx, tri_error *err)
{
    struct launch *launch = ctx;
    return start_child(launch, launch->children.learners, TRAIN_ROLE_SERVER, err);
}

static tri_status start_learner(void *ctx, uint32_t seat, tri_error *err)
{
    struct launch *launch = ctx;
    launch->children.all[seat].quick = 0;
    launch->children.all[seat].given_up = false;
    launch->heard.errors[seat] = (tri_error){0};
    return start_child(launch, seat, TRAIN_ROLE_WORKER, err);
}

static bool each(void *ctx, const struct local_stats *stats)
{
    struct launch *launch = ctx;
    launch->applied_per_s = train_rate_look(&launch->rate, clock_seconds(), stats->counts.applied);
    return pump(launch, 0, true);
}

static uint32_t snapshot_ms(const struct launch *launch)
{
    struct local_about about;
    local_about(launch->job, &about);
    uint64_t floats = about.floats * (1 + about.optim.ops->state_floats);
    return floats < BIG_FLOATS ? SNAPSHOT_MS : BIG_SNAPSHOT_MS;
}

static tri_status watch(struct launch *launch, tri_error *err)
{
    uint64_t restarts = launch->request->settings.restarts;
    const struct local_watch_options options = {.period_ms = PERIOD_MS,
                                                .report_ms = 10000,
                                                .checkpoint_ms = snapshot_ms(launch),
                                                .stuck_ms = STUCK_MS,
                                                .grace_ms = GRACE_MS,
                                                .tries = TRIES,
                                                .restart_learners = restarts > 0,
                                                .restarts = (uint32_t)restarts,
                                                .ctx = launch,
                                                .save = save,
                                                .start_server = start_server,
                                                .start_learner = start_learner,
                                                .each = each};
    struct local_watch_report report;
    struct local_snapshot from = {0};
    tri_status status = local_snapshot_open(launch->job, &from, err);
    if (status == TRI_OK)
        status = local_snapshot_take(launch->job, &from, err);
    if (status == TRI_OK && is_served(launch))
        status = start_server(launch, err);
    if (status == TRI_OK) {
        status = local_watch(launch->job, &options, &from, &report, err);
        launch->heard.outcome.restarts.learners += report.learner_restarts;
        launch->heard.outcome.restarts.server += report.server_restarts;
        launch->heard.outcome.restarts.all = report.full_restarts;
        launch->heard.outcome.gone = report.given_up;
    }
    local_snapshot_close(launch->job, &from);
    return status;
}

/* ---- one job, from its beginning to its end ---- */

static tri_status begin(struct launch *launch, tri_error *err)
{
    uint32_t removed;
    (void)local_sweep(NULL, launch->cli->mem, &launch->log, &removed, NULL);
    tri_status status = TRI_OK;
    for (uint32_t i = 0; i < launch->children.learners && status == TRI_OK; i++)
        status = start_child(launch, i, TRAIN_ROLE_WORKER, err);
    while (status == TRI_OK && pump(launch, PERIOD_MS, true)) {
        find_job(launch);
        if (has_begun(launch))
            break;
    }
    return status;
}

/* Nobody watches any more: who died when the signal came is buried here, and a server that did is
 * started again, or those that stop would wait for them. */
static void look_after_stopping(struct launch *launch)
{
    const uint32_t server = launch->children.learners;
    find_job(launch); /* the signal may have come before the first look at it */
    if (launch->job == NULL)
        return;
    (void)local_bury(launch->job);
    for (uint32_t i = 0; i < launch->children.learners; i++)
        if (!launch->children.all[i].running)
            local_give_up(launch->job, i);
    if (is_served(launch) && !launch->children.all[server].running && !local_done(launch->job) &&
        launch->late_servers++ < TRIES)
        (void)start_server(launch, NULL);
}

/* All have stopped. If rank 0 is dead, another one has to test what there is. */
static bool starts_finish(struct launch *launch)
{
    const struct train_outcome *outcome = &launch->heard.outcome;
    if (!outcome->begun || outcome->reported || launch->failed || launch->job == NULL ||
        !local_done(launch->job) || local_copies_lost(launch->job) || launch->finishes++ >= TRIES)
        return false;
    return start_child(launch, 0, TRAIN_ROLE_FINISH, NULL) == TRI_OK;
}

/* Who is told to stop leaves soon, or never; to test what there is may take its time. */
static bool is_too_late(const struct launch *launch, uint64_t since_us)
{
    const uint64_t most_ms = launch->job != NULL && local_done(launch->job) ? TEST_MS : STOP_MS;
    return clock_us() >= since_us + most_ms * 1000;
}

/* Learners that were told to stop do so, and rank 0 tests what there is; those that do not are
 * killed by the caller. */
static void stop(struct launch *launch)
{
    const uint64_t since_us = clock_us();
    int first = launch->told;
    train_live_clear(&launch->heard.live);
    train_children_signal(&launch->children, SIGINT); /* SIGTERM would end them at once */
    look_after_stopping(launch);
    while ((train_children_running(&launch->children) > 0 || starts_finish(launch)) &&
           !is_too_late(launch, since_us)) {
        launch->told = 0;
        (void)pump(launch, PERIOD_MS, false);
        if (launch->told != 0 && clock_us() >= since_us + (uint64_t)AGAIN_MS * 1000)
            break; /* asked twice */
        look_after_stopping(launch);
    }
    launch->told = first;
}

/* All is applied. Rank 0 tests it, or one that is started for that if rank 0 is dead. */
static tri_status await_result(struct launch *launch, tri_error *err)
{
    while (!launch->heard.outcome.reported || train_children_running(&launch->children) > 0) {
        if (!pump(launch, PERIOD_MS, false))
            return TRI_OK;
        if (launch->heard.outcome.reported || launch->children.all[0].running)
            continue;
        if (launch->finishes++ >= TRIES) {
            fail(err, TRI_EPEER, "the learners are done, but testing their result failed %d times",
                 TRIES);
            fail_next(err, "see the lines behind [0]; --checkpoint keeps what was learnt");
            return TRI_EPEER;
        }
        tri_status status = start_child(launch, 0, TRAIN_ROLE_FINISH, err);
        if (status != TRI_OK)
            return status;
    }
    return TRI_OK;
}

/* The last checkpoint, whatever its clock. It is awaited when there is nothing else to do. */
static tri_status save_end(struct launch *launch, tri_error *err)
{
    struct local_snapshot end = {0};
    if (launch->keep.claim == NULL)
        return TRI_OK;
    tri_status status = local_snapshot_open(launch->job, &end, err);
    if (status == TRI_OK)
        status = local_snapshot_take(launch->job, &end, err);
    if (status == TRI_OK)
        status = train_keep_save(&launch->keep, &end, true, err);
    local_snapshot_close(launch->job, &end);
    return status;
}

/* What was learnt is in the region, whoever has stopped or died. */
static tri_status stop_and_save(struct launch *launch, tri_error *err)
{
    stop(launch);
    return has_begun(launch) ? save_end(launch, err) : TRI_OK;
}

/* What was learnt is there all the same, and is told. */
static void tell_unsaved(struct launch *launch, const tri_error *err)
{
    log_write(&launch->log, LOG_WARN, "the last checkpoint is missing: %s%s%s%s", err->text,
              err->why[0] != '\0' ? " (" : "", err->why, err->why[0] != '\0' ? ")" : "");
}

static tri_status run(struct launch *launch, struct buf *out, tri_error *err)
{
    tri_error unsaved = {0};
    tri_status saved = TRI_OK, status = begin(launch, err);
    if (status == TRI_OK && launch->told == 0 && !launch->failed)
        status = watch(launch, err);
    launch->over_s = clock_seconds();
    if (status == TRI_OK && launch->told == 0 && !launch->failed)
        saved = save_end(launch, &unsaved);
    if (status == TRI_OK && launch->told == 0 && !launch->failed)
        status = await_result(launch, err);
    if (launch->told != 0) {
        status = TRI_OK;
        saved = stop_and_save(launch, &unsaved);
    }
    if (status == TRI_OK && saved == TRI_OK && (launch->told != 0 || !launch->failed))
        saved = train_keep_end(&launch->keep, &unsaved);
    train_live_clear(&launch->heard.live);
    if (saved != TRI_OK)
        tell_unsaved(launch, &unsaved);
    launch->cli->interrupted = launch->told == SIGINT;
    launch->heard.outcome.interrupted = launch->told != 0;
    launch->heard.outcome.terminated = launch->told != SIGINT ? launch->told : 0;
    if (launch->failed && launch->told == 0) {
        *err = launch->reason;
        return launch->reason.status;
    }
    if (status != TRI_OK)
        return status;
    train_outcome_rate(&launch->heard.outcome, launch->request, launch->over_s);
    launch->heard.outcome.report.wall_s = clock_seconds() - launch->begun_at; /* not rank 0's own */
    if (launch->told != 0 || launch->heard.outcome.gone > 0)
        train_outcome_even(&launch->heard.outcome, launch->request);
    return train_show(launch->cli, &launch->heard.outcome, launch->request, out, err);
}

/* What only options say to learners, and would be passed over in silence. */
static tri_status check_settings(const struct settings *settings,
                                 const struct train_settings *given, tri_error *err)
{
    const char *name = settings->checkpoint != NULL && given->checkpoint == NULL ? "checkpoint"
                       : settings->locked && !given->locked                      ? "locked"
                                                                                 : NULL;
    if (name == NULL)
        return TRI_OK;
    fail(err, TRI_EINPUT, "the setting '%s' of the environment or a file does not reach learners",
         name);
    fail_next(err, "say it as an option: --%s%s", name,
              settings->checkpoint != NULL && given->checkpoint == NULL ? " DIR" : "");
    return TRI_EINPUT;
}

static tri_status open_all(struct launch *launch, int argc, const char *const *argv, tri_error *err)
{
    const struct mem *mem = launch->cli->mem;
    struct settings settings;
    tri_status status = settings_read(NULL, false, &settings, err);
    if (status == TRI_OK)
        status = check_settings(&settings, &launch->request->settings, err);
    if (status == TRI_OK)
        status = local_mode_find(launch->request->local, &launch->mode, err);
    if (status != TRI_OK)
        return status;
    launch->user = settings.log;
    log_init(&launch->log, LOG_DEBUG, on_log, launch);
    launch->keep = (struct train_keep){.mem = mem, .log = &launch->log, .request = launch->request};
    launch->children.hooks =
        (struct run_hooks){.ctx = launch, .command = "train", .line = on_line, .clear = on_clear};
    status = train_children_open(&launch->children, launch->cli, launch->request, argc, argv, err);
    if (status == TRI_OK)
        status = train_keep_open(&launch->keep, launch->children.job.name, err);
    return status;
}

/* One that was killed while it made the region has left a file without a name. */
static void close_all(struct launch *launch)
{
    uint32_t removed;
    train_children_close(&launch->children);
    train_keep_close(&launch->keep);
    if (launch->job != NULL)
        local_remove(launch->job);
    local_close(launch->job);
    (void)local_sweep(NULL, launch->cli->mem, NULL, &removed, NULL);
    train_listener_fini(&launch->heard);
    mem_free(launch->cli->mem, launch);
}

tri_status train_learners(struct cli *cli, const struct train_request *request, int argc,
                          const char *const *argv, struct buf *out, tri_error *err)
{
    struct launch *launch = mem_array(cli->mem, 1, sizeof *launch);
    tri_error why = {0}; /* err may be NULL */
    if (launch == NULL)
        return fail_nomem(err, "the learners");
    launch->cli = cli;
    launch->request = request;
    launch->begun_at = clock_seconds();
    tri_status status =
        train_listener_init(&launch->heard, (uint32_t)request->settings.learners, cli, &why);
    launch->heard.ctx = launch;
    launch->heard.speaks = speaks;
    launch->heard.begun = on_begun;
    launch->heard.amend = amend;
    launch->applied_per_s = -1;
    if (status == TRI_OK)
        status = open_all(launch, argc, argv, &why);
    if (status == TRI_OK)
        status = run(launch, out, &why);
    if (status != TRI_OK && err != NULL)
        *err = why;
    close_all(launch);
    return status;
}
