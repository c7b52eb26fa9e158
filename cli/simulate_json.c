/* A sweep as JSON. The names of the fields are a contract: add, never rename. */
#include <math.h>

#include "base/json_out.h"
#include "cli/simulate.h"

static void put_nodes(struct json_out *json, const char *key, const double *bytes, size_t count)
{
    json_out_array(json, key);
    for (size_t i = 0; i < count; i++)
        json_out_number(json, NULL, bytes[i]);
    json_out_close(json);
}

/* How it was run; null where a system has no choice to make. */
static void put_settings(struct json_out *json, const struct sweep *sweep, size_t at)
{
    const struct sweep_variant *variant = sweep_variant(sweep, at);
    struct study study = sweep_study(sweep, at);
    json_out_string(json, "rule", variant_rule(variant));
    json_out_string(json, "placement", variant->placement->name);
    json_out_string(json, "consistency", variant->consistency);
    json_out_string(json, "codec", variant->codec);
    json_out_string(json, "duplex", study.shared ? "shared" : "full");
    json_out_number(json, "efficiency", study.efficiency);
    json_out_number(json, "flops", study_flops(&study));
    json_out_number(json, "memory_rate_bytes_s", study.memory_bytes_s);
    json_out_number(json, "copy_rate_bytes_s", study.copy_bytes_s > 0 ? study.copy_bytes_s : NAN);
    json_out_number(json, "codec_rate_bytes_s", 1 / study.codec.code_s);
    json_out_number(json, "latency_s", study.latency_s);
    json_out_number(json, "message_cost_s", study.message_s);
    json_out_count(json, "chunk_bytes", study_chunk(&study));
    json_out_count(json, "iterations", study.iterations);
    json_out_number(json, "jitter", study.jitter);
    json_out_count(json, "slow_nodes", study.slow_nodes);
    json_out_number(json, "slow_times", study.slow_nodes > 0 ? study.slow_times : 1);
    json_out_count(json, "servers", study_servers(&study));
    json_out_bool(json, "colocate", !study.apart);
}

static void put_run(struct json_out *json, const struct sweep *sweep, size_t at)
{
    const struct study_result *result = &sweep->results[at];
    const struct timed_result *timed = &result->timed;
    struct study study = sweep_study(sweep, at);
    json_out_object(json, NULL);
    json_out_string(json, "model", study.profile->name);
    json_out_string(json, "system", study.system->name);
    json_out_count(json, "nodes", study.nodes);
    json_out_number(json, "bandwidth_bps", study.bits_s);
    json_out_count(json, "batch", study.batch);
    json_out_number(json, "speedup", result->speedup);
    json_out_number(json, "iteration_s", timed->iteration_s);
    json_out_number(json, "compute_s", timed->compute_s);
    json_out_number(json, "stall_s", sweep_stall(timed));
    put_nodes(json, "send_bytes_per_node", timed->sent, timed->nodes);
    put_nodes(json, "recv_bytes_per_node", timed->received, timed->nodes);
    json_out_number(json, "messages", (double)timed->messages / study.iterations);
    put_settings(json, sweep, at);
    json_out_count(json, "seed", study.seed);
    json_out_close(json);
}

void sweep_json(const struct sweep *sweep, struct buf *out)
{
    struct json_out json;
    json_out_init(&json, out, 2);
    json_out_object(&json, NULL);
    json_out_string(&json, "kind", "simulated");
    json_out_bool(&json, "complete", sweep->done == sweep_total(sweep));
    json_out_array(&json, "runs");
    for (size_t i = 0; i < sweep->done; i++)
        put_run(&json, sweep, i);
    json_out_close(&json);
    json_out_close(&json);
}
