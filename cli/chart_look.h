/* How a series of a chart looks: its colour, line, marker and bar. */
#ifndef TRIDENT_CLI_CHART_LOOK_H
#define TRIDENT_CLI_CHART_LOOK_H

#include "cli/chart.h"
#include "cli/chart_svg.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CHART_INK "#222222" /* of texts */

struct look {
    struct stroke stroke; /* of its line */
    const struct shape *shape;
    unsigned strength;  /* of a bar with dashes, in percent: the more of its colour, the paler */
    bool hollow, large; /* of the marker */
};
struct look look_of(const struct chart *chart, size_t i);

void look_marker(struct buf *out, const struct look *look, double x, double y);
void look_bar(struct buf *out, const struct look *look, const double box[4]); /* x, y, w, h */

#ifdef __cplusplus
}
#endif

#endif
