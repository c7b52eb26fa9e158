/* trident config: every setting, its value and where it came from. */
#include "cli/config.h"

#include <string.h>

#include "base/json_out.h"
#include "cli/table.h"
#include "settings/view.h"

extern char **environ;

enum { SHOWN = 40 }; /* columns of a value or an origin; --json has all of them */

struct config_settings {
    bool json, strict;
    const char *file, *set;
};

/* What was asked for, and what there is. */
struct config {
    const struct mem *mem;
    struct config_settings options;
    const char **words, **sets; /* without --set; what stood behind them */
    int word_count;
    size_t set_count;
    bool help;
    struct settings_view view;
    struct settings settings;
    struct buf problems; /* one behind the other, each with its NUL */
    size_t problem_count;
};

/* ---- the command line ---- */

/* --set adds up, so it is taken out before the table of options is read. */
static tri_status split(int argc, const char *const *argv, struct config *config, tri_error *err)
{
    config->words = (const char **)mem_array(config->mem, (size_t)argc + 1, sizeof(char *));
    config->sets = (const char **)mem_array(config->mem, (size_t)argc + 1, sizeof(char *));
    if (config->words == NULL || config->sets == NULL)
        return fail_nomem(err, "the options");
    for (int i = 0; i < argc; i++) {
        bool apart = strcmp(argv[i], "--set") == 0;
        if (apart && i + 1 == argc) {
            fail(err, TRI_EINPUT, "option '--set' needs a value");
            fail_next(err, "write --set name=value, once for each");
            return TRI_EINPUT;
        }
        if (apart)
            config->sets[config->set_count++] = argv[++i];
        else if (strncmp(argv[i], "--set=", 6) == 0)
            config->sets[config->set_count++] = argv[i] + 6;
        else
            config->words[config->word_count++] = argv[i];
    }
    return TRI_OK;
}

static tri_status read_options(int argc, const char *const *argv, struct config *config,
                               tri_error *err)
{
    struct arguments arguments;
    tri_status status = split(argc, argv, config, err);
    if (status == TRI_OK)
        status = options_parse(command_config.options, 0, config->word_count, config->words,
                               &config->options, &arguments, err);
    config->help = status == TRI_OK && arguments.help;
    return status;
}

/* ---- what is there ---- */

static void note_problem(void *ctx, const char *name, const char *meant)
{
    struct config *config = ctx;
    buf_format(&config->problems, "%s is not a setting; did you mean %s?", name, meant);
    buf_char(&config->problems, '\0');
    config->problem_count++;
}

static tri_status explain(struct config *config, tri_error *err)
{
    const struct settings_request request = {.mem = config->mem,
                                             .file = config->options.file,
                                             .sets = config->sets,
                                             .set_count = config->set_count};
    tri_status status = settings_explain(&request, &config->view, &config->settings, err);
    settings_strangers((const char *const *)environ, note_problem, config);
    if (status == TRI_OK && !buf_ok(&config->problems))
        status = fail_nomem(err, "the settings");
    return status;
}

static const char *next_problem(const char *problem)
{
    return problem + strlen(problem) + 1;
}

/* ---- showing it ---- */

static void print_json(const struct config *config, struct buf *out)
{
    struct json_out json;
    const struct setting *row;
    char room[SETTINGS_ADDRESS], origin[SETTINGS_ORIGIN];
    json_out_init(&json, out, 2);
    json_out_object(&json, NULL);
    json_out_string(&json, "file", config->view.file.name);
    json_out_array(&json, "settings");
    for (size_t i = 0; (row = setting_at(i)) != NULL; i++) {
        settings_origin(&config->view, i, origin);
        json_out_object(&json, NULL);
        json_out_string(&json, "name", row->name);
        json_out_string(&json, "value", settings_value(&config->view, &config->settings, i, room));
        json_out_string(&json, "origin", origin);
        json_out_string(&json, "group", row->group);
        json_out_string(&json, "variable", row->variable);
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_array(&json, "problems");
    const char *problem = buf_string(&config->problems);
    for (size_t i = 0; i < config->problem_count; i++, problem = next_problem(problem))
        json_out_string(&json, NULL, problem);
    json_out_close(&json);
    json_out_close(&json);
}

static void heading(struct table *table, const char *group)
{
    table_cell(table, "[%s]", group);
    table_cell(table, "%s", "");
    table_cell(table, "%s", "");
}

static void print_rows(const struct config *config, struct buf *out)
{
    struct table table;
    const struct setting *row;
    const char *group = "";
    char room[SETTINGS_ADDRESS], origin[SETTINGS_ORIGIN];
    table_init(&table, config->mem, "lll");
    table_cell(&table, "setting");
    table_cell(&table, "value");
    table_cell(&table, "origin");
    for (size_t i = 0; (row = setting_at(i)) != NULL; i++) {
        const char *value = settings_value(&config->view, &config->settings, i, room);
        settings_origin(&config->view, i, origin);
        if (strcmp(row->group, group) != 0)
            heading(&table, group = row->group);
        table_cell(&table, "  %s", row->name);
        table_cell(&table, "%.*s%s", SHOWN, value != NULL ? value : "-",
                   value != NULL && strlen(value) > SHOWN ? ".." : "");
        table_cell(&table, "%.*s%s", SHOWN, origin, strlen(origin) > SHOWN ? ".." : "");
    }
    table_print(&table, 24, out);
    table_fini(&table);
}

static void print_table(const struct config *config, struct buf *out)
{
    const char *file = config->view.file.name, *problem = buf_string(&config->problems);
    if (file != NULL)
        buf_format(out, "file: %s\n\n", file);
    else
        buf_text(out, "file: none; TRIDENT_CONFIG or --file names one\n\n");
    print_rows(config, out);
    for (size_t i = 0; i < config->problem_count; i++, problem = next_problem(problem))
        buf_format(out, "%s%s\n", i == 0 ? "\nproblem: " : "problem: ", problem);
}

static tri_status show(struct cli *cli, const struct config *config, struct buf *out,
                       tri_error *err)
{
    if (config->options.json)
        print_json(config, out);
    else
        print_table(config, out);
    if (!config->options.strict || config->problem_count == 0)
        return TRI_OK;
    cli->keep = true;
    fail(err, TRI_EINPUT, "%s", buf_string(&config->problems));
    fail_next(err, "correct it or unset it; without --strict it is listed only");
    return TRI_EINPUT;
}

tri_status config_main(struct cli *cli, int argc, const char *const *argv, struct buf *out,
                       tri_error *err)
{
    struct config *config = mem_array(cli->mem, 1, sizeof *config);
    if (config == NULL)
        return fail_nomem(err, "the settings");
    config->mem = cli->mem;
    buf_init(&config->problems, cli->mem);
    settings_file_init(&config->view.file, cli->mem);
    tri_status status = read_options(argc, argv, config, err);
    if (config->help)
        help_command(&command_config, out);
    else if (status == TRI_OK && (status = explain(config, err)) == TRI_OK)
        status = show(cli, config, out, err);
    settings_view_fini(&config->view);
    buf_fini(&config->problems);
    mem_free(cli->mem, (void *)config->words);
    mem_free(cli->mem, (void *)config->sets);
    mem_free(cli->mem, config);
    return status;
}

static const struct option_row config_options[] = {
    {.name = "file",
     .value = "FILE",
     .otherwise = "as TRIDENT_CONFIG says, else none",
     .help = "the configuration file to read",
     .type = OPTION_TEXT,
     .offset = offsetof(struct config_settings, file)},
    {.name = "set",
     .value = "NAME=VALUE",
     .help = "as if the program had set it: over environment and file; may be given again",
     .type = OPTION_TEXT,
     .offset = offsetof(struct config_settings, set)},
    {.name = "strict",
     .help = "exit with 2 if a variable of the environment looks like a setting misspelt",
     .type = OPTION_FLAG,
     .offset = offsetof(struct config_settings, strict)},
    {.name = "json",
     .help = "one JSON document instead of a table",
     .type = OPTION_FLAG,
     .offset = offsetof(struct config_settings, json)},
    {.name = NULL},
};

/* Without .run: commands.c hands all words to config_main(). */
const struct command command_config = {
    .name = "config",
    .summary = "every setting of a job, its value, and where that came from",
    .arguments = "",
    .options = config_options,
    .settings_bytes = sizeof(struct config_settings),
    .about =
        "Shows what a process started here would find: what is given by variables of the "
        "environment (TRIDENT_TIMEOUT_MS and so on), by the launcher that started it, by the "
        "configuration file, and else the default. The first of these that has a value wins; what "
        "a program sets in its tri_options wins over all. docs/config.md in the source tree has "
        "the format of the file and what each setting means.\n\n"
        "Values are checked as a job would check them: one that cannot be is told with its "
        "variable, or file, line and column, and the exit code is 2. Nothing is started, and "
        "nobody is "
        "asked over the network. The token is never shown.",
    .examples = "trident config\n"
                "trident config --file job.conf --set timeout_ms=5000\n"
                "TRIDENT_SCHEME=ps trident config --json",
};
