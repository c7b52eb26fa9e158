/* The product of one strip, written once for every instruction set.
 *
 * A product_ISA.c defines what is listed below, includes this file and puts the
 * functions in its struct product_kernel. Without that, it is plain C with a
 * vector of one float: the kernel for every other processor. */
#ifndef TRIDENT_MATH_PRODUCT_TILE_H
#define TRIDENT_MATH_PRODUCT_TILE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "math/product_kernel.h"

#ifndef TARGET
#define TARGET /* the function attribute that lets the compiler use the instructions */

typedef float vec;
#define VEC_FLOATS ((size_t)1)
#define TILE_ROWS  ((size_t)4) /* rows x vecs sums should fit in the registers, ... */
#define TILE_VECS  ((size_t)4) /* ... beside vecs of v and one of u */

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

static inline vec vec_mul(vec a, vec b)
{
    return a * b;
}
#endif

#define TILE_COLS   (TILE_VECS * VEC_FLOATS)
#define TILE_FLOATS (TILE_ROWS * TILE_COLS)

/* How far ahead W is fetched, in tiles: one of small depth is done sooner than
 * memory answers. More than two gained nothing on Zen 3. */
#define TILES_AHEAD ((size_t)2)
#define LINE_BYTES  ((size_t)64)

#define INLINE TARGET static inline __attribute__((always_inline))

/* The sums stay in registers only when the loops over them are unrolled early. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* One more k for every sum: TILE_VECS loads, TILE_ROWS broadcasts and their product. */
INLINE void tile_link(vec sums[TILE_ROWS][TILE_VECS], const float *u, const float *v)
{
    vec row[TILE_VECS];
    UNROLL
    for (size_t c = 0; c < TILE_VECS; c++)
        row[c] = vec_load(v + c * VEC_FLOATS);
    UNROLL
    for (size_t r = 0; r < TILE_ROWS; r++) {
        vec x = vec_all(u[r]);
        UNROLL
        for (size_t c = 0; c < TILE_VECS; c++)
            sums[r][c] = vec_fma(x, row[c], sums[r][c]);
    }
}

INLINE void tile_get(vec sums[TILE_ROWS][TILE_VECS], const float *chains)
{
    UNROLL
    for (size_t r = 0; r < TILE_ROWS; r++) {
        UNROLL
        for (size_t c = 0; c < TILE_VECS; c++)
            sums[r][c] =
                chains != NULL ? vec_load(chains + r * TILE_COLS + c * VEC_FLOATS) : vec_all(0);
    }
}

INLINE void tile_put(vec sums[TILE_ROWS][TILE_VECS], float *chains)
{
    UNROLL
    for (size_t r = 0; r < TILE_ROWS; r++) {
        UNROLL
        for (size_t c = 0; c < TILE_VECS; c++)
            vec_store(chains + r * TILE_COLS + c * VEC_FLOATS, sums[r][c]);
    }
}

/* A tile that lies wholly inside W ends here. */
INLINE void tile_end(vec sums[TILE_ROWS][TILE_VECS], const struct product_strip *s, float *w,
                     const float *from)
{
    const vec alpha = vec_all(s->alpha);
    const size_t stride = s->stride;
    if (s->end == PRODUCT_ADD) {
        UNROLL
        for (size_t r = 0; r < TILE_ROWS; r++, w += stride, from += stride) {
            UNROLL
            for (size_t c = 0; c < TILE_COLS; c += VEC_FLOATS)
                vec_store(w + c, vec_fma(alpha, sums[r][c / VEC_FLOATS], vec_load(from + c)));
        }
    } else {
        UNROLL
        for (size_t r = 0; r < TILE_ROWS; r++, w += stride) {
            UNROLL
            for (size_t c = 0; c < TILE_COLS; c += VEC_FLOATS)
                vec_store(w + c, vec_mul(alpha, sums[r][c / VEC_FLOATS]));
        }
    }
}

/* A tile that sticks out over the edge of W ends here, from memory. */
TARGET static inline void tile_end_part(const float *chains, const struct product_strip *s,
                                        float *w, const float *from, size_t cols)
{
    for (size_t r = 0; r < s->rows; r++)
        for (size_t c = 0; c < cols; c++) {
            const size_t at = r * s->stride + c;
            const float sum = chains[r * TILE_COLS + c];
            w[at] = s->end == PRODUCT_ADD ? fmaf(s->alpha, sum, from[at]) : s->alpha * sum;
        }
}

/* What a tile is told beside its data. */
struct tile_place {
    const float *from; /* what is added to */
    size_t cols;       /* of the tile that lie inside W */
    uintptr_t ahead;   /* first byte to fetch of what is added to */
};

/* One tile of a strip: the heart of it all. While it works on the first rows of the
 * factors it fetches the part of W at `ahead`, a row of the tile per k, since all
 * at once would hold up the loads of v. */
INLINE void tile(const struct product_strip *s, const float *v, float *chains, float *w,
                 struct tile_place place)
{
    const size_t depth = s->depth, row_bytes = s->stride * sizeof *w;
    const size_t fetched = !s->ends ? 0 : depth < TILE_ROWS ? depth : TILE_ROWS;
    const float *u = s->u;
    vec sums[TILE_ROWS][TILE_VECS];
    tile_get(sums, s->starts ? NULL : chains);
    size_t k = 0;
    for (; k < fetched; k++, u += TILE_ROWS, v += TILE_COLS, place.ahead += row_bytes) {
        UNROLL
        for (size_t line = 0; line < TILE_COLS * sizeof *w; line += LINE_BYTES)
            __builtin_prefetch((const void *)(place.ahead + line));
        tile_link(sums, u, v);
    }
    for (; k < depth; k++, u += TILE_ROWS, v += TILE_COLS)
        tile_link(sums, u, v);
    if (!s->ends) {
        tile_put(sums, chains);
    } else if (s->rows == TILE_ROWS && place.cols == TILE_COLS) {
        tile_end(sums, s, w, place.from);
    } else {
        float part[TILE_FLOATS];
        tile_put(sums, part);
        tile_end_part(part, s, w, place.from, place.cols);
    }
}

TARGET static inline void strip(const struct product_strip *s)
{
    const float *v = s->v, *from = s->from;
    float *chains = s->chains, *w = s->w;
    /* A number, not a pointer: at the end of W it points past it, which is fine for
     * a fetch and not for a pointer. */
    uintptr_t ahead = (uintptr_t)from + TILES_AHEAD * TILE_COLS * sizeof *w;
    uintptr_t edge = (uintptr_t)(from + s->cols);
    for (size_t left = s->cols, cols; left > 0; left -= cols) {
        cols = left < TILE_COLS ? left : TILE_COLS;
        if (ahead >= edge) { /* on to the strip below */
            ahead += (TILE_ROWS * s->stride - s->cols) * sizeof *w;
            edge += TILE_ROWS * s->stride * sizeof *w;
        }
        tile(s, v, chains, w, (struct tile_place){from, cols, ahead});
        ahead += TILE_COLS * sizeof *w;
        v += s->depth * TILE_COLS;
        chains += TILE_FLOATS;
        w += cols;
        from += cols;
    }
}

/* Four rows at a time: whole cache lines are written, and not more rows are read
 * at once than the first cache has ways, as rows often lie a power of two apart. */
INLINE void pack(const struct product_rows *from, float *to, size_t apart, size_t run)
{
    const size_t at_once = 4;
    for (size_t k = 0; k < from->count; k += at_once) {
        size_t rows = from->count - k < at_once ? from->count - k : at_once;
        const float *at = from->at + k * from->stride;
        float *out = to + k * run;
        size_t left = from->len;
        for (; left >= run; left -= run, at += run, out += apart)
            for (size_t i = 0; i < rows; i++)
                memcpy(out + i * run, at + i * from->stride, run * sizeof *to);
        for (size_t i = 0; left > 0 && i < rows; i++) {
            memcpy(out + i * run, at + i * from->stride, left * sizeof *to);
            memset(out + i * run + left, 0, (run - left) * sizeof *to);
        }
    }
}

TARGET static inline void pack_u(const struct product_rows *from, float *to, size_t apart)
{
    pack(from, to, apart, TILE_ROWS);
}

TARGET static inline void pack_v(const struct product_rows *from, float *to, size_t apart)
{
    pack(from, to, apart, TILE_COLS);
}

#endif
