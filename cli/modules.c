/* trident modules: the parts that can be swapped. */
#include "base/json_out.h"
#include "base/names.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "mod/consistency.h"
#include "mod/optim.h"
#include "mod/placement.h"
#include "mod/scheme.h"
#include "mod/transport.h"

struct modules_settings {
    bool json;
};

/* One part of any slot. */
struct module {
    const char *slot, *name, *summary;
    const tri_option_row *options; /* NULL: none */
    bool runs;
};

/* ---- the slots ---- */

static bool scheme_module(size_t i, struct module *out)
{
    const tri_scheme_ops *ops = scheme_at(i);
    if (ops != NULL)
        *out = (struct module){"scheme", ops->name, ops->summary, ops->options, ops->runs};
    return ops != NULL;
}

static bool placement_module(size_t i, struct module *out)
{
    const tri_placement_ops *ops = placement_at(i);
    if (ops != NULL)
        *out = (struct module){"placement", ops->name, ops->summary, ops->options, true};
    return ops != NULL;
}

static bool consistency_module(size_t i, struct module *out)
{
    const tri_consistency_ops *ops = consistency_at(i);
    if (ops != NULL)
        *out = (struct module){"consistency", ops->name, ops->summary, ops->options, true};
    return ops != NULL;
}

static bool optimizer_module(size_t i, struct module *out)
{
    const tri_optimizer_ops *ops = optim_at(i);
    if (ops != NULL)
        *out = (struct module){"optimizer", ops->name, ops->summary, ops->options, true};
    return ops != NULL;
}

static bool transport_module(size_t i, struct module *out)
{
    const struct transport_ops *ops = transport_at(i);
    if (ops != NULL)
        *out = (struct module){"transport", ops->name, ops->summary, NULL, true};
    return ops != NULL;
}

static const struct {
    const char *name;
    bool (*at)(size_t i, struct module *out);
} slots[] = {
    {"scheme", scheme_module},           {"placement", placement_module},
    {"consistency", consistency_module}, {"optimizer", optimizer_module},
    {"transport", transport_module},
};

/* The ith part of all slots together; false past the end. */
static bool module_at(size_t i, struct module *out)
{
    for (size_t s = 0; s < sizeof slots / sizeof slots[0]; s++) {
        size_t count = 0;
        while (slots[s].at(count, out))
            if (count++ == i)
                return true;
        i -= count;
    }
    return false;
}

/* Is this part among those asked for? */
static bool wanted(const struct module *module, const struct arguments *arguments)
{
    return (arguments->count < 1 || names_equal(module->slot, arguments->at[0])) &&
           (arguments->count < 2 || names_equal(module->name, arguments->at[1]));
}

static const char *slot_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return i < sizeof slots / sizeof slots[0] ? slots[i].name : NULL;
}

/* The names of one slot's parts. */
static const char *part_candidate(const void *ctx, size_t i)
{
    struct module module;
    for (size_t j = 0; module_at(j, &module); j++)
        if (names_equal(module.slot, ctx) && i-- == 0)
            return module.name;
    return NULL;
}

static tri_status nothing_found(const struct arguments *arguments, tri_error *err)
{
    char next[NAMES_TEXT];
    if (arguments->count == 2 && part_candidate(arguments->at[0], 0) != NULL) {
        fail(err, TRI_EINPUT, "there is no %s '%.60s'", arguments->at[0], arguments->at[1]);
        names_advise(arguments->at[1], part_candidate, arguments->at[0], next);
    } else {
        fail(err, TRI_EINPUT, "there is no slot '%.60s'", arguments->at[0]);
        names_advise(arguments->at[0], slot_candidate, NULL, next);
    }
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

static void print_json(const struct arguments *arguments, struct buf *out)
{
    struct json_out json;
    struct module module;
    json_out_init(&json, out, 2);
    json_out_object(&json, NULL);
    json_out_array(&json, "modules");
    for (size_t i = 0; module_at(i, &module); i++) {
        if (!wanted(&module, arguments))
            continue;
        json_out_object(&json, NULL);
        json_out_string(&json, "slot", module.slot);
        json_out_string(&json, "name", module.name);
        json_out_string(&json, "summary", module.summary);
        json_out_bool(&json, "runs", module.runs);
        json_out_array(&json, "options");
        for (const tri_option_row *o = module.options; o != NULL && o->name != NULL; o++) {
            json_out_object(&json, NULL);
            json_out_string(&json, "name", o->name);
            json_out_string(&json, "default", o->fallback);
            json_out_string(&json, "help", o->help);
            json_out_close(&json);
        }
        json_out_close(&json);
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_close(&json);
}

static void print_table(const struct cli *cli, const struct arguments *arguments, struct buf *out)
{
    struct module module;
    struct table table;
    table_init(&table, cli->mem, "llll");
    table_cell(&table, "slot");
    table_cell(&table, "name");
    table_cell(&table, "runs");
    table_cell(&table, "what it does");
    for (size_t i = 0; module_at(i, &module); i++) {
        if (!wanted(&module, arguments))
            continue;
        table_cell(&table, "%s", module.slot);
        table_cell(&table, "%s", module.name);
        table_cell(&table, module.runs ? "yes" : "plan");
        table_cell(&table, "%s", module.summary);
        for (const tri_option_row *o = module.options; o != NULL && o->name != NULL; o++) {
            table_cell(&table, "%s", "");
            table_cell(&table, "%s", "");
            table_cell(&table, "%s", "");
            table_cell(&table, "  %s [%s]: %s", o->name, o->fallback, o->help);
        }
    }
    table_print(&table, 24, out);
    table_fini(&table);
    buf_text(out,
             "\nruns: yes if training jobs can use the part, plan if only trident plan does.\n");
}

static tri_status modules_run(struct cli *cli, const void *settings,
                              const struct arguments *arguments, struct buf *out, tri_error *err)
{
    struct module module;
    size_t found = 0;
    for (size_t i = 0; module_at(i, &module); i++)
        found += wanted(&module, arguments);
    if (found == 0)
        return nothing_found(arguments, err);
    if (((const struct modules_settings *)settings)->json)
        print_json(arguments, out);
    else
        print_table(cli, arguments, out);
    return TRI_OK;
}

static const struct option_row modules_options[] = {
    {.name = "json",
     .help = "one JSON document instead of a table",
     .type = OPTION_FLAG,
     .offset = offsetof(struct modules_settings, json)},
    {.name = NULL},
};

extern const struct command command_modules;
const struct command command_modules = {
    .name = "modules",
    .summary = "list the parts that can be swapped, with their options",
    .arguments = "[SLOT [NAME]]",
    .max_arguments = 2,
    .options = modules_options,
    .settings_bytes = sizeof(struct modules_settings),
    .run = modules_run,
    .about = "A slot is a place where one of several parts can be put: how a layer's update "
             "travels (scheme), which server owns which parameters (placement), when a worker may "
             "go on (consistency), how parameters step (optimizer), how messages get from one "
             "process to another (transport). Every part is one file of src/mod in the source "
             "tree and one row here; trident/module.h has the tables to fill.",
    .examples = "trident modules\ntrident modules placement\ntrident modules scheme shard-sf",
};
