/* The end that calls, in raw bytes: for tests that say something else than os/meet would. */
#ifndef TRIDENT_TESTS_OS_CALLER_H
#define TRIDENT_TESTS_OS_CALLER_H

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "os/words.h"

/* ASKS of the socket 0 of `sockets`, with that greeting and a nonce of one byte's value. */
static inline void caller_ask(uint8_t out[WORDS_MOST_BYTES], uint32_t sockets,
                              const uint8_t greeting[WORDS_GREETING_BYTES], uint8_t nonce)
{
    const struct words words = {.kind = WORDS_ASKS, .sockets = sockets};
    words_open(&words, out);
    memcpy(out + WORDS_BASE_BYTES, greeting, WORDS_GREETING_BYTES);
    memset(out + WORDS_BASE_BYTES + WORDS_GREETING_BYTES, nonce, WORDS_NONCE_BYTES);
}

/* PROVES, for what was asked and answered. */
static inline void caller_prove(uint8_t out[WORDS_MOST_BYTES], const char *token, const char *job,
                                const uint8_t *asked, const uint8_t *answered)
{
    uint8_t key[KEYED_KEY_BYTES];
    struct words words = words_read(asked);
    words.kind = WORDS_PROVES;
    words_open(&words, out);
    keyed_key(token, job, key);
    words_prove(key, WORDS_PROVES, asked, answered, out + WORDS_BASE_BYTES);
}

/* Reads what is there without waiting; *have grows up to `want`. True: all of it is there. */
static inline bool caller_read(int fd, uint8_t *out, size_t want, size_t *have)
{
    if (*have < want) {
        ssize_t got = recv(fd, out + *have, want - *have, MSG_DONTWAIT);
        *have += got > 0 ? (size_t)got : 0;
    }
    return *have == want;
}

#endif
