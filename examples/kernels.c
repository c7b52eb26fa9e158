/* All three are c += a b for some rows of a and a panel of b: PANEL columns, packed together
 * and so few rows (DEPTH) that the first cache holds it. Forward: a is the weights, b the
 * samples turned on their side. Backward: a is dy, b the weights. Gradient: a is dy turned. */
#include "examples/kernels.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { PANEL = 32, DEPTH = 192, BLOCK_ROWS = 96 };

/* c (rows x PANEL) += a (rows x depth) times b (depth x PANEL). */
struct strip {
    const float *a, *b;
    float *c;
    size_t a_stride, c_stride, rows, depth;
};

struct kernel {
    const char *name;
    bool (*here)(void);
    void (*run)(const struct strip *strip);
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- the kernels ---- */

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2,fma")))
enum { VEC = 8, VECS = PANEL / VEC };

/* gcc keeps the sums in registers only when the loops over them are unrolled early. */
#if defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 4")
#endif

/* `rows` is a constant, 3 or 1: 12 sums stay in registers. */
TARGET static inline __attribute__((always_inline)) void tile(const struct strip *s, size_t row,
                                                              const size_t rows)
{
    const float *a = s->a + row * s->a_stride, *b = s->b;
    float *c = s->c + row * s->c_stride;
    __m256 sums[3][VECS];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < VECS; v++)
            sums[r][v] = _mm256_loadu_ps(c + r * s->c_stride + v * VEC);
    }
    for (size_t k = 0; k < s->depth; k++, b += PANEL) {
        UNROLL
        for (size_t v = 0; v < VECS; v++) {
            UNROLL
            for (size_t r = 0; r < rows; r++)
                sums[r][v] = _mm256_fmadd_ps(_mm256_set1_ps(a[r * s->a_stride + k]),
                                             _mm256_loadu_ps(b + v * VEC), sums[r][v]);
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t v = 0; v < VECS; v++)
            _mm256_storeu_ps(c + r * s->c_stride + v * VEC, sums[r][v]);
    }
}

TARGET static void run_avx2(const struct strip *s)
{
    size_t row = 0;
    for (; row + 3 <= s->rows; row += 3)
        tile(s, row, 3);
    for (; row < s->rows; row++)
        tile(s, row, 1);
}

static bool here_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

static void run_plain(const struct strip *s)
{
    for (size_t row = 0; row < s->rows; row++)
        for (size_t k = 0; k < s->depth; k++)
            for (size_t i = 0; i < PANEL; i++) {
                float *c = s->c + row * s->c_stride + i;
                *c = fmaf(s->a[row * s->a_stride + k], s->b[k * PANEL + i], *c);
            }
}

static bool here_plain(void)
{
    return true;
}

static const struct kernel kernels[] = {
#if defined(__x86_64__)
    {.name = "avx2", .here = here_avx2, .run = run_avx2},
#endif
    {.name = "plain", .here = here_plain, .run = run_plain},
};

const struct kernel *kernel_at(size_t i)
{
    for (size_t j = 0; j < sizeof kernels / sizeof kernels[0]; j++)
        if (kernels[j].here() && i-- == 0)
            return &kernels[j];
    return NULL;
}

const char *kernel_name(const struct kernel *kernel)
{
    return kernel->name;
}

/* ---- packing ---- */

static size_t panels(size_t count)
{
    return (count + PANEL - 1) / PANEL;
}

/* to[i][k] = from[k][i], i < width. Rows of `to` are `apart` floats from each other; behind
 * the count they become 0. */
static void turn(const float *from, size_t count, size_t width, float *to, size_t apart)
{
    for (size_t i = 0; i < width; i++)
        for (size_t k = 0; k < apart; k++)
            to[i * apart + k] = k < count ? from[k * width + i] : 0;
}

/* A panel: `rows` rows of `cols` floats, each filled up to PANEL with zeros. */
static void pack(const float *from, size_t rows, size_t cols, size_t stride, float *to)
{
    for (size_t i = 0; i < rows; i++, from += stride, to += PANEL) {
        memcpy(to, from, cols * sizeof *to);
        memset(to + cols, 0, (PANEL - cols) * sizeof *to);
    }
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t kernel_scratch_floats(const struct shape *shape)
{
    const size_t batch = shape->batch;
    size_t forward = (size_t)PANEL * (shape->cols + BLOCK_ROWS);
    size_t backward = (size_t)PANEL * DEPTH + panels(shape->cols) * PANEL * batch;
    size_t gradient = batch * shape->rows + (size_t)PANEL * (batch + shape->rows);
    return most(forward, most(backward, gradient));
}

/* ---- the products ---- */

/* Some rows of the weights, with up to PANEL samples: y for them. */
static void forward_block(const struct kernel *kernel, const struct forward *p, size_t row,
                          const float *samples, float *out)
{
    const size_t rows = least(BLOCK_ROWS, p->shape.rows - row), cols = p->shape.cols;
    for (size_t i = 0; i < rows * PANEL; i++)
        out[i] = p->bias != NULL ? p->bias[row + i / PANEL] : 0;
    for (size_t col = 0; col < cols; col += DEPTH)
        kernel->run(&(struct strip){.a = p->w + row * cols + col,
                                    .b = samples + col * PANEL,
                                    .c = out,
                                    .a_stride = cols,
                                    .c_stride = PANEL,
                                    .rows = rows,
                                    .depth = least(DEPTH, cols - col)});
}

void kernel_forward(const struct kernel *kernel, const struct forward *p, float *scratch)
{
    const size_t cols = p->shape.cols, rows = p->shape.rows;
    float *samples = scratch, *out = scratch + cols * PANEL;
    for (size_t first = 0; first < p->shape.batch; first += PANEL) {
        const size_t count = least(PANEL, p->shape.batch - first);
        turn(p->x + first * cols, count, cols, samples, PANEL);
        for (size_t row = 0; row < rows; row += BLOCK_ROWS) {
            forward_block(kernel, p, row, samples, out);
            for (size_t k = 0; k < count; k++)
                for (size_t i = 0; i < BLOCK_ROWS && row + i < rows; i++)
                    p->y[(first + k) * rows + row + i] = out[i * PANEL + k];
        }
    }
}

void kernel_backward(const struct kernel *kernel, const struct backward *p, float *scratch)
{
    const size_t batch = p->shape.batch, rows = p->shape.rows, cols = p->shape.cols;
    float *panel = scratch, *sums = scratch + (size_t)PANEL * DEPTH;
    memset(sums, 0, panels(cols) * PANEL * batch * sizeof *sums);
    for (size_t row = 0; row < rows; row += DEPTH)
        for (size_t col = 0; col < cols; col += PANEL) {
            const size_t depth = least(DEPTH, rows - row);
            pack(p->w + row * cols + col, depth, least(PANEL, cols - col), cols, panel);
            kernel->run(&(struct strip){.a = p->dy + row,
                                        .b = panel,
                                        .c = sums + col * batch,
                                        .a_stride = rows,
                                        .c_stride = PANEL,
                                        .rows = batch,
                                        .depth = depth});
        }
    for (size_t col = 0; col < cols; col += PANEL)
        for (size_t k = 0; k < batch; k++)
            memcpy(p->dx + k * cols + col, sums + col * batch + k * PANEL,
                   least(PANEL, cols - col) * sizeof *sums);
}

void kernel_gradient(const struct kernel *kernel, const struct gradient *p, float *scratch)
{
    const size_t batch = p->shape.batch, rows = p->shape.rows, cols = p->shape.cols;
    float *turned = scratch, *panel = turned + batch * rows, *out = panel + batch * PANEL;
    turn(p->dy, batch, rows, turned, batch);
    for (size_t col = 0; col < cols; col += PANEL) {
        const size_t width = least(PANEL, cols - col);
        pack(p->x + col, batch, width, cols, panel);
        memset(out, 0, rows * PANEL * sizeof *out);
        kernel->run(&(struct strip){.a = turned,
                                    .b = panel,
                                    .c = out,
                                    .a_stride = batch,
                                    .c_stride = PANEL,
                                    .rows = rows,
                                    .depth = batch});
        for (size_t m = 0; m < rows; m++)
            memcpy(p->g + m * cols + col, out + m * PANEL, width * sizeof *out);
    }
}
