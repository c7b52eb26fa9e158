/* A node's life: its thread, the caller's calls, and how it ends. */
#include "run/host.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "os/clock.h"
#include "os/random.h"
#include "run/inside.h"
#include "run/trace.h"
#include "wire/hash.h"
#include "wire/hello.h"

uint8_t host_roles(const struct host *host)
{
    const struct host_options *options = &host->options;
    unsigned roles = options->node == 0 ? WIRE_ROLE_COORDINATOR : 0;
    if (options->node < options->workers)
        roles |= WIRE_ROLE_WORKER;
    if (options->node >= options->workers || options->node < options->colocated)
        roles |= WIRE_ROLE_SERVER;
    return (uint8_t)roles;
}

/* ---- what the core asks for ---- */

void host_wake(struct host *host)
{
    if (!host->threaded || !pthread_equal(pthread_self(), host->thread))
        host->transport_ops->wake(host->transport);
}

/* The core has given a node up. Node 0 goes on talking to it, to say so. */
static void drop(struct host *host, uint32_t number)
{
    struct peer *peer = &host->peers[number];
    if (peer->departed || number == host->options.node)
        return;
    peer->departed = true;
    host_purge(host, number, false);
    peer->to_drop = host->options.node != 0 && number != 0;
    host_wake(host);
    flight_note(host->flight,
                (struct flight_event){.kind = FLIGHT_LEFT, .node = number, .layer = FLIGHT_NONE});
    if (!host->options.stop_on_failure) {
        log_write(&host->log, LOG_WARN, "going on without %s", host_place(host, number).text);
        return;
    }
    char text[100];
    (void)snprintf(text, sizeof text, "%s is lost, and the job is not to go on without it",
                   host_name(host, number).text);
    host_fail(host, TRI_EPEER, text);
}

/* Said once to the user of node 0, as it knows why; and as often as it speaks to who is out. */
static void tell_eviction(struct host *host, uint32_t number, const struct message *message)
{
    struct peer *peer = &host->peers[number];
    if (peer->evicted || number == host->options.node)
        return;
    peer->evicted = true;
    log_write(&host->log, LOG_WARN, "%.*s (it is at %.100s)", (int)message->len,
              (const char *)message->bytes, host_address(host, number));
}

static void send_action(struct host *host, const struct core_action *action)
{
    const struct message *message = &action->message;
    if (message->kind == WIRE_EVICTED)
        tell_eviction(host, action->to, message);
    host_send(host, action->to, message, action->ref);
}

/* A wait that takes long, and where those are that it is for. */
static void tell_wait(struct host *host, const struct core_action *action)
{
    char places[240];
    memcpy(host->wait, action->text, sizeof host->wait);
    flight_note(host->flight, (struct flight_event){.kind = FLIGHT_WAIT,
                                                    .node = FLIGHT_NONE,
                                                    .layer = action->layer,
                                                    .text = action->text});
    host_places(host, action->text, 4, places, sizeof places);
    log_write(&host->log, LOG_WARN, "%s%s%s", action->text, places[0] != '\0' ? "; " : "", places);
}

static void emit(void *ctx, const struct core_action *action)
{
    struct host *host = ctx;
    if (host->trace != NULL)
        trace_action(host->trace, action);
    switch (action->kind) {
    case CORE_SEND:
        send_action(host, action);
        break;
    case CORE_OP:
        event_op(host, FLIGHT_OP, &action->op);
        work_add(host, &action->op);
        break;
    case CORE_WAKE:
        pthread_cond_broadcast(&host->changed);
        break;
    case CORE_WAIT:
        tell_wait(host, action);
        break;
    case CORE_DROP:
        drop(host, action->to);
        break;
    case CORE_COMMIT:
        if (host->save != NULL)
            save_commit(host->save, action->clock);
        pthread_cond_broadcast(&host->changed);
        break;
    case CORE_FAIL:
        host_fail(host, action->status, action->text);
        break;
    }
}

struct core_out host_out(struct host *host)
{
    return (struct core_out){.emit = emit, .ctx = host};
}

/* ---- the node's thread ---- */

/* host_start() has made a core: from here on it lives. */
static void begin(struct host *host)
{
    const struct agreement *agreement = host->agreement;
    host->convert.layout = agreement->layout;
    host->convert.limits = convert_limits(agreement->layout);
    host->convert.plan = agreement->plan_hash;
    host->phase = HOST_RUNNING;
    host->has_core = true;
    /* Who has no program learns from node 0 what the job is. */
    for (uint32_t n = host->options.workers; host->options.node == 0 && n < host->nodes; n++) {
        struct message book = {.kind = WIRE_BOOK, .role = CORE_MEMBER};
        host_send(host, n, &book, (struct core_ref){.space = CORE_NOWHERE});
    }
    host->ticked = clock_us();
    event_join(host, host->ticked);
    host_replay(host);
    for (uint32_t n = 1; host->options.node == 0 && n < host->nodes; n++)
        if (host->peers[n].down)
            calls_lost_early(host, n);
}

static void drop_connections(struct host *host)
{
    for (uint32_t n = 0; n < host->nodes; n++)
        if (host->peers[n].to_drop) {
            host->peers[n].to_drop = false;
            host->transport_ops->drop(host->transport, n);
        }
}

static void tick(struct host *host)
{
    uint64_t now = clock_us();
    struct core_times times = host->core.member.watch.times;
    if (now - host->ticked < core_period(&times, &host->agreement->rules))
        return;
    host->ticked = now;
    event_tick(host, now);
}

/* What is to be done between two polls. */
static void turn(struct host *host)
{
    if (host->phase == HOST_STARTING)
        begin(host);
    if (host->phase != HOST_RUNNING)
        return;
    do
        host_deliver_local(host);
    while (host->helper_count == 0 && work_one(host, CORE_SERVER, host->scratch));
    tick(host);
    host_deliver_local(host);
    drop_connections(host);
}

/* Milliseconds until the next tick. */
static int patience(const struct host *host)
{
    if (host->phase != HOST_RUNNING)
        return -1;
    if (host->local != NULL || (host->helper_count == 0 && host->ops[1].first != NULL))
        return 0;
    struct core_times times = host->core.member.watch.times;
    uint64_t period = core_period(&times, &host->agreement->rules);
    uint64_t past = clock_us() - host->ticked;
    return past >= period ? 0 : (int)((period - past) / 1000) + 1;
}

static void *live(void *ctx)
{
    struct host *host = ctx;
    pthread_mutex_lock(&host->lock);
    while (!host->quit) {
        tri_error err = {0};
        int timeout_ms = patience(host);
        pthread_mutex_unlock(&host->lock);
        tri_status status = host->transport_ops->poll(host->transport, timeout_ms, &err);
        pthread_mutex_lock(&host->lock);
        if (status != TRI_OK) {
            host_fail_as(host, &err);
            break;
        }
        turn(host);
    }
    pthread_mutex_unlock(&host->lock);
    return NULL;
}

/* ---- opening ---- */

static tri_status copy_texts(struct host *host, tri_error *err)
{
    struct host_options *options = &host->options;
    const char **texts[] = {&options->job, &options->coordinator, &options->listen, &options->trace,
                            &options->flight};
    bool ok = true;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (*texts[i] != NULL) {
            *texts[i] = mem_text(host->mem, *texts[i], strlen(*texts[i]));
            ok = ok && *texts[i] != NULL;
        }
    return ok ? TRI_OK : fail_nomem(err, "a node");
}

static tri_status make(struct host *host, tri_error *err)
{
    pthread_condattr_t attributes;
    tri_status status = copy_texts(host, err);
    if (status != TRI_OK)
        return status;
    host->log.job = host->options.job;
    host->early_end = &host->early;
    host->local_end = &host->local;
    host->calls = host_calls;
    host->calls.ctx = host;
    host->convert = (struct convert){.limits = wire_widest, .node = host->options.node};
    host->convert.job = wire_hash64(WIRE_HASH_START, host->options.job, strlen(host->options.job));
    buf_init(&host->book, host->mem);
    if (host->options.flight != NULL && strcmp(host->options.flight, "off") != 0) {
        host->flight = flight_new(host->mem);
        if (host->flight == NULL)
            return fail_nomem(err, "a node");
    }
    host->peers = mem_array(host->mem, host->nodes, sizeof *host->peers);
    if (host->peers == NULL)
        return fail_nomem(err, "a node");
    for (uint32_t n = 0; n < host->nodes; n++) {
        queue_init(&host->peers[n].control, host->mem);
        queue_init(&host->peers[n].values, host->mem);
    }
    (void)pthread_mutex_init(&host->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&host->changed, &attributes);
    (void)pthread_cond_init(&host->work, &attributes);
    (void)pthread_cond_init(&host->to_copy, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return random_bytes(&host->incarnation, sizeof host->incarnation, err);
}

static const char *plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

/* Once per change of state, to the recorder and the log. */
__attribute__((format(printf, 2, 3))) static void host_phase(struct host *host, const char *format,
                                                             ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    flight_note(host->flight,
                (struct flight_event){
                    .kind = FLIGHT_PHASE, .node = FLIGHT_NONE, .layer = FLIGHT_NONE, .text = text});
    log_write(&host->log, LOG_INFO, "%s", text);
}

/* With the lock, so that the thread sees who it is before it does anything. */
static tri_status start_thread(struct host *host, tri_error *err)
{
    pthread_mutex_lock(&host->lock);
    int wrong = pthread_create(&host->thread, NULL, live, host);
    host->threaded = wrong == 0;
    pthread_mutex_unlock(&host->lock);
    errno = wrong;
    return wrong == 0 ? TRI_OK : fail_errno(err, TRI_EIO, "cannot start a thread");
}

/* Waits for the others, and says whom it has met. */
static tri_status meet(struct host *host, tri_error *err)
{
    const struct host_options *options = &host->options;
    tri_error own = {0};
    tri_status status = join_wait(host, &own);
    pthread_mutex_lock(&host->lock);
    if (status != TRI_OK && host->status != TRI_OK)
        (void)host_tell(host, &own);
    else if (status != TRI_OK)
        flight_write(host, &own);
    else
        host_phase(host,
                   "joined job '%.60s' as %s, listening at %.80s: %u worker%s, %u server%s, %u "
                   "process%s; rank 0 is at %.80s",
                   options->job, host_name(host, options->node).text,
                   host_address(host, options->node), options->workers, plural(options->workers),
                   options->servers, plural(options->servers), host->nodes,
                   host->nodes == 1 ? "" : "es", options->coordinator);
    pthread_mutex_unlock(&host->lock);
    if (status != TRI_OK && err != NULL)
        *err = own;
    return status;
}

tri_status host_open(const struct host_options *options, struct host **out, tri_error *err)
{
    struct host *host = mem_array(options->mem, 1, sizeof *host);
    if (host == NULL)
        return fail_nomem(err, "a node");
    host->mem = options->mem;
    host->options = *options;
    host->transport_ops = transport_find(options->transport);
    host->log = options->log;
    host->nodes = options->workers + options->servers - options->colocated;
    tri_status status = make(host, err);
    if (status == TRI_OK && host->transport_ops == NULL) {
        status = fail(err, TRI_EINPUT, "there is no transport '%.40s'", options->transport);
        fail_next(err, "choose one of trident modules transport");
    }
    if (status == TRI_OK)
        status = join_open(host, err);
    if (status == TRI_OK)
        status = start_thread(host, err);
    if (status == TRI_OK)
        status = meet(host, err);
    if (status == TRI_OK)
        *out = host;
    else
        host_close(host);
    return status;
}

/* ---- starting ---- */

static void open_trace(struct host *host, const struct node_options *node)
{
    if (host->options.trace == NULL)
        return;
    struct trace_options options = {.mem = host->mem,
                                    .log = &host->log,
                                    .path = host->options.trace,
                                    .node = node,
                                    .convert = &host->convert,
                                    .book = host->convert.book};
    host->trace = trace_open(&options);
}

static tri_status make_core(struct host *host, const struct store_layer *layers, tri_error *err)
{
    const struct agreement *agreement = host->agreement;
    const struct host_options *options = &host->options;
    uint64_t beat = (uint64_t)options->heartbeat_ms * 1000;
    uint64_t limit = (uint64_t)options->timeout_ms * 1000;
    /* Said before a wait ends, so that its error can name who is missing. */
    uint64_t warn = 10 * beat < limit ? 5 * beat : limit / 2;
    struct node_options node = {.layout = agreement->layout,
                                .rules = agreement->rules,
                                .times = {.heartbeat = beat, .warn = warn, .start = limit},
                                .number = options->node,
                                .first = host->first,
                                .steps = host->steps,
                                .layers_hash = agreement->layers_hash,
                                .plan_hash = agreement->plan_hash,
                                .incarnation = host->incarnation};
    tri_status status = node_check(agreement->layout, &agreement->rules, err);
    if (status == TRI_OK)
        status = node_init(&host->core, &node, host->mem, err);
    if (status != TRI_OK)
        return status;
    host->made_core = true;
    open_trace(host, &node);
    if (host->core.has_worker) {
        bool each = agreement->rules.consistency != NULL && agreement->rules.consistency->each_push;
        struct store_worker_options worker = {.layout = agreement->layout,
                                              .rules = agreement->rules,
                                              .optim = agreement->optim,
                                              .layers = layers,
                                              .copy_gradients = each};
        status = store_worker_init(&host->worker, &worker, host->mem, err);
        if (status == TRI_OK)
            status = forms_init(&host->forms, agreement->layout, host->mem, err);
    }
    if (status == TRI_OK && host->core.has_server) {
        struct store_server_options server = {.layout = agreement->layout,
                                              .rules = agreement->rules,
                                              .optim = agreement->optim,
                                              .number = host->core.server.number};
        status = store_server_init(&host->server, &server, host->mem, err);
    }
    if (status != TRI_OK)
        return status;
    host->scratch = mem_array(host->mem, 1, store_scratch_bytes(agreement->layout));
    return host->scratch != NULL ? TRI_OK : fail_nomem(err, "a node");
}

/* The node's thread begins after it. */
static tri_status prepare(struct host *host, const struct store_layer *layers, tri_error *err)
{
    const struct agreement *agreement = host->agreement;
    host->convert.means = agreement->rules.aggregate || agreement->rules.replicated;
    host->convert.layers = agreement->layers_hash;
    host->convert.hello =
        (struct convert_data){(const uint8_t *)agreement->hello.data, agreement->hello.len};
    tri_status status = agree_encode(agreement, &host->book, err);
    host->convert.book = (struct convert_data){(const uint8_t *)host->book.data, host->book.len};
    if (status == TRI_OK)
        status = make_core(host, layers, err);
    if (status == TRI_OK)
        status = work_start(host, err);
    if (status != TRI_OK)
        return status;
    host->phase = HOST_STARTING;
    host_wake(host);
    return TRI_OK;
}

static bool has_started(const struct host *host)
{
    return host->has_core && host->core.member.started;
}

static bool has_values(const struct host *host)
{
    return worker_started(&host->core.worker) &&
           (host->options.node != 0 || (host->waiting_out == 0 && host->local == NULL));
}

tri_status host_wait_until(struct host *host, bool (*is_so)(const struct host *host),
                           uint32_t timeout_ms)
{
    struct timespec until = clock_after_ms(timeout_ms);
    int timed_out = 0;
    while (!is_so(host) && host->status == TRI_OK && timed_out == 0)
        if (!work_help(host))
            timed_out = pthread_cond_timedwait(&host->changed, &host->lock, &until);
    if (host->status != TRI_OK)
        return host->status;
    return is_so(host) ? TRI_OK : TRI_ETIMEOUT;
}

static tri_status fail_wait(struct host *host, const char *what, tri_error *err)
{
    tri_error own = {0};
    char places[sizeof own.where];
    fail(&own, TRI_ETIMEOUT, "waited %.3g s in vain for %s", host->options.timeout_ms / 1e3, what);
    host_places(host, host->wait, 4, places, sizeof places);
    fail_where(&own, "%s", places);
    fail_why(&own, "%s", host->wait);
    fail_next(&own, "see what they do; TRIDENT_TIMEOUT_MS makes it wait longer");
    flight_note(host->flight, (struct flight_event){.kind = FLIGHT_FAILURE,
                                                    .what = (uint8_t)-TRI_ETIMEOUT,
                                                    .node = FLIGHT_NONE,
                                                    .layer = FLIGHT_NONE,
                                                    .text = own.text});
    flight_write(host, &own);
    if (err != NULL)
        *err = own;
    return TRI_ETIMEOUT;
}

/* A wait of the caller's, by name. */
static tri_status await(struct host *host, bool (*is_so)(const struct host *host), const char *what,
                        tri_error *err)
{
    tri_status status = host_wait_until(host, is_so, host->options.timeout_ms);
    if (status == TRI_ETIMEOUT && host->status == TRI_OK)
        return fail_wait(host, what, err);
    return status == TRI_OK ? TRI_OK : host_tell(host, err);
}

/* "plan agreed: 3 layers (2 ps, 1 sfb), 5 MB of parameters, bsp, sgd" */
static void tell_plan(struct host *host)
{
    const struct agreement *agreement = host->agreement;
    char schemes[120] = "";
    size_t used = 0;
    uint64_t floats = 0;
    for (uint32_t l = 0; l < agreement->count; l++)
        floats += agreement->layout->layers[l].floats;
    for (size_t i = 0; scheme_at(i) != NULL && used < sizeof schemes; i++) {
        uint32_t count = 0;
        for (uint32_t l = 0; l < agreement->count; l++)
            count += strcmp(agree_scheme(agreement, l), scheme_at(i)->name) == 0;
        int len = count == 0 ? 0
                             : snprintf(schemes + used, sizeof schemes - used, "%s%u %s",
                                        used > 0 ? ", " : "", count, scheme_at(i)->name);
        used += len > 0 ? (size_t)len : 0;
    }
    host_phase(host, "plan agreed: %u layer%s (%s), %llu parameters, %s, %s", agreement->count,
               plural(agreement->count), schemes, (unsigned long long)floats,
               agreement->rules.consistency != NULL ? agreement->rules.consistency->name : "bsp",
               agreement->rules.aggregate ? "means" : agreement->optim.ops->name);
}

/* Where the job begins is node 0's to say. */
static tri_status find_beginning(struct host *host, const struct host_job *job, tri_error *err)
{
    if (host->options.node == 0)
        return state_tell(host, job, err);
    tri_status status = await(host, state_is_told, "rank 0 to say where the job begins", err);
    return status == TRI_OK ? state_hear(host, job, err) : status;
}

/* Node 0: the optimiser's state to those who keep it, before anybody can step. */
static tri_status give_state(struct host *host, const struct host_job *job, tri_error *err)
{
    host->from = job->from;
    state_give(host);
    tri_status status = await(host, state_is_given, "the optimiser's state to arrive", err);
    host->from = NULL;
    return status;
}

tri_status host_start(struct host *host, const struct host_job *job, tri_error *err)
{
    pthread_mutex_lock(&host->lock);
    host->agreement = job->agreement;
    tri_status status = find_beginning(host, job, err);
    if (status == TRI_OK)
        status = prepare(host, job->layers, err);
    if (status == TRI_OK)
        status = await(host, has_started, "the others to start", err);
    if (status == TRI_OK)
        tell_plan(host);
    if (status == TRI_OK && job->from != NULL)
        status = give_state(host, job, err);
    if (status == TRI_OK && host->options.node == 0)
        event_start(host);
    host->stats.clocks = host->first;
    if (status == TRI_OK)
        status = await(host, has_values, "initial values", err);
    if (status == TRI_OK)
        host_phase(host, "initial values are the same everywhere: training begins");
    pthread_mutex_unlock(&host->lock);
    return status;
}

/* ---- a node without a worker ---- */

/* Heartbeats of workers that are quicker than node 0 may come before it. */
static bool has_book(const struct host *host)
{
    const struct incoming *incoming = host->early;
    while (incoming != NULL && incoming->message.kind != WIRE_BOOK)
        incoming = incoming->next;
    return incoming != NULL;
}

static bool has_ended(const struct host *host)
{
    return host->core.member.ended;
}

tri_status host_serve(struct host *host, tri_error *err)
{
    pthread_mutex_lock(&host->lock);
    tri_status status = await(host, has_book, "the book of node 0", err);
    struct incoming *book = status == TRI_OK ? host_take_early(host, WIRE_BOOK) : NULL;
    if (book != NULL) {
        status = agree_decode(&book->header, book->data, host->mem, &host->agreement, err);
        host_put_back(host, book);
    }
    if (status == TRI_OK)
        status = await(host, state_is_told, "node 0 to say where the job begins", err);
    if (status == TRI_OK)
        status = state_hear(host, NULL, err);
    if (status == TRI_OK)
        status = prepare(host, NULL, err);
    while (status == TRI_OK && !has_ended(host)) {
        status = host_wait_until(host, has_ended, 60000);
        if (status == TRI_ETIMEOUT && host->status == TRI_OK)
            status = TRI_OK;
    }
    if (host->status != TRI_OK)
        status = host_tell(host, err);
    pthread_mutex_unlock(&host->lock);
    return status;
}

/* ---- the loop ---- */

/* Puts the values where the core will send them from. The slot, or the pointer to the gradient,
 * is the caller's alone until the update is given. */
static tri_status put(struct host *host, uint32_t layer, struct core_ref slot,
                      const struct update *update, tri_error *err)
{
    const struct layout_layer *shape = &host->agreement->layout->layers[layer];
    if (shape->form == TRI_FORM_FACTORS) {
        struct store_factors factors = store_worker_slot(&host->worker, slot);
        memcpy(factors.u, update->u, (size_t)update->factor_rows * shape->rows * sizeof *factors.u);
        memcpy(factors.v, update->v, (size_t)update->factor_rows * shape->cols * sizeof *factors.v);
        return TRI_OK;
    }
    struct update dense = *update;
    tri_status status = forms_make_dense(&host->forms, layer, &dense, err);
    if (status == TRI_OK)
        store_worker_gradient(&host->worker, layer, dense.dense, dense.dense_bias);
    return status;
}

static tri_status fail_form(const struct layout_layer *shape, tri_error *err)
{
    fail(err, TRI_EARG, "layer '%.60s' travels as factors, and got another form", shape->name);
    fail_next(err, "give u and v, as tri_scheme_of() tells, or describe the layer with "
                   "max_factor_rows = 0");
    return TRI_EARG;
}

static tri_status give(struct host *host, uint32_t layer, const struct update *update,
                       tri_error *err)
{
    const struct layout_layer *shape = &host->agreement->layout->layers[layer];
    bool factors = shape->form == TRI_FORM_FACTORS;
    struct worker_update given = {.count = update->count,
                                  .lr = update->lr,
                                  .rows = factors ? update->factor_rows : 0,
                                  .params_busy = update->params_busy};
    if (factors && update->u == NULL)
        return fail_form(shape, err);
    tri_status status = worker_may_update(&host->core.worker, layer, &given, err);
    if (status != TRI_OK)
        return status;
    struct core_ref slot = worker_slot(&host->core.worker, layer);
    pthread_mutex_unlock(&host->lock);
    status = put(host, layer, slot, update, err);
    pthread_mutex_lock(&host->lock);
    if (status == TRI_OK)
        status =
            host->status == TRI_OK ? event_update(host, layer, &given, err) : host_tell(host, err);
    return status;
}

tri_status host_update(struct host *host, uint32_t layer, const struct update *update,
                       tri_error *err)
{
    pthread_mutex_lock(&host->lock);
    tri_status status =
        host->status == TRI_OK ? give(host, layer, update, err) : host_tell(host, err);
    pthread_mutex_unlock(&host->lock);
    return status;
}

static tri_status fail_sync(struct host *host, uint32_t layer, tri_error *err)
{
    char what[140];
    (void)snprintf(what, sizeof what, "layer '%.60s' at clock %llu",
                   host->agreement->layout->layers[layer].name,
                   (unsigned long long)host->core.worker.clock);
    return fail_wait(host, what, err);
}

/* A wait that the user was told of is over. */
static void end_wait(struct host *host, uint32_t layer, double waited_s)
{
    if (host->wait[0] == '\0')
        return;
    host->wait[0] = '\0';
    log_write(&host->log, LOG_INFO, "layer '%.60s' is there after %.1f s",
              host->agreement->layout->layers[layer].name, waited_s);
}

tri_status host_sync(struct host *host, uint32_t layer, tri_error *err)
{
    int timed_out = 0;
    pthread_mutex_lock(&host->lock);
    bool there = host->status == TRI_OK && event_sync(host, layer);
    if (there || host->status != TRI_OK) {
        tri_status status = there ? TRI_OK : host_tell(host, err);
        pthread_mutex_unlock(&host->lock);
        return status;
    }
    double since = clock_seconds();
    struct timespec until = clock_after_ms(host->options.timeout_ms);
    event_waits(host, layer);
    while (!there && host->status == TRI_OK && timed_out == 0) {
        if (!work_help(host))
            timed_out = pthread_cond_timedwait(&host->changed, &host->lock, &until);
        there = host->status == TRI_OK && event_sync(host, layer);
    }
    host->stats.wait_s += clock_seconds() - since;
    if (there)
        end_wait(host, layer, clock_seconds() - since);
    tri_status status = there                    ? TRI_OK
                        : host->status != TRI_OK ? host_tell(host, err)
                                                 : fail_sync(host, layer, err);
    pthread_mutex_unlock(&host->lock);
    return status;
}

tri_status host_clock(struct host *host, uint64_t *clock, tri_error *err)
{
    pthread_mutex_lock(&host->lock);
    tri_status status = host->status;
    if (status == TRI_OK) {
        event_clock(host);
        status = host->status;
    }
    if (status == TRI_OK) {
        *clock = host->core.worker.clock;
        host->stats.clocks = *clock;
        saving_ask(host);
    } else {
        (void)host_tell(host, err);
    }
    pthread_mutex_unlock(&host->lock);
    return status;
}

void host_checksum(struct host *host, uint32_t crc)
{
    pthread_mutex_lock(&host->lock);
    if (host->status == TRI_OK)
        event_checksum(host, crc);
    pthread_mutex_unlock(&host->lock);
}

const struct agreement *host_agreement(const struct host *host)
{
    return host->agreement;
}

static uint32_t live_workers(const struct host *host)
{
    uint32_t live = 0;
    for (uint32_t r = 0; r < host->options.workers; r++)
        live += !watch_departed(&host->core.member.watch, r);
    return live;
}

void host_get_stats(struct host *host, struct host_stats *out)
{
    pthread_mutex_lock(&host->lock);
    *out = host->stats;
    if (host->has_core) {
        out->view = host->core.member.view;
        out->live_workers = live_workers(host);
    }
    pthread_mutex_unlock(&host->lock);
}

uint64_t host_first(const struct host *host)
{
    return host->first;
}

/* ---- closing ---- */

static bool is_flushed(const struct host *host)
{
    return host->waiting_out == 0 && host->local == NULL;
}

/* The last words: that this worker is done, or why it failed. */
static void say_goodbye(struct host *host)
{
    if (host->status == TRI_OK && has_started(host) && host->core.has_worker) {
        host_phase(host, "closing after clock %llu", (unsigned long long)host->core.worker.clock);
        event_close(host);
        if (host_wait_until(host, has_ended, host->options.timeout_ms) == TRI_OK)
            host_phase(host, "the job has ended: %u of %u workers came through", live_workers(host),
                       host->options.workers);
        else if (host->status == TRI_OK)
            (void)fail_wait(host, "the others to close", NULL);
        (void)host_wait_until(host, saving_is_over, host->options.timeout_ms);
    }
    struct timespec until = clock_after_ms(host->status == TRI_OK ? host->options.timeout_ms : 500);
    int timed_out = 0;
    while (!is_flushed(host) && timed_out == 0)
        timed_out = pthread_cond_timedwait(&host->changed, &host->lock, &until);
}

void host_refuse(struct host *host, const tri_error *why)
{
    struct message message = {.kind = WIRE_FAILED,
                              .role = CORE_MEMBER,
                              .status = why->status,
                              .bytes = (const uint8_t *)why->text,
                              .len = strlen(why->text)};
    struct timespec until = clock_after_ms(2000);
    int timed_out = 0;
    pthread_mutex_lock(&host->lock);
    for (uint32_t n = 1; n < host->nodes; n++)
        host_send(host, n, &message, (struct core_ref){.space = CORE_NOWHERE});
    while (!is_flushed(host) && timed_out == 0)
        timed_out = pthread_cond_timedwait(&host->changed, &host->lock, &until);
    pthread_mutex_unlock(&host->lock);
}

static void stop_thread(struct host *host)
{
    pthread_mutex_lock(&host->lock);
    host->closing = true;
    if (host->has_core)
        say_goodbye(host);
    if (host->status != TRI_OK)
        flight_write(host, &host->err); /* if no call has told it */
    host->quit = true;
    host_wake(host);
    pthread_mutex_unlock(&host->lock);
    (void)pthread_join(host->thread, NULL);
}

void host_close(struct host *host)
{
    if (host == NULL)
        return;
    if (host->threaded)
        stop_thread(host);
    work_stop(host);
    if (host->transport != NULL)
        host->transport_ops->close(host->transport);
    host_messages_fini(host);
    state_fini(host);
    trace_close(host->trace);
    flight_free(host->flight);
    if (host->made_core)
        node_fini(&host->core);
    forms_fini(&host->forms);
    store_worker_fini(&host->worker);
    store_server_fini(&host->server);
    agree_free(host->agreement);
    buf_fini(&host->book);
    mem_free(host->mem, host->scratch);
    mem_free(host->mem, host->steps);
    (void)pthread_mutex_destroy(&host->lock);
    (void)pthread_cond_destroy(&host->changed);
    (void)pthread_cond_destroy(&host->work);
    (void)pthread_cond_destroy(&host->to_copy);
    mem_free(host->mem, host->peers);
    mem_free(host->mem, (void *)host->options.job);
    mem_free(host->mem, (void *)host->options.coordinator);
    mem_free(host->mem, (void *)host->options.listen);
    mem_free(host->mem, (void *)host->options.trace);
    mem_free(host->mem, (void *)host->options.flight);
    mem_free(host->mem, host);
}
