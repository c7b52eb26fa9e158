/* rows: only the rows a batch touched go to the servers, and their union comes back (embeddings).
 */
#include <math.h>

#include "mod/scheme.h"

static const char *refuses(const struct scheme_layer *layer, const struct scheme_cluster *cluster)
{
    (void)cluster;
    if (layer->kind != LAYER_EMBED)
        return "has a dense gradient: only EMBED layers give rows";
    return layer->touched_rows < layer->rows ? NULL : "may touch all of its rows in one batch";
}

/* Every worker needs every row that any worker changed. */
static double union_rows(const struct scheme_layer *layer, const struct scheme_cluster *cluster)
{
    return fmin(cluster->workers * layer->touched_rows, layer->rows);
}

static void cost(const struct scheme_layer *layer, const struct scheme_cluster *cluster,
                 struct scheme_cost *cost)
{
    double p = cluster->workers, q = cluster->servers;
    double row = layer->cols + 1; /* with the row's number */
    double up = layer->touched_rows * row + layer->bias;
    double down = union_rows(layer, cluster) * row + layer->bias;
    *cost = (struct scheme_cost){
        .floats_worker = up + down,
        .floats_server = p * (up + down) / q,
        .floats_both = (up + down) * (p + q - 2) / q,
        .server_buffer_bytes = 4 * (cluster->reproducible ? p : 1) * up / q,
    };
    double chunk = cluster->chunk_bytes;
    scheme_serve(&(struct scheme_flow){4 * up, 4 * down, fmax(scheme_messages(4 * up, chunk), q),
                                       fmax(scheme_messages(4 * down, chunk), q)},
                 cluster, cost);
}

static void explain(const struct scheme_layer *layer, const struct scheme_cluster *cluster,
                    struct buf *out)
{
    buf_format(out, "(%.0f + %.0f) x (%.0f + 1) x (%.0f + %.0f - 2) / %.0f", layer->touched_rows,
               union_rows(layer, cluster), layer->cols, cluster->workers, cluster->servers,
               cluster->servers);
}

static const struct mod_option options[] = {
    {"reproducible", "on", "sum in rank order, or (off) on arrival"},
    {NULL, NULL, NULL},
};

const struct scheme_ops scheme_rows = {
    .abi = SCHEME_ABI,
    .name = "rows",
    .summary = "touched rows of an embedding to parameter servers, changed rows back",
    .options = options,
    .runs = false,
    .home = SCHEME_HOME_PIECES,
    .refuses = refuses,
    .cost = cost,
    .formula = "(R+U)(N+1)(P+Q-2)/Q",
    .explain = explain,
};
