/* Trident: make a training loop that runs on one machine run on many.
 *
 * The library is six calls around the loop you already have, and one to leave:
 *
 *     tri_open     join the job
 *     tri_layer    once per layer: its name, shape and where its parameters live
 *     tri_start    agree on how each layer travels; all begin with rank 0's values
 *     clock = tri_stats.clocks   0, unless the job is resumed from a checkpoint
 *     while clock < iterations:
 *         forward, for each layer:   tri_sync(layer), then use its parameters
 *         backward, for each layer:  compute its update, then tri_update(layer), with
 *                                    params_busy if its parameters are read after that
 *         tri_clock(&clock)          the iteration is over
 *     tri_close
 *
 * tri_update returns at once; the update travels while the backward pass goes on.
 * tri_sync waits until the layer may be used again. Every process runs the same
 * program on its own part of the data. With one process the calls do next to nothing.
 *
 * THREADS. One thread at a time may be inside a call with the same job, with two
 * exceptions: tri_update, tri_learn and tri_sync (with _rows or _pending) may run in different
 * threads for different layers (join them before tri_clock), and tri_rank, tri_workers and
 * tri_get_stats may be called at any time. Jobs are independent of each other.
 *
 * ERRORS. A call that can fail returns a tri_status and takes a tri_error to say why
 * (NULL is fine); a failing call fills all of it. After TRI_EARG the job is as it was
 * before the call. After TRI_ETIMEOUT from tri_sync the call may be made again. After
 * anything else the job is over: close it. Calls never exit the program, print, or
 * install signal handlers.
 *
 * MEMORY. Strings and structs given to a call are copied before it returns. Parameters
 * and gradients are borrowed as each call says; all of it is the caller's again when
 * tri_close returns. */
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

/* A field that is set wins. One that is not (zero or NULL; rank: -1) comes from the
 * environment (TRIDENT_RANK, TRIDENT_WORKERS, TRIDENT_COORDINATOR and so on, then torchrun's
 * RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, then MPI's, PMIx's and Slurm's), then from the
 * configuration file, then from the default. Without any of them the job has one worker and
 * needs no network; a rank without a number of workers, or the other way round, is
 * TRI_EINPUT. `result` and `log` are part of the program and never come from outside. Start from
 *     tri_options options = TRI_OPTIONS_INIT; */
typedef struct tri_options {
    size_t size;             /* set by TRI_OPTIONS_INIT: lets old binaries meet new libraries */
    const char *job;         /* name of the job; default "trident" */
    const char *config;      /* a configuration file to read */
    uint32_t workers;        /* how many take part */
    int32_t rank;            /* this one, from 0; -1 means not given */
    const char *coordinator; /* host:port of rank 0 */
    const char *token;       /* secret of the job; without one only loopback is used */
    tri_result result;       /* what comes back */
    const char *optimizer;   /* "sgd" (default), "momentum:0.9", "nesterov:0.9", "adagrad", "adam";
                                not used with TRI_AGGREGATE */
    const char *consistency; /* "bsp" (default), "ssp:N", "asp" */
    const char *placement;   /* which server owns what; default "hash" */
    const char *scheme;      /* one for all layers; default: the planner chooses per layer. Under
                                "sfb" and "adam" layers without factors go by ps */
    uint32_t servers;        /* default: one on every worker's node */
    uint32_t timeout_ms;     /* longest silent wait; default 30000 */
    uint32_t checksum_every; /* compare replicas every so many clocks; default 0: never */
    /* Called with one line, without newline, from several threads at once and until
     * tri_close returns; must not call the library. Level 0 error, 1 warning, 2
     * information, 3 debug. NULL: silent. */
    void (*log)(void *log_ctx, int level, const char *line);
    void *log_ctx;
    const char *checkpoint;    /* a folder of rank 0's machine to save the job in; default: none */
    uint32_t checkpoint_every; /* clocks; default 1000. Saved beside the loop, which goes on */
    uint32_t checkpoint_keep;  /* how many; default 2 */
    int resume;                /* 1: go on from the newest whole checkpoint there, or from the
                                  beginning if there is none; -1: do not, whatever the environment
                                  says; 0: not given */
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

/* Which worker this is, from 0, and how many there were when the job began. Both stay the
 * same as long as it lives; tri_stats has the number of those still there. */
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
    uint32_t max_factor_rows; /* K, the same on all ranks: the most rows u and v may have. 0: this
                                 layer never gives factors. Above 0: it gives factors where
                                 tri_scheme_of() says sfb or adam, and may give any form under ps */
    float *weights; /* required; rows x cols. Borrowed until tri_close. Rank 0's are filled
                       before tri_start, which overwrites those of the others */
    float *bias;    /* rows, or NULL. Borrowed until tri_close */
    float *result;  /* TRI_AGGREGATE, required: where the mean goes, rows x cols floats and
                       behind them rows more if there is a bias. Borrowed as weights */
    /* Of use with mode = local, local = replicas, which keeps room for updates: */
    uint32_t max_rows;      /* TRI_EMBED: the most rows an update has; 0: not known */
    uint32_t window_floats; /* above 0: updates are windows, of so many floats of v in each of
                               their max_factor_rows rows (see tri_update_info) */
    int reads_pending;      /* non-zero: in the loop the program reads this layer by
                               tri_sync_pending. A large layer of factors then lies in memory once
                               for all ranks, not once for each: tri_shared gives NULL, and
                               `weights` gets values in tri_sync, tri_checksum and tri_finish
                               only. Large: rows x cols is at least the setting local_common, and
                               more than max_factor_rows x (rows + cols) */
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

/* Values of the program's own that nobody exchanges and that a checkpoint has to hold: running
 * statistics, a position in the data. Rank 0's are saved, as they are when tri_clock is called;
 * when a job is resumed tri_start fills those of every rank. */
typedef enum tri_type {
    TRI_F32 = 0, /* float */
    TRI_U64 = 1  /* uint64_t */
} tri_type;

typedef struct tri_keep_info {
    size_t size;      /* set by TRI_KEEP_INIT */
    const char *name; /* required, the same on all ranks, unique; not a layer's */
    tri_type type;
    void *values; /* required; `count` of them, at least 1. Borrowed until tri_close */
    uint64_t count;
} tri_keep_info;
#ifdef __cplusplus
inline tri_keep_info tri_keep_info_init(void)
{
    tri_keep_info init = {};
    init.size = sizeof init;
    return init;
}
#define TRI_KEEP_INIT tri_keep_info_init()
#else
#define TRI_KEEP_INIT                                                                              \
    {                                                                                              \
        .size = sizeof(tri_keep_info)                                                              \
    }
#endif

/* Only between tri_open and tri_start. Without a checkpoint folder it does nothing. */
tri_status tri_keep(tri_job *job, const tri_keep_info *info, tri_error *err);

/* ---- 3. agree ---- */

/* Makes the plan, checks that all ranks described the same layers (else
 * TRI_EMISMATCH names the rank and the difference), and gives every rank the
 * parameters of rank 0, or of the checkpoint the job is resumed from, whose clock
 * tri_get_stats() then has: the loop goes on from there. The caller may use all layers after it. */
tri_status tri_start(tri_job *job, tri_error *err);

/* How a layer travels: "ps" (dense updates to servers, parameters back), "sfb" (factors from
 * every worker to every other) or "adam" (factors to a server, parameters back; Project
 * Adam's way, not the optimiser). Under ps every form is accepted and may change from call to
 * call; factors and rows are made dense in the caller's thread. Under sfb and adam the update
 * is factors, else TRI_EARG; a layer described with max_factor_rows 0 never gets these schemes.
 * Stays the same after tri_start. Static storage; NULL before it, or for a layer that does
 * not exist. */
const char *tri_scheme_of(const tri_job *job, uint32_t layer);

/* ---- 4. the loop ---- */

/* What the backward pass produced for a layer: exactly one of these forms, told by which
 * pointers are set. Start from
 *     tri_update_info update = TRI_UPDATE_INIT;
 *
 * dense    the gradient of the weights (rows x cols) and, if the layer has a bias, of the
 *          bias. Borrowed: not to be written before tri_sync of this layer returned TRI_OK.
 * factors  u (factor_rows x rows) and v (factor_rows x cols), with gradient = u'v: for a
 *          fully connected layer u is the gradient at its output, v its input. The bias
 *          gradient follows from u. To scale them, scale u alone. Copied before the
 *          call returns.
 * rows     row_count rows (row_count x cols) of an embedding's gradient and their
 *          numbers. A row may appear twice: its parts are added. Copied.
 * windows  factors whose v is longer than a row: u as above, v (factor_rows x window_floats) and
 *          at (factor_rows x rows). Row m of the gradient is the sum over k of u[k][m] times the
 *          cols floats of v[k] from at[k][m] on: for filters over a text of which each has met
 *          one place. Taken with mode = local, local = replicas only. Copied.
 *
 * The result is (sum of all ranks' updates) / (sum of their counts), weights and bias alike;
 * counts may differ by rank. Sums over samples with count = samples give the mean over all
 * samples. Means with count = 1 give the mean of the ranks' means, which is the same
 * only when all batches have one size.
 *
 * Then parameters -= lr x (what the optimiser makes of the result). */
typedef struct tri_update_info {
    size_t size;        /* set by TRI_UPDATE_INIT */
    const float *dense; /* weights' gradient */
    const float *dense_bias;
    const float *u, *v;
    uint32_t factor_rows; /* at most max_factor_rows */
    const float *row_values;
    const uint32_t *row_numbers;
    uint32_t row_count;
    uint32_t count;     /* default 1; at least 1 */
    float lr;           /* learning rate of this step, the same on all ranks, bit for bit (else
                           TRI_EMISMATCH from tri_sync), but in mode = local, where each gradient
                           has its own (not with local = sync); may change by iteration and by
                           layer. Not used with TRI_AGGREGATE */
    int params_busy;    /* non-zero: the caller goes on reading this layer's parameters, for the
                           gradient of its input. They keep their values until tri_clock, or
                           tri_sync of this layer if that comes first. The update is sent at
                           once either way */
    const uint32_t *at; /* windows: where in v each begins */
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

/* Hands over a layer's update of this iteration and returns at once. From here until
 * tri_sync(layer) returns TRI_OK its parameters (TRI_AGGREGATE: its result) belong to the
 * library and may change at any moment: the caller neither writes nor READS them, unless it
 * set params_busy. With one process a forgotten params_busy may go unnoticed. At most once
 * per layer and iteration, and only for a layer that was synced since its last update:
 * else TRI_EARG, and nothing is sent. */
tri_status tri_update(tri_job *job, uint32_t layer, const tri_update_info *update, tri_error *err);

/* tri_update, for a program that can make the layer's step itself while its backward pass goes over
 * the parameters: there it costs next to nothing, later a pass of its own.
 *
 *     tri_sync(layer), forward           in every iteration, as ever
 *     tri_learn(layer, &update, &out)    update as for tri_update, with params_busy
 *     gradient of the layer's input      of its own samples, by the parameters as they are
 *     if (out.steps)                     in the memory of tri_shared(layer):
 *         rate = update.lr / update.count
 *         each own sample k:    weights[m] -= rate * u[k][m] * v[k]
 *                               bias[m] -= rate * u[k][m]
 *         each o of out.others: weights[m] -= rate * o.by * o.u[m] * o.v
 *                               bias[m] -= rate * o.by * o.u[m]
 *     tri_clock
 *
 * The others are samples of other ranks that this one has yet to step by. From the step on the
 * parameters are those of the next iteration. A job that is closed before tri_clock hands over what
 * was stepped. If `steps` is 0 the call was a plain tri_update, and the library makes the step;
 * that may change from call to call: when there are more than TRI_OTHERS, say. It is always so
 * unless the mode is local, local = replicas, the update has factors or windows, and the layer is
 * read in place: tri_shared() was called for it. Fails as tri_update does, and *out is then of no
 * use. */
typedef struct tri_other {
    const float *u, *v; /* one sample: rows floats; cols, or window_floats */
    const uint32_t *at; /* windows: [rows], row m is stepped by v from at[m] on; else NULL */
    float by;           /* that rank's lr / count by this one's */
} tri_other;
#define TRI_OTHERS 16 /* the most of them */
typedef struct tri_learning {
    int steps;               /* non-zero: the program makes the step */
    uint32_t count;          /* of others */
    const tri_other *others; /* the library's, until tri_clock */
} tri_learning;
tri_status tri_learn(tri_job *job, uint32_t layer, const tri_update_info *update, tri_learning *out,
                     tri_error *err);

/* Waits until the layer may be used: with the update given in this iteration, if there is
 * one, else with those of all iterations before. Returns at once if it already may, so also
 * before the first update. Call it just before the layer's forward, so that communication
 * hides behind the layers nearer the input. Past timeout_ms: TRI_ETIMEOUT names who is missing;
 * nothing has changed hands, call it again or close. */
tri_status tri_sync(tri_job *job, uint32_t layer, tri_error *err);

/* The same for the first `rows` rows of the layer's weights and bias only (of TRI_EMBED: for all).
 * In an iteration `rows` only grows, and the last call is for all rows: then it is tri_sync. With
 * mode = local, local = replicas the updates of others are put in as it goes, so that rows are
 * used while a cache has them; elsewhere it is tri_sync. */
tri_status tri_sync_rows(tri_job *job, uint32_t layer, uint32_t rows, tri_error *err);

/* Or, for a program that can reckon with steps that are still to be made: the layer is as after
 * tri_sync once weights[m][n] += sum over k of u[k][m] * v[k][n], and bias[m] += sum over k of
 * u[k][m], are thought of. A product with x then costs a product with the weights as they are and
 * a few sums over rows and columns, and a pass that steps them is saved:
 *     y[m] = weights[m] . x + bias[m] + sum over k of u[k][m] * (v[k] . x + 1), the 1 for the bias
 *     dx   = weights^T dy + sum over k of v[k] * (u[k] . dy)
 * With mode = local, local = replicas, for large layers that were described with reads_pending;
 * elsewhere it is tri_sync, the count 0, and weights and bias are where they are then read. It
 * holds until the iteration ends, also after tri_update and without params_busy. */
typedef struct tri_pending {
    uint32_t count;              /* less than 64 + 32 x ranks x max_factor_rows */
    const float *u, *v;          /* count x rows, count x cols; the library's */
    const float *weights, *bias; /* where the layer is to be read: with reads_pending it may be
                                    somewhere else in every iteration */
} tri_pending;
tri_status tri_sync_pending(tri_job *job, uint32_t layer, tri_pending *out, tri_error *err);

/* Ends the iteration; does not wait for other workers. A layer that got no update in it
 * counts as zero with count 0 here, and its parameters are the library's from here to its
 * tri_sync, because other ranks may have updated it. If no rank did, it stays as it is and
 * the optimiser does not step (TRI_AGGREGATE: the result is zero). *clock (may be NULL) is
 * the number of iterations ended so far; it jumps ahead when this worker was slow and the
 * others let it catch up, so let it, not a counter of your own, end the loop. A worker that
 * the others have given up gets TRI_EEVICTED instead. */
tri_status tri_clock(tri_job *job, uint64_t *clock, tri_error *err);

/* Asks for a checkpoint when the clock is `clock`, or as soon after it as can be, beside those of
 * checkpoint_every: for the last iteration, say. Only the last request counts. Nothing happens
 * without a checkpoint folder, or on other ranks than 0. */
tri_status tri_save(tri_job *job, uint64_t clock, tri_error *err);

/* ---- learners of one machine (mode = local) ---- */

/* With mode = local (TRIDENT_MODE) the processes are learners of one machine around one set of
 * parameters in shared memory; docs/local.md is about it. tri_update writes into shared memory and
 * tri_clock hands over what there is as one gradient, which steps with its own lr and count as soon
 * as its turn comes (local = sync: when all learners have one). One count per gradient; lr may
 * differ by layer with optimizer sgd only (else TRI_EARG). The first tri_sync of an iteration finds
 * parameters as new as they are; later ones in the same iteration find the same.
 * local = replicas: every learner has parameters of its own, and makes the steps of all learners'
 * gradients there. tri_scheme_of() says sfb for layers whose updates are then factors or windows.
 */

/* Where the layer's shared parameters lie, for a program that reads them in place: nothing is
 * copied for this layer then, and the memory given to tri_layer is not used any more. Between
 * tri_clock and tri_sync they may be read, too; others step them at any time, except in sync mode
 * and with replicas, where they are this rank's own.
 * Valid until tri_close. Both are NULL in mode = network, and with `locked`. */
tri_status tri_shared(tri_job *job, uint32_t layer, float **weights, float **bias, tri_error *err);

/* local = direct, optimizer sgd: from here to tri_clock the program steps the memory of
 * tri_shared() itself, parameters -= lr x gradient, and gives no updates in this iteration. It is
 * counted as one gradient. TRI_EARG where that cannot be. */
tri_status tri_step(tri_job *job, tri_error *err);

/* No more updates come from this rank; its parameters become those of the end. In mode = local:
 * waits until all learners have finished, closed or died and all is applied (local = replicas: all
 * ranks have the same gradients then, added in different orders). Otherwise it syncs all layers.
 * For the rank that uses the result; the others may just close. */
tri_status tri_finish(tri_job *job, tri_error *err);

/* ---- 5. leave ---- */

/* Waits until what was handed over is applied everywhere, at most timeout_ms and not at all
 * after an error, tells the others, frees everything. All ranks close after the same
 * iteration; one that leaves before counts as lost. A failure here is not reported: call
 * tri_checksum before, if it matters. NULL is fine. */
void tri_close(tri_job *job);

/* ---- asking ---- */

/* A fact about the job by name, as text into out (at most cap bytes, always NUL-ended):
 * "workers", "servers", "batch", "layers", "params", "rule", "placement", "chunk_bytes", and
 * of a layer "scheme.fc6", "kind.fc6", "rows.fc6", "cols.fc6", "params.fc6", "chunks.fc6".
 * "mode" is "network" or "local"; in mode = local also "local", "learners.alive", "clock.first"
 * (the clock the job began at), "staleness.mean", "staleness.max", and counts of the gradients of
 * all learners: "gradients.pushed", "gradients.applied", "gradients.lost", "gradients.torn",
 * "gradients.partial", "gradients.discarded". "mode" and "local" can be asked before tri_start.
 * TRI_EARG for another name, with a suggestion. */
tri_status tri_query(const tri_job *job, const char *name, char *out, size_t cap, tri_error *err);

/* CRC-32C of all parameters in the order of tri_layer (weights, then bias), as
 * little-endian floats. Equal on all ranks after every clock under bsp. Local:
 * the other ranks need not call it. Syncs all layers, so call it after tri_clock. */
tri_status tri_checksum(tri_job *job, uint32_t *crc, tri_error *err);

/* Counters since tri_start. */
typedef struct tri_stats {
    uint64_t clocks;                     /* iterations ended, those before a resume counted */
    uint64_t sent_bytes, received_bytes; /* data, without headers */
    uint64_t header_bytes;               /* of what was sent */
    uint64_t messages;                   /* sent */
    double wait_s;                       /* inside tri_sync */
    uint32_t view;                       /* 1, and one more with each change of membership */
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
