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
 * Written to be read; the library has faster ones for itself. One thread. No call
 * allocates or fails. */
#ifndef TRIDENT_EXAMPLES_KERNELS_H
#define TRIDENT_EXAMPLES_KERNELS_H

#include <stddef.h>

struct kernel; /* the code for one kind of processor */

/* Those that this processor can run, best first; NULL past the end. "plain" is always
 * there, and is the last. */
const struct kernel *kernel_at(size_t i);
const char *kernel_name(const struct kernel *kernel); /* "avx2", ...; static storage */

struct shape {
    size_t rows, cols;
    size_t batch;
};

/* How many floats of scratch memory a product of this shape needs. */
size_t kernel_scratch_floats(const struct shape *shape);

/* bias may be NULL. No result may overlap what it is made of. */
struct forward {
    struct shape shape;
    const float *w, *bias, *x;
    float *y;
};
struct backward {
    struct shape shape;
    const float *w, *dy;
    float *dx;
};
struct gradient {
    struct shape shape;
    const float *dy, *x;
    float *g;
};
void kernel_forward(const struct kernel *kernel, const struct forward *p, float *scratch);
void kernel_backward(const struct kernel *kernel, const struct backward *p, float *scratch);
void kernel_gradient(const struct kernel *kernel, const struct gradient *p, float *scratch);

#endif
