/* Multiplying factors out, and scattering rows. */
#include "run/forms.h"

#include <string.h>

#include "core/ops.h"
#include "store/floats.h"
#include "store/passes.h"

tri_status forms_init(struct forms *forms, const struct layout *layout, const struct mem *mem,
                      tri_error *err)
{
    *forms = (struct forms){.mem = mem, .layout = layout};
    forms->dense = mem_array(mem, layout->layer_count, sizeof *forms->dense);
    return forms->dense != NULL ? TRI_OK : fail_nomem(err, "gradients");
}

void forms_fini(struct forms *forms)
{
    for (uint32_t i = 0; forms->dense != NULL && i < forms->layout->layer_count; i++)
        floats_free(forms->mem, forms->dense[i]);
    for (int i = 0; i < FORMS_SPARES && forms->mem != NULL; i++)
        mem_free(forms->mem, forms->spares[i]);
    if (forms->mem != NULL)
        mem_free(forms->mem, forms->dense);
    *forms = (struct forms){0};
}

static void *take_scratch(struct forms *forms)
{
    void *scratch = NULL;
    for (int i = 0; i < FORMS_SPARES && scratch == NULL; i++)
        scratch = __atomic_exchange_n(&forms->spares[i], NULL, __ATOMIC_ACQUIRE);
    return scratch != NULL ? scratch : mem_array(forms->mem, 1, product_scratch_bytes());
}

static void put_scratch(struct forms *forms, void *scratch)
{
    for (int i = 0; i < FORMS_SPARES && scratch != NULL; i++)
        scratch = __atomic_exchange_n(&forms->spares[i], scratch, __ATOMIC_ACQ_REL);
    mem_free(forms->mem, scratch);
}

static tri_status multiply(struct forms *forms, const struct layout_layer *shape,
                           const struct update *update, float *dense, tri_error *err)
{
    void *scratch = take_scratch(forms);
    if (scratch == NULL)
        return fail_nomem(err, "a product");
    struct product_block block = {update->u, update->v, update->factor_rows};
    struct ops_factors factors = {.blocks = &block,
                                  .count = update->factor_rows > 0,
                                  .rows = shape->rows,
                                  .cols = shape->cols,
                                  .bias = shape->bias,
                                  .scratch = scratch};
    ops_factor_mean(&factors, dense, 1);
    put_scratch(forms, scratch);
    return TRI_OK;
}

static tri_status scatter(const struct layout_layer *shape, const struct update *update,
                          float *dense, tri_error *err)
{
    for (uint32_t i = 0; i < update->row_count; i++)
        if (update->row_numbers[i] >= shape->rows)
            return fail(err, TRI_EARG, "layer '%.60s' has no row %u, only %u rows", shape->name,
                        (unsigned)update->row_numbers[i], (unsigned)shape->rows);
    memset(dense, 0, (size_t)shape->floats * sizeof *dense);
    for (uint32_t i = 0; i < update->row_count; i++)
        pass_add(dense + (size_t)update->row_numbers[i] * shape->cols,
                 update->row_values + (size_t)i * shape->cols, shape->cols);
    return TRI_OK;
}

tri_status forms_make_dense(struct forms *forms, uint32_t layer, struct update *update,
                            tri_error *err)
{
    const struct layout_layer *shape = &forms->layout->layers[layer];
    if (update->dense != NULL)
        return TRI_OK;
    if (forms->dense[layer] == NULL)
        forms->dense[layer] = floats_new(forms->mem, shape->floats);
    float *dense = forms->dense[layer];
    if (dense == NULL)
        return fail_nomem(err, "a gradient");
    tri_status status = update->u != NULL ? multiply(forms, shape, update, dense, err)
                                          : scatter(shape, update, dense, err);
    update->dense = dense;
    update->dense_bias = shape->bias ? dense + (size_t)shape->rows * shape->cols : NULL;
    return status;
}
