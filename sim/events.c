/* A heap of events. */
#include "sim/events.h"

static bool earlier(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

static void swap(struct event *a, struct event *b)
{
    struct event c = *a;
    *a = *b;
    *b = c;
}

bool events_add(struct events *events, const struct mem *mem, struct event event)
{
    void *heap = events->heap;
    if (mem_grow(mem, &heap, &events->cap, events->count + 1, sizeof *events->heap) == NULL)
        return false;
    events->heap = heap;
    event.number = events->numbers++;
    size_t at = events->count++;
    events->heap[at] = event;
    while (at > 0 && earlier(&events->heap[at], &events->heap[(at - 1) / 2])) {
        swap(&events->heap[at], &events->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    return true;
}

struct event events_next(struct events *events)
{
    struct event first = events->heap[0];
    events->heap[0] = events->heap[--events->count];
    for (size_t at = 0;;) {
        size_t least = 2 * at + 1;
        if (least >= events->count)
            return first;
        if (least + 1 < events->count && earlier(&events->heap[least + 1], &events->heap[least]))
            least++;
        if (!earlier(&events->heap[least], &events->heap[at]))
            return first;
        swap(&events->heap[at], &events->heap[least]);
        at = least;
    }
}
