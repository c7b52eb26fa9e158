/* Axes of charts: from values to round ticks, and to pixels. No rounding puts a
 * 0.30000000000000004 on an axis: the texts of ticks come from whole numbers. */
#ifndef TRIDENT_CLI_CHART_AXIS_H
#define TRIDENT_CLI_CHART_AXIS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TICK_SIZE = 11, TICK_TEXT = 40, MOST_TICKS = 8 };

struct range {
    double low, high;
    bool any; /* a value was seen */
};
void range_add(struct range *range, double value);

/* Tick i stands at i x mantissa x 10^exponent units of 10^power; on a logarithmic axis at 2^i. */
struct axis {
    bool log2;
    int power;
    double unit; /* 10^power */
    int mantissa, exponent;
    double step;           /* mantissa x 10^exponent; 1 if logarithmic */
    long long first, last; /* the ends of the axis */
    long long every;       /* the ticks shown are multiples of it */
    double from, to;       /* pixels of the ends */
};

/* From round number to round number around the range, with about so many ticks. */
void axis_linear(struct axis *axis, const struct range *range, int ticks);
/* From 0 up, with a tick for every whole number, of which the caller shows some. */
void axis_whole(struct axis *axis, double high);
/* As many ticks as have room for their texts side by side. */
void axis_along(struct axis *axis, const struct range *range, bool logarithmic, double room);

/* The pixel of tick i, which may be broken, and of a value. */
double axis_tick(const struct axis *axis, double i);
double axis_place(const struct axis *axis, double value);

long long axis_first(const struct axis *axis);
/* The text of a tick. Powers of two that would be long have only their base in it and their
 * exponent to be raised: true. */
bool axis_text(const struct axis *axis, long long i, char out[TICK_TEXT]);
double axis_widest(const struct axis *axis);

#ifdef __cplusplus
}
#endif

#endif
