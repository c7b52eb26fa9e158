/* A small benchmark harness: a case and its baseline, measured side by side.
 *
 * Both sides of every case run by turns, many times over, so that a machine
 * that slows down for a while slows both. The median counts; the spread beside
 * it says how far to trust it. Every case checks that both sides come to the
 * right result, before or while they are measured.
 *
 * A benchmark is a file bench/NAME.c with a `const struct bench bench_NAME` and
 * a line in bench/registry.c. One runs at a time per process. */
#ifndef TRIDENT_BENCH_HARNESS_H
#define TRIDENT_BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/error.h"

/* What one turn of one side came to. */
struct bench_sample {
    double rate;         /* units of work per second */
    double cpu_s_per_gb; /* of all processes that took part; NAN: no bytes are moved */
};

struct bench_case {
    const char *name; /* "4 KiB" */
    /* Measures one turn of one side by itself, and may fail. NULL: the harness times run and
     * baseline instead. */
    tri_status (*turn)(void *ctx, bool baseline, struct bench_sample *out, tri_error *err);
    double work;              /* units of work in one call of either side: GB, for GB/s */
    void (*run)(void *ctx);   /* what is measured */
    void (*baseline)(void *); /* what it is held against: the same work on the same ctx */
    bool (*same)(void *ctx);  /* runs both sides: is the result the same? NULL: turn looks */
    void *ctx;
};

/* What a benchmark measures on this machine. All that is borrowed lives until close(). */
struct bench_plan {
    const struct bench_case *cases;
    size_t count;
    size_t default_case;                    /* the one whose numbers stand for the whole */
    const char *value_name, *baseline_name; /* column heads */
    const char *note;                       /* printed above the table; NULL: none */
    const char *tail;                       /* below it, read after the turns; NULL: none */
    void *state;                            /* for close() */
};

enum { BENCH_CHUNKS_MAX = 8 };

/* What a benchmark may be told. */
struct bench_wish {
    bool quick;                        /* fewer cases, shorter turns */
    double seconds;                    /* of one turn of several processes; 0: as it likes */
    uint64_t chunks[BENCH_CHUNKS_MAX]; /* sizes to try, in bytes */
    size_t chunk_count;                /* 0: as it likes */
    /* Serves parameters as the environment says, until the job is over. */
    tri_status (*serve)(const struct mem *mem, tri_error *err);
};

struct bench {
    const char *name;    /* what users type */
    const char *summary; /* the question it answers, one line */
    const char *unit;    /* work per second: "GB/s" */
    size_t repeats;      /* unless the user says otherwise */
    /* Fills all of plan, or fails and leaves nothing behind. No case at all: what it needs is
     * not there, and the note says what. wish is borrowed until close(). */
    tri_status (*open)(const struct mem *mem, const struct bench_wish *wish,
                       struct bench_plan *plan, tri_error *err);
    void (*close)(const struct mem *mem, struct bench_plan *plan);
};

struct bench_options {
    bool json;
    size_t repeats;   /* 0: as the benchmark has it */
    const char *only; /* cases whose names hold this; NULL: all */
    FILE *progress;   /* a line that changes, for a terminal; NULL: none */
    struct bench_wish wish;
};

enum { BENCH_REPEATS_MAX = 1001 };

/* Measures, then appends one table or, with json, one document to out: {"bench",
 * "case", "unit", "value", "baseline", "ratio", "cpu_s_per_gb",
 * "baseline_cpu_s_per_gb", "note", "tail", "stolen", "repeats", "runs": [{"case", "value",
 * "baseline", "ratio", "paired_ratio", "spread", "cpu_s_per_gb", "baseline_cpu_s_per_gb"}, ...]}.
 * The numbers on top are the medians of the default case; runs holds the medians of every case.
 * ratio is value/baseline, and larger is better; paired_ratio is the median of the repeats' own
 * ratios, and spread is theirs; the two cpu fields are null where no bytes are moved. stolen
 * is the part of the processors' time that the machine's host gave to others. TRIDENT_QUICK
 * in the environment asks for fewer cases and three repeats. */
tri_status bench_run(const struct bench *bench, const struct bench_options *options,
                     const struct mem *mem, struct buf *out, tri_error *err);

/* Walks the benchmarks there are; NULL past the end. */
const struct bench *bench_at(size_t i);

#endif
