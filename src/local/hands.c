/* The push and the pull thread: what is computed with and what is moved are never the same.
 *
 * Each hand-over is a word that is 0 or 1 and an event. Push: the learner fills one of its two
 * gradients while the thread moves the other; it waits only when it comes with the next before the
 * last is gone. Pull: the thread brings the back copy up to date while the learner reads the front
 * one. */
#include <errno.h>
#include <stdio.h>

#include "local/learner.h"

/* Waits until hand->full is `want`, or the learner leaves; false then. For the threads. */
static bool await(struct local_learner *learner, struct hand *hand, uint32_t want)
{
    while (load32(&hand->full) != want) {
        if (load32(&learner->leaving) != 0)
            return false;
        uint32_t key = event_key(&hand->event);
        if (load32(&hand->full) != want && load32(&learner->leaving) == 0)
            (void)event_wait(&hand->event, key, SLICE_MS);
    }
    return true;
}

/* The same for the learner. */
static tri_status wait_for(struct local_learner *learner, struct hand *hand, uint32_t want,
                           const char *what, tri_error *err)
{
    struct wait wait = wait_begin(learner->job);
    tri_status status = TRI_OK;
    char who[32];
    while (status == TRI_OK && load32(&hand->full) != want) {
        uint32_t key = event_key(&hand->event);
        if (load32(&hand->full) != want)
            status = wait_more(&wait, &hand->event, key, NULL);
        local_touch(learner);
    }
    (void)snprintf(who, sizeof who, "learner %u", learner->seat);
    return wait_failed(&wait, status, who, what, err);
}

static void hand_over(struct hand *hand, uint32_t full)
{
    store32(&hand->full, full); /* local.pml: hand over */
    event_wake(&hand->event);
}

/* ---- push ---- */

static void *push_live(void *arg)
{
    struct local_learner *learner = arg;
    tri_error err;
    while (await(learner, &learner->push, 1)) {
        tri_status status = deliver(learner, learner->own[1 - learner->fill], &err);
        if (status != TRI_OK && load32((uint32_t *)&learner->wrong) == 0) {
            learner->err = err;
            __atomic_store_n((uint32_t *)&learner->wrong, (uint32_t)status, __ATOMIC_RELEASE);
        }
        hand_over(&learner->push, 0);
    }
    return NULL;
}

static tri_status push_failed(struct local_learner *learner, tri_error *err)
{
    tri_status status = (tri_status)load32((uint32_t *)&learner->wrong);
    if (status != TRI_OK && err != NULL)
        *err = learner->err;
    return status;
}

tri_status push_idle(struct local_learner *learner, tri_error *err)
{
    tri_status status = wait_for(learner, &learner->push, 0, "its last gradient to be moved", err);
    return status == TRI_OK ? push_failed(learner, err) : status;
}

/* The thread reads `fill` only while full is 1, and it changes only while full is 0. */
tri_status push_over(struct local_learner *learner, tri_error *err)
{
    tri_status status = push_idle(learner, err);
    if (status != TRI_OK)
        return status;
    learner->fill = 1 - learner->fill;
    hand_over(&learner->push, 1);
    return TRI_OK;
}

/* ---- pull ---- */

/* What has not changed since it was last copied is not copied. */
tri_status copy_refresh(struct local_learner *learner, struct copy *copy, tri_error *err)
{
    struct local_job *job = learner->job;
    struct seat *seat = &job->seats[learner->seat];
    tri_status status = lock_read(job, learner->seat, err);
    if (status != TRI_OK)
        return status;
    copy->all_changes = load(&job->head->changes);
    copy->version = load(&job->head->version);
    for (uint32_t l = 0; l < job->head->layer_count; l++) {
        uint64_t changes = load(&job->changes[l]);
        const struct local_layer *layer = &job->layers[l];
        if (l == job->head->layer_count / 2)
            reach(job, LOCAL_AT_PULL); /* local.pml: copy */
        if (copy->changes[l] == changes)
            continue;
        update_copy(copy->weights + layer->offset, job->weights + layer->offset, layer->floats);
        copy->changes[l] = changes;
    }
    unlock_read(job, learner->seat);
    bump(&seat->pulls, 1);
    return TRI_OK;
}

static void *pull_live(void *arg)
{
    struct local_learner *learner = arg;
    struct local_job *job = learner->job;
    while (await(learner, &learner->pull, 0)) {
        struct copy *front = &learner->copies[learner->front];
        struct copy *back = &learner->copies[1 - learner->front];
        bool current = load(&job->head->changes) == front->all_changes;
        learner->fresh = !current && copy_refresh(learner, back, NULL) == TRI_OK;
        if (current) /* local.pml: skip */
            bump(&job->seats[learner->seat].pulls_skipped, 1);
        hand_over(&learner->pull, 1);
    }
    return NULL;
}

tri_status pull_over(struct local_learner *learner, tri_error *err)
{
    if (load32(&learner->pull.full) == 0 && ++learner->used < learner->reuse)
        return TRI_OK;
    tri_status status = wait_for(learner, &learner->pull, 1, "a copy of the weights", err);
    if (status != TRI_OK)
        return status;
    if (learner->fresh)
        learner->front = 1 - learner->front;
    learner->used = 0;
    hand_over(&learner->pull, 0);
    return TRI_OK;
}

/* ---- both ---- */

static tri_status start(struct local_learner *learner, struct hand *hand, void *(*live)(void *),
                        tri_error *err)
{
    int wrong = pthread_create(&hand->thread, NULL, live, learner);
    hand->on = wrong == 0;
    errno = wrong;
    return wrong == 0 ? TRI_OK : fail_errno(err, TRI_EIO, "cannot start a thread of a learner");
}

tri_status hands_open(struct local_learner *learner, const struct local_learner_options *options,
                      tri_error *err)
{
    tri_status status = TRI_OK;
    if (options->push_thread)
        status = start(learner, &learner->push, push_live, err);
    if (status == TRI_OK && options->pull_thread && learner->copies[1].weights != NULL)
        status = start(learner, &learner->pull, pull_live, err);
    if (status != TRI_OK)
        hands_close(learner);
    return status;
}

void hands_close(struct local_learner *learner)
{
    if (learner->push.on)
        (void)wait_for(learner, &learner->push, 0, "its last gradient to be moved", NULL);
    store32(&learner->leaving, 1);
    struct hand *const hands[] = {&learner->push, &learner->pull};
    for (int i = 0; i < 2; i++)
        if (hands[i]->on) {
            event_wake(&hands[i]->event);
            (void)pthread_join(hands[i]->thread, NULL);
            hands[i]->on = false;
        }
}
