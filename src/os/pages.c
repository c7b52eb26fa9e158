/* Transparent huge pages. */
#include "os/pages.h"

#include <stdint.h>
#include <sys/mman.h>

void pages_be_large(void *at, size_t bytes)
{
    size_t over = (uintptr_t)at % PAGES_LARGE, skip = over > 0 ? PAGES_LARGE - over : 0;
    if (bytes < skip + PAGES_LARGE)
        return;
    size_t whole = (bytes - skip) / PAGES_LARGE * PAGES_LARGE;
    (void)madvise((char *)at + skip, whole, MADV_HUGEPAGE);
}
