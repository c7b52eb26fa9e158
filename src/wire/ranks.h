/* Lists of ranks or nodes, ascending and each only once: VIEW, ACCUSE, and inside of
 * REPORT and DECISION. */
#ifndef TRIDENT_WIRE_RANKS_H
#define TRIDENT_WIRE_RANKS_H

#include <stdint.h>

#include "wire/header.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A list inside a message that was checked: borrowed, valid as long as its bytes. */
struct wire_ranks {
    const uint8_t *bytes;
    uint32_t count;
};

static inline uint32_t wire_ranks_at(const struct wire_ranks *ranks, uint32_t i)
{
    return wire_load_u32(ranks->bytes + (size_t)4 * i);
}

/* Must ascend, each only once (asserted). */
void wire_put_ranks(struct buf *buf, const uint32_t *ranks, uint32_t count);

/* A list that ascends and stays below `limit`. */
struct wire_ranks wire_get_ranks(struct wire_in *in, uint32_t limit);

/* VIEW: the departed nodes. ACCUSE: the nodes that are waited for too long. Worker r is
 * node r, so ranks serve as they are. Appended to data; told by buf_ok(). */
void wire_view_encode(const uint32_t *nodes, uint32_t count, struct buf *data);
void wire_accuse_encode(const uint32_t *nodes, uint32_t count, struct buf *data);

/* header is that of the message, decoded; data has its data_len bytes and must
 * outlive *out, which is untouched on failure (TRI_EINPUT). */
tri_status wire_view_decode(const struct wire_header *header, const uint8_t *data,
                            const struct wire_limits *limits, struct wire_ranks *out,
                            tri_error *err);
tri_status wire_accuse_decode(const struct wire_header *header, const uint8_t *data,
                              const struct wire_limits *limits, struct wire_ranks *out,
                              tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
