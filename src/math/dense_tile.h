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
#define BACK_VECS  PANEL_VECS  /* of a panel of back() */

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
#define BACK_ROWS  (SUMS / BACK_VECS)       /* of a tile of back() */
#define AT_ONCE    ((size_t)4)              /* links between two looks at the side work */
#define INLINE     TARGET static inline __attribute__((always_inline))

/* Rows and vectors of a tile, constants for the compiler, and from row to row of a. */
struct tile {
    size_t rows, vecs;
    size_t a_row;
};

/* ---- side work ---- */

INLINE void fetch(struct dense_ahead *ahead)
{
    __builtin_prefetch((const void *)ahead->at);
    ahead->at += DENSE_LINE * sizeof(float);
    if (ahead->at < ahead->end)
        return;
    ahead->at += ahead->skip_bytes;
    ahead->end += ahead->stride_bytes;
    if (--ahead->rows == 0 && ahead->then != NULL)
        *ahead = *ahead->then;
}

/* One row of one panel. Rows further down are fetched meanwhile. */
INLINE void pack_row(struct dense_pack *pack, const size_t vecs)
{
    const size_t width = vecs * VEC_FLOATS;
    const uintptr_t soon = (uintptr_t)pack->from + pack->near_bytes;
    for (size_t i = 0; i < width; i += DENSE_LINE)
        __builtin_prefetch((const void *)(soon + i * sizeof(float)));
    UNROLL
    for (size_t v = 0; v < vecs; v++)
        vec_store(pack->to + v * VEC_FLOATS, vec_load(pack->from + v * VEC_FLOATS));
    dense_pack_next(pack, width);
}

/* ---- tiles ---- */

/* One more link of every chain. What there is less of waits in registers. */
INLINE void tile_link(vec *sums, const float *a, const float *b, const struct tile t)
{
    vec row[PANEL_VECS], all[SUMS];
    if (t.rows < t.vecs) {
        UNROLL
        for (size_t r = 0; r < t.rows; r++)
            all[r] = vec_all(a[r * t.a_row]);
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
        vec x = vec_all(a[r * t.a_row]);
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

/* The last link, row by row: many stores one after the other would hold up the next tile. */
INLINE void tile_end(const vec *sums, const struct dense_strip *s, const float *a, const float *b,
                     float *c, const struct tile t)
{
    UNROLL
    for (size_t r = 0; r < t.rows; r++) {
        const vec x = vec_all(a[r * t.a_row]);
        UNROLL
        for (size_t v = 0; v < t.vecs; v++)
            vec_store(c + r * s->c_stride + v * VEC_FLOATS,
                      vec_fma(x, vec_load(b + v * VEC_FLOATS), sums[r * t.vecs + v]));
    }
}

/* Fetches as much on the side as it reads of `a`. */
INLINE void tile_run(const struct dense_strip *s, const float *a, float *c, const struct tile t)
{
    const size_t lines = (t.rows * AT_ONCE + DENSE_LINE - 1) / DENSE_LINE;
    const size_t step = s->a_step, stride = s->b_stride;
    const float *b = s->b;
    struct dense_ahead ahead;
    memset(&ahead, 0, sizeof ahead);
    size_t quota = t.rows * s->lines, left = s->depth;
    vec sums[SUMS];
    if (s->ahead != NULL)
        ahead = *s->ahead;
    tile_begin(sums, s, c, t);
    for (; left > AT_ONCE; left -= AT_ONCE) {
        for (size_t i = 0; i < lines && quota > 0 && ahead.rows > 0; i++, quota--)
            fetch(&ahead);
        DENSE_ROLLED
        for (size_t i = 0; i < AT_ONCE; i++, a += step, b += stride)
            tile_link(sums, a, b, t);
    }
    for (; left > 1; left--, a += step, b += stride)
        tile_link(sums, a, b, t);
    tile_end(sums, s, a, b, c, t);
    if (s->ahead != NULL)
        *s->ahead = ahead;
}

/* A tile of back(). Packs `rows` rows on the side of AT_ONCE links. */
INLINE void tile_back(const struct dense_strip *s, const float *a, float *c, const struct tile t,
                      size_t rows)
{
    const size_t width = t.vecs * VEC_FLOATS;
    const float *b = s->b;
    struct dense_pack pack = *s->pack;
    size_t left = s->depth;
    vec sums[SUMS];
    tile_begin(sums, s, c, t);
    for (; left > AT_ONCE; left -= AT_ONCE) {
        for (size_t i = 0; i < rows && pack.rows > 0; i++)
            pack_row(&pack, t.vecs);
        DENSE_ROLLED
        for (size_t i = 0; i < AT_ONCE; i++, a += BACK_ROWS, b += width)
            tile_link(sums, a, b, t);
    }
    for (; left > 1; left--, a += BACK_ROWS, b += width)
        tile_link(sums, a, b, t);
    tile_end(sums, s, a, b, c, t);
    *s->pack = pack;
}

INLINE void run_width(const struct dense_strip *s, const size_t rows, const size_t vecs)
{
    const size_t a_row = s->a_row, stride = s->c_stride;
    size_t row = 0;
    const float *a = s->a;
    for (; row + rows <= s->rows; row += rows, a += s->a_tile)
        tile_run(s, a, s->c + row * stride, (struct tile){rows, vecs, a_row});
    for (; rows > 4 && row + 4 <= s->rows; row += 4, a += 4 * a_row)
        tile_run(s, a, s->c + row * stride, (struct tile){4, vecs, a_row});
    for (; row + 2 <= s->rows; row += 2, a += 2 * a_row)
        tile_run(s, a, s->c + row * stride, (struct tile){2, vecs, a_row});
    if (row < s->rows)
        tile_run(s, a, s->c + row * stride, (struct tile){1, vecs, a_row});
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

/* One panel is packed for each that is worked on: the fewer its tiles, the more at a time. */
TARGET static void back(const struct dense_strip *s)
{
    const size_t rows = BACK_ROWS, vecs = BACK_VECS, stride = s->c_stride;
    const size_t tiles = (s->rows + rows - 1) / rows, packs = (AT_ONCE + tiles - 1) / tiles;
    size_t row = 0;
    const float *a = s->a;
    for (; row + rows <= s->rows; row += rows, a += rows * s->depth)
        tile_back(s, a, s->c + row * stride, (struct tile){rows, vecs, 1}, packs);
    for (; rows > 4 && row + 4 <= s->rows; row += 4, a += 4)
        tile_back(s, a, s->c + row * stride, (struct tile){4, vecs, 1}, packs);
    for (; row + 2 <= s->rows; row += 2, a += 2)
        tile_back(s, a, s->c + row * stride, (struct tile){2, vecs, 1}, packs);
    if (row < s->rows)
        tile_back(s, a, s->c + row * stride, (struct tile){1, vecs, 1}, packs);
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
