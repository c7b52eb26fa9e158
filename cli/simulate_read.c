/* From the options of trident simulate to a sweep. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "cli/simulate.h"
#include "mod/consistency.h"

enum { PART_TEXT = 64 };

/* The least and the most that a link may carry, as for trident plan. */
static const double min_rate = 1e3, max_rate = 1e15;

static tri_status refuse(const char *option, const char *text, const char *next, tri_error *err)
{
    fail(err, TRI_EINPUT, "option '--%s' cannot be '%.60s'", option, text);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

static tri_status unknown(const char *option, const char *typed, names_candidate *candidate,
                          tri_error *err)
{
    char next[NAMES_TEXT];
    names_advise(typed, candidate, NULL, next);
    fail(err, TRI_EINPUT, "option '--%s' does not know '%.60s'", option, typed);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

/* ---- lists ---- */

struct list {
    const char *option, *next; /* for the refusal */
    tri_status (*add)(struct sweep *sweep, const char *part, const struct list *list,
                      tri_error *err);
};

/* Hands the parts of "a,b,c" to the list's add(), one by one. */
static tri_status each_part(const char *text, const struct list *list, struct sweep *sweep,
                            tri_error *err)
{
    for (const char *at = text;; at++) {
        char part[PART_TEXT];
        size_t len = strcspn(at, ",");
        if (len == 0 || len >= sizeof part)
            return refuse(list->option, text, list->next, err);
        memcpy(part, at, len);
        part[len] = '\0';
        tri_status status = list->add(sweep, part, list, err);
        at += len;
        if (status != TRI_OK || *at == '\0')
            return status;
    }
}

static tri_status too_many(const struct list *list, size_t most, tri_error *err)
{
    fail(err, TRI_EINPUT, "option '--%s' lists more than %zu values", list->option, most);
    fail_next(err, "list fewer, and run the command again for the others");
    return TRI_EINPUT;
}

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
        return too_many(list, SWEEP_NODES, err);
    memmove(sweep->nodes + at + 1, sweep->nodes + at,
            (sweep->node_count++ - at) * sizeof *sweep->nodes);
    sweep->nodes[at] = count;
    return TRI_OK;
}

/* "8" or "1-8". */
static tri_status add_nodes(struct sweep *sweep, const char *part, const struct list *list,
                            tri_error *err)
{
    char low[PART_TEXT];
    uint64_t first = 0, last = 0;
    size_t len = strcspn(part, "-");
    (void)snprintf(low, sizeof low, "%.*s", (int)len, part);
    if (!units_count(low, &first) || !units_count(part[len] == '-' ? part + len + 1 : low, &last) ||
        first < 1 || last < first || last > BOOK_MAX_NODES)
        return refuse(list->option, part, list->next, err);
    tri_status status = TRI_OK;
    for (uint64_t count = first; count <= last && status == TRI_OK; count++)
        status = add_count(sweep, (uint32_t)count, list, err);
    return status;
}

static tri_status add_rate(struct sweep *sweep, const char *part, const struct list *list,
                           tri_error *err)
{
    double rate = 0;
    size_t at = 0;
    if (!units_rate(part, &rate) || rate < min_rate || rate > max_rate)
        return refuse(list->option, part, list->next, err);
    while (at < sweep->rate_count && sweep->rates[at] < rate)
        at++;
    if (at < sweep->rate_count && sweep->rates[at] == rate)
        return TRI_OK;
    if (sweep->rate_count == SWEEP_RATES)
        return too_many(list, SWEEP_RATES, err);
    memmove(sweep->rates + at + 1, sweep->rates + at,
            (sweep->rate_count++ - at) * sizeof *sweep->rates);
    sweep->rates[at] = rate;
    return TRI_OK;
}

static const char *system_or_all(const void *ctx, size_t i)
{
    (void)ctx;
    if (i == 0)
        return "all";
    return study_system_at(i - 1) != NULL ? study_system_at(i - 1)->name : NULL;
}

/* In the order in which they were named: the columns of the table. */
static tri_status add_one_system(struct sweep *sweep, const struct study_system *system,
                                 const struct list *list, tri_error *err)
{
    for (size_t i = 0; i < sweep->system_count; i++)
        if (sweep->systems[i] == system)
            return TRI_OK;
    if (sweep->system_count == SWEEP_SYSTEMS)
        return too_many(list, SWEEP_SYSTEMS, err);
    sweep->systems[sweep->system_count++] = system;
    return TRI_OK;
}

static tri_status add_system(struct sweep *sweep, const char *part, const struct list *list,
                             tri_error *err)
{
    if (!names_equal(part, "all")) {
        const struct study_system *system = study_system_find(part);
        if (system == NULL)
            return unknown(list->option, part, system_or_all, err);
        return add_one_system(sweep, system, list, err);
    }
    tri_status status = TRI_OK;
    for (size_t i = 0; study_system_at(i) != NULL && status == TRI_OK; i++)
        status = add_one_system(sweep, study_system_at(i), list, err);
    return status;
}

static const struct list nodes_list = {
    "nodes", "give numbers from 1 to 65536, as a list or a range: 1,2,4,8 or 1-8", add_nodes};
static const struct list rates_list = {
    "bandwidth",
    "give rates from 1 kbit/s to 1 Pbit/s, such as 10Gbit or 1.25GB/s, separated by commas",
    add_rate};
static const struct list systems_list = {
    "system", "give all, or names separated by commas: ps,trident", add_system};

/* ---- single values ---- */

static tri_status read_shares(const struct simulate_settings *settings, struct study *study,
                              tri_error *err)
{
    double value = 0;
    if (!units_number(settings->efficiency, &value) || !(value > 0) || value > 1)
        return refuse("efficiency", settings->efficiency,
                      "give the share of the rate that is usable: above 0, at most 1", err);
    study->efficiency = value;
    if (!units_number(settings->jitter, &value) || value >= 1)
        return refuse("jitter", settings->jitter,
                      "give the share by which compute times vary: from 0 to below 1", err);
    study->jitter = value;
    return TRI_OK;
}

static const char *codec_candidate(const void *ctx, size_t i)
{
    static const char *const codecs[] = {"none", "topk:SHARE", "onebit", NULL};
    (void)ctx;
    return codecs[i];
}

/* topk sends a value and its index for each that it keeps, onebit a bit for 32. */
static tri_status read_codec(const char *text, struct study_codec *codec, tri_error *err)
{
    double share = 0;
    if (names_equal(text, "none"))
        return TRI_OK;
    if (names_equal(text, "onebit")) {
        codec->ratio = 1.0 / 32;
        return TRI_OK;
    }
    if (strncmp(text, "topk", 4) != 0 || (text[4] != ':' && text[4] != '\0'))
        return unknown("codec", text, codec_candidate, err);
    if (text[4] == '\0' || !units_number(text + 5, &share) || !(share > 0) || share > 1)
        return refuse("codec", text,
                      "give the share of the values that are sent, above 0, at most 1: topk:0.01",
                      err);
    codec->ratio = 2 * share;
    return TRI_OK;
}

static const char *placement_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return placement_at(i) != NULL ? placement_at(i)->name : NULL;
}

static tri_status read_parts(const struct simulate_settings *settings, struct study *study,
                             tri_error *err)
{
    const tri_consistency_ops *ops;
    uint32_t bound;
    study->placement = placement_find(settings->placement);
    if (study->placement == NULL)
        return unknown("placement", settings->placement, placement_candidate, err);
    if (settings->chunk % 4 != 0) {
        fail(err, TRI_EINPUT, "option '--chunk' cannot be %llu bytes",
             (unsigned long long)settings->chunk);
        fail_next(err, "give a size in whole floats, such as 2MB");
        return TRI_EINPUT;
    }
    study->consistency = settings->consistency;
    return consistency_read(settings->consistency, &ops, &bound, err);
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
    *sweep = (struct sweep){.codec = settings->codec};
    struct study *study = &sweep->study;
    *study = (struct study){
        .servers = (uint32_t)settings->servers,
        .apart = settings->colocate == 1,
        .shared = settings->duplex == 1,
        .latency_s = settings->latency,
        .message_s = settings->message_cost,
        .copy_bytes_s = settings->copy_rate / 8,
        .flops_s = settings->flops,
        .chunk_bytes = settings->chunk,
        .iterations = (uint32_t)settings->iterations,
        .seed = settings->seed,
    };
    tri_status status = each_part(settings->nodes, &nodes_list, sweep, err);
    if (status == TRI_OK)
        status = each_part(settings->bandwidth, &rates_list, sweep, err);
    if (status == TRI_OK)
        status = each_part(settings->system, &systems_list, sweep, err);
    if (status == TRI_OK)
        status = read_shares(settings, study, err);
    if (status == TRI_OK)
        status = read_codec(settings->codec, &study->codec, err);
    if (status == TRI_OK)
        status = read_parts(settings, study, err);
    return status == TRI_OK ? read_model(settings, profile, study, err) : status;
}

size_t sweep_total(const struct sweep *sweep)
{
    return sweep->node_count * sweep->rate_count * sweep->system_count;
}

const struct study_result *sweep_at(const struct sweep *sweep, size_t node, size_t rate,
                                    size_t system)
{
    size_t at = (node * sweep->rate_count + rate) * sweep->system_count + system;
    return at < sweep->done ? &sweep->results[at] : NULL;
}

double sweep_stall(const struct timed_result *timed)
{
    return fabs(timed->stall_s) < 1e-9 * timed->iteration_s ? 0 : timed->stall_s;
}
