/* ring: all-reduce of the dense gradient among the workers. */
#include <math.h>
#include <stdio.h>

#include "mod/scheme.h"

static const char *refuses(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster)
{
    (void)layer, (void)cluster;
    return NULL;
}

static void cost(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster,
                 tri_scheme_cost *cost)
{
    double p = cluster->workers, steps = 2 * (p - 1);
    double matrix = layer->rows * layer->cols;
    double step_bytes = 4 * scheme_params(layer) / p;
    *cost = (tri_scheme_cost){
        .floats_worker = 2 * steps * matrix / p,
        .floats_server = NAN,
        .floats_both = 2 * steps * matrix / p,
        .send_bytes = steps * step_bytes,
        .recv_bytes = steps * step_bytes,
        .messages = steps * scheme_messages(step_bytes, cluster->chunk_bytes),
        .rounds = steps,
    };
}

static void explain(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster, char *out,
                    size_t cap)
{
    (void)snprintf(out, cap, "4 x (%.0f - 1) x %.0f x %.0f / %.0f", cluster->workers, layer->rows,
                   layer->cols, cluster->workers);
}

const tri_scheme_ops scheme_ring = {
    .abi = TRI_SCHEME_ABI,
    .name = "ring",
    .summary = "all-reduce of dense gradients around a ring of workers",
    .runs = false,
    .home = TRI_HOME_WORKERS,
    .form = TRI_FORM_DENSE,
    .refuses = refuses,
    .cost = cost,
    .formula = "4(P-1)MN/P",
    .explain = explain,
};
