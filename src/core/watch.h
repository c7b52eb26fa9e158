/* Who was heard when: the failure detector of one node.
 *
 * Every node beats to its partners (the nodes it exchanges messages with) at every tick; any
 * message is a sign of life. A partner that was not heard for 2.5 heartbeats is accused to the
 * coordinator, which waits a tick for others' accusations, so that a node is given up within
 * three heartbeats, and one that comes back before takes the accusation back. */
#ifndef TRIDENT_CORE_WATCH_H
#define TRIDENT_CORE_WATCH_H

#include "base/mem.h"
#include "core/bits.h"
#include "core/core.h"
#include "core/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

struct watch {
    const struct mem *mem;
    uint32_t nodes, self;
    struct core_times times;
    uint64_t ticked;    /* time of the last tick; 0: none yet */
    uint64_t woke;      /* when this node last had slept for more than a few ticks; 0: never */
    uint64_t *heard;    /* [nodes] when last; 0: never */
    uint64_t *partners; /* set of nodes */
    uint64_t *departed; /* set of nodes */
    uint64_t *doubt;    /* [nodes] when a silence of more than a heartbeat ended; 0: never */
    uint64_t *accused;  /* set of nodes, made anew at every tick */
    uint64_t *said;     /* set of nodes that the last ACCUSE named */
};

tri_status watch_init(struct watch *watch, const struct layout *layout,
                      const struct core_times *times, uint32_t self, const struct mem *mem,
                      tri_error *err);
void watch_fini(struct watch *watch);

/* The job starts: from now on also those are expected to be heard who have not been yet. */
void watch_start(struct watch *watch, uint64_t now);
void watch_heard(struct watch *watch, uint32_t node, uint64_t now);
/* It cannot be heard any more. */
void watch_gone(struct watch *watch, uint32_t node, uint64_t now);

/* Begins a tick: who is silent now is in `accused`. A node that itself slept for a while has
 * heard nobody meanwhile, which is no fault of theirs: the gap is not counted. */
void watch_tick(struct watch *watch, uint64_t now);

/* How long a node has not been heard; 0 for one that never was. */
uint64_t watch_silence(const struct watch *watch, uint32_t node, uint64_t now);

/* Is it to be believed whom a node accuses? Not one that was silent itself a short while ago: it
 * was cut off, and so heard nobody. And nobody right after this node slept: what is read then was
 * said long before, and who was cut off meanwhile cannot be told. */
bool watch_believes(const struct watch *watch, uint32_t node, uint64_t now);

static inline bool watch_departed(const struct watch *watch, uint32_t node)
{
    return bits_has(watch->departed, node);
}

/* A wait that may have to be told to the user. Zeroed: nobody waits. */
struct watch_wait {
    uint64_t since; /* 0: not waiting */
    uint64_t of;    /* which one it is */
    uint64_t next;  /* when to tell again */
};

/* The wait goes on (or not) at this tick. `of` tells it from the next one, which may have begun
 * since the last tick: a version, a clock. True when it is time to tell. */
bool watch_waits(const struct watch *watch, struct watch_wait *wait, bool waiting, uint64_t of,
                 uint64_t now);
/* Is it so long that those missing are accused? */
bool watch_overdue(const struct watch *watch, const struct watch_wait *wait, uint64_t now);

/* Has a wait for the start of the job passed its deadline? */
bool watch_gives_up(const struct watch *watch, const struct watch_wait *wait, uint64_t now);

/* Tells it: "waiting 10 s for WHAT of WHO 5, 7 (last heard 12.1 s ago)". `missing` is a set of
 * members; node_of[m] is the node of member m, NULL: m itself. */
struct watch_missing {
    const char *what; /* "fc6" */
    const char *who;  /* "worker", "server", "node"; an s is added */
    const uint64_t *set;
    uint32_t members;
    const uint32_t *node_of;
    uint32_t layer; /* for the action; UINT32_MAX: none */
};
void watch_tell(const struct watch *watch, const struct watch_wait *wait,
                const struct watch_missing *missing, uint64_t now, const struct core_out *out);

#ifdef __cplusplus
}
#endif

#endif
