/* Writing JSON into a buffer.
 *
 * The first `wrap` levels of nesting put each member on a line of its own, the
 * rest stays on one line, so that a long list reads as one line per item. Keys
 * are NULL inside arrays. Nesting is the caller's to balance (asserted). Characters
 * that could drive a terminal are written as escapes; bytes that are not UTF-8 as
 * \ufffd. */
#ifndef TRIDENT_BASE_JSON_OUT_H
#define TRIDENT_BASE_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#ifdef __cplusplus
extern "C" {
#endif

struct json_out {
    struct buf *buf; /* borrowed; a refusal of memory is told by buf_ok() */
    unsigned wrap;
    unsigned depth;
    uint64_t arrays; /* bit d: is the container at depth d an array */
    bool fresh;
};

void json_out_init(struct json_out *out, struct buf *buf, unsigned wrap);
void json_out_object(struct json_out *out, const char *key);
void json_out_array(struct json_out *out, const char *key);
void json_out_close(struct json_out *out); /* the innermost; the outermost adds a newline */
void json_out_count(struct json_out *out, const char *key, uint64_t value);
/* Shortest text that reads back as the same double; NaN and infinity become null. */
void json_out_number(struct json_out *out, const char *key, double value);
void json_out_bool(struct json_out *out, const char *key, bool value);
void json_out_string(struct json_out *out, const char *key, const char *value); /* NULL: null */

#ifdef __cplusplus
}
#endif

#endif
