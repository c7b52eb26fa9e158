/* greedy: whole tensors to the least loaded server, in the order of creation. */
#include "mod/placement.h"

static void deal(struct placement_deal *deal)
{
    for (size_t i = 0; i < deal->pieces; i++)
        deal->order[i] = (uint32_t)i;
    placement_least_loaded(deal);
}

const struct placement_ops placement_greedy = {
    .abi = PLACEMENT_ABI,
    .name = "greedy",
    .summary = "whole tensors to the least loaded server, in layer order",
    .cut = PLACEMENT_TENSORS,
    .deal = deal,
};
