/* uniform: every tensor is split over all servers; for small tensors that means many tiny messages.
 */
#include "mod/placement.h"

const tri_placement_ops placement_uniform = {
    .abi = TRI_PLACEMENT_ABI,
    .name = "uniform",
    .summary = "every tensor split evenly over all servers",
    .cut = TRI_CUT_EVENLY,
    .deal = placement_in_turn,
};
