/* Optimisers: the registry, and reading "momentum:0.9". The slot is in trident/module.h. */
#ifndef TRIDENT_MOD_OPTIM_H
#define TRIDENT_MOD_OPTIM_H

#include "base/error.h"
#include "trident/module.h"

#ifdef __cplusplus
extern "C" {
#endif

const tri_optimizer_ops *optim_at(size_t i); /* NULL past the end */

/* An optimiser with its numbers. */
struct optim {
    const tri_optimizer_ops *ops;
    float args[TRI_OPTIMIZER_ARGS];
};

/* Reads "name" or "name:number,number". TRI_EINPUT names what is wrong. */
tri_status optim_read(const char *text, struct optim *out, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
