/* The first words of a connection: records of bytes, docs/wire.md section 12. No input or output.
 *
 *     who calls                                       who is called
 *     ASKS     base, greeting, nonce            -->
 *                                               <--   ANSWERS   base, greeting, nonce, proof
 *     PROVES   base, proof                      -->
 *                                               <--   WELCOMES  base
 *
 * In place of any but the first, either may say REFUSES (base, greeting) and close. The base says
 * what it is, in which version, and of which of how many sockets; the greeting is the caller's own.
 * A proof is a keyed hash of all that both have said before it, by role: fresh nonces from both
 * ends make it good for this connection alone. */
#ifndef TRIDENT_OS_WORDS_H
#define TRIDENT_OS_WORDS_H

#include "os/keyed.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WORDS_VERSION = 2,
    WORDS_BASE_BYTES = 16,
    WORDS_GREETING_BYTES = 64,
    WORDS_NONCE_BYTES = 32,
    WORDS_SAID_BYTES = WORDS_BASE_BYTES + WORDS_GREETING_BYTES + WORDS_NONCE_BYTES,
    WORDS_MOST_BYTES = WORDS_SAID_BYTES + KEYED_PROOF_BYTES,
};

enum words_kind {
    WORDS_ASKS = 1,
    WORDS_ANSWERS = 2,
    WORDS_PROVES = 3,
    WORDS_WELCOMES = 4,
    WORDS_REFUSES = 5,
};

/* Why somebody refuses: numbers on the wire. */
enum words_refusal {
    WORDS_OTHER_VERSION = 1,
    WORDS_OTHER_SOCKETS = 2,
    WORDS_OTHER_GREETING = 3, /* another job, another number of nodes */
    WORDS_OTHER_TOKEN = 4,
    WORDS_TAKEN = 5, /* there is such a node already */
    WORDS_LATER = 6, /* not now: ask again */
};

struct words {
    enum words_kind kind;
    uint32_t index;   /* of the socket; of REFUSES, an enum words_refusal */
    uint32_t sockets; /* that the speaker uses for each peer */
};

/* Writes the base of a record; what follows it is the caller's to fill in. */
void words_open(const struct words *words, uint8_t out[WORDS_MOST_BYTES]);
size_t words_bytes(enum words_kind kind); /* of a record; 0: no such kind */

/* What is wrong with the first `heard` bytes of a record, so far as they tell; NULL: nothing.
 * `room` is for the text. Any bytes may come. */
enum { WORDS_WRONG = 120 };
const char *words_wrong(const uint8_t *bytes, size_t heard, char room[WORDS_WRONG]);

/* Is it the words of another version, with a base that can be read? */
bool words_other_version(const uint8_t *bytes, size_t heard);

/* Of a record with WORDS_BASE_BYTES in which nothing is wrong. */
struct words words_read(const uint8_t *bytes);

/* The proof of who said ANSWERS, or PROVES, over the first WORDS_SAID_BYTES of ASKS and ANSWERS. */
void words_prove(const uint8_t key[KEYED_KEY_BYTES], enum words_kind kind, const uint8_t *asked,
                 const uint8_t *answered, uint8_t out[KEYED_PROOF_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
