/* Fully connected layers. They give factors and never a dense gradient: the product of the two
 * is made where it is used, and straight into the weights. */
#include <string.h>

#include "engine/op.h"
#include "math/dense.h"
#include "math/inplace.h"
#include "math/product.h"

struct fc {
    const struct dense_kernel *kernel;
    struct dense_shape shape;
    bool relu;
    float *scratch;
    float *sums; /* for a second user of the input, and many samples; NULL: not needed */
    const struct inplace_kernel *step;
    void *product;             /* scratch; NULL: learns in one pass */
    struct op_pending pending; /* of this forward pass, and the backward pass behind it: always
                                  with weights */
};

/* Nobody can guess signs, so jumps are slow; loops over GROUP become vectors. */
enum { GROUP = 8, DENSE_ROWS = 16 };

static void relu(float *y, size_t count)
{
    size_t i = 0;
    for (; i + GROUP <= count; i += GROUP)
        for (size_t j = 0; j < GROUP; j++)
            y[i + j] = y[i + j] > 0 ? y[i + j] : 0;
    for (; i < count; i++)
        y[i] = y[i] > 0 ? y[i] : 0;
}

static void relu_back(float *restrict diff, const float *restrict y, size_t count)
{
    size_t i = 0;
    for (; i + GROUP <= count; i += GROUP)
        for (size_t j = 0; j < GROUP; j++)
            diff[i + j] = y[i + j] > 0 ? diff[i + j] : 0;
    for (; i < count; i++)
        diff[i] = y[i] > 0 ? diff[i] : 0;
}

enum { FEW = 4, AT_ONCE = 16 }; /* samples; steps to be made */

/* Few samples: they can go row by row, there and back. */
static bool is_few(const struct fc *fc)
{
    return fc->shape.batch <= FEW;
}

/* ---- steps that are still to be made ---- */

/* What the products get from them: y[k] += sum over steps of to * (from . x[k]), forward with 1
 * more for the bias. */
static void add_pending(const struct fc *fc, struct op_pending pending, bool back, const float *x,
                        float *y)
{
    const size_t batch = fc->shape.batch, in = back ? fc->shape.rows : fc->shape.cols,
                 out = back ? fc->shape.cols : fc->shape.rows;
    const float *from = back ? pending.u : pending.v, *to = back ? pending.v : pending.u;
    float by[FEW * AT_ONCE];
    for (size_t k = 0, count; k < pending.count; k += count) {
        count = pending.count - k < AT_ONCE ? pending.count - k : AT_ONCE;
        const struct dense_outputs shares = {.shape = {.rows = count, .cols = in, .batch = batch},
                                             .w = from + k * in,
                                             .x = x,
                                             .y = by};
        dense_forward(fc->kernel, &shares, fc->scratch);
        for (size_t i = 0; i < batch * count && !back; i++)
            by[i] += 1; /* the bias */
        const struct inplace_dense sums = {.shape = {.rows = count, .cols = out, .batch = batch},
                                           .w = (float *)(uintptr_t)(to + k * out),
                                           .dy = by,
                                           .dx = y,
                                           .adds = true,
                                           .keeps = true};
        inplace_dense(fc->step, &sums, fc->scratch);
    }
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t pending_scratch(const struct fc *fc)
{
    size_t most = 0;
    for (size_t count = 1; count <= AT_ONCE && is_few(fc); count++)
        for (int back = 0; back < 2; back++) {
            const size_t cols = back ? fc->shape.rows : fc->shape.cols;
            const struct dense_shape shape = {
                .rows = count, .cols = cols, .batch = fc->shape.batch};
            most = larger(most, dense_scratch_floats(&shape));
            most = larger(most, inplace_scratch_floats(&shape));
        }
    return most;
}

static size_t scratch_floats(const struct fc *fc)
{
    const size_t others = is_few(fc) ? OP_OTHERS : 0;
    size_t most = larger(dense_scratch_floats(&fc->shape), pending_scratch(fc));
    struct dense_shape shape = fc->shape;
    for (; shape.batch <= fc->shape.batch + others; shape.batch++)
        most = larger(most, inplace_scratch_floats(&shape));
    return most;
}

/* ---- passes ---- */

/* Outputs `row` to `end` - 1 of one sample. */
static void forward_rows(const struct fc *fc, struct dense_outputs product, size_t row, size_t end)
{
    product.shape.rows = end - row;
    product.w += row * fc->shape.cols;
    product.bias += row;
    product.y += row;
    if (row < end)
        dense_forward(fc->kernel, &product, fc->scratch);
}

/* Begins where it is to (see net_avoid()), if it can. */
static void forward_all(const struct op *op, const struct dense_outputs *product)
{
    const struct fc *fc = op->own;
    const size_t rows = fc->shape.rows, first = (size_t)op->first / DENSE_ROWS * DENSE_ROWS;
    if (fc->shape.batch == 1 && first > 0 && first < rows) {
        forward_rows(fc, *product, first, rows);
        forward_rows(fc, *product, 0, first);
    } else {
        dense_forward(fc->kernel, product, fc->scratch);
    }
}

static void forward(struct op *op, bool training)
{
    (void)training;
    struct fc *fc = op->own;
    fc->pending = (struct op_pending){0};
    if (op->reader.pending != NULL && is_few(fc))
        op->reader.pending(op->reader.ctx, &fc->pending);
    else
        op_reads(op, fc->shape.rows);
    if (fc->pending.weights == NULL) {
        fc->pending.weights = op->param->weights;
        fc->pending.bias = op->param->bias;
    }
    const struct dense_outputs product = {.shape = fc->shape,
                                          .w = fc->pending.weights,
                                          .bias = fc->pending.bias,
                                          .x = op->in[0]->out.data,
                                          .y = op->out.data};
    forward_all(op, &product);
    add_pending(fc, fc->pending, false, product.x, product.y);
    if (fc->relu)
        relu(op->out.data, fc->shape.batch * fc->shape.rows);
}

static void weigh(struct op *op)
{
    const struct fc *fc = op->own;
    if (fc->relu)
        relu_back(op->diff.data, op->out.data, fc->shape.batch * fc->shape.rows);
    op->param->u = op->diff.data;
    op->param->v = op->in[0]->out.data;
}

/* One pass over the rows that have a gradient: at one sample one to six times as fast as panels of
 * columns, from two to four 0.7 to 2.8 times, by shape and zeros; with more mostly slower. */
static void backward_few(struct op *op)
{
    const struct fc *fc = op->own;
    struct op *in = op->in[0];
    const struct inplace_dense pass = {.shape = fc->shape,
                                       .w = (float *)(uintptr_t)fc->pending.weights,
                                       .dy = op->diff.data,
                                       .dx = in->diff.data,
                                       .adds = in->diff_written,
                                       .keeps = true};
    inplace_dense(fc->step, &pass, fc->scratch);
    add_pending(fc, fc->pending, true, op->diff.data, in->diff.data);
    in->diff_written = true;
}

static void backward(struct op *op)
{
    struct fc *fc = op->own;
    struct op *in = op->in[0];
    if (!in->wants_diff)
        return;
    if (is_few(fc)) {
        backward_few(op);
        return;
    }
    float *to = in->diff_written ? fc->sums : in->diff.data;
    struct dense_inputs product = {
        .shape = fc->shape, .w = op->param->weights, .dy = op->diff.data, .dx = to};
    dense_backward(fc->kernel, &product, fc->scratch);
    const size_t count = in->diff_written ? fc->shape.batch * fc->shape.cols : 0;
    for (size_t i = 0; i < count; i++)
        in->diff.data[i] += to[i];
    in->diff_written = true;
}

/* Weights that no cache holds and that meet many samples: two products that do one thing each are
 * faster than one pass that does both. Another learner's steps are not in a cache, either. */
static bool is_large(const struct dense_shape *shape)
{
    enum { LARGE = 1 << 21, MANY = 12 };
    return shape->rows * shape->cols >= LARGE && shape->batch >= MANY;
}

static void learn_apart(struct op *op, float alpha)
{
    const struct fc *fc = op->own;
    const struct dense_shape *shape = &fc->shape;
    const struct product_block factors = {
        .u = op->diff.data, .v = op->in[0]->out.data, .rows = shape->batch};
    const struct product product = {.blocks = &factors,
                                    .count = 1,
                                    .m = shape->rows,
                                    .n = shape->cols,
                                    .w = op->param->weights,
                                    .stride = shape->cols,
                                    .alpha = alpha};
    backward(op);
    product_add(&product, op->first, shape->rows, fc->product);
    product_add(&product, 0, op->first, fc->product);
    product_bias(&product, 0, shape->rows, op->param->bias);
}

static void learn(struct op *op, const struct op_step *told)
{
    const struct fc *fc = op->own;
    struct op *in = op->in[0];
    struct inplace_other others[OP_OTHERS];
    weigh(op);
    if (fc->product != NULL) {
        learn_apart(op, told->alpha);
        return;
    }
    for (size_t k = 0; k < told->count; k++)
        others[k] = (struct inplace_other){
            .dy = told->others[k].u, .x = told->others[k].v, .by = told->others[k].by};
    const struct inplace_dense step = {.shape = fc->shape,
                                       .w = op->param->weights,
                                       .bias = op->param->bias,
                                       .x = in->out.data,
                                       .dy = op->diff.data,
                                       .dx = in->wants_diff ? in->diff.data : NULL,
                                       .others = others,
                                       .other_count = told->count,
                                       .adds = in->diff_written,
                                       .alpha = told->alpha,
                                       .first = op->first};
    inplace_dense(fc->step, &step, fc->scratch);
    in->diff_written = in->wants_diff;
}

static void free_own(struct op *op)
{
    struct fc *fc = op->own;
    if (fc != NULL) {
        mem_free(op->mem, fc->product);
        op_floats_free(op->mem, fc->scratch);
        op_floats_free(op->mem, fc->sums);
        mem_free(op->mem, fc);
    }
    op_free_plain(op);
}

static const struct op_kind kind = {.name = "fc",
                                    .by_rows = true,
                                    .forward = forward,
                                    .weigh = weigh,
                                    .backward = backward,
                                    .learn = learn,
                                    .free = free_own};

static bool make_own(struct op *op, bool relu)
{
    const struct op *in = op->in[0];
    struct fc *fc = op->own = mem_array(op->mem, 1, sizeof *fc);
    if (fc == NULL)
        return false;
    *fc = (struct fc){.kernel = dense_kernel_at(0), .relu = relu, .step = inplace_kernel_at(0)};
    fc->shape =
        (struct dense_shape){.rows = op->param->rows, .cols = op->param->cols, .batch = op->batch};
    fc->scratch = op_floats(op->mem, scratch_floats(fc));
    if (is_large(&fc->shape)) {
        fc->product = mem_array(op->mem, 1, product_scratch_bytes());
        if (fc->product == NULL)
            return false;
    }
    op->learns_others = is_few(fc);
    const bool sums = in->wants_diff && !is_few(fc);
    fc->sums = sums ? op_floats(op->mem, fc->shape.batch * fc->shape.cols) : NULL;
    return fc->scratch != NULL && (!sums || fc->sums != NULL);
}

static bool make(struct op *op, uint32_t outputs, uint32_t inputs, bool relu)
{
    struct param like = {.kind = TRI_FC,
                         .rows = outputs,
                         .cols = inputs,
                         .fan_in = inputs,
                         .fan_out = outputs,
                         .factor_rows = op->batch,
                         .reads_pending = op->batch <= FEW};
    memcpy(like.name, op->name, sizeof like.name);
    return op_make_plain(op, (struct shape3){outputs, 1, 1}) &&
           op_make_param(op, &like, true, false) && make_own(op, relu);
}

tri_status op_fc_new(const struct op_frame *frame, struct op *in, uint32_t outputs, bool relu,
                     struct op **out, tri_error *err)
{
    const size_t inputs = shape3_floats(in->out.shape);
    if (in->out.layout != NULL)
        return fail(err, TRI_EARG, "fc '%s' wants plain values, and '%s' gives others", frame->name,
                    in->name);
    if (outputs == 0 || inputs == 0 || inputs > UINT32_MAX || in->batch != frame->batch)
        return fail(err, TRI_EARG,
                    "fc '%s' cannot have %u outputs of %zu inputs in batches of %u and %u",
                    frame->name, outputs, inputs, frame->batch, in->batch);
    struct op *op = op_new(frame->mem, &kind, frame->name, frame->batch, &in, 1, true);
    if (op == NULL || !make(op, outputs, (uint32_t)inputs, relu)) {
        op_free(op);
        return fail_nomem(err, frame->name);
    }
    *out = op;
    return TRI_OK;
}
