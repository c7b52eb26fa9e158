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
    /* Of windows and learning in place: texts with zeros around them... */
    float *x, *dx;
    uint32_t *places; /* ...batch x filters: where the window that won begins there; of windows */
    /* ...and of learning, for the samples of one filter, others' behind one's own */
    const float **met;
    float **meant;
    float *by;
};

static void reads(void *ctx, size_t filters)
{
    op_reads(ctx, filters);
}

static void forward(struct op *op, bool training)
{
    (void)training;
    struct conv *conv = op->own;
    struct textconv_best best = {.shape = conv->shape,
                                 .w = op->param->weights,
                                 .bias = op->param->bias,
                                 .x = op->in[0]->out.data,
                                 .best = op->out.data,
                                 .at = conv->at,
                                 .first = op->first,
                                 .reads = op->reader.call != NULL ? reads : NULL,
                                 .ctx = op};
    textconv_forward(conv->kernel, &best, conv->scratch);
    float *y = op->out.data;
    for (size_t i = 0; i < conv->shape.batch * conv->shape.filters; i++)
        y[i] = y[i] > 0 ? y[i] : 0;
}

static bool is_on(const struct op *op, size_t place)
{
    return op->out.data[place] > 0;
}

/* ---- texts apart ---- */

/* Texts lie apart here, so that all of a window is there, in a text or in the zeros around it. */
struct spread {
    size_t around; /* floats of zeros before a text, and behind it */
    size_t pitch;  /* from text to text */
};

static struct spread spread_of(const struct textconv_shape *s)
{
    const size_t around = (s->window - 1) * s->width;
    return (struct spread){.around = around, .pitch = s->length * s->width + 2 * around};
}

static void spread_texts(const struct op *op)
{
    const struct conv *conv = op->own;
    const struct spread spread = spread_of(&conv->shape);
    const size_t text = conv->shape.length * conv->shape.width;
    for (size_t k = 0; k < conv->shape.batch; k++)
        memcpy(conv->x + k * spread.pitch + spread.around, op->in[0]->out.data + k * text,
               text * sizeof(float));
}

/* ---- gradients ---- */

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

static void weigh_dense(struct op *op)
{
    const struct conv *conv = op->own;
    for (size_t f = 0; f < conv->shape.filters; f++)
        weigh_filter(op, f);
}

/* Nothing is multiplied out: what met what, and where. */
static void weigh_windows(struct op *op)
{
    const struct conv *conv = op->own;
    const size_t count = conv->shape.batch * conv->shape.filters;
    spread_texts(op);
    for (size_t i = 0; i < count; i++) {
        op->diff.data[i] = is_on(op, i) ? op->diff.data[i] : 0;
        conv->places[i] = conv->at[i] * (uint32_t)conv->shape.width;
    }
    op->param->u = op->diff.data;
    op->param->v = conv->x;
    op->param->at = conv->places;
}

static void weigh(struct op *op)
{
    if (op->param->as_windows)
        weigh_windows(op);
    else
        weigh_dense(op);
}

/* The first filter from f on that sample k has a gradient for. */
static size_t next_on(const struct op *op, size_t k, size_t f)
{
    const size_t filters = ((const struct conv *)op->own)->shape.filters;
    const float *out = op->out.data + k * filters;
    while (f < filters && !(out[f] > 0))
        f++;
    return f;
}

/* Layers behind this one have driven the filters out of the near caches, and which come next only
 * this knows. */
static void fetch_filter(const float *w, size_t cols)
{
    enum { LINE = 16 }; /* floats */
    for (size_t i = 0; i < cols; i += LINE)
        __builtin_prefetch(w + i);
}

static void backward_sample(const struct op *op, size_t k, float *diff)
{
    const struct conv *conv = op->own;
    const struct textconv_shape *s = &conv->shape;
    const size_t cols = s->window * s->width;
    for (size_t f = next_on(op, k, 0), next; f < s->filters; f = next) {
        const size_t place = k * s->filters + f;
        const struct textconv_part part = textconv_part(s, conv->at[place]);
        next = next_on(op, k, f + 1);
        if (next < s->filters)
            fetch_filter(op->param->weights + next * cols, cols);
        textconv_row(conv->kernel, op->diff.data[place], op->param->weights + f * cols + part.w,
                     diff + part.x, part.floats, true);
    }
}

static void backward(struct op *op)
{
    const struct conv *conv = op->own;
    const struct textconv_shape *s = &conv->shape;
    struct op *in = op->in[0];
    if (!in->wants_diff)
        return;
    const size_t text = s->length * s->width;
    if (!in->diff_written)
        memset(in->diff.data, 0, s->batch * text * sizeof(float));
    for (size_t k = 0; k < s->batch; k++)
        backward_sample(op, k, in->diff.data + k * text);
    in->diff_written = true;
}

/* ---- learning in place ---- */

static void gather_texts(const struct op *op)
{
    const struct conv *conv = op->own;
    const struct spread spread = spread_of(&conv->shape);
    const size_t text = conv->shape.length * conv->shape.width;
    struct op *in = op->in[0];
    for (size_t k = 0; k < conv->shape.batch; k++)
        textconv_row(conv->kernel, 1, conv->dx + k * spread.pitch + spread.around,
                     in->diff.data + k * text, text, in->diff_written);
    in->diff_written = true;
}

/* The samples that filter f has a gradient for: their windows, and what they are to be weighed
 * with. Returns how many; *sum is the gradient of the bias. */
static size_t list_samples(const struct op *op, size_t f, float *sum)
{
    const struct conv *conv = op->own;
    const struct textconv_shape *s = &conv->shape;
    const size_t pitch = spread_of(s).pitch;
    size_t count = 0;
    for (size_t k = 0; k < s->batch; k++) {
        const size_t place = k * s->filters + f;
        const size_t begin = k * pitch + conv->at[place] * s->width;
        const float by = op->diff.data[place];
        if (!is_on(op, place) || by == 0)
            continue;
        conv->met[count] = conv->x + begin;
        conv->meant[count] = conv->dx + begin;
        conv->by[count++] = by;
        *sum += by;
    }
    return count;
}

/* The same of others', behind `count`. */
static size_t list_others(const struct conv *conv, const struct op_step *step, size_t f,
                          size_t count, float *sum)
{
    for (size_t k = 0; k < step->count; k++) {
        const struct op_other *other = &step->others[k];
        const float by = other->by * other->u[f];
        if (by == 0)
            continue;
        conv->met[count] = other->v + other->at[f];
        conv->by[count++] = by;
        *sum += by;
    }
    return count;
}

static bool has_gradient(const struct op *op, const struct op_step *step, size_t f)
{
    const struct conv *conv = op->own;
    for (size_t k = 0; k < conv->shape.batch; k++) {
        const size_t place = k * conv->shape.filters + f;
        if (is_on(op, place) && op->diff.data[place] != 0)
            return true;
    }
    for (size_t k = 0; k < step->count; k++)
        if (step->others[k].u[f] != 0)
            return true;
    return false;
}

/* Filter `next` is to be stepped soon after f, and is fetched. */
static float learn_filter(const struct op *op, size_t f, size_t next, const struct op_step *step)
{
    const struct conv *conv = op->own;
    const struct textconv_shape *s = &conv->shape;
    const size_t cols = s->window * s->width;
    float sum = 0;
    const size_t own = list_samples(op, f, &sum);
    const struct inplace_row row = {.w = op->param->weights + f * cols,
                                    .cols = cols,
                                    .x = conv->met,
                                    .dx = conv->meant,
                                    .by = conv->by,
                                    .count = list_others(conv, step, f, own, &sum),
                                    .back = op->in[0]->wants_diff ? own : 0,
                                    .alpha = step->alpha,
                                    .next = op->param->weights + next * cols};
    if (row.count > 0)
        inplace_row(conv->step, &row);
    return sum;
}

static void learn(struct op *op, const struct op_step *step)
{
    const struct conv *conv = op->own;
    const size_t filters = conv->shape.filters;
    float *sums = op->param->dense_bias;
    spread_texts(op);
    memset(conv->dx, 0, conv->shape.batch * spread_of(&conv->shape).pitch * sizeof(float));
    size_t soon = 0;
    for (size_t i = 0; i < filters; i++) {
        const size_t f = (op->first + i) % filters;
        /* Not one that is left alone: to fetch it for writing takes it from the other learners. */
        while (soon < filters &&
               (soon <= i || !has_gradient(op, step, (op->first + soon) % filters)))
            soon++;
        sums[f] = learn_filter(op, f, soon < filters ? (op->first + soon) % filters : f, step);
    }
    inplace_add(conv->step, step->alpha, sums, op->param->bias, conv->shape.filters);
    if (op->in[0]->wants_diff)
        gather_texts(op);
}

static void free_own(struct op *op)
{
    struct conv *conv = op->own;
    if (conv != NULL) {
        mem_free(op->mem, conv->at);
        mem_free(op->mem, conv->blank);
        op_floats_free(op->mem, conv->scratch);
        op_floats_free(op->mem, conv->x);
        op_floats_free(op->mem, conv->dx);
        op_floats_free(op->mem, conv->by);
        mem_free(op->mem, conv->places);
        mem_free(op->mem, conv->met);
        mem_free(op->mem, conv->meant);
        mem_free(op->mem, conv);
    }
    op_free_plain(op);
}

static const struct op_kind kind = {.name = "textconv",
                                    .by_rows = true,
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
    conv->x = op_floats(op->mem, shape->batch * spread_of(shape).pitch);
    conv->dx = op_floats(op->mem, shape->batch * spread_of(shape).pitch);
    conv->places = mem_array(op->mem, shape->batch * shape->filters, sizeof *conv->places);
    conv->by = op_floats(op->mem, shape->batch + OP_OTHERS);
    conv->met = mem_array(op->mem, shape->batch + OP_OTHERS, sizeof *conv->met);
    conv->meant = mem_array(op->mem, shape->batch, sizeof *conv->meant);
    if (conv->at == NULL || conv->blank == NULL || conv->scratch == NULL || conv->x == NULL ||
        conv->dx == NULL || conv->places == NULL || conv->by == NULL || conv->met == NULL ||
        conv->meant == NULL)
        return false;
    for (size_t f = 0; f < shape->filters; f++)
        conv->blank[f] = true; /* as new memory is */
    op->learns_others = true;
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
                         .fan_out = filters,
                         .window_floats = (uint32_t)spread_of(&shape).pitch};
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
        ((uint64_t)shape->channels + 2 * (uint64_t)window) * shape->width > UINT32_MAX)
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
