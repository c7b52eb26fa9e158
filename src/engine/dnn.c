/* oneDNN 2.6: all that the engine asks of it.
 *
 * Every primitive is asked for with layouts of its own choice where that is possible, and whatever
 * lies otherwise is reordered on its way in or out. Forcing one primitive's layout on another
 * makes oneDNN fall back, without a word, to code that is a thousand times slower. */
#include "engine/dnn.h"

#include <assert.h>
#include <dnnl.h>
#include <stdlib.h>
#include <string.h>

/* libgomp's; its header does not come with every compiler. */
void omp_set_num_threads(int threads);

enum { MAX_ARGS = 10, ALIGNMENT = 64 };

struct dnn_layout {
    dnnl_memory_desc_t md;
};

/* Memory that is not touched before it is used: what nobody needs costs addresses only. */
struct room {
    void *block;
    float *at;
};

/* A primitive and the memory objects it runs on. */
struct step {
    dnnl_primitive_t primitive;
    int count;
    dnnl_exec_arg_t args[MAX_ARGS];
};

/* The way in: values that lie in one way, reordered into `room` if they are wanted in another. */
struct way_in {
    struct step reorder;
    struct room room;
};

/* The way out: a gradient written or added to memory that may lie in another way. A primitive
 * writes where way_out_at() says; way_out_end() does the rest. */
struct way_out {
    bool same; /* both lie in the same way */
    size_t bytes;
    struct step copy, add;
    struct room room;
};

struct dnn {
    const struct mem *mem;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_status_t status; /* of making it: the first failure; what comes after does nothing */
    bool one_thread;
    bool plain;
    struct shape3 shape;
    struct dnn_layout layout;
    struct step forward, infer, weigh, backward, mask;
    struct way_in in, in_weigh, diff_weigh, diff_backward, weights, weights_backward, b;
    struct way_out dense, in_diff, b_diff;
    struct room workspace;
};

/* ---- building blocks ---- */

static void note(struct dnn *d, dnnl_status_t status)
{
    if (d->status == dnnl_success)
        d->status = status;
}

static void set_threads(const struct dnn *d)
{
    if (d->one_thread)
        omp_set_num_threads(1); /* of the calling thread */
}

static dnnl_memory_desc_t tensor_md(uint32_t batch, struct shape3 shape, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t md = {0};
    const dnnl_dims_t dims = {batch, shape.channels, shape.height, shape.width};
    (void)dnnl_memory_desc_init_by_tag(&md, 4, dims, dnnl_f32, tag);
    return md;
}

static dnnl_memory_desc_t vector_md(uint32_t length)
{
    dnnl_memory_desc_t md = {0};
    const dnnl_dims_t dims = {length};
    (void)dnnl_memory_desc_init_by_tag(&md, 1, dims, dnnl_f32, dnnl_x);
    return md;
}

static dnnl_memory_desc_t md_of(const struct op *op)
{
    if (op->out.layout != NULL)
        return op->out.layout->md;
    return tensor_md(op->batch, op->out.shape, dnnl_nchw);
}

static void room_make(struct dnn *d, struct room *room, const dnnl_memory_desc_t *md)
{
    size_t bytes = dnnl_memory_desc_get_size(md) + ALIGNMENT;
    if (d->status != dnnl_success)
        return;
    room->block = d->mem->resize(d->mem->ctx, NULL, bytes);
    if (room->block == NULL) {
        note(d, dnnl_out_of_memory);
        return;
    }
    uintptr_t at = (uintptr_t)room->block + ALIGNMENT - 1;
    room->at = (float *)(at - at % ALIGNMENT);
}

/* NULL, with the reason in d->status, if oneDNN refuses. */
static dnnl_primitive_desc_t describe(struct dnn *d, const_dnnl_op_desc_t desc,
                                      const_dnnl_primitive_attr_t attr,
                                      const_dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t pd = NULL;
    if (d->status == dnnl_success)
        note(d, dnnl_primitive_desc_create(&pd, desc, attr, d->engine, hint));
    return pd;
}

static dnnl_memory_desc_t ask(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    const dnnl_memory_desc_t *md = pd == NULL ? NULL : dnnl_primitive_desc_query_md(pd, what, 0);
    return md == NULL ? (dnnl_memory_desc_t){0} : *md;
}

static void forget(dnnl_primitive_desc_t pd)
{
    if (pd != NULL)
        (void)dnnl_primitive_desc_destroy(pd);
}

struct arg {
    int name; /* DNNL_ARG_... */
    const dnnl_memory_desc_t *md;
};

static void step_make(struct dnn *d, struct step *step, const_dnnl_primitive_desc_t pd,
                      const struct arg *args, int count)
{
    if (d->status != dnnl_success)
        return;
    assert(count <= MAX_ARGS);
    note(d, dnnl_primitive_create(&step->primitive, pd));
    for (int i = 0; i < count && d->status == dnnl_success; i++) {
        step->args[i].arg = args[i].name;
        note(d, dnnl_memory_create(&step->args[i].memory, args[i].md, d->engine, DNNL_MEMORY_NONE));
        if (d->status == dnnl_success)
            step->count = i + 1;
    }
}

static void step_free(struct step *step)
{
    for (int i = 0; i < step->count; i++)
        (void)dnnl_memory_destroy(step->args[i].memory);
    if (step->primitive != NULL)
        (void)dnnl_primitive_destroy(step->primitive);
}

/* Setting a handle may write zeros to the padding, so it is done when it changes only. */
static void bind(dnnl_memory_t memory, const void *at)
{
    void *now = NULL;
    (void)dnnl_memory_get_data_handle(memory, &now);
    if (now != at)
        (void)dnnl_memory_set_data_handle(memory, (void *)at);
}

/* Memory of a step's arguments, in the order of step_make(). */
struct places {
    const void *at[MAX_ARGS];
};

static void run(const struct dnn *d, const struct step *step, const struct places *places)
{
    set_threads(d);
    for (int i = 0; i < step->count; i++)
        bind(step->args[i].memory, places->at[i]);
    /* A primitive that could be made runs on what it was made for: refusing is a bug. */
    if (dnnl_primitive_execute(step->primitive, d->stream, step->count, step->args) !=
            dnnl_success ||
        dnnl_stream_wait(d->stream) != dnnl_success)
        abort();
}

/* ---- reorders and sums ---- */

/* to = from, or to += from. */
static void reorder_make(struct dnn *d, struct step *step, const dnnl_memory_desc_t *from,
                         const dnnl_memory_desc_t *to, bool add)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    if (d->status != dnnl_success)
        return;
    note(d, dnnl_primitive_attr_create(&attr));
    note(d, dnnl_post_ops_create(&ops));
    if (add && d->status == dnnl_success) {
        note(d, dnnl_post_ops_append_sum(ops, 1));
        note(d, dnnl_primitive_attr_set_post_ops(attr, ops));
    }
    if (d->status == dnnl_success)
        note(d, dnnl_reorder_primitive_desc_create(&pd, from, d->engine, to, d->engine, attr));
    step_make(d, step, pd, (struct arg[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, 2);
    forget(pd);
    (void)dnnl_post_ops_destroy(ops);
    (void)dnnl_primitive_attr_destroy(attr);
}

/* Adds relu to what a primitive does; NULL if not wanted. */
static dnnl_primitive_attr_t attr_make(struct dnn *d, bool relu)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    if (!relu || d->status != dnnl_success)
        return NULL;
    note(d, dnnl_primitive_attr_create(&attr));
    note(d, dnnl_post_ops_create(&ops));
    if (d->status == dnnl_success) {
        note(d, dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0));
        note(d, dnnl_primitive_attr_set_post_ops(attr, ops));
    }
    (void)dnnl_post_ops_destroy(ops);
    return attr;
}

/* The sum of two that lie in the same way. */
static void sum_make(struct dnn *d, struct step *step, const dnnl_memory_desc_t *md, bool relu)
{
    dnnl_binary_desc_t desc;
    dnnl_primitive_attr_t attr = attr_make(d, relu);
    note(d, dnnl_binary_desc_init(&desc, dnnl_binary_add, md, md, md));
    dnnl_primitive_desc_t pd = describe(d, &desc, attr, NULL);
    step_make(d, step, pd,
              (struct arg[]){{DNNL_ARG_SRC_0, md}, {DNNL_ARG_SRC_1, md}, {DNNL_ARG_DST, md}}, 3);
    forget(pd);
    (void)dnnl_primitive_attr_destroy(attr);
}

static void way_in_make(struct dnn *d, struct way_in *way, const dnnl_memory_desc_t *from,
                        const dnnl_memory_desc_t *to)
{
    if (d->status != dnnl_success || dnnl_memory_desc_equal(from, to))
        return;
    room_make(d, &way->room, to);
    reorder_make(d, &way->reorder, from, to, false);
}

static const float *way_in_run(const struct dnn *d, const struct way_in *way, const float *from)
{
    if (way->room.at == NULL)
        return from;
    run(d, &way->reorder, &(struct places){{from, way->room.at}});
    return way->room.at;
}

/* What way_in_run() gave the last time. */
static const float *way_in_last(const struct way_in *way, const float *from)
{
    return way->room.at == NULL ? from : way->room.at;
}

static void way_out_make(struct dnn *d, struct way_out *way, const dnnl_memory_desc_t *from,
                         const dnnl_memory_desc_t *to)
{
    if (d->status != dnnl_success)
        return;
    way->same = dnnl_memory_desc_equal(from, to);
    way->bytes = dnnl_memory_desc_get_size(from);
    if (way->same) {
        sum_make(d, &way->add, from, false);
        return;
    }
    reorder_make(d, &way->copy, from, to, false);
    reorder_make(d, &way->add, from, to, true);
}

static void way_out_send(const struct dnn *d, const struct way_out *way, const float *from,
                         float *to, bool add)
{
    if (way->same && add)
        run(d, &way->add, &(struct places){{to, from, to}});
    else if (way->same)
        memcpy(to, from, way->bytes);
    else
        run(d, add ? &way->add : &way->copy, &(struct places){{from, to}});
}

static float *way_out_at(const struct way_out *way, float *to, bool add)
{
    return way->same && !add ? to : way->room.at;
}

static void way_out_end(const struct dnn *d, const struct way_out *way, float *to, bool add)
{
    if (!way->same || add)
        way_out_send(d, way, way->room.at, to, add);
}

/* ---- what all have in common ---- */

static struct dnn *dnn_new(const struct op_frame *frame, const struct op *in)
{
    struct dnn *d = mem_array(frame->mem, 1, sizeof *d);
    if (d == NULL)
        return NULL;
    d->mem = frame->mem;
    d->shape = in->out.shape;
    d->layout.md = md_of(in);
    d->one_thread = getenv("OMP_NUM_THREADS") == NULL;
    set_threads(d);
    note(d, dnnl_engine_create(&d->engine, dnnl_cpu, 0));
    if (d->status == dnnl_success)
        note(d, dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags));
    return d;
}

void dnn_free(struct dnn *d)
{
    if (d == NULL)
        return;
    struct step *steps[] = {&d->forward, &d->infer, &d->weigh, &d->backward, &d->mask};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        step_free(steps[i]);
    struct way_in *ins[] = {&d->in,      &d->in_weigh,         &d->diff_weigh, &d->diff_backward,
                            &d->weights, &d->weights_backward, &d->b};
    for (size_t i = 0; i < sizeof ins / sizeof ins[0]; i++) {
        step_free(&ins[i]->reorder);
        mem_free(d->mem, ins[i]->room.block);
    }
    struct way_out *outs[] = {&d->dense, &d->in_diff, &d->b_diff};
    for (size_t i = 0; i < sizeof outs / sizeof outs[0]; i++) {
        step_free(&outs[i]->copy);
        step_free(&outs[i]->add);
        mem_free(d->mem, outs[i]->room.block);
    }
    mem_free(d->mem, d->workspace.block);
    if (d->stream != NULL)
        (void)dnnl_stream_destroy(d->stream);
    if (d->engine != NULL)
        (void)dnnl_engine_destroy(d->engine);
    mem_free(d->mem, d);
}

/* The end of each constructor: *out, or the reason why not. */
static tri_status finish(struct dnn *d, const struct op_frame *frame, const char *what,
                         struct dnn **out, tri_error *err)
{
    dnnl_status_t status = d == NULL ? dnnl_out_of_memory : d->status;
    if (status == dnnl_success) {
        const dnnl_memory_desc_t plain = tensor_md(frame->batch, d->shape, dnnl_nchw);
        d->plain = dnnl_memory_desc_equal(&d->layout.md, &plain);
        *out = d;
        return TRI_OK;
    }
    dnn_free(d);
    if (status == dnnl_out_of_memory)
        return fail_nomem(err, frame->name);
    fail(err, TRI_EARG, "operator '%s': oneDNN cannot do this %s", frame->name, what);
    fail_why(err, "its status is %d", (int)status);
    fail_next(err, "try other sizes");
    return TRI_EARG;
}

struct tensor dnn_out(const struct dnn *d)
{
    return (struct tensor){.shape = d->shape, .layout = d->plain ? NULL : &d->layout};
}

bool dnn_make_tensors(const struct dnn *d, struct op *op)
{
    size_t floats = dnnl_memory_desc_get_size(&d->layout.md) / sizeof(float);
    op->out = op->diff = dnn_out(d);
    op->out.data = op_floats(op->mem, floats);
    if (op->wants_diff)
        op->diff.data = op_floats(op->mem, floats);
    return op->out.data != NULL && (!op->wants_diff || op->diff.data != NULL);
}

/* ---- relu ---- */

/* Both from the output: the input need not be kept. in_diff may be diff itself. */
static void relu_make(struct dnn *d, struct step *forward, struct step *backward)
{
    const dnnl_memory_desc_t *md = &d->layout.md;
    const dnnl_alg_kind_t kind = dnnl_eltwise_relu_use_dst_for_bwd;
    dnnl_eltwise_desc_t desc;
    note(d, dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_training, kind, md, 0, 0));
    dnnl_primitive_desc_t hint = describe(d, &desc, NULL, NULL);
    if (forward != NULL)
        step_make(d, forward, hint, (struct arg[]){{DNNL_ARG_SRC, md}, {DNNL_ARG_DST, md}}, 2);
    note(d, dnnl_eltwise_backward_desc_init(&desc, kind, md, md, 0, 0));
    dnnl_primitive_desc_t pd = describe(d, &desc, NULL, hint);
    const struct arg args[] = {
        {DNNL_ARG_DST, md}, {DNNL_ARG_DIFF_DST, md}, {DNNL_ARG_DIFF_SRC, md}};
    step_make(d, backward, pd, args, 3);
    forget(pd);
    forget(hint);
}

void dnn_mask(struct dnn *d, const float *out, float *diff)
{
    run(d, &d->mask, &(struct places){{out, diff, diff}});
}

tri_status dnn_relu_new(const struct op_frame *frame, const struct op *in, struct dnn **out,
                        tri_error *err)
{
    struct dnn *d = dnn_new(frame, in);
    if (d != NULL) {
        relu_make(d, &d->forward, &d->backward);
        if (in->wants_diff) {
            way_out_make(d, &d->in_diff, &d->layout.md, &d->layout.md);
            room_make(d, &d->in_diff.room, &d->layout.md);
        }
    }
    return finish(d, frame, "relu", out, err);
}

void dnn_relu_forward(struct dnn *d, const float *in, float *out)
{
    run(d, &d->forward, &(struct places){{in, out}});
}

void dnn_relu_backward(struct dnn *d, const float *out, const float *diff, float *in_diff, bool add)
{
    run(d, &d->backward, &(struct places){{out, diff, way_out_at(&d->in_diff, in_diff, add)}});
    way_out_end(d, &d->in_diff, in_diff, add);
}

/* ---- convolution ---- */

struct conv {
    dnnl_memory_desc_t in, in_any, weights, weights_any, bias, out_any;
    const dnnl_memory_desc_t *maybe_bias; /* NULL: none */
    dnnl_dims_t strides, pad;
};

static struct conv conv_of(const struct op *in, const struct op_conv *conv, struct shape3 out)
{
    struct shape3 filter = {in->out.shape.channels, conv->kernel, conv->kernel};
    return (struct conv){
        .in = md_of(in),
        .in_any = tensor_md(in->batch, in->out.shape, dnnl_format_tag_any),
        .weights = tensor_md(conv->filters, filter, dnnl_oihw),
        .weights_any = tensor_md(conv->filters, filter, dnnl_format_tag_any),
        .bias = vector_md(conv->filters),
        .out_any = tensor_md(in->batch, out, dnnl_format_tag_any),
        .strides = {conv->stride, conv->stride},
        .pad = {conv->pad, conv->pad},
    };
}

/* Gives what the backward steps are to be like; the caller's to forget. */
static dnnl_primitive_desc_t conv_forward_make(struct dnn *d, const struct conv *c, bool relu)
{
    dnnl_convolution_desc_t desc;
    dnnl_primitive_attr_t attr = attr_make(d, relu);
    note(d, dnnl_convolution_forward_desc_init(
                &desc, dnnl_forward_training, dnnl_convolution_direct, &c->in_any, &c->weights_any,
                c->maybe_bias, &c->out_any, c->strides, c->pad, c->pad));
    dnnl_primitive_desc_t pd = describe(d, &desc, attr, NULL);
    (void)dnnl_primitive_attr_destroy(attr);
    dnnl_memory_desc_t in = ask(pd, dnnl_query_src_md);
    dnnl_memory_desc_t weights = ask(pd, dnnl_query_weights_md);
    d->layout.md = ask(pd, dnnl_query_dst_md);
    way_in_make(d, &d->in, &c->in, &in);
    way_in_make(d, &d->weights, &c->weights, &weights);
    const struct arg args[] = {{DNNL_ARG_SRC, &in},
                               {DNNL_ARG_WEIGHTS, &weights},
                               {DNNL_ARG_DST, &d->layout.md},
                               {DNNL_ARG_BIAS, &c->bias}};
    step_make(d, &d->forward, pd, args, c->maybe_bias != NULL ? 4 : 3);
    return pd;
}

static void conv_weigh_make(struct dnn *d, const struct conv *c, const_dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t desc;
    const dnnl_memory_desc_t forward_in = ask(hint, dnnl_query_src_md);
    note(d, dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &c->in_any,
                                                        &c->weights_any, c->maybe_bias, &c->out_any,
                                                        c->strides, c->pad, c->pad));
    dnnl_primitive_desc_t pd = describe(d, &desc, NULL, hint);
    dnnl_memory_desc_t in = ask(pd, dnnl_query_src_md);
    dnnl_memory_desc_t dense = ask(pd, dnnl_query_diff_weights_md);
    dnnl_memory_desc_t diff = ask(pd, dnnl_query_diff_dst_md);
    way_in_make(d, &d->in_weigh, &forward_in, &in);
    way_in_make(d, &d->diff_weigh, &d->layout.md, &diff);
    way_out_make(d, &d->dense, &dense, &c->weights);
    if (!d->dense.same)
        room_make(d, &d->dense.room, &dense);
    const struct arg args[] = {{DNNL_ARG_SRC, &in},
                               {DNNL_ARG_DIFF_DST, &diff},
                               {DNNL_ARG_DIFF_WEIGHTS, &dense},
                               {DNNL_ARG_DIFF_BIAS, &c->bias}};
    step_make(d, &d->weigh, pd, args, c->maybe_bias != NULL ? 4 : 3);
    forget(pd);
}

static void conv_backward_make(struct dnn *d, const struct conv *c,
                               const_dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t desc;
    note(d, dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &c->in_any,
                                                     &c->weights_any, &c->out_any, c->strides,
                                                     c->pad, c->pad));
    dnnl_primitive_desc_t pd = describe(d, &desc, NULL, hint);
    dnnl_memory_desc_t in = ask(pd, dnnl_query_diff_src_md);
    dnnl_memory_desc_t weights = ask(pd, dnnl_query_weights_md);
    dnnl_memory_desc_t diff = ask(pd, dnnl_query_diff_dst_md);
    way_in_make(d, &d->weights_backward, &c->weights, &weights);
    way_in_make(d, &d->diff_backward, &d->layout.md, &diff);
    way_out_make(d, &d->in_diff, &in, &c->in);
    room_make(d, &d->in_diff.room, &in);
    const struct arg args[] = {
        {DNNL_ARG_DIFF_DST, &diff}, {DNNL_ARG_WEIGHTS, &weights}, {DNNL_ARG_DIFF_SRC, &in}};
    step_make(d, &d->backward, pd, args, 3);
    forget(pd);
}

tri_status dnn_conv_new(const struct op_frame *frame, const struct op *in,
                        const struct op_conv *conv, struct dnn **out, tri_error *err)
{
    struct dnn *d = dnn_new(frame, in);
    if (d != NULL) {
        d->shape.channels = conv->filters;
        d->shape.height = (d->shape.height + 2 * conv->pad - conv->kernel) / conv->stride + 1;
        d->shape.width = (d->shape.width + 2 * conv->pad - conv->kernel) / conv->stride + 1;
        struct conv c = conv_of(in, conv, d->shape);
        c.maybe_bias = conv->bias ? &c.bias : NULL;
        dnnl_primitive_desc_t hint = conv_forward_make(d, &c, conv->relu);
        conv_weigh_make(d, &c, hint);
        if (in->wants_diff)
            conv_backward_make(d, &c, hint);
        if (conv->relu)
            relu_make(d, NULL, &d->mask);
        forget(hint);
    }
    return finish(d, frame, "convolution", out, err);
}

void dnn_conv_forward(struct dnn *d, const float *in, const struct param *param, float *out)
{
    const float *values = way_in_run(d, &d->in, in);
    const float *weights = way_in_run(d, &d->weights, param->weights);
    run(d, &d->forward, &(struct places){{values, weights, out, param->bias}});
}

void dnn_conv_weigh(struct dnn *d, const float *in, const float *diff, struct param *param)
{
    const float *values = way_in_run(d, &d->in_weigh, way_in_last(&d->in, in));
    float *dense = way_out_at(&d->dense, param->dense, false);
    diff = way_in_run(d, &d->diff_weigh, diff);
    run(d, &d->weigh, &(struct places){{values, diff, dense, param->dense_bias}});
    way_out_end(d, &d->dense, param->dense, false);
}

void dnn_conv_backward(struct dnn *d, const float *diff, const struct param *param, float *in_diff,
                       bool add)
{
    const float *weights = way_in_run(d, &d->weights_backward, param->weights);
    diff = way_in_run(d, &d->diff_backward, diff);
    run(d, &d->backward, &(struct places){{diff, weights, way_out_at(&d->in_diff, in_diff, add)}});
    way_out_end(d, &d->in_diff, in_diff, add);
}

/* ---- layouts ---- */

/* Those in which an image is planes of height x width positions. */
static const struct {
    dnnl_format_tag_t tag;
    uint32_t lanes; /* 0: all channels */
} by_planes[] = {{dnnl_nchw, 1}, {dnnl_nChw8c, 8}, {dnnl_nChw16c, 16}, {dnnl_nhwc, 0}};

tri_status dnn_like_new(const struct op_frame *frame, const struct op *in,
                        struct dnn_planes *planes, struct dnn **out, tri_error *err)
{
    struct dnn *d = dnn_new(frame, in);
    const size_t ways = sizeof by_planes / sizeof by_planes[0];
    const dnnl_memory_desc_t have = md_of(in);
    size_t i = 0;
    for (; i < ways; i++) {
        const dnnl_memory_desc_t md = tensor_md(in->batch, in->out.shape, by_planes[i].tag);
        if (dnnl_memory_desc_equal(&md, &have))
            break;
    }
    if (d != NULL && i == ways)
        note(d, dnnl_unimplemented);
    if (d != NULL && i < ways) {
        const uint32_t channels = d->shape.channels;
        planes->lanes = by_planes[i].lanes == 0 ? channels : by_planes[i].lanes;
        planes->planes = in->batch * (size_t)((channels - 1) / planes->lanes + 1);
        d->shape.height = planes->height;
        d->shape.width = planes->width;
        d->layout.md = tensor_md(in->batch, d->shape, by_planes[i].tag);
    }
    return finish(d, frame, "layout", out, err);
}

/* ---- batch normalisation ---- */

static const float epsilon = 1e-5F;

struct norm {
    dnnl_memory_desc_t values, channels, workspace;
    unsigned flags;
};

/* Training, or with statistics that are given. */
static dnnl_primitive_desc_t norm_forward_make(struct dnn *d, struct norm *n, bool training)
{
    dnnl_batch_normalization_desc_t desc;
    dnnl_prop_kind_t kind = training ? dnnl_forward_training : dnnl_forward_inference;
    unsigned flags = n->flags | (training ? 0U : (unsigned)dnnl_use_global_stats);
    note(d, dnnl_batch_normalization_forward_desc_init(&desc, kind, &n->values, epsilon, flags));
    dnnl_primitive_desc_t pd = describe(d, &desc, NULL, NULL);
    const bool workspace = training && (flags & dnnl_fuse_norm_relu) != 0;
    if (workspace) {
        n->workspace = ask(pd, dnnl_query_workspace_md);
        room_make(d, &d->workspace, &n->workspace);
    }
    const struct arg args[] = {{DNNL_ARG_SRC, &n->values},         {DNNL_ARG_SCALE, &n->channels},
                               {DNNL_ARG_SHIFT, &n->channels},     {DNNL_ARG_MEAN, &n->channels},
                               {DNNL_ARG_VARIANCE, &n->channels},  {DNNL_ARG_DST, &n->values},
                               {DNNL_ARG_WORKSPACE, &n->workspace}};
    step_make(d, training ? &d->forward : &d->infer, pd, args, workspace ? 7 : 6);
    return pd;
}

static void norm_backward_make(struct dnn *d, const struct norm *n,
                               const_dnnl_primitive_desc_t hint)
{
    dnnl_batch_normalization_desc_t desc;
    note(d, dnnl_batch_normalization_backward_desc_init(&desc, dnnl_backward, &n->values,
                                                        &n->values, epsilon, n->flags));
    dnnl_primitive_desc_t pd = describe(d, &desc, NULL, hint);
    const struct arg args[] = {
        {DNNL_ARG_SRC, &n->values},          {DNNL_ARG_DIFF_DST, &n->values},
        {DNNL_ARG_SCALE, &n->channels},      {DNNL_ARG_SHIFT, &n->channels},
        {DNNL_ARG_MEAN, &n->channels},       {DNNL_ARG_VARIANCE, &n->channels},
        {DNNL_ARG_DIFF_SCALE, &n->channels}, {DNNL_ARG_DIFF_SHIFT, &n->channels},
        {DNNL_ARG_DIFF_SRC, &n->values},     {DNNL_ARG_WORKSPACE, &n->workspace}};
    step_make(d, &d->weigh, pd, args, (n->flags & dnnl_fuse_norm_relu) != 0 ? 10 : 9);
    way_out_make(d, &d->in_diff, &n->values, &n->values);
    room_make(d, &d->in_diff.room, &n->values);
    forget(pd);
}

tri_status dnn_norm_new(const struct op_frame *frame, const struct op *in, bool relu,
                        struct dnn **out, tri_error *err)
{
    struct dnn *d = dnn_new(frame, in);
    if (d != NULL) {
        struct norm n = {.values = d->layout.md, .channels = vector_md(d->shape.channels)};
        n.flags = (unsigned)dnnl_use_scale | (unsigned)dnnl_use_shift |
                  (relu ? (unsigned)dnnl_fuse_norm_relu : 0U);
        dnnl_primitive_desc_t hint = norm_forward_make(d, &n, true);
        norm_backward_make(d, &n, hint);
        forget(norm_forward_make(d, &n, false));
        forget(hint);
    }
    return finish(d, frame, "batch normalisation", out, err);
}

void dnn_norm_forward(struct dnn *d, bool training, const float *in, const struct dnn_norm *norm,
                      float *out)
{
    run(d, training ? &d->forward : &d->infer,
        &(struct places){
            {in, norm->scale, norm->shift, norm->mean, norm->variance, out, d->workspace.at}});
}

void dnn_norm_weigh(struct dnn *d, const float *in, const float *diff, const struct dnn_norm *norm,
                    struct param *param, float *in_diff, bool add)
{
    float *to = in_diff == NULL ? d->in_diff.room.at : way_out_at(&d->in_diff, in_diff, add);
    run(d, &d->weigh,
        &(struct places){{in, diff, norm->scale, norm->shift, norm->mean, norm->variance,
                          param->dense, param->dense_bias, to, d->workspace.at}});
}

void dnn_norm_backward(struct dnn *d, float *in_diff, bool add)
{
    way_out_end(d, &d->in_diff, in_diff, add);
}

/* ---- sum of two ---- */

tri_status dnn_add_new(const struct op_frame *frame, const struct op *a, const struct op *b,
                       bool relu, struct dnn **out, tri_error *err)
{
    struct dnn *d = dnn_new(frame, a);
    if (d != NULL) {
        const dnnl_memory_desc_t other = md_of(b);
        sum_make(d, &d->forward, &d->layout.md, relu);
        way_in_make(d, &d->b, &other, &d->layout.md);
        if (a->wants_diff)
            way_out_make(d, &d->in_diff, &d->layout.md, &d->layout.md);
        if (b->wants_diff)
            way_out_make(d, &d->b_diff, &d->layout.md, &other);
        if (relu)
            relu_make(d, NULL, &d->mask);
    }
    return finish(d, frame, "sum", out, err);
}

void dnn_add_forward(struct dnn *d, const float *a, const float *b, float *out)
{
    run(d, &d->forward, &(struct places){{a, way_in_run(d, &d->b, b), out}});
}

void dnn_add_backward_a(struct dnn *d, const float *diff, float *a_diff, bool add)
{
    way_out_send(d, &d->in_diff, diff, a_diff, add);
}

void dnn_add_backward_b(struct dnn *d, const float *diff, float *b_diff, bool add)
{
    way_out_send(d, &d->b_diff, diff, b_diff, add);
}

/* ---- plain ---- */

tri_status dnn_plain_new(const struct op_frame *frame, const struct op *in, struct dnn **out,
                         tri_error *err)
{
    struct dnn *d = dnn_new(frame, in);
    if (d != NULL) {
        const dnnl_memory_desc_t from = d->layout.md;
        d->layout.md = tensor_md(in->batch, in->out.shape, dnnl_nchw);
        reorder_make(d, &d->forward, &from, &d->layout.md, false);
        if (in->wants_diff)
            way_out_make(d, &d->in_diff, &d->layout.md, &from);
    }
    return finish(d, frame, "reorder", out, err);
}

void dnn_plain_forward(struct dnn *d, const float *in, float *out)
{
    run(d, &d->forward, &(struct places){{in, out}});
}

void dnn_plain_backward(struct dnn *d, const float *diff, float *in_diff, bool add)
{
    way_out_send(d, &d->in_diff, diff, in_diff, add);
}
