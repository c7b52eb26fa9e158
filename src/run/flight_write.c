/* Writing the flight recorder of a node: one JSON document, see docs/failures.md. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json_out.h"
#include "core/bits.h"
#include "os/clock.h"
#include "os/file.h"
#include "run/inside.h"
#include "wire/hello.h"

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

static const char version[] =
    TEXT(TRI_VERSION_MAJOR) "." TEXT(TRI_VERSION_MINOR) "." TEXT(TRI_VERSION_PATCH);

/* ---- who, when, why ---- */

static void put_head(const struct host *host, const tri_error *err, struct json_out *out)
{
    char name[256] = "", when[32] = "";
    struct timespec now;
    struct tm utc;
    (void)gethostname(name, sizeof name - 1);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &utc) != NULL)
        (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    uint8_t roles = host_roles(host);
    json_out_string(out, "trident", version);
    json_out_string(out, "when", when);
    json_out_string(out, "job", host->options.job);
    json_out_string(out, "node", host_name(host, host->options.node).text);
    json_out_count(out, "number", host->options.node);
    json_out_array(out, "roles");
    if ((roles & WIRE_ROLE_COORDINATOR) != 0)
        json_out_string(out, NULL, "coordinator");
    if ((roles & WIRE_ROLE_WORKER) != 0)
        json_out_string(out, NULL, "worker");
    if ((roles & WIRE_ROLE_SERVER) != 0)
        json_out_string(out, NULL, "server");
    json_out_close(out);
    json_out_string(out, "host", name);
    json_out_count(out, "pid", (uint64_t)getpid());
    json_out_string(out, "address", host_address(host, host->options.node));
    json_out_object(out, "failure");
    json_out_string(out, "status", tri_status_name(err->status));
    json_out_string(out, "text", err->text);
    json_out_string(out, "where", err->where);
    json_out_string(out, "why", err->why);
    json_out_string(out, "next", err->next);
    json_out_close(out);
}

/* ---- what it was doing ---- */

static void put_set(const struct host *host, const uint64_t *set, bool servers,
                    struct json_out *out)
{
    const struct layout *layout = host->agreement->layout;
    uint32_t members = servers ? layout->servers : layout->workers;
    json_out_array(out, "waits_for");
    for (uint32_t m = 0; set != NULL && m < members; m++)
        if (bits_has(set, m)) {
            char text[32];
            (void)snprintf(text, sizeof text, "%s %u", servers ? "server" : "rank", (unsigned)m);
            json_out_string(out, NULL, text);
        }
    json_out_close(out);
}

static void put_layers(struct host *host, struct json_out *out)
{
    const struct layout *layout = host->agreement->layout;
    for (uint32_t l = 0; l < layout->layer_count; l++) {
        const struct syncer *syncer = &host->core.worker.syncers[l];
        bool open = syncer->version < syncer->given || !syncer->started;
        json_out_object(out, NULL);
        json_out_string(out, "layer", layout->layers[l].name);
        json_out_string(out, "scheme", agree_scheme(host->agreement, l));
        json_out_count(out, "clock", syncer->version);
        json_out_string(out, "state",
                        syncer->waiting   ? "the caller waits"
                        : syncer->working ? "an operation is under way"
                        : open            ? "on its way"
                                          : "idle");
        put_set(host, open ? worker_waits_for(&host->core.worker, l) : NULL,
                layout->layers[l].home != TRI_HOME_WORKERS, out);
        json_out_close(out);
    }
}

/* Those of a server's units that wait for somebody. */
static void put_units(const struct host *host, struct json_out *out)
{
    const struct server *server = &host->core.server;
    for (uint32_t i = 0; i < server->unit_count; i++) {
        const uint64_t *missing = server_waits_for(server, i);
        const struct layout_unit *unit = &server->layout->units[server->units[i].unit];
        if (missing == NULL)
            continue;
        json_out_object(out, NULL);
        json_out_string(out, "layer", server->layout->layers[unit->layer].name);
        json_out_count(out, "part", unit->first_part);
        json_out_count(out, "clock", server->units[i].version);
        put_set(host, missing, false, out);
        json_out_close(out);
    }
}

static const char *phase_of(const struct host *host)
{
    if (host->phase == HOST_MEETING)
        return "meeting the others";
    if (!host->has_core || !host->core.member.started)
        return "agreeing on the plan";
    return host->core.member.ended ? "ended" : "running";
}

static void put_state(struct host *host, struct json_out *out)
{
    json_out_string(out, "phase", phase_of(host));
    if (host->has_core) {
        json_out_count(out, "view", host->core.member.view);
        json_out_string(out, "waiting", host->wait);
    }
    if (host->has_core && host->core.has_worker) {
        json_out_count(out, "clock", host->core.worker.clock);
        json_out_array(out, "layers");
        put_layers(host, out);
        json_out_close(out);
    }
    if (host->has_core && host->core.has_server) {
        json_out_array(out, "serving");
        put_units(host, out);
        json_out_close(out);
    }
}

/* ---- the others ---- */

static uint64_t queued_bytes(const struct queue *queue)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < queue->count; i++) {
        const struct outgoing *out = queue->entries[i].tag;
        bytes += out->head_bytes + out->data_bytes;
    }
    return bytes;
}

static void put_peers(const struct host *host, uint64_t now, struct json_out *out)
{
    json_out_array(out, "peers");
    for (uint32_t n = 0; n < host->nodes; n++) {
        const struct peer *peer = &host->peers[n];
        if (!peer->needed)
            continue;
        const struct watch *watch = host->has_core ? &host->core.member.watch : NULL;
        json_out_object(out, NULL);
        json_out_string(out, "node", host_name(host, n).text);
        json_out_string(out, "address", host_address(host, n));
        json_out_string(out, "state",
                        peer->departed ? "left"
                        : peer->up     ? "up"
                        : peer->down   ? "down"
                                       : "absent");
        json_out_string(out, "why", peer->why[0] != '\0' ? peer->why : NULL);
        if (watch != NULL && watch->heard[n] != 0 && !peer->down)
            json_out_count(out, "heard_ms_ago", watch_silence(watch, n, now) / 1000);
        json_out_count(out, "queued_messages", peer->control.count + peer->values.count);
        json_out_count(out, "queued_bytes",
                       queued_bytes(&peer->control) + queued_bytes(&peer->values));
        json_out_close(out);
    }
    json_out_close(out);
}

/* ---- events ---- */

static const char *op_name(uint8_t kind)
{
    static const char *const names[] = {
        [CORE_OP_SUM] = "sum",         [CORE_OP_STEP] = "step",   [CORE_OP_PRODUCT] = "product",
        [CORE_OP_REPLY] = "reply",     [CORE_OP_COPY] = "copy",   [CORE_OP_APPLY] = "apply",
        [CORE_OP_INSTALL] = "install", [CORE_OP_LOCAL] = "local",
    };
    return kind < sizeof names / sizeof names[0] ? names[kind] : "?";
}

static void put_layer(const struct host *host, uint32_t layer, struct json_out *out)
{
    const struct layout *layout = host->agreement != NULL ? host->agreement->layout : NULL;
    if (layout != NULL && layer < layout->layer_count)
        json_out_string(out, "layer", layout->layers[layer].name);
    else if (layer != FLIGHT_NONE)
        json_out_count(out, "layer", layer);
}

static void put_message(const struct host *host, const struct flight_event *event,
                        struct json_out *out)
{
    const struct wire_kind_info *info = wire_kind_at(event->what);
    unsigned uses = info != NULL ? info->uses : 0;
    json_out_string(out, "message", wire_kind_name(event->what));
    json_out_string(out, "peer", host_name(host, event->node).text);
    if ((uses & WIRE_USE_LAYER) != 0)
        put_layer(host, event->layer, out);
    if ((uses & WIRE_USE_CLOCK) != 0)
        json_out_count(out, "clock", event->clock);
    if ((uses & WIRE_USE_CHUNK) != 0)
        json_out_count(out, "part", event->part);
}

static void put_op(const struct host *host, const struct flight_event *event, struct json_out *out)
{
    json_out_string(out, "operation", op_name(event->what));
    put_layer(host, event->layer, out);
    json_out_count(out, "clock", event->clock);
    if (event->part != FLIGHT_NONE)
        json_out_count(out, "rank", event->part);
}

static void put_event(const struct host *host, const struct flight_event *event,
                      struct json_out *out)
{
    json_out_object(out, NULL);
    json_out_count(out, "t_us", event->t_us);
    json_out_string(out, "event", flight_kind_name(event->kind));
    switch (event->kind) {
    case FLIGHT_SEND:
    case FLIGHT_RECEIVED:
        put_message(host, event, out);
        break;
    case FLIGHT_OP:
    case FLIGHT_OP_DONE:
        put_op(host, event, out);
        break;
    case FLIGHT_UPDATE:
    case FLIGHT_SYNC:
    case FLIGHT_SYNCED:
    case FLIGHT_CLOCK:
    case FLIGHT_WAIT:
        put_layer(host, event->layer, out);
        json_out_count(out, "clock", event->clock);
        break;
    case FLIGHT_VIEW:
        json_out_count(out, "number", event->clock);
        break;
    case FLIGHT_FAILURE:
        json_out_string(out, "status", tri_status_name((tri_status)-event->what));
        break;
    default:
        if (event->node != FLIGHT_NONE)
            json_out_string(out, "peer", host_name(host, event->node).text);
        if (event->kind == FLIGHT_ACCUSED)
            json_out_string(out, "by", host_name(host, event->part).text);
        break;
    }
    if (event->text != NULL)
        json_out_string(out, "text", event->text);
    json_out_close(out);
}

static void put_events(const struct host *host, struct json_out *out)
{
    json_out_count(out, "events_noted", flight_total(host->flight));
    json_out_array(out, "events");
    for (uint32_t i = 0; i < flight_kept(host->flight); i++) {
        struct flight_event event = flight_at(host->flight, i);
        put_event(host, &event, out);
    }
    json_out_close(out);
}

/* ---- the file ---- */

/* As trident run calls the processes. */
static void put_path(const struct host *host, struct buf *path)
{
    const struct host_options *options = &host->options;
    bool server = options->node >= options->workers;
    if (strcmp(options->flight, ".") != 0)
        buf_format(path, "%s/", options->flight);
    buf_format(path, "trident-flight-%s%u.json", server ? "s" : "",
               (unsigned)(server ? options->node - options->workers : options->node));
}

static void make(struct host *host, const tri_error *err, struct buf *text)
{
    struct json_out out;
    json_out_init(&out, text, 2);
    json_out_object(&out, NULL);
    put_head(host, err, &out);
    put_state(host, &out);
    put_peers(host, clock_us(), &out);
    put_events(host, &out);
    json_out_close(&out);
}

/* The file system may take its time: not with the lock. */
static void write_out(struct host *host, const char *path, const struct buf *text, tri_error *err)
{
    pthread_mutex_unlock(&host->lock);
    tri_status status = file_write(path, text->data, text->len, err);
    pthread_mutex_lock(&host->lock);
    if (status == TRI_OK)
        log_write(&host->log, LOG_INFO, "the last %u of %llu events are in '%s'",
                  (unsigned)flight_kept(host->flight),
                  (unsigned long long)flight_total(host->flight), path);
}

/* The program tells its user of the error, so what became of the file is told once, whether there
 * is a log or not. */
static void name_file(tri_error *err, const char *path, const tri_error *why)
{
    char next[sizeof err->next];
    memcpy(next, err->next, sizeof next);
    const char *between = next[0] != '\0' ? "; " : "";
    if (why->status == TRI_OK)
        fail_next(err, "%.*s%sthe last events: %s", (int)(sizeof next - 80), next, between, path);
    else
        fail_next(err, "%.*s%sthe last events are not in %.50s: %.45s", (int)(sizeof next - 130),
                  next, between, path, why->why[0] != '\0' ? why->why : why->text);
}

static bool is_own_mistake(tri_status status)
{
    return status == TRI_OK || status == TRI_EARG || status == TRI_EINPUT;
}

void flight_write(struct host *host, tri_error *err)
{
    struct buf text, path;
    bool last = err == &host->err; /* nothing that comes later can be worse */
    while (host->flight_writing)   /* another thread of the caller's */
        pthread_cond_wait(&host->changed, &host->lock);
    uint64_t clock = 1 + (host->has_core ? host->core.worker.clock : 0);
    /* What follows from giving up, or from a failed wait that is tried again, tells less. */
    bool told = host->flight_clock == clock && (host->closing || !last);
    if (host->flight == NULL || host->flight_written || told || is_own_mistake(err->status))
        return;
    host->flight_writing = true;
    buf_init(&text, host->mem);
    buf_init(&path, host->mem);
    make(host, err, &text);
    put_path(host, &path);
    tri_error why = {0};
    if (buf_ok(&text) && buf_ok(&path))
        write_out(host, buf_string(&path), &text, &why);
    else
        fail_nomem(&why, "the last events");
    name_file(err, buf_ok(&path) ? buf_string(&path) : "a file", &why);
    host->flight_writing = false;
    host->flight_written = last;
    host->flight_clock = clock;
    pthread_cond_broadcast(&host->changed);
    buf_fini(&text);
    buf_fini(&path);
}
