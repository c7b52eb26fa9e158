/* Timing, medians and the two ways to print them. */
#include "bench/harness.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

/* One measurement lasts at least this long: well above the clock's grain and
 * the cost of an interrupt, short enough that both sides see the same machine. */
#define TURN_S 0.02

#define REPEATS     15
#define REPEATS_MAX 1001

/* What one repeat of one case came to, in units of work per second. */
struct run {
    double value, baseline;
};

struct summary {
    double median;
    double spread; /* half the distance between the quartiles, as a part of the median */
};

struct measured {
    const struct bench *bench;
    size_t repeats;
    struct run *runs; /* repeats times count, a whole round of cases after the other */
    double *sorted;   /* room for one summary at work */
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Calls side until TURN_S is over. Asks the clock after 1, 2, 4 ... calls, so
 * that the asking costs nothing next to the work. */
static double rate(uint64_t (*side)(void *ctx), const struct bench_case *c)
{
    double start = now_s(), took;
    uint64_t calls = 0, step = 1;
    do {
        for (uint64_t i = 0; i < step; i++)
            side(c->ctx);
        calls += step;
        step = calls;
        took = now_s() - start;
    } while (took < TURN_S);
    return c->work * (double)calls / took;
}

/* Also warms caches and page tables for the measurement to come. */
static bool same_result(const struct bench *bench)
{
    for (size_t i = 0; i < bench->count; i++) {
        const struct bench_case *c = &bench->cases[i];
        uint64_t got = c->run(c->ctx), want = c->baseline(c->ctx);
        if (got != want) {
            fprintf(stderr,
                    "bench_%s: case '%s': the result is %" PRIx64 ", that of the baseline %" PRIx64
                    "\n",
                    bench->name, c->name, got, want);
            return false;
        }
    }
    return true;
}

static void measure(struct measured *m)
{
    for (size_t r = 0; r < m->repeats; r++)
        for (size_t i = 0; i < m->bench->count; i++) {
            const struct bench_case *c = &m->bench->cases[i];
            struct run *run = &m->runs[r * m->bench->count + i];
            /* Which side goes first alternates: the second may find a warmer
             * cache, or a processor that has just turned its clock down. */
            if (r % 2 == 0)
                run->baseline = rate(c->baseline, c);
            run->value = rate(c->run, c);
            if (r % 2 == 1)
                run->baseline = rate(c->baseline, c);
        }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double pick_value(const struct run *run)
{
    return run->value;
}

static double pick_baseline(const struct run *run)
{
    return run->baseline;
}

static double pick_ratio(const struct run *run)
{
    return run->value / run->baseline;
}

static struct summary sum_up(const struct measured *m, size_t i, double (*pick)(const struct run *))
{
    size_t n = m->repeats;
    for (size_t r = 0; r < n; r++)
        m->sorted[r] = pick(&m->runs[r * m->bench->count + i]);
    qsort(m->sorted, n, sizeof m->sorted[0], by_size);
    double median = (m->sorted[(n - 1) / 2] + m->sorted[n / 2]) / 2;
    double quartiles = m->sorted[n - 1 - n / 4] - m->sorted[n / 4];
    return (struct summary){.median = median, .spread = quartiles / 2 / median};
}

static void print_table(const struct measured *m)
{
    const struct bench *b = m->bench;
    printf("%s: %s\n", b->name, b->question);
    printf("%s, median of %zu repeats, +- half the quartile distance\n\n", b->unit, m->repeats);
    printf("%-12s %17s %17s %17s\n", "case", b->value_name, b->baseline_name, "ratio");
    for (size_t i = 0; i < b->count; i++) {
        struct summary value = sum_up(m, i, pick_value);
        struct summary base = sum_up(m, i, pick_baseline);
        struct summary ratio = sum_up(m, i, pick_ratio);
        printf("%-12s %9.3f +-%4.1f%% %9.3f +-%4.1f%% %9.2f +-%4.1f%%\n", b->cases[i].name,
               value.median, 100 * value.spread, base.median, 100 * base.spread,
               value.median / base.median, 100 * ratio.spread);
    }
}

/* Names come from our own tables and need no escapes. */
static void print_numbers(double value, double baseline)
{
    printf("\"value\": %.6g, \"baseline\": %.6g, \"ratio\": %.6g", value, baseline,
           value / baseline);
}

static void print_json(const struct measured *m)
{
    const struct bench *b = m->bench;
    size_t top = b->default_case;
    printf("{\"bench\": \"%s\", \"case\": \"%s\", \"unit\": \"%s\", ", b->name, b->cases[top].name,
           b->unit);
    print_numbers(sum_up(m, top, pick_value).median, sum_up(m, top, pick_baseline).median);
    printf(", \"runs\": [");
    for (size_t i = 0; i < b->count; i++) {
        printf("%s\n  {\"case\": \"%s\", ", i == 0 ? "" : ",", b->cases[i].name);
        print_numbers(sum_up(m, i, pick_value).median, sum_up(m, i, pick_baseline).median);
        printf("}");
    }
    printf("\n]}\n");
}

/* False when the arguments make no sense. */
static bool read_args(int argc, char **argv, bool *json, size_t *repeats)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            *json = true;
        } else if (strcmp(argv[i], "--repeats") == 0 && i + 1 < argc) {
            char *end;
            unsigned long n = strtoul(argv[++i], &end, 10);
            if (*end != '\0' || n < 1 || n > REPEATS_MAX)
                return false;
            *repeats = n;
        } else {
            return false;
        }
    }
    return true;
}

int bench_main(const struct bench *bench, int argc, char **argv)
{
    bool json = false;
    struct measured m = {.bench = bench, .repeats = REPEATS};
    if (!read_args(argc, argv, &json, &m.repeats)) {
        fprintf(stderr, "Usage: bench_%s [--json] [--repeats N]   (N from 1 to %d, default %d)\n",
                bench->name, REPEATS_MAX, REPEATS);
        return 2;
    }
    if (!same_result(bench))
        return 1;
    m.runs = mem_array(&mem_libc, m.repeats * bench->count, sizeof *m.runs);
    m.sorted = mem_array(&mem_libc, m.repeats, sizeof *m.sorted);
    bool room = m.runs != NULL && m.sorted != NULL;
    if (room) {
        measure(&m);
        if (json)
            print_json(&m);
        else
            print_table(&m);
    } else {
        fprintf(stderr, "bench_%s: no memory for %zu repeats\n", bench->name, m.repeats);
    }
    mem_free(&mem_libc, m.sorted);
    mem_free(&mem_libc, m.runs);
    return room ? 0 : 1;
}
