/* GaDei's section 4.4 again: unrolling, vector instructions, half precision. */
#include "bench/local_kernels.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "local/update.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define WEIGHTS ((size_t)5000000) /* 20 MB, as GaDei's Watt */
enum { TURNS = 7, WAYS_MAX = 8 };

#if defined(__clang__)
#define ONE_BY_ONE
#define NO_VECTORS _Pragma("clang loop vectorize(disable) interleave(disable) unroll(disable)")
#else
#define ONE_BY_ONE __attribute__((optimize("no-tree-vectorize", "no-unroll-loops")))
#define NO_VECTORS
#endif

ONE_BY_ONE static void plain_loop(float *w, const float *g, size_t n, float rate)
{
    NO_VECTORS
    for (size_t i = 0; i < n; i++)
        w[i] -= rate * g[i];
}

ONE_BY_ONE static void unrolled(float *w, const float *g, size_t n, float rate)
{
    NO_VECTORS
    for (size_t i = 0; i + 8 <= n; i += 8) {
        w[i] -= rate * g[i];
        w[i + 1] -= rate * g[i + 1];
        w[i + 2] -= rate * g[i + 2];
        w[i + 3] -= rate * g[i + 3];
        w[i + 4] -= rate * g[i + 4];
        w[i + 5] -= rate * g[i + 5];
        w[i + 6] -= rate * g[i + 6];
        w[i + 7] -= rate * g[i + 7];
    }
}

#if defined(__x86_64__)
static void sse(float *w, const float *g, size_t n, float rate)
{
    __m128 by = _mm_set1_ps(rate);
    for (size_t i = 0; i + 4 <= n; i += 4)
        _mm_storeu_ps(w + i, _mm_sub_ps(_mm_loadu_ps(w + i), _mm_mul_ps(by, _mm_loadu_ps(g + i))));
}
#endif

/* ---- half precision: arrays are of 16-bit values, behind the same signature ---- */

static float float_of(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 31;
    uint32_t fraction = half & 1023, bits;
    if (exponent == 0) /* zero and the smallest: as exact as a float can be */
        return (sign != 0 ? -1.0F : 1.0F) * (float)fraction * 0x1p-24F;
    bits = sign | (exponent == 31 ? 255U << 23 : (exponent + 112) << 23) | fraction << 13;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

static uint16_t half_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = (bits >> 16) & 0x8000, rest = bits & 0x7fffffff;
    if (rest >= 0x47800000) /* too large, or none */
        return (uint16_t)(sign | (rest > 0x7f800000 ? 0x7e00 : 0x7c00));
    if (rest < 0x38800000) { /* small: a multiple of 2^-24 */
        float size;
        memcpy(&size, &rest, sizeof size);
        return (uint16_t)(sign | (uint32_t)lrintf(size * 0x1p24F));
    }
    uint32_t rounded = rest + 0xfff + ((rest >> 13) & 1) - (112U << 23);
    return (uint16_t)(sign | rounded >> 13);
}

ONE_BY_ONE static void half_soft(float *w, const float *g, size_t n, float rate)
{
    uint16_t *weights = (uint16_t *)(void *)w;
    const uint16_t *values = (const uint16_t *)(const void *)g;
    NO_VECTORS
    for (size_t i = 0; i < n; i++)
        weights[i] = half_of(float_of(weights[i]) - rate * float_of(values[i]));
}

#if defined(__x86_64__)
__attribute__((target("avx2,f16c"))) static void half_hard(float *w, const float *g, size_t n,
                                                           float rate)
{
    __m128i *weights = (__m128i *)(void *)w;
    const __m128i *values = (const __m128i *)(const void *)g;
    __m256 by = _mm256_set1_ps(rate);
    for (size_t i = 0; i < n / 8; i++) {
        __m256 step = _mm256_mul_ps(by, _mm256_cvtph_ps(_mm_loadu_si128(values + i)));
        __m256 to = _mm256_sub_ps(_mm256_cvtph_ps(_mm_loadu_si128(weights + i)), step);
        _mm_storeu_si128(weights + i, _mm256_cvtps_ph(to, _MM_FROUND_TO_NEAREST_INT));
    }
}
#endif

/* ---- the table ---- */

struct way {
    const char *name;
    update_sgd *run;
    double bytes; /* a weight moves */
    double times[TURNS];
};

static size_t list(struct way ways[WAYS_MAX])
{
    size_t count = 0;
    ways[count++] = (struct way){"one by one", plain_loop, 12, {0}};
    ways[count++] = (struct way){"unrolled 8 times (GaDei)", unrolled, 12, {0}};
#if defined(__x86_64__)
    ways[count++] = (struct way){"SSE intrinsics", sse, 12, {0}};
#endif
    ways[count++] = (struct way){update_kernel_at(0)->name, update_kernel_at(0)->sgd, 12, {0}};
    ways[count++] = (struct way){"half precision, software", half_soft, 6, {0}};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        ways[count++] = (struct way){"half precision, F16C", half_hard, 6, {0}};
#endif
    return count;
}

static double now_s(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(struct way *way)
{
    qsort(way->times, TURNS, sizeof way->times[0], by_size);
    return way->times[TURNS / 2];
}

static void write_table(struct way *ways, size_t count, char *out, size_t cap)
{
    double gadei = median(&ways[1]);
    int len = snprintf(out, cap,
                       "\nOne thread, %.0f MB of weights (GaDei, section 4.4):\n"
                       "  %-26s %14s %8s %16s\n",
                       (double)WEIGHTS * 4e-6, "way", "Mweights/s", "GB/s", "beside unrolled");
    for (size_t i = 0; i < count && len > 0 && (size_t)len < cap; i++) {
        double took = median(&ways[i]);
        len += snprintf(out + len, cap - (size_t)len, "  %-26s %14.0f %8.1f %15.2fx\n",
                        ways[i].name, (double)WEIGHTS / took * 1e-6,
                        (double)WEIGHTS * ways[i].bytes / took * 1e-9, gadei / took);
    }
}

void local_kernels_table(char *out, size_t cap)
{
    struct way ways[WAYS_MAX];
    size_t count = list(ways);
    float *w = calloc(WEIGHTS, sizeof *w), *g = calloc(WEIGHTS, sizeof *g);
    if (w != NULL && g != NULL) {
        /* As floats and as halves these are small numbers, none of them the smallest. */
        for (size_t i = 0; i < WEIGHTS; i++) {
            const uint32_t pair = 0x3c003800 + (uint32_t)(i % 512);
            memcpy(&w[i], &pair, sizeof pair);
            memcpy(&g[i], &pair, sizeof pair);
        }
        for (int turn = -1; turn < TURNS; turn++) /* the first is to warm up */
            for (size_t i = 0; i < count; i++) {
                double start = now_s();
                ways[i].run(w, g, WEIGHTS, 0); /* the weights stay as they are */
                if (turn >= 0)
                    ways[i].times[turn] = now_s() - start;
            }
        write_table(ways, count, out, cap);
    }
    free(w);
    free(g);
}
