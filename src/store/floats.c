/* Aligned arrays from an allocator that knows of no alignment. */
#include "store/floats.h"

#include <string.h>

/* Before the floats lies where the block begins. */
float *floats_new(const struct mem *mem, uint64_t n)
{
    const size_t align = floats_align(n), more = sizeof(void *) + align;
    if (n > (SIZE_MAX - more) / sizeof(float))
        return NULL;
    char *block = mem->resize(mem->ctx, NULL, (size_t)n * sizeof(float) + more);
    if (block == NULL)
        return NULL;
    char *first = block + sizeof(void *);
    first += (align - (uintptr_t)first % align) % align;
    memcpy(first - sizeof block, &block, sizeof block);
    return (float *)(void *)first;
}

float *floats_zero(const struct mem *mem, uint64_t n)
{
    float *floats = floats_new(mem, n);
    if (floats != NULL)
        memset(floats, 0, (size_t)n * sizeof *floats);
    return floats;
}

void floats_free(const struct mem *mem, float *floats)
{
    char *block;
    if (floats == NULL)
        return;
    memcpy(&block, (char *)floats - sizeof block, sizeof block);
    mem_free(mem, block);
}
