/* Traces: every event that a node's core was given, and a checksum of what it answered.
 *
 * A host with a trace writes down each event before the core gets it, and behind it a CRC-32C of
 * the actions that followed; values are not in it. Replaying feeds the same events to a new core,
 * so that what went wrong in a real job can be looked at on another machine, as often as wanted,
 * and compares the checksums, so that a change of the core that does something else is noticed.
 * docs/runtime.md, section Traces, has the bytes. */
#ifndef TRIDENT_RUN_TRACE_H
#define TRIDENT_RUN_TRACE_H

#include "base/log.h"
#include "core/node.h"
#include "run/convert.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are those of the file. */
enum trace_kind {
    TRACE_JOIN = 1,
    TRACE_LANDING = 2,
    TRACE_LOST = 3,
    TRACE_ADDS = 4,
    TRACE_MESSAGE = 5,
    TRACE_DONE = 6,
    TRACE_GONE = 7,
    TRACE_TICK = 8,
    TRACE_START = 9,
    TRACE_UPDATE = 10,
    TRACE_SYNC = 11,
    TRACE_CLOCK = 12,
    TRACE_CHECKSUM = 13,
    TRACE_CLOSE = 14,
    TRACE_END = 15, /* the host has closed: nothing is missing */
    TRACE_MARK = 16,
    TRACE_KINDS /* one past the last */
};

/* "landing"; "?" for a number that is none. Static storage. */
const char *trace_kind_name(unsigned kind);

/* Which fields mean something is as in the calls of core/node.h. */
struct trace_event {
    enum trace_kind kind;
    uint64_t now;    /* of a mark: the clock */
    uint32_t number; /* of the layer or the node; the crc of a checksum */
    const struct message *message;
    struct core_op op;
    struct worker_update update;
};

/* ---- writing ---- */

struct trace;

struct trace_options {
    const struct mem *mem;
    const struct log *log;
    const char *path; /* "%r" in it stands for the node's number */
    const struct node_options *node;
    const struct convert *convert; /* stays the caller's, and is looked at with each event */
    struct convert_data book;      /* as agree_encode() makes it */
};

/* NULL, with a line in the log, when the file cannot be written: a job is never stopped by its
 * trace. The same goes for all that follows: the first failure is told, and ends the trace. */
struct trace *trace_open(const struct trace_options *options);
void trace_close(struct trace *trace); /* NULL is fine */

/* Before the core gets the event; then each action of its; then what the call returned: 0 for
 * nothing, a status, or whether it was true. All by one thread at a time. */
void trace_begin(struct trace *trace, const struct trace_event *event);
void trace_action(struct trace *trace, const struct core_action *action);
void trace_end(struct trace *trace, int answer);
void trace_end_landing(struct trace *trace, const struct core_ref *ref);

/* ---- replaying ---- */

struct trace_report {
    uint32_t node;   /* whose trace it is */
    uint64_t events; /* that the core was given and answered as it did */
    uint64_t actions;
    bool whole;        /* the trace goes to the end of its host; else that was killed */
    const char *event; /* the kind of the one that went wrong; "" for none */
};

/* Takes any bytes. TRI_OK: the core did the same again. TRI_EMISMATCH: it did not, or plans the job
 * otherwise; TRI_EINPUT: these bytes are no trace, or are damaged. The text names the event, by its
 * number and kind; report->events have passed. */
tri_status trace_replay(const void *bytes, size_t len, const struct mem *mem,
                        struct trace_report *report, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
