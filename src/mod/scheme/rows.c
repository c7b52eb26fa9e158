/* rows: only the rows a batch touched go to the servers, and their union comes back (embeddings).
 */
#include <math.h>
#include <stdio.h>

#include "mod/scheme.h"

static const char *refuses(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster)
{
    (void)cluster;
    if (layer->kind != TRI_EMBED)
        return "has a dense gradient: only EMBED layers give rows";
    return layer->touched_rows < layer->rows ? NULL : "may touch all of its rows in one batch";
}

/* Every worker needs every row that any worker changed. */
static double union_rows(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster)
{
    return fmin(cluster->workers * layer->touched_rows, layer->rows);
}

static void cost(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster,
                 tri_scheme_cost *cost)
{
    double p = cluster->workers, q = cluster->servers;
    double row = layer->cols + 1; /* with the row's number */
    double up = layer->touched_rows * row;
    double down = union_rows(layer, cluster) * row;
    double up_bytes = 4 * (up + layer->bias), down_bytes = 4 * (down + layer->bias);
    *cost = (tri_scheme_cost){
        .floats_worker = up + down,
        .floats_server = p * (up + down) / q,
        .floats_both = (up + down) * (p + q - 2) / q,
        .server_buffer_bytes = (cluster->reproducible ? p : 1) * up_bytes / q,
    };
    /* Rows hit every server, so there is at least one message for each. */
    double up_messages = fmax(scheme_messages(up_bytes, cluster->chunk_bytes), q);
    double down_messages = fmax(scheme_messages(down_bytes, cluster->chunk_bytes), q);
    scheme_serve(&(struct scheme_flow){up_bytes, down_bytes, up_messages, down_messages}, cluster,
                 cost);
}

static void explain(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster, char *out,
                    size_t cap)
{
    (void)snprintf(out, cap, "(%.0f + %.0f) x (%.0f + 1) x (%.0f + %.0f - 2) / %.0f",
                   layer->touched_rows, union_rows(layer, cluster), layer->cols, cluster->workers,
                   cluster->servers, cluster->servers);
}

static const tri_option_row options[] = {
    {"reproducible", "on", "sum in rank order, or (off) on arrival"},
    {NULL, NULL, NULL},
};

const tri_scheme_ops scheme_rows = {
    .abi = TRI_SCHEME_ABI,
    .name = "rows",
    .summary = "touched rows of an embedding to parameter servers, changed rows back",
    .options = options,
    .runs = false,
    .home = TRI_HOME_PIECES,
    .form = TRI_FORM_ROWS,
    .refuses = refuses,
    .cost = cost,
    .formula = "(R+U)(N+1)(P+Q-2)/Q",
    .explain = explain,
};
