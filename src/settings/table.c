/* The rows of the table, and finding them. */
#include "settings/table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "mod/consistency.h"
#include "mod/optim.h"
#include "mod/placement.h"
#include "mod/scheme.h"

/* ---- names of parts ---- */

static tri_status check_optimizer(const char *text, tri_error *err)
{
    struct optim optim;
    return optim_read(text, &optim, err);
}

static tri_status check_consistency(const char *text, tri_error *err)
{
    const tri_consistency_ops *ops;
    uint32_t bound;
    return consistency_read(text, &ops, &bound, err);
}

static tri_status no_such(const char *slot, const char *text, names_candidate *candidate,
                          tri_error *err)
{
    char next[NAMES_TEXT];
    fail(err, TRI_EINPUT, "there is no %s '%.60s'", slot, text);
    names_advise(text, candidate, NULL, next);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

static const char *placement_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return placement_at(i) != NULL ? placement_at(i)->name : NULL;
}

static tri_status check_placement(const char *text, tri_error *err)
{
    return placement_find(text) != NULL ? TRI_OK
                                        : no_such("placement", text, placement_candidate, err);
}

/* "auto", and the schemes that a job can run. */
static const char *scheme_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    if (i == 0)
        return "auto";
    for (size_t at = 0; scheme_at(at) != NULL; at++)
        if (scheme_at(at)->runs && --i == 0)
            return scheme_at(at)->name;
    return NULL;
}

static tri_status check_scheme(const char *text, tri_error *err)
{
    size_t index;
    const tri_scheme_ops *scheme = scheme_find(text, &index);
    if (names_equal(text, "auto") || (scheme != NULL && scheme->runs))
        return TRI_OK;
    if (scheme == NULL)
        return no_such("scheme", text, scheme_candidate, err);
    char next[NAMES_TEXT];
    fail(err, TRI_EINPUT, "scheme '%s' cannot run a job", scheme->name);
    fail_why(err, "it can be planned, with trident plan, and is not built yet");
    names_advise("", scheme_candidate, NULL, next);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

static const char *transport_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return transport_at(i) != NULL ? transport_at(i)->name : NULL;
}

static tri_status check_transport(const char *text, tri_error *err)
{
    return transport_find(text) != NULL ? TRI_OK
                                        : no_such("transport", text, transport_candidate, err);
}

/* ---- the table ---- */

static const char *const failure_choices[] = {"continue", "stop", NULL};
static const char *const mode_choices[] = {"network", "local", NULL};
static const char *const local_choices[] = {"server",   "direct", "sync",
                                            "replicas", "auto",   NULL}; /* as enum local_mode */
static const char *const apart_choices[] = {"inside", "apart", NULL};
static const char *const log_choices[] = {"off", "error", "warn", "info", "debug", "trace", NULL};

#define PLACE(field) .offset = offsetof(struct settings, field)

static const struct setting table[] = {
    {.group = "job",
     .name = "job",
     .variable = "TRIDENT_JOB",
     .kind = SETTING_TEXT,
     PLACE(job),
     .fallback = "trident",
     .help = "its name; processes of a job of another name are turned away"},
    {.group = "job",
     .name = "mode",
     .variable = "TRIDENT_MODE",
     .kind = SETTING_CHOICE,
     PLACE(asked.mode),
     .choices = mode_choices,
     .fallback = "network",
     .help = "processes anywhere, or those of one machine around shared memory (local)"},
    {.group = "job",
     .name = "workers",
     .variable = "TRIDENT_WORKERS",
     .kind = SETTING_COUNT,
     PLACE(asked.workers),
     .min = 1,
     .max = BOOK_MAX_NODES,
     .otherwise = "the launcher's, else 1",
     .help = "how many processes train"},
    {.group = "job",
     .name = "rank",
     .variable = "TRIDENT_RANK",
     .kind = SETTING_COUNT,
     PLACE(asked.rank),
     .min = 0,
     .max = BOOK_MAX_NODES - 1,
     .process = true,
     .otherwise = "the launcher's, else 0",
     .help = "which of them this process is"},
    {.group = "job",
     .name = "node",
     .variable = "TRIDENT_NODE",
     .kind = SETTING_COUNT,
     PLACE(asked.node),
     .min = 0,
     .max = (uint64_t)2 * BOOK_MAX_NODES,
     .process = true,
     .otherwise = "none",
     .help = "number of a server in a process of its own, the first is number `workers`"},
    {.group = "job",
     .name = "coordinator",
     .variable = "TRIDENT_COORDINATOR",
     .kind = SETTING_ADDRESS,
     PLACE(asked.coordinator),
     .otherwise = "the launcher's",
     .help = "where rank 0 listens and all others find it"},
    {.group = "job",
     .name = "port",
     .variable = "TRIDENT_PORT",
     .kind = SETTING_COUNT,
     PLACE(asked.port),
     .min = 1,
     .max = 65535,
     .otherwise = "`MASTER_PORT` + 1",
     .help = "port of rank 0 at `MASTER_ADDR`, where no coordinator is given"},
    {.group = "job",
     .name = "token",
     .variable = "TRIDENT_TOKEN",
     .kind = SETTING_TEXT,
     PLACE(token),
     .secret = true,
     .otherwise = "the launcher's, else none",
     .help = "secret that proves membership; without one only loopback is used"},
    {.group = "job",
     .name = "servers",
     .variable = "TRIDENT_SERVERS",
     .kind = SETTING_COUNT,
     PLACE(asked.servers),
     .min = 1,
     .max = BOOK_MAX_NODES,
     .otherwise = "one per worker",
     .help = "how many parameter servers"},
    {.group = "job",
     .name = "colocate",
     .variable = "TRIDENT_COLOCATE",
     .kind = SETTING_FLAG,
     PLACE(asked.together),
     .fallback = "on",
     .help = "servers inside the workers' processes (on), or in their own (off)"},
    {.group = "job",
     .name = "timeout_ms",
     .variable = "TRIDENT_TIMEOUT_MS",
     .kind = SETTING_COUNT,
     PLACE(timeout_ms),
     .min = 1,
     .max = 1u << 30,
     .fallback = "30000",
     .help = "of every wait"},
    {.group = "job",
     .name = "heartbeat_ms",
     .variable = "TRIDENT_HEARTBEAT_MS",
     .kind = SETTING_COUNT,
     PLACE(heartbeat_ms),
     .min = 10,
     .max = 600000,
     .fallback = "1000",
     .help = "who is silent for three of them is given up"},
    {.group = "job",
     .name = "on_failure",
     .variable = "TRIDENT_ON_FAILURE",
     .kind = SETTING_CHOICE,
     PLACE(asked.on_failure),
     .choices = failure_choices,
     .fallback = "continue",
     .help = "when a worker is lost: go on without it, or end the job"},

    {.group = "network",
     .name = "listen",
     .variable = "TRIDENT_LISTEN",
     .kind = SETTING_ADDRESS,
     PLACE(listen),
     .otherwise = "any port",
     .help = "where a process other than rank 0 listens"},
    {.group = "network",
     .name = "interface",
     .variable = "TRIDENT_INTERFACE",
     .kind = SETTING_TEXT,
     PLACE(asked.interface),
     .otherwise = "all of them",
     .help = "or at which of this machine's addresses: interfaces, networks, exclusions"},
    {.group = "network",
     .name = "transport",
     .variable = "TRIDENT_TRANSPORT",
     .kind = SETTING_PART,
     PLACE(transport),
     .check = check_transport,
     .fallback = "tcp",
     .help = "as in trident modules transport; `trace:tcp` puts one around another"},
    {.group = "network",
     .name = "sockets",
     .variable = "TRIDENT_SOCKETS",
     .kind = SETTING_COUNT,
     PLACE(sockets),
     .min = 1,
     .max = 16,
     .fallback = "1",
     .help = "between two processes, for chunks"},
    {.group = "network",
     .name = "fault",
     .variable = "TRIDENT_FAULT",
     .kind = SETTING_TEXT,
     PLACE(asked.fault),
     .process = true,
     .otherwise = "nothing",
     .help = "what the transport `fault` does wrong on purpose"},

    {.group = "local",
     .name = "local",
     .variable = "TRIDENT_LOCAL",
     .kind = SETTING_CHOICE,
     PLACE(asked.local),
     .choices = local_choices,
     .fallback = "server",
     .help =
         "who steps parameters: a server; each learner the shared ones (direct) or a copy of its "
         "own (replicas); all in rounds (sync); auto: direct with sgd, else a server, as trident "
         "train has it where nothing is said"},
    {.group = "local",
     .name = "locked",
     .variable = "TRIDENT_LOCKED",
     .kind = SETTING_FLAG,
     PLACE(locked),
     .fallback = "off",
     .help = "shared parameters are not read while they are stepped"},
    {.group = "local",
     .name = "local_copies",
     .variable = "TRIDENT_LOCAL_COPIES",
     .kind = SETTING_FLAG,
     PLACE(local_copies),
     .fallback = "off",
     .help = "learners have gradients and parameters of their own, which two threads move"},
    {.group = "local",
     .name = "local_common",
     .variable = "TRIDENT_LOCAL_COMMON",
     .kind = SETTING_COUNT,
     PLACE(local_common),
     .min = 0,
     .max = UINT32_MAX,
     .fallback = "1048576",
     .help = "replicas: fully connected layers of so many weights or more lie there once for all "
             "learners, not once for each, if a program can read them so; 0: none do"},
    {.group = "local",
     .name = "local_server",
     .variable = "TRIDENT_LOCAL_SERVER",
     .kind = SETTING_CHOICE,
     PLACE(asked.local_server),
     .choices = apart_choices,
     .process = true,
     .fallback = "inside",
     .help =
         "where the server of a local job is: inside rank 0, or apart, as trident train has it"},
    {.group = "local",
     .name = "local_fault",
     .variable = "TRIDENT_LOCAL_FAULT",
     .kind = SETTING_TEXT,
     PLACE(local_fault),
     .process = true,
     .otherwise = "nothing",
     .help = "where a process of a local job dies on purpose, for tests: `1:marked:3`"},

    {.group = "training",
     .name = "optimizer",
     .variable = "TRIDENT_OPTIMIZER",
     .kind = SETTING_PART,
     PLACE(agree.optimizer),
     .check = check_optimizer,
     .fallback = "sgd",
     .help = "how parameters step, as in trident modules optimizer"},
    {.group = "training",
     .name = "consistency",
     .variable = "TRIDENT_CONSISTENCY",
     .kind = SETTING_PART,
     PLACE(agree.consistency),
     .check = check_consistency,
     .fallback = "bsp",
     .help = "when a worker may go on: `bsp`, `ssp:N`, `asp`"},
    {.group = "training",
     .name = "reproducible",
     .variable = "TRIDENT_REPRODUCIBLE",
     .kind = SETTING_FLAG,
     PLACE(agree.reproducible),
     .fallback = "on",
     .help = "sums in rank order (on), or as they come (off)"},
    {.group = "training",
     .name = "checksum_every",
     .variable = "TRIDENT_CHECKSUM_EVERY",
     .kind = SETTING_COUNT,
     PLACE(checksum_every),
     .min = 0,
     .max = UINT32_MAX,
     .fallback = "0",
     .help = "compare the replicas every so many clocks; 0: never"},
    {.group = "training",
     .name = "threads",
     .variable = "TRIDENT_THREADS",
     .kind = SETTING_COUNT,
     PLACE(helpers),
     .min = 0,
     .max = 256,
     .otherwise = "cores per process here, less one",
     .help = "helpers for operations"},

    {.group = "plan",
     .name = "scheme",
     .variable = "TRIDENT_SCHEME",
     .kind = SETTING_PART,
     PLACE(asked.scheme),
     .check = check_scheme,
     .fallback = "auto",
     .help = "one scheme for all layers, or the planner's choice (auto)"},
    {.group = "plan",
     .name = "placement",
     .variable = "TRIDENT_PLACEMENT",
     .kind = SETTING_PART,
     PLACE(agree.placement),
     .check = check_placement,
     .fallback = "hash",
     .help = "which server owns what, as in trident modules placement"},
    {.group = "plan",
     .name = "bandwidth",
     .variable = "TRIDENT_BANDWIDTH",
     .kind = SETTING_RATE,
     PLACE(agree.bits_s),
     .fallback = "10Gbit",
     .help = "of a node's link, as the planner takes it"},
    {.group = "plan",
     .name = "latency",
     .variable = "TRIDENT_LATENCY",
     .kind = SETTING_TIME,
     PLACE(agree.latency_s),
     .fallback = "50us",
     .help = "of a message, as the planner takes it"},
    {.group = "plan",
     .name = "flops",
     .variable = "TRIDENT_FLOPS",
     .kind = SETTING_FLOPS,
     PLACE(agree.flops_s),
     .fallback = "100G",
     .help = "what a node computes, as the planner takes it"},
    {.group = "plan",
     .name = "chunk",
     .variable = "TRIDENT_CHUNK",
     .kind = SETTING_SIZE,
     PLACE(agree.chunk_bytes),
     .min = 1024,
     .max = (uint64_t)1 << 30,
     .otherwise = "by the link",
     .help = "the most that one message carries"},

    {.group = "checkpoint",
     .name = "checkpoint",
     .variable = "TRIDENT_CHECKPOINT",
     .kind = SETTING_TEXT,
     PLACE(checkpoint),
     .otherwise = "none",
     .help = "folder of rank 0's machine to save the job in"},
    {.group = "checkpoint",
     .name = "checkpoint_every",
     .variable = "TRIDENT_CHECKPOINT_EVERY",
     .kind = SETTING_COUNT,
     PLACE(checkpoint_every),
     .min = 1,
     .max = UINT32_MAX,
     .fallback = "1000",
     .help = "clocks from one to the next"},
    {.group = "checkpoint",
     .name = "checkpoint_keep",
     .variable = "TRIDENT_CHECKPOINT_KEEP",
     .kind = SETTING_COUNT,
     PLACE(checkpoint_keep),
     .min = 1,
     .max = 1000,
     .fallback = "2",
     .help = "how many are kept"},
    {.group = "checkpoint",
     .name = "resume",
     .variable = "TRIDENT_RESUME",
     .kind = SETTING_FLAG,
     PLACE(resume),
     .fallback = "off",
     .help = "go on from the newest whole one there, if there is one"},

    {.group = "log",
     .name = "log",
     .variable = "TRIDENT_LOG",
     .kind = SETTING_CHOICE,
     PLACE(asked.log),
     .choices = log_choices,
     .fallback = "off",
     .help = "lines to stderr, if the program has no log of its own"},
    {.group = "log",
     .name = "trace",
     .variable = "TRIDENT_TRACE",
     .kind = SETTING_TEXT,
     PLACE(trace),
     .otherwise = "none",
     .help = "a file for the events of the process's core; `%r` in it is the node's number"},
    {.group = "log",
     .name = "flight",
     .variable = "TRIDENT_FLIGHT",
     .kind = SETTING_TEXT,
     PLACE(asked.flight),
     .fallback = ".",
     .help = "folder for the last events of a process that fails, or `off`"},
};
_Static_assert(sizeof table / sizeof table[0] <= SETTINGS_MOST, "raise SETTINGS_MOST");

const struct setting *setting_at(size_t i)
{
    return i < sizeof table / sizeof table[0] ? &table[i] : NULL;
}

const struct setting *setting_find(const char *name, size_t *index)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (names_equal(table[i].name, name)) {
            *index = i;
            return &table[i];
        }
    return NULL;
}

size_t setting_of(size_t offset)
{
    size_t i = 0;
    while (table[i].offset != offset)
        i++;
    return i;
}

static const char *setting_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return setting_at(i) != NULL ? table[i].name : NULL;
}

void setting_advise(const char *typed, char out[NAMES_TEXT])
{
    static const char prefix[] = "trident_";
    size_t at = 0;
    while (prefix[at] != '\0' && tolower((unsigned char)typed[at]) == prefix[at])
        at++;
    if (prefix[at] == '\0')
        typed += at; /* a variable, where the file has names */
    char near[NAMES_TEXT];
    if (names_suggest(typed, setting_candidate, NULL, near))
        (void)snprintf(out, NAMES_TEXT, "did you mean %.180s?", near);
    else
        (void)snprintf(out, NAMES_TEXT, "trident config lists all settings");
}

/* ---- strangers ---- */

/* Those of the command, the engine, the benchmarks, the tools and the tests; '*' ends what only
 * has to begin so. */
static const char *const known[] = {
    "ADDRESSES", "BASE",     "CHAOS*", "CONFIG",       "DATA",   "DEATH_*",
    "FAULT_*",   "GOLDEN_*", "JOBS*",  "MODELS",       "NETNS",  "NODES",
    "QUICK",     "SETUP",    "SIM_*",  "TRAIN_WORKER", "WALK_*",
};

static bool is_known(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        size_t want = strcspn(known[i], "*");
        if (strncmp(name, known[i], want) == 0 && (known[i][want] == '*' || len == want))
            return true;
    }
    return false;
}

/* What stands behind TRIDENT_ in a variable. */
static const char *behind_prefix(const char *variable)
{
    return variable + strlen("TRIDENT_");
}

static const char *variable_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return setting_at(i) != NULL ? behind_prefix(table[i].variable) : NULL;
}

static bool is_variable(const char *name, size_t len)
{
    for (size_t i = 0; setting_at(i) != NULL; i++) {
        const char *own = behind_prefix(table[i].variable);
        if (strlen(own) == len && memcmp(own, name, len) == 0)
            return true;
    }
    return false;
}

void settings_strangers(const char *const *environment,
                        void (*found)(void *ctx, const char *name, const char *meant), void *ctx)
{
    for (; environment != NULL && *environment != NULL; environment++) {
        if (strncmp(*environment, "TRIDENT_", strlen("TRIDENT_")) != 0)
            continue;
        const char *rest = behind_prefix(*environment);
        size_t len = strcspn(rest, "=");
        char typed[64], near[NAMES_TEXT], name[80], meant[80];
        if (len == 0 || len >= sizeof typed || is_variable(rest, len) || is_known(rest, len))
            continue;
        (void)snprintf(typed, sizeof typed, "%.*s", (int)len, rest);
        if (!names_suggest(typed, variable_candidate, NULL, near))
            continue;
        (void)snprintf(name, sizeof name, "TRIDENT_%s", typed);
        (void)snprintf(meant, sizeof meant, "TRIDENT_%.*s", (int)strcspn(near, ", "), near);
        found(ctx, name, meant);
    }
}
