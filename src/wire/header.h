/* The header: the 64 bytes in front of every message.
 *
 * Behind it come head_len bytes of head (what the kind needs beside the data)
 * and data_len bytes of data (values that land straight in place, or a list).
 * docs/wire.md has the offsets. A receiver decodes the header, then finds a place
 * for the data, then the decoder of the kind reads head and list. */
#ifndef TRIDENT_WIRE_HEADER_H
#define TRIDENT_WIRE_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "wire/kind.h"
#include "wire/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WIRE_MAGIC   UINT32_C(0x44495254) /* "TRID" in memory */
#define WIRE_VERSION UINT16_C(1)
enum { WIRE_HEADER_BYTES = 64 };

/* What is not used by the kind (wire_kind_info.uses) is 0. */
struct wire_header {
    uint8_t kind;  /* enum wire_kind */
    uint8_t codec; /* how the data is written; 0: plain fp32 */
    uint64_t job;
    uint64_t plan; /* hash of the sender's plan */
    uint64_t clock;
    uint32_t view;
    uint32_t sender; /* node */
    uint32_t layer;
    uint32_t chunk; /* or part */
    uint32_t data_len;
    uint16_t head_len;
    bool checked;         /* payload_crc is there */
    uint32_t payload_crc; /* CRC-32C of head and data; 0 when not checked */
};

/* Cannot fail. A header that no receiver would take (lengths outside the kind's
 * bounds, a field the kind does not use) is a mistake of the caller (asserted). */
void wire_header_encode(const struct wire_header *header, uint8_t out[WIRE_HEADER_BYTES]);

/* Takes any bytes. TRI_EMISMATCH for another version of the format, TRI_EINPUT for
 * everything else that is not a header within the limits; *out is then untouched
 * and the connection is of no further use: where the next message begins is unknown. */
tri_status wire_header_decode(const uint8_t in[WIRE_HEADER_BYTES], const struct wire_limits *limits,
                              struct wire_header *out, tri_error *err);

/* TRI_EINPUT, with a text that names who is known to begin so, or the bytes. */
tri_status wire_refuse_stranger(const uint8_t in[4], tri_error *err);

/* Sets payload_crc and checked from the header's lengths; head and data may be NULL
 * where the length is 0. */
void wire_payload_cover(struct wire_header *header, const void *head, const void *data);

/* TRI_EINPUT when the payload is not what was covered; TRI_OK when nothing was. */
tri_status wire_payload_check(const struct wire_header *header, const void *head, const void *data,
                              tri_error *err);

/* The end of every decoder: TRI_OK when all was read and nothing refused, else
 * TRI_EINPUT with a text that names kind, sender, part ("head", "data") and reason. */
tri_status wire_finish(struct wire_in *in, const struct wire_header *header, const char *part,
                       tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
