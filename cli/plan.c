/* trident plan: how each layer should be synchronised, what that costs, and why. */
#include "cli/plan.h"

#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/models.h"

/* Without a measurement in the profile: a CPU node. */
static const double default_flops_s = 1e11;

struct plan_settings {
    const char *model;
    uint64_t workers, servers, batch;
    const char *colocate;
    double bandwidth, latency, message_cost, flops;
    unsigned rule, reproducible;
    const char *schemes, *scheme, *placement, *chunk, *grid;
    uint64_t server_memory;
    bool compare, json;
    const char *explain;
};

static const char *const rules[] = {"bytes", "time", NULL};
static const char *const switches[] = {"off", "on", NULL};

/* ---- lists of names ---- */

static const char *scheme_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return scheme_at(i) != NULL ? scheme_at(i)->name : NULL;
}

/* For --scheme, which also takes auto. */
static const char *scheme_or_auto(const void *ctx, size_t i)
{
    return i == 0 ? "auto" : scheme_candidate(ctx, i - 1);
}

static const char *placement_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return placement_at(i) != NULL ? placement_at(i)->name : NULL;
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

/* Copies the next part of a list "a,b,c" and moves past it; false when it is empty or too long. */
static bool next_part(const char **list, char part[64])
{
    size_t len = strcspn(*list, ",");
    if (len == 0 || len >= 64)
        return false;
    memcpy(part, *list, len);
    part[len] = '\0';
    *list += len;
    if (**list == ',') {
        ++*list;
        return **list != '\0';
    }
    return true;
}

static tri_status bad_list(const char *option, const char *text, const char *example,
                           tri_error *err)
{
    fail(err, TRI_EINPUT, "option '--%s' cannot be '%.60s'", option, text);
    fail_next(err, "%s", example);
    return TRI_EINPUT;
}

/* ---- from settings to the book ---- */

static tri_status set_schemes(const struct plan_settings *settings, struct book *book,
                              tri_error *err)
{
    const char *list = settings->schemes;
    bool all = names_equal(list, "all");
    if (all || names_equal(list, "runs")) {
        for (size_t i = 0; scheme_at(i) != NULL; i++)
            if ((all || scheme_at(i)->runs) && (book->rule == PLAN_TIME || scheme_at(i)->by_bytes))
                book->schemes |= UINT32_C(1) << i;
        return TRI_OK;
    }
    while (*list != '\0') {
        char name[64];
        size_t i = 0;
        if (!next_part(&list, name))
            return bad_list("schemes", settings->schemes,
                            "give runs, all, or names separated by commas: ps,sfb", err);
        const tri_scheme_ops *ops = scheme_find(name, &i);
        if (ops == NULL)
            return unknown("schemes", name, scheme_candidate, err);
        if (book->rule == PLAN_BYTES && !ops->by_bytes) {
            fail(err, TRI_EINPUT, "rule 'bytes' cannot weigh scheme '%s'", name);
            fail_why(err, "it is Poseidon's Algorithm 1, which knows ps and sfb only");
            fail_next(err, "use --rule time, or --schemes ps,sfb");
            return TRI_EINPUT;
        }
        book->schemes |= UINT32_C(1) << i;
    }
    if (book->schemes == 0)
        return bad_list("schemes", "", "give runs, all, or names separated by commas", err);
    return TRI_OK;
}

static tri_status set_parts(const struct plan_settings *settings, struct book *book, tri_error *err)
{
    tri_status status = set_schemes(settings, book, err);
    if (status != TRI_OK)
        return status;
    if (!names_equal(settings->scheme, "auto")) {
        size_t i;
        book->forced = scheme_find(settings->scheme, &i);
        if (book->forced == NULL)
            return unknown("scheme", settings->scheme, scheme_or_auto, err);
    }
    book->placement = placement_find(settings->placement);
    if (book->placement == NULL)
        return unknown("placement", settings->placement, placement_candidate, err);
    return TRI_OK;
}

static tri_status set_sizes(const struct plan_settings *settings, struct book *book, tri_error *err)
{
    if (!names_equal(settings->chunk, "auto") &&
        (!units_size(settings->chunk, &book->chunk_bytes) || book->chunk_bytes < 1024 ||
         book->chunk_bytes > (uint64_t)1 << 30 || book->chunk_bytes % 4 != 0))
        return bad_list("chunk", settings->chunk,
                        "give auto or a size from 1KiB to 1GiB in whole floats, such as 2MB", err);
    if (settings->grid == NULL)
        return TRI_OK;
    char rows[64];
    size_t len = strcspn(settings->grid, "x");
    uint64_t r = 0, c = 0;
    if (len == 0 || len >= sizeof rows || settings->grid[len] == '\0')
        return bad_list("grid", settings->grid, "give ROWSxCOLUMNS, such as 4x2", err);
    memcpy(rows, settings->grid, len);
    rows[len] = '\0';
    if (!units_count(rows, &r) || !units_count(settings->grid + len + 1, &c) || r == 0 || c == 0 ||
        r > BOOK_MAX_NODES || c > BOOK_MAX_NODES)
        return bad_list("grid", settings->grid, "give ROWSxCOLUMNS, such as 4x2", err);
    book->grid_rows = (uint32_t)r;
    book->grid_cols = (uint32_t)c;
    return TRI_OK;
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Reads "0,2,5" into home (room for BOOK_MAX_NODES bits in seen); counts it. */
static tri_status read_homes(const char *list, struct book *book, uint32_t *home, uint32_t *count,
                             tri_error *err)
{
    const char *whole = list;
    uint8_t seen[BOOK_MAX_NODES / 8] = {0};
    while (*list != '\0') {
        char part[64];
        uint64_t node = 0;
        if (!next_part(&list, part) || !units_count(part, &node))
            return bad_list("colocate", whole,
                            "give yes, no, or worker nodes counted from 0: 0,2,5", err);
        if (node >= book->workers) {
            fail(err, TRI_EINPUT, "option '--colocate' names node %.20s, but there are %u workers",
                 part, (unsigned)book->workers);
            fail_next(err, "name nodes from 0 to %u", (unsigned)book->workers - 1);
            return TRI_EINPUT;
        }
        if (seen[node / 8] >> (node % 8) & 1) {
            fail(err, TRI_EINPUT, "option '--colocate' names node %u twice", (unsigned)node);
            fail_next(err, "name each node once; one server runs on each");
            return TRI_EINPUT;
        }
        seen[node / 8] |= (uint8_t)(1u << (node % 8));
        home[(*count)++] = (uint32_t)node;
    }
    return TRI_OK;
}

/* Servers and where they run. home has room for as many as there are workers. */
static tri_status set_nodes(const struct plan_settings *settings, struct book *book, uint32_t *home,
                            tri_error *err)
{
    book->workers = (uint32_t)settings->workers;
    book->servers_follow = settings->servers == 0;
    book->servers = book->servers_follow ? book->workers : (uint32_t)settings->servers;
    if (names_equal(settings->colocate, "no"))
        return TRI_OK;
    if (names_equal(settings->colocate, "yes")) {
        book->colocated = lesser(book->workers, book->servers);
        return TRI_OK;
    }
    tri_status status = read_homes(settings->colocate, book, home, &book->colocated, err);
    if (status != TRI_OK)
        return status;
    if (book->colocated == 0)
        return bad_list("colocate", "", "give yes, no, or worker nodes counted from 0: 0,2,5", err);
    book->home = home;
    if (book->servers_follow) { /* one on each of these nodes, however many there are besides */
        book->servers = book->colocated;
        book->servers_follow = false;
    }
    if (book->colocated > book->servers) {
        fail(err, TRI_EINPUT, "option '--colocate' names %u nodes for %u servers",
             (unsigned)book->colocated, (unsigned)book->servers);
        fail_next(err, "name at most %u nodes, or raise --servers", (unsigned)book->servers);
        return TRI_EINPUT;
    }
    return TRI_OK;
}

static tri_status set_model(const struct plan_settings *settings, const struct profile *profile,
                            struct book *book, tri_error *err)
{
    book->profile = profile;
    book->batch = settings->batch > 0 ? settings->batch : profile->default_batch;
    if (book->batch == 0) {
        fail(err, TRI_EINPUT, "option '--batch' is missing");
        fail_why(err, "profile '%.60s' has no default_batch", profile->name);
        fail_next(err, "add --batch K, samples per worker");
        return TRI_EINPUT;
    }
    book->flops_s = settings->flops;
    if (book->flops_s == 0)
        book->flops_s = profile->flops_s > 0 ? profile->flops_s : default_flops_s;
    return TRI_OK;
}

static tri_status set_book(const struct plan_settings *settings, const struct profile *profile,
                           struct book *book, uint32_t *home, tri_error *err)
{
    *book = (struct book){
        .bits_s = settings->bandwidth,
        .latency_s = settings->latency,
        .message_s = settings->message_cost,
        .rule = settings->rule == 0 ? PLAN_BYTES : PLAN_TIME,
        .server_bytes = settings->server_memory,
        .reproducible = settings->reproducible == 1,
    };
    tri_status status = set_nodes(settings, book, home, err);
    if (status == TRI_OK)
        status = set_parts(settings, book, err);
    if (status == TRI_OK)
        status = set_sizes(settings, book, err);
    return status == TRI_OK ? set_model(settings, profile, book, err) : status;
}

/* ---- showing it ---- */

static const char *layer_candidate(const void *ctx, size_t i)
{
    const struct plan *plan = ctx;
    return i < plan->count ? plan->layers[i].profile->name : NULL;
}

static tri_status no_layer(const struct plan *plan, const char *name, tri_error *err)
{
    char next[NAMES_TEXT];
    const struct profile_layer *bare = profile_layer(plan->book->profile, name);
    fail(err, TRI_EINPUT, "model '%.40s' has no layer '%.60s' to explain",
         plan->book->profile->name, name);
    if (bare != NULL)
        fail_why(err, "'%.60s' has no parameters of its own, so there is nothing to synchronise",
                 bare->name);
    names_advise(name, layer_candidate, plan, next);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

static tri_status show(const struct plan_settings *settings, const struct plan *plan,
                       struct buf *out, tri_error *err)
{
    const struct plan_layer *layer = NULL;
    if (settings->explain != NULL) {
        for (size_t i = 0; i < plan->count && layer == NULL; i++)
            if (names_equal(plan->layers[i].profile->name, settings->explain))
                layer = &plan->layers[i];
        if (layer == NULL)
            return no_layer(plan, settings->explain, err);
    }
    if (settings->json)
        plan_json(plan, out);
    else if (layer != NULL)
        plan_explain(plan, layer, out);
    else if (settings->compare)
        plan_compare(plan, out);
    else
        plan_table(plan, out);
    return TRI_OK;
}

static tri_status plan_run(struct cli *cli, const void *settings_,
                           const struct arguments *arguments, struct buf *out, tri_error *err)
{
    (void)arguments;
    const struct plan_settings *settings = settings_;
    struct profile *profile;
    tri_status status = models_load(cli, settings->model, &profile, err);
    if (status != TRI_OK)
        return status;
    struct book book;
    struct plan *plan = NULL;
    uint32_t *home = mem_array(cli->mem, (size_t)settings->workers, sizeof *home);
    if (home == NULL)
        status = fail_nomem(err, "a list of nodes");
    else
        status = set_book(settings, profile, &book, home, err);
    if (status == TRI_OK)
        status = plan_make(&book, cli->mem, &plan, err);
    if (status == TRI_OK)
        status = show(settings, plan, out, err);
    plan_free(plan);
    mem_free(cli->mem, home);
    profile_free(profile);
    return status;
}

/* ---- the command ---- */

#define FIELD(name) .offset = offsetof(struct plan_settings, name)

static const struct option_row plan_options[] = {
    {.name = "model",
     .value = "NAME|FILE",
     .required = true,
     .type = OPTION_TEXT,
     FIELD(model),
     .help = "a name that trident models lists, or a layer profile in JSON"},
    {.name = "workers",
     .value = "P",
     .required = true,
     .type = OPTION_COUNT,
     .min = 1,
     .max = BOOK_MAX_NODES,
     FIELD(workers),
     .help = "number of workers"},
    {.name = "servers",
     .value = "Q",
     .otherwise = "as many as workers",
     .type = OPTION_COUNT,
     .min = 1,
     .max = BOOK_MAX_NODES,
     FIELD(servers),
     .help = "number of parameter servers"},
    {.name = "colocate",
     .value = "yes|no|LIST",
     .fallback = "yes",
     .type = OPTION_TEXT,
     FIELD(colocate),
     .help = "servers on the workers' nodes, on nodes of their own, or on these worker nodes "
             "(counted from 0)"},
    {.name = "batch",
     .value = "K",
     .otherwise = "the profile's",
     .type = OPTION_COUNT,
     .min = 1,
     .max = 16777216,
     FIELD(batch),
     .help = "samples per worker and iteration"},
    {.name = "bandwidth",
     .value = "R",
     .fallback = "10Gbit",
     .type = OPTION_RATE,
     .min = 1e3,
     .max = 1e15,
     FIELD(bandwidth),
     .help = "rate of a node's link, each way"},
    {.name = "latency",
     .value = "T",
     .fallback = "50us",
     .type = OPTION_TIME,
     .max = 60,
     FIELD(latency),
     .help = "one way, between two nodes"},
    {.name = "message-cost",
     .value = "T",
     .fallback = "5us",
     .type = OPTION_TIME,
     .max = 60,
     FIELD(message_cost),
     .help = "time a node spends on a message beside moving its bytes"},
    {.name = "flops",
     .value = "F",
     .otherwise = "the profile's, else 100G",
     .type = OPTION_FLOPS,
     .min = PROFILE_MIN_FLOPS_S,
     .max = PROFILE_MAX_FLOPS_S,
     FIELD(flops),
     .help = "sustained rate of matrix products on a node"},
    {.name = "rule",
     .value = "bytes|time",
     .fallback = "time",
     .type = OPTION_CHOICE,
     .choices = rules,
     FIELD(rule),
     .help = "how to choose: fewest floats moved, or least time"},
    {.name = "schemes",
     .value = "runs|all|LIST",
     .fallback = "runs",
     .type = OPTION_TEXT,
     FIELD(schemes),
     .help = "schemes to choose among: those that run, all, or these"},
    {.name = "scheme",
     .value = "auto|NAME",
     .fallback = "auto",
     .type = OPTION_TEXT,
     FIELD(scheme),
     .help = "take this one for every layer"},
    {.name = "placement",
     .value = "NAME",
     .fallback = "hash",
     .type = OPTION_TEXT,
     FIELD(placement),
     .help = "how parameters are dealt out to the servers"},
    {.name = "chunk",
     .value = "auto|SIZE",
     .fallback = "auto",
     .type = OPTION_TEXT,
     FIELD(chunk),
     .help = "the most that one message carries; auto follows from latency x rate"},
    {.name = "grid",
     .value = "RxC",
     .otherwise = "the best",
     .type = OPTION_TEXT,
     FIELD(grid),
     .help = "rows and columns of owners for shard-sf"},
    {.name = "reproducible",
     .value = "on|off",
     .fallback = "on",
     .type = OPTION_CHOICE,
     .choices = switches,
     FIELD(reproducible),
     .help = "servers sum in rank order (on) or on arrival (off, less memory)"},
    {.name = "server-memory",
     .value = "SIZE",
     .otherwise = "no limit",
     .type = OPTION_SIZE,
     .min = 1,
     .max = 1e15,
     FIELD(server_memory),
     .help = "room for landing buffers on a server"},
    {.name = "compare", .type = OPTION_FLAG, FIELD(compare), .help = "all schemes side by side"},
    {.name = "explain",
     .value = "LAYER",
     .type = OPTION_TEXT,
     FIELD(explain),
     .help = "the formulas of one layer with the numbers put in"},
    {.name = "json",
     .type = OPTION_FLAG,
     FIELD(json),
     .help = "one JSON document with the costs of every scheme"},
    {.name = NULL},
};

extern const struct command command_plan;
const struct command command_plan = {
    .name = "plan",
    .summary = "how each layer should be synchronised, what that costs, and why",
    .arguments = "",
    .options = plan_options,
    .settings_bytes = sizeof(struct plan_settings),
    .run = plan_run,
    .about =
        "For every layer with parameters, prints the scheme that would carry its updates, the "
        "bytes that the busiest node moves in its busier direction, and the time that takes on an "
        "idle, full-duplex link. A layer's row takes its parameters as spread evenly over the "
        "servers; where the placement is uneven, the sums below say so and count what the busiest "
        "node really moves.\n\nRule bytes is Poseidon's Algorithm 1: sfb where it moves no "
        "more floats than ps. Rule time weighs latency, bytes, repeated products and messages. "
        "trident modules lists schemes and placements.\n\nSizes are written 2MB or 64KiB, rates "
        "10Gbit or 1.25GB/s, times 50us, flops 100G or 6T. In names '-' and '_' are the same.",
    .examples = "trident plan --model vgg19 --workers 8\n"
                "trident plan --model vgg19 --workers 16 --bandwidth 1Gbit --compare\n"
                "trident plan --model vgg19 --workers 16 --explain fc6\n"
                "trident plan --model ./mine.json --workers 4 --batch 64 --json",
};
