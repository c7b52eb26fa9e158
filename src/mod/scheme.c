/* Arithmetic that schemes share. */
#include "mod/scheme.h"

#include <math.h>

const char *layer_kind_name(tri_kind kind)
{
    static const char *const names[LAYER_KINDS] = {
        [TRI_FC] = "FC",     [TRI_CONV] = "CONV",   [TRI_EMBED] = "EMBED",
        [TRI_NORM] = "NORM", [TRI_OTHER] = "OTHER",
    };
    return names[kind];
}

double scheme_params(const tri_scheme_layer *layer)
{
    return layer->rows * layer->cols + layer->bias;
}

double scheme_messages(double bytes, double chunk_bytes)
{
    return ceil(bytes / chunk_bytes);
}

/* What one kind of node moves. */
struct traffic {
    double send, recv, messages;
};

static void busiest(tri_scheme_cost *cost, struct traffic t)
{
    cost->send_bytes = fmax(cost->send_bytes, t.send);
    cost->recv_bytes = fmax(cost->recv_bytes, t.recv);
    cost->messages = fmax(cost->messages, t.messages);
}

void scheme_serve(const struct scheme_flow *flow, const tri_scheme_cluster *cluster,
                  tri_scheme_cost *cost)
{
    double p = cluster->workers, q = cluster->servers;
    cost->send_bytes = cost->recv_bytes = cost->messages = 0;
    if (cluster->both < p)
        busiest(cost, (struct traffic){flow->up, flow->down, flow->up_messages});
    if (cluster->both < q)
        busiest(cost, (struct traffic){p * flow->down / q, p * flow->up / q,
                                       p * flow->down_messages / q});
    /* A node that is both keeps its own share to itself, in either role. */
    double far = 1 - 1 / q, peers = (p - 1) / q;
    if (cluster->both > 0)
        busiest(cost, (struct traffic){flow->up * far + flow->down * peers,
                                       flow->down * far + flow->up * peers,
                                       flow->up_messages * far + flow->down_messages * peers});
    cost->rounds = p * q > 1 || cluster->both == 0 ? 2 : 0;
}
