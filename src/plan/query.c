/* Facts of the book by name: one table for the job, one for a layer. */
#include "plan/query.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"

/* ---- facts ---- */

static void show_count(uint64_t value, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%llu", (unsigned long long)value);
}

#define JOB_FACT(name, value)                                                                      \
    static void job_##name(const struct plan *plan, char *out, size_t cap)                         \
    {                                                                                              \
        show_count(value, out, cap);                                                               \
    }
JOB_FACT(workers, plan->book->workers)
JOB_FACT(servers, plan->book->servers)
JOB_FACT(batch, plan->book->batch)
JOB_FACT(layers, plan->count)
JOB_FACT(params, plan->book->profile->params)
JOB_FACT(chunk_bytes, (uint64_t)plan->cluster.chunk_bytes)

static void job_rule(const struct plan *plan, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s", plan->book->rule == PLAN_BYTES ? "bytes" : "time");
}

static void job_placement(const struct plan *plan, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s", plan->book->placement->name);
}

static const struct {
    const char *name;
    void (*show)(const struct plan *plan, char *out, size_t cap);
} job_facts[] = {
    {"workers", job_workers},
    {"servers", job_servers},
    {"batch", job_batch},
    {"rule", job_rule},
    {"layers", job_layers},
    {"params", job_params},
    {"chunk_bytes", job_chunk_bytes},
    {"placement", job_placement},
};

#define LAYER_FACT(name, value)                                                                    \
    static void layer_##name(const struct plan_layer *layer, char *out, size_t cap)                \
    {                                                                                              \
        show_count(value, out, cap);                                                               \
    }
LAYER_FACT(rows, layer->profile->rows)
LAYER_FACT(cols, layer->profile->cols)
LAYER_FACT(params, layer->profile->params)
LAYER_FACT(chunks, layer->pieces)

static void layer_scheme(const struct plan_layer *layer, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s", scheme_at(layer->scheme)->name);
}

static void layer_kind(const struct plan_layer *layer, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s", layer_kind_name(layer->profile->kind));
}

static const struct {
    const char *name;
    void (*show)(const struct plan_layer *layer, char *out, size_t cap);
} layer_facts[] = {
    {"scheme", layer_scheme}, {"kind", layer_kind},     {"rows", layer_rows},
    {"cols", layer_cols},     {"params", layer_params}, {"chunks", layer_chunks},
};

enum {
    JOB_FACTS = sizeof job_facts / sizeof job_facts[0],
    LAYER_FACTS = sizeof layer_facts / sizeof layer_facts[0]
};

/* ---- names that are not there ---- */

static const char *job_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return i < JOB_FACTS ? job_facts[i].name : NULL;
}

static const char *fact_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return i < LAYER_FACTS ? layer_facts[i].name : NULL;
}

static const char *layer_candidate(const void *ctx, size_t i)
{
    const struct plan *plan = ctx;
    return i < plan->count ? plan->layers[i].profile->name : NULL;
}

static tri_status unknown(const char *what, const char *typed, names_candidate *candidate,
                          const void *ctx, tri_error *err)
{
    char next[NAMES_TEXT];
    names_advise(typed, candidate, ctx, next);
    fail(err, TRI_EARG, "the book has no %s '%.60s'", what, typed);
    fail_next(err, "%s", next);
    return TRI_EARG;
}

/* "fact.layer": the layer's name may have dots of its own. */
static tri_status query_layer(const struct plan *plan, const char *name, size_t dot, char *out,
                              size_t cap, tri_error *err)
{
    char fact[32];
    const char *wanted = name + dot + 1;
    (void)snprintf(fact, sizeof fact, "%.*s", (int)(dot < 31 ? dot : 31), name);
    const struct plan_layer *layer = NULL;
    for (size_t i = 0; i < plan->count && layer == NULL; i++)
        if (names_equal(plan->layers[i].profile->name, wanted))
            layer = &plan->layers[i];
    if (layer == NULL)
        return unknown("layer", wanted, layer_candidate, plan, err);
    for (size_t i = 0; i < LAYER_FACTS; i++)
        if (names_equal(layer_facts[i].name, fact)) {
            layer_facts[i].show(layer, out, cap);
            return TRI_OK;
        }
    return unknown("fact of a layer called", fact, fact_candidate, NULL, err);
}

tri_status plan_query(const struct plan *plan, const char *name, char *out, size_t cap,
                      tri_error *err)
{
    size_t dot = strcspn(name, ".");
    if (name[dot] == '.')
        return query_layer(plan, name, dot, out, cap, err);
    for (size_t i = 0; i < JOB_FACTS; i++)
        if (names_equal(job_facts[i].name, name)) {
            job_facts[i].show(plan, out, cap);
            return TRI_OK;
        }
    return unknown("fact", name, job_candidate, NULL, err);
}
