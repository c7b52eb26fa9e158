/* Where factors lie, and how they become a product. */
#include "store/factors.h"

size_t store_slot_floats(const struct layout_layer *layer)
{
    return (size_t)layer->factor_rows * (layer->rows + (size_t)layer->cols);
}

struct store_factors store_slot_at(const struct layout_layer *layer, float *slots, size_t number)
{
    float *u = slots + number * store_slot_floats(layer);
    return (struct store_factors){u, u + (size_t)layer->factor_rows * layer->rows};
}

struct store_runs store_slot_runs(const struct layout_layer *layer, float *slots, size_t number,
                                  struct core_ref ref)
{
    struct store_factors slot = store_slot_at(layer, slots, number);
    return (struct store_runs){
        .at = {slot.u + ref.first * layer->rows, slot.v + ref.first * layer->cols},
        .count = {ref.count * layer->rows, ref.count * layer->cols}};
}

/* Scratch memory: a block for each rank, then what the product takes. */
static size_t blocks_bytes(const struct layout *layout)
{
    return layout->workers * sizeof(struct product_block);
}

size_t store_scratch_bytes(const struct layout *layout)
{
    return blocks_bytes(layout) + product_scratch_bytes();
}

struct ops_factors store_blocks(const struct layout *layout, const struct layout_layer *layer,
                                float *slots, const uint32_t *rows, void *scratch)
{
    struct product_block *blocks = scratch;
    size_t count = 0;
    for (uint32_t r = 0; r < layout->workers; r++) {
        struct store_factors slot = store_slot_at(layer, slots, r);
        if (rows[r] > 0)
            blocks[count++] = (struct product_block){slot.u, slot.v, rows[r]};
    }
    return (struct ops_factors){.blocks = blocks,
                                .count = count,
                                .rows = layer->rows,
                                .cols = layer->cols,
                                .bias = layer->bias,
                                .scratch = (char *)scratch + blocks_bytes(layout)};
}
