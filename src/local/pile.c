/* Steps by factors and by windows. */
#include "local/pile.h"

#include <string.h>

#include "math/product.h"

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- memory ---- */

void pile_size_add(const struct local_layer *layer, size_t cap, struct pile_size *size)
{
    size->cap = most(size->cap, cap);
    size->windows = size->windows || layer->window > 0;
    if (layer->window > 0)
        return;
    size->rows = most(size->rows, layer->rows);
    size->cols = most(size->cols, layer->cols);
}

bool pile_make(const struct mem *mem, const struct pile_size *size, struct pile *pile)
{
    struct pile made = {.cap = size->cap};
    made.u = mem_array(mem, size->cap * size->rows + 1, sizeof *made.u);
    made.v = mem_array(mem, size->cap * size->cols + 1, sizeof *made.v);
    if (size->windows)
        made.windows = mem_array(mem, size->cap + 1, sizeof *made.windows);
    const bool whole = made.u != NULL && made.v != NULL && (!size->windows || made.windows != NULL);
    if (whole)
        *pile = made;
    else
        pile_free(mem, &made);
    return whole;
}

void pile_free(const struct mem *mem, struct pile *pile)
{
    mem_free(mem, pile->u);
    mem_free(mem, pile->v);
    mem_free(mem, pile->windows);
    *pile = (struct pile){0};
}

static size_t scratch_floats(const struct local_job *job, size_t cap)
{
    size_t floats = 0;
    for (uint32_t l = 0; l < job->head->layer_count; l++) {
        const struct local_layer *layer = &job->layers[l];
        for (size_t k = 1; k <= cap && layer->max_factors > 0; k++) {
            const struct dense_shape shape = {.rows = layer->rows, .cols = layer->cols, .batch = k};
            floats = most(floats, inplace_scratch_floats(&shape));
        }
    }
    return floats;
}

bool stepper_make(const struct local_job *job, const struct pile_size *size, struct stepper *out)
{
    struct stepper made = {.kernel = inplace_kernel_at(0)};
    made.u = mem_array(job->mem, size->cap * size->rows + 1, sizeof *made.u);
    made.by = mem_array(job->mem, size->cap + 1, sizeof *made.by);
    made.met = mem_array(job->mem, size->cap + 1, sizeof *made.met);
    made.scratch = mem_array(job->mem, scratch_floats(job, size->cap) + 1, sizeof *made.scratch);
    made.product = mem_array(job->mem, 1, product_scratch_bytes());
    const bool whole = made.u != NULL && made.by != NULL && made.met != NULL &&
                       made.scratch != NULL && made.product != NULL;
    if (whole)
        *out = made;
    else
        stepper_free(job->mem, &made);
    return whole;
}

void stepper_free(const struct mem *mem, struct stepper *stepper)
{
    mem_free(mem, stepper->u);
    mem_free(mem, stepper->by);
    mem_free(mem, stepper->met);
    mem_free(mem, stepper->scratch);
    mem_free(mem, stepper->product);
    *stepper = (struct stepper){0};
}

/* ---- filling ---- */

void pile_add(struct pile *pile, const struct local_layer *layer, const struct local_factors *from,
              size_t count, float rate)
{
    const size_t rows = layer->rows;
    float *u = pile->u + pile->count * rows;
    for (size_t k = 0; k < count && from->at != NULL; k++)
        pile->windows[pile->count + k] = (struct pile_window){
            from->u + k * rows, from->v + k * from->width, from->at + k * rows, rate};
    for (size_t i = 0; i < count * rows && from->at == NULL; i++)
        u[i] = rate * from->u[i];
    if (from->at == NULL)
        memcpy(pile->v + pile->count * from->width, from->v, count * from->width * sizeof(float));
    pile->count += count;
}

/* ---- stepping ---- */

/* One filter, and for each sample the window that it has met. */
static void step_windows(const struct pile *pile, const struct stepper *stepper,
                         const struct local_layer *layer, float *weights, size_t row)
{
    float sum = 0;
    struct inplace_row step = {.w = weights + row * layer->cols,
                               .cols = layer->cols,
                               .x = stepper->met,
                               .by = stepper->by,
                               .alpha = 1,
                               .next =
                                   weights + (row + 1 < layer->rows ? row + 1 : row) * layer->cols};
    for (size_t k = 0; k < pile->count; k++) {
        const struct pile_window *window = &pile->windows[k];
        const float by = window->rate * window->u[row];
        if (by == 0)
            continue;
        stepper->met[step.count] = window->v + window->at[row];
        stepper->by[step.count++] = by;
        sum += by;
    }
    if (step.count == 0)
        return;
    inplace_row(stepper->kernel, &step);
    if (layer->bias > 0)
        weights[(size_t)layer->rows * layer->cols + row] += sum;
}

static void step_factors(const struct pile *pile, const struct stepper *stepper,
                         const struct local_layer *layer, float *weights, size_t row, size_t end)
{
    const size_t rows = end - row;
    for (size_t k = 0; k < pile->count && rows < layer->rows; k++)
        memcpy(stepper->u + k * rows, pile->u + k * layer->rows + row, rows * sizeof(float));
    const struct inplace_dense step = {
        .shape = {.rows = rows, .cols = layer->cols, .batch = pile->count},
        .w = weights + row * layer->cols,
        .bias = layer->bias > 0 ? weights + (size_t)layer->rows * layer->cols + row : NULL,
        .x = pile->v,
        .dy = rows < layer->rows ? stepper->u : pile->u,
        .alpha = 1};
    inplace_dense(stepper->kernel, &step, stepper->scratch);
}

void pile_step(const struct pile *pile, const struct stepper *stepper,
               const struct local_layer *layer, float *weights, size_t row, size_t end)
{
    if (pile->count == 0 || row >= end)
        return;
    if (layer->window == 0)
        step_factors(pile, stepper, layer, weights, row, end);
    for (size_t i = row; i < end && layer->window > 0; i++)
        step_windows(pile, stepper, layer, weights, i);
}

/* ---- many samples ---- */

static struct product_block block_of(const struct pile *pile)
{
    return (struct product_block){.u = pile->u, .v = pile->v, .rows = pile->count};
}

static struct product product_of(const struct product_block *block, const struct local_layer *layer,
                                 float *weights)
{
    return (struct product){.blocks = block,
                            .count = 1,
                            .m = layer->rows,
                            .n = layer->cols,
                            .w = weights,
                            .stride = layer->cols,
                            .alpha = 1};
}

void pile_product(const struct pile *pile, const struct stepper *stepper,
                  const struct local_layer *layer, const float *from, float *weights)
{
    const struct product_block block = block_of(pile);
    struct product product = product_of(&block, layer, weights);
    product.from = from;
    if (pile->count > 0)
        product_add(&product, 0, layer->rows, stepper->product);
    else if (from != weights)
        update_copy(weights, from, (size_t)layer->rows * layer->cols);
}

void pile_product_bias(const struct pile *pile, const struct local_layer *layer, float *bias)
{
    const struct product_block block = block_of(pile);
    const struct product product = product_of(&block, layer, NULL);
    if (layer->bias > 0 && pile->count > 0)
        product_bias(&product, 0, layer->rows, bias);
}

/* Of many samples and no cache's rows a product of two matrices is faster than a pass. */
void pile_step_all(struct pile *pile, const struct stepper *stepper,
                   const struct local_layer *layer, float *weights)
{
    enum { MANY = 8 };
    if (layer->window == 0 && pile->count >= MANY) {
        pile_product(pile, stepper, layer, weights, weights);
        pile_product_bias(pile, layer, weights + (size_t)layer->rows * layer->cols);
    } else {
        pile_step(pile, stepper, layer, weights, 0, layer->rows);
    }
    pile->count = 0;
}
