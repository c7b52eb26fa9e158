/* Lists that users type after an option, "a,b,c", and how they are refused. */
#ifndef TRIDENT_CLI_SIMULATE_LIST_H
#define TRIDENT_CLI_SIMULATE_LIST_H

#include "base/error.h"
#include "base/names.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LIST_PART = 64 };

struct list {
    const char *option, *next; /* for the refusal */
    /* Takes one part of the list. */
    tri_status (*add)(void *into, const char *part, const struct list *list, tri_error *err);
};

/* Hands the parts of the text to add(), one by one, until one is refused. Parts are separated by
 * `separator`; empty ones, and those of LIST_PART bytes and more, are refused. */
tri_status list_each(const struct list *list, const char *text, char separator, void *into,
                     tri_error *err);

/* The refusals; each returns TRI_EINPUT. */
tri_status list_refuse(const char *option, const char *text, const char *next, tri_error *err);
tri_status list_unknown(const char *option, const char *typed, names_candidate *candidate,
                        tri_error *err);
tri_status list_too_many(const struct list *list, size_t most, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
