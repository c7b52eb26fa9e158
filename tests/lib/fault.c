/* The counting, failing allocator. */
#include "lib/fault.h"

#include <stdlib.h>

#include "lib/test.h"

static void *fault_resize(void *ctx, void *ptr, size_t bytes)
{
    struct fault *fault = ctx;
    if (bytes == 0) {
        fault->live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    fault->calls++;
    if (fault->countdown > 0 && --fault->countdown == 0) {
        fault->hit = true;
        fault->countdown = fault->repeat;
        return NULL;
    }
    void *now = realloc(ptr, bytes);
    fault->live += now != NULL && ptr == NULL;
    return now;
}

void fault_init(struct fault *fault)
{
    *fault = (struct fault){.mem = {.resize = fault_resize, .ctx = fault}};
}

bool fault_next(struct fault *fault)
{
    size_t run = fault->run;
    if (run > 0) {
        if (fault->live != 0)
            fail_msg("run %zu of the walk leaked %zu allocations", run, fault->live);
        if (!fault->hit)
            return false;
    }
    fault_init(fault);
    fault->run = fault->countdown = run + 1;
    return true;
}
