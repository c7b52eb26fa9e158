/* A sweep as a picture. */
#include "cli/simulate_plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

enum { TITLE_TEXT = 200, TRAFFIC_NODES = 64 };

/* From how many times as many nodes on an axis of few hides the small numbers. */
static const double wide_span = 64;

size_t plot_style(const struct study_system *system)
{
    static const char *const names[] = {"trident", "ps",        "wfbp",   "poseidon",
                                        "adam",    "tensor-ps", "onebit", "single"};
    size_t i = 0;
    while (i < sizeof names / sizeof names[0] && strcmp(names[i], system->name) != 0)
        i++;
    return i + 1;
}

static enum plot_kind kind_of(const struct sweep *sweep, enum sweep_picture what)
{
    if (what == SWEEP_TRAFFIC)
        return PLOT_TRAFFIC;
    if (sweep->node_count > 1)
        return PLOT_NODES;
    return sweep->rate_count > 1 ? PLOT_RATES : PLOT_CASE;
}

/* ---- memory ---- */

/* The results of the largest case; all runs are done. */
static const struct timed_result *largest(const struct sweep *sweep, size_t variant)
{
    return &sweep_at(sweep, sweep->node_count - 1, sweep->rate_count - 1, variant)->timed;
}

/* Nodes of the largest case; single has one. */
static size_t traffic_nodes(const struct sweep *sweep)
{
    size_t most = 0;
    for (size_t v = 0; v < sweep->variant_count; v++)
        most = largest(sweep, v)->nodes > most ? largest(sweep, v)->nodes : most;
    return most;
}

static void measure(struct plot *plot)
{
    const struct sweep *sweep = plot->sweep;
    size_t nodes = plot->kind == PLOT_TRAFFIC ? traffic_nodes(sweep) : 0;
    plot->lines = sweep->variant_count * (plot->kind == PLOT_NODES ? sweep->rate_count : 1);
    plot->series_count = plot->lines;
    plot->points = plot->kind == PLOT_NODES   ? sweep->node_count
                   : plot->kind == PLOT_RATES ? sweep->rate_count
                   : plot->kind == PLOT_CASE  ? 1
                   : nodes > TRAFFIC_NODES    ? 3
                                              : nodes;
}

static bool allocate(const struct mem *mem, struct plot *plot)
{
    size_t paper = plot_paper_most();
    plot->series = mem_array(mem, plot->lines + paper + 1, sizeof *plot->series);
    plot->names = mem_array(mem, plot->lines, sizeof *plot->names);
    plot->x = mem_array(mem, plot->points, sizeof *plot->x);
    plot->y = mem_array(mem, plot->lines * plot->points, sizeof *plot->y);
    plot->paper = mem_array(mem, 2 * paper + 2, sizeof *plot->paper);
    plot->groups = mem_array(mem, plot->points, sizeof *plot->groups);
    plot->group_list = mem_array(mem, plot->points, sizeof(const char *));
    return plot->series != NULL && plot->names != NULL && plot->x != NULL && plot->y != NULL &&
           plot->paper != NULL && plot->groups != NULL && plot->group_list != NULL;
}

static void release(const struct mem *mem, struct plot *plot)
{
    mem_free(mem, plot->series);
    mem_free(mem, plot->names);
    mem_free(mem, plot->x);
    mem_free(mem, plot->y);
    mem_free(mem, plot->paper);
    mem_free(mem, plot->groups);
    mem_free(mem, (void *)plot->group_list);
}

/* ---- the numbers ---- */

/* One or several rates: dashes tell these apart, and otherwise the variants of a system. */
static void fill_looks(struct plot *plot, size_t line)
{
    const struct sweep *sweep = plot->sweep;
    const struct sweep_variant *variant = sweep_variant(sweep, line);
    size_t rate = line / sweep->variant_count;
    bool rates = plot->kind == PLOT_NODES && sweep->rate_count > 1;
    char text[UNITS_TEXT];
    if (rates)
        (void)snprintf(plot->names[line], VARIANT_NAME, "%.70s, %s", variant->name,
                       units_show_rate(sweep->rates[rate], text));
    else
        (void)snprintf(plot->names[line], VARIANT_NAME, "%s", variant->name);
    plot->series[line] = (struct chart_series){.name = plot->names[line],
                                               .x = plot->x,
                                               .y = plot->y + line * plot->points,
                                               .count = plot->points,
                                               .style = plot_style(variant->system),
                                               .marker = variant->nth,
                                               .dash = rates ? rate : variant->nth};
}

static void fill_speedups(struct plot *plot, size_t line)
{
    const struct sweep *sweep = plot->sweep;
    size_t variant = line % sweep->variant_count, rate = line / sweep->variant_count;
    for (size_t p = 0; p < plot->points; p++) {
        const struct study_result *result = plot->kind == PLOT_RATES
                                                ? sweep_at(sweep, 0, p, variant)
                                                : sweep_at(sweep, p, rate, variant);
        plot->y[line * plot->points + p] = result != NULL ? result->speedup : NAN;
    }
}

/* Bytes in and out of each node; for many nodes of the busiest, in the mean, and of the idlest. */
static void fill_traffic(struct plot *plot, size_t line)
{
    const struct timed_result *timed = largest(plot->sweep, line);
    double *y = plot->y + line * plot->points, most = 0, least = INFINITY, sum = 0;
    bool each = traffic_nodes(plot->sweep) <= TRAFFIC_NODES;
    for (size_t p = 0; p < plot->points; p++)
        y[p] = NAN;
    for (size_t n = 0; n < timed->nodes; n++) {
        double bytes = timed->sent[n] + timed->received[n];
        most = fmax(most, bytes);
        least = fmin(least, bytes);
        sum += bytes;
        if (each)
            y[n] = bytes;
    }
    if (!each) {
        y[0] = most;
        y[1] = sum / timed->nodes;
        y[2] = least;
    }
}

/* Divides by a thousand, a million or a milliard; returns the unit. */
static const char *scale_bytes(struct plot *plot)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB"};
    double most = 0, factor = 1;
    size_t unit = 0, count = plot->lines * plot->points;
    for (size_t i = 0; i < count; i++)
        most = isfinite(plot->y[i]) ? fmax(most, plot->y[i]) : most;
    for (; unit + 1 < sizeof units / sizeof units[0] && most >= 1000 * factor; unit++)
        factor *= 1000;
    for (size_t i = 0; i < count; i++)
        plot->y[i] /= factor;
    return units[unit];
}

static void name_groups(struct plot *plot)
{
    static const char *const ends[] = {"busiest node", "mean", "idlest node"};
    bool each = plot->kind == PLOT_TRAFFIC && traffic_nodes(plot->sweep) <= TRAFFIC_NODES;
    char rate[UNITS_TEXT];
    for (size_t p = 0; p < plot->points; p++) {
        size_t room = sizeof plot->groups[p];
        if (plot->kind == PLOT_CASE)
            (void)snprintf(plot->groups[p], room, "%u nodes, %s", (unsigned)plot->sweep->nodes[0],
                           units_show_rate(plot->sweep->rates[0], rate));
        else if (each)
            (void)snprintf(plot->groups[p], room, "%zu", p + 1);
        else if (plot->kind == PLOT_TRAFFIC)
            (void)snprintf(plot->groups[p], room, "%s", ends[p]);
        plot->group_list[p] = plot->groups[p];
    }
}

static void fill(struct plot *plot)
{
    for (size_t p = 0; p < plot->points; p++)
        if (plot->kind == PLOT_NODES || plot->kind == PLOT_RATES)
            plot->x[p] =
                plot->kind == PLOT_RATES ? plot->sweep->rates[p] / 1e9 : plot->sweep->nodes[p];
    for (size_t line = 0; line < plot->lines; line++) {
        fill_looks(plot, line);
        if (plot->kind == PLOT_TRAFFIC)
            fill_traffic(plot, line);
        else
            fill_speedups(plot, line);
    }
    name_groups(plot);
}

/* ---- the picture ---- */

static void draw(struct plot *plot, const char *under, struct buf *out)
{
    const struct sweep *sweep = plot->sweep;
    bool traffic = plot->kind == PLOT_TRAFFIC, bars = traffic || plot->kind == PLOT_CASE;
    double least = sweep->nodes[0], most = sweep->nodes[sweep->node_count - 1];
    char title[TITLE_TEXT], label[TITLE_TEXT];
    const char *unit = traffic ? scale_bytes(plot) : "";
    (void)snprintf(label, sizeof label, "%s in and out of a node, an iteration", unit);
    (void)snprintf(title, sizeof title, "%.120s%s", sweep->study.profile->name,
                   traffic ? ": traffic of each node" : ": speed-up over one node");
    chart_svg(&(struct chart){.kind = bars ? CHART_BARS : CHART_LINES,
                              .title = title,
                              .subtitle = under,
                              .x_label = traffic                    ? "node"
                                         : plot->kind == PLOT_RATES ? "bandwidth (Gbit/s)"
                                         : bars                     ? NULL
                                                                    : "nodes",
                              .y_label = traffic ? label : "speed-up over one node",
                              .x_log2 = plot->kind == PLOT_NODES && most / least >= wide_span,
                              .x_ticks = plot->x,
                              .x_tick_count = bars ? 0 : plot->points,
                              .y_from_zero = true,
                              .values = bars,
                              .groups = plot->group_list,
                              .group_count = bars ? plot->points : 0,
                              .series = plot->series,
                              .series_count = plot->series_count,
                              .diagonal = plot->kind == PLOT_NODES ? most : 0},
              out);
}

tri_status sweep_plot(const struct sweep *sweep, enum sweep_picture what, const struct mem *mem,
                      struct buf *out, tri_error *err)
{
    struct plot plot = {.sweep = sweep, .kind = kind_of(sweep, what)};
    struct buf under;
    buf_init(&under, mem);
    measure(&plot);
    bool ok = allocate(mem, &plot);
    if (ok) {
        fill(&plot);
        if (plot.kind != PLOT_TRAFFIC)
            plot_paper(&plot);
        sweep_head(sweep, false, &under);
        ok = buf_ok(&under);
    }
    if (ok)
        draw(&plot, buf_string(&under), out);
    release(mem, &plot);
    buf_fini(&under);
    return ok && buf_ok(out) ? TRI_OK : fail_nomem(err, "the plot");
}
