/* Reading numbers that have a limit. */
#include "wire/limits.h"

const struct wire_limits wire_widest = {
    .nodes = WIRE_MAX_NODES,
    .workers = WIRE_MAX_RANKS,
    .servers = WIRE_MAX_RANKS,
    .layers = WIRE_MAX_LAYERS,
    .chunks = UINT32_MAX,
    .max_clock = WIRE_MAX_CLOCK,
    .data_bytes = WIRE_MAX_DATA,
    .max_codec = UINT8_MAX,
};

static uint32_t get_below(struct wire_in *in, uint32_t limit, const char *why)
{
    uint32_t value = wire_get_u32(in);
    if (value < limit)
        return value;
    wire_refuse(in, why);
    return 0;
}

uint32_t wire_get_rank(struct wire_in *in, const struct wire_limits *limits)
{
    return get_below(in, limits->workers, "a rank is past the last worker");
}

uint32_t wire_get_node(struct wire_in *in, const struct wire_limits *limits)
{
    return get_below(in, limits->nodes, "a node is past the last one");
}

uint32_t wire_get_owner(struct wire_in *in, const struct wire_limits *limits)
{
    uint32_t owner = wire_get_u32(in);
    if (owner >= limits->servers && owner != WIRE_OWNER_WORKER)
        wire_refuse(in, "an owner is neither a server nor the worker");
    return owner;
}

uint32_t wire_get_layer_number(struct wire_in *in, const struct wire_limits *limits)
{
    return get_below(in, limits->layers, "a layer is past the last one");
}

uint64_t wire_get_clock(struct wire_in *in, const struct wire_limits *limits)
{
    uint64_t clock = wire_get_u64(in);
    if (clock <= limits->max_clock)
        return clock;
    wire_refuse(in, "a clock is past all that can be");
    return 0;
}
