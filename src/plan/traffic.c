/* Adding up traffic node by node.
 *
 * Schemes price a layer as if its parameters were spread evenly. That is what
 * choosing needs, and it is wrong by the unevenness of the placement: a server
 * that owns three times its share moves three times its share. */
#include "plan/traffic.h"

#include <math.h>

/* The sums that every node's traffic follows from. */
struct sums {
    double *up, *down;               /* [servers] of one worker's pushes and results */
    struct flow all;                 /* over the servers */
    double worker_send, worker_recv; /* of layers that live on the workers */
};

struct load {
    double send, recv;
};

uint32_t plan_node(const struct book *book, uint32_t s)
{
    if (s >= book->colocated)
        return book->workers + s - book->colocated;
    return book->home != NULL ? book->home[s] : s;
}

struct flow traffic_flow(const struct plan *plan, const struct plan_layer *layer)
{
    const tri_scheme_layer *shape = &layer->shape;
    double bytes = 4 * scheme_params(shape);
    switch (scheme_at(layer->scheme)->form) {
    case TRI_FORM_FACTORS: /* up as factors, back as parameters */
        return (struct flow){4 * shape->factor_rows * (shape->rows + shape->cols), bytes};
    case TRI_FORM_ROWS: { /* rows with their numbers; back come those that any worker touched */
        double changed = fmin(plan->cluster.workers * shape->touched_rows, shape->rows);
        return (struct flow){4 * (shape->touched_rows * (shape->cols + 1) + shape->bias),
                             4 * (changed * (shape->cols + 1) + shape->bias)};
    }
    case TRI_FORM_DENSE:
        break;
    }
    return (struct flow){bytes, bytes};
}

static void add_layer(const struct plan *plan, const struct plan_layer *layer, struct sums *sums)
{
    const tri_scheme_cost *cost = &layer->costs[layer->scheme].cost;
    if (layer->pieces == 0) {
        sums->worker_send += cost->send_bytes;
        sums->worker_recv += cost->recv_bytes;
        return;
    }
    struct flow flow = traffic_flow(plan, layer);
    const struct plan_piece *piece = &plan->piece[layer->first_piece];
    for (uint64_t i = 0; i < layer->pieces; i++) {
        double floats = (double)piece[i].floats, all = (double)layer->profile->params;
        sums->up[piece[i].server] += flow.up * floats / all;
        sums->down[piece[i].server] += flow.down * floats / all;
    }
    sums->all.up += flow.up;
    sums->all.down += flow.down;
}

/* What the node of server s moves. A node that is both keeps its own pushes and
 * results to itself. */
static struct load server_load(const struct plan *plan, const struct sums *sums, uint32_t s)
{
    double workers = plan->book->workers, up = sums->up[s], down = sums->down[s];
    if (plan_node(plan->book, s) >= plan->book->workers)
        return (struct load){workers * down, workers * up};
    return (struct load){sums->worker_send + sums->all.up - up + (workers - 1) * down,
                         sums->worker_recv + sums->all.down - down + (workers - 1) * up};
}

static void busier(struct plan *plan, struct load load, uint32_t server)
{
    double most = fmax(plan->busiest_send_bytes, plan->busiest_recv_bytes);
    if (fmax(load.send, load.recv) <= most)
        return;
    plan->busiest_send_bytes = load.send;
    plan->busiest_recv_bytes = load.recv;
    plan->busiest_server = server;
}

static void find_busiest(struct plan *plan, const struct sums *sums)
{
    const struct book *book = plan->book;
    plan->busiest_server = PLAN_NO_SERVER;
    if (book->colocated < book->workers)
        busier(plan,
               (struct load){sums->worker_send + sums->all.up, sums->worker_recv + sums->all.down},
               PLAN_NO_SERVER);
    for (uint32_t s = 0; s < book->servers; s++)
        busier(plan, server_load(plan, sums, s), s);
    double bytes = fmax(plan->busiest_send_bytes, plan->busiest_recv_bytes);
    double other_s = plan->comm_s - 8 * plan->even_bytes / book->bits_s;
    plan->busiest_s = 8 * bytes / book->bits_s + fmax(other_s, 0);
}

tri_status traffic(struct plan *plan, tri_error *err)
{
    struct sums sums = {
        .up = mem_array(plan->mem, plan->book->servers, sizeof *sums.up),
        .down = mem_array(plan->mem, plan->book->servers, sizeof *sums.down),
    };
    tri_status status = TRI_OK;
    if (sums.up == NULL || sums.down == NULL) {
        status = fail_nomem(err, "the traffic of the servers");
    } else {
        for (size_t i = 0; i < plan->count; i++)
            add_layer(plan, &plan->layers[i], &sums);
        find_busiest(plan, &sums);
    }
    mem_free(plan->mem, sums.up);
    mem_free(plan->mem, sums.down);
    return status;
}
