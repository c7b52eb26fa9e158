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

static inline void bits_remove(uint64_t *set, size_t i)
{
    set[i / 64] &= ~((uint64_t)1 << (i % 64));
}

/* The first member of a that is not in b; n when there is none. */
static inline size_t bits_first_without(const uint64_t *a, const uint64_t *b, size_t n)
{
    for (size_t w = 0; w < bits_words(n); w++)
        if ((a[w] & ~b[w]) != 0) {
            size_t first = 64 * w + (size_t)__builtin_ctzll(a[w] & ~b[w]);
            return first < n ? first : n;
        }
    return n;
}

/* Is every member of a in b? */
static inline bool bits_within(const uint64_t *a, const uint64_t *b, size_t n)
{
    return bits_first_without(a, b, n) == n;
}

static inline bool bits_any(const uint64_t *set, size_t n)
{
    for (size_t w = 0; w < bits_words(n); w++)
        if (set[w] != 0)
            return true;
    return false;
}

static inline uint32_t bits_count(const uint64_t *set, size_t n)
{
    uint32_t count = 0;
    for (size_t w = 0; w < bits_words(n); w++)
        count += (uint32_t)__builtin_popcountll(set[w]);
    return count;
}

/* Members 0 to n - 1. */
static inline void bits_fill(uint64_t *set, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bits_add(set, i);
}

static inline void bits_copy(uint64_t *to, const uint64_t *from, size_t n)
{
    memcpy(to, from, bits_words(n) * sizeof *to);
}

static inline void bits_clear(uint64_t *set, size_t n)
{
    memset(set, 0, bits_words(n) * sizeof *set);
}

#ifdef __cplusplus
}
#endif

#endif
