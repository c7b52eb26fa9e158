/* A sweep as a picture. */
#include <math.h>
#include <stdio.h>

#include "base/units.h"
#include "cli/chart.h"
#include "cli/simulate.h"

enum { NAME_TEXT = 64, TITLE_TEXT = 200 };

/* What stays while a picture is made: one series for each system, and for each rate unless the
 * rates are the x axis. */
struct picture {
    struct chart_series *series; /* [count] */
    char (*names)[NAME_TEXT];    /* [count] */
    double *x, *y;               /* [points], [count x points] */
    size_t count, points;
    bool over_rates;
};

static bool allocate(const struct sweep *sweep, const struct mem *mem, struct picture *picture)
{
    picture->over_rates = sweep->node_count == 1 && sweep->rate_count > 1;
    picture->points = picture->over_rates ? sweep->rate_count : sweep->node_count;
    picture->count = sweep->system_count * (picture->over_rates ? 1 : sweep->rate_count);
    picture->series = mem_array(mem, picture->count, sizeof *picture->series);
    picture->names = mem_array(mem, picture->count, sizeof *picture->names);
    picture->x = mem_array(mem, picture->points, sizeof *picture->x);
    picture->y = mem_array(mem, picture->count * picture->points, sizeof *picture->y);
    return picture->series != NULL && picture->names != NULL && picture->x != NULL &&
           picture->y != NULL;
}

static void release(const struct mem *mem, struct picture *picture)
{
    mem_free(mem, picture->series);
    mem_free(mem, picture->names);
    mem_free(mem, picture->x);
    mem_free(mem, picture->y);
}

static void fill_series(const struct sweep *sweep, struct picture *picture, size_t i)
{
    size_t system = i % sweep->system_count, rate = i / sweep->system_count;
    double *y = picture->y + i * picture->points;
    for (size_t p = 0; p < picture->points; p++) {
        const struct study_result *result =
            picture->over_rates ? sweep_at(sweep, 0, p, system) : sweep_at(sweep, p, rate, system);
        y[p] = result != NULL ? result->speedup : NAN;
    }
    char text[UNITS_TEXT];
    const char *name = sweep->systems[system]->name;
    if (picture->count > sweep->system_count)
        (void)snprintf(picture->names[i], NAME_TEXT, "%s, %s", name,
                       units_show_rate(sweep->rates[rate], text));
    else
        (void)snprintf(picture->names[i], NAME_TEXT, "%s", name);
    picture->series[i] = (struct chart_series){
        .name = picture->names[i], .x = picture->x, .y = y, .count = picture->points};
}

static void subtitle(const struct sweep *sweep, const struct picture *picture, char out[TITLE_TEXT])
{
    char rate[UNITS_TEXT], where[NAME_TEXT];
    if (picture->over_rates)
        (void)snprintf(where, sizeof where, "%u nodes", (unsigned)sweep->nodes[0]);
    else
        (void)snprintf(where, sizeof where, "%s",
                       sweep->rate_count > 1 ? "several rates"
                                             : units_show_rate(sweep->rates[0], rate));
    (void)snprintf(out, TITLE_TEXT, "simulated: batch %llu, %s, %s duplex",
                   (unsigned long long)sweep->study.batch, where,
                   sweep->study.shared ? "shared" : "full");
}

tri_status sweep_plot(const struct sweep *sweep, const struct mem *mem, struct buf *out,
                      tri_error *err)
{
    struct picture picture = {0};
    if (!allocate(sweep, mem, &picture)) {
        release(mem, &picture);
        return fail_nomem(err, "the plot");
    }
    for (size_t p = 0; p < picture.points; p++)
        picture.x[p] = picture.over_rates ? sweep->rates[p] / 1e9 : sweep->nodes[p];
    for (size_t i = 0; i < picture.count; i++)
        fill_series(sweep, &picture, i);
    char under[TITLE_TEXT];
    subtitle(sweep, &picture, under);
    struct chart chart = {
        .kind = CHART_LINES,
        .title = sweep->study.profile->name,
        .subtitle = under,
        .x_label = picture.over_rates ? "bandwidth (Gbit/s)" : "nodes",
        .y_label = "speed-up over one node",
        .y_from_zero = true,
        .series = picture.series,
        .series_count = picture.count,
        .diagonal = picture.over_rates ? 0 : sweep->nodes[sweep->node_count - 1],
    };
    chart_svg(&chart, out);
    release(mem, &picture);
    return buf_ok(out) ? TRI_OK : fail_nomem(err, "the plot");
}
