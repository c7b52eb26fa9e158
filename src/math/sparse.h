/* Products that leave zeros out.
 *
 * Behind a relu half of the next layer's inputs are zero, and half of its own derivatives; so
 * is all that they are multiplied with. What is left of a row are its terms: where, and by how
 * much. A sum goes over them in the order of a dense product, so its bits are the same: a zero
 * times a finite number adds nothing (but for the sign of a sum that is zero itself).
 *
 * A panel holds some columns of the other matrix, packed together. dense.c and product.c
 * call this where it pays; math/sparse_tile.h is the body of the kernels. */
#ifndef TRIDENT_MATH_SPARSE_H
#define TRIDENT_MATH_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "math/dense.h"
#include "math/product.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPARSE_LEAST = 16, /* samples; with fewer, memory is the limit anyway */
    SPARSE_DEPTH = 64, /* the most rows of a panel: 24 KiB of a first cache of 32 */
    SPARSE_WIDTH = 96, /* the most columns, of any kernel */
    SPARSE_ROWS = 64,  /* that product goes through with a panel */
    SPARSE_AHEAD = 8,  /* how many rows before its use a part of W is fetched */
    SPARSE_PART = 192, /* columns that forward turns at a time: some times SPARSE_DEPTH */
    SPARSE_LINE = 16,  /* floats of a cache line */
};

struct sparse_term {
    float by;
    uint32_t at; /* floats from the panel's beginning */
};

/* Some rows of sums along a panel. */
struct sparse_strip {
    const struct sparse_term *terms; /* SPARSE_DEPTH after SPARSE_DEPTH */
    const uint32_t *counts;          /* a row each */
    size_t rows;
    const float *panel;
    float *to;         /* width floats a row */
    const float *from; /* add: what is added to; likewise */
    size_t stride;
    float alpha;
    /* Fetched on the side, as addresses since they may lie past the end: `ahead_lines` of
     * `ahead_rows` rows for each row of sums; `turn` rows before the last they go on at
     * `ahead_then`. */
    uintptr_t ahead, ahead_then;
    size_t ahead_stride_bytes, ahead_rows, ahead_lines, turn;
};

struct sparse_kernel {
    size_t width;                                    /* of a panel */
    void (*go_on)(const struct sparse_strip *strip); /* to += the sum, term by term */
    void (*add)(const struct sparse_strip *strip);   /* to = fma(alpha, sum, from) */
    void (*store)(const struct sparse_strip *strip); /* to = alpha * sum */
    void (*pack)(const float *from, size_t stride, size_t rows, float *panel);
    /* turn_rows rows of SPARSE_PART floats become columns of a panel; they divide its width. */
    size_t turn_rows;
    void (*turn)(const float *from, size_t stride, float *panel);
};

extern const struct sparse_kernel sparse_avx512, sparse_avx2, sparse_plain;

/* The terms of a row: what is not zero of values[0], values[step], ... How many there are. */
uint32_t sparse_terms(const float *values, size_t step, size_t count, size_t width,
                      struct sparse_term *terms);

/* Whether at most so many of a hundred are other than zero that leaving out the rest pays. */
enum { SPARSE_FORWARD_MOST = 53, SPARSE_MOST = 70 };
bool sparse_pays(const float *values, size_t count, size_t most);
/* Whether zero times any of them is zero: they are finite. */
bool sparse_may(const float *values, size_t count);

/* dense_forward(), of shapes that fit. */
bool sparse_forward_fits(const struct sparse_kernel *kernel, const struct dense_shape *shape);
size_t sparse_forward_floats(const struct dense_shape *shape);
void sparse_forward(const struct sparse_kernel *kernel, const struct dense_outputs *p,
                    float *scratch);

/* dense_backward() and product_with(), whose scratch memory must hold these many floats. The depth
 * of the product, of all its blocks, is at most SPARSE_DEPTH. */
size_t sparse_backward_floats(const struct dense_shape *shape);
void sparse_backward(const struct sparse_kernel *kernel, const struct dense_inputs *p,
                     float *scratch);
size_t sparse_product_floats(void);
void sparse_product(const struct sparse_kernel *kernel, const struct product *p,
                    enum product_end end, size_t first, size_t last, float *scratch);

#ifdef __cplusplus
}
#endif

#endif
