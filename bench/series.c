/* Numbers of several turns, and their median. */
#include "bench/series.h"

#include <math.h>
#include <stdlib.h>

void series_keep(struct series *series, double value)
{
    if (series->count < BENCH_REPEATS_MAX)
        series->at[series->count++] = value;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double series_median(const struct series *series)
{
    struct series sorted = *series;
    const size_t n = sorted.count;
    qsort(sorted.at, n, sizeof sorted.at[0], by_size);
    return n > 0 ? (sorted.at[(n - 1) / 2] + sorted.at[n / 2]) / 2 : (double)NAN;
}
