/* Limits: the largest numbers that make sense to a receiver.
 *
 * A number from a peer is held against them before anybody counts, indexes or
 * allocates by it. A node without a book yet uses wire_widest; with the plan it
 * knows exactly. */
#ifndef TRIDENT_WIRE_LIMITS_H
#define TRIDENT_WIRE_LIMITS_H

#include <stdint.h>

#include "wire/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WIRE_MAX_RANKS  UINT32_C(65536)      /* workers of a job, and servers */
#define WIRE_MAX_NODES  (2 * WIRE_MAX_RANKS) /* none of the servers beside a worker */
#define WIRE_MAX_LAYERS (UINT32_C(1) << 20)
#define WIRE_MAX_DATA   (UINT32_C(1) << 30)       /* bytes of data behind one header */
#define WIRE_MAX_CLOCK  (((uint64_t)1 << 63) - 1) /* so that clock + 1 never wraps around */

/* Who keeps parameters: a server by its number, or the worker of the node. */
#define WIRE_OWNER_WORKER UINT32_MAX

struct wire_limits {
    uint32_t nodes;     /* senders are below this */
    uint32_t workers;   /* ranks are below this */
    uint32_t servers;   /* numbers of servers are below this */
    uint32_t layers;    /* layers are below this */
    uint32_t chunks;    /* chunks and parts are below this, in any layer */
    uint64_t max_clock; /* clocks and versions are at most this */
    uint32_t
        data_bytes;    /* at most this much data in one message; each kind has its own bound, too */
    uint8_t max_codec; /* codec numbers are at most this */
};

/* All that the format allows. */
extern const struct wire_limits wire_widest;

/* A number of that sort; one over its limit refuses the input. */
uint32_t wire_get_rank(struct wire_in *in, const struct wire_limits *limits);
uint32_t wire_get_node(struct wire_in *in, const struct wire_limits *limits);
uint32_t wire_get_owner(struct wire_in *in, const struct wire_limits *limits);
uint32_t wire_get_layer_number(struct wire_in *in, const struct wire_limits *limits);
uint64_t wire_get_clock(struct wire_in *in, const struct wire_limits *limits);

#ifdef __cplusplus
}
#endif

#endif
