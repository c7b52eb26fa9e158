/* Messages of the core to bytes and back.
 *
 * A message has a header and a head, which are made and read here, and data. Data is either
 * values, which are sent from where they lie and land in place, so that nobody copies them, or
 * a list or a text, which stands behind the head. No call keeps what it is given; all may be made
 * from any thread, and none allocates but for a growing buf. docs/wire.md has the bytes. */
#ifndef TRIDENT_RUN_CONVERT_H
#define TRIDENT_RUN_CONVERT_H

#include "core/core.h"
#include "core/layout.h"
#include "mod/transport.h"
#include "wire/header.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that lie elsewhere. */
struct convert_data {
    const uint8_t *at;
    size_t len;
};

/* What a node knows when it writes and reads. Filled by the host; all pointers are borrowed. */
struct convert {
    const struct layout *layout; /* NULL before there is a plan: only what comes before it passes */
    struct wire_limits limits;   /* wire_widest, or convert_limits(layout) */
    uint64_t job;                /* number of the job */
    uint64_t plan;               /* hash of this node's plan */
    uint64_t layers;             /* hash of this node's layers, see convert_hello_hash() */
    uint32_t node;               /* this one */
    bool means;                  /* results are quotients: core_rules.aggregate or .replicated */
    bool checked;                /* cover with a checksum what carries no values */
    struct convert_data hello;   /* data of this node's HELLO: agreement.hello */
    struct convert_data book;    /* data of BOOK, on node 0: agree_encode() */
};

/* Exact limits for the headers of a job with this plan. */
struct wire_limits convert_limits(const struct layout *layout);

/* Does the data of this kind consist of values? */
static inline bool convert_has_values(enum wire_kind kind)
{
    return kind == WIRE_INIT || kind == WIRE_PUSH || kind == WIRE_FACTORS || kind == WIRE_RESULT ||
           kind == WIRE_STATE;
}

/* Bytes of values that a message carries: 0 for one without, and for one that does not fit the
 * layout. FACTORS: of the part's rows all of u, then all of v. */
uint64_t convert_data_bytes(const struct message *message, const struct layout *layout);

/* Appends header and head to out, *head_bytes of them, and behind these what data there is that is
 * not values. So of a message with values the caller sends convert_data_bytes() more from where
 * they lie; of any other, out is all of it. out may be cleared and used again.
 * REPORT, DECISION, PEERS and RESUME take their data from message->bytes as it is, REFUSED, EVICTED
 * and FAILED a text; VIEW and ACCUSE from message->set; HELLO and BOOK from ctx. message->from is
 * not looked at: the sender is ctx->node. TRI_EARG for what cannot be sent, with out as it was;
 * TRI_ENOMEM. */
tri_status convert_encode(const struct convert *ctx, const struct message *message, struct buf *out,
                          size_t *head_bytes, tri_error *err);

/* A message as it came. */
struct convert_in {
    const struct wire_header *header; /* decoded, with ctx->limits or wider ones */
    const uint8_t *head;              /* header->head_len bytes */
    const uint8_t *data;              /* header->data_len bytes; not for values */
};

/* Words of the memory for message.set that the next two want. */
size_t convert_set_words(const struct convert *ctx);

/* When header and head are in: the message without its data, for node_landing(). Sets all fields
 * that its kind has, among them the receiver's role; CORE_NOBODY for what the host takes itself:
 * PEERS, RESUME and STATE. message.set points to
 * `set`. TRI_EINPUT for what no right node sends under this layout (a length, layer, part or rank
 * that does not fit), TRI_EMISMATCH for another job or plan; *out is then untouched. That the
 * sender is who the connection belongs to is the caller's to check. */
tri_status convert_decode(const struct convert *ctx, const struct convert_in *in, uint64_t *set,
                          struct message *out, tri_error *err);

/* When the data is in, for all kinds: checks the checksum, if there is one, and lists and texts
 * whole, and sets message.bytes, .set or .hash from them. message is what convert_decode() made;
 * bytes point into in->data, so that must live as long. For values, of which there is nothing to
 * read, it does nothing. TRI_EINPUT, with the message as it was. */
tri_status convert_decode_data(const struct convert *ctx, const struct convert_in *in,
                               uint64_t *set, struct message *message, tri_error *err);

/* The checksum of a message whose values have landed in runs; TRI_OK when there is none. */
tri_status convert_check_values(const struct convert_in *in,
                                const struct transport_run runs[TRANSPORT_RUNS], tri_error *err);

/* A number for options and layers of HELLO's data, whatever the version of the library. The data
 * is one that was written by wire_hello_begin() and so on, or checked. */
uint64_t convert_hello_hash(const uint8_t *data, size_t len);

#ifdef __cplusplus
}
#endif

#endif
