/* asp: asynchronous. An iteration begins with whatever has come; nobody waits for anybody. */
#include "trident/module.h"

static uint64_t client_sync(const tri_consistency *self, uint64_t clock)
{
    (void)self, (void)clock;
    return 0;
}

static bool after_update(const tri_consistency *self, uint64_t clock, uint64_t version)
{
    (void)self, (void)clock, (void)version;
    return true;
}

static bool after_push(const tri_consistency *self, uint32_t in, uint32_t live)
{
    (void)self, (void)live;
    return in > 0;
}

static uint64_t before_serving(const tri_consistency *self, uint64_t clock)
{
    (void)self, (void)clock;
    return 0;
}

/* An equal version may have more of the newer updates. */
static bool after_parameters(const tri_consistency *self, uint64_t held, uint64_t came)
{
    (void)self;
    return came >= held;
}

/* The answer to the push is the pull. */
static bool at_clock(const tri_consistency *self, uint64_t clock, uint64_t version)
{
    (void)self, (void)clock, (void)version;
    return false;
}

/* Clocks mean nothing here, so a step is a worker's own and has the rate it asked for. */
static float lr(const tri_consistency *self, float rate)
{
    (void)self;
    return rate;
}

static const tri_option_row options[] = {{NULL, NULL, NULL}};

extern const tri_consistency_ops consistency_asp;
const tri_consistency_ops consistency_asp = {
    .abi = TRI_CONSISTENCY_ABI,
    .name = "asp",
    .summary = "no worker waits for another",
    .options = options,
    .each_push = true,
    .client_sync = client_sync,
    .after_update = after_update,
    .after_push = after_push,
    .before_serving = before_serving,
    .after_parameters = after_parameters,
    .clock = at_clock,
    .lr = lr,
};
