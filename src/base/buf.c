/* Growable byte runs with a sticky out-of-memory flag. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void buf_init(struct buf *buf, const struct mem *mem)
{
    *buf = (struct buf){.mem = mem};
}

void buf_fini(struct buf *buf)
{
    mem_free(buf->mem, buf->data);
    buf_init(buf, buf->mem);
}

/* Makes room for len more bytes and the NUL; false when refused. */
static bool reserve(struct buf *buf, size_t len)
{
    if (buf->refused)
        return false;
    void *data = buf->data;
    if (len > SIZE_MAX - buf->len - 1 ||
        mem_grow(buf->mem, &data, &buf->cap, buf->len + len + 1, 1) == NULL) {
        buf->refused = true;
        return false;
    }
    buf->data = data;
    return true;
}

void buf_add(struct buf *buf, const void *bytes, size_t len)
{
    if (len == 0 || !reserve(buf, len))
        return;
    memcpy(buf->data + buf->len, bytes, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void buf_text(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

void buf_char(struct buf *buf, char c)
{
    buf_add(buf, &c, 1);
}

void buf_fill(struct buf *buf, char c, size_t count)
{
    if (count == 0 || !reserve(buf, count))
        return;
    memset(buf->data + buf->len, c, count);
    buf->len += count;
    buf->data[buf->len] = '\0';
}

void buf_format(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len > 0 && reserve(buf, (size_t)len)) {
        (void)vsnprintf(buf->data + buf->len, (size_t)len + 1, format, again);
        buf->len += (size_t)len;
    }
    va_end(again);
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->refused = false;
    if (buf->data != NULL)
        buf->data[0] = '\0';
}

const char *buf_string(const struct buf *buf)
{
    return buf->data == NULL ? "" : buf->data;
}
