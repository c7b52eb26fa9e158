/* sfb: send the factors to every peer; each multiplies them out (sufficient-factor broadcast). */
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
    double peers = cluster->workers - 1;
    double factors = layer->factor_rows * (layer->rows + layer->cols);
    *cost = (tri_scheme_cost){
        .floats_worker = 2 * peers * factors,
        .floats_server = NAN,
        .floats_both = 2 * peers * factors,
        .send_bytes = 4 * peers * factors,
        .recv_bytes = 4 * peers * factors,
        .messages = peers * scheme_messages(4 * factors, cluster->chunk_bytes),
        .rounds = peers > 0 ? 1 : 0,
        /* Every worker forms the whole sum; its own part it would have formed anyway. */
        .extra_flops = 2 * peers * layer->factor_rows * layer->rows * layer->cols,
        /* Two generations, so that a survivor can relay what a dead peer sent. */
        .worker_buffer_bytes = 2 * 4 * cluster->workers * factors,
    };
}

static void explain(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster, char *out,
                    size_t cap)
{
    (void)snprintf(out, cap, "2 x %.0f x (%.0f - 1) x (%.0f + %.0f)", layer->factor_rows,
                   cluster->workers, layer->rows, layer->cols);
}

const tri_scheme_ops scheme_sfb = {
    .abi = TRI_SCHEME_ABI,
    .name = "sfb",
    .summary = "factors to every peer, multiplied out everywhere",
    .runs = true,
    .by_bytes = true,
    .home = TRI_HOME_WORKERS,
    .form = TRI_FORM_FACTORS,
    .refuses = refuses,
    .cost = cost,
    .formula = "2K(P-1)(M+N)",
    .explain = explain,
};
