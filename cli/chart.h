/* A chart as SVG text, as one would put it into a paper.
 *
 * From plain numbers to a picture of CHART_WIDTH x CHART_HEIGHT that needs no font file, no
 * style sheet and no script, and has no ids, so that several stand in one HTML page. The same
 * chart gives the same bytes on every machine and in every locale. */
#ifndef TRIDENT_CLI_CHART_H
#define TRIDENT_CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CHART_WIDTH = 720, CHART_HEIGHT = 440 };

enum chart_kind {
    CHART_LINES, /* y over x */
    CHART_BARS,  /* y of named groups, from zero up or down */
};

/* Colour and marker come from a series' place in the chart, or from style. */
struct chart_series {
    const char *name; /* in the legend; NULL or "": not listed there */
    const double *x;  /* lines: count values, joined in this order; bars: not looked at */
    const double *y;  /* count values; bars: the nth is of groups[n] */
    size_t count;     /* may be 0 */
    size_t style;     /* n: looks like the nth series, counted from 1; 0: like none before it */
    size_t marker;    /* n: the nth other marker for its style; 0: the style's own */
    size_t dash;      /* n: the nth kind of dashes, and paler as a bar; 0: none */
    bool neutral;     /* in the colour of texts, with a round marker */
    bool points_only; /* hollow markers and no line, e.g. for numbers printed in a paper */
    size_t on;        /* points_only among bars: they stand on the bar of the nth series, counted
                         from 1; 0: in the middle of the group. They take no room of their own. */
};

/* All is borrowed. Texts are UTF-8; what would break the XML or the reader's view (controls,
 * bytes that are not UTF-8) shows as '?'. A subtitle takes up to four
 * lines, broken at spaces. Texts too long for their place are cut with an ellipsis; the whole text
 * stays as the tooltip of a series and as the picture's title.
 *
 * A point is left out, and the line has a gap there, where x or y is NaN or infinite or where
 * x is not positive on a logarithmic axis. Axes go from round number to round number around
 * the points; numbers that would be long are divided by a power of ten that stands at the
 * axis. */
struct chart {
    enum chart_kind kind;
    const char *title, *subtitle;  /* either may be NULL */
    const char *x_label, *y_label; /* with units: "bandwidth (Gbit/s)"; may be NULL */
    const double *x_ticks;     /* lines: where ticks shall stand, ascending; looked at only if */
    size_t x_tick_count;       /* all are whole numbers, and where there is room. 0: choose */
    bool x_log2;               /* lines: ticks at 1, 2, 4, 8 ... */
    bool y_from_zero;          /* zero is on the y axis; with bars it always is */
    const char *const *groups; /* bars: names along the x axis; lines: not looked at */
    size_t group_count;
    const struct chart_series *series;
    size_t series_count;
    bool values;     /* bars: the number stands above each that has room for it */
    double diagonal; /* lines: draw y = x in grey, called "linear", up to this x; 0: do not */
};

/* Appends the chart to out; memory that was refused is told by buf_ok(). */
void chart_svg(const struct chart *chart, struct buf *out);

#ifdef __cplusplus
}
#endif

#endif
