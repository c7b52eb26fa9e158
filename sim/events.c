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

static void sift_up(struct events *events, size_t at)
{
    while (at > 0 && earlier(&events->heap[at], &events->heap[(at - 1) / 2])) {
        swap(&events->heap[at], &events->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static void sift_down(struct events *events, size_t at)
{
    for (;;) {
        size_t least = 2 * at + 1;
        if (least >= events->count)
            return;
        if (least + 1 < events->count && earlier(&events->heap[least + 1], &events->heap[least]))
            least++;
        if (!earlier(&events->heap[least], &events->heap[at]))
            return;
        swap(&events->heap[at], &events->heap[least]);
        at = least;
    }
}

bool events_add(struct events *events, const struct mem *mem, struct event event)
{
    void *heap = events->heap;
    if (mem_grow(mem, &heap, &events->cap, events->count + 1, sizeof *events->heap) == NULL)
        return false;
    events->heap = heap;
    event.number = events->numbers++;
    events->heap[events->count] = event;
    sift_up(events, events->count++);
    return true;
}

struct event events_next(struct events *events)
{
    struct event first = events->heap[0];
    events->heap[0] = events->heap[--events->count];
    sift_down(events, 0);
    return first;
}

bool events_take(struct events *events, bool (*match)(const void *ctx, const struct event *event),
                 const void *ctx, struct event *out)
{
    size_t at = events->count;
    for (size_t i = 0; i < events->count; i++)
        if (match(ctx, &events->heap[i]) &&
            (at == events->count || earlier(&events->heap[i], &events->heap[at])))
            at = i;
    if (at == events->count)
        return false;
    *out = events->heap[at];
    events->heap[at] = events->heap[--events->count];
    if (at < events->count) {
        sift_down(events, at);
        sift_up(events, at);
    }
    return true;
}
