/* The last events of a node, kept in a ring and written out when its part in the job ends badly.
 *
 * Noting one costs a few stores and a look at the clock, and no allocation; all memory is taken by
 * flight_new(). The host's lock protects it. What is in the file: docs/failures.md. */
#ifndef TRIDENT_RUN_FLIGHT_H
#define TRIDENT_RUN_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A text belongs to a rare event: only the newest FLIGHT_TEXTS are kept, cut to FLIGHT_TEXT. */
enum { FLIGHT_EVENTS = 4096, FLIGHT_TEXTS = 64, FLIGHT_TEXT = 96 };
#define FLIGHT_NONE UINT32_MAX

enum flight_kind {
    FLIGHT_UPDATE,   /* the caller gave an update of a layer */
    FLIGHT_SYNC,     /* the caller waits for a layer */
    FLIGHT_SYNCED,   /* it may use the layer */
    FLIGHT_CLOCK,    /* the caller ended an iteration; `clock` begins */
    FLIGHT_SEND,     /* a message (`what`) to `node` was handed to the transport */
    FLIGHT_RECEIVED, /* a message (`what`) of `node`, whole */
    FLIGHT_OP,       /* the core asked for an operation (`what`); `part` is the rank, if any */
    FLIGHT_OP_DONE,  /* and it is done */
    FLIGHT_UP,       /* all connections to `node` are there */
    FLIGHT_DOWN,     /* or gone, and why */
    FLIGHT_VIEW,     /* view number `clock` began */
    FLIGHT_LEFT,     /* `node` has departed */
    FLIGHT_WAIT,     /* a long wait was told to the user */
    FLIGHT_ACCUSED,  /* `node` is accused by node `part` */
    FLIGHT_PHASE,    /* joined, started, closing */
    FLIGHT_FAILURE,  /* with status -`what` */
    FLIGHT_KINDS
};

struct flight_event {
    uint64_t t_us; /* of clock_us(); 0: now */
    uint64_t clock;
    const char *text; /* NULL: none */
    uint32_t node, layer, part;
    enum flight_kind kind;
    uint8_t what;
};

struct flight;

/* NULL when there is no memory. */
struct flight *flight_new(const struct mem *mem);
void flight_free(struct flight *flight); /* NULL is fine */

void flight_add(struct flight *flight, const struct flight_event *event);

/* The event, unless there is no recorder. */
static inline void flight_note(struct flight *flight, struct flight_event event)
{
    if (flight != NULL)
        flight_add(flight, &event);
}

/* How many were ever noted; how many of them are kept. */
uint64_t flight_total(const struct flight *flight);
uint32_t flight_kept(const struct flight *flight);

/* The i-th of those kept, the oldest first; i < flight_kept(). t_us is since flight_new(). The text
 * is the ring's own. */
struct flight_event flight_at(const struct flight *flight, uint32_t i);

/* "update"; static storage. */
const char *flight_kind_name(enum flight_kind kind);

#ifdef __cplusplus
}
#endif

#endif
