/* The product with AVX2 and FMA: 16 registers of 8 floats. */
#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))

typedef __m256 vec;
/* 12 registers of sums, 2 of v, 1 of u. Per k: 12 multiply-adds, two a cycle, and
 * 8 loads, at least two a cycle. */
#define VEC_FLOATS ((size_t)8)
#define TILE_ROWS  ((size_t)6)
#define TILE_VECS  ((size_t)2)

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

#include "math/product_tile.h"

static bool here(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

extern const struct product_kernel product_avx2;
const struct product_kernel product_avx2 = {
    .name = "avx2",
    .rows = TILE_ROWS,
    .cols = TILE_COLS,
    .here = here,
    .pack_u = pack_u,
    .pack_v = pack_v,
    .strip = strip,
    .sparse = &sparse_avx2,
};

#endif
