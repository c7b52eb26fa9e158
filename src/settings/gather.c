/* Asking program, environment, launcher and file. */
#include "settings/gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) setting_of(offsetof(struct settings, field))

const char *settings_variable(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

void settings_source(const struct setting_given *given, char out[SETTINGS_ORIGIN])
{
    switch (given->from) {
    case SETTINGS_FILE:
        (void)snprintf(out, SETTINGS_ORIGIN, "%.280s:%u:%u", given->by, (unsigned)given->line,
                       (unsigned)given->column);
        break;
    case SETTINGS_LAUNCHER:
        (void)snprintf(out, SETTINGS_ORIGIN, "%s", given->variable);
        break;
    case SETTINGS_ENVIRONMENT:
        (void)snprintf(out, SETTINGS_ORIGIN, "%s", given->by);
        break;
    case SETTINGS_OPTIONS:
        (void)snprintf(out, SETTINGS_ORIGIN, "the program");
        break;
    case SETTINGS_SET:
        (void)snprintf(out, SETTINGS_ORIGIN, "--set");
        break;
    case SETTINGS_DEFAULT:
        (void)snprintf(out, SETTINGS_ORIGIN, "default");
        break;
    }
}

/* ---- the program ---- */

static void give_number(struct settings_view *view, size_t i, long long value)
{
    (void)snprintf(view->numbers[i], sizeof view->numbers[i], "%lld", value);
    view->given[i] = (struct setting_given){.from = SETTINGS_OPTIONS, .text = view->numbers[i]};
}

#define OPTION(field, place)                                                                       \
    {                                                                                              \
        offsetof(tri_options, field), offsetof(struct settings, place)                             \
    }

static void give_texts(const tri_options *options, struct settings_view *view)
{
    static const struct {
        size_t field, place;
    } rows[] = {
        OPTION(job, job),
        OPTION(coordinator, asked.coordinator),
        OPTION(token, token),
        OPTION(optimizer, agree.optimizer),
        OPTION(consistency, agree.consistency),
        OPTION(placement, agree.placement),
        OPTION(scheme, asked.scheme),
        OPTION(checkpoint, checkpoint),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *text =
            *(const char *const *)(const void *)((const char *)options + rows[i].field);
        if (text != NULL && text[0] != '\0')
            view->given[setting_of(rows[i].place)] =
                (struct setting_given){.from = SETTINGS_OPTIONS, .text = text};
    }
}

static void give_numbers(const tri_options *options, struct settings_view *view)
{
    static const struct {
        size_t field, place;
    } rows[] = {
        OPTION(workers, asked.workers),
        OPTION(servers, asked.servers),
        OPTION(timeout_ms, timeout_ms),
        OPTION(checksum_every, checksum_every),
        OPTION(checkpoint_every, checkpoint_every),
        OPTION(checkpoint_keep, checkpoint_keep),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t value = *(const uint32_t *)(const void *)((const char *)options + rows[i].field);
        if (value > 0)
            give_number(view, setting_of(rows[i].place), value);
    }
    if (options->rank >= 0)
        give_number(view, AT(asked.rank), options->rank);
    if (options->resume != 0)
        give_number(view, AT(resume), options->resume > 0 ? 1 : 0);
}

/* ---- the environment ---- */

static void give_variables(struct settings_view *view)
{
    for (size_t i = 0; setting_at(i) != NULL; i++) {
        const char *text = settings_variable(setting_at(i)->variable);
        if (text != NULL)
            view->given[i] = (struct setting_given){
                .from = SETTINGS_ENVIRONMENT, .text = text, .by = setting_at(i)->variable};
    }
}

static void give_launched(struct settings_view *view, size_t i,
                          const struct launcher_number *number)
{
    if (!number->given || view->given[i].from >= SETTINGS_LAUNCHER)
        return;
    (void)snprintf(view->numbers[i], sizeof view->numbers[i], "%u", (unsigned)number->value);
    view->given[i] = (struct setting_given){.from = SETTINGS_LAUNCHER,
                                            .text = view->numbers[i],
                                            .by = view->launcher.name,
                                            .variable = number->origin};
}

/* A launcher sets both. One that stands alone was forgotten by a person, and a job in which every
 * process takes itself for the only one would be worse than an error. */
static void give_halves(struct settings_view *view)
{
    static const struct {
        const char *launcher, *rank, *workers;
    } rows[] = {
        {"torchrun", "RANK", "WORLD_SIZE"},
        {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI", "PMI_RANK", "PMI_SIZE"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *names[2] = {rows[i].rank, rows[i].workers};
        const size_t places[2] = {AT(asked.rank), AT(asked.workers)};
        for (size_t k = 0; k < 2; k++) {
            const char *text = settings_variable(names[k]);
            if (text != NULL && view->given[places[k]].from < SETTINGS_LAUNCHER)
                view->given[places[k]] = (struct setting_given){.from = SETTINGS_LAUNCHER,
                                                                .text = text,
                                                                .by = rows[i].launcher,
                                                                .variable = names[k]};
        }
    }
}

static tri_status give_launcher(struct settings_view *view, bool server, tri_error *err)
{
    size_t rank = AT(asked.rank), workers = AT(asked.workers);
    bool known = view->given[workers].from >= SETTINGS_LAUNCHER &&
                 (server || view->given[rank].from >= SETTINGS_LAUNCHER);
    struct launcher found = {.name = NULL};
    tri_status status = launcher_find(&found, known ? NULL : err);
    if (status != TRI_OK)
        return known ? TRI_OK : status; /* nobody needs what it says */
    view->launcher = found;
    if (found.name == NULL && !known)
        give_halves(view);
    give_launched(view, workers, &view->launcher.workers);
    give_launched(view, rank, &view->launcher.rank);
    return TRI_OK;
}

/* ---- the file ---- */

static tri_status give_file(const struct settings_request *request, struct settings_view *view,
                            tri_error *err)
{
    const char *of_program = request->options != NULL ? request->options->config : NULL;
    const char *path = request->file;
    if (path == NULL && of_program != NULL && of_program[0] != '\0')
        path = of_program;
    if (path == NULL)
        path = settings_variable("TRIDENT_CONFIG");
    if (path == NULL)
        return TRI_OK;
    tri_status status = settings_file_read(&view->file, path, err);
    for (size_t i = 0; setting_at(i) != NULL && status == TRI_OK; i++) {
        const struct settings_entry *entry = &view->file.entries[i];
        if (entry->value != NULL)
            view->given[i] = (struct setting_given){.from = SETTINGS_FILE,
                                                    .text = entry->value,
                                                    .by = path,
                                                    .line = entry->line,
                                                    .column = entry->column};
    }
    return status;
}

/* ---- the command line ---- */

static tri_status give_set(const char *text, struct settings_view *view, tri_error *err)
{
    char name[64], next[NAMES_TEXT];
    const char *equals = strchr(text, '=');
    size_t index = 0;
    if (equals == NULL || equals == text || equals[1] == '\0') {
        fail(err, TRI_EINPUT, "option '--set' needs a name and a value");
        fail_next(err, "write --set name=value, once for each");
        return TRI_EINPUT;
    }
    size_t len = (size_t)(equals - text);
    (void)snprintf(name, sizeof name, "%.*s", (int)(len < 63 ? len : 63), text);
    const struct setting *row = setting_find(name, &index);
    if (row == NULL) {
        fail(err, TRI_EINPUT, "there is no setting '%s'", name);
        setting_advise(name, next);
        fail_where(err, "--set");
        fail_next(err, "%s", next);
        return TRI_EINPUT;
    }
    view->given[index] = (struct setting_given){.from = SETTINGS_SET, .text = equals + 1};
    return TRI_OK;
}

tri_status settings_gather(const struct settings_request *request, struct settings_view *view,
                           tri_error *err)
{
    tri_status status = give_file(request, view, err);
    if (status != TRI_OK)
        return status;
    give_variables(view);
    if (request->options != NULL) {
        give_texts(request->options, view);
        give_numbers(request->options, view);
    }
    for (size_t i = 0; i < request->set_count && status == TRI_OK; i++)
        status = give_set(request->sets[i], view, err);
    return status == TRI_OK ? give_launcher(view, request->server, err) : status;
}
