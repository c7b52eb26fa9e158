/* Reading all settings, and working out those that follow from others. */
#include "settings/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "os/interfaces.h"
#include "settings/gather.h"

extern char **environ;

#define AT(field) setting_of(offsetof(struct settings, field))

/* What is being worked out. */
struct work {
    const struct settings_request *request;
    struct settings_view *view;
    struct settings *out;
    tri_error *err;
};

static struct setting_given *given_at(const struct work *work, size_t i)
{
    return &work->view->given[i];
}

static bool is_given(const struct work *work, size_t i)
{
    return given_at(work, i)->text != NULL;
}

/* ---- single values ---- */

static tri_status put_one(const struct work *work, size_t i)
{
    const struct setting *row = setting_at(i);
    const struct setting_given *given = given_at(work, i);
    char source[SETTINGS_ORIGIN];
    if (given->text == NULL)
        return row->fallback != NULL
                   ? setting_put(row, row->fallback, row->name, work->out, work->err)
                   : TRI_OK;
    settings_source(given, source);
    bool variable = given->from == SETTINGS_ENVIRONMENT || given->from == SETTINGS_LAUNCHER;
    tri_status status =
        setting_put(row, given->text, variable ? source : row->name, work->out, work->err);
    if (status != TRI_OK && (!variable || row->check != NULL))
        fail_where(work->err, "%s", source);
    return status;
}

static tri_status put_all(const struct work *work)
{
    tri_status status = TRI_OK;
    for (size_t i = 0; setting_at(i) != NULL && status == TRI_OK; i++)
        status = put_one(work, i);
    return status;
}

/* ---- who takes part ---- */

static tri_status half_given(const struct work *work, bool has_count)
{
    char source[SETTINGS_ORIGIN];
    size_t i = has_count ? AT(asked.workers) : AT(asked.rank);
    settings_source(given_at(work, work->request->server && !has_count ? AT(asked.node) : i),
                    source);
    if (has_count)
        fail(work->err, TRI_EINPUT, "the number of workers is given by %.80s, this one's %s is not",
             source, work->request->server ? "node" : "rank");
    else
        fail(work->err, TRI_EINPUT, "a %s is given by %.80s, the number of workers is not",
             work->request->server ? "node" : "rank", source);
    fail_next(work->err, "set %s, or start with trident run",
              !has_count              ? "TRIDENT_WORKERS"
              : work->request->server ? "TRIDENT_NODE"
                                      : "TRIDENT_RANK");
    return TRI_EINPUT;
}

/* A rank without a number of workers, or the other way round, is a mistake. */
static tri_status settle_ranks(const struct work *work)
{
    struct settings *out = work->out;
    bool server = work->request->server;
    bool has_count = is_given(work, AT(asked.workers));
    bool has_rank = is_given(work, server ? AT(asked.node) : AT(asked.rank));
    out->node = server ? out->asked.node : out->asked.rank;
    if (has_count != has_rank && !(has_count && out->asked.workers == 1))
        return half_given(work, has_count);
    out->agree.workers = has_count ? out->asked.workers : 1;
    if (server || out->node < out->agree.workers)
        return TRI_OK;
    fail(work->err, TRI_EINPUT, "there is no rank %u among %u workers", (unsigned)out->node,
         (unsigned)out->agree.workers);
    fail_next(work->err, "ranks go from 0 to the number of workers less one");
    return TRI_EINPUT;
}

/* Nobody starts those that have no worker to be in, and all would wait for them. */
static tri_status too_many_servers(const struct work *work)
{
    const struct agree_options *agree = &work->out->agree;
    char source[SETTINGS_ORIGIN];
    settings_source(given_at(work, AT(asked.servers)), source);
    fail(work->err, TRI_EINPUT, "there are %u servers, and only %u worker%s to have them inside",
         (unsigned)agree->servers, (unsigned)agree->workers, agree->workers == 1 ? "" : "s");
    fail_where(work->err, "%s", source);
    fail_next(work->err,
              "set TRIDENT_SERVERS to %u or less, or start servers of their own: trident "
              "run --colocate no",
              (unsigned)agree->workers);
    return TRI_EINPUT;
}

static tri_status settle_servers(const struct work *work)
{
    struct agree_options *agree = &work->out->agree;
    uint32_t servers = work->out->asked.servers;
    agree->servers = servers > 0 ? servers : agree->workers;
    bool fits = agree->servers <= agree->workers;
    agree->colocated = !work->out->asked.together ? 0 : fits ? agree->servers : agree->workers;
    if (fits || agree->colocated == 0 || work->out->is_local)
        return TRI_OK;
    return too_many_servers(work);
}

/* ---- where rank 0 is ---- */

static tri_status no_coordinator(const struct work *work)
{
    char source[SETTINGS_ORIGIN];
    fail(work->err, TRI_EINPUT, "where rank 0 is to be found is not given");
    if (!work->out->asked.together && work->out->agree.workers == 1) {
        settings_source(given_at(work, AT(asked.together)), source);
        fail_why(work->err, "servers are in processes of their own, by %s", source);
    }
    fail_next(work->err, "set TRIDENT_COORDINATOR to host:port, or start with trident run");
    return TRI_EINPUT;
}

/* torchrun's, who listens on MASTER_PORT itself. */
static tri_status take_master(const struct work *work, const char *host, bool *taken)
{
    const char *text = settings_variable("MASTER_PORT");
    bool own = is_given(work, AT(asked.port));
    uint64_t port = work->out->asked.port;
    if (!own && text == NULL)
        return TRI_OK;
    if (!own && (!units_count(text, &port) || port > 65534)) {
        fail(work->err, TRI_EINPUT, "MASTER_PORT cannot be '%.60s'", text);
        fail_next(work->err, "give a whole number from 0 to 65534: rank 0 takes the one behind it");
        return TRI_EINPUT;
    }
    const char *colon = strchr(host, ':'); /* an address of IPv6 */
    (void)snprintf(work->out->coordinator, sizeof work->out->coordinator, "%s%.250s%s:%u",
                   colon != NULL ? "[" : "", host, colon != NULL ? "]" : "",
                   (unsigned)(own ? port : port + 1));
    *given_at(work, AT(asked.coordinator)) = (struct setting_given){
        .from = SETTINGS_ENVIRONMENT,
        .text = work->out->coordinator,
        .by = own ? "MASTER_ADDR and TRIDENT_PORT" : "MASTER_ADDR and MASTER_PORT"};
    *taken = true;
    return TRI_OK;
}

/* Marks where rank 0 comes from when a launcher says it. */
static void from_launcher(const struct work *work, const char *fallback, const char *variable)
{
    const char *name = work->view->launcher.name;
    *given_at(work, AT(asked.coordinator)) =
        (struct setting_given){.from = SETTINGS_LAUNCHER,
                               .text = work->out->coordinator,
                               .by = name != NULL ? name : fallback,
                               .variable = variable};
}

static tri_status ask_launcher(const struct work *work)
{
    struct settings *out = work->out;
    struct launcher_meeting meeting;
    bool found = false;
    if (work->request->options == NULL && settings_variable("PMIX_NAMESPACE") != NULL) {
        work->view->pending = true;
        from_launcher(work, "PMIx", "PMIx");
        return TRI_OK;
    }
    if (work->request->options != NULL) {
        tri_status status = launcher_meet(out->node, out->agree.workers, out->timeout_ms, &meeting,
                                          &found, work->err);
        if (status != TRI_OK)
            return status;
    }
    if (found) {
        (void)snprintf(out->coordinator, sizeof out->coordinator, "%s", meeting.coordinator);
        from_launcher(work, "PMIx", "PMIx");
        if (out->token == NULL) {
            (void)snprintf(out->token_text, sizeof out->token_text, "%s", meeting.token);
            out->token = out->token_text;
        }
        return TRI_OK;
    }
    if (!launcher_slurm_address(out->coordinator))
        return no_coordinator(work);
    from_launcher(work, "Slurm", "SLURM_JOB_NODELIST");
    return TRI_OK;
}

static tri_status settle_coordinator(const struct work *work)
{
    struct settings *out = work->out;
    const char *asked = out->asked.coordinator, *host = settings_variable("MASTER_ADDR");
    bool alone = out->is_local || (out->agree.workers == 1 && out->agree.colocated == 1);
    bool strong = given_at(work, AT(asked.coordinator))->from >= SETTINGS_LAUNCHER;
    if (!strong && !alone && host != NULL) {
        bool taken = false;
        tri_status status = take_master(work, host, &taken);
        if (status != TRI_OK || taken)
            return status;
    }
    if (asked != NULL) {
        (void)snprintf(out->coordinator, sizeof out->coordinator, "%s", asked);
        return TRI_OK;
    }
    if (alone)
        return TRI_OK;
    return work->request->server ? no_coordinator(work) : ask_launcher(work);
}

/* ---- the rest ---- */

/* Node 0 listens where the others look for it. */
static tri_status settle_listen(const struct work *work)
{
    struct settings *out = work->out;
    const char *wanted = out->asked.interface;
    struct interface all[INTERFACES_MOST];
    char text[NET_TEXT], source[SETTINGS_ORIGIN];
    size_t count = 0;
    if (out->listen != NULL || wanted == NULL || out->node == 0 || out->coordinator[0] == '\0')
        return TRI_OK;
    tri_status status = interfaces_list(all, &count, work->err);
    if (status == TRI_OK)
        status = interfaces_pick(wanted, all, count, interfaces_is_loopback(out->coordinator), text,
                                 work->err);
    if (status != TRI_OK) {
        settings_source(given_at(work, AT(asked.interface)), source);
        fail_where(work->err, "%.100s=%.130s", source, wanted);
        return status;
    }
    (void)snprintf(out->picked, sizeof out->picked, "%s", text);
    out->listen = out->picked;
    struct setting_given *given = given_at(work, AT(listen));
    *given = *given_at(work, AT(asked.interface));
    given->text = out->picked;
    return TRI_OK;
}

/* Cores that the training threads of this machine's processes leave over. */
static uint32_t spare_cores(const struct launcher *launcher)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t here = launcher->local_workers.given ? launcher->local_workers.value : 1;
    uint64_t each = cores > 0 ? (uint64_t)cores / (here > 0 ? here : 1) : 1;
    return each > 1 ? (uint32_t)(each - 1 < 64 ? each - 1 : 64) : 0;
}

/* Going on from nowhere would be beginning again without a word. */
static tri_status check_resume(const struct work *work)
{
    char source[SETTINGS_ORIGIN];
    if (!work->out->resume || work->out->checkpoint != NULL)
        return TRI_OK;
    settings_source(given_at(work, AT(resume)), source);
    fail(work->err, TRI_EINPUT, "a job is to be resumed, and there is no folder of checkpoints");
    fail_where(work->err, "%s", source);
    fail_next(work->err, "give the folder, by TRIDENT_CHECKPOINT for instance, or turn resume off");
    return TRI_EINPUT;
}

/* As trident train --local auto. */
static unsigned settle_local(const struct settings *settings)
{
    enum { SERVER, DIRECT }; /* of enum local_mode */
    if (settings->asked.local != SETTINGS_LOCAL_AUTO)
        return settings->asked.local;
    return names_equal(settings->agree.optimizer, "sgd") ? DIRECT : SERVER;
}

static void settle_rest(const struct work *work)
{
    struct settings *out = work->out;
    const struct settings_asked *asked = &out->asked;
    if (!is_given(work, AT(helpers)))
        out->helpers = spare_cores(&work->view->launcher);
    out->stop_on_failure = asked->on_failure == 1;
    out->is_local = asked->mode == 1;
    out->local = settle_local(out);
    out->server_apart = asked->local_server == 1;
    out->flight = names_equal(asked->flight, "off") ? NULL : asked->flight;
    out->agree.scheme = names_equal(asked->scheme, "auto") ? NULL : asked->scheme;
    if (asked->log > 0)
        log_init(&out->log, (enum log_level)(asked->log - 1), log_to_stream, stderr);
    else if (out->trace != NULL && !is_given(work, AT(asked.log))) /* why there is none, say */
        log_init(&out->log, LOG_WARN, log_to_stream, stderr);
}

tri_status settings_explain(const struct settings_request *request, struct settings_view *view,
                            struct settings *out, tri_error *err)
{
    const struct work work = {request, view, out, err};
    *view = (struct settings_view){.pending = false};
    settings_file_init(&view->file, request->mem);
    memset(out, 0, sizeof *out);
    log_init(&out->log, LOG_ERROR, NULL, NULL);
    out->agree.message_s = 5e-6;
    out->agree.rule = PLAN_TIME;
    out->agree.aggregate = request->options != NULL && request->options->result == TRI_AGGREGATE;
    tri_status status = settings_gather(request, view, err);
    if (status != TRI_OK || (status = put_all(&work)) != TRI_OK)
        return status;
    settle_rest(&work);
    if ((status = check_resume(&work)) != TRI_OK || (status = settle_ranks(&work)) != TRI_OK)
        return status;
    if ((status = settle_servers(&work)) != TRI_OK ||
        (status = settle_coordinator(&work)) != TRI_OK)
        return status;
    return settle_listen(&work);
}

void settings_view_fini(struct settings_view *view)
{
    settings_file_fini(&view->file);
}

/* ---- for jobs ---- */

static void to_program(void *ctx, enum log_level level, const char *line)
{
    const tri_options *options = ctx;
    options->log(options->log_ctx, (int)level, line);
}

static void warn(void *ctx, const char *name, const char *meant)
{
    log_write((const struct log *)ctx, LOG_WARN, "%s is not a setting; did you mean %s?", name,
              meant);
}

static void warn_of_strangers(const tri_options *options, const struct settings *settings)
{
    struct log log = settings->log;
    if (options->log != NULL)
        log_init(&log, LOG_WARN, to_program, (void *)(uintptr_t)options);
    log.job = settings->job;
    settings_strangers((const char *const *)environ, warn, &log);
}

tri_status settings_read(const tri_options *options, bool server, struct settings *out,
                         tri_error *err)
{
    const struct settings_request request = {
        .mem = &mem_libc, .options = options, .server = server};
    struct settings_view view;
    tri_status status = settings_explain(&request, &view, out, err);
    if (status == TRI_OK && options != NULL)
        warn_of_strangers(options, out);
    settings_view_fini(&view);
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
