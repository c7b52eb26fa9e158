/* What the library says of itself: its version and the names of its statuses. */
#include <stddef.h>

#include "trident/trident.h"

#include "api/export.h"

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

EXPORT const char *tri_version(void)
{
    return TEXT(TRI_VERSION_MAJOR) "." TEXT(TRI_VERSION_MINOR) "." TEXT(TRI_VERSION_PATCH);
}

EXPORT const char *tri_status_name(tri_status status)
{
    static const struct {
        tri_status status;
        const char *name;
    } names[] = {
        {TRI_OK, "TRI_OK"},
        {TRI_EARG, "TRI_EARG"},
        {TRI_ENOMEM, "TRI_ENOMEM"},
        {TRI_EIO, "TRI_EIO"},
        {TRI_EINPUT, "TRI_EINPUT"},
        {TRI_EPEER, "TRI_EPEER"},
        {TRI_ETIMEOUT, "TRI_ETIMEOUT"},
        {TRI_EEVICTED, "TRI_EEVICTED"},
        {TRI_EMISMATCH, "TRI_EMISMATCH"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].status == status)
            return names[i].name;
    return "TRI_?";
}
