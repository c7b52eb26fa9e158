/* A pull reader for JSON with positions. */
#include "base/json.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

void json_open(struct json *json, const char *name, const char *text, size_t len, tri_error *err)
{
    *json = (struct json){.name = name, .text = text, .len = len, .err = err, .fresh = true};
}

/* Line and column are worked out only when something is wrong. Columns count
 * characters, not bytes, as editors do. */
static void locate(const struct json *json, size_t at, size_t *line, size_t *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < at && i < json->len; i++) {
        unsigned char c = (unsigned char)json->text[i];
        if (c == '\n') {
            ++*line;
            *column = 1;
        } else if ((c & 0xC0) != 0x80) {
            ++*column;
        }
    }
}

void json_refuse(struct json *json, size_t at, const char *format, ...)
{
    if (json->status != TRI_OK)
        return;
    json->status = TRI_EINPUT;
    char text[200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t line, column;
    locate(json, at, &line, &column);
    fail(json->err, TRI_EINPUT, "%s", text);
    fail_where(json->err, "%s:%zu:%zu", json->name, line, column);
}

void json_advise(struct json *json, const char *format, ...)
{
    if (json->err == NULL || json->err->next[0] != '\0')
        return;
    char text[sizeof json->err->next];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail_next(json->err, "%s", text);
}

static int peek(const struct json *json)
{
    return json->pos < json->len ? (unsigned char)json->text[json->pos] : -1;
}

/* Skips white space and marks where the next value begins; -1 at the end. */
static int next(struct json *json)
{
    int c = peek(json);
    while (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        json->pos++;
        c = peek(json);
    }
    return c;
}

static void refuse_char(struct json *json, const char *wanted)
{
    int c = peek(json);
    if (c < 0)
        json_refuse(json, json->pos, "the text ends where %s should be", wanted);
    else if (c < 0x20 || c >= 0x7F)
        json_refuse(json, json->pos, "found byte 0x%02x where %s should be", (unsigned)c, wanted);
    else
        json_refuse(json, json->pos, "found '%c' where %s should be", c, wanted);
}

static bool expect(struct json *json, char c, const char *wanted)
{
    if (json->status != TRI_OK)
        return false;
    if (next(json) != (unsigned char)c) {
        refuse_char(json, wanted);
        return false;
    }
    json->pos++;
    return true;
}

bool json_is(struct json *json, char first)
{
    return json->status == TRI_OK && next(json) == (unsigned char)first;
}

/* ---- strings ---- */

static int hex_digit(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool hex4(struct json *json, uint32_t *out)
{
    uint32_t code = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(peek(json));
        if (digit < 0) {
            refuse_char(json, "a hexadecimal digit of \\uXXXX");
            return false;
        }
        code = code << 4 | (uint32_t)digit;
        json->pos++;
    }
    *out = code;
    return true;
}

static size_t utf8_encode(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t extra = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
    for (size_t i = extra; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)(lead[extra] | code);
    return extra + 1;
}

/* \uXXXX, of which a high surrogate must be followed by a low one. */
static size_t unicode_escape(struct json *json, size_t at, char out[4])
{
    uint32_t code, low;
    if (!hex4(json, &code))
        return 0;
    if (code >= 0xD800 && code < 0xDC00) {
        if (json->len - json->pos < 2 || memcmp(json->text + json->pos, "\\u", 2) != 0) {
            json_refuse(json, at, "half a surrogate pair");
            return 0;
        }
        json->pos += 2;
        if (!hex4(json, &low))
            return 0;
        if (low < 0xDC00 || low > 0xDFFF) {
            json_refuse(json, at, "half a surrogate pair");
            return 0;
        }
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
        json_refuse(json, at, "half a surrogate pair");
        return 0;
    }
    if (code == 0) {
        json_refuse(json, at, "\\u0000 cannot be part of a text");
        return 0;
    }
    return utf8_encode(code, out);
}

static size_t escape(struct json *json, char out[4])
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    size_t at = json->pos - 1;
    int c = peek(json);
    if (c == 'u') {
        json->pos++;
        return unicode_escape(json, at, out);
    }
    const char *found = c > 0 ? strchr(names, c) : NULL;
    if (found == NULL) {
        refuse_char(json, "an escape such as \\n");
        return 0;
    }
    json->pos++;
    out[0] = values[found - names];
    return 1;
}

/* One character of a string into out; 0 at the closing quote or on an error. */
static size_t string_char(struct json *json, char out[4])
{
    int c = peek(json);
    if (c < 0) {
        json_refuse(json, json->value, "this string has no closing quote");
        return 0;
    }
    if (c == '"') {
        json->pos++;
        return 0;
    }
    if (c == '\\') {
        json->pos++;
        return escape(json, out);
    }
    if (c < 0x20) {
        json_refuse(json, json->pos, "byte 0x%02x in a string must be written as an escape",
                    (unsigned)c);
        return 0;
    }
    const char *p = json->text + json->pos;
    size_t len = utf8_length(p, json->len - json->pos);
    if (len == 0) {
        json_refuse(json, json->pos, "byte 0x%02x is not UTF-8", (unsigned)c);
        return 0;
    }
    memcpy(out, p, len);
    json->pos += len;
    return len;
}

static bool string_open(struct json *json, const char *wanted)
{
    if (!expect(json, '"', wanted))
        return false;
    json->value = json->pos - 1;
    return true;
}

void json_string(struct json *json, struct buf *out)
{
    buf_clear(out);
    if (!string_open(json, "a string"))
        return;
    char c[4];
    for (size_t len; (len = string_char(json, c)) > 0;)
        buf_add(out, c, len);
}

static void read_key(struct json *json)
{
    json->key[0] = '\0';
    if (!string_open(json, "a key in quotes"))
        return;
    json->key_at = json->value;
    char c[4];
    size_t used = 0;
    for (size_t len; (len = string_char(json, c)) > 0;)
        if (used + len <= JSON_KEY_MAX) {
            memcpy(json->key + used, c, len);
            used += len;
        }
    json->key[used] = '\0';
}

/* ---- containers ---- */

static void enter(struct json *json, char c, const char *wanted)
{
    if (!expect(json, c, wanted))
        return;
    json->value = json->pos - 1;
    if (++json->depth > JSON_MAX_DEPTH)
        json_refuse(json, json->value, "nested more than %d deep", JSON_MAX_DEPTH);
    json->fresh = true;
}

/* Is there another element before the closing bracket? */
static bool more(struct json *json, char close, const char *wanted)
{
    if (json->status != TRI_OK)
        return false;
    bool first = json->fresh;
    json->fresh = false;
    int c = next(json);
    if (c == (unsigned char)close) {
        json->pos++;
        json->depth--;
        return false;
    }
    if (first)
        return true;
    if (c != ',') {
        refuse_char(json, wanted);
        return false;
    }
    json->pos++;
    if (next(json) == (unsigned char)close) {
        json_refuse(json, json->pos, "a comma must not stand before '%c'", close);
        return false;
    }
    return true;
}

void json_object(struct json *json)
{
    enter(json, '{', "an object");
}

bool json_member(struct json *json)
{
    if (!more(json, '}', "',' or '}'"))
        return false;
    read_key(json);
    return expect(json, ':', "':'");
}

void json_array(struct json *json)
{
    enter(json, '[', "an array");
}

bool json_element(struct json *json)
{
    return more(json, ']', "',' or ']'");
}

/* ---- numbers and words ---- */

struct number {
    bool negative;
    bool whole;      /* neither fraction nor exponent */
    uint64_t digits; /* leading digits as a whole number */
    int exponent;    /* of ten, to be applied to digits */
};

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* Takes a run of digits; after 19 of them the rest only moves the exponent. */
static void take_digits(struct json *json, struct number *number, int step)
{
    if (!is_digit(peek(json))) {
        refuse_char(json, "a digit");
        return;
    }
    for (int c; is_digit(c = peek(json)); json->pos++) {
        if (number->digits < UINT64_MAX / 10 - 1) {
            number->digits = number->digits * 10 + (uint64_t)(c - '0');
            number->exponent -= step;
        } else {
            number->exponent += 1 - step;
        }
    }
}

static void take_exponent(struct json *json, struct number *number)
{
    json->pos++;
    int sign = peek(json) == '-' ? -1 : 1;
    if (peek(json) == '-' || peek(json) == '+')
        json->pos++;
    if (!is_digit(peek(json))) {
        refuse_char(json, "a digit of the exponent");
        return;
    }
    int exponent = 0;
    for (; is_digit(peek(json)); json->pos++)
        if (exponent < 100000)
            exponent = exponent * 10 + (peek(json) - '0');
    number->exponent += sign * exponent;
}

enum { SUBJECT_TEXT = 120 };

/* "'M' of a layer: ", or nothing when the caller did not name the object. */
static const char *subject(const struct json *json, char out[SUBJECT_TEXT])
{
    out[0] = '\0';
    if (json->object != NULL)
        (void)snprintf(out, SUBJECT_TEXT, "'%s' of %s: ", json->key, json->object);
    return out;
}

static void refuse_no_number(struct json *json)
{
    char wanted[SUBJECT_TEXT] = "a number";
    if (json->object != NULL)
        (void)snprintf(wanted, sizeof wanted, "the number '%s' of %s", json->key, json->object);
    refuse_char(json, wanted);
}

static struct number take_number(struct json *json)
{
    struct number number = {.whole = true};
    int c = next(json);
    json->value = json->pos;
    if (c == '-') {
        number.negative = true;
        json->pos++;
        c = peek(json);
    }
    if (!is_digit(c)) {
        refuse_no_number(json);
        return number;
    }
    size_t start = json->pos;
    take_digits(json, &number, 0);
    if (c == '0' && json->pos - start > 1)
        json_refuse(json, start, "a number must not begin with 0");
    if (peek(json) == '.') {
        number.whole = false;
        json->pos++;
        take_digits(json, &number, 1);
    }
    if (peek(json) == 'e' || peek(json) == 'E') {
        number.whole = false;
        take_exponent(json, &number);
    }
    return number;
}

uint64_t json_count(struct json *json, uint64_t min, uint64_t max)
{
    if (json->status != TRI_OK)
        return min;
    struct number number = take_number(json);
    if (json->status != TRI_OK)
        return min;
    size_t shown = json->pos - json->value > 40 ? 40 : json->pos - json->value;
    const char *text = json->text + json->value;
    char about[SUBJECT_TEXT];
    if (!number.whole) {
        json_refuse(json, json->value, "%s%.*s is not a whole number", subject(json, about),
                    (int)shown, text);
        json_advise(json, "write it without point or exponent");
        return min;
    }
    bool huge = number.exponent > 0;
    bool negative = number.negative && (huge || number.digits > 0);
    if (negative || huge || number.digits < min || number.digits > max) {
        json_refuse(json, json->value, "%s%.*s is not between %llu and %llu", subject(json, about),
                    (int)shown, text, (unsigned long long)min, (unsigned long long)max);
        return min;
    }
    return number.digits;
}

/* Not strtod: its decimal point depends on the locale of the host program. Up
 * to 2^53 and 10^22 this rounds once, as strtod would; past that it may be off
 * by some units in the last place, which no quantity in our files can notice. */
static double scale(uint64_t digits, int exponent)
{
    double value = (double)digits;
    if (digits == 0)
        return 0;
    if (exponent < -330)
        return 0;
    for (; exponent > 22 && isfinite(value); exponent -= 22)
        value *= 1e22;
    for (; exponent < -22; exponent += 22)
        value /= 1e22;
    double power = 1;
    for (int i = exponent < 0 ? -exponent : exponent; i > 0; i--)
        power *= 10;
    return exponent < 0 ? value / power : value * power;
}

double json_between(struct json *json, double min, double max)
{
    if (json->status != TRI_OK)
        return min;
    struct number number = take_number(json);
    if (json->status != TRI_OK)
        return min;
    double value = scale(number.digits, number.exponent);
    if (number.negative)
        value = -value;
    char about[SUBJECT_TEXT];
    if (!isfinite(value))
        json_refuse(json, json->value, "%sthis number is too large", subject(json, about));
    else if (value < min || value > max)
        json_refuse(json, json->value, "%s%g is not between %g and %g", subject(json, about), value,
                    min, max);
    return json->status == TRI_OK ? value : min;
}

double json_number(struct json *json)
{
    double value = json_between(json, -DBL_MAX, DBL_MAX);
    return json->status == TRI_OK ? value : 0;
}

static bool take_word(struct json *json, const char *word)
{
    size_t len = strlen(word);
    if (json->len - json->pos < len || memcmp(json->text + json->pos, word, len) != 0)
        return false;
    json->pos += len;
    return true;
}

bool json_bool(struct json *json)
{
    if (json->status != TRI_OK)
        return false;
    next(json);
    json->value = json->pos;
    if (take_word(json, "true"))
        return true;
    if (!take_word(json, "false"))
        refuse_char(json, "true or false");
    return false;
}

static void skip_scalar(struct json *json, int c)
{
    char text[4];
    if (c == '"') {
        if (string_open(json, "a string"))
            while (string_char(json, text) > 0)
                continue;
    } else if (c == 't' || c == 'f') {
        json_bool(json);
    } else if (c == 'n') {
        json->value = json->pos;
        if (!take_word(json, "null"))
            refuse_char(json, "null");
    } else if (c == '-' || is_digit(c)) {
        json_number(json);
    } else {
        refuse_char(json, "a value");
    }
}

/* Recursion is bounded by JSON_MAX_DEPTH. */
void json_skip(struct json *json)
{
    if (json->status != TRI_OK)
        return;
    const char *object = json->object;
    json->object = NULL; /* the keys in here are not of the object that was named */
    int c = next(json);
    size_t value = json->pos;
    if (c == '{') {
        json_object(json);
        while (json_member(json))
            json_skip(json);
    } else if (c == '[') {
        json_array(json);
        while (json_element(json))
            json_skip(json);
    } else {
        skip_scalar(json, c);
    }
    json->object = object;
    json->value = value;
}

void json_end(struct json *json)
{
    if (json->status != TRI_OK)
        return;
    if (next(json) >= 0)
        json_refuse(json, json->pos, "more text after the end of the document");
}
