/* Timing, medians and the two ways to print them. */
#include "bench/harness.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json_out.h"
#include "base/mem.h"
#include "bench/steal.h"

/* One measurement lasts at least this long: well above the clock's grain and
 * the cost of an interrupt, short enough that both sides see the same machine. */
#define TURN_S 0.02

#define QUICK_REPEATS 3

/* A host that takes more than this of the time makes other numbers of a machine. */
#define STOLEN_MUCH 0.01

/* What one repeat of one case came to. */
struct run {
    struct bench_sample value, baseline;
};

struct summary {
    double median;
    double spread; /* half the distance between the quartiles, as a part of the median */
};

struct measured {
    const struct bench *bench;
    struct bench_plan plan;
    size_t repeats;
    struct run *runs; /* repeats times count, a whole round of cases after the other */
    double *sorted;   /* room for one summary at work */
    double stolen;    /* part of the processors' time; NAN: unknown */
    FILE *progress;   /* NULL: none */
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Calls side until TURN_S is over. Asks the clock after 1, 2, 4 ... calls, so
 * that the asking costs nothing next to the work. */
static struct bench_sample rate(void (*side)(void *ctx), const struct bench_case *c)
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
    return (struct bench_sample){c->work * (double)calls / took, (double)NAN};
}

/* Also warms caches and page tables for the measurement to come. */
static tri_status check_results(const struct measured *m, tri_error *err)
{
    for (size_t i = 0; i < m->plan.count; i++) {
        const struct bench_case *c = &m->plan.cases[i];
        if (c->same != NULL && !c->same(c->ctx)) {
            fail(err, TRI_EIO, "'%s', case '%s': the result is not that of the baseline",
                 m->bench->name, c->name);
            fail_why(err, "one of the two sides is wrong, so their speed means nothing");
            return TRI_EIO;
        }
    }
    return TRI_OK;
}

static tri_status take_turn(const struct bench_case *c, bool baseline, struct run *run,
                            tri_error *err)
{
    struct bench_sample *out = baseline ? &run->baseline : &run->value;
    if (c->turn != NULL)
        return c->turn(c->ctx, baseline, out, err);
    *out = rate(baseline ? c->baseline : c->run, c);
    return TRI_OK;
}

static tri_status measure(const struct measured *m, tri_error *err)
{
    tri_status status = TRI_OK;
    for (size_t r = 0; r < m->repeats; r++)
        for (size_t i = 0; i < m->plan.count && status == TRI_OK; i++) {
            const struct bench_case *c = &m->plan.cases[i];
            struct run *run = &m->runs[r * m->plan.count + i];
            if (m->progress != NULL)
                (void)fprintf(m->progress, "\r%s: repeat %zu of %zu, %s\033[K", m->bench->name,
                              r + 1, m->repeats, c->name);
            /* Which side goes first alternates: the second may find a warmer
             * cache, or a processor that has just turned its clock down. */
            bool first = r % 2 == 0;
            status = take_turn(c, first, run, err);
            if (status == TRI_OK)
                status = take_turn(c, !first, run, err);
        }
    if (m->progress != NULL)
        (void)fputs("\r\033[K", m->progress);
    return status;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double pick_value(const struct run *run)
{
    return run->value.rate;
}

static double pick_baseline(const struct run *run)
{
    return run->baseline.rate;
}

static double pick_ratio(const struct run *run)
{
    return run->value.rate / run->baseline.rate;
}

static double pick_cpu(const struct run *run)
{
    return run->value.cpu_s_per_gb;
}

static double pick_baseline_cpu(const struct run *run)
{
    return run->baseline.cpu_s_per_gb;
}

static struct summary sum_up(const struct measured *m, size_t i, double (*pick)(const struct run *))
{
    size_t n = m->repeats;
    for (size_t r = 0; r < n; r++)
        m->sorted[r] = pick(&m->runs[r * m->plan.count + i]);
    qsort(m->sorted, n, sizeof m->sorted[0], by_size);
    double median = (m->sorted[(n - 1) / 2] + m->sorted[n / 2]) / 2;
    double quartiles = m->sorted[n - 1 - n / 4] - m->sorted[n / 4];
    return (struct summary){.median = median, .spread = quartiles / 2 / median};
}

static void print_cpu(const struct measured *m, size_t i, struct buf *out)
{
    double own = sum_up(m, i, pick_cpu).median, other = sum_up(m, i, pick_baseline_cpu).median;
    if (!isnan(own))
        buf_format(out, " %8.3f %8.3f %6.2f", own, other, own / other);
    buf_format(out, "\n");
}

static void print_rows(const struct measured *m, int width, struct buf *out)
{
    bool cpu = !isnan(m->runs[0].value.cpu_s_per_gb);
    buf_format(out, "%-*s %17s %17s %17s%s\n", width, "case", m->plan.value_name,
               m->plan.baseline_name, "ratio", cpu ? "  CPU s/GB     base  ratio" : "");
    for (size_t i = 0; i < m->plan.count; i++) {
        struct summary value = sum_up(m, i, pick_value);
        struct summary base = sum_up(m, i, pick_baseline);
        struct summary ratio = sum_up(m, i, pick_ratio);
        buf_format(out, "%-*s %9.3f +-%4.1f%% %9.3f +-%4.1f%% %9.3f +-%4.1f%%", width,
                   m->plan.cases[i].name, value.median, 100 * value.spread, base.median,
                   100 * base.spread, value.median / base.median, 100 * ratio.spread);
        print_cpu(m, i, out);
    }
}

static void print_stolen(const struct measured *m, struct buf *out)
{
    if (!(m->stolen > STOLEN_MUCH))
        return;
    buf_format(out,
               "\nMeanwhile the host took %.1f %% of the processors' time for others: measure "
               "again when it\ntakes none.\n",
               100 * m->stolen);
}

static void print_table(const struct measured *m, struct buf *out)
{
    const struct bench *b = m->bench;
    int width = (int)strlen("case");
    for (size_t i = 0; i < m->plan.count; i++) {
        int len = (int)strlen(m->plan.cases[i].name);
        width = len > width ? len : width;
    }
    buf_format(out, "%s: %s\n", b->name, b->summary);
    if (m->plan.note != NULL)
        buf_format(out, "%s\n", m->plan.note);
    if (m->plan.count == 0)
        return;
    buf_format(out, "%s, median of %zu repeats, +- half the quartile distance\n\n", b->unit,
               m->repeats);
    print_rows(m, width, out);
    if (m->plan.tail != NULL)
        buf_format(out, "\n%s", m->plan.tail);
    print_stolen(m, out);
}

/* All null when nothing was measured. */
static void print_numbers(const struct measured *m, size_t i, struct json_out *json)
{
    bool any = i < m->plan.count;
    double none = (double)NAN;
    struct summary pairs = any ? sum_up(m, i, pick_ratio) : (struct summary){none, none};
    double value = any ? sum_up(m, i, pick_value).median : none;
    double baseline = any ? sum_up(m, i, pick_baseline).median : none;
    json_out_number(json, "value", value);
    json_out_number(json, "baseline", baseline);
    json_out_number(json, "ratio", value / baseline);
    json_out_number(json, "paired_ratio", pairs.median);
    json_out_number(json, "spread", pairs.spread);
    json_out_number(json, "cpu_s_per_gb", any ? sum_up(m, i, pick_cpu).median : none);
    json_out_number(json, "baseline_cpu_s_per_gb",
                    any ? sum_up(m, i, pick_baseline_cpu).median : none);
}

static void print_json(const struct measured *m, struct buf *out)
{
    struct json_out json;
    const size_t main_case = m->plan.default_case;
    json_out_init(&json, out, 2);
    json_out_object(&json, NULL);
    json_out_string(&json, "bench", m->bench->name);
    json_out_string(&json, "case", m->plan.count > 0 ? m->plan.cases[main_case].name : NULL);
    json_out_string(&json, "unit", m->bench->unit);
    print_numbers(m, main_case, &json);
    json_out_string(&json, "note", m->plan.note);
    json_out_string(&json, "tail", m->plan.count > 0 ? m->plan.tail : NULL);
    json_out_number(&json, "stolen", m->stolen);
    json_out_count(&json, "repeats", m->repeats);
    json_out_array(&json, "runs");
    for (size_t i = 0; i < m->plan.count; i++) {
        json_out_object(&json, NULL);
        json_out_string(&json, "case", m->plan.cases[i].name);
        print_numbers(m, i, &json);
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_close(&json);
}

static tri_status measure_and_print(struct measured *m, bool json, struct buf *out, tri_error *err)
{
    tri_status status = check_results(m, err);
    if (status != TRI_OK)
        return status;
    const struct steal before = steal_now();
    status = measure(m, err);
    if (status != TRI_OK)
        return status;
    m->stolen = steal_part(before, steal_now());
    if (json)
        print_json(m, out);
    else
        print_table(m, out);
    return TRI_OK;
}

/* Leaves the cases whose names hold the text, in an array of its own. */
static tri_status choose(const struct mem *mem, const char *only, struct bench_plan *plan,
                         struct bench_case **chosen, tri_error *err)
{
    size_t kept = 0, first = 0;
    *chosen = mem_array(mem, plan->count, sizeof **chosen);
    if (*chosen == NULL)
        return fail_nomem(err, "the cases");
    for (size_t i = 0; i < plan->count; i++) {
        if (strstr(plan->cases[i].name, only) == NULL)
            continue;
        if (i == plan->default_case)
            first = kept;
        (*chosen)[kept++] = plan->cases[i];
    }
    if (kept == 0 && plan->count > 0) {
        fail(err, TRI_EINPUT, "no case has '%.60s' in its name", only);
        fail_next(err, "'%s' is one; without --only all are measured", plan->cases[0].name);
        return TRI_EINPUT;
    }
    plan->cases = *chosen;
    plan->count = kept;
    plan->default_case = first;
    return TRI_OK;
}

static bool is_quick(void)
{
    const char *asked = getenv("TRIDENT_QUICK");
    return asked != NULL && asked[0] != '\0';
}

tri_status bench_run(const struct bench *bench, const struct bench_options *options,
                     const struct mem *mem, struct buf *out, tri_error *err)
{
    struct bench_wish wish = options->wish;
    struct bench_case *chosen = NULL;
    struct bench_plan opened;
    struct measured m = {.bench = bench, .progress = options->progress, .stolen = (double)NAN};
    wish.quick = is_quick();
    m.repeats = wish.quick ? QUICK_REPEATS : bench->repeats;
    if (options->repeats > 0)
        m.repeats = options->repeats;
    tri_status status = bench->open(mem, &wish, &opened, err);
    if (status != TRI_OK)
        return status;
    m.plan = opened; /* of which only some cases may be measured, but all are closed */
    if (options->only != NULL)
        status = choose(mem, options->only, &m.plan, &chosen, err);
    if (status == TRI_OK) {
        m.runs = mem_array(mem, m.repeats * m.plan.count, sizeof *m.runs);
        m.sorted = mem_array(mem, m.repeats, sizeof *m.sorted);
        status = m.runs != NULL && m.sorted != NULL ? measure_and_print(&m, options->json, out, err)
                                                    : fail_nomem(err, "the measurements");
    }
    mem_free(mem, m.sorted);
    mem_free(mem, m.runs);
    mem_free(mem, chosen);
    bench->close(mem, &opened);
    return status;
}
