/* Cutting steps in place so that the caches hold what is used again.
 *
 * A block of rows is worked through panel by panel. dy of the block is packed in the order in which
 * tiles read it, without the rows that are zero in all samples; x and dx of a panel are packed,
 * too: samples often lie a power of two apart, and would drive each other out of the cache. */
#include "math/inplace.h"

#include <string.h>

#include "math/inplace_kernel.h"

/* x and dx of a panel are 16 KiB of a first cache of 32; dy of a block is 32 KiB of the second. The
 * rows of a block lie on not more pages than the second level of address translation knows. */
enum {
    LINE = INPLACE_LINE,
    PANEL_FLOATS = 2048,
    BLOCK_FLOATS = 8192,
    BLOCK_ROWS = 1024,
    LEAST = 64,
    TILE_MOST = 8, /* rows of a tile, of any kernel */
};

extern const struct inplace_kernel inplace_avx512, inplace_avx2, inplace_plain;
static const struct inplace_kernel *const kernels[] = {
#if defined(__x86_64__)
    &inplace_avx512,
    &inplace_avx2,
#endif
    &inplace_plain,
};

const struct inplace_kernel *inplace_kernel_at(size_t i)
{
    for (size_t j = 0; j < sizeof kernels / sizeof kernels[0]; j++)
        if (kernels[j]->here() && i-- == 0)
            return kernels[j];
    return NULL;
}

const char *inplace_kernel_name(const struct inplace_kernel *kernel)
{
    return kernel->name;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t clamp(size_t x, size_t low, size_t high)
{
    return x < low ? low : x > high ? high : x;
}

static size_t panel_cols(const struct dense_shape *shape)
{
    const size_t all = (shape->cols + LINE - 1) / LINE * LINE;
    return least(clamp(PANEL_FLOATS / (shape->batch + 1) / LINE * LINE, LEAST, PANEL_FLOATS), all);
}

static size_t block_rows(const struct dense_shape *shape)
{
    return clamp(BLOCK_FLOATS / (shape->batch + 1), LEAST, BLOCK_ROWS);
}

/* The last rows of a block have the room of a tile, even if they are fewer. */
size_t inplace_scratch_floats(const struct dense_shape *shape)
{
    const size_t rows = block_rows(shape) + TILE_MOST;
    const size_t packed = shape->batch * (2 * panel_cols(shape) + rows);
    return packed > shape->rows ? packed : shape->rows;
}

/* A block of rows, and where its things are. */
struct block {
    const struct inplace_kernel *kernel;
    const struct inplace_dense *p;
    size_t batch; /* with others */
    size_t row, rows;
    uint32_t steps[BLOCK_ROWS]; /* rows that have a gradient */
    size_t count;
    float *dy, *x, *dx; /* packed */
};

static bool is_zero(const struct inplace_dense *p, size_t row)
{
    for (size_t k = 0; k < p->shape.batch; k++)
        if (p->dy[k * p->shape.rows + row] != 0)
            return false;
    for (size_t k = 0; k < p->other_count; k++)
        if (p->others[k].dy[row] != 0)
            return false;
    return true;
}

static void list_rows(struct block *block)
{
    const size_t all = block->p->shape.rows, first = block->p->first + block->row;
    block->count = 0;
    for (size_t i = 0; i < block->rows; i++) {
        const size_t m = (first + i) % all;
        if (!is_zero(block->p, m))
            block->steps[block->count++] = (uint32_t)m;
    }
}

/* Rows that fill no tile come one by one, but stand side by side as those of a tile do. */
static void pack_dy(const struct block *block)
{
    const struct inplace_dense *p = block->p;
    const size_t tile = block->kernel->rows, batch = p->shape.batch;
    for (size_t i = 0; i < block->count; i++) {
        const size_t row = block->steps[i];
        float *to = block->dy + i / tile * tile * block->batch + i % tile;
        for (size_t k = 0; k < batch; k++)
            to[k * tile] = p->dy[k * p->shape.rows + row];
        for (size_t k = 0; k < p->other_count; k++)
            to[(batch + k) * tile] = p->others[k].by * p->others[k].dy[row];
    }
}

static void pack_one(const float *from, size_t cols, size_t packed, float *to)
{
    memcpy(to, from, cols * sizeof *to);
    memset(to + cols, 0, (packed - cols) * sizeof *to);
}

static void pack(const float *from, const struct dense_shape *shape, size_t cols, size_t packed,
                 float *to)
{
    for (size_t k = 0; k < shape->batch; k++)
        pack_one(from + k * shape->cols, cols, packed, to + k * packed);
}

static void pack_x(const struct block *block, size_t col, size_t cols, size_t packed)
{
    const struct inplace_dense *p = block->p;
    pack(p->x + col, &p->shape, cols, packed, block->x);
    for (size_t k = 0; k < p->other_count; k++)
        pack_one(p->others[k].x + col, cols, packed, block->x + (p->shape.batch + k) * packed);
}

/* The columns from `col` on. Where dx begins, there is nothing yet. */
static void step_panel(const struct block *block, size_t col, size_t packed)
{
    const struct inplace_dense *p = block->p;
    const struct dense_shape *shape = &p->shape;
    const size_t cols = least(packed, shape->cols - col);
    struct inplace_strip strip = {.w = p->w + col,
                                  .stride = shape->cols,
                                  .rows = block->steps,
                                  .count = block->count,
                                  .cols = cols,
                                  .packed = packed,
                                  .x = p->keeps ? NULL : block->x,
                                  .dx = p->dx != NULL ? block->dx : NULL,
                                  .dy = block->dy,
                                  .batch = block->batch,
                                  .back = shape->batch,
                                  .alpha = p->alpha};
    if (!p->keeps)
        pack_x(block, col, cols, packed);
    if (p->dx != NULL && (p->adds || block->row > 0))
        pack(p->dx + col, shape, cols, packed, block->dx);
    else if (p->dx != NULL)
        memset(block->dx, 0, shape->batch * packed * sizeof(float));
    block->kernel->strip(&strip);
    for (size_t k = 0; p->dx != NULL && k < shape->batch; k++)
        memcpy(p->dx + k * shape->cols + col, block->dx + k * packed, cols * sizeof(float));
}

static void step_bias(const struct inplace_kernel *kernel, const struct inplace_dense *p,
                      float *sums)
{
    const size_t rows = p->shape.rows;
    memset(sums, 0, rows * sizeof *sums);
    for (size_t k = 0; k < p->shape.batch; k++)
        for (size_t m = 0; m < rows; m++)
            sums[m] += p->dy[k * rows + m];
    for (size_t k = 0; k < p->other_count; k++)
        kernel->add(p->others[k].by, p->others[k].dy, sums, rows);
    kernel->add(p->alpha, sums, p->bias, rows);
}

void inplace_dense(const struct inplace_kernel *kernel, const struct inplace_dense *p,
                   float *scratch)
{
    const struct dense_shape *shape = &p->shape;
    const struct dense_shape all = {shape->rows, shape->cols, shape->batch + p->other_count};
    const size_t packed = panel_cols(&all), rows = block_rows(&all);
    struct block block;
    block.kernel = kernel;
    block.p = p;
    block.batch = all.batch;
    block.x = scratch;
    block.dx = block.x + all.batch * packed;
    block.dy = block.dx + shape->batch * packed;
    for (block.row = 0; block.row < shape->rows; block.row += rows) {
        block.rows = least(rows, shape->rows - block.row);
        list_rows(&block);
        pack_dy(&block);
        for (size_t col = 0; col < shape->cols; col += packed)
            step_panel(&block, col, packed);
    }
    if (p->bias != NULL && !p->keeps)
        step_bias(kernel, p, scratch);
}

void inplace_row(const struct inplace_kernel *kernel, const struct inplace_row *row)
{
    kernel->row(row);
}

void inplace_add(const struct inplace_kernel *kernel, float by, const float *from, float *to,
                 size_t count)
{
    kernel->add(by, from, to, count);
}

void inplace_copy(const struct inplace_kernel *kernel, const float *from, float *to, size_t count)
{
    kernel->copy(from, to, count);
}

void inplace_ahead(const struct inplace_kernel *kernel, const float *w, size_t count)
{
    kernel->ahead(w, count);
}
