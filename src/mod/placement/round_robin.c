/* round-robin: whole tensors in turn, weight and bias apart, whatever their size. */
#include "mod/placement.h"

const struct placement_ops placement_round_robin = {
    .abi = PLACEMENT_ABI,
    .name = "round-robin",
    .summary = "whole tensors in turn, weight and bias apart",
    .cut = PLACEMENT_TENSORS,
    .deal = placement_in_turn,
};
