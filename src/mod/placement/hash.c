/* hash: chunks in layer order go to the servers in turn: even by construction. */
#include "mod/placement.h"

static const tri_option_row options[] = {
    {"chunk", "auto", "size of a chunk; auto follows from latency x rate"},
    {NULL, NULL, NULL},
};

const tri_placement_ops placement_hash = {
    .abi = TRI_PLACEMENT_ABI,
    .name = "hash",
    .summary = "chunks in turn over all servers",
    .options = options,
    .cut = TRI_CUT_CHUNKS,
    .deal = placement_in_turn,
};
