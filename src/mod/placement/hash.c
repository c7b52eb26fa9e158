/* hash: chunks in layer order go to the servers in turn: even by construction. */
#include <stddef.h>

#include "mod/placement.h"

static const struct mod_option options[] = {
    {"chunk", "auto", "size of a chunk; auto follows from latency x rate"},
    {NULL, NULL, NULL},
};

const struct placement_ops placement_hash = {
    .abi = PLACEMENT_ABI,
    .name = "hash",
    .summary = "chunks in turn over all servers",
    .options = options,
    .cut = PLACEMENT_CHUNKS,
    .deal = placement_in_turn,
};
