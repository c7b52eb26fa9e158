/* The products of a dense layer with AVX-512: 32 registers of 16 floats. */
#if defined(__x86_64__)

#include <immintrin.h>
#include <stddef.h>

#define TARGET __attribute__((target("avx512f")))
#define UNROLL DENSE_UNROLL

typedef __m512 vec;
/* 16 registers of sums: 8 rows of 2, or 16 of 1. 2 more hold b, and 1 a. */
#define VEC_FLOATS ((size_t)16)
#define WIDE_ROWS  ((size_t)8)
#define STEP_VECS  ((size_t)1)
#define STEPS      2
#define BACK_VECS  ((size_t)2)

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

#include "math/dense_tile.h"

static bool here(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma");
}

extern const struct dense_kernel dense_avx512;
const struct dense_kernel dense_avx512 = {
    .name = "avx512",
    .step = STEP_VECS * VEC_FLOATS,
    .sums = SUMS * VEC_FLOATS,
    .back = BACK_VECS * VEC_FLOATS,
    .here = here,
    .run = run,
    .run_back = back,
    .row = row,
    .sparse = &sparse_avx512,
    .thin = dense_thin_avx2,
};

#endif
