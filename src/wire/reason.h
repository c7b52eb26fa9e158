/* A reason in words: the data of REFUSED, EVICTED and FAILED. */
#ifndef TRIDENT_WIRE_REASON_H
#define TRIDENT_WIRE_REASON_H

#include "wire/header.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends to data, told by buf_ok(). Saying why must not fail for what the text is:
 * control characters become '?', and what is over WIRE_REASON_MAX bytes is cut
 * between two characters. */
void wire_reason_encode(const char *text, struct buf *data);

/* header is that of the message, decoded; data has its data_len bytes and must
 * outlive *out, which is untouched on failure (TRI_EINPUT). */
tri_status wire_reason_decode(const struct wire_header *header, const uint8_t *data,
                              struct wire_text *out, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
