/* Reading options and environment. */
#include "run/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/names.h"
#include "base/units.h"
#include "os/interfaces.h"

/* Where a text came from, for refusals. */
struct source {
    const char *name, *text; /* text NULL: not given */
};

static struct source from_env(const char *name)
{
    const char *text = getenv(name);
    return (struct source){name, text != NULL && text[0] != '\0' ? text : NULL};
}

/* The first of the variables that is set. */
static struct source first_of(const char *const *names)
{
    struct source source = {NULL, NULL};
    for (; *names != NULL && source.text == NULL; names++)
        source = from_env(*names);
    return source;
}

static tri_status refuse(struct source source, const char *next, tri_error *err)
{
    fail(err, TRI_EINPUT, "%s cannot be '%.60s'", source.name, source.text);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

/* ---- single values; each leaves *out alone when the variable is not set ---- */

static tri_status read_count(const char *name, uint32_t least, uint32_t most, uint32_t *out,
                             tri_error *err)
{
    struct source source = from_env(name);
    uint64_t value = 0;
    if (source.text == NULL)
        return TRI_OK;
    if (!units_count(source.text, &value) || value < least || value > most) {
        char next[80];
        (void)snprintf(next, sizeof next, "give a whole number from %u to %u", (unsigned)least,
                       (unsigned)most);
        return refuse(source, next, err);
    }
    *out = (uint32_t)value;
    return TRI_OK;
}

static tri_status read_flag(const char *name, bool *out, tri_error *err)
{
    struct source source = from_env(name);
    if (source.text == NULL)
        return TRI_OK;
    bool yes = names_equal(source.text, "yes") || names_equal(source.text, "on") ||
               strcmp(source.text, "1") == 0;
    bool no = names_equal(source.text, "no") || names_equal(source.text, "off") ||
              strcmp(source.text, "0") == 0;
    if (!yes && !no)
        return refuse(source, "give on or off", err);
    *out = yes;
    return TRI_OK;
}

static void read_text(const char *name, const char *given, const char **out)
{
    struct source source = from_env(name);
    if (given != NULL && given[0] != '\0')
        *out = given;
    else if (source.text != NULL)
        *out = source.text;
}

static tri_status read_rates(struct agree_options *agree, tri_error *err)
{
    struct source rate = from_env("TRIDENT_BANDWIDTH"), latency = from_env("TRIDENT_LATENCY");
    struct source flops = from_env("TRIDENT_FLOPS"), chunk = from_env("TRIDENT_CHUNK");
    if (rate.text != NULL && (!units_rate(rate.text, &agree->bits_s) || !(agree->bits_s > 0)))
        return refuse(rate, "give a rate such as 10Gbit", err);
    if (latency.text != NULL && !units_time(latency.text, &agree->latency_s))
        return refuse(latency, "give a time such as 50us", err);
    if (flops.text != NULL && (!units_flops(flops.text, &agree->flops_s) || !(agree->flops_s > 0)))
        return refuse(flops, "give a rate such as 100G", err);
    if (chunk.text != NULL &&
        (!units_size(chunk.text, &agree->chunk_bytes) || agree->chunk_bytes < 1024 ||
         agree->chunk_bytes % 4 != 0 || agree->chunk_bytes > (uint64_t)1 << 30))
        return refuse(chunk, "give a size from 1KiB to 1GiB in whole floats, such as 2MiB", err);
    return TRI_OK;
}

/* ---- who takes part ---- */

static tri_status number_of(struct source source, uint32_t least, uint32_t most, uint32_t *out,
                            tri_error *err)
{
    uint64_t value = 0;
    if (!units_count(source.text, &value) || value < least || value > most)
        return refuse(source, "give a whole number", err);
    *out = (uint32_t)value;
    return TRI_OK;
}

/* What the program itself says. */
static tri_status check_most(uint32_t given, const char *what, tri_error *err)
{
    if (given <= BOOK_MAX_NODES)
        return TRI_OK;
    fail(err, TRI_EINPUT, "a job cannot have %u %s", (unsigned)given, what);
    fail_next(err, "give at most %u", (unsigned)BOOK_MAX_NODES);
    return TRI_EINPUT;
}

static const char *const worker_names[] = {"TRIDENT_WORKERS", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
                                           NULL};
static const char *const rank_names[] = {"TRIDENT_RANK", "RANK", "OMPI_COMM_WORLD_RANK", NULL};

/* A rank without a number of workers, or the other way round, is a mistake. */
static tri_status read_ranks(const tri_options *options, bool server, struct settings *settings,
                             tri_error *err)
{
    struct source workers = first_of(worker_names);
    struct source rank = server ? from_env("TRIDENT_NODE") : first_of(rank_names);
    uint32_t count = options->workers;
    bool has_count = count > 0, has_rank = options->rank >= 0;
    settings->node = has_rank ? (uint32_t)options->rank : 0;
    tri_status status = check_most(count, "workers", err);
    if (status == TRI_OK && !has_count && workers.text != NULL) {
        status = number_of(workers, 1, BOOK_MAX_NODES, &count, err);
        has_count = true;
    }
    if (status == TRI_OK && !has_rank && rank.text != NULL) {
        status = number_of(rank, 0, 2 * BOOK_MAX_NODES, &settings->node, err);
        has_rank = true;
    }
    if (status != TRI_OK)
        return status;
    if (has_count != has_rank && !(has_count && count == 1)) {
        fail(err, TRI_EINPUT,
             has_count ? "the number of workers is given, this one's rank is not"
                       : "a rank is given, the number of workers is not");
        fail_next(err, has_count ? "set TRIDENT_RANK, or start with trident run"
                                 : "set TRIDENT_WORKERS, or start with trident run");
        return TRI_EINPUT;
    }
    settings->agree.workers = has_count ? count : 1;
    if (!server && settings->node >= settings->agree.workers) {
        fail(err, TRI_EINPUT, "there is no rank %u among %u workers", (unsigned)settings->node,
             (unsigned)settings->agree.workers);
        fail_next(err, "ranks go from 0 to the number of workers less one");
        return TRI_EINPUT;
    }
    return TRI_OK;
}

static tri_status read_servers(const tri_options *options, struct settings *settings,
                               tri_error *err)
{
    struct agree_options *agree = &settings->agree;
    bool together = true;
    uint32_t servers = options->servers;
    tri_status status = check_most(servers, "servers", err);
    if (servers == 0)
        status = read_count("TRIDENT_SERVERS", 1, BOOK_MAX_NODES, &servers, err);
    if (status == TRI_OK)
        status = read_flag("TRIDENT_COLOCATE", &together, err);
    agree->servers = servers > 0 ? servers : agree->workers;
    agree->colocated = !together                         ? 0
                       : agree->servers < agree->workers ? agree->servers
                                                         : agree->workers;
    return status;
}

static tri_status read_coordinator(const tri_options *options, struct settings *settings,
                                   tri_error *err)
{
    const char *text = NULL;
    struct source host = from_env("MASTER_ADDR"), port = from_env("MASTER_PORT");
    uint32_t number = 0;
    read_text("TRIDENT_COORDINATOR", options->coordinator, &text);
    if (text != NULL) {
        (void)snprintf(settings->coordinator, sizeof settings->coordinator, "%s", text);
        return TRI_OK;
    }
    if (settings->agree.workers == 1 && settings->agree.colocated == 1)
        return TRI_OK;
    if (host.text == NULL || port.text == NULL) {
        fail(err, TRI_EINPUT, "where rank 0 is to be found is not given");
        fail_next(err, "set TRIDENT_COORDINATOR to host:port, or start with trident run");
        return TRI_EINPUT;
    }
    tri_status status = number_of(port, 0, 65534, &number, err);
    if (status == TRI_OK)
        status = read_count("TRIDENT_PORT", 1, 65535, &number, err);
    bool own = from_env("TRIDENT_PORT").text != NULL;
    const char *colon = strchr(host.text, ':'); /* an address of IPv6 */
    (void)snprintf(settings->coordinator, sizeof settings->coordinator, "%s%.250s%s:%u",
                   colon != NULL ? "[" : "", host.text, colon != NULL ? "]" : "",
                   (unsigned)(own ? number : number + 1));
    return status;
}

/* ---- the rest ---- */

/* Cores that the training threads of this machine's processes leave over. */
static uint32_t spare_cores(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t here = 1;
    struct source local = from_env("LOCAL_WORLD_SIZE");
    if (local.text != NULL && !units_count(local.text, &here))
        here = 1;
    uint64_t each = cores > 0 ? (uint64_t)cores / (here > 0 ? here : 1) : 1;
    return each > 1 ? (uint32_t)(each - 1 < 64 ? each - 1 : 64) : 0;
}

static tri_status read_numbers(const tri_options *options, struct settings *settings,
                               tri_error *err)
{
    const struct {
        const char *name;
        uint32_t given, least, most, *out;
    } rows[] = {
        {"TRIDENT_TIMEOUT_MS", options->timeout_ms, 1, 1u << 30, &settings->timeout_ms},
        {"TRIDENT_HEARTBEAT_MS", 0, 10, 600000, &settings->heartbeat_ms},
        {"TRIDENT_CHECKSUM_EVERY", options->checksum_every, 0, UINT32_MAX,
         &settings->checksum_every},
        {"TRIDENT_SOCKETS", 0, 1, 16, &settings->sockets},
        {"TRIDENT_THREADS", 0, 0, 256, &settings->helpers},
    };
    settings->timeout_ms = 30000;
    settings->heartbeat_ms = 1000;
    settings->sockets = 1;
    settings->helpers = spare_cores();
    tri_status status = TRI_OK;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && status == TRI_OK; i++)
        if (rows[i].given > 0)
            *rows[i].out = rows[i].given;
        else
            status = read_count(rows[i].name, rows[i].least, rows[i].most, rows[i].out, err);
    return status;
}

static tri_status read_failure(struct settings *settings, tri_error *err)
{
    struct source source = from_env("TRIDENT_ON_FAILURE");
    if (source.text == NULL)
        return TRI_OK;
    settings->stop_on_failure = names_equal(source.text, "stop");
    return settings->stop_on_failure || names_equal(source.text, "continue")
               ? TRI_OK
               : refuse(source, "give continue or stop", err);
}

static tri_status read_log(struct settings *settings, tri_error *err)
{
    struct source source = from_env("TRIDENT_LOG");
    enum log_level level = LOG_ERROR;
    log_init(&settings->log, level, NULL, NULL);
    if (source.text == NULL)
        return TRI_OK;
    if (log_level_find(source.text, &level) != TRI_OK)
        return refuse(source, "give error, warn, info, debug or trace", err);
    log_init(&settings->log, level, log_to_stream, stderr);
    return TRI_OK;
}

/* Node 0 listens where the others look for it. */
static tri_status read_listen(struct settings *settings, tri_error *err)
{
    struct source source = from_env("TRIDENT_INTERFACE");
    struct interface all[INTERFACES_MOST];
    char text[NET_TEXT];
    size_t count = 0;
    read_text("TRIDENT_LISTEN", NULL, &settings->listen);
    if (settings->listen != NULL || source.text == NULL || settings->node == 0)
        return TRI_OK;
    tri_status status = interfaces_list(all, &count, err);
    if (status == TRI_OK)
        status = interfaces_pick(source.text, all, count,
                                 interfaces_is_loopback(settings->coordinator), text, err);
    if (status != TRI_OK) {
        fail_where(err, "TRIDENT_INTERFACE=%.200s", source.text);
        return status;
    }
    (void)snprintf(settings->picked, sizeof settings->picked, "%s", text);
    settings->listen = settings->picked;
    return TRI_OK;
}

/* Better than to go on without what the program asked for. */
static tri_status refuse_config(const tri_options *options, tri_error *err)
{
    if (options->config == NULL || options->config[0] == '\0')
        return TRI_OK;
    fail(err, TRI_EINPUT, "the configuration file '%.60s' is not read", options->config);
    fail_why(err, "this version knows options and environment variables only");
    fail_next(err, "leave config NULL; docs/runtime.md lists the variables");
    return TRI_EINPUT;
}

tri_status settings_read(const tri_options *given, bool server, struct settings *out,
                         tri_error *err)
{
    const tri_options options = given != NULL ? *given : (tri_options)TRI_OPTIONS_INIT;
    *out = (struct settings){.job = "trident",
                             .transport = "tcp",
                             .flight = ".",
                             .checkpoint_every = 1000,
                             .checkpoint_keep = 2};
    struct agree_options *agree = &out->agree;
    *agree = (struct agree_options){.bits_s = 10e9,
                                    .latency_s = 50e-6,
                                    .message_s = 5e-6,
                                    .flops_s = 100e9,
                                    .reproducible = true,
                                    .rule = PLAN_TIME,
                                    .aggregate = options.result == TRI_AGGREGATE};
    tri_status status = refuse_config(&options, err);
    if (status == TRI_OK)
        status = read_ranks(&options, server, out, err);
    if (status == TRI_OK)
        status = read_servers(&options, out, err);
    if (status == TRI_OK)
        status = read_coordinator(&options, out, err);
    if (status == TRI_OK)
        status = read_rates(agree, err);
    if (status == TRI_OK)
        status = read_flag("TRIDENT_REPRODUCIBLE", &agree->reproducible, err);
    if (status == TRI_OK)
        status = read_numbers(&options, out, err);
    if (status == TRI_OK)
        status = read_failure(out, err);
    if (status == TRI_OK)
        status = read_log(out, err);
    read_text("TRIDENT_JOB", options.job, &out->job);
    if (status == TRI_OK)
        status = read_listen(out, err);
    read_text("TRIDENT_TRANSPORT", NULL, &out->transport);
    read_text("TRIDENT_TRACE", NULL, &out->trace);
    read_text("TRIDENT_OPTIMIZER", options.optimizer, &agree->optimizer);
    read_text("TRIDENT_CONSISTENCY", options.consistency, &agree->consistency);
    read_text("TRIDENT_PLACEMENT", options.placement, &agree->placement);
    read_text("TRIDENT_SCHEME", options.scheme, &agree->scheme);
    return status;
}

struct host_options settings_host(const struct settings *settings)
{
    return (struct host_options){.transport = settings->transport,
                                 .job = settings->job,
                                 .coordinator = settings->coordinator,
                                 .listen = settings->listen,
                                 .node = settings->node,
                                 .workers = settings->agree.workers,
                                 .servers = settings->agree.servers,
                                 .colocated = settings->agree.colocated,
                                 .sockets = settings->sockets,
                                 .helpers = settings->helpers,
                                 .timeout_ms = settings->timeout_ms,
                                 .heartbeat_ms = settings->heartbeat_ms,
                                 .stop_on_failure = settings->stop_on_failure,
                                 .trace = settings->trace,
                                 .token = settings->token,
                                 .flight = settings->flight};
}
