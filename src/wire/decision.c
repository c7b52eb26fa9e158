/* DECISION to bytes and back: two counts, the entries, the relays. */
#include "wire/decision.h"

#include <assert.h>

enum {
    ENTRY_LEAST = 4 + 8 + 4,         /* bytes of an entry without ranks */
    RELAY_LEAST = 4 + 8 + 4 + 4 + 4, /* bytes of a relay to nobody */
};

void wire_decision_begin(struct wire_decision_out *out, struct buf *data)
{
    *out = (struct wire_decision_out){.data = data, .at = data->len};
    wire_put_u32(data, 0);
    wire_put_u32(data, 0);
}

void wire_decision_entry(struct wire_decision_out *out, uint32_t layer, uint64_t clock,
                         const uint32_t *ranks, uint32_t count)
{
    assert(!out->relays);
    wire_put_u32(out->data, layer);
    wire_put_u64(out->data, clock);
    wire_put_ranks(out->data, ranks, count);
    wire_raise(out->data, out->at);
}

void wire_decision_relay(struct wire_decision_out *out, const struct wire_relay *relay,
                         const uint32_t *receivers, uint32_t count)
{
    out->relays = true;
    wire_put_u32(out->data, relay->layer);
    wire_put_u64(out->data, relay->clock);
    wire_put_u32(out->data, relay->rank);
    wire_put_u32(out->data, relay->relayer);
    wire_put_ranks(out->data, receivers, count);
    wire_raise(out->data, out->at + 4);
}

static struct wire_entry get_entry(struct wire_in *in, const struct wire_limits *limits)
{
    struct wire_entry entry;
    entry.layer = wire_get_layer_number(in, limits);
    entry.clock = wire_get_clock(in, limits);
    entry.ranks = wire_get_ranks(in, limits->workers);
    return entry;
}

static struct wire_relay get_relay(struct wire_in *in, const struct wire_limits *limits)
{
    struct wire_relay relay;
    relay.layer = wire_get_layer_number(in, limits);
    relay.clock = wire_get_clock(in, limits);
    relay.rank = wire_get_rank(in, limits);
    relay.relayer = wire_get_rank(in, limits);
    relay.receivers = wire_get_ranks(in, limits->workers);
    return relay;
}

static bool entry_before(const struct wire_entry *a, const struct wire_entry *b)
{
    return a->layer != b->layer ? a->layer < b->layer : a->clock < b->clock;
}

static bool relay_before(const struct wire_relay *a, const struct wire_relay *b)
{
    if (a->layer != b->layer)
        return a->layer < b->layer;
    return a->clock != b->clock ? a->clock < b->clock : a->rank < b->rank;
}

static void check_entries(struct wire_in *in, uint32_t count, const struct wire_limits *limits)
{
    struct wire_entry last = {0};
    for (uint32_t i = 0; i < count && in->failed == NULL; i++) {
        struct wire_entry entry = get_entry(in, limits);
        if (i > 0 && !entry_before(&last, &entry))
            wire_refuse(in, "entries do not ascend");
        last = entry;
    }
}

static void check_relays(struct wire_in *in, uint32_t count, const struct wire_limits *limits)
{
    struct wire_relay last = {0};
    for (uint32_t i = 0; i < count && in->failed == NULL; i++) {
        struct wire_relay relay = get_relay(in, limits);
        if (i > 0 && !relay_before(&last, &relay))
            wire_refuse(in, "relays do not ascend");
        last = relay;
    }
}

tri_status wire_decision_decode(const struct wire_header *header, const uint8_t *data,
                                const struct wire_limits *limits, struct wire_decision *out,
                                tri_error *err)
{
    assert(header->kind == WIRE_DECISION);
    struct wire_in in = wire_in_of(data, header->data_len);
    struct wire_decision decision = {.entry_count = wire_get_count(&in, ENTRY_LEAST)};
    decision.relay_count = wire_get_count(&in, RELAY_LEAST);
    decision.entries.p = in.p;
    check_entries(&in, decision.entry_count, limits);
    decision.entries.end = decision.relays.p = in.p;
    check_relays(&in, decision.relay_count, limits);
    decision.relays.end = in.p;
    tri_status status = wire_finish(&in, header, "data", err);
    if (status == TRI_OK)
        *out = decision;
    return status;
}

bool wire_entry_next(struct wire_in *list, struct wire_entry *out)
{
    if (list->p == list->end)
        return false;
    *out = get_entry(list, &wire_widest); /* the limits were checked already */
    return list->failed == NULL;
}

bool wire_relay_next(struct wire_in *list, struct wire_relay *out)
{
    if (list->p == list->end)
        return false;
    *out = get_relay(list, &wire_widest);
    return list->failed == NULL;
}
