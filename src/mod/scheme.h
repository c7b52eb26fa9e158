/* Schemes: the registry, and arithmetic that several of them share. The slot itself is in
 * trident/module.h. */
#ifndef TRIDENT_MOD_SCHEME_H
#define TRIDENT_MOD_SCHEME_H

#include "trident/module.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SCHEME_MAX = 16, LAYER_KINDS = 5 };

const char *layer_kind_name(tri_kind kind); /* "FC" ... */

/* Walks the registry; NULL past the end. The order is the order of preference
 * among schemes that cost the same. */
const tri_scheme_ops *scheme_at(size_t i);
/* By name ('-' and '_' are the same); NULL if there is none, else *index is its place. */
const tri_scheme_ops *scheme_find(const char *name, size_t *index);

double scheme_params(const tri_scheme_layer *layer); /* MN + bias */
/* Messages needed for so many bytes: at least one, none for nothing. */
double scheme_messages(double bytes, double chunk_bytes);

/* A layer that lives on servers: every worker sends `up` bytes in `up_messages`
 * and gets `down` bytes back, both spread evenly over the servers. */
struct scheme_flow {
    double up, down;
    double up_messages, down_messages;
};
void scheme_serve(const struct scheme_flow *flow, const tri_scheme_cluster *cluster,
                  tri_scheme_cost *cost);

#ifdef __cplusplus
}
#endif

#endif
