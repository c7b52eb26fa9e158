/* A sweep as a picture, while it is made. */
#ifndef TRIDENT_CLI_SIMULATE_PLOT_H
#define TRIDENT_CLI_SIMULATE_PLOT_H

#include "cli/chart.h"
#include "cli/simulate.h"

#ifdef __cplusplus
extern "C" {
#endif

enum plot_kind {
    PLOT_NODES,  /* lines: one for each variant and rate */
    PLOT_RATES,  /* lines over the rates, for one number of nodes */
    PLOT_CASE,   /* bars: one case, a bar for each variant */
    PLOT_TRAFFIC /* bars: the nodes of the largest case, a bar for each variant */
};

struct plot {
    const struct sweep *sweep;
    enum plot_kind kind;
    struct chart_series *series; /* [lines], then room for the papers' points */
    char (*names)[VARIANT_NAME]; /* [lines] */
    size_t lines, points;        /* points: of each */
    size_t series_count;
    double *x, *y;           /* [points], [lines x points] */
    double *paper;           /* x and y of each of the papers' points */
    char (*groups)[32];      /* [points] of bars */
    const char **group_list; /* the same */
};

/* The same for a system in every picture, counted from 1. */
size_t plot_style(const struct study_system *system);

/* How many points the papers have at most. */
size_t plot_paper_most(void);
/* Appends those of these papers' numbers that belong into the picture, as hollow markers. */
void plot_paper(struct plot *plot);

#ifdef __cplusplus
}
#endif

#endif
