/* ps: push the dense gradient to the servers, get the parameters back. */
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
    double p = cluster->workers, q = cluster->servers;
    double matrix = layer->rows * layer->cols, bytes = 4 * scheme_params(layer);
    *cost = (tri_scheme_cost){
        .floats_worker = 2 * matrix,
        .floats_server = 2 * p * matrix / q,
        .floats_both = 2 * matrix * (p + q - 2) / q,
        /* In rank order every push lands in a slot of its own; on arrival, all in one sum. */
        .server_buffer_bytes = (cluster->reproducible ? p : 1) * bytes / q,
    };
    scheme_serve(&(struct scheme_flow){bytes, bytes, layer->pieces, layer->pieces}, cluster, cost);
}

static void explain(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster, char *out,
                    size_t cap)
{
    (void)snprintf(out, cap, "2 x %.0f x %.0f x (%.0f + %.0f - 2) / %.0f", layer->rows, layer->cols,
                   cluster->workers, cluster->servers, cluster->servers);
}

static const tri_option_row options[] = {
    {"reproducible", "on", "sum in rank order, or (off) on arrival"},
    {NULL, NULL, NULL},
};

const tri_scheme_ops scheme_ps = {
    .abi = TRI_SCHEME_ABI,
    .name = "ps",
    .summary = "dense gradients to parameter servers, parameters back",
    .options = options,
    .runs = true,
    .by_bytes = true,
    .home = TRI_HOME_PIECES,
    .form = TRI_FORM_DENSE,
    .refuses = refuses,
    .cost = cost,
    .formula = "2MN(P+Q-2)/Q",
    .explain = explain,
};
