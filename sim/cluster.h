/* A whole job in one process: every node runs the real core, time is virtual.
 *
 * Numeric mode: payloads are real, arithmetic is done, links delay by chance but
 * keep the order of each socket. The same seeds give the same run. What the
 * workers compute comes from an app handed in. While it runs it checks that no
 * memory changes between the moment a message was asked for and its arrival. */
#ifndef TRIDENT_SIM_CLUSTER_H
#define TRIDENT_SIM_CLUSTER_H

#include "core/coordinator.h"
#include "core/layout.h"
#include "core/member.h"
#include "core/server.h"
#include "core/worker.h"
#include "mod/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The update of one layer in one iteration. */
struct sim_update {
    bool given; /* false: this layer has none this time */
    bool busy;  /* its parameters are read after the update was given */
    uint64_t count;
    float lr;
    uint32_t rows; /* of the factors */
};

/* A training loop, step by step. Parameters are weights row by row, then the bias. */
struct sim_app {
    void *ctx;
    void (*init)(void *ctx, uint32_t rank, uint32_t layer, float *params);
    void (*forward)(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer, const float *params);
    /* Fills dense, or u and v, as the layer's scheme takes it. */
    struct sim_update (*update)(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer,
                                float *dense, float *u, float *v);
    /* The gradient of the layer's input: before the update is given, or after it when busy. */
    void (*input_gradient)(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer,
                           const float *params);
    /* Aggregate mode: the mean of clock is here; step the parameters. NULL otherwise. */
    void (*mean)(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer, const float *mean,
                 float *params);
};

struct sim_options {
    uint64_t seed;    /* of delays and so of the order of messages */
    uint64_t clocks;  /* iterations */
    uint32_t sockets; /* from one node to another; 0: one */
    struct core_rules rules;
    struct optim optim;
    struct sim_app app;
    uint64_t checkpoint_after;  /* ask for a checkpoint when worker 0 ends this clock; 0: never */
    uint64_t corrupt_at;        /* flip a bit of the last rank's parameters then; 0: never */
    uint32_t odd_nodes;         /* this many of the last nodes were given other layers */
    const struct mem *core_mem; /* for the roles themselves, to count; NULL: as the rest */
};

/* What one node moved to and from other nodes, in floats. */
struct sim_traffic {
    uint64_t sent, received;           /* weights and factors */
    uint64_t bias_sent, bias_received; /* biases, which Table 1 leaves out */
    uint64_t messages;                 /* sent */
};

struct sim_cluster;

/* Makes a cluster; on success *out is the caller's until sim_free(). */
tri_status sim_new(const struct layout *layout, const struct sim_options *options,
                   const struct mem *mem, struct sim_cluster **out, tri_error *err);
void sim_free(struct sim_cluster *cluster); /* NULL is fine */

/* Runs until all workers have ended all clocks and all layers are installed.
 * TRI_EPEER: no event is left and the job is not finished. Errors of the protocol
 * and broken invariants come as they are, with their text. */
tri_status sim_run(struct sim_cluster *cluster, tri_error *err);

/* After the run. Parameters of a layer on a worker; CRC-32C of all of them as each
 * iteration began (clock 0 .. clocks); traffic of a node after the start. */
const float *sim_params(const struct sim_cluster *cluster, uint32_t rank, uint32_t layer);
/* Does worker `rank` know the update of rank `of` to be in the last result of the layer? */
bool sim_counted(const struct sim_cluster *cluster, uint32_t rank, uint32_t layer, uint32_t of);
uint32_t sim_checksum(const struct sim_cluster *cluster, uint32_t rank, uint64_t clock);
/* The clock of the last whole checkpoint (0: none), and the CRC-32C of what is in it. */
uint64_t sim_checkpoint(const struct sim_cluster *cluster, uint32_t *crc);
struct sim_traffic sim_traffic(const struct sim_cluster *cluster, uint32_t node);
uint64_t sim_events(const struct sim_cluster *cluster);
/* Room for landing that a server has. */
uint64_t sim_server_floats(const struct sim_cluster *cluster, uint32_t server);

#ifdef __cplusplus
}
#endif

#endif
