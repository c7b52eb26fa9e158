/* From a list of faults that makes a run fail to a short one that still does. */
#include <string.h>

#include "sim/faults.h"

/* Leaves out one fault after the other; true when one could go. */
static bool drop_some(struct sim_fault *faults, size_t *count,
                      bool (*fails)(void *ctx, const struct sim_fault *faults, size_t count),
                      void *ctx)
{
    bool dropped = false;
    for (size_t i = *count; i-- > 0;) {
        struct sim_fault fault = faults[i];
        size_t after = *count - i - 1;
        memmove(&faults[i], &faults[i + 1], after * sizeof *faults);
        if (fails(ctx, faults, *count - 1)) {
            (*count)--;
            dropped = true;
        } else {
            memmove(&faults[i + 1], &faults[i], after * sizeof *faults);
            faults[i] = fault;
        }
    }
    return dropped;
}

size_t sim_shrink(struct sim_fault *faults, size_t count,
                  bool (*fails)(void *ctx, const struct sim_fault *faults, size_t count), void *ctx)
{
    /* One that was needed beside another may not be without it. */
    while (drop_some(faults, &count, fails, ctx))
        ;
    for (size_t i = 0; i < count; i++)
        while (faults[i].lasts > 1) {
            uint64_t lasts = faults[i].lasts;
            faults[i].lasts = lasts / 2;
            if (!fails(ctx, faults, count)) {
                faults[i].lasts = lasts;
                break;
            }
        }
    return count;
}
