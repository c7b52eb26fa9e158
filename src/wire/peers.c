/* A count, then numbers of nodes and their addresses. */
#include "wire/peers.h"

#include <assert.h>
#include <inttypes.h>

enum { PEER_LEAST = 4 + 1 + 1 }; /* bytes of the shortest one */

bool wire_address_fits(struct wire_text address)
{
    if (address.len < 1 || address.len > WIRE_TEXT_MAX)
        return false;
    for (size_t i = 0; i < address.len; i++)
        if (address.at[i] <= 0x20 || address.at[i] >= 0x7f)
            return false;
    return true;
}

void wire_peers_begin(struct wire_peers_out *out, struct buf *data)
{
    *out = (struct wire_peers_out){.data = data, .at = data->len};
    wire_put_u32(data, 0);
}

tri_status wire_peers_add(struct wire_peers_out *out, const struct wire_peer *peer, tri_error *err)
{
    if (!wire_address_fits(peer->address))
        return fail(err, TRI_EARG,
                    "the address of node %" PRIu32
                    " is empty, longer than %d bytes or not printable",
                    peer->node, WIRE_TEXT_MAX);
    if (peer->node < out->next || peer->node >= WIRE_MAX_NODES)
        return fail(err, TRI_EARG, "node %" PRIu32 " is out of order among the addresses",
                    peer->node);
    wire_put_u32(out->data, peer->node);
    wire_put_text(out->data, peer->address);
    wire_raise(out->data, out->at);
    out->next = peer->node + 1;
    return TRI_OK;
}

static struct wire_peer get_peer(struct wire_in *in)
{
    struct wire_peer peer;
    peer.node = wire_get_u32(in);
    peer.address = wire_get_text(in);
    return peer;
}

tri_status wire_peers_decode(const struct wire_header *header, const uint8_t *data,
                             const struct wire_limits *limits, struct wire_in *out, tri_error *err)
{
    assert(header->kind == WIRE_PEERS);
    struct wire_in in = wire_in_of(data, header->data_len);
    uint32_t count = wire_get_count(&in, PEER_LEAST), next = 0;
    struct wire_in list = in;
    for (uint32_t i = 0; i < count && in.failed == NULL; i++) {
        struct wire_peer peer = get_peer(&in);
        if (peer.node >= limits->nodes)
            wire_refuse(&in, "a node is past the last one");
        else if (peer.node < next)
            wire_refuse(&in, "nodes do not ascend");
        else if (!wire_address_fits(peer.address))
            wire_refuse(&in, "an address is empty or has bytes that are no printable ASCII");
        next = peer.node + 1;
    }
    tri_status status = wire_finish(&in, header, "data", err);
    if (status == TRI_OK)
        *out = list;
    return status;
}

bool wire_peer_next(struct wire_in *list, struct wire_peer *out)
{
    if (list->p == list->end)
        return false;
    *out = get_peer(list);
    return list->failed == NULL;
}
