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
    EVENT_LOOP    /* a worker's loop goes on */
};

struct packet;

struct event {
    uint64_t time, number;
    enum event_kind kind;
    uint32_t node;
    bool on_server;        /* EVENT_OP: of the node's server, not its worker */
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

#ifdef __cplusplus
}
#endif

#endif
