/* FNV-1a, 64 bits: the hash that names a plan.
 *
 * Two nodes compare it to find that they plan from different books. It finds
 * accidents; it is no protection against intent. */
#ifndef TRIDENT_WIRE_HASH_H
#define TRIDENT_WIRE_HASH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WIRE_HASH_START UINT64_C(0xcbf29ce484222325)

/* The hash of len bytes behind those that `hash` covers; start with
 * WIRE_HASH_START. Of a book, hash the bytes of wire_book_encode(). */
uint64_t wire_hash64(uint64_t hash, const void *bytes, size_t len);

#ifdef __cplusplus
}
#endif

#endif
