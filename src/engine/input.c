/* Inputs: memory that the caller fills. */
#include "engine/op.h"

static void forward(struct op *op, bool training)
{
    (void)op;
    (void)training;
}

static const struct op_kind input = {.name = "input", .forward = forward, .free = op_free_plain};

tri_status op_input_new(const struct op_frame *frame, struct shape3 shape, struct op **out,
                        tri_error *err)
{
    if (shape3_floats(shape) == 0)
        return fail(err, TRI_EARG, "input '%s' has no values", frame->name);
    struct op *op = op_new(frame->mem, &input, frame->name, frame->batch, NULL, 0, false);
    if (op == NULL || !op_make_plain(op, shape)) {
        op_free(op);
        return fail_nomem(err, frame->name);
    }
    *out = op;
    return TRI_OK;
}
