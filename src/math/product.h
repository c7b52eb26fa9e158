/* The factor product: W += alpha * (sum over k of u[k] outer v[k]), to the last bit.
 *
 * Factors come in blocks, one per rank as a rule: u is rows x M, v is rows x N,
 * both row by row. The rows of all blocks, in the order given, are k = 0, 1, ...
 * Every element of W is one chain of fused multiply-adds, in float:
 *
 *     s = 0;  s = fma(u[k][m], v[k][n], s) for each k in order
 *     product_add:    W[m][n] = fma(alpha, s, W[m][n]), or of another matrix than W
 *     product_store:  W[m][n] = alpha * s
 *
 * and nothing else, whatever the processor. So the bits depend neither on the
 * instruction set, nor on how the rows of W are dealt to threads, nor on how
 * the rows of the factors are cut into blocks: that makes replicas agree, and a
 * job agree with one process on the stacked batch. Zeros of u, of which a relu makes
 * many, may be left out where all of v is finite: that can only change the sign of a sum
 * that is zero. So NaN and infinity end up where they do in the plain loop.
 *
 * No call allocates, starts a thread or fails. Calls on different rows of W, or
 * on different W, may run at the same time, each with scratch memory of its own. */
#ifndef TRIDENT_MATH_PRODUCT_H
#define TRIDENT_MATH_PRODUCT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct product_block {
    const float *u, *v; /* borrowed; rows x M and rows x N; may be NULL when rows is 0 */
    size_t rows;        /* may be 0, and may differ from block to block */
};

/* What is multiplied; only read, apart from the floats at w. No pointer needs
 * more alignment than a float. w may not overlap the factors, nor `from` but for being it. */
struct product {
    const struct product_block *blocks;
    size_t count;  /* of blocks; 0 leaves every s at 0 */
    size_t m, n;   /* W is m x n */
    float *w;      /* row i begins at w + i * stride */
    size_t stride; /* in floats, at least n; the floats between the rows are left alone */
    float alpha;   /* -lr / samples, say */
    /* product_add: what is added to, with the same stride; NULL: w. So w becomes another step of
     * what stays as it is. */
    const float *from;
};

/* Bytes of scratch memory that one call needs: about 2 MiB, the same for every
 * product, so that a thread allocates it once. Any alignment will do. */
size_t product_scratch_bytes(void);

/* Rows first to last - 1 of W; first = last does nothing. Splitting [0, m) over
 * threads at any rows gives the same bits; a few hundred rows each or more keep
 * the cost of preparing v, which every call pays, out of sight. */
void product_add(const struct product *p, size_t first, size_t last, void *scratch);
void product_store(const struct product *p, size_t first, size_t last, void *scratch);

/* The bias that goes with W: for i from first to last - 1, s is the sum of u[k][i]
 * over k in order, by plain additions from 0, then bias[i] = fma(alpha, s, bias[i]).
 * v, n, w and stride are not looked at. */
void product_bias(const struct product *p, size_t first, size_t last, float *bias);

/* ---- the kernels one by one, for tests and benchmarks ---- */

enum product_end { PRODUCT_ADD, PRODUCT_STORE };

struct product_kernel;

/* The kernels that this machine can run, best first; NULL past the end. The
 * calls above use the first. "plain" is always there, and is the last. */
const struct product_kernel *product_kernel_at(size_t i);
const char *product_kernel_name(const struct product_kernel *kernel); /* "avx512", ...; static */
void product_with(const struct product_kernel *kernel, const struct product *p,
                  enum product_end end, size_t first, size_t last, void *scratch);

#ifdef __cplusplus
}
#endif

#endif
