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
#include "math/sparse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The sums stay in registers only when the loops over them are unrolled early. Sanitizers make
 * so much of the unrolled code that compiling it takes minutes, and need no speed. The loop along
 * the depth stays rolled: with several links in its body the compiler moves sums from register to
 * register, and loads the same again. */
#if defined(__clang__)
#define DENSE_ROLLED _Pragma("clang loop unroll(disable)")
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DENSE_UNROLL
#else
#define DENSE_UNROLL _Pragma("clang loop unroll(full)")
#endif
#else
#define DENSE_ROLLED _Pragma("GCC unroll 1")
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define DENSE_UNROLL
#else
#define DENSE_UNROLL _Pragma("GCC unroll 16")
#endif
#endif

enum {
    DENSE_PANEL = 32, /* the most columns of b */
    DENSE_LINE = 16,  /* floats of a cache line */
    DENSE_THIN = 4,   /* the most samples that thin() takes */
};

/* A part of a matrix that is wanted soon: cache lines, row by row. Addresses are no pointers
 * since they may run past the end, which is fine for a fetch. */
struct dense_ahead {
    uintptr_t at, end; /* the line that is next; where its row ends */
    size_t skip_bytes; /* from the end of a row's lines to the next row */
    size_t stride_bytes;
    size_t rows;                    /* left */
    const struct dense_ahead *then; /* what follows, or NULL */
};

/* Rows of a matrix on their way into panels that lie beside each other: one row of one panel
 * at a time. */
struct dense_pack {
    const float *from; /* what is next */
    float *to;
    size_t stride;        /* of the matrix */
    size_t near_bytes;    /* how far ahead it is fetched */
    size_t depth;         /* of a panel */
    size_t panels, panel; /* how many; the next */
    size_t rows;          /* left */
};

static inline void dense_pack_next(struct dense_pack *pack, size_t width)
{
    pack->from += width;
    pack->to += pack->depth * width;
    if (++pack->panel < pack->panels)
        return;
    pack->panel = 0;
    pack->from += pack->stride - pack->panels * width;
    pack->to -= (pack->panels * pack->depth - 1) * width;
    pack->rows--;
}

/* c (rows x width) = or += a (rows x depth) times b (depth x width). The depth is at least 1. */
struct dense_strip {
    const float *a, *b;
    float *c;
    /* From row to row of a tile, along the depth, tile to tile. Of run(): back() wants the rows of
     * a tile side by side, and one tile behind the other. */
    size_t a_row, a_step, a_tile;
    size_t b_stride, c_stride;
    size_t rows, depth;
    size_t width; /* a multiple of the kernel's step, DENSE_PANEL at most; back() has its own */
    bool starts;  /* c is not read: the chains begin at 0 */
    /* Done on the side until nothing is left. */
    struct dense_ahead *ahead; /* of run(); NULL: nothing is to be fetched */
    size_t lines;              /* at most, per row of c */
    struct dense_pack *pack;   /* of back() */
};

struct dense_kernel {
    const char *name;
    size_t step; /* of widths */
    size_t sums; /* of a tile: it has sums / width rows */
    size_t back; /* width of a strip of back() */
    bool (*here)(void);
    void (*run)(const struct dense_strip *strip);
    void (*run_back)(const struct dense_strip *strip);
    /* to = by * from, or with `adds` to += by * from, fused. */
    void (*row)(float by, const float *from, float *to, size_t count, bool adds);
    void (*thin)(const struct dense_outputs *p); /* all of forward, for few samples; may be NULL */
    const struct sparse_kernel
        *sparse; /* of backward where many derivatives are zero; may be NULL */
};

void dense_thin_avx2(const struct dense_outputs *p); /* of x86-64 */

#ifdef __cplusplus
}
#endif

#endif
