/* Drawing charts. Only whole numbers and texts are formatted, never a double, so that no locale
 * can put a comma into a coordinate and no rounding a 0.30000000000000004 on an axis. */
#include "cli/chart.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"

enum {
    EDGE = 16, /* between the picture's edge and anything in it */
    TITLE_SIZE = 15,
    TEXT_SIZE = 12,
    TICK_SIZE = 11,
    LEAST_SIZE = 10,
    LINE_HEIGHT = 20,  /* of the legend, as of all one-line things */
    LEGEND_TEXT = 190, /* most width of a name there */
    LINE_SAMPLE = 30,  /* widths of what stands for a series in the legend */
    BAR_SAMPLE = 12,
    SAMPLE_GAP = 8,
    MANY_SERIES = 16, /* from here on some may find no room in the legend */
    SLANTED = 110,    /* most length of a group's name that is not level */
    MOST_TICKS = 8,
    MOST_MARKERS = 24, /* on a line; more hide it */
    PX_TEXT = 24,
    TICK_TEXT = 40,
};

/* Of group names that are not level. */
static const int slant_degrees = 38;
static const double slant_sine = 0.62, slant_cosine = 0.79;

static const char ink[] = "#222222", pale[] = "#666666";

struct stroke {
    const char *colour, *width;
    const char *dash; /* NULL: none */
};
static const struct stroke grid_stroke = {"#e4e4e4", "1", NULL},
                           axis_stroke = {"#666666", "1", NULL},
                           diagonal_stroke = {"#8a8a8a", "1.2", "4 3"};

/* ---- coordinates and texts ---- */

/* A coordinate to a tenth of a pixel. */
static char *px_text(double px, char out[PX_TEXT])
{
    long tenths = lround(px * 10);
    const char *sign = tenths < 0 ? "-" : "";
    tenths = labs(tenths);
    if (tenths % 10 == 0)
        (void)snprintf(out, PX_TEXT, "%s%ld", sign, tenths / 10);
    else
        (void)snprintf(out, PX_TEXT, "%s%ld.%ld", sign, tenths / 10, tenths % 10);
    return out;
}
#define PX(value) px_text((value), (char[PX_TEXT]){0})

/* The width of a character in units of the text size. Which font will be used is not known:
 * these are of DejaVu Sans, the widest of the usual ones. */
static double char_width(uint32_t code)
{
    static const struct {
        const char *chars;
        double width;
    } widths[] = {{" .,:;'|!ijlI", 0.33}, {"frt()[]/-", 0.42}, {"mwMW%@", 0.98}, {"+<=>~&", 0.84}};
    if (code >= 0x1100) /* East Asian, symbols, pictures */
        return 1;
    for (size_t i = 0; code < 0x80 && i < sizeof widths / sizeof widths[0]; i++)
        if (strchr(widths[i].chars, (int)code) != NULL)
            return widths[i].width;
    return code >= 'A' && code <= 'Z' ? 0.74 : 0.64;
}

/* The character at text, of which room (at least 1) bytes are left; '?' for what may not be
 * shown. XML knows neither controls nor the two noncharacters. */
static size_t next_char(const char *text, size_t room, uint32_t *code)
{
    size_t len = utf8_length(text, room);
    *code = len > 0 ? utf8_code(text, len) : '?';
    if (!printable_code(*code) || *code == 0xFFFE || *code == 0xFFFF)
        *code = '?';
    return len > 0 ? len : 1;
}

static double text_width(const char *text, double size)
{
    double width = 0;
    uint32_t code;
    size_t room = strlen(text);
    for (size_t len; room > 0; text += len, room -= len) {
        len = next_char(text, room, &code);
        width += char_width(code) * size;
    }
    return width;
}

static void put_char(struct buf *out, uint32_t code, const char *bytes, size_t len)
{
    static const struct {
        uint32_t code;
        const char *text;
    } entities[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'?', "?"}};
    for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++)
        if (code == entities[i].code) {
            buf_text(out, entities[i].text);
            return;
        }
    buf_add(out, bytes, len);
}

/* The text, escaped; what would be wider than `most` is cut. */
static void put_text(struct buf *out, const char *text, double size, double most)
{
    bool cut = text_width(text, size) > most;
    double left = most - (cut ? size : 0); /* the ellipsis counts as one wide character */
    uint32_t code;
    size_t room = strlen(text);
    for (size_t len; room > 0; text += len, room -= len) {
        len = next_char(text, room, &code);
        left -= char_width(code) * size;
        if (cut && left < 0)
            break;
        put_char(out, code, text, len);
    }
    if (cut)
        buf_text(out, "\xE2\x80\xA6");
}

/* <title> is what a screen reader says and what a browser shows under the pointer. */
static void put_element(struct buf *out, const char *element, const char *text)
{
    buf_format(out, "<%s>", element);
    put_text(out, text, 1, INFINITY);
    buf_format(out, "</%s>\n", element);
}

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

static void put_label(struct buf *out, const struct label *label)
{
    if (label->text == NULL)
        return;
    int size = label->size;
    double wide = label->bold ? 1.12 : 1;
    while (size > label->least && label->least > 0 &&
           text_width(label->text, size * wide) > label->most)
        size--;
    buf_format(out, "<text x='%s' y='%s' font-size='%d' text-anchor='%s' fill='%s'", PX(label->x),
               PX(label->y), size, label->anchor, label->colour);
    if (label->bold)
        buf_text(out, " font-weight='bold'");
    if (label->turn != 0)
        buf_format(out, " transform='rotate(%d %s %s)'", label->turn, PX(label->x), PX(label->y));
    buf_char(out, '>');
    put_text(out, label->text, size * wide, label->most);
    buf_text(out, "</text>\n");
}

/* Ends a line or a path. */
static void put_stroke(struct buf *out, const struct stroke *stroke)
{
    buf_format(out, " fill='none' stroke='%s' stroke-width='%s'", stroke->colour, stroke->width);
    if (stroke->dash != NULL)
        buf_format(out, " stroke-dasharray='%s'", stroke->dash);
    buf_text(out, "/>\n");
}

static void put_line(struct buf *out, const struct stroke *stroke, const double ends[4])
{
    buf_format(out, "<line x1='%s' y1='%s' x2='%s' y2='%s'", PX(ends[0]), PX(ends[1]), PX(ends[2]),
               PX(ends[3]));
    put_stroke(out, stroke);
}

/* ---- axes ---- */

struct range {
    double low, high;
    bool any; /* a value was seen */
};

static void range_add(struct range *range, double value)
{
    range->low = range->any ? fmin(range->low, value) : value;
    range->high = range->any ? fmax(range->high, value) : value;
    range->any = true;
}

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

/* The pixel of tick i, which may be broken. */
static double tick_place(const struct axis *axis, double i)
{
    double part = (i - (double)axis->first) / (double)(axis->last - axis->first);
    return axis->from + part * (axis->to - axis->from);
}

static double axis_place(const struct axis *axis, double value)
{
    return tick_place(axis, axis->log2 ? log2(value) : value / axis->unit / axis->step);
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

static void axis_linear(struct axis *axis, const struct range *range, int ticks)
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

static long long first_tick(const struct axis *axis)
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

/* The text of a tick. Powers of two that would be long have only their base in it and their
 * exponent to be raised: true. */
static bool tick_text(const struct axis *axis, long long i, char out[TICK_TEXT])
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

static double widest_tick(const struct axis *axis)
{
    double widest = 0;
    char text[TICK_TEXT];
    for (long long i = first_tick(axis); i <= axis->last; i += axis->every) {
        bool raised = tick_text(axis, i, text);
        widest = fmax(widest, text_width(text, TICK_SIZE) + (raised ? 2.0 * TICK_SIZE : 0));
    }
    return widest;
}

/* As many ticks along x as have room for their texts. */
static void axis_along(struct axis *axis, const struct range *range, bool logarithmic, double room)
{
    for (int ticks = logarithmic ? MOST_TICKS + 4 : MOST_TICKS; ticks > 0; ticks--) {
        if (logarithmic)
            axis_log2(axis, range, ticks);
        else
            axis_linear(axis, range, ticks);
        long long shown = (axis->last - axis->first) / axis->every + 1;
        if ((widest_tick(axis) + TICK_SIZE) * (double)shown <= room)
            return;
    }
}

/* ---- how series look ---- */

/* Okabe and Ito's colours, which readers with any kind of colour vision tell apart, without
 * the yellow, which is too faint for a line on white. One less than there are shapes: the
 * pairs repeat after 56 series only. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000"};
enum { COLOURS = sizeof colours / sizeof colours[0] };

/* Of those that repeat a colour; [1] for series that are dashed anyway. */
static const char *const dashes[][2] = {
    {NULL, "7 4"}, {"2 3", "5 2"}, {"9 3 2 3", "9 3 2 3 2 3"}, {"14 3", "14 3 5 3"}};

/* Closed outlines, x and y in tenths of the radius; the first shape is a circle. */
static const struct shape {
    size_t count;
    signed char points[24];
} shapes[] = {
    {0, {0}},
    {4, {-9, -9, 9, -9, 9, 9, -9, 9}},
    {3, {0, -12, 11, 8, -11, 8}},
    {4, {0, -13, 11, 0, 0, 13, -11, 0}},
    {3, {0, 12, 11, -8, -11, -8}},
    {12, {5, -9, 9, -5, 4, 0, 9, 5, 5, 9, 0, 4, -5, 9, -9, 5, -4, 0, -9, -5, -5, -9, 0, -4}},
    {5, {0, -12, 12, -3, 7, 10, -7, 10, -12, -3}},
    {12,
     {-4, -12, 4, -12, 4, -4, 12, -4, 12, 4, 4, 4, 4, 12, -4, 12, -4, 4, -12, 4, -12, -4, -4, -4}},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

struct look {
    struct stroke stroke; /* of its line */
    const struct shape *shape;
    bool again; /* the colour was used before */
    bool hollow;
};

static struct look look_of(const struct chart *chart, size_t i)
{
    const struct chart_series *series = &chart->series[i];
    size_t n = series->style > 0 ? series->style - 1 : i;
    size_t turn = n / COLOURS % (sizeof dashes / sizeof dashes[0]);
    /* A marker among bars has its colour behind it. */
    bool on_bar = chart->kind == CHART_BARS && series->points_only;
    return (struct look){
        .stroke = {on_bar ? ink : colours[n % COLOURS], "2", dashes[turn][series->dashed]},
        .shape = &shapes[n % SHAPES],
        .again = n >= COLOURS,
        .hollow = series->points_only};
}

static void put_marker(struct buf *out, const struct look *look, double x, double y)
{
    double radius = look->hollow ? 4.6 : 4;
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

static void put_bar(struct buf *out, const struct look *look, const double box[4])
{
    buf_format(out, "<rect x='%s' y='%s' width='%s' height='%s' fill='%s'", PX(box[0]), PX(box[1]),
               PX(box[2]), PX(box[3]), look->stroke.colour);
    if (look->stroke.dash != NULL)
        buf_format(out, " fill-opacity='%s' stroke='%s' stroke-dasharray='%s'",
                   look->again ? "0.55" : "0.3", look->stroke.colour, look->stroke.dash);
    buf_text(out, "/>\n");
}

/* ---- the layout ---- */

struct picture {
    const struct chart *chart;
    struct buf *out;
    double left, right, top, bottom; /* of the plot */
    struct axis x, y;                /* x: of lines only */
    double diagonal_from;            /* where the line y = x begins; it ends at chart->diagonal */
    double slant;                    /* length of group names that are not level; 0: they are */
    int legend_size;                 /* of its text */
};

static bool named(const struct chart_series *series)
{
    return series->name != NULL && series->name[0] != '\0';
}

static bool point_shown(const struct chart *chart, const struct chart_series *series, size_t i)
{
    if (i >= series->count || !isfinite(series->y[i]))
        return false;
    if (chart->kind == CHART_BARS)
        return i < chart->group_count;
    return isfinite(series->x[i]) && (!chart->x_log2 || series->x[i] > 0);
}

static bool has_diagonal(const struct chart *chart)
{
    return chart->kind == CHART_LINES && isfinite(chart->diagonal) && chart->diagonal > 0;
}

/* What both axes must span. */
static void ranges(struct picture *picture, struct range *x, struct range *y)
{
    const struct chart *chart = picture->chart;
    for (size_t s = 0; s < chart->series_count; s++)
        for (size_t i = 0; i < chart->series[s].count; i++)
            if (point_shown(chart, &chart->series[s], i)) {
                range_add(y, chart->series[s].y[i]);
                if (chart->kind == CHART_LINES)
                    range_add(x, chart->series[s].x[i]);
            }
    if (has_diagonal(chart)) {
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

static double sample_width(const struct chart *chart)
{
    return chart->kind == CHART_BARS ? BAR_SAMPLE : LINE_SAMPLE;
}

/* Returns the legend's width with the gap before it; 0 if there is none. One long name makes
 * the text of all smaller. */
static double layout_legend(struct picture *picture)
{
    const struct chart *chart = picture->chart;
    double widest = has_diagonal(chart) ? text_width("linear", 1) : 0;
    for (size_t i = 0; i < chart->series_count; i++)
        if (named(&chart->series[i]))
            widest = fmax(widest, text_width(chart->series[i].name, 1));
    if (chart->series_count > MANY_SERIES && widest > 0)
        widest = fmax(widest, text_width("and 9999 more", 1));
    picture->legend_size = TEXT_SIZE;
    while (picture->legend_size > LEAST_SIZE && widest * picture->legend_size > LEGEND_TEXT)
        picture->legend_size--;
    double text = fmin(widest * picture->legend_size, LEGEND_TEXT);
    return text > 0 ? EDGE + sample_width(chart) + SAMPLE_GAP + text : 0;
}

static double band(const struct picture *picture)
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
        widest = fmax(widest, text_width(chart->groups[i], TICK_SIZE));
    if (widest + 6 > band(picture))
        picture->slant = fmin(widest, SLANTED);
    picture->bottom -= picture->slant * slant_sine;
}

static void layout_x(struct picture *picture, const struct range *range)
{
    const struct chart *chart = picture->chart;
    axis_along(&picture->x, range, chart->x_log2, picture->right - picture->left);
    /* The text of the last tick must not run out of the picture, nor into the legend. */
    picture->right -= fmax(0, widest_tick(&picture->x) / 2 - (EDGE - 2));
    if (picture->x.power != 0 && chart->x_label == NULL)
        picture->bottom -= LINE_HEIGHT;
    /* Where the axis cannot begin at zero, the first point stands clear of the y axis. */
    double inset = chart->x_log2 ? 14 : 0;
    picture->x.from = picture->left + inset;
    picture->x.to = picture->right - inset;
}

static void layout(struct picture *picture)
{
    const struct chart *chart = picture->chart;
    struct range x = {0}, y = {0};
    ranges(picture, &x, &y);
    axis_linear(&picture->y, &y, MOST_TICKS);
    double legend = layout_legend(picture);
    picture->top = EDGE + (chart->title != NULL ? 20 : 0) + (chart->subtitle != NULL ? 18 : 0) +
                   (picture->y.power != 0 ? 20 : 12); /* the power stands above the axis */
    picture->left = EDGE + (chart->y_label != NULL ? 20 : 0) + widest_tick(&picture->y) + 8;
    picture->right = CHART_WIDTH - EDGE - legend;
    picture->bottom = CHART_HEIGHT - EDGE - (chart->x_label != NULL ? LINE_HEIGHT : 0) - 18;
    if (chart->kind == CHART_BARS)
        layout_groups(picture);
    else
        layout_x(picture, &x);
    picture->y.from = picture->bottom;
    picture->y.to = picture->top;
}

/* ---- the axes ---- */

/* "x10^power" at the end of an axis. */
static void draw_power(struct buf *out, int power, const char *anchor, const double at[2])
{
    if (power == 0)
        return;
    buf_format(out,
               "<text class='power' x='%s' y='%s' font-size='%d' text-anchor='%s' fill='%s'>"
               "&#215;10<tspan dy='-4' font-size='9'>%d</tspan></text>\n",
               PX(at[0]), PX(at[1]), TICK_SIZE, anchor, ink, power);
}

static void draw_tick(const struct picture *picture, bool along, long long i)
{
    const struct axis *axis = along ? &picture->x : &picture->y;
    struct buf *out = picture->out;
    double at = tick_place(axis, (double)i);
    if (along)
        put_line(out, &grid_stroke, (double[]){at, picture->top, at, picture->bottom});
    else
        put_line(out, &grid_stroke, (double[]){picture->left, at, picture->right, at});
    char text[TICK_TEXT];
    bool raised = tick_text(axis, i, text);
    buf_format(out, "<text class='%s' x='%s' y='%s' font-size='%d' text-anchor='%s' fill='%s'>%s",
               along ? "xtick" : "ytick", PX(along ? at : picture->left - 6),
               PX(along ? picture->bottom + 16 : at + 4), TICK_SIZE, along ? "middle" : "end", ink,
               text);
    if (raised)
        buf_format(out, "<tspan dy='-4' font-size='9'>%lld</tspan>", i);
    buf_text(out, "</text>\n");
}

static void draw_groups(const struct picture *picture)
{
    const struct chart *chart = picture->chart;
    double room = band(picture);
    size_t every = picture->slant > 0 ? (size_t)(14 / room) + 1 : 1;
    struct label label = {.size = TICK_SIZE, .anchor = "middle", .colour = ink, .most = room};
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
        put_label(picture->out, &label);
    }
}

static void draw_axes(const struct picture *picture)
{
    struct buf *out = picture->out;
    const struct axis *x = &picture->x, *y = &picture->y;
    double left = picture->left, right = picture->right;
    for (long long i = first_tick(y); i <= y->last; i += y->every)
        draw_tick(picture, false, i);
    draw_power(out, y->power, "middle", (double[]){left, picture->top - 9});
    if (picture->chart->kind == CHART_BARS) {
        draw_groups(picture);
    } else {
        for (long long i = first_tick(x); i <= x->last; i += x->every)
            draw_tick(picture, true, i);
        draw_power(out, x->power, "end", (double[]){right, picture->bottom + 34});
    }
    put_line(out, &axis_stroke, (double[]){left, picture->top, left, picture->bottom});
    put_line(out, &axis_stroke, (double[]){left, picture->bottom, right, picture->bottom});
    double zero = axis_place(y, 0);
    if (y->first < 0 && y->last > 0)
        put_line(out, &axis_stroke, (double[]){left, zero, right, zero});
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
                          .colour = ink,
                          .bold = true};
    put_label(picture->out, &label);
    label.text = chart->subtitle;
    label.y += chart->title != NULL ? 19 : 0;
    label.size = TEXT_SIZE;
    label.least = LEAST_SIZE;
    label.colour = pale;
    label.bold = false;
    put_label(picture->out, &label);
    label.text = chart->x_label;
    label.x = (picture->left + picture->right) / 2;
    label.y = CHART_HEIGHT - EDGE + 2;
    label.most = picture->right - picture->left - (picture->x.power != 0 ? 96 : 0);
    label.anchor = "middle";
    label.colour = ink;
    put_label(picture->out, &label);
    label.text = chart->y_label;
    label.x = EDGE + 10;
    label.y = (picture->top + picture->bottom) / 2;
    label.most = picture->bottom - picture->top;
    label.turn = -90;
    put_label(picture->out, &label);
}

/* ---- the series ---- */

static void path_to(const struct picture *picture, bool first, double x, double y)
{
    buf_format(picture->out, "%s%s %s", first ? "M" : "L", PX(axis_place(&picture->x, x)),
               PX(axis_place(&picture->y, y)));
}

/* Over a logarithmic axis y = x is a curve. It is drawn straight from one power of two to the
 * next, as measurements there are, which would seem better than linear between them otherwise. */
static void draw_diagonal(const struct picture *picture)
{
    double from = picture->diagonal_from, to = picture->chart->diagonal;
    if (!has_diagonal(picture->chart) || !(from < to))
        return;
    buf_text(picture->out, "<path class='diagonal' d='");
    path_to(picture, true, from, from);
    for (long long i = picture->x.first; picture->x.log2 && i < picture->x.last; i++)
        if (exp2((double)i) > from && exp2((double)i) < to)
            path_to(picture, false, exp2((double)i), exp2((double)i));
    path_to(picture, false, to, to);
    buf_char(picture->out, '\'');
    put_stroke(picture->out, &diagonal_stroke);
}

static void draw_line(const struct picture *picture, const struct chart_series *series,
                      const struct look *look)
{
    const struct chart *chart = picture->chart;
    bool pen = false, any = false; /* down; was down */
    for (size_t i = 0; i < series->count; i++) {
        bool shown = point_shown(chart, series, i);
        bool begins = shown && !pen && point_shown(chart, series, i + 1);
        if (begins && !any)
            buf_text(picture->out, "<path stroke-linejoin='round' d='");
        if (begins || (shown && pen))
            path_to(picture, begins, series->x[i], series->y[i]);
        any = any || begins;
        pen = shown && (pen || begins);
    }
    if (any) {
        buf_char(picture->out, '\'');
        put_stroke(picture->out, &look->stroke);
    }
}

/* Of a line with many points only some are marked, and those that no line shows. */
static void draw_points(const struct picture *picture, const struct chart_series *series,
                        const struct look *look)
{
    const struct chart *chart = picture->chart;
    size_t every = series->points_only ? 1 : (series->count + MOST_MARKERS - 1) / MOST_MARKERS;
    for (size_t i = 0; i < series->count; i++) {
        bool alone =
            !(i > 0 && point_shown(chart, series, i - 1)) && !point_shown(chart, series, i + 1);
        if (point_shown(chart, series, i) && (alone || i % every == 0))
            put_marker(picture->out, look, axis_place(&picture->x, series->x[i]),
                       axis_place(&picture->y, series->y[i]));
    }
}

/* Where a series' bars begin within a group, as a part of the group's width. */
static double bar_place(const struct chart *chart, size_t s, double *width)
{
    const double used = 0.8;
    const struct chart_series *series = &chart->series[s];
    size_t bars = 0, before = 0;
    size_t like = series->points_only && series->style > 0 ? series->style - 1 : s;
    for (size_t i = 0; i < chart->series_count; i++) {
        before += !chart->series[i].points_only && i < like;
        bars += !chart->series[i].points_only;
    }
    *width = used / (double)(bars > 0 ? bars : 1);
    if (like >= chart->series_count || chart->series[like].points_only)
        return 0.5 - *width / 2;
    return (1 - used) / 2 + (double)before * *width;
}

static void draw_bars(const struct picture *picture, size_t s, const struct look *look)
{
    const struct chart *chart = picture->chart;
    const struct chart_series *series = &chart->series[s];
    double width, room = band(picture), zero = axis_place(&picture->y, 0);
    double first = picture->left + bar_place(chart, s, &width) * room;
    width *= room;
    double gap = width > 6 ? 1 : 0;
    for (size_t i = 0; i < series->count; i++) {
        if (!point_shown(chart, series, i))
            continue;
        double x = first + (double)i * room, y = axis_place(&picture->y, series->y[i]);
        if (series->points_only)
            put_marker(picture->out, look, x + width / 2, y);
        else
            put_bar(picture->out, look,
                    (double[]){x + gap / 2, fmin(y, zero), width - gap, fabs(y - zero)});
    }
}

static void draw_series(const struct picture *picture, size_t s)
{
    const struct chart_series *series = &picture->chart->series[s];
    struct look look = look_of(picture->chart, s);
    buf_text(picture->out, "<g class='series'>\n");
    if (named(series))
        put_element(picture->out, "title", series->name);
    if (picture->chart->kind == CHART_BARS) {
        draw_bars(picture, s, &look);
    } else {
        if (!series->points_only)
            draw_line(picture, series, &look);
        draw_points(picture, series, &look);
    }
    buf_text(picture->out, "</g>\n");
}

/* ---- the legend ---- */

static void legend_sample(const struct picture *picture, size_t s, double x, double y)
{
    struct look look = look_of(picture->chart, s);
    double width = sample_width(picture->chart);
    if (picture->chart->kind == CHART_BARS && !look.hollow) {
        put_bar(picture->out, &look, (double[]){x, y - width / 2, width, width});
        return;
    }
    if (!look.hollow)
        put_line(picture->out, &look.stroke, (double[]){x, y, x + width, y});
    put_marker(picture->out, &look, x + width / 2, y);
}

static void legend_text(const struct picture *picture, const char *text, double x, double y)
{
    double most = CHART_WIDTH - EDGE - x + 1; /* what was measured must not be cut by rounding */
    put_label(picture->out, &(struct label){.text = text,
                                            .x = x,
                                            .y = y + 4,
                                            .most = most,
                                            .size = picture->legend_size,
                                            .anchor = "start",
                                            .colour = ink});
}

/* Right of the plot. Rows come closer when there are many; past that a line tells how many
 * are not listed. */
static void draw_legend(const struct picture *picture)
{
    const struct chart *chart = picture->chart;
    size_t rows = has_diagonal(chart), done = 0;
    for (size_t i = 0; i < chart->series_count; i++)
        rows += named(&chart->series[i]);
    if (rows == 0)
        return;
    double x = picture->right + EDGE, y = picture->top + 8, room = CHART_HEIGHT - EDGE - y;
    double text_x = x + sample_width(chart) + SAMPLE_GAP;
    double height = fmax(13, fmin(LINE_HEIGHT, room / (double)rows));
    size_t most = (size_t)(room / height) + 1;
    size_t listed = rows <= most ? rows : most - 1;
    buf_text(picture->out, "<g class='legend'>\n");
    if (has_diagonal(chart)) {
        put_line(picture->out, &diagonal_stroke, (double[]){x, y, x + LINE_SAMPLE, y});
        legend_text(picture, "linear", text_x, y);
        done++;
    }
    for (size_t i = 0; i < chart->series_count && done < listed; i++)
        if (named(&chart->series[i])) {
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
    layout(&picture);
    buf_format(out,
               "<svg xmlns='http://www.w3.org/2000/svg' role='img' width='%d' height='%d' "
               "viewBox='0 0 %d %d' font-family='Helvetica, Arial, DejaVu Sans, sans-serif'>\n",
               CHART_WIDTH, CHART_HEIGHT, CHART_WIDTH, CHART_HEIGHT);
    put_element(out, "title", chart->title != NULL ? chart->title : "chart");
    if (chart->subtitle != NULL)
        put_element(out, "desc", chart->subtitle);
    buf_format(out, "<rect width='%d' height='%d' fill='#ffffff'/>\n", CHART_WIDTH, CHART_HEIGHT);
    draw_axes(&picture);
    draw_texts(&picture);
    draw_diagonal(&picture);
    for (size_t i = 0; i < chart->series_count; i++)
        draw_series(&picture, i);
    draw_legend(&picture);
    buf_text(out, "</svg>\n");
}
