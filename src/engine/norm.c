/* Batch normalisation: each channel to mean 0 and variance 1, then scaled and shifted. */
#include <stdio.h>

#include "engine/dnn.h"

static const float momentum = 0.9F;

struct own {
    struct dnn *dnn;
    float *mean, *variance;                 /* of the batch */
    float *running_mean, *running_variance; /* of all of them */
};

static struct dnn_norm norm_of(const struct op *op, bool training)
{
    const struct own *own = op->own;
    return (struct dnn_norm){.scale = op->param->weights,
                             .shift = op->param->bias,
                             .mean = training ? own->mean : own->running_mean,
                             .variance = training ? own->variance : own->running_variance};
}

/* The running variance estimates that of all values there are, so it divides by one less. */
static void move_running(const struct op *op)
{
    const struct own *own = op->own;
    const struct shape3 shape = op->out.shape;
    const float values = (float)((size_t)op->batch * shape.height * shape.width);
    const float unbiased = values > 1 ? values / (values - 1) : 1;
    for (uint32_t c = 0; c < shape.channels; c++) {
        own->running_mean[c] = momentum * own->running_mean[c] + (1 - momentum) * own->mean[c];
        own->running_variance[c] =
            momentum * own->running_variance[c] + (1 - momentum) * unbiased * own->variance[c];
    }
}

static void forward(struct op *op, bool training)
{
    const struct own *own = op->own;
    const struct dnn_norm norm = norm_of(op, training);
    dnn_norm_forward(own->dnn, training, op->in[0]->out.data, &norm, op->out.data);
    if (training)
        move_running(op);
}

static void weigh(struct op *op)
{
    const struct own *own = op->own;
    const struct op *in = op->in[0];
    const struct dnn_norm norm = norm_of(op, true);
    dnn_norm_weigh(own->dnn, in->out.data, op->diff.data, &norm, op->param,
                   in->wants_diff ? in->diff.data : NULL, in->diff_written);
}

static void backward(struct op *op)
{
    const struct own *own = op->own;
    struct op *in = op->in[0];
    if (!in->wants_diff)
        return;
    dnn_norm_backward(own->dnn, in->diff.data, in->diff_written);
    in->diff_written = true;
}

static void free_own(struct op *op)
{
    struct own *own = op->own;
    op_free_plain(op);
    if (own == NULL)
        return;
    op_floats_free(op->mem, own->mean);
    op_floats_free(op->mem, own->variance);
    op_floats_free(op->mem, own->running_mean);
    op_floats_free(op->mem, own->running_variance);
    dnn_free(own->dnn);
    mem_free(op->mem, own);
}

static const struct op_kind kind = {
    .name = "norm", .forward = forward, .weigh = weigh, .backward = backward, .free = free_own};

void op_norm_running(struct op *op, float **mean, float **variance)
{
    const struct own *own = op->own;
    *mean = own->running_mean;
    *variance = own->running_variance;
}

static bool make_statistics(struct op *op, struct own *own)
{
    const uint32_t channels = op->in[0]->out.shape.channels;
    own->mean = op_floats(op->mem, channels);
    own->variance = op_floats(op->mem, channels);
    own->running_mean = op_floats(op->mem, channels);
    own->running_variance = op_floats(op->mem, channels);
    if (own->mean == NULL || own->variance == NULL || own->running_mean == NULL ||
        own->running_variance == NULL)
        return false;
    for (uint32_t c = 0; c < channels; c++)
        own->running_variance[c] = 1;
    return true;
}

static bool make_memory(struct op *op, struct own *own)
{
    struct param like = {.kind = TRI_NORM, .rows = op->in[0]->out.shape.channels, .cols = 1};
    (void)snprintf(like.name, sizeof like.name, "%s", op->name);
    return make_statistics(op, own) && dnn_make_tensors(own->dnn, op) &&
           op_make_param(op, &like, true, true);
}

tri_status op_norm_new(const struct op_frame *frame, struct op *in, bool relu, struct op **out,
                       tri_error *err)
{
    if (in->batch != frame->batch)
        return fail(err, TRI_EARG, "normalisation '%s': a batch of %u after one of %u", frame->name,
                    (unsigned)frame->batch, (unsigned)in->batch);
    struct op *op = op_new(frame->mem, &kind, frame->name, frame->batch, &in, 1, true);
    if (op == NULL)
        return fail_nomem(err, frame->name);
    struct own *own = mem_array(frame->mem, 1, sizeof *own);
    if (own == NULL) {
        op_free(op);
        return fail_nomem(err, frame->name);
    }
    op->own = own;
    tri_status st = dnn_norm_new(frame, in, relu, &own->dnn, err);
    if (st == TRI_OK && !make_memory(op, own))
        st = fail_nomem(err, frame->name);
    if (st != TRI_OK) {
        op_free(op);
        return st;
    }
    *out = op;
    return TRI_OK;
}
