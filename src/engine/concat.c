/* Vectors one after the other. */
#include <string.h>

#include "engine/op.h"

static void forward(struct op *op, bool training)
{
    (void)training;
    const size_t width = shape3_floats(op->out.shape);
    size_t at = 0;
    for (size_t i = 0; i < op->in_count; i++) {
        const size_t part = shape3_floats(op->in[i]->out.shape);
        for (uint32_t k = 0; k < op->batch; k++)
            memcpy(op->out.data + k * width + at, op->in[i]->out.data + k * part,
                   part * sizeof(float));
        at += part;
    }
}

static void give(struct op *in, const float *from, size_t width)
{
    const size_t part = shape3_floats(in->out.shape);
    float *to = in->diff.data;
    for (uint32_t k = 0; k < in->batch; k++, from += width, to += part)
        for (size_t i = 0; i < part; i++)
            to[i] = in->diff_written ? to[i] + from[i] : from[i];
    in->diff_written = true;
}

static void backward(struct op *op)
{
    const float *from = op->diff.data;
    for (size_t i = 0; i < op->in_count; i++) {
        struct op *in = op->in[i];
        if (in->wants_diff)
            give(in, from, shape3_floats(op->out.shape));
        from += shape3_floats(in->out.shape);
    }
}

static const struct op_kind kind = {
    .name = "concat", .forward = forward, .backward = backward, .free = op_free_plain};

tri_status op_concat_new(const struct op_frame *frame, struct op *const *in, size_t count,
                         struct op **out, tri_error *err)
{
    if (count == 0 || count > OP_INPUTS)
        return fail(err, TRI_EARG, "concat '%s' cannot have %zu inputs: 1 to %d", frame->name,
                    count, OP_INPUTS);
    size_t width = 0;
    for (size_t i = 0; i < count; i++) {
        if (in[i]->out.layout != NULL || in[i]->batch != frame->batch)
            return fail(err, TRI_EARG, "concat '%s' wants plain values of its own batch from '%s'",
                        frame->name, in[i]->name);
        width += shape3_floats(in[i]->out.shape);
    }
    if (width == 0 || width > UINT32_MAX)
        return fail(err, TRI_EARG, "concat '%s' cannot hold %zu values", frame->name, width);
    struct op *op = op_new(frame->mem, &kind, frame->name, frame->batch, in, count, false);
    if (op == NULL || !op_make_plain(op, (struct shape3){(uint32_t)width, 1, 1})) {
        op_free(op);
        return fail_nomem(err, frame->name);
    }
    *out = op;
    return TRI_OK;
}
