/* A server: owns units, gathers updates for them, steps them, answers.
 *
 * One open clock per unit: the unit's version. When every live rank is in, the
 * unit steps and every live worker gets the result. Dense updates are summed in
 * rank order as soon as the ranks before them are in. */
#ifndef TRIDENT_CORE_SERVER_H
#define TRIDENT_CORE_SERVER_H

#include "core/core.h"
#include "core/gather.h"
#include "core/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

struct server_unit {
    uint32_t unit; /* of the layout */
    uint64_t version;
    uint64_t steps;        /* of the optimiser: clocks in which somebody had an update */
    uint32_t next;         /* rank order: the rank to be summed next */
    uint32_t sums;         /* ranks in the sum */
    uint64_t *summed;      /* which */
    uint64_t *counted;     /* ranks in the last result, for those it is sent to */
    bool busy;             /* an operation is under way */
    uint32_t init_parts;   /* of the initial values that are in */
    uint64_t *inits;       /* which */
    uint64_t *init_claims; /* parts of them that have a place to land */
    struct gather gather;  /* of clock `version` */
};

struct server {
    const struct mem *mem;
    const struct layout *layout; /* borrowed */
    struct core_rules rules;
    tri_consistency consistency;
    uint32_t number; /* of this server */
    uint32_t node;
    struct server_unit *units; /* [layout->server_units[number]] */
    uint32_t unit_count;
    uint64_t mark;    /* copy units at this version for a checkpoint; 0: none */
    uint32_t to_save; /* units still to be copied */
};

/* All memory it will ever use is taken here. `first` is the version it starts with. */
tri_status server_init(struct server *server, const struct layout *layout,
                       const struct core_rules *rules, uint32_t number, uint64_t first,
                       const struct mem *mem, tri_error *err);
void server_fini(struct server *server);

/* Where the data of a message that has begun to arrive shall go; nowhere as in worker.h. */
struct core_ref server_landing(struct server *server, const struct message *message);
/* Its connection broke before the data was in. Where updates are added as they come that
 * tears the sum and ends the job. */
void server_lost(struct server *server, const struct message *message, const struct core_out *out);
/* The message and its data are in. */
void server_message(struct server *server, const struct message *message,
                    const struct core_out *out);
/* An operation is done. */
void server_done(struct server *server, const struct core_op *op, const struct core_out *out);

#ifdef __cplusplus
}
#endif

#endif
