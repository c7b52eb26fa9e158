/* What settings of the environment or of a file say to trident train. */
#include <string.h>

#include "cli/train.h"
#include "local/local.h"
#include "settings/gather.h"

#define AT(field) setting_of(offsetof(struct settings, field))

/* Only these are looked at: how the rest fits together is for who joins the job. */
static tri_status put(const struct settings_view *view, size_t i, struct settings *out,
                      char from[SETTINGS_ORIGIN], tri_error *err)
{
    const struct setting_given *given = &view->given[i];
    from[0] = '\0';
    if (given->text == NULL)
        return TRI_OK;
    settings_source(given, from);
    return setting_put(setting_at(i), given->text, from, out, err);
}

/* Its place among the values of --local. */
static unsigned local_of(unsigned mode)
{
    unsigned i = 0;
    if (mode == SETTINGS_LOCAL_AUTO)
        return i;
    while (train_locals[i] != NULL &&
           strcmp(train_locals[i], local_mode_name((enum local_mode)mode)) != 0)
        i++;
    return i;
}

tri_status train_elsewhere(const struct mem *mem, struct train_elsewhere *out, tri_error *err)
{
    const struct settings_request request = {.mem = mem};
    struct settings_view view = {.pending = false};
    struct settings settings = {.asked = {.local = 0}};
    *out = (struct train_elsewhere){.local = 0};
    settings_file_init(&view.file, mem);
    tri_status status = settings_gather(&request, &view, err);
    if (status == TRI_OK)
        status = put(&view, AT(asked.local), &settings, out->local_from, err);
    if (status == TRI_OK)
        status = put(&view, AT(asked.mode), &settings, out->mode_from, err);
    settings_view_fini(&view);
    if (status == TRI_OK && out->local_from[0] != '\0')
        out->local = local_of(settings.asked.local);
    out->shares = settings.asked.mode == 1;
    return status;
}
