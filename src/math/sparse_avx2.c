/* Sums over terms with AVX2 and FMA: 16 registers of 8 floats. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stddef.h>

#define TARGET __attribute__((target("avx2,fma")))
#define UNROLL DENSE_UNROLL

typedef __m256 vec;
/* 12 registers of sums. Per term 12 multiply-adds, two a cycle, and 14 loads, two a cycle: what
 * a dense product takes for 0.58 of its zeros and others. */
#define VEC_FLOATS ((size_t)8)
#define VECS       ((size_t)12)

TARGET static inline vec vec_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

TARGET static inline void vec_store(float *to, vec x)
{
    _mm256_storeu_ps(to, x);
}

TARGET static inline vec vec_all(float x)
{
    return _mm256_set1_ps(x);
}

TARGET static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

TARGET static inline vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

#include "math/sparse_tile.h"

const struct sparse_kernel sparse_avx2 = {
    .width = WIDTH, .go_on = go_on, .add = add, .store = store, .pack = pack};

#endif
