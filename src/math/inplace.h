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

/* A sample of somebody else's, whose step is made on the way: rows floats, of which each counts
 * `by` times, and cols floats. */
struct inplace_other {
    const float *dy, *x;
    float by;
};

/* A fully connected layer, after forward. Rows of w lie one behind the other, at any address. */
struct inplace_dense {
    struct dense_shape shape;
    float *w, *bias;     /* stepped; bias may be NULL */
    const float *x, *dy; /* batch x cols, batch x rows */
    float *dx;           /* batch x cols; NULL: not wanted */
    /* Further samples, behind those of the batch: in the sums of steps, not in dx. Not with
     * `keeps`. */
    const struct inplace_other *others;
    size_t other_count;
    bool keeps;  /* the weights as they are, and fetches them to be read: dx, which must
                    be wanted, is the same. bias, x and alpha are not looked at */
    bool adds;   /* to what is in dx */
    float alpha; /* -lr / samples, say */
    /* The row to begin with; from the last it goes on with row 0. Learners that work on the same
     * rows at the same time slow each other down. Sums over rows begin there, too. */
    size_t first;
};
size_t inplace_scratch_floats(const struct dense_shape *shape); /* others count for its batch */
void inplace_dense(const struct inplace_kernel *kernel, const struct inplace_dense *p,
                   float *scratch);

/* One row, and for each of `count` samples the values that it met:
 *
 *     dx[k][i] = fma(by[k], w[i], dx[k][i]), of the first `back` samples
 *     w[i]     = fma(alpha, sum over k of by[k] * x[k][i], w[i])
 *
 * The parts of dx may overlap. */
struct inplace_row {
    float *w;
    size_t cols;
    const float *const *x; /* count of them, as of by */
    float *const *dx;      /* back of them */
    const float *by;
    size_t count, back;
    float alpha;
    const float *next; /* the row that is stepped after this one, fetched meanwhile; NULL: none */
};
void inplace_row(const struct inplace_kernel *kernel, const struct inplace_row *row);

/* to[i] = fma(by, from[i], to[i]), where `from` or `to` may be weights; and to[i] = from[i]. */
void inplace_add(const struct inplace_kernel *kernel, float by, const float *from, float *to,
                 size_t count);
void inplace_copy(const struct inplace_kernel *kernel, const float *from, float *to, size_t count);

/* Asks for some weights that will be stepped soon. */
void inplace_ahead(const struct inplace_kernel *kernel, const float *w, size_t count);

#ifdef __cplusplus
}
#endif

#endif
