/* Cutting the products so that the caches hold what is used again.
 *
 * All three are c = a b, computed strip by strip: some rows of a, along a panel of b
 * that is at most DENSE_PANEL columns wide, DEPTH rows deep and packed together, which
 * is what the first cache holds. Forward: a is the weights, b the samples turned on their
 * side. Backward: a is dy, b a panel of the weights. Gradient: a is dy turned, b is x.
 *
 * The weights that come next are fetched meanwhile, only just in time: rows that lie a
 * power of two apart share few places of the second cache, and drive each other out. So
 * backward, which needs each panel many times, packs the next ones between its links. */
#include "math/dense.h"

#include <string.h>

#include "math/dense_kernel.h"

/* Measured best on Zen 3. DEPTH x DENSE_PANEL floats are 24 KiB of a first cache of 32;
 * BLOCK_ROWS x DEPTH floats of weights, which meet all samples, are 72 KiB of the second, and so
 * are DEPTH x PART_COLS of backward, which are there twice: whole panels of any kernel. */
enum {
    PANEL = DENSE_PANEL,
    DEPTH = 192,
    BLOCK_ROWS = 96,
    PART_COLS = 96,
    AHEAD_ROWS = 24, /* how far ahead forward fetches weights */
    NEAR_ROWS = 12,  /* and backward, before it packs them */
    TURN = 4,
};

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
        (size_t)2 * PART_COLS * DEPTH + (shape->cols + PANEL) * batch + (batch + PANEL) * DEPTH;
    size_t gradient = batch * shape->rows + (size_t)PANEL * (batch + shape->rows);
    return most(most(most(forward, sparse_forward_floats(shape)), sparse_backward_floats(shape)),
                most(backward, gradient));
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
    const size_t line_bytes = DENSE_LINE * sizeof(float), stride_bytes = stride * sizeof(float);
    const uintptr_t from = (uintptr_t)first / line_bytes * line_bytes;
    const uintptr_t end = (uintptr_t)first + cols * sizeof(float);
    const size_t lines = (end - from + line_bytes - 1) / line_bytes;
    return (struct dense_ahead){.at = from,
                                .end = end,
                                .skip_bytes = stride_bytes - lines * line_bytes,
                                .stride_bytes = stride_bytes,
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
    if (next->rows > 0 && next->cols > 0)
        ahead[0] = ahead[1] = ahead_of(w + next->row * stride + next->col,
                                       least(AHEAD_ROWS, next->rows), next->cols, stride);
    if (skip < now->rows) {
        ahead[0] = ahead_of(w + (now->row + skip) * stride + now->col, now->rows - skip, now->cols,
                            stride);
        ahead[0].then = &ahead[1];
    }
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
                                        .ahead = ahead,
                                        .lines = g == 0 ? DEPTH / DENSE_LINE + 1 : 0};
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
    if (kernel->sparse != NULL && sparse_forward_fits(kernel->sparse, &p->shape) &&
        sparse_pays(p->x, batch * cols, SPARSE_FORWARD_MOST)) {
        sparse_forward(kernel->sparse, p, scratch);
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
    float *panels[2]; /* packed weights: the part at hand, and the next */
    float *sums;      /* a panel of dx after the other, each batch x its width */
    float *dy;        /* DEPTH of each sample, in the order of tiles */
    bool packs;
    size_t width; /* of a panel */
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
    next.col += PART_COLS;
    if (next.col >= shape->cols) {
        next.col = 0;
        next.row += now->rows;
        next.rows = least(DEPTH, shape->rows - next.row);
    }
    next.cols = least(PART_COLS, shape->cols - next.col);
    return next;
}

/* Weights that meet one tile of samples only are read where they are, by run(). */
static bool packs(const struct dense_kernel *kernel, size_t batch)
{
    return batch > kernel->sums / PANEL;
}

static struct dense_pack pack_of(const struct back *back, const struct part *part, float *to)
{
    const size_t cols = back->p->shape.cols, panels = part->cols / back->width;
    return (struct dense_pack){.from = back->p->w + part->row * cols + part->col,
                               .to = to,
                               .stride = cols,
                               .near_bytes = NEAR_ROWS * cols * sizeof(float),
                               .depth = part->rows,
                               .panels = panels,
                               .rows = panels > 0 && back->packs ? part->rows : 0};
}

/* Packs what is left, then the panel at the edge, filled up with zeros. */
static void pack_rest(const struct back *back, const struct part *part, struct dense_pack *pack,
                      float *to)
{
    const size_t width = back->width;
    for (; pack->rows > 0; dense_pack_next(pack, width))
        memcpy(pack->to, pack->from, width * sizeof *to);
    const size_t whole = pack->panels * width, left = part->cols - whole;
    const float *from = back->p->w + part->row * pack->stride + part->col + whole;
    to += whole * part->rows;
    for (size_t i = 0; left > 0 && i < part->rows; i++, from += pack->stride, to += width) {
        memcpy(to, from, left * sizeof *to);
        memset(to + left, 0, (width - left) * sizeof *to);
    }
}

/* What one panel of a part of the weights adds to dx: as it is, or packed. */
static struct dense_strip backward_strip(const struct back *back, const struct part *now,
                                         size_t col, const float *panels)
{
    const size_t batch = back->p->shape.batch, cols = back->p->shape.cols, width = back->width;
    const bool packed = back->packs || now->cols - col < width;
    const float *w = back->p->w + now->row * cols + now->col;
    return (struct dense_strip){.a = back->dy,
                                .b = packed ? panels + col * now->rows : w + col,
                                .c = back->sums + (now->col + col) * batch,
                                .a_row = 1,
                                .a_step = back->tile,
                                .a_tile = back->tile * now->rows,
                                .b_stride = packed ? width : cols,
                                .c_stride = width,
                                .rows = batch,
                                .depth = now->rows,
                                .width = width,
                                .starts = now->row == 0};
}

static void backward_part(const struct back *back, const struct part *now, const float *panels,
                          struct dense_pack *next)
{
    const size_t cols = back->p->shape.cols;
    for (size_t col = 0; col < now->cols; col += back->width) {
        struct dense_strip strip = backward_strip(back, now, col, panels);
        const size_t at = now->col + col + back->width;
        struct dense_ahead ahead = {0};
        strip.pack = next;
        strip.ahead = &ahead;
        strip.lines = SIZE_MAX / PANEL;
        if (!back->packs && at < cols)
            ahead = ahead_of(back->p->w + now->row * cols + at, now->rows,
                             least(back->width, cols - at), cols);
        (back->packs ? back->kernel->run_back : back->kernel->run)(&strip);
    }
}

static void backward_end(const struct back *back)
{
    const size_t batch = back->p->shape.batch, cols = back->p->shape.cols, width = back->width;
    for (size_t col = 0; col < cols; col += width)
        for (size_t k = 0; k < batch; k++)
            memcpy(back->p->dx + k * cols + col, back->sums + col * batch + k * width,
                   least(width, cols - col) * sizeof(float));
}

void dense_backward(const struct dense_kernel *kernel, const struct dense_inputs *p, float *scratch)
{
    const size_t rows = p->shape.rows, cols = p->shape.cols;
    if (kernel->sparse != NULL && p->shape.batch >= SPARSE_LEAST &&
        sparse_pays(p->dy, p->shape.batch * rows, SPARSE_MOST)) {
        sparse_backward(kernel->sparse, p, scratch);
        return;
    }
    struct back back = {.kernel = kernel,
                        .p = p,
                        .panels = {scratch, scratch + (size_t)PART_COLS * DEPTH},
                        .sums = scratch + (size_t)2 * PART_COLS * DEPTH,
                        .packs = packs(kernel, p->shape.batch)};
    back.width = back.packs ? kernel->back : (size_t)PANEL;
    back.tile = kernel->sums / back.width;
    back.dy = back.sums + (cols + PANEL) * p->shape.batch;
    struct part part = {0, least(DEPTH, rows), 0, least(PART_COLS, cols)};
    struct dense_pack pack = pack_of(&back, &part, back.panels[0]);
    for (size_t i = 0; part.rows > 0; i ^= 1) {
        const struct part next = backward_next(&p->shape, &part);
        pack_rest(&back, &part, &pack, back.panels[i]);
        pack = pack_of(&back, &next, back.panels[i ^ 1]);
        if (part.col == 0)
            pack_dy(&back, part.row, part.rows);
        backward_part(&back, &part, back.panels[i], &pack);
        part = next;
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
