/* Reading lists. */
#include "cli/simulate_list.h"

#include <string.h>

tri_status list_refuse(const char *option, const char *text, const char *next, tri_error *err)
{
    fail(err, TRI_EINPUT, "option '--%s' cannot be '%.60s'", option, text);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

tri_status list_unknown(const char *option, const char *typed, names_candidate *candidate,
                        tri_error *err)
{
    char next[NAMES_TEXT];
    names_advise(typed, candidate, NULL, next);
    fail(err, TRI_EINPUT, "option '--%s' does not know '%.60s'", option, typed);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

tri_status list_too_many(const struct list *list, size_t most, tri_error *err)
{
    fail(err, TRI_EINPUT, "option '--%s' lists more than %zu values", list->option, most);
    fail_next(err, "list fewer, and run the command again for the others");
    return TRI_EINPUT;
}

tri_status list_each(const struct list *list, const char *text, char separator, void *into,
                     tri_error *err)
{
    for (const char *at = text;; at++) {
        char part[LIST_PART];
        size_t len = strcspn(at, (const char[]){separator, '\0'});
        if (len == 0 || len >= sizeof part)
            return list_refuse(list->option, text, list->next, err);
        memcpy(part, at, len);
        part[len] = '\0';
        tri_status status = list->add(into, part, list, err);
        at += len;
        if (status != TRI_OK || *at == '\0')
            return status;
    }
}
