/* lpt: whole tensors, largest first, each to the least loaded server (the thesis's heuristic). */
#include <stdlib.h>

#include "mod/placement.h"

/* Equal sizes keep layer order, so that qsort's instability cannot show. */
static int larger_first(const void *a, const void *b, void *ctx)
{
    const uint64_t *bytes = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (bytes[x] != bytes[y])
        return bytes[x] > bytes[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

static void deal(tri_placement_deal *deal)
{
    for (size_t i = 0; i < deal->pieces; i++)
        deal->order[i] = (uint32_t)i;
    qsort_r(deal->order, deal->pieces, sizeof deal->order[0], larger_first, (void *)deal->bytes);
    placement_least_loaded(deal);
}

const tri_placement_ops placement_lpt = {
    .abi = TRI_PLACEMENT_ABI,
    .name = "lpt",
    .summary = "whole tensors, largest first, to the least loaded server",
    .cut = TRI_CUT_TENSORS,
    .deal = deal,
};
