/* A node of a real job: the core, its memory, a transport, and the thread that drives them.
 *
 * host_open() makes the node's thread and meets the others; host_start() agrees with them on the
 * plan, and from then on the caller's updates travel. One lock holds the core together; bytes move
 * and operations run without it. Operations are done by the threads that wait in host_sync(), by
 * helpers if there are any, and those of a server by the node's own thread. */
#ifndef TRIDENT_RUN_HOST_H
#define TRIDENT_RUN_HOST_H

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "mod/transport.h"
#include "run/agree.h"
#include "run/forms.h"
#include "store/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

struct host_options {
    const struct mem *mem;
    const char *transport; /* "tcp" */
    struct log log;
    const char *job;         /* its name */
    const char *coordinator; /* "host:port" where node 0 listens */
    const char *listen;      /* where the others do; NULL: at any port, of this host alone if the
                                coordinator's address is */
    uint32_t node;           /* this one */
    uint32_t workers, servers, colocated;
    uint32_t sockets;      /* between two nodes, for chunks; one more carries what is short */
    uint32_t helpers;      /* threads for operations */
    uint32_t timeout_ms;   /* of every wait */
    uint32_t heartbeat_ms; /* who is silent for three of them is given up */
    const char *trace;     /* a file for the core's events, see trace.h; NULL: none */
    bool stop_on_failure;  /* the loss of a worker ends the job */
    const char *token;     /* secret that proves membership; NULL: only loopback is used */
    const char *flight;    /* folder for the last events of a node that fails; NULL: none */
};

struct host;
struct save;

/* Waits until all nodes are there. On success *out is the caller's until host_close(). */
tri_status host_open(const struct host_options *options, struct host **out, tri_error *err);

/* What a node with a worker starts with. */
struct host_job {
    struct agreement *agreement; /* the host's from then on, also when it fails */
    const struct store_layer *layers;
    const struct checkpoint *from; /* node 0: what the job goes on from; NULL: the beginning. Not
                                      needed after it */
    const struct checkpoint_kept *kept; /* values to be filled with rank 0's when it is resumed */
    uint32_t kept_count;
};

/* Plans, starts, and waits for the initial values. */
tri_status host_start(struct host *host, const struct host_job *job, tri_error *err);
uint64_t host_first(const struct host *host); /* the clock that it begins with */

/* Node 0, after the start: makes checkpoints with it. Stays the caller's, and outlives the host. */
void host_set_save(struct host *host, struct save *save);
void host_want_save(struct host *host, uint64_t clock);
/* Tells all others why this node cannot start; before host_close(). */
void host_refuse(struct host *host, const tri_error *why);

/* A node without one: takes the book of node 0 and serves until the job is over. */
tri_status host_serve(struct host *host, tri_error *err);

/* In the form that the layer's scheme takes; any other is made dense here. TRI_EARG for a dense one
 * where factors must travel. */
tri_status host_update(struct host *host, uint32_t layer, const struct update *update,
                       tri_error *err);
tri_status host_sync(struct host *host, uint32_t layer, tri_error *err);
tri_status host_clock(struct host *host, uint64_t *clock, tri_error *err);
/* All layers are synced for the iteration that begins: compares with the other ranks' crc. */
void host_checksum(struct host *host, uint32_t crc);

/* Waits for the end of the job, unless it has failed; stops the thread, frees all. NULL is fine. */
void host_close(struct host *host);

const struct agreement *host_agreement(const struct host *host); /* NULL before the start */

struct host_stats {
    uint64_t clocks;
    uint64_t sent_bytes, received_bytes; /* of data */
    uint64_t header_bytes, messages;     /* sent */
    double wait_s;                       /* in host_sync() */
    uint32_t view, live_workers;
};
void host_get_stats(struct host *host, struct host_stats *out);

#ifdef __cplusplus
}
#endif

#endif
