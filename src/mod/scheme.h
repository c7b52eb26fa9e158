/* The slot of schemes: the ways a layer's update travels and comes back.
 *
 * A scheme is one const table in src/mod/scheme/, listed in registry.c. What is
 * here is what the planner asks: may this scheme carry this layer, and what
 * would that cost. Everything is a pure function of its arguments.
 *
 * Counts are doubles because they only feed formulas; they are exact to 2^53. */
#ifndef TRIDENT_MOD_SCHEME_H
#define TRIDENT_MOD_SCHEME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "mod/option.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SCHEME_ABI = 1, SCHEME_MAX = 16 };

enum layer_kind { LAYER_FC, LAYER_CONV, LAYER_EMBED, LAYER_NORM, LAYER_OTHER, LAYER_KINDS };
const char *layer_kind_name(enum layer_kind kind); /* "FC" ... */

/* A layer as a scheme sees it. Values are fp32: four bytes each. */
struct scheme_layer {
    enum layer_kind kind;
    double rows;         /* M, outputs */
    double cols;         /* N, inputs */
    double bias;         /* 0 or M more parameters */
    double factor_rows;  /* K, rows of the factors u (K x M) and v (K x N): batch x applications */
    double touched_rows; /* rows of W that one worker's update touches at most; M when dense */
    double pieces;       /* runs of parameters that the placement makes of it, at least 1 */
};

struct scheme_cluster {
    double workers;     /* P */
    double servers;     /* Q */
    double both;        /* nodes that are a worker and a server */
    double chunk_bytes; /* the most that one message carries */
    double grid_rows;   /* Pr x Pc owners asked for; 0: the scheme chooses */
    double grid_cols;
    bool reproducible; /* servers keep every worker's push apart to sum in rank order */
};

/* What one synchronisation of one layer costs. Bytes and messages are those of
 * the busiest node, one direction, without headers, parameters spread evenly
 * over the servers (as Poseidon's Table 1 assumes). */
struct scheme_cost {
    double floats_worker; /* the three columns of Table 1: sent plus received, */
    double floats_server; /* without biases; NaN where the table says N/A */
    double floats_both;
    double send_bytes;
    double recv_bytes;
    double messages;            /* sent */
    double rounds;              /* of latency that follow each other */
    double extra_flops;         /* beyond one worker's own backward pass, on the critical node */
    double server_buffer_bytes; /* landing room on one server */
    double worker_buffer_bytes; /* factors kept on one worker */
    double grid_rows;           /* Pr x Pc chosen; 0 for schemes without a grid */
    double grid_cols;
};

/* Who holds the layer's parameters between updates, for the placement. */
enum scheme_home {
    SCHEME_HOME_WORKERS, /* every worker; servers hold nothing */
    SCHEME_HOME_PIECES,  /* servers, cut as the placement likes */
    SCHEME_HOME_WHOLE    /* one server holds the whole layer */
};

struct scheme_ops {
    uint32_t abi;
    const char *name;                 /* what users type */
    const char *summary;              /* one line for "trident modules" */
    const struct mod_option *options; /* NULL: none */
    bool runs;                        /* jobs may choose it; otherwise it can only be planned */
    bool by_bytes; /* rule bytes weighs it: Poseidon\'s Algorithm 1 knows ps and sfb */
    enum scheme_home home;
    /* NULL when the scheme can carry the layer, else why not: a phrase that
     * follows the layer's name ("is CONV; factors exist for FC only"). */
    const char *(*refuses)(const struct scheme_layer *layer, const struct scheme_cluster *cluster);
    /* Fills all of cost. Only called when not refused. */
    void (*cost)(const struct scheme_layer *layer, const struct scheme_cluster *cluster,
                 struct scheme_cost *cost);
    const char *formula; /* floats sent plus received, in M N K P Q */
    /* Appends the formula with the numbers put in. */
    void (*explain)(const struct scheme_layer *layer, const struct scheme_cluster *cluster,
                    struct buf *out);
};

/* Walks the registry; NULL past the end. The order is the order of preference
 * among schemes that cost the same. */
const struct scheme_ops *scheme_at(size_t i);
/* By name ('-' and '_' are the same); NULL if there is none, else *index is its place. */
const struct scheme_ops *scheme_find(const char *name, size_t *index);

/* ---- arithmetic that several schemes share ---- */

double scheme_params(const struct scheme_layer *layer); /* MN + bias */
/* Messages needed for so many bytes: at least one, none for nothing. */
double scheme_messages(double bytes, double chunk_bytes);

/* A layer that lives on servers: every worker sends `up` bytes in `up_messages`
 * and gets `down` bytes back, both spread evenly over the servers. */
struct scheme_flow {
    double up, down;
    double up_messages, down_messages;
};
void scheme_serve(const struct scheme_flow *flow, const struct scheme_cluster *cluster,
                  struct scheme_cost *cost);

#ifdef __cplusplus
}
#endif

#endif
