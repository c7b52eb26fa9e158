/* A study: one system on one cluster, as a user describes it, and how fast it is. */
#ifndef TRIDENT_SIM_STUDY_H
#define TRIDENT_SIM_STUDY_H

#include "plan/book.h"
#include "sim/timed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a system synchronises; the names are what users type after --system. */
struct study_system {
    const char *name, *summary;
    bool alone;     /* one node, nothing is synchronised */
    bool overlap;   /* an update leaves as soon as it is computed */
    bool urgency;   /* what the next forward pass needs first is sent first, and each layer waits
                       for itself; otherwise first in, first out, and an iteration for all */
    bool copies;    /* pays for copies that nothing overlaps, if a rate is given */
    bool rule_time; /* chooses by time; otherwise by bytes */
    const char *schemes;   /* "ps,sfb": what it may choose from; forced if it is one */
    const char *placement; /* NULL: as the study says */
    bool onebit;           /* FC layers as one bit a value, both ways */
};
const struct study_system *study_system_at(size_t i); /* NULL past the end */
const struct study_system *study_system_find(const char *name);

/* By what a system that has a choice chooses. */
enum study_rule { STUDY_RULE_OWN, STUDY_RULE_BYTES, STUDY_RULE_TIME };

/* What travels of a dense update and its result. */
struct study_codec {
    double ratio;  /* 0: as the system has it */
    double code_s; /* seconds a byte of values on each side */
};

struct study {
    const struct profile *profile; /* borrowed, as all pointers here */
    const struct study_system *system;
    uint32_t nodes;    /* workers */
    uint32_t servers;  /* 0: one beside every worker */
    bool apart;        /* servers have nodes of their own */
    uint64_t batch;    /* 0: the profile's */
    double bits_s;     /* rate of a node's link */
    double efficiency; /* share of it that can be used; 0: all */
    bool shared;       /* in and out share it */
    double latency_s, message_s;
    double copy_bytes_s;   /* 0: copies take no time */
    double flops_s;        /* 0: the profile's own rate */
    double memory_bytes_s; /* of sums and steps on servers; 0: they take no time */
    double jitter;
    uint32_t slow_nodes; /* so many workers, the first, are slow_times as slow as the others */
    double slow_times;
    enum study_rule rule;
    const char *consistency; /* NULL: bsp; "ssp:5" */
    struct study_codec codec;
    const tri_placement_ops *placement; /* NULL: hash */
    uint64_t chunk_bytes;               /* 0: as study_chunk() finds */
    uint32_t iterations;                /* 0: 5 */
    uint64_t seed;
    bool (*stop)(void *ctx); /* as in timed.h */
    void *stop_ctx;
};

/* How many servers there will be, the rate of products, and the chunk size that the planner takes.
 */
uint32_t study_servers(const struct study *study);
double study_flops(const struct study *study);
uint64_t study_chunk(const struct study *study);

struct study_result {
    double speedup;    /* samples a second, as a multiple of one node that computes only */
    double estimate_s; /* what the planner expected of an iteration that overlaps */
    struct timed_result timed;
    uint32_t on_workers, on_servers; /* layers with parameters, by where they live */
};

/* TRI_EINPUT, with a next step, for what cannot be: no nodes, a rate of 0, an efficiency above 1, a
 * profile that does not know its compute. On success free with study_free(). */
tri_status study_run(const struct study *study, const struct mem *mem, struct study_result *result,
                     tri_error *err);
void study_free(struct study_result *result, const struct mem *mem);

#ifdef __cplusplus
}
#endif

#endif
