/* tensor: a layer's parameters whole, in turn: one variable per layer, as stock TensorFlow dealt
 * them out. */
#include "mod/placement.h"

const tri_placement_ops placement_tensor = {
    .abi = TRI_PLACEMENT_ABI,
    .name = "tensor",
    .summary = "whole layers in turn, as stock TensorFlow did",
    .cut = TRI_CUT_LAYERS,
    .deal = placement_in_turn,
};
