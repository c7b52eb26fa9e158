/* A small benchmark harness: a case and its baseline, measured side by side.
 *
 * Both sides of every case run by turns, many times over, so that a machine
 * that slows down for a while slows both. The median counts; the spread beside
 * it says how far to trust it. Before anything is measured, every case checks
 * that both sides come to the same result.
 *
 * A benchmark is a file bench/NAME.c with a `const struct bench bench_NAME` and
 * a line in bench/registry.c. One runs at a time per process. */
#ifndef TRIDENT_BENCH_HARNESS_H
#define TRIDENT_BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/error.h"

struct bench_case {
    const char *name;         /* "4 KiB" */
    double work;              /* units of work in one call of either side: GB, for GB/s */
    void (*run)(void *ctx);   /* what is measured */
    void (*baseline)(void *); /* what it is held against: the same work on the same ctx */
    bool (*same)(void *ctx);  /* runs both sides once: is the result the same? */
    void *ctx;
};

/* What a benchmark measures on this machine. All that is borrowed lives until close(). */
struct bench_plan {
    const struct bench_case *cases;
    size_t count;
    size_t default_case;                    /* the one whose numbers stand for the whole */
    const char *value_name, *baseline_name; /* column heads */
    const char *note;                       /* printed above the table; NULL: none */
    void *state;                            /* for close() */
};

struct bench {
    const char *name;    /* what users type */
    const char *summary; /* the question it answers, one line */
    const char *unit;    /* work per second: "GB/s" */
    size_t repeats;      /* unless the user says otherwise */
    /* Fills all of plan, or fails and leaves nothing behind. quick: fewer cases. */
    tri_status (*open)(const struct mem *mem, bool quick, struct bench_plan *plan, tri_error *err);
    void (*close)(const struct mem *mem, struct bench_plan *plan);
};

struct bench_options {
    bool json;
    size_t repeats; /* 0: as the benchmark has it */
    FILE *progress; /* a line that changes, for a terminal; NULL: none */
};

enum { BENCH_REPEATS_MAX = 1001 };

/* Measures, then appends one table or, with json, one document to out: {"bench",
 * "case", "unit", "value", "baseline", "ratio", "cpu_s_per_gb",
 * "baseline_cpu_s_per_gb", "note", "runs": [{"case", "value", "baseline",
 * "ratio"}, ...]}. The numbers on top are the medians of the default case; runs
 * holds the medians of every case. ratio is value/baseline, and larger is better;
 * the two cpu fields are null where no bytes are moved. TRIDENT_QUICK in the
 * environment asks for fewer cases and three repeats. */
tri_status bench_run(const struct bench *bench, const struct bench_options *options,
                     const struct mem *mem, struct buf *out, tri_error *err);

/* Walks the benchmarks there are; NULL past the end. */
const struct bench *bench_at(size_t i);

#endif
