/* REPORT to bytes and back: layers, in each the clocks, in each the ranks. */
#include "wire/report.h"

#include <assert.h>

enum {
    LAYER_LEAST = 4 + 8 + 4, /* bytes of a layer that keeps nothing */
    HELD_LEAST = 8 + 4,      /* bytes of a clock without ranks */
};

void wire_report_begin(struct wire_report_out *out, struct buf *data)
{
    *out = (struct wire_report_out){.data = data, .layers_at = data->len};
    wire_put_u32(data, 0);
}

void wire_report_layer(struct wire_report_out *out, uint32_t layer, uint64_t next)
{
    wire_put_u32(out->data, layer);
    wire_put_u64(out->data, next);
    out->held_at = out->data->len;
    wire_put_u32(out->data, 0);
    wire_raise(out->data, out->layers_at);
}

void wire_report_held(struct wire_report_out *out, uint64_t clock, const uint32_t *ranks,
                      uint32_t count)
{
    assert(out->held_at > out->layers_at || !buf_ok(out->data)); /* a layer was begun */
    wire_put_u64(out->data, clock);
    wire_put_ranks(out->data, ranks, count);
    wire_raise(out->data, out->held_at);
}

static struct wire_held get_held(struct wire_in *in, const struct wire_limits *limits)
{
    struct wire_held held;
    held.clock = wire_get_clock(in, limits);
    held.ranks = wire_get_ranks(in, limits->workers);
    return held;
}

static struct wire_report_layer get_layer(struct wire_in *in, const struct wire_limits *limits)
{
    struct wire_report_layer layer = {.layer = wire_get_layer_number(in, limits)};
    layer.next = wire_get_clock(in, limits);
    uint32_t count = wire_get_count(in, HELD_LEAST);
    layer.held.p = in->p;
    uint64_t last = 0;
    for (uint32_t i = 0; i < count && in->failed == NULL; i++) {
        struct wire_held held = get_held(in, limits);
        if (i > 0 && held.clock <= last)
            wire_refuse(in, "clocks do not ascend");
        last = held.clock;
    }
    layer.held.end = in->p;
    return layer;
}

tri_status wire_report_decode(const struct wire_header *header, const uint8_t *data,
                              const struct wire_limits *limits, struct wire_in *out, tri_error *err)
{
    assert(header->kind == WIRE_REPORT);
    struct wire_in in = wire_in_of(data, header->data_len);
    uint32_t count = wire_get_count(&in, LAYER_LEAST);
    struct wire_in layers = {.p = in.p, .end = in.end};
    uint32_t last = 0;
    for (uint32_t i = 0; i < count && in.failed == NULL; i++) {
        struct wire_report_layer layer = get_layer(&in, limits);
        if (i > 0 && layer.layer <= last)
            wire_refuse(&in, "layers do not ascend");
        last = layer.layer;
    }
    tri_status status = wire_finish(&in, header, "data", err);
    if (status == TRI_OK)
        *out = layers;
    return status;
}

bool wire_report_next(struct wire_in *report, struct wire_report_layer *out)
{
    if (report->p == report->end)
        return false;
    *out = get_layer(report, &wire_widest); /* the limits were checked already */
    return report->failed == NULL;
}

bool wire_held_next(struct wire_in *held, struct wire_held *out)
{
    if (held->p == held->end)
        return false;
    *out = get_held(held, &wire_widest);
    return held->failed == NULL;
}
