/* Kernels over shared weights. */
#include "local/update.h"

#include <string.h>

#if defined(__SANITIZE_THREAD__)
#define TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#endif
#ifndef TSAN
#define TSAN 0
#endif

/* Races on weights are meant: see the header. */
#define RACY __attribute__((no_sanitize("thread")))

#define VECTOR(lanes) __attribute__((vector_size(4 * (lanes)), aligned(4), may_alias))
typedef float four VECTOR(4);
typedef float eight VECTOR(8);

/* Two places of the array at once, each four vectors wide: the lines that are on their way are then
 * of different pages, and the wait at a page's end of the one is work on the other. Measured on
 * Zen 3: a tenth to a fifth faster than one place, more where pages are small. */
enum { CHUNK = 1 << 15, CHUNK_LEAST = 2048 };
#define AT_ONCE(lanes) ((size_t)4 * (lanes))
#define STEP(type, w, g, rate)                                                                     \
    do {                                                                                           \
        type a = (w)[0] - (rate) * (g)[0], b = (w)[1] - (rate) * (g)[1];                           \
        type c = (w)[2] - (rate) * (g)[2], d = (w)[3] - (rate) * (g)[3];                           \
        (w)[0] = a;                                                                                \
        (w)[1] = b;                                                                                \
        (w)[2] = c;                                                                                \
        (w)[3] = d;                                                                                \
    } while (0)
#define SGD(name, type, lanes, ...)                                                                \
    __VA_ARGS__ RACY static void name(float *weights, const float *values, size_t n, float rate)   \
    {                                                                                              \
        const size_t wide = AT_ONCE(lanes);                                                        \
        size_t i = 0;                                                                              \
        while (n - i >= CHUNK_LEAST) {                                                             \
            size_t half = (n - i < CHUNK ? n - i : CHUNK) / 2 / wide * wide;                       \
            for (size_t end = i + half; i < end; i += wide) {                                      \
                STEP(type, (type *)(weights + i), (const type *)(values + i), rate);               \
                STEP(type, (type *)(weights + i + half), (const type *)(values + i + half), rate); \
            }                                                                                      \
            i += half;                                                                             \
        }                                                                                          \
        for (; i + wide <= n; i += wide)                                                           \
            STEP(type, (type *)(weights + i), (const type *)(values + i), rate);                   \
        for (; i < n; i++)                                                                         \
            weights[i] -= rate * values[i];                                                        \
    }

#define STEP_TWO(type, w, g, h, v)                                                                 \
    do {                                                                                           \
        type a = (w)[0] - (v)->first_rate * (g)[0], b = (w)[1] - (v)->first_rate * (g)[1];         \
        a -= (v)->second_rate * (h)[0];                                                            \
        b -= (v)->second_rate * (h)[1];                                                            \
        (w)[0] = a;                                                                                \
        (w)[1] = b;                                                                                \
    } while (0)
#define SGD_TWO(name, type, lanes, ...)                                                            \
    __VA_ARGS__ RACY static void name(float *weights, const struct update_two *values, size_t n)   \
    {                                                                                              \
        const struct update_two v = *values;                                                       \
        const size_t wide = (size_t)2 * (lanes);                                                   \
        size_t i = 0;                                                                              \
        while (n - i >= CHUNK_LEAST) {                                                             \
            size_t half = (n - i < CHUNK ? n - i : CHUNK) / 2 / wide * wide;                       \
            for (size_t end = i + half; i < end; i += wide) {                                      \
                size_t j = i + half;                                                               \
                STEP_TWO(type, (type *)(weights + i), (const type *)(v.first + i),                 \
                         (const type *)(v.second + i), &v);                                        \
                STEP_TWO(type, (type *)(weights + j), (const type *)(v.first + j),                 \
                         (const type *)(v.second + j), &v);                                        \
            }                                                                                      \
            i += half;                                                                             \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            float once = weights[i] - v.first_rate * v.first[i];                                   \
            weights[i] = once - v.second_rate * v.second[i];                                       \
        }                                                                                          \
    }

#if defined(__x86_64__)
SGD(sgd_avx2, eight, 8, __attribute__((target("avx2"))))
SGD_TWO(two_avx2, eight, 8, __attribute__((target("avx2"))))
#endif
SGD(sgd_plain, four, 4, )
SGD_TWO(two_plain, four, 4, )

static const struct update_kernel kernels[] = {
#if defined(__x86_64__)
    {"avx2", sgd_avx2, two_avx2},
#endif
    {"plain", sgd_plain, two_plain},
};

const struct update_kernel *update_kernel_at(size_t i)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2"))
        i++;
#endif
    return i < sizeof kernels / sizeof kernels[0] ? &kernels[i] : NULL;
}

void update_prefetch(const float *row, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        __builtin_prefetch(row + i, 1);
}

RACY void update_copy(float *to, const float *from, size_t n)
{
#if TSAN /* it would look into memcpy() */
    for (size_t i = 0; i < n; i++)
        *(volatile float *)(to + i) = *(const volatile float *)(from + i);
#else
    memcpy(to, from, n * sizeof *to);
#endif
}
