/* Numbers and short texts to bytes and back, little-endian whatever the machine.
 *
 * Writers append to a struct buf, which remembers a refusal of memory. Readers
 * take from a struct wire_in, which remembers the first thing wrong: after it
 * every read gives zero and takes nothing, so a decoder checks once at its end.
 * Nothing here allocates apart from the buf; every call is a pure function of
 * its arguments and may be made from any thread. */
#ifndef TRIDENT_WIRE_BYTES_H
#define TRIDENT_WIRE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Text inside a message: borrowed, no NUL behind it; print it with "%.*s". */
struct wire_text {
    const char *at;
    size_t len;
};

/* The most bytes of a short text: names, options. */
enum { WIRE_TEXT_MAX = 255 };

struct wire_text wire_text_of(const char *string); /* borrows it */

static inline bool wire_text_equal(struct wire_text a, struct wire_text b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* Negative, 0 or positive as a stands before, at or behind b, byte by byte. */
int wire_text_order(struct wire_text a, struct wire_text b);

/* Whether it may travel as a short text: at most WIRE_TEXT_MAX bytes, none of them
 * a control character (peers' texts end up in logs and on terminals). */
bool wire_text_fits(struct wire_text text);

/* ---- in place ---- */

static inline void wire_store_u16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static inline void wire_store_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static inline void wire_store_u64(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static inline uint16_t wire_load_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t wire_load_u32(const uint8_t *at)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value |= (uint32_t)at[i] << 8 * i;
    return value;
}

static inline uint64_t wire_load_u64(const uint8_t *at)
{
    return wire_load_u32(at) | (uint64_t)wire_load_u32(at + 4) << 32;
}

/* The bits of a float and back. Learning rates travel and are compared as bits:
 * a NaN stays the NaN it was. */
static inline uint32_t wire_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float wire_bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- writing ---- */

void wire_put_u8(struct buf *buf, uint8_t value);
void wire_put_u16(struct buf *buf, uint16_t value);
void wire_put_u32(struct buf *buf, uint32_t value);
void wire_put_u64(struct buf *buf, uint64_t value);
void wire_put_f64(struct buf *buf, double value);
void wire_put_text(struct buf *buf, struct wire_text text); /* must fit (asserted) */

/* A count whose value is not known yet stands as 0 and is raised by one with each
 * item that follows. So what was written is whole after every item, and there is
 * no call that ends a list. `at` is buf->len before wire_put_u32(buf, 0). */
void wire_raise(struct buf *buf, size_t at);

/* ---- reading ---- */

struct wire_in {
    const uint8_t *p; /* the next byte; borrowed */
    const uint8_t *end;
    const char *failed; /* NULL, or the first thing wrong, as "it ends early"; static storage */
};

struct wire_in wire_in_of(const void *bytes, size_t len);

/* Remembers what is wrong, unless something was before, and leaves nothing to read. */
void wire_refuse(struct wire_in *in, const char *why);

static inline size_t wire_left(const struct wire_in *in)
{
    return (size_t)(in->end - in->p);
}

uint8_t wire_get_u8(struct wire_in *in);
uint16_t wire_get_u16(struct wire_in *in);
uint32_t wire_get_u32(struct wire_in *in);
uint64_t wire_get_u64(struct wire_in *in);
double wire_get_f64(struct wire_in *in);
bool wire_get_bool(struct wire_in *in);             /* one byte, 0 or 1 */
struct wire_text wire_get_text(struct wire_in *in); /* one that fits */

/* `len` bytes as they are; NULL when there are fewer. */
const uint8_t *wire_get_bytes(struct wire_in *in, size_t len);

/* A number of items of at least `least` bytes each. Refused when the bytes that are
 * left cannot hold them, so a loop over the count is bounded by the message. */
uint32_t wire_get_count(struct wire_in *in, size_t least);

#ifdef __cplusplus
}
#endif

#endif
