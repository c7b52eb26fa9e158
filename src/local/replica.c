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
 * Or they are put in during the backward pass, by the learner itself (along.c): then it does not
 * look again before the next. Steps of common layers, which are in no copy, are sets.c.
 *
 * The comments "replicas.pml: x" name the steps of verify/replicas.pml. */
#include "local/replica.h"

#include <stdio.h>

#include "local/pile.h"
#include "local/sets.h"
#include "os/clock.h"

enum {
    SPINS = 64,         /* looks before the first sleep */
    LONG_US = 10000000, /* a wait that is worth a word */
    SAMPLES = 64,       /* of factors that are stepped together, unless one gradient has more */
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

bool seat_reads(const struct seat *seat)
{
    const uint64_t sitting = __atomic_load_n(&seat->sitting, __ATOMIC_SEQ_CST);
    return (uint32_t)sitting == LOCAL_SEAT_TAKEN &&
           __atomic_load_n(&seat->reads, __ATOMIC_SEQ_CST) != 0;
}

uint32_t joined(const struct local_job *job)
{
    return __atomic_load_n(&job->head->joined, __ATOMIC_SEQ_CST);
}

/* One look at all. */
static uint64_t look_for_least(const struct local_job *job, uint32_t writer, uint32_t *lagging)
{
    uint64_t least = load(&job->seats[writer].head);
    for (uint32_t i = 0; i < job->head->learners; i++) {
        if (!seat_reads(&job->seats[i]))
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

static float *layer_weights(const struct local_learner *learner, uint32_t layer)
{
    return learner->replica->weights + learner->job->layers[layer].place;
}

static void step_other(const struct local_learner *learner, const struct slot *slot, uint32_t layer)
{
    const struct local_job *job = learner->job;
    const struct local_layer *shape = &job->layers[layer];
    const float rate = slot->lr / slot->divisor;
    float *weights = layer_weights(learner, layer);
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

static void step_all(const struct local_learner *learner, uint32_t layer, struct pile *pile)
{
    pile_step_all(pile, &learner->replica->stepper, &learner->job->layers[layer],
                  layer_weights(learner, layer));
}

/* Goes over what this iteration takes. Factors are piled up; where they are too many for the pile,
 * all rows are stepped by it, and another begins. Returns whether that was so. */
static bool pile_up(const struct local_learner *learner, uint32_t layer, struct pile *pile,
                    bool others)
{
    const struct local_job *job = learner->job;
    const struct local_layer *shape = &job->layers[layer];
    const uint64_t *taken = taken_row(job, learner->seat);
    bool several = false;
    for (uint32_t w = 0; w < job->head->learners; w++)
        for (uint64_t n = taken[w]; n < learner->replica->upto[w]; n++) {
            const struct slot *slot = slot_at(job, w, n);
            const struct part *part = &slot->parts[layer];
            if (part->form != FORM_FACTORS && others)
                step_other(learner, slot, layer);
            if (part->form != FORM_FACTORS)
                continue;
            if (pile->count + part->count > pile->cap) {
                step_all(learner, layer, pile);
                several = true;
            }
            const struct local_factors factors = gradient_factors(job, slot, layer);
            pile_add(pile, shape, &factors, part->count, -slot->lr / slot->divisor);
        }
    return several;
}

static bool pile_up_shared(struct local_learner *learner, uint32_t layer, bool others)
{
    struct replica *replica = learner->replica;
    replica->pile_layer = layer;
    replica->pile.count = 0;
    return pile_up(learner, layer, &replica->pile, others);
}

/* ---- a copy that changes ---- */

static void set_quiet(struct local_learner *learner, uint32_t quiet)
{
    uint32_t *word = &learner->job->seats[learner->seat].quiet;
    SAID(word);
    __atomic_store_n(word, quiet, __ATOMIC_SEQ_CST);
}

static tri_status settle(struct local_learner *learner, tri_error *err);

/* The copy is about to change: not while somebody copies it. Either this learner sees the wish, or
 * who has it sees that the copy changes, and waits. */
void replica_begin_change(struct local_learner *learner)
{
    uint32_t word;
    set_quiet(learner, 0); /* replicas.pml: unquiet */
    while (is_held(learner->job, learner->seat, &word) && !local_stopping(learner->job)) {
        if (settle(learner, NULL) != TRI_OK) /* then it cannot be copied now */
            return;
        set_quiet(learner, 1);
        event_wake(&learner->job->head->news);
        rest_if_held(learner->job, learner->seat); /* replicas.pml: REST */
        set_quiet(learner, 0);
    }
}

/* Who owes steps to common layers stays as it is: the program may be in the middle of an iteration
 * that reckons with them. It sees a wish before the next. */
static void end_change(struct local_learner *learner)
{
    uint32_t word;
    if (!sets_are_settled(learner))
        return;
    set_quiet(learner, 1); /* replicas.pml: quiet */
    if (is_held(learner->job, learner->seat, &word))
        event_wake(&learner->job->head->news);
}

/* All that was looked at is in. */
void replica_commit(struct local_learner *learner)
{
    struct local_job *job = learner->job;
    struct replica *replica = learner->replica;
    uint64_t *taken = taken_row(job, learner->seat);
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

/* The first `rows` rows are up to date. */
void replica_note_rows(struct local_learner *learner, uint32_t layer, uint32_t rows)
{
    struct replica *replica = learner->replica;
    replica->rows[layer] = rows;
    if (rows < learner->job->layers[layer].rows)
        return;
    replica->behind--;
    if (replica->behind == replica->half)
        reach(learner->job, LOCAL_AT_HALF_STEP);
    if (replica->behind == 0)
        replica_commit(learner);
}

/* ---- bringing it up to date ---- */

/* The first `rows` rows get what this iteration takes. */
static void catch_up(struct local_learner *learner, uint32_t layer, uint32_t rows)
{
    struct replica *replica = learner->replica;
    if (rows <= replica->rows[layer] || replica_is_stepping(learner))
        return;
    if (learner->job->layers[layer].common) {
        sets_take(learner, layer, replica->upto);
        replica_note_rows(learner, layer, learner->job->layers[layer].rows);
        return;
    }
    bool several = false;
    if (!replica->begun[layer])
        several = pile_up_shared(learner, layer, true); /* replicas.pml: APPLY */
    else if (replica->pile_layer != layer)
        (void)pile_up_shared(learner, layer, false);
    replica->begun[layer] = true;
    const struct local_layer *shape = &learner->job->layers[layer];
    const uint32_t end = several ? shape->rows : rows;
    pile_step(&replica->pile, &replica->stepper, shape, layer_weights(learner, layer),
              replica->rows[layer], end);
    replica_note_rows(learner, layer, end);
}

void local_catch_up(struct local_learner *learner, uint32_t layer, uint32_t rows)
{
    if (learner->replica != NULL)
        catch_up(learner, layer, rows);
}

void local_pend(struct local_learner *learner, uint32_t layer, struct local_pending *out)
{
    const struct local_layer *shape = &learner->job->layers[layer];
    local_catch_up(learner, layer, shape->rows);
    *out = (struct local_pending){.weights = local_weights(learner, layer)};
    if (!shape->common)
        return;
    const struct pile *pile = sets_pile(learner, layer);
    out->count = pile->count;
    out->u = pile->u;
    out->v = pile->v;
}

void local_copy(const struct local_learner *learner, uint32_t layer, float *weights, float *bias)
{
    const struct local_layer *shape = &learner->job->layers[layer];
    const size_t matrix = (size_t)shape->rows * shape->cols;
    const float *from = local_weights(learner, layer);
    if (shape->bias > 0)
        update_copy(bias, from + matrix, shape->rows);
    if (!shape->common) {
        update_copy(weights, from, matrix);
        return;
    }
    pile_product(sets_pile(learner, layer), &learner->replica->stepper, shape, from, weights);
    pile_product_bias(sets_pile(learner, layer), shape, bias);
}

/* ---- looking and taking ---- */

/* What is there; this learner's own counts `own` more. */
void replica_look_at_heads(struct local_learner *learner, uint64_t own)
{
    const struct local_job *job = learner->job;
    struct replica *replica = learner->replica;
    const uint64_t *taken = taken_row(job, learner->seat);
    replica->open = false;
    for (uint32_t w = 0; w < job->head->learners; w++) {
        replica->upto[w] =
            load(&job->seats[w].head) + (w == learner->seat ? own : 0); /* replicas.pml: LOOK */
        replica->open = replica->open || replica->upto[w] > taken[w];
    }
    replica->behind = 0;
    for (uint32_t l = 0; l < job->head->layer_count; l++) { /* gradients were of some of them */
        const bool behind = replica->open && (own > 0 || load(&job->steps[l]) > 0);
        replica->rows[l] = behind ? 0 : job->layers[l].rows;
        replica->begun[l] = false;
        replica->behind += behind;
    }
    replica->half = replica->behind / 2;
    replica->pile_layer = LOCAL_ANY;
}

static void look_now(struct local_learner *learner)
{
    sets_adopt(learner);
    replica_look_at_heads(learner, 0);
    if (!learner->replica->open)
        end_change(learner);
}

/* The last iteration has looked already, and made the steps of what it found. */
static void look_no_further(struct local_learner *learner)
{
    sets_adopt(learner);
    end_change(learner);
}

/* Nothing is read any more of what the last iteration has read. */
static tri_status look(struct local_learner *learner, bool further, tri_error *err)
{
    replica_begin_change(learner);
    /* Or who makes a set might wait for one who waits for the lock. */
    sets_let_go(learner); /* sets.pml: BEGIN: unpin */
    tri_status status = sets_relieve(learner, &learner->replica->stepper, err);
    if (status != TRI_OK)
        sets_adopt(learner);
    else if (further)
        look_now(learner);
    else
        look_no_further(learner);
    return status;
}

void replica_take(struct local_learner *learner)
{
    const struct local_job *job = learner->job;
    if (replica_is_stepping(learner))
        return;
    for (uint32_t l = 0; l < job->head->layer_count && learner->replica->open; l++)
        catch_up(learner, l, job->layers[l].rows);
    if (learner->replica->open)
        replica_commit(learner);
}

/* Common layers that are ahead of the copy. */
static bool is_ahead(const struct local_learner *learner)
{
    const struct local_job *job = learner->job;
    const uint64_t *taken = taken_row(job, learner->seat), *counts = set_counts(job, set_now(job));
    for (uint32_t w = 0; w < job->head->learners; w++)
        if (load(&counts[w]) > taken[w])
            return true;
    return false;
}

/* Under the lock nobody makes a set, so that what has been published is all that one can have. */
static tri_status settle_sets(struct local_learner *learner, bool looks, tri_error *err)
{
    tri_status status = sets_lock(learner, err); /* sets.pml: SETTLE: lock */
    if (status != TRI_OK)
        return status;
    looks = looks || is_ahead(learner);
    if (looks && sets_are_full(learner))
        status = sets_make(learner, &learner->replica->stepper, err);
    if (looks && status == TRI_OK) {
        look_now(learner);
        replica_take(learner);
    }
    if (status == TRI_OK)
        status = sets_make(learner, &learner->replica->stepper, err);
    sets_unlock(learner);
    return status;
}

/* Everything that was taken is in the copy, and in the set that goes with it. */
static tri_status settle(struct local_learner *learner, tri_error *err)
{
    if (sets_are_settled(learner))
        return TRI_OK;
    sets_let_go(learner);
    tri_status status = settle_sets(learner, false, err);
    if (status != TRI_OK)
        sets_adopt(learner);
    return status;
}

tri_status local_settle(struct local_learner *learner, tri_error *err)
{
    if (learner->replica == NULL)
        return TRI_OK;
    tri_status status = replica_check(learner, err);
    if (status != TRI_OK)
        return status;
    replica_take(learner);
    if (is_quiet(&learner->job->seats[learner->seat]))
        return TRI_OK;
    status = settle(learner, err);
    end_change(learner);
    return status;
}

bool replica_take_all(struct local_learner *learner)
{
    replica_take(learner);
    if (look(learner, true, NULL) != TRI_OK)
        return false;
    const bool some = learner->replica->open;
    replica_take(learner);
    end_change(learner);
    return some;
}

tri_status replica_flush(struct local_learner *learner, tri_error *err)
{
    tri_status status = replica_check(learner, err);
    if (status != TRI_OK)
        return status;
    if (learner->sets == NULL) {
        (void)replica_take_all(learner);
        return TRI_OK;
    }
    replica_take(learner);
    replica_begin_change(learner);
    sets_let_go(learner);
    status = settle_sets(learner, true, err);
    if (status != TRI_OK)
        sets_adopt(learner);
    end_change(learner);
    return status;
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

bool is_watched(const struct local_job *job)
{
    const struct alive_id watch = load_id(&job->head->watch);
    return alive_is(&watch);
}

/* Once for each wait that is long: whoever watches may wait longer than this learner would. */
static bool tell_waiting(const struct local_learner *learner, uint64_t since_us, uint32_t lagging)
{
    const uint64_t now_us = clock_us();
    if (now_us - since_us < LONG_US)
        return false;
    log_write(learner->job->log, LOG_WARN, "learner %u waits for learner %u to take its gradients",
              (unsigned)learner->seat, (unsigned)lagging);
    return true;
}

/* Who waits for others goes on taking what they publish, or two would wait for each other. */
static tri_status wait_for_room(struct local_learner *learner, tri_error *err)
{
    struct local_job *job = learner->job;
    uint32_t *space = &job->seats[learner->seat].space, lagging = learner->seat, spins = 0;
    struct wait wait = wait_begin(job);
    const uint64_t since_us = wait.since_us;
    tri_status status = TRI_OK;
    bool told = false;
    char who[32], what[64];
    while (status == TRI_OK && !room_is_left(learner, &lagging)) {
        const uint32_t key = event_key(space); /* replicas.pml: SPACE */
        bool idle = false;
        told = told || tell_waiting(learner, since_us, lagging);
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
    struct replica *replica = learner->replica;
    tri_status status = replica_check(learner, err);
    if (status != TRI_OK)
        return status;
    replica_take(learner); /* replicas.pml: ALONG: commit, if there was one */
    status = wait_for_room(learner, err);
    if (status != TRI_OK)
        return status;
    status = look(learner, !replica->along, err);
    replica->along = false;
    learner->version = version_of_row(learner->job, learner->replica->upto);
    return status;
}

/* ---- opening ---- */

/* Memory for the largest pile of any layer. */
static tri_status make_steps(const struct local_job *job, struct replica *replica, tri_error *err)
{
    struct pile_size size = {.cap = SAMPLES};
    for (uint32_t l = 0; l < job->head->layer_count; l++)
        if (job->layers[l].max_factors > 0)
            pile_size_add(&job->layers[l], job->layers[l].max_factors, &size);
    replica->pile_layer = LOCAL_ANY;
    const bool made =
        pile_make(job->mem, &size, &replica->pile) && stepper_make(job, &size, &replica->stepper);
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
    replica->upto = mem_array(job->mem, head->learners, sizeof *replica->upto);
    replica->rows = mem_array(job->mem, head->layer_count, sizeof *replica->rows);
    replica->begun = mem_array(job->mem, head->layer_count, sizeof *replica->begun);
    for (uint32_t l = 0; l < head->layer_count && replica->rows != NULL; l++)
        replica->rows[l] = job->layers[l].rows;
    if (replica->upto == NULL || replica->rows == NULL || replica->begun == NULL)
        return fail_nomem(err, "a learner's weights");
    tri_status status = make_steps(job, replica, err);
    if (status == TRI_OK)
        status = sets_open(learner, err);
    if (status == TRI_OK)
        status = replica_begin(job, learner->seat, err);
    sets_begin(learner);
    return status;
}

void replica_close(struct local_learner *learner)
{
    struct replica *replica = learner->replica;
    const struct mem *mem = learner->job->mem;
    if (replica == NULL)
        return;
    pile_free(mem, &replica->pile);
    stepper_free(mem, &replica->stepper);
    mem_free(mem, replica->upto);
    mem_free(mem, replica->rows);
    mem_free(mem, replica->begun);
    mem_free(mem, replica);
    learner->replica = NULL;
    sets_close(learner);
}
