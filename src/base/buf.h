/* A growable run of bytes, mostly used to build text.
 *
 * Writers append without checking each call: the first refusal of memory is
 * remembered, later appends do nothing, and one buf_ok() at the end tells.
 * The content always has a NUL behind it that is not counted in len. */
#ifndef TRIDENT_BASE_BUF_H
#define TRIDENT_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct buf {
    const struct mem *mem; /* borrowed; must outlive the buffer */
    char *data;            /* NULL until the first append */
    size_t len;
    size_t cap;
    bool refused; /* an append found no memory; the content is incomplete */
};

void buf_init(struct buf *buf, const struct mem *mem);
void buf_fini(struct buf *buf); /* safe after any failure; the buffer may be initialised again */

void buf_add(struct buf *buf, const void *bytes, size_t len);
void buf_text(struct buf *buf, const char *text);
void buf_char(struct buf *buf, char c);
void buf_fill(struct buf *buf, char c, size_t count);
void buf_format(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_clear(struct buf *buf); /* forgets the content and a refusal, keeps the memory */

static inline bool buf_ok(const struct buf *buf)
{
    return !buf->refused;
}

/* The content as a string; "" before the first append. Valid until the next change. */
const char *buf_string(const struct buf *buf);

#ifdef __cplusplus
}
#endif

#endif
