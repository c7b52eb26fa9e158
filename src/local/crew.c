/* Threads that step blocks of one gradient together.
 *
 * Each has a share of the blocks, the same in every run, so that what it has in its caches is of
 * use again. Who is done with its own takes blocks of the others: a thread that the system has put
 * aside costs the rest one block. The caller works, too, and returns when all blocks are done. */

#include "local/inside.h"
#include "os/thread.h"

enum { CREW_MAX = 64, SPINS = 2000, MOVE_EVERY = 16 };

/* The blocks of one thread that are not dealt out yet. */
struct share {
    uint64_t next; /* block; the number of the run, as far as it fits, is above RUN_SHIFT */
    uint64_t end;
    char pad[LINE - 16];
};

struct member {
    struct crew *crew;
    pthread_t thread;
    uint32_t number;
    uint32_t stays; /* for so many runs */
    float *scratch;
};

struct crew {
    const struct mem *mem;
    float *scratches;
    crew_work *work;
    crew_between *between; /* or NULL */
    void *ctx;
    uint64_t run;
    uint64_t left;              /* blocks that are not done */
    uint32_t started, finished; /* events */
    uint32_t leaving;
    uint32_t due_cpu;
    uint32_t *due;               /* an event that somebody waits for, on that processor */
    uint32_t count;              /* threads beside the caller */
    uint32_t cpus[CREW_MAX + 1]; /* where each was in its last run; the last used: the caller */
    struct member members[CREW_MAX];
    struct share shares[CREW_MAX + 1]; /* the last used is the caller's */
};

enum { RUN_SHIFT = 40 };
/* Runs are counted from here, so that the highest that fits is soon passed, and not first by a job
 * that has run for an hour. */
#define RUN_FIRST        (((uint64_t)1 << (64 - RUN_SHIFT)) - 100)
#define BLOCK_OF(next)   ((next) & (((uint64_t)1 << RUN_SHIFT) - 1))
#define IS_OF(next, run) ((((next) ^ (run) << RUN_SHIFT) >> RUN_SHIFT) == 0)

/* Blocks of this run, half of those that are left: an exchange waits until all that the processor
 * has written is out of its hands, and by halves there are few of them, and small ones at the end.
 * 0: there is none left, or another run is on. `end` belongs to the run of `next`, or the exchange
 * fails. */
static uint64_t deal(struct share *share, uint64_t run, uint64_t *first)
{
    uint64_t next = load(&share->next), end, count;
    do {
        *first = BLOCK_OF(next);
        end = load(&share->end);
        if (!IS_OF(next, run) || *first >= end)
            return 0;
        count = (end - *first + 1) / 2;
    } while (!__atomic_compare_exchange_n(&share->next, &next, next + count, false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return count;
}

/* A thread that is late may still look for blocks of the run before: it must not find the old next
 * beside the new end. */
static void share_open(struct share *share, uint64_t run, uint64_t first, uint64_t end)
{
    store(&share->next, run << RUN_SHIFT | BLOCK_OF(UINT64_MAX));
    store(&share->end, end);
    store(&share->next, run << RUN_SHIFT | first);
}

/* Any thread may come first. */
bool crew_wake_due(struct crew *crew)
{
    uint32_t *event = __atomic_exchange_n(&crew->due, NULL, __ATOMIC_ACQ_REL);
    return event != NULL && event_wake(event); /* local.pml: wake learner */
}

static bool is_due(struct crew *crew)
{
    bool due = __atomic_load_n(&crew->due, __ATOMIC_ACQUIRE) != NULL;
    SEEN(&crew->due);
    return due;
}

bool crew_wake_here(struct crew *crew)
{
    return is_due(crew) && load32(&crew->due_cpu) == thread_cpu() && crew_wake_due(crew);
}

/* What the caller does between two of its blocks. */
static void look_up(struct crew *crew)
{
    if (is_due(crew))
        (void)crew_wake_due(crew);
    if (crew->between != NULL)
        crew->between(crew->ctx);
}

/* If no thread is where the one to be woken is, the caller wakes it, after a block if it gets one.
 */
static void work_off(struct crew *crew, uint64_t run, uint32_t me, float *scratch)
{
    uint64_t first, count, done = 0;
    (void)crew_wake_here(crew);
    for (uint32_t i = 0; i <= crew->count; i++)
        while ((count = deal(&crew->shares[(me + i) % (crew->count + 1)], run, &first)) > 0) {
            for (uint64_t k = 0; k < count; k++) {
                crew->work(crew->ctx, (size_t)(first + k), scratch);
                if (me == crew->count)
                    look_up(crew);
            }
            done += count;
        }
    if (me == crew->count)
        (void)crew_wake_due(crew);
    SAID(&crew->left);
    if (done > 0 && __atomic_sub_fetch(&crew->left, done, __ATOMIC_ACQ_REL) == 0)
        event_wake(&crew->finished);
}

/* Is there a run that this thread has not worked off? */
static bool is_on(const struct crew *crew, uint64_t last)
{
    return load(&crew->run) != last || load32(&crew->leaving) != 0;
}

/* Two threads on one processor are no faster than one. Where another processor rests for less than
 * a millisecond at a time, as one does whose learner waits for each gradient, the system leaves
 * them there for tens of milliseconds. So the one with the lower number moves off, not in every
 * run: others may need the processors, too. */
static void keep_apart(struct member *member)
{
    struct crew *crew = member->crew;
    const uint32_t me = member->number, cpu = thread_cpu();
    uint32_t others[CREW_MAX];
    size_t count = 0;
    bool clash = false;
    for (uint32_t i = 0; i <= crew->count; i++) {
        if (i == me)
            continue;
        others[count] = load32(&crew->cpus[i]);
        clash = clash || (i > me && others[count] == cpu && cpu != UINT32_MAX);
        count++;
    }
    if (member->stays > 0)
        member->stays--;
    else if (clash) {
        thread_move_off(others, count);
        member->stays = MOVE_EVERY;
    }
    store32(&crew->cpus[me], thread_cpu());
}

/* For the next run, a moment. Who is to be woken on this thread's processor goes first: while the
 * thread looks, it would not get it. */
static void look_out(struct crew *crew, uint64_t last)
{
    for (int i = 0; i < SPINS && !is_on(crew, last); i++)
        if (crew_wake_here(crew))
            thread_yield();
        else
            event_pause();
}

static void *live(void *arg)
{
    struct member *member = arg;
    struct crew *crew = member->crew;
    uint64_t last = RUN_FIRST;
    while (load32(&crew->leaving) == 0) {
        look_out(crew, last);
        uint32_t key = event_key(&crew->started);
        if (!is_on(crew, last))
            (void)event_wait(&crew->started, key, SLICE_MS);
        uint64_t run = load(&crew->run);
        if (run != last) {
            keep_apart(member);
            work_off(crew, run, member->number, member->scratch);
        }
        last = run;
    }
    return NULL;
}

tri_status crew_open(struct local_job *job, uint32_t threads, struct crew **out, tri_error *err)
{
    struct crew *crew = mem_array(job->mem, 1, sizeof *crew);
    uint32_t others = threads > 1 ? threads - 1 : 0;
    if (crew == NULL)
        return fail_nomem(err, "update threads");
    crew->mem = job->mem;
    crew->run = RUN_FIRST;
    others = others < CREW_MAX ? others : CREW_MAX;
    crew->scratches = mem_array(job->mem, (size_t)(others + 1) * BLOCK, sizeof(float));
    if (crew->scratches == NULL) {
        mem_free(job->mem, crew);
        return fail_nomem(err, "update threads");
    }
    while (crew->count < others) {
        struct member *member = &crew->members[crew->count];
        crew->cpus[crew->count] = UINT32_MAX; /* no processor */
        *member = (struct member){.crew = crew,
                                  .number = crew->count,
                                  .scratch = crew->scratches + (size_t)(crew->count + 1) * BLOCK};
        if (pthread_create(&member->thread, NULL, live, member) != 0)
            break; /* with fewer it is slower, no more */
        crew->count++;
    }
    *out = crew;
    return TRI_OK;
}

void crew_close(struct crew *crew)
{
    if (crew == NULL)
        return;
    store32(&crew->leaving, 1);
    event_wake(&crew->started);
    for (uint32_t i = 0; i < crew->count; i++)
        (void)pthread_join(crew->members[i].thread, NULL);
    mem_free(crew->mem, crew->scratches);
    mem_free(crew->mem, crew);
}

void crew_wake_later(struct crew *crew, uint32_t *event, uint32_t cpu)
{
    (void)crew_wake_due(crew);
    store32(&crew->due_cpu, cpu);
    SAID(&crew->due);
    __atomic_store_n(&crew->due, event, __ATOMIC_RELEASE);
    if (crew->count == 0)
        (void)crew_wake_due(crew);
}

static void work_alone(struct crew *crew, size_t blocks)
{
    (void)crew_wake_due(crew);
    for (size_t i = 0; i < blocks; i++) {
        crew->work(crew->ctx, i, crew->scratches);
        look_up(crew);
    }
}

void crew_share(struct crew *crew, crew_work *work, void *ctx, size_t blocks)
{
    crew_share_between(crew, work, NULL, ctx, blocks);
}

void crew_share_between(struct crew *crew, crew_work *work, crew_between *between, void *ctx,
                        size_t blocks)
{
    crew->work = work;
    crew->between = between;
    crew->ctx = ctx;
    if (crew->count == 0 || blocks < 2) {
        work_alone(crew, blocks);
        return;
    }
    uint64_t run = crew->run + 1;
    store(&crew->left, blocks);
    for (uint32_t i = 0; i <= crew->count; i++)
        share_open(&crew->shares[i], run, blocks * i / (crew->count + 1),
                   blocks * (i + 1) / (crew->count + 1));
    store32(&crew->cpus[crew->count], thread_cpu());
    store(&crew->run, run);
    event_wake(&crew->started);
    work_off(crew, run, crew->count, crew->scratches);
    while (load(&crew->left) > 0) {
        for (int i = 0; i < SPINS && load(&crew->left) > 0; i++)
            event_pause();
        uint32_t key = event_key(&crew->finished);
        if (load(&crew->left) > 0)
            (void)event_wait(&crew->finished, key, SLICE_MS);
    }
}
