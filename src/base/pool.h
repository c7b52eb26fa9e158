/* A pool of equal blocks, for paths that may not allocate.
 *
 * All memory is taken at pool_init(); pool_take() and pool_give() then cost a
 * few instructions and cannot fail for want of memory. The block given back
 * last is taken first, while it is still in the cache. A pool belongs to one
 * thread; hand blocks to others as you like, but take and give on the owner. */
#ifndef TRIDENT_BASE_POOL_H
#define TRIDENT_BASE_POOL_H

#include <stddef.h>

#include "base/error.h"
#include "base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

#define POOL_ALIGN 64 /* of every block, in bytes: a cache line, and the widest vector */

/* Fields above the line are for reading; those below are the pool's own. */
struct pool {
    size_t block_bytes; /* as asked for at pool_init() */
    size_t count;       /* blocks in all */
    size_t free;        /* blocks that pool_take() can still hand out */
    size_t most_out;    /* high-water mark: the most blocks that were out at once */
    /* ---- */
    const struct mem *mem; /* borrowed; must outlive the pool */
    void *base;            /* the allocation that holds the blocks */
    unsigned char *blocks; /* the first aligned byte of it */
    size_t stride;         /* from one block to the next, in bytes */
    size_t *next;          /* per block: the free one behind it, or a mark that it is out */
    size_t first;          /* the free block to hand out next */
};

/* Makes room for count blocks of block_bytes each, zeroed. count 0 is a pool
 * that is always empty. Failure: TRI_EARG for block_bytes 0; TRI_ENOMEM when
 * memory is refused or the sizes overflow; err (may be NULL) says why, nothing
 * leaks, and *pool may be handed to pool_fini() or pool_init() again. */
tri_status pool_init(struct pool *pool, const struct mem *mem, size_t block_bytes, size_t count,
                     tri_error *err);

/* Gives all memory back. Blocks still out die with it. A zeroed pool is fine,
 * and so is a second call. */
void pool_fini(struct pool *pool);

/* A block, aligned to POOL_ALIGN, with what its last user left in it; NULL when
 * all are out. It is the caller's until pool_give(). */
void *pool_take(struct pool *pool);

/* Takes a block back; NULL is fine. A block given twice, or a pointer that
 * pool_take() of this pool never returned, stops a build with assertions. */
void pool_give(struct pool *pool, void *block);

#ifdef __cplusplus
}
#endif

#endif
