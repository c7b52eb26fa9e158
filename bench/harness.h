/* A small benchmark harness: a case and its baseline, measured side by side.
 *
 * Both sides of every case run by turns, many times over, so that a machine
 * that slows down for a while slows both. The median counts; the spread beside
 * it says how far to trust it. Both sides return a value that depends on all of
 * their work, and the harness stops when the two differ.
 *
 *     bench_NAME [--json] [--repeats N]
 *
 * prints one table or, with --json, one document: {"bench", "case", "unit",
 * "value", "baseline", "ratio", "runs": [{"case", "value", "baseline",
 * "ratio"}, ...]}. The numbers on top are the medians of the default case; runs
 * holds the medians of every case. ratio is value/baseline, and larger is better. */
#ifndef TRIDENT_BENCH_HARNESS_H
#define TRIDENT_BENCH_HARNESS_H

#include <stddef.h>
#include <stdint.h>

struct bench_case {
    const char *name;             /* "4 KiB" */
    double work;                  /* units of work in one call of either side: GB, for GB/s */
    uint64_t (*run)(void *ctx);   /* what is measured; returns the result of the work */
    uint64_t (*baseline)(void *); /* what it is held against: same work, same ctx, same result */
    void *ctx;
};

struct bench {
    const char *name;                       /* "crc32c" */
    const char *question;                   /* printed above the table */
    const char *unit;                       /* work per second: "GB/s" */
    const char *value_name, *baseline_name; /* column heads */
    const struct bench_case *cases;
    size_t count;
    size_t default_case; /* the one whose numbers stand for the whole */
};

/* The body of main(): reads the arguments, measures, prints to stdout. Returns
 * the exit code: 0 measured, 1 the results differ or memory ran out, 2 bad usage. */
int bench_main(const struct bench *bench, int argc, char **argv);

#endif
