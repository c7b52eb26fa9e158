/* Events, devices and links of a timed job. */
#include "sim/timed.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "core/node.h"
#include "core/queue.h"
#include "mod/consistency.h"

/* A message on its way, or an operation under way. */
struct parcel {
    uint32_t from, to;
    double bytes;  /* on the wire */
    double values; /* bytes of values in it */
    struct message message;
    struct core_ref ref;
    struct core_op op;
    struct parcel *next; /* in the list of free ones, or of those that take no time */
};

enum timed_kind {
    TIMED_ENCODED,
    TIMED_SENT,
    TIMED_ARRIVES,
    TIMED_ARRIVED,
    TIMED_DELIVERED,
    TIMED_DONE,
    TIMED_LOOP
};

struct timed_event {
    double time;
    uint64_t number;
    enum timed_kind kind;
    uint32_t node;
    struct parcel *parcel;
};

/* Where a worker's loop stands: what it waits for or computes next. */
enum timed_at { AT_START, AT_FORWARD, AT_COMPUTED, AT_BACKWARD, AT_COPIED, AT_DONE };

struct timed_node {
    struct timed *timed;
    struct node core;
    struct queue queue; /* messages to be sent */
    bool sending;
    double out_free, in_free; /* when the link is; shared: out_free is for both */
    double device_free, processor_free;
    enum timed_at at;
    uint32_t layer;
    uint64_t iteration;
    bool scheduled, waiting;
    double scale;           /* of this iteration's compute */
    double first_s, last_s; /* when the first and the last iteration ended */
    double sent, received;
};

struct timed {
    const struct mem *mem;
    const struct plan *plan;
    const struct timed_options *options;
    struct layout *layout;
    struct rng rng;
    struct timed_node *nodes;
    struct timed_event *heap;
    size_t count, cap;
    uint64_t numbers, handled, messages;
    double now;
    bool running; /* before that nothing takes time */
    struct parcel *free, *instant, *instant_end;
    uint32_t working; /* workers that are not done */
    double compute_s;
    tri_status status;
    tri_error error;
};

static void give_up(struct timed *timed, tri_status status, const char *text)
{
    if (timed->status == TRI_OK)
        timed->status = fail(&timed->error, status, "%s", text);
}

/* ---- parcels and events ---- */

static struct parcel *new_parcel(struct timed *timed)
{
    struct parcel *parcel = timed->free;
    if (parcel != NULL)
        timed->free = parcel->next;
    else
        parcel = mem_array(timed->mem, 1, sizeof *parcel);
    if (parcel == NULL)
        give_up(timed, TRI_ENOMEM, "out of memory for a message");
    return parcel;
}

static void put_back(struct timed *timed, struct parcel *parcel)
{
    parcel->next = timed->free;
    timed->free = parcel;
}

static bool before(const struct timed_event *a, const struct timed_event *b)
{
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

static void schedule(struct timed *timed, double time, enum timed_kind kind, uint32_t node,
                     struct parcel *parcel)
{
    void *heap = timed->heap;
    if (mem_grow(timed->mem, &heap, &timed->cap, timed->count + 1, sizeof *timed->heap) == NULL) {
        give_up(timed, TRI_ENOMEM, "out of memory for events");
        if (parcel != NULL)
            put_back(timed, parcel);
        return;
    }
    timed->heap = heap;
    struct timed_event event = {time, timed->numbers++, kind, node, parcel};
    size_t at = timed->count++;
    for (; at > 0 && before(&event, &timed->heap[(at - 1) / 2]); at = (at - 1) / 2)
        timed->heap[at] = timed->heap[(at - 1) / 2];
    timed->heap[at] = event;
}

static struct timed_event next_event(struct timed *timed)
{
    struct timed_event first = timed->heap[0], last = timed->heap[--timed->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < timed->count; at = child) {
        if (child + 1 < timed->count && before(&timed->heap[child + 1], &timed->heap[child]))
            child++;
        if (!before(&timed->heap[child], &last))
            break;
        timed->heap[at] = timed->heap[child];
    }
    timed->heap[at] = last;
    return first;
}

/* Takes a resource for so long, after whoever has it; returns when that ends. */
static double take(double *free_at, double now, double seconds)
{
    *free_at = (*free_at > now ? *free_at : now) + seconds;
    return *free_at;
}

/* ---- links ---- */

static bool has_values(const struct message *message)
{
    return message->kind == WIRE_PUSH || message->kind == WIRE_FACTORS ||
           message->kind == WIRE_RESULT || message->kind == WIRE_NOTHING;
}

/* Bytes of values that a ref stands for: of factors it counts rows. */
static double values_of(const struct timed *timed, struct core_ref ref)
{
    if (ref.space == CORE_NOWHERE)
        return 0;
    if (ref.space != CORE_FACTORS)
        return 4.0 * (double)ref.count;
    const struct layout_layer *layer = &timed->layout->layers[ref.index];
    return 4.0 * (double)ref.count * ((double)layer->rows + layer->cols);
}

static const struct timed_codec *codec_of(const struct timed *timed, const struct message *message)
{
    bool dense = message->kind == WIRE_PUSH || message->kind == WIRE_RESULT;
    return dense && timed->options->codecs != NULL ? &timed->options->codecs[message->layer] : NULL;
}

static void send_next(struct timed_node *node)
{
    struct timed *timed = node->timed;
    const struct timed_options *options = timed->options;
    struct queue_entry entry;
    if (node->sending || !queue_pop(&node->queue, &entry))
        return;
    struct parcel *parcel = entry.tag;
    double cost = has_values(&parcel->message) ? options->message_s : 0;
    double seconds = parcel->bytes / options->bytes_s + cost;
    double end = take(&node->out_free, timed->now, seconds);
    node->sending = true;
    schedule(timed, end, TIMED_SENT, node->core.number, NULL);
    /* Its first byte is there when the last but its own length has left. */
    schedule(timed, end - parcel->bytes / options->bytes_s + options->latency_s, TIMED_ARRIVES,
             parcel->to, parcel);
}

/* What packing a message takes, and unpacking it. */
static double code_seconds(const struct timed *timed, const struct parcel *parcel)
{
    const struct timed_codec *codec = codec_of(timed, &parcel->message);
    return codec != NULL ? parcel->values * codec->code_s : 0;
}

static void enqueue(struct timed_node *node, struct parcel *parcel)
{
    struct timed *timed = node->timed;
    /* Messages that are all alike leave as they came. */
    struct message order = {.kind = WIRE_PUSH};
    if (queue_push(&node->queue, timed->options->fifo ? &order : &parcel->message, &parcel->ref,
                   parcel, NULL) != TRI_OK) {
        put_back(timed, parcel);
        give_up(timed, TRI_ENOMEM, "out of memory for a message");
        return;
    }
    send_next(node);
}

static void take_send(struct timed_node *node, const struct core_action *action)
{
    struct timed *timed = node->timed;
    struct parcel *parcel = new_parcel(timed);
    if (parcel == NULL)
        return;
    const struct timed_codec *codec = codec_of(timed, &action->message);
    parcel->from = node->core.number;
    parcel->to = action->to;
    parcel->message = action->message;
    parcel->values = values_of(timed, action->ref);
    parcel->bytes = parcel->values * (codec != NULL ? codec->ratio : 1);
    parcel->next = NULL;
    if (!timed->running) {
        if (timed->instant_end != NULL)
            timed->instant_end->next = parcel;
        else
            timed->instant = parcel;
        timed->instant_end = parcel;
        return;
    }
    if (parcel->from == parcel->to) {
        schedule(timed, timed->now, TIMED_DELIVERED, parcel->to, parcel);
        return;
    }
    parcel->ref = action->ref;
    if (code_seconds(timed, parcel) > 0)
        schedule(timed, take(&node->processor_free, timed->now, code_seconds(timed, parcel)),
                 TIMED_ENCODED, parcel->from, parcel);
    else
        enqueue(node, parcel);
}

static struct core_out out_of(struct timed_node *node);

/* The first byte of a message is there: it queues for the link of its receiver. */
static void arrive(struct timed *timed, struct parcel *parcel)
{
    struct timed_node *node = &timed->nodes[parcel->to];
    double *link = timed->options->shared ? &node->out_free : &node->in_free;
    double end = take(link, timed->now, parcel->bytes / timed->options->bytes_s);
    bool coded = code_seconds(timed, parcel) > 0;
    schedule(timed, end, coded ? TIMED_ARRIVED : TIMED_DELIVERED, parcel->to, parcel);
}

/* All of a packed message is there. */
static void unpack(struct timed *timed, struct parcel *parcel)
{
    double *processor = &timed->nodes[parcel->to].processor_free;
    schedule(timed, take(processor, timed->now, code_seconds(timed, parcel)), TIMED_DELIVERED,
             parcel->to, parcel);
}

static void deliver(struct timed *timed, struct parcel *parcel)
{
    struct timed_node *node = &timed->nodes[parcel->to];
    struct core_out out = out_of(node);
    if (timed->running && parcel->from != parcel->to && has_values(&parcel->message)) {
        timed->nodes[parcel->from].sent += parcel->bytes;
        node->received += parcel->bytes;
        timed->messages++;
    }
    struct message message = parcel->message;
    message.landed =
        parcel->values > 0 && node_landing(&node->core, &message).space != CORE_NOWHERE;
    node_message(&node->core, 1, &message, &out);
    put_back(timed, parcel);
}

/* ---- operations ---- */

/* Factor rows that a product multiplies. Those of the node's own worker are not among them: their
 * product is a part of its backward pass. */
static double product_rows(const struct timed_node *node, const struct core_op *op)
{
    double rows = 0;
    for (uint32_t r = 0; r < node->timed->layout->workers; r++)
        if (r != node->core.number)
            rows += op->role == CORE_WORKER
                        ? worker_factor_rows(&node->core.worker, op->index, op->clock, r)
                        : server_factor_rows(&node->core.server, op->index, r);
    return rows;
}

static void take_op(struct timed_node *node, const struct core_op *op)
{
    struct timed *timed = node->timed;
    const struct timed_options *options = timed->options;
    const struct layout *layout = timed->layout;
    struct parcel *parcel = new_parcel(timed);
    if (parcel == NULL)
        return;
    parcel->op = *op;
    bool server = op->role == CORE_SERVER;
    uint32_t unit =
        server ? node->core.server.units[op->index].unit : layout->layers[op->index].first_unit;
    const struct layout_layer *layer = &layout->layers[layout->units[unit].layer];
    double end = timed->now;
    if (op->kind == CORE_OP_APPLY || op->kind == CORE_OP_PRODUCT)
        end = take(&node->device_free, timed->now,
                   2 * product_rows(node, op) * layer->rows * layer->cols / options->flops_s);
    else if ((op->kind == CORE_OP_SUM || op->kind == CORE_OP_STEP) && options->memory_bytes_s > 0)
        end = take(&node->processor_free, timed->now,
                   4.0 * (double)layout->units[unit].floats / options->memory_bytes_s);
    schedule(timed, timed->running ? end : timed->now, TIMED_DONE, node->core.number, parcel);
}

/* ---- loops ---- */

static void go_on(struct timed_node *node, double time)
{
    if (node->scheduled || node->at == AT_DONE)
        return;
    node->scheduled = true;
    schedule(node->timed, time, TIMED_LOOP, node->core.number, NULL);
}

static void emit(void *ctx, const struct core_action *action)
{
    struct timed_node *node = ctx;
    switch (action->kind) {
    case CORE_SEND:
        take_send(node, action);
        break;
    case CORE_OP:
        take_op(node, &action->op);
        break;
    case CORE_WAKE:
        if (node->waiting)
            go_on(node, node->timed->now);
        break;
    case CORE_FAIL:
        give_up(node->timed, action->status, action->text);
        break;
    default:
        break;
    }
}

static struct core_out out_of(struct timed_node *node)
{
    return (struct core_out){.emit = emit, .ctx = node};
}

static void update(struct timed_node *node, uint32_t layer)
{
    struct core_out out = out_of(node);
    const struct layout_layer *shape = &node->timed->layout->layers[layer];
    struct worker_update given = {
        .count = node->timed->plan->book->batch, .lr = 1, .rows = shape->factor_rows};
    tri_error err = {0};
    if (node_update(&node->core, layer, &given, &out, &err) != TRI_OK)
        give_up(node->timed, err.status, err.text);
}

/* May the forward pass of a layer begin? With a barrier the first waits for all. */
static bool is_ready(struct timed_node *node)
{
    struct core_out out = out_of(node);
    uint32_t last = node->timed->options->barrier && node->layer == 0
                        ? node->timed->layout->layer_count
                        : node->layer + 1;
    for (uint32_t l = node->layer; l < last; l++)
        if (!node_sync(&node->core, l, &out))
            return false;
    return true;
}

static double copy_seconds(const struct timed *timed)
{
    const struct timed_options *options = timed->options;
    return options->copy_bytes_s > 0
               ? 4.0 * (double)timed->plan->book->profile->params / options->copy_bytes_s
               : 0;
}

static void begin_iteration(struct timed_node *node)
{
    struct timed *timed = node->timed;
    const struct timed_options *options = timed->options;
    node->scale = 1 + options->jitter * (2 * rng_unit(&timed->rng) - 1);
    if (options->slowness != NULL)
        node->scale *= options->slowness[node->core.number];
    node->layer = 0;
    node->at = AT_FORWARD;
}

/* The device computes for so long, after what it is at; then the loop goes on. */
static void compute(struct timed_node *node, double seconds, enum timed_at then)
{
    node->at = then;
    go_on(node, take(&node->device_free, node->timed->now, seconds));
}

static void forward(struct timed_node *node)
{
    struct timed *timed = node->timed;
    node->waiting = !is_ready(node);
    if (node->waiting)
        return;
    double copy = node->layer == 0 && node->iteration > 0 ? copy_seconds(timed) : 0;
    compute(node, copy + node->scale * timed->plan->layers[node->layer].forward_s, AT_COMPUTED);
}

static void end_iteration(struct timed_node *node)
{
    struct timed *timed = node->timed;
    struct core_out out = out_of(node);
    for (uint32_t l = timed->layout->layer_count; !timed->options->overlap && l-- > 0;)
        update(node, l);
    node_clock(&node->core, &out);
    if (node->iteration == 0)
        node->first_s = timed->now;
    node->last_s = timed->now;
    if (++node->iteration == timed->options->iterations) {
        node->at = AT_DONE;
        timed->working--;
        return;
    }
    begin_iteration(node);
    go_on(node, timed->now);
}

static void step(struct timed_node *node)
{
    struct timed *timed = node->timed;
    uint32_t layers = timed->layout->layer_count;
    node->scheduled = false;
    switch (node->at) {
    case AT_START:
        begin_iteration(node);
        forward(node);
        break;
    case AT_FORWARD:
        forward(node);
        break;
    case AT_COMPUTED: /* a layer's forward pass */
        if (++node->layer < layers) {
            node->at = AT_FORWARD;
            forward(node);
        } else {
            node->layer = layers - 1;
            compute(node, node->scale * timed->plan->layers[node->layer].backward_s, AT_BACKWARD);
        }
        break;
    case AT_BACKWARD: /* a layer's backward pass */
        if (timed->options->overlap)
            update(node, node->layer);
        if (node->layer-- > 0)
            compute(node, node->scale * timed->plan->layers[node->layer].backward_s, AT_BACKWARD);
        else
            compute(node, copy_seconds(timed), AT_COPIED);
        break;
    case AT_COPIED:
        end_iteration(node);
        break;
    case AT_DONE:
        break;
    }
}

/* ---- making ---- */

static bool is_stopped(const struct timed *timed)
{
    const struct timed_options *options = timed->options;
    return options->stop != NULL && options->stop(options->stop_ctx);
}

static tri_status make_nodes(struct timed *timed, tri_error *err)
{
    uint64_t hash = layout_hash(timed->layout, core_rules_hash(&timed->options->rules, "sgd"));
    struct node_options options = {.layout = timed->layout,
                                   .rules = timed->options->rules,
                                   .times = {.heartbeat = 1000000},
                                   .layers_hash = hash,
                                   .plan_hash = hash,
                                   .incarnation = 1};
    for (uint32_t n = 0; n < timed->layout->nodes; n++) {
        struct timed_node *node = &timed->nodes[n];
        node->timed = timed;
        queue_init(&node->queue, timed->mem);
        options.number = n;
        if (is_stopped(timed))
            return fail(err, TRI_EPEER, "stopped");
        tri_status status = node_init(&node->core, &options, timed->mem, err);
        if (status != TRI_OK)
            return status;
    }
    return TRI_OK;
}

static tri_status make(struct timed *timed, tri_error *err)
{
    const struct mem *mem = timed->mem;
    tri_status status = layout_make(timed->plan, mem, &timed->layout, err);
    if (status != TRI_OK)
        return status;
    rng_init(&timed->rng, timed->options->seed);
    timed->compute_s = timed->plan->compute_s;
    timed->working = timed->layout->workers;
    timed->nodes = mem_array(mem, timed->layout->nodes, sizeof *timed->nodes);
    if (timed->nodes == NULL)
        return fail_nomem(err, "a timed job");
    return make_nodes(timed, err);
}

static void free_parcels(struct timed *timed, struct parcel *list)
{
    for (struct parcel *parcel = list, *next; parcel != NULL; parcel = next) {
        next = parcel->next;
        mem_free(timed->mem, parcel);
    }
}

static void unmake(struct timed *timed)
{
    for (size_t i = 0; i < timed->count; i++)
        mem_free(timed->mem, timed->heap[i].parcel);
    for (uint32_t n = 0; timed->nodes != NULL && n < timed->layout->nodes; n++) {
        struct timed_node *node = &timed->nodes[n];
        struct queue_entry entry;
        if (node->timed == NULL)
            continue;
        while (queue_pop(&node->queue, &entry))
            mem_free(timed->mem, entry.tag);
        queue_fini(&node->queue);
        node_fini(&node->core);
    }
    free_parcels(timed, timed->free);
    free_parcels(timed, timed->instant);
    mem_free(timed->mem, timed->nodes);
    mem_free(timed->mem, timed->heap);
    layout_free(timed->layout);
}

/* ---- running ---- */

/* Joining, and initial values: they are over when time begins. */
static void run_instant(struct timed *timed)
{
    for (struct parcel *parcel; timed->status == TRI_OK && (parcel = timed->instant) != NULL;) {
        if (timed->handled++ % 4096 == 0 && is_stopped(timed))
            give_up(timed, TRI_EPEER, "stopped");
        timed->instant = parcel->next;
        if (timed->instant == NULL)
            timed->instant_end = NULL;
        deliver(timed, parcel);
    }
}

static void start(struct timed *timed)
{
    for (uint32_t n = 0; n < timed->layout->nodes; n++) {
        struct core_out out = out_of(&timed->nodes[n]);
        node_join(&timed->nodes[n].core, 1, &out);
    }
    run_instant(timed);
    struct core_out out = out_of(&timed->nodes[0]);
    node_start(&timed->nodes[0].core, &out);
    run_instant(timed);
    timed->running = true;
    for (uint32_t r = 0; r < timed->layout->workers; r++)
        go_on(&timed->nodes[r], 0);
}

static void handle(struct timed *timed, const struct timed_event *event)
{
    struct timed_node *node = &timed->nodes[event->node];
    struct core_out out = out_of(node);
    switch (event->kind) {
    case TIMED_ARRIVES:
        arrive(timed, event->parcel);
        break;
    case TIMED_ENCODED:
        enqueue(node, event->parcel);
        break;
    case TIMED_ARRIVED:
        unpack(timed, event->parcel);
        break;
    case TIMED_DELIVERED:
        deliver(timed, event->parcel);
        break;
    case TIMED_SENT:
        node->sending = false;
        send_next(node);
        break;
    case TIMED_DONE: {
        struct core_op op = event->parcel->op;
        put_back(timed, event->parcel);
        node_done(&node->core, &op, &out);
        break;
    }
    case TIMED_LOOP:
        step(node);
        break;
    }
}

static void run(struct timed *timed)
{
    start(timed);
    while (timed->status == TRI_OK && timed->count > 0) {
        struct timed_event event = next_event(timed);
        timed->now = event.time;
        if (timed->handled++ % 4096 == 0 && is_stopped(timed))
            give_up(timed, TRI_EPEER, "stopped");
        handle(timed, &event);
    }
    if (timed->status == TRI_OK && timed->working > 0)
        give_up(timed, TRI_EARG, "stuck: no event is left and the job is not finished");
}

/* Seconds an iteration. Workers in lockstep are done when the last one is; the others each have a
 * pace of their own, and what they do together in a second counts. */
static double pace(const struct timed *timed)
{
    const struct core_rules *rules = &timed->options->rules;
    bool lockstep = rules->consistency == NULL || rules->consistency == consistency_find("bsp");
    double counted = timed->options->iterations - 1, slowest = 0, iterations_s = 0;
    for (uint32_t r = 0; r < timed->layout->workers; r++) {
        const struct timed_node *node = &timed->nodes[r];
        double own = (node->last_s - node->first_s) / counted;
        slowest = fmax(slowest, own);
        iterations_s += 1 / own;
    }
    return lockstep ? slowest : timed->layout->workers / iterations_s;
}

static tri_status report(const struct timed *timed, struct timed_result *result, tri_error *err)
{
    uint32_t nodes = timed->layout->nodes;
    *result = (struct timed_result){.compute_s = timed->compute_s,
                                    .messages = timed->messages,
                                    .events = timed->handled,
                                    .nodes = nodes};
    result->sent = mem_array(timed->mem, nodes, sizeof *result->sent);
    result->received = mem_array(timed->mem, nodes, sizeof *result->received);
    if (result->sent == NULL || result->received == NULL) {
        timed_free(result, timed->mem);
        return fail_nomem(err, "a result");
    }
    result->iteration_s = pace(timed);
    for (uint32_t n = 0; n < nodes; n++) {
        result->sent[n] = timed->nodes[n].sent / timed->options->iterations;
        result->received[n] = timed->nodes[n].received / timed->options->iterations;
    }
    result->stall_s = result->iteration_s - result->compute_s;
    return TRI_OK;
}

tri_status timed_run(const struct plan *plan, const struct timed_options *options,
                     const struct mem *mem, struct timed_result *result, tri_error *err)
{
    struct timed timed = {.mem = mem, .plan = plan, .options = options};
    if (!(plan->compute_s > 0) || options->iterations < 2 || !(options->bytes_s > 0) ||
        !(options->flops_s > 0))
        return fail(err, TRI_EARG, "a timed job needs compute, two iterations, rates above 0");
    tri_status status = make(&timed, err);
    if (status == TRI_OK) {
        run(&timed);
        status = timed.status;
        if (status == TRI_OK)
            status = report(&timed, result, err);
        else if (err != NULL)
            *err = timed.error;
    }
    unmake(&timed);
    return status;
}

void timed_free(struct timed_result *result, const struct mem *mem)
{
    mem_free(mem, result->sent);
    mem_free(mem, result->received);
    *result = (struct timed_result){0};
}
