/* Drawing charts. */
#include "cli/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/chart_layout.h"
#include "cli/chart_look.h"

enum {
    TITLE_SIZE = 15,
    MOST_MARKERS = 24, /* on a line; more hide it */
    VALUE_SIZE = 11,
};

/* Of group names that are not level. */
static const int slant_degrees = 38;
static const double slant_cosine = 0.79;

static const char pale[] = "#666666";

static const struct stroke grid_stroke = {"#e4e4e4", "1", NULL},
                           axis_stroke = {"#666666", "1", NULL},
                           diagonal_stroke = {"#8a8a8a", "1.2", "4 3"};

/* ---- the axes ---- */

/* "x10^power" at the end of an axis. */
static void draw_power(struct buf *out, int power, const char *anchor, const double at[2])
{
    if (power == 0)
        return;
    buf_format(out,
               "<text class='power' x='%s' y='%s' font-size='%d' text-anchor='%s' fill='%s'>"
               "&#215;10<tspan dy='-4' font-size='9'>%d</tspan></text>\n",
               PX(at[0]), PX(at[1]), TICK_SIZE, anchor, CHART_INK, power);
}

static void draw_tick(const struct picture *picture, bool along, long long i)
{
    const struct axis *axis = along ? &picture->x : &picture->y;
    struct buf *out = picture->out;
    double at = axis_tick(axis, (double)i);
    if (along)
        svg_line(out, &grid_stroke, (double[]){at, picture->top, at, picture->bottom});
    else
        svg_line(out, &grid_stroke, (double[]){picture->left, at, picture->right, at});
    char text[TICK_TEXT];
    bool raised = axis_text(axis, i, text);
    buf_format(out, "<text class='%s' x='%s' y='%s' font-size='%d' text-anchor='%s' fill='%s'>%s",
               along ? "xtick" : "ytick", PX(along ? at : picture->left - 6),
               PX(along ? picture->bottom + 16 : at + 4), TICK_SIZE, along ? "middle" : "end",
               CHART_INK, text);
    if (raised)
        buf_format(out, "<tspan dy='-4' font-size='9'>%lld</tspan>", i);
    buf_text(out, "</text>\n");
}

/* From the last on, those that have room. */
static void draw_listed(const struct picture *picture)
{
    const struct chart *chart = picture->chart;
    double free_to = INFINITY;
    for (size_t i = chart->x_tick_count; i-- > 0;) {
        char text[TICK_TEXT];
        long long tick = (long long)chart->x_ticks[i];
        if (tick > picture->x.last)
            continue;
        (void)axis_text(&picture->x, tick, text);
        double at = axis_tick(&picture->x, (double)tick);
        double half = svg_width(text, TICK_SIZE) / 2;
        if (at + half > free_to)
            continue;
        draw_tick(picture, true, tick);
        free_to = at - half - 4;
    }
}

static void draw_groups(const struct picture *picture)
{
    const struct chart *chart = picture->chart;
    double room = picture_band(picture);
    size_t every = picture->slant > 0 ? (size_t)(14 / room) + 1 : 1;
    struct label label = {.size = TICK_SIZE, .anchor = "middle", .colour = CHART_INK, .most = room};
    for (size_t i = 0; i < chart->group_count; i += every) {
        label.text = chart->groups[i];
        label.x = picture->left + ((double)i + 0.5) * room;
        label.y = picture->bottom + 16;
        if (picture->slant > 0) { /* and may reach the left edge */
            label.x += 4;
            label.y -= 3;
            label.anchor = "end";
            label.turn = -slant_degrees;
            label.most = fmin(picture->slant, (label.x - 4) / slant_cosine);
        }
        svg_label(picture->out, &label);
    }
}

static void draw_axes(const struct picture *picture)
{
    struct buf *out = picture->out;
    const struct axis *x = &picture->x, *y = &picture->y;
    double left = picture->left, right = picture->right;
    for (long long i = axis_first(y); i <= y->last; i += y->every)
        draw_tick(picture, false, i);
    draw_power(out, y->power, "middle", (double[]){left, picture->top - 9});
    if (picture->chart->kind == CHART_BARS) {
        draw_groups(picture);
    } else {
        for (long long i = axis_first(x); !picture->x_listed && i <= x->last; i += x->every)
            draw_tick(picture, true, i);
        if (picture->x_listed)
            draw_listed(picture);
        draw_power(out, x->power, "end", (double[]){right, picture->bottom + 34});
    }
    svg_line(out, &axis_stroke, (double[]){left, picture->top, left, picture->bottom});
    svg_line(out, &axis_stroke, (double[]){left, picture->bottom, right, picture->bottom});
    double zero = axis_place(y, 0);
    if (y->first < 0 && y->last > 0)
        svg_line(out, &axis_stroke, (double[]){left, zero, right, zero});
}

static void draw_subtitle(const struct picture *picture)
{
    const char *text = picture->chart->subtitle;
    char line[WRAP_TEXT];
    struct label label = {.x = EDGE,
                          .y = EDGE + 10 + (picture->chart->title != NULL ? 18 : 0),
                          .most = CHART_WIDTH - 2 * EDGE + 1,
                          .size = SUBTITLE_SIZE,
                          .anchor = "start",
                          .colour = pale};
    for (size_t i = 0; i < picture->subtitle_lines; i++) {
        const char *next = i + 1 < picture->subtitle_lines ? picture_line(text, line) : NULL;
        label.text = next != NULL ? line : text;
        svg_label(picture->out, &label);
        label.y += SUBTITLE_HEIGHT;
        text = next;
    }
}

static void draw_texts(const struct picture *picture)
{
    const struct chart *chart = picture->chart;
    struct label label = {.text = chart->title,
                          .x = EDGE,
                          .y = EDGE + 10,
                          .most = CHART_WIDTH - 2 * EDGE,
                          .size = TITLE_SIZE,
                          .least = TEXT_SIZE,
                          .anchor = "start",
                          .colour = CHART_INK,
                          .bold = true};
    svg_label(picture->out, &label);
    draw_subtitle(picture);
    label.size = TEXT_SIZE;
    label.least = LEAST_SIZE;
    label.bold = false;
    label.text = chart->x_label;
    label.x = (picture->left + picture->right) / 2;
    label.y = CHART_HEIGHT - EDGE + 2;
    label.most = picture->right - picture->left - (picture->x.power != 0 ? 96 : 0);
    label.anchor = "middle";
    svg_label(picture->out, &label);
    label.text = chart->y_label;
    label.x = EDGE + 10;
    label.y = (picture->top + picture->bottom) / 2;
    label.most = picture->bottom - picture->top;
    label.turn = -90;
    svg_label(picture->out, &label);
}

/* ---- the series ---- */

static void path_to(const struct picture *picture, bool first, double x, double y)
{
    buf_format(picture->out, "%s%s %s", first ? "M" : "L", PX(axis_place(&picture->x, x)),
               PX(axis_place(&picture->y, y)));
}

/* Over a logarithmic axis y = x is a curve. It is drawn straight from one power of two to the next,
 * as measurements there are, which would seem better than linear between them otherwise, and
 * through the ticks, so that a point that is linear lies on it. */
static double next_corner(const struct chart *chart, double after)
{
    double next = exp2(floor(log2(after)) + 1);
    for (size_t i = 0; i < chart->x_tick_count; i++)
        if (chart->x_ticks[i] > after && chart->x_ticks[i] < next)
            next = chart->x_ticks[i];
    return next;
}

static void draw_diagonal(const struct picture *picture)
{
    double from = picture->diagonal_from, to = picture->chart->diagonal;
    if (!picture_diagonal(picture->chart) || !(from < to))
        return;
    buf_text(picture->out, "<path class='diagonal' d='");
    path_to(picture, true, from, from);
    double x = next_corner(picture->chart, from);
    while (picture->x.log2 && from > 0 && x < to) {
        path_to(picture, false, x, x);
        x = next_corner(picture->chart, x);
    }
    path_to(picture, false, to, to);
    buf_char(picture->out, '\'');
    svg_stroke(picture->out, &diagonal_stroke);
}

static void draw_line(const struct picture *picture, const struct chart_series *series,
                      const struct look *look)
{
    const struct chart *chart = picture->chart;
    bool pen = false, any = false; /* down; was down */
    for (size_t i = 0; i < series->count; i++) {
        bool shown = picture_shows(chart, series, i);
        bool begins = shown && !pen && picture_shows(chart, series, i + 1);
        if (begins && !any)
            buf_text(picture->out, "<path stroke-linejoin='round' d='");
        if (begins || (shown && pen))
            path_to(picture, begins, series->x[i], series->y[i]);
        any = any || begins;
        pen = shown && (pen || begins);
    }
    if (any) {
        buf_char(picture->out, '\'');
        svg_stroke(picture->out, &look->stroke);
    }
}

/* Will the marker of a later series hide this point's? */
static bool is_covered(const struct picture *picture, size_t s, size_t i)
{
    const struct chart *chart = picture->chart;
    const struct chart_series *series = &chart->series[s];
    const double near = 3;
    double x = axis_place(&picture->x, series->x[i]), y = axis_place(&picture->y, series->y[i]);
    for (size_t k = s + 1; k < chart->series_count && !series->points_only; k++) {
        const struct chart_series *other = &chart->series[k];
        if (other->points_only || i >= other->count || !picture_shows(chart, other, i))
            continue;
        if (fabs(axis_place(&picture->x, other->x[i]) - x) < near &&
            fabs(axis_place(&picture->y, other->y[i]) - y) < near)
            return true;
    }
    return false;
}

/* Of a line with many points only some are marked, and those that no line shows. What would be
 * hidden is larger, and looks out behind. */
static void draw_points(const struct picture *picture, size_t s, const struct look *look)
{
    const struct chart *chart = picture->chart;
    const struct chart_series *series = &chart->series[s];
    struct look large = *look;
    large.large = true;
    size_t every = series->points_only ? 1 : (series->count + MOST_MARKERS - 1) / MOST_MARKERS;
    for (size_t i = 0; i < series->count; i++) {
        bool alone =
            !(i > 0 && picture_shows(chart, series, i - 1)) && !picture_shows(chart, series, i + 1);
        if (picture_shows(chart, series, i) && (alone || i % every == 0))
            look_marker(picture->out, is_covered(picture, s, i) ? &large : look,
                        axis_place(&picture->x, series->x[i]),
                        axis_place(&picture->y, series->y[i]));
    }
}

/* Where a series' bars begin within a group, as a part of the group's width. */
static double bar_place(const struct chart *chart, size_t s, double *width)
{
    const double used = 0.8;
    const struct chart_series *series = &chart->series[s];
    size_t bars = 0, before = 0;
    size_t like = !series->points_only ? s : series->on > 0 ? series->on - 1 : chart->series_count;
    for (size_t i = 0; i < chart->series_count; i++) {
        before += !chart->series[i].points_only && i < like;
        bars += !chart->series[i].points_only;
    }
    *width = used / (double)(bars > 0 ? bars : 1);
    if (like >= chart->series_count || chart->series[like].points_only)
        return 0.5 - *width / 2;
    return (1 - used) / 2 + (double)before * *width;
}

/* At the foot of a bar {x, y, w, h}, where no marker stands on it, or above it if it is low. */
static void draw_value(const struct picture *picture, double value, const double box[4],
                       const struct look *look)
{
    char text[TICK_TEXT];
    long hundredths = lround(fabs(value) * 100);
    (void)snprintf(text, sizeof text, "%s%ld.%02ld", value < 0 ? "-" : "", hundredths / 100,
                   hundredths % 100);
    if (picture->y.power != 0 || svg_width(text, VALUE_SIZE) > box[2])
        return;
    bool inside = box[3] > 2 * VALUE_SIZE;
    svg_label(
        picture->out,
        &(struct label){.text = text,
                        .x = box[0] + box[2] / 2,
                        .y = box[1] + (inside ? box[3] : 0) - 5,
                        .most = box[2],
                        .size = VALUE_SIZE,
                        .anchor = "middle",
                        .colour = inside && look->stroke.dash == NULL ? "#ffffff" : CHART_INK});
}

static void draw_bars(const struct picture *picture, size_t s, const struct look *look)
{
    const struct chart *chart = picture->chart;
    const struct chart_series *series = &chart->series[s];
    double width, room = picture_band(picture), zero = axis_place(&picture->y, 0);
    double first = picture->left + bar_place(chart, s, &width) * room;
    width *= room;
    double gap = width > 6 ? 1 : 0;
    for (size_t i = 0; i < series->count; i++) {
        if (!picture_shows(chart, series, i))
            continue;
        double x = first + (double)i * room, y = axis_place(&picture->y, series->y[i]);
        double box[] = {x + gap / 2, fmin(y, zero), width - gap, fabs(y - zero)};
        if (series->points_only) {
            look_marker(picture->out, look, x + width / 2, y);
            continue;
        }
        look_bar(picture->out, look, box);
        if (chart->values)
            draw_value(picture, series->y[i], box, look);
    }
}

static void draw_series(const struct picture *picture, size_t s)
{
    const struct chart_series *series = &picture->chart->series[s];
    struct look look = look_of(picture->chart, s);
    buf_text(picture->out, "<g class='series'>\n");
    if (picture_named(series))
        svg_element(picture->out, "title", series->name);
    if (picture->chart->kind == CHART_BARS) {
        draw_bars(picture, s, &look);
    } else {
        if (!series->points_only)
            draw_line(picture, series, &look);
        draw_points(picture, s, &look);
    }
    buf_text(picture->out, "</g>\n");
}

/* ---- the legend ---- */

static void legend_sample(const struct picture *picture, size_t s, double x, double y)
{
    struct look look = look_of(picture->chart, s);
    double width = picture_sample(picture->chart);
    if (picture->chart->kind == CHART_BARS && !look.hollow) {
        look_bar(picture->out, &look, (double[]){x, y - width / 2, width, width});
        return;
    }
    if (!look.hollow)
        svg_line(picture->out, &look.stroke, (double[]){x, y, x + width, y});
    look_marker(picture->out, &look, x + width / 2, y);
}

static void legend_text(const struct picture *picture, const char *text, double x, double y)
{
    double most = CHART_WIDTH - EDGE - x + 1; /* what was measured must not be cut by rounding */
    svg_label(picture->out, &(struct label){.text = text,
                                            .x = x,
                                            .y = y + 4,
                                            .most = most,
                                            .size = picture->legend_size,
                                            .anchor = "start",
                                            .colour = CHART_INK});
}

/* Right of the plot. Rows come closer when there are many; past that a line tells how many
 * are not listed. */
static void draw_legend(const struct picture *picture)
{
    const struct chart *chart = picture->chart;
    size_t rows = picture_diagonal(chart), done = 0;
    for (size_t i = 0; i < chart->series_count; i++)
        rows += picture_named(&chart->series[i]);
    if (rows == 0)
        return;
    double x = picture->right + EDGE, y = picture->top + 8, room = CHART_HEIGHT - EDGE - y;
    double text_x = x + picture_sample(chart) + SAMPLE_GAP;
    double height = fmax(13, fmin(LINE_HEIGHT, room / (double)rows));
    size_t most = (size_t)(room / height) + 1;
    size_t listed = rows <= most ? rows : most - 1;
    buf_text(picture->out, "<g class='legend'>\n");
    if (picture_diagonal(chart)) {
        svg_line(picture->out, &diagonal_stroke, (double[]){x, y, x + LINE_SAMPLE, y});
        legend_text(picture, "linear", text_x, y);
        done++;
    }
    for (size_t i = 0; i < chart->series_count && done < listed; i++)
        if (picture_named(&chart->series[i])) {
            legend_sample(picture, i, x, y + (double)done * height);
            legend_text(picture, chart->series[i].name, text_x, y + (double)done * height);
            done++;
        }
    if (done < rows) {
        char text[40];
        (void)snprintf(text, sizeof text, "and %zu more", rows - done);
        legend_text(picture, text, x, y + (double)done * height);
    }
    buf_text(picture->out, "</g>\n");
}

void chart_svg(const struct chart *chart, struct buf *out)
{
    struct picture picture = {.chart = chart, .out = out};
    picture_lay_out(&picture);
    buf_format(out,
               "<svg xmlns='http://www.w3.org/2000/svg' role='img' width='%d' height='%d' "
               "viewBox='0 0 %d %d' font-family='Helvetica, Arial, DejaVu Sans, sans-serif'>\n",
               CHART_WIDTH, CHART_HEIGHT, CHART_WIDTH, CHART_HEIGHT);
    svg_element(out, "title", chart->title != NULL ? chart->title : "chart");
    if (chart->subtitle != NULL)
        svg_element(out, "desc", chart->subtitle);
    buf_format(out, "<rect width='%d' height='%d' fill='#ffffff'/>\n", CHART_WIDTH, CHART_HEIGHT);
    draw_axes(&picture);
    draw_texts(&picture);
    draw_diagonal(&picture);
    for (size_t i = 0; i < chart->series_count; i++)
        draw_series(&picture, i);
    draw_legend(&picture);
    buf_text(out, "</svg>\n");
}
