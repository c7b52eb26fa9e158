/* A binary heap of messages. */
#include "core/queue.h"

#include "base/error.h"

void queue_init(struct queue *queue, const struct mem *mem)
{
    *queue = (struct queue){.mem = mem};
}

void queue_fini(struct queue *queue)
{
    mem_free(queue->mem, queue->entries);
    queue_init(queue, queue->mem);
}

/* What steers the job is small and goes first; then updates and results, for which somebody waits;
 * then what a checkpoint is made of. */
enum rank { STEERS, VALUES, STATES };

static enum rank rank_of(enum wire_kind kind)
{
    if (kind == WIRE_STATE)
        return STATES;
    return kind >= WIRE_INIT && kind <= WIRE_RESULT ? VALUES : STEERS;
}

static bool before(const struct queue_entry *a, const struct queue_entry *b)
{
    const struct message *x = &a->message, *y = &b->message;
    enum rank rank = rank_of(x->kind);
    if (rank != rank_of(y->kind))
        return rank < rank_of(y->kind);
    if (rank == STEERS)
        return a->number < b->number;
    if (x->clock != y->clock)
        return x->clock < y->clock;
    if (x->layer != y->layer)
        return x->layer < y->layer;
    if (x->part != y->part)
        return x->part < y->part;
    return a->number < b->number;
}

static void swap(struct queue_entry *a, struct queue_entry *b)
{
    struct queue_entry c = *a;
    *a = *b;
    *b = c;
}

tri_status queue_push(struct queue *queue, const struct message *message,
                      const struct core_ref *ref, void *tag, tri_error *err)
{
    void *entries = queue->entries;
    if (mem_grow(queue->mem, &entries, &queue->cap, queue->count + 1, sizeof *queue->entries) ==
        NULL)
        return fail_nomem(err, "a queue of messages");
    queue->entries = entries;
    size_t at = queue->count++;
    queue->entries[at] = (struct queue_entry){*message, *ref, queue->numbers++, tag};
    while (at > 0 && before(&queue->entries[at], &queue->entries[(at - 1) / 2])) {
        swap(&queue->entries[at], &queue->entries[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    return TRI_OK;
}

const struct queue_entry *queue_top(const struct queue *queue)
{
    return queue->count > 0 ? &queue->entries[0] : NULL;
}

bool queue_pop(struct queue *queue, struct queue_entry *out)
{
    if (queue->count == 0)
        return false;
    *out = queue->entries[0];
    queue->entries[0] = queue->entries[--queue->count];
    for (size_t at = 0;;) {
        size_t least = 2 * at + 1;
        if (least >= queue->count)
            return true;
        if (least + 1 < queue->count && before(&queue->entries[least + 1], &queue->entries[least]))
            least++;
        if (!before(&queue->entries[least], &queue->entries[at]))
            return true;
        swap(&queue->entries[at], &queue->entries[least]);
        at = least;
    }
}
