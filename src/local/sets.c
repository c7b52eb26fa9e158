/* Common layers: who reads which set, and who makes the next. */
#include "local/sets.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "os/clock.h"

enum {
    LARGE = 32,        /* samples in a pile: a set is worth making */
    TOO_LARGE = 64,    /* it must be made */
    LAST_US = 1000000, /* in a job that was stopped */
};

/* Where a sample in a pile is from. */
struct origin {
    uint64_t number;
    uint32_t writer;
};

struct set_pile {
    struct pile pile;
    struct origin *origins; /* of its samples */
};

struct sets {
    uint64_t reads;         /* the number of a set, 0: none */
    uint64_t dropped;       /* what this set has is in no pile */
    struct set_pile *piles; /* per layer */
};

/* ---- words that are read and written in one order by all ---- */

static uint64_t look_at(const uint64_t *word)
{
    const uint64_t value = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    SEEN(word);
    return value;
}

static void say(uint64_t *word, uint64_t value)
{
    SAID(word);
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

static bool is_draining(const struct local_job *job)
{
    const uint32_t draining = __atomic_load_n(&job->head->draining, __ATOMIC_SEQ_CST);
    SEEN(&job->head->draining);
    return draining != 0;
}

static void set_draining(struct local_job *job, uint32_t draining)
{
    SAID(&job->head->draining);
    __atomic_store_n(&job->head->draining, draining, __ATOMIC_SEQ_CST);
}

/* ---- sets ---- */

uint64_t set_now(const struct local_job *job)
{
    return look_at(&job->head->set);
}

uint64_t *set_counts(const struct local_job *job, uint64_t number)
{
    return taken_row(job, job->head->learners + 1 + (uint32_t)(number % 2));
}

float *set_layer(const struct local_job *job, uint64_t number, uint32_t layer)
{
    return job->sets + number % 2 * job->head->set_floats + job->layers[layer].place;
}

uint64_t set_of(const struct local_job *job, uint32_t reader)
{
    if (!has_sets(job))
        return 0;
    const uint64_t reads =
        reader == load32(&job->head->base) ? 0 : look_at(&job->seats[reader].reads_set);
    return reads != 0 ? reads : set_now(job);
}

bool set_is(const struct local_job *job, uint64_t number, const uint64_t *row)
{
    const uint64_t *counts = set_counts(job, number);
    for (uint32_t w = 0; w < job->head->learners && has_sets(job); w++)
        if (load(&counts[w]) != load(&row[w]))
            return false;
    return true;
}

/* Somebody who reads this set, or LOCAL_ANY. Who comes between two looks reads what another has
 * read, which may have gone on before the second: then all are looked at again. */
static uint32_t who_reads(const struct local_job *job, uint64_t number)
{
    for (;;) {
        const uint32_t before = joined(job);
        uint32_t found = LOCAL_ANY;
        for (uint32_t i = 0; i < job->head->learners; i++)
            if (seat_reads(&job->seats[i]) && look_at(&job->seats[i].reads_set) == number)
                found = i;
        if (joined(job) == before)
            return found;
    }
}

/* ---- piles ---- */

static void drop_old(struct set_pile *pile, const struct local_layer *layer, const uint64_t *counts)
{
    struct pile *p = &pile->pile;
    size_t kept = 0;
    for (size_t k = 0; k < p->count; k++) {
        const struct origin from = pile->origins[k];
        if (from.number < load(&counts[from.writer]))
            continue;
        if (kept < k) {
            memcpy(p->u + kept * layer->rows, p->u + k * layer->rows, layer->rows * sizeof *p->u);
            memcpy(p->v + kept * layer->cols, p->v + k * layer->cols, layer->cols * sizeof *p->v);
            pile->origins[kept] = from;
        }
        kept++;
    }
    p->count = kept;
}

/* What is in the set goes out of the piles. */
static void drop(struct local_learner *learner, uint64_t number)
{
    const struct local_job *job = learner->job;
    struct sets *sets = learner->sets;
    if (sets->dropped == number)
        return;
    for (uint32_t l = 0; l < job->head->layer_count; l++)
        if (job->layers[l].common)
            drop_old(&sets->piles[l], &job->layers[l], set_counts(job, number));
    sets->dropped = number; /* sets.pml: ADOPT: drop, MAKE: drop */
}

void sets_take(struct local_learner *learner, uint32_t layer, const uint64_t *upto)
{
    const struct local_job *job = learner->job;
    struct set_pile *to = &learner->sets->piles[layer];
    const uint64_t *taken = taken_row(job, learner->seat),
                   *counts = set_counts(job, learner->sets->reads);
    for (uint32_t w = 0; w < job->head->learners; w++) {
        const uint64_t in_set = load(&counts[w]);
        for (uint64_t n = taken[w] > in_set ? taken[w] : in_set; n < upto[w]; n++) {
            const struct slot *slot = slot_at(job, w, n);
            const struct part *part = &slot->parts[layer];
            if (part->form != FORM_FACTORS)
                continue;
            const struct local_factors factors = gradient_factors(job, slot, layer);
            assert(to->pile.count + part->count <= to->pile.cap);
            for (uint32_t k = 0; k < part->count; k++)
                to->origins[to->pile.count + k] = (struct origin){.number = n, .writer = w};
            pile_add(&to->pile, &job->layers[layer], &factors, part->count,
                     -slot->lr / slot->divisor); /* sets.pml: TAKE */
        }
    }
}

const struct pile *sets_pile(const struct local_learner *learner, uint32_t layer)
{
    return &learner->sets->piles[layer].pile;
}

static size_t largest(const struct local_learner *learner)
{
    size_t most = 0;
    for (uint32_t l = 0; l < learner->job->head->layer_count; l++)
        if (learner->sets->piles[l].pile.count > most)
            most = learner->sets->piles[l].pile.count;
    return most;
}

bool sets_are_full(const struct local_learner *learner)
{
    return largest(learner) >= TOO_LARGE;
}

/* ---- reading ---- */

/* Who waits until nobody reads some set sleeps. */
static void read_set(struct local_learner *learner, uint64_t number)
{
    struct local_job *job = learner->job;
    say(&job->seats[learner->seat].reads_set, number);
    learner->sets->reads = number;
    if (is_draining(job))
        event_wake(&job->head->news); /* sets.pml: BEGIN: wake */
}

void sets_begin(struct local_learner *learner)
{
    if (learner->sets != NULL)
        learner->sets->reads = look_at(&learner->job->seats[learner->seat].reads_set);
}

void sets_let_go(struct local_learner *learner)
{
    if (learner->sets != NULL && learner->sets->reads != 0)
        read_set(learner, 0);
}

void sets_adopt(struct local_learner *learner)
{
    if (learner->sets == NULL)
        return;
    uint64_t number;
    do {
        number = set_now(learner->job);
        read_set(learner, number);             /* sets.pml: ADOPT: pin */
    } while (set_now(learner->job) != number); /* sets.pml: ADOPT: check */
    drop(learner, number);
}

uint64_t sets_number(const struct local_learner *learner)
{
    return learner->sets->reads;
}

bool sets_are_settled(const struct local_learner *learner)
{
    const struct sets *sets = learner->sets;
    return sets == NULL || (sets->reads != 0 && set_is(learner->job, sets->reads,
                                                       taken_row(learner->job, learner->seat)));
}

/* ---- making the next ---- */

/* The half that will be written is nobody's: who still reads it and sleeps is woken, and goes on.
 */
static tri_status await_readers(struct local_learner *learner, uint64_t number, tri_error *err)
{
    struct local_job *job = learner->job;
    struct wait wait = wait_begin(job);
    tri_status status = TRI_OK;
    uint32_t reader;
    char who[32], what[64] = "";
    set_draining(job, 1); /* sets.pml: MAKE: flag */
    while (status == TRI_OK && (reader = who_reads(job, number)) != LOCAL_ANY) {
        const uint32_t key = event_key(&job->head->news);
        bool idle = false;
        (void)snprintf(what, sizeof what, "learner %u to begin its next iteration", reader);
        event_wake(&job->seats[reader].space);
        if (who_reads(job, number) != LOCAL_ANY)
            status = wait_more(&wait, &job->head->news, key, &idle);
        if (idle || seat_is_dead(job, reader)) /* others who come and go wake this one often */
            (void)local_bury(job);
        if (status == TRI_ETIMEOUT && is_watched(job)) { /* which knows when one is stuck */
            wait = wait_begin(job);
            status = TRI_OK;
        }
        if (status == TRI_EEVICTED && clock_us() - wait.since_us < LAST_US) { /* all end soon */
            (void)local_bury(job);
            clock_sleep_us(1000);
            status = TRI_OK;
        }
        local_touch(learner);
    }
    set_draining(job, 0);
    (void)snprintf(who, sizeof who, "learner %u", learner->seat);
    return wait_failed(&wait, status, who, what, err);
}

/* A layer of the next set. */
static void write_layer(const struct local_learner *learner, const struct stepper *stepper,
                        uint32_t layer, uint64_t number)
{
    const struct local_job *job = learner->job;
    const struct local_layer *shape = &job->layers[layer];
    const struct pile *pile = sets_pile(learner, layer);
    const size_t matrix = (size_t)shape->rows * shape->cols;
    const float *from = set_layer(job, number, layer);
    float *to = set_layer(job, number + 1, layer);
    pile_product(pile, stepper, shape, from, to);
    reach(job, LOCAL_AT_SET);
    update_copy(to + matrix, from + matrix, shape->bias);
    pile_product_bias(pile, shape, to + matrix);
}

/* Under the lock. What is in the piles is all that the learner has taken and the set has not. */
static tri_status make(struct local_learner *learner, const struct stepper *stepper,
                       uint64_t number, tri_error *err)
{
    struct local_job *job = learner->job;
    struct sets *sets = learner->sets;
    tri_status status = await_readers(learner, number - 1, err); /* sets.pml: MAKE: look */
    if (status != TRI_OK)
        return status;
    const uint64_t *taken = taken_row(job, learner->seat), *old = set_counts(job, number);
    uint64_t *counts = set_counts(job, number + 1);
    for (uint32_t l = 0; l < job->head->layer_count; l++)
        if (job->layers[l].common)
            write_layer(learner, stepper, l, number); /* sets.pml: MAKE: write */
    for (uint32_t w = 0; w < job->head->learners; w++)
        store(&counts[w], taken[w] > load(&old[w]) ? taken[w] : load(&old[w]));
    say(&job->head->set, number + 1); /* sets.pml: MAKE: commit */
    for (uint32_t l = 0; l < job->head->layer_count; l++)
        sets->piles[l].pile.count = 0;
    sets->dropped = number + 1;
    return TRI_OK;
}

static bool try_lock(const struct local_learner *learner, uint32_t timeout_ms)
{
    struct head *head = learner->job->head;
    const enum robust_got got = robust_lock(&head->maker, timeout_ms);
    if (got == ROBUST_TAKEN_UP)
        bump(&head->locks_taken_up, 1);
    if (got != ROBUST_HELD && got != ROBUST_TAKEN_UP)
        return false;
    store32(&head->makes, learner->seat);
    return true;
}

tri_status sets_lock(struct local_learner *learner, tri_error *err)
{
    struct local_job *job = learner->job;
    struct wait wait = wait_begin(job);
    tri_status status = TRI_OK;
    char who[32], what[64];
    while (status == TRI_OK && !try_lock(learner, SLICE_MS)) { /* who fails does not hold it */
        if (clock_us() >= wait.deadline_us && is_watched(job))
            wait = wait_begin(job);
        const uint64_t now = clock_us();
        if (local_stopping(job) && now - wait.since_us >= LAST_US)
            status = TRI_EEVICTED;
        else if (now >= wait.deadline_us)
            status = TRI_ETIMEOUT;
        local_touch(learner);
    }
    (void)snprintf(who, sizeof who, "learner %u", learner->seat);
    (void)snprintf(what, sizeof what, "learner %u, which steps common layers",
                   load32(&job->head->makes));
    return wait_failed(&wait, status, who, what, err);
}

void sets_unlock(struct local_learner *learner)
{
    robust_unlock(&learner->job->head->maker);
}

tri_status sets_relieve(struct local_learner *learner, const struct stepper *stepper,
                        tri_error *err)
{
    struct local_job *job = learner->job;
    if (learner->sets == NULL || largest(learner) < LARGE)
        return TRI_OK;
    const bool must = sets_are_full(learner);
    tri_status status = must ? sets_lock(learner, err) : TRI_OK;
    if (status != TRI_OK || (!must && !try_lock(learner, 0)))
        return status;
    const uint64_t number = set_now(job);
    drop(learner, number);
    if (largest(learner) >= LARGE && (must || who_reads(job, number - 1) == LOCAL_ANY))
        status = make(learner, stepper, number, err);
    sets_unlock(learner);
    return status;
}

tri_status sets_make(struct local_learner *learner, const struct stepper *stepper, tri_error *err)
{
    const uint64_t number = set_now(learner->job);
    drop(learner, number);
    tri_status status = TRI_OK;
    if (!set_is(learner->job, number, taken_row(learner->job, learner->seat)))
        status = make(learner, stepper, number, err);
    sets_adopt(learner);
    return status;
}

/* ---- opening ---- */

/* One look may bring the slots of all, and comes to piles that are not full. Who goes along with
 * its backward pass for the first time has looked twice by then. */
static bool open_pile(const struct local_job *job, uint32_t layer, struct set_pile *pile)
{
    const struct local_layer *shape = &job->layers[layer];
    struct pile_size size = {0};
    pile_size_add(
        shape, TOO_LARGE + 2 * (size_t)job->head->learners * job->head->slots * shape->max_factors,
        &size);
    pile->origins = mem_array(job->mem, size.cap, sizeof *pile->origins);
    return pile->origins != NULL && pile_make(job->mem, &size, &pile->pile);
}

tri_status sets_open(struct local_learner *learner, tri_error *err)
{
    const struct local_job *job = learner->job;
    if (!has_sets(job))
        return TRI_OK;
    struct sets *sets = learner->sets = mem_array(job->mem, 1, sizeof *sets);
    if (sets == NULL)
        return fail_nomem(err, "a learner's steps");
    sets->piles = mem_array(job->mem, job->head->layer_count, sizeof *sets->piles);
    bool made = sets->piles != NULL;
    for (uint32_t l = 0; l < job->head->layer_count && made; l++)
        made = !job->layers[l].common || open_pile(job, l, &sets->piles[l]);
    return made ? TRI_OK : fail_nomem(err, "a learner's steps");
}

void sets_close(struct local_learner *learner)
{
    const struct mem *mem = learner->job->mem;
    struct sets *sets = learner->sets;
    if (sets == NULL)
        return;
    for (uint32_t l = 0; l < learner->job->head->layer_count && sets->piles != NULL; l++) {
        pile_free(mem, &sets->piles[l].pile);
        mem_free(mem, sets->piles[l].origins);
    }
    mem_free(mem, sets->piles);
    mem_free(mem, sets);
    learner->sets = NULL;
}
