/* What charts are drawn of: coordinates, texts of known width, lines. Only whole numbers and texts
 * are formatted, never a double, so that no locale can put a comma into a coordinate. */
#ifndef TRIDENT_CLI_CHART_SVG_H
#define TRIDENT_CLI_CHART_SVG_H

#include <stdbool.h>

#include "base/buf.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PX_TEXT = 24 };

/* A coordinate to a tenth of a pixel. */
char *svg_px(double px, char out[PX_TEXT]);
#define PX(value) svg_px((value), (char[PX_TEXT]){0})

/* Its width in pixels, as far as it can be told without the font. */
double svg_width(const char *text, double size);

/* <element>text</element>. <title> is what a screen reader says and what a browser shows under the
 * pointer. */
void svg_element(struct buf *out, const char *element, const char *text);

struct label {
    const char *text; /* NULL: nothing is drawn */
    double x, y;
    double most; /* width */
    int size;
    int least; /* it shrinks to this size before it is cut; 0: it does not */
    const char *anchor, *colour;
    int turn; /* degrees, around x and y */
    bool bold;
};
void svg_label(struct buf *out, const struct label *label);

struct stroke {
    const char *colour, *width;
    const char *dash; /* NULL: none */
};
/* Ends a line or a path. */
void svg_stroke(struct buf *out, const struct stroke *stroke);
void svg_line(struct buf *out, const struct stroke *stroke, const double ends[4]);

#ifdef __cplusplus
}
#endif

#endif
