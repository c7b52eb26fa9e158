/* A clock, a list of steps, and bytes. */
#include "wire/resume.h"

#include <assert.h>

void wire_resume_encode(const struct wire_resume *what, const uint64_t *steps, struct buf *data)
{
    wire_put_u64(data, what->clock);
    wire_put_u32(data, what->layers);
    for (uint32_t i = 0; i < what->layers; i++)
        wire_put_u64(data, steps[i]);
    wire_put_u32(data, what->kept_bytes);
    if (what->kept_bytes > 0)
        buf_add(data, what->kept, what->kept_bytes);
}

tri_status wire_resume_decode(const struct wire_header *header, const uint8_t *data,
                              struct wire_resume *out, tri_error *err)
{
    assert(header->kind == WIRE_RESUME);
    struct wire_in in = wire_in_of(data, header->data_len);
    struct wire_resume resume;
    resume.clock = wire_get_u64(&in);
    resume.layers = wire_get_count(&in, 8);
    resume.steps = wire_get_bytes(&in, 8 * (size_t)resume.layers);
    resume.kept_bytes = wire_get_count(&in, 1);
    resume.kept = wire_get_bytes(&in, resume.kept_bytes);
    if (in.failed == NULL && resume.clock > WIRE_MAX_CLOCK)
        wire_refuse(&in, "its clock is impossible");
    tri_status status = wire_finish(&in, header, "data", err);
    if (status == TRI_OK)
        *out = resume;
    return status;
}
