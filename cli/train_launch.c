/* The launcher of trident train: starts the workers and shows what they tell. */
#include <signal.h>
#include <string.h>

#include "cli/run.h"
#include "cli/train_listener.h"

struct launch {
    struct cli *cli;
    const struct train_request *request;
    struct train_listener heard;
    int told;         /* the signal that ends it */
    bool failed;      /* a worker did, by itself: */
    uint32_t culprit; /* which one is to be told of */
    int code;         /* its exit code */
    char how[240];    /* it ended */
};

/* ---- what the workers tell ---- */

/* Rank 0 speaks for all as long as nothing goes wrong. */
static bool speaks(const void *ctx, uint32_t rank)
{
    (void)ctx;
    return rank == 0;
}

static void on_begun(void *ctx, uint32_t rank, const struct train_report *report)
{
    struct launch *launch = ctx;
    launch->heard.outcome.begun = true;
    if (rank == 0)
        train_live_begun(&launch->heard.live, launch->request, report);
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

static void on_told(void *ctx, int number)
{
    struct launch *launch = ctx;
    launch->told = number;
}

/* ---- who is to blame ---- */

/* A worker that says that another one is gone is not the one to tell of. */
static bool blames_another(const tri_error *error)
{
    return error->status == TRI_EPEER || error->status == TRI_ETIMEOUT ||
           error->status == TRI_EEVICTED;
}

bool train_blames(const tri_error *first, const tri_error *later)
{
    return blames_another(first) && !blames_another(later);
}

static void on_failed(void *ctx, size_t process, const struct process_end *end, const char *how)
{
    struct launch *launch = ctx;
    const tri_error *errors = launch->heard.errors;
    if (process >= launch->heard.outcome.workers)
        return;
    if (launch->failed && !train_blames(&errors[launch->culprit], &errors[process]))
        return;
    launch->failed = true;
    launch->culprit = (uint32_t)process;
    launch->code = end->code;
    (void)snprintf(launch->how, sizeof launch->how, "%s", how);
}

static bool goes_on(const struct launch *launch)
{
    return launch->request->settings.on_failure == 0;
}

/* Of those who say the same, who says most: some have it from another, without its next step. */
static const tri_error *best_of(const struct launch *launch)
{
    const tri_error *first = &launch->heard.errors[launch->culprit];
    for (uint32_t i = 0; i < launch->heard.outcome.workers && first->next[0] == '\0'; i++)
        if (launch->heard.errors[i].next[0] != '\0' &&
            strcmp(launch->heard.errors[i].text, first->text) == 0)
            return &launch->heard.errors[i];
    return first;
}

/* What the user gave is the same for all workers, so which one told of it does not matter. */
static tri_status blame(const struct launch *launch, tri_error *err)
{
    const tri_error *error = best_of(launch);
    if (error->status == TRI_EINPUT || error->status == TRI_EARG) {
        *err = *error;
        return error->status;
    }
    if (error->status != TRI_OK) {
        fail(err, error->status, "rank %u failed: %s", (unsigned)launch->culprit, error->text);
        fail_where(err, "%s", error->where);
        fail_why(err, "%s", error->why);
        fail_next(err, "%s", error->next);
        return error->status;
    }
    tri_status status = launch->code == CLI_USAGE ? TRI_EINPUT : TRI_EPEER;
    fail(err, status, "%s", launch->how);
    if (launch->request->options.checkpoint != NULL)
        fail_next(err, "go on from the last checkpoint: the same line with --resume");
    else if (goes_on(launch))
        fail_next(err, "parameters were with it; with --servers 1 all are with rank 0");
    else
        fail_next(err, "see the lines behind [%u], or run it with TRIDENT_LOG=info",
                  (unsigned)launch->culprit);
    return status;
}

static tri_status check_reports(const struct launch *launch, tri_error *err)
{
    for (uint32_t i = 0; i < launch->heard.outcome.workers; i++)
        if (!launch->heard.outcome.ranks[i].known)
            return fail(err, TRI_EPEER, "rank %u ended without a result", (unsigned)i);
    return TRI_OK;
}

/* ---- the processes ---- */

/* After Ctrl-C and SIGTERM: time for a checkpoint and for a test. A second one kills. */
enum { PATIENCE_S = 60 };

static tri_status watch(struct launch *launch, const char *const *words, size_t count,
                        tri_error *err)
{
    static const char *variables[] = {TRAIN_WORKER "=1",
                                      /* one that stops early, as all do at Ctrl-C, must not end
                                       * the others */
                                      "TRIDENT_ON_FAILURE=continue"};
    const struct run_hooks hooks = {.ctx = launch,
                                    .command = "train",
                                    .patience_s = PATIENCE_S,
                                    .passed_on = SIGINT, /* all stop after the same iteration */
                                    .told = on_told,
                                    .line = on_line,
                                    .clear = on_clear,
                                    .failed = on_failed};
    const struct run_request request = {
        .settings = {.workers = launch->heard.outcome.workers,
                     .colocate = RUN_NOT_GIVEN,
                     .on_failure = goes_on(launch) ? RUN_CONTINUE : RUN_STOP},
        .variables = variables,
        .variable_count = sizeof variables / sizeof variables[0],
        .program = words,
        .program_count = count,
        .hooks = &hooks,
    };
    struct run_job job = {.port = 0};
    tri_status status = run_job_init(&job, &request, err);
    if (status == TRI_OK)
        status = run_watch(launch->cli, &request, &job, "/proc/self/exe", err);
    train_live_clear(&launch->heard.live);
    return status;
}

static tri_status run(struct launch *launch, int argc, const char *const *argv, struct buf *out,
                      tri_error *err)
{
    const struct mem *mem = launch->cli->mem;
    size_t count = (size_t)argc + 2;
    const char **words = mem_array(mem, count, sizeof *words);
    if (words == NULL)
        return fail_nomem(err, "the workers' arguments");
    words[0] = "trident";
    words[1] = "train";
    memcpy((void *)(words + 2), (const void *)argv, (size_t)argc * sizeof *words);
    tri_status status = watch(launch, words, count, err);
    mem_free(mem, (void *)words);
    launch->heard.outcome.interrupted = launch->told != 0;
    launch->heard.outcome.terminated = launch->told != SIGINT ? launch->told : 0;
    bool lost =
        goes_on(launch) && launch->heard.outcome.reported; /* who is missing is told as an event */
    if (launch->failed && launch->told == 0 && !lost)
        return blame(launch, err);
    if (lost || launch->told != 0)
        status = TRI_OK;
    else if (status == TRI_OK)
        status = check_reports(launch, err);
    return status == TRI_OK
               ? train_show(launch->cli, &launch->heard.outcome, launch->request, out, err)
               : status;
}

tri_status train_launch(struct cli *cli, const struct train_request *request, int argc,
                        const char *const *argv, struct buf *out, tri_error *err)
{
    uint32_t workers = (uint32_t)request->settings.workers;
    struct launch launch = {.cli = cli, .request = request};
    tri_error why = {0}; /* err may be NULL */
    tri_status status = train_listener_init(&launch.heard, workers, cli, &why);
    launch.heard.ctx = &launch;
    launch.heard.speaks = speaks;
    launch.heard.begun = on_begun;
    if (status == TRI_OK)
        status = run(&launch, argc, argv, out, &why);
    if (status != TRI_OK && err != NULL)
        *err = why;
    train_listener_fini(&launch.heard);
    return status;
}
