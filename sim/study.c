/* From a description of a cluster to a timed job. */
#include "sim/study.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/names.h"
#include "mod/consistency.h"

static const struct study_system systems[] = {
    {.name = "single",
     .summary = "one node, nothing is synchronised",
     .alone = true,
     .schemes = "ps"},
    {.name = "ps",
     .summary = "parameter servers, after the backward pass",
     .copies = true,
     .schemes = "ps"},
    {.name = "wfbp",
     .summary = "parameter servers, each layer as soon as it is computed",
     .overlap = true,
     .schemes = "ps"},
    {.name = "poseidon",
     .summary = "wfbp, and per layer the fewer bytes of ps and sfb",
     .overlap = true,
     .schemes = "ps,sfb"},
    {.name = "adam",
     .summary = "wfbp, and FC layers as factors to one server (Project Adam)",
     .overlap = true,
     .schemes = "ps,adam"},
    {.name = "tensor-ps",
     .summary = "ps with whole tensors on servers, as TensorFlow placed them",
     .copies = true,
     .schemes = "ps",
     .placement = "tensor"},
    {.name = "onebit",
     .summary = "ps with FC layers as one bit a value (CNTK)",
     .schemes = "ps",
     .onebit = true},
    {.name = "trident",
     .summary = "the least time of all schemes, the most urgent first",
     .overlap = true,
     .urgency = true,
     .rule_time = true,
     .schemes = "ps,sfb,adam"},
};

const struct study_system *study_system_at(size_t i)
{
    return i < sizeof systems / sizeof systems[0] ? &systems[i] : NULL;
}

const struct study_system *study_system_find(const char *name)
{
    const struct study_system *system;
    for (size_t i = 0; (system = study_system_at(i)) != NULL; i++)
        if (names_equal(system->name, name))
            return system;
    return NULL;
}

/* ---- what is asked ---- */

static tri_status refuse(tri_error *err, const char *what, const char *next)
{
    fail(err, TRI_EINPUT, "%s", what);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

static tri_status check(const struct study *study, tri_error *err)
{
    if (study->nodes == 0)
        return refuse(err, "there are no nodes", "give at least one");
    if (!(study->bits_s > 0) || isinf(study->bits_s))
        return refuse(err, "a link of rate 0 carries nothing", "give a rate such as 10Gbit");
    if (!(study->efficiency >= 0 && study->efficiency <= 1))
        return refuse(err, "the efficiency of a link is a share of its rate",
                      "give a number above 0, at most 1");
    if (!(study->jitter >= 0 && study->jitter < 1))
        return refuse(err, "jitter is a share of the compute time", "give a number from 0 to 0.99");
    if (!(study->latency_s >= 0) || !(study->message_s >= 0) || !(study->copy_bytes_s >= 0))
        return refuse(err, "latency, message cost and copy rate cannot be negative",
                      "leave them out for 0");
    if (study->slow_nodes > study->nodes || (study->slow_nodes > 0 && !(study->slow_times > 0)))
        return refuse(err,
                      "there are fewer workers than are to be slow, or they are to take no time",
                      "give a number of workers and how many times as slow they are");
    if (study->iterations == 1)
        return refuse(err, "the first iteration is not counted", "simulate at least 2");
    return TRI_OK;
}

/* The schemes that a system may choose from, as bits; *single is one that is forced. */
static uint32_t schemes_of(const struct study_system *system)
{
    uint32_t bits = 0;
    for (const char *at = system->schemes; *at != '\0';) {
        size_t length = strcspn(at, ","), index = 0;
        char name[16] = "";
        memcpy(name, at, length < sizeof name ? length : sizeof name - 1);
        if (scheme_find(name, &index) != NULL)
            bits |= UINT32_C(1) << index;
        at += length + (at[length] == ',');
    }
    return bits;
}

static enum plan_rule rule_of(const struct study *study)
{
    if (study->rule == STUDY_RULE_OWN)
        return study->system->rule_time ? PLAN_TIME : PLAN_BYTES;
    return study->rule == STUDY_RULE_TIME ? PLAN_TIME : PLAN_BYTES;
}

uint32_t study_servers(const struct study *study)
{
    if (study->system->alone)
        return 1;
    return study->servers > 0 ? study->servers : study->nodes;
}

double study_flops(const struct study *study)
{
    double flops = study->flops_s > 0 ? study->flops_s : study->profile->flops_s;
    return flops > 0 ? flops : 1e12;
}

static double rate_of(const struct study *study)
{
    return study->bits_s * (study->efficiency > 0 ? study->efficiency : 1);
}

uint64_t study_chunk(const struct study *study)
{
    if (study->chunk_bytes > 0)
        return study->chunk_bytes;
    return plan_chunk_bytes(rate_of(study), study->latency_s, 4 * (double)study->profile->params,
                            study_servers(study));
}

static struct book book_of_study(const struct study *study)
{
    const struct study_system *system = study->system;
    const struct profile *profile = study->profile;
    uint32_t nodes = system->alone ? 1 : study->nodes;
    uint32_t servers = study_servers(study);
    bool apart = study->apart && !system->alone;
    uint32_t beside = servers < nodes ? servers : nodes;
    return (struct book){
        .profile = profile,
        .workers = nodes,
        .servers = servers,
        .colocated = apart ? 0 : beside,
        .batch = study->batch > 0 ? study->batch : profile->default_batch,
        .bits_s = rate_of(study),
        .shared = study->shared,
        .latency_s = study->latency_s,
        .message_s = study->message_s,
        .flops_s = study_flops(study),
        .memory_bytes_s = system->alone ? 0 : study->memory_bytes_s,
        .rule = rule_of(study),
        .schemes = schemes_of(system),
        .placement = system->placement != NULL  ? placement_find(system->placement)
                     : study->placement != NULL ? study->placement
                                                : placement_find("hash"),
        .chunk_bytes = study_chunk(study),
        .reproducible = true,
    };
}

/* Project Adam sends every FC layer as factors, whatever it costs. */
static void force_adam(const struct study *study, const tri_scheme_ops **forced)
{
    size_t adam = 0;
    (void)scheme_find("adam", &adam);
    for (size_t i = 0; i < study->profile->count; i++)
        if (study->profile->layers[i].kind == TRI_FC && study->profile->layers[i].params > 0)
            forced[i] = scheme_at(adam);
}

/* ---- running ---- */

/* One bit a value: an 32nd of the bytes, both ways; packing and unpacking at memory speed. */
static void set_codecs(const struct study *study, const struct plan *plan,
                       struct timed_codec *codecs)
{
    for (size_t i = 0; i < plan->count; i++) {
        bool fc = plan->layers[i].profile->kind == TRI_FC;
        codecs[i] = (struct timed_codec){.ratio = 1};
        if (study->codec.ratio > 0)
            codecs[i] = (struct timed_codec){study->codec.ratio, study->codec.code_s};
        else if (study->system->onebit && fc)
            codecs[i] = (struct timed_codec){1.0 / 32, study->codec.code_s};
    }
}

static tri_status set_rules(const struct study *study, struct core_rules *rules, tri_error *err)
{
    *rules = (struct core_rules){.reproducible = true};
    if (study->consistency == NULL)
        return TRI_OK;
    return consistency_read(study->consistency, &rules->consistency, &rules->bound, err);
}

static void set_slowness(const struct study *study, double *slowness, uint32_t workers)
{
    for (uint32_t r = 0; r < workers; r++)
        slowness[r] = r < study->slow_nodes ? study->slow_times : 1;
}

static tri_status run_plan(const struct study *study, const struct plan *plan,
                           const struct timed_codec *codecs, const double *slowness,
                           const struct mem *mem, struct study_result *result, tri_error *err)
{
    const struct book *book = plan->book;
    struct timed_options options = {
        .seed = study->seed,
        .iterations = study->iterations > 0 ? study->iterations : 5,
        .bytes_s = book->bits_s / 8,
        .shared = study->shared,
        .latency_s = study->latency_s,
        .message_s = study->message_s,
        .copy_bytes_s = study->system->copies ? study->copy_bytes_s : 0,
        .flops_s = book->flops_s,
        .memory_bytes_s = book->memory_bytes_s,
        .jitter = study->jitter,
        .slowness = study->slow_nodes > 0 ? slowness : NULL,
        .overlap = study->system->overlap,
        .fifo = !study->system->urgency,
        .barrier = !study->system->urgency,
        .codecs = codecs,
        .stop = study->stop,
        .stop_ctx = study->stop_ctx,
    };
    tri_status status = set_rules(study, &options.rules, err);
    if (status == TRI_OK)
        status = timed_run(plan, &options, mem, &result->timed, err);
    if (status != TRI_OK)
        return status;
    result->estimate_s = plan->iteration_s;
    result->speedup = book->workers * plan->compute_s / result->timed.iteration_s;
    for (size_t i = 0; i < plan->count; i++)
        if (scheme_at(plan->layers[i].scheme)->home == TRI_HOME_WORKERS)
            result->on_workers++;
        else
            result->on_servers++;
    return TRI_OK;
}

tri_status study_run(const struct study *study, const struct mem *mem, struct study_result *result,
                     tri_error *err)
{
    *result = (struct study_result){0};
    tri_status status = check(study, err);
    if (status != TRI_OK)
        return status;
    struct book book = book_of_study(study);
    if (book.batch == 0)
        return refuse(err, "the profile has no default batch", "give --batch");
    const tri_scheme_ops **forced = mem_array(mem, study->profile->count, sizeof(void *));
    struct timed_codec *codecs = mem_array(mem, study->profile->count, sizeof *codecs);
    double *slowness = mem_array(mem, book.workers, sizeof *slowness);
    struct plan *plan = NULL;
    if (forced == NULL || codecs == NULL || slowness == NULL)
        status = fail_nomem(err, "a study");
    book.forced_for = forced;
    if (status == TRI_OK && strcmp(study->system->name, "adam") == 0)
        force_adam(study, forced);
    if (status == TRI_OK)
        status = plan_make(&book, mem, &plan, err);
    if (status == TRI_OK &&
        (!(plan->compute_s > 0) ||
         !(study->flops_s > 0 || study->profile->flops_s > 0 || study->profile->iteration_s > 0)))
        status = refuse(err, "the profile does not say how fast the model computes",
                        "give --flops, or a profile with a measured rate");
    if (status == TRI_OK) {
        set_codecs(study, plan, codecs);
        set_slowness(study, slowness, book.workers);
        status = run_plan(study, plan, codecs, slowness, mem, result, err);
    }
    plan_free(plan);
    mem_free(mem, forced);
    mem_free(mem, codecs);
    mem_free(mem, slowness);
    return status;
}

void study_free(struct study_result *result, const struct mem *mem)
{
    timed_free(&result->timed, mem);
}
