/* What goes into the roles and what comes out: messages, memory, actions.
 *
 * A role (worker, server, coordinator) takes one event at a time and answers by
 * emitting actions. It touches no payload: where bytes lie is said with a
 * core_ref, which its host (src/run in production, sim/ in simulation) turns
 * into memory. Events of one role come from one thread at a time. */
#ifndef TRIDENT_CORE_CORE_H
#define TRIDENT_CORE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "trident/module.h"
#include "wire/kind.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who on a node a message is for. */
enum core_role { CORE_WORKER, CORE_SERVER, CORE_COORDINATOR, CORE_MEMBER, CORE_NOBODY };

/* A message without its payload. Which fields mean something depends on kind, as
 * in docs/protocol.md. */
struct message {
    enum wire_kind kind;
    enum core_role role; /* of the receiver */
    uint32_t from;       /* node */
    uint32_t view;       /* START: the number of the list of live nodes */
    uint32_t layer;
    uint32_t part; /* PUSH, RESULT, INIT: of the layer; FACTORS: of the update */
    uint64_t clock;
    uint32_t rank;  /* whose update it is */
    uint32_t rows;  /* FACTORS: of the whole update */
    uint32_t parts; /* FACTORS: the update travels in */
    uint64_t count; /* of samples, or what the caller counts */
    uint32_t lr_bits;
    uint32_t crc;            /* CHECKSUM */
    uint64_t hash;           /* HELLO: of the layers; READY: of the plan */
    bool unchanged;          /* RESULT: nobody had an update; no data follows */
    const uint64_t *counted; /* RESULT: set of ranks in it; the sender\'s, stable like the data */
    bool accepted;           /* MARKED: else count is the clock that this owner has reached */
};

enum core_space {
    CORE_NOWHERE,  /* read the data and forget it */
    CORE_PARAMS,   /* worker: parameters of layer `index`, floats first .. first + count */
    CORE_RESULT,   /* worker, aggregate: where the caller wants the mean of layer `index` */
    CORE_STAGE,    /* worker: a result that cannot go in place yet */
    CORE_GRADIENT, /* worker: the dense update of layer `index` */
    CORE_FACTORS,  /* worker: slot (layer index, generation, rank); first and count are rows */
    CORE_LANDING,  /* server: slot (its unit index, rank); floats of the unit */
    CORE_ADD,      /* server: added to the sum of its unit index as the bytes come */
    CORE_PRODUCTS, /* server: factors for its unit index, of rank; first and count are rows */
    CORE_SHARD,    /* server: what it answers with, of its unit index */
};

struct core_ref {
    enum core_space space;
    uint32_t index;
    uint32_t rank;
    uint32_t generation;
    uint64_t first, count;
};

/* Work that a host does in its own time and reports with *_done(). */
enum core_op_kind {
    /* server */
    CORE_OP_SUM,     /* sum of unit index = (first ? 0 : sum) + landing slot of rank */
    CORE_OP_STEP,    /* mean = sum / count; shard = step(shard, mean), or the mean itself; where
                        updates are added as they come, the sum is zero again after it */
    CORE_OP_PRODUCT, /* the same from the factors of all ranks that are in, in rank order */
    /* both */
    CORE_OP_COPY, /* shard of a unit, or parameters of a layer, into the checkpoint of clock */
    /* worker */
    CORE_OP_APPLY,   /* parameters of layer index from the factors held for clock, in rank order */
    CORE_OP_INSTALL, /* stage to parameters (or result); with count 0 the result is zero */
    CORE_OP_LOCAL,   /* stage holds the mean: step the parameters with it */
};

struct core_op {
    enum core_op_kind kind;
    uint32_t index; /* of the unit on its server, or of the layer */
    uint32_t rank;
    bool first;
    uint64_t clock;
    uint64_t count; /* what the sum is divided by */
    uint64_t steps; /* of the optimiser before this one */
    float lr;
};

enum core_action_kind { CORE_SEND, CORE_OP, CORE_WAKE, CORE_FAIL };

struct core_action {
    enum core_action_kind kind;
    /* CORE_SEND: to this node (which may be the sender's own), with data from ref */
    uint32_t to;
    struct message message;
    struct core_ref ref;
    /* CORE_OP */
    struct core_op op;
    /* CORE_WAKE: layer may be synced; UINT32_MAX: something else changed */
    uint32_t layer;
    /* CORE_FAIL: the job cannot go on */
    tri_status status;
    char text[240];
};

/* Where actions go. Called during an event, in order; a host notes them and must not call
 * back into the role from here. */
struct core_out {
    void (*emit)(void *ctx, const struct core_action *action);
    void *ctx;
};

/* What all roles of a job agree on. */
struct core_rules {
    bool aggregate;    /* results are means */
    bool replicated;   /* workers step the optimiser, servers answer with means */
    bool reproducible; /* sums in rank order */
    const tri_consistency_ops *consistency; /* NULL: bsp */
};

/* Whose copy of a layer goes into a checkpoint: worker 0's, where the parameters are not
 * on servers. */
static inline bool core_worker_saves(const struct core_rules *rules, tri_scheme_home home)
{
    return home == TRI_HOME_WORKERS || rules->replicated;
}

/* A number for the rules and the optimiser, for layout_hash() to go on from. */
uint64_t core_rules_hash(const struct core_rules *rules, const char *optimizer);

static inline void core_emit(const struct core_out *out, const struct core_action *action)
{
    out->emit(out->ctx, action);
}

void core_send(const struct core_out *out, uint32_t to, const struct message *message,
               struct core_ref ref);
void core_op(const struct core_out *out, const struct core_op *op);
void core_wake(const struct core_out *out, uint32_t layer);
void core_fail(const struct core_out *out, tri_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline float core_float(uint32_t bits)
{
    union {
        uint32_t bits;
        float value;
    } both = {bits};
    return both.value;
}

#ifdef __cplusplus
}
#endif

#endif
