/* Filters over windows of a text, and for each the window that it answers to most.
 *
 * A text is `length` positions of `width` floats. A filter is `window` times as many, and a
 * window begins at each of the length + window - 1 places where it meets at least one position;
 * what lies outside of the text is zero. An answer is a chain of fused multiply-adds:
 *
 *     answer[f][p] = bias[f] + sum over n of w[f][n] * x[p * width + n],  n < window * width
 *
 * with p = -(window - 1) .. length - 1, the same bits on every kernel and in every batch.
 * One thread per scratch memory. No call allocates or fails. */
#ifndef TRIDENT_MATH_TEXTCONV_H
#define TRIDENT_MATH_TEXTCONV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "math/dense.h"

#ifdef __cplusplus
extern "C" {
#endif

struct textconv_shape {
    size_t filters, window;
    size_t width, length;
    size_t batch;
};

size_t textconv_scratch_floats(const struct textconv_shape *shape);

struct textconv_best {
    struct textconv_shape shape;
    const float *w, *bias; /* filters x window * width, filters */
    const float *x;        /* batch x length x width */
    float *best;           /* batch x filters: the largest answer */
    uint32_t *at;          /* batch x filters: p + window - 1 of the first window that gave it */
    size_t first;          /* the filter to begin with, about: changes no result */
    /* Called before filters and their bias are read for the first time: the first `filters` are,
     * more with each call and with the last all. They may change in it. Filters go in order then,
     * whatever `first` says. NULL: not called. */
    void (*reads)(void *ctx, size_t filters);
    void *ctx;
};
void textconv_forward(const struct dense_kernel *kernel, const struct textconv_best *p,
                      float *scratch);

/* The part of a window, numbered as in `at`, that lies in the text. */
struct textconv_part {
    size_t w, x;   /* where it begins in a filter, and in a text */
    size_t floats; /* of it */
};
struct textconv_part textconv_part(const struct textconv_shape *shape, uint32_t at);

/* to[i] = fma(by, from[i], 0), or with `adds` fma(by, from[i], to[i]). */
void textconv_row(const struct dense_kernel *kernel, float by, const float *from, float *to,
                  size_t count, bool adds);

#ifdef __cplusplus
}
#endif

#endif
