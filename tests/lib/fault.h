/* Faults for tests. One so far: an allocator that fails its nth call.
 *
 *     struct fault fault = {0};
 *     FAULT_WALK(&fault) {
 *         tri_status st = thing_new(&fault.mem, &thing);
 *         if (st == TRI_OK)
 *             thing_free(thing);
 *         else
 *             assert_int_equal(st, TRI_ENOMEM);
 *     }
 *
 * runs the body with the 1st, 2nd, 3rd ... allocation refused, until a run gets
 * by without reaching the one to refuse. Each run must free all it allocated. */
#ifndef TRIDENT_TESTS_LIB_FAULT_H
#define TRIDENT_TESTS_LIB_FAULT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

struct fault {
    struct mem mem;   /* hand this to the code under test */
    size_t countdown; /* refuse when it reaches 0; 0 refuses nothing */
    bool repeat;      /* go on refusing after that */
    bool hit;         /* something was refused */
    size_t live;      /* allocations not yet freed */
    size_t calls;     /* allocations asked for */
    size_t run;       /* of a walk: 1, 2, ... */
};

/* Counts allocations, refuses none. */
void fault_init(struct fault *fault);

/* Starts the next run of a walk; false when the last one refused nothing. Fails
 * the test when the last run leaked. */
bool fault_next(struct fault *fault);

#define FAULT_WALK(fault) while (fault_next(fault))

#endif
