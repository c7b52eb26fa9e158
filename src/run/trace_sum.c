/* What a core answered, as one number. */
#include "base/crc32c.h"
#include "core/bits.h"
#include "run/trace_inside.h"

/* Numbers in a row, summed in one go. */
struct row {
    uint8_t bytes[256];
    size_t len;
};

static void add_u32(struct row *row, uint32_t value)
{
    wire_store_u32(row->bytes + row->len, value);
    row->len += 4;
}

static void add_u64(struct row *row, uint64_t value)
{
    wire_store_u64(row->bytes + row->len, value);
    row->len += 8;
}

static void add_ref(struct row *row, const struct core_ref *ref)
{
    add_u32(row, (uint32_t)ref->space);
    add_u32(row, ref->index);
    add_u32(row, ref->rank);
    add_u32(row, ref->generation);
    add_u64(row, ref->first);
    add_u64(row, ref->count);
}

static void add_numbers(struct row *row, const struct message *message)
{
    add_u32(row, (uint32_t)message->kind);
    add_u32(row, (uint32_t)message->role);
    add_u32(row, message->from);
    add_u32(row, message->view);
    add_u32(row, message->layer);
    add_u32(row, message->part);
    add_u64(row, message->clock);
    add_u32(row, message->rank);
    add_u32(row, message->rows);
    add_u32(row, message->parts);
    add_u64(row, message->count);
    add_u64(row, message->version);
    add_u32(row, message->lr_bits);
    add_u32(row, message->crc);
    add_u64(row, message->hash);
    add_u64(row, message->incarnation);
    add_u32(row, message->owner);
    add_u32(row, (uint32_t)message->mark);
    add_u32(row, (uint32_t)message->status);
    add_u32(row, message->unchanged + 2U * message->left_out + 4U * message->accepted +
                     8U * message->last + 16U * message->landed);
    add_u64(row, message->len);
}

static bool has_set(const struct message *message)
{
    return message->set != NULL && (message->kind == WIRE_RESULT || message->kind == WIRE_VIEW ||
                                    message->kind == WIRE_ACCUSE);
}

static uint32_t sum_set(uint32_t sum, const struct message *message, const struct layout *layout)
{
    size_t members = message->kind == WIRE_RESULT ? layout->workers : layout->nodes;
    for (size_t i = 0; i < bits_words(members); i++) {
        struct row row = {.len = 0};
        add_u64(&row, message->set[i]);
        sum = crc32c(sum, row.bytes, row.len);
    }
    return sum;
}

static uint32_t sum_send(uint32_t sum, const struct core_action *action,
                         const struct layout *layout)
{
    const struct message *message = &action->message;
    struct row row = {.len = 0};
    add_numbers(&row, message);
    add_ref(&row, &action->ref);
    sum = crc32c(sum, row.bytes, row.len);
    if (has_set(message))
        sum = sum_set(sum, message, layout);
    return crc32c(sum, message->bytes, message->len);
}

static void add_op(struct row *row, const struct core_op *op)
{
    add_u32(row, (uint32_t)op->kind);
    add_u32(row, (uint32_t)op->role);
    add_u32(row, op->index);
    add_u32(row, op->rank);
    add_u32(row, op->first);
    add_u64(row, op->clock);
    add_u64(row, op->count);
    add_u64(row, op->steps);
    add_u32(row, wire_float_bits(op->lr));
}

uint32_t trace_sum_action(uint32_t sum, const struct core_action *action,
                          const struct layout *layout)
{
    struct row row = {.len = 0};
    add_u32(&row, (uint32_t)action->kind);
    if (action->kind == CORE_SEND || action->kind == CORE_DROP)
        add_u32(&row, action->to);
    if (action->kind == CORE_WAKE || action->kind == CORE_WAIT)
        add_u32(&row, action->layer);
    if (action->kind == CORE_COMMIT)
        add_u64(&row, action->clock);
    if (action->kind == CORE_FAIL)
        add_u32(&row, (uint32_t)action->status);
    if (action->kind == CORE_OP)
        add_op(&row, &action->op);
    sum = crc32c(sum, row.bytes, row.len);
    if (action->kind == CORE_SEND)
        sum = sum_send(sum, action, layout);
    if (action->kind == CORE_FAIL || action->kind == CORE_WAIT)
        sum = crc32c(sum, action->text, strnlen(action->text, sizeof action->text));
    return sum;
}

uint32_t trace_sum_landing(uint32_t sum, const struct core_ref *ref)
{
    struct row row = {.len = 0};
    add_ref(&row, ref);
    return crc32c(sum, row.bytes, row.len);
}

uint32_t trace_sum_answer(uint32_t sum, int answer)
{
    struct row row = {.len = 0};
    add_u32(&row, (uint32_t)answer);
    return crc32c(sum, row.bytes, row.len);
}

/* ---- operations ---- */

void trace_put_op(struct buf *out, const struct core_op *op)
{
    wire_put_u8(out, (uint8_t)op->kind);
    wire_put_u8(out, (uint8_t)op->role);
    wire_put_u32(out, op->index);
    wire_put_u32(out, op->rank);
    wire_put_u8(out, op->first);
    wire_put_u64(out, op->clock);
    wire_put_u64(out, op->count);
    wire_put_u64(out, op->steps);
    wire_put_u32(out, wire_float_bits(op->lr));
}

struct core_op trace_get_op(struct wire_in *in)
{
    struct core_op op = {.kind = (enum core_op_kind)wire_get_u8(in)};
    op.role = (enum core_role)wire_get_u8(in);
    op.index = wire_get_u32(in);
    op.rank = wire_get_u32(in);
    op.first = wire_get_bool(in);
    op.clock = wire_get_u64(in);
    op.count = wire_get_u64(in);
    op.steps = wire_get_u64(in);
    op.lr = wire_bits_float(wire_get_u32(in));
    return op;
}
