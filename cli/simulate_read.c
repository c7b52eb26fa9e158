/* From the options of trident simulate to a sweep. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "cli/simulate.h"
#include "cli/simulate_list.h"

/* The least and the most that a link may carry, as for trident plan. */
static const double min_rate = 1e3, max_rate = 1e15;

static const double min_efficiency = 1e-6;

/* How many iterations a mean needs: few where all are alike. */
enum { ITERATIONS_STEADY = 5, ITERATIONS_VARYING = 20 };

/* ---- lists ---- */

/* Keeps the list ascending and free of doubles. */
static tri_status add_count(struct sweep *sweep, uint32_t count, const struct list *list,
                            tri_error *err)
{
    size_t at = 0;
    while (at < sweep->node_count && sweep->nodes[at] < count)
        at++;
    if (at < sweep->node_count && sweep->nodes[at] == count)
        return TRI_OK;
    if (sweep->node_count == SWEEP_NODES)
        return list_too_many(list, SWEEP_NODES, err);
    memmove(sweep->nodes + at + 1, sweep->nodes + at,
            (sweep->node_count++ - at) * sizeof *sweep->nodes);
    sweep->nodes[at] = count;
    return TRI_OK;
}

/* "8" or "1-8". */
static tri_status add_nodes(void *into, const char *part, const struct list *list, tri_error *err)
{
    struct sweep *sweep = into;
    char low[LIST_PART];
    uint64_t first = 0, last = 0;
    size_t len = strcspn(part, "-");
    (void)snprintf(low, sizeof low, "%.*s", (int)len, part);
    if (!units_count(low, &first) || !units_count(part[len] == '-' ? part + len + 1 : low, &last) ||
        first < 1 || last < first || last > BOOK_MAX_NODES)
        return list_refuse(list->option, part, list->next, err);
    tri_status status = TRI_OK;
    for (uint64_t count = first; count <= last && status == TRI_OK; count++)
        status = add_count(sweep, (uint32_t)count, list, err);
    return status;
}

static tri_status add_rate(void *into, const char *part, const struct list *list, tri_error *err)
{
    struct sweep *sweep = into;
    double rate = 0;
    size_t at = 0;
    if (!units_rate(part, &rate) || rate < min_rate || rate > max_rate)
        return list_refuse(list->option, part, list->next, err);
    while (at < sweep->rate_count && sweep->rates[at] < rate)
        at++;
    if (at < sweep->rate_count && sweep->rates[at] == rate)
        return TRI_OK;
    if (sweep->rate_count == SWEEP_RATES)
        return list_too_many(list, SWEEP_RATES, err);
    memmove(sweep->rates + at + 1, sweep->rates + at,
            (sweep->rate_count++ - at) * sizeof *sweep->rates);
    sweep->rates[at] = rate;
    return TRI_OK;
}

static const struct list nodes_list = {
    "nodes", "give numbers from 1 to 65536, as a list or a range: 1,2,4,8 or 1-8", add_nodes};
static const struct list rates_list = {
    "bandwidth",
    "give rates from 1 kbit/s to 1 Pbit/s, such as 10Gbit or 1.25GB/s, separated by commas",
    add_rate};

/* ---- single values ---- */

static tri_status read_shares(const struct simulate_settings *settings, struct study *study,
                              tri_error *err)
{
    double value = 0;
    if (!units_number(settings->efficiency, &value) || !(value >= min_efficiency) || value > 1)
        return list_refuse("efficiency", settings->efficiency,
                           "give the share of the rate that is usable: from 0.000001 to 1", err);
    study->efficiency = value;
    if (!units_number(settings->jitter, &value) || value >= 1)
        return list_refuse("jitter", settings->jitter,
                           "give the share by which compute times vary: from 0 to below 1", err);
    study->jitter = value;
    return TRI_OK;
}

static tri_status read_chunk(const char *text, struct study *study, tri_error *err)
{
    if (names_equal(text, "auto"))
        return TRI_OK;
    uint64_t bytes = 0;
    if (!units_size(text, &bytes) || bytes < 1024 || bytes > (uint64_t)1 << 30 || bytes % 4 != 0)
        return list_refuse("chunk", text,
                           "give auto or a size from 1KiB to 1GiB in whole floats, such as 2MB",
                           err);
    study->chunk_bytes = bytes;
    return TRI_OK;
}

/* "N:X". */
static tri_status read_slow(const char *text, struct sweep *sweep, tri_error *err)
{
    char count[LIST_PART];
    uint64_t nodes = 0;
    double times = 0;
    if (text == NULL)
        return TRI_OK;
    size_t len = strcspn(text, ":");
    (void)snprintf(count, sizeof count, "%.*s", (int)(len < LIST_PART ? len : 0), text);
    if (text[len] != ':' || !units_count(count, &nodes) || nodes == 0 ||
        !units_number(text + len + 1, &times) || times < 1 || times > 1000)
        return list_refuse("slow", text,
                           "give a number of workers and how many times as slow they are, from 1 "
                           "to 1000: 2:1.5",
                           err);
    uint32_t most = sweep->nodes[sweep->node_count - 1];
    if (nodes > most) {
        fail(err, TRI_EINPUT, "option '--slow' names %llu workers, but there are at most %u",
             (unsigned long long)nodes, (unsigned)most);
        fail_next(err, "name at most %u, or raise --nodes", (unsigned)most);
        return TRI_EINPUT;
    }
    sweep->study.slow_nodes = (uint32_t)nodes;
    sweep->study.slow_times = times;
    return TRI_OK;
}

/* Iterations differ from one to the next; with workers that drift apart so does what they mean. */
static uint32_t iterations_of(const struct simulate_settings *settings, const struct sweep *sweep)
{
    bool varying = sweep->study.jitter > 0 || sweep->study.slow_nodes > 0;
    for (size_t i = 0; i < sweep->variant_count; i++)
        varying = varying || strcmp(sweep->variants[i].consistency, "bsp") != 0;
    if (settings->iterations > 0)
        return (uint32_t)settings->iterations;
    return varying ? ITERATIONS_VARYING : ITERATIONS_STEADY;
}

/* Can the time of an iteration be told, as plan_make() would? */
static tri_status read_model(const struct simulate_settings *settings,
                             const struct profile *profile, struct study *study, tri_error *err)
{
    study->profile = profile;
    study->batch = settings->batch > 0 ? settings->batch : profile->default_batch;
    if (study->batch == 0) {
        fail(err, TRI_EINPUT, "option '--batch' is missing");
        fail_why(err, "profile '%.60s' has no default_batch", profile->name);
        fail_next(err, "add --batch K, samples per worker");
        return TRI_EINPUT;
    }
    double rate = settings->flops > 0 ? settings->flops : profile->flops_s;
    bool own_rate = profile->flops_s == 0 || rate == profile->flops_s;
    if ((profile->iteration_s > 0 && own_rate) || (profile->flops > 0 && rate > 0))
        return TRI_OK;
    fail(err, TRI_EINPUT, "model '%.60s' cannot be simulated", profile->name);
    fail_why(err, "its profile does not say how %s",
             profile->flops > 0 ? "fast it is" : "much its layers compute");
    if (profile->flops > 0)
        fail_next(err, "give --flops, the rate of products on a node, such as --flops 4T");
    else if (profile->iteration_s > 0)
        fail_next(err, "leave out --flops, which cannot scale a measured time, or add fwd_flops "
                       "and bwd_flops");
    else
        fail_next(err, "add fwd_flops and bwd_flops to its layers, or the time of an iteration "
                       "(docs/profile.md)");
    return TRI_EINPUT;
}

tri_status sweep_read(const struct simulate_settings *settings, const struct profile *profile,
                      struct sweep *sweep, tri_error *err)
{
    *sweep = (struct sweep){0};
    struct study *study = &sweep->study;
    *study = (struct study){
        .servers = (uint32_t)settings->servers,
        .apart = settings->colocate == 1,
        .shared = settings->duplex == 1,
        .latency_s = settings->latency,
        .message_s = settings->message_cost,
        .copy_bytes_s = settings->copy_rate / 8,
        .memory_bytes_s = settings->memory_rate / 8,
        .codec = {.code_s = 8 / settings->codec_rate},
        .flops_s = settings->flops,
        .seed = settings->seed,
    };
    tri_status status = list_each(&nodes_list, settings->nodes, ',', sweep, err);
    if (status == TRI_OK)
        status = list_each(&rates_list, settings->bandwidth, ',', sweep, err);
    if (status == TRI_OK)
        status = variants_read(settings, sweep, err);
    if (status == TRI_OK)
        status = read_shares(settings, study, err);
    if (status == TRI_OK)
        status = read_chunk(settings->chunk, study, err);
    if (status == TRI_OK)
        status = read_slow(settings->slow, sweep, err);
    study->iterations = iterations_of(settings, sweep);
    return status == TRI_OK ? read_model(settings, profile, study, err) : status;
}

/* ---- what was read ---- */

size_t sweep_total(const struct sweep *sweep)
{
    return sweep->node_count * sweep->rate_count * sweep->variant_count;
}

const struct sweep_variant *sweep_variant(const struct sweep *sweep, size_t at)
{
    return &sweep->variants[at % sweep->variant_count];
}

struct study sweep_study(const struct sweep *sweep, size_t at)
{
    const struct sweep_variant *variant = sweep_variant(sweep, at);
    size_t row = at / sweep->variant_count;
    struct study study = sweep->study;
    study.system = variant->system;
    study.rule = variant->rule;
    study.placement = variant->placement;
    study.consistency = variant->consistency;
    study.codec.ratio = variant->ratio;
    study.nodes = sweep->nodes[row / sweep->rate_count];
    study.bits_s = sweep->rates[row % sweep->rate_count];
    if (study.slow_nodes > study.nodes)
        study.slow_nodes = study.nodes;
    if (variant->system->alone)
        study.slow_nodes = 0;
    return study;
}

const struct study_result *sweep_at(const struct sweep *sweep, size_t node, size_t rate,
                                    size_t variant)
{
    size_t at = (node * sweep->rate_count + rate) * sweep->variant_count + variant;
    return at < sweep->done ? &sweep->results[at] : NULL;
}

bool sweep_largest(const struct sweep *sweep, size_t variant, size_t *node, size_t *rate)
{
    if (variant >= sweep->done)
        return false;
    size_t row = (sweep->done - variant - 1) / sweep->variant_count;
    *node = row / sweep->rate_count;
    *rate = row % sweep->rate_count;
    return true;
}

double sweep_stall(const struct timed_result *timed)
{
    return fabs(timed->stall_s) < 1e-9 * timed->iteration_s ? 0 : timed->stall_s;
}

double sweep_imbalance(const struct timed_result *timed)
{
    double most = 0, sum = 0;
    for (uint32_t n = 0; n < timed->nodes; n++) {
        most = fmax(most, timed->sent[n]);
        sum += timed->sent[n];
    }
    return sum > 0 ? most * timed->nodes / sum : 1;
}
