/* Numbers that nobody can guess. */
#ifndef TRIDENT_OS_RANDOM_H
#define TRIDENT_OS_RANDOM_H

#include <stddef.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

tri_status random_bytes(void *out, size_t bytes, tri_error *err); /* TRI_EIO */

#ifdef __cplusplus
}
#endif

#endif
