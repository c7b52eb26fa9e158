/* The coordinator: who takes part, with which plan; checkpoints and checksums.
 *
 * It runs beside worker 0. Nodes say HELLO with a hash of the layers they were
 * given; when all are there and alike they get the BOOK, plan by themselves and
 * say READY with the hash of their plan; when all plans are alike they START. */
#ifndef TRIDENT_CORE_COORDINATOR_H
#define TRIDENT_CORE_COORDINATOR_H

#include "base/mem.h"
#include "core/bits.h"
#include "core/core.h"
#include "core/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

enum coordinator_stage {
    COORDINATOR_JOINING,
    COORDINATOR_PLANNING,
    COORDINATOR_RUNNING,
    COORDINATOR_REFUSED
};

/* A round of answers from everybody: a set, and the first value that came. */
struct coordinator_round {
    uint64_t *in; /* set of nodes or ranks */
    uint32_t count;
    uint64_t value; /* that all must have */
    uint32_t first; /* who said it first */
    uint64_t clock;
};

struct coordinator {
    const struct mem *mem;
    enum coordinator_stage stage;
    uint32_t view;               /* 1 from the start; it changes when nodes depart */
    const struct layout *layout; /* borrowed */
    struct core_rules rules;
    struct coordinator_round join;        /* hashes */
    struct coordinator_round checksum[2]; /* of two clocks: ranks are at most one apart */
    uint64_t mark;                        /* clock of the checkpoint under way */
    bool marking;                         /* there is one */
    uint64_t lead;                        /* how far ahead of newest the next proposal is */
    uint32_t owners;                      /* roles that have something to save */
    uint32_t agreed, saved;               /* of them */
    uint64_t newest;                      /* clock heard of */
    uint64_t done;                        /* clock of the last whole checkpoint; 0: none */
};

tri_status coordinator_init(struct coordinator *coordinator, const struct layout *layout,
                            const struct core_rules *rules, const struct mem *mem, tri_error *err);
void coordinator_fini(struct coordinator *coordinator);
void coordinator_message(struct coordinator *coordinator, const struct message *message,
                         const struct core_out *out);

/* Asks for a checkpoint as soon as all can make one. Nothing happens while one is
 * under way, before the start, or in aggregate mode. */
void coordinator_mark(struct coordinator *coordinator, const struct core_out *out);

#ifdef __cplusplus
}
#endif

#endif
