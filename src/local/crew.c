/* Threads that step blocks of one gradient together.
 *
 * Blocks are dealt out one by one: a thread that the system has put aside costs the others one
 * block, not its share. The caller works, too, and returns when all blocks are done. */

#include "local/inside.h"

enum { CREW_MAX = 64, SPINS = 2000 };

struct member {
    struct crew *crew;
    pthread_t thread;
    float *scratch;
};

struct crew {
    const struct mem *mem;
    float *scratches;
    crew_work *work;
    void *ctx;
    uint64_t blocks;
    uint64_t next; /* block to deal out; the number of the run is above RUN_SHIFT */
    uint64_t done;
    uint32_t started, finished; /* events */
    uint32_t leaving;
    uint32_t count; /* threads beside the caller */
    struct member members[CREW_MAX];
};

enum { RUN_SHIFT = 40 };

/* Deals out a block of this run; false when there is none left, or another run is on. */
static bool deal(struct crew *crew, uint64_t run, uint64_t *block)
{
    uint64_t next = load(&crew->next);
    do {
        *block = next & (((uint64_t)1 << RUN_SHIFT) - 1);
        if (next >> RUN_SHIFT != run || *block >= load(&crew->blocks))
            return false;
    } while (!__atomic_compare_exchange_n(&crew->next, &next, next + 1, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
    return true;
}

static void work_off(struct crew *crew, uint64_t run, float *scratch)
{
    uint64_t block, done = 0;
    while (deal(crew, run, &block)) {
        crew->work(crew->ctx, (size_t)block, scratch);
        done++;
    }
    if (done == 0)
        return;
    bump(&crew->done, done);
    event_wake(&crew->finished);
}

static bool is_on(const struct crew *crew, uint64_t *run)
{
    uint64_t next = load(&crew->next);
    *run = next >> RUN_SHIFT;
    return (next & (((uint64_t)1 << RUN_SHIFT) - 1)) < load(&crew->blocks) ||
           load32(&crew->leaving) != 0;
}

static void *live(void *arg)
{
    struct member *member = arg;
    struct crew *crew = member->crew;
    uint64_t run;
    while (load32(&crew->leaving) == 0) {
        for (int i = 0; i < SPINS && !is_on(crew, &run); i++)
            event_pause();
        uint32_t key = event_key(&crew->started);
        if (!is_on(crew, &run))
            (void)event_wait(&crew->started, key, SLICE_MS);
        if (is_on(crew, &run))
            work_off(crew, run, member->scratch);
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
    others = others < CREW_MAX ? others : CREW_MAX;
    crew->scratches = mem_array(job->mem, (size_t)(others + 1) * BLOCK, sizeof(float));
    if (crew->scratches == NULL) {
        mem_free(job->mem, crew);
        return fail_nomem(err, "update threads");
    }
    while (crew->count < others) {
        struct member *member = &crew->members[crew->count];
        *member = (struct member){.crew = crew,
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

void crew_run(struct crew *crew, crew_work *work, void *ctx, size_t blocks)
{
    if (crew->count == 0 || blocks < 2) {
        for (size_t i = 0; i < blocks; i++)
            work(ctx, i, crew->scratches);
        return;
    }
    /* Nobody deals while blocks is 0, so what is written here is seen with the blocks. */
    uint64_t run = (load(&crew->next) >> RUN_SHIFT) + 1;
    store(&crew->blocks, 0);
    crew->work = work;
    crew->ctx = ctx;
    store(&crew->done, 0);
    store(&crew->next, run << RUN_SHIFT);
    store(&crew->blocks, blocks);
    event_wake(&crew->started);
    work_off(crew, run, crew->scratches);
    while (load(&crew->done) < blocks) {
        for (int i = 0; i < SPINS && load(&crew->done) < blocks; i++)
            event_pause();
        uint32_t key = event_key(&crew->finished);
        if (load(&crew->done) < blocks)
            (void)event_wait(&crew->finished, key, SLICE_MS);
    }
}
