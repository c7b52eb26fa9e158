/* Dropout: every sample has a generator of its own, named by its number in the stream of samples,
 * and so loses the same values on whatever worker it ends up. */
#include <string.h>

#include "engine/op.h"

struct dropout {
    struct rng rng; /* of the seed; never drawn from */
    uint64_t first; /* number of the batch's first sample */
    uint32_t limit; /* a draw of 32 bits below it drops the value */
    float scale;    /* of what stays */
    float *factors; /* 0 or scale, by value; of the last forward() */
};

static void draw(struct dropout *own, uint64_t sample, float *factors, size_t count)
{
    struct rng rng;
    rng_fork(&own->rng, sample, &rng);
    uint64_t bits = 0;
    for (size_t i = 0; i < count; i++) { /* two values of each draw */
        bits = i % 2 == 0 ? rng_u64(&rng) : bits >> 32;
        factors[i] = (uint32_t)bits < own->limit ? 0 : own->scale;
    }
}

static void forward(struct op *op, bool training)
{
    struct dropout *own = op->own;
    const size_t count = shape3_floats(op->out.shape);
    const float *x = op->in[0]->out.data;
    if (!training) {
        memcpy(op->out.data, x, op->batch * count * sizeof *x);
        return;
    }
    for (uint32_t k = 0; k < op->batch; k++)
        draw(own, own->first + k, own->factors + k * count, count);
    for (size_t i = 0; i < op->batch * count; i++)
        op->out.data[i] = x[i] * own->factors[i];
}

static void backward(struct op *op)
{
    const struct dropout *own = op->own;
    struct op *in = op->in[0];
    if (!in->wants_diff)
        return;
    const size_t count = op->batch * shape3_floats(op->out.shape);
    const float *diff = op->diff.data;
    float *to = in->diff.data;
    for (size_t i = 0; i < count; i++)
        to[i] = diff[i] * own->factors[i] + (in->diff_written ? to[i] : 0);
    in->diff_written = true;
}

static void free_own(struct op *op)
{
    struct dropout *own = op->own;
    if (own != NULL) {
        op_floats_free(op->mem, own->factors);
        mem_free(op->mem, own);
    }
    op_free_plain(op);
}

static const struct op_kind kind = {
    .name = "dropout", .forward = forward, .backward = backward, .free = free_own};

static bool make(struct op *op, struct shape3 shape, float drop, uint64_t seed)
{
    struct dropout *own = op->own = mem_array(op->mem, 1, sizeof *own);
    if (own == NULL || !op_make_plain(op, shape))
        return false;
    *own = (struct dropout){.limit = (uint32_t)(0x1p32 * (double)drop), .scale = 1 / (1 - drop)};
    rng_init(&own->rng, seed);
    own->factors = op_floats(op->mem, op->batch * shape3_floats(shape));
    return own->factors != NULL;
}

tri_status op_dropout_new(const struct op_frame *frame, struct op *in, float drop, uint64_t seed,
                          struct op **out, tri_error *err)
{
    if (in->out.layout != NULL || in->batch != frame->batch)
        return fail(err, TRI_EARG, "dropout '%s' wants plain values of its own batch from '%s'",
                    frame->name, in->name);
    if (!(drop >= 0 && drop < 1))
        return fail(err, TRI_EARG, "dropout '%s' cannot drop a part of %g: 0 to below 1",
                    frame->name, (double)drop);
    struct op *op = op_new(frame->mem, &kind, frame->name, frame->batch, &in, 1, false);
    if (op == NULL || !make(op, in->out.shape, drop, seed)) {
        op_free(op);
        return fail_nomem(err, frame->name);
    }
    *out = op;
    return TRI_OK;
}

void op_dropout_at(struct op *op, uint64_t first_sample)
{
    struct dropout *own = op->own;
    own->first = first_sample;
}
