/* The options of trident simulate, and which of them do not go together. */
#include <stdio.h>
#include <string.h>

#include "cli/simulate.h"

static const char *const colocations[] = {"yes", "no", NULL};
static const char *const duplexes[] = {"full", "shared", NULL};
static const char *const pictures[] = {
    [SWEEP_SPEEDUP] = "speedup", [SWEEP_TRAFFIC] = "traffic", NULL};

#define FIELD(name) .offset = offsetof(struct simulate_settings, name)

const struct option_row simulate_options[] = {
    {.name = "model",
     .value = "NAME|FILE",
     .type = OPTION_TEXT,
     FIELD(model),
     .help = "a name that trident models lists, or a layer profile in JSON (required, unless "
             "--claims is given)"},
    {.name = "nodes",
     .value = "LIST",
     .fallback = "1,2,4,8,16,32",
     .type = OPTION_TEXT,
     FIELD(nodes),
     .help = "numbers of workers: 1,2,4 or 1-8"},
    {.name = "bandwidth",
     .value = "R,...",
     .fallback = "10Gbit",
     .type = OPTION_TEXT,
     FIELD(bandwidth),
     .help = "rate of a node's link, or several"},
    {.name = "system",
     .value = "LIST",
     .fallback = "ps,wfbp,poseidon,trident",
     .type = OPTION_TEXT,
     FIELD(system),
     .help = "how the workers synchronise: all, or among single, ps, wfbp, poseidon, adam, "
             "tensor-ps, onebit, trident; with parts of its own: wfbp+lpt+ssp:5+topk:0.01"},
    {.name = "rule",
     .value = "LIST",
     .fallback = "own",
     .type = OPTION_TEXT,
     FIELD(rule),
     .help = "by what poseidon and trident choose: own (bytes and time, in this order), bytes or "
             "time"},
    {.name = "servers",
     .value = "Q",
     .otherwise = "as many as workers",
     .type = OPTION_COUNT,
     .min = 1,
     .max = BOOK_MAX_NODES,
     FIELD(servers),
     .help = "number of parameter servers"},
    {.name = "colocate",
     .value = "yes|no",
     .fallback = "yes",
     .type = OPTION_CHOICE,
     .choices = colocations,
     FIELD(colocate),
     .help = "servers on the workers' nodes, or on nodes of their own"},
    {.name = "batch",
     .value = "K",
     .otherwise = "the profile's",
     .type = OPTION_COUNT,
     .min = 1,
     .max = 16777216,
     FIELD(batch),
     .help = "samples per worker and iteration"},
    {.name = "duplex",
     .value = "full|shared",
     .fallback = "full",
     .type = OPTION_CHOICE,
     .choices = duplexes,
     FIELD(duplex),
     .help = "the rate holds each way, or for both ways together"},
    {.name = "efficiency",
     .value = "X",
     .fallback = "1",
     .type = OPTION_TEXT,
     FIELD(efficiency),
     .help = "share of the rate that is usable, from 0.000001 to 1"},
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
    {.name = "copy-rate",
     .value = "R",
     .otherwise = "copies take no time",
     .type = OPTION_RATE,
     .min = 1e3,
     .max = 1e15,
     FIELD(copy_rate),
     .help = "at which ps and tensor-ps copy all parameters in and out, such as 6GB/s"},
    {.name = "memory-rate",
     .value = "R",
     .fallback = "10GB/s",
     .type = OPTION_RATE,
     .min = 1e3,
     .max = 1e15,
     FIELD(memory_rate),
     .help = "of sums and steps on servers"},
    {.name = "codec-rate",
     .value = "R",
     .fallback = "2GB/s",
     .type = OPTION_RATE,
     .min = 1e3,
     .max = 1e15,
     FIELD(codec_rate),
     .help = "of values packed and unpacked on each side, with a codec or system onebit"},
    {.name = "flops",
     .value = "F",
     .otherwise = "the profile's",
     .type = OPTION_FLOPS,
     .min = PROFILE_MIN_FLOPS_S,
     .max = PROFILE_MAX_FLOPS_S,
     FIELD(flops),
     .help = "sustained rate of matrix products on a node"},
    {.name = "jitter",
     .value = "X",
     .fallback = "0",
     .type = OPTION_TEXT,
     FIELD(jitter),
     .help = "share by which compute times vary, up and down, below 1"},
    {.name = "slow",
     .value = "N:X",
     .otherwise = "all alike",
     .type = OPTION_TEXT,
     FIELD(slow),
     .help = "the first N workers (all, where there are fewer) are X times as slow"},
    {.name = "consistency",
     .value = "LIST",
     .fallback = "bsp",
     .type = OPTION_TEXT,
     FIELD(consistency),
     .help = "how far workers may drift apart: bsp, ssp:N or asp"},
    {.name = "codec",
     .value = "LIST",
     .fallback = "none",
     .type = OPTION_TEXT,
     FIELD(codec),
     .help = "what dense updates and results become: none, topk:SHARE (2 x SHARE of the bytes) "
             "or onebit (1/32)"},
    {.name = "placement",
     .value = "LIST",
     .fallback = "hash",
     .type = OPTION_TEXT,
     FIELD(placement),
     .help = "how parameters are dealt out to the servers"},
    {.name = "chunk",
     .value = "auto|SIZE",
     .fallback = "auto",
     .type = OPTION_TEXT,
     FIELD(chunk),
     .help = "the most that one message carries; auto: as trident plan finds for the link"},
    {.name = "iterations",
     .value = "N",
     .otherwise = "5; 20 with --jitter, --slow, ssp or asp",
     .type = OPTION_COUNT,
     .min = 2,
     .max = 100000,
     FIELD(iterations),
     .help = "how many are simulated; the first is not counted"},
    {.name = "seed",
     .value = "S",
     .fallback = "1",
     .type = OPTION_COUNT,
     .max = 9007199254740991.0, /* what JSON readers keep apart */
     FIELD(seed),
     .help = "of the jitter"},
    {.name = "plot",
     .value = "FILE.svg",
     .type = OPTION_TEXT,
     FIELD(plot),
     .help = "also draw the speed-ups there: over nodes, over bandwidths for one number of nodes, "
             "or as bars for one case; hollow markers are a paper's numbers"},
    {.name = "plot-of",
     .value = "speedup|traffic",
     .fallback = "speedup",
     .type = OPTION_CHOICE,
     .choices = pictures,
     FIELD(plot_of),
     .help = "what to draw; traffic: bytes in and out of each node in the largest case"},
    {.name = "claims",
     .type = OPTION_FLAG,
     FIELD(claims),
     .help = "the papers' numbers beside ours, instead of a model of yours"},
    {.name = "json",
     .type = OPTION_FLAG,
     FIELD(json),
     .help = "one JSON document instead of tables"},
    {.name = NULL},
};

/* ---- options that do not go together ---- */

static bool same_value(const struct option_row *row, const void *a, const void *b)
{
    const char *x = (const char *)a + row->offset, *y = (const char *)b + row->offset;
    switch (row->type) {
    case OPTION_FLAG:
        return *(const bool *)(const void *)x == *(const bool *)(const void *)y;
    case OPTION_TEXT: {
        const char *s = *(const char *const *)(const void *)x;
        const char *t = *(const char *const *)(const void *)y;
        return s == t || (s != NULL && t != NULL && strcmp(s, t) == 0);
    }
    case OPTION_COUNT:
    case OPTION_SIZE:
        return *(const uint64_t *)(const void *)x == *(const uint64_t *)(const void *)y;
    case OPTION_RATE:
    case OPTION_TIME:
    case OPTION_FLOPS:
        return *(const double *)(const void *)x == *(const double *)(const void *)y;
    case OPTION_CHOICE:
        return *(const unsigned *)(const void *)x == *(const unsigned *)(const void *)y;
    }
    return true;
}

/* The claims have settings of their own: whatever else is given would be looked at by nobody. */
static tri_status check_claims(const struct simulate_settings *settings, tri_error *err)
{
    struct simulate_settings allowed = {0};
    struct arguments none;
    tri_status status = options_parse(simulate_options, 0, 0, NULL, &allowed, &none, err);
    allowed.claims = true;
    allowed.json = settings->json;
    for (const struct option_row *row = simulate_options; status == TRI_OK && row->name != NULL;
         row++)
        if (!same_value(row, settings, &allowed)) {
            status = fail(err, TRI_EINPUT, "options '--claims' and '--%s' cannot stand together",
                          row->name);
            fail_why(err, "the papers' claims come with models and settings of their own");
            fail_next(err, "leave out one of the two");
        }
    return status;
}

tri_status simulate_check(const struct simulate_settings *settings, tri_error *err)
{
    if (settings->claims)
        return check_claims(settings, err);
    if (settings->model == NULL) {
        fail(err, TRI_EINPUT, "option '--model' is missing");
        fail_why(err, "a name that trident models lists, or a layer profile in JSON");
        fail_next(err, "add --model NAME|FILE");
        return TRI_EINPUT;
    }
    if (settings->plot == NULL && settings->plot_of != SWEEP_SPEEDUP) {
        fail(err, TRI_EINPUT, "option '--plot-of' needs '--plot'");
        fail_next(err, "add --plot FILE.svg, or leave out --plot-of");
        return TRI_EINPUT;
    }
    return TRI_OK;
}

/* Viewers go by the name. */
void simulate_warn(const char *path, FILE *err)
{
    size_t len = path != NULL ? strlen(path) : 0;
    if (path != NULL && (len < 4 || strcmp(path + len - 4, ".svg") != 0))
        fprintf(err,
                "trident simulate: warning: the plot is SVG, but '%s' does not end in "
                ".svg\n",
                path);
}
