/* Asking the book: Poseidon's Query. */
#ifndef TRIDENT_PLAN_QUERY_H
#define TRIDENT_PLAN_QUERY_H

#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A fact by name, as text into out (at most cap bytes with the NUL): "workers",
 * "servers", "batch", "rule", "layers", "params", "chunk_bytes", "placement"; and of a
 * layer "scheme.fc6", "kind.fc6", "rows.fc6", "cols.fc6", "params.fc6", "chunks.fc6".
 * TRI_EARG for a name that is not there, with a suggestion. */
tri_status plan_query(const struct plan *plan, const char *name, char *out, size_t cap,
                      tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
