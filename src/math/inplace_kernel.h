/* What an instruction set brings to steps in place: strips and rows.
 *
 * A strip is some rows of the weights along a panel of columns. The panel's part of x and dx lies
 * packed in the first cache. inplace.c cuts the work and calls these; math/inplace_tile.h is their
 * body. */
#ifndef TRIDENT_MATH_INPLACE_KERNEL_H
#define TRIDENT_MATH_INPLACE_KERNEL_H

#include <stdint.h>

#include "math/inplace.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { INPLACE_LINE = 16 }; /* floats of a cache line */

struct inplace_strip {
    float *w; /* the panel's first column, of row 0 */
    size_t stride;
    const uint32_t *rows; /* to go over */
    size_t count;
    size_t cols;     /* of the panel */
    size_t packed;   /* floats from sample to sample in x and dx: a multiple of INPLACE_LINE, not
                        less than cols; zeros behind those */
    const float *x;  /* NULL: w is read for dx, and not stepped */
    float *dx;       /* NULL: not wanted */
    const float *dy; /* for each tile of rows: batch times as many */
    size_t batch;
    size_t back; /* of these, the first so many have a dx */
    float alpha;
};

struct inplace_kernel {
    const char *name;
    size_t rows; /* of a tile */
    bool (*here)(void);
    void (*strip)(const struct inplace_strip *strip);
    void (*row)(const struct inplace_row *row);
    void (*add)(float by, const float *from, float *to, size_t count);
    void (*copy)(const float *from, float *to, size_t count);
    void (*ahead)(const float *w, size_t count);
};

#ifdef __cplusplus
}
#endif

#endif
