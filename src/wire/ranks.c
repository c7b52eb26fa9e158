/* A count, then the ranks. */
#include "wire/ranks.h"

#include <assert.h>

void wire_put_ranks(struct buf *buf, const uint32_t *ranks, uint32_t count)
{
    wire_put_u32(buf, count);
    for (uint32_t i = 0; i < count; i++) {
        assert(i == 0 || ranks[i - 1] < ranks[i]);
        wire_put_u32(buf, ranks[i]);
    }
}

struct wire_ranks wire_get_ranks(struct wire_in *in, uint32_t limit)
{
    struct wire_ranks ranks = {.count = wire_get_count(in, 4)};
    ranks.bytes = wire_get_bytes(in, (size_t)4 * ranks.count);
    for (uint32_t i = 0; i < ranks.count && in->failed == NULL; i++) {
        uint32_t rank = wire_ranks_at(&ranks, i);
        if (rank >= limit)
            wire_refuse(in, "a rank is past the last one");
        else if (i > 0 && rank <= wire_ranks_at(&ranks, i - 1))
            wire_refuse(in, "ranks do not ascend");
    }
    return ranks;
}

static tri_status decode(const struct wire_header *header, const uint8_t *data, uint32_t limit,
                         struct wire_ranks *out, tri_error *err)
{
    struct wire_in in = wire_in_of(data, header->data_len);
    struct wire_ranks ranks = wire_get_ranks(&in, limit);
    tri_status status = wire_finish(&in, header, "data", err);
    if (status == TRI_OK)
        *out = ranks;
    return status;
}

void wire_view_encode(const uint32_t *nodes, uint32_t count, struct buf *data)
{
    wire_put_ranks(data, nodes, count);
}

void wire_accuse_encode(const uint32_t *nodes, uint32_t count, struct buf *data)
{
    wire_put_ranks(data, nodes, count);
}

tri_status wire_view_decode(const struct wire_header *header, const uint8_t *data,
                            const struct wire_limits *limits, struct wire_ranks *out,
                            tri_error *err)
{
    assert(header->kind == WIRE_VIEW);
    return decode(header, data, limits->nodes, out, err);
}

tri_status wire_accuse_decode(const struct wire_header *header, const uint8_t *data,
                              const struct wire_limits *limits, struct wire_ranks *out,
                              tri_error *err)
{
    assert(header->kind == WIRE_ACCUSE);
    return decode(header, data, limits->nodes, out, err);
}
