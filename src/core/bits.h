/* Sets of small numbers, packed into words. */
#ifndef TRIDENT_CORE_BITS_H
#define TRIDENT_CORE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline size_t bits_words(size_t n)
{
    return (n + 63) / 64;
}

static inline bool bits_has(const uint64_t *set, size_t i)
{
    return (set[i / 64] >> (i % 64) & 1) != 0;
}

/* Puts i into the set; false when it was there. */
static inline bool bits_add(uint64_t *set, size_t i)
{
    uint64_t bit = (uint64_t)1 << (i % 64);
    bool fresh = (set[i / 64] & bit) == 0;
    set[i / 64] |= bit;
    return fresh;
}

static inline void bits_clear(uint64_t *set, size_t n)
{
    memset(set, 0, bits_words(n) * sizeof *set);
}

#ifdef __cplusplus
}
#endif

#endif
