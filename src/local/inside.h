/* The inside of a job, for the files of src/local.
 *
 * What lies in the region is plain integers, touched by the compiler's atomic builtins: headers
 * here compile as C++, too, which knows no _Atomic. load(), store() and bump() say the order. The
 * comments "local.pml: x" in the .c files name the step of verify/local.pml that is x. */
#ifndef TRIDENT_LOCAL_INSIDE_H
#define TRIDENT_LOCAL_INSIDE_H

#include <pthread.h>

#include "local/local.h"
#include "local/update.h"
#include "os/alive.h"
#include "os/event.h"
#include "os/region.h"
#include "os/robust.h"

#ifdef TRIDENT_HELGRIND
#include <valgrind/helgrind.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what lies in the region ---- */

#define LOCAL_MAGIC "TRILOCAL"
enum {
    LOCAL_LAYOUT = 6, /* another number for another layout: processes of a job must agree */
    LINE = 64,        /* bytes */
    FLOATS = LINE / 4,
    SLICE_MS = 100,  /* how long one sleep of a wait is: then it looks for the dead */
    BLOCK = 1 << 15, /* floats that one thread steps at a time */
};

struct seat {
    /* under head.seats */
    uint64_t sitting; /* enum local_seat_state, and above JOINS_SHIFT how often the seat was taken:
                         one store commits both. Written after `who` */
    struct alive_id who;
    uint32_t given_up;
    uint32_t reads, whole, done; /* replicas: its row of `taken` counts; its copy may be copied; it
                                    publishes no more */
    char pad0[LINE - 40];        /* each group has a line of its own: others must not miss on it */
    /* the learner's */
    uint64_t begun; /* slots taken ever */
    uint64_t head;  /* slots published ever: the commit of a push */
    uint64_t clock;
    uint64_t progress_us;
    uint64_t pulls, pulls_skipped;
    uint32_t holding; /* a slot is being filled */
    uint32_t quiet;   /* replicas: its copy is what its row of `taken` says, and stays so until this
                         is 0. Sequentially consistent, with head.hold */
    uint64_t reads_set; /* replicas: the set it reads, 0: none. Likewise, with head.set */
    /* the server's */
    uint64_t tail; /* slots done with ever, and above TORN_SHIFT how many of them torn: one store
                      commits both */
    uint64_t round_seq; /* sync: the tail after the round that is being applied */
    uint64_t discarded;
    uint64_t carried; /* applied in an earlier region */
    char pad2[LINE - 32];
    /* events */
    uint32_t space;   /* the tail has moved */
    uint32_t reading; /* holds the lock for reading */
    uint32_t cpu;     /* where the learner waits for space */
    char pad3[LINE - 12];
    uint64_t stale[LOCAL_STALE]; /* the server's; in direct mode the learner's */
    uint64_t stale_sum, stale_max;
    char pad4[LINE - 16];
};

enum { TORN_SHIFT = 48, JOINS_SHIFT = 32 };

struct head {
    char magic[8];
    uint32_t layout, head_bytes, seat_bytes, mode;
    uint32_t locked, learners, slots, layer_count;
    uint64_t bytes, floats, slot_bytes, room_offset; /* room: of the values in a slot, in bytes */
    uint64_t layers_at, counts_at, seats_at, taken_at, weights_at, sets_at, state_at, slots_at;
    uint64_t copies, copy_floats; /* of the weights: 1; replicas: one for each seat behind it */
    uint64_t set_floats;          /* of common layers: see sets.h; 0: there are none */
    uint64_t state_floats;
    float optim_args[TRI_OPTIMIZER_ARGS];
    char optim_name[32];
    char name[LOCAL_NAME_BYTES];
    struct alive_id creator;

    pthread_mutex_t seats;    /* who sits where, who serves, who watches */
    pthread_mutex_t writer;   /* `locked`: who writes */
    pthread_mutex_t snapshot; /* who takes one */
    pthread_mutex_t maker;    /* who makes a set */
    struct alive_id server, watch, snapshooter;
    uint32_t server_starts; /* written after `server` */
    uint32_t stopping;
    uint64_t locks_taken_up;

    char pad0[LINE];
    uint64_t version;
    uint64_t changes; /* goes up whenever weights change; version may go back */
    uint64_t round;
    uint64_t version_next; /* sync: what the version will be after the round that is applied */
    uint64_t applying[2];  /* 0, or what the server is in the middle of: see passes.c */
    uint64_t torn_noted;   /* of the gradients that are torn, how many somebody has taken note of */
    uint64_t version_base; /* version less the sum of what the seats have applied */
    uint32_t writing;      /* the lock is held for writing, or about to be */
    uint32_t hold, held;   /* somebody wants another to rest, and copies; it does: hold_word() */
    uint32_t hold_number;  /* under the lock of snapshots */
    uint32_t joined;       /* replicas: how often somebody began to read. Sequentially consistent */
    uint32_t base; /* replicas: whose copy it is that nobody reads and who comes begins with: that
                      of the last who has left, or (learners) the one the region was filled with */
    uint32_t lock_event;
    char pad1[LINE];
    uint64_t set;      /* the number of the set that is read: sets.h. Sequentially consistent */
    uint32_t makes;    /* who has the lock of makers, or had it last */
    uint32_t draining; /* somebody waits until nobody reads the set before it. Likewise */
    char pad4[LINE];
    uint32_t work; /* event: something for the server to do */
    char pad2[LINE];
    uint32_t news; /* event: the version or the round is another */
    char pad3[LINE];
};

/* The gradient of one layer in a slot. */
enum form { FORM_NONE, FORM_DENSE, FORM_ROWS, FORM_FACTORS };
struct part {
    uint32_t form;
    uint32_t count; /* of rows, or of samples of factors */
};

/* A slot: this, a struct part per layer, and from head.room_offset on the values. */
struct slot {
    uint64_t clock;
    uint64_t version; /* of the weights it was computed from */
    float lr, divisor;
    struct part parts[];
};

/* Helgrind does not know acquire and release: tools/helgrind has it told. */
#ifdef TRIDENT_HELGRIND
#define SEEN(word)                                                                                 \
    do {                                                                                           \
        VALGRIND_HG_DISABLE_CHECKING(word, sizeof *(word));                                        \
        ANNOTATE_HAPPENS_AFTER(word);                                                              \
    } while (0)
#define SAID(word)                                                                                 \
    do {                                                                                           \
        VALGRIND_HG_DISABLE_CHECKING(word, sizeof *(word));                                        \
        ANNOTATE_HAPPENS_BEFORE(word);                                                             \
    } while (0)
#else
#define SEEN(word) ((void)0)
#define SAID(word) ((void)0)
#endif

static inline uint64_t load(const uint64_t *word)
{
    uint64_t value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    SEEN(word);
    return value;
}

static inline void store(uint64_t *word, uint64_t value)
{
    SAID(word);
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline uint32_t load32(const uint32_t *word)
{
    uint32_t value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    SEEN(word);
    return value;
}

static inline void store32(uint32_t *word, uint32_t value)
{
    SAID(word);
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline void bump(uint64_t *word, uint64_t by)
{
    SAID(word);
    (void)__atomic_fetch_add(word, by, __ATOMIC_ACQ_REL);
    SEEN(word);
}

/* An id is written under head.seats and read without. */
static inline struct alive_id load_id(const struct alive_id *id)
{
    struct alive_id out;
    out.start = load(&id->start);
    out.pid = load(&id->pid);
    return out;
}

static inline void store_id(struct alive_id *id, struct alive_id value)
{
    store(&id->start, value.start);
    store(&id->pid, value.pid);
}

/* ---- a handle ---- */

/* A piece of a layer that one thread steps. */
struct block {
    uint32_t layer, count;
    uint64_t first; /* in the layer */
};

struct local_job {
    const struct mem *mem;
    const struct log *log;
    struct region region;
    struct head *head;
    struct seat *seats; /* one more than learners: the last is for snapshots */
    struct local_layer *layers;
    uint64_t *changes; /* per layer, as head.changes */
    uint64_t *steps;   /* per layer: made so far; replicas: published */
    uint64_t *taken;   /* replicas: see replica.c */
    float *weights, *sets, *state;
    unsigned char *slots;
    struct optim optim;
    bool plain; /* sgd */
    update_sgd *sgd;
    update_sgd_two *two;
    struct block *blocks;
    size_t block_count;
    uint32_t wait_ms;
    struct local_faults *faults;
};

struct local_gradient {
    const struct local_job *job;
    struct slot *slot;
};

/* job.c */
void local_fault(struct local_faults *faults);
static inline void reach(const struct local_job *job, enum local_step at)
{
    if (job->faults != NULL && job->faults->at == at)
        local_fault(job->faults);
}

/* Learners hand gradients to a server; else they step by themselves. */
static inline bool has_server(const struct local_job *job)
{
    return job->head->mode == LOCAL_SERVER || job->head->mode == LOCAL_SYNC;
}
static inline bool has_replicas(const struct local_job *job)
{
    return job->head->mode == LOCAL_REPLICAS;
}

/* layout.c: sizes and places. */
tri_status local_layout_make(const struct local_options *options, struct head *head,
                             struct local_layer *layers, tri_error *err);
/* A region from a file that claims to be one: TRI_EINPUT when it is none of ours. */
tri_status local_layout_check(const void *base, size_t bytes, tri_error *err);
uint32_t layer_stride(const struct local_layer *layer); /* floats of a row with its bias */

/* wait.c: one wait, from its beginning to its deadline. */
struct wait {
    const struct local_job *job;
    uint64_t since_us, deadline_us;
};
struct wait wait_begin(const struct local_job *job);
/* Sleeps a slice. TRI_OK: look again (*idle when nothing woke us); TRI_EEVICTED; TRI_ETIMEOUT: the
 * caller says for what. */
tri_status wait_more(const struct wait *wait, uint32_t *event, uint32_t key, bool *idle);
/* The report of a wait that failed. who: "learner 2"; what: "a free slot". */
tri_status wait_failed(const struct wait *wait, tri_status status, const char *who,
                       const char *what, tri_error *err);
/* Takes one of the three locks of the head; *taken_up may be NULL. */
tri_status lock_take(struct local_job *job, pthread_mutex_t *lock, const char *what, bool *taken_up,
                     tri_error *err);

/* lock.c: readers and a writer. No effect in jobs that are not `locked`. seat: whose flag. */
tri_status lock_read(struct local_job *job, uint32_t seat, tri_error *err);
void unlock_read(struct local_job *job, uint32_t seat);
tri_status lock_write(struct local_job *job, tri_error *err);
void unlock_write(struct local_job *job);

/* seats.c */
static inline uint32_t state_of(const struct seat *seat)
{
    return (uint32_t)load(&seat->sitting);
}
static inline uint32_t joins_of(const struct seat *seat)
{
    return (uint32_t)(load(&seat->sitting) >> JOINS_SHIFT);
}
/* State and sitter that belong together: who sits down or leaves meanwhile is not taken for dead.
 */
struct sitter {
    uint32_t state, joins;
    struct alive_id who;
    bool alive; /* it sits there, and lives */
};
struct sitter seat_sitter(const struct seat *seat);
tri_status seat_take(struct local_job *job, uint32_t wish, uint32_t *out, tri_error *err);
void seat_leave(struct local_job *job, uint32_t seat);
bool seat_is_dead(const struct local_job *job, uint32_t seat);

/* queue.c */
static inline uint64_t tail_of(const struct seat *seat)
{
    return load(&seat->tail) & (((uint64_t)1 << TORN_SHIFT) - 1);
}
static inline uint64_t torn_of(const struct seat *seat)
{
    return load(&seat->tail) >> TORN_SHIFT;
}
static inline uint64_t waiting_in(const struct seat *seat)
{
    return load(&seat->head) - tail_of(seat);
}
struct slot *slot_at(const struct local_job *job, uint32_t seat, uint64_t number);
tri_status queue_begin(struct local_job *job, uint32_t seat, struct slot **out, tri_error *err);
void queue_publish(struct local_job *job, uint32_t seat);
void queue_cancel(struct local_job *job, uint32_t seat);
void queue_finish(struct local_job *job, uint32_t seat, bool torn); /* by the server */
uint64_t seat_applied(const struct local_job *job, const struct seat *seat);
uint64_t version_by_counts(const struct local_job *job);

/* snapshot.c: `target` (a seat, or HOLD_SERVER) is to rest between two steps of its. A number makes
 * every wish another: an answer to the last is not taken for one to this. */
enum { HOLD_SERVER = LOCAL_LEARNERS_MAX, HOLD_BITS = 10 };
enum { HOLD_ANY_MS = INT32_MAX }; /* no limit but that of the job's waits */
static inline uint32_t hold_word(uint32_t number, uint32_t target)
{
    return number << HOLD_BITS | (target + 1);
}
static inline bool is_held(const struct local_job *job, uint32_t target, uint32_t *word)
{
    *word = __atomic_load_n(&job->head->hold, __ATOMIC_SEQ_CST);
    SEEN(&job->head->hold);
    return (*word & ((1U << HOLD_BITS) - 1)) == target + 1;
}
/* Rests if it is to. Somebody copies: it is soon over, and if it dies its wish is taken off here.
 */
void rest_if_held(struct local_job *job, uint32_t target);
static inline bool is_quiet(const struct seat *seat)
{
    const uint32_t quiet = __atomic_load_n(&seat->quiet, __ATOMIC_SEQ_CST);
    SEEN(&seat->quiet);
    return quiet != 0;
}

/* Somebody's copy that may be copied: a learner's, who rests (exact), or the base's, if no learner
 * has one. Holds the lock of snapshots until source_let_go(), also if it dies. Not `except`. */
struct source {
    uint32_t reader;
    bool exact;
};
tri_status source_hold(struct local_job *job, uint32_t except, uint32_t most_ms, struct source *out,
                       tri_error *err);
void source_let_go(struct local_job *job);
void copy_own_layers(const struct local_job *job, uint32_t reader, float *to); /* not common ones */

/* replica.c: who has which gradients. */
uint64_t *taken_row(const struct local_job *job, uint32_t reader); /* learners: of the first base */
float *copy_of(const struct local_job *job, uint32_t reader);
bool seat_reads(const struct seat *seat);     /* its row of `taken` counts */
uint32_t joined(const struct local_job *job); /* head.joined */
bool is_watched(const struct local_job *job); /* a watchdog lives */
bool has_room(const struct local_job *job, uint32_t writer, uint32_t *lagging);
uint64_t version_of_row(const struct local_job *job, const uint64_t *row);
void wake_all(struct local_job *job); /* learners that wait */

/* gradient.c */
struct local_factors gradient_factors(const struct local_job *job, const struct slot *slot,
                                      uint32_t layer);
float *gradient_room(const struct local_job *job, const struct slot *slot, uint32_t layer);
struct local_rows gradient_rows(const struct local_job *job, const struct slot *slot,
                                uint32_t layer);
void gradient_clear(const struct local_job *job, struct slot *slot);
void gradient_copy(const struct local_job *job, struct slot *to, const struct slot *from);
tri_status gradient_check_layer(const struct local_job *job, const struct slot *slot,
                                uint32_t layer, tri_error *err);
tri_status gradient_check(const struct local_job *job, const struct slot *slot, tri_error *err);
/* A slot's memory that is not in the region; NULL when refused. Freed by mem_free(*base). */
struct slot *gradient_private(const struct local_job *job, void **base);

/* crew.c: threads that share blocks of work. */
struct crew;
typedef void crew_work(void *ctx, size_t block, float *scratch); /* scratch: BLOCK floats */
tri_status crew_open(struct local_job *job, uint32_t threads, struct crew **out, tri_error *err);
void crew_close(struct crew *crew);
void crew_share(struct crew *crew, crew_work *work, void *ctx, size_t blocks);
/* between() is called by the caller's thread after each block that it has worked on. */
typedef void crew_between(void *ctx);
void crew_share_between(struct crew *crew, crew_work *work, crew_between *between, void *ctx,
                        size_t blocks);
/* Wakes who waits for the event, with several threads when the next run is dealt out: who is woken
 * takes a core from one of them, and then the others have its blocks to work on. It is done by the
 * thread on that `cpu`, if there is one, and before the next run if that has nothing to do: waking
 * across cores costs an interrupt, some 14 microseconds of a virtual machine's time. */
void crew_wake_later(struct crew *crew, uint32_t *event, uint32_t cpu);
/* No run comes soon. True: somebody may have slept. */
bool crew_wake_due(struct crew *crew);
bool crew_wake_here(struct crew *crew); /* the same, of who waits on the caller's processor */

/* apply.c */
void apply_gradient(struct local_job *job, struct crew *crew, const struct slot *slot);
/* What is dense of a gradient goes over the blocks that it has not passed, and what is dense of
 * another comes along, for each weight after it, from when it is there. That one: sgd. */
struct apply_pass {
    struct local_job *job;
    const struct slot *slot, *second; /* second: NULL, or set by look() or before */
    const unsigned char *passed;      /* by block: the first has; NULL: none */
    unsigned char *second_passed;     /* likewise; is written */
    crew_between *look;               /* in the caller's thread, with the pass; or NULL */
};
void apply_dense(struct crew *crew, struct apply_pass *pass);
void apply_second(struct apply_pass *pass, const struct slot *second); /* from now on */
void apply_rows(struct local_job *job, struct crew *crew, const struct slot *slot);
bool slot_has(const struct local_job *job, const struct slot *slot, enum form form);
void slot_changed(struct local_job *job, const struct slot *slot); /* one more step of its layers */
void layers_changed(struct local_job *job, uint32_t layer);        /* one more step */
void count_stale(struct seat *seat, uint64_t version, uint64_t base);
/* Of one layer: n values at `first` step by mean; scratch as above. */
struct step {
    float lr, divisor;
    uint64_t steps;
    float *scratch;
};
void step_values(const struct local_job *job, uint32_t layer, uint64_t first, size_t n,
                 const float *values, const struct step *step);
void step_row(const struct local_job *job, uint32_t layer, uint32_t row, const float *values,
              const struct step *step);
void step_dense(const struct local_job *job, const struct block *block, const float *values,
                const struct step *step);

/* round.c: sync. */
struct rounds;
tri_status rounds_open(struct local_job *job, struct rounds **out, tri_error *err);
void rounds_close(struct local_job *job, struct rounds *rounds);
bool round_ready(const struct local_job *job);
tri_status round_apply(struct local_job *job, struct crew *crew, struct rounds *rounds,
                       tri_error *err);
void round_recover(struct local_job *job);
enum { ROUND_MARK = 0xffff }; /* in head.applying, where a seat's number would be */

/* passes.c: gradients of queues on their way into the weights. */
struct passes;
tri_status passes_open(struct local_job *job, struct crew *crew, uint64_t pair_floats,
                       struct passes **out, tri_error *err);
void passes_close(struct passes *passes);
/* Ends the gradient that is begun, or else one of the next seat that has one. Does nothing if
 * somebody wants the server to rest or to end. */
tri_status passes_go(struct passes *passes, tri_error *err);
void passes_finish(struct passes *passes); /* ends what is begun, and begins nothing */
/* Marks are of a seat's gradient, or (ROUND_MARK) of a round. */
uint64_t applying_mark(uint32_t seat, uint64_t number);
bool is_applying(const struct local_job *job);
/* Counts what a dead server tore, and clears its marks; returns how many torn gradients nobody has
 * taken note of, also if one who took them up died over it. */
uint64_t passes_recover(struct local_job *job);
void passes_note_torn(struct local_job *job); /* they are put right, or put up with */

#ifdef __cplusplus
}
#endif

#endif
