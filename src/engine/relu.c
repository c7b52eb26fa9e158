/* max(0, x), where it cannot be fused into the operator before it. */
#include "engine/dnn.h"

static void forward(struct op *op, bool training)
{
    (void)training;
    dnn_relu_forward(op->own, op->in[0]->out.data, op->out.data);
}

static void backward(struct op *op)
{
    struct op *in = op->in[0];
    if (!in->wants_diff)
        return;
    dnn_relu_backward(op->own, op->out.data, op->diff.data, in->diff.data, in->diff_written);
    in->diff_written = true;
}

static void free_own(struct op *op)
{
    op_free_plain(op);
    dnn_free(op->own);
}

static const struct op_kind kind = {
    .name = "relu", .forward = forward, .backward = backward, .free = free_own};

tri_status op_relu_new(const struct op_frame *frame, struct op *in, struct op **out, tri_error *err)
{
    if (in->batch != frame->batch)
        return fail(err, TRI_EARG, "relu '%s': a batch of %u after one of %u", frame->name,
                    (unsigned)frame->batch, (unsigned)in->batch);
    struct dnn *dnn = NULL;
    tri_status st = dnn_relu_new(frame, in, &dnn, err);
    if (st != TRI_OK)
        return st;
    struct op *op = op_new(frame->mem, &kind, frame->name, frame->batch, &in, 1, false);
    if (op == NULL) {
        dnn_free(dnn);
        return fail_nomem(err, frame->name);
    }
    op->own = dnn;
    if (!dnn_make_tensors(dnn, op)) {
        op_free(op);
        return fail_nomem(err, frame->name);
    }
    *out = op;
    return TRI_OK;
}
