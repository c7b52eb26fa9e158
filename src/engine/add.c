/* The sum of two, as at the end of a residual block. */
#include "engine/dnn.h"

static void forward(struct op *op, bool training)
{
    (void)training;
    dnn_add_forward(op->own, op->in[0]->out.data, op->in[1]->out.data, op->out.data);
}

static void backward(struct op *op)
{
    struct op *a = op->in[0], *b = op->in[1];
    if (op->relu && op->wants_diff && op->masking < op->users)
        dnn_mask(op->own, op->out.data, op->diff.data);
    if (a->wants_diff) {
        dnn_add_backward_a(op->own, op->diff.data, a->diff.data, a->diff_written);
        a->diff_written = true;
    }
    if (b->wants_diff) {
        dnn_add_backward_b(op->own, op->diff.data, b->diff.data, b->diff_written);
        b->diff_written = true;
    }
}

static void free_own(struct op *op)
{
    op_free_plain(op);
    dnn_free(op->own);
}

static const struct op_kind kind = {
    .name = "add", .forward = forward, .backward = backward, .free = free_own};

static bool same_shape(struct shape3 a, struct shape3 b)
{
    return a.channels == b.channels && a.height == b.height && a.width == b.width;
}

tri_status op_add_new(const struct op_frame *frame, struct op *a, struct op *b, bool relu,
                      struct op **out, tri_error *err)
{
    const struct shape3 x = a->out.shape, y = b->out.shape;
    if (!same_shape(x, y) || a->batch != frame->batch || b->batch != frame->batch)
        return fail(err, TRI_EARG, "sum '%s': %u x %u x %u and %u x %u x %u do not fit",
                    frame->name, (unsigned)x.channels, (unsigned)x.height, (unsigned)x.width,
                    (unsigned)y.channels, (unsigned)y.height, (unsigned)y.width);
    struct dnn *dnn = NULL;
    tri_status st = dnn_add_new(frame, a, b, relu, &dnn, err);
    if (st != TRI_OK)
        return st;
    struct op *op =
        op_new(frame->mem, &kind, frame->name, frame->batch, (struct op *[]){a, b}, 2, false);
    if (op == NULL) {
        dnn_free(dnn);
        return fail_nomem(err, frame->name);
    }
    op->own = dnn;
    op->relu = relu;
    if (!dnn_make_tensors(dnn, op)) {
        op_free(op);
        return fail_nomem(err, frame->name);
    }
    *out = op;
    return TRI_OK;
}
