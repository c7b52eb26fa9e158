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
static tri_status write_plot(const struct simulate_settings *settings, const struct sweep *sweep,
                             const struct mem *mem, tri_error *err)
{
    const char *path = settings->plot;
    struct buf svg;
    buf_init(&svg, mem);
    tri_status status = sweep_plot(sweep, (enum sweep_picture)settings->plot_of, mem, &svg, err);
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

/* What failed where, and what the user can do about it with the options of this command. */
static void explain(const struct study *study, const struct sweep_variant *variant, tri_error *err)
{
    char rate[UNITS_TEXT];
    fail_where(err, "system %s, %u node%s, %s", variant->name, (unsigned)study->nodes,
               study->nodes == 1 ? "" : "s", units_show_rate(study->bits_s, rate));
    if (strcmp(variant->consistency, "bsp") != 0 && strcmp(study->system->schemes, "ps") != 0)
        fail_next(err, "take systems that have servers for all layers: --system ps,wfbp");
}

static tri_status run_one(struct sweep *sweep, const struct mem *mem, tri_error *err)
{
    struct study study = sweep_study(sweep, sweep->done);
    study.stop = is_interrupted;
    tri_status status = study_run(&study, mem, &sweep->results[sweep->done], err);
    if (status == TRI_EINPUT)
        explain(&study, sweep_variant(sweep, sweep->done), err);
    else if (status == TRI_OK)
        sweep->done++;
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
    if (status == TRI_EPEER && settings->plot != NULL)
        fail_why(err, "the plot '%.100s' was not written: not all runs are done", settings->plot);
    if (show && settings->json)
        sweep_json(sweep, out);
    else if (show && sweep->done > 0)
        sweep_text(sweep, mem, out);
    if (status == TRI_OK && settings->plot != NULL)
        status = write_plot(settings, sweep, mem, err);
    if (status == TRI_OK && settings->plot != NULL && !settings->json)
        buf_format(out, "\nplot written to %s\n", settings->plot);
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
    if (status == TRI_OK)
        simulate_warn(settings->plot, cli->err);
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

static tri_status simulate_run(struct cli *cli, const void *settings_,
                               const struct arguments *arguments, struct buf *out, tri_error *err)
{
    (void)arguments;
    const struct simulate_settings *settings = settings_;
    tri_status status = simulate_check(settings, err);
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
        "Lists are separated by commas. Every system is run with every rule, placement, "
        "consistency and codec that is listed; parts behind a + replace the lists for this "
        "system.\n\n"
        "Ctrl-C prints what is finished and exits with 130. Sizes are written 2MB or 64KiB, rates "
        "10Gbit or 1.25GB/s, times 50us, flops 100G or 6T. In names '-' and '_' are the same.",
    .examples = "trident simulate --model vgg19\n"
                "trident simulate --model vgg19 --nodes 1-8,16 --bandwidth 1Gbit,10Gbit "
                "--system all\n"
                "trident simulate --model googlenet --nodes 16 --bandwidth 2Gbit,5Gbit,10Gbit "
                "--plot speed.svg\n"
                "trident simulate --model ./mine.json --flops 4T --system wfbp --jitter 0.1 "
                "--consistency bsp,ssp:3\n"
                "trident simulate --model resnet152 --nodes 4 --bandwidth 1Gbit --system "
                "ps,wfbp,wfbp+topk:0.01",
};
