/* The shared-memory parameter server: many learners on one machine around one set of weights.
 *
 * A job is a REGION, a piece of memory with a name that all its processes map. In it are the
 * layers' weights, what the optimiser remembers, and for each LEARNER a seat: who sits there, and a
 * queue of SLOTS for gradients, which only the learner fills and only the server empties.
 *
 *     create ---> region: weights | seat 0: slot slot | seat 1: slot slot | ...
 *     learner 0: refresh, compute, take, fill, publish --+
 *     learner 1: refresh, compute, take, fill, publish --+--> server: w -= lr g, in place
 *     watch:  progress, checkpoints, the dead and the stuck
 *
 * Four MODES:
 *   server  the server takes the queues in turn and makes a step of every gradient, with the lr it
 *           came with (asp). Without locks, learners read weights while they change (Hogwild);
 *           `locked` keeps readers and the writer apart.
 *   direct  there is no server: a learner's publish steps the shared weights itself.
 *   sync    a round is one gradient of every living learner: they are added up in the order of the
 *           seats, divided by the sum of their divisors, and stepped once. Who has published waits
 *           for the end of the round. Weights are read in place, and stand still meanwhile.
 *   replicas  there is no server and no one set of weights: every learner has a copy in the region
 *           and steps it by the gradients of all learners, its own too, each exactly once. What
 *           crosses from core to core is gradients, which may be factors and then are small, never
 *           lines of weights: the mode for processors whose cores share no cache. sgd only. The
 *           copies differ by the order of additions, no more. Who has fallen behind by all slots
 *           of another is waited for.
 *
 * Nothing here copies what need not be copied: a learner computes straight into a slot and reads
 * the weights where they lie. A learner that would rather have its own copies asks for a push and a
 * pull thread: it then fills one of two buffers of its own while the other is moved.
 *
 * DEATH. Any process may be killed at any instruction. What holds then:
 *   - A gradient that was not published is not applied, not even in part; it counts as `lost`.
 *   - A gradient that was published is applied exactly once, also when its learner is gone, and
 *     also when the server is killed and started again. The one exception is the gradient that a
 *     server was in the middle of: it is never applied again, and counts as `torn` (its effect is
 *     partly there; local_restore() takes it back out).
 *   - pushed = applied + waiting + torn + discarded, always, where `begun` = pushed + lost +
 *     (1 while a learner is filling one).
 *   - In direct mode a learner killed while it steps leaves a step that is partly there: `partial`.
 *   - In replicas mode a dead learner's copy is given up. Who sits down in its place copies that of
 *     another, who rests meanwhile between two iterations. Nothing is ever torn or partial.
 *   - Locks are taken up by the next who wants them; no wait is without end, and each says what it
 *     waits for.
 * Death of the machine is not covered by the region; checkpoints are for that.
 *
 * THREADS. A local_job may be used by any number of threads, but for local_close(). A learner is
 * one thread's (its own two threads apart). Learners may be threads of one process, too.
 *
 * Where a call waits, `wait_ms` of the options is the most; then TRI_ETIMEOUT says who is missing.
 * After local_stop() waiting calls return TRI_EEVICTED at once. docs/local.md has the pictures and
 * the layout; verify/local.pml is the model of the protocol. */
#ifndef TRIDENT_LOCAL_LOCAL_H
#define TRIDENT_LOCAL_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "mod/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

enum local_mode { LOCAL_SERVER, LOCAL_DIRECT, LOCAL_SYNC, LOCAL_REPLICAS };
#define LOCAL_MODES 4
const char *local_mode_name(enum local_mode mode); /* "server", "direct", "sync", "replicas" */
tri_status local_mode_find(const char *name, enum local_mode *out, tri_error *err);

enum {
    LOCAL_NAME_BYTES = 64, /* of jobs and layers, with the NUL */
    LOCAL_LEARNERS_MAX = 256,
    LOCAL_SLOTS_MAX = 64,
    LOCAL_STALE = 32, /* bars of the histogram; the last is for all that are older */
};
#define LOCAL_ANY UINT32_MAX

struct local_job;
struct local_learner;

/* ---- faults, for tests ---- */

/* Places at which a process can be made to die. */
enum local_step {
    LOCAL_AT_NOTHING,
    LOCAL_AT_TAKEN,     /* push: a slot is begun, nothing is in it */
    LOCAL_AT_HALF_FULL, /* push: half of it is (with a push thread), or it is full (without) */
    LOCAL_AT_PUBLISHED, /* push: the server may take it, but was not woken */
    LOCAL_AT_PULL,      /* pull: half of the weights are copied */
    LOCAL_AT_MARKED,    /* apply: it is written down what will be applied */
    LOCAL_AT_HALF_STEP, /* apply: half of the weights have stepped */
    LOCAL_AT_STEPPED,   /* apply: all have, and that is not written down */
    LOCAL_AT_COMMITTED, /* apply: it is, but nobody was told */
    LOCAL_AT_ROUND,     /* sync: a round is written down as done, its slots are not free yet */
    LOCAL_AT_READING,   /* lock: held for reading */
    LOCAL_AT_WRITING,   /* lock: held for writing */
    LOCAL_AT_SEATS,     /* lock: that of the seats is held, half of a change is made */
    LOCAL_AT_HELD,      /* snapshot: the server is held */
    LOCAL_AT_SET,       /* replicas: half of a set is written, under its lock */
    LOCAL_STEPS
};
const char *local_step_name(enum local_step step); /* "taken", ...; NULL past the end */

/* Calls hit() when `at` is reached for the nth time (0: the first) by this handle. */
struct local_faults {
    enum local_step at;
    uint32_t nth; /* counts down */
    void (*hit)(void *ctx, enum local_step at);
    void *ctx;
};

/* ---- a job and its region ---- */

struct local_layer_info {
    const char *name;
    uint32_t rows, cols; /* weights, one row behind the other */
    bool bias;           /* rows more of them, behind the matrix */
    /* 0: gradients of this layer are dense. More: they are rows, so many at most; a slot then has
     * room for these only, unless dense ones may come as well. */
    uint32_t max_rows;
    bool dense_too;
    /* replicas. 0: no factors. More: gradients are factors of so many samples at most, and dense
     * ones only with dense_too. window: floats of v a sample, and factors are windows; 0: cols */
    uint32_t max_factors, window;
    /* replicas, factors that are no windows: the layer lies there once for all learners, in two
     * sets, instead of once for each. It is read by local_pend() or local_copy(). */
    bool common;
};

struct local_options {
    const struct mem *mem; /* borrowed, as is log; both until local_close() */
    const struct log *log; /* NULL: silent */
    const char *name;      /* of the job: letters, digits, '-', '_', '.' */
    const char *folder;    /* NULL: /dev/shm, or /tmp when there is too little room */
    enum local_mode mode;
    bool locked;
    uint32_t learners;         /* seats */
    uint32_t slots;            /* per learner; 0: 2; replicas: up to 16, as memory allows */
    const struct optim *optim; /* NULL: sgd */
    const struct local_layer_info *layers;
    uint32_t layer_count;
    uint32_t wait_ms; /* 0: 30000 */
};

/* Makes the region; weights are zero. Its memory is set aside at once: later nobody dies of a lack
 * of it. A region of that name whose processes are all gone is replaced.
 * TRI_EINPUT: a name, a number or a layer that cannot be, no room (with what to do), a job of that
 * name that lives. TRI_ENOMEM, TRI_EIO. */
tri_status local_create(const struct local_options *options, struct local_job **out,
                        tri_error *err);

/* Maps the region of a job. Of the options only mem, log, name, folder and wait_ms are looked at;
 * the rest is in the region. TRI_EINPUT: there is none (it waits for one, for wait_ms), or it is of
 * another version. */
tri_status local_attach(const struct local_options *options, struct local_job **out,
                        tri_error *err);

/* What one who looks for a job in passing does with the handle that it has found: waits are as long
 * as wait_ms of the options says (0: 30000) from here on. Before any other thread uses it. */
void local_set_wait(struct local_job *job, uint32_t wait_ms);

void local_close(struct local_job *job);  /* unmaps; the region stays. NULL is fine */
void local_remove(struct local_job *job); /* the name goes, and the memory with the last process */

/* Removes regions that nobody uses: no process has them mapped and none of the processes that are
 * written down in them lives. folder NULL: those of local_create(). *removed counts. */
tri_status local_sweep(const char *folder, const struct mem *mem, const struct log *log,
                       uint32_t *removed, tri_error *err);

/* From here on the server returns and waits end; for good. */
void local_stop(struct local_job *job);
bool local_stopping(const struct local_job *job);

/* faults NULL: none. Borrowed. Before any other thread uses the handle. */
void local_set_faults(struct local_job *job, struct local_faults *faults);

/* The same from a text: "1:taken:3" kills the process of learner 1 (`who` is a seat) when it
 * comes to that step for the third time, "server:marked:2" that of the server (LOCAL_ANY); several
 * are apart by commas, and `who` has at most one. Only the first to sit there dies: who is started
 * again lives. To be called before sitting down; text may be NULL, faults is borrowed until
 * local_close(). TRI_EINPUT: it says something else, or what this job does not have. */
tri_status local_faults_arm(struct local_job *job, uint32_t who, const char *text,
                            struct local_faults *faults, tri_error *err);

struct local_layer {
    char name[LOCAL_NAME_BYTES];
    uint32_t rows, cols;
    uint32_t bias; /* 0 or rows */
    uint32_t max_rows;
    uint32_t max_factors, window;      /* window: 0, or floats of v where factors are windows */
    uint32_t dense;                    /* gradients may be dense */
    uint32_t common;                   /* lies there once, in two sets */
    uint64_t floats;                   /* rows * cols + bias */
    uint64_t offset;                   /* in a snapshot, in floats; a multiple of 16 */
    uint64_t place;                    /* likewise in a copy of the weights, or in a set */
    uint64_t room_offset, room_floats; /* in the values of a slot */
};

struct local_about {
    const char *name, *path; /* path: the region's file */
    enum local_mode mode;
    bool locked;
    uint32_t learners, slots, layer_count;
    const struct local_layer *layers;
    struct optim optim;
    uint64_t floats;     /* of the weights with the gaps between layers */
    uint64_t bytes;      /* of the region */
    uint64_t slot_bytes; /* what one more slot costs */
};
void local_about(const struct local_job *job, struct local_about *out); /* until local_close() */

/* A layer's weights, where they lie, for initial values before learners start and for reading. In
 * direct mode a learner may write to them between local_direct_begin() and local_direct_end(). In
 * replicas mode they are what learners begin with, and those of the last who has left. */
float *local_shared(const struct local_job *job, uint32_t layer);

/* ---- learners ---- */

struct local_learner_options {
    uint32_t seat;    /* LOCAL_ANY: a free one */
    bool push_thread; /* gradients are made in buffers of the learner's own, and moved by it */
    bool pull_thread; /* weights are read from a copy, which it brings up to date. Not in sync */
    /* So many iterations may begin on the same copy while a newer one is on its way. 0: 4. With 1
     * an iteration waits for the copy that was asked for when the last began (GaDei's way). */
    uint32_t reuse;
};

/* Sits down. A seat whose learner has left or is dead may be taken again: its counts go on, and
 * what the dead one published will still be applied. TRI_EINPUT: it is taken by a living one, or
 * there is none free; TRI_ENOMEM; TRI_EIO. */
tri_status local_join(struct local_job *job, const struct local_learner_options *options,
                      struct local_learner **out, tri_error *err);

/* Waits (wait_ms at most) until the push thread is done, and gets up; what is published will be
 * applied. NULL is fine. */
void local_leave(struct local_learner *learner);

/* An iteration begins: weights are as new as they will get. In sync mode waits for the end of the
 * round that this learner's last gradient is in. */
tri_status local_refresh(struct local_learner *learner, tri_error *err);

/* A layer's weights for this iteration: shared ones, or those of the pull thread. Until the next
 * local_refresh(). In replicas mode the learner's own, at the same place until local_close(), but
 * for common layers, which lack what local_pend() tells. */
const float *local_weights(const struct local_learner *learner, uint32_t layer);

/* A copy of them, as local_refresh() and local_catch_up() have left them, with all steps made. bias
 * is not looked at where the layer has none. */
void local_copy(const struct local_learner *learner, uint32_t layer, float *weights, float *bias);

/* The number of gradients that were in these weights; the staleness of the next gradient is counted
 * from it. */
uint64_t local_version(const struct local_learner *learner);

/* Room for a gradient, with no layer in it. Waits for a free slot, or (push thread) for a free
 * buffer. One at a time; local_publish() or local_drop() ends it. */
struct local_gradient;
tri_status local_take(struct local_learner *learner, struct local_gradient **out, tri_error *err);

/* Where a layer's gradient goes: its floats, dense, with the bias behind the matrix. Not zeroed:
 * all of it must be written. NULL: the layer takes rows only. 64-byte aligned. */
float *local_dense(struct local_gradient *gradient, uint32_t layer);

/* Or `count` of its rows: numbers[i] is the row whose cols values, and its bias behind them if
 * the layer has one, are at values + i * (cols + (bias ? 1 : 0)). A row that comes twice is added
 * twice. False: the layer takes none, or not so many. */
struct local_rows {
    uint32_t *numbers;
    float *values;
    uint32_t stride;
};
bool local_rows(struct local_gradient *gradient, uint32_t layer, uint32_t count,
                struct local_rows *out);

/* replicas: or factors of `count` samples, u of count x rows and v of count x width floats (the
 * layer's window, or cols). Row m of the gradient is the sum over k of u[k][m] times the cols
 * floats of v[k] from at[k][m] on; at is NULL where factors are no windows: then it is 0. The
 * gradient of a bias is the sum of u over k. False: the layer takes none, or not so many. */
struct local_factors {
    float *u, *v;
    uint32_t *at;
    uint32_t width;
};
bool local_factors(struct local_gradient *gradient, uint32_t layer, uint32_t count,
                   struct local_factors *out);

/* Hands the gradient over: w -= lr * (gradient / divisor), or what the optimiser makes of that.
 * TRI_EARG: none was taken, or a row number is out of range. */
tri_status local_publish(struct local_learner *learner, float lr, float divisor, tri_error *err);
void local_drop(struct local_learner *learner); /* gives it back unused */

/* replicas: the first `rows` rows of a layer (and of its bias) are as local_refresh() promised;
 * more are, once more are asked for. Rows that nobody asks for follow with local_publish(), or with
 * the next local_refresh(). One thread at a time. In other modes it does nothing. */
void local_catch_up(struct local_learner *learner, uint32_t layer, uint32_t rows);

/* replicas: instead of that, for who can reckon with steps that are still to be made: the layer is
 * as if w[m][n] += sum over k of u[k][m] * v[k][n], and bias[m] += sum over k of u[k][m]. So it is
 * until the next local_refresh(), or until local_settle() or (not of a common layer)
 * local_catch_up() makes the steps. None in other modes, and of layers whose gradients are no
 * factors, or windows. */
struct local_pending {
    const float *weights; /* where the layer lies in this iteration, as local_weights() says */
    size_t count;
    const float *u, *v; /* count x rows, count x cols; the learner's */
};
void local_pend(struct local_learner *learner, uint32_t layer, struct local_pending *out);

/* replicas, between local_take() and local_publish(): the learner itself steps this layer of its
 * copy, while it passes over it anyway. The layer's factors are in the gradient; lr and divisor are
 * those of local_publish(). True: before it publishes it adds -lr / divisor times its own gradient
 * and those of these samples, each of which counts `by` times. False: it does not, and steps are
 * made as ever: of layers of other forms, of common ones, when there are too many, in other modes.
 * From the first True on the gradient is not dropped: local_drop() publishes what was stepped. */
enum { LOCAL_OTHERS = TRI_OTHERS };
struct local_other {
    const float *u, *v; /* as in struct local_factors, of one sample */
    const uint32_t *at;
    float by;
};
struct local_others {
    size_t count;
    struct local_other at[LOCAL_OTHERS];
};
bool local_learn(struct local_learner *learner, uint32_t layer, float lr, float divisor,
                 struct local_others *out);

/* replicas: makes all steps that are still to be made: between two iterations, before a pause in
 * which others may want a copy. Of common layers that may mean to wait for the lock of who makes
 * such steps, and until nobody reads an old set: TRI_ETIMEOUT, TRI_EEVICTED. In other modes it does
 * nothing. */
tri_status local_settle(struct local_learner *learner, tri_error *err);

/* Waits until all that this learner has published is applied. */
tri_status local_flush(struct local_learner *learner, tri_error *err);

/* Says "I am alive" in a long iteration. local_refresh() and local_publish() say it, too. */
void local_touch(struct local_learner *learner);

/* Direct mode, for kernels that step the shared weights themselves while they compute: what is
 * between the two is one gradient. `locked` jobs are locked between them. */
tri_status local_direct_begin(struct local_learner *learner, tri_error *err);
void local_direct_end(struct local_learner *learner);

uint32_t local_seat(const struct local_learner *learner);

/* ---- the server ---- */

enum local_torn {
    LOCAL_TORN_KEEP, /* go on with the weights as they are: a step or two among many */
    LOCAL_TORN_FAIL, /* return TRI_EPEER, until local_restore() has put a checkpoint back */
};

struct local_serve_options {
    uint32_t threads; /* that update; 0: 1 */
    /* Return when every learner has left (or is dead, if there is no watchdog to start another) and
     * all is applied. Otherwise only local_stop() ends it. */
    bool until_done;
    enum local_torn torn;
    /* sgd without a lock: from so many weights on, a second gradient comes along where the first
     * goes over the weights. If the server dies, both are torn. 0: 524,288. */
    uint64_t pair_floats;
};

/* Serves, in the calling thread. One at a time per job: TRI_EINPUT when another one lives. What a
 * dead one left is taken up. TRI_EMISMATCH: sync, and learners give different lr. */
tri_status local_serve(struct local_job *job, const struct local_serve_options *options,
                       tri_error *err);

/* ---- what is going on ---- */

enum local_seat_state { LOCAL_SEAT_FREE, LOCAL_SEAT_TAKEN, LOCAL_SEAT_LEFT, LOCAL_SEAT_DEAD };

struct local_counts {
    uint64_t begun, pushed, applied, waiting;
    uint64_t lost;      /* begun, never published: their learner died */
    uint64_t torn;      /* a server died in the middle of them */
    uint64_t discarded; /* taken back by local_restore(), or too late for their round */
    uint64_t partial;   /* direct mode: a learner died in the middle of them */
    uint64_t pulls, pulls_skipped;
    uint64_t stale[LOCAL_STALE]; /* gradients by how many others were applied since their weights */
    uint64_t stale_sum, stale_max;
};

struct local_seat_stats {
    enum local_seat_state state;
    bool alive;
    uint64_t pid;
    uint32_t joins;   /* how often the seat was taken */
    uint64_t clock;   /* iterations begun */
    uint64_t idle_us; /* since the last sign of life */
    struct local_counts counts;
};

struct local_stats {
    uint64_t version; /* gradients in the weights (sync: rounds) */
    uint64_t round;
    uint32_t taken, alive, left, dead; /* seats */
    bool server_alive;
    uint64_t server_pid;
    uint32_t server_starts;
    uint64_t locks_taken_up;    /* from dead holders */
    struct local_counts counts; /* of all seats */
};

/* Exact when nothing moves; a gradient in motion may be seen in two places or none. */
void local_stats(const struct local_job *job, struct local_stats *out);
void local_seat_stats(const struct local_job *job, uint32_t seat, struct local_seat_stats *out);

/* ---- snapshots ---- */

struct local_snapshot {
    uint64_t version;
    uint64_t floats, state_floats;
    float *weights;    /* [floats], as in the region: layer i from its offset */
    float *state;      /* [state_floats] of the optimiser */
    uint64_t *steps;   /* [layers] that the layer had made before it was copied */
    uint64_t *applied; /* [learners] */
    bool exact;        /* no gradient is partly in it */
};

tri_status local_snapshot_open(const struct local_job *job, struct local_snapshot *out,
                               tri_error *err); /* room only */
void local_snapshot_close(const struct local_job *job, struct local_snapshot *snapshot);

/* Copies the weights while learners go on. With a server (server and sync mode) it is exact: the
 * server rests between two gradients meanwhile, for as long as the copying takes, and goes on by
 * itself if this process dies. In direct mode it is exact when the job is `locked`; without, each
 * layer is copied as it is, and `steps` tell how far each had come. One at a time per job;
 * others wait. */
tri_status local_snapshot_take(struct local_job *job, struct local_snapshot *out, tri_error *err);
/* replicas: the same of this learner's own copy, by its own thread, between local_publish() and
 * local_refresh(). local_snapshot_take() asks another learner to rest, and would wait for it. */
tri_status local_snapshot_own(struct local_learner *learner, struct local_snapshot *out,
                              tri_error *err);

/* Puts a snapshot back, of this region or of an earlier one with the same layers, while no server
 * lives (TRI_EARG): weights, the optimiser's memory and the counts of what is applied become the
 * snapshot's. What was applied since becomes `discarded`, and with `drain` what waits in the
 * queues, too; then no learner may live, either. */
tri_status local_restore(struct local_job *job, const struct local_snapshot *snapshot, bool drain,
                         tri_error *err);

/* ---- the watchdog ---- */

struct local_watch_options {
    uint32_t period_ms;     /* between two looks; 0: 200 */
    uint32_t report_ms;     /* between two lines of progress in the log; 0: none */
    uint32_t checkpoint_ms; /* between two checkpoints; 0: one, at the start */
    uint32_t stuck_ms;      /* a learner without a sign of life for so long is killed; 0: never */
    uint32_t grace_ms;      /* a seat must be taken so long after a start; 0: 30000 */
    uint32_t tries;         /* starts from a checkpoint after all were dead; then TRI_EPEER */
    bool restart_learners;  /* one by one, as they die; else the rest goes on without */
    uint32_t restarts;      /* of one learner, at most; 0: 3 */
    void *ctx;
    /* All are called from the thread of local_watch(), and may be NULL: then it is not done. */
    tri_status (*save)(void *ctx, const struct local_snapshot *snapshot, tri_error *err);
    tri_status (*start_server)(void *ctx, tri_error *err);
    /* If one dies before it sits down the watchdog waits for it until grace_ms have passed, or
     * until the caller says local_give_up(). */
    tri_status (*start_learner)(void *ctx, uint32_t seat, tri_error *err);
    /* A learner is gone: forget it, reap it. */
    void (*dead)(void *ctx, uint32_t seat, uint64_t pid, bool stuck);
    /* Every period: reap children, watch for signals. False ends the watch (TRI_EEVICTED). */
    bool (*each)(void *ctx, const struct local_stats *stats);
};

struct local_watch_report {
    uint32_t deaths, stuck, learner_restarts, server_restarts, full_restarts, checkpoints;
    uint32_t given_up; /* learners that the others went on without, since all were started last */
};

/* Watches over a job until every learner has left and all is applied (TRI_OK), until nothing is
 * left and tries are used up (TRI_EPEER, with the reason), or local_stop(). With a server and
 * start_server, a dead server is started again, after the last checkpoint was put back if a
 * gradient was torn. When no learner is left and work is not done, everything is started again from
 * the last checkpoint. Meant for a process of its own; a new one may take over from a dead one.
 * `from` is the last checkpoint, best taken before server and learners start; NULL: the weights
 * now. */
tri_status local_watch(struct local_job *job, const struct local_watch_options *options,
                       const struct local_snapshot *from, struct local_watch_report *report,
                       tri_error *err);

/* What the watchdog uses, for those who watch by themselves. Marks the seats of dead processes and
 * frees what they held; returns how many are new. */
uint32_t local_bury(struct local_job *job);
/* The seat is not waited for any more: a sync round and the server's end go without it. A learner
 * may still sit down there. */
void local_give_up(struct local_job *job, uint32_t seat);
bool local_done(const struct local_job *job); /* all have left, and all is applied */
/* replicas: all who had a copy are dead, and what they did cannot be had from their slots. Who sits
 * down waits for local_restore(), if there is a watchdog; else it begins with what is left. */
bool local_copies_lost(const struct local_job *job);

#ifdef __cplusplus
}
#endif

#endif
