/* RESUME: where a job begins. Node 0 tells all others, before the plan: the clock of the
 * checkpoint that it goes on from, or 0.
 *
 *     u64  clock
 *     u32  layers, then u64 each: steps that the optimiser has made; none at clock 0
 *     u32  bytes of kept values, then these: rank 0's, one behind the other */
#ifndef TRIDENT_WIRE_RESUME_H
#define TRIDENT_WIRE_RESUME_H

#include <stdint.h>

#include "wire/header.h"

#ifdef __cplusplus
extern "C" {
#endif

struct wire_resume {
    uint64_t clock;
    uint32_t layers;
    uint32_t kept_bytes;
    const uint8_t *steps; /* wire_resume_steps(). Borrowed, as the next */
    const uint8_t *kept;
};

/* steps has what->layers numbers; what->steps is not looked at. Memory is told by buf_ok(). */
void wire_resume_encode(const struct wire_resume *what, const uint64_t *steps, struct buf *data);
/* Any bytes; TRI_EINPUT. */
tri_status wire_resume_decode(const struct wire_header *header, const uint8_t *data,
                              struct wire_resume *out, tri_error *err);

static inline uint64_t wire_resume_steps(const struct wire_resume *resume, uint32_t layer)
{
    return wire_load_u64(resume->steps + 8 * (size_t)layer);
}

#ifdef __cplusplus
}
#endif

#endif
