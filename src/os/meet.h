/* Meeting: connections until both ends have said who they are, and proved that they belong
 * together.
 *
 * Listens and connects, again and again until a deadline. The two ends then exchange the first
 * words (os/words.h): who they are, the caller's greeting of 64 bytes, and proofs that they know
 * the token of the job. The one that is called judges last; only then does anybody else see the
 * connection. A connection that does not come so far in MEET_PATIENCE_MS is closed, and so is the
 * oldest one when more than MEET_STRANGERS wait: an open port hears from scanners, browsers and the
 * lost. Without a token only addresses of this machine are used.
 *
 * One thread's; everything happens in poller_wait() and meet_tick(). */
#ifndef TRIDENT_OS_MEET_H
#define TRIDENT_OS_MEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"
#include "os/net.h"
#include "os/poller.h"
#include "os/words.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MEET_GREETING_BYTES = WORDS_GREETING_BYTES,
    MEET_PATIENCE_MS = 5000,
    MEET_REFUSED_MS = 1000, /* so long a refusal is asked about again: the one before may linger */
    MEET_STRANGERS = 128,
};
#define MEET_NOBODY  UINT32_MAX
#define MEET_LATER   (UINT32_MAX - 1)
#define MEET_REFUSED "refused: "

/* Somebody who has said the first words. */
struct meet_guest {
    uint32_t dialled; /* the peer that was called; MEET_NOBODY: it called */
    uint32_t index;   /* of the socket */
    const uint8_t *greeting;
    const char *address;
};

/* None of these may call meet_close(), and only judge() may call meet_hang_up(). */
struct meet_host {
    void *ctx;
    /* It has proved that it belongs to the job. The number of the peer; MEET_NOBODY: there is no
     * place for it, MEET_LATER: not now; the connection is closed, and may be tried again. */
    uint32_t (*judge)(void *ctx, const struct meet_guest *guest);
    /* Both ends agree. The descriptor is the host's from now on. */
    void (*met)(void *ctx, uint32_t peer, uint32_t index, int fd, const char *address);
    /* The time of a meet_dial() is up, or the other end and this one do not belong together: then
     * `why` begins with MEET_REFUSED. The last reason, for a person. */
    void (*missed)(void *ctx, uint32_t peer, const char *why);
    /* Words that are none, once per connection. */
    void (*nonsense)(void *ctx, uint32_t dialled, const char *address, const char *what);
};

struct meet_options {
    const struct mem *mem;
    struct poller *poller;        /* borrowed */
    const struct meet_host *host; /* borrowed */
    const char *listen;           /* as for net_listen() */
    uint32_t sockets;             /* between two processes; both must want as many */
    uint8_t greeting[MEET_GREETING_BYTES];
    uint32_t patience_ms; /* 0: MEET_PATIENCE_MS */
    const char *token;    /* NULL or "": none, and this machine's own addresses only */
    const char *job;      /* its name; NULL: "" */
    /* What a greeting says before it is believed: does the other end fit? Pure; any bytes may come.
     * NULL: all do. */
    tri_status (*fits)(const uint8_t own[MEET_GREETING_BYTES],
                       const uint8_t other[MEET_GREETING_BYTES], tri_error *err);
};

struct meet;

/* TRI_EINPUT, TRI_EIO: see net_listen(), and TRI_EINPUT for what needs a token; TRI_ENOMEM. Texts
 * are not needed after it. */
tri_status meet_open(const struct meet_options *options, struct meet **out, tri_error *err);
void meet_close(struct meet *meet); /* NULL is fine; before its poller */
const char *meet_address(const struct meet *meet);

/* Connects socket `index` to the peer until it answers, or until deadline_ms of poller_now_ms().
 * addresses are tried in turn. met() or missed() follow, not from within. TRI_EINPUT for what needs
 * a token, TRI_ENOMEM. */
struct meet_call {
    uint32_t peer;
    uint32_t index;
    int64_t deadline_ms;
    int after_ms;                        /* the first try, from now */
    const struct net_address *addresses; /* copied */
    size_t count;
};
tri_status meet_dial(struct meet *meet, const struct meet_call *call, tri_error *err);

/* Ends the calls to a peer, of one socket or (MEET_NOBODY) of all. */
void meet_hang_up(struct meet *meet, uint32_t peer, uint32_t index);
bool meet_dialling(const struct meet *meet, uint32_t peer, uint32_t index);

/* In how many milliseconds meet_tick() has something to do; negative: there is nothing to wait for.
 */
int meet_wait_ms(const struct meet *meet);
void meet_tick(struct meet *meet);

#ifdef __cplusplus
}
#endif

#endif
