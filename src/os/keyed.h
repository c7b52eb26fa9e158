/* Proofs that somebody knows a secret: keys and keyed hashes, by libsodium. */
#ifndef TRIDENT_OS_KEYED_H
#define TRIDENT_OS_KEYED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KEYED_KEY_BYTES = 32, KEYED_PROOF_BYTES = 32 };

/* Before the others, in any thread, any number of times. TRI_EIO. */
tri_status keyed_start(tri_error *err);

/* The key of a job; a token of NULL is the empty one. Another token or another name is another
 * key, and neither can be found from it. */
void keyed_key(const char *token, const char *job, uint8_t out[KEYED_KEY_BYTES]);

struct keyed_part {
    const void *at;
    size_t bytes;
};

/* The keyed hash of a label and of some parts. The caller sees to it that two sets of parts that
 * mean different things never have the same bytes one after the other. */
void keyed_proof(const uint8_t key[KEYED_KEY_BYTES], const char *label,
                 const struct keyed_part *parts, size_t count, uint8_t out[KEYED_PROOF_BYTES]);

/* In a time that does not tell where they differ. */
bool keyed_same(const uint8_t a[KEYED_PROOF_BYTES], const uint8_t b[KEYED_PROOF_BYTES]);

void keyed_wipe(void *secret, size_t bytes); /* also when nobody reads it any more */

#ifdef __cplusplus
}
#endif

#endif
