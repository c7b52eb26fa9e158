/* Headers and heads to messages: one table for what all kinds have in common, one reader for the
 * rest of each. */
#include "run/convert_inside.h"
#include "wire/heads.h"
#include "wire/hello.h"

/* Decodes the head of the kind at hand into the variable of its name. */
#define READ(name)                                                                                 \
    wire_##name##_decode(reading->in->header, reading->in->head, &reading->ctx->limits, &(name),   \
                         reading->err)

static const struct layout_layer *described(const struct reading *reading)
{
    return layer_of(reading->ctx->layout, reading->message);
}

static bool on_workers(const struct reading *reading)
{
    return described(reading)->home == TRI_HOME_WORKERS;
}

/* Is the part one that the layer has? */
static tri_status check_part(const struct reading *reading)
{
    const struct layout_layer *layer = described(reading);
    if (reading->message->part < layer->parts)
        return TRI_OK;
    return fail(reading->err, TRI_EINPUT,
                "%s from node %" PRIu32 " is about part %" PRIu32 " of layer '%.60s', which has "
                "%" PRIu32,
                wire_kind_name(reading->message->kind), reading->message->from,
                reading->message->part, layer->name, layer->parts);
}

/* Is there as much data as the layout says? */
static tri_status check_values(const struct reading *reading)
{
    const struct message *message = reading->message;
    uint64_t bytes = convert_data_bytes(message, reading->ctx->layout);
    if (bytes == reading->in->header->data_len)
        return TRI_OK;
    return fail(reading->err, TRI_EINPUT,
                "%s from node %" PRIu32 " has %" PRIu32 " bytes of values for part %" PRIu32
                " of layer '%.60s' instead of %" PRIu64,
                wire_kind_name(message->kind), message->from, reading->in->header->data_len,
                message->part, described(reading)->name, bytes);
}

static tri_status read_hello(struct reading *reading)
{
    struct wire_hello hello;
    tri_status status = READ(hello);
    if (status == TRI_OK)
        reading->message->incarnation = hello.incarnation;
    return status;
}

static tri_status read_ready(struct reading *reading)
{
    reading->message->hash = reading->in->header->plan;
    return TRI_OK;
}

/* From worker 0 to the owner, from the owner to the others; or among workers. */
static tri_status read_init(struct reading *reading)
{
    struct message *message = reading->message;
    tri_status status = check_part(reading);
    if (status != TRI_OK || (status = check_values(reading)) != TRI_OK)
        return status;
    uint32_t owner = on_workers(reading)
                         ? 0
                         : owner_node(reading->ctx->layout, described(reading), message->part);
    if (!on_workers(reading) && owner == reading->ctx->node && message->from == 0)
        message->role = CORE_SERVER;
    else if (owner == message->from)
        message->role = CORE_WORKER;
    else
        return refuse(reading, "has values that are not its own to give");
    return TRI_OK;
}

/* An update is its sender's own; but among workers that of a departed one is relayed. */
static tri_status check_rank(const struct reading *reading)
{
    const struct message *message = reading->message;
    bool relayed = message->kind != WIRE_PUSH && on_workers(reading);
    return message->rank == message->from || relayed
               ? TRI_OK
               : refuse(reading, "speaks for a rank that is not its own");
}

static tri_status read_push(struct reading *reading)
{
    struct message *message = reading->message;
    const struct layout_layer *layer = described(reading);
    struct wire_push push;
    tri_status status = READ(push);
    if (status != TRI_OK || (status = check_part(reading)) != TRI_OK)
        return status;
    message->count = push.count;
    message->lr_bits = push.lr_bits;
    message->rank = push.rank;
    if (layer->form != TRI_FORM_DENSE || on_workers(reading))
        return refuse(reading, "is about a layer whose updates travel in another form");
    if (owner_node(reading->ctx->layout, layer, message->part) != reading->ctx->node)
        return refuse(reading, "is about a part that is not kept here");
    if ((status = check_rank(reading)) != TRI_OK)
        return status;
    return check_values(reading);
}

static enum core_role home_of(const struct reading *reading)
{
    return on_workers(reading) ? CORE_WORKER : CORE_SERVER;
}

static tri_status read_factors(struct reading *reading)
{
    struct message *message = reading->message;
    const struct layout *layout = reading->ctx->layout;
    const struct layout_layer *layer = described(reading);
    struct wire_factors factors;
    tri_status status = READ(factors);
    if (status != TRI_OK)
        return status;
    message->role = home_of(reading);
    message->count = factors.count;
    message->lr_bits = factors.lr_bits;
    message->rank = factors.rank;
    message->rows = factors.rows;
    message->parts = factors.parts;
    if (layer->form != TRI_FORM_FACTORS)
        return refuse(reading, "is about a layer whose updates travel in another form");
    if (factors.rows > layer->factor_rows)
        return fail(reading->err, TRI_EINPUT,
                    "%s from node %" PRIu32 " has %" PRIu32 " rows for layer '%.60s', which takes "
                    "%" PRIu32 " at most",
                    wire_kind_name(message->kind), message->from, factors.rows, layer->name,
                    layer->factor_rows);
    if (factors.parts != layout_factor_parts(layout, layer, factors.rows))
        return refuse(reading, "is cut into other parts than the plan says");
    if (!on_workers(reading) && owner_node(layout, layer, 0) != reading->ctx->node)
        return refuse(reading, "is about a layer that is not kept here");
    if ((status = check_rank(reading)) != TRI_OK)
        return status;
    return check_values(reading);
}

static tri_status read_nothing(struct reading *reading)
{
    struct wire_nothing nothing;
    tri_status status = READ(nothing);
    if (status != TRI_OK)
        return status;
    reading->message->role = home_of(reading);
    reading->message->rank = nothing.rank;
    return check_rank(reading);
}

/* The mask into words; NULL where it is not told. */
static tri_status read_mask(struct reading *reading, const struct wire_result *result)
{
    uint32_t ranks = reading->ctx->layout->workers;
    if (result->mask_ranks == 0)
        return TRI_OK;
    if (result->mask_ranks != ranks)
        return refuse(reading, "has a mask for another number of workers");
    bits_clear(reading->set, ranks);
    for (uint32_t i = 0; i < (ranks + 7) / 8; i++)
        reading->set[i / 8] |= (uint64_t)result->mask[i] << 8 * (i % 8);
    reading->message->set = reading->set;
    return TRI_OK;
}

static tri_status read_result(struct reading *reading)
{
    struct message *message = reading->message;
    struct wire_result result;
    tri_status status = READ(result);
    if (status != TRI_OK || (status = check_part(reading)) != TRI_OK)
        return status;
    message->count = result.count;
    message->version = result.version;
    message->lr_bits = result.lr_bits;
    message->unchanged = (result.flags & WIRE_RESULT_UNCHANGED) != 0;
    message->left_out = (result.flags & WIRE_RESULT_LEFT_OUT) != 0;
    if (on_workers(reading) ||
        owner_node(reading->ctx->layout, described(reading), message->part) != message->from)
        return refuse(reading, "has values that are not its own to give");
    if (((result.flags & WIRE_RESULT_AGGREGATE) != 0) != reading->ctx->means)
        return refuse(reading, reading->ctx->means ? "has parameters where means are agreed on"
                                                   : "has means where parameters are agreed on");
    if ((status = check_values(reading)) != TRI_OK)
        return status;
    return read_mask(reading, &result);
}

/* Three ways. Only a server counts clocks running, and only it knows a version: that of a unit
 * that has moved on, which is past 0. */
static tri_status read_left_out(struct reading *reading)
{
    struct message *message = reading->message;
    const struct layout *layout = reading->ctx->layout;
    struct wire_left_out left_out;
    tri_status status = READ(left_out);
    if (status != TRI_OK)
        return status;
    message->version = left_out.version;
    message->rank = left_out.rank;
    message->count = left_out.running;
    if (left_out.running == 0 && left_out.version > 0) {
        message->role = CORE_WORKER;
        if (on_workers(reading))
            return refuse(reading, "is about a layer that lives on workers");
        return check_part(reading);
    }
    message->role = CORE_COORDINATOR;
    message->owner =
        left_out.running > 0 ? server_on(layout, message->from) : (uint32_t)CORE_OWNER_WORKER;
    if (left_out.running > 0 && message->owner == LAYOUT_NO_SERVER)
        return refuse(reading, "comes from no server");
    if (left_out.running == 0 && message->rank != message->from)
        return refuse(reading, "speaks for a rank that is not its own");
    return TRI_OK;
}

static enum core_mark mark_of(uint32_t what)
{
    return what == WIRE_MARK_JOIN ? CORE_MARK_JOIN : CORE_MARK_SAVE;
}

static tri_status read_mark(struct reading *reading)
{
    struct message *message = reading->message;
    struct wire_mark mark;
    tri_status status = READ(mark);
    if (status != TRI_OK)
        return status;
    if (mark.what == WIRE_MARK_CHECKSUM)
        return refuse(reading, "asks for a checksum, which no node does");
    message->role = mark.worker ? CORE_WORKER : CORE_SERVER;
    message->mark = mark_of(mark.what);
    message->rank = mark.rank;
    message->accepted = mark.agreed;
    message->last = mark.last;
    return TRI_OK;
}

/* The worker speaks for its rank, also where the head has none. */
static void note_owner(struct message *message, uint32_t owner)
{
    message->owner = owner;
    if (owner == CORE_OWNER_WORKER)
        message->rank = message->from;
}

static tri_status read_marked(struct reading *reading)
{
    struct message *message = reading->message;
    struct wire_marked marked;
    tri_status status = READ(marked);
    if (status != TRI_OK)
        return status;
    if (marked.what == WIRE_MARK_CHECKSUM)
        return refuse(reading, "answers what no node asks");
    message->mark = mark_of(marked.what);
    message->accepted = marked.accepted;
    message->count = marked.own;
    message->rank = marked.rank;
    if (marked.owner == CORE_OWNER_WORKER && message->mark == CORE_MARK_JOIN &&
        marked.rank != message->from)
        return refuse(reading, "speaks for a rank that is not its own");
    note_owner(message, marked.owner);
    return TRI_OK;
}

static tri_status read_saved(struct reading *reading)
{
    struct wire_saved saved;
    tri_status status = READ(saved);
    if (status == TRI_OK)
        note_owner(reading->message, saved.owner);
    return status;
}

static tri_status read_own(struct reading *reading)
{
    note_owner(reading->message, CORE_OWNER_WORKER);
    return TRI_OK;
}

static tri_status read_checksum(struct reading *reading)
{
    struct wire_checksum checksum;
    tri_status status = READ(checksum);
    if (status == TRI_OK)
        reading->message->crc = checksum.crc;
    note_owner(reading->message, CORE_OWNER_WORKER);
    return status;
}

/* A worker ends its part, or the coordinator the job. Both may be on node 0, but only the
 * coordinator writes the view. */
static tri_status read_bye(struct reading *reading)
{
    struct message *message = reading->message;
    bool ends = message->from == 0 && (reading->ctx->node != 0 || message->view > 0);
    message->role = ends ? CORE_MEMBER : CORE_COORDINATOR;
    return ends ? TRI_OK : read_own(reading);
}

static tri_status read_failed(struct reading *reading)
{
    struct wire_failed failed;
    tri_status status = READ(failed);
    if (status != TRI_OK)
        return status;
    reading->message->role = reading->message->from == 0 ? CORE_MEMBER : CORE_COORDINATOR;
    reading->message->status = (tri_status)failed.status;
    return TRI_OK;
}

/* Between node 0 and whoever keeps the part: its server, or every worker. */
static tri_status read_state(struct reading *reading)
{
    struct message *message = reading->message;
    struct wire_state state;
    tri_status status = READ(state);
    if (status != TRI_OK || (status = check_part(reading)) != TRI_OK)
        return status;
    message->version = state.steps;
    message->rows = state.plane;
    message->unchanged = reading->in->header->data_len == 0;
    if (message->from != 0 && reading->ctx->node != 0)
        return refuse(reading, "is for node 0 to send or to get");
    return message->unchanged ? TRI_OK : check_values(reading);
}

enum flag {
    EARLY = 1,    /* may come before there is a plan */
    ANY_PLAN = 2, /* plans need not be alike (yet) */
    FROM_0 = 4,   /* only the coordinator may say it */
    FROM_WORKER = 8,
};

/* CORE_NOBODY: the reader says whom it is for. */
static const struct {
    enum core_role role;
    unsigned flags;
    tri_status (*read)(struct reading *reading);
} kinds[WIRE_KINDS] = {
    [WIRE_HELLO] = {CORE_COORDINATOR, EARLY | ANY_PLAN, read_hello},
    [WIRE_BOOK] = {CORE_MEMBER, EARLY | ANY_PLAN | FROM_0, NULL},
    [WIRE_READY] = {CORE_COORDINATOR, ANY_PLAN, read_ready},
    [WIRE_START] = {CORE_MEMBER, FROM_0, NULL},
    [WIRE_REFUSED] = {CORE_MEMBER, EARLY | ANY_PLAN | FROM_0, NULL},
    [WIRE_INIT] = {CORE_NOBODY, 0, read_init},
    [WIRE_PUSH] = {CORE_SERVER, FROM_WORKER, read_push},
    [WIRE_FACTORS] = {CORE_NOBODY, FROM_WORKER, read_factors},
    [WIRE_NOTHING] = {CORE_NOBODY, FROM_WORKER, read_nothing},
    [WIRE_RESULT] = {CORE_WORKER, 0, read_result},
    [WIRE_LEFT_OUT] = {CORE_NOBODY, 0, read_left_out},
    [WIRE_CLOCK] = {CORE_COORDINATOR, FROM_WORKER, read_own},
    [WIRE_MARK] = {CORE_NOBODY, FROM_0, read_mark},
    [WIRE_MARKED] = {CORE_COORDINATOR, 0, read_marked},
    [WIRE_CHECKSUM] = {CORE_COORDINATOR, FROM_WORKER, read_checksum},
    [WIRE_SAVED] = {CORE_COORDINATOR, 0, read_saved},
    [WIRE_VIEW] = {CORE_MEMBER, FROM_0, NULL},
    [WIRE_REPORT] = {CORE_COORDINATOR, FROM_WORKER, read_own},
    [WIRE_DECISION] = {CORE_WORKER, FROM_0, NULL},
    [WIRE_HEARTBEAT] = {CORE_MEMBER, EARLY | ANY_PLAN, NULL},
    [WIRE_ACCUSE] = {CORE_COORDINATOR, ANY_PLAN, NULL},
    [WIRE_EVICTED] = {CORE_MEMBER, EARLY | ANY_PLAN | FROM_0, NULL},
    [WIRE_BYE] = {CORE_NOBODY, EARLY | ANY_PLAN, read_bye},
    [WIRE_FAILED] = {CORE_NOBODY, EARLY | ANY_PLAN, read_failed},
    [WIRE_PEERS] = {CORE_NOBODY, EARLY | ANY_PLAN, NULL},
    [WIRE_RESUME] = {CORE_NOBODY, EARLY | ANY_PLAN | FROM_0, NULL},
    [WIRE_STATE] = {CORE_NOBODY, 0, read_state},
};

static tri_status check_plan(const struct reading *reading)
{
    const struct wire_header *header = reading->in->header;
    const struct convert *ctx = reading->ctx;
    if (header->job != ctx->job)
        return fail(reading->err, TRI_EMISMATCH,
                    "%s from node %" PRIu32 " belongs to another job: %016" PRIx64
                    ", this one is %016" PRIx64,
                    wire_kind_name(header->kind), header->sender, header->job, ctx->job);
    unsigned flags = kinds[header->kind].flags;
    if ((flags & EARLY) == 0 && ctx->layout == NULL)
        return refuse(reading, "came before there is a plan");
    if ((flags & ANY_PLAN) == 0 && header->plan != ctx->plan)
        return fail(reading->err, TRI_EMISMATCH,
                    "%s from node %" PRIu32 " follows another plan: %016" PRIx64
                    ", this node's is %016" PRIx64,
                    wire_kind_name(header->kind), header->sender, header->plan, ctx->plan);
    return TRI_OK;
}

/* Headers may have been read with wider limits than the plan's. */
static tri_status check_header(const struct reading *reading)
{
    const struct wire_header *header = reading->in->header;
    const struct layout *layout = reading->ctx->layout;
    const struct wire_kind_info *info = wire_kind_at(header->kind);
    unsigned flags = kinds[header->kind].flags;
    if (info == NULL || header->kind == WIRE_ROWS || header->kind == WIRE_PULL)
        return refuse(reading, "is of a kind that no node sends");
    tri_status status = check_plan(reading);
    if (status != TRI_OK)
        return status;
    if ((flags & FROM_0) != 0 && header->sender != 0)
        return refuse(reading, "is for the coordinator on node 0 to say");
    if (header->codec != 0)
        return refuse(reading, "uses a codec that is not known here");
    if (layout == NULL)
        return TRI_OK;
    if (header->sender >= layout->nodes ||
        ((flags & FROM_WORKER) != 0 && header->sender >= layout->workers))
        return refuse(reading, "comes from no such node");
    if ((info->uses & WIRE_USE_LAYER) != 0 && header->layer >= layout->layer_count)
        return refuse(reading, "is about a layer that there is not");
    return TRI_OK;
}

tri_status convert_decode(const struct convert *ctx, const struct convert_in *in, uint64_t *set,
                          struct message *out, tri_error *err)
{
    const struct wire_header *header = in->header;
    struct message message = {.kind = (enum wire_kind)header->kind,
                              .from = header->sender,
                              .view = header->view,
                              .layer = header->layer,
                              .part = header->chunk,
                              .clock = header->clock};
    struct reading reading = {.ctx = ctx, .in = in, .set = set, .message = &message, .err = err};
    tri_status status = header->kind < WIRE_KINDS ? check_header(&reading)
                                                  : refuse(&reading, "is of no known kind");
    if (status != TRI_OK)
        return status;
    message.role = kinds[header->kind].role;
    if (kinds[header->kind].read != NULL)
        status = kinds[header->kind].read(&reading);
    if (status == TRI_OK && message.role == CORE_COORDINATOR && ctx->node != 0)
        status = refuse(&reading, "is for the coordinator, which is on node 0");
    if (status == TRI_OK)
        *out = message;
    return status;
}
