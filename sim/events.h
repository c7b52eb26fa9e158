/* The events to come, earliest first; among equals in the order they were asked for. */
#ifndef TRIDENT_SIM_EVENTS_H
#define TRIDENT_SIM_EVENTS_H

#include "base/mem.h"
#include "core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

enum event_kind {
    EVENT_HEADER, /* a message has begun to arrive */
    EVENT_DATA,   /* it is in */
    EVENT_OP,     /* an operation is done */
    EVENT_LOOP,   /* a worker's loop goes on */
    EVENT_TICK,   /* a node looks at its clock */
    EVENT_RESTART /* a new process takes the place of a killed one */
};

/* At this time nothing happens any more. */
#define EVENT_NEVER UINT64_MAX

struct packet;

struct event {
    uint64_t time, number;
    enum event_kind kind;
    uint32_t node;
    struct packet *packet; /* of a message; NULL otherwise */
    struct core_op op;
};

struct events {
    struct event *heap;
    size_t count, cap;
    uint64_t numbers;
};

/* False when memory is refused; nothing is added then. */
bool events_add(struct events *events, const struct mem *mem, struct event event);
/* There must be one. */
struct event events_next(struct events *events);
/* Takes out the earliest of those that match; false when none does. Looks at all of them. */
bool events_take(struct events *events, bool (*match)(const void *ctx, const struct event *event),
                 const void *ctx, struct event *out);

#ifdef __cplusplus
}
#endif

#endif
