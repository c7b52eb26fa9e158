/* Equal blocks in one allocation, and a list of the free ones beside it. */
#include "base/pool.h"

#include <assert.h>
#include <stdint.h>

/* The list lives outside the blocks: a user who writes past the end of one then
 * spoils data, which its checksum shows, and not the pool. It also gives every
 * block a place to note that it is out. */
#define NONE SIZE_MAX
#define OUT  (SIZE_MAX - 1)

static unsigned char *align_up(void *ptr)
{
    return (unsigned char *)ptr + (0 - (uintptr_t)ptr) % POOL_ALIGN;
}

tri_status pool_init(struct pool *pool, const struct mem *mem, size_t block_bytes, size_t count,
                     tri_error *err)
{
    *pool = (struct pool){.mem = mem, .first = NONE};
    if (block_bytes == 0)
        return fail(err, TRI_EARG, "a pool of blocks of 0 bytes");
    size_t slack = POOL_ALIGN - 1; /* an allocator promises no more than malloc's alignment */
    if (block_bytes > SIZE_MAX - slack)
        return fail_nomem(err, "a pool of blocks");
    size_t stride = (block_bytes + slack) / POOL_ALIGN * POOL_ALIGN;
    if (count > (SIZE_MAX - slack) / stride)
        return fail_nomem(err, "a pool of blocks");
    void *base = mem_array(mem, 1, count * stride + slack);
    if (base == NULL)
        return fail_nomem(err, "a pool of blocks");
    size_t *next = mem_array(mem, count, sizeof *next);
    if (next == NULL) {
        mem_free(mem, base);
        return fail_nomem(err, "the list of a pool of blocks");
    }
    for (size_t i = 0; i < count; i++)
        next[i] = i + 1 < count ? i + 1 : NONE;
    *pool = (struct pool){
        .block_bytes = block_bytes,
        .count = count,
        .free = count,
        .mem = mem,
        .base = base,
        .blocks = align_up(base),
        .stride = stride,
        .next = next,
        .first = count > 0 ? 0 : NONE,
    };
    return TRI_OK;
}

void pool_fini(struct pool *pool)
{
    const struct mem *mem = pool->mem;
    mem_free(mem, pool->next);
    mem_free(mem, pool->base);
    *pool = (struct pool){.mem = mem, .first = NONE};
}

void *pool_take(struct pool *pool)
{
    size_t index = pool->first;
    if (index == NONE)
        return NULL;
    pool->first = pool->next[index];
    pool->next[index] = OUT;
    pool->free--;
    if (pool->count - pool->free > pool->most_out)
        pool->most_out = pool->count - pool->free;
    return pool->blocks + index * pool->stride;
}

void pool_give(struct pool *pool, void *block)
{
    if (block == NULL)
        return;
    /* As numbers: the difference of pointers into different objects is undefined,
     * and a foreign pointer below the blocks wraps to an index out of range. */
    uintptr_t offset = (uintptr_t)block - (uintptr_t)pool->blocks;
    size_t index = offset / pool->stride;
    assert(index < pool->count && offset % pool->stride == 0 && "not a block of this pool");
    assert(pool->next[index] == OUT && "block given twice");
    pool->next[index] = pool->first;
    pool->first = index;
    pool->free++;
}
