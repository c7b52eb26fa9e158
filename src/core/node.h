/* A node: its roles together, and which of them an event is for.
 *
 * Hosts (src/run, sim/) talk to a node, not to its roles, so that what is the same for all
 * is here: signs of life, nodes that have departed, failing and telling the others. */
#ifndef TRIDENT_CORE_NODE_H
#define TRIDENT_CORE_NODE_H

#include "core/coordinator.h"
#include "core/member.h"
#include "core/server.h"
#include "core/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

struct node_options {
    const struct layout *layout; /* borrowed */
    struct core_rules rules;
    struct core_times times;
    uint32_t number;
    uint64_t first;        /* clock to start with */
    const uint64_t *steps; /* [layers] that the optimiser has made before it; NULL: none */
    uint64_t layers_hash;  /* of what the caller described */
    uint64_t plan_hash;
    uint64_t incarnation; /* another for every process */
};

struct node {
    const struct layout *layout; /* borrowed */
    uint32_t number;
    bool has_worker, has_server, has_coordinator;
    bool told; /* what it fails with was said by the coordinator */
    bool over; /* failed or evicted: it takes no more events */
    struct member member;
    struct worker worker;
    struct server server;
    struct coordinator coordinator;
    const struct core_out *host; /* during an event */
};

/* Can a job be run with these rules? TRI_EINPUT says what does not go together. */
tri_status node_check(const struct layout *layout, const struct core_rules *rules, tri_error *err);

/* All memory for the data path is taken here. */
tri_status node_init(struct node *node, const struct node_options *options, const struct mem *mem,
                     tri_error *err);
void node_fini(struct node *node);

/* Says HELLO. */
void node_join(struct node *node, uint64_t now, const struct core_out *out);

/* A message has begun to arrive: where its data shall go. Nowhere: it is read and forgotten. */
struct core_ref node_landing(struct node *node, const struct message *message);
/* The connection of a message that was given a place broke before all of it was in; it will be sent
 * again, or its sender departs. Not for one that was given none: its place may be another copy's.
 */
void node_lost(struct node *node, const struct message *message);
/* Data that landed in CORE_ADD is whole: is it still to be added? Asked once, right before
 * node_message(). */
bool node_adds(struct node *node, const struct message *message);
/* It is in, and its data where node_landing() said; also when that was nowhere. */
void node_message(struct node *node, uint64_t now, const struct message *message,
                  const struct core_out *out);
void node_done(struct node *node, const struct core_op *op, const struct core_out *out);
/* There is no connection to that node any more, and there will be none: silence need not be waited
 * for. */
void node_gone(struct node *node, uint32_t other, uint64_t now);
/* Every core_period(). */
void node_tick(struct node *node, uint64_t now, const struct core_out *out);

/* The caller's side, on nodes with a worker; see worker.h. */
void node_start(struct node *node, const struct core_out *out);
tri_status node_update(struct node *node, uint32_t layer, const struct worker_update *update,
                       const struct core_out *out, tri_error *err);
bool node_sync(struct node *node, uint32_t layer, const struct core_out *out);
void node_clock(struct node *node, const struct core_out *out); /* worker.clock is the new one */
void node_checksum(struct node *node, uint32_t crc, const struct core_out *out);
/* No more iterations; member.ended when all have said so. */
void node_close(struct node *node, const struct core_out *out);
/* Node 0: asks for a checkpoint, see coordinator.h. */
void node_mark(struct node *node, uint64_t at, const struct core_out *out);

#ifdef __cplusplus
}
#endif

#endif
