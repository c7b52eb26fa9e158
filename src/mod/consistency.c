/* From a text to a consistency rule and its bound. */
#include "mod/consistency.h"

#include <string.h>

#include "base/names.h"
#include "base/units.h"

static const char *candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return consistency_at(i) != NULL ? consistency_at(i)->name : NULL;
}

static tri_status unknown(const char *text, const char *name, tri_error *err)
{
    char next[NAMES_TEXT];
    names_advise(name, candidate, NULL, next);
    fail(err, TRI_EINPUT, "there is no consistency '%.60s'", text);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

static tri_status bad_bound(const tri_consistency_ops *ops, const char *text, tri_error *err)
{
    fail(err, TRI_EINPUT, "consistency '%.60s' is not understood", text);
    if (ops->bounded)
        fail_next(err, "write it as %s:N, where N is a number of iterations, as in %s:3", ops->name,
                  ops->name);
    else
        fail_next(err, "%s takes no number: write %s", ops->name, ops->name);
    return TRI_EINPUT;
}

tri_status consistency_read(const char *text, const tri_consistency_ops **ops, uint32_t *bound,
                            tri_error *err)
{
    char name[32] = "";
    uint64_t number = 0;
    size_t len = strcspn(text, ":");
    if (len < sizeof name)
        memcpy(name, text, len);
    const tri_consistency_ops *found = consistency_find(name);
    if (found == NULL)
        return unknown(text, name, err);
    if (found->bounded != (text[len] == ':'))
        return bad_bound(found, text, err);
    if (found->bounded && (!units_count(text + len + 1, &number) || number > UINT32_MAX))
        return bad_bound(found, text, err);
    /* Nobody ahead of anybody is bsp, whose one step a clock is cheaper and reproducible. */
    if (found->bounded && number == 0)
        found = consistency_find("bsp");
    *ops = found;
    *bound = (uint32_t)number;
    return TRI_OK;
}
