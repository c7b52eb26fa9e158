/* Cutting the products so that the caches hold what is used again.
 *
 * All three are c = a b, computed strip by strip: some rows of a, along a panel of b
 * that is at most DENSE_PANEL columns wide, DEPTH rows deep and packed together, which
 * is what the first cache holds. Forward: a is the weights, b the samples turned on their
 * side. Backward: a is dy, b a panel of the weights. Gradient: a is dy turned, b is x.
 *
 * The weights that come next are fetched meanwhile, only just in time: rows that lie a
 * power of two apart share few places of the second cache, and drive each other out. */
#include "math/dense.h"

#include <string.h>

#include "math/dense_kernel.h"

/* Measured best on Zen 3. DEPTH x DENSE_PANEL floats are 24 KiB of a first cache of 32;
 * BLOCK_ROWS x DEPTH floats of weights, which meet all samples, are 72 KiB of the second. */
enum { PANEL = DENSE_PANEL, DEPTH = 192, BLOCK_ROWS = 96, AHEAD_ROWS = 24, TURN = 4 };

extern const struct dense_kernel dense_avx512, dense_avx2, dense_plain;
static const struct dense_kernel *const kernels[] = {
#if defined(__x86_64__)
    &dense_avx512,
    &dense_avx2,
#endif
    &dense_plain,
};

const struct dense_kernel *dense_kernel_at(size_t i)
{
    for (size_t j = 0; j < sizeof kernels / sizeof kernels[0]; j++)
        if (kernels[j]->here() && i-- == 0)
            return kernels[j];
    return NULL;
}

const char *dense_kernel_name(const struct dense_kernel *kernel)
{
    return kernel->name;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t panels(size_t count)
{
    return (count + PANEL - 1) / PANEL;
}

/* Of a panel for so many columns, PANEL at most. */
static size_t width_of(const struct dense_kernel *kernel, size_t cols)
{
    return (least(cols, PANEL) + kernel->step - 1) / kernel->step * kernel->step;
}

/* At most BLOCK_ROWS of dy are left over by whole tiles of any kernel. */
size_t dense_scratch_floats(const struct dense_shape *shape)
{
    const size_t batch = shape->batch, samples = panels(batch) * PANEL;
    size_t forward = samples * (shape->cols + BLOCK_ROWS);
    size_t backward =
        (size_t)PANEL * DEPTH + panels(shape->cols) * PANEL * batch + (batch + PANEL) * DEPTH;
    size_t gradient = batch * shape->rows + (size_t)PANEL * (batch + shape->rows);
    return most(forward, most(backward, gradient));
}

/* ---- packing ---- */

/* to[i][k] = from[k][i], i < width: `count` rows of a matrix on their side, a few at a
 * time because rows that lie a power of two apart share few places of a cache. Rows of
 * `to` are `apart` floats from each other; behind the count they become 0. */
static void turn(const float *from, size_t count, size_t width, float *to, size_t apart)
{
    for (size_t first = 0; first < apart; first += TURN) {
        const size_t end = least(first + TURN, apart);
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

/* rows x cols floats at `first`, of a matrix with rows of `stride` floats. */
static struct dense_ahead ahead_of(const float *first, size_t rows, size_t cols, size_t stride)
{
    const size_t line_bytes = DENSE_LINE * sizeof(float);
    uintptr_t at = (uintptr_t)first, from = at / line_bytes * line_bytes;
    size_t bytes = (size_t)(at - from) + cols * sizeof(float);
    return (struct dense_ahead){.at = from,
                                .stride_bytes = stride * sizeof(float),
                                .lines = (bytes + line_bytes - 1) / line_bytes,
                                .rows = cols == 0 ? 0 : rows};
}

/* A part of the weights: what a strip reads of them. */
struct part {
    size_t row, rows, col, cols;
};

/* What to fetch while `now` is worked on: all of it but for its first rows, which were
 * fetched before, then the first rows of `next`. */
static void look_ahead(const float *w, size_t stride, const struct part *now,
                       const struct part *next, struct dense_ahead ahead[2])
{
    const size_t skip = least(AHEAD_ROWS, now->rows);
    ahead[0] = ahead[1] = (struct dense_ahead){0};
    if (skip < now->rows)
        ahead[0] = ahead_of(w + (now->row + skip) * stride + now->col, now->rows - skip, now->cols,
                            stride);
    if (next->rows > 0 && next->cols > 0)
        ahead[1] = ahead_of(w + next->row * stride + next->col, least(AHEAD_ROWS, next->rows),
                            next->cols, stride);
}

/* ---- forward ---- */

/* A block: some rows of the weights, and the outputs of all samples for them. */
struct block {
    size_t row, rows;
    float *outputs; /* a panel of samples after the other, each BLOCK_ROWS x its width */
};

static void forward_begin(const struct dense_outputs *p, const struct block *block)
{
    for (size_t g = 0; g < panels(p->shape.batch); g++)
        for (size_t i = 0; i < block->rows; i++) {
            float *out = block->outputs + (g * BLOCK_ROWS + i) * PANEL;
            for (size_t k = 0; k < PANEL; k++)
                out[k] = p->bias != NULL ? p->bias[block->row + i] : 0;
        }
}

static void forward_end(const struct dense_outputs *p, const struct block *block)
{
    for (size_t k = 0; k < p->shape.batch; k++) {
        const float *out = block->outputs + k / PANEL * BLOCK_ROWS * PANEL + k % PANEL;
        for (size_t i = 0; i < block->rows; i++)
            p->y[k * p->shape.rows + block->row + i] = out[i * PANEL];
    }
}

/* The weights that follow: beside these or, at the edge, below. */
static struct part forward_next(const struct dense_shape *shape, const struct part *now)
{
    struct part next = *now;
    next.col += now->cols;
    if (next.col >= shape->cols) {
        next.col = 0;
        next.row += now->rows;
        next.rows = least(BLOCK_ROWS, shape->rows - next.row);
    }
    next.cols = least(DEPTH, shape->cols - next.col);
    return next;
}

static void forward_block(const struct dense_kernel *kernel, const struct dense_outputs *p,
                          const struct block *block, const float *samples)
{
    const size_t cols = p->shape.cols, batch = p->shape.batch;
    for (size_t col = 0; col < cols; col += DEPTH) {
        struct part now = {block->row, block->rows, col, least(DEPTH, cols - col)};
        struct part next = forward_next(&p->shape, &now);
        struct dense_ahead ahead[2];
        look_ahead(p->w, cols, &now, &next, ahead);
        for (size_t g = 0; g < panels(batch); g++) {
            const size_t width = width_of(kernel, batch - g * PANEL);
            struct dense_strip strip = {.a = p->w + block->row * cols + col,
                                        .b = samples + g * PANEL * cols + col * width,
                                        .c = block->outputs + g * BLOCK_ROWS * PANEL,
                                        .a_row = cols,
                                        .a_step = 1,
                                        .a_tile = kernel->sums / width * cols,
                                        .b_stride = width,
                                        .c_stride = PANEL,
                                        .rows = block->rows,
                                        .depth = now.cols,
                                        .width = width,
                                        .ahead = g == 0 ? ahead : NULL,
                                        .lines = DEPTH / DENSE_LINE + 1};
            kernel->run(&strip);
        }
    }
}

void dense_forward(const struct dense_kernel *kernel, const struct dense_outputs *p, float *scratch)
{
    const size_t batch = p->shape.batch, cols = p->shape.cols;
    if (kernel->thin != NULL && batch >= 1 && batch <= DENSE_THIN) {
        kernel->thin(p);
        return;
    }
    for (size_t k = 0; k < batch; k += PANEL)
        turn(p->x + k * cols, least(PANEL, batch - k), cols, scratch + k * cols,
             width_of(kernel, batch - k));
    struct block block = {.outputs = scratch + panels(batch) * PANEL * cols};
    for (; block.row < p->shape.rows; block.row += BLOCK_ROWS) {
        block.rows = least(BLOCK_ROWS, p->shape.rows - block.row);
        forward_begin(p, &block);
        forward_block(kernel, p, &block, scratch);
        forward_end(p, &block);
    }
}

/* ---- backward ---- */

/* Where things are: parts of the scratch memory. */
struct back {
    const struct dense_kernel *kernel;
    const struct dense_inputs *p;
    float *panel; /* packed weights */
    float *sums;  /* a panel of dx after the other, each batch x PANEL */
    float *dy;    /* DEPTH of each sample, in the order of tiles */
    size_t tile;  /* rows of one */
};

/* Lays the samples of a tile side by side, so that they come as one stream. */
static void pack_dy(const struct back *back, size_t row, size_t depth)
{
    const size_t batch = back->p->shape.batch, tile = back->tile;
    for (size_t k = 0; k < batch; k++) {
        const float *from = back->p->dy + k * back->p->shape.rows + row;
        float *to = back->dy + k / tile * tile * depth + k % tile;
        for (size_t i = 0; i < depth; i++)
            to[i * tile] = from[i];
    }
}

static struct part backward_next(const struct dense_shape *shape, const struct part *now)
{
    struct part next = *now;
    next.col += PANEL;
    if (next.col >= shape->cols) {
        next.col = 0;
        next.row += now->rows;
        next.rows = least(DEPTH, shape->rows - next.row);
    }
    next.cols = least(PANEL, shape->cols - next.col);
    return next;
}

/* What one part of the weights adds to dx. Meanwhile the next one is fetched. A part that
 * meets more than one tile is packed by the first. */
static void backward_part(const struct back *back, const struct part *now)
{
    const struct dense_inputs *p = back->p;
    const size_t batch = p->shape.batch, cols = p->shape.cols;
    const struct part next = backward_next(&p->shape, now);
    const float *w = p->w + now->row * cols + now->col;
    struct dense_ahead ahead[2] = {{0}, {0}};
    if (next.rows > 0)
        ahead[0] = ahead_of(p->w + next.row * cols + next.col, next.rows, next.cols, cols);
    const bool whole = now->cols == PANEL;
    if (!whole)
        pack(w, now->rows, now->cols, cols, back->panel);
    struct dense_strip strip = {.a = back->dy,
                                .b = whole ? w : back->panel,
                                .c = back->sums + now->col * batch,
                                .a_row = 1,
                                .a_step = back->tile,
                                .a_tile = back->tile * now->rows,
                                .b_stride = whole ? cols : PANEL,
                                .c_stride = PANEL,
                                .rows = batch,
                                .depth = now->rows,
                                .width = PANEL,
                                .starts = now->row == 0,
                                .packed = whole && batch > back->tile ? back->panel : NULL,
                                .ahead = ahead,
                                .lines = SIZE_MAX / PANEL};
    back->kernel->run(&strip);
}

static void backward_end(const struct back *back)
{
    const size_t batch = back->p->shape.batch, cols = back->p->shape.cols;
    for (size_t col = 0; col < cols; col += PANEL)
        for (size_t k = 0; k < batch; k++)
            memcpy(back->p->dx + k * cols + col, back->sums + (col / PANEL * batch + k) * PANEL,
                   least(PANEL, cols - col) * sizeof(float));
}

void dense_backward(const struct dense_kernel *kernel, const struct dense_inputs *p, float *scratch)
{
    const size_t rows = p->shape.rows, cols = p->shape.cols;
    struct back back = {.kernel = kernel,
                        .p = p,
                        .panel = scratch,
                        .sums = scratch + (size_t)PANEL * DEPTH,
                        .tile = kernel->sums / PANEL};
    back.dy = back.sums + panels(cols) * PANEL * p->shape.batch;
    struct part part = {0, least(DEPTH, rows), 0, least(PANEL, cols)};
    while (part.rows > 0) {
        if (part.col == 0)
            pack_dy(&back, part.row, part.rows);
        backward_part(&back, &part);
        part = backward_next(&p->shape, &part);
    }
    backward_end(&back);
}

/* ---- gradient ---- */

void dense_gradient(const struct dense_kernel *kernel, const struct dense_weights *p,
                    float *scratch)
{
    const size_t batch = p->shape.batch, rows = p->shape.rows, cols = p->shape.cols;
    float *turned = scratch, *panel = turned + batch * rows, *edge = panel + batch * PANEL;
    turn(p->dy, batch, rows, turned, batch);
    for (size_t col = 0; col < cols; col += PANEL) {
        const size_t width = least(PANEL, cols - col);
        pack(p->x + col, batch, width, cols, panel);
        struct dense_strip strip = {.a = turned,
                                    .b = panel,
                                    .c = width == PANEL ? p->g + col : edge,
                                    .a_row = batch,
                                    .a_step = 1,
                                    .a_tile = kernel->sums / PANEL * batch,
                                    .b_stride = PANEL,
                                    .c_stride = width == PANEL ? cols : PANEL,
                                    .rows = rows,
                                    .depth = batch,
                                    .width = PANEL,
                                    .starts = true};
        kernel->run(&strip);
        for (size_t m = 0; width < PANEL && m < rows; m++)
            memcpy(p->g + m * cols + col, edge + m * PANEL, width * sizeof *edge);
    }
}
