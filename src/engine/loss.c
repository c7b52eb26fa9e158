/* Softmax and cross-entropy. */
#include <math.h>

#include "engine/op.h"

struct loss {
    uint32_t *labels;
    double *losses;  /* of each sample of the last forward() */
    uint32_t *right; /* 1: the label has the largest probability */
};

static size_t classes_of(const struct op *op)
{
    return op->out.shape.channels;
}

/* The largest is taken off first, so that no exponential overflows. */
static void softmax(const float *x, size_t count, float *to, double *log_sum, size_t *at)
{
    *at = 0;
    for (size_t i = 1; i < count; i++)
        *at = x[i] > x[*at] ? i : *at;
    const float top = x[*at];
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        to[i] = expf(x[i] - top);
        sum += (double)to[i];
    }
    for (size_t i = 0; i < count; i++)
        to[i] = (float)((double)to[i] / sum);
    *log_sum = (double)top + log(sum);
}

static void forward(struct op *op, bool training)
{
    (void)training;
    struct loss *own = op->own;
    const size_t classes = classes_of(op);
    for (uint32_t k = 0; k < op->batch; k++) {
        const float *x = op->in[0]->out.data + k * classes;
        double log_sum;
        size_t at;
        softmax(x, classes, op->out.data + k * classes, &log_sum, &at);
        const uint32_t label = own->labels[k];
        own->losses[k] = label < classes ? log_sum - (double)x[label] : 0;
        own->right[k] = label == at;
    }
}

static void backward(struct op *op)
{
    const struct loss *own = op->own;
    struct op *in = op->in[0];
    if (!in->wants_diff)
        return;
    const size_t classes = classes_of(op);
    for (uint32_t k = 0; k < op->batch; k++) {
        const float *p = op->out.data + k * classes;
        float *to = in->diff.data + k * classes;
        for (size_t i = 0; i < classes; i++) {
            float gradient = own->labels[k] == i ? p[i] - 1 : p[i];
            to[i] = in->diff_written ? to[i] + gradient : gradient;
        }
    }
    in->diff_written = true;
}

static void free_own(struct op *op)
{
    struct loss *own = op->own;
    if (own != NULL) {
        mem_free(op->mem, own->labels);
        mem_free(op->mem, own->losses);
        mem_free(op->mem, own->right);
        mem_free(op->mem, own);
    }
    op_free_plain(op);
}

static const struct op_kind kind = {
    .name = "loss", .forward = forward, .backward = backward, .free = free_own};

static bool make(struct op *op, size_t classes)
{
    struct loss *own = op->own = mem_array(op->mem, 1, sizeof *own);
    if (own == NULL)
        return false;
    own->labels = mem_array(op->mem, op->batch, sizeof *own->labels);
    own->losses = mem_array(op->mem, op->batch, sizeof *own->losses);
    own->right = mem_array(op->mem, op->batch, sizeof *own->right);
    op->wants_diff = false; /* it begins the backward pass: nobody writes a diff of its own */
    return own->labels != NULL && own->losses != NULL && own->right != NULL &&
           op_make_plain(op, (struct shape3){(uint32_t)classes, 1, 1});
}

tri_status op_loss_new(const struct op_frame *frame, struct op *in, struct op **out, tri_error *err)
{
    const size_t classes = shape3_floats(in->out.shape);
    if (in->out.layout != NULL || in->batch != frame->batch || classes == 0 || classes > UINT32_MAX)
        return fail(err, TRI_EARG, "loss '%s' wants plain values of its own batch from '%s'",
                    frame->name, in->name);
    struct op *op = op_new(frame->mem, &kind, frame->name, frame->batch, &in, 1, false);
    if (op == NULL || !make(op, classes)) {
        op_free(op);
        return fail_nomem(err, frame->name);
    }
    *out = op;
    return TRI_OK;
}

uint32_t *op_labels(struct op *op)
{
    struct loss *own = op->own;
    return own->labels;
}

void op_loss_of(const struct op *op, uint32_t samples, double *loss, uint32_t *right)
{
    const struct loss *own = op->own;
    *loss = 0;
    *right = 0;
    for (uint32_t k = 0; k < samples && k < op->batch; k++) {
        *loss += own->losses[k];
        *right += own->right[k];
    }
}
