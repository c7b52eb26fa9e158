/* Pages of memory. */
#ifndef TRIDENT_OS_PAGES_H
#define TRIDENT_OS_PAGES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PAGES_LARGE = 2 << 20 };

/* Asks for large pages where whole ones lie in these bytes, which nobody has touched yet: passes
 * over long arrays then miss the translation of addresses less often. A wish: where the system has
 * none to give, nothing changes. */
void pages_be_large(void *at, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
