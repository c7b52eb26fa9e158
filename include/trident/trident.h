/* Trident: make a training loop that runs on one machine run on many.
 *
 * The library is six calls around the loop you already have:
 *
 *     tri_open     join the job
 *     tri_layer    once per layer: its name, shape and where its parameters live
 *     tri_start    agree on how each layer travels; all begin with rank 0's values
 *     loop:
 *         for each layer, forward:   tri_sync(layer), then use its parameters
 *         for each layer, backward:  compute its update, then tri_update(layer)
 *         tri_clock                  the iteration is over
 *     tri_close
 *
 * tri_update returns at once; the update travels while the backward pass goes
 * on. tri_sync waits until the layer may be used again. Every process runs the
 * same program on its own part of the data. With one process the calls do next
 * to nothing.
 *
 * In this version the header is complete and the library behind it is not: it
 * exports tri_version and tri_status_name only.
 *
 * THREADS. One thread at a time may be inside a call with the same job, except
 * tri_update and tri_sync, which may run in different threads for different
 * layers. Jobs are independent of each other.
 *
 * ERRORS. Every call returns a tri_status and takes a tri_error to say why; NULL
 * is fine. Calls never exit the program, print, or install signal handlers.
 *
 * STRUCTS that begin with `size` are started from their _INIT macro, which is a
 * braced list in C and a function call in C++.
 *
 * MEMORY. Strings and structs given to a call are copied before it returns.
 * What layers point to (parameters, gradients) is borrowed as each call says. */
#ifndef TRIDENT_TRIDENT_H
#define TRIDENT_TRIDENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRI_VERSION_MAJOR 0
#define TRI_VERSION_MINOR 1
#define TRI_VERSION_PATCH 0

/* ---- errors ---- */

/* What a call came to. Programs test these; values are frozen once released. */
typedef enum tri_status {
    TRI_OK = 0,
    TRI_EARG = -1,     /* impossible argument, or a call out of order: fix the calling code */
    TRI_ENOMEM = -2,   /* the allocator refused */
    TRI_EIO = -3,      /* the operating system refused; the text carries its reason */
    TRI_EINPUT = -4,   /* a file or a setting given by the user is unusable */
    TRI_EPEER = -5,    /* a node is gone and the job cannot go on; close it */
    TRI_ETIMEOUT = -6, /* a wait passed its deadline; the text names who is missing */
    TRI_EEVICTED = -7, /* the others went on without this process; close the job and exit */
    TRI_EMISMATCH = -8 /* ranks disagree: other layers, learning rate, version or checksum */
} tri_status;

/* Why a call failed, for a person. Every string ends in NUL and is cut, never
 * overrun, when it is too long; `where`, `why` and `next` may be empty.
 * A call that succeeds leaves the struct alone. */
typedef struct tri_error {
    tri_status status;
    char text[240];  /* what failed: one sentence, lower case, the subject quoted */
    char where[240]; /* file:line:column, flag or peer it came from */
    char why[240];   /* the cause, when the text does not already say it */
    char next[240];  /* what to try */
} tri_error;

/* ---- 1. join ---- */

typedef struct tri_job tri_job; /* opaque */

/* What comes back from a synchronisation. */
typedef enum tri_result {
    TRI_PARAMETERS = 0, /* Trident steps the optimiser; parameters are new after tri_sync */
    TRI_AGGREGATE = 1   /* the caller steps: the mean update is in `result` after tri_sync */
} tri_result;

/* Zero or NULL in any field (rank: -1) means: take it from the environment (TRIDENT_*, then
 * torchrun's RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, then MPI's, PMIx's and
 * Slurm's), then from the configuration file, then the default. Without any of
 * them the job has one worker and needs no network. Start from
 *     tri_options options = TRI_OPTIONS_INIT; */
typedef struct tri_options {
    size_t size;             /* set by TRI_OPTIONS_INIT: lets old binaries meet new libraries */
    const char *job;         /* name of the job; default "trident" */
    const char *config;      /* a configuration file to read */
    uint32_t workers;        /* how many take part */
    int32_t rank;            /* this one, from 0; -1 means not given */
    const char *coordinator; /* host:port of rank 0 */
    const char *token;       /* secret of the job; needed as soon as it spans hosts */
    tri_result result;       /* what comes back */
    const char *optimizer;   /* "sgd", "momentum:0.9", "nesterov:0.9", "adagrad", "adam" */
    const char *consistency; /* "bsp" (default), "ssp:N", "asp" */
    const char *placement;   /* which server owns what; default "hash" */
    const char *scheme;      /* one for all layers; default: the planner chooses per layer */
    uint32_t servers;        /* default: one on every worker's node */
    uint32_t timeout_ms;     /* longest silent wait; default 30000 */
    uint32_t checksum_every; /* compare replicas every so many clocks; default 0: never */
    /* Called with one line, without newline, from any thread of the library; level
     * 0 error, 1 warning, 2 information, 3 debug. NULL: silent. */
    void (*log)(void *log_ctx, int level, const char *line);
    void *log_ctx;
} tri_options;
#ifdef __cplusplus
inline tri_options tri_options_init(void)
{
    tri_options init = {};
    init.size = sizeof init;
    init.rank = -1;
    return init;
}
#define TRI_OPTIONS_INIT tri_options_init()
#else
#define TRI_OPTIONS_INIT                                                                           \
    {                                                                                              \
        .size = sizeof(tri_options), .rank = -1                                                    \
    }
#endif

/* Joins the job; waits until all workers and servers are there or timeout_ms has
 * passed. Success: *out is the caller's until tri_close(). Failure: *out is
 * untouched and nothing leaks. options may be NULL: all from the environment. */
tri_status tri_open(const tri_options *options, tri_job **out, tri_error *err);

/* Which worker this is, from 0, and how many there are. */
uint32_t tri_rank(const tri_job *job);
uint32_t tri_workers(const tri_job *job);

/* ---- 2. describe ---- */

typedef enum tri_kind {
    TRI_FC = 0,    /* fully connected: factors exist */
    TRI_CONV = 1,  /* convolution: dense updates */
    TRI_EMBED = 2, /* embedding: rows */
    TRI_NORM = 3,  /* scale and shift */
    TRI_OTHER = 4
} tri_kind;

/* A weight matrix of `rows` outputs by `cols` inputs, stored row after row, and
 * an optional bias of `rows`. Values are 32-bit floats. Start from
 *     tri_layer_info layer = TRI_LAYER_INIT; */
typedef struct tri_layer_info {
    size_t size;              /* set by TRI_LAYER_INIT */
    const char *name;         /* required, the same on all ranks, unique */
    tri_kind kind;            /* default TRI_FC */
    uint32_t rows, cols;      /* required */
    uint32_t max_factor_rows; /* K: the most rows u and v may have; 0: never gives factors */
    float *weights;           /* required; rows x cols. Borrowed until tri_close */
    float *bias;              /* rows, or NULL. Borrowed until tri_close */
    float *result;            /* TRI_AGGREGATE: where the mean goes, weights then bias */
} tri_layer_info;
#ifdef __cplusplus
inline tri_layer_info tri_layer_info_init(void)
{
    tri_layer_info init = {};
    init.size = sizeof init;
    return init;
}
#define TRI_LAYER_INIT tri_layer_info_init()
#else
#define TRI_LAYER_INIT                                                                             \
    {                                                                                              \
        .size = sizeof(tri_layer_info)                                                             \
    }
#endif

/* Describes the next layer, in the order of the forward pass; *layer is its number,
 * 0, 1, 2, ... Only between tri_open and tri_start. */
tri_status tri_layer(tri_job *job, const tri_layer_info *info, uint32_t *layer, tri_error *err);

/* ---- 3. agree ---- */

/* Makes the plan, checks that all ranks described the same layers (else
 * TRI_EMISMATCH names the rank and the difference), and gives every rank the
 * parameters of rank 0, or of the checkpoint. The caller may use all layers after it. */
tri_status tri_start(tri_job *job, tri_error *err);

/* The scheme of a layer: "ps", "sfb", "adam". Tells what is best to give:
 * factors for "sfb" and "adam", a dense gradient otherwise. Static storage; NULL
 * before tri_start or for a layer that does not exist. */
const char *tri_scheme_of(const tri_job *job, uint32_t layer);

/* ---- 4. the loop ---- */

/* What the backward pass produced for a layer: exactly one of the three forms.
 * Start from
 *     tri_update_info update = TRI_UPDATE_INIT;
 *
 * dense    the gradient of the weights (rows x cols), and of the bias.
 *          Borrowed until tri_sync of this layer returns (under ssp and asp: copied).
 * factors  u (factor_rows x rows) and v (factor_rows x cols), with gradient = u'v:
 *          for a fully connected layer u is the gradient at its output and v its
 *          input. The bias gradient follows from u. Copied before the call returns.
 * rows     row_count rows (row_count x cols) of an embedding's gradient and their
 *          numbers. A row may appear twice: its parts are added. Copied.
 *
 * The result is (sum of all ranks' updates) / (sum of their counts). Give sums
 * over samples with count = samples, or means with count = 1. */
typedef struct tri_update_info {
    size_t size;        /* set by TRI_UPDATE_INIT */
    const float *dense; /* weights' gradient */
    const float *dense_bias;
    const float *u, *v;
    uint32_t factor_rows; /* at most max_factor_rows */
    const float *row_values;
    const uint32_t *row_numbers;
    uint32_t row_count;
    uint32_t count;  /* default 1 */
    float lr;        /* learning rate; must be the same on all ranks, bit for bit */
    int params_busy; /* non-zero: the caller goes on reading this layer's parameters (for the
                        gradient of its input), at most until tri_clock or tri_sync */
} tri_update_info;
#ifdef __cplusplus
inline tri_update_info tri_update_info_init(void)
{
    tri_update_info init = {};
    init.size = sizeof init;
    init.count = 1;
    return init;
}
#define TRI_UPDATE_INIT tri_update_info_init()
#else
#define TRI_UPDATE_INIT                                                                            \
    {                                                                                              \
        .size = sizeof(tri_update_info), .count = 1                                                \
    }
#endif

/* Hands over a layer's update of this iteration and returns at once. From here to
 * the end of tri_sync(layer) the parameters (in TRI_AGGREGATE: result) belong to the
 * library, which writes the new ones into them. At most once per layer and iteration. */
tri_status tri_update(tri_job *job, uint32_t layer, const tri_update_info *update, tri_error *err);

/* Waits until the layer may be used again; returns at once if it already may. Call
 * it just before the layer's forward, so that communication hides behind the layers
 * below it. Past timeout_ms: TRI_ETIMEOUT names who is missing; it may be called again. */
tri_status tri_sync(tri_job *job, uint32_t layer, tri_error *err);

/* Ends the iteration. Layers that got no update in it count as zero with count 0.
 * *clock (may be NULL) is the number of iterations ended so far; it jumps ahead
 * when this worker was left behind by the others. */
tri_status tri_clock(tri_job *job, uint64_t *clock, tri_error *err);

/* ---- 5. leave ---- */

/* Finishes what was handed over, tells the others, frees everything. NULL is fine. */
void tri_close(tri_job *job);

/* ---- asking ---- */

/* A fact of the book by name: "workers", "servers", "rank", "view", "clock", "plan",
 * "scheme.fc6", "chunks.fc6", ... as text into out (at most cap bytes, always NUL-ended).
 * TRI_EARG for a name that is not in the book, and the text suggests one. */
tri_status tri_query(const tri_job *job, const char *name, char *out, size_t cap, tri_error *err);

/* CRC-32C of all parameters in the order of tri_layer (weights, then bias), as
 * little-endian floats. Equal on all ranks after every clock under bsp. Waits for
 * all layers. */
tri_status tri_checksum(tri_job *job, uint32_t *crc, tri_error *err);

/* Counters since tri_start. */
typedef struct tri_stats {
    uint64_t clocks;
    uint64_t sent_bytes, received_bytes; /* data, without headers */
    uint64_t header_bytes;               /* of what was sent */
    uint64_t messages;                   /* sent */
    double wait_s;                       /* inside tri_sync */
    uint32_t view;                       /* changes of membership, from 1 */
    uint32_t live_workers;
} tri_stats;
void tri_get_stats(const tri_job *job, tri_stats *out);

/* The version of the library that is running, as "0.1.0". Static storage. */
const char *tri_version(void);

/* The name of a status, as "TRI_EIO"; "TRI_?" for a value of another version.
 * Static storage. */
const char *tri_status_name(tri_status status);

#ifdef __cplusplus
}
#endif

#endif
