/* Where everything of a chart goes. */
#ifndef TRIDENT_CLI_CHART_LAYOUT_H
#define TRIDENT_CLI_CHART_LAYOUT_H

#include "cli/chart.h"
#include "cli/chart_axis.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    EDGE = 16, /* between the picture's edge and anything in it */
    TEXT_SIZE = 12,
    LEAST_SIZE = 10,
    LINE_HEIGHT = 20, /* of the legend, as of all one-line things */
    LINE_SAMPLE = 30, /* widths of what stands for a series in the legend */
    BAR_SAMPLE = 12,
    SAMPLE_GAP = 8,
    SUBTITLE_SIZE = 11,
    SUBTITLE_LINES = 4,
    SUBTITLE_HEIGHT = 15,
    WRAP_TEXT = 300,
};

/* A chart while it is drawn. */
struct picture {
    const struct chart *chart;
    struct buf *out;
    double left, right, top, bottom; /* of the plot */
    struct axis x, y;                /* x: of lines only */
    bool x_listed;                   /* ticks along x are those of the chart */
    double diagonal_from;            /* where the line y = x begins; it ends at chart->diagonal */
    double slant;                    /* length of group names that are not level; 0: they are */
    int legend_size;                 /* of its text */
    size_t subtitle_lines;
};

/* Fills all but chart and out. */
void picture_lay_out(struct picture *picture);

/* Is the series in the legend? */
bool picture_named(const struct chart_series *series);
/* Can its point i be shown? */
bool picture_shows(const struct chart *chart, const struct chart_series *series, size_t i);
bool picture_diagonal(const struct chart *chart);
/* Widths of what stands for a series in the legend, and of a group of bars. */
double picture_sample(const struct chart *chart);
double picture_band(const struct picture *picture);
/* Copies what of a subtitle fits into a line, up to the space after a comma, or else to any;
 * returns where the next line begins, NULL if the line takes all the rest: what fits, or what
 * cannot be broken. */
const char *picture_line(const char *text, char line[WRAP_TEXT]);

#ifdef __cplusplus
}
#endif

#endif
