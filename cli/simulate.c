/* trident simulate: how fast a system would be on a cluster that need not exist. */
#include "cli/simulate.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/claims.h"
#include "cli/cli.h"
#include "cli/models.h"
#include "os/file.h"

/* ---- Ctrl-C ---- */

/* The one thing that a signal handler may touch; set by it, cleared by watch_start(). */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static bool is_interrupted(void *ctx)
{
    (void)ctx;
    return interrupted != 0;
}

/* Who waits for the runs, and what Ctrl-C did before. */
struct watch {
    struct cli *cli;
    bool terminal; /* a person watches stderr */
    struct sigaction before;
};

static void watch_start(struct watch *watch, struct cli *cli)
{
    *watch = (struct watch){.cli = cli, .terminal = isatty(fileno(cli->err)) == 1};
    interrupted = 0;
    /* The second Ctrl-C ends the program at once. */
    struct sigaction action = {.sa_handler = on_interrupt,
                               .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    (void)sigaction(SIGINT, NULL, &watch->before);
    if (watch->before.sa_handler != SIG_IGN) /* as it is in the background of a script */
        (void)sigaction(SIGINT, &action, NULL);
}

static void show_progress(void *ctx, size_t done, size_t total)
{
    struct watch *watch = ctx;
    if (!watch->terminal)
        return;
    fprintf(watch->cli->err, "\rsimulated %zu of %zu", done, total);
    (void)fflush(watch->cli->err);
}

static void watch_stop(struct watch *watch)
{
    (void)sigaction(SIGINT, &watch->before, NULL);
    if (watch->terminal)
        fputs("\r\033[K", watch->cli->err);
    watch->cli->interrupted = interrupted != 0;
}

/* ---- the plot's file ---- */

static tri_status bad_plot(tri_status status, const char *path, const char *why, tri_error *err)
{
    fail(err, status, "cannot write a plot to '%.100s'", path);
    fail_why(err, "%s", why);
    fail_next(err, "give --plot the path of a file in a folder that you may write to");
    return status;
}

/* Could a file be written there? Asked before the runs, which may take long. A file that is not
 * a regular one, such as /dev/null, would be replaced, which nobody wants. */
static tri_status check_plot(const char *path, const struct mem *mem, tri_error *err)
{
    struct stat info;
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode))
            return bad_plot(TRI_EINPUT, path, "it is a folder", err);
        if (!S_ISREG(info.st_mode))
            return bad_plot(TRI_EINPUT, path, "it is not a regular file", err);
    }
    const char *slash = strrchr(path, '/');
    char *folder =
        slash == NULL ? mem_text(mem, ".", 1) : mem_text(mem, path, (size_t)(slash - path) + 1);
    if (folder == NULL)
        return fail_nomem(err, "a path");
    tri_status status = TRI_OK;
    if (access(folder, W_OK | X_OK) != 0)
        status = bad_plot(TRI_EINPUT, path, strerrordesc_np(errno), err);
    else if (slash != NULL && slash[1] == '\0')
        status = bad_plot(TRI_EINPUT, path, "it is a folder", err);
    mem_free(mem, folder);
    return status;
}

/* The temporary file of file_write() has a name that says nothing to the user. */
static tri_status write_plot(const char *path, const struct sweep *sweep, const struct mem *mem,
                             tri_error *err)
{
    struct buf svg;
    buf_init(&svg, mem);
    tri_status status = sweep_plot(sweep, mem, &svg, err);
    if (status == TRI_OK) {
        tri_error why = {0};
        status = file_write(path, buf_string(&svg), svg.len, &why);
        if (status != TRI_OK)
            (void)bad_plot(status, path, why.why[0] != '\0' ? why.why : why.text, err);
    }
    buf_fini(&svg);
    return status;
}

/* ---- running ---- */

static tri_status run_one(struct sweep *sweep, const struct mem *mem, tri_error *err)
{
    size_t row = sweep->done / sweep->system_count;
    struct study study = sweep->study;
    study.system = sweep->systems[sweep->done % sweep->system_count];
    study.nodes = sweep->nodes[row / sweep->rate_count];
    study.bits_s = sweep->rates[row % sweep->rate_count];
    study.stop = is_interrupted;
    tri_status status = study_run(&study, mem, &sweep->results[sweep->done], err);
    char rate[UNITS_TEXT];
    if (status == TRI_OK)
        sweep->done++;
    else if (status == TRI_EINPUT)
        fail_where(err, "system %s, %u node%s, %s", study.system->name, (unsigned)study.nodes,
                   study.nodes == 1 ? "" : "s", units_show_rate(study.bits_s, rate));
    return status;
}

static tri_status run_all(struct sweep *sweep, struct watch *watch, tri_error *err)
{
    size_t total = sweep_total(sweep);
    tri_status status = TRI_OK;
    while (sweep->done < total && status == TRI_OK && interrupted == 0) {
        show_progress(watch, sweep->done, total);
        status = run_one(sweep, watch->cli->mem, err);
    }
    if (interrupted == 0 || sweep->done == total)
        return status;
    fail(err, TRI_EPEER, "interrupted after %zu of %zu runs", sweep->done, total);
    fail_next(err, "fewer --nodes or --system and --iterations 2 take less time");
    return TRI_EPEER;
}

/* What was finished is shown, also where Ctrl-C or the plot's file then spoil the rest. */
static tri_status run_sweep(const struct simulate_settings *settings, struct sweep *sweep,
                            struct watch *watch, struct buf *out, tri_error *err)
{
    const struct mem *mem = watch->cli->mem;
    sweep->results = mem_array(mem, sweep_total(sweep), sizeof *sweep->results);
    if (sweep->results == NULL)
        return fail_nomem(err, "the results");
    tri_status status = run_all(sweep, watch, err);
    bool show = status == TRI_OK || interrupted != 0;
    if (show && settings->json)
        sweep_json(sweep, out);
    else if (show && sweep->done > 0)
        sweep_text(sweep, mem, out);
    if (status == TRI_OK && settings->plot != NULL)
        status = write_plot(settings->plot, sweep, mem, err);
    watch->cli->keep = show;
    for (size_t i = 0; i < sweep->done; i++)
        study_free(&sweep->results[i], mem);
    mem_free(mem, sweep->results);
    return status;
}

static tri_status simulate_model(const struct simulate_settings *settings, struct watch *watch,
                                 struct buf *out, tri_error *err)
{
    struct cli *cli = watch->cli;
    tri_status status = TRI_OK;
    if (settings->plot != NULL)
        status = check_plot(settings->plot, cli->mem, err);
    struct profile *profile = NULL;
    struct sweep sweep;
    if (status == TRI_OK)
        status = models_load(cli, settings->model, &profile, err);
    if (status == TRI_OK)
        status = sweep_read(settings, profile, &sweep, err);
    if (status == TRI_OK)
        status = run_sweep(settings, &sweep, watch, out, err);
    profile_free(profile);
    return status;
}

static tri_status check_model(const struct simulate_settings *settings, tri_error *err)
{
    if (settings->claims && (settings->model != NULL || settings->plot != NULL)) {
        fail(err, TRI_EINPUT, "options '--claims' and '--%s' cannot stand together",
             settings->model != NULL ? "model" : "plot");
        fail_why(err, "the papers' claims come with models and settings of their own");
        fail_next(err, "leave out one of the two");
        return TRI_EINPUT;
    }
    if (!settings->claims && settings->model == NULL) {
        fail(err, TRI_EINPUT, "option '--model' is missing");
        fail_why(err, "a name that trident models lists, or a layer profile in JSON");
        fail_next(err, "add --model NAME|FILE");
        return TRI_EINPUT;
    }
    return TRI_OK;
}

static tri_status simulate_run(struct cli *cli, const void *settings_,
                               const struct arguments *arguments, struct buf *out, tri_error *err)
{
    (void)arguments;
    const struct simulate_settings *settings = settings_;
    tri_status status = check_model(settings, err);
    if (status != TRI_OK)
        return status;
    struct watch watch;
    watch_start(&watch, cli);
    if (settings->claims) {
        struct claims_call call = {.json = settings->json,
                                   .stop = is_interrupted,
                                   .progress = show_progress,
                                   .ctx = &watch};
        status = claims_run(cli, &call, out, err);
    } else {
        status = simulate_model(settings, &watch, out, err);
    }
    watch_stop(&watch);
    return status;
}

/* ---- the command ---- */

static const char *const colocations[] = {"yes", "no", NULL};
static const char *const duplexes[] = {"full", "shared", NULL};

#define FIELD(name) .offset = offsetof(struct simulate_settings, name)

static const struct option_row simulate_options[] = {
    {.name = "model",
     .value = "NAME|FILE",
     .type = OPTION_TEXT,
     FIELD(model),
     .help = "a name that trident models lists, or a layer profile in JSON (required, unless "
             "--claims is given)"},
    {.name = "nodes",
     .value = "LIST",
     .fallback = "1,2,4,8,16,32",
     .type = OPTION_TEXT,
     FIELD(nodes),
     .help = "numbers of workers: 1,2,4 or 1-8"},
    {.name = "bandwidth",
     .value = "R,...",
     .fallback = "10Gbit",
     .type = OPTION_TEXT,
     FIELD(bandwidth),
     .help = "rate of a node's link, or several"},
    {.name = "system",
     .value = "LIST",
     .fallback = "ps,wfbp,poseidon,trident",
     .type = OPTION_TEXT,
     FIELD(system),
     .help = "how the workers synchronise: all, or among single, ps, wfbp, poseidon, adam, "
             "tensor-ps, onebit, trident"},
    {.name = "servers",
     .value = "Q",
     .otherwise = "as many as workers",
     .type = OPTION_COUNT,
     .min = 1,
     .max = BOOK_MAX_NODES,
     FIELD(servers),
     .help = "number of parameter servers"},
    {.name = "colocate",
     .value = "yes|no",
     .fallback = "yes",
     .type = OPTION_CHOICE,
     .choices = colocations,
     FIELD(colocate),
     .help = "servers on the workers' nodes, or on nodes of their own"},
    {.name = "batch",
     .value = "K",
     .otherwise = "the profile's",
     .type = OPTION_COUNT,
     .min = 1,
     .max = 16777216,
     FIELD(batch),
     .help = "samples per worker and iteration"},
    {.name = "duplex",
     .value = "full|shared",
     .fallback = "full",
     .type = OPTION_CHOICE,
     .choices = duplexes,
     FIELD(duplex),
     .help = "the rate holds each way, or for both ways together"},
    {.name = "efficiency",
     .value = "X",
     .fallback = "1",
     .type = OPTION_TEXT,
     FIELD(efficiency),
     .help = "share of the rate that is usable, above 0, at most 1"},
    {.name = "latency",
     .value = "T",
     .fallback = "50us",
     .type = OPTION_TIME,
     .max = 60,
     FIELD(latency),
     .help = "one way, between two nodes"},
    {.name = "message-cost",
     .value = "T",
     .fallback = "5us",
     .type = OPTION_TIME,
     .max = 60,
     FIELD(message_cost),
     .help = "time a node spends on a message beside moving its bytes"},
    {.name = "copy-rate",
     .value = "R",
     .otherwise = "copies take no time",
     .type = OPTION_RATE,
     .min = 1e3,
     .max = 1e15,
     FIELD(copy_rate),
     .help = "at which ps and tensor-ps copy all parameters in and out, such as 6GB/s"},
    {.name = "flops",
     .value = "F",
     .otherwise = "the profile's",
     .type = OPTION_FLOPS,
     .min = PROFILE_MIN_FLOPS_S,
     .max = PROFILE_MAX_FLOPS_S,
     FIELD(flops),
     .help = "sustained rate of matrix products on a node"},
    {.name = "jitter",
     .value = "X",
     .fallback = "0",
     .type = OPTION_TEXT,
     FIELD(jitter),
     .help = "share by which compute times vary, up and down, below 1"},
    {.name = "consistency",
     .value = "C",
     .fallback = "bsp",
     .type = OPTION_TEXT,
     FIELD(consistency),
     .help = "how far workers may drift apart: bsp, ssp:N or asp"},
    {.name = "codec",
     .value = "C",
     .fallback = "none",
     .type = OPTION_TEXT,
     FIELD(codec),
     .help = "what dense updates and results become: none, topk:SHARE (2 x SHARE of the bytes) "
             "or onebit (1/32)"},
    {.name = "placement",
     .value = "P",
     .fallback = "hash",
     .type = OPTION_TEXT,
     FIELD(placement),
     .help = "how parameters are dealt out to the servers"},
    {.name = "chunk",
     .value = "SIZE",
     .fallback = "2MiB",
     .type = OPTION_SIZE,
     .min = 1024,
     .max = 1 << 30,
     FIELD(chunk),
     .help = "the most that one message carries"},
    {.name = "iterations",
     .value = "N",
     .fallback = "5",
     .type = OPTION_COUNT,
     .min = 2,
     .max = 100000,
     FIELD(iterations),
     .help = "how many are simulated; the first is not counted"},
    {.name = "seed",
     .value = "S",
     .fallback = "1",
     .type = OPTION_COUNT,
     .max = 9007199254740991.0, /* what JSON readers keep apart */
     FIELD(seed),
     .help = "of the jitter"},
    {.name = "plot",
     .value = "FILE.svg",
     .type = OPTION_TEXT,
     FIELD(plot),
     .help = "also draw the speed-ups there, over nodes, or over bandwidths for one number of "
             "nodes"},
    {.name = "claims",
     .type = OPTION_FLAG,
     FIELD(claims),
     .help = "the papers' numbers beside ours, instead of a model of yours"},
    {.name = "json",
     .type = OPTION_FLAG,
     FIELD(json),
     .help = "one JSON document instead of tables"},
    {.name = NULL},
};

extern const struct command command_simulate;
const struct command command_simulate = {
    .name = "simulate",
    .summary = "the real protocol in virtual time: speed-up at any number of nodes",
    .arguments = "--model NAME|FILE",
    .options = simulate_options,
    .settings_bytes = sizeof(struct simulate_settings),
    .run = simulate_run,
    .about =
        "Runs the protocol of real jobs for every number of nodes, bandwidth and system, with a "
        "clock, links and devices that are computed, and with sizes in place of values. Prints "
        "the speed-up over one node that only computes and, for the largest case, where the time "
        "of an iteration goes. The numbers are simulated, not measured. The same options and seed "
        "give the same numbers.\n\n"
        "Systems: single is one node. ps sends to parameter servers after the backward pass; "
        "wfbp sends each layer as soon as it is computed; poseidon also takes sfb where it moves "
        "fewer bytes; adam sends FC layers as factors to one server; tensor-ps puts whole tensors "
        "on servers; onebit sends FC layers as one bit a value. These send first in, first out "
        "and wait for all layers. trident takes what needs the least time for each layer, sends "
        "the most urgent first and waits layer by layer.\n\n"
        "Ctrl-C prints what is finished and exits with 130. Sizes are written 2MB or 64KiB, rates "
        "10Gbit or 1.25GB/s, times 50us, flops 100G or 6T. In names '-' and '_' are the same.",
    .examples = "trident simulate --model vgg19\n"
                "trident simulate --model vgg19 --nodes 1-8,16 --bandwidth 1Gbit,10Gbit "
                "--system all\n"
                "trident simulate --model googlenet --nodes 16 --bandwidth 2Gbit,5Gbit,10Gbit "
                "--plot speed.svg\n"
                "trident simulate --model ./mine.json --flops 4T --system wfbp --jitter 0.1 "
                "--consistency ssp:3",
};
