/* Writing traces. */
#include "run/trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "run/trace_inside.h"

struct trace {
    const struct mem *mem;
    const struct log *log;
    const struct convert *convert;
    char *path;
    FILE *file;
    struct buf record; /* that is being made */
    struct buf head;   /* of its message, scratch */
    uint32_t sum;      /* of the answer so far */
};

const char *trace_kind_name(unsigned kind)
{
    static const char *const names[TRACE_KINDS] = {
        [TRACE_JOIN] = "join",         [TRACE_LANDING] = "landing", [TRACE_LOST] = "lost",
        [TRACE_ADDS] = "adds",         [TRACE_MESSAGE] = "message", [TRACE_DONE] = "done",
        [TRACE_GONE] = "gone",         [TRACE_TICK] = "tick",       [TRACE_START] = "start",
        [TRACE_UPDATE] = "update",     [TRACE_SYNC] = "sync",       [TRACE_CLOCK] = "clock",
        [TRACE_CHECKSUM] = "checksum", [TRACE_CLOSE] = "close",     [TRACE_END] = "end",
        [TRACE_MARK] = "mark",
    };
    return kind < TRACE_KINDS && names[kind] != NULL ? names[kind] : "?";
}

/* ---- the file ---- */

/* Told once; nothing is written after it. */
static void give_up(struct trace *trace, const char *why)
{
    if (trace->file == NULL)
        return;
    log_write(trace->log, LOG_WARN, "the trace '%s' ends here: %s", trace->path, why);
    (void)fclose(trace->file);
    trace->file = NULL;
}

static void write_out(struct trace *trace)
{
    if (trace->file == NULL)
        return;
    if (!buf_ok(&trace->record))
        give_up(trace, "out of memory");
    else if (fwrite(trace->record.data, 1, trace->record.len, trace->file) != trace->record.len)
        give_up(trace, "it cannot be written");
}

/* "trace-%r" for node 3: "trace-3". */
static char *name_file(const struct trace_options *options)
{
    struct buf name;
    char *out = NULL;
    buf_init(&name, options->mem);
    for (const char *at = options->path; *at != '\0'; at++)
        if (at[0] == '%' && at[1] == 'r') {
            buf_format(&name, "%u", (unsigned)options->node->number);
            at++;
        } else {
            buf_char(&name, *at);
        }
    if (buf_ok(&name))
        out = mem_text(options->mem, buf_string(&name), name.len);
    buf_fini(&name);
    return out;
}

static void put_node(struct buf *out, const struct trace_options *options)
{
    const struct node_options *node = options->node;
    const uint64_t numbers[] = {node->times.heartbeat, node->times.warn,  node->times.limit,
                                node->times.start,     node->first,       node->layers_hash,
                                node->plan_hash,       node->incarnation, options->convert->job};
    _Static_assert(sizeof numbers + 8 == TRACE_NODE_BYTES, "as many as there are in the file");
    wire_put_u32(out, TRACE_MAGIC);
    wire_put_u16(out, TRACE_VERSION);
    wire_put_u16(out, 0);
    wire_put_u32(out, node->number);
    wire_put_u32(out, 0);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        wire_put_u64(out, numbers[i]);
    wire_put_u32(out, (uint32_t)options->book.len);
    buf_add(out, options->book.at, options->book.len);
    uint32_t layers = node->steps != NULL ? node->layout->layer_count : 0;
    wire_put_u32(out, layers);
    for (uint32_t i = 0; i < layers; i++)
        wire_put_u64(out, node->steps[i]);
    if (buf_ok(out))
        wire_put_u32(out, crc32c(0, out->data, out->len));
}

struct trace *trace_open(const struct trace_options *options)
{
    struct trace *trace = mem_array(options->mem, 1, sizeof *trace);
    if (trace == NULL) {
        log_write(options->log, LOG_WARN, "there is no trace: out of memory");
        return NULL;
    }
    trace->mem = options->mem;
    trace->log = options->log;
    trace->convert = options->convert;
    buf_init(&trace->record, options->mem);
    buf_init(&trace->head, options->mem);
    trace->path = name_file(options);
    trace->file = trace->path != NULL ? fopen(trace->path, "wbe") : NULL;
    if (trace->file == NULL) {
        log_write(trace->log, LOG_WARN, "there is no trace: '%s' cannot be written: %s",
                  options->path, trace->path != NULL ? strerror(errno) : "out of memory");
        trace_close(trace);
        return NULL;
    }
    put_node(&trace->record, options);
    write_out(trace);
    return trace;
}

void trace_close(struct trace *trace)
{
    if (trace == NULL)
        return;
    if (trace->file != NULL) {
        trace_begin(trace, &(struct trace_event){.kind = TRACE_END});
        trace_end(trace, 0);
    }
    if (trace->file != NULL && fclose(trace->file) != 0)
        log_write(trace->log, LOG_WARN, "the trace '%s' is not whole: %s", trace->path,
                  strerror(errno));
    buf_fini(&trace->record);
    buf_fini(&trace->head);
    mem_free(trace->mem, trace->path);
    mem_free(trace->mem, trace);
}

/* ---- events ---- */

/* As its sender would write it, without values. The hash of HELLO is that of data which is not
 * here any more. */
static void put_message(struct trace *trace, const struct message *message)
{
    struct convert sender = *trace->convert;
    struct buf *out = &trace->record;
    size_t head = 0;
    tri_error err = {0};
    sender.node = message->from;
    buf_clear(&trace->head);
    if (convert_encode(&sender, message, &trace->head, &head, &err) != TRI_OK) {
        give_up(trace, err.text);
        return;
    }
    wire_put_u8(out, message->landed);
    wire_put_u64(out, message->kind == WIRE_HELLO ? message->hash : 0);
    buf_add(out, trace->head.data, trace->head.len);
}

static void put_update(struct buf *out, const struct worker_update *update)
{
    wire_put_u64(out, update->count);
    wire_put_u32(out, wire_float_bits(update->lr));
    wire_put_u32(out, update->rows);
    wire_put_u8(out, update->params_busy);
}

static void put_body(struct trace *trace, const struct trace_event *event)
{
    struct buf *out = &trace->record;
    wire_put_u64(out, event->now);
    wire_put_u32(out, event->number);
    if (trace_has_message(event->kind))
        put_message(trace, event->message);
    else if (event->kind == TRACE_DONE)
        trace_put_op(out, &event->op);
    else if (event->kind == TRACE_UPDATE)
        put_update(out, &event->update);
}

void trace_begin(struct trace *trace, const struct trace_event *event)
{
    struct buf *out = &trace->record;
    if (trace->file == NULL)
        return;
    buf_clear(out);
    wire_put_u8(out, (uint8_t)event->kind);
    wire_put_u32(out, 0);
    put_body(trace, event);
    if (buf_ok(out)) {
        wire_store_u32((uint8_t *)out->data + 1, (uint32_t)(out->len - TRACE_RECORD_BYTES));
        wire_put_u32(out, crc32c(0, out->data, out->len));
    }
    trace->sum = 0;
}

void trace_action(struct trace *trace, const struct core_action *action)
{
    if (trace->file != NULL)
        trace->sum = trace_sum_action(trace->sum, action, trace->convert->layout);
}

void trace_end(struct trace *trace, int answer)
{
    if (trace->file == NULL)
        return;
    wire_put_u32(&trace->record, trace_sum_answer(trace->sum, answer));
    write_out(trace);
}

void trace_end_landing(struct trace *trace, const struct core_ref *ref)
{
    trace->sum = trace_sum_landing(trace->sum, ref);
    trace_end(trace, 0);
}
