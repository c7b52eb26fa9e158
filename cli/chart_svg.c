/* Writing SVG. */
#include "cli/chart_svg.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"

char *svg_px(double px, char out[PX_TEXT])
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

double svg_width(const char *text, double size)
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
    bool cut = svg_width(text, size) > most;
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

void svg_element(struct buf *out, const char *element, const char *text)
{
    buf_format(out, "<%s>", element);
    put_text(out, text, 1, INFINITY);
    buf_format(out, "</%s>\n", element);
}

void svg_label(struct buf *out, const struct label *label)
{
    if (label->text == NULL)
        return;
    int size = label->size;
    double wide = label->bold ? 1.12 : 1;
    while (size > label->least && label->least > 0 &&
           svg_width(label->text, size * wide) > label->most)
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

void svg_stroke(struct buf *out, const struct stroke *stroke)
{
    buf_format(out, " fill='none' stroke='%s' stroke-width='%s'", stroke->colour, stroke->width);
    if (stroke->dash != NULL)
        buf_format(out, " stroke-dasharray='%s'", stroke->dash);
    buf_text(out, "/>\n");
}

void svg_line(struct buf *out, const struct stroke *stroke, const double ends[4])
{
    buf_format(out, "<line x1='%s' y1='%s' x2='%s' y2='%s'", PX(ends[0]), PX(ends[1]), PX(ends[2]),
               PX(ends[3]));
    svg_stroke(out, stroke);
}
