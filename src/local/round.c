/* Rounds of synchronous jobs: one gradient of every living learner, added up, stepped once.
 *
 * Sums run in the order of the seats, whatever came first, so a run can be repeated bit by bit. A
 * round is done when head.round says so, one store; the slots are given back after that. Before it
 * begins, each seat that is in it has the tail written down that it will have then (round_seq), so
 * that the next server knows which gradients the round was of. */
#include <string.h>

#include "local/inside.h"

struct rounds {
    float *sum;     /* [floats] of layers that come in different forms */
    uint32_t *seen; /* [rows of all layers] the round in which a row was begun */
    uint64_t *row_base;
    uint32_t stamp;
};

tri_status rounds_open(struct local_job *job, struct rounds **out, tri_error *err)
{
    struct rounds *rounds = mem_array(job->mem, 1, sizeof *rounds);
    uint64_t rows = 0;
    if (rounds == NULL)
        return fail_nomem(err, "the sums of a round");
    rounds->row_base = mem_array(job->mem, job->head->layer_count, sizeof *rounds->row_base);
    for (uint32_t l = 0; l < job->head->layer_count && rounds->row_base != NULL; l++) {
        rounds->row_base[l] = rows;
        rows += job->layers[l].rows;
    }
    rounds->sum = mem_array(job->mem, job->head->floats, sizeof *rounds->sum);
    rounds->seen = mem_array(job->mem, rows, sizeof *rounds->seen);
    if (rounds->row_base == NULL || rounds->sum == NULL || rounds->seen == NULL) {
        rounds_close(job, rounds);
        return fail_nomem(err, "the sums of a round");
    }
    *out = rounds;
    return TRI_OK;
}

void rounds_close(struct local_job *job, struct rounds *rounds)
{
    if (rounds == NULL)
        return;
    mem_free(job->mem, rounds->sum);
    mem_free(job->mem, rounds->seen);
    mem_free(job->mem, rounds->row_base);
    mem_free(job->mem, rounds);
}

/* The gradient of a seat that this round takes; NULL: there is none. */
static const struct slot *offered(const struct local_job *job, uint32_t seat, uint64_t round)
{
    if (waiting_in(&job->seats[seat]) == 0)
        return NULL;
    const struct slot *slot = slot_at(job, seat, tail_of(&job->seats[seat]));
    return slot->clock <= round ? slot : NULL;
}

static bool is_needed(const struct seat *seat)
{
    uint32_t state = state_of(seat);
    if (load32(&seat->given_up) != 0)
        return false;
    return state == LOCAL_SEAT_TAKEN || (state == LOCAL_SEAT_FREE && joins_of(seat) == 0);
}

bool round_ready(const struct local_job *job)
{
    uint64_t round = load(&job->head->round);
    bool any = false;
    for (uint32_t i = 0; i < job->head->learners; i++) {
        bool in = offered(job, i, round) != NULL;
        if (!in && is_needed(&job->seats[i]))
            return false;
        any = any || in;
    }
    return any;
}

/* ---- the arithmetic of one round ---- */

struct round_work {
    struct local_job *job;
    struct rounds *rounds;
    const struct slot *slots[LOCAL_LEARNERS_MAX]; /* in the order of seats */
    uint32_t count;
    float lr;
};

static float divisor_of(const struct round_work *work, uint32_t layer)
{
    float sum = 0;
    for (uint32_t i = 0; i < work->count; i++)
        if (work->slots[i]->parts[layer].form != FORM_NONE)
            sum += work->slots[i]->divisor;
    return sum;
}

static bool all_dense(const struct round_work *work, uint32_t layer)
{
    for (uint32_t i = 0; i < work->count; i++)
        if (work->slots[i]->parts[layer].form == FORM_ROWS)
            return false;
    return true;
}

static void add(float *restrict sum, const float *restrict values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += values[i];
}

static void dense_block(void *ctx, size_t number, float *scratch)
{
    const struct round_work *work = ctx;
    struct local_job *job = work->job;
    const struct block *block = &job->blocks[number];
    if (number == job->block_count / 2)
        reach(job, LOCAL_AT_HALF_STEP);
    struct step step = {.lr = work->lr,
                        .divisor = divisor_of(work, block->layer),
                        .steps = load(&job->steps[block->layer]),
                        .scratch = scratch};
    if (step.divisor == 0 || !all_dense(work, block->layer))
        return;
    float *sum = work->rounds->sum + job->layers[block->layer].offset;
    bool first = true;
    for (uint32_t i = 0; i < work->count; i++) {
        if (work->slots[i]->parts[block->layer].form != FORM_DENSE)
            continue;
        const float *values = gradient_room(job, work->slots[i], block->layer) + block->first;
        if (first)
            memcpy(sum + block->first, values, block->count * sizeof *sum);
        else
            add(sum + block->first, values, block->count);
        first = false;
    }
    if (job->plain || job->layers[block->layer].max_rows == 0)
        step_dense(job, block, sum, &step);
}

/* Where a row's sum gathers; zeroed when the round comes to it first. Sums have the rows' stride:
 * a layer's room is too small for biases in between, so those lie where the layer has them. */
static void add_row(const struct round_work *work, uint32_t layer, uint32_t row,
                    const float *values, float bias)
{
    struct rounds *rounds = work->rounds;
    const struct local_layer *shape = &work->job->layers[layer];
    float *sum = rounds->sum + shape->offset + (uint64_t)row * shape->cols;
    float *sum_bias = rounds->sum + shape->offset + (uint64_t)shape->rows * shape->cols + row;
    uint32_t *seen = &rounds->seen[rounds->row_base[layer] + row];
    if (*seen != rounds->stamp) {
        *seen = rounds->stamp;
        memset(sum, 0, shape->cols * sizeof *sum);
        if (shape->bias > 0)
            *sum_bias = 0;
    }
    add(sum, values, shape->cols);
    if (shape->bias > 0)
        *sum_bias += bias;
}

static void add_slot(const struct round_work *work, const struct slot *slot, uint32_t layer)
{
    const struct local_layer *shape = &work->job->layers[layer];
    const uint64_t matrix = (uint64_t)shape->rows * shape->cols;
    if (slot->parts[layer].form == FORM_DENSE) {
        const float *values = gradient_room(work->job, slot, layer);
        for (uint32_t r = 0; r < shape->rows; r++)
            add_row(work, layer, r, values + (uint64_t)r * shape->cols,
                    shape->bias > 0 ? values[matrix + r] : 0);
    } else if (slot->parts[layer].form == FORM_ROWS) {
        struct local_rows rows = gradient_rows(work->job, slot, layer);
        for (uint32_t i = 0; i < slot->parts[layer].count; i++) {
            const float *values = rows.values + (size_t)i * rows.stride;
            if (rows.numbers[i] < shape->rows)
                add_row(work, layer, rows.numbers[i], values,
                        shape->bias > 0 ? values[shape->cols] : 0);
        }
    }
}

static void step_sums(const struct round_work *work, uint32_t layer, float *scratch)
{
    struct local_job *job = work->job;
    const struct local_layer *shape = &job->layers[layer];
    const uint64_t matrix = (uint64_t)shape->rows * shape->cols;
    const float *sum = work->rounds->sum + shape->offset;
    struct step step = {.lr = work->lr,
                        .divisor = divisor_of(work, layer),
                        .steps = load(&job->steps[layer]),
                        .scratch = scratch};
    for (uint32_t r = 0; r < shape->rows; r++) {
        if (work->rounds->seen[work->rounds->row_base[layer] + r] != work->rounds->stamp)
            continue;
        for (uint64_t at = 0; at < shape->cols; at += BLOCK) {
            size_t n = shape->cols - at < BLOCK ? (size_t)(shape->cols - at) : BLOCK;
            uint64_t first = (uint64_t)r * shape->cols + at;
            step_values(job, layer, first, n, sum + first, &step);
        }
        if (shape->bias > 0)
            step_values(job, layer, matrix + r, 1, sum + matrix + r, &step);
    }
}

/* Rows, and layers whose memory lies by rows: one thread per layer. */
static void rows_work(void *ctx, size_t number, float *scratch)
{
    const struct round_work *work = ctx;
    uint32_t layer = (uint32_t)number;
    bool in_blocks = work->job->plain || work->job->layers[layer].max_rows == 0;
    if (divisor_of(work, layer) == 0 || (all_dense(work, layer) && in_blocks))
        return;
    for (uint32_t i = 0; i < work->count; i++)
        add_slot(work, work->slots[i], layer);
    step_sums(work, layer, scratch);
}

/* ---- a round from mark to commit ---- */

static tri_status same_rate(const struct round_work *work, const uint32_t *seats, tri_error *err)
{
    for (uint32_t i = 1; i < work->count; i++)
        if (work->slots[i]->lr != work->slots[0]->lr) {
            fail(err, TRI_EMISMATCH, "learners %u and %u want to step with lr %g and %g", seats[0],
                 seats[i], (double)work->slots[0]->lr, (double)work->slots[i]->lr);
            fail_next(err, "give all learners of a sync job the same lr");
            return TRI_EMISMATCH;
        }
    return TRI_OK;
}

static void finish(struct local_job *job, bool torn)
{
    for (uint32_t i = 0; i < job->head->learners; i++)
        if (tail_of(&job->seats[i]) < job->seats[i].round_seq) {
            queue_finish(job, i, torn);
            event_wake(&job->seats[i].space);
        }
}

tri_status round_apply(struct local_job *job, struct crew *crew, struct rounds *rounds,
                       tri_error *err)
{
    struct round_work work = {.job = job, .rounds = rounds};
    uint32_t seats[LOCAL_LEARNERS_MAX] = {0};
    uint64_t round = load(&job->head->round);
    for (uint32_t i = 0; i < job->head->learners; i++) {
        const struct slot *slot = offered(job, i, round);
        store(&job->seats[i].round_seq, tail_of(&job->seats[i]) + (slot != NULL ? 1 : 0));
        if (slot == NULL)
            continue;
        seats[work.count] = i;
        work.slots[work.count++] = slot;
    }
    if (work.count == 0)
        return TRI_OK;
    tri_status status = same_rate(&work, seats, err);
    if (status == TRI_OK)
        status = lock_write(job, err);
    if (status != TRI_OK)
        return status;
    work.lr = work.slots[0]->lr;
    rounds->stamp = (uint32_t)(round + 1);
    store(&job->head->version_next, load(&job->head->version) + 1);
    store(&job->head->applying[0], applying_mark(ROUND_MARK, round)); /* local.pml: mark */
    reach(job, LOCAL_AT_MARKED);
    crew_share(crew, dense_block, &work, job->block_count);
    crew_share(crew, rows_work, &work, job->head->layer_count);
    for (uint32_t l = 0; l < job->head->layer_count; l++)
        if (divisor_of(&work, l) != 0)
            layers_changed(job, l);
    for (uint32_t i = 0; i < work.count; i++)
        count_stale(&job->seats[seats[i]], load(&job->head->version), work.slots[i]->version);
    reach(job, LOCAL_AT_STEPPED);
    bump(&job->head->changes, 1);
    store(&job->head->round, round + 1); /* local.pml: commit round */
    store(&job->head->version, job->head->version_next);
    reach(job, LOCAL_AT_ROUND);
    finish(job, false);
    store(&job->head->applying[0], 0);
    unlock_write(job);
    event_wake(&job->head->news);
    return TRI_OK;
}

/* A server died in a round. If that was done, its slots are given back; if not it is torn. */
void round_recover(struct local_job *job)
{
    uint64_t round = job->head->applying[0] & (((uint64_t)1 << TORN_SHIFT) - 1);
    bool torn = load(&job->head->round) == round;
    finish(job, torn);
    store(&job->head->round, round + 1);
    store(&job->head->version, job->head->version_next - (torn ? 1 : 0));
    event_wake(&job->head->news);
}
