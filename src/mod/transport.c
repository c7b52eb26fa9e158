/* The transports that are there. Adding one is a file and a line here. */
#include "mod/transport.h"

#include <string.h>

#include "base/names.h"

extern const struct transport_ops transport_tcp, transport_inproc, transport_trace, transport_fault;
static const struct transport_ops *const transports[] = {
    &transport_tcp,
    &transport_inproc,
    &transport_trace,
    &transport_fault,
};

const struct transport_ops *transport_at(size_t i)
{
    return i < sizeof transports / sizeof transports[0] ? transports[i] : NULL;
}

static const struct transport_ops *find(const char *name)
{
    const struct transport_ops *ops;
    for (size_t i = 0; (ops = transport_at(i)) != NULL; i++)
        if (names_equal(ops->name, name))
            return ops;
    return NULL;
}

const char *transport_inner(const char *name)
{
    const char *colon = name != NULL ? strchr(name, ':') : NULL;
    return colon != NULL ? colon + 1 : "tcp";
}

const struct transport_ops *transport_find(const char *name)
{
    char outer[16];
    const char *colon = strchr(name, ':');
    if (colon == NULL)
        return find(name);
    size_t len = (size_t)(colon - name);
    if (len >= sizeof outer)
        return NULL;
    memcpy(outer, name, len);
    outer[len] = '\0';
    const struct transport_ops *ops = find(outer);
    return ops != NULL && ops->wraps && transport_find(colon + 1) != NULL ? ops : NULL;
}
