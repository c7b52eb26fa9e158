/* Every learner is the server of a copy of its own.
 *
 * taken[r][w] is how many of learner w's gradients are in learner r's copy; only r writes it. A row
 * more is of what the region was filled with. Slot n % slots of w may be filled again when all who
 * read have taken n. Gradients are put in row by row, in the order of the seats, as the forward
 * pass comes to the rows (local_catch_up()), and count when all of them are in all layers: one
 * vector of counts is then true of the whole copy, and the learner is `quiet`. Then others may copy
 * it; if it comes to change it meanwhile, it rests. Nobody reads a copy while it changes, so a
 * learner that dies in the middle of a step has torn nothing.
 *
 * The comments "replicas.pml: x" name the steps of verify/replicas.pml. */
#include "local/replica.h"

#include <stdio.h>
#include <string.h>

#include "math/inplace.h"
#include "os/clock.h"

enum {
    SPINS = 64,   /* looks before the first sleep */
    SAMPLES = 64, /* of factors that are stepped together, unless one gradient has more */
};

/* Factors of one layer from several gradients, one behind the other. */
struct pile {
    uint32_t layer; /* LOCAL_ANY: of none */
    size_t count, cap;
    float *u, *v;  /* cap x rows, scaled; cap x width */
    uint32_t *at;  /* cap x rows */
    float *some_u; /* cap x rows: of the rows that are stepped */
    float *by;     /* of one row */
    size_t *begins;
    float *scratch;
};

struct replica {
    float *weights;
    uint64_t *upto; /* per learner: gradients that this iteration's weights have in them */
    bool open;      /* upto is ahead of taken */
    uint64_t least; /* of what those who read have taken of this one's, as it was seen last */
    uint32_t *rows; /* per layer: so many are up to date */
    bool *begun;    /* per layer: what is not factors is in */
    struct pile pile;
    const struct inplace_kernel *kernel;
};

/* ---- who has what ---- */

uint64_t *taken_row(const struct local_job *job, uint32_t reader)
{
    const uint64_t words = LINE / sizeof(uint64_t);
    return job->taken + reader * ((job->head->learners + words - 1) / words * words);
}

float *copy_of(const struct local_job *job, uint32_t reader)
{
    const uint64_t number = reader == job->head->learners ? 0 : (uint64_t)reader + 1;
    return job->weights + number * job->head->copy_floats;
}

uint64_t version_of_row(const struct local_job *job, const uint64_t *row)
{
    uint64_t sum = load(&job->head->version_base);
    for (uint32_t i = 0; i < job->head->learners; i++)
        sum += load(&job->seats[i].carried) + load(&row[i]) - load(&job->seats[i].discarded);
    return sum;
}

static bool reads(const struct seat *seat)
{
    const uint64_t sitting = __atomic_load_n(&seat->sitting, __ATOMIC_SEQ_CST);
    return (uint32_t)sitting == LOCAL_SEAT_TAKEN &&
           __atomic_load_n(&seat->reads, __ATOMIC_SEQ_CST) != 0;
}

static uint32_t joined(const struct local_job *job)
{
    return __atomic_load_n(&job->head->joined, __ATOMIC_SEQ_CST);
}

/* One look at all. */
static uint64_t look_for_least(const struct local_job *job, uint32_t writer, uint32_t *lagging)
{
    uint64_t least = load(&job->seats[writer].head);
    for (uint32_t i = 0; i < job->head->learners; i++) {
        if (!reads(&job->seats[i]))
            continue;
        const uint64_t taken = load(&taken_row(job, i)[writer]);
        if (taken < least && lagging != NULL)
            *lagging = i;
        least = taken < least ? taken : least;
    }
    return least;
}

/* The least that anybody who reads has taken of the writer's. Who begins to read between two looks
 * has what its source had, which may have gone on before the second: then all are looked at again.
 */
static uint64_t least_taken(const struct local_job *job, uint32_t writer, uint32_t *lagging)
{
    for (;;) {
        const uint32_t before = joined(job);
        const uint64_t least = look_for_least(job, writer, lagging); /* replicas.pml: SPACE */
        if (joined(job) == before)
            return least;
    }
}

bool has_room(const struct local_job *job, uint32_t writer, uint32_t *lagging)
{
    return load(&job->seats[writer].head) - least_taken(job, writer, lagging) < job->head->slots;
}

void wake_all(struct local_job *job)
{
    for (uint32_t i = 0; i < job->head->learners; i++)
        event_wake(&job->seats[i].space);
}

/* ---- steps ---- */

static void pile_add(struct local_learner *learner, const struct slot *slot, uint32_t layer)
{
    const struct local_job *job = learner->job;
    struct pile *pile = &learner->replica->pile;
    const size_t rows = job->layers[layer].rows, count = slot->parts[layer].count;
    const struct local_factors from = gradient_factors(job, slot, layer);
    const float rate = -slot->lr / slot->divisor;
    float *u = pile->u + pile->count * rows;
    for (size_t i = 0; i < count * rows; i++)
        u[i] = rate * from.u[i];
    memcpy(pile->v + pile->count * from.width, from.v, count * from.width * sizeof(float));
    if (from.at != NULL)
        memcpy(pile->at + pile->count * rows, from.at, count * rows * sizeof *from.at);
    pile->count += count;
}

/* One filter, and for each sample the window that it has met. */
static void step_windows(const struct local_learner *learner, uint32_t layer, size_t row)
{
    const struct replica *replica = learner->replica;
    const struct pile *pile = &replica->pile;
    const struct local_layer *shape = &learner->job->layers[layer];
    float *weights = replica->weights + shape->offset, sum = 0;
    struct inplace_row step = {.w = weights + row * shape->cols,
                               .cols = shape->cols,
                               .x = pile->v,
                               .at = pile->begins,
                               .by = pile->by,
                               .alpha = 1};
    for (size_t k = 0; k < pile->count; k++) {
        const float by = pile->u[k * shape->rows + row];
        if (by == 0)
            continue;
        pile->begins[step.count] = k * shape->window + pile->at[k * shape->rows + row];
        pile->by[step.count++] = by;
        sum += by;
    }
    if (step.count == 0)
        return;
    inplace_row(replica->kernel, &step);
    if (shape->bias > 0)
        weights[(size_t)shape->rows * shape->cols + row] += sum;
}

static void step_factors(const struct local_learner *learner, uint32_t layer, size_t row,
                         size_t end)
{
    const struct replica *replica = learner->replica;
    const struct pile *pile = &replica->pile;
    const struct local_layer *shape = &learner->job->layers[layer];
    const size_t rows = end - row;
    float *weights = replica->weights + shape->offset;
    for (size_t k = 0; k < pile->count && rows < shape->rows; k++)
        memcpy(pile->some_u + k * rows, pile->u + k * shape->rows + row, rows * sizeof(float));
    const struct inplace_dense step = {
        .shape = {.rows = rows, .cols = shape->cols, .batch = pile->count},
        .w = weights + row * shape->cols,
        .bias = shape->bias > 0 ? weights + (size_t)shape->rows * shape->cols + row : NULL,
        .x = pile->v,
        .dy = rows < shape->rows ? pile->some_u : pile->u,
        .alpha = 1};
    inplace_dense(replica->kernel, &step, pile->scratch);
}

static void step_pile(const struct local_learner *learner, uint32_t layer, uint32_t row,
                      uint32_t end)
{
    if (learner->replica->pile.count == 0 || row >= end)
        return;
    if (learner->job->layers[layer].window == 0)
        step_factors(learner, layer, row, end);
    for (uint32_t i = row; i < end && learner->job->layers[layer].window > 0; i++)
        step_windows(learner, layer, i);
}

static void step_other(const struct local_learner *learner, const struct slot *slot, uint32_t layer)
{
    const struct local_job *job = learner->job;
    const struct local_layer *shape = &job->layers[layer];
    const float rate = slot->lr / slot->divisor;
    float *weights = learner->replica->weights + shape->offset;
    if (slot->parts[layer].form == FORM_DENSE)
        job->sgd(weights, gradient_room(job, slot, layer), shape->floats, rate);
    if (slot->parts[layer].form != FORM_ROWS)
        return;
    const struct local_rows rows = gradient_rows(job, slot, layer);
    float *bias = weights + (size_t)shape->rows * shape->cols;
    for (uint32_t i = 0; i < slot->parts[layer].count; i++) {
        const float *values = rows.values + (size_t)i * rows.stride;
        job->sgd(weights + (size_t)rows.numbers[i] * shape->cols, values, shape->cols, rate);
        if (shape->bias > 0)
            bias[rows.numbers[i]] -= rate * values[shape->cols];
    }
}

/* Goes over what this iteration takes. Factors are piled up; where they are too many for one pile,
 * all rows are stepped by each but the last. Returns whether there was more than one. */
static bool pile_up(struct local_learner *learner, uint32_t layer, bool others)
{
    const struct local_job *job = learner->job;
    struct replica *replica = learner->replica;
    const uint64_t *taken = taken_row(job, learner->seat);
    bool several = false;
    replica->pile.layer = layer;
    replica->pile.count = 0;
    for (uint32_t w = 0; w < job->head->learners; w++)
        for (uint64_t n = taken[w]; n < replica->upto[w]; n++) {
            const struct slot *slot = slot_at(job, w, n);
            const struct part *part = &slot->parts[layer];
            if (part->form != FORM_FACTORS && others)
                step_other(learner, slot, layer);
            if (part->form != FORM_FACTORS)
                continue;
            if (replica->pile.count + part->count > replica->pile.cap) {
                step_pile(learner, layer, 0, job->layers[layer].rows);
                replica->pile.count = 0;
                several = true;
            }
            pile_add(learner, slot, layer);
        }
    return several;
}

void local_catch_up(struct local_learner *learner, uint32_t layer, uint32_t rows)
{
    struct replica *replica = learner->replica;
    if (replica == NULL || !replica->open || rows <= replica->rows[layer])
        return;
    bool several = false;
    if (!replica->begun[layer])
        several = pile_up(learner, layer, true); /* replicas.pml: APPLY */
    else if (replica->pile.layer != layer)
        (void)pile_up(learner, layer, false);
    replica->begun[layer] = true;
    const uint32_t end = several ? learner->job->layers[layer].rows : rows;
    step_pile(learner, layer, replica->rows[layer], end);
    replica->rows[layer] = end;
}

/* ---- looking and taking ---- */

static void set_quiet(struct local_learner *learner, uint32_t quiet)
{
    __atomic_store_n(&learner->job->seats[learner->seat].quiet, quiet, __ATOMIC_SEQ_CST);
}

/* The copy is about to change: not while somebody copies it. Either this learner sees the wish, or
 * who has it sees that the copy changes, and waits. */
static void begin_change(struct local_learner *learner)
{
    uint32_t word;
    set_quiet(learner, 0); /* replicas.pml: unquiet */
    while (is_held(learner->job, learner->seat, &word) && !local_stopping(learner->job)) {
        set_quiet(learner, 1);
        event_wake(&learner->job->head->news);
        rest_if_held(learner->job, learner->seat); /* replicas.pml: REST */
        set_quiet(learner, 0);
    }
}

static void end_change(struct local_learner *learner)
{
    uint32_t word;
    set_quiet(learner, 1); /* replicas.pml: quiet */
    if (is_held(learner->job, learner->seat, &word))
        event_wake(&learner->job->head->news);
}

static void look(struct local_learner *learner)
{
    const struct local_job *job = learner->job;
    struct replica *replica = learner->replica;
    begin_change(learner);
    const uint64_t *taken = taken_row(job, learner->seat);
    replica->open = false;
    for (uint32_t w = 0; w < job->head->learners; w++) {
        replica->upto[w] = load(&job->seats[w].head); /* replicas.pml: LOOK */
        replica->open = replica->open || replica->upto[w] > taken[w];
    }
    memset(replica->rows, 0, job->head->layer_count * sizeof *replica->rows);
    memset(replica->begun, 0, job->head->layer_count * sizeof *replica->begun);
    replica->pile.layer = LOCAL_ANY;
    if (!replica->open)
        end_change(learner);
}

/* What is left of what was looked at, and that it is taken. */
static void take(struct local_learner *learner)
{
    struct local_job *job = learner->job;
    struct replica *replica = learner->replica;
    uint64_t *taken = taken_row(job, learner->seat);
    if (!replica->open)
        return;
    for (uint32_t l = 0; l < job->head->layer_count; l++) {
        if (l == job->head->layer_count / 2)
            reach(job, LOCAL_AT_HALF_STEP);
        local_catch_up(learner, l, job->layers[l].rows);
    }
    reach(job, LOCAL_AT_STEPPED);
    for (uint32_t w = 0; w < job->head->learners; w++)
        if (replica->upto[w] > taken[w]) {
            store(&taken[w], replica->upto[w]); /* replicas.pml: COMMIT */
            event_wake(&job->seats[w].space);
        }
    replica->open = false;
    end_change(learner);
    reach(job, LOCAL_AT_COMMITTED);
}

struct local_job *replica_settle(struct local_learner *learner)
{
    take(learner);
    return learner->job;
}

bool replica_take_all(struct local_learner *learner)
{
    take(learner);
    look(learner);
    const bool some = learner->replica->open;
    take(learner);
    return some;
}

static bool room_is_left(struct local_learner *learner, uint32_t *lagging)
{
    const struct local_job *job = learner->job;
    struct replica *replica = learner->replica;
    const uint64_t head = load(&job->seats[learner->seat].head);
    if (head - replica->least >= job->head->slots)
        replica->least = least_taken(job, learner->seat, lagging);
    return head - replica->least < job->head->slots;
}

/* Who waits for others goes on taking what they publish, or two would wait for each other. */
static tri_status wait_for_room(struct local_learner *learner, tri_error *err)
{
    struct local_job *job = learner->job;
    uint32_t *space = &job->seats[learner->seat].space, lagging = learner->seat, spins = 0;
    struct wait wait = wait_begin(job);
    tri_status status = TRI_OK;
    char who[32], what[64];
    while (status == TRI_OK && !room_is_left(learner, &lagging)) {
        const uint32_t key = event_key(space); /* replicas.pml: SPACE */
        bool idle = false;
        if (replica_take_all(learner) || room_is_left(learner, &lagging))
            continue;
        if (spins++ < SPINS)
            event_pause();
        else
            status = wait_more(&wait, space, key, &idle);
        if (idle)
            (void)local_bury(job);                       /* replicas.pml: BURY */
        if (status == TRI_ETIMEOUT && is_watched(job)) { /* which knows when one is stuck */
            wait = wait_begin(job);
            status = TRI_OK;
        }
        local_touch(learner);
    }
    (void)snprintf(who, sizeof who, "learner %u", learner->seat);
    (void)snprintf(what, sizeof what, "learner %u to take its gradients", lagging);
    return wait_failed(&wait, status, who, what, err);
}

tri_status replica_refresh(struct local_learner *learner, tri_error *err)
{
    take(learner);
    tri_status status = wait_for_room(learner, err);
    if (status != TRI_OK)
        return status;
    look(learner);
    learner->version = version_of_row(learner->job, learner->replica->upto);
    return TRI_OK;
}

/* ---- a copy ---- */

/* What was published by learners that are all dead, and is not in the base, can be had as long as
 * it is in their slots. What is further back than that is lost. */
static void skip_lost(struct local_job *job)
{
    uint64_t *base = taken_row(job, load32(&job->head->base));
    for (uint32_t w = 0; w < job->head->learners; w++) {
        const uint64_t behind = load(&job->seats[w].head) - load(&base[w]);
        if (behind < job->head->slots)
            continue;
        store(&base[w], load(&base[w]) + behind); /* first: who dies in between counts none twice */
        store(&job->seats[w].discarded, load(&job->seats[w].discarded) + behind);
        log_write(job->log, LOG_WARN,
                  "%llu gradients of learner %u are lost: all who had them are dead",
                  (unsigned long long)behind, w);
    }
}

/* The seat begins to read where the source is, before anything is copied: from then on nobody fills
 * a slot that it has yet to read, whatever becomes of the source. False: the source was buried
 * before that, and slots may have been filled; another must be found. */
static bool begin_to_read(struct local_job *job, uint32_t seat, uint32_t source)
{
    uint64_t *own = taken_row(job, seat);
    const uint64_t *row = taken_row(job, source);
    const bool learns = source != load32(&job->head->base);
    if (!learns)
        skip_lost(job);
    for (uint32_t w = 0; w < job->head->learners; w++)
        store(&own[w], load(&row[w]));                                 /* replicas.pml: row */
    __atomic_store_n(&job->seats[seat].reads, 1, __ATOMIC_SEQ_CST);    /* replicas.pml: counted */
    (void)__atomic_fetch_add(&job->head->joined, 1, __ATOMIC_SEQ_CST); /* replicas.pml: said */
    if (!learns || __atomic_load_n(&job->seats[source].whole, __ATOMIC_SEQ_CST) != 0)
        return true; /* replicas.pml: check */
    __atomic_store_n(&job->seats[seat].reads, 0, __ATOMIC_SEQ_CST);
    return false;
}

/* A base that is this seat's old copy would be one that lives, and changes: it becomes the first.
 */
static void move_base(struct local_job *job, uint32_t seat, struct source *source)
{
    const uint32_t first = job->head->learners;
    if (load32(&job->head->base) != seat)
        return;
    copy_layers(job, seat, job->weights);
    for (uint32_t w = 0; w < first; w++)
        store(&taken_row(job, first)[w], load(&taken_row(job, seat)[w]));
    store32(&job->head->base, first); /* replicas.pml: base moves */
    if (source->reader == seat)
        source->reader = first;
}

bool is_watched(const struct local_job *job)
{
    const struct alive_id watch = load_id(&job->head->watch);
    return alive_is(&watch);
}

/* A watchdog puts the last snapshot back; without one there is nothing to wait for. */
static void await_restore(const struct local_job *job)
{
    const struct wait wait = wait_begin(job);
    while (local_copies_lost(job) && is_watched(job) && !local_stopping(job) &&
           clock_us() < wait.deadline_us)
        clock_sleep_us(1000);
}

static tri_status copy_source(struct local_job *job, uint32_t seat, tri_error *err)
{
    struct source source;
    tri_status status;
    for (bool found = false; !found;) {
        await_restore(job);
        status = source_hold(job, seat, HOLD_ANY_MS, &source, err);
        if (status != TRI_OK)
            return status;
        if (!source.exact) {
            source_let_go(job);
            return fail(err, TRI_EEVICTED, "the job '%s' was stopped", job->head->name);
        }
        move_base(job, seat, &source);
        found = begin_to_read(job, seat, source.reader);
        if (!found)
            source_let_go(job);
    }
    reach(job, LOCAL_AT_HELD);
    copy_layers(job, source.reader, copy_of(job, seat)); /* replicas.pml: copy */
    if (local_stopping(job)) { /* nobody rests any more: it may be of two moments */
        source_let_go(job);
        return fail(err, TRI_EEVICTED, "the job '%s' was stopped", job->head->name);
    }
    __atomic_store_n(&job->seats[seat].quiet, 1, __ATOMIC_SEQ_CST);
    store32(&job->seats[seat].whole, 1); /* replicas.pml: complete */
    source_let_go(job);
    return TRI_OK;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Memory for the largest pile of any layer. */
static tri_status make_pile(const struct local_job *job, struct pile *pile, tri_error *err)
{
    size_t rows = 0, width = 0, scratch = 0;
    pile->cap = SAMPLES;
    for (uint32_t l = 0; l < job->head->layer_count; l++)
        pile->cap = most(pile->cap, job->layers[l].max_factors);
    for (uint32_t l = 0; l < job->head->layer_count; l++) {
        const struct local_layer *layer = &job->layers[l];
        if (layer->max_factors == 0)
            continue;
        rows = most(rows, layer->rows);
        width = most(width, layer->window > 0 ? layer->window : layer->cols);
        for (size_t k = 1; k <= pile->cap; k++) {
            const struct dense_shape shape = {.rows = layer->rows, .cols = layer->cols, .batch = k};
            scratch = most(scratch, inplace_scratch_floats(&shape));
        }
    }
    pile->layer = LOCAL_ANY;
    pile->u = mem_array(job->mem, pile->cap * rows + 1, sizeof *pile->u);
    pile->some_u = mem_array(job->mem, pile->cap * rows + 1, sizeof *pile->some_u);
    pile->at = mem_array(job->mem, pile->cap * rows + 1, sizeof *pile->at);
    pile->v = mem_array(job->mem, pile->cap * width + 1, sizeof *pile->v);
    pile->by = mem_array(job->mem, pile->cap, sizeof *pile->by);
    pile->begins = mem_array(job->mem, pile->cap, sizeof *pile->begins);
    pile->scratch = mem_array(job->mem, scratch + 1, sizeof *pile->scratch);
    const bool made = pile->u != NULL && pile->some_u != NULL && pile->at != NULL &&
                      pile->v != NULL && pile->by != NULL && pile->begins != NULL &&
                      pile->scratch != NULL;
    return made ? TRI_OK : fail_nomem(err, "a learner's steps");
}

tri_status replica_open(struct local_learner *learner, tri_error *err)
{
    struct local_job *job = learner->job;
    const struct head *head = job->head;
    struct replica *replica = learner->replica = mem_array(job->mem, 1, sizeof *replica);
    if (replica == NULL)
        return fail_nomem(err, "a learner's weights");
    replica->weights = copy_of(job, learner->seat);
    replica->kernel = inplace_kernel_at(0);
    replica->upto = mem_array(job->mem, head->learners, sizeof *replica->upto);
    replica->rows = mem_array(job->mem, head->layer_count, sizeof *replica->rows);
    replica->begun = mem_array(job->mem, head->layer_count, sizeof *replica->begun);
    if (replica->upto == NULL || replica->rows == NULL || replica->begun == NULL)
        return fail_nomem(err, "a learner's weights");
    tri_status status = make_pile(job, &replica->pile, err);
    if (status == TRI_OK)
        status = copy_source(job, learner->seat, err);
    return status;
}

void replica_close(struct local_learner *learner)
{
    struct replica *replica = learner->replica;
    const struct mem *mem = learner->job->mem;
    if (replica == NULL)
        return;
    mem_free(mem, replica->pile.u);
    mem_free(mem, replica->pile.some_u);
    mem_free(mem, replica->pile.at);
    mem_free(mem, replica->pile.v);
    mem_free(mem, replica->pile.by);
    mem_free(mem, replica->pile.begins);
    mem_free(mem, replica->pile.scratch);
    mem_free(mem, replica->upto);
    mem_free(mem, replica->rows);
    mem_free(mem, replica->begun);
    mem_free(mem, replica);
    learner->replica = NULL;
}

/* The lock is taken in short turns: who has it may want this learner to rest. */
static bool lock_copies(struct local_learner *learner)
{
    enum { TURN_MS = 2 };
    struct local_job *job = learner->job;
    const struct wait wait = wait_begin(job);
    for (;;) {
        const enum robust_got got = robust_lock(&job->head->snapshot, TURN_MS);
        if (got == ROBUST_TAKEN_UP)
            bump(&job->head->locks_taken_up, 1);
        if (got == ROBUST_HELD || got == ROBUST_TAKEN_UP)
            return true;
        if (got == ROBUST_BROKEN || clock_us() >= wait.deadline_us)
            return false;
        (void)replica_take_all(learner); /* replicas.pml: LEAVE: in turns */
    }
}

/* Looks once more under the lock: so the last who leaves has the last gradient of all who left
 * before. One store makes its copy the one that who comes later begins with. */
void replica_leave(struct local_learner *learner)
{
    struct local_job *job = learner->job;
    if (learner->replica == NULL || load32(&job->seats[learner->seat].whole) == 0)
        return;
    store32(&job->seats[learner->seat].done, 1);
    if (!lock_copies(learner)) {
        log_write(job->log, LOG_WARN, "learner %u leaves without its copy of the weights",
                  learner->seat);
        __atomic_store_n(&job->seats[learner->seat].whole, 0, __ATOMIC_SEQ_CST);
        return;
    }
    store32(&job->seats[learner->seat].whole, 0); /* replicas.pml: LEAVE: not whole */
    take(learner);
    look(learner);
    take(learner);
    store32(&job->head->base, learner->seat); /* replicas.pml: LEAVE: base */
    robust_unlock(&job->head->snapshot);
}
