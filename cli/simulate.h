/* A sweep: the same model simulated over numbers of nodes, link rates and systems. */
#ifndef TRIDENT_CLI_SIMULATE_H
#define TRIDENT_CLI_SIMULATE_H

#include "base/buf.h"
#include "sim/study.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Two columns of the table go to nodes and rate, the others to systems. */
enum { SWEEP_NODES = 64, SWEEP_RATES = 16, SWEEP_SYSTEMS = 10 };

/* What the options of the command say, as texts where they are lists or shares. */
struct simulate_settings {
    const char *model, *nodes, *bandwidth, *system;
    uint64_t servers, batch, chunk, iterations, seed;
    unsigned colocate, duplex;
    const char *efficiency, *jitter;
    double latency, message_cost, copy_rate, flops;
    const char *consistency, *codec, *placement;
    const char *plot;
    bool json, claims;
};

struct sweep {
    struct study study; /* what all runs share; its system, nodes and rate are of one of them */
    const char *codec;  /* as it was asked for */
    uint32_t nodes[SWEEP_NODES]; /* ascending, none twice */
    double rates[SWEEP_RATES];   /* bit/s, the same */
    const struct study_system *systems[SWEEP_SYSTEMS];
    size_t node_count, rate_count, system_count;
    /* [done], by nodes, then rate, then system; see sweep_at() */
    struct study_result *results;
    size_t done;
};

/* Fills all but the results from the settings, for a profile that outlives the sweep. TRI_EINPUT
 * names the option, what is wrong with it and what would be right. */
tri_status sweep_read(const struct simulate_settings *settings, const struct profile *profile,
                      struct sweep *sweep, tri_error *err);

size_t sweep_total(const struct sweep *sweep);
/* The result at these places in the lists; NULL while it is not there. */
const struct study_result *sweep_at(const struct sweep *sweep, size_t node, size_t rate,
                                    size_t system);

/* What an iteration takes beyond its compute: below 0 where jitter made it faster, and 0 where only
 * rounding is left. */
double sweep_stall(const struct timed_result *timed);

void sweep_text(const struct sweep *sweep, const struct mem *mem, struct buf *out);
void sweep_json(const struct sweep *sweep, struct buf *out);
/* An SVG picture: speed-up over nodes or, for one number of nodes and several rates, over these. */
tri_status sweep_plot(const struct sweep *sweep, const struct mem *mem, struct buf *out,
                      tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
