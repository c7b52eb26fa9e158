/* round-robin: whole tensors in turn, weight and bias apart, whatever their size. */
#include "mod/placement.h"

const tri_placement_ops placement_round_robin = {
    .abi = TRI_PLACEMENT_ABI,
    .name = "round-robin",
    .summary = "whole tensors in turn, weight and bias apart",
    .cut = TRI_CUT_TENSORS,
    .deal = placement_in_turn,
};
