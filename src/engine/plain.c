/* The same values, plain, for operators that know nothing of oneDNN. */
#include <string.h>

#include "engine/dnn.h"

static void forward(struct op *op, bool training)
{
    (void)training;
    dnn_plain_forward(op->own, op->in[0]->out.data, op->out.data);
}

static void backward(struct op *op)
{
    struct op *in = op->in[0];
    if (!in->wants_diff)
        return;
    dnn_plain_backward(op->own, op->diff.data, in->diff.data, in->diff_written);
    in->diff_written = true;
}

static void free_own(struct op *op)
{
    op_free_plain(op);
    dnn_free(op->own);
}

static const struct op_kind kind = {
    .name = "plain", .forward = forward, .backward = backward, .free = free_own};

/* Plain already: the input's memory is the output. The gradient has memory of its own, as the
 * input may have other users, whose gradients meet in its diff. */
static void forward_shared(struct op *op, bool training)
{
    (void)op;
    (void)training;
}

static void backward_shared(struct op *op)
{
    struct op *in = op->in[0];
    if (!in->wants_diff)
        return;
    const size_t floats = op->batch * shape3_floats(op->out.shape);
    if (!in->diff_written)
        memcpy(in->diff.data, op->diff.data, floats * sizeof(float));
    for (size_t i = 0; in->diff_written && i < floats; i++)
        in->diff.data[i] += op->diff.data[i];
    in->diff_written = true;
}

static void free_shared(struct op *op)
{
    op_floats_free(op->mem, op->diff.data);
}

static const struct op_kind shared_kind = {
    .name = "plain", .forward = forward_shared, .backward = backward_shared, .free = free_shared};

static tri_status shared_new(const struct op_frame *frame, struct op *in, struct op **out,
                             tri_error *err)
{
    struct op *op = op_new(frame->mem, &shared_kind, frame->name, frame->batch, &in, 1, false);
    if (op == NULL)
        return fail_nomem(err, frame->name);
    op->out = (struct tensor){.shape = in->out.shape, .data = in->out.data};
    op->diff = (struct tensor){.shape = in->out.shape};
    if (op->wants_diff) {
        op->diff.data = op_floats(op->mem, op->batch * shape3_floats(in->out.shape));
        if (op->diff.data == NULL) {
            op_free(op);
            return fail_nomem(err, frame->name);
        }
    }
    *out = op;
    return TRI_OK;
}

tri_status op_plain_new(const struct op_frame *frame, struct op *in, struct op **out,
                        tri_error *err)
{
    if (in->batch != frame->batch)
        return fail(err, TRI_EARG, "'%s': a batch of %u after one of %u", frame->name,
                    (unsigned)frame->batch, (unsigned)in->batch);
    if (in->out.layout == NULL)
        return shared_new(frame, in, out, err);
    struct dnn *dnn = NULL;
    tri_status st = dnn_plain_new(frame, in, &dnn, err);
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
