/* BLAKE2b, as crypto_generichash, without and with a key. */
#include "os/keyed.h"

#include <sodium.h>
#include <string.h>

_Static_assert((int)KEYED_KEY_BYTES == (int)crypto_generichash_KEYBYTES, "a key is one of ours");
_Static_assert((int)KEYED_PROOF_BYTES == (int)crypto_generichash_BYTES, "a proof is one hash");

tri_status keyed_start(tri_error *err)
{
    if (sodium_init() >= 0)
        return TRI_OK;
    return fail(err, TRI_EIO, "libsodium cannot start: the system has no random numbers");
}

/* With its length before it, so that no text can run over into the next one. */
static void add_text(crypto_generichash_state *hash, const char *text)
{
    uint64_t len = strlen(text);
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(len >> (8 * i));
    (void)crypto_generichash_update(hash, bytes, sizeof bytes);
    (void)crypto_generichash_update(hash, (const unsigned char *)text, len);
}

void keyed_key(const char *token, const char *job, uint8_t out[KEYED_KEY_BYTES])
{
    crypto_generichash_state hash;
    (void)crypto_generichash_init(&hash, NULL, 0, KEYED_KEY_BYTES);
    add_text(&hash, "trident job key");
    add_text(&hash, job);
    add_text(&hash, token != NULL ? token : "");
    (void)crypto_generichash_final(&hash, out, KEYED_KEY_BYTES);
    sodium_memzero(&hash, sizeof hash);
}

void keyed_proof(const uint8_t key[KEYED_KEY_BYTES], const char *label,
                 const struct keyed_part *parts, size_t count, uint8_t out[KEYED_PROOF_BYTES])
{
    crypto_generichash_state hash;
    (void)crypto_generichash_init(&hash, key, KEYED_KEY_BYTES, KEYED_PROOF_BYTES);
    add_text(&hash, label);
    for (size_t i = 0; i < count; i++)
        (void)crypto_generichash_update(&hash, parts[i].at, parts[i].bytes);
    (void)crypto_generichash_final(&hash, out, KEYED_PROOF_BYTES);
    sodium_memzero(&hash, sizeof hash);
}

bool keyed_same(const uint8_t a[KEYED_PROOF_BYTES], const uint8_t b[KEYED_PROOF_BYTES])
{
    return sodium_memcmp(a, b, KEYED_PROOF_BYTES) == 0;
}

void keyed_wipe(void *secret, size_t bytes)
{
    sodium_memzero(secret, bytes);
}
