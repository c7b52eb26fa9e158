/* Steps in place with AVX2 and FMA: 16 registers of 8 floats. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stddef.h>

/* prfchw: a fetch for writing. Processors without it take it for one that does nothing. */
#define TARGET __attribute__((target("avx2,fma,prfchw")))

typedef __m256 vec;
#define VEC_FLOATS ((size_t)8)
#define TILE_ROWS  ((size_t)6)

#define EASY TARGET __attribute__((no_sanitize("thread"), always_inline)) static inline

EASY vec vec_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

EASY void vec_store(float *to, vec x)
{
    _mm256_storeu_ps(to, x);
}

EASY vec vec_load_part(const float *from, size_t count)
{
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), places));
}

/* Not by mask: on Zen a masked store costs as much as forty others. */
EASY void vec_store_part(float *to, vec x, size_t count)
{
    __m128 rest = _mm256_castps256_ps128(x);
    if (count & 4) {
        _mm_storeu_ps(to, rest);
        rest = _mm256_extractf128_ps(x, 1);
        to += 4;
    }
    if (count & 2) {
        _mm_storel_pi((__m64 *)(void *)to, rest);
        rest = _mm_movehl_ps(rest, rest);
        to += 2;
    }
    if (count & 1)
        _mm_store_ss(to, rest);
}

EASY vec vec_all(float x)
{
    return _mm256_set1_ps(x);
}

EASY vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

#include "math/inplace_tile.h"

static bool here(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

extern const struct inplace_kernel inplace_avx2;
const struct inplace_kernel inplace_avx2 = {
    .name = "avx2",
    .rows = TILE_ROWS,
    .here = here,
    .strip = strip,
    .row = row,
    .add = add,
    .copy = copy,
    .ahead = ahead,
};

#endif
