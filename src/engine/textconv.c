/* Filters over a text, relu, and the maximum over time.
 *
 * Only the window that won has a gradient, and only if relu let it through: one row of the
 * filter's weights and one of the text per sample, instead of a convolution. */
#include "math/textconv.h"

#include <string.h>

#include "engine/op.h"
#include "math/inplace.h"

struct conv {
    const struct dense_kernel *kernel;
    const struct inplace_kernel *step;
    struct textconv_shape shape;
    uint32_t *at; /* batch x filters: the window that won */
    bool *blank;  /* by filter: its gradient is all zero since the last weigh() */
    float *scratch;
};

static void forward(struct op *op, bool training)
{
    (void)training;
    struct conv *conv = op->own;
    struct textconv_best best = {.shape = conv->shape,
                                 .w = op->param->weights,
                                 .bias = op->param->bias,
                                 .x = op->in[0]->out.data,
                                 .best = op->out.data,
                                 .at = conv->at};
    textconv_forward(conv->kernel, &best, conv->scratch);
    float *y = op->out.data;
    for (size_t i = 0; i < conv->shape.batch * conv->shape.filters; i++)
        y[i] = y[i] > 0 ? y[i] : 0;
}

static bool is_on(const struct op *op, size_t place)
{
    return op->out.data[place] > 0;
}

/* The first sample's part of a filter's gradient: zero where its window was not in the text. */
static void weigh_first(const struct conv *conv, float by, struct textconv_part part,
                        const float *x, float *to)
{
    const size_t end = part.w + part.floats, cols = conv->shape.window * conv->shape.width;
    memset(to, 0, part.w * sizeof *to);
    textconv_row(conv->kernel, by, x + part.x, to + part.w, part.floats, false);
    memset(to + end, 0, (cols - end) * sizeof *to);
}

/* The gradient of a filter: the sum over the samples that it is on for. */
static void weigh_filter(struct op *op, size_t f)
{
    struct conv *conv = op->own;
    const struct textconv_shape *s = &conv->shape;
    const size_t cols = s->window * s->width;
    float *to = op->param->dense + f * cols, sum = 0;
    bool blank = true;
    for (size_t k = 0; k < s->batch; k++) {
        const size_t place = k * s->filters + f;
        if (!is_on(op, place))
            continue;
        const struct textconv_part part = textconv_part(s, conv->at[place]);
        const float by = op->diff.data[place];
        const float *x = op->in[0]->out.data + k * s->length * s->width;
        if (blank)
            weigh_first(conv, by, part, x, to);
        else
            textconv_row(conv->kernel, by, x + part.x, to + part.w, part.floats, true);
        sum += by;
        blank = false;
    }
    if (blank && !conv->blank[f])
        memset(to, 0, cols * sizeof *to);
    conv->blank[f] = blank;
    op->param->dense_bias[f] = sum;
}

static void weigh(struct op *op)
{
    const struct conv *conv = op->own;
    for (size_t f = 0; f < conv->shape.filters; f++)
        weigh_filter(op, f);
}

static void backward(struct op *op)
{
    const struct conv *conv = op->own;
    const struct textconv_shape *s = &conv->shape;
    struct op *in = op->in[0];
    if (!in->wants_diff)
        return;
    const size_t text = s->length * s->width, cols = s->window * s->width;
    if (!in->diff_written)
        memset(in->diff.data, 0, s->batch * text * sizeof(float));
    for (size_t k = 0; k < s->batch; k++)
        for (size_t f = 0; f < s->filters; f++) {
            const size_t place = k * s->filters + f;
            if (!is_on(op, place))
                continue;
            const struct textconv_part part = textconv_part(s, conv->at[place]);
            textconv_row(conv->kernel, op->diff.data[place], op->param->weights + f * cols + part.w,
                         in->diff.data + k * text + part.x, part.floats, true);
        }
    in->diff_written = true;
}

/* ---- learning in place ---- */

static float by_of(const struct op *op, size_t place)
{
    return is_on(op, place) ? op->diff.data[place] : 0;
}

/* The row that will be stepped after filter f, for one sample; NULL: none. */
static const float *next_row(const struct op *op, size_t f)
{
    const struct textconv_shape *s = &((const struct conv *)op->own)->shape;
    while (++f < s->filters)
        if (by_of(op, f) != 0)
            return op->param->weights + f * s->window * s->width;
    return NULL;
}

/* One sample: both at once. */
static float learn_once(struct op *op, size_t f, float alpha)
{
    const struct conv *conv = op->own;
    struct op *in = op->in[0];
    const float by = by_of(op, f);
    if (by == 0)
        return 0;
    const struct textconv_part part = textconv_part(&conv->shape, conv->at[f]);
    const struct inplace_row row = {.by = by,
                                    .alpha = alpha,
                                    .x = in->out.data + part.x,
                                    .w = op->param->weights +
                                         f * conv->shape.window * conv->shape.width + part.w,
                                    .dx = in->diff.data + part.x,
                                    .count = part.floats,
                                    .next = next_row(op, f)};
    inplace_row(conv->step, &row);
    return by;
}

/* More of them: first the gradient of each text, with the filter as it is, then its steps. Returns
 * the gradient of the bias. */
static float learn_filter(struct op *op, size_t f, float alpha)
{
    const struct conv *conv = op->own;
    const struct textconv_shape *s = &conv->shape;
    const size_t text = s->length * s->width, cols = s->window * s->width;
    struct op *in = op->in[0];
    float *w = op->param->weights + f * cols, sum = 0;
    if (f + 1 < s->filters)
        inplace_ahead(conv->step, w + cols, cols);
    for (size_t k = 0; k < s->batch && in->wants_diff; k++) {
        const float by = by_of(op, k * s->filters + f);
        const struct textconv_part part = textconv_part(s, conv->at[k * s->filters + f]);
        if (by != 0)
            inplace_add(conv->step, by, w + part.w, in->diff.data + k * text + part.x, part.floats);
    }
    for (size_t k = 0; k < s->batch; k++) {
        const float by = by_of(op, k * s->filters + f);
        const struct textconv_part part = textconv_part(s, conv->at[k * s->filters + f]);
        if (by != 0)
            inplace_add(conv->step, alpha * by, in->out.data + k * text + part.x, w + part.w,
                        part.floats);
        sum += by;
    }
    return sum;
}

static void learn(struct op *op, float alpha)
{
    const struct conv *conv = op->own;
    const struct textconv_shape *s = &conv->shape;
    struct op *in = op->in[0];
    float *sums = op->param->dense_bias;
    if (in->wants_diff && !in->diff_written)
        memset(in->diff.data, 0, s->batch * s->length * s->width * sizeof(float));
    in->diff_written = in->wants_diff;
    for (size_t f = 0; f < s->filters; f++)
        sums[f] =
            s->batch == 1 && in->wants_diff ? learn_once(op, f, alpha) : learn_filter(op, f, alpha);
    inplace_add(conv->step, alpha, sums, op->param->bias, s->filters);
}

static void free_own(struct op *op)
{
    struct conv *conv = op->own;
    if (conv != NULL) {
        mem_free(op->mem, conv->at);
        mem_free(op->mem, conv->blank);
        op_floats_free(op->mem, conv->scratch);
        mem_free(op->mem, conv);
    }
    op_free_plain(op);
}

static const struct op_kind kind = {.name = "textconv",
                                    .forward = forward,
                                    .weigh = weigh,
                                    .backward = backward,
                                    .learn = learn,
                                    .free = free_own};

static bool make_own(struct op *op, const struct textconv_shape *shape)
{
    struct conv *conv = op->own = mem_array(op->mem, 1, sizeof *conv);
    if (conv == NULL)
        return false;
    *conv =
        (struct conv){.kernel = dense_kernel_at(0), .step = inplace_kernel_at(0), .shape = *shape};
    conv->at = mem_array(op->mem, shape->batch * shape->filters, sizeof *conv->at);
    conv->blank = mem_array(op->mem, shape->filters, sizeof *conv->blank);
    conv->scratch = op_floats(op->mem, textconv_scratch_floats(shape));
    if (conv->at == NULL || conv->blank == NULL || conv->scratch == NULL)
        return false;
    for (size_t f = 0; f < shape->filters; f++)
        conv->blank[f] = true; /* as new memory is */
    return true;
}

static bool make(struct op *op, uint32_t filters, uint32_t window)
{
    const struct shape3 *in = &op->in[0]->out.shape;
    const struct textconv_shape shape = {.filters = filters,
                                         .window = window,
                                         .width = in->width,
                                         .length = in->channels,
                                         .batch = op->batch};
    struct param like = {.kind = TRI_CONV,
                         .rows = filters,
                         .cols = window * in->width,
                         .fan_in = window * in->width,
                         .fan_out = filters};
    memcpy(like.name, op->name, sizeof like.name);
    return op_make_plain(op, (struct shape3){filters, 1, 1}) &&
           op_make_param(op, &like, true, true) && make_own(op, &shape);
}

tri_status op_textconv_new(const struct op_frame *frame, struct op *in, uint32_t filters,
                           uint32_t window, struct op **out, tri_error *err)
{
    const struct shape3 *shape = &in->out.shape;
    if (in->out.layout != NULL || in->batch != frame->batch || shape->height != 1)
        return fail(err, TRI_EARG, "textconv '%s' wants texts of its own batch from '%s'",
                    frame->name, in->name);
    if (filters == 0 || window == 0 || shape3_floats(*shape) == 0 ||
        (uint64_t)window * shape->width > UINT32_MAX)
        return fail(err, TRI_EARG, "textconv '%s' cannot have %u filters over %u of %u positions",
                    frame->name, filters, window, shape->channels);
    struct op *op = op_new(frame->mem, &kind, frame->name, frame->batch, &in, 1, true);
    if (op == NULL || !make(op, filters, window)) {
        op_free(op);
        return fail_nomem(err, frame->name);
    }
    *out = op;
    return TRI_OK;
}
