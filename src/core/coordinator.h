/* The coordinator: who takes part, with which plan; views; checkpoints, joins, checksums; the end.
 *
 * It runs beside worker 0. Nodes say HELLO with a hash of the layers they were given; when all
 * are there and alike they get the BOOK, plan by themselves and say READY with the hash of their
 * plan; when all plans are alike they START. Nodes that go silent are accused by the others; the
 * most accused leaves the view, and if the job cannot do without it, the job ends. */
#ifndef TRIDENT_CORE_COORDINATOR_H
#define TRIDENT_CORE_COORDINATOR_H

#include "base/buf.h"
#include "base/mem.h"
#include "core/bits.h"
#include "core/core.h"
#include "core/layout.h"
#include "core/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum coordinator_stage {
    COORDINATOR_JOINING,
    COORDINATOR_PLANNING,
    COORDINATOR_RUNNING,
    COORDINATOR_OVER /* refused, failed or ended */
};

/* A round of answers from everybody: a set, and the first value that came. */
struct coordinator_round {
    uint64_t *in; /* set of nodes or ranks */
    uint32_t count;
    uint64_t value; /* that all must have */
    uint32_t first; /* who said it first */
    uint64_t clock;
};

/* A clock named ahead for a checkpoint, or for a rank to join at. Owners are numbered by
 * server; the worker (0 of a checkpoint, the joining rank of a join) comes after them. */
struct coordinator_mark {
    bool open;
    bool last;  /* of a join: at the clock at which the others have closed */
    bool retry; /* it was refused: proposed again at the next tick */
    uint64_t clock;
    uint64_t lead;            /* how far ahead of the newest clock the next proposal is */
    uint64_t *agreed, *saved; /* sets of owners */
};

struct coordinator {
    const struct mem *mem;
    enum coordinator_stage stage;
    uint32_t view;               /* 1 from the start; it changes when nodes depart */
    const struct layout *layout; /* borrowed */
    struct core_rules rules;
    struct core_times times;
    struct coordinator_round join;        /* hashes */
    uint64_t *incarnations;               /* [nodes] that joined */
    struct coordinator_round checksum[2]; /* of two clocks: ranks are at most one apart */
    uint64_t newest;                      /* clock heard of, from workers and servers */
    uint64_t newest_clock;                /* from workers: iterations that somebody has ended */
    uint64_t done;                        /* clock of the last whole checkpoint; 0: none */
    uint32_t owners;                      /* numbers of owners: servers and one */
    uint64_t *savers;                     /* set of owners that have something to save */
    struct coordinator_mark save;
    struct coordinator_mark *joins; /* [ranks]; NULL where nobody can be left out */
    /* views */
    uint64_t *departed;        /* set of nodes */
    uint64_t *departed_before; /* of the last view that was decided */
    uint64_t *accused;         /* [nodes] sets of nodes: whom each accuses */
    uint64_t accused_since;    /* 0: nobody is */
    bool deciding;             /* reports are awaited */
    struct buf *reports;       /* [ranks] */
    uint64_t *reported;        /* set of ranks */
    struct buf decision;       /* the last */
    uint64_t *bye;             /* set of ranks that have closed */
    uint64_t *bye_clocks;      /* [ranks] at which clock each has */
    uint64_t bye_clock;        /* the latest of them */
    uint64_t *missing;         /* set of nodes, scratch */
    uint64_t *believed;        /* set of nodes, scratch: whose accusations count */
    struct watch_wait wait;
};

tri_status coordinator_init(struct coordinator *coordinator, const struct layout *layout,
                            const struct core_rules *rules, const struct core_times *times,
                            const struct mem *mem, tri_error *err);
void coordinator_fini(struct coordinator *coordinator);
void coordinator_message(struct coordinator *coordinator, const struct message *message,
                         const struct core_out *out);

/* Gives up who has been accused, and tells of long waits. */
void coordinator_tick(struct coordinator *coordinator, const struct watch *watch, uint64_t now,
                      const struct core_out *out);

/* Asks for a checkpoint at clock `at`, or as soon after it as all can make one. Nothing happens
 * while one is under way, before the start, or in aggregate mode. */
void coordinator_mark(struct coordinator *coordinator, uint64_t at, const struct core_out *out);
/* Have all owners agreed to the one that is under way? True if there is none. */
bool coordinator_agreed(const struct coordinator *coordinator);

#ifdef __cplusplus
}
#endif

#endif
