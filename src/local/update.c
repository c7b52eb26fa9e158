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

/* Four vectors at a time: as many loads are under way before the first store. */
#define SGD(name, type, lanes, ...)                                                                \
    __VA_ARGS__ RACY static void name(float *weights, const float *values, size_t n, float rate)   \
    {                                                                                              \
        size_t i = 0;                                                                              \
        for (; i + 4 * (lanes) <= n; i += 4 * (lanes)) {                                           \
            type *w = (type *)(weights + i);                                                       \
            const type *g = (const type *)(values + i);                                            \
            type a = w[0] - rate * g[0], b = w[1] - rate * g[1];                                   \
            type c = w[2] - rate * g[2], d = w[3] - rate * g[3];                                   \
            w[0] = a;                                                                              \
            w[1] = b;                                                                              \
            w[2] = c;                                                                              \
            w[3] = d;                                                                              \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            weights[i] -= rate * values[i];                                                        \
    }

#if defined(__x86_64__)
SGD(sgd_avx2, eight, 8, __attribute__((target("avx2"))))
#endif
SGD(sgd_plain, four, 4, )

static const struct update_kernel kernels[] = {
#if defined(__x86_64__)
    {"avx2", sgd_avx2},
#endif
    {"plain", sgd_plain},
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
