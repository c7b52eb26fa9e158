/* oneDNN, as the operators see it: the only door to its headers is dnn.c.
 *
 * A struct dnn is what one operator needs of it: an engine, a stream, primitives, and memory for
 * whatever has to lie in another way than the operator's inputs, outputs and parameters do. It is
 * made for one shape and used by one thread. Making one may fail (TRI_ENOMEM; TRI_EARG for what
 * oneDNN cannot do); running it cannot.
 *
 * All runs take the memory of tensors as they lie: `in` as the input given to the constructor,
 * `out` and `diff` as dnn_out() says, parameters plain. `add`: in_diff holds a gradient already,
 * and the new one is added to it.
 *
 * Threads: one, the caller's, unless OMP_NUM_THREADS is set in the environment. */
#ifndef TRIDENT_ENGINE_DNN_H
#define TRIDENT_ENGINE_DNN_H

#include "engine/op.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dnn;

void dnn_free(struct dnn *dnn); /* NULL is fine */

/* Shape and layout (NULL: plain) of the output, without memory. The layout lives as long as the
 * dnn. */
struct tensor dnn_out(const struct dnn *dnn);

/* Memory for an operator's out and, if it wants_diff, diff, as dnn_out() says: more than the shape
 * asks for where channels are padded. Zeroed; freed with op_free_plain(). False: refused. */
bool dnn_make_tensors(const struct dnn *dnn, struct op *op);

/* Leaves diff 0 where out is not above 0. Of convolutions and sums with relu. */
void dnn_mask(struct dnn *dnn, const float *out, float *diff);

tri_status dnn_conv_new(const struct op_frame *frame, const struct op *in,
                        const struct op_conv *conv, struct dnn **out, tri_error *err);
void dnn_conv_forward(struct dnn *dnn, const float *in, const struct param *param, float *out);
/* After forward() of the same values; writes param->dense and dense_bias. */
void dnn_conv_weigh(struct dnn *dnn, const float *in, const float *diff, struct param *param);
/* Not for inputs that do not want a diff. */
void dnn_conv_backward(struct dnn *dnn, const float *diff, const struct param *param,
                       float *in_diff, bool add);

/* No primitive, but a layout: that of `in` for images of another size. Its values are planes, one
 * after the other, of height x width positions with `lanes` channels each (padding included). */
struct dnn_planes {
    uint32_t height, width; /* wanted */
    size_t planes, lanes;   /* result; the same for `in` and the output */
};
tri_status dnn_like_new(const struct op_frame *frame, const struct op *in,
                        struct dnn_planes *planes, struct dnn **out, tri_error *err);

/* Mean and variance: by channel. Training writes those of the batch (variance: divided by the
 * number of values), else they are read. */
struct dnn_norm {
    const float *scale, *shift;
    float *mean, *variance;
};
tri_status dnn_norm_new(const struct op_frame *frame, const struct op *in, bool relu,
                        struct dnn **out, tri_error *err);
void dnn_norm_forward(struct dnn *dnn, bool training, const float *in, const struct dnn_norm *norm,
                      float *out);
/* After a forward() in training, with its mean and variance. Both gradients come out of one step:
 * weigh() may write in_diff, or keep what backward() then adds to it. in_diff NULL: not wanted. */
void dnn_norm_weigh(struct dnn *dnn, const float *in, const float *diff,
                    const struct dnn_norm *norm, struct param *param, float *in_diff, bool add);
void dnn_norm_backward(struct dnn *dnn, float *in_diff, bool add);

tri_status dnn_relu_new(const struct op_frame *frame, const struct op *in, struct dnn **out,
                        tri_error *err);
void dnn_relu_forward(struct dnn *dnn, const float *in, float *out);
void dnn_relu_backward(struct dnn *dnn, const float *out, const float *diff, float *in_diff,
                       bool add);

/* The output lies as `a` does. */
tri_status dnn_add_new(const struct op_frame *frame, const struct op *a, const struct op *b,
                       bool relu, struct dnn **out, tri_error *err);
void dnn_add_forward(struct dnn *dnn, const float *a, const float *b, float *out);
void dnn_add_backward_a(struct dnn *dnn, const float *diff, float *a_diff, bool add);
void dnn_add_backward_b(struct dnn *dnn, const float *diff, float *b_diff, bool add);

/* The output is plain. */
tri_status dnn_plain_new(const struct op_frame *frame, const struct op *in, struct dnn **out,
                         tri_error *err);
void dnn_plain_forward(struct dnn *dnn, const float *in, float *out);
void dnn_plain_backward(struct dnn *dnn, const float *diff, float *in_diff, bool add);

#ifdef __cplusplus
}
#endif

#endif
