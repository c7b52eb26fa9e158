/* The forward product for one to four samples, with AVX2: vectors of eight outputs.
 *
 * With so few samples a vector of them would be nearly empty. Instead eight rows of the
 * weights are turned on their side, eight columns at a time, in registers. The chains stay
 * what they are. Processors with AVX-512 use this, too. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>

#include "math/dense_kernel.h"

#define INLINE __attribute__((target("avx2,fma"), always_inline)) static inline

enum { SIDE = 8, MOST = DENSE_THIN };

/* t[j][i] = t[i][j]. */
INLINE void turn(__m256 t[SIDE])
{
    __m256 a[SIDE], b[SIDE];
    DENSE_UNROLL
    for (int i = 0; i < SIDE; i += 2) { /* pairs of rows, by twos */
        a[i] = _mm256_unpacklo_ps(t[i], t[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(t[i], t[i + 1]);
    }
    DENSE_UNROLL
    for (int i = 0; i < SIDE; i += 4) { /* by fours */
        b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xEE);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xEE);
    }
    DENSE_UNROLL
    for (int i = 0; i < SIDE / 2; i++) { /* and halves */
        t[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

/* SIDE x `count` weights at w, turned; what is beyond the count is not read. */
INLINE void load(const float *w, size_t stride, size_t count, __m256 t[SIDE])
{
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), places);
    DENSE_UNROLL
    for (size_t i = 0; i < SIDE; i++)
        t[i] = count == SIDE ? _mm256_loadu_ps(w + i * stride)
                             : _mm256_maskload_ps(w + i * stride, mask);
    turn(t);
}

/* The links of `count` columns from `col` on: rows of `groups` times SIDE, `batch` samples. */
INLINE void links(const struct dense_outputs *p, const float *w, size_t col, size_t count,
                  __m256 *sums, const size_t groups, const size_t batch)
{
    const size_t cols = p->shape.cols;
    DENSE_UNROLL
    for (size_t g = 0; g < groups; g++) {
        __m256 t[SIDE];
        load(w + g * SIDE * cols + col, cols, count, t);
        DENSE_UNROLL
        for (size_t j = 0; j < SIDE; j++) {
            DENSE_UNROLL
            for (size_t k = 0; k < batch && j < count; k++)
                sums[g * batch + k] = _mm256_fmadd_ps(
                    t[j], _mm256_set1_ps(p->x[k * cols + col + j]), sums[g * batch + k]);
        }
    }
}

INLINE void rows_of(const struct dense_outputs *p, size_t row, const size_t groups,
                    const size_t batch)
{
    const size_t cols = p->shape.cols;
    const float *w = p->w + row * cols;
    __m256 sums[2 * MOST];
    DENSE_UNROLL
    for (size_t i = 0; i < groups * batch; i++)
        sums[i] = p->bias != NULL ? _mm256_loadu_ps(p->bias + row + i / batch * SIDE)
                                  : _mm256_setzero_ps();
    size_t col = 0;
    for (; col + SIDE <= cols; col += SIDE)
        links(p, w, col, SIDE, sums, groups, batch);
    if (col < cols)
        links(p, w, col, cols - col, sums, groups, batch);
    DENSE_UNROLL
    for (size_t i = 0; i < groups * batch; i++)
        _mm256_storeu_ps(p->y + i % batch * p->shape.rows + row + i / batch * SIDE, sums[i]);
}

/* The last rows, fewer than SIDE. */
INLINE void row_of(const struct dense_outputs *p, size_t row, size_t k)
{
    const float *w = p->w + row * p->shape.cols, *x = p->x + k * p->shape.cols;
    float sum = p->bias != NULL ? p->bias[row] : 0;
    for (size_t n = 0; n < p->shape.cols; n++)
        sum = fmaf(w[n], x[n], sum);
    p->y[k * p->shape.rows + row] = sum;
}

INLINE void run_batch(const struct dense_outputs *p, const size_t groups, const size_t batch)
{
    size_t row = 0;
    for (; row + groups * SIDE <= p->shape.rows; row += groups * SIDE)
        rows_of(p, row, groups, batch);
    for (; row + SIDE <= p->shape.rows; row += SIDE)
        rows_of(p, row, 1, batch);
    for (; row < p->shape.rows; row++)
        for (size_t k = 0; k < batch; k++)
            row_of(p, row, k);
}

/* Two groups where the chains of one would leave the processor waiting. */
__attribute__((target("avx2,fma"))) void dense_thin_avx2(const struct dense_outputs *p)
{
    if (p->shape.batch == 1)
        run_batch(p, 2, 1);
    else if (p->shape.batch == 2)
        run_batch(p, 2, 2);
    else if (p->shape.batch == 3)
        run_batch(p, 1, 3);
    else
        run_batch(p, 1, 4);
}

#endif
