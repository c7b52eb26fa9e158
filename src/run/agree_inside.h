/* What the files of agree share. */
#ifndef TRIDENT_RUN_AGREE_INSIDE_H
#define TRIDENT_RUN_AGREE_INSIDE_H

#include "run/agree.h"
#include "wire/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline struct wire_layer wire_layer_of(const struct agree_layer *layer)
{
    return (struct wire_layer){.name = wire_text_of(layer->name),
                               .kind = (uint8_t)layer->kind,
                               .rows = layer->rows,
                               .cols = layer->cols,
                               .bias = layer->bias ? layer->rows : 0,
                               .max_factor_rows = layer->max_factor_rows};
}

/* Fills agreement->hello, the data of HELLO, and layers_hash, the number that others find in it. */
tri_status agree_write_hello(struct agreement *agreement, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
