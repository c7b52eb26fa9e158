/* Operators: the steps of a net's forward and backward pass.
 *
 * An operator has inputs, which are operators before it, an output, and at most one layer of
 * parameters. It owns the memory of its output (out) and of the loss's gradient with respect to
 * that (diff). A net (net.h) calls them in order: forward() of each, then from the last to the
 * first weigh(), which leaves the gradient of the parameters in struct param, and backward(),
 * which adds to the diff of each input. So the gradient of a layer is there before its input's. Or
 * it calls learn(), which does both and steps the parameters by the gradient, and may do without
 * ever writing that down.
 *
 * Values are a batch of samples with three dimensions each: channels, height and width. Plain
 * values lie sample after sample, channels outermost. Between convolutions they may lie as oneDNN
 * wants them; only dnn.c knows how, and op_plain_new() makes them plain again.
 *
 * The batch is fixed when an operator is made. Nothing allocates after that. One thread. */
#ifndef TRIDENT_ENGINE_OP_H
#define TRIDENT_ENGINE_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { OP_INPUTS = 8, OP_NAME = 48 };

struct shape3 {
    uint32_t channels, height, width; /* a vector of n: n, 1, 1 */
};

static inline size_t shape3_floats(struct shape3 shape)
{
    return (size_t)shape.channels * shape.height * shape.width;
}

struct dnn_layout; /* of dnn.c */
struct peaks;      /* of peaks.h */

/* The values of a batch, or their gradient. */
struct tensor {
    struct shape3 shape; /* of a sample */
    float *data;
    const struct dnn_layout *layout; /* NULL: plain */
};

/* A layer of parameters: what trident.h calls one. Plain, whatever oneDNN makes of them inside. */
struct param {
    char name[OP_NAME];
    tri_kind kind;
    uint32_t rows, cols;
    float *weights;                /* rows x cols */
    float *bias;                   /* rows; NULL: none */
    float *own_weights, *own_bias; /* the operator's memory for them; NULL after op_use_weights() */
    uint32_t fan_in,
        fan_out; /* for initial values; 0: weights begin with 1 (a scale), bias with 0 */
    /* What weigh() left: sums over the samples of the batch, in one of the four forms of
     * tri_update_info. Valid until the operator's next forward(). */
    float *dense, *dense_bias;
    const float *u, *v;
    uint32_t factor_rows; /* of a layer that gives factors or windows: the batch; else 0 */
    const float *row_values;
    const uint32_t *row_numbers;
    uint32_t row_count, max_rows; /* max_rows: of any batch; 0 where there are none */
    const uint32_t *at;
    uint32_t window_floats; /* of v in a sample, in windows; 0: the layer has no such form */
    bool as_windows;        /* weigh() leaves them, by op_give_windows(), and no dense gradient */
    bool reads_pending;     /* forward() reckons with steps to be made, if it is told of them */
};

/* A sample of another learner's, whose step is made beside one's own: factors, or a window, as in
 * struct param, which count `by` times. */
struct op_other {
    const float *u, *v;
    const uint32_t *at;
    float by;
};

/* A step of plain SGD: alpha times one's own gradient, and those of others. */
enum { OP_OTHERS = TRI_OTHERS }; /* the most at once */
struct op_step {
    float alpha;
    size_t count;
    struct op_other others[OP_OTHERS];
};

struct op;

struct op_kind {
    const char *name; /* "conv", as in tables of times */
    bool by_rows;     /* forward() says op_reads() itself, of a few rows at a time if it can */
    void (*forward)(struct op *op, bool training);
    void (*weigh)(struct op *op);    /* NULL: no parameters */
    void (*backward)(struct op *op); /* NULL: an input */
    /* Instead of the two: backward() with the parameters as they are and, right behind it, a step.
     * Other learners may read and step them meanwhile. NULL: op_learn() goes the long way. */
    void (*learn)(struct op *op, const struct op_step *step);
    void (*free)(struct op *op); /* of the operator's own, not of struct op */
};

/* Steps of a layer that are still to be made: it is as if weights[m][n] += sum over k of
 * u[k][m] * v[k][n], and bias[m] += sum over k of u[k][m]. */
struct op_pending {
    size_t count;
    const float *u, *v;          /* count x rows, count x cols */
    const float *weights, *bias; /* read instead of those of the layer; NULL: they are */
};

/* Who wants to know which parameters forward() is about to read. */
struct op_reader {
    void (*call)(void *ctx, size_t rows); /* NULL: nobody */
    /* Or instead, once for all rows, by an operator that reckons with steps to be made: there, and
     * in backward(). NULL: there are none. */
    void (*pending)(void *ctx, struct op_pending *out);
    void *ctx;
};

struct op {
    const struct op_kind *kind;
    const struct mem *mem;
    char name[OP_NAME];
    uint32_t batch;
    struct op *in[OP_INPUTS];
    size_t in_count;
    struct tensor out;
    struct tensor diff; /* same shape and layout as out; data NULL where nobody needs it */
    bool diff_written;  /* since the last forward: backward() of a second user adds */
    bool wants_diff;    /* a layer of parameters lies before it: backward() has work to do for it */
    bool relu;          /* out = max(0, ...): diff counts only where out is above 0, and... */
    uint32_t users, masking; /* ...`masking` of the operators that use it see to that themselves */
    bool learns_others;      /* learn() steps by others' samples, too; also right behind weigh() */
    bool takes_peaks;        /* can do without diff if its one user leaves peaks (pool.c) instead */
    const struct peaks *peaks;
    struct param *param; /* owned; NULL: none */
    uint32_t first; /* row that learn() begins with, and forward() if it can; see net_avoid() */
    struct op_reader reader; /* while forward() runs; set for kinds that go by rows */
    void *own;               /* the kind's */
};

/* The first `rows` rows of the layer are about to be read, weights and bias. They may change in
 * this call, and not after it. Ascending; the last one is for all rows. */
static inline void op_reads(const struct op *op, size_t rows)
{
    if (op->reader.call != NULL)
        op->reader.call(op->reader.ctx, rows);
}

/* The frame of an operator, zeroed but for what is given: for the constructors below. The name is
 * copied. wants_diff of the new one is true if an input's is or if it has a layer of parameters
 * itself (has_param); an input is to be given a diff (op_diff()) only where its wants_diff is
 * true. NULL when memory is refused. */
struct op *op_new(const struct mem *mem, const struct op_kind *kind, const char *name,
                  uint32_t batch, struct op *const *in, size_t in_count, bool has_param);
void op_free(struct op *op); /* with all that it owns; NULL is fine */

/* Plain, zeroed memory for out and, if wants_diff, for diff. Whoever makes it frees it in its
 * kind's free(), with op_free_plain(). False: refused. */
bool op_make_plain(struct op *op, struct shape3 shape);
void op_free_plain(struct op *op);

/* Zeroed, aligned to 64 bytes; freed with op_floats_free(). NULL: refused. */
float *op_floats(const struct mem *mem, size_t count);
void op_floats_free(const struct mem *mem, float *floats);

/* Makes op->param like the one given (name, kind, rows, cols, fans), with zeroed memory of its own
 * for weights, bias if wanted and, if dense, their gradient. False: refused. */
bool op_make_param(struct op *op, const struct param *like, bool bias, bool dense);

/* From now on the parameters are these, rows x cols floats (rows lie one behind the other, at any
 * address) and rows floats; bias is not looked at where there is none. They are the caller's, and
 * must live as long as the operator is used. Its own memory is given back, with what was in it. */
void op_use_weights(struct op *op, float *weights, float *bias);

/* From now on weigh() leaves windows, if the layer has such a form: the memory of its dense
 * gradient is given back. */
void op_give_windows(struct op *op);

/* learn(), or weigh(), backward() and a step; of an operator with parameters, or with none. */
void op_learn(struct op *op, float alpha);

/* All constructors: *out is the caller's, to be freed with op_free(); inputs must outlive it.
 * TRI_EARG for shapes that do not fit together, with a text that names the operator. */
struct op_frame {
    const struct mem *mem;
    const char *name;
    uint32_t batch;
};

/* input.c: plain values, which the caller writes into out.data. Tokens: numbers of words, as
 * uint32_t, `length` of them in a sample; ids.c knows how they are padded. */
tri_status op_input_new(const struct op_frame *frame, struct shape3 shape, struct op **out,
                        tri_error *err);

/* conv.c */
struct op_conv {
    uint32_t filters, kernel, stride, pad;
    bool bias;
    bool relu; /* fused: out = max(0, convolution) */
};
tri_status op_conv_new(const struct op_frame *frame, struct op *in, const struct op_conv *conv,
                       struct op **out, tri_error *err);

/* pool.c: height and width of the output are (in + 2 pad - kernel) / stride + 1, rounded up when
 * `ceil` is set (as Caffe does). A maximum over relu outputs commutes with it: see conv.c. */
struct op_pool {
    bool average; /* of what lies inside the image; else the maximum */
    uint32_t kernel, stride, pad;
    bool ceil;
};
tri_status op_pool_new(const struct op_frame *frame, struct op *in, const struct op_pool *pool,
                       struct op **out, tri_error *err);

/* norm.c: batch normalisation with scale (weights) and shift (bias). Training takes the batch's
 * statistics and moves the running ones (by `momentum` of the old), which are used otherwise. */
tri_status op_norm_new(const struct op_frame *frame, struct op *in, bool relu, struct op **out,
                       tri_error *err);
/* Running mean and variance, channels floats each: buffers that a model is saved with. */
void op_norm_running(struct op *op, float **mean, float **variance);

/* add.c: the sum of two, element by element. */
tri_status op_add_new(const struct op_frame *frame, struct op *a, struct op *b, bool relu,
                      struct op **out, tri_error *err);

/* relu.c */
tri_status op_relu_new(const struct op_frame *frame, struct op *in, struct op **out,
                       tri_error *err);

/* plain.c: the same values, plain. If they are plain already, *out is a new operator that costs
 * nothing: it shares its input's memory. */
tri_status op_plain_new(const struct op_frame *frame, struct op *in, struct op **out,
                        tri_error *err);

/* fc.c: takes plain values of any shape as a vector; gives factors: u is its diff, v its input. */
tri_status op_fc_new(const struct op_frame *frame, struct op *in, uint32_t outputs, bool relu,
                     struct op **out, tri_error *err);

/* dropout.c: in training each value is 0 with probability `drop`, else divided by 1 - drop. Which
 * ones follows from the seed and the sample's number in the stream of samples (op_dropout_seed()),
 * so that it does not depend on the number of workers. Plain values. */
tri_status op_dropout_new(const struct op_frame *frame, struct op *in, float drop, uint64_t seed,
                          struct op **out, tri_error *err);
void op_dropout_at(struct op *op, uint64_t first_sample); /* of the next forward() */

/* embed.c: tokens (op_tokens_new) to `width` floats each: shape {length, 1, width}, position after
 * position. Gives rows; token 0 is padding, is all zero and gets no gradient. A row that comes
 * more than once in a batch is given, and by learn() stepped, once for each time. */
tri_status op_tokens_new(const struct op_frame *frame, uint32_t length, struct op **out,
                         tri_error *err);
uint32_t *op_tokens(struct op *op); /* batch x length, the caller's to write */
tri_status op_embed_new(const struct op_frame *frame, struct op *tokens, uint32_t words,
                        uint32_t width, struct op **out, tri_error *err);

/* textconv.c: filters over `window` positions of an embedding, relu, and the maximum over all
 * positions: a vector of filters. Windows reach window - 1 positions over both ends, where
 * everything is zero. Rows of its layer: filters; columns: window x width, position after position.
 * Gives a dense gradient, or windows: u is its diff, v the texts with zeros around each. */
tri_status op_textconv_new(const struct op_frame *frame, struct op *in, uint32_t filters,
                           uint32_t window, struct op **out, tri_error *err);

/* concat.c: vectors one after the other. */
tri_status op_concat_new(const struct op_frame *frame, struct op *const *in, size_t count,
                         struct op **out, tri_error *err);

/* loss.c: softmax and cross-entropy of plain vectors of one number per class. out holds the
 * probabilities. backward() leaves the gradient of the sum over the samples. */
tri_status op_loss_new(const struct op_frame *frame, struct op *in, struct op **out,
                       tri_error *err);
uint32_t *op_labels(struct op *op); /* batch, the caller's to write before forward() */
/* Over the first `samples` of the batch of the last forward(): sum of the losses and how many had
 * the largest probability at their label. */
void op_loss_of(const struct op *op, uint32_t samples, double *loss, uint32_t *right);

#ifdef __cplusplus
}
#endif

#endif
