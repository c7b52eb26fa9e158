/* A server: owns units, gathers updates for them, steps them, answers.
 *
 * bsp: one open clock per unit, its version. When every live rank is in, the unit steps and
 * every live worker gets the result. Dense updates are summed in rank order as soon as the
 * ranks before them are in. Ranks may be left out after a deadline.
 * ssp, asp: every update is a step of its own; its sender gets the unit as it is then, as soon
 * as the rule lets it go on. */
#ifndef TRIDENT_CORE_SERVER_H
#define TRIDENT_CORE_SERVER_H

#include "core/core.h"
#include "core/gather.h"
#include "core/layout.h"
#include "core/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How far behind the parameters were that updates were computed from: steps of the unit
 * between the answer that a rank had and its next update. */
struct server_staleness {
    uint64_t updates, total, most;
};

struct server_unit {
    uint32_t unit;       /* of the layout */
    uint64_t version;    /* bsp: the open clock; else the clocks that all live ranks have pushed */
    uint64_t steps;      /* of the optimiser: clocks in which somebody had an update */
    uint32_t next;       /* rank order: the rank to be summed next; round robin: to be stepped */
    uint32_t sums;       /* ranks in the sum */
    uint64_t *summed;    /* which */
    uint64_t *counted;   /* ranks in the last result, for those it is sent to */
    uint64_t count;      /* samples in it */
    uint32_t lr_bits;    /* of it */
    bool unchanged;      /* it had no update */
    bool closing;        /* no more ranks are let into the open clock */
    bool busy;           /* an operation is under way */
    uint64_t to_copy;    /* into the checkpoint of this clock, before the next step; 0: no */
    bool inited;         /* initial values are whole, and were sent on */
    uint64_t half;       /* deadline: when half of the ranks were in the open clock; 0: not yet */
    uint32_t init_parts; /* of the initial values that are in */
    uint64_t *inits;     /* which */
    uint64_t *init_claims; /* parts of them that have a place to land */
    struct gather gather;  /* of clock `version`; with each_push, of every rank's own clock */
    /* answers with slots of their own, core_has_replies() */
    uint64_t *due;      /* ranks that are to be answered */
    uint64_t *replying; /* those of them that the shard is being copied for */
    uint64_t *held;     /* each_push: ranks whose answer the rule holds back */
    uint64_t *pushed;   /* each_push: [ranks] clocks that have been pushed */
    uint64_t *read;     /* each_push: [ranks] steps that were in its last answer */
    uint32_t stepping;  /* each_push: whose update the step under way is; UINT32_MAX: none */
    struct server_staleness staleness;
    /* ranks that are late, core_leaves_out() */
    struct gather late;   /* their updates, as they come after all */
    uint64_t *late_clock; /* [ranks] for which clock; UINT64_MAX: not late */
    uint64_t *left_out;   /* ranks that are answered though late */
    uint64_t *joined;     /* ranks whose answer for the join waits for all to agree */
    struct watch_wait wait;
};

struct server {
    const struct mem *mem;
    const struct layout *layout; /* borrowed */
    struct core_rules rules;
    tri_consistency consistency; /* .workers: live ones */
    uint32_t number;             /* of this server */
    uint32_t node;
    uint64_t first;            /* version that it started with */
    struct server_unit *units; /* [layout->server_units[number]] */
    uint32_t unit_count;
    uint64_t mark;     /* copy units at this version for a checkpoint; 0: none */
    uint32_t to_save;  /* units still to be copied */
    uint64_t *live;    /* set of ranks */
    uint64_t *present; /* set of ranks, scratch: those a clock waits for */
    /* core_leaves_out(), [ranks] */
    uint64_t *absent; /* not waited for before this clock; 0: present */
    uint64_t *noted;  /* 1 + the last clock that it was found to be late for */
    uint32_t *misses; /* clocks running that it was late for */
    uint64_t *agreed; /* set of ranks: all have agreed on the clock in absent */
    uint64_t *last;   /* set of ranks: that clock is the end, no other proposal counts after it */
};

/* All memory it will ever use is taken here. `first` is the version it starts with. */
tri_status server_init(struct server *server, const struct layout *layout,
                       const struct core_rules *rules, uint32_t number, uint64_t first,
                       const struct mem *mem, tri_error *err);
void server_fini(struct server *server);

/* Where the data of a message that has begun to arrive shall go; nowhere as in worker.h. */
struct core_ref server_landing(struct server *server, const struct message *message);
/* Its connection broke before the data was in. */
void server_lost(struct server *server, const struct message *message);
/* Is data for CORE_ADD, now whole, to be added to the sum? */
bool server_adds(const struct server *server, const struct message *message);
/* The message and its data are in. */
void server_message(struct server *server, const struct message *message,
                    const struct core_out *out);
/* An operation is done. */
void server_done(struct server *server, const struct core_op *op, const struct core_out *out);

/* A view begins, without these nodes. */
void server_view(struct server *server, const uint64_t *departed, const struct core_out *out);
/* Closes clocks past their deadline, tells of long waits, and accuses in `watch` whom it waits
 * for too long. */
void server_tick(struct server *server, struct watch *watch, uint64_t now,
                 const struct core_out *out);

/* The factors of a rank that CORE_OP_PRODUCT of its unit multiplies: their rows, or 0. */
uint32_t server_factor_rows(const struct server *server, uint32_t index, uint32_t rank);
/* The ranks that its unit waits for, until the next call; NULL: nobody. */
const uint64_t *server_waits_for(const struct server *server, uint32_t index);
/* Does CORE_OP_REPLY of its unit fill the slot of this rank? */
bool server_replies(const struct server *server, uint32_t index, uint32_t rank);

#ifdef __cplusplus
}
#endif

#endif
