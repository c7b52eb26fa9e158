/* FNV-1a as its authors (Fowler, Noll, Vo) define it. */
#include "wire/hash.h"

uint64_t wire_hash64(uint64_t hash, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}
