/* Pooling: the maximum or the average of windows.
 *
 * After a relu, only values above 0 pass a gradient on. Both kinds see to that on the way back,
 * so that the operator before them need not: an average masks the planes it has just written, and
 * a maximum, which commutes with relu, masks its own smaller diff. */
#include "engine/dnn.h"
#include "engine/peaks.h"

struct own {
    struct dnn *dnn;
    struct window window;
    uint8_t *which; /* of maxima */
    struct peaks peaks;
    bool masks;
};

static void forward_max(struct op *op, bool training)
{
    const struct own *own = op->own;
    (void)training;
    window_max(&own->window, op->in[0]->out.data, op->out.data, own->which);
}

static void backward_max(struct op *op)
{
    const struct own *own = op->own;
    struct op *in = op->in[0];
    if (!in->wants_diff)
        return;
    if (in->takes_peaks && in->users == 1)
        in->peaks = &own->peaks;
    else
        window_max_back(&own->window, op->diff.data, own->which, own->peaks.out, in->diff.data,
                        in->diff_written);
    in->diff_written = true;
}

static void forward_average(struct op *op, bool training)
{
    const struct own *own = op->own;
    (void)training;
    window_average(&own->window, op->in[0]->out.data, op->out.data);
}

static void backward_average(struct op *op)
{
    const struct own *own = op->own;
    struct op *in = op->in[0];
    if (!in->wants_diff)
        return;
    window_average_back(&own->window, op->diff.data, own->masks ? in->out.data : NULL,
                        in->diff.data, in->diff_written);
    in->diff_written = true;
}

static void free_own(struct op *op)
{
    struct own *own = op->own;
    op_free_plain(op);
    if (own == NULL)
        return;
    dnn_free(own->dnn);
    mem_free(op->mem, own->which);
    mem_free(op->mem, own);
}

static const struct op_kind max_kind = {
    .name = "maxpool", .forward = forward_max, .backward = backward_max, .free = free_own};
static const struct op_kind average_kind = {
    .name = "avgpool", .forward = forward_average, .backward = backward_average, .free = free_own};

static tri_status check(const struct op_frame *frame, const struct op *in,
                        const struct op_pool *pool, tri_error *err)
{
    const struct shape3 shape = in->out.shape;
    if (in->batch != frame->batch)
        return fail(err, TRI_EARG, "pooling '%s': a batch of %u after one of %u", frame->name,
                    (unsigned)frame->batch, (unsigned)in->batch);
    if (pool->stride == 0 || pool->kernel == 0 || pool->kernel > UINT16_MAX ||
        pool->stride > UINT16_MAX || pool->pad >= pool->kernel ||
        (!pool->average && pool->kernel > WINDOW_MAX_KERNEL))
        return fail(err, TRI_EARG, "pooling '%s': kernel %u, stride %u, pad %u make none",
                    frame->name, (unsigned)pool->kernel, (unsigned)pool->stride,
                    (unsigned)pool->pad);
    if (shape.height + 2 * (uint64_t)pool->pad < pool->kernel ||
        shape.width + 2 * (uint64_t)pool->pad < pool->kernel)
        return fail(err, TRI_EARG,
                    "pooling '%s': a kernel of %u is larger than its input of %u x %u", frame->name,
                    (unsigned)pool->kernel, (unsigned)shape.height, (unsigned)shape.width);
    return TRI_OK;
}

/* Windows along one dimension. One that began behind the image would have nothing in it. */
static uint32_t windows(const struct op_pool *pool, uint32_t size)
{
    const uint32_t room = size + 2 * pool->pad - pool->kernel;
    uint32_t count = (room + (pool->ceil ? pool->stride - 1 : 0)) / pool->stride + 1;
    if ((uint64_t)(count - 1) * pool->stride >= (uint64_t)size + pool->pad)
        count--;
    return count;
}

static tri_status make(struct op *op, struct own *own, const struct op_frame *frame,
                       const struct op_pool *pool, tri_error *err)
{
    const struct shape3 in = op->in[0]->out.shape;
    struct dnn_planes planes = {.height = windows(pool, in.height),
                                .width = windows(pool, in.width)};
    tri_status st = dnn_like_new(frame, op->in[0], &planes, &own->dnn, err);
    if (st != TRI_OK)
        return st;
    own->window = (struct window){.planes = planes.planes,
                                  .lanes = planes.lanes,
                                  .in_height = in.height,
                                  .in_width = in.width,
                                  .out_height = planes.height,
                                  .out_width = planes.width,
                                  .kernel = pool->kernel,
                                  .stride = pool->stride,
                                  .pad = pool->pad};
    const size_t row = planes.planes * planes.lanes * planes.width;
    if (!pool->average)
        own->which = mem_array(op->mem, planes.height, row);
    if (!dnn_make_tensors(own->dnn, op) || (!pool->average && own->which == NULL))
        return fail_nomem(err, frame->name);
    return TRI_OK;
}

tri_status op_pool_new(const struct op_frame *frame, struct op *in, const struct op_pool *pool,
                       struct op **out, tri_error *err)
{
    const struct op_kind *kind = pool->average ? &average_kind : &max_kind;
    tri_status st = check(frame, in, pool, err);
    if (st != TRI_OK)
        return st;
    struct op *op = op_new(frame->mem, kind, frame->name, frame->batch, &in, 1, false);
    if (op == NULL)
        return fail_nomem(err, frame->name);
    struct own *own = mem_array(frame->mem, 1, sizeof *own);
    if (own == NULL) {
        op_free(op);
        return fail_nomem(err, frame->name);
    }
    op->own = own;
    st = make(op, own, frame, pool, err);
    if (st != TRI_OK) {
        op_free(op);
        return st;
    }
    own->masks = in->relu;
    own->peaks = (struct peaks){.window = &own->window,
                                .diff = op->diff.data,
                                .out = in->relu ? op->out.data : NULL,
                                .which = own->which};
    in->masking += own->masks ? 1 : 0;
    *out = op;
    return TRI_OK;
}
