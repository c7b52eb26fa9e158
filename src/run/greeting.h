/* The greeting: who is at the other end of a new connection.
 *
 * Both ends say it before the first message, and hang up if it does not fit. */
#ifndef TRIDENT_RUN_GREETING_H
#define TRIDENT_RUN_GREETING_H

#include <stdint.h>

#include "base/error.h"
#include "mod/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

struct convert_greeting {
    uint64_t job;
    uint32_t node;        /* who speaks, below nodes */
    uint32_t nodes;       /* as many as it thinks there are */
    uint64_t incarnation; /* of its process */
    uint16_t port;        /* that it listens on; 0: none */
    uint16_t wire_min;    /* versions of the format that it speaks */
    uint16_t wire_max;
    uint8_t roles; /* bits of enum wire_role */
};

/* Numbers are the caller's to keep in range (asserted). */
void greeting_encode(const struct convert_greeting *greeting,
                     uint8_t out[TRANSPORT_GREETING_BYTES]);

/* Takes any bytes. TRI_EMISMATCH for one that speaks other versions only, TRI_EINPUT for what is
 * no greeting, with a text that says what it is instead; *out is then untouched. Whether job, nodes
 * and node are those that the host wants: greeting_check(). */
tri_status greeting_decode(const uint8_t in[TRANSPORT_GREETING_BYTES], struct convert_greeting *out,
                           tri_error *err);

/* Is the other end part of the same job as this one? TRI_EMISMATCH says what is not alike. */
tri_status greeting_check(const struct convert_greeting *own, const struct convert_greeting *other,
                          tri_error *err);

/* Both at once, for struct transport_options: takes any bytes from the other end. */
tri_status greeting_fits(const uint8_t own[TRANSPORT_GREETING_BYTES],
                         const uint8_t other[TRANSPORT_GREETING_BYTES], tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
