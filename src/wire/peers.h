/* PEERS: where the nodes listen. Node 0 collects it and tells all of them. */
#ifndef TRIDENT_WIRE_PEERS_H
#define TRIDENT_WIRE_PEERS_H

#include <stdint.h>

#include "wire/header.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A node and its address, "host:port": not empty, printable ASCII without blanks. Borrowed. */
struct wire_peer {
    uint32_t node;
    struct wire_text address;
};

/* Whether it may travel as an address. */
bool wire_address_fits(struct wire_text address);

/* Builds the data: begin, then all nodes that are known, ascending. What was appended is whole
 * after every call. TRI_EARG, with nothing appended, for an address that cannot travel and for a
 * node out of order; memory is told by buf_ok(). */
struct wire_peers_out {
    struct buf *data; /* borrowed */
    size_t at;        /* where the count stands */
    uint32_t next;    /* the least node that may follow */
};
void wire_peers_begin(struct wire_peers_out *out, struct buf *data);
tri_status wire_peers_add(struct wire_peers_out *out, const struct wire_peer *peer, tri_error *err);

/* Checks the whole list and sets *out to its first node; walking it cannot fail after that.
 * header is that of the message, decoded; data has its data_len bytes and must outlive the walk.
 * TRI_EINPUT, with *out untouched, otherwise. */
tri_status wire_peers_decode(const struct wire_header *header, const uint8_t *data,
                             const struct wire_limits *limits, struct wire_in *out, tri_error *err);
bool wire_peer_next(struct wire_in *list, struct wire_peer *out);

#ifdef __cplusplus
}
#endif

#endif
