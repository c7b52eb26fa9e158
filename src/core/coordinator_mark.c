/* Clocks named ahead: checkpoints, and where a rank that was left behind joins again. */
#include <stdio.h>

#include "base/error.h"
#include "core/coordinator_inside.h"

/* ---- memory ---- */

static bool init_mark(const struct coordinator *coordinator, struct coordinator_mark *mark)
{
    size_t words = bits_words(coordinator->owners);
    mark->agreed = mem_array(coordinator->mem, words, sizeof *mark->agreed);
    mark->saved = mem_array(coordinator->mem, words, sizeof *mark->saved);
    return mark->agreed != NULL && mark->saved != NULL;
}

static void fini_mark(const struct coordinator *coordinator, struct coordinator_mark *mark)
{
    mem_free(coordinator->mem, mark->agreed);
    mem_free(coordinator->mem, mark->saved);
}

/* Servers that own units, and worker 0 where it has what they would have to send. */
static void find_savers(struct coordinator *coordinator)
{
    const struct layout *layout = coordinator->layout;
    const struct core_rules *rules = &coordinator->rules;
    for (uint32_t s = 0; s < layout->servers; s++)
        if (layout->server_units[s] > 0 && !rules->replicated)
            bits_add(coordinator->savers, s);
    for (uint32_t i = 0; i < layout->layer_count; i++)
        if (core_worker_saves_params(rules, layout->layers[i].home))
            bits_add(coordinator->savers, layout->servers);
}

tri_status coordinator_init_marks(struct coordinator *coordinator, tri_error *err)
{
    uint32_t ranks = coordinator->layout->workers;
    coordinator->owners = coordinator->layout->servers + 1;
    coordinator->savers =
        mem_array(coordinator->mem, bits_words(coordinator->owners), sizeof(uint64_t));
    bool ok = coordinator->savers != NULL && init_mark(coordinator, &coordinator->save);
    if (ok && core_leaves_out(&coordinator->rules)) {
        coordinator->joins = mem_array(coordinator->mem, ranks, sizeof *coordinator->joins);
        ok = coordinator->joins != NULL;
        for (uint32_t r = 0; r < ranks && ok; r++)
            ok = init_mark(coordinator, &coordinator->joins[r]);
    }
    if (!ok)
        return fail_nomem(err, "the coordinator");
    find_savers(coordinator);
    return TRI_OK;
}

void coordinator_fini_marks(struct coordinator *coordinator)
{
    fini_mark(coordinator, &coordinator->save);
    for (uint32_t r = 0; coordinator->joins != NULL && r < coordinator->layout->workers; r++)
        fini_mark(coordinator, &coordinator->joins[r]);
    mem_free(coordinator->mem, coordinator->joins);
    mem_free(coordinator->mem, coordinator->savers);
}

/* ---- proposing ---- */

void coordinator_heard_clock(struct coordinator *coordinator, uint64_t clock)
{
    if (clock > coordinator->newest)
        coordinator->newest = clock;
}

static bool is_owner(const struct coordinator *coordinator, const struct coordinator_mark *mark,
                     uint32_t owner)
{
    const struct layout *layout = coordinator->layout;
    if (mark == &coordinator->save)
        return bits_has(coordinator->savers, owner);
    return owner == layout->servers || layout->server_units[owner] > 0;
}

/* Worker 0 of a checkpoint, the one who joins of a join. */
static uint32_t worker_of(const struct coordinator *coordinator,
                          const struct coordinator_mark *mark)
{
    return mark == &coordinator->save ? 0 : (uint32_t)(mark - coordinator->joins);
}

static void tell_owners(const struct coordinator *coordinator, const struct coordinator_mark *mark,
                        bool agreed, const struct core_out *out)
{
    const struct layout *layout = coordinator->layout;
    uint32_t rank = worker_of(coordinator, mark);
    struct message message = {.kind = WIRE_MARK,
                              .mark = mark == &coordinator->save ? CORE_MARK_SAVE : CORE_MARK_JOIN,
                              .clock = mark->clock,
                              .rank = rank,
                              .accepted = agreed,
                              .last = mark->last};
    for (uint32_t i = 0; i < coordinator->owners; i++) {
        if (!is_owner(coordinator, mark, i) || (agreed && i == layout->servers))
            continue;
        message.role = i == layout->servers ? CORE_WORKER : CORE_SERVER;
        coordinator_tell(coordinator, i == layout->servers ? rank : layout->server_node[i], message,
                         out);
    }
}

/* Some clocks ahead of the newest heard of. An owner that is past it says so; then the next
 * proposal looks twice as far ahead, so that slow messages catch up with fast clocks. */
static void propose(struct coordinator *coordinator, struct coordinator_mark *mark,
                    const struct core_out *out)
{
    uint64_t clock = coordinator->newest + mark->lead;
    mark->clock = mark->last            ? coordinator->bye_clock
                  : clock > mark->clock ? clock
                                        : mark->clock + 1;
    mark->lead *= 2;
    bits_clear(mark->agreed, coordinator->owners);
    bits_clear(mark->saved, coordinator->owners);
    tell_owners(coordinator, mark, false, out);
}

static void open_mark(struct coordinator *coordinator, struct coordinator_mark *mark,
                      const struct core_out *out)
{
    mark->open = true;
    mark->lead = 2;
    propose(coordinator, mark, out);
}

void coordinator_mark(struct coordinator *coordinator, uint64_t at, const struct core_out *out)
{
    /* In aggregate mode the parameters are the caller's to save. */
    struct coordinator_mark *save = &coordinator->save;
    if (coordinator->stage != COORDINATOR_RUNNING || save->open || coordinator->rules.aggregate)
        return;
    if (at > save->clock)
        save->clock = at - 1; /* the next proposal is behind it */
    open_mark(coordinator, save, out);
}

void coordinator_join_last(struct coordinator *coordinator, uint32_t rank,
                           const struct core_out *out)
{
    struct coordinator_mark *mark = &coordinator->joins[rank];
    if (mark->last)
        return;
    mark->last = true;
    open_mark(coordinator, mark, out);
}

/* ---- answers ---- */

static bool all_in(const struct coordinator *coordinator, const struct coordinator_mark *mark,
                   const uint64_t *set)
{
    for (uint32_t i = 0; i < coordinator->owners; i++)
        if (is_owner(coordinator, mark, i) && !bits_has(set, i))
            return false;
    return true;
}

bool coordinator_agreed(const struct coordinator *coordinator)
{
    const struct coordinator_mark *save = &coordinator->save;
    return !save->open || all_in(coordinator, save, save->agreed);
}

/* An owner may have saved before another one has agreed. */
static void check_whole(struct coordinator *coordinator, struct coordinator_mark *mark,
                        const struct core_out *out)
{
    if (!all_in(coordinator, mark, mark->agreed))
        return;
    if (mark != &coordinator->save) {
        mark->open = false;
        tell_owners(coordinator, mark, true, out);
    } else if (all_in(coordinator, mark, mark->saved)) {
        struct core_action commit = {.kind = CORE_COMMIT, .clock = mark->clock};
        mark->open = false;
        coordinator->done = mark->clock;
        core_emit(out, &commit);
    }
}

void coordinator_take_marked(struct coordinator *coordinator, const struct message *message,
                             const struct core_out *out)
{
    bool joins = message->kind == WIRE_MARKED && message->mark == CORE_MARK_JOIN;
    uint32_t servers = coordinator->layout->servers;
    uint32_t owner = message->owner == CORE_OWNER_WORKER ? servers : message->owner;
    if (owner > servers ||
        (joins && (coordinator->joins == NULL || message->rank >= coordinator->layout->workers)))
        return;
    struct coordinator_mark *mark = joins ? &coordinator->joins[message->rank] : &coordinator->save;
    /* A worker that was left behind has a clock of its own. */
    if (!joins || message->owner != CORE_OWNER_WORKER)
        coordinator_heard_clock(coordinator, message->count);
    if (!mark->open || message->clock != mark->clock)
        return;
    if (message->kind == WIRE_SAVED)
        bits_add(mark->saved, owner);
    else if (message->accepted)
        bits_add(mark->agreed, owner);
    else if (mark->last)
        mark->retry =
            true; /* at the next tick: an answer to this proposal may be to the one before */
    else
        propose(coordinator, mark, out);
    check_whole(coordinator, mark, out);
    coordinator_check_end(coordinator, out);
}

void coordinator_retry_joins(struct coordinator *coordinator, const struct core_out *out)
{
    for (uint32_t r = 0; coordinator->joins != NULL && r < coordinator->layout->workers; r++)
        if (coordinator->joins[r].open && coordinator->joins[r].retry) {
            coordinator->joins[r].retry = false;
            propose(coordinator, &coordinator->joins[r], out);
        }
}

/* From a worker: it is behind and wants a clock to join at. From a server: a rank was late, for
 * so many clocks running. */
void coordinator_take_left_out(struct coordinator *coordinator, const struct message *message,
                               const struct core_out *out)
{
    uint32_t rank = message->rank, limit = coordinator->rules.left_outs;
    if (coordinator->joins == NULL || rank >= coordinator->layout->workers ||
        bits_has(coordinator->departed, rank) || coordinator->stage != COORDINATOR_RUNNING)
        return;
    if (message->owner == CORE_OWNER_WORKER) {
        struct coordinator_mark *mark = &coordinator->joins[rank];
        if (!mark->open && message->clock >= mark->clock)
            open_mark(coordinator, mark, out);
        coordinator_check_end(coordinator, out);
    } else if (limit > 0 && message->count >= limit && !coordinator_needs(coordinator, rank)) {
        char why[100];
        (void)snprintf(why, sizeof why, "was late for %llu clocks running",
                       (unsigned long long)message->count);
        coordinator_evict(coordinator, rank, why, out);
    }
}
