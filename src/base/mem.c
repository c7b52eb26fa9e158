/* Allocation through a handed-in table. */
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *libc_resize(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    if (bytes == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, bytes);
}

const struct mem mem_libc = {.resize = libc_resize, .ctx = NULL};

void *mem_array(const struct mem *mem, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    size_t bytes = count * size;
    if (bytes == 0)
        bytes = 1;
    void *ptr = mem->resize(mem->ctx, NULL, bytes);
    if (ptr != NULL)
        memset(ptr, 0, bytes);
    return ptr;
}

void *mem_grow(const struct mem *mem, void **array, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap && *array != NULL)
        return *array;
    size_t room = *cap < 8 ? 8 : *cap;
    while (room < need) {
        if (room > SIZE_MAX / 2)
            return NULL;
        room *= 2;
    }
    if (size != 0 && room > SIZE_MAX / size)
        return NULL;
    void *ptr = mem->resize(mem->ctx, *array, room * size);
    if (ptr == NULL)
        return NULL;
    *array = ptr;
    *cap = room;
    return ptr;
}

char *mem_text(const struct mem *mem, const char *text, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *copy = mem->resize(mem->ctx, NULL, len + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

void mem_free(const struct mem *mem, void *ptr)
{
    if (ptr != NULL)
        mem->resize(mem->ctx, ptr, 0);
}
