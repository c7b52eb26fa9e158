/* A worker: one syncer per layer, from the caller's update to parameters it may use again. */
#ifndef TRIDENT_CORE_WORKER_H
#define TRIDENT_CORE_WORKER_H

#include "base/buf.h"
#include "core/core.h"
#include "core/gather.h"
#include "core/layout.h"
#include "core/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The state of one layer's exchange. The caller may use the parameters when what it gave is
 * answered (version == given) and no window is open. */
struct syncer {
    uint64_t version;  /* answered here: the result of clock version - 1 is applied */
    uint64_t least;    /* all updates of the clocks before it are in the parameters */
    uint64_t given;    /* clocks for which an update or nothing has left */
    bool window;       /* from update (or clock, with nothing) to sync: ours to write */
    bool busy;         /* in the window, but the caller still reads them */
    bool waiting;      /* somebody is in tri_sync */
    bool working;      /* an operation is under way */
    bool applying;     /* it is CORE_OP_APPLY */
    bool placed;       /* whether the open result is staged is decided */
    bool staged;       /* it is, as a whole */
    bool missed;       /* a part of it came too late for this clock to be had at all */
    bool started;      /* initial values are whole */
    uint32_t stages;   /* parts of it that went to the stage */
    uint32_t changes;  /* parts of it that bring values */
    uint32_t parts_in; /* of the open result, or of the initial values */
    uint32_t lr_bits;
    uint64_t came;               /* least version of the parts that are in */
    uint64_t count;              /* CORE_OP_APPLY: samples in it */
    uint64_t *parts;             /* which are in */
    uint64_t *claims;            /* which have a place to land */
    uint64_t *stage;             /* which are in the stage */
    uint64_t *change;            /* which bring values */
    struct gather generation[2]; /* layers that live on the workers */
    uint64_t *with;              /* the ranks that are being applied */
    uint64_t decided_clock[2];   /* of these clocks the last DECISION says ... */
    uint64_t *decided[2];        /* ... which departed ranks count */
    struct watch_wait wait;
};

struct worker {
    const struct mem *mem;
    const struct layout *layout; /* borrowed */
    struct core_rules rules;
    tri_consistency consistency; /* .workers: live ones */
    uint32_t rank;
    uint64_t clock;         /* iterations ended */
    struct syncer *syncers; /* [layers] */
    uint64_t *counted;      /* [units] sets of ranks: in the result that came last */
    uint64_t *steps;        /* [units] of the optimiser, here or on the unit's server */
    uint32_t not_started;   /* layers whose initial values are not whole */
    uint64_t mark;          /* copy layers at this version for a checkpoint; 0: none */
    uint32_t to_save;       /* layers still to be copied */
    /* views */
    uint32_t view;
    uint64_t *live;    /* set of ranks */
    bool frozen;       /* between VIEW and DECISION no factors are applied */
    uint64_t base;     /* all layers on workers have applied the clocks before it */
    uint32_t at_base;  /* of them, how many have applied no more */
    bool moved;        /* base has: layers that waited for it may go on */
    uint64_t *needed;  /* set of ranks, scratch */
    uint64_t *missing; /* set of ranks or servers, scratch */
    uint32_t *list;    /* [ranks] scratch */
    struct buf report;
    /* left out */
    bool behind;   /* a clock was missed: what is given goes nowhere until the join */
    bool asked;    /* for a clock to join at */
    uint64_t join; /* that clock; 0: not named yet */
    uint64_t
        joined; /* the last that it joined at; 0: none. It does not know whose updates are in */
    bool last;  /* the clock to join at is that of the end: no other proposal counts after it */
    bool closing, said_bye;
};

/* The caller's update of one layer, in the form that the layer's scheme takes. Its
 * values are in CORE_GRADIENT, or in CORE_FACTORS at worker_slot(). */
struct worker_update {
    uint64_t count;
    float lr;
    uint32_t rows; /* of the factors */
    bool params_busy;
};

/* All memory it will ever use is taken here. `first` is the clock to start with. */
tri_status worker_init(struct worker *worker, const struct layout *layout,
                       const struct core_rules *rules, uint32_t rank, uint64_t first,
                       const struct mem *mem, tri_error *err);
void worker_fini(struct worker *worker);

/* Rank 0: sends the initial values. The others wait for worker_started(). */
void worker_start(struct worker *worker, const struct core_out *out);
bool worker_started(const struct worker *worker);

/* May this update be given? Asked before its values are put into worker_slot(), which
 * otherwise may still be on their way to others. TRI_EARG and why when it may not. */
tri_status worker_may_update(const struct worker *worker, uint32_t layer,
                             const struct worker_update *update, tri_error *err);

/* The slot of this worker's own factors for the update it is about to give. */
struct core_ref worker_slot(const struct worker *worker, uint32_t layer);

/* Gives the update: worker_may_update() again, and then on its way. */
tri_status worker_update(struct worker *worker, uint32_t layer, const struct worker_update *update,
                         const struct core_out *out, tri_error *err);

/* Waits for the update given in this iteration, else for those of the iterations before.
 * True: the layer may be used. False: a CORE_WAKE for it follows; ask again then. */
bool worker_sync(struct worker *worker, uint32_t layer, const struct core_out *out);

/* Ends the iteration. The clock goes up by one; of a worker that was left behind it stays where it
 * is, and then goes to where the worker joins again. */
void worker_clock(struct worker *worker, const struct core_out *out);

/* There will be no more iterations: BYE, once all is applied. */
void worker_close(struct worker *worker, const struct core_out *out);

/* All layers are synced for the iteration that begins, and this is the CRC-32C of what
 * they hold. The coordinator compares it with the other ranks'. */
void worker_checksum(const struct worker *worker, uint32_t crc, const struct core_out *out);

/* Where the data of a message that has begun to arrive shall go. When it is nowhere the
 * message is a second copy or cannot be right: its data is read and forgotten. */
struct core_ref worker_landing(struct worker *worker, const struct message *message);
/* Its connection broke before the data was in. */
void worker_lost(struct worker *worker, const struct message *message);
void worker_message(struct worker *worker, const struct message *message,
                    const struct core_out *out);
void worker_done(struct worker *worker, const struct core_op *op, const struct core_out *out);

/* A view begins, without these nodes: reports to the coordinator. */
void worker_view(struct worker *worker, const struct message *message, const struct core_out *out);
/* Tells of long waits, and accuses in `watch` whom it waits for too long. */
void worker_tick(struct worker *worker, struct watch *watch, uint64_t now,
                 const struct core_out *out);

/* The factors of a rank that CORE_OP_APPLY multiplies: their rows, 0 when it has none or does
 * not count. */
uint32_t worker_factor_rows(const struct worker *worker, uint32_t layer, uint64_t clock,
                            uint32_t rank);

/* Who has not sent what the layer waits for, until the next call: servers, or ranks where its home
 * is the workers. */
const uint64_t *worker_waits_for(struct worker *worker, uint32_t layer);

/* Was this rank's update in the last result of the unit (of the layout)? */
bool worker_counted(const struct worker *worker, uint32_t unit, uint32_t rank);

/* Of a part of the result that CORE_OP_INSTALL or CORE_OP_LOCAL is about: is it in the stage;
 * does it bring values (a part that brings none stays as it is, a mean of nothing is zero);
 * how many steps has the optimiser made before. */
bool worker_part_staged(const struct worker *worker, uint32_t layer, uint32_t part);
bool worker_part_changed(const struct worker *worker, uint32_t layer, uint32_t part);
uint64_t worker_part_steps(const struct worker *worker, uint32_t layer, uint32_t part);

#ifdef __cplusplus
}
#endif

#endif
