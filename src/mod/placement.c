/* Dealing in turn, and to the least loaded. */
#include "mod/placement.h"

#include <stdbool.h>

void placement_in_turn(tri_placement_deal *deal)
{
    for (size_t i = 0; i < deal->pieces; i++) {
        uint32_t server = (uint32_t)(i % deal->servers);
        deal->owner[i] = server;
        deal->load[server] += deal->bytes[i];
    }
}

/* Ties go to the lower number, so that every node deals the same. */
static bool lighter(const tri_placement_deal *deal, uint32_t a, uint32_t b)
{
    return deal->load[a] != deal->load[b] ? deal->load[a] < deal->load[b] : a < b;
}

/* Restores the heap after the load of its root has grown. */
static void sink(tri_placement_deal *deal)
{
    uint32_t *heap = deal->heap;
    size_t at = 0, n = deal->servers;
    for (;;) {
        size_t least = 2 * at + 1;
        if (least >= n)
            return;
        if (least + 1 < n && lighter(deal, heap[least + 1], heap[least]))
            least++;
        if (lighter(deal, heap[at], heap[least]))
            return;
        uint32_t server = heap[at];
        heap[at] = heap[least];
        heap[least] = server;
        at = least;
    }
}

void placement_least_loaded(tri_placement_deal *deal)
{
    for (uint32_t s = 0; s < deal->servers; s++)
        deal->heap[s] = s; /* all loads are zero, so this is a heap */
    for (size_t i = 0; i < deal->pieces; i++) {
        uint32_t piece = deal->order[i], server = deal->heap[0];
        deal->owner[piece] = server;
        deal->load[server] += deal->bytes[piece];
        sink(deal);
    }
}
