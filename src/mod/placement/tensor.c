/* tensor: a layer's parameters whole, in turn: one variable per layer, as stock TensorFlow dealt
 * them out. */
#include "mod/placement.h"

const struct placement_ops placement_tensor = {
    .abi = PLACEMENT_ABI,
    .name = "tensor",
    .summary = "whole layers in turn, as stock TensorFlow did",
    .cut = PLACEMENT_LAYERS,
    .deal = placement_in_turn,
};
