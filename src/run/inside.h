/* The inside of a host, for the files of src/run. */
#ifndef TRIDENT_RUN_INSIDE_H
#define TRIDENT_RUN_INSIDE_H

#include <pthread.h>

#include "core/node.h"
#include "core/queue.h"
#include "run/convert.h"
#include "run/flight.h"
#include "run/host.h"
#include "run/join.h"
#include "run/save.h"
#include "store/server.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A message that waits to be sent, or is. */
struct outgoing {
    struct outgoing *next; /* of those that are free */
    struct buf head;       /* all but values */
    size_t head_bytes;
    struct transport_run runs[TRANSPORT_RUNS]; /* of values, where they lie */
    uint64_t data_bytes;
    float *owned; /* values that are freed when it is sent; NULL: none */
    bool beat;    /* a heartbeat */
};

/* A message that is coming in, or one that came before there was a core to take it. */
struct incoming {
    struct incoming *next;
    struct wire_header header;
    struct message message;
    struct core_ref ref; /* where its values go */
    bool placed;         /* the core gave them a place */
    bool ignored;        /* of a node that has departed */
    bool landing;        /* straight into the checkpoint that is under way */
    uint64_t *set;       /* of the message */
    uint8_t *data;       /* a list, a text, or values that are to be added */
    size_t data_cap;
};

/* A message to this node itself. */
struct local {
    struct local *next;
    struct message message;
    struct core_ref ref;
    struct buf set, bytes; /* of the message */
};

enum { HOST_ADDRESS_TEXT = 256, HOST_SCRATCHES = 8 };

struct peer {
    struct queue control, values; /* tags are struct outgoing */
    bool needed;                  /* there is to be a connection */
    bool up, down;                /* it is there; it is gone */
    bool departed;                /* the core gave the node up */
    bool to_drop;
    bool beating;                    /* a heartbeat waits already */
    bool evicted;                    /* node 0: it was told why */
    char why[80];                    /* the connection broke; "" while it has not */
    uint64_t incarnation;            /* of its process; 0: not met yet */
    char seen[HOST_ADDRESS_TEXT];    /* the other end of its connection */
    char address[HOST_ADDRESS_TEXT]; /* where it listens */
};

struct op_entry {
    struct core_op op;
    struct op_entry *next;
};

struct op_list {
    struct op_entry *first, *last;
};

enum host_phase {
    HOST_MEETING,  /* not all connections are there */
    HOST_MET,      /* they are; there is no core yet */
    HOST_STARTING, /* host_start() has made one for the thread to take */
    HOST_RUNNING,
};

struct host {
    const struct mem *mem;
    struct host_options options; /* texts are the host's own */
    struct log log;
    uint32_t nodes;
    uint64_t incarnation;

    pthread_t thread;
    bool threaded;
    pthread_t *helpers;
    uint32_t helper_count;

    struct transport_host calls;
    const struct transport_ops *transport_ops;
    struct transport *transport;

    pthread_mutex_t lock;   /* of all below */
    pthread_cond_t changed; /* a layer, the phase, the status */
    pthread_cond_t work;    /* an operation for a helper */
    enum host_phase phase;
    bool quit;
    tri_status status; /* the first failure, with err */
    tri_error err;
    char wait[240]; /* what is waited for, as the core last said */

    struct join join;
    struct peer *peers; /* [nodes] */
    uint32_t missing;   /* connections that are needed and not there */
    uint32_t unknown;   /* node 0: nodes that have not said where they listen */
    struct outgoing *free_out;
    struct incoming *free_in, *early, **early_end;
    struct local *free_local, *local, **local_end;
    size_t waiting_out; /* messages that wait to be sent or are being sent */

    /* from the start on */
    struct agreement *agreement;
    struct buf book; /* as bytes */
    struct convert convert;
    struct node core;
    bool made_core; /* it is there, though nobody but host_start() knows it yet */
    bool has_core;
    struct store_worker worker;
    struct store_server server;
    struct forms forms;
    uint64_t ticked;       /* when node_tick() was last called */
    struct op_list ops[2]; /* of the worker, of the server */
    struct op_list copies; /* for checkpoints, of both */
    pthread_t copier;      /* the thread for them, from the first one on */
    bool has_copier;
    pthread_cond_t to_copy;
    struct op_entry *free_ops;
    void *scratch;                   /* of the node's own thread */
    void *scratches[HOST_SCRATCHES]; /* of callers that help */
    bool scratch_used[HOST_SCRATCHES];
    struct host_stats stats;
    /* checkpoints */
    uint64_t first;                /* clock that the job begins with */
    uint64_t *steps;               /* [layers] of the optimiser before it; NULL: none */
    const struct checkpoint *from; /* node 0, while it starts: what the job goes on from */
    uint32_t states_out;           /* parts of that which have not come to those who keep them */
    struct save *save;             /* node 0: NULL: none are made */
    struct free_copy *free_copies; /* the others: memory of copies that are out */
    struct trace *trace;           /* of the core's events; NULL: none */
    struct flight *flight;         /* the last events; NULL: none are kept */
    bool flight_writing, flight_written; /* now; of the failure that ended this node's part */
    uint64_t flight_clock;               /* 1 + that of the newest file; 0: none is written */
    bool closing;
};

/* All of these are called with the lock, unless they say otherwise. */

/* failure.c: how failures are told */
/* The node's part in the job is over; where and next are found if they are not there. */
void host_fail(struct host *host, tri_status status, const char *text);
void host_fail_as(struct host *host, const tri_error *err);
/* For the caller: why it failed, and where the last events are. May give up the lock meanwhile. */
tri_status host_tell(struct host *host, tri_error *err);

struct host_name {
    char text[48];
};
struct host_name host_name(const struct host *host, uint32_t node); /* "rank 3", "server 0" */
struct host_place {
    char text[160];
};
struct host_place host_place(const struct host *host, uint32_t node); /* "rank 3 at 10.0.0.7:99" */
const char *host_address(const struct host *host, uint32_t node);     /* "": not known */
/* Where the first few others are that a text names, "rank 3 is at 10.0.0.7:4711, ..."; "" if that
 * is not known. */
void host_places(const struct host *host, const char *text, size_t most, char *out, size_t size);

/* flight_write.c: the ring as a file, unless err is the caller's own mistake; err->next then names
 * it. Of what the host itself failed with (host->err) only the first time. Gives up the lock. */
void flight_write(struct host *host, tri_error *err);

/* host.c */
struct core_out host_out(struct host *host);
void host_wake(struct host *host); /* the node's thread, from another one */
/* Waits for it, doing what there is to be done. The host's failure, or TRI_ETIMEOUT. */
tri_status host_wait_until(struct host *host, bool (*is_so)(const struct host *host),
                           uint32_t timeout_ms);

uint8_t host_roles(const struct host *host);

/* messages.c: what goes out and comes in */
void host_send(struct host *host, uint32_t to, const struct message *message, struct core_ref ref);
/* Values from other memory than the stores', to another node; owned: freed when they are out. */
void host_send_memory(struct host *host, uint32_t to, const struct message *message, float *values,
                      bool owned);
void host_sent(struct host *host, uint32_t to, struct outgoing *out, bool sent);
void host_purge(struct host *host, uint32_t peer, bool control);
void host_runs(const struct host *host, struct core_ref ref,
               struct transport_run runs[TRANSPORT_RUNS]);
void host_deliver_local(struct host *host); /* what this node sent to itself */
void host_replay(struct host *host);        /* what came before there was a core */
struct incoming *host_take_early(struct host *host, enum wire_kind kind); /* NULL: none */
void host_put_back(struct host *host, struct incoming *incoming);
void host_messages_fini(struct host *host);

/* calls.c: what the transport asks and tells; takes the lock itself */
extern const struct transport_host host_calls;
void calls_greeting(const struct host *host, uint8_t out[TRANSPORT_GREETING_BYTES]);
/* With the lock, on node 0: the core learns that a node is gone that it has not seen begin. */
void calls_lost_early(struct host *host, uint32_t number);

/* join.c: until all connections are there */
tri_status join_open(struct host *host, tri_error *err); /* without the lock, as the next */
tri_status join_wait(struct host *host, tri_error *err);
void join_up(struct host *host, uint32_t peer);
void join_lost(struct host *host, uint32_t peer, bool was_up, const char *why); /* before START */
bool join_peers(struct host *host, const struct incoming *incoming);

/* alike.c: node 0 compares what it is told to run with the others, before the job starts. True: the
 * core is not to see the message. */
bool alike_take(struct host *host, const struct incoming *incoming);

/* events.c: the calls of core/node.h, and the trace of them */
void event_join(struct host *host, uint64_t now);
void event_tick(struct host *host, uint64_t now);
void event_gone(struct host *host, uint32_t node, uint64_t now);
struct core_ref event_landing(struct host *host, const struct message *message);
void event_lost(struct host *host, const struct message *message);
bool event_adds(struct host *host, const struct message *message);
void event_message(struct host *host, uint64_t now, const struct message *message);
void event_done(struct host *host, const struct core_op *op);
void event_start(struct host *host);
tri_status event_update(struct host *host, uint32_t layer, const struct worker_update *update,
                        tri_error *err);
bool event_sync(struct host *host, uint32_t layer);
void event_clock(struct host *host);
void event_checksum(struct host *host, uint32_t crc);
void event_close(struct host *host);
void event_mark(struct host *host, uint64_t at);
/* Only for the recorder: the caller begins to wait; an operation; a message of any direction. */
void event_waits(struct host *host, uint32_t layer);
void event_op(struct host *host, enum flight_kind kind, const struct core_op *op);
void event_passed(struct host *host, enum flight_kind kind, uint32_t node,
                  const struct message *message);

/* state.c: what checkpoints are made of */
tri_status state_tell(struct host *host, const struct host_job *job, tri_error *err);
bool state_is_told(const struct host *host);
tri_status state_hear(struct host *host, const struct host_job *job, tri_error *err);
void state_give(struct host *host);
bool state_is_given(const struct host *host);
bool state_take(struct host *host, const struct incoming *incoming);
/* Where the values of a part go that begins to come; NULL: nowhere, into memory of its own. To be
 * settled when they are there or lost. */
float *state_place(struct host *host, struct incoming *incoming);
void state_settle(struct host *host, struct incoming *incoming, bool there);
/* What host_send_memory() was given to own is out, or lost. */
void state_put_back(struct host *host, float *values, uint64_t floats);
void state_fini(struct host *host);                           /* without the lock */
void state_copy(struct host *host, const struct core_op *op); /* without the lock */

/* saving.c: when they are made; host_set_save() and host_want_save() are there, too */
void saving_ask(struct host *host);           /* this worker has ended a clock */
bool saving_is_over(const struct host *host); /* nothing that was committed is on its way */

/* work.c: operations */
void work_add(struct host *host, const struct core_op *op);
/* Does one of that role, or of any (CORE_NOBODY); false when there is none. The lock is given up
 * meanwhile. */
bool work_one(struct host *host, enum core_role role, void *scratch);
bool work_help(struct host *host); /* as work_one() for a thread that waits anyway */
tri_status work_start(struct host *host, tri_error *err);
void work_stop(struct host *host); /* without the lock */

#ifdef __cplusplus
}
#endif

#endif
