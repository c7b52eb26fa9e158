/* The products of a dense layer with AVX2 and FMA: 16 registers of 8 floats. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stddef.h>

#define TARGET __attribute__((target("avx2,fma")))
#define UNROLL DENSE_UNROLL

typedef __m256 vec;
/* 12 registers of sums. The other four hold a and b: 3 and 1, or 1 and up to 3. */
#define VEC_FLOATS ((size_t)8)
#define WIDE_ROWS  ((size_t)3)
#define STEP_VECS  ((size_t)1)
#define STEPS      4
#define BACK_VECS  ((size_t)3)

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

#include "math/dense_tile.h"

static bool here(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

extern const struct dense_kernel dense_avx2;
const struct dense_kernel dense_avx2 = {
    .name = "avx2",
    .step = STEP_VECS * VEC_FLOATS,
    .sums = SUMS * VEC_FLOATS,
    .back = BACK_VECS * VEC_FLOATS,
    .here = here,
    .run = run,
    .run_back = back,
    .row = row,
    .sparse = &sparse_avx2,
    .thin = dense_thin_avx2,
};

#endif
