/* The trident command as a function: what it may touch is handed in, so tests run it in process. */
#ifndef TRIDENT_CLI_CLI_H
#define TRIDENT_CLI_CLI_H

#include <stdio.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exit codes, as every command uses them. */
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

struct cli {
    const struct mem *mem;
    FILE *out;          /* data */
    FILE *err;          /* everything else */
    const char *models; /* folder of layer profiles */
    /* Set by the command that runs. */
    bool keep;        /* it fails, but what it wrote to its output is to be printed */
    bool told;        /* it fails, and has said so itself: no report on err */
    bool interrupted; /* Ctrl-C ended it: the exit code is CLI_INTERRUPTED */
};

/* A command: one row of the table in commands.c, which feeds dispatch, help and man pages. */
struct command {
    const char *name;
    const char *summary;   /* one line */
    const char *arguments; /* positional ones, for the usage line; "" if there are none */
    size_t max_arguments;
    const struct option_row *options; /* of its own, ended by a NULL name */
    size_t settings_bytes;            /* of the struct that the options fill */
    /* Writes its result to out (which cli_main prints if the status is TRI_OK, or if
     * cli->keep is set). */
    tri_status (*run)(struct cli *cli, const void *settings, const struct arguments *arguments,
                      struct buf *out, tri_error *err);
    const char *about;    /* paragraphs for help and man page, separated by "\n\n" */
    const char *examples; /* one per line */
};

const struct command *command_at(size_t i); /* NULL past the end */
const struct command *command_find(const char *name);
tri_status command_unknown(const char *name, tri_error *err); /* fails with a suggestion */

/* Runs one command line; returns the exit code. argv[0] is not looked at. */
int cli_main(struct cli *cli, int argc, const char *const *argv);

/* trident train, as commands.c calls it: the words behind it. */
tri_status train_main(struct cli *cli, int argc, const char *const *argv, struct buf *out,
                      tri_error *err);

/* Texts made from the table of commands. */
void help_overview(struct buf *out);
void help_command(const struct command *command, struct buf *out);
void man_overview(struct buf *out);
void man_command(const struct command *command, struct buf *out);

#ifdef __cplusplus
}
#endif

#endif
