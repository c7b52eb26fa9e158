/* Writing parts for Trident.
 *
 * A slot is a place where one of several parts can be put: how an update travels
 * (scheme), which server owns what (placement), when a worker may go on
 * (consistency), how values are written on the wire (codec), how parameters step
 * (optimiser). A part is one const table of the types below, in one file, listed
 * by one line of src/mod/registry.c; `trident modules` shows what is there.
 *
 * All functions here are pure: no clock, no I/O, no allocation, no state but what
 * is handed in. Two nodes that call them with the same arguments get the same
 * answer. Unless it says otherwise a function may be called from any thread. */
#ifndef TRIDENT_MODULE_H
#define TRIDENT_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trident/trident.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a part can be told, for help and the manual. Tables end in a NULL name. */
typedef struct tri_option_row {
    const char *name;
    const char *fallback; /* the default, as a user would write it */
    const char *help;
} tri_option_row;

/* ---- schemes: how a layer's update travels and comes back ---- */

#define TRI_SCHEME_ABI 1

/* A layer as a scheme sees it. Values are fp32: four bytes each. Counts are
 * doubles because they only feed formulas; they are exact to 2^53. */
typedef struct tri_scheme_layer {
    tri_kind kind;
    double rows;         /* M, outputs */
    double cols;         /* N, inputs */
    double bias;         /* 0 or M more parameters */
    double factor_rows;  /* K, rows of the factors u (K x M) and v (K x N): batch x applications */
    double touched_rows; /* rows of W that one worker's update touches at most; M when dense */
    double pieces;       /* runs of parameters that the placement makes of it, at least 1 */
} tri_scheme_layer;

typedef struct tri_scheme_cluster {
    double workers;     /* P */
    double servers;     /* Q */
    double both;        /* nodes that are a worker and a server */
    double chunk_bytes; /* the most that one message carries */
    double grid_rows;   /* Pr x Pc owners asked for; 0: the scheme chooses */
    double grid_cols;
    bool reproducible; /* servers keep every worker's push apart to sum in rank order */
} tri_scheme_cluster;

/* What one synchronisation of one layer costs. Bytes and messages are those of
 * the busiest node, one direction, without headers, parameters spread evenly
 * over the servers (as Poseidon's Table 1 assumes). */
typedef struct tri_scheme_cost {
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
} tri_scheme_cost;

/* Where the updates of all ranks come together, and so who applies them. */
typedef enum tri_scheme_home {
    TRI_HOME_WORKERS, /* on every worker; servers hold nothing */
    TRI_HOME_PIECES,  /* on servers, cut as the placement likes */
    TRI_HOME_WHOLE    /* on one server that holds the whole layer */
} tri_scheme_home;

struct tri_scheme_steps; /* not defined yet */

/* What a worker sends. */
typedef enum tri_scheme_form { TRI_FORM_DENSE, TRI_FORM_FACTORS, TRI_FORM_ROWS } tri_scheme_form;

/* home and form are the steps of a scheme: on tri_update a worker sends the form
 * to the home; when all live ranks are in, the home applies them in rank order
 * (dense: sums and steps; factors: multiplies out); a home on servers answers
 * every worker with the result. docs/protocol.md has the pictures. */
typedef struct tri_scheme_ops {
    uint32_t abi;                  /* TRI_SCHEME_ABI */
    const char *name;              /* what users type */
    const char *summary;           /* one line for "trident modules" */
    const tri_option_row *options; /* NULL: none */
    bool runs;                     /* jobs may choose it; otherwise it can only be planned */
    bool by_bytes;                 /* rule bytes weighs it: Poseidon's Algorithm 1 knows ps, sfb */
    tri_scheme_home home;
    tri_scheme_form form;
    /* NULL when the scheme can carry the layer, else why not: a phrase that
     * follows the layer's name ("is CONV; factors exist for FC only"). */
    const char *(*refuses)(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster);
    /* Fills all of cost. Only called when not refused. */
    void (*cost)(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster,
                 tri_scheme_cost *cost);
    const char *formula; /* floats sent plus received, in M N K P Q */
    /* Writes the formula with the numbers put in, at most cap bytes with the NUL. */
    void (*explain)(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster, char *out,
                    size_t cap);
    /* For exchanges that home and form cannot say, such as the rounds of a ring. NULL for
     * all that there are; a scheme that needs it cannot run before the core knows it. */
    const struct tri_scheme_steps *steps;
} tri_scheme_ops;

/* ---- placements: which server owns which piece of the parameters ---- */

#define TRI_PLACEMENT_ABI 1

typedef enum tri_placement_cut {
    TRI_CUT_CHUNKS,  /* runs of the chunk size, weight and bias as one */
    TRI_CUT_EVENLY,  /* every tensor into as many equal pieces as there are servers */
    TRI_CUT_TENSORS, /* weight and bias, whole */
    TRI_CUT_LAYERS   /* weight with bias, whole */
} tri_placement_cut;

/* The pieces to deal out, in layer order. The caller owns all memory. */
typedef struct tri_placement_deal {
    const uint64_t *bytes; /* [pieces] */
    size_t pieces;
    uint32_t servers; /* at least 1 */
    uint32_t *owner;  /* [pieces], to be filled with 0 .. servers - 1 */
    uint64_t *load;   /* [servers], zero; filled with the bytes of each */
    uint32_t *order;  /* [pieces], scratch */
    uint32_t *heap;   /* [servers], scratch */
} tri_placement_deal;

typedef struct tri_placement_ops {
    uint32_t abi; /* TRI_PLACEMENT_ABI */
    const char *name;
    const char *summary;
    const tri_option_row *options; /* NULL: none */
    tri_placement_cut cut;
    void (*deal)(tri_placement_deal *deal); /* cannot fail */
} tri_placement_ops;

/* ---- consistency: when a worker may go on ---- */

#define TRI_CONSISTENCY_ABI 1

typedef struct tri_consistency {
    uint32_t bound;   /* N of "ssp:N" */
    uint32_t workers; /* live ones */
} tri_consistency;

/* A hook per place where the thesis on the modularized parameter server asks its
 * controller. A version v of a layer or unit holds the updates of all ranks for clocks 0 to
 * v-1; under rules that step on every push it may hold some newer ones, too. */
typedef struct tri_consistency_ops {
    uint32_t abi; /* TRI_CONSISTENCY_ABI */
    const char *name;
    const char *summary;
    const tri_option_row *options;
    bool bounded;   /* is written "name:N" */
    bool each_push; /* every update is a step of its own; otherwise one step per clock */
    /* Client sync: the least version a layer must have for iteration `clock` to begin. */
    uint64_t (*client_sync)(const tri_consistency *self, uint64_t clock);
    /* After update: may the update of `clock` leave while the copy here is at `version`? */
    bool (*after_update)(const tri_consistency *self, uint64_t clock, uint64_t version);
    /* After push received, on the server: does the unit step now, with updates of `in` of the
     * `live` ranks there? False: wait for more. */
    bool (*after_push)(const tri_consistency *self, uint32_t in, uint32_t live);
    /* Before serving: the least version a unit must have to answer a worker that has
     * pushed `clock`; below it the answer is held back. */
    uint64_t (*before_serving)(const tri_consistency *self, uint64_t clock);
    /* After parameters received: install `came` over `held`? */
    bool (*after_parameters)(const tri_consistency *self, uint64_t held, uint64_t came);
    /* Clock: must this worker pull a layer that is at `version` before iteration `clock`? */
    bool (*clock)(const tri_consistency *self, uint64_t clock, uint64_t version);
    /* The rate of one step on the server. */
    float (*lr)(const tri_consistency *self, float lr);
    /* After update, for rules that hold back small changes: is the change that has gathered
     * since the last send large enough, beside the parameters themselves (both Euclidean
     * norms)? NULL: every update is sent. */
    bool (*worth_sending)(const tri_consistency *self, double change, double parameters);
} tri_consistency_ops;

/* ---- codecs: how values are written on the wire ---- */

#define TRI_CODEC_ABI 1

enum { TRI_CODEC_ARGS = 4 };

/* What is being encoded. The same on both sides, so that chance can be drawn from it. */
typedef struct tri_codec_use {
    float args[TRI_CODEC_ARGS]; /* numbers of "topk:0.01", in the order of options */
    uint32_t layer, rank;
    uint64_t clock;
    size_t first; /* of the n values, within the tensor */
} tri_codec_use;

typedef struct tri_codec_ops {
    uint32_t abi; /* TRI_CODEC_ABI */
    const char *name;
    const char *summary;
    const tri_option_row *options; /* as many as there are args */
    bool exact;                    /* decode(encode(x)) is x, bit for bit */
    /* Zeroed bytes that the host keeps for a tensor of n floats, for what is carried from
     * one clock to the next (error feedback). NULL: stateless. */
    size_t (*state_bytes)(size_t n);
    size_t (*bound)(size_t n); /* the most bytes n floats can become */
    /* Never called twice at once on one state, which is the whole tensor's. decode must
     * survive hostile input. */
    tri_status (*encode)(const tri_codec_use *use, void *state, const float *src, size_t n,
                         uint8_t *dst, size_t cap, size_t *used);
    tri_status (*decode)(const tri_codec_use *use, const uint8_t *src, size_t len, float *dst,
                         size_t n);
    void (*reset)(void *state, size_t n); /* NULL: nothing to forget */
} tri_codec_ops;

/* ---- optimisers: how parameters step ---- */

#define TRI_OPTIMIZER_ABI 1

enum { TRI_OPTIMIZER_ARGS = 4 };

typedef struct tri_optimizer_ops {
    uint32_t abi;     /* TRI_OPTIMIZER_ABI */
    const char *name; /* users write "adam:0.9,0.999": numbers for args, in the order of options */
    const char *summary;
    const tri_option_row *options; /* as many as there are args; fallback is the default */
    uint32_t state_floats;         /* per parameter, zero at the start */
    /* Steps n parameters by the mean update. state holds state_floats runs of n
     * floats. steps is how many steps came before this one. Element i depends on element i
     * only, so that any cutting into chunks gives the same bits; what needs norms of whole
     * layers (LARS, clipping) is done by the caller in aggregate mode. */
    void (*step)(const float args[TRI_OPTIMIZER_ARGS], float *params, float *state,
                 const float *mean, size_t n, float lr, uint64_t steps);
} tri_optimizer_ops;

#ifdef __cplusplus
}
#endif

#endif
