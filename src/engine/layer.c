/* From struct param to the structs of trident.h. */
#include "engine/layer.h"

tri_status layer_describe(tri_job *job, const struct param *param, tri_error *err)
{
    uint32_t number;
    tri_layer_info info = TRI_LAYER_INIT;
    info.name = param->name;
    info.kind = param->kind;
    info.rows = param->rows;
    info.cols = param->cols;
    info.weights = param->weights;
    info.bias = param->bias;
    info.max_factor_rows = param->factor_rows;
    info.max_rows = param->max_rows;
    info.window_floats = param->as_windows ? param->window_floats : 0;
    info.reads_pending = param->reads_pending;
    return tri_layer(job, &info, &number, err);
}

static tri_update_info update_of(const struct param *param, uint32_t count, float lr, bool busy)
{
    tri_update_info update = TRI_UPDATE_INIT;
    update.lr = lr;
    update.count = count;
    update.params_busy = busy;
    if (param->factor_rows > 0) {
        update.u = param->u;
        update.v = param->v;
        update.at = param->as_windows ? param->at : NULL;
        update.factor_rows = param->factor_rows;
    } else if (param->row_numbers != NULL) {
        update.row_values = param->row_values;
        update.row_numbers = param->row_numbers;
        update.row_count = param->row_count;
    } else {
        update.dense = param->dense;
        update.dense_bias = param->dense_bias;
    }
    return update;
}

tri_status layer_update(tri_job *job, uint32_t number, const struct param *param, uint32_t count,
                        float lr, bool busy, tri_error *err)
{
    const tri_update_info update = update_of(param, count, lr, busy);
    return tri_update(job, number, &update, err);
}

tri_status layer_learn(tri_job *job, uint32_t number, const struct param *param, uint32_t count,
                       float lr, bool *here, struct op_step *step, tri_error *err)
{
    const tri_update_info update = update_of(param, count, lr, true);
    tri_learning learning;
    tri_status status = tri_learn(job, number, &update, &learning, err);
    *here = status == TRI_OK && learning.steps != 0;
    if (!*here)
        return status;
    step->alpha = -lr / (float)count;
    step->count = learning.count;
    for (uint32_t k = 0; k < learning.count; k++) {
        const tri_other *other = &learning.others[k];
        step->others[k] = (struct op_other){other->u, other->v, other->at, other->by};
    }
    return TRI_OK;
}
