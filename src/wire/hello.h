/* HELLO: who a node is, and what it was told to run.
 *
 * The head says who; the data has the library's version, the options that must be
 * alike on all nodes and the layers, so that the coordinator can name the node
 * and the difference. */
#ifndef TRIDENT_WIRE_HELLO_H
#define TRIDENT_WIRE_HELLO_H

#include <stdint.h>

#include "wire/header.h"
#include "wire/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum wire_role { WIRE_ROLE_WORKER = 1, WIRE_ROLE_SERVER = 2, WIRE_ROLE_COORDINATOR = 4 };

struct wire_hello {
    uint32_t roles; /* bits of enum wire_role, at least one */
    uint32_t rank;  /* of its worker; without one, the number of its server */
    /* Another for every process: a node that comes with a new one was restarted. */
    uint64_t incarnation;
    uint16_t wire_min; /* versions of the format that it speaks, */
    uint16_t wire_max; /* WIRE_VERSION among them */
};
void wire_hello_encode(const struct wire_hello *hello, struct buf *head);
tri_status wire_hello_decode(const struct wire_header *header, const uint8_t *head,
                             const struct wire_limits *limits, struct wire_hello *out,
                             tri_error *err);

/* ---- the data ---- */

struct wire_option {
    struct wire_text name; /* not empty */
    struct wire_text value;
};

/* Builds the data: begin, then all options in ascending order of their names, then
 * all layers in the order of the forward pass. What was appended is whole after
 * every call. TRI_EARG, with nothing appended, for what cannot travel: a text that
 * does not fit, names out of order, a layer that wire_layer_wrong() refuses. Memory
 * is told by buf_ok(). */
struct wire_hello_out {
    struct buf *data;      /* borrowed */
    size_t at;             /* where the counts stand */
    struct wire_text last; /* name of the last option; the caller keeps it alive */
    bool layers;           /* have begun */
};
tri_status wire_hello_begin(struct wire_hello_out *out, struct buf *data, const char *library,
                            tri_error *err);
tri_status wire_hello_option(struct wire_hello_out *out, const struct wire_option *option,
                             tri_error *err);
tri_status wire_hello_layer(struct wire_hello_out *out, const struct wire_layer *layer,
                            tri_error *err);

/* The data, checked whole: walking the lists cannot fail any more. All of it is
 * borrowed from the message. Copy a list to walk it again. */
struct wire_hello_data {
    struct wire_text library;
    uint32_t option_count;
    uint32_t layer_count;
    struct wire_in options; /* wire_option_next() */
    struct wire_in layers;  /* wire_layer_next() */
};
tri_status wire_hello_data_decode(const struct wire_header *header, const uint8_t *data,
                                  struct wire_hello_data *out, tri_error *err);
bool wire_option_next(struct wire_in *list, struct wire_option *out);

#ifdef __cplusplus
}
#endif

#endif
