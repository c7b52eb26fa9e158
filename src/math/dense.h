/* The three products of a fully connected layer, for small batches.
 *
 * The weights w are rows x cols, outputs by inputs. Batches are stored sample after
 * sample: x is batch x cols, y is batch x rows. Each element of a result is one chain
 * of fused multiply-adds, in the order of its index:
 *
 *     forward    y[k][m]  = bias[m] + sum over n of w[m][n] * x[k][n]
 *     backward   dx[k][n] =           sum over m of dy[k][m] * w[m][n]
 *     gradient   g[m][n]  =           sum over k of dy[k][m] * x[k][n]
 *
 * So a sample's numbers are the same bits on every processor and in every batch: alone,
 * on one of four workers, or stacked with the samples of the other three.
 *
 * Zeros, of which a relu makes many, may be left out: of x in forward, of dy in backward. That
 * shows only where a weight is infinite or no number, and in the sign of a sum that is zero.
 *
 * The weights, which no cache holds, come by once per product and 32 samples. One
 * thread per scratch memory. No call allocates or fails. */
#ifndef TRIDENT_MATH_DENSE_H
#define TRIDENT_MATH_DENSE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dense_kernel; /* the code for one kind of processor */

/* Those that this processor can run, best first; NULL past the end. "plain" is always
 * there, and is the last. */
const struct dense_kernel *dense_kernel_at(size_t i);
const char *dense_kernel_name(const struct dense_kernel *kernel); /* "avx2", ...; static */

struct dense_shape {
    size_t rows, cols;
    size_t batch;
};

/* How many floats of scratch memory a product of this shape needs, on any kernel. */
size_t dense_scratch_floats(const struct dense_shape *shape);

/* bias may be NULL. No result may overlap what it is made of. */
struct dense_outputs {
    struct dense_shape shape;
    const float *w, *bias, *x;
    float *y;
};
struct dense_inputs {
    struct dense_shape shape;
    const float *w, *dy;
    float *dx;
};
struct dense_weights {
    struct dense_shape shape;
    const float *dy, *x;
    float *g;
};
void dense_forward(const struct dense_kernel *kernel, const struct dense_outputs *p,
                   float *scratch);
void dense_backward(const struct dense_kernel *kernel, const struct dense_inputs *p,
                    float *scratch);
void dense_gradient(const struct dense_kernel *kernel, const struct dense_weights *p,
                    float *scratch);

#ifdef __cplusplus
}
#endif

#endif
