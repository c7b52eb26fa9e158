/* Where memory comes from: an allocator handed down from the top.
 *
 * Nothing below the entry points calls malloc. That lets a host put Trident's
 * memory where it wants, and lets the tests fail the nth allocation and count
 * what was not given back. */
#ifndef TRIDENT_BASE_MEM_H
#define TRIDENT_BASE_MEM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mem {
    /* As realloc: ptr NULL allocates, bytes 0 frees and returns NULL. A refusal
     * returns NULL and leaves ptr as it was. Must be callable from any thread
     * that shares the allocator. */
    void *(*resize)(void *ctx, void *ptr, size_t bytes);
    void *ctx;
};

/* The C library's heap. */
extern const struct mem mem_libc;

/* Zeroed room for count objects of `size` bytes; NULL when it is refused or the
 * product overflows. count or size 0 gives a pointer that must be freed, too. */
void *mem_array(const struct mem *mem, size_t count, size_t size);

/* Grows an array to hold at least `need` objects, doubling, so that n appends
 * cost O(n). *array and *cap change only on success. New objects are not
 * zeroed. Returns NULL when refused, else the array. */
void *mem_grow(const struct mem *mem, void **array, size_t *cap, size_t need, size_t size);

/* A copy of the len bytes at text, with a NUL behind them; NULL when refused. */
char *mem_text(const struct mem *mem, const char *text, size_t len);

void mem_free(const struct mem *mem, void *ptr); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
