/* The book: the facts about the model and the cluster that a plan follows from. */
#ifndef TRIDENT_PLAN_BOOK_H
#define TRIDENT_PLAN_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mod/placement.h"
#include "mod/scheme.h"
#include "plan/profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the scheme of a layer is chosen. */
enum plan_rule {
    PLAN_BYTES, /* Poseidon's Algorithm 1: ps or sfb, whichever moves fewer floats */
    PLAN_TIME   /* the shortest iteration, by latency + transfer + extra work + messages of the
                   layers and what of it hides behind compute */
};

/* Node n < workers runs worker n. Servers 0 .. colocated-1 run on the worker
 * nodes listed in home (NULL: on nodes 0, 1, ...), the others on nodes of their own. */
struct book {
    const struct profile *profile; /* borrowed, as all pointers here */
    uint32_t workers;              /* P, at least 1 */
    uint32_t servers;              /* Q, at least 1 */
    uint32_t colocated;            /* at most min(workers, servers) */
    bool servers_follow; /* one server a worker, whatever their number: for plan_leaves() */
    const uint32_t *home;
    uint64_t batch; /* samples per worker */
    double bits_s;  /* link rate of a node, each way */
    bool shared;    /* both ways together */
    double latency_s;
    double message_s;      /* handling one message, beside its bytes */
    double flops_s;        /* sustained rate of products on one node */
    double memory_bytes_s; /* of a server that sums and steps; 0: that takes no time */
    enum plan_rule rule;
    uint32_t schemes;             /* bit i: scheme_at(i) may be chosen */
    const tri_scheme_ops *forced; /* for every layer; NULL: choose */
    /* [profile->count] for single layers, before forced; NULL, or NULL in it: as the rest */
    const tri_scheme_ops *const *forced_for;
    const tri_placement_ops *placement;
    uint64_t chunk_bytes;  /* 0: plan_chunk_bytes() */
    uint64_t server_bytes; /* room for landing buffers on a server; 0: no limit */
    bool reproducible;
    uint32_t grid_rows, grid_cols; /* of shard-sf; 0: the best */
};

/* More than any cluster we know; keeps every product of sizes inside 2^63. */
enum { BOOK_MAX_NODES = 65536 };

#ifdef __cplusplus
}
#endif

#endif
