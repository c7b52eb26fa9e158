/* Consistency rules: the registry, and reading "ssp:5". The slot is in trident/module.h. */
#ifndef TRIDENT_MOD_CONSISTENCY_H
#define TRIDENT_MOD_CONSISTENCY_H

#include "base/error.h"
#include "trident/module.h"

#ifdef __cplusplus
extern "C" {
#endif

const tri_consistency_ops *consistency_at(size_t i); /* NULL past the end */
const tri_consistency_ops *consistency_find(const char *name);

/* Reads "bsp", "ssp:5", "asp"; *bound is 0 where the rule has none. "ssp:0" is bsp.
 * TRI_EINPUT names what is wrong and leaves *ops and *bound alone. */
tri_status consistency_read(const char *text, const tri_consistency_ops **ops, uint32_t *bound,
                            tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
