/* Training in this process: alone, or as one rank of a job. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train_line.h"
#include "os/clock.h"
#include "run/settings.h"

/* ---- Ctrl-C ---- */

/* The one thing that the signal handler touches. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* The second Ctrl-C ends the program at once. */
static struct sigaction heed_interrupt(void)
{
    struct sigaction before,
        action = {.sa_handler = on_interrupt, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    interrupted = 0;
    (void)sigaction(SIGINT, NULL, &before);
    if (before.sa_handler != SIG_IGN) /* as it is in the background of a script */
        (void)sigaction(SIGINT, &action, NULL);
    return before;
}

/* ---- what train_run() calls ---- */

struct here {
    struct cli *cli;
    const struct train_request *request;
    struct log log; /* as TRIDENT_LOG says */
    uint32_t rank;
    bool worker; /* all that happens is told to the launcher, in lines */
    double begun_at;
    pthread_mutex_t lock; /* of what follows: logs come from any thread */
    struct train_live live;
    struct train_outcome outcome;
};

/* A line that cannot be made is not missed: the launcher asks for the report alone. */
static void tell(const struct here *here, const struct buf *line)
{
    if (!buf_ok(line))
        return;
    (void)fwrite(buf_string(line), 1, line->len, here->cli->out);
    (void)fflush(here->cli->out);
}

static void on_begun(void *ctx, const struct train_report *report)
{
    struct here *here = ctx;
    struct buf line;
    if (!here->worker) {
        train_live_begun(&here->live, here->request, report);
        return;
    }
    buf_init(&line, here->cli->mem);
    train_say_report(TRAIN_BEGUN, report, &line);
    tell(here, &line);
    buf_fini(&line);
}

static bool on_moment(void *ctx, const struct train_moment *moment)
{
    struct here *here = ctx;
    (void)pthread_mutex_lock(&here->lock);
    train_outcome_moment(&here->outcome, moment);
    if (here->worker) {
        struct buf line;
        buf_init(&line, here->cli->mem);
        train_say_moment(moment, &line);
        tell(here, &line);
        buf_fini(&line);
    } else {
        train_live_moment(&here->live, moment);
    }
    (void)pthread_mutex_unlock(&here->lock);
    return interrupted == 0;
}

static void note_event(struct here *here, int level, const char *text)
{
    struct train_event event = {.t_s = clock_seconds() - here->begun_at,
                                .clock = here->outcome.moment.iteration,
                                .rank = here->rank};
    train_event_of(level, text, &event);
    if (!here->worker) {
        train_outcome_event(&here->outcome, &event);
        return;
    }
    struct buf line;
    buf_init(&line, here->cli->mem);
    train_say_event(&event, &line);
    tell(here, &line);
    buf_fini(&line);
}

static void on_log(void *ctx, int level, const char *text)
{
    struct here *here = ctx;
    (void)pthread_mutex_lock(&here->lock);
    if (log_wants(&here->log, (enum log_level)level)) {
        train_live_clear(&here->live);
        here->log.sink(here->log.ctx, (enum log_level)level, text);
    }
    if (level <= LOG_WARN)
        note_event(here, level, text);
    (void)pthread_mutex_unlock(&here->lock);
}

/* ---- the run ---- */

/* The launcher prints; this process only says how it ended. */
static tri_status tell_end(struct here *here, tri_status status, struct train_report *report,
                           const tri_error *err)
{
    struct buf line;
    buf_init(&line, here->cli->mem);
    if (status == TRI_OK)
        train_say_report(TRAIN_REPORT, report, &line);
    else
        train_say_error(err, &line);
    here->cli->told = buf_ok(&line);
    tell(here, &line);
    buf_fini(&line);
    if (status == TRI_OK)
        train_outcome_report(&here->outcome, report);
    return status;
}

static tri_status end(struct here *here, tri_status status, struct train_report *report,
                      struct buf *out, tri_error *err)
{
    train_live_clear(&here->live);
    here->outcome.interrupted = interrupted != 0;
    here->cli->interrupted = interrupted != 0;
    if (here->worker)
        return tell_end(here, status, report, err);
    if (status == TRI_OK)
        train_outcome_report(&here->outcome, report);
    if (here->rank != 0 || (status != TRI_OK && interrupted == 0))
        return status;
    return train_show(here->cli, &here->outcome, here->request, out, err);
}

enum { CHECKSUM_EVERY = 200 }; /* iterations */

/* Under other rules replicas differ on the way. */
static bool is_bsp(const char *consistency)
{
    return consistency == NULL || strcmp(consistency, "bsp") == 0;
}

static tri_status run(struct here *here, train_runner *runner, struct buf *out, tri_error *err)
{
    struct train_options options = here->request->options;
    struct train_report report = {.rank = 0};
    tri_error reason = {0};
    const struct train_calls calls = {
        .ctx = here, .moment = on_moment, .begun = on_begun, .log = on_log};
    if (here->outcome.workers > 1 && is_bsp(options.consistency))
        options.checksum_every = CHECKSUM_EVERY;
    struct sigaction before = heed_interrupt();
    tri_status status = runner(&options, &calls, here->cli->mem, &report, &reason);
    (void)sigaction(SIGINT, &before, NULL);
    if (status != TRI_OK && err != NULL)
        *err = reason;
    return end(here, status, &report, out, err);
}

tri_status train_here(struct cli *cli, const struct train_request *request, train_runner *runner,
                      struct buf *out, tri_error *err)
{
    struct settings settings;
    tri_status status = settings_read(NULL, false, &settings, err);
    if (status != TRI_OK)
        return status;
    struct here here = {
        .cli = cli,
        .request = request,
        .log = settings.log,
        .rank = settings.node,
        .worker = getenv(TRAIN_WORKER) != NULL,
        .begun_at = clock_seconds(),
    };
    status = train_outcome_init(&here.outcome, settings.agree.workers, cli->mem, err);
    if (status != TRI_OK)
        return status;
    train_live_init(&here.live, here.worker || here.rank != 0 ? NULL : cli->err);
    (void)pthread_mutex_init(&here.lock, NULL);
    status = run(&here, runner, out, err);
    (void)pthread_mutex_destroy(&here.lock);
    train_outcome_fini(&here.outcome);
    return status;
}
