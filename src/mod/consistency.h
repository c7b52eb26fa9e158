/* Consistency rules: the registry. The slot is in trident/module.h. */
#ifndef TRIDENT_MOD_CONSISTENCY_H
#define TRIDENT_MOD_CONSISTENCY_H

#include "trident/module.h"

#ifdef __cplusplus
extern "C" {
#endif

const tri_consistency_ops *consistency_at(size_t i); /* NULL past the end */
const tri_consistency_ops *consistency_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif
