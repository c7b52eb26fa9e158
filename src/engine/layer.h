/* A layer of parameters as the library's calls want it. */
#ifndef TRIDENT_ENGINE_LAYER_H
#define TRIDENT_ENGINE_LAYER_H

#include "engine/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* tri_layer(): the next layer of the job. The parameters stay the operator's, and must outlive the
 * job. */
tri_status layer_describe(tri_job *job, const struct param *param, tri_error *err);

/* tri_update() with what weigh() left, in the form it has, for `count` samples. busy:
 * backward-data goes on reading the parameters. */
tri_status layer_update(tri_job *job, uint32_t number, const struct param *param, uint32_t count,
                        float lr, bool busy, tri_error *err);
/* tri_learn() likewise. here: the operator makes this step. */
tri_status layer_learn(tri_job *job, uint32_t number, const struct param *param, uint32_t count,
                       float lr, bool *here, struct op_step *step, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
