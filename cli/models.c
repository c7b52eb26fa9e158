/* trident models: the layer profiles there are. */
#include "cli/models.h"

#include <string.h>

#include "base/json_out.h"
#include "base/names.h"
#include "base/units.h"
#include "cli/table.h"
#include "os/file.h"

enum { TITLE_WIDTH = 48 };

/* A million layers, written out with care, is about this much. */
static const size_t max_file_bytes = (size_t)1 << 29;

/* ---- by name ---- */

struct name_list {
    const struct mem *mem;
    char **names; /* without ".json" */
    size_t cap, count;
    tri_error *err;
};

static tri_status add_name(void *ctx, const char *file)
{
    struct name_list *list = ctx;
    void *names = list->names;
    if (mem_grow(list->mem, &names, &list->cap, list->count + 1, sizeof *list->names) == NULL)
        return fail_nomem(list->err, "the list of models");
    list->names = names;
    char *name = mem_text(list->mem, file, strlen(file) - strlen(".json"));
    if (name == NULL)
        return fail_nomem(list->err, "the list of models");
    list->names[list->count++] = name;
    return TRI_OK;
}

static void list_free(struct name_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        mem_free(list->mem, list->names[i]);
    mem_free(list->mem, list->names);
}

/* Goes through the profiles of the models folder. */
static tri_status each_model(const struct cli *cli, tri_status (*found)(void *, const char *),
                             void *ctx, tri_error *err)
{
    tri_error why = {0};
    tri_status status = file_each(cli->models, ".json", cli->mem, found, ctx, &why);
    /* An empty text: it was `found` that failed, and it has filled err itself. */
    if (status != TRI_OK && why.text[0] != '\0') {
        *err = why;
        if (status == TRI_EINPUT)
            fail_next(err, "set TRIDENT_MODELS to the folder of layer profiles");
    }
    return status;
}

static const char *list_candidate(const void *ctx, size_t i)
{
    const struct name_list *list = ctx;
    return i < list->count ? list->names[i] : NULL;
}

/* Appends the path of a model known by name. */
static tri_status find_by_name(const struct cli *cli, const char *name, struct buf *path,
                               tri_error *err)
{
    struct name_list list = {.mem = cli->mem, .err = err};
    tri_status status = each_model(cli, add_name, &list, err);
    size_t i = 0;
    while (status == TRI_OK && i < list.count && !names_equal(list.names[i], name))
        i++;
    if (status == TRI_OK && i < list.count) {
        buf_format(path, "%s/%s.json", cli->models, list.names[i]);
    } else if (status == TRI_OK) {
        char near[NAMES_TEXT];
        status = fail(err, TRI_EINPUT, "there is no model '%.60s'", name);
        if (names_suggest(name, list_candidate, &list, near))
            fail_next(err,
                      "did you mean %s? A profile of your own is given as a path, "
                      "./%.30s.json",
                      near, name);
        else
            fail_next(err,
                      "trident models lists them; a profile of your own is given as a "
                      "path, ./%.30s.json",
                      name);
    }
    list_free(&list);
    return status;
}

static bool is_path(const char *model)
{
    size_t len = strlen(model);
    return strchr(model, '/') != NULL || (len > 5 && strcmp(model + len - 5, ".json") == 0);
}

static tri_status load_file(const struct cli *cli, const char *path, struct profile **out,
                            tri_error *err)
{
    struct buf text;
    buf_init(&text, cli->mem);
    tri_status status = file_read(path, max_file_bytes, &text, err);
    if (status == TRI_EINPUT)
        fail_next(err, "give the path of a layer profile, or a name that trident models lists");
    if (status == TRI_OK)
        status = profile_read(path, buf_string(&text), text.len, cli->mem, out, err);
    buf_fini(&text);
    return status;
}

tri_status models_load(const struct cli *cli, const char *model, struct profile **out,
                       tri_error *err)
{
    if (is_path(model))
        return load_file(cli, model, out, err);
    struct buf path;
    buf_init(&path, cli->mem);
    tri_status status = find_by_name(cli, model, &path, err);
    if (status == TRI_OK && !buf_ok(&path))
        status = fail_nomem(err, "a path");
    if (status == TRI_OK)
        status = load_file(cli, buf_string(&path), out, err);
    buf_fini(&path);
    return status;
}

/* ---- the command ---- */

struct models_settings {
    bool json;
};

struct listing {
    const struct cli *cli;
    struct json_out *json; /* NULL: a table */
    struct table *table;
    tri_error *err;
};

static void list_json(struct json_out *json, const struct profile *profile)
{
    json_out_object(json, NULL);
    json_out_string(json, "name", profile->name);
    json_out_string(json, "title", profile->title);
    json_out_count(json, "params", profile->params);
    json_out_count(json, "layers", profile->count);
    json_out_count(json, "layers_with_params", profile->with_params);
    if (profile->default_batch > 0)
        json_out_count(json, "default_batch", profile->default_batch);
    else
        json_out_string(json, "default_batch", NULL);
    json_out_close(json);
}

static void list_row(struct table *table, const struct profile *profile)
{
    char params[UNITS_TEXT], bytes[UNITS_TEXT];
    table_cell(table, "%s", profile->name);
    table_cell(table, "%s", units_show_count((double)profile->params, params));
    table_cell(table, "%s", units_show_bytes(4 * (double)profile->params, bytes));
    table_cell(table, "%zu", profile->with_params);
    table_cell(table, "%llu", (unsigned long long)profile->default_batch);
    bool fits = strlen(profile->title) <= TITLE_WIDTH;
    table_cell(table, "%.*s%s", fits ? TITLE_WIDTH : TITLE_WIDTH - 2, profile->title,
               fits ? "" : "..");
}

static tri_status list_one(void *ctx, const char *file)
{
    struct listing *listing = ctx;
    struct buf path;
    buf_init(&path, listing->cli->mem);
    buf_format(&path, "%s/%s", listing->cli->models, file);
    struct profile *profile = NULL;
    tri_status status;
    if (buf_ok(&path))
        status = load_file(listing->cli, buf_string(&path), &profile, listing->err);
    else
        status = fail_nomem(listing->err, "a path");
    buf_fini(&path);
    if (profile == NULL)
        return status;
    if (listing->json != NULL)
        list_json(listing->json, profile);
    else
        list_row(listing->table, profile);
    profile_free(profile);
    return TRI_OK;
}

static tri_status models_run(struct cli *cli, const void *settings,
                             const struct arguments *arguments, struct buf *out, tri_error *err)
{
    (void)arguments;
    bool as_json = ((const struct models_settings *)settings)->json;
    struct json_out json;
    struct table table;
    json_out_init(&json, out, 2);
    table_init(&table, cli->mem, "lrrrrl");
    static const char *const heads[] = {"model", "params", "bytes", "layers", "batch", "title"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        table_cell(&table, "%s", heads[i]);
    if (as_json) {
        json_out_object(&json, NULL);
        json_out_array(&json, "models");
    }
    struct listing listing = {cli, as_json ? &json : NULL, &table, err};
    tri_status status = each_model(cli, list_one, &listing, err);
    if (as_json) {
        json_out_close(&json);
        json_out_close(&json);
    } else if (status == TRI_OK) {
        table_print(&table, 24, out);
        buf_text(out, "\nlayers: those with parameters; batch: per worker, unless --batch says "
                      "otherwise\n");
    }
    table_fini(&table);
    return status;
}

static const struct option_row models_options[] = {
    {.name = "json",
     .help = "one JSON document instead of a table",
     .type = OPTION_FLAG,
     .offset = offsetof(struct models_settings, json)},
    {.name = NULL},
};

extern const struct command command_models;
const struct command command_models = {
    .name = "models",
    .summary = "list the layer profiles that come with trident",
    .arguments = "",
    .options = models_options,
    .settings_bytes = sizeof(struct models_settings),
    .run = models_run,
    .about =
        "A layer profile says how large the layers of a model are and how long they compute. "
        "trident plan reads it. The profiles are JSON files in the folder share/trident/models "
        "beside the command, or in the folder that TRIDENT_MODELS names; docs/profile.md in the "
        "source tree describes the format for profiles of your own.",
    .examples = "trident models\ntrident models --json",
};
