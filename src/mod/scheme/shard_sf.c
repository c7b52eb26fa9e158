/* shard-sf: workers own blocks of W on a Pr x Pc grid, get only their blocks of
 * the factors, update, and gather the parameters. */
#include <math.h>
#include <stdio.h>

#include "mod/scheme.h"

/* Factors that one owner of a Pr x Pc grid gets from one worker, in units of K;
 * infinite when an owner would have no row or no column. */
static double share(const tri_scheme_layer *layer, double pr, double pc)
{
    if (pr > layer->rows || pc > layer->cols)
        return INFINITY;
    return layer->rows / pr + layer->cols / pc;
}

/* The divisor Pr of P that sends the fewest factors; 0 if no grid will do. */
static double best_grid(const tri_scheme_layer *layer, double workers)
{
    double best = 0, least = INFINITY;
    for (uint32_t divisor = 1; (double)divisor * divisor <= workers; divisor++) {
        double d = divisor, e = workers / d;
        if (e != floor(e))
            continue;
        if (share(layer, d, e) < least) {
            least = share(layer, d, e);
            best = d;
        }
        if (share(layer, e, d) < least) {
            least = share(layer, e, d);
            best = e;
        }
    }
    return best;
}

static const char *refuses(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster)
{
    if (layer->kind != TRI_FC)
        return "has no factors: only FC layers give them";
    if (cluster->grid_rows > 0) {
        if (cluster->grid_rows > layer->rows)
            return "has fewer rows than the grid has rows of owners";
        if (cluster->grid_cols > layer->cols)
            return "has fewer columns than the grid has columns of owners";
        return NULL;
    }
    return best_grid(layer, cluster->workers) > 0
               ? NULL
               : "has too few rows and columns for a grid of that many owners";
}

static double chosen_rows(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster)
{
    return cluster->grid_rows > 0 ? cluster->grid_rows : best_grid(layer, cluster->workers);
}

static void cost(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster,
                 tri_scheme_cost *cost)
{
    double p = cluster->workers, peers = p - 1;
    double pr = chosen_rows(layer, cluster), pc = p / pr;
    double matrix = layer->rows * layer->cols;
    double factors = layer->factor_rows * share(layer, pr, pc);
    double block_bytes = 4 * scheme_params(layer) / p;
    double bytes = peers * (4 * factors + block_bytes);
    *cost = (tri_scheme_cost){
        .floats_worker = 2 * peers * (factors + matrix / p),
        .floats_server = NAN,
        .floats_both = 2 * peers * (factors + matrix / p),
        .send_bytes = bytes,
        .recv_bytes = bytes,
        .messages = peers * (scheme_messages(4 * factors, cluster->chunk_bytes) +
                             scheme_messages(block_bytes, cluster->chunk_bytes)),
        .rounds = peers > 0 ? 2 : 0,
        .worker_buffer_bytes = 2 * 4 * p * factors,
        .grid_rows = pr,
        .grid_cols = pc,
    };
}

static void explain(const tri_scheme_layer *layer, const tri_scheme_cluster *cluster, char *out,
                    size_t cap)
{
    double p = cluster->workers, pr = chosen_rows(layer, cluster);
    (void)snprintf(
        out, cap, "2 x (%.0f - 1) x (%.0f x (%.0f/%.0f + %.0f/%.0f) + %.0f x %.0f / %.0f)", p,
        layer->factor_rows, layer->rows, pr, layer->cols, p / pr, layer->rows, layer->cols, p);
}

static const tri_option_row options[] = {
    {"grid", "best", "owners as ROWSxCOLUMNS, one a worker"},
    {NULL, NULL, NULL},
};

const tri_scheme_ops scheme_shard_sf = {
    .abi = TRI_SCHEME_ABI,
    .name = "shard-sf",
    .summary = "factor blocks to owners on a grid, parameters gathered",
    .options = options,
    .runs = false,
    .home = TRI_HOME_WORKERS,
    .form = TRI_FORM_FACTORS,
    .refuses = refuses,
    .cost = cost,
    .formula = "2(P-1)(K(M/Pr+N/Pc)+MN/P)",
    .explain = explain,
};
