/* Reading traces: the same events to a new core.
 *
 * Bytes may be anything. Messages pass through the decoder that those of a network pass through;
 * of what a host says of itself it is checked that a host could have said it: that an operation was
 * asked for, that data which has landed was given a place. */
#include <inttypes.h>
#include <string.h>

#include "base/crc32c.h"
#include "run/agree.h"
#include "run/trace_inside.h"
#include "wire/header.h"

/* Something that the core was promised: data for a place it gave, or an operation it asked for. */
struct promise {
    struct promise *next;
    struct core_op op;
    struct core_ref ref;
    size_t len; /* of a message's bytes, which follow; 0: it is an operation */
    uint8_t bytes[];
};

struct replay {
    const struct mem *mem;
    struct trace_report *report;
    struct agreement *agreement;
    struct convert convert;
    struct node_options options;
    struct node node;
    bool has_node;
    struct promise *promises;
    bool refused; /* no memory for a promise */
    uint32_t sum;
    uint64_t actions;
    uint64_t *set;   /* of the message */
    bool started;    /* node_start() was called */
    bool any;        /* answers are not compared */
    uint64_t *steps; /* of the optimiser, by layer; may be none */
    uint32_t step_count;
};

/* An event as it stands in the file. */
struct record {
    unsigned kind;
    struct trace_event event;
    struct message message;
    const uint8_t *bytes; /* of the message */
    size_t len;
    uint32_t sum; /* of the answer */
};

/* ---- promises ---- */

static struct promise *promise(struct replay *replay, const void *bytes, size_t len)
{
    struct promise *made = mem_array(replay->mem, 1, sizeof *made + len);
    if (made == NULL) {
        replay->refused = true;
        return NULL;
    }
    if (len > 0)
        memcpy(made->bytes, bytes, len);
    made->len = len;
    made->next = replay->promises;
    replay->promises = made;
    return made;
}

static struct promise **find_data(struct replay *replay, const struct record *record)
{
    struct promise **at = &replay->promises;
    while (*at != NULL &&
           !((*at)->len == record->len && memcmp((*at)->bytes, record->bytes, record->len) == 0))
        at = &(*at)->next;
    return at;
}

static bool same_op(const struct core_op *a, const struct core_op *b)
{
    return a->kind == b->kind && a->role == b->role && a->index == b->index && a->rank == b->rank &&
           a->first == b->first && a->clock == b->clock && a->count == b->count &&
           a->steps == b->steps && wire_float_bits(a->lr) == wire_float_bits(b->lr);
}

static struct promise **find_op(struct replay *replay, const struct core_op *op)
{
    struct promise **at = &replay->promises;
    while (*at != NULL && !((*at)->len == 0 && same_op(&(*at)->op, op)))
        at = &(*at)->next;
    return at;
}

static bool keep(struct replay *replay, struct promise **at)
{
    struct promise *kept = *at;
    if (kept == NULL)
        return false;
    *at = kept->next;
    mem_free(replay->mem, kept);
    return true;
}

/* ---- what the core answers ---- */

static void emit(void *ctx, const struct core_action *action)
{
    struct replay *replay = ctx;
    replay->sum = trace_sum_action(replay->sum, action, replay->agreement->layout);
    replay->actions++;
    if (action->kind != CORE_OP)
        return;
    struct promise *made = promise(replay, NULL, 0);
    if (made != NULL)
        made->op = action->op;
}

/* ---- reading ---- */

static tri_status read_message(struct replay *replay, struct wire_in *in, struct record *record,
                               tri_error *err)
{
    struct wire_header header;
    bool landed = wire_get_bool(in);
    uint64_t hash = wire_get_u64(in);
    record->len = wire_left(in);
    record->bytes = wire_get_bytes(in, record->len);
    if (in->failed != NULL || record->len < WIRE_HEADER_BYTES)
        return fail(err, TRI_EINPUT, "its message has no header");
    tri_status status = wire_header_decode(record->bytes, &replay->convert.limits, &header, err);
    if (status != TRI_OK)
        return status;
    bool values = convert_has_values((enum wire_kind)header.kind);
    size_t rest = record->len - WIRE_HEADER_BYTES, data = values ? 0 : header.data_len;
    if (header.head_len > rest || rest - header.head_len != data)
        return fail(err, TRI_EINPUT, "its message has another length than its header says");
    const uint8_t *head = record->bytes + WIRE_HEADER_BYTES;
    struct convert_in message = {&header, head, head + header.head_len};
    status = convert_decode(&replay->convert, &message, replay->set, &record->message, err);
    if (status == TRI_OK)
        status =
            convert_decode_data(&replay->convert, &message, replay->set, &record->message, err);
    if (header.kind == WIRE_HELLO)
        record->message.hash = hash;
    record->message.landed = landed;
    record->event.message = &record->message;
    return status;
}

static void read_update(struct wire_in *in, struct worker_update *update)
{
    update->count = wire_get_u64(in);
    update->lr = wire_bits_float(wire_get_u32(in));
    update->rows = wire_get_u32(in);
    update->params_busy = wire_get_bool(in);
}

static tri_status read_body(struct replay *replay, struct wire_in *in, struct record *record,
                            tri_error *err)
{
    struct trace_event *event = &record->event;
    event->kind = (enum trace_kind)record->kind;
    event->now = wire_get_u64(in);
    event->number = wire_get_u32(in);
    if (trace_has_message(record->kind))
        return read_message(replay, in, record, err);
    if (record->kind == TRACE_DONE)
        event->op = trace_get_op(in);
    else if (record->kind == TRACE_UPDATE)
        read_update(in, &event->update);
    if (in->failed != NULL || wire_left(in) > 0)
        return fail(err, TRI_EINPUT, "it has another length than its kind");
    return TRI_OK;
}

/* The next record. False at the end of the bytes, also if that is in the middle of one. */
static bool read_record(struct wire_in *in, struct record *record, struct wire_in *body,
                        bool *damaged)
{
    const uint8_t *start = in->p;
    *record = (struct record){.kind = wire_get_u8(in)};
    uint32_t len = wire_get_u32(in);
    const uint8_t *bytes = wire_get_bytes(in, len);
    uint32_t crc = wire_get_u32(in);
    record->sum = wire_get_u32(in);
    if (in->failed != NULL)
        return false;
    *body = wire_in_of(bytes, len);
    *damaged = crc != crc32c(0, start, TRACE_RECORD_BYTES + (size_t)len) || record->kind == 0 ||
               record->kind >= TRACE_KINDS;
    return true;
}

/* ---- feeding ---- */

static tri_status impossible(const char *what, tri_error *err)
{
    return fail(err, TRI_EINPUT, "%s", what);
}

/* Could a host have said it? */
static tri_status check_event(struct replay *replay, const struct record *record, tri_error *err)
{
    const struct trace_event *event = &record->event;
    const struct layout *layout = replay->node.layout;
    const struct node *node = &replay->node;
    bool landed =
        trace_has_message(record->kind) &&
        (record->kind == TRACE_LOST || record->kind == TRACE_ADDS || record->message.landed);
    bool about_layer = record->kind == TRACE_UPDATE || record->kind == TRACE_SYNC;
    bool loop = about_layer || record->kind == TRACE_CLOCK || record->kind == TRACE_CHECKSUM;
    if (landed && *find_data(replay, record) == NULL)
        return impossible("its data had no place to go", err);
    if (record->kind == TRACE_ADDS && (*find_data(replay, record))->ref.space != CORE_ADD)
        return impossible("its data is not of the kind that is added", err);
    if (record->kind == TRACE_DONE && *find_op(replay, &event->op) == NULL)
        return impossible("the core did not ask for this operation", err);
    if (record->kind == TRACE_GONE && event->number >= layout->nodes)
        return impossible("there is no such node", err);
    if (about_layer && event->number >= layout->layer_count)
        return impossible("there is no such layer", err);
    if ((loop && (!node->has_worker || !worker_started(&node->worker))) ||
        (record->kind == TRACE_CLOSE && !node->has_worker) ||
        (record->kind == TRACE_START && (node->number != 0 || replay->started)))
        return impossible("this node could not do it then", err);
    return TRI_OK;
}

static int land(struct replay *replay, const struct record *record)
{
    struct core_ref ref = node_landing(&replay->node, record->event.message);
    replay->sum = trace_sum_landing(replay->sum, &ref);
    if (ref.space != CORE_NOWHERE) {
        struct promise *made = promise(replay, record->bytes, record->len);
        if (made != NULL)
            made->ref = ref;
    }
    return 0;
}

static int take_message(struct replay *replay, const struct record *record)
{
    struct core_out out = {.emit = emit, .ctx = replay};
    if (record->message.landed)
        (void)keep(replay, find_data(replay, record));
    node_message(&replay->node, record->event.now, record->event.message, &out);
    return 0;
}

/* The caller's side. What the call returned. */
static int feed_call(struct replay *replay, const struct trace_event *event)
{
    struct core_out out = {.emit = emit, .ctx = replay};
    struct node *node = &replay->node;
    tri_error ignored;
    switch (event->kind) {
    case TRACE_START:
        replay->started = true;
        node_start(node, &out);
        return 0;
    case TRACE_UPDATE:
        return node_update(node, event->number, &event->update, &out, &ignored);
    case TRACE_SYNC:
        return node_sync(node, event->number, &out);
    case TRACE_CLOCK:
        node_clock(node, &out);
        return 0;
    case TRACE_CHECKSUM:
        node_checksum(node, event->number, &out);
        return 0;
    case TRACE_CLOSE:
        node_close(node, &out);
        return 0;
    case TRACE_MARK:
        node_mark(node, event->now, &out);
        return 0;
    default:
        return 0;
    }
}

static int feed(struct replay *replay, const struct record *record)
{
    const struct trace_event *event = &record->event;
    struct core_out out = {.emit = emit, .ctx = replay};
    struct node *node = &replay->node;
    switch (event->kind) {
    case TRACE_JOIN:
        node_join(node, event->now, &out);
        return 0;
    case TRACE_LANDING:
        return land(replay, record);
    case TRACE_LOST:
        (void)keep(replay, find_data(replay, record));
        node_lost(node, event->message);
        return 0;
    case TRACE_ADDS:
        return node_adds(node, event->message);
    case TRACE_MESSAGE:
        return take_message(replay, record);
    case TRACE_DONE:
        (void)keep(replay, find_op(replay, &event->op));
        node_done(node, &event->op, &out);
        return 0;
    case TRACE_GONE:
        node_gone(node, event->number, event->now);
        return 0;
    case TRACE_TICK:
        node_tick(node, event->now, &out);
        return 0;
    default:
        return feed_call(replay, event);
    }
}

/* ---- from the beginning to the end ---- */

/* Puts number and kind of the event in front of what is wrong with it. */
static tri_status fail_event(const struct replay *replay, const struct record *record,
                             tri_status status, tri_error *err)
{
    tri_error cause = err != NULL ? *err : (tri_error){0};
    const char *kind = trace_kind_name(record->kind);
    replay->report->event = kind;
    const char *of = trace_has_message(record->kind) && record->event.message != NULL
                         ? wire_kind_name(record->message.kind)
                         : "";
    fail(err, status, "event %" PRIu64 " (%s%s%s): %s", replay->report->events + 1, kind,
         of[0] != '\0' ? " " : "", of, cause.text);
    return status;
}

static tri_status replay_one(struct replay *replay, struct record *record, struct wire_in *body,
                             tri_error *err)
{
    tri_status status = read_body(replay, body, record, err);
    if (status == TRI_OK)
        status = check_event(replay, record, err);
    if (status != TRI_OK)
        return fail_event(replay, record, TRI_EINPUT, err);
    replay->sum = 0;
    int answer = feed(replay, record);
    if (replay->refused)
        return fail_nomem(err, "a trace");
    if (!replay->any && trace_sum_answer(replay->sum, answer) != record->sum) {
        fail(err, TRI_EMISMATCH, "the core answers otherwise than it did");
        return fail_event(replay, record, TRI_EMISMATCH, err);
    }
    replay->report->events++;
    return TRI_OK;
}

static tri_status replay_all(struct replay *replay, struct wire_in *in, tri_error *err)
{
    struct record record;
    struct wire_in body;
    bool damaged = false;
    tri_status status = TRI_OK;
    while (status == TRI_OK && !replay->report->whole &&
           read_record(in, &record, &body, &damaged)) {
        if (damaged || (record.kind == TRACE_END && record.sum != trace_sum_answer(0, 0))) {
            fail(err, TRI_EINPUT, "its bytes are damaged");
            return fail_event(replay, &record, TRI_EINPUT, err);
        }
        if (record.kind == TRACE_END)
            replay->report->whole = true;
        else
            status = replay_one(replay, &record, &body, err);
    }
    return status;
}

static tri_status make_node(struct replay *replay, const uint8_t *book, uint32_t len,
                            tri_error *err)
{
    struct wire_header header = {.kind = WIRE_BOOK, .data_len = len};
    struct node_options *options = &replay->options;
    tri_status status = agree_decode(&header, book, replay->mem, &replay->agreement, err);
    if (status != TRI_OK)
        return status;
    const struct agreement *agreement = replay->agreement;
    if (agreement->plan_hash != options->plan_hash)
        return fail(err, TRI_EMISMATCH, "the job of this trace is planned otherwise here");
    if (options->number >= agreement->layout->nodes)
        return fail(err, TRI_EINPUT, "the job of this trace has no node %" PRIu32, options->number);
    if (options->steps != NULL && replay->step_count != agreement->layout->layer_count)
        return fail(err, TRI_EINPUT, "the job of this trace has other layers than its steps");
    options->layout = agreement->layout;
    options->rules = agreement->rules;
    replay->convert =
        (struct convert){.layout = agreement->layout,
                         .limits = convert_limits(agreement->layout),
                         .job = replay->convert.job,
                         .plan = agreement->plan_hash,
                         .layers = agreement->layers_hash,
                         .node = options->number,
                         .means = agreement->rules.aggregate || agreement->rules.replicated};
    replay->set =
        mem_array(replay->mem, convert_set_words(&replay->convert) + 1, sizeof *replay->set);
    if (replay->set == NULL)
        return fail_nomem(err, "a trace");
    status = node_init(&replay->node, options, replay->mem, err);
    replay->has_node = status == TRI_OK;
    return status;
}

/* As many as there are layers, or none. */
static tri_status read_steps(struct replay *replay, struct wire_in *in, tri_error *err)
{
    uint32_t count = wire_get_count(in, 8);
    if (count == 0)
        return TRI_OK;
    replay->steps = mem_array(replay->mem, count, sizeof *replay->steps);
    if (replay->steps == NULL)
        return fail_nomem(err, "a trace");
    for (uint32_t i = 0; i < count; i++)
        replay->steps[i] = wire_get_u64(in);
    replay->step_count = count;
    replay->options.steps = replay->steps;
    return TRI_OK;
}

static tri_status read_node(struct replay *replay, struct wire_in *in, tri_error *err)
{
    const uint8_t *start = in->p;
    struct node_options *options = &replay->options;
    uint32_t magic = wire_get_u32(in), version = wire_get_u32(in);
    if (in->failed != NULL || magic != TRACE_MAGIC)
        return fail(err, TRI_EINPUT, "these bytes are no trace");
    if (version != TRACE_VERSION)
        return fail(err, TRI_EINPUT, "this trace is of version %" PRIu32 ", not %u", version,
                    (unsigned)TRACE_VERSION);
    options->number = wire_get_u32(in);
    (void)wire_get_u32(in);
    uint64_t *numbers[] = {&options->times.heartbeat, &options->times.warn,  &options->times.limit,
                           &options->times.start,     &options->first,       &options->layers_hash,
                           &options->plan_hash,       &options->incarnation, &replay->convert.job};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        *numbers[i] = wire_get_u64(in);
    uint32_t len = wire_get_u32(in);
    const uint8_t *book = wire_get_bytes(in, len);
    tri_status status = read_steps(replay, in, err);
    if (status != TRI_OK)
        return status;
    size_t bytes = (size_t)(in->p - start);
    uint32_t crc = wire_get_u32(in);
    if (in->failed != NULL || crc != crc32c(0, start, bytes))
        return fail(err, TRI_EINPUT, "the beginning of this trace is damaged");
    replay->report->node = options->number;
    return make_node(replay, book, len, err);
}

static tri_status replay_bytes(const void *bytes, size_t len, bool any, const struct mem *mem,
                               struct trace_report *report, tri_error *err)
{
    struct replay replay = {.mem = mem, .report = report, .any = any};
    struct wire_in in = wire_in_of(bytes, len);
    *report = (struct trace_report){.event = ""};
    tri_status status = read_node(&replay, &in, err);
    if (replay.has_node)
        status = replay_all(&replay, &in, err);
    report->actions = replay.actions;
    if (replay.has_node)
        node_fini(&replay.node);
    while (keep(&replay, &replay.promises))
        ;
    mem_free(mem, replay.set);
    mem_free(mem, replay.steps);
    agree_free(replay.agreement);
    return status;
}

tri_status trace_replay(const void *bytes, size_t len, const struct mem *mem,
                        struct trace_report *report, tri_error *err)
{
    return replay_bytes(bytes, len, false, mem, report, err);
}

tri_status trace_feed(const void *bytes, size_t len, const struct mem *mem,
                      struct trace_report *report, tri_error *err)
{
    return replay_bytes(bytes, len, true, mem, report, err);
}
