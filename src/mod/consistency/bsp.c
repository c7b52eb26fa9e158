/* bsp: bulk synchronous. An iteration begins with all updates of all ranks before it, and no
 * others. */
#include "trident/module.h"

static uint64_t client_sync(const tri_consistency *self, uint64_t clock)
{
    (void)self;
    return clock;
}

static bool after_update(const tri_consistency *self, uint64_t clock, uint64_t version)
{
    (void)self;
    return version == clock;
}

static bool after_push(const tri_consistency *self, uint32_t in, uint32_t live)
{
    (void)self;
    return in == live;
}

static uint64_t before_serving(const tri_consistency *self, uint64_t clock)
{
    (void)self;
    return clock + 1;
}

static bool after_parameters(const tri_consistency *self, uint64_t held, uint64_t came)
{
    (void)self;
    return came == held + 1;
}

/* The answer to the push is the pull. */
static bool at_clock(const tri_consistency *self, uint64_t clock, uint64_t version)
{
    (void)self, (void)clock, (void)version;
    return false;
}

static float lr(const tri_consistency *self, float rate)
{
    (void)self;
    return rate;
}

static const tri_option_row options[] = {{NULL, NULL, NULL}};

extern const tri_consistency_ops consistency_bsp;
const tri_consistency_ops consistency_bsp = {
    .abi = TRI_CONSISTENCY_ABI,
    .name = "bsp",
    .summary = "every iteration waits for all updates of the one before",
    .options = options,
    .client_sync = client_sync,
    .after_update = after_update,
    .after_push = after_push,
    .before_serving = before_serving,
    .after_parameters = after_parameters,
    .clock = at_clock,
    .lr = lr,
};
