/* Words to vectors: a row of the layer's weights for each token. */
#include <string.h>

#include "engine/op.h"
#include "math/inplace.h"

/* ---- tokens ---- */

static void no_forward(struct op *op, bool training)
{
    (void)op;
    (void)training;
}

static void tokens_free(struct op *op)
{
    mem_free(op->mem, op->own);
}

static const struct op_kind tokens_kind = {
    .name = "tokens", .forward = no_forward, .free = tokens_free};

tri_status op_tokens_new(const struct op_frame *frame, uint32_t length, struct op **out,
                         tri_error *err)
{
    if (length == 0)
        return fail(err, TRI_EARG, "tokens '%s' have no length", frame->name);
    struct op *op = op_new(frame->mem, &tokens_kind, frame->name, frame->batch, NULL, 0, false);
    if (op != NULL)
        op->own = mem_array(op->mem, (size_t)frame->batch * length, sizeof(uint32_t));
    if (op == NULL || op->own == NULL) {
        op_free(op);
        return fail_nomem(err, frame->name);
    }
    op->out.shape = op->diff.shape = (struct shape3){length, 1, 1};
    *out = op;
    return TRI_OK;
}

uint32_t *op_tokens(struct op *op)
{
    return op->own;
}

/* ---- embedding ---- */

/* 0 is padding; a number that no word has is taken for it. */
static bool is_word(const struct op *op, uint32_t token)
{
    return token > 0 && token < op->param->rows;
}

static size_t positions(const struct op *op)
{
    return (size_t)op->batch * op->out.shape.channels;
}

static void forward(struct op *op, bool training)
{
    (void)training;
    const uint32_t *tokens = op->in[0]->own;
    const struct inplace_kernel *kernel = inplace_kernel_at(0);
    const size_t width = op->param->cols;
    float *to = op->out.data;
    for (size_t i = 0; i < positions(op); i++, to += width)
        if (is_word(op, tokens[i]))
            inplace_copy(kernel, op->param->weights + tokens[i] * width, to, width);
        else
            memset(to, 0, width * sizeof *to);
}

/* The rows are the diff itself, moved together where padding lies between them. */
static void weigh(struct op *op)
{
    const uint32_t *tokens = op->in[0]->own;
    uint32_t *numbers = op->own;
    const size_t width = op->param->cols;
    uint32_t count = 0;
    for (size_t i = 0; i < positions(op); i++) {
        if (!is_word(op, tokens[i]))
            continue;
        if (count < i)
            memcpy(op->diff.data + count * width, op->diff.data + i * width, width * sizeof(float));
        numbers[count++] = tokens[i];
    }
    op->param->row_values = op->diff.data;
    op->param->row_numbers = numbers;
    op->param->row_count = count;
}

static void backward(struct op *op)
{
    (void)op; /* nothing lies before it */
}

/* AHEAD positions are time enough for a row to come. */
static void learn(struct op *op, const struct op_step *step)
{
    const float alpha = step->alpha;
    enum { AHEAD = 4 };
    const struct inplace_kernel *kernel = inplace_kernel_at(0);
    const uint32_t *tokens = op->in[0]->own;
    const size_t width = op->param->cols, count = positions(op);
    const float *diff = op->diff.data;
    for (size_t i = 0; i < count; i++, diff += width) {
        const size_t soon = i + AHEAD;
        if (soon < count && is_word(op, tokens[soon]))
            inplace_ahead(kernel, op->param->weights + tokens[soon] * width, width);
        if (is_word(op, tokens[i]))
            inplace_add(kernel, alpha, diff, op->param->weights + tokens[i] * width, width);
    }
}

static void free_own(struct op *op)
{
    mem_free(op->mem, op->own);
    op_free_plain(op);
}

static const struct op_kind kind = {.name = "embed",
                                    .forward = forward,
                                    .weigh = weigh,
                                    .backward = backward,
                                    .learn = learn,
                                    .free = free_own};

static bool make(struct op *op, uint32_t words, uint32_t width)
{
    struct shape3 shape = {op->in[0]->out.shape.channels, 1, width};
    struct param like = {.kind = TRI_EMBED,
                         .rows = words,
                         .cols = width,
                         .fan_in = width,
                         .fan_out = width,
                         .max_rows = op->batch * shape.channels};
    memcpy(like.name, op->name, sizeof like.name);
    op->own = mem_array(op->mem, (size_t)op->batch * shape.channels, sizeof(uint32_t));
    return op->own != NULL && op_make_plain(op, shape) && op_make_param(op, &like, false, false);
}

tri_status op_embed_new(const struct op_frame *frame, struct op *tokens, uint32_t words,
                        uint32_t width, struct op **out, tri_error *err)
{
    if (tokens->kind != &tokens_kind || tokens->batch != frame->batch)
        return fail(err, TRI_EARG, "embed '%s' wants tokens of its own batch, not '%s'",
                    frame->name, tokens->name);
    if (words == 0 || width == 0 || (size_t)frame->batch * tokens->out.shape.channels > UINT32_MAX)
        return fail(err, TRI_EARG, "embed '%s' cannot have %u words of %u values", frame->name,
                    words, width);
    struct op *op = op_new(frame->mem, &kind, frame->name, frame->batch, &tokens, 1, true);
    if (op == NULL || !make(op, words, width)) {
        op_free(op);
        return fail_nomem(err, frame->name);
    }
    *out = op;
    return TRI_OK;
}
