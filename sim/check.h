/* What must always be true of a run, looked at after every event. Private to sim/.
 *
 * The number of each is that of the list in check.c. Nothing here changes the run; without
 * sim_options.check only what costs nothing is done. */
#ifndef TRIDENT_SIM_CHECK_H
#define TRIDENT_SIM_CHECK_H

#include "sim/cluster.h"

#ifdef __cplusplus
extern "C" {
#endif

struct machine;
struct packet;

/* An update as the caller gave it. */
struct check_update {
    bool given;
    uint64_t count;
    uint32_t rows;
    float *values; /* the gradient; or the rows of u, then those of v */
};

/* A value that all ranks must have, and who has said so. */
struct check_agreed {
    uint32_t crc;
    bool known;
};

struct check {
    bool on;
    uint64_t clocks;            /* that are kept */
    size_t words;               /* of a set of ranks */
    struct check_update *given; /* [ranks][clocks][layers] */
    uint64_t *in;               /* [units][clocks] sets of ranks: in the version after it */
    uint64_t *consumed;         /* [1 + ranks][units][clocks] sets: on the server, on each worker */
    struct check_agreed *versions; /* [layers][clocks] of the version after that clock */
    uint64_t *reached;             /* [layers][clocks] sets of the ranks that have it */
    struct check_agreed *all;      /* [clocks] of all parameters as that iteration began */
    uint64_t *all_reached;         /* [clocks] sets */
    uint64_t *seen;                /* [ranks][layers] versions */
    uint64_t *samples;             /* [units] in the sum that is not stepped yet */
    uint64_t *added;               /* [parts][ranks] 1 + the clock that was added last */
    uint64_t *departed;            /* [views] sets of nodes */
    bool *viewed;                  /* [views] */
    uint32_t *view;                /* [nodes] the last one each had */
    uint32_t views;                /* that are kept */
    size_t node_words;             /* of a set of nodes */
};

tri_status check_init(struct sim_cluster *cluster, tri_error *err);
void check_fini(struct sim_cluster *cluster);

/* The caller is about to give this update of its present clock. */
void check_given(struct machine *machine, uint32_t layer, const struct sim_update *update);
/* A layer may be used for the iteration that begins. */
void check_begun(struct machine *machine, uint32_t layer);
/* An operation is about to be done, or values to be added. */
void check_op(struct machine *machine, const struct core_op *op);
void check_add(struct machine *machine, const struct packet *packet);
/* All parameters as an iteration begins. */
void check_all(struct machine *machine, uint64_t clock, uint32_t crc);
/* The memory of a message, at its arrival. */
void check_source(struct sim_cluster *cluster, const struct packet *packet);
/* A checkpoint has become whole. */
void check_commit(struct sim_cluster *cluster, uint64_t clock);
/* A machine has come to its end. */
void check_fate(struct machine *machine);
/* After an event of this machine. */
void check_machine(struct machine *machine);
/* The run is over; `ended`: as it should be. */
void check_end(struct sim_cluster *cluster, bool ended);

#ifdef __cplusplus
}
#endif

#endif
