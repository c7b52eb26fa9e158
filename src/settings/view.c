/* Values and origins in words. */
#include "settings/view.h"

#include <stdio.h>

#include "settings/gather.h"

#define PLACE(field) offsetof(struct settings, field)

/* A number that is worked out where none was given. */
static bool worked_out(const struct settings *settings, size_t place, uint32_t *out)
{
    if (place == PLACE(asked.workers))
        *out = settings->agree.workers;
    else if (place == PLACE(asked.servers))
        *out = settings->agree.servers;
    else if (place == PLACE(asked.rank))
        *out = settings->node;
    else if (place == PLACE(helpers))
        *out = settings->helpers;
    else
        return false;
    return true;
}

/* Chosen by the launcher's service once the job is joined. */
static bool comes_later(const struct settings_view *view, size_t i)
{
    size_t place = setting_at(i)->offset;
    return view->pending && (place == PLACE(asked.coordinator) ||
                             (place == PLACE(token) && view->given[i].text == NULL));
}

const char *settings_value(const struct settings_view *view, const struct settings *settings,
                           size_t i, char room[SETTINGS_ADDRESS])
{
    const struct setting *row = setting_at(i);
    const char *text = view->given[i].text;
    uint32_t number = 0;
    if (comes_later(view, i))
        return "(agreed upon when the job starts)";
    if (row->secret)
        return text != NULL ? "(set)" : NULL;
    if (row->kind == SETTING_FLAG)
        return *(const bool *)(const void *)((const char *)settings + row->offset) ? "on" : "off";
    if (text != NULL)
        return text;
    if (!worked_out(settings, row->offset, &number))
        return row->fallback;
    (void)snprintf(room, SETTINGS_ADDRESS, "%u", (unsigned)number);
    return room;
}

void settings_origin(const struct settings_view *view, size_t i, char out[SETTINGS_ORIGIN])
{
    const struct setting_given *given = &view->given[i];
    if (comes_later(view, i))
        given = &view->given[setting_of(PLACE(asked.coordinator))];
    switch (given->from) {
    case SETTINGS_DEFAULT:
    case SETTINGS_SET:
        settings_source(given, out);
        break;
    case SETTINGS_OPTIONS:
        (void)snprintf(out, SETTINGS_ORIGIN, "program");
        break;
    case SETTINGS_ENVIRONMENT:
        (void)snprintf(out, SETTINGS_ORIGIN, "environment %s", given->by);
        break;
    case SETTINGS_LAUNCHER:
        (void)snprintf(out, SETTINGS_ORIGIN, "%s %s", given->by, given->variable);
        break;
    case SETTINGS_FILE:
        (void)snprintf(out, SETTINGS_ORIGIN, "file %.290s:%u", given->by, (unsigned)given->line);
        break;
    }
}
