/* A sweep as JSON. The names of the fields are a contract: add, never rename. */
#include "base/json_out.h"
#include "cli/simulate.h"

static void put_nodes(struct json_out *json, const char *key, const double *bytes, size_t count)
{
    json_out_array(json, key);
    for (size_t i = 0; i < count; i++)
        json_out_number(json, NULL, bytes[i]);
    json_out_close(json);
}

static void put_run(struct json_out *json, const struct sweep *sweep, size_t at)
{
    const struct study_result *result = &sweep->results[at];
    const struct timed_result *timed = &result->timed;
    size_t row = at / sweep->system_count;
    json_out_object(json, NULL);
    json_out_string(json, "model", sweep->study.profile->name);
    json_out_string(json, "system", sweep->systems[at % sweep->system_count]->name);
    json_out_count(json, "nodes", sweep->nodes[row / sweep->rate_count]);
    json_out_number(json, "bandwidth_bps", sweep->rates[row % sweep->rate_count]);
    json_out_count(json, "batch", sweep->study.batch);
    json_out_number(json, "speedup", result->speedup);
    json_out_number(json, "iteration_s", timed->iteration_s);
    json_out_number(json, "compute_s", timed->compute_s);
    json_out_number(json, "stall_s", sweep_stall(timed));
    put_nodes(json, "send_bytes_per_node", timed->sent, timed->nodes);
    put_nodes(json, "recv_bytes_per_node", timed->received, timed->nodes);
    json_out_count(json, "seed", sweep->study.seed);
    json_out_close(json);
}

void sweep_json(const struct sweep *sweep, struct buf *out)
{
    struct json_out json;
    json_out_init(&json, out, 2);
    json_out_object(&json, NULL);
    json_out_string(&json, "kind", "simulated");
    json_out_array(&json, "runs");
    for (size_t i = 0; i < sweep->done; i++)
        put_run(&json, sweep, i);
    json_out_close(&json);
    json_out_close(&json);
}
