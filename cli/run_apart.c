/* Servers of their own that the settings ask for and that nobody would start. */
#include <stdlib.h>
#include <string.h>

#include "cli/run.h"
#include "settings/file.h"
#include "settings/view.h"

/* As the processes of the job will have it; an empty one is none. */
static const char *variable(const struct run_request *request, const char *name)
{
    size_t len = strlen(name);
    const char *text = getenv(name);
    for (size_t i = 0; i < request->variable_count; i++)
        if (strncmp(request->variables[i], name, len) == 0 && request->variables[i][len] == '=')
            text = request->variables[i] + len + 1;
    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* Reads one setting into out, from its variable or from the file; where: which of the two. What
 * cannot be read is left to the processes to tell. */
static void take(const struct run_request *request, const struct settings_file *file, size_t place,
                 struct settings *out, char where[SETTINGS_ORIGIN])
{
    const struct setting *row = setting_at(place);
    const struct settings_entry *entry = &file->entries[place];
    const char *text = variable(request, row->variable);
    if (text != NULL)
        (void)snprintf(where, SETTINGS_ORIGIN, "%s", row->variable);
    else if (entry->value != NULL)
        (void)snprintf(where, SETTINGS_ORIGIN, "%.280s:%u:%u", file->name, (unsigned)entry->line,
                       (unsigned)entry->column);
    text = text != NULL ? text : entry->value;
    if (text != NULL)
        (void)setting_put(row, text, row->name, out, NULL);
}

tri_status run_check_apart(const struct run_request *request, const struct mem *mem, tri_error *err)
{
    struct settings settings = {.asked = {.together = true}};
    struct settings_file file;
    char where[SETTINGS_ORIGIN] = "", mode[SETTINGS_ORIGIN];
    const char *path = variable(request, "TRIDENT_CONFIG");
    if (request->settings.colocate != RUN_NOT_GIVEN)
        return TRI_OK;
    settings_file_init(&file, mem);
    if (path != NULL && settings_file_read(&file, path, NULL) != TRI_OK) {
        settings_file_fini(&file);
        settings_file_init(&file, mem);
    }
    take(request, &file, setting_of(offsetof(struct settings, asked.mode)), &settings, mode);
    take(request, &file, setting_of(offsetof(struct settings, asked.together)), &settings, where);
    settings_file_fini(&file);
    bool is_local = settings.asked.mode == 1; /* has one server, wherever it is */
    if (settings.asked.together || is_local)
        return TRI_OK;
    fail(err, TRI_EINPUT, "the servers are to have processes of their own, which nobody starts");
    fail_where(err, "%s", where);
    return TRI_EINPUT;
}
