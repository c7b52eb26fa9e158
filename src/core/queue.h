/* What waits to be sent to one peer, most urgent first.
 *
 * Order: what steers the job, then older clocks, then lower layers (needed first by
 * the next forward pass), then parts, then as it came. So to one peer nothing of
 * clock t+1 overtakes clock t. */
#ifndef TRIDENT_CORE_QUEUE_H
#define TRIDENT_CORE_QUEUE_H

#include "base/mem.h"
#include "core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

struct queue_entry {
    struct message message;
    struct core_ref ref;
    uint64_t number; /* in order of arrival */
    void *tag;       /* the host's own */
};

struct queue {
    const struct mem *mem;
    struct queue_entry *entries; /* a heap */
    size_t count, cap;
    uint64_t numbers;
};

void queue_init(struct queue *queue, const struct mem *mem);
void queue_fini(struct queue *queue);
/* Allocates only when the queue is longer than ever before. */
tri_status queue_push(struct queue *queue, const struct message *message,
                      const struct core_ref *ref, void *tag, tri_error *err);
/* The most urgent, which stays where it is until the queue changes; NULL when there is none. */
const struct queue_entry *queue_top(const struct queue *queue);
/* Takes the most urgent; false when there is none. */
bool queue_pop(struct queue *queue, struct queue_entry *out);

#ifdef __cplusplus
}
#endif

#endif
