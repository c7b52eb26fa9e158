/* Marks: a set of numbers that any thread adds to and one thread empties. No locks.
 *
 * A number that is added while the set is emptied is either given out now or is still there. What
 * was written before marks_add() is seen by who is given the number. */
#ifndef TRIDENT_OS_MARKS_H
#define TRIDENT_OS_MARKS_H

#include <stdint.h>

#include "base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct marks;

/* For numbers below count; NULL when memory is refused. */
struct marks *marks_new(const struct mem *mem, uint32_t count);
void marks_free(struct marks *marks); /* NULL is fine */

void marks_add(struct marks *marks, uint32_t number); /* from any thread and signal handler */

/* Calls each(ctx, number) for every number, and forgets it. */
void marks_take(struct marks *marks, void (*each)(void *ctx, uint32_t number), void *ctx);

#ifdef __cplusplus
}
#endif

#endif
