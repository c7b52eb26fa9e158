/* What bench/learners.c found, as tables: pure, so that a test can look at them. */
#ifndef TRIDENT_BENCH_LEARNERS_TABLE_H
#define TRIDENT_BENCH_LEARNERS_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum { LEARNERS_WAYS = 7, LEARNERS_BATCHES = 7, LEARNERS_NETS = 3 };

/* Samples per second of one net and one mini-batch; NAN: not measured. */
struct learners_row {
    const char *net;
    uint32_t batch;
    double one;                /* one learner, alone */
    double two[LEARNERS_WAYS]; /* two, by each way */
};

struct learners_way {
    const char *name; /* of a line */
    const char *head; /* of a column: at most 6 characters */
};

/* Writes to `to`, at most room bytes with the NUL: all rates and their ratios to the one learner;
 * the smallest mini-batch at which two beat one, by way and net ("-": at none of them); and how
 * many times the rate of way 1 ways 0 and 2 have at the smallest mini-batch. Rows of one net lie
 * together, mini-batches grow. */
void learners_tables(const struct learners_row *rows, size_t count, const struct learners_way *ways,
                     char *to, size_t room);

#endif
