/* The JSON writer. */
#include "base/json_out.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"

void json_out_init(struct json_out *out, struct buf *buf, unsigned wrap)
{
    *out = (struct json_out){.buf = buf, .wrap = wrap, .fresh = true};
}

static void quoted(struct buf *buf, const char *text)
{
    buf_char(buf, '"');
    size_t room = strlen(text);
    for (size_t len; room > 0; text += len, room -= len) {
        len = utf8_length(text, room);
        uint32_t code = len > 0 ? utf8_code(text, len) : 0xFFFD;
        len = len > 0 ? len : 1;
        if (code == '"' || code == '\\')
            buf_format(buf, "\\%c", (char)code);
        else if (!printable_code(code) || code == 0xFFFD)
            buf_format(buf, "\\u%04x", (unsigned)code);
        else
            buf_add(buf, text, len);
    }
    buf_char(buf, '"');
}

static void line(struct json_out *out)
{
    buf_char(out->buf, '\n');
    buf_fill(out->buf, ' ', out->depth);
}

/* Comma, line break and key: all that stands before a value. */
static void before(struct json_out *out, const char *key)
{
    if (!out->fresh)
        buf_char(out->buf, ',');
    if (out->depth > 0 && out->depth <= out->wrap)
        line(out);
    else if (!out->fresh)
        buf_char(out->buf, ' ');
    if (key != NULL) {
        quoted(out->buf, key);
        buf_text(out->buf, ": ");
    }
    out->fresh = false;
}

static void enter(struct json_out *out, const char *key, bool array)
{
    before(out, key);
    buf_char(out->buf, array ? '[' : '{');
    out->depth++;
    assert(out->depth < 64);
    if (array)
        out->arrays |= UINT64_C(1) << out->depth;
    else
        out->arrays &= ~(UINT64_C(1) << out->depth);
    out->fresh = true;
}

void json_out_object(struct json_out *out, const char *key)
{
    enter(out, key, false);
}

void json_out_array(struct json_out *out, const char *key)
{
    enter(out, key, true);
}

void json_out_close(struct json_out *out)
{
    assert(out->depth > 0);
    bool array = (out->arrays >> out->depth & 1) != 0;
    bool wrapped = out->depth <= out->wrap && !out->fresh;
    out->depth--;
    if (wrapped)
        line(out);
    buf_char(out->buf, array ? ']' : '}');
    if (out->depth == 0)
        buf_char(out->buf, '\n');
    out->fresh = false;
}

void json_out_count(struct json_out *out, const char *key, uint64_t value)
{
    before(out, key);
    buf_format(out->buf, "%llu", (unsigned long long)value);
}

void json_out_number(struct json_out *out, const char *key, double value)
{
    before(out, key);
    if (!isfinite(value)) {
        buf_text(out->buf, "null");
        return;
    }
    if (value == floor(value) && fabs(value) < 9007199254740992.0) {
        buf_format(out->buf, "%lld", (long long)value);
        return;
    }
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    /* The host program's locale may write a decimal comma; JSON knows the point only. */
    text[strcspn(text, ",")] = text[strcspn(text, ",")] == ',' ? '.' : '\0';
    buf_text(out->buf, text);
}

void json_out_bool(struct json_out *out, const char *key, bool value)
{
    before(out, key);
    buf_text(out->buf, value ? "true" : "false");
}

void json_out_string(struct json_out *out, const char *key, const char *value)
{
    before(out, key);
    if (value == NULL)
        buf_text(out->buf, "null");
    else
        quoted(out->buf, value);
}
