/* Rows of sums over terms, written once for every instruction set.
 *
 * A sparse_ISA.c defines what is listed below, includes this file and puts the functions in its
 * struct sparse_kernel. Without that, it is plain C with a vector of one float. */
#ifndef TRIDENT_MATH_SPARSE_TILE_H
#define TRIDENT_MATH_SPARSE_TILE_H

#include <math.h>

#include "math/dense_kernel.h"
#include "math/sparse.h"

#ifndef TARGET
#define TARGET /* the function attribute that lets the compiler use the instructions */
#define UNROLL /* DENSE_UNROLL where the sums of a row fit in registers */

typedef float vec;
#define VEC_FLOATS ((size_t)1)
#define VECS       ((size_t)8) /* of a row of sums */
#define TURN_ROWS  VECS        /* of W, at a time */
#define BLOCK_ROWS VECS        /* of a block */
#define BLOCK_COLS ((size_t)1)

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

/* BLOCK_ROWS x BLOCK_COLS floats become columns; rows of `to` are a panel's. */
static inline void turn_block(const float *from, size_t stride, float *to)
{
    for (size_t i = 0; i < BLOCK_ROWS; i++)
        to[i] = from[i * stride];
}
#endif

#define WIDTH      (VECS * VEC_FLOATS)
#define LINE_BYTES (SPARSE_LINE * sizeof(float))
#define INLINE     TARGET static inline __attribute__((always_inline))

enum way { GO_ON, ADD, STORE };

INLINE void link(vec *sums, const struct sparse_term *term, const float *panel)
{
    const vec by = vec_all(term->by);
    const float *row = panel + term->at;
    UNROLL
    for (size_t i = 0; i < VECS; i++)
        sums[i] = vec_fma(by, vec_load(row + i * VEC_FLOATS), sums[i]);
}

/* One line is fetched per term: many at once would hold up the loads. */
INLINE const struct sparse_term *links_that_fetch(vec *sums, const struct sparse_term *term,
                                                  const struct sparse_term *end, const float *panel,
                                                  uintptr_t ahead, size_t lines)
{
    const struct sparse_term *stop = (size_t)(end - term) < lines ? end : term + lines;
    DENSE_ROLLED
    for (; term < stop; term++, ahead += LINE_BYTES) {
        __builtin_prefetch((const void *)ahead);
        link(sums, term, panel);
    }
    return term;
}

INLINE void begin(vec *sums, const float *to, const enum way way)
{
    UNROLL
    for (size_t i = 0; i < VECS; i++)
        sums[i] = way == GO_ON ? vec_load(to + i * VEC_FLOATS) : vec_all(0);
}

INLINE void end_at(const vec *sums, float *to, const float *from, float alpha, const enum way way)
{
    const vec by = vec_all(alpha);
    UNROLL
    for (size_t i = 0; i < VECS; i++) {
        float *at = to + i * VEC_FLOATS;
        vec_store(at, way == GO_ON ? sums[i]
                      : way == ADD ? vec_fma(by, sums[i], vec_load(from + i * VEC_FLOATS))
                                   : vec_mul(by, sums[i]));
    }
}

INLINE void run(const struct sparse_strip *s, const enum way way)
{
    const float *panel = s->panel;
    const struct sparse_term *terms = s->terms;
    float *to = s->to;
    const float *from = way == ADD ? s->from : to;
    uintptr_t ahead = s->ahead;
    for (size_t row = 0; row < s->rows;
         row++, terms += SPARSE_DEPTH, to += s->stride, from += s->stride) {
        const struct sparse_term *term = terms, *end = terms + s->counts[row];
        vec sums[VECS];
        if (row + s->turn == s->rows)
            ahead = s->ahead_then;
        begin(sums, to, way);
        for (size_t i = 0; i < s->ahead_rows; i++, ahead += s->ahead_stride_bytes)
            term = links_that_fetch(sums, term, end, panel, ahead, s->ahead_lines);
        DENSE_ROLLED
        for (; term < end; term++)
            link(sums, term, panel);
        end_at(sums, to, from, s->alpha, way);
    }
}

TARGET static void go_on(const struct sparse_strip *strip)
{
    run(strip, GO_ON);
}

TARGET static void add(const struct sparse_strip *strip)
{
    run(strip, ADD);
}

TARGET static void store(const struct sparse_strip *strip)
{
    run(strip, STORE);
}

TARGET static void pack(const float *from, size_t stride, size_t rows, float *panel)
{
    for (size_t row = 0; row < rows; row++, from += stride, panel += WIDTH) {
        UNROLL
        for (size_t i = 0; i < VECS; i++)
            vec_store(panel + i * VEC_FLOATS, vec_load(from + i * VEC_FLOATS));
    }
}

/* A line of a few rows after the other. */
TARGET static void turn(const float *from, size_t stride, float *panel)
{
    for (size_t line = 0; line < SPARSE_PART; line += SPARSE_LINE)
        for (size_t row = 0; row < TURN_ROWS; row += BLOCK_ROWS) {
            DENSE_ROLLED
            for (size_t col = line; col < line + SPARSE_LINE; col += BLOCK_COLS)
                turn_block(from + row * stride + col, stride, panel + col * WIDTH + row);
        }
}

#endif
