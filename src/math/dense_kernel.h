/* What an instruction set brings to the products of a dense layer: strips.
 *
 * A strip is c += a b for some rows of a and a panel b, which lies in the first cache.
 * It is computed in tiles of a few rows, whose sums stay in registers. While it goes on,
 * what is wanted next is fetched from memory.
 *
 * dense.c cuts the work and calls these; math/dense_tile.h is their body. */
#ifndef TRIDENT_MATH_DENSE_KERNEL_H
#define TRIDENT_MATH_DENSE_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "math/dense.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The sums stay in registers only when the loops over them are unrolled early. Sanitizers make
 * so much of the unrolled code that compiling it takes minutes, and need no speed. */
#if defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DENSE_UNROLL
#else
#define DENSE_UNROLL _Pragma("clang loop unroll(full)")
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define DENSE_UNROLL
#else
#define DENSE_UNROLL _Pragma("GCC unroll 16")
#endif

enum {
    DENSE_PANEL = 32, /* the most columns of b */
    DENSE_LINE = 16,  /* floats of a cache line */
    DENSE_THIN = 4,   /* the most samples that thin() takes */
};

/* A part of a matrix that is wanted soon. */
struct dense_ahead {
    uintptr_t at; /* not a pointer: it may run past the end, which is fine for a fetch */
    size_t stride_bytes;
    size_t lines, line; /* cache lines of a row; the one that is next */
    size_t rows;        /* left */
};

/* c (rows x width) = or += a (rows x depth) times b (depth x width). */
struct dense_strip {
    const float *a, *b;
    float *c;
    size_t a_row, a_step, a_tile; /* from row to row of a tile, along the depth, tile to tile */
    size_t b_stride, c_stride;
    size_t rows, depth;
    size_t width;  /* a multiple of the kernel's step, DENSE_PANEL at most */
    bool starts;   /* c is not read: the chains begin at 0 */
    float *packed; /* depth x DENSE_PANEL: the first tile packs b there for the others. Only with
                      more rows than a tile has and DENSE_PANEL wide; else NULL */
    /* Fetched on the side, one after the other, until nothing is left; NULL: nothing is. */
    struct dense_ahead *ahead;
    size_t lines; /* to fetch at most, per row of c */
};

struct dense_kernel {
    const char *name;
    size_t step; /* of widths */
    size_t sums; /* of a tile: it has sums / width rows */
    bool (*here)(void);
    void (*run)(const struct dense_strip *strip);
    /* to = by * from, or with `adds` to += by * from, fused. */
    void (*row)(float by, const float *from, float *to, size_t count, bool adds);
    void (*thin)(const struct dense_outputs *p); /* all of forward, for few samples; may be NULL */
};

void dense_thin_avx2(const struct dense_outputs *p); /* of x86-64 */

#ifdef __cplusplus
}
#endif

#endif
