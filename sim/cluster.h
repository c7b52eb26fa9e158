/* A whole job in one process: every node runs the real core, time is virtual.
 *
 * Numeric mode: payloads are real, arithmetic is done, links delay by chance but
 * keep the order of each socket. The same seeds give the same run. What the
 * workers compute comes from an app handed in; what goes wrong, from a list of
 * faults. After every event it checks what must always be true (sim/check.h). */
#ifndef TRIDENT_SIM_CLUSTER_H
#define TRIDENT_SIM_CLUSTER_H

#include "base/buf.h"
#include "core/layout.h"
#include "core/node.h"
#include "mod/optim.h"
#include "sim/faults.h"

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

/* Values of a layer: parameters, or a gradient. */
struct sim_values {
    float *weights; /* row by row */
    float *bias;    /* NULL without one; somewhere else than the weights */
};

/* A training loop, step by step. */
struct sim_app {
    void *ctx;
    void (*init)(void *ctx, uint32_t rank, uint32_t layer, struct sim_values params);
    void (*forward)(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer,
                    struct sim_values params);
    /* Fills dense, or u and v, as the layer's scheme takes it. */
    struct sim_update (*update)(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer,
                                struct sim_values dense, float *u, float *v);
    /* The gradient of the layer's input: before the update is given, or after it when busy. */
    void (*input_gradient)(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer,
                           struct sim_values params);
    /* Aggregate mode: the mean of clock is here, weights and then the bias; step the parameters.
     * NULL otherwise. */
    void (*mean)(void *ctx, uint32_t rank, uint64_t clock, uint32_t layer, const float *mean,
                 struct sim_values params);
};

struct sim_options {
    uint64_t seed;    /* of delays and so of the order of messages */
    uint64_t clocks;  /* iterations */
    uint32_t sockets; /* from one node to another; 0: one */
    struct core_rules rules;
    struct optim optim;
    struct sim_app app;
    uint64_t checkpoint_after; /* ask for a checkpoint when worker 0 ends this clock; 0: never */
    uint64_t corrupt_at;       /* flip a bit of the last rank's parameters then; 0: never */
    uint64_t early;            /* the last rank closes so many clocks before the others */
    uint32_t odd_nodes;        /* this many of the last nodes were given other layers */
    uint64_t checkpoint_every; /* ask again every so many clocks of worker 0; 0: never */
    struct core_times times;   /* us; zeroed: a heartbeat of 1 s, told after 10 s, no limit */
    const struct sim_fault *faults; /* borrowed */
    size_t fault_count;
    bool check;                 /* after every event what must always be true */
    struct buf *story;          /* borrowed: a line for everything of note; NULL: none */
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

/* Runs until every node has ended, failed, been evicted or killed. TRI_OK: the job ended, and
 * workers that were not harmed all got there. A broken invariant is TRI_EARG with "invariant: "
 * before its text; no event left and nodes not finished is TRI_EARG with "stuck: ". When the job
 * failed (a node it cannot do without is gone; ranks disagree) the status and text are those of
 * the first node that failed. Evictions alone are no failure of the job. */
tri_status sim_run(struct sim_cluster *cluster, tri_error *err);

/* How a node came out of it. */
enum sim_fate { SIM_RUNNING, SIM_ENDED, SIM_FAILED, SIM_EVICTED, SIM_KILLED };
struct sim_outcome {
    enum sim_fate fate;
    tri_status status; /* SIM_FAILED, SIM_EVICTED: with this text */
    const char *text;  /* the cluster's; "" otherwise */
    uint64_t time;     /* ms, when */
};
struct sim_outcome sim_outcome(const struct sim_cluster *cluster, uint32_t node);
/* The last text that the node would have told its user about a wait; "" if none. */
const char *sim_wait_text(const struct sim_cluster *cluster, uint32_t node);

struct sim_stats {
    uint64_t faults[SIM_FAULT_KINDS]; /* that happened before the job was over */
    uint64_t views, evictions, relays, joins,
        left_outs;                      /* left_outs: RESULT or LEFT_OUT so marked */
    uint64_t torn, duplicates, dropped; /* messages: torn; sent twice; to or from the departed */
    uint64_t checkpoints;
    uint64_t events, time; /* ms */
};
struct sim_stats sim_stats(const struct sim_cluster *cluster);
uint32_t sim_view(const struct sim_cluster *cluster);                /* the coordinator's */
uint64_t sim_view_time(const struct sim_cluster *cluster);           /* ms, when it last changed */
bool sim_departed(const struct sim_cluster *cluster, uint32_t node); /* as it sees it */
/* When worker `rank` began iteration `clock`, in ms; 0: it never did (it jumped over it). */
uint64_t sim_began(const struct sim_cluster *cluster, uint32_t rank, uint64_t clock);
/* Staleness of all updates of all units, added up. */
struct server_staleness sim_staleness(const struct sim_cluster *cluster);
/* The set of ranks in version `clock + 1` of a unit of the layout, as it was applied. Known only
 * with options.check, and under bsp. */
bool sim_in(const struct sim_cluster *cluster, uint32_t unit, uint64_t clock, uint32_t rank);

/* After the run. Parameters of a layer on a worker; CRC-32C of all of them as each
 * iteration began (clock 0 .. clocks); traffic of a node after the start. */
struct sim_values sim_params(const struct sim_cluster *cluster, uint32_t rank, uint32_t layer);
/* Does worker `rank` know the update of rank `of` to be in the last result of the unit? */
bool sim_counted(const struct sim_cluster *cluster, uint32_t rank, uint32_t unit, uint32_t of);
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
