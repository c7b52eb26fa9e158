/* A gradient becomes a step of the weights, in place.
 *
 * The optimiser's memory of value k of a layer lies from state_floats * k on: of a run of n values
 * that step together, state_floats runs of n. Dense layers step in blocks. Layers that take rows
 * step row by row, and each bias by itself, so that rows and dense gradients find the same memory.
 * What is remembered for a row that a gradient does not touch stays as it is. */
#include "local/inside.h"

void step_values(const struct local_job *job, uint32_t layer, uint64_t first, size_t n,
                 const float *values, const struct step *step)
{
    float *weights = local_shared(job, layer) + first;
    if (job->plain) {
        job->sgd(weights, values, n, step->lr / step->divisor);
        return;
    }
    const tri_optimizer_ops *ops = job->optim.ops;
    float *state = job->state + ops->state_floats * (job->layers[layer].offset + first);
    const float *mean = values;
    if (step->divisor != 1) {
        for (size_t i = 0; i < n; i++)
            step->scratch[i] = values[i] / step->divisor;
        mean = step->scratch;
    }
    ops->step(job->optim.args, weights, state, mean, n, step->lr, step->steps);
}

/* Long rows go through the scratch memory piece by piece. */
static void step_run(const struct local_job *job, uint32_t layer, uint64_t first, size_t n,
                     const float *values, const struct step *step)
{
    for (size_t at = 0; at < n; at += BLOCK)
        step_values(job, layer, first + at, n - at < BLOCK ? n - at : BLOCK, values + at, step);
}

void step_row(const struct local_job *job, uint32_t layer, uint32_t row, const float *values,
              const struct step *step)
{
    const struct local_layer *shape = &job->layers[layer];
    step_run(job, layer, (uint64_t)row * shape->cols, shape->cols, values, step);
    if (shape->bias > 0)
        step_values(job, layer, (uint64_t)shape->rows * shape->cols + row, 1, values + shape->cols,
                    step);
}

/* A block of a dense gradient; values are the layer's. Where memory lies by rows, the block has the
 * rows and biases that begin in it. */
void step_dense(const struct local_job *job, const struct block *block, const float *values,
                const struct step *step)
{
    const struct local_layer *shape = &job->layers[block->layer];
    if (job->plain || shape->max_rows == 0) {
        step_values(job, block->layer, block->first, block->count, values + block->first, step);
        return;
    }
    const uint64_t matrix = (uint64_t)shape->rows * shape->cols;
    const uint64_t end = block->first + block->count;
    uint64_t row = (block->first + shape->cols - 1) / shape->cols;
    for (; row < shape->rows && row * shape->cols < end; row++)
        step_run(job, block->layer, row * shape->cols, shape->cols, values + row * shape->cols,
                 step);
    uint64_t bias = block->first > matrix ? block->first : matrix;
    for (; bias < end; bias++)
        step_values(job, block->layer, bias, 1, values + bias, step);
}

static struct step step_of(const struct local_job *job, const struct slot *slot, uint32_t layer,
                           float *scratch)
{
    return (struct step){.lr = slot->lr,
                         .divisor = slot->divisor,
                         .steps = load(&job->steps[layer]),
                         .scratch = scratch};
}

static void step_two(const struct local_job *job, const struct block *block,
                     const struct slot *first, const struct slot *second)
{
    const struct update_two values = {
        .first = gradient_room(job, first, block->layer) + block->first,
        .second = gradient_room(job, second, block->layer) + block->first,
        .first_rate = first->lr / first->divisor,
        .second_rate = second->lr / second->divisor};
    job->two(local_shared(job, block->layer) + block->first, &values, block->count);
}

static void step_one(const struct local_job *job, const struct block *block,
                     const struct slot *slot, float *scratch)
{
    const struct step step = step_of(job, slot, block->layer, scratch);
    step_dense(job, block, gradient_room(job, slot, block->layer), &step);
}

void apply_second(struct apply_pass *pass, const struct slot *second)
{
    SAID(&pass->second);
    __atomic_store_n(&pass->second, second, __ATOMIC_RELEASE);
}

static void dense_block(void *ctx, size_t number, float *scratch)
{
    struct apply_pass *pass = ctx;
    struct local_job *job = pass->job;
    const struct block *block = &job->blocks[number];
    if (number == job->block_count / 2)
        reach(job, LOCAL_AT_HALF_STEP);
    if (pass->passed != NULL && pass->passed[number] != 0)
        return;
    const struct slot *slots[2] = {pass->slot, __atomic_load_n(&pass->second, __ATOMIC_ACQUIRE)};
    bool dense[2] = {false, false};
    SEEN(&pass->second);
    for (int i = 0; i < 2 && slots[i] != NULL; i++)
        dense[i] = slots[i]->parts[block->layer].form == FORM_DENSE;
    if (dense[0] && dense[1])
        step_two(job, block, slots[0], slots[1]);
    else if (dense[0] || dense[1])
        step_one(job, block, slots[dense[0] ? 0 : 1], scratch);
    if (slots[1] != NULL)
        pass->second_passed[number] = 1;
}

void apply_dense(struct crew *crew, struct apply_pass *pass)
{
    crew_share_between(crew, dense_block, pass->look, pass, pass->job->block_count);
}

/* The row after the next is asked for early: its lines may be another core's. */
static void step_rows(struct local_job *job, const struct slot *slot, uint32_t layer,
                      float *scratch)
{
    enum { AHEAD = 2 };
    const struct local_layer *shape = &job->layers[layer];
    struct local_rows rows = gradient_rows(job, slot, layer);
    const float *weights = local_shared(job, layer);
    const uint32_t count =
        slot->parts[layer].count < shape->max_rows ? slot->parts[layer].count : shape->max_rows;
    struct step step = step_of(job, slot, layer, scratch);
    for (uint32_t i = 0; i < count; i++) {
        if (i + AHEAD < count && rows.numbers[i + AHEAD] < shape->rows)
            update_prefetch(weights + (uint64_t)rows.numbers[i + AHEAD] * shape->cols, shape->cols);
        if (rows.numbers[i] < shape->rows)
            step_row(job, layer, rows.numbers[i], rows.values + (size_t)i * rows.stride, &step);
    }
}

struct rows_work {
    struct local_job *job;
    const struct slot *slot;
};

static void rows_layer(void *ctx, size_t layer, float *scratch)
{
    const struct rows_work *work = ctx;
    if (work->slot->parts[layer].form == FORM_ROWS)
        step_rows(work->job, work->slot, (uint32_t)layer, scratch);
}

bool slot_has(const struct local_job *job, const struct slot *slot, enum form form)
{
    for (uint32_t l = 0; l < job->head->layer_count; l++)
        if (slot->parts[l].form == (uint32_t)form)
            return true;
    return false;
}

void apply_rows(struct local_job *job, struct crew *crew, const struct slot *slot)
{
    struct rows_work work = {job, slot};
    if (slot_has(job, slot, FORM_ROWS)) /* layers are apart, so threads may be */
        crew_share(crew, rows_layer, &work, job->head->layer_count);
}

void layers_changed(struct local_job *job, uint32_t layer)
{
    bump(&job->steps[layer], 1);
    bump(&job->changes[layer], 1);
}

void slot_changed(struct local_job *job, const struct slot *slot)
{
    for (uint32_t l = 0; l < job->head->layer_count; l++)
        if (slot->parts[l].form != FORM_NONE)
            layers_changed(job, l);
}

void apply_gradient(struct local_job *job, struct crew *crew, const struct slot *slot)
{
    struct apply_pass pass = {.job = job, .slot = slot};
    apply_rows(job, crew, slot);
    if (slot_has(job, slot, FORM_DENSE))
        apply_dense(crew, &pass);
    else
        reach(job, LOCAL_AT_HALF_STEP);
    slot_changed(job, slot);
}

void count_stale(struct seat *seat, uint64_t version, uint64_t base)
{
    uint64_t age = version > base ? version - base : 0;
    uint64_t *bar = &seat->stale[age < LOCAL_STALE ? age : LOCAL_STALE - 1];
    store(bar, *bar + 1);
    store(&seat->stale_sum, seat->stale_sum + age);
    if (age > seat->stale_max)
        store(&seat->stale_max, age);
}
