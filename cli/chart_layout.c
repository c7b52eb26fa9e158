/* Laying out charts. */
#include "cli/chart_layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/chart_svg.h"

enum {
    LEGEND_TEXT = 190, /* most width of a name there */
    MANY_SERIES = 16,  /* from here on some may find no room in the legend */
    SLANTED = 110,     /* most length of a group's name that is not level */
};

/* Of group names that are not level. */
static const double slant_sine = 0.62;

bool picture_named(const struct chart_series *series)
{
    return series->name != NULL && series->name[0] != '\0';
}

bool picture_shows(const struct chart *chart, const struct chart_series *series, size_t i)
{
    if (i >= series->count || !isfinite(series->y[i]))
        return false;
    if (chart->kind == CHART_BARS)
        return i < chart->group_count;
    return isfinite(series->x[i]) && (!chart->x_log2 || series->x[i] > 0);
}

bool picture_diagonal(const struct chart *chart)
{
    return chart->kind == CHART_LINES && isfinite(chart->diagonal) && chart->diagonal > 0;
}

/* What both axes must span. */
static void ranges(struct picture *picture, struct range *x, struct range *y)
{
    const struct chart *chart = picture->chart;
    for (size_t s = 0; s < chart->series_count; s++)
        for (size_t i = 0; i < chart->series[s].count; i++)
            if (picture_shows(chart, &chart->series[s], i)) {
                range_add(y, chart->series[s].y[i]);
                if (chart->kind == CHART_LINES)
                    range_add(x, chart->series[s].x[i]);
            }
    if (picture_diagonal(chart)) {
        double from = x->any ? fmax(x->low, 0) : chart->x_log2 ? 1 : 0;
        picture->diagonal_from = fmin(from, chart->diagonal);
        range_add(x, picture->diagonal_from);
        range_add(x, chart->diagonal);
        range_add(y, picture->diagonal_from);
        range_add(y, chart->diagonal);
    }
    if (chart->y_from_zero || chart->kind == CHART_BARS)
        range_add(y, 0);
}

double picture_sample(const struct chart *chart)
{
    return chart->kind == CHART_BARS ? BAR_SAMPLE : LINE_SAMPLE;
}

/* Returns the legend's width with the gap before it; 0 if there is none. One long name makes
 * the text of all smaller. */
static double layout_legend(struct picture *picture)
{
    const struct chart *chart = picture->chart;
    double widest = picture_diagonal(chart) ? svg_width("linear", 1) : 0;
    for (size_t i = 0; i < chart->series_count; i++)
        if (picture_named(&chart->series[i]))
            widest = fmax(widest, svg_width(chart->series[i].name, 1));
    if (chart->series_count > MANY_SERIES && widest > 0)
        widest = fmax(widest, svg_width("and 9999 more", 1));
    picture->legend_size = TEXT_SIZE;
    while (picture->legend_size > LEAST_SIZE && widest * picture->legend_size > LEGEND_TEXT)
        picture->legend_size--;
    double text = fmin(widest * picture->legend_size, LEGEND_TEXT);
    return text > 0 ? EDGE + picture_sample(chart) + SAMPLE_GAP + text : 0;
}

double picture_band(const struct picture *picture)
{
    size_t count = picture->chart->group_count;
    return (picture->right - picture->left) / (double)(count > 0 ? count : 1);
}

/* Names that do not fit side by side slant. */
static void layout_groups(struct picture *picture)
{
    const struct chart *chart = picture->chart;
    double widest = 0;
    for (size_t i = 0; i < chart->group_count; i++)
        widest = fmax(widest, svg_width(chart->groups[i], TICK_SIZE));
    if (widest + 6 > picture_band(picture))
        picture->slant = fmin(widest, SLANTED);
    picture->bottom -= picture->slant * slant_sine;
}

/* Are there ticks that were asked for, and can they be shown as they are? */
static bool listed_ticks(const struct chart *chart, const struct range *range)
{
    const double most = 1e6;
    for (size_t i = 0; i < chart->x_tick_count; i++)
        if (!(chart->x_ticks[i] >= 0 && chart->x_ticks[i] <= most) ||
            chart->x_ticks[i] != floor(chart->x_ticks[i]))
            return false;
    return chart->x_tick_count > 0 && !chart->x_log2 && range->any && range->low >= 0 &&
           range->high <= most;
}

static void layout_x(struct picture *picture, const struct range *range)
{
    const struct chart *chart = picture->chart;
    picture->x_listed = listed_ticks(chart, range);
    if (picture->x_listed)
        axis_whole(&picture->x, range->high);
    else
        axis_along(&picture->x, range, chart->x_log2, picture->right - picture->left);
    /* The text of the last tick must not run out of the picture, nor into the legend. */
    picture->right -= fmax(0, axis_widest(&picture->x) / 2 - (EDGE - 2));
    if (picture->x.power != 0 && chart->x_label == NULL)
        picture->bottom -= LINE_HEIGHT;
    /* Where the axis cannot begin at zero, the first point stands clear of the y axis. */
    double inset = chart->x_log2 ? 14 : 0;
    picture->x.from = picture->left + inset;
    picture->x.to = picture->right - inset;
}

const char *picture_line(const char *text, char line[WRAP_TEXT])
{
    const char *end = NULL;
    bool comma = false;
    if (svg_width(text, SUBTITLE_SIZE) <= CHART_WIDTH - 2 * EDGE)
        return NULL;
    for (const char *at = strchr(text, ' '); at != NULL; at = strchr(at + 1, ' ')) {
        if (at - text >= WRAP_TEXT)
            break;
        (void)snprintf(line, WRAP_TEXT, "%.*s", (int)(at - text), text);
        if (svg_width(line, SUBTITLE_SIZE) > CHART_WIDTH - 2 * EDGE)
            break;
        bool here = at > text && at[-1] == ',';
        end = here || !comma ? at : end;
        comma = comma || here;
    }
    if (end == NULL)
        return NULL;
    (void)snprintf(line, WRAP_TEXT, "%.*s", (int)(end - text), text);
    return end + 1;
}

static size_t count_lines(const char *text)
{
    char line[WRAP_TEXT];
    size_t count = 0;
    for (; text != NULL && count < SUBTITLE_LINES; count++)
        text = picture_line(text, line);
    return count;
}

void picture_lay_out(struct picture *picture)
{
    const struct chart *chart = picture->chart;
    struct range x = {0}, y = {0};
    ranges(picture, &x, &y);
    axis_linear(&picture->y, &y, MOST_TICKS);
    double legend = layout_legend(picture);
    picture->subtitle_lines = count_lines(chart->subtitle);
    picture->top = EDGE + (chart->title != NULL ? 20 : 0) +
                   SUBTITLE_HEIGHT * (double)picture->subtitle_lines + 3 +
                   (picture->y.power != 0 ? 20 : 12); /* the power stands above the axis */
    picture->left = EDGE + (chart->y_label != NULL ? 20 : 0) + axis_widest(&picture->y) + 8;
    picture->right = CHART_WIDTH - EDGE - legend;
    picture->bottom = CHART_HEIGHT - EDGE - (chart->x_label != NULL ? LINE_HEIGHT : 0) - 18;
    if (chart->kind == CHART_BARS)
        layout_groups(picture);
    else
        layout_x(picture, &x);
    picture->y.from = picture->bottom;
    picture->y.to = picture->top;
}
