/* A plan as JSON. The names of the fields are a contract: add, never rename. */
#include <math.h>

#include "base/json_out.h"
#include "cli/plan.h"

const char *plan_rule_name(enum plan_rule rule)
{
    return rule == PLAN_BYTES ? "bytes" : "time";
}

static void put_cost(struct json_out *json, const char *name, const struct plan_cost *price)
{
    const tri_scheme_cost *cost = &price->cost;
    json_out_object(json, name);
    json_out_number(json, "floats_worker", cost->floats_worker);
    json_out_number(json, "floats_server", cost->floats_server);
    json_out_number(json, "floats_both_ways", cost->floats_both);
    json_out_number(json, "send_bytes", cost->send_bytes);
    json_out_number(json, "recv_bytes", cost->recv_bytes);
    json_out_number(json, "messages", cost->messages);
    json_out_number(json, "rounds", cost->rounds);
    json_out_number(json, "extra_flops", cost->extra_flops);
    json_out_number(json, "time_us", 1e6 * price->time_s);
    json_out_number(json, "server_buffer_bytes", cost->server_buffer_bytes);
    json_out_number(json, "worker_buffer_bytes", cost->worker_buffer_bytes);
    if (cost->grid_rows > 0) {
        json_out_array(json, "grid");
        json_out_number(json, NULL, cost->grid_rows);
        json_out_number(json, NULL, cost->grid_cols);
        json_out_close(json);
    }
    json_out_close(json);
}

static void put_layer(struct json_out *json, const struct plan_layer *layer)
{
    const struct plan_cost *chosen = &layer->costs[layer->scheme];
    json_out_object(json, NULL);
    json_out_string(json, "name", layer->profile->name);
    json_out_string(json, "kind", layer_kind_name(layer->profile->kind));
    json_out_count(json, "rows", layer->profile->rows);
    json_out_count(json, "cols", layer->profile->cols);
    json_out_count(json, "params", layer->profile->params);
    json_out_number(json, "factor_rows", layer->shape.factor_rows);
    json_out_string(json, "scheme", scheme_at(layer->scheme)->name);
    json_out_count(json, "chunks", layer->pieces);
    json_out_number(json, "send_bytes", chosen->cost.send_bytes);
    json_out_number(json, "recv_bytes", chosen->cost.recv_bytes);
    json_out_number(json, "extra_flops", chosen->cost.extra_flops);
    json_out_number(json, "time_us", 1e6 * chosen->time_s);
    json_out_object(json, "costs");
    for (size_t i = 0; scheme_at(i) != NULL; i++)
        if (layer->costs[i].refused == NULL)
            put_cost(json, scheme_at(i)->name, &layer->costs[i]);
    json_out_close(json);
    json_out_close(json);
}

static void put_placement(struct json_out *json, const struct plan *plan)
{
    json_out_object(json, "placement");
    json_out_string(json, "name", plan->book->placement->name);
    json_out_array(json, "server_bytes");
    for (size_t s = 0; s < plan->book->servers; s++)
        json_out_count(json, NULL, plan->server_bytes[s]);
    json_out_close(json);
    json_out_array(json, "server_nodes");
    for (uint32_t s = 0; s < plan->book->servers; s++)
        json_out_count(json, NULL, plan_node(plan->book, s));
    json_out_close(json);
    json_out_number(json, "cv", plan->cv);
    json_out_count(json, "pieces", plan->pieces);
    json_out_number(json, "fullest_over_mean", plan->fullest_over_mean);
    json_out_number(json, "busiest_send_bytes", plan->busiest_send_bytes);
    json_out_number(json, "busiest_recv_bytes", plan->busiest_recv_bytes);
    json_out_close(json);
}

void plan_json(const struct plan *plan, struct buf *out)
{
    const struct book *book = plan->book;
    struct json_out json;
    json_out_init(&json, out, 2);
    json_out_object(&json, NULL);
    json_out_string(&json, "model", book->profile->name);
    json_out_count(&json, "workers", book->workers);
    json_out_count(&json, "servers", book->servers);
    json_out_count(&json, "colocated", book->colocated);
    json_out_count(&json, "batch", book->batch);
    json_out_string(&json, "rule", plan_rule_name(book->rule));
    json_out_number(&json, "bandwidth_bps", book->bits_s);
    json_out_number(&json, "latency_s", book->latency_s);
    json_out_number(&json, "message_cost_s", book->message_s);
    json_out_number(&json, "flops", book->flops_s);
    json_out_number(&json, "chunk_bytes", plan->cluster.chunk_bytes);
    json_out_array(&json, "layers");
    for (size_t i = 0; i < plan->count; i++)
        put_layer(&json, &plan->layers[i]);
    json_out_close(&json);
    json_out_object(&json, "totals");
    json_out_count(&json, "params", book->profile->params);
    json_out_number(&json, "send_bytes", plan->send_bytes);
    json_out_number(&json, "recv_bytes", plan->recv_bytes);
    json_out_number(&json, "comm_s", plan->comm_s);
    json_out_number(&json, "comm_busiest_s", plan->busiest_s);
    json_out_number(&json, "compute_s", plan->compute_s);
    json_out_number(&json, "iteration_s", plan->iteration_s);
    json_out_number(&json, "server_buffer_bytes", plan->server_buffer_bytes);
    json_out_number(&json, "worker_buffer_bytes", plan->worker_buffer_bytes);
    json_out_close(&json);
    put_placement(&json, plan);
    json_out_close(&json);
}
