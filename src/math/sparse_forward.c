/* Forward without the zeros of the samples.
 *
 * What a zero of a sample is multiplied with is a column of the weights, so they are turned on
 * their side: part by part, `width` rows of them by SPARSE_PART columns, while the part before
 * meets the samples. A part is turned a few rows at a time, which are fetched just before: rows a
 * power of two apart share few places of the second cache, and drive each other out. */
#include <string.h>

#include "math/sparse.h"

enum { DEPTH = SPARSE_DEPTH, PART = SPARSE_PART, SUBS = PART / DEPTH };

/* Where things are: parts of the scratch memory. */
struct fore {
    const struct sparse_kernel *kernel;
    const struct dense_outputs *p;
    float *panels[2]; /* turned weights: the part at hand, and the next */
    float *sums;      /* a panel of outputs after the other, each batch x width */
    struct sparse_term *terms;
    uint32_t *counts; /* of DEPTH inputs of a sample each, sample by sample, then the next DEPTH */
    size_t across;    /* parts side by side */
    size_t parts;     /* in all */
};

enum { TERM_FLOATS = sizeof(struct sparse_term) / sizeof(float) };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t panels(size_t count, size_t width)
{
    return (count + width - 1) / width;
}

bool sparse_forward_fits(const struct sparse_kernel *kernel, const struct dense_shape *shape)
{
    return shape->batch >= SPARSE_LEAST && shape->rows >= kernel->width && shape->cols >= PART &&
           shape->cols % DEPTH == 0;
}

size_t sparse_forward_floats(const struct dense_shape *shape)
{
    return (size_t)2 * PART * SPARSE_WIDTH + (shape->rows + SPARSE_WIDTH) * shape->batch +
           shape->batch * (shape->cols * TERM_FLOATS + shape->cols / DEPTH);
}

/* Where panel i begins: the last one lies over the one before it rather than stick out. */
static size_t first_row(const struct fore *fore, size_t i)
{
    return least(i * fore->kernel->width, fore->p->shape.rows - fore->kernel->width);
}

static size_t first_col(const struct fore *fore, size_t part)
{
    return least(part % fore->across * PART, fore->p->shape.cols - PART);
}

/* The weights of a part; past the last, of the last. */
static const float *part_at(const struct fore *fore, size_t part)
{
    part = least(part, fore->parts - 1);
    return fore->p->w + first_row(fore, part / fore->across) * fore->p->shape.cols +
           first_col(fore, part);
}

static void turn_group(const struct fore *fore, size_t part, size_t group)
{
    const size_t cols = fore->p->shape.cols, row = group * fore->kernel->turn_rows;
    if (part < fore->parts)
        fore->kernel->turn(part_at(fore, part) + row * cols, cols, fore->panels[part % 2] + row);
}

/* Some samples along some inputs: steps `from` to `to` - 1 of a part, which go from sample to
 * sample and then to the next DEPTH inputs. The weights at `ahead` are fetched meanwhile. */
static void run_steps(const struct fore *fore, size_t part, size_t from, size_t to,
                      const float *ahead)
{
    const struct sparse_kernel *kernel = fore->kernel;
    const size_t batch = fore->p->shape.batch, width = kernel->width;
    const size_t first = first_col(fore, part) / DEPTH,
                 skipped = part % fore->across * SUBS - first;
    const size_t bytes = fore->p->shape.cols * sizeof *ahead;
    const size_t ahead_rows = panels(kernel->turn_rows, to - from);
    for (size_t rows, fetched = 0; from < to; from += rows, fetched += rows * ahead_rows) {
        const size_t sub = skipped + from / batch, k = from % batch;
        const size_t at = (first + sub) * batch + k;
        rows = least(to - from, batch - k);
        const struct sparse_strip strip = {.terms = fore->terms + at * DEPTH,
                                           .counts = fore->counts + at,
                                           .rows = rows,
                                           .panel = fore->panels[part % 2] + sub * DEPTH * width,
                                           .to = fore->sums +
                                                 (part / fore->across * batch + k) * width,
                                           .stride = width,
                                           .ahead = (uintptr_t)ahead + fetched * bytes,
                                           .ahead_stride_bytes = bytes,
                                           .ahead_rows = ahead_rows,
                                           .ahead_lines = PART / SPARSE_LINE};
        kernel->go_on(&strip);
    }
}

static void run_part(const struct fore *fore, size_t part)
{
    const size_t width = fore->kernel->width, turn_rows = fore->kernel->turn_rows;
    const size_t groups = width / turn_rows, cols = fore->p->shape.cols;
    const size_t skipped = part % fore->across * SUBS - first_col(fore, part) / DEPTH;
    const size_t steps = (SUBS - skipped) * fore->p->shape.batch;
    for (size_t g = 0; g < groups; g++) {
        const float *ahead = g + 1 < groups ? part_at(fore, part + 1) + (g + 1) * turn_rows * cols
                                            : part_at(fore, part + 2);
        turn_group(fore, part + 1, g);
        run_steps(fore, part, steps * g / groups, steps * (g + 1) / groups, ahead);
    }
}

static void begin(const struct fore *fore)
{
    const struct dense_outputs *p = fore->p;
    const size_t batch = p->shape.batch, cols = p->shape.cols, width = fore->kernel->width;
    for (size_t c = 0; c < cols / DEPTH; c++)
        for (size_t k = 0; k < batch; k++) {
            const size_t at = c * batch + k;
            fore->counts[at] = sparse_terms(p->x + k * cols + c * DEPTH, 1, DEPTH, width,
                                            fore->terms + at * DEPTH);
        }
    for (size_t i = 0; i < panels(p->shape.rows, width) * batch; i++) {
        float *sums = fore->sums + i * width;
        if (p->bias != NULL)
            memcpy(sums, p->bias + first_row(fore, i / batch), width * sizeof *sums);
        else
            memset(sums, 0, width * sizeof *sums);
    }
}

static void end(const struct fore *fore)
{
    const struct dense_shape *shape = &fore->p->shape;
    const size_t width = fore->kernel->width;
    for (size_t i = 0; i < panels(shape->rows, width) * shape->batch; i++)
        memcpy(fore->p->y + i % shape->batch * shape->rows + first_row(fore, i / shape->batch),
               fore->sums + i * width, width * sizeof(float));
}

void sparse_forward(const struct sparse_kernel *kernel, const struct dense_outputs *p,
                    float *scratch)
{
    const size_t batch = p->shape.batch, width = kernel->width, rows = panels(p->shape.rows, width);
    struct fore fore = {.kernel = kernel,
                        .p = p,
                        .panels = {scratch, scratch + (size_t)PART * width},
                        .sums = scratch + (size_t)2 * PART * width,
                        .across = panels(p->shape.cols, PART)};
    fore.parts = rows * fore.across;
    float *terms = fore.sums + rows * width * batch;
    fore.terms = (struct sparse_term *)(void *)terms;
    fore.counts = (uint32_t *)(void *)(terms + batch * p->shape.cols * TERM_FLOATS);
    begin(&fore);
    for (size_t g = 0; g < width / kernel->turn_rows; g++)
        turn_group(&fore, 0, g);
    for (size_t i = 0; i < fore.parts; i++)
        run_part(&fore, i);
    end(&fore);
}
