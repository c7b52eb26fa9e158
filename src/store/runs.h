/* Runs of floats: the memory that a core_ref stands for, which may lie in several places. */
#ifndef TRIDENT_STORE_RUNS_H
#define TRIDENT_STORE_RUNS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { STORE_RUNS = 3 };

/* In this order; runs with count 0 are not used, and the pointer of one may be NULL. */
struct store_runs {
    float *at[STORE_RUNS];
    uint64_t count[STORE_RUNS];
};

/* Floats first .. first + count of something, in one piece. */
struct store_span {
    uint64_t first, count;
    const float *values;
};

/* The other way round: room for them. */
struct store_room {
    uint64_t first, count;
    float *at;
};

uint64_t store_runs_floats(struct store_runs runs); /* in all */

/* With as many floats, one after the other, that overlap none of the runs. */
void store_runs_read(struct store_runs runs, float *out);
void store_runs_write(struct store_runs runs, const float *in);
void store_runs_add(struct store_runs runs, const float *in);
bool store_runs_equal(struct store_runs runs, const float *with); /* bit for bit */

/* Floats first .. first + count of two pieces of memory, of which the first ends at cut. One run
 * where the pieces adjoin. */
struct store_runs store_runs_cut(float *before, float *behind, uint64_t cut, uint64_t first,
                                 uint64_t count);

#ifdef __cplusplus
}
#endif

#endif
