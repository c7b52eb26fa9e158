/* The transports that are there. Adding one is a file and a line here. */
#include "mod/transport.h"

#include "base/names.h"

extern const struct transport_ops transport_tcp, transport_inproc;
static const struct transport_ops *const transports[] = {
    &transport_tcp,
    &transport_inproc,
};

const struct transport_ops *transport_at(size_t i)
{
    return i < sizeof transports / sizeof transports[0] ? transports[i] : NULL;
}

const struct transport_ops *transport_find(const char *name)
{
    const struct transport_ops *ops;
    for (size_t i = 0; (ops = transport_at(i)) != NULL; i++)
        if (names_equal(ops->name, name))
            return ops;
    return NULL;
}
