/* The product with AVX-512: 32 registers of 16 floats. */
#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f")))

typedef __m512 vec;
/* 24 registers of sums, 2 of v, 1 of u. Per k: 24 multiply-adds, two a cycle, and
 * 14 loads, two a cycle. */
#define VEC_FLOATS ((size_t)16)
#define TILE_ROWS  ((size_t)12)
#define TILE_VECS  ((size_t)2)

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

#include "math/product_tile.h"

static bool here(void)
{
    return __builtin_cpu_supports("avx512f");
}

extern const struct product_kernel product_avx512;
const struct product_kernel product_avx512 = {
    .name = "avx512",
    .rows = TILE_ROWS,
    .cols = TILE_COLS,
    .here = here,
    .pack_u = pack_u,
    .pack_v = pack_v,
    .strip = strip,
    .sparse = &sparse_avx512,
};

#endif
