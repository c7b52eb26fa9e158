/* Cutting the product so that the caches hold what is used again.
 *
 * A pass takes part of k (depth), a block of columns and a block of rows. The
 * packed v of the block stays in the second cache while strip after strip of W
 * runs along it; a strip's u stays in the first. W itself goes by once, a few
 * rows at a time and from left to right, as memory likes it. For a small depth
 * its traffic is the limit. */
#include "math/product.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>

#include "math/product_kernel.h"

/* How much one pass takes at most, as measured best on Zen 3 for k from 32 to 1024;
 * the parts of the scratch memory, in floats, follow. Packed v may fill the whole
 * of a small second cache: narrower blocks pack u more often and lose more. */
enum {
    DEPTH = 256,
    ROWS = 504, /* rounded down to whole strips */
    V_FLOATS = 131072,
    U_FLOATS = ROWS * DEPTH,
    CHAIN_FLOATS = ROWS * (V_FLOATS / DEPTH),
    ALIGN_BYTES = 64,
};

size_t product_scratch_bytes(void)
{
    return sizeof(float) * (V_FLOATS + U_FLOATS + CHAIN_FLOATS) + ALIGN_BYTES;
}

extern const struct product_kernel product_avx512, product_avx2, product_plain;
static const struct product_kernel *const kernels[] = {
#if defined(__x86_64__)
    &product_avx512,
    &product_avx2,
#endif
    &product_plain,
};

const struct product_kernel *product_kernel_at(size_t i)
{
    for (size_t j = 0; j < sizeof kernels / sizeof kernels[0]; j++)
        if (kernels[j]->here() && i-- == 0)
            return kernels[j];
    return NULL;
}

const char *product_kernel_name(const struct product_kernel *kernel)
{
    return kernel->name;
}

struct work {
    const struct product_kernel *kernel;
    const struct product *p;
    enum product_end end;
    size_t depth;          /* rows of the factors in all */
    float *u, *v, *chains; /* parts of the scratch memory */
};

/* What one pass covers. */
struct pass {
    size_t k, depth, col, cols, row, rows;
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

enum factor { U, V };

/* Packs the rows of a pass, wherever the blocks are cut. */
static void pack(const struct work *work, const struct pass *pass, enum factor factor)
{
    const struct product *p = work->p;
    const struct product_kernel *kernel = work->kernel;
    const size_t run = factor == U ? kernel->rows : kernel->cols;
    struct product_rows rows = {
        .len = factor == U ? pass->rows : pass->cols,
        .stride = factor == U ? p->m : p->n,
    };
    float *to = factor == U ? work->u : work->v;
    size_t skip = pass->k, left = pass->depth;
    for (const struct product_block *b = p->blocks; left > 0; b++) {
        size_t from = least(skip, b->rows);
        skip -= from;
        rows.count = least(b->rows - from, left);
        if (rows.count == 0)
            continue;
        rows.at = factor == U ? b->u + from * p->m + pass->row : b->v + from * p->n + pass->col;
        (factor == U ? kernel->pack_u : kernel->pack_v)(&rows, to, run * pass->depth);
        to += rows.count * run;
        left -= rows.count;
    }
}

/* Runs the strips of a pass, from top to bottom. */
static void run_strips(const struct work *work, const struct pass *pass)
{
    const struct product *p = work->p;
    const size_t tile_rows = work->kernel->rows, tile_cols = work->kernel->cols;
    struct product_strip strip = {
        .u = work->u,
        .v = work->v,
        .depth = pass->depth,
        .cols = pass->cols,
        .chains = work->chains,
        .starts = pass->k == 0,
        .ends = pass->k + pass->depth == work->depth,
        .end = work->end,
        .alpha = p->alpha,
        .w = p->w + pass->row * p->stride + pass->col,
        .from = (p->from != NULL ? p->from : p->w) + pass->row * p->stride + pass->col,
        .stride = p->stride,
    };
    for (size_t left = pass->rows; left > 0; left -= strip.rows) {
        strip.rows = least(left, tile_rows);
        work->kernel->strip(&strip);
        strip.u += tile_rows * pass->depth;
        strip.w += tile_rows * p->stride;
        strip.from += tile_rows * p->stride;
        strip.chains += tile_rows * ((pass->cols + tile_cols - 1) / tile_cols * tile_cols);
    }
}

static void run_rows(const struct work *work, struct pass *pass, bool first)
{
    const size_t depth = least(work->depth, DEPTH);
    pass->k = 0;
    do { /* once even if there are no factors: W then gets alpha times 0 */
        pass->depth = least(depth, work->depth - pass->k);
        if (first || depth < work->depth)
            pack(work, pass, V);
        pack(work, pass, U);
        run_strips(work, pass);
        pass->k += pass->depth;
    } while (pass->k < work->depth);
}

static void run(const struct work *work, size_t first, size_t last)
{
    const struct product *p = work->p;
    const size_t depth = least(work->depth, DEPTH);
    const size_t rows = ROWS / work->kernel->rows * work->kernel->rows;
    const size_t tiles = V_FLOATS / (depth > 0 ? depth : 1) / work->kernel->cols;
    const size_t cols = tiles * work->kernel->cols;
    struct pass pass;
    for (pass.col = 0; pass.col < p->n; pass.col += cols) {
        pass.cols = least(cols, p->n - pass.col);
        for (pass.row = first; pass.row < last; pass.row += rows) {
            pass.rows = least(rows, last - pass.row);
            run_rows(work, &pass, pass.row == first);
        }
    }
}

/* Of all of u and v, so that it does not matter how the rows of W are dealt to threads. */
static bool is_sparse(const struct work *work)
{
    const struct product *p = work->p;
    if (work->kernel->sparse == NULL || work->depth < SPARSE_LEAST || work->depth > SPARSE_DEPTH)
        return false;
    for (size_t i = 0; i < p->count; i++)
        if (!sparse_pays(p->blocks[i].u, p->blocks[i].rows * p->m, SPARSE_MOST) ||
            !sparse_may(p->blocks[i].v, p->blocks[i].rows * p->n))
            return false;
    return true;
}

void product_with(const struct product_kernel *kernel, const struct product *p,
                  enum product_end end, size_t first, size_t last, void *scratch)
{
    assert(first <= last && last <= p->m && p->stride >= p->n);
    struct work work = {.kernel = kernel, .p = p, .end = end};
    for (size_t i = 0; i < p->count; i++)
        work.depth += p->blocks[i].rows;
    uintptr_t off = (uintptr_t)scratch % ALIGN_BYTES;
    work.v = (float *)(void *)((char *)scratch + (off > 0 ? ALIGN_BYTES - off : 0));
    work.u = work.v + V_FLOATS;
    work.chains = work.u + U_FLOATS;
    if (is_sparse(&work))
        sparse_product(kernel->sparse, p, end, first, last, work.v);
    else
        run(&work, first, last);
}

/* Plain runs everywhere, so that the list is never empty; the analyser cannot know. */
static const struct product_kernel *best(void)
{
    const struct product_kernel *kernel = product_kernel_at(0);
    return kernel != NULL ? kernel : &product_plain;
}

void product_add(const struct product *p, size_t first, size_t last, void *scratch)
{
    product_with(best(), p, PRODUCT_ADD, first, last, scratch);
}

void product_store(const struct product *p, size_t first, size_t last, void *scratch)
{
    product_with(best(), p, PRODUCT_STORE, first, last, scratch);
}

void product_bias(const struct product *p, size_t first, size_t last, float *bias)
{
    assert(first <= last && last <= p->m);
    enum { AT_ONCE = 256 };
    float sums[AT_ONCE];
    for (size_t at = first, count; at < last; at += count) {
        count = least(AT_ONCE, last - at);
        for (size_t i = 0; i < count; i++)
            sums[i] = 0;
        for (size_t b = 0; b < p->count; b++)
            for (size_t k = 0; k < p->blocks[b].rows; k++) {
                const float *u = p->blocks[b].u + k * p->m + at;
                for (size_t i = 0; i < count; i++)
                    sums[i] += u[i];
            }
        for (size_t i = 0; i < count; i++)
            bias[at + i] = fmaf(p->alpha, sums[i], bias[at + i]);
    }
}
