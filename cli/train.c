/* trident train: trains a model with the engine, in this process or in several. */
#include "cli/train.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/names.h"
#include "cli/run.h"
#include "engine/model.h"
#include "os/process.h"
#include "settings/launcher.h"
#include "settings/settings.h"

extern const struct command command_train;

/* ---- where it runs ---- */

/* Variables by which a launcher says that this process is one of several. */
static bool has_launcher(void)
{
    struct launcher launcher;
    static const char *const names[] = {"TRIDENT_WORKERS", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
                                        "TRIDENT_RANK",    "RANK",       "OMPI_COMM_WORLD_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0')
            return true;
    }
    return launcher_find(&launcher, NULL) == TRI_OK && launcher.name != NULL;
}

static tri_status check_launcher(const struct train_settings *settings, uint32_t *rank,
                                 tri_error *err)
{
    struct settings job;
    tri_status status = settings_read(NULL, false, &job, err);
    *rank = job.node;
    bool local = settings->learners > 0;
    uint64_t asked = local ? settings->learners : settings->workers;
    if (status != TRI_OK || asked == 0 || asked == job.agree.workers)
        return status;
    fail(err, TRI_EINPUT, "option '--%s' cannot be '%llu'", local ? "learners" : "workers",
         (unsigned long long)asked);
    fail_why(err, "this process is one of %u that a launcher has started",
             (unsigned)job.agree.workers);
    if (local) /* without it they would be workers */
        fail_next(err, "say --learners %u, or unset RANK, WORLD_SIZE and TRIDENT_WORKERS",
                  (unsigned)job.agree.workers);
    else
        fail_next(err, "leave it out, or unset RANK, WORLD_SIZE and TRIDENT_WORKERS");
    return TRI_EINPUT;
}

static tri_status check_servers(const struct train_settings *settings, tri_error *err)
{
    uint64_t workers = settings->workers > 0 ? settings->workers : 1;
    if (settings->servers <= workers)
        return TRI_OK;
    fail(err, TRI_EINPUT, "option '--servers' cannot be '%llu'",
         (unsigned long long)settings->servers);
    fail_why(err, "servers live in the workers, and there %s %llu", workers == 1 ? "is" : "are",
             (unsigned long long)workers);
    fail_next(err, "give at most as many as --workers");
    return TRI_EINPUT;
}

/* Processes would share memory, and be told of as workers that wait for each other. */
static tri_status check_mode(const struct train_settings *settings, bool joins,
                             const struct train_elsewhere *elsewhere, tri_error *err)
{
    struct settings job = {.agree = {.workers = (uint32_t)settings->workers}};
    if (settings->learners > 0 || !elsewhere->shares)
        return TRI_OK;
    if (joins) /* if it cannot be read, the number is what was asked for */
        (void)settings_read(NULL, false, &job, NULL);
    uint32_t count = job.agree.workers > 0 ? job.agree.workers : 1;
    fail(err, TRI_EINPUT, "mode = local %s",
         settings->workers > 0 ? "does not go with option '--workers'"
                               : "needs option '--learners'");
    fail_where(err, "%s", elsewhere->mode_from);
    fail_why(err, "workers exchange messages; processes that share memory are learners");
    fail_next(err, "say --learners %u%s, or set TRIDENT_MODE=network", (unsigned)count,
              settings->workers > 0 ? " in place of --workers" : "");
    return TRI_EINPUT;
}

/* Of those that this command starts itself. */
static tri_status check_started(const struct cli *cli, const struct train_settings *settings,
                                tri_error *err)
{
    const struct run_request request = {
        .settings = {.workers = settings->workers, .colocate = RUN_NOT_GIVEN}};
    tri_status status = check_servers(settings, err);
    if (status != TRI_OK || settings->learners > 0)
        return status;
    status = run_check_apart(&request, cli->mem, err);
    if (status != TRI_OK)
        fail_next(err,
                  "set TRIDENT_COLOCATE to on, or have servers started: trident run -n %llu "
                  "--colocate no -- trident train ...",
                  (unsigned long long)(settings->workers > 0 ? settings->workers : 1));
    return status;
}

/* The model's files come by another name and are renamed: what was printed into one of them would
 * be gone. */
static tri_status check_apart(const struct stat *output, const char *path, tri_error *err)
{
    struct stat file;
    if (stat(path, &file) != 0 || file.st_dev != output->st_dev || file.st_ino != output->st_ino)
        return TRI_OK;
    fail(err, TRI_EINPUT, "the output goes to '%.150s', a file of the model that --out writes",
         path);
    fail_next(err, "send the output to another file");
    return TRI_EINPUT;
}

static tri_status check_output(const struct cli *cli, const char *model, tri_error *err)
{
    struct stat output;
    struct buf json;
    if (cli->out == NULL || fstat(fileno(cli->out), &output) != 0 || !S_ISREG(output.st_mode))
        return TRI_OK;
    buf_init(&json, cli->mem);
    buf_add(&json, model,
            strlen(model) - strlen(".safetensors")); /* model_check_path() has looked */
    buf_text(&json, ".json");
    tri_status status =
        buf_ok(&json) ? check_apart(&output, buf_string(&json), err) : fail_nomem(err, "a path");
    if (status == TRI_OK)
        status = check_apart(&output, model, err);
    buf_fini(&json);
    return status;
}

static tri_status check_out(const struct cli *cli, const char *model, tri_error *err)
{
    tri_status status = model_check_path(model, cli->mem, err);
    return status == TRI_OK ? check_output(cli, model, err) : status;
}

/* ---- the result ---- */

/* Was nothing left to train when the signal came? */
static bool was_trained(const struct train_outcome *outcome, const struct train_options *options)
{
    const struct train_moment *moment = &outcome->moment;
    const struct train_report *report = &outcome->report;
    uint64_t wanted = outcome->moved ? moment->iterations : options->iterations;
    if (!outcome->reported)
        return outcome->moved && moment->iteration >= wanted;
    return wanted > 0 ? report->iterations >= wanted : report->epochs > options->epochs - 1e-6;
}

static void tell_tested(const struct train_outcome *outcome, const struct train_options *options,
                        tri_error *err)
{
    const char *no = outcome->reported ? "" : " not";
    if (options->out == NULL)
        fail_why(err, "the test was%s finished", no);
    else
        fail_why(err, "the test was%s finished, and the model was%s written to '%.150s'", no, no,
                 options->out);
}

static tri_status tell_interrupted(const struct train_outcome *outcome,
                                   const struct train_options *options, tri_error *err)
{
    const struct train_moment *moment = &outcome->moment;
    char epochs[TRAIN_EPOCHS], how[PROCESS_SIGNAL_TEXT + 16] = "interrupted";
    char name[PROCESS_SIGNAL_TEXT] = "";
    if (outcome->terminated != 0)
        (void)snprintf(how, sizeof how, "stopped by %s",
                       process_signal_name(outcome->terminated, name));
    if (was_trained(outcome, options)) {
        fail(err, TRI_EPEER, "%s after the last iteration", how);
        tell_tested(outcome, options, err);
    } else if (outcome->moved) {
        fail(err, TRI_EPEER, "%s after %.2f of %s epochs", how,
             outcome->reported ? outcome->report.epochs : moment->epoch,
             train_show_epochs(moment->epochs, epochs));
    } else if (outcome->reported) {
        fail(err, TRI_EPEER, "%s after %llu iterations", how,
             (unsigned long long)outcome->report.iterations);
    } else {
        fail(err, TRI_EPEER, "%s before the first %s", how,
             outcome->begun ? "result" : "iteration");
    }
    return TRI_EPEER;
}

tri_status train_show(struct cli *cli, const struct train_outcome *outcome,
                      const struct train_request *request, struct buf *out, tri_error *err)
{
    tri_status status = train_outcome_check(outcome, request, err);
    if (status != TRI_OK)
        return status;
    if (request->settings.json)
        train_json(outcome, request, out);
    else
        train_text(outcome, request, out);
    cli->keep = outcome->interrupted;
    return outcome->interrupted ? tell_interrupted(outcome, &request->options, err) : TRI_OK;
}

/* ---- the command ---- */

/* Whatever starts the processes, this one or another: with --learners they share memory, and the
 * settings are read as of such a job. */
static void share_memory(const struct train_request *request)
{
    (void)setenv("TRIDENT_MODE", "local", 1);
    (void)setenv("TRIDENT_LOCAL", request->local, 1); /* which has heeded what was there */
    if (request->settings.locked)
        (void)setenv("TRIDENT_LOCKED", "on", 1);
}

tri_status train_with(struct cli *cli, int argc, const char *const *argv, train_runner *runner,
                      struct buf *out, tri_error *err)
{
    struct train_request request;
    struct train_elsewhere elsewhere;
    tri_error why = {0};
    tri_status outside = train_elsewhere(cli->mem, &elsewhere, &why);
    tri_status status = train_read_with(argc, argv, &elsewhere, &request, err);
    if (status == TRI_OK && request.help)
        help_command(&command_train, out);
    if (status != TRI_OK || request.help)
        return status;
    if (outside != TRI_OK) { /* not before: a wrong option, or --help, is nearer */
        if (err != NULL)
            *err = why;
        return outside;
    }
    const char *role = getenv(TRAIN_WORKER);
    if (role != NULL && strcmp(role, TRAIN_ROLE_SERVER) == 0)
        return train_serve(cli, err);
    if (role != NULL && strcmp(role, TRAIN_ROLE_SWEEP) == 0)
        return train_sweep(cli, err);
    request.options.only_finish = role != NULL && strcmp(role, TRAIN_ROLE_FINISH) == 0;
    bool joins = has_launcher();
    if (request.settings.learners > 0)
        share_memory(&request);
    uint32_t rank = 0;
    status = check_mode(&request.settings, joins, &elsewhere, err);
    if (status != TRI_OK)
        return status;
    status = joins ? check_launcher(&request.settings, &rank, err)
                   : check_started(cli, &request.settings, err);
    if (status == TRI_OK && rank == 0 && request.settings.out != NULL)
        status = check_out(cli, request.settings.out, err);
    if (status != TRI_OK)
        return status;
    if (!joins && request.settings.workers > 1)
        return train_launch(cli, &request, argc, argv, out, err);
    if (!joins && request.settings.learners > 0)
        return train_learners(cli, &request, argc, argv, out, err);
    return train_here(cli, &request, runner, out, err);
}

tri_status train_main(struct cli *cli, int argc, const char *const *argv, struct buf *out,
                      tri_error *err)
{
    return train_with(cli, argc, argv, train_run, out, err);
}

#define AS_TEXT(model, epochs, batch, lr, optimizer, schedule)                                     \
    "\n\n" model ": " epochs " epochs, batch " batch ", lr " lr ", " optimizer ", " schedule

/* Without .run: a launcher hands the words on as they are, so commands.c gives all of them to
 * train_main(). */
const struct command command_train = {
    .name = "train",
    .summary = "train a model with the built-in engine, on this machine or across a job",
    .arguments = "",
    .options = train_rows,
    .settings_bytes = sizeof(struct train_settings),
    .about =
        "Reads the data, trains the model and tests it. With --workers N, N processes of this "
        "machine train together: each takes its own part of every batch of N x K samples, and all "
        "have the same parameters after every iteration. Under trident run, torchrun or mpirun "
        "(RANK and WORLD_SIZE in the environment) it joins that job instead, and rank 0 prints.\n\n"
        "Data: fashion-mnist is Debian's package dataset-fashion-mnist; mnist:DIR and idx:DIR have "
        "the four files of MNIST, cifar10:DIR the binary batches of CIFAR-10; csv:FILE has a label "
        "and a text in columns; tsv:FILE is label, tab, text. Any file may be gzipped.\n\n"
        "While it runs, standard error shows epoch, loss, accuracy, samples and bytes per second "
        "and the time left: on a terminal in one line, else in a line for each epoch. The result "
        "goes to standard output. A worker that fails is named and the others are stopped. Ctrl-C "
        "stops all, saves with --checkpoint, prints what there is and exits with 130; SIGTERM does "
        "the same and exits with 1.\n\n"
        "Sizes of models, given behind a colon and parted by commas: mlp:WIDTHxLAYERS, or width=, "
        "layers=; resnet20: blocks= (of each stage, 3); textcnn: embed=, filters=, hidden=, "
        "dropout=. A process that trains alone uses one core, or as many as OMP_NUM_THREADS "
        "says.\n\n"
        "Defaults by model:" TRAIN_DEFAULTS(AS_TEXT),
    .examples =
        "trident train --data fashion-mnist --model lenet --workers 2\n"
        "trident train --data cifar10:./cifar --model cifar10-quick --batch 100 --epochs 5 "
        "--profile\n"
        "trident train --data tsv:questions.tsv --model textcnn --out questions.safetensors\n"
        "trident train --data mnist:DIR --model mlp:512x2 --workers 4 --scheme sfb --json\n"
        "trident run -n 4 -- trident train --data fashion-mnist --model lenet",
};
