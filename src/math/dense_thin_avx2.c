/* The forward product for one to four samples, with AVX2: vectors of eight outputs.
 *
 * With so few samples a vector of them would be nearly empty. Instead eight rows of the
 * weights are turned on their side, four columns at a time, in registers. The chains stay
 * what they are. Processors with AVX-512 use this, too. */
#if defined(__x86_64__)

#include <immintrin.h>

#include "math/dense_kernel.h"

#define INLINE __attribute__((target("avx2,fma"), always_inline)) static inline

enum { SIDE = 8, MOST = DENSE_THIN, GROUPS = 2 };

/* Four columns of SIDE rows, which begin at w[0], w[1], ...: rows 0 to 3 in the lower halves of
 * four vectors, 4 to 7 in the upper ones, come out as a vector per column. */
INLINE void turn(const float *const w[SIDE], size_t col, __m256 t[SIDE / 2])
{
    __m256 a[SIDE / 2], b[SIDE / 2];
    DENSE_UNROLL
    for (size_t i = 0; i < SIDE / 2; i++)
        a[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(w[i] + col)),
                                    _mm_loadu_ps(w[i + SIDE / 2] + col), 1);
    DENSE_UNROLL
    for (size_t i = 0; i < SIDE / 2; i += 2) { /* by twos */
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    DENSE_UNROLL
    for (size_t i = 0; i < SIDE / 4; i++) { /* by fours */
        t[2 * i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        t[2 * i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xEE);
    }
}

/* The links of SIDE / 2 columns from `col` on. */
INLINE void links(const struct dense_outputs *p, const float *const w[SIDE], size_t col,
                  __m256 *sums, const size_t batch)
{
    const float *x = p->x + col;
    __m256 t[SIDE / 2];
    turn(w, col, t);
    DENSE_UNROLL
    for (size_t j = 0; j < SIDE / 2; j++) {
        DENSE_UNROLL
        for (size_t k = 0; k < batch; k++)
            sums[k] = _mm256_fmadd_ps(t[j], _mm256_set1_ps(x[k * p->shape.cols + j]), sums[k]);
    }
}

/* The last columns, fewer than that. */
INLINE void last_links(const struct dense_outputs *p, const float *const w[SIDE], size_t col,
                       __m256 *sums, const size_t batch)
{
    for (; col < p->shape.cols; col++) {
        const __m256 t = _mm256_setr_ps(w[0][col], w[1][col], w[2][col], w[3][col], w[4][col],
                                        w[5][col], w[6][col], w[7][col]);
        DENSE_UNROLL
        for (size_t k = 0; k < batch; k++)
            sums[k] = _mm256_fmadd_ps(t, _mm256_set1_ps(p->x[k * p->shape.cols + col]), sums[k]);
    }
}

/* `count` rows from `row` on, in groups of SIDE, `batch` samples. Of a group that is not full the
 * last row is done several times. */
INLINE void rows_of(const struct dense_outputs *p, size_t row, size_t count, const size_t groups,
                    const size_t batch)
{
    const size_t cols = p->shape.cols;
    const float *w[GROUPS][SIDE];
    float ends[SIDE];
    __m256 sums[GROUPS][MOST];
    size_t col = 0;
    DENSE_UNROLL
    for (size_t i = 0; i < groups * SIDE; i++) {
        const size_t at = row + (i < count ? i : count - 1);
        w[i / SIDE][i % SIDE] = p->w + at * cols;
        ends[i % SIDE] = p->bias != NULL ? p->bias[at] : 0;
        for (size_t k = 0; k < batch && i % SIDE == SIDE - 1; k++)
            sums[i / SIDE][k] = _mm256_loadu_ps(ends);
    }
    for (; col + SIDE / 2 <= cols; col += SIDE / 2) {
        DENSE_UNROLL
        for (size_t g = 0; g < groups; g++)
            links(p, w[g], col, sums[g], batch);
    }
    DENSE_UNROLL
    for (size_t g = 0; g < groups; g++)
        last_links(p, w[g], col, sums[g], batch);
    for (size_t i = 0; i < groups * batch; i++) {
        const size_t first = i / batch * SIDE;
        float *y = p->y + i % batch * p->shape.rows + row + first;
        if (first + SIDE <= count) {
            _mm256_storeu_ps(y, sums[i / batch][i % batch]);
            continue;
        }
        _mm256_storeu_ps(ends, sums[i / batch][i % batch]);
        for (size_t j = first; j < count; j++)
            y[j - first] = ends[j - first];
    }
}

INLINE void run_batch(const struct dense_outputs *p, const size_t groups, const size_t batch)
{
    size_t row = 0;
    for (; row + groups * SIDE <= p->shape.rows; row += groups * SIDE)
        rows_of(p, row, groups * SIDE, groups, batch);
    for (size_t count; row < p->shape.rows; row += count) {
        count = p->shape.rows - row < SIDE ? p->shape.rows - row : SIDE;
        rows_of(p, row, count, 1, batch);
    }
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
