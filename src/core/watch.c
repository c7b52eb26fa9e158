/* Silence, and the texts of waits. */
#include "core/watch.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/error.h"

/* The nodes that this one exchanges messages with: all, for the coordinator; the coordinator;
 * workers and the servers that own something; workers among themselves if a layer lives there. */
static void find_partners(struct watch *watch, const struct layout *layout)
{
    uint32_t self = watch->self;
    bool serves = false;
    for (uint32_t s = 0; s < layout->servers; s++) {
        if (layout->server_units[s] == 0)
            continue;
        serves = serves || layout->server_node[s] == self;
        if (self < layout->workers)
            bits_add(watch->partners, layout->server_node[s]);
    }
    for (uint32_t r = 0; r < layout->workers; r++)
        if (serves || (self < layout->workers && layout->on_workers > 0))
            bits_add(watch->partners, r);
    if (self == 0)
        bits_fill(watch->partners, watch->nodes);
    bits_add(watch->partners, 0);
    bits_remove(watch->partners, self);
}

tri_status watch_init(struct watch *watch, const struct layout *layout,
                      const struct core_times *times, uint32_t self, const struct mem *mem,
                      tri_error *err)
{
    *watch = (struct watch){.mem = mem, .nodes = layout->nodes, .self = self, .times = *times};
    size_t words = bits_words(layout->nodes);
    watch->heard = mem_array(mem, layout->nodes, sizeof *watch->heard);
    watch->partners = mem_array(mem, words, sizeof *watch->partners);
    watch->departed = mem_array(mem, words, sizeof *watch->departed);
    watch->accused = mem_array(mem, words, sizeof *watch->accused);
    watch->said = mem_array(mem, words, sizeof *watch->said);
    watch->doubt = mem_array(mem, layout->nodes, sizeof *watch->doubt);
    if (watch->heard == NULL || watch->partners == NULL || watch->departed == NULL ||
        watch->accused == NULL || watch->said == NULL || watch->doubt == NULL) {
        watch_fini(watch);
        return fail_nomem(err, "a failure detector");
    }
    find_partners(watch, layout);
    return TRI_OK;
}

void watch_fini(struct watch *watch)
{
    mem_free(watch->mem, watch->heard);
    mem_free(watch->mem, watch->partners);
    mem_free(watch->mem, watch->departed);
    mem_free(watch->mem, watch->accused);
    mem_free(watch->mem, watch->said);
    mem_free(watch->mem, watch->doubt);
    *watch = (struct watch){0};
}

void watch_start(struct watch *watch, uint64_t now)
{
    for (uint32_t n = 0; n < watch->nodes; n++)
        watch_heard(watch, n, now);
}

void watch_heard(struct watch *watch, uint32_t node, uint64_t now)
{
    if (watch_silence(watch, node, now) > watch->times.heartbeat)
        watch->doubt[node] = now;
    if (now > watch->heard[node])
        watch->heard[node] = now;
}

void watch_gone(struct watch *watch, uint32_t node, uint64_t now)
{
    uint64_t silence = 3 * watch->times.heartbeat;
    watch->heard[node] = now > silence ? now - silence : 1;
}

bool watch_believes(const struct watch *watch, uint32_t node, uint64_t now)
{
    uint64_t doubt = watch->doubt[node], heartbeat = watch->times.heartbeat;
    bool awake = watch->woke == 0 || now - watch->woke > heartbeat;
    bool steady = doubt == 0 || now - doubt > 3 * heartbeat;
    return node == watch->self || (awake && steady && watch_silence(watch, node, now) <= heartbeat);
}

uint64_t watch_silence(const struct watch *watch, uint32_t node, uint64_t now)
{
    uint64_t heard = watch->heard[node];
    return heard == 0 || heard > now ? 0 : now - heard;
}

/* This node did not run for longer than a few ticks: it was stopped, or its machine was. What
 * others sent meanwhile may still be waiting to be read. Nobody is taken to be heard later than
 * now: what was read after the sleep needs no forgiving. */
static void forgive(struct watch *watch, uint64_t gap, uint64_t now)
{
    for (uint32_t n = 0; n < watch->nodes; n++)
        if (watch->heard[n] != 0)
            watch->heard[n] = watch->heard[n] + gap < now ? watch->heard[n] + gap : now;
}

void watch_tick(struct watch *watch, uint64_t now)
{
    uint64_t period = core_tick(&watch->times), gap = now - watch->ticked;
    if (watch->ticked != 0 && gap > 2 * period) {
        forgive(watch, gap - period, now);
        watch->woke = now;
    }
    watch->ticked = now;
    for (uint32_t n = 0; n < watch->nodes; n++) {
        bool silent = bits_has(watch->partners, n) && !watch_departed(watch, n) &&
                      2 * watch_silence(watch, n, now) >= 5 * watch->times.heartbeat;
        if (silent)
            bits_add(watch->accused, n);
        else
            bits_remove(watch->accused, n);
    }
}

/* ---- waits ---- */

bool watch_waits(const struct watch *watch, struct watch_wait *wait, bool waiting, uint64_t of,
                 uint64_t now)
{
    if (!waiting) {
        *wait = (struct watch_wait){0};
        return false;
    }
    if (wait->since == 0 || wait->of != of) {
        wait->since = now;
        wait->of = of;
        wait->next = now + watch->times.warn;
    }
    if (watch->times.warn == 0 || now < wait->next)
        return false;
    wait->next = now + (now - wait->since);
    return true;
}

bool watch_overdue(const struct watch *watch, const struct watch_wait *wait, uint64_t now)
{
    return watch->times.limit > 0 && wait->since != 0 && now - wait->since >= watch->times.limit;
}

bool watch_gives_up(const struct watch *watch, const struct watch_wait *wait, uint64_t now)
{
    return watch->times.start > 0 && wait->since != 0 && now - wait->since >= watch->times.start;
}

enum { NAMED = 8 }; /* a longer list of who is missing is cut short */

/* "workers 5, 7" or "worker 5 and 40 more". */
static void name_missing(const struct watch_missing *missing, char *text, size_t cap)
{
    uint32_t count = bits_count(missing->set, missing->members), named = 0;
    size_t used = (size_t)snprintf(text, cap, "%s%s ", missing->who, count == 1 ? "" : "s");
    for (uint32_t m = 0; m < missing->members && named < NAMED && used < cap; m++)
        if (bits_has(missing->set, m))
            used += (size_t)snprintf(text + used, cap - used, "%s%u", named++ > 0 ? ", " : "", m);
    if (count > named && used < cap)
        (void)snprintf(text + used, cap - used, " and %u more", count - named);
}

void watch_tell(const struct watch *watch, const struct watch_wait *wait,
                const struct watch_missing *missing, uint64_t now, const struct core_out *out)
{
    char who[100], heard[40] = "", text[240];
    uint64_t longest = 0;
    bool never = false;
    name_missing(missing, who, sizeof who);
    for (uint32_t m = 0; m < missing->members; m++)
        if (bits_has(missing->set, m)) {
            uint32_t node = missing->node_of != NULL ? missing->node_of[m] : m;
            uint64_t silence = watch_silence(watch, node, now);
            never = never || (watch->heard[node] == 0 && node != watch->self);
            longest = silence > longest ? silence : longest;
        }
    if (never)
        (void)snprintf(heard, sizeof heard, " (never heard of)");
    else if (longest > 0)
        (void)snprintf(heard, sizeof heard, " (last heard %.1f s ago)", (double)longest / 1e6);
    unsigned long long seconds = (now - wait->since) / 1000000;
    if (bits_any(missing->set, missing->members))
        (void)snprintf(text, sizeof text, "waiting %llu s for %.60s of %s%s", seconds,
                       missing->what, who, heard);
    else /* all is here, and not yet worked off */
        (void)snprintf(text, sizeof text, "waiting %llu s for %.60s of this node itself", seconds,
                       missing->what);
    core_wait(out, missing->layer, text);
}
