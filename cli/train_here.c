/* Training in this process: alone, or as one rank of a job. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/train_line.h"
#include "os/clock.h"
#include "settings/settings.h"

/* ---- Ctrl-C and SIGTERM ---- */

/* All that the signal handler touches. */
static volatile sig_atomic_t interrupted; /* by which signal */
static volatile sig_atomic_t stoppable;   /* a loop runs that looks at it after each iteration */
static volatile sig_atomic_t quiet;       /* a launcher tells what there is to tell */
static atomic_ullong told_us;             /* when the first signal came */
static struct {
    int fd;
    const char *text; /* NULL: nothing is to be printed */
    size_t len;
} early_result; /* of a run that came to no iteration */

static void put_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t put = write(fd, text, len);
        if (put <= 0)
            return;
        text += put;
        len -= (size_t)put;
    }
}

/* Nothing is half written at this time: a model comes under another name and is renamed. */
static _Noreturn void end_at_once(int number)
{
    static const char early[] = "trident train: interrupted before the first iteration\n",
                      term[] = "trident train: stopped by SIGTERM\n";
    bool ctrl_c = number == SIGINT;
    if (stoppable == 0 && early_result.text != NULL)
        put_all(early_result.fd, early_result.text, early_result.len);
    if (quiet == 0)
        put_all(STDERR_FILENO, ctrl_c ? early : term, ctrl_c ? sizeof early - 1 : sizeof term - 1);
    _exit(ctrl_c ? CLI_INTERRUPTED : CLI_FAILED);
}

/* Waits of a start-up, and those for others when this process is to go, look at nothing. The second
 * signal ends the program, but timeout(1) signals a process and its group, which is one wish. */
static void on_interrupt(int number)
{
    enum { AGAIN_US = 300000 };
    if (stoppable == 0)
        end_at_once(number);
    if (interrupted == 0) {
        atomic_store(&told_us, clock_us());
        interrupted = number;
    } else if (clock_us() - atomic_load(&told_us) > AGAIN_US) {
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
}

static void on_terminate(int number)
{
    end_at_once(number);
}

struct handlers {
    struct sigaction interrupt, terminate; /* as they were */
};

/* One that is ignored stays so, as it is in the background of a script, unless it must be heeded.
 */
static void heed(int number, void (*handler)(int number), bool must, struct sigaction *before)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    (void)sigaddset(&action.sa_mask, SIGINT);
    (void)sigaddset(&action.sa_mask, SIGTERM);
    (void)sigaction(number, NULL, before);
    if (must || before->sa_handler != SIG_IGN)
        (void)sigaction(number, &action, NULL);
}

/* Who trains alone ends in order when told to go. One of several does not wait for the others, who
 * may be gone: they get along. (The launcher of trident train passes on as SIGINT what it is told,
 * and has SIGTERM for workers whose job has failed.) */
static struct handlers heed_signals(bool alone, bool worker)
{
    struct handlers before;
    interrupted = stoppable = 0;
    quiet = worker;
    heed(SIGINT, on_interrupt, worker, &before.interrupt); /* a worker's comes from the launcher */
    heed(SIGTERM, alone ? on_interrupt : on_terminate, false, &before.terminate);
    return before;
}

static void restore_signals(const struct handlers *before)
{
    (void)sigaction(SIGINT, &before->interrupt, NULL);
    (void)sigaction(SIGTERM, &before->terminate, NULL);
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
    stoppable = 1;
    here->outcome.begun = true;
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
    if (interrupted != 0)
        train_event_stopping(&event);
    if (!here->worker) {
        train_live_event(&here->live, &event);
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
    here->outcome.terminated = interrupted != SIGINT ? interrupted : 0;
    here->cli->interrupted = interrupted == SIGINT;
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

/* The document that a signal in start-up prints; it is made before, as a handler may not. */
static void prepare_early(const struct here *here, struct buf *document)
{
    early_result.text = NULL;
    early_result.fd = fileno(here->cli->out);
    if (!here->request->settings.json || here->worker || here->rank != 0 || early_result.fd < 0)
        return;
    train_json(&here->outcome, here->request, document);
    if (!buf_ok(document))
        return;
    early_result.text = buf_string(document);
    early_result.len = document->len;
}

static tri_status run_heeding(struct here *here, train_runner *runner,
                              const struct train_options *options, struct train_report *report,
                              tri_error *err)
{
    const struct train_calls calls = {
        .ctx = here, .moment = on_moment, .begun = on_begun, .log = on_log};
    struct buf document;
    buf_init(&document, here->cli->mem);
    prepare_early(here, &document);
    struct handlers before = heed_signals(here->outcome.workers == 1, here->worker);
    tri_status status = runner(options, &calls, here->cli->mem, report, err);
    restore_signals(&before);
    early_result.text = NULL;
    buf_fini(&document);
    return status;
}

static tri_status run(struct here *here, train_runner *runner, struct buf *out, tri_error *err)
{
    struct train_options options = here->request->options;
    struct train_report report = {.rank = 0};
    tri_error reason = {0};
    if (here->request->settings.learners > 0)
        options.consistency = NULL; /* --local says it */
    else if (here->outcome.workers > 1 && is_bsp(options.consistency))
        options.checksum_every = CHECKSUM_EVERY;
    tri_status status = run_heeding(here, runner, &options, &report, &reason);
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
