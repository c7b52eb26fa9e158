/* Steps in place with AVX-512: 32 registers of 16 floats. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stddef.h>

#define TARGET __attribute__((target("avx512f,prfchw")))

typedef __m512 vec;
#define VEC_FLOATS ((size_t)16)
#define TILE_ROWS  ((size_t)8)

#define EASY TARGET __attribute__((no_sanitize("thread"), always_inline)) static inline

EASY vec vec_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

EASY void vec_store(float *to, vec x)
{
    _mm512_storeu_ps(to, x);
}

EASY __mmask16 first(size_t count)
{
    return (__mmask16)((1U << count) - 1);
}

EASY vec vec_load_part(const float *from, size_t count)
{
    return _mm512_maskz_loadu_ps(first(count), from);
}

EASY void vec_store_part(float *to, vec x, size_t count)
{
    _mm512_mask_storeu_ps(to, first(count), x);
}

EASY vec vec_all(float x)
{
    return _mm512_set1_ps(x);
}

EASY vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

#include "math/inplace_tile.h"

static bool here(void)
{
    return __builtin_cpu_supports("avx512f");
}

extern const struct inplace_kernel inplace_avx512;
const struct inplace_kernel inplace_avx512 = {
    .name = "avx512",
    .rows = TILE_ROWS,
    .here = here,
    .strip = strip,
    .row = row,
    .add = add,
    .copy = copy,
    .ahead = ahead,
};

#endif
