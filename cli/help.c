/* Help texts and man pages, made from the tables of commands and options. */
#include <ctype.h>
#include <string.h>

#include "cli/cli.h"
#include "os/file.h"

enum { HELP_COLUMN = 28, HELP_WIDTH = 96 };

/* What the command is, for the overview and its man page. */
static const char overview_summary[] =
    "train a neural network on several machines as one: plan, simulate, run";
static const char overview_about[] =
    "Trains on several processes or machines as one, with a built-in engine or around a loop of "
    "your own (libtrident). Given the layers of a model and a description of a cluster, works out "
    "for each layer the cheapest exact way to synchronise it (through parameter servers, or by "
    "factors sent to every peer), what that costs, and why.\n\n"
    "Costs of a plan are results of formulas, not measurements; docs/plan.md in the source tree "
    "has them.";

/* Variables of the environment, and the commands that heed them (main.c reads them). */
struct environment_row {
    const char *name, *help;
    const char *commands[4]; /* ended by NULL */
};

static const struct environment_row environment[] = {
    {"TRIDENT_MODELS",
     "folder of layer profiles, in place of ../share/trident/models beside the command",
     {"plan", "simulate", "models", NULL}},
};

/* ---- help on the terminal ---- */

/* Breaks text at spaces so that it fits between the two columns; the first line
 * begins at column `at`. */
static void wrap(struct buf *out, const char *text, size_t at, size_t indent)
{
    size_t column = at;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column > indent && column + 1 + word > HELP_WIDTH) {
            buf_char(out, '\n');
            buf_fill(out, ' ', indent);
            column = indent;
        } else if (column > indent) {
            buf_char(out, ' ');
            column++;
        }
        buf_add(out, text, word);
        column += word;
        text += word + strspn(text + word, " ");
    }
    buf_char(out, '\n');
}

static const char *default_text(const struct option_row *row)
{
    return row->fallback != NULL ? row->fallback : row->otherwise;
}

static void help_option(const struct option_row *row, struct buf *out)
{
    size_t start = out->len;
    buf_format(out, "  --%s", row->name);
    if (row->value != NULL)
        buf_format(out, " %s", row->value);
    size_t used = out->len - start;
    if (used + 2 > HELP_COLUMN) {
        buf_char(out, '\n');
        used = 0;
    }
    buf_fill(out, ' ', HELP_COLUMN - used);
    struct buf text;
    buf_init(&text, out->mem);
    buf_text(&text, row->help);
    if (row->required)
        buf_text(&text, " (required)");
    else if (default_text(row) != NULL)
        buf_format(&text, " [default: %s]", default_text(row));
    out->refused = out->refused || text.refused;
    wrap(out, buf_string(&text), HELP_COLUMN, HELP_COLUMN);
    buf_fini(&text);
}

/* Writes each paragraph of a text, which stand apart by an empty line; `last` tells the
 * writer that no other follows. */
static void each_paragraph(const char *text, struct buf *out,
                           void (*write)(const char *paragraph, bool last, struct buf *out))
{
    struct buf part;
    buf_init(&part, out->mem);
    while (*text != '\0') {
        const char *end = strstr(text, "\n\n");
        buf_clear(&part);
        buf_add(&part, text, end != NULL ? (size_t)(end - text) : strlen(text));
        out->refused = out->refused || part.refused;
        write(buf_string(&part), end == NULL, out);
        text = end != NULL ? end + 2 : "";
    }
    buf_fini(&part);
}

static void help_paragraph(const char *paragraph, bool last, struct buf *out)
{
    (void)last;
    buf_char(out, '\n');
    wrap(out, paragraph, 0, 0);
}

static void each_line(const char *text, struct buf *out, const char *before, const char *after)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        buf_text(out, before);
        buf_add(out, text, len);
        buf_text(out, after);
        text += len + (text[len] == '\n');
    }
}

static void usage(const struct command *command, struct buf *out)
{
    buf_format(out, "trident %s", command->name);
    for (const struct option_row *row = command->options; row->name != NULL; row++)
        if (row->required)
            buf_format(out, " --%s %s", row->name, row->value);
    if (command->options->name != NULL)
        buf_text(out, " [options]");
    if (command->arguments[0] != '\0')
        buf_format(out, " %s", command->arguments);
}

void help_command(const struct command *command, struct buf *out)
{
    buf_text(out, "Usage: ");
    usage(command, out);
    buf_format(out, "\n%s\n", command->summary);
    if (command->options->name != NULL)
        buf_char(out, '\n');
    for (const struct option_row *row = command->options; row->name != NULL; row++)
        help_option(row, out);
    each_paragraph(command->about, out, help_paragraph);
    buf_text(out, "\nExamples:\n");
    each_line(command->examples, out, "  ", "\n");
    buf_format(out, "\nExit codes: 0 done, 1 failed, 2 bad usage or input. More: man trident-%s\n",
               command->name);
}

void help_overview(struct buf *out)
{
    buf_format(out, "Usage: trident COMMAND [options]\n%s\n\nCommands:\n", overview_summary);
    for (size_t i = 0; command_at(i) != NULL; i++)
        buf_format(out, "  %-10s %s\n", command_at(i)->name, command_at(i)->summary);
    buf_text(out, "\n  trident COMMAND --help   what a command takes\n"
                  "  trident --version        which version this is\n\n"
                  "Start with: trident train --data fashion-mnist --model lenet --workers 2\n"
                  "            trident plan --model vgg19 --workers 8\n");
}

/* ---- man pages ---- */

/* A fixed date, so that two builds of one source are the same; moves with the version. */
static const char man_date[] = "2026-11-15";

/* Text with roff's own characters made harmless. */
static void roff(const char *text, struct buf *out)
{
    for (bool start = true; *text != '\0'; text++) {
        if (start && (*text == '.' || *text == '\''))
            buf_text(out, "\\&");
        if (*text == '\\')
            buf_text(out, "\\e");
        else if (*text == '-')
            buf_text(out, "\\-");
        else
            buf_char(out, *text);
        start = *text == '\n';
    }
}

static void man_title(const char *name, const char *summary, struct buf *out)
{
    buf_text(out, ".TH ");
    for (const char *c = name; *c != '\0'; c++)
        buf_char(out, (char)toupper((unsigned char)*c));
    buf_format(out, " 1 %s \"trident %s\"\n.SH NAME\n", man_date, tri_version());
    roff(name, out);
    buf_text(out, " \\- ");
    roff(summary, out);
    buf_char(out, '\n');
}

/* Help texts stand without a full stop; here other sentences follow. */
static void man_sentence(const char *text, struct buf *out)
{
    size_t len = strlen(text);
    roff(text, out);
    if (len > 0 && text[len - 1] != '.')
        buf_char(out, '.');
}

static void man_option(const struct option_row *row, struct buf *out)
{
    buf_text(out, ".TP\n.B \\-\\-");
    roff(row->name, out);
    if (row->value != NULL) {
        buf_text(out, " \\fI");
        roff(row->value, out);
        buf_text(out, "\\fR");
    }
    buf_char(out, '\n');
    man_sentence(row->help, out);
    if (row->required)
        buf_text(out, "\nRequired.");
    else if (default_text(row) != NULL) {
        buf_text(out, "\nDefault: ");
        man_sentence(default_text(row), out);
    }
    buf_char(out, '\n');
}

static void man_paragraph(const char *paragraph, bool last, struct buf *out)
{
    roff(paragraph, out);
    buf_text(out, last ? "\n" : "\n.PP\n");
}

static void man_exit_codes(struct buf *out)
{
    buf_text(out, ".SH EXIT STATUS\n0 when done, 1 when something failed, 2 when an option or a "
                  "file that was given is unusable, 130 after Ctrl\\-C.\n");
}

static bool heeds(const struct command *command, const struct environment_row *row)
{
    for (size_t i = 0; row->commands[i] != NULL; i++)
        if (strcmp(row->commands[i], command->name) == 0)
            return true;
    return false;
}

/* The variables that a command heeds; all of them for NULL. */
static void man_environment(const struct command *command, struct buf *out)
{
    bool any = false;
    for (size_t i = 0; i < sizeof environment / sizeof environment[0]; i++) {
        if (command != NULL && !heeds(command, &environment[i]))
            continue;
        buf_text(out, any ? "" : ".SH ENVIRONMENT\n");
        any = true;
        buf_format(out, ".TP\n.B %s\n", environment[i].name);
        man_sentence(environment[i].help, out);
        buf_char(out, '\n');
    }
}

void man_command(const struct command *command, struct buf *out)
{
    struct buf name;
    buf_init(&name, out->mem);
    buf_format(&name, "trident-%s", command->name);
    out->refused = out->refused || name.refused;
    man_title(buf_string(&name), command->summary, out);
    buf_fini(&name);
    buf_text(out, ".SH SYNOPSIS\n.B ");
    struct buf line;
    buf_init(&line, out->mem);
    usage(command, &line);
    out->refused = out->refused || line.refused;
    roff(buf_string(&line), out);
    buf_fini(&line);
    buf_text(out, "\n.SH DESCRIPTION\n");
    each_paragraph(command->about, out, man_paragraph);
    if (command->options->name != NULL)
        buf_text(out, ".SH OPTIONS\n");
    for (const struct option_row *row = command->options; row->name != NULL; row++)
        man_option(row, out);
    man_environment(command, out);
    man_exit_codes(out);
    buf_text(out, ".SH EXAMPLES\n.nf\n");
    struct buf examples;
    buf_init(&examples, out->mem);
    each_line(command->examples, &examples, "", "\n");
    out->refused = out->refused || examples.refused;
    roff(buf_string(&examples), out);
    buf_fini(&examples);
    buf_text(out, ".fi\n.SH SEE ALSO\n.BR trident (1)\n");
}

void man_overview(struct buf *out)
{
    man_title("trident", overview_summary, out);
    buf_text(out, ".SH SYNOPSIS\n.B trident\n\\fICOMMAND\\fR [options]\n.SH DESCRIPTION\n");
    each_paragraph(overview_about, out, man_paragraph);
    buf_text(out, ".SH COMMANDS\n");
    for (size_t i = 0; command_at(i) != NULL; i++) {
        buf_text(out, ".TP\n.BR trident\\-");
        roff(command_at(i)->name, out);
        buf_text(out, " (1)\n");
        man_sentence(command_at(i)->summary, out);
        buf_char(out, '\n');
    }
    man_environment(NULL, out);
    man_exit_codes(out);
    buf_text(out, ".SH SEE ALSO\n");
    for (size_t i = 0; command_at(i) != NULL; i++) {
        buf_text(out, ".BR trident\\-");
        roff(command_at(i)->name, out);
        buf_format(out, " (1)%s\n", command_at(i + 1) != NULL ? "," : "");
    }
}

/* ---- the command ---- */

struct help_settings {
    const char *man_pages;
};

static tri_status write_page(const char *folder, const struct command *command,
                             const struct mem *mem, tri_error *err)
{
    struct buf path, page;
    buf_init(&path, mem);
    buf_init(&page, mem);
    if (command != NULL)
        man_command(command, &page);
    else
        man_overview(&page);
    buf_format(&path, "%s/trident%s%s.1", folder, command != NULL ? "-" : "",
               command != NULL ? command->name : "");
    tri_status status;
    if (!buf_ok(&path) || !buf_ok(&page))
        status = fail_nomem(err, "a man page");
    else
        status = file_write(buf_string(&path), page.data, page.len, err);
    buf_fini(&path);
    buf_fini(&page);
    return status;
}

static tri_status help_run(struct cli *cli, const void *settings, const struct arguments *arguments,
                           struct buf *out, tri_error *err)
{
    const struct help_settings *help = settings;
    if (help->man_pages != NULL) {
        tri_status status = write_page(help->man_pages, NULL, cli->mem, err);
        for (size_t i = 0; command_at(i) != NULL && status == TRI_OK; i++)
            status = write_page(help->man_pages, command_at(i), cli->mem, err);
        return status;
    }
    if (arguments->count == 0) {
        help_overview(out);
        return TRI_OK;
    }
    const struct command *command = command_find(arguments->at[0]);
    if (command == NULL)
        return command_unknown(arguments->at[0], err);
    help_command(command, out);
    return TRI_OK;
}

static const struct option_row help_options[] = {
    {.name = "man-pages",
     .value = "FOLDER",
     .help = "write the man pages of all commands there instead",
     .type = OPTION_TEXT,
     .offset = offsetof(struct help_settings, man_pages)},
    {.name = NULL},
};

extern const struct command command_help;
const struct command command_help = {
    .name = "help",
    .summary = "what the commands are and what they take",
    .arguments = "[COMMAND]",
    .max_arguments = 1,
    .options = help_options,
    .settings_bytes = sizeof(struct help_settings),
    .run = help_run,
    .about = "Prints the list of commands, or the help of one.",
    .examples = "trident help plan",
};
