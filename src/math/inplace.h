/* Plain SGD steps that are made in the weights themselves while the gradient is computed.
 *
 * Row by row: the weights are read for the gradient of the inputs, and right behind that they are
 * stepped, w += alpha * gradient. No gradient is ever written down. Rows whose gradient is zero
 * are not touched. What comes next is fetched to be written, ahead of time: where another
 * processor has stepped the same rows, that is what a learner would wait for.
 *
 * The weights may be stepped by other threads and processes at the same time (Hogwild): steps
 * may get lost, a row may be seen half stepped, and that is meant. The kernels read and write them
 * as plain vectors, and the thread sanitizer does not look at them. Everything else that is given
 * belongs to the caller alone.
 *
 * With one learner, the numbers are those of math/dense.h and math/product.h, chain by chain:
 *
 *     dx[k][n] = sum over m of dy[k][m] * w[m][n],  with w before its step
 *     w[m][n]  = fma(alpha, sum over k of dy[k][m] * x[k][n], w[m][n])
 *     bias[m]  = fma(alpha, sum over k of dy[k][m], bias[m])
 *
 * One thread per scratch memory. No call allocates or fails. */
#ifndef TRIDENT_MATH_INPLACE_H
#define TRIDENT_MATH_INPLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "math/dense.h"

#ifdef __cplusplus
extern "C" {
#endif

struct inplace_kernel; /* the code for one kind of processor */

/* Those that this processor can run, best first; NULL past the end. "plain" is the last. */
const struct inplace_kernel *inplace_kernel_at(size_t i);
const char *inplace_kernel_name(const struct inplace_kernel *kernel); /* static */

/* A fully connected layer, after forward. Rows of w lie one behind the other, at any address. */
struct inplace_dense {
    struct dense_shape shape;
    float *w, *bias;     /* stepped; bias may be NULL */
    const float *x, *dy; /* batch x cols, batch x rows */
    float *dx;           /* batch x cols; NULL: not wanted */
    bool adds;           /* to what is in dx */
    float alpha;         /* -lr / samples, say */
};
size_t inplace_scratch_floats(const struct dense_shape *shape);
void inplace_dense(const struct inplace_kernel *kernel, const struct inplace_dense *p,
                   float *scratch);

/* A row that one sample has a gradient for: dx[i] = fma(by, w[i], dx[i]), then
 * w[i] = fma(alpha * by, x[i], w[i]). */
struct inplace_row {
    float by, alpha;
    const float *x;
    float *w, *dx;
    size_t count;
    const float *next; /* what will be stepped after this row: fetched meanwhile. NULL: nothing */
};
void inplace_row(const struct inplace_kernel *kernel, const struct inplace_row *row);

/* The halves of it, for rows that several samples have a gradient for: to[i] = fma(by, from[i],
 * to[i]), where `from` or `to` may be weights. */
void inplace_add(const struct inplace_kernel *kernel, float by, const float *from, float *to,
                 size_t count);
void inplace_copy(const struct inplace_kernel *kernel, const float *from, float *to, size_t count);

/* Asks for some weights that will be stepped soon. */
void inplace_ahead(const struct inplace_kernel *kernel, const float *w, size_t count);

#ifdef __cplusplus
}
#endif

#endif
