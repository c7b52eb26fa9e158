/* What a learner hands over when it exchanges only every so many batches. */
#include "engine/apart.h"

#include <string.h>

static size_t matrix_of(const struct param *param)
{
    return (size_t)param->rows * param->cols;
}

static size_t bias_of(const struct param *param)
{
    return param->bias != NULL ? param->rows : 0;
}

tri_status apart_open(struct apart *apart, struct net *net, const struct mem *mem, tri_error *err)
{
    size_t floats = 0;
    for (size_t i = 0; i < net_params(net); i++)
        floats += matrix_of(net_param(net, i)) + bias_of(net_param(net, i));
    *apart = (struct apart){mem, mem_array(mem, floats, sizeof *apart->from)};
    return apart->from != NULL ? TRI_OK : fail_nomem(err, "parameters of a learner's own");
}

void apart_close(struct apart *apart)
{
    if (apart->from != NULL)
        mem_free(apart->mem, apart->from);
    *apart = (struct apart){0};
}

tri_status apart_fetch(struct apart *apart, struct net *net, tri_job *job, tri_error *err)
{
    float *from = apart->from;
    for (size_t i = 0; i < net_params(net); i++) {
        const struct param *param = net_param(net, i);
        tri_status status = tri_sync(job, (uint32_t)i, err);
        if (status != TRI_OK)
            return status;
        memcpy(from, param->weights, matrix_of(param) * sizeof *from);
        from += matrix_of(param);
        if (param->bias != NULL)
            memcpy(from, param->bias, bias_of(param) * sizeof *from);
        from += bias_of(param);
    }
    return TRI_OK;
}

static void turn_into_way(float *from, const float *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        from[i] -= to[i];
}

tri_status apart_give(struct apart *apart, struct net *net, tri_job *job, tri_error *err)
{
    float *way = apart->from;
    for (size_t i = 0; i < net_params(net); i++) {
        const struct param *param = net_param(net, i);
        tri_update_info update = TRI_UPDATE_INIT;
        size_t matrix = matrix_of(param);
        turn_into_way(way, param->weights, matrix);
        turn_into_way(way + matrix, param->bias, bias_of(param));
        update.dense = way;
        update.dense_bias = param->bias != NULL ? way + matrix : NULL;
        update.lr = 1;
        tri_status status = tri_update(job, (uint32_t)i, &update, err);
        if (status != TRI_OK)
            return status;
        way += matrix + bias_of(param);
    }
    return TRI_OK;
}
