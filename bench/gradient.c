/* From the three forms of a gradient to the dense one. */
#include "bench/gradient.h"

#include <string.h>

#include "math/product.h"

tri_status gradient_open(struct gradient_maker *maker, uint32_t rows, tri_error *err)
{
    *maker = (struct gradient_maker){.scratch = mem_array(&mem_libc, product_scratch_bytes(), 1)};
    bool there = maker->scratch != NULL;
    for (size_t i = 0; i < GRADIENT_PLACES && there; i++) {
        struct gradient_place *place = &maker->places[i];
        place->rows = mem_array(&mem_libc, rows, sizeof *place->rows);
        place->room = rows;
        there = place->rows != NULL;
    }
    if (there)
        return TRI_OK;
    gradient_close(maker);
    return fail_nomem(err, "gradients");
}

void gradient_close(struct gradient_maker *maker)
{
    for (size_t i = 0; i < GRADIENT_PLACES; i++)
        mem_free(&mem_libc, maker->places[i].rows);
    mem_free(&mem_libc, maker->scratch);
    *maker = (struct gradient_maker){0};
}

static void put_factors(struct gradient_maker *maker, const struct param *param, float *to)
{
    const struct product_block block = {param->u, param->v, param->factor_rows};
    const struct product product = {.blocks = &block,
                                    .count = 1,
                                    .m = param->rows,
                                    .n = param->cols,
                                    .w = to,
                                    .stride = param->cols,
                                    .alpha = 1};
    float *bias = to + (size_t)param->rows * param->cols;
    product_store(&product, 0, param->rows, maker->scratch);
    if (param->bias == NULL)
        return;
    memset(bias, 0, param->rows * sizeof *bias);
    product_bias(&product, 0, param->rows, bias);
}

/* The place that begins at `to`, with nothing in it; NULL: there are too many to remember. */
static struct gradient_place *cleared(struct gradient_maker *maker, const struct param *param,
                                      float *to)
{
    const size_t cols = param->cols;
    struct gradient_place *place = maker->places, *end = place + GRADIENT_PLACES;
    while (place < end && place->at != NULL && place->at != to)
        place++;
    if (place == end || place->at == NULL)
        memset(to, 0, param->rows * cols * sizeof *to);
    if (place == end)
        return NULL;
    for (uint32_t i = 0; i < place->count; i++)
        memset(to + place->rows[i] * cols, 0, cols * sizeof *to);
    place->at = to;
    place->count = 0;
    return place;
}

static void put_rows(struct gradient_maker *maker, const struct param *param, float *to)
{
    struct gradient_place *place = cleared(maker, param, to);
    const size_t cols = param->cols;
    for (uint32_t i = 0; i < param->row_count; i++) {
        const float *restrict from = param->row_values + i * cols;
        float *restrict row = to + param->row_numbers[i] * cols;
        for (size_t k = 0; k < cols; k++)
            row[k] += from[k];
    }
    if (place == NULL || param->row_count > place->room) {
        if (place != NULL)
            place->at = NULL; /* and is cleared as a whole the next time */
        return;
    }
    memcpy(place->rows, param->row_numbers, param->row_count * sizeof *place->rows);
    place->count = param->row_count;
}

void gradient_put(struct gradient_maker *maker, const struct param *param, float *to)
{
    const size_t matrix = (size_t)param->rows * param->cols;
    if (param->factor_rows > 0) {
        put_factors(maker, param, to);
    } else if (param->row_numbers != NULL) {
        put_rows(maker, param, to);
    } else {
        memcpy(to, param->dense, matrix * sizeof *to);
        if (param->bias != NULL)
            memcpy(to + matrix, param->dense_bias, param->rows * sizeof *to);
    }
}
