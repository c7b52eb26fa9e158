/* The table of commands, and running one of them. */
#include <errno.h>
#include <string.h>

#include "base/names.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/run.h"

extern const struct command command_plan, command_simulate, command_models, command_modules,
    command_bench, command_run, command_server, command_help, command_train, command_predict;
extern const struct command command_checkpoint;
static const struct command *const commands[] = {
    &command_train,  &command_predict,    &command_plan,   &command_simulate,
    &command_models, &command_modules,    &command_bench,  &command_run,
    &command_server, &command_checkpoint, &command_config, &command_help,
};

const struct command *command_at(size_t i)
{
    return i < sizeof commands / sizeof commands[0] ? commands[i] : NULL;
}

const struct command *command_find(const char *name)
{
    const struct command *command;
    for (size_t i = 0; (command = command_at(i)) != NULL; i++)
        if (names_equal(command->name, name))
            return command;
    return NULL;
}

static const char *command_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return command_at(i) != NULL ? command_at(i)->name : NULL;
}

/* "trident plan: what failed", then where, why and what to try. */
static void report(struct cli *cli, const struct command *command, const tri_error *err)
{
    fprintf(cli->err, "trident%s%s: %s\n", command != NULL ? " " : "",
            command != NULL ? command->name : "", err->text);
    if (err->where[0] != '\0')
        fprintf(cli->err, "  where: %s\n", err->where);
    if (err->why[0] != '\0')
        fprintf(cli->err, "  why:   %s\n", err->why);
    if (err->next[0] != '\0')
        fprintf(cli->err, "  try:   %s\n", err->next);
}

static int exit_code(tri_status status)
{
    if (status == TRI_OK)
        return CLI_DONE;
    return status == TRI_EINPUT || status == TRI_EARG ? CLI_USAGE : CLI_FAILED;
}

/* Results leave in one piece, and a full disk or closed pipe is an error, not silence. */
static tri_status print(struct cli *cli, const struct buf *out, tri_error *err)
{
    if (!buf_ok(out))
        return fail_nomem(err, "the output");
    size_t put = fwrite(buf_string(out), 1, out->len, cli->out);
    if (put != out->len || fflush(cli->out) != 0) {
        bool full = errno == ENOSPC || errno == EFBIG || errno == EDQUOT;
        fail_errno(err, TRI_EIO, "cannot write the output");
        fail_next(err, full ? "make room where the output goes, then run it again"
                            : "check where the output goes, then run it again");
        return TRI_EIO;
    }
    return TRI_OK;
}

static tri_status run(struct cli *cli, const struct command *command, int argc,
                      const char *const *argv, struct buf *out, tri_error *err)
{
    void *settings = mem_array(cli->mem, 1, command->settings_bytes);
    if (settings == NULL)
        return fail_nomem(err, "the options");
    struct arguments arguments;
    tri_status status = options_parse(command->options, command->max_arguments, argc, argv,
                                      settings, &arguments, err);
    if (status == TRI_OK && arguments.help)
        help_command(command, out);
    else if (status == TRI_OK)
        status = command->run(cli, settings, &arguments, out, err);
    mem_free(cli->mem, settings);
    return status;
}

tri_status command_unknown(const char *name, tri_error *err)
{
    char next[NAMES_TEXT];
    fail(err, TRI_EINPUT, "unknown command '%.60s'", name);
    names_advise(name, command_candidate, NULL, next);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

/* --help and --version, which stand alone. */
static tri_status run_bare(const char *name, int argc, const char *const *argv, struct buf *out,
                           tri_error *err)
{
    bool help = strcmp(name, "--version") != 0;
    if (argc > 2) {
        fail(err, TRI_EINPUT, "unexpected argument '%.60s' after %s", argv[2], name);
        if (help && command_find(argv[2]) != NULL)
            fail_next(err, "trident %s --help", command_find(argv[2])->name);
        else
            fail_next(err, "write trident %s alone", name);
        return TRI_EINPUT;
    }
    if (help)
        help_overview(out);
    else
        buf_format(out, "trident %s\n", tri_version());
    return TRI_OK;
}

int cli_main(struct cli *cli, int argc, const char *const *argv)
{
    struct buf out;
    buf_init(&out, cli->mem);
    cli->keep = cli->told = cli->interrupted = false;
    tri_error err = {0};
    tri_status status = TRI_OK;
    const char *name = argc > 1 ? argv[1] : NULL;
    const struct command *command = name != NULL ? command_find(name) : NULL;
    if (name == NULL) {
        help_overview(&out);
        fputs(buf_string(&out), cli->err);
        buf_fini(&out);
        return CLI_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "--version") == 0)
        status = run_bare(name, argc, argv, &out, &err);
    else if (command == NULL)
        status = command_unknown(name, &err);
    else if (command == &command_train)
        status = train_main(cli, argc - 2, argv + 2, &out, &err);
    else if (command == &command_run)
        status = run_main(cli, argc - 2, argv + 2, &out, &err);
    else if (command == &command_config)
        status = config_main(cli, argc - 2, argv + 2, &out, &err);
    else
        status = run(cli, command, argc - 2, argv + 2, &out, &err);
    if (status == TRI_OK)
        status = print(cli, &out, &err);
    else if (cli->keep)
        (void)print(cli, &out, NULL); /* the first failure is the one to tell of */
    if (status != TRI_OK && !cli->told)
        report(cli, command, &err);
    buf_fini(&out);
    return cli->interrupted ? CLI_INTERRUPTED : exit_code(status);
}
