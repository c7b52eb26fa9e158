/* A sweep: the same model simulated over numbers of nodes, link rates and variants of systems. */
#ifndef TRIDENT_CLI_SIMULATE_H
#define TRIDENT_CLI_SIMULATE_H

#include <stdio.h>

#include "base/buf.h"
#include "cli/options.h"
#include "sim/study.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SWEEP_NODES = 64, SWEEP_RATES = 16, SWEEP_VARIANTS = 32 };
enum { VARIANT_PART = 32, VARIANT_NAME = 100 };

enum sweep_picture { SWEEP_SPEEDUP, SWEEP_TRAFFIC };

/* What the options of the command say, as texts where they are lists or shares. */
struct simulate_settings {
    const char *model, *nodes, *bandwidth, *system;
    uint64_t servers, batch, iterations, seed;
    unsigned colocate, duplex, plot_of;
    const char *efficiency, *jitter, *slow;
    double latency, message_cost, copy_rate, memory_rate, codec_rate, flops;
    const char *rule, *consistency, *codec, *placement, *chunk;
    const char *plot;
    bool json, claims;
};

extern const struct option_row simulate_options[];
/* Options that are missing, or cannot stand together: TRI_EINPUT. */
tri_status simulate_check(const struct simulate_settings *settings, tri_error *err);
/* Says so where a plot's name is not that of an SVG picture; NULL is fine. */
void simulate_warn(const char *plot, FILE *err);

/* One column of the tables: a system and the parts that it runs with. */
struct sweep_variant {
    const struct study_system *system;
    enum study_rule rule; /* bytes or time; own where the system has no choice */
    const tri_placement_ops *placement;
    char consistency[VARIANT_PART], codec[VARIANT_PART]; /* as they were asked for */
    double ratio;                                        /* as in study_codec */
    size_t nth;              /* so many variants of its system stand before it */
    char name[VARIANT_NAME]; /* the system's, and what it does not share with the others */
};

struct sweep {
    struct study study;          /* what all runs share; sweep_study() has the rest */
    uint32_t nodes[SWEEP_NODES]; /* ascending, none twice */
    double rates[SWEEP_RATES];   /* bit/s, the same */
    struct sweep_variant variants[SWEEP_VARIANTS];
    size_t node_count, rate_count, variant_count;
    /* [done], by nodes, then rate, then variant; see sweep_at() */
    struct study_result *results;
    size_t done;
};

/* Fills all but the results from the settings, for a profile that outlives the sweep. TRI_EINPUT
 * names the option, what is wrong with it and what would be right. */
tri_status sweep_read(const struct simulate_settings *settings, const struct profile *profile,
                      struct sweep *sweep, tri_error *err);
/* The part of it that fills the variants. */
tri_status variants_read(const struct simulate_settings *settings, struct sweep *sweep,
                         tri_error *err);

/* "bytes" or "time"; NULL where the system has no choice. */
const char *variant_rule(const struct sweep_variant *variant);
/* Does it run as its system does of itself, with this rule? */
bool variant_own_rule(const struct sweep_variant *variant);
/* Are its dense updates packed? */
bool variant_coded(const struct sweep_variant *variant);

size_t sweep_total(const struct sweep *sweep);
/* What the nth run is of. */
struct study sweep_study(const struct sweep *sweep, size_t at);
const struct sweep_variant *sweep_variant(const struct sweep *sweep, size_t at);
/* The result at these places in the lists; NULL while it is not there. */
const struct study_result *sweep_at(const struct sweep *sweep, size_t node, size_t rate,
                                    size_t variant);
/* The last case in which a variant finished; false if there is none. */
bool sweep_largest(const struct sweep *sweep, size_t variant, size_t *node, size_t *rate);

/* What an iteration takes beyond its compute: below 0 where jitter made it faster, and 0 where only
 * rounding is left. */
double sweep_stall(const struct timed_result *timed);
/* What the busiest node sends over what they send in the mean; 1 if none does. */
double sweep_imbalance(const struct timed_result *timed);

/* "simulated: " and all settings, without a newline at the end. On a page: the model's name first,
 * and in lines that fit; otherwise the number of nodes if there is one, and all in one line. */
void sweep_head(const struct sweep *sweep, bool page, struct buf *out);
void sweep_text(const struct sweep *sweep, const struct mem *mem, struct buf *out);
void sweep_json(const struct sweep *sweep, struct buf *out);
/* An SVG picture: speed-up over nodes; for one number of nodes and several rates, over these; for
 * one case, as bars. Or the traffic of each node in the largest case. */
tri_status sweep_plot(const struct sweep *sweep, enum sweep_picture what, const struct mem *mem,
                      struct buf *out, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
