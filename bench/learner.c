/* Learners read weights in place and step them in place, each in a process of its own. */
#include "bench/learner.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/mem.h"
#include "base/rng.h"

/* COPY_FLOATS: room for the largest net, 4 x 4096. Memory that is not touched costs nothing. */
enum {
    COPY_FLOATS = 70000000,
    ALIGN = 16,
    SAMPLES = 4096,
    TIMES = 65536,
    FEW = 8,
};
#define COPY_BYTES (COPY_FLOATS * sizeof(float))

static const float rate = 0.02F;

/* The weights come behind it: a copy, and another for a learner that has its own. */
struct learner_shared {
    atomic_uint ready;
    atomic_bool stop;
    atomic_ullong steps[CREW_MAX];
    float weights[] __attribute__((aligned(4096)));
};

static size_t map_bytes(void)
{
    return sizeof(struct learner_shared) + 2 * COPY_BYTES;
}

struct learner_shared *learner_map(tri_error *err)
{
    void *at = mmap(NULL, map_bytes(), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED)
        return at;
    (void)fail_errno(err, TRI_ENOMEM, "cannot map weights for several processes");
    return NULL;
}

void learner_unmap(struct learner_shared *shared)
{
    if (shared != NULL)
        (void)munmap(shared, map_bytes());
}

struct learner {
    const struct learner_run *run;
    struct learner_shared *shared;
    struct net *net;
    uint32_t number;
    uint32_t *tokens, *labels; /* SAMPLES of them; NULL: one batch of images for ever */
    size_t next;
    double loss, samples; /* sum of the losses of the last steps, and of how many samples */
    double *times;        /* of steps that nothing disturbed */
    size_t count;
    uint64_t other[2]; /* the other's steps when the last two of this one began */
};

/* ---- the net ---- */

/* All learners begin with the same values and write them before any begins. */
static void move_weights(struct learner *l)
{
    float *at = l->shared->weights + (l->run->apart ? l->number * (size_t)COPY_FLOATS : 0);
    for (size_t i = 0; i < net_params(l->net); i++) {
        const struct param *param = net_param(l->net, i);
        const size_t weights = (size_t)param->rows * param->cols;
        const size_t bias = param->bias != NULL ? param->rows : 0;
        memcpy(at, param->weights, weights * sizeof *at);
        if (bias > 0)
            memcpy(at + weights, param->bias, bias * sizeof *at);
        net_use_weights(l->net, i, at, at + weights);
        at += (weights + bias + ALIGN - 1) / ALIGN * ALIGN;
    }
}

/* Labels that can be learned, or relus die and less is left to do: in each text there are words
 * that go with its label. */
static bool make_texts(struct learner *l)
{
    enum { KEYS = 3, WORDS = 4, FIRST = 2 };
    const struct net_data *data = &l->run->net->data;
    const uint64_t words = data->words - FIRST;
    struct rng rng;
    rng_init(&rng, 5);
    l->tokens = mem_array(&mem_libc, (size_t)SAMPLES * data->length, sizeof *l->tokens);
    l->labels = mem_array(&mem_libc, SAMPLES, sizeof *l->labels);
    if (l->tokens == NULL || l->labels == NULL)
        return false;
    for (size_t i = 0; i < SAMPLES; i++) {
        uint32_t *text = l->tokens + i * data->length;
        const uint64_t label = rng_below(&rng, data->classes);
        l->labels[i] = (uint32_t)label;
        for (uint32_t j = 0; j < data->length; j++)
            text[j] = FIRST + (uint32_t)rng_below(&rng, words);
        for (int j = 0; j < KEYS; j++) {
            const uint64_t word = (label * WORDS + rng_below(&rng, WORDS)) % words;
            text[rng_below(&rng, data->length)] = FIRST + (uint32_t)word;
        }
    }
    return true;
}

static void make_images(struct learner *l)
{
    const struct net_data *data = &l->run->net->data;
    const struct net_batch batch = net_batch(l->net);
    struct rng rng;
    rng_init(&rng, l->number);
    for (size_t i = 0; i < l->run->batch * shape3_floats(data->image); i++)
        batch.images[i] = (float)rng_unit(&rng) - 0.5F;
    for (uint32_t i = 0; i < l->run->batch; i++)
        batch.labels[i] = (uint32_t)rng_below(&rng, data->classes);
}

static void next_batch(struct learner *l)
{
    const struct net_batch batch = net_batch(l->net);
    const size_t length = l->run->net->data.length;
    for (uint32_t k = 0; l->tokens != NULL && k < l->run->batch; k++) {
        const size_t i = l->next++ % SAMPLES;
        memcpy(batch.tokens + k * length, l->tokens + i * length, length * sizeof *l->tokens);
        batch.labels[k] = l->labels[i];
    }
}

/* ---- steps ---- */

static double cpu_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint64_t others_steps(const struct learner *l)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < l->run->learners; i++)
        if (i != l->number)
            sum += atomic_load_explicit(&l->shared->steps[i], memory_order_relaxed);
    return sum;
}

static void learn(struct learner *l)
{
    double loss;
    uint32_t right;
    next_batch(l);
    (void)net_forward(l->net, true, 0, NULL);
    net_loss(l->net, l->run->batch, &loss, &right);
    (void)net_learn(l->net, -rate / (float)l->run->batch, NULL);
    const double keep = 1 - 1.0 / 64; /* what counts is the end */
    l->loss = keep * l->loss + loss;
    l->samples = keep * l->samples + l->run->batch;
    atomic_fetch_add_explicit(&l->shared->steps[l->number], 1, memory_order_relaxed);
}

/* A step, and whether it had the processor to itself. */
static void step(struct learner *l, struct crew_board *board)
{
    const double most = 1.03; /* of the processor's time, the clock's */
    const double start_s = crew_now_s(), cpu_s = cpu_now_s();
    learn(l);
    const double took = crew_now_s() - start_s;
    const uint64_t other = others_steps(l);
    const bool together = l->run->learners == 1 || other > l->other[0];
    l->other[0] = l->other[1];
    l->other[1] = other;
    if (together && took < most * (cpu_now_s() - cpu_s) && l->count < TIMES)
        l->times[l->count++] = took;
    atomic_fetch_add(&board->work[l->number], l->run->batch);
}

static void await_all(const struct learner *l)
{
    atomic_fetch_add(&l->shared->ready, 1);
    while (atomic_load(&l->shared->ready) < l->run->learners)
        (void)sched_yield();
}

static void train(struct learner *l, struct crew_board *board)
{
    struct crew_watch watch;
    const bool keeps_time = l->number == 0;
    await_all(l);
    for (uint32_t i = 0; i < l->run->net->warm_up; i++)
        learn(l);
    if (keeps_time)
        crew_watch_start(&watch, board, l->run->learners);
    for (uint64_t i = 0; !atomic_load(&l->shared->stop); i++) {
        step(l, board);
        if (keeps_time && i >= 1 && crew_watch_seconds(&watch) >= l->run->seconds) {
            crew_watch_stop(&watch);
            atomic_store(&l->shared->stop, true);
        }
    }
}

/* ---- the end ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static tri_status sum_up(const struct learner *l, struct crew_board *board, tri_error *err)
{
    const double loss = l->loss / l->samples, chance = log((double)l->run->net->data.classes);
    qsort(l->times, l->count, sizeof l->times[0], by_size);
    board->numbers[l->number] = l->count >= FEW ? l->run->batch / l->times[l->count / 2] : 0;
    if (isfinite(loss) && loss < 1.3 * chance)
        return TRI_OK;
    return fail(err, TRI_EIO, "a learner's loss is %g, so its speed means nothing: %g is chance",
                loss, chance);
}

static void fini(struct learner *l)
{
    net_free(l->net);
    mem_free(&mem_libc, l->tokens);
    mem_free(&mem_libc, l->labels);
    mem_free(&mem_libc, l->times);
}

tri_status learner_body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err)
{
    const struct learner_run *run = ctx;
    const struct learner_net *what = run->net;
    struct learner l = {.run = run, .shared = run->shared, .number = number};
    l.next = (size_t)SAMPLES / run->learners * number;
    tri_status status = net_new(what->model, &what->data, run->batch, 1, &mem_libc, &l.net, err);
    if (status != TRI_OK)
        return status;
    l.times = mem_array(&mem_libc, TIMES, sizeof *l.times);
    if (l.times == NULL || (what->data.length > 0 && !make_texts(&l))) {
        fini(&l);
        return fail_nomem(err, "a learner");
    }
    if (what->data.length == 0)
        make_images(&l);
    move_weights(&l);
    if (run->learners > 1)
        net_avoid(l.net, number + 1);
    train(&l, board);
    status = sum_up(&l, board, err);
    fini(&l);
    return status;
}
