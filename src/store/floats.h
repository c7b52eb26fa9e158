/* Arrays of floats that begin on a cache line, and long ones on a page: the kernel copies bytes
 * that lie askew in their pages at half the speed (docs/results/ps.md). */
#ifndef TRIDENT_STORE_FLOATS_H
#define TRIDENT_STORE_FLOATS_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FLOATS_ALIGN = 64, FLOATS_PAGE = 4096 };

/* What an array of so many floats is aligned to. */
static inline size_t floats_align(uint64_t n)
{
    return n >= (uint64_t)4 * FLOATS_PAGE ? FLOATS_PAGE : FLOATS_ALIGN;
}

/* Room for n floats, which may be 0; NULL when it is refused. What is in it is anybody's guess:
 * pages of a large array that are never written cost nothing. */
float *floats_new(const struct mem *mem, uint64_t n);
float *floats_zero(const struct mem *mem, uint64_t n);  /* all 0 */
void floats_free(const struct mem *mem, float *floats); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
