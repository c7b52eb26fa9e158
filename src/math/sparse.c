/* Cutting the products so that a panel stays in the first cache.
 *
 * Backward: a panel is SPARSE_DEPTH rows of the weights, packed, and meets all samples before the
 * next. Product: a panel is some columns of all of v, and SPARSE_ROWS rows of W go along it
 * before those along the next: few enough that rows a power of two apart do not drive each other
 * out of the second cache, between their fetching and their use. */
#include "math/sparse.h"

#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

bool sparse_pays(const float *values, size_t count, size_t most)
{
    size_t others = 0;
    for (size_t i = 0; i < count; i++)
        others += values[i] != 0;
    return others <= count / 100 * most;
}

bool sparse_may(const float *values, size_t count)
{
    const uint32_t exponent = 0x7f800000;
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        finite &= (bits & exponent) != exponent;
    }
    return finite;
}

static size_t lines(size_t floats)
{
    return (floats + SPARSE_LINE - 1) / SPARSE_LINE;
}

/* A panel of fewer columns than it is wide is filled up with zeros. */
static void pack_part(const float *from, size_t stride, size_t rows, size_t cols, float *panel,
                      size_t width)
{
    for (size_t i = 0; i < rows; i++, from += stride, panel += width) {
        memcpy(panel, from, cols * sizeof *panel);
        memset(panel + cols, 0, (width - cols) * sizeof *panel);
    }
}

static void pack_panel(const struct sparse_kernel *kernel, const float *from, size_t stride,
                       size_t rows, size_t cols, float *panel)
{
    if (cols < kernel->width)
        pack_part(from, stride, rows, cols, panel, kernel->width);
    else
        kernel->pack(from, stride, rows, panel);
}

uint32_t sparse_terms(const float *values, size_t step, size_t count, size_t width,
                      struct sparse_term *terms)
{
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const float by = values[i * step];
        terms[found] = (struct sparse_term){by, (uint32_t)(i * width)};
        found += by != 0;
    }
    return found;
}

/* ---- backward ---- */

/* Where things are: parts of the scratch memory. */
struct back {
    const struct sparse_kernel *kernel;
    const struct dense_inputs *p;
    float *panel, *sums; /* sums: a panel of dx after the other, each batch x width */
    struct sparse_term *terms;
    uint32_t *counts;
};

enum { TERM_FLOATS = sizeof(struct sparse_term) / sizeof(float) };

size_t sparse_backward_floats(const struct dense_shape *shape)
{
    return (size_t)SPARSE_DEPTH * SPARSE_WIDTH + (shape->cols + SPARSE_WIDTH) * shape->batch +
           shape->batch * ((size_t)SPARSE_DEPTH * TERM_FLOATS + 1);
}

/* One panel of `rows` rows, from `row` and `col` on. What is fetched: the panel beside it. */
static void backward_panel(const struct back *back, size_t row, size_t rows, size_t col)
{
    const struct dense_shape *shape = &back->p->shape;
    const size_t width = back->kernel->width, cols = shape->cols, batch = shape->batch;
    const float *w = back->p->w + row * cols + col;
    const bool last = col + width >= cols;
    pack_panel(back->kernel, w, cols, rows, least(width, cols - col), back->panel);
    const struct sparse_strip strip = {.terms = back->terms,
                                       .counts = back->counts,
                                       .rows = batch,
                                       .panel = back->panel,
                                       .to = back->sums + col / width * batch * width,
                                       .stride = width,
                                       .ahead = (uintptr_t)(last ? w : w + width),
                                       .ahead_stride_bytes = cols * sizeof(float),
                                       .ahead_rows = last ? 0 : (rows + batch - 1) / batch,
                                       .ahead_lines = lines(width)};
    back->kernel->go_on(&strip);
}

static void backward_end(const struct back *back)
{
    const struct dense_shape *shape = &back->p->shape;
    const size_t width = back->kernel->width, cols = shape->cols, batch = shape->batch;
    for (size_t col = 0; col < cols; col += width)
        for (size_t k = 0; k < batch; k++)
            memcpy(back->p->dx + k * cols + col, back->sums + col * batch + k * width,
                   least(width, cols - col) * sizeof(float));
}

void sparse_backward(const struct sparse_kernel *kernel, const struct dense_inputs *p,
                     float *scratch)
{
    const size_t batch = p->shape.batch, cols = p->shape.cols, width = kernel->width;
    struct back back = {.kernel = kernel, .p = p, .panel = scratch};
    back.sums = back.panel + SPARSE_DEPTH * width;
    float *terms = back.sums + (cols + width - 1) / width * width * batch;
    back.terms = (struct sparse_term *)(void *)terms;
    back.counts = (uint32_t *)(void *)(terms + batch * SPARSE_DEPTH * TERM_FLOATS);
    memset(back.sums, 0, (cols + width - 1) / width * width * batch * sizeof(float));
    for (size_t row = 0, rows; row < p->shape.rows; row += rows) {
        rows = least(SPARSE_DEPTH, p->shape.rows - row);
        for (size_t k = 0; k < batch; k++)
            back.counts[k] = sparse_terms(p->dy + k * p->shape.rows + row, 1, rows, width,
                                          back.terms + k * SPARSE_DEPTH);
        for (size_t col = 0; col < cols; col += width)
            backward_panel(&back, row, rows, col);
    }
    backward_end(&back);
}

/* ---- product ---- */

/* Where things are: parts of the scratch memory. */
struct work {
    const struct sparse_kernel *kernel;
    const struct product *p;
    enum product_end end;
    float *panels; /* of v, for the columns of a pass */
    float *edge;   /* of W, where a panel sticks out */
    struct sparse_term *terms;
    uint32_t *counts;
};

enum { PANELS_FLOATS = 131072 }; /* the whole of a small second cache, as product.c has it */

size_t sparse_product_floats(void)
{
    return PANELS_FLOATS + (size_t)SPARSE_ROWS * (SPARSE_WIDTH + SPARSE_DEPTH * TERM_FLOATS + 1);
}

static void pack_v(const struct work *work, size_t col, size_t cols, size_t depth)
{
    const struct product *p = work->p;
    const size_t width = work->kernel->width;
    float *panel = work->panels;
    for (size_t at = 0; at < cols; at += width, panel += depth * width) {
        float *to = panel;
        for (size_t b = 0; b < p->count; b++) {
            const struct product_block *block = &p->blocks[b];
            if (block->rows == 0)
                continue;
            pack_panel(work->kernel, block->v + col + at, p->n, block->rows,
                       least(width, cols - at), to);
            to += block->rows * width;
        }
    }
}

static void find_u(const struct work *work, size_t row, size_t rows)
{
    const struct product *p = work->p;
    const size_t width = work->kernel->width;
    memset(work->counts, 0, rows * sizeof *work->counts);
    uint32_t at = 0;
    for (size_t b = 0; b < p->count; b++)
        for (size_t k = 0; k < p->blocks[b].rows; k++, at += (uint32_t)width) {
            const float *u = p->blocks[b].u + k * p->m + row;
            struct sparse_term *terms = work->terms;
            for (size_t i = 0; i < rows; i++, terms += SPARSE_DEPTH) {
                terms[work->counts[i]] = (struct sparse_term){u[i], at};
                work->counts[i] += u[i] != 0;
            }
        }
}

/* As many columns as a panel has and W not are computed beside it, and copied. */
static void product_edge(const struct work *work, struct sparse_strip strip, size_t cols)
{
    const size_t width = work->kernel->width, stride = strip.stride;
    float *w = strip.to;
    if (work->end == PRODUCT_ADD)
        pack_part(strip.from, stride, strip.rows, cols, work->edge, width);
    strip.to = work->edge;
    strip.from = work->edge;
    strip.stride = width;
    strip.ahead_rows = 0;
    (work->end == PRODUCT_ADD ? work->kernel->add : work->kernel->store)(&strip);
    for (size_t i = 0; i < strip.rows; i++)
        memcpy(w + i * stride, work->edge + i * width, cols * sizeof *w);
}

/* `rows` rows of W from `row` on, along all panels of a pass. */
static void product_rows(const struct work *work, size_t row, size_t rows, size_t col, size_t cols,
                         size_t depth)
{
    const struct product *p = work->p;
    const size_t width = work->kernel->width, bytes = p->stride * sizeof(float);
    for (size_t at = 0; at < cols; at += width) {
        const size_t place = row * p->stride + col + at;
        const float *from = (p->from != NULL ? p->from : p->w) + place;
        const struct sparse_strip strip = {.terms = work->terms,
                                           .counts = work->counts,
                                           .rows = rows,
                                           .panel = work->panels + at * depth,
                                           .to = p->w + place,
                                           .from = from,
                                           .stride = p->stride,
                                           .alpha = p->alpha,
                                           .ahead = (uintptr_t)from + SPARSE_AHEAD * bytes,
                                           .ahead_then = (uintptr_t)from + width * sizeof(float),
                                           .ahead_stride_bytes = bytes,
                                           .ahead_rows = 1,
                                           .ahead_lines = lines(width),
                                           .turn = SPARSE_AHEAD};
        if (cols - at < width)
            product_edge(work, strip, cols - at);
        else if (work->end == PRODUCT_ADD)
            work->kernel->add(&strip);
        else
            work->kernel->store(&strip);
    }
}

void sparse_product(const struct sparse_kernel *kernel, const struct product *p,
                    enum product_end end, size_t first, size_t last, float *scratch)
{
    size_t depth = 0;
    for (size_t b = 0; b < p->count; b++)
        depth += p->blocks[b].rows;
    struct work work = {.kernel = kernel, .p = p, .end = end, .panels = scratch};
    work.edge = work.panels + PANELS_FLOATS;
    work.terms = (struct sparse_term *)(void *)(work.edge + (size_t)SPARSE_ROWS * SPARSE_WIDTH);
    work.counts = (uint32_t *)(void *)(work.terms + (size_t)SPARSE_ROWS * SPARSE_DEPTH);
    if (depth == 0)
        return;
    const size_t most = PANELS_FLOATS / depth / kernel->width * kernel->width;
    for (size_t col = 0, cols; col < p->n; col += cols) {
        cols = least(most, p->n - col);
        pack_v(&work, col, cols, depth);
        for (size_t row = first, rows; row < last; row += rows) {
            rows = least(SPARSE_ROWS, last - row);
            find_u(&work, row, rows);
            product_rows(&work, row, rows, col, cols, depth);
        }
    }
}
