/* adam: factors to the one server that owns the layer, the whole matrix back (Project Adam). */
#include <math.h>
#include <stdio.h>

#include "mod/scheme.h"

static const char *refuses(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster)
{
    (void)cluster;
    return layer->kind == TRI_FC ? NULL : "has no factors: only FC layers give them";
}

static void cost(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster,
                 tri_scheme_cost *cost)
{
    double p = cluster->workers;
    double matrix = layer->rows * layer->cols;
    double factors = layer->factor_rows * (layer->rows + layer->cols);
    /* The owner is the busiest node: it serves every worker but, if it is one
     * itself, its own. Owners apart exist as soon as one server is not a worker. */
    bool apart = cluster->both < cluster->servers;
    double served = apart ? p : p - 1;
    *cost = (tri_scheme_cost){
        .floats_worker = factors + matrix,
        .floats_server = p * matrix + p * factors,
        .floats_both = (p - 1) * (matrix + factors),
        .send_bytes = 4 * served * scheme_params(layer),
        .recv_bytes = 4 * served * factors,
        .messages = served * scheme_messages(4 * scheme_params(layer), cluster->chunk_bytes),
        .rounds = served > 0 ? 2 : 0,
        .extra_flops = 2 * served * layer->factor_rows * matrix,
        .server_buffer_bytes = 4 * p * factors,
    };
}

static void explain(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster, char *out,
                    size_t cap)
{
    (void)snprintf(out, cap, "(%.0f - 1) x (%.0f x %.0f + %.0f x %.0f + %.0f x %.0f)",
                   cluster->workers, layer->rows, layer->cols, layer->factor_rows, layer->rows,
                   layer->factor_rows, layer->cols);
}

const tri_scheme_ops scheme_adam = {
    .abi = TRI_SCHEME_ABI,
    .name = "adam",
    .summary = "factors to the layer's owner, the whole matrix back (uneven)",
    .runs = true,
    .home = TRI_HOME_WHOLE,
    .form = TRI_FORM_FACTORS,
    .refuses = refuses,
    .cost = cost,
    .formula = "(P-1)(MN+KM+KN)",
    .explain = explain,
};
