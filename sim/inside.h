/* What the files of the simulator share: the cluster and what is in it. Private to sim/. */
#ifndef TRIDENT_SIM_INSIDE_H
#define TRIDENT_SIM_INSIDE_H

#include "base/rng.h"
#include "core/queue.h"
#include "sim/caller.h"
#include "sim/check.h"
#include "sim/cluster.h"
#include "sim/events.h"
#include "store/server.h"
#include "store/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A message on its way. Its values, its set and its bytes are copies, behind it in one block. */
struct packet {
    struct packet *next;    /* in a lane's front */
    uint32_t from, to;      /* nodes */
    uint32_t life;          /* of the receiver's processes, the one it was meant for */
    struct message message; /* its pointers are to the copies */
    struct core_ref source;
    struct core_ref landing;
    float *data; /* as it was when the message was asked for */
    uint64_t floats;
    bool taken;     /* its header is in: landing says where the rest goes */
    bool duplicate; /* it has arrived before */
    bool doomed;    /* picked to be torn */
};

/* Messages that steer the job have a socket of their own, so that none overtakes another. */
enum lane_kind { LANE_CONTROL, LANE_DATA, LANES };

struct lane {
    struct packet *front; /* to be sent again, before the queue */
    struct queue queue;
    uint32_t sending; /* sockets in use */
};

enum { LINK_RING = 8 };

/* From one node to another over some sockets: one message at a time on each, the most
 * urgent next. On different sockets they overtake each other. */
struct link {
    struct lane lanes[LANES];
    struct packet *ring[LINK_RING]; /* what arrived last, to be sent again by a reset */
    uint64_t arrived;
    bool keeps; /* there will be a reset */
    uint64_t cut_until, slow_until;
    uint32_t slowness;
};

/* Where a worker's loop stands. */
enum loop_at { LOOP_FORWARD, LOOP_UPDATE, LOOP_INPUT, LOOP_CLOCK, LOOP_LAST, LOOP_DONE };

struct loop {
    enum loop_at at;
    uint32_t layer;
    uint64_t clock;
    bool scheduled;      /* an EVENT_LOOP is under way */
    bool asked;          /* rank 0: node_start() was called */
    uint32_t *checksums; /* [clocks + 2] */
    uint64_t *began;     /* [clocks + 2] */
};

struct machine {
    struct sim_cluster *cluster;
    uint32_t number;
    uint32_t life; /* processes it has had before this one */
    bool second;   /* one of those took part in the job */
    bool made;     /* the core is initialised */
    struct node core;
    struct caller caller; /* of its worker */
    struct store_worker worker_store;
    struct store_server server_store;
    struct loop loop;
    struct sim_traffic traffic;
    enum sim_fate fate; /* SIM_RUNNING: alive, though perhaps paused */
    tri_status status;
    char text[240];
    uint64_t over_time;
    char wait[240];
    bool restarts; /* killed, and a new process is to come */
    bool counted;  /* among those that the run waits for */
    bool touched;  /* by a fault that may cost it its place */
    bool was_behind, was_left_out;
    bool is_behind; /* it was at the last check */
    uint64_t paused_from, paused_until, slow_until;
    uint32_t slowness;
    uint64_t *dropped; /* set of nodes it has nothing to do with any more */
    uint64_t *accused; /* set of nodes in its last ACCUSE, for the story */
    /* noted while the core emits, done when it has returned */
    bool woken, failing, dropping;
    uint64_t *to_drop; /* set of nodes */
};

struct sim_cluster {
    const struct mem *mem;
    const struct layout *layout;
    struct sim_options options;
    struct rng rng;    /* of delays */
    struct rng chance; /* of faults, ticks and heartbeats, so that these leave the delays alone */
    struct machine *machines;
    struct link *links; /* [nodes x nodes] */
    struct events events;
    uint64_t pending;             /* real events that will happen */
    uint64_t last_real;           /* time of the last that did */
    uint64_t heals;               /* time when the last fault that ends does */
    struct store_layer *saved[2]; /* [layers] checkpoints, weights and bias in one */
    uint32_t whole;               /* which of them is */
    uint64_t *saved_at;           /* [units] the clock that each unit of the other is of */
    uint64_t whole_clock;
    uint32_t whole_crc;
    void *scratch; /* for operations; one runs at a time */
    uint64_t time, handled;
    uint32_t waited_for; /* machines */
    bool *fault_done;    /* [fault_count] */
    uint64_t next_fault; /* number of the event before which the next one happens */
    bool vital_touched;
    bool disagreed; /* ranks did */
    struct sim_stats stats;
    uint32_t view;
    uint64_t view_time;
    struct event current;           /* being handled; its packet may be gone ... */
    struct message current_message; /* ... of which this is a copy */
    uint32_t current_from;
    struct check check;
    tri_status status;
    tri_error error;
};

static inline struct link *link_of(struct sim_cluster *cluster, uint32_t from, uint32_t to)
{
    return &cluster->links[(size_t)from * cluster->layout->nodes + to];
}

static inline bool is_control(enum wire_kind kind)
{
    return kind < WIRE_INIT || kind > WIRE_RESULT;
}

/* Signs of life go on for ever: a run that has nothing but them is over. */
static inline bool is_sign_of_life(enum wire_kind kind)
{
    return kind == WIRE_HEARTBEAT || kind == WIRE_ACCUSE;
}

static inline bool each_push(const struct core_rules *rules)
{
    return rules->consistency != NULL && rules->consistency->each_push;
}

/* ---- cluster.c ---- */

/* The run is over for this reason, if it is not already. */
void sim_refuse(struct sim_cluster *cluster, tri_status status, const char *text);
/* Something that must always be true is not. */
void sim_violate(struct sim_cluster *cluster, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Puts an event in; its packet is freed when memory is refused. */
void sim_put(struct sim_cluster *cluster, struct event event);
/* The same after a delay of chance, longer where a fault says so. */
void sim_schedule(struct sim_cluster *cluster, struct event event, uint64_t most);
/* Takes out the earliest that matches. */
bool sim_take(struct sim_cluster *cluster,
              bool (*match)(const void *ctx, const struct event *event), const void *ctx,
              struct event *out);
/* CRC-32C of the parameters of all layers. */
uint32_t sim_crc(const struct sim_cluster *cluster, const struct store_layer *layers);
/* Has the node departed, as the coordinator sees it? */
bool sim_is_departed(const struct sim_cluster *cluster, uint32_t node);

/* ---- machine.c ---- */

tri_status machine_init(struct machine *machine, struct sim_cluster *cluster, uint32_t number,
                        tri_error *err);
void machine_fini(struct machine *machine);
struct core_out machine_out(struct machine *machine);
void machine_join(struct machine *machine);
void machine_tick(struct machine *machine);
void machine_op(struct machine *machine, const struct core_op *op);
/* Does what was noted during an event. */
void machine_settle(struct machine *machine);
/* The process stops at once; what it had sent is half lost. */
void machine_kill(struct machine *machine);
void machine_restart(struct machine *machine);
/* The run does not wait for it any more. */
void machine_leaves(struct machine *machine);

static inline bool machine_runs(const struct machine *machine)
{
    return machine->fate == SIM_RUNNING;
}

static inline uint64_t sim_now(const struct sim_cluster *cluster) /* as the core wants it, in us */
{
    return cluster->time * 1000;
}

/* ---- faults.c ---- */

/* Those that are due before the event of this number. */
void faults_apply(struct sim_cluster *cluster);
/* Event numbers start anew: sets next_fault. */
void faults_plan(struct sim_cluster *cluster);

#ifdef __cplusplus
}
#endif

#endif
