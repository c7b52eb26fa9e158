/* Convolutions, with relu fused into them.
 *
 * Backward wants the gradient before relu: 0 where the output is. Users that leave it so count
 * themselves in op->masking: pooling can do it in passing (pool.c). */
#include <stdio.h>

#include "engine/dnn.h"
#include "engine/peaks.h"

struct own {
    struct dnn *dnn;
    struct peaks_sum *sum; /* of one that takes peaks */
};

static void forward(struct op *op, bool training)
{
    const struct own *own = op->own;
    (void)training;
    dnn_conv_forward(own->dnn, op->in[0]->out.data, op->param, op->out.data);
}

static void weigh(struct op *op)
{
    const struct own *own = op->own;
    const float *in = op->in[0]->out.data;
    if (op->peaks != NULL) {
        peaks_weigh(own->sum, op->peaks, op->batch, in, op->param);
        return;
    }
    if (op->relu && op->masking < op->users)
        dnn_mask(own->dnn, op->out.data, op->diff.data);
    dnn_conv_weigh(own->dnn, in, op->diff.data, op->param);
}

static void backward(struct op *op)
{
    const struct own *own = op->own;
    struct op *in = op->in[0];
    if (!in->wants_diff)
        return;
    dnn_conv_backward(own->dnn, op->diff.data, op->param, in->diff.data, in->diff_written);
    in->diff_written = true;
}

static void free_own(struct op *op)
{
    struct own *own = op->own;
    op_free_plain(op);
    if (own == NULL)
        return;
    dnn_free(own->dnn);
    peaks_free(own->sum);
    mem_free(op->mem, own);
}

static const struct op_kind kind = {
    .name = "conv", .forward = forward, .weigh = weigh, .backward = backward, .free = free_own};

static tri_status check(const struct op_frame *frame, const struct op *in,
                        const struct op_conv *conv, tri_error *err)
{
    const struct shape3 shape = in->out.shape;
    const uint64_t cols = (uint64_t)conv->kernel * conv->kernel * shape.channels;
    if (in->batch != frame->batch)
        return fail(err, TRI_EARG, "convolution '%s': a batch of %u after one of %u", frame->name,
                    (unsigned)frame->batch, (unsigned)in->batch);
    if (conv->filters == 0 || conv->stride == 0 || conv->kernel == 0 || conv->kernel > UINT16_MAX ||
        conv->pad >= conv->kernel || cols > UINT32_MAX)
        return fail(err, TRI_EARG,
                    "convolution '%s': filters %u, kernel %u, stride %u, pad %u make none",
                    frame->name, (unsigned)conv->filters, (unsigned)conv->kernel,
                    (unsigned)conv->stride, (unsigned)conv->pad);
    if (shape.height + 2 * (uint64_t)conv->pad < conv->kernel ||
        shape.width + 2 * (uint64_t)conv->pad < conv->kernel)
        return fail(
            err, TRI_EARG, "convolution '%s': a kernel of %u is larger than its input of %u x %u",
            frame->name, (unsigned)conv->kernel, (unsigned)shape.height, (unsigned)shape.width);
    return TRI_OK;
}

static bool make_memory(struct op *op, struct own *own, const struct op_conv *conv)
{
    const struct op *in = op->in[0];
    const uint32_t window = conv->kernel * conv->kernel;
    struct param like = {.kind = TRI_CONV,
                         .rows = conv->filters,
                         .cols = window * in->out.shape.channels,
                         .fan_in = window * in->out.shape.channels,
                         .fan_out = window * conv->filters};
    (void)snprintf(like.name, sizeof like.name, "%s", op->name);
    if (!dnn_make_tensors(own->dnn, op) || !op_make_param(op, &like, conv->bias, true))
        return false;
    op->takes_peaks = !in->wants_diff && in->out.layout == NULL && peaks_can(in->out.shape, conv);
    if (op->takes_peaks)
        own->sum = peaks_new(op->mem, in->out.shape, op->out.shape, conv);
    return !op->takes_peaks || own->sum != NULL;
}

tri_status op_conv_new(const struct op_frame *frame, struct op *in, const struct op_conv *conv,
                       struct op **out, tri_error *err)
{
    tri_status st = check(frame, in, conv, err);
    if (st != TRI_OK)
        return st;
    struct op *op = op_new(frame->mem, &kind, frame->name, frame->batch, &in, 1, true);
    if (op == NULL)
        return fail_nomem(err, frame->name);
    struct own *own = mem_array(frame->mem, 1, sizeof *own);
    if (own == NULL) {
        op_free(op);
        return fail_nomem(err, frame->name);
    }
    op->own = own;
    op->relu = conv->relu;
    st = dnn_conv_new(frame, in, conv, &own->dnn, err);
    if (st == TRI_OK && !make_memory(op, own, conv))
        st = fail_nomem(err, frame->name);
    if (st != TRI_OK) {
        op_free(op);
        return st;
    }
    *out = op;
    return TRI_OK;
}
