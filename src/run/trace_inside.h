/* The bytes of a trace, for those who write and read them. */
#ifndef TRIDENT_RUN_TRACE_INSIDE_H
#define TRIDENT_RUN_TRACE_INSIDE_H

#include "run/trace.h"
#include "wire/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "TRTC" in memory, the version, a zero; then the node, its book with its length, and the steps of
 * the optimiser with their number. Behind them the records: kind, length of the body, body, CRC-32C
 * of these, CRC-32C of the answer. */
#define TRACE_MAGIC   UINT32_C(0x43545254)
#define TRACE_VERSION UINT16_C(2)
enum { TRACE_NODE_BYTES = 80, TRACE_RECORD_BYTES = 5, TRACE_SUMS_BYTES = 8 };

/* Does an event of this kind carry a message? */
static inline bool trace_has_message(unsigned kind)
{
    return kind == TRACE_LANDING || kind == TRACE_LOST || kind == TRACE_ADDS ||
           kind == TRACE_MESSAGE;
}

/* The checksum of an answer, continued; all fields of it count. */
uint32_t trace_sum_action(uint32_t sum, const struct core_action *action,
                          const struct layout *layout);
uint32_t trace_sum_landing(uint32_t sum, const struct core_ref *ref);
uint32_t trace_sum_answer(uint32_t sum, int answer);

/* As trace_replay(), whatever the core answers: for fuzzing. */
tri_status trace_feed(const void *bytes, size_t len, const struct mem *mem,
                      struct trace_report *report, tri_error *err);

/* An operation in 39 bytes, and back. */
void trace_put_op(struct buf *out, const struct core_op *op);
struct core_op trace_get_op(struct wire_in *in);

#ifdef __cplusplus
}
#endif

#endif
