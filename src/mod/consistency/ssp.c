/* ssp: stale synchronous, bound N. An iteration begins with all updates of all ranks but those
 * of the N iterations before it, of which it has what has come. */
#include "trident/module.h"

static uint64_t client_sync(const tri_consistency *self, uint64_t clock)
{
    return clock > self->bound ? clock - self->bound : 0;
}

static bool after_update(const tri_consistency *self, uint64_t clock, uint64_t version)
{
    return version >= client_sync(self, clock);
}

/* Waiting for others would make a fast worker as slow as the slowest. */
static bool after_push(const tri_consistency *self, uint32_t in, uint32_t live)
{
    (void)self, (void)live;
    return in > 0;
}

static uint64_t before_serving(const tri_consistency *self, uint64_t clock)
{
    return client_sync(self, clock + 1);
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

/* As many steps a clock as there are workers, each by one worker's mean: together they go as
 * far as bsp's one step by the mean of all. */
static float lr(const tri_consistency *self, float rate)
{
    return rate / (float)self->workers;
}

static const tri_option_row options[] = {
    {"N", "required", "iterations that a worker may be ahead of the slowest"},
    {NULL, NULL, NULL},
};

extern const tri_consistency_ops consistency_ssp;
const tri_consistency_ops consistency_ssp = {
    .abi = TRI_CONSISTENCY_ABI,
    .name = "ssp",
    .summary = "a worker may be N iterations ahead of the slowest, written ssp:N",
    .options = options,
    .bounded = true,
    .each_push = true,
    .client_sync = client_sync,
    .after_update = after_update,
    .after_push = after_push,
    .before_serving = before_serving,
    .after_parameters = after_parameters,
    .clock = at_clock,
    .lr = lr,
};
