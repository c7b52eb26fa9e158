/* Colours and shapes. */
#include "cli/chart_look.h"

#include <stdio.h>
#include <stdlib.h>

/* Okabe and Ito's colours, which readers with any kind of colour vision tell apart, without
 * the yellow, which is too faint for a line on white. One less than there are shapes: the
 * pairs repeat after 56 series only. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000"};
enum { COLOURS = sizeof colours / sizeof colours[0] };

/* Of a series' own lines, of those that are dashed, and of those that repeat a colour. */
static const char *const dashes[] = {NULL,   "7 4", "2 3",         "9 3 2 3",
                                     "14 3", "5 2", "9 3 2 3 2 3", "14 3 5 3"};
enum { DASHES = sizeof dashes / sizeof dashes[0] };
/* How much of the colour a bar with these dashes has, in percent. */
static const unsigned strengths[DASHES] = {100, 60, 40, 25, 15, 50, 30, 20};

/* Closed outlines, x and y in tenths of the radius; the first shape is a circle. */
struct shape {
    size_t count;
    signed char points[24];
};
static const struct shape shapes[] = {
    {0, {0}},
    {4, {-9, -9, 9, -9, 9, 9, -9, 9}},
    {3, {0, -12, 11, 8, -11, 8}},
    {4, {0, -13, 11, 0, 0, 13, -11, 0}},
    {3, {0, 12, 11, -8, -11, -8}},
    {12,
     {6, -12, 12, -6, 6, 0, 12, 6, 6, 12, 0, 6, -6, 12, -12, 6, -6, 0, -12, -6, -6, -12, 0, -6}},
    {5, {0, -12, 12, -3, 7, 10, -7, 10, -12, -3}},
    {12,
     {-4, -12, 4, -12, 4, -4, 12, -4, 12, 4, 4, 4, 4, 12, -4, 12, -4, 4, -12, 4, -12, -4, -4, -4}},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

struct look look_of(const struct chart *chart, size_t i)
{
    const struct chart_series *series = &chart->series[i];
    size_t n = series->style > 0 ? series->style - 1 : i;
    size_t turn = n / COLOURS; /* 2, so that dashed ones differ from those of the next turn */
    /* A marker among bars has its colour behind it. */
    bool on_bar = chart->kind == CHART_BARS && series->points_only;
    bool plain = series->neutral || on_bar;
    return (struct look){
        .stroke = {plain ? CHART_INK : colours[n % COLOURS], "2",
                   dashes[(2 * turn + series->dash) % DASHES]},
        /* 3 and the number of shapes have no divisor in common: all come before one comes again */
        .shape = &shapes[(series->neutral ? 0 : n + 3 * series->marker) % SHAPES],
        .strength = strengths[(2 * turn + series->dash) % DASHES],
        .hollow = series->points_only};
}

void look_marker(struct buf *out, const struct look *look, double x, double y)
{
    double radius = look->hollow ? 4.6 : look->large ? 6.4 : 4;
    const char *fill = look->hollow ? "#ffffff" : look->stroke.colour;
    const char *stroke = look->hollow ? look->stroke.colour : "#ffffff";
    const char *width = look->hollow ? "1.7" : "0.7"; /* white parts markers that overlap */
    if (look->shape->count == 0) {
        buf_format(out, "<circle cx='%s' cy='%s' r='%s'", PX(x), PX(y), PX(radius));
    } else {
        buf_text(out, "<polygon points='");
        const signed char *at = look->shape->points;
        for (size_t i = 0; i < look->shape->count; i++, at += 2)
            buf_format(out, "%s%s %s", i > 0 ? " " : "", PX(x + at[0] * radius / 10),
                       PX(y + at[1] * radius / 10));
        buf_char(out, '\'');
    }
    buf_format(out, " fill='%s' stroke='%s' stroke-width='%s'/>\n", fill, stroke, width);
}

/* Paler by white, not by transparence, which would let the grid shine through. */
static void pale_colour(const char *colour, unsigned strength, char out[8])
{
    unsigned long rgb = strtoul(colour + 1, NULL, 16), mixed = 0;
    for (unsigned shift = 0; shift <= 16; shift += 8) {
        unsigned long part = rgb >> shift & 0xFF;
        mixed |= (255 - (255 - part) * strength / 100) << shift;
    }
    (void)snprintf(out, 8, "#%06lx", mixed & 0xFFFFFF);
}

void look_bar(struct buf *out, const struct look *look, const double box[4])
{
    char fill[8];
    pale_colour(look->stroke.colour, look->stroke.dash != NULL ? look->strength : 100, fill);
    buf_format(out, "<rect x='%s' y='%s' width='%s' height='%s' fill='%s'", PX(box[0]), PX(box[1]),
               PX(box[2]), PX(box[3]), fill);
    if (look->stroke.dash != NULL)
        buf_format(out, " stroke='%s' stroke-dasharray='%s'", look->stroke.colour,
                   look->stroke.dash);
    buf_text(out, "/>\n");
}
