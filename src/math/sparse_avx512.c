/* Sums over terms with AVX-512: 32 registers of 16 floats. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stddef.h>

#define TARGET __attribute__((target("avx512f")))
#define UNROLL DENSE_UNROLL

typedef __m512 vec;
/* 6 registers of sums: a panel of 64 rows then fits into a first cache of 32 KiB. */
#define VEC_FLOATS ((size_t)16)
#define VECS       ((size_t)6)
#define TURN_ROWS  ((size_t)16)
#define BLOCK_ROWS ((size_t)16)
#define BLOCK_COLS ((size_t)4)
#define TO_STRIDE  (VECS * VEC_FLOATS)

TARGET static inline vec vec_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

TARGET static inline void vec_store(float *to, vec x)
{
    _mm512_storeu_ps(to, x);
}

TARGET static inline vec vec_all(float x)
{
    return _mm512_set1_ps(x);
}

TARGET static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

TARGET static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

/* Four floats of rows i, i + 4, i + 8 and i + 12. */
TARGET static inline vec four_rows(const float *from, size_t stride)
{
    vec rows = _mm512_castps128_ps512(_mm_loadu_ps(from));
    rows = _mm512_insertf32x4(rows, _mm_loadu_ps(from + 4 * stride), 1);
    rows = _mm512_insertf32x4(rows, _mm_loadu_ps(from + 8 * stride), 2);
    return _mm512_insertf32x4(rows, _mm_loadu_ps(from + 12 * stride), 3);
}

TARGET static inline void turn_block(const float *from, size_t stride, float *to)
{
    const vec a = four_rows(from, stride), b = four_rows(from + stride, stride);
    const vec c = four_rows(from + 2 * stride, stride), d = four_rows(from + 3 * stride, stride);
    const vec ab = _mm512_unpacklo_ps(a, b), cd = _mm512_unpacklo_ps(c, d);
    const vec ab_high = _mm512_unpackhi_ps(a, b), cd_high = _mm512_unpackhi_ps(c, d);
    vec_store(to, _mm512_shuffle_ps(ab, cd, 0x44));
    vec_store(to + TO_STRIDE, _mm512_shuffle_ps(ab, cd, 0xee));
    vec_store(to + 2 * TO_STRIDE, _mm512_shuffle_ps(ab_high, cd_high, 0x44));
    vec_store(to + 3 * TO_STRIDE, _mm512_shuffle_ps(ab_high, cd_high, 0xee));
}

#include "math/sparse_tile.h"

const struct sparse_kernel sparse_avx512 = {.width = WIDTH,
                                            .go_on = go_on,
                                            .add = add,
                                            .store = store,
                                            .pack = pack,
                                            .turn_rows = TURN_ROWS,
                                            .turn = turn};

#endif
