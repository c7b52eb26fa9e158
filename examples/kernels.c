/* Cutting the products so that the caches hold what is used again.
 *
 * All three are c = a b, computed strip by strip: some rows of a, along a panel of b
 * that is PANEL columns wide, DEPTH rows deep and packed together, which is what the
 * first cache holds. Forward: a is the weights, b the samples turned on their side.
 * Backward: a is dy, b a panel of the weights. Gradient: a is dy turned, b is x.
 * While a strip is computed the weights that come next are fetched. */
#include "examples/kernels.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Measured best on Zen 3. DEPTH x PANEL floats are 24 KiB of a first cache of 32;
 * BLOCK_ROWS x DEPTH floats of weights, which meet all samples, are 72 KiB of the second. */
enum { PANEL = 32, DEPTH = 192, BLOCK_ROWS = 96, LINE_FLOATS = 16, STEP = 4 };

#define INLINE static inline __attribute__((always_inline))
/* The sums stay in registers only when the loops over them are unrolled early. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* A part of a matrix that is wanted soon. */
struct ahead {
    uintptr_t at; /* not a pointer: it may run past the end, which is fine for a fetch */
    size_t stride_bytes;
    size_t lines, line; /* cache lines of a row; the one that is next */
    size_t rows;        /* left */
};

/* c (rows x PANEL) = or += a (rows x depth) times b (depth x PANEL). */
struct strip {
    const float *a, *b;
    float *c;
    size_t a_stride, c_stride;
    size_t rows, depth;
    bool starts; /* c is not read: the chains begin at 0 */
    struct ahead *ahead;
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

INLINE void fetch(struct ahead *ahead, size_t lines)
{
    for (size_t i = 0; i < lines && ahead->rows > 0; i++) {
        __builtin_prefetch((const void *)(ahead->at + ahead->line * LINE_FLOATS * sizeof(float)));
        if (++ahead->line == ahead->lines) {
            ahead->line = 0;
            ahead->at += ahead->stride_bytes;
            ahead->rows--;
        }
    }
}

/* rows x cols floats at `first`, of a matrix with rows of `stride` floats. */
static struct ahead ahead_of(const float *first, size_t rows, size_t cols, size_t stride)
{
    const size_t line_bytes = LINE_FLOATS * sizeof(float);
    uintptr_t at = (uintptr_t)first, from = at / line_bytes * line_bytes;
    size_t bytes = (size_t)(at - from) + cols * sizeof(float);
    return (struct ahead){.at = from,
                          .stride_bytes = stride * sizeof(float),
                          .lines = (bytes + line_bytes - 1) / line_bytes,
                          .rows = cols == 0 ? 0 : rows};
}

/* ---- the kernels ---- */

#if defined(__x86_64__)
/* 16 registers of sums, 8 of a, 1 of b. */
#define TILE            run_avx512
#define TARGET          __attribute__((target("avx512f")))
#define TILE_ROWS       8
#define VEC             __m512
#define VEC_FLOATS      16
#define VEC_LOAD(p)     _mm512_loadu_ps(p)
#define VEC_STORE(p, x) _mm512_storeu_ps(p, x)
#define VEC_ALL(x)      _mm512_set1_ps(x)
#define VEC_FMA         _mm512_fmadd_ps
#include "examples/kernels_tile.h"

static bool here_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

/* 12 registers of sums, 3 of a, 1 of b. */
#define TILE            run_avx2
#define TARGET          __attribute__((target("avx2,fma")))
#define TILE_ROWS       3
#define VEC             __m256
#define VEC_FLOATS      8
#define VEC_LOAD(p)     _mm256_loadu_ps(p)
#define VEC_STORE(p, x) _mm256_storeu_ps(p, x)
#define VEC_ALL(x)      _mm256_set1_ps(x)
#define VEC_FMA         _mm256_fmadd_ps
#include "examples/kernels_tile.h"

static bool here_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

#define TILE run_plain
#define TARGET
#define TILE_ROWS       2
#define VEC             float
#define VEC_FLOATS      1
#define VEC_LOAD(p)     (*(p))
#define VEC_STORE(p, x) (*(p) = (x))
#define VEC_ALL(x)      (x)
#define VEC_FMA         fmaf
#include "examples/kernels_tile.h"

static bool here_plain(void)
{
    return true;
}

static const struct kernel kernels[] = {
#if defined(__x86_64__)
    {.name = "avx512", .here = here_avx512, .run = run_avx512},
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

/* to[i][k] = from[k][i], i < width: `count` rows of a matrix on their side, four at a
 * time because rows that lie a power of two apart share few places of a cache. Rows of
 * `to` are `apart` floats from each other; behind the count they become 0. */
static void turn(const float *from, size_t count, size_t width, float *to, size_t apart)
{
    for (size_t first = 0; first < apart; first += STEP) {
        const size_t end = least(first + STEP, apart);
        for (size_t i = 0; i < width; i++)
            for (size_t k = first; k < end; k++)
                to[i * apart + k] = k < count ? from[k * width + i] : 0;
    }
}

/* A panel: `rows` rows of `cols` floats, each filled up to PANEL with zeros. */
static void pack(const float *from, size_t rows, size_t cols, size_t stride, float *to)
{
    for (size_t i = 0; i < rows; i++, from += stride, to += PANEL) {
        if (cols == PANEL) {
            memcpy(to, from, PANEL * sizeof *to);
            continue;
        }
        memcpy(to, from, cols * sizeof *to);
        memset(to + cols, 0, (PANEL - cols) * sizeof *to);
    }
}

static size_t panels(size_t count)
{
    return (count + PANEL - 1) / PANEL;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t kernel_scratch_floats(const struct shape *shape)
{
    const size_t samples = panels(shape->batch) * PANEL;
    size_t forward = samples * (shape->cols + BLOCK_ROWS);
    size_t backward = (size_t)PANEL * DEPTH + panels(shape->cols) * PANEL * shape->batch;
    size_t gradient = shape->batch * shape->rows + (size_t)PANEL * (shape->batch + shape->rows);
    return most(forward, most(backward, gradient));
}

/* ---- forward ---- */

/* A block: some rows of the weights, and the outputs of all samples for them. */
struct block {
    size_t row, rows;
    float *outputs; /* a panel of samples after the other, each BLOCK_ROWS x PANEL */
};

static void forward_begin(const struct forward *p, const struct block *block)
{
    for (size_t g = 0; g < panels(p->shape.batch); g++)
        for (size_t i = 0; i < block->rows; i++) {
            float *out = block->outputs + (g * BLOCK_ROWS + i) * PANEL;
            for (size_t k = 0; k < PANEL; k++)
                out[k] = p->bias != NULL ? p->bias[block->row + i] : 0;
        }
}

static void forward_end(const struct forward *p, const struct block *block)
{
    for (size_t k = 0; k < p->shape.batch; k++) {
        const float *out = block->outputs + k / PANEL * BLOCK_ROWS * PANEL + k % PANEL;
        for (size_t i = 0; i < block->rows; i++)
            p->y[k * p->shape.rows + block->row + i] = out[i * PANEL];
    }
}

/* The weights that follow the part at [row][col]: beside it or, at the edge, below. */
static struct ahead forward_ahead(const struct forward *p, const struct block *block, size_t col)
{
    const size_t cols = p->shape.cols;
    size_t row = block->row, rows = block->rows;
    col += DEPTH;
    if (col >= cols) {
        col = 0;
        row += rows;
        rows = least(BLOCK_ROWS, p->shape.rows - row);
    }
    if (rows == 0)
        return (struct ahead){0};
    return ahead_of(p->w + row * cols + col, rows, least(DEPTH, cols - col), cols);
}

static void forward_block(const struct kernel *kernel, const struct forward *p,
                          const struct block *block, const float *samples)
{
    const size_t cols = p->shape.cols;
    for (size_t col = 0; col < cols; col += DEPTH) {
        struct ahead ahead = forward_ahead(p, block, col);
        for (size_t g = 0; g < panels(p->shape.batch); g++) {
            struct strip strip = {.a = p->w + block->row * cols + col,
                                  .b = samples + (g * cols + col) * PANEL,
                                  .c = block->outputs + g * BLOCK_ROWS * PANEL,
                                  .a_stride = cols,
                                  .c_stride = PANEL,
                                  .rows = block->rows,
                                  .depth = least(DEPTH, cols - col),
                                  .ahead = &ahead};
            kernel->run(&strip);
        }
    }
}

void kernel_forward(const struct kernel *kernel, const struct forward *p, float *scratch)
{
    const size_t batch = p->shape.batch, cols = p->shape.cols;
    for (size_t k = 0; k < batch; k += PANEL)
        turn(p->x + k * cols, least(PANEL, batch - k), cols, scratch + k * cols, PANEL);
    struct block block = {.outputs = scratch + panels(batch) * PANEL * cols};
    for (; block.row < p->shape.rows; block.row += BLOCK_ROWS) {
        block.rows = least(BLOCK_ROWS, p->shape.rows - block.row);
        forward_begin(p, &block);
        forward_block(kernel, p, &block, scratch);
        forward_end(p, &block);
    }
}

/* ---- backward ---- */

/* The panel of weights that follows the one at [row][col]. */
static struct ahead backward_ahead(const struct backward *p, size_t row, size_t col)
{
    const size_t rows = p->shape.rows, cols = p->shape.cols;
    col += PANEL;
    if (col >= cols) {
        col = 0;
        row += DEPTH;
    }
    if (row >= rows)
        return (struct ahead){0};
    return ahead_of(p->w + row * cols + col, least(DEPTH, rows - row), least(PANEL, cols - col),
                    cols);
}

/* DEPTH rows of the weights, from `row` on: what they add to all of dx. */
static void backward_rows(const struct kernel *kernel, const struct backward *p, size_t row,
                          float *panel, float *sums)
{
    const size_t batch = p->shape.batch, rows = p->shape.rows, cols = p->shape.cols;
    const size_t depth = least(DEPTH, rows - row);
    for (size_t col = 0; col < cols; col += PANEL) {
        pack(p->w + row * cols + col, depth, least(PANEL, cols - col), cols, panel);
        struct ahead ahead = backward_ahead(p, row, col);
        struct strip strip = {.a = p->dy + row,
                              .b = panel,
                              .c = sums + col * batch,
                              .a_stride = rows,
                              .c_stride = PANEL,
                              .rows = batch,
                              .depth = depth,
                              .starts = row == 0,
                              .ahead = &ahead};
        kernel->run(&strip);
    }
}

void kernel_backward(const struct kernel *kernel, const struct backward *p, float *scratch)
{
    const size_t batch = p->shape.batch, cols = p->shape.cols;
    float *sums = scratch + (size_t)PANEL * DEPTH;
    for (size_t row = 0; row < p->shape.rows; row += DEPTH)
        backward_rows(kernel, p, row, scratch, sums);
    for (size_t col = 0; col < cols; col += PANEL)
        for (size_t k = 0; k < batch; k++)
            memcpy(p->dx + k * cols + col, sums + (col / PANEL * batch + k) * PANEL,
                   least(PANEL, cols - col) * sizeof *sums);
}

/* ---- gradient ---- */

void kernel_gradient(const struct kernel *kernel, const struct gradient *p, float *scratch)
{
    const size_t batch = p->shape.batch, rows = p->shape.rows, cols = p->shape.cols;
    float *turned = scratch, *panel = turned + batch * rows, *edge = panel + batch * PANEL;
    struct ahead nothing = {0};
    turn(p->dy, batch, rows, turned, batch);
    for (size_t col = 0; col < cols; col += PANEL) {
        const size_t width = least(PANEL, cols - col);
        pack(p->x + col, batch, width, cols, panel);
        struct strip strip = {.a = turned,
                              .b = panel,
                              .c = width == PANEL ? p->g + col : edge,
                              .a_stride = batch,
                              .c_stride = width == PANEL ? cols : PANEL,
                              .rows = rows,
                              .depth = batch,
                              .starts = true,
                              .ahead = &nothing};
        kernel->run(&strip);
        for (size_t m = 0; width < PANEL && m < rows; m++)
            memcpy(p->g + m * cols + col, edge + m * PANEL, width * sizeof *edge);
    }
}
