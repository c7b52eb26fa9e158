/* Asking the system for randomness. */
#include "os/random.h"

#include <errno.h>
#include <sys/random.h>

tri_status random_bytes(void *out, size_t bytes, tri_error *err)
{
    char *at = out;
    while (bytes > 0) {
        ssize_t got = getrandom(at, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(err, TRI_EIO, "cannot get random numbers");
        at += got;
        bytes -= (size_t)got;
    }
    return TRI_OK;
}
