/* Numbers and texts as bytes: appended one by one, read with a sticky refusal. */
#include "wire/bytes.h"

#include <assert.h>

struct wire_text wire_text_of(const char *string)
{
    return (struct wire_text){.at = string, .len = strlen(string)};
}

int wire_text_order(struct wire_text a, struct wire_text b)
{
    size_t both = a.len < b.len ? a.len : b.len;
    int order = both > 0 ? memcmp(a.at, b.at, both) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

bool wire_text_fits(struct wire_text text)
{
    if (text.len > WIRE_TEXT_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < 0x20 || text.at[i] == 0x7f)
            return false;
    return true;
}

void wire_put_u8(struct buf *buf, uint8_t value)
{
    buf_add(buf, &value, 1);
}

void wire_put_u16(struct buf *buf, uint16_t value)
{
    uint8_t bytes[2];
    wire_store_u16(bytes, value);
    buf_add(buf, bytes, sizeof bytes);
}

void wire_put_u32(struct buf *buf, uint32_t value)
{
    uint8_t bytes[4];
    wire_store_u32(bytes, value);
    buf_add(buf, bytes, sizeof bytes);
}

void wire_put_u64(struct buf *buf, uint64_t value)
{
    uint8_t bytes[8];
    wire_store_u64(bytes, value);
    buf_add(buf, bytes, sizeof bytes);
}

void wire_put_f64(struct buf *buf, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    wire_put_u64(buf, bits);
}

void wire_put_text(struct buf *buf, struct wire_text text)
{
    assert(wire_text_fits(text));
    wire_put_u8(buf, (uint8_t)text.len);
    buf_add(buf, text.at, text.len);
}

void wire_raise(struct buf *buf, size_t at)
{
    if (!buf_ok(buf)) /* the count itself may be missing */
        return;
    uint8_t *count = (uint8_t *)buf->data + at;
    wire_store_u32(count, wire_load_u32(count) + 1);
}

struct wire_in wire_in_of(const void *bytes, size_t len)
{
    /* Of no bytes the caller may not even have a pointer; NULL + 0 is undefined. */
    static const uint8_t none[1] = {0};
    const uint8_t *p = len > 0 ? bytes : none;
    return (struct wire_in){.p = p, .end = p + len};
}

void wire_refuse(struct wire_in *in, const char *why)
{
    if (in->failed == NULL)
        in->failed = why;
    in->p = in->end;
}

const uint8_t *wire_get_bytes(struct wire_in *in, size_t len)
{
    if (in->failed != NULL || len > wire_left(in)) {
        wire_refuse(in, "it ends early");
        return NULL;
    }
    const uint8_t *at = in->p;
    in->p += len;
    return at;
}

uint8_t wire_get_u8(struct wire_in *in)
{
    const uint8_t *at = wire_get_bytes(in, 1);
    return at != NULL ? *at : 0;
}

uint16_t wire_get_u16(struct wire_in *in)
{
    const uint8_t *at = wire_get_bytes(in, 2);
    return at != NULL ? wire_load_u16(at) : 0;
}

uint32_t wire_get_u32(struct wire_in *in)
{
    const uint8_t *at = wire_get_bytes(in, 4);
    return at != NULL ? wire_load_u32(at) : 0;
}

uint64_t wire_get_u64(struct wire_in *in)
{
    const uint8_t *at = wire_get_bytes(in, 8);
    return at != NULL ? wire_load_u64(at) : 0;
}

double wire_get_f64(struct wire_in *in)
{
    uint64_t bits = wire_get_u64(in);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool wire_get_bool(struct wire_in *in)
{
    uint8_t value = wire_get_u8(in);
    if (value > 1)
        wire_refuse(in, "a yes or no is neither 0 nor 1");
    return value == 1;
}

struct wire_text wire_get_text(struct wire_in *in)
{
    size_t len = wire_get_u8(in);
    struct wire_text text = {.at = (const char *)wire_get_bytes(in, len), .len = len};
    if (text.at != NULL && wire_text_fits(text))
        return text;
    wire_refuse(in, "a text has a control character in it");
    return (struct wire_text){.at = "", .len = 0};
}

uint32_t wire_get_count(struct wire_in *in, size_t least)
{
    uint32_t count = wire_get_u32(in);
    if (count <= wire_left(in) / least)
        return count;
    wire_refuse(in, "it announces more items than it has bytes for");
    return 0;
}
