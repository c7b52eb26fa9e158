/* Handing events to roles, and failing as one. */
#include "core/node.h"

#include <string.h>

#include "base/error.h"
#include "mod/consistency.h"

/* ---- rules ---- */

/* Sums on arrival need units of one part, which only a plan without the promise of order has. */
static bool is_cut_for(const struct layout *layout, const struct core_rules *rules)
{
    for (uint32_t i = 0; i < layout->unit_count && !core_has_slots(rules); i++) {
        const struct layout_unit *unit = &layout->units[i];
        if (unit->server != LAYOUT_NO_SERVER && unit->parts > 1 &&
            layout->layers[unit->layer].form == TRI_FORM_DENSE)
            return false;
    }
    return true;
}

tri_status node_check(const struct layout *layout, const struct core_rules *rules, tri_error *err)
{
    if (!is_cut_for(layout, rules))
        return fail(err, TRI_EINPUT, "reproducible is off, and the plan was made with it on");
    bool each = rules->consistency != NULL && rules->consistency->each_push;
    const char *name = each ? rules->consistency->name : "leaving stragglers out";
    if (!each && !core_leaves_out(rules))
        return TRI_OK;
    for (uint32_t i = 0; i < layout->layer_count; i++)
        if (layout->layers[i].home == TRI_HOME_WORKERS) {
            fail(err, TRI_EINPUT,
                 "%s does not go with layer '%.60s', whose updates go from worker to worker", name,
                 layout->layers[i].name);
            fail_next(err, "allow only schemes with servers: ps, adam");
            return TRI_EINPUT;
        }
    if (each && core_leaves_out(rules))
        return fail(err, TRI_EINPUT,
                    "%s waits for nobody longer than its bound: there are no "
                    "stragglers to leave out",
                    name);
    if (rules->aggregate || rules->replicated)
        return fail(err, TRI_EINPUT,
                    "%s needs the optimiser on the servers: it goes neither with aggregate mode "
                    "nor with optimizer = replicated",
                    name);
    if (rules->backup >= layout->workers)
        return fail(err, TRI_EINPUT, "%u backup workers of %u leave none to wait for",
                    rules->backup, layout->workers);
    return TRI_OK;
}

/* ---- memory ---- */

/* Goes on where the optimiser was. */
static void set_steps(struct node *node, const uint64_t *steps)
{
    const struct layout *layout = node->layout;
    for (uint32_t i = 0; node->has_worker && i < layout->unit_count; i++)
        node->worker.steps[i] = steps[layout->units[i].layer];
    for (uint32_t i = 0; node->has_server && i < node->server.unit_count; i++) {
        struct server_unit *unit = &node->server.units[i];
        unit->steps = steps[layout->units[unit->unit].layer];
        for (uint32_t r = 0; unit->read != NULL && r < layout->workers; r++)
            unit->read[r] = unit->steps;
    }
}

static tri_status init_roles(struct node *node, const struct node_options *options,
                             const struct mem *mem, tri_error *err)
{
    const struct layout *layout = options->layout;
    tri_status status =
        watch_init(&node->member.watch, layout, &options->times, options->number, mem, err);
    if (status == TRI_OK && options->number < layout->workers) {
        status = worker_init(&node->worker, layout, &options->rules, options->number,
                             options->first, mem, err);
        node->has_worker = status == TRI_OK;
    }
    for (uint32_t s = 0; s < layout->servers && status == TRI_OK; s++)
        if (layout->server_node[s] == options->number) {
            status =
                server_init(&node->server, layout, &options->rules, s, options->first, mem, err);
            node->has_server = status == TRI_OK;
        }
    if (status == TRI_OK && options->number == 0) {
        status = coordinator_init(&node->coordinator, layout, &options->rules, &options->times, mem,
                                  err);
        node->has_coordinator = status == TRI_OK;
    }
    if (status == TRI_OK && options->steps != NULL)
        set_steps(node, options->steps);
    return status;
}

tri_status node_init(struct node *node, const struct node_options *options, const struct mem *mem,
                     tri_error *err)
{
    *node = (struct node){.layout = options->layout,
                          .number = options->number,
                          .member = {.node = options->number,
                                     .layers_hash = options->layers_hash,
                                     .plan_hash = options->plan_hash,
                                     .incarnation = options->incarnation}};
    tri_status status = node_check(options->layout, &options->rules, err);
    if (status == TRI_OK)
        status = init_roles(node, options, mem, err);
    if (status != TRI_OK)
        node_fini(node);
    return status;
}

void node_fini(struct node *node)
{
    if (node->has_worker)
        worker_fini(&node->worker);
    if (node->has_server)
        server_fini(&node->server);
    if (node->has_coordinator)
        coordinator_fini(&node->coordinator);
    if (node->member.watch.mem != NULL)
        watch_fini(&node->member.watch);
    *node = (struct node){0};
}

/* ---- actions ---- */

static void emit(void *ctx, const struct core_action *action);

/* A node that cannot go on tells the coordinator, which tells all others; not one that fails
 * because it was told to. */
static void tell_failure(struct node *node, const struct core_action *failure)
{
    struct core_out out = {.emit = emit, .ctx = node};
    struct message message = {.kind = WIRE_FAILED,
                              .role = CORE_COORDINATOR,
                              .from = node->number,
                              .status = failure->status,
                              .bytes = (const uint8_t *)failure->text,
                              .len = strlen(failure->text)};
    if (node->told)
        return;
    if (node->has_coordinator) /* it will not read its mail any more */
        coordinator_message(&node->coordinator, &message, &out);
    else
        core_send(node->host, 0, &message, (struct core_ref){.space = CORE_NOWHERE});
}

static void emit(void *ctx, const struct core_action *action)
{
    struct node *node = ctx;
    if (node->over)
        return; /* nothing it says after its end means anything */
    if (action->kind == CORE_FAIL) {
        tell_failure(node, action);
        node->over = true;
    }
    core_emit(node->host, action);
}

static struct core_out begin(struct node *node, const struct core_out *host)
{
    node->host = host;
    return (struct core_out){.emit = emit, .ctx = node};
}

/* ---- messages ---- */

static bool has_role(const struct node *node, enum core_role role)
{
    return (role == CORE_WORKER && node->has_worker) || (role == CORE_SERVER && node->has_server) ||
           (role == CORE_COORDINATOR && node->has_coordinator) || role == CORE_MEMBER;
}

/* Whatever still comes from a node that has departed is dropped. */
static bool is_dropped(const struct node *node, const struct message *message)
{
    return node->over || message->from >= node->layout->nodes ||
           watch_departed(&node->member.watch, message->from) || !has_role(node, message->role);
}

struct core_ref node_landing(struct node *node, const struct message *message)
{
    if (is_dropped(node, message))
        return (struct core_ref){.space = CORE_NOWHERE};
    if (message->role == CORE_WORKER)
        return worker_landing(&node->worker, message);
    if (message->role == CORE_SERVER)
        return server_landing(&node->server, message);
    return (struct core_ref){.space = CORE_NOWHERE};
}

void node_lost(struct node *node, const struct message *message)
{
    /* Also of those who have departed: what they had claimed is free for relays. */
    if (message->role == CORE_WORKER && node->has_worker)
        worker_lost(&node->worker, message);
    if (message->role == CORE_SERVER && node->has_server)
        server_lost(&node->server, message);
}

bool node_adds(struct node *node, const struct message *message)
{
    return !is_dropped(node, message) && server_adds(&node->server, message);
}

/* What only the coordinator may say, and it alone: it runs on node 0. */
static bool is_command(const struct message *message)
{
    return message->role == CORE_MEMBER
               ? message->kind != WIRE_HEARTBEAT
               : message->kind == WIRE_MARK || message->kind == WIRE_DECISION;
}

static void take_member(struct node *node, uint64_t now, const struct message *message,
                        const struct core_out *out)
{
    bool fresh = message->kind == WIRE_VIEW && message->view > node->member.view;
    if (message->kind == WIRE_START && !node->member.started)
        watch_start(&node->member.watch, now);
    node->told = message->kind == WIRE_FAILED || message->kind == WIRE_REFUSED ||
                 message->kind == WIRE_EVICTED;
    member_message(&node->member, message, out);
    if (fresh && node->has_worker)
        worker_view(&node->worker, message, out);
    if (fresh && node->has_server)
        server_view(&node->server, message->set, out);
}

void node_message(struct node *node, uint64_t now, const struct message *message,
                  const struct core_out *host)
{
    struct core_out out = begin(node, host);
    if (!node->over && node->has_coordinator && message->from < node->layout->nodes &&
        (watch_departed(&node->member.watch, message->from) || message->role == CORE_COORDINATOR)) {
        /* Also what the departed say: they are told that they are out. */
        if (!watch_departed(&node->member.watch, message->from))
            watch_heard(&node->member.watch, message->from, now);
        coordinator_message(&node->coordinator, message, &out);
        return;
    }
    if (is_dropped(node, message) || (is_command(message) && message->from != 0))
        return;
    watch_heard(&node->member.watch, message->from, now);
    if (message->role == CORE_WORKER)
        worker_message(&node->worker, message, &out);
    else if (message->role == CORE_SERVER)
        server_message(&node->server, message, &out);
    else
        take_member(node, now, message, &out);
}

void node_done(struct node *node, const struct core_op *op, const struct core_out *host)
{
    struct core_out out = begin(node, host);
    if (node->over)
        return;
    if (op->role == CORE_WORKER)
        worker_done(&node->worker, op, &out);
    else
        server_done(&node->server, op, &out);
}

/* ---- time ---- */

void node_join(struct node *node, uint64_t now, const struct core_out *host)
{
    struct core_out out = begin(node, host);
    node->member.watch.ticked = now;
    member_join(&node->member, &out);
}

void node_gone(struct node *node, uint32_t other, uint64_t now)
{
    if (node->member.started)
        watch_gone(&node->member.watch, other, now);
}

void node_tick(struct node *node, uint64_t now, const struct core_out *host)
{
    struct core_out out = begin(node, host);
    if (node->over)
        return;
    watch_tick(&node->member.watch, now);
    if (node->has_worker && !node->member.ended)
        worker_tick(&node->worker, &node->member.watch, now, &out);
    if (node->has_server && !node->member.ended)
        server_tick(&node->server, &node->member.watch, now, &out);
    member_tick(&node->member, now, &out);
    if (node->has_coordinator && !node->over)
        coordinator_tick(&node->coordinator, &node->member.watch, now, &out);
}

/* ---- the caller's side ---- */

void node_start(struct node *node, const struct core_out *host)
{
    struct core_out out = begin(node, host);
    worker_start(&node->worker, &out);
}

tri_status node_update(struct node *node, uint32_t layer, const struct worker_update *update,
                       const struct core_out *host, tri_error *err)
{
    struct core_out out = begin(node, host);
    return worker_update(&node->worker, layer, update, &out, err);
}

bool node_sync(struct node *node, uint32_t layer, const struct core_out *host)
{
    struct core_out out = begin(node, host);
    return worker_sync(&node->worker, layer, &out);
}

void node_clock(struct node *node, const struct core_out *host)
{
    struct core_out out = begin(node, host);
    worker_clock(&node->worker, &out);
}

void node_checksum(struct node *node, uint32_t crc, const struct core_out *host)
{
    struct core_out out = begin(node, host);
    worker_checksum(&node->worker, crc, &out);
}

void node_close(struct node *node, const struct core_out *host)
{
    struct core_out out = begin(node, host);
    worker_close(&node->worker, &out);
}

void node_mark(struct node *node, uint64_t at, const struct core_out *host)
{
    struct core_out out = begin(node, host);
    if (node->has_coordinator)
        coordinator_mark(&node->coordinator, at, &out);
}
