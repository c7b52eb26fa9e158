/* sfb: send the factors to every peer; each multiplies them out (sufficient-factor broadcast). */
#include <math.h>

#include "mod/scheme.h"

static const char *refuses(const struct scheme_layer *layer, const struct scheme_cluster *cluster)
{
    (void)cluster;
    return layer->kind == LAYER_FC ? NULL : "has no factors: only FC layers give them";
}

static void cost(const struct scheme_layer *layer, const struct scheme_cluster *cluster,
                 struct scheme_cost *cost)
{
    double peers = cluster->workers - 1;
    double factors = layer->factor_rows * (layer->rows + layer->cols);
    *cost = (struct scheme_cost){
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

static void explain(const struct scheme_layer *layer, const struct scheme_cluster *cluster,
                    struct buf *out)
{
    buf_format(out, "2 x %.0f x (%.0f - 1) x (%.0f + %.0f)", layer->factor_rows, cluster->workers,
               layer->rows, layer->cols);
}

const struct scheme_ops scheme_sfb = {
    .abi = SCHEME_ABI,
    .name = "sfb",
    .summary = "factors to every peer, multiplied out everywhere",
    .runs = true,
    .by_bytes = true,
    .home = SCHEME_HOME_WORKERS,
    .refuses = refuses,
    .cost = cost,
    .formula = "2K(P-1)(M+N)",
    .explain = explain,
};
