/* A strict JSON reader (RFC 8259) that knows where every value stands.
 *
 * It pulls values from a text in memory, without building a tree and without
 * allocating. Errors stick: after the first one every call does nothing and
 * returns a harmless value, so a reader of a format checks once at the end:
 *
 *     json_object(&json);
 *     while (json_member(&json))
 *         if (strcmp(json.key, "rows") == 0)
 *             rows = json_count(&json, 1, MAX_ROWS);
 *         else
 *             json_skip(&json);
 *     json_end(&json);
 *     if (json.status != TRI_OK) ...
 *
 * Refused: anything RFC 8259 refuses, invalid UTF-8, nesting deeper than
 * JSON_MAX_DEPTH, numbers too large for a double, and \u0000, which a C string
 * cannot hold. */
#ifndef TRIDENT_BASE_JSON_H
#define TRIDENT_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { JSON_MAX_DEPTH = 64, JSON_KEY_MAX = 63 };

struct json {
    const char *name; /* of the file, for errors; borrowed */
    const char *text; /* borrowed; need not end in NUL */
    size_t len;
    size_t pos;         /* of the next byte to read */
    size_t value;       /* where the value read last begins */
    size_t key_at;      /* where the key read last begins */
    const char *object; /* what the object being read is called in errors about the numbers in
                           it ("a layer"); NULL: they do not say. The caller's to set */
    tri_error *err;     /* may be NULL */
    tri_status status;  /* TRI_OK until something was refused */
    unsigned depth;
    bool fresh;                 /* no element of the innermost container was read yet */
    char key[JSON_KEY_MAX + 1]; /* of the last member; a longer key is cut */
};

void json_open(struct json *json, const char *name, const char *text, size_t len, tri_error *err);

/* Enter a container. Then json_member() or json_element() until it returns
 * false, which leaves the container; one value must be read after each true. */
void json_object(struct json *json);
bool json_member(struct json *json); /* fills key */
void json_array(struct json *json);
bool json_element(struct json *json);

/* A whole number in [min, max], written without fraction or exponent. */
uint64_t json_count(struct json *json, uint64_t min, uint64_t max);
double json_number(struct json *json);
double json_between(struct json *json, double min, double max);
bool json_bool(struct json *json);
/* Replaces the content of out. Running out of memory there is not an error of the text. */
void json_string(struct json *json, struct buf *out);
void json_skip(struct json *json);           /* any value, checked as strictly as the others */
bool json_is(struct json *json, char first); /* does the next value begin so: '{' '[' '"' ... */
void json_end(struct json *json);            /* nothing but white space may follow */

/* Refuses the input at byte `at` of the text (json.value: the last value read)
 * with file, line and column; the first refusal wins. */
void json_refuse(struct json *json, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds the next step to a refusal that has none yet. */
void json_advise(struct json *json, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
