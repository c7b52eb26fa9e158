/* greedy: whole tensors to the least loaded server, in the order of creation. */
#include "mod/placement.h"

static void deal(tri_placement_deal *deal)
{
    for (size_t i = 0; i < deal->pieces; i++)
        deal->order[i] = (uint32_t)i;
    placement_least_loaded(deal);
}

const tri_placement_ops placement_greedy = {
    .abi = TRI_PLACEMENT_ABI,
    .name = "greedy",
    .summary = "whole tensors to the least loaded server, in layer order",
    .cut = TRI_CUT_TENSORS,
    .deal = deal,
};
