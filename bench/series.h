/* What the turns of one case came to, by number. */
#ifndef TRIDENT_BENCH_SERIES_H
#define TRIDENT_BENCH_SERIES_H

#include "bench/harness.h"

struct series {
    double at[BENCH_REPEATS_MAX];
    size_t count;
};

/* What is more than a benchmark's most repeats is left out. */
void series_keep(struct series *series, double value);
double series_median(const struct series *series); /* NAN: there is none */

#endif
