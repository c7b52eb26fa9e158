/* A strip of a dense layer's product, written once for every instruction set.
 *
 * A dense_ISA.c defines what is listed below, includes this file and puts run() in its
 * struct dense_kernel. Without that, it is plain C with a vector of one float: the
 * kernel for every other processor. */
#ifndef TRIDENT_MATH_DENSE_TILE_H
#define TRIDENT_MATH_DENSE_TILE_H

#include <math.h>
#include <string.h>

#include "math/dense_kernel.h"

#ifndef TARGET
#define TARGET /* the function attribute that lets the compiler use the instructions */
#define UNROLL /* DENSE_UNROLL where the sums of a tile fit in registers */

typedef float vec;
#define VEC_FLOATS ((size_t)1)
#define WIDE_ROWS  ((size_t)2) /* rows x DENSE_PANEL sums should fit in the registers */
#define STEP_VECS  ((size_t)8) /* vectors of a step of widths ... */
#define STEPS      4           /* ... and how many of them there are */

static inline vec vec_load(const float *from) /* any alignment */
{
    return *from;
}

static inline void vec_store(float *to, vec x)
{
    *to = x;
}

static inline vec vec_all(float x) /* every element is x */
{
    return x;
}

static inline vec vec_fma(vec a, vec b, vec c) /* a * b + c, rounded once */
{
    return fmaf(a, b, c);
}
#endif

#define PANEL_VECS (DENSE_PANEL / VEC_FLOATS)
#define SUMS       (WIDE_ROWS * PANEL_VECS) /* of a tile, at most */
#define AT_ONCE    ((size_t)4)              /* links between two looks at the side work */
#define NEAR_ROWS  ((size_t)12)             /* how far ahead b is fetched while it is packed */
#define INLINE     TARGET static inline __attribute__((always_inline))

/* Rows and vectors of a tile, and whether it packs b: constants for the compiler. */
struct tile {
    size_t rows, vecs;
    bool packs;
};

INLINE void fetch(struct dense_ahead *ahead)
{
    __builtin_prefetch((const void *)(ahead->at + ahead->line * DENSE_LINE * sizeof(float)));
    if (++ahead->line == ahead->lines) {
        ahead->line = 0;
        ahead->at += ahead->stride_bytes;
        ahead->rows--;
    }
}

/* Fetches a row of b that is wanted soon, and puts this one where the next tiles read it. */
INLINE void tile_pack(const struct dense_strip *s, const float *b, size_t k)
{
    uintptr_t soon = (uintptr_t)b + NEAR_ROWS * s->b_stride * sizeof *b;
    for (size_t i = 0; i < DENSE_PANEL; i += DENSE_LINE)
        __builtin_prefetch((const void *)(soon + i * sizeof *b));
    UNROLL
    for (size_t i = 0; i < DENSE_PANEL; i += VEC_FLOATS)
        vec_store(s->packed + k * DENSE_PANEL + i, vec_load(b + i));
}

/* One more link of every chain. What there is less of waits in registers. */
INLINE void tile_link(vec *sums, const struct dense_strip *s, const float *a, const float *b,
                      const struct tile t)
{
    vec row[PANEL_VECS], all[SUMS];
    if (t.rows < t.vecs) {
        UNROLL
        for (size_t r = 0; r < t.rows; r++)
            all[r] = vec_all(a[r * s->a_row]);
        UNROLL
        for (size_t v = 0; v < t.vecs; v++) {
            vec x = vec_load(b + v * VEC_FLOATS);
            UNROLL
            for (size_t r = 0; r < t.rows; r++)
                sums[r * t.vecs + v] = vec_fma(all[r], x, sums[r * t.vecs + v]);
        }
        return;
    }
    UNROLL
    for (size_t v = 0; v < t.vecs; v++)
        row[v] = vec_load(b + v * VEC_FLOATS);
    UNROLL
    for (size_t r = 0; r < t.rows; r++) {
        vec x = vec_all(a[r * s->a_row]);
        UNROLL
        for (size_t v = 0; v < t.vecs; v++)
            sums[r * t.vecs + v] = vec_fma(x, row[v], sums[r * t.vecs + v]);
    }
}

INLINE void tile_begin(vec *sums, const struct dense_strip *s, const float *c, const struct tile t)
{
    UNROLL
    for (size_t r = 0; r < t.rows; r++) {
        UNROLL
        for (size_t v = 0; v < t.vecs; v++)
            sums[r * t.vecs + v] =
                s->starts ? vec_all(0) : vec_load(c + r * s->c_stride + v * VEC_FLOATS);
    }
}

INLINE void tile_end(vec *sums, const struct dense_strip *s, float *c, const struct tile t)
{
    UNROLL
    for (size_t r = 0; r < t.rows; r++) {
        UNROLL
        for (size_t v = 0; v < t.vecs; v++)
            vec_store(c + r * s->c_stride + v * VEC_FLOATS, sums[r * t.vecs + v]);
    }
}

/* The side work of AT_ONCE links: as much as the tile reads of `a` meanwhile. */
INLINE size_t side(const struct dense_strip *s, size_t quota, const struct tile t)
{
    const size_t lines = (t.rows * AT_ONCE + DENSE_LINE - 1) / DENSE_LINE;
    for (size_t i = 0; i < lines && quota > 0; i++, quota--) {
        struct dense_ahead *ahead = s->ahead[0].rows > 0 ? &s->ahead[0] : &s->ahead[1];
        if (ahead->rows > 0)
            fetch(ahead);
    }
    return quota;
}

INLINE void tile_run(const struct dense_strip *s, const float *a, float *c, const struct tile t)
{
    const size_t depth = s->depth, step = s->a_step;
    const bool from_packed = s->packed != NULL && !t.packs;
    const size_t stride = from_packed ? (size_t)DENSE_PANEL : s->b_stride;
    const float *b = from_packed ? s->packed : s->b;
    size_t quota = s->ahead != NULL ? t.rows * s->lines : 0;
    vec sums[SUMS];
    tile_begin(sums, s, c, t);
    size_t k = 0;
    for (; k + AT_ONCE <= depth; k += AT_ONCE) {
        quota = side(s, quota, t);
        UNROLL
        for (size_t i = 0; i < AT_ONCE; i++, a += step, b += stride) {
            if (t.packs)
                tile_pack(s, b, k + i);
            tile_link(sums, s, a, b, t);
        }
    }
    for (; k < depth; k++, a += step, b += stride) {
        if (t.packs)
            tile_pack(s, b, k);
        tile_link(sums, s, a, b, t);
    }
    tile_end(sums, s, c, t);
}

INLINE void run_width(const struct dense_strip *s, const size_t rows, const size_t vecs)
{
    size_t row = 0;
    const float *a = s->a;
    if (vecs == PANEL_VECS && s->packed != NULL && rows < s->rows) {
        tile_run(s, a, s->c, (struct tile){rows, vecs, true});
        row += rows;
        a += s->a_tile;
    }
    for (; row + rows <= s->rows; row += rows, a += s->a_tile)
        tile_run(s, a, s->c + row * s->c_stride, (struct tile){rows, vecs, false});
    for (; rows > 4 && row + 4 <= s->rows; row += 4, a += 4 * s->a_row)
        tile_run(s, a, s->c + row * s->c_stride, (struct tile){4, vecs, false});
    for (; row + 2 <= s->rows; row += 2, a += 2 * s->a_row)
        tile_run(s, a, s->c + row * s->c_stride, (struct tile){2, vecs, false});
    if (row < s->rows)
        tile_run(s, a, s->c + row * s->c_stride, (struct tile){1, vecs, false});
}

TARGET static void run(const struct dense_strip *s)
{
    const size_t steps = s->width / VEC_FLOATS / STEP_VECS;
    if (steps == 1)
        run_width(s, SUMS / STEP_VECS, STEP_VECS);
    else if (steps == 2)
        run_width(s, SUMS / (2 * STEP_VECS), 2 * STEP_VECS);
#if STEPS == 4
    else if (steps == 3)
        run_width(s, SUMS / (3 * STEP_VECS), 3 * STEP_VECS);
    else
        run_width(s, SUMS / (4 * STEP_VECS), 4 * STEP_VECS);
#endif
}

TARGET static void row(float by, const float *from, float *to, size_t count, bool adds)
{
    const vec all = vec_all(by), zero = vec_all(0);
    size_t i = 0;
    for (; i + VEC_FLOATS <= count; i += VEC_FLOATS)
        vec_store(to + i, vec_fma(all, vec_load(from + i), adds ? vec_load(to + i) : zero));
    for (; i < count; i++)
        to[i] = fmaf(by, from[i], adds ? to[i] : 0);
}

#endif
