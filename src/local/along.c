/* Steps that a learner makes itself, along with its backward pass (mode replicas).
 *
 * The backward pass goes over a layer's weights anyway, and a step of one sample or two costs next
 * to nothing beside reading them. So who computes its gradient looks what others have published,
 * and steps its copy by those and by its own in the same pass: then nothing is left to be done for
 * the layer before the next forward pass reads it. That iteration does not look again.
 *
 * Its own gradient is in the copy before it is published. So nobody may copy until that is done and
 * all layers have caught up: the learner is not quiet, and publishing counts as one layer more that
 * is behind. Who dies in between takes its copy along. Who gives the gradient up cannot take the
 * step back; what was stepped is published.
 *
 * The comments "replicas.pml: x" name the steps of verify/replicas.pml. */
#include <math.h>

#include "local/replica.h"

#define BY_MOST 1e12F /* of another's rate by one's own: with more, sums would be infinite */

bool replica_is_stepping(const struct local_learner *learner)
{
    return learner->taken && learner->replica->along;
}

tri_status replica_check(const struct local_learner *learner, tri_error *err)
{
    if (!replica_is_stepping(learner))
        return TRI_OK;
    return fail(err, TRI_EARG, "learner %u has made steps of a gradient that it has not published",
                learner->seat);
}

bool replica_has_other_rate(const struct local_learner *learner, float lr, float divisor)
{
    const struct replica *replica = learner->replica;
    return lr != replica->along_lr || divisor != replica->along_divisor;
}

/* Who owes steps to common layers is not quiet, so that nobody copies, and settles before the next
 * iteration: now the program reckons with them. */
static void begin(struct local_learner *learner, float lr, float divisor)
{
    struct replica *replica = learner->replica;
    replica_take(learner); /* replicas.pml: ALONG: take */
    if (is_quiet(&learner->job->seats[learner->seat]))
        replica_begin_change(learner); /* replicas.pml: ALONG: unquiet */
    replica_look_at_heads(learner, 1); /* replicas.pml: ALONG: look */
    replica->behind++;
    replica->along = true;
    replica->along_lr = lr;
    replica->along_divisor = divisor;
}

void replica_published(struct local_learner *learner)
{
    struct replica *replica = learner->replica;
    if (replica->along && --replica->behind == 0)
        replica_commit(learner); /* replicas.pml: ALONG: commit */
}

static bool is_stepped(const struct replica *replica, uint32_t layer)
{
    return replica->rows[layer] > 0;
}

void replica_keep_stepped(const struct local_learner *learner, struct slot *slot)
{
    for (uint32_t l = 0; l < learner->job->head->layer_count; l++)
        if (!is_stepped(learner->replica, l))
            slot->parts[l] = (struct part){.form = FORM_NONE};
}

/* The samples of a gradient. False: they cannot go along. */
static bool list_samples(const struct local_job *job, const struct slot *slot, uint32_t layer,
                         float rate, struct local_others *out)
{
    const struct local_layer *shape = &job->layers[layer];
    const struct part *part = &slot->parts[layer];
    const float by = slot->lr / slot->divisor / rate;
    if (part->form == FORM_NONE)
        return true;
    if (part->form != FORM_FACTORS || out->count + part->count > LOCAL_OTHERS ||
        !(fabsf(by) <= BY_MOST))
        return false;
    const struct local_factors from = gradient_factors(job, slot, layer);
    for (uint32_t k = 0; k < part->count; k++)
        out->at[out->count++] =
            (struct local_other){.u = from.u + (size_t)k * shape->rows,
                                 .v = from.v + (size_t)k * from.width,
                                 .at = from.at != NULL ? from.at + (size_t)k * shape->rows : NULL,
                                 .by = by};
    return true;
}

/* All but the one in the making. */
static bool list_others(const struct local_learner *learner, uint32_t layer,
                        struct local_others *out)
{
    const struct local_job *job = learner->job;
    const struct replica *replica = learner->replica;
    const uint64_t *taken = taken_row(job, learner->seat);
    const float rate = replica->along_lr / replica->along_divisor;
    out->count = 0;
    for (uint32_t w = 0; w < job->head->learners; w++) {
        const uint64_t end = replica->upto[w] - (w == learner->seat ? 1 : 0);
        for (uint64_t n = taken[w]; n < end; n++)
            if (!list_samples(job, slot_at(job, w, n), layer, rate, out))
                return false;
    }
    return true;
}

bool local_learn(struct local_learner *learner, uint32_t layer, float lr, float divisor,
                 struct local_others *out)
{
    const struct local_job *job = learner->job;
    struct replica *replica = learner->replica;
    if (replica == NULL || !learner->taken || job->layers[layer].common || !(divisor > 0) ||
        !isnormal(lr / divisor))
        return false;
    const struct slot *slot = learner->gradient.slot;
    if (slot->parts[layer].form != FORM_FACTORS ||
        gradient_check_layer(job, slot, layer, NULL) != TRI_OK)
        return false;
    if (!replica->along)
        begin(learner, lr, divisor);
    if (is_stepped(replica, layer) || replica_has_other_rate(learner, lr, divisor) ||
        !list_others(learner, layer, out))
        return false;
    replica->begun[layer] = true;
    replica_note_rows(learner, layer, job->layers[layer].rows); /* replicas.pml: ALONG: step */
    return true;
}
