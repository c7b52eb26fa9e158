/* No window is ever written out. The text is turned on its side, so that a row holds one of the
 * `width` values of all positions; then what a window has at its j-th position is the same row,
 * j further. The products are strips of dense_kernel.h, positions in vectors. */
#include "math/textconv.h"

#include <math.h>
#include <string.h>

#include "math/dense_kernel.h"

enum { PANEL = DENSE_PANEL, BLOCK_ROWS = 48 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Windows of a text. In the turned texts each begins with window - 1 zeros, which serve the end
 * of the one before, too. */
static size_t windows(const struct textconv_shape *shape)
{
    return shape->length + shape->window - 1;
}

/* Floats of a turned row: the last panel may reach over the end, and a window over that. */
static size_t stride_of(const struct textconv_shape *shape)
{
    const size_t all = shape->batch * windows(shape);
    return (all + PANEL - 1) / PANEL * PANEL + shape->window - 1;
}

size_t textconv_scratch_floats(const struct textconv_shape *shape)
{
    return shape->width * stride_of(shape) + (size_t)BLOCK_ROWS * PANEL;
}

static void turn(const struct textconv_best *p, float *turned)
{
    const struct textconv_shape *s = &p->shape;
    const size_t stride = stride_of(s);
    memset(turned, 0, s->width * stride * sizeof *turned);
    for (size_t k = 0; k < s->batch; k++) {
        float *to = turned + k * windows(s) + s->window - 1;
        const float *from = p->x + k * s->length * s->width;
        for (size_t i = 0; i < s->length; i++, to++)
            for (size_t d = 0; d < s->width; d++)
                to[d * stride] = *from++;
    }
}

/* Some filters along a panel of windows. */
struct block {
    size_t filter, filters;
    size_t first, count; /* windows, of all texts */
};

static size_t tile_rows(const struct dense_kernel *kernel, size_t width)
{
    return width > 0 ? kernel->sums / width : 0;
}

static void answer(const struct dense_kernel *kernel, const struct textconv_best *p,
                   const struct block *block, const float *turned, float *answers)
{
    const struct textconv_shape *s = &p->shape;
    const size_t cols = s->window * s->width;
    const size_t width = (block->count + kernel->step - 1) / kernel->step * kernel->step;
    for (size_t i = 0; i < block->filters; i++)
        for (size_t q = 0; q < width; q++)
            answers[i * PANEL + q] = p->bias[block->filter + i];
    for (size_t j = 0; j < s->window; j++) {
        struct dense_strip strip = {.a = p->w + block->filter * cols + j * s->width,
                                    .b = turned + block->first + j,
                                    .c = answers,
                                    .a_row = cols,
                                    .a_step = 1,
                                    .a_tile = tile_rows(kernel, width) * cols,
                                    .b_stride = stride_of(s),
                                    .c_stride = PANEL,
                                    .rows = block->filters,
                                    .depth = s->width,
                                    .width = width};
        kernel->run(&strip);
    }
}

/* The windows [first, last) of text k, which begin at `from`. */
static void compare(const struct textconv_best *p, size_t place, const float *from, size_t first,
                    size_t last)
{
    float best = first == 0 ? -INFINITY : p->best[place];
    uint32_t at = first == 0 ? 0 : p->at[place];
    for (size_t q = first; q < last; q++) {
        const float x = from[q - first];
        at = x > best ? (uint32_t)q : at;
        best = x > best ? x : best;
    }
    p->best[place] = best;
    p->at[place] = at;
}

static void choose(const struct textconv_best *p, const struct block *block, const float *answers)
{
    const size_t all = windows(&p->shape), end = block->first + block->count;
    for (size_t q = block->first, next; q < end; q = next) {
        const size_t k = q / all;
        next = least((k + 1) * all, end);
        for (size_t i = 0; i < block->filters; i++)
            compare(p, k * p->shape.filters + block->filter + i,
                    answers + i * PANEL + (q - block->first), q - k * all, next - k * all);
    }
}

void textconv_forward(const struct dense_kernel *kernel, const struct textconv_best *p,
                      float *scratch)
{
    const struct textconv_shape *s = &p->shape;
    const size_t all = s->batch * windows(s);
    float *answers = scratch, *turned = scratch + (size_t)BLOCK_ROWS * PANEL;
    turn(p, turned);
    const size_t blocks = (s->filters + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const size_t begin = p->reads == NULL ? p->first / BLOCK_ROWS : 0;
    struct block block;
    for (block.first = 0; block.first < all; block.first += PANEL)
        for (size_t i = 0; i < blocks; i++) {
            block.filter = (begin + i) % blocks * BLOCK_ROWS;
            block.count = least(PANEL, all - block.first);
            block.filters = least(BLOCK_ROWS, s->filters - block.filter);
            if (p->reads != NULL && block.first == 0)
                p->reads(p->ctx, block.filter + block.filters);
            answer(kernel, p, &block, turned, answers);
            choose(p, &block, answers);
        }
}

struct textconv_part textconv_part(const struct textconv_shape *shape, uint32_t at)
{
    const size_t before = shape->window - 1; /* window `before` begins with the text */
    const size_t skipped = at < before ? before - at : 0, begin = at < before ? 0 : at - before;
    const size_t count = least(shape->window - skipped, shape->length - begin);
    return (struct textconv_part){
        .w = skipped * shape->width, .x = begin * shape->width, .floats = count * shape->width};
}

void textconv_row(const struct dense_kernel *kernel, float by, const float *from, float *to,
                  size_t count, bool adds)
{
    kernel->row(by, from, to, count, adds);
}
