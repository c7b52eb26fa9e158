/* Choosing ticks. */
#include "cli/chart_axis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/chart_svg.h"

void range_add(struct range *range, double value)
{
    range->low = range->any ? fmin(range->low, value) : value;
    range->high = range->any ? fmax(range->high, value) : value;
    range->any = true;
}

double axis_tick(const struct axis *axis, double i)
{
    double part = (i - (double)axis->first) / (double)(axis->last - axis->first);
    return axis->from + part * (axis->to - axis->from);
}

double axis_place(const struct axis *axis, double value)
{
    return axis_tick(axis, axis->log2 ? log2(value) : value / axis->unit / axis->step);
}

/* The next of 1, 2, 5, 10 ... from `least` up. */
static void round_step(struct axis *axis, double least)
{
    const double slack = 1 + 1e-9;
    axis->exponent = (int)floor(log10(least * slack));
    double digits = least / pow(10, axis->exponent);
    axis->mantissa = digits <= slack ? 1 : digits <= 2 * slack ? 2 : digits <= 5 * slack ? 5 : 1;
    if (axis->mantissa == 1 && digits > slack)
        axis->exponent++;
    axis->step = axis->mantissa * pow(10, axis->exponent);
}

void axis_linear(struct axis *axis, const struct range *range, int ticks)
{
    double low = range->any ? range->low : 0, high = range->any ? range->high : 0;
    double most = fmax(fabs(low), fabs(high));
    *axis = (struct axis){.unit = 1, .every = 1};
    if (most < 1e-300) { /* as good as zero; dividing by less would overflow */
        low = 0;
        high = 1;
        most = 1;
    }
    if (most >= 1e6 || most < 1e-3)
        axis->power = 3 * (int)floor(floor(log10(most)) / 3);
    axis->unit = pow(10, axis->power);
    low /= axis->unit;
    high /= axis->unit;
    most /= axis->unit;
    if (high - low < 1e-6 * most) { /* all equal, or told apart by too many digits for a label */
        double middle = low + (high - low) / 2;
        low = middle - most / 2;
        high = middle + most / 2;
    }
    round_step(axis, (high - low) / ticks);
    axis->first = (long long)floor(low / axis->step + 1e-6);
    axis->last = (long long)ceil(high / axis->step - 1e-6);
}

void axis_whole(struct axis *axis, double high)
{
    long long last = high > 1 ? (long long)ceil(high) : 1;
    *axis = (struct axis){.unit = 1, .mantissa = 1, .step = 1, .last = last, .every = last};
}

static void axis_log2(struct axis *axis, const struct range *range, int ticks)
{
    *axis = (struct axis){.log2 = true, .unit = 1, .step = 1};
    axis->first = range->any ? (long long)floor(log2(range->low) + 1e-9) : 0;
    axis->last = range->any ? (long long)ceil(log2(range->high) - 1e-9) : 1;
    if (axis->last <= axis->first) {
        axis->last = axis->first + 1;
        axis->first--;
    }
    for (axis->every = 1; (axis->last - axis->first) / axis->every >= ticks;)
        axis->every *= 2;
}

long long axis_first(const struct axis *axis)
{
    long long i = axis->first;
    while (i % axis->every != 0)
        i++;
    return i;
}

/* number x 10^exponent, exactly. */
static void decimal(long long number, int exponent, char out[TICK_TEXT])
{
    long long scale = 1, size = llabs(number);
    for (int i = 0; i < abs(exponent); i++)
        scale *= 10;
    if (exponent >= 0 || number == 0) {
        (void)snprintf(out, TICK_TEXT, "%lld", exponent >= 0 ? number * scale : 0);
        return;
    }
    char digits[TICK_TEXT]; /* behind the point, with a 1 before them that keeps their zeros */
    (void)snprintf(digits, sizeof digits, "%lld", scale + size % scale);
    (void)snprintf(out, TICK_TEXT, "%s%lld.%.12s", number < 0 ? "-" : "", size / scale, digits + 1);
}

bool axis_text(const struct axis *axis, long long i, char out[TICK_TEXT])
{
    enum { LONGEST = 16, SHORTEST = -4 };
    if (!axis->log2) {
        decimal(i * axis->mantissa, axis->exponent, out);
        return false;
    }
    if (axis->last > LONGEST || axis->first < SHORTEST) {
        (void)snprintf(out, TICK_TEXT, "2");
        return true;
    }
    long long number = 1; /* 2^-n is 5^n x 10^-n */
    for (long long n = 0; n < llabs(i); n++)
        number *= i < 0 ? 5 : 2;
    decimal(number, i < 0 ? (int)i : 0, out);
    return false;
}

double axis_widest(const struct axis *axis)
{
    double widest = 0;
    char text[TICK_TEXT];
    for (long long i = axis_first(axis); i <= axis->last; i += axis->every) {
        bool raised = axis_text(axis, i, text);
        widest = fmax(widest, svg_width(text, TICK_SIZE) + (raised ? 2.0 * TICK_SIZE : 0));
    }
    return widest;
}

void axis_along(struct axis *axis, const struct range *range, bool logarithmic, double room)
{
    for (int ticks = logarithmic ? MOST_TICKS + 4 : MOST_TICKS; ticks > 0; ticks--) {
        if (logarithmic)
            axis_log2(axis, range, ticks);
        else
            axis_linear(axis, range, ticks);
        long long shown = (axis->last - axis->first) / axis->every + 1;
        if ((axis_widest(axis) + TICK_SIZE) * (double)shown <= room)
            return;
    }
}
