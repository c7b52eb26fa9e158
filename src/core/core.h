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

/* What the coordinator names a clock ahead for. */
enum core_mark { CORE_MARK_SAVE, CORE_MARK_JOIN };
#define CORE_OWNER_WORKER UINT32_MAX

/* A message without its values. Which fields mean something depends on kind, as in
 * docs/protocol.md. `set` and `bytes` are the sender's during emit, where the host copies
 * them, and the host's while the receiver handles the message. */
struct message {
    enum wire_kind kind;
    enum core_role role; /* of the receiver */
    uint32_t from;       /* node */
    uint32_t view;       /* START, VIEW, REPORT, DECISION: the number of the list of live nodes */
    uint32_t layer;
    uint32_t part; /* PUSH, RESULT, INIT: of the layer; FACTORS: of the update; LEFT_OUT: the
                      first of its unit */
    uint64_t clock;
    uint32_t rank;  /* whose update it is; of a join, who joins */
    uint32_t rows;  /* FACTORS: of the whole update; STATE: the plane */
    uint32_t parts; /* FACTORS: the update travels in */
    uint64_t count; /* of samples, or what the caller counts; MARKED: the clock reached here */
    uint64_t
        version; /* RESULT: all clocks before it are in; LEFT_OUT: of the unit now; STATE: steps */
    uint32_t lr_bits;
    uint32_t crc;         /* CHECKSUM */
    uint64_t hash;        /* HELLO: of the layers; READY: of the plan */
    uint64_t incarnation; /* HELLO: of the process; a restarted one has another */
    uint32_t owner;       /* MARKED, SAVED: server, or CORE_OWNER_WORKER */
    enum core_mark mark;  /* MARK, MARKED: what for */
    tri_status status;    /* FAILED: what with */
    bool unchanged;       /* RESULT: nobody had an update; no data follows. STATE: it has come */
    bool left_out;        /* RESULT: the receiver's own update came too late to count */
    bool accepted;        /* MARKED; MARK of a join: all have agreed */
    bool last;            /* MARK of a join: the others have closed at this clock */
    bool landed;          /* set by the host: its data was given a place and is there */
    const uint64_t *set;  /* RESULT: ranks in it; VIEW, ACCUSE: nodes */
    const uint8_t *bytes; /* REPORT, DECISION: as in wire.md; REFUSED, EVICTED, FAILED: a text */
    size_t len;
};

enum core_space {
    CORE_NOWHERE,  /* read the data and forget it */
    CORE_PARAMS,   /* worker: parameters of layer `index`, floats first .. first + count */
    CORE_RESULT,   /* worker, aggregate: where the caller wants the mean of layer `index` */
    CORE_STAGE,    /* worker: a result that cannot go in place yet */
    CORE_GRADIENT, /* worker: the dense update of layer `index` */
    CORE_FACTORS,  /* worker: slot (layer index, generation, rank); first and count are rows */
    CORE_LANDING,  /* server: slot (its unit index, rank); floats of the unit */
    CORE_ADD,      /* server: memory of the host's; when whole, and node_adds() says so, it is
                      added to the sum of unit index */
    CORE_PRODUCTS, /* server: factors for its unit index, of rank; first and count are rows */
    CORE_SHARD,    /* server: what it answers with, of its unit index */
    CORE_REPLY,    /* server: slot (its unit index, rank) of an answer to one worker */
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
    CORE_OP_PRODUCT, /* the same from the factors of server_factor_rows(), in rank order */
    CORE_OP_REPLY,   /* shard of a unit into the reply slots of all ranks server_replies() to */
    /* both */
    CORE_OP_COPY, /* shard of a unit, or parameters of a layer, into the checkpoint of clock, and
                     the optimiser's state where it is; of the shard only that where
                     core_worker_saves_params() */
    /* worker */
    CORE_OP_APPLY,   /* parameters of layer index from the factors held for clock, in rank order */
    CORE_OP_INSTALL, /* stage to parameters (or result); with count 0 the result is zero */
    CORE_OP_LOCAL,   /* stage holds the mean: step the parameters with it */
};

struct core_op {
    enum core_op_kind kind;
    enum core_role role; /* whose: CORE_WORKER or CORE_SERVER */
    uint32_t index;      /* of the unit on its server, or of the layer */
    uint32_t rank;
    bool first;
    uint64_t clock;
    uint64_t count; /* what the sum is divided by */
    uint64_t steps; /* of the optimiser before this one */
    float lr;
};

enum core_action_kind {
    CORE_SEND,
    CORE_OP,
    CORE_WAKE,
    CORE_WAIT,   /* for the user to read: a wait that takes long, and who is missing */
    CORE_DROP,   /* a node has departed: close its connections, tell node_lost() of what was
                    coming in over them, forget what waits to be sent to it */
    CORE_COMMIT, /* the checkpoint of `clock` is whole and takes the place of the one before */
    CORE_FAIL    /* this node's part in the job is over */
};

struct core_action {
    enum core_action_kind kind;
    /* CORE_SEND: to this node (which may be the sender's own), with data from ref;
     * CORE_DROP: this node */
    uint32_t to;
    struct message message;
    struct core_ref ref;
    /* CORE_OP */
    struct core_op op;
    /* CORE_WAKE: layer may be synced; UINT32_MAX: something else changed. CORE_WAIT: the layer
     * it is about, if any */
    uint32_t layer;
    uint64_t clock; /* CORE_COMMIT */
    /* CORE_FAIL: why; CORE_WAIT: text only */
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
    uint32_t bound;                         /* N of ssp:N */
    uint32_t backup;                        /* a clock closes when all ranks but this many are in */
    uint64_t deadline;  /* us after half of them are in it closes without the rest; 0: off */
    uint32_t left_outs; /* running, and a rank leaves the view; 0: never */
};

/* Periods, in microseconds like every time in the core. */
struct core_times {
    uint64_t heartbeat; /* a node that was not heard for three of them is given up */
    uint64_t warn;      /* a wait is told to the user after this, then after twice as long ... */
    uint64_t limit;     /* who is waited for longer is accused though heard; 0: never */
    uint64_t start;     /* all have come by then, or the job fails; 0: waits for ever */
};

/* How often a node looks around and beats. */
static inline uint64_t core_tick(const struct core_times *times)
{
    return times->heartbeat / 8;
}

/* How often a host calls node_tick(): more often than that where a deadline asks for it. */
static inline uint64_t core_period(const struct core_times *times, const struct core_rules *rules)
{
    uint64_t tick = core_tick(times), fine = rules->deadline / 4 + 1;
    return rules->deadline > 0 && fine < tick ? fine : tick;
}

/* May a unit step while an answer to some worker is still on its way? Then answers have
 * slots of their own. */
static inline bool core_has_replies(const struct core_rules *rules)
{
    return rules->backup > 0 || rules->deadline > 0 ||
           (rules->consistency != NULL && rules->consistency->each_push);
}

/* Can stragglers be left out? */
static inline bool core_leaves_out(const struct core_rules *rules)
{
    return rules->backup > 0 || rules->deadline > 0;
}

/* Do dense updates land in a slot per rank? Otherwise they are added as they come. */
static inline bool core_has_slots(const struct core_rules *rules)
{
    return rules->reproducible || (rules->consistency != NULL && rules->consistency->each_push);
}

/* Whose copy of a layer goes into a checkpoint: worker 0's, where the parameters are not
 * on servers. */
static inline bool core_worker_saves(const struct core_rules *rules, tri_scheme_home home)
{
    return home == TRI_HOME_WORKERS || rules->replicated;
}

/* Does worker 0 copy the parameters at least? Where no unit steps before its answers are out, they
 * are the server's bit for bit, since nothing on the way to a worker loses any; the server's copy
 * is then of the optimiser's state alone, and half as much or less has to travel. */
static inline bool core_worker_saves_params(const struct core_rules *rules, tri_scheme_home home)
{
    return core_worker_saves(rules, home) || !core_has_replies(rules);
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
void core_wait(const struct core_out *out, uint32_t layer, const char *text);
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
