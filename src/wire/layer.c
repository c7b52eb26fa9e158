/* Layers to bytes and back, and what a layer may be. */
#include "wire/layer.h"

#include <assert.h>

const char *wire_layer_wrong(const struct wire_layer *layer)
{
    if (layer->name.len == 0)
        return "a layer has no name";
    if (!wire_text_fits(layer->name))
        return "the name of a layer is longer than 255 bytes or has a control character in it";
    if (layer->kind >= WIRE_LAYER_KINDS)
        return "a layer is of unknown kind";
    if (layer->rows > WIRE_MAX_SIDE || layer->cols > WIRE_MAX_SIDE ||
        layer->max_factor_rows > WIRE_MAX_SIDE)
        return "a side of a layer is over 2147483647";
    if (layer->bias != 0 && layer->bias != layer->rows)
        return "the bias of a layer is neither 0 nor its rows";
    if ((uint64_t)layer->rows * layer->cols + layer->bias > WIRE_MAX_PARAMS)
        return "a layer has more than 2^48 parameters";
    return NULL;
}

void wire_put_layer(struct buf *buf, const struct wire_layer *layer)
{
    assert(wire_layer_wrong(layer) == NULL);
    wire_put_text(buf, layer->name);
    wire_put_u8(buf, layer->kind);
    wire_put_u32(buf, layer->rows);
    wire_put_u32(buf, layer->cols);
    wire_put_u32(buf, layer->bias);
    wire_put_u32(buf, layer->max_factor_rows);
}

struct wire_layer wire_get_layer(struct wire_in *in)
{
    struct wire_layer layer;
    layer.name = wire_get_text(in);
    layer.kind = wire_get_u8(in);
    layer.rows = wire_get_u32(in);
    layer.cols = wire_get_u32(in);
    layer.bias = wire_get_u32(in);
    layer.max_factor_rows = wire_get_u32(in);
    const char *wrong = wire_layer_wrong(&layer);
    if (wrong != NULL)
        wire_refuse(in, wrong);
    return layer;
}

bool wire_layer_next(struct wire_in *list, struct wire_layer *out)
{
    if (list->p == list->end)
        return false;
    *out = wire_get_layer(list);
    return list->failed == NULL;
}
