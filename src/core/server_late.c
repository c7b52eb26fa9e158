/* Stragglers: clocks that close without them, and how they come back (Poseidon drops them). */
#include "core/server_inside.h"

bool server_leaves_out(const struct server *server, const struct server_unit *unit)
{
    /* The start is slow for everybody; and a mean of nobody is no progress. */
    return core_leaves_out(&server->rules) && unit->version > server->first &&
           unit->gather.in > 0 && !unit->closing;
}

/* What of its update came in time is kept, so that the rest makes it whole. */
static void become_late(struct server_unit *unit, uint32_t rank)
{
    const struct gather *gather = &unit->gather;
    size_t words = bits_words(gather->max_parts);
    unit->late_clock[rank] = unit->version;
    gather_forget(&unit->late, rank);
    bits_copy(unit->late.parts + rank * words, gather->parts + rank * words, gather->max_parts);
    unit->late.rank[rank] = gather->rank[rank];
}

/* From here on what comes for the open clock is late, though it is not closed yet. */
void server_begin_close(struct server *server, struct server_unit *unit)
{
    unit->closing = true;
    for (uint32_t r = 0; server->absent != NULL && r < server->layout->workers; r++) {
        /* A rank that joins later has nothing on its way here. */
        bool joins = server->absent[r] != UINT64_MAX && server->absent[r] > unit->version;
        if (bits_has(server->live, r) && !bits_has(unit->gather.whole, r) && !joins &&
            unit->late_clock[r] == UINT64_MAX)
            become_late(unit, r);
    }
}

/* Who was in gets an answer, and who joins now. */
void server_note_in(struct server *server, struct server_unit *unit)
{
    for (uint32_t r = 0; r < server->layout->workers; r++) {
        if (!bits_has(server->live, r))
            continue;
        if (bits_has(unit->gather.whole, r))
            bits_add(unit->due, r);
        if (server->absent[r] == unit->version) {
            bits_add(unit->joined, r);
            bits_add(unit->due, r);
        }
    }
}

void server_take_late(struct server *server, struct server_unit *unit,
                      const struct message *message, const struct core_out *out)
{
    const struct layout_unit *owned = owned_by(server, unit);
    if (!core_leaves_out(&server->rules) || message->clock != unit->late_clock[message->rank])
        return;
    uint32_t part =
        message->kind == WIRE_FACTORS ? message->part : message->part - owned->first_part;
    uint32_t parts = message->kind == WIRE_FACTORS ? message->parts : owned->parts;
    enum gather_step step = message->kind == WIRE_NOTHING
                                ? gather_nothing(&unit->late, message->rank)
                                : gather_part(&unit->late, message, part, parts);
    if (step == GATHER_WHOLE)
        server_advance(server, unit, out);
}

/* The coordinator counts; a rank that is late again and again leaves the view. */
static void note_miss(struct server *server, uint32_t rank, uint64_t clock,
                      const struct core_out *out)
{
    if (clock < server->noted[rank])
        return; /* of this clock or a later one it is known */
    /* Running: the clock before, or the one it joined at. */
    bool running = clock <= server->noted[rank] || clock == server->absent[rank];
    server->misses[rank] = running ? server->misses[rank] + 1 : 1;
    server->noted[rank] = clock + 1;
    server_tell(
        server,
        (struct message){
            .kind = WIRE_LEFT_OUT, .rank = rank, .clock = clock, .count = server->misses[rank]},
        out);
}

/* The unit has moved on by more than a clock: nothing it could be given would fit the rest. */
static void tell_too_late(struct server *server, const struct server_unit *unit, uint32_t rank,
                          uint64_t clock, const struct core_out *out)
{
    const struct layout_unit *owned = owned_by(server, unit);
    struct message message = {.kind = WIRE_LEFT_OUT,
                              .role = CORE_WORKER,
                              .from = server->node,
                              .layer = owned->layer,
                              .part = owned->first_part,
                              .rank = rank,
                              .clock = clock,
                              .version = unit->version};
    core_send(out, rank, &message, (struct core_ref){.space = CORE_NOWHERE});
    if (server->absent[rank] <= unit->version)
        server->absent[rank] = UINT64_MAX; /* it will ask for a clock to join at */
}

void server_answer_late(struct server *server, struct server_unit *unit, const struct core_out *out)
{
    for (uint32_t r = 0; r < server->layout->workers; r++) {
        /* One that came while its clock was closing waits until it has. */
        if (!bits_has(unit->late.whole, r) || unit->late_clock[r] == unit->version)
            continue;
        uint64_t clock = unit->late_clock[r];
        gather_forget(&unit->late, r);
        unit->late_clock[r] = UINT64_MAX;
        if (!bits_has(server->live, r))
            continue;
        note_miss(server, r, clock, out);
        if (unit->version == clock + 1) {
            bits_add(unit->left_out, r);
            bits_add(unit->due, r);
            if (unit->closing)
                become_late(unit, r); /* for the next clock, too */
        } else {
            tell_too_late(server, unit, r, clock, out);
        }
    }
}

/* Can a join be agreed to? It must be ahead of all units; or, when the others have closed, where
 * all units are and will stay. */
static bool may_join(const struct server *server, const struct message *message, uint64_t *newest)
{
    bool there = true;
    *newest = 0;
    for (uint32_t i = 0; i < server->unit_count; i++) {
        uint64_t version = server->units[i].version;
        *newest = version > *newest ? version : *newest;
        there = there && version == message->clock;
    }
    return message->last ? there : *newest < message->clock;
}

/* Nothing of this rank is on its way; what was kept for an earlier proposal is void. */
static void await_join(struct server *server, struct server_unit *unit,
                       const struct message *message)
{
    uint32_t rank = message->rank;
    bits_remove(unit->joined, rank);
    bits_remove(unit->due, rank);
    bits_remove(unit->replying, rank); /* the slot may be filled; it is not sent */
    unit->late_clock[rank] = UINT64_MAX;
    gather_forget(&unit->late, rank);
    if (message->last) {
        bits_add(unit->joined, rank);
        bits_add(unit->due, rank);
    }
    server->absent[rank] = message->clock;
}

/* A rank joins again at a clock ahead: until then no unit waits for it, and each keeps what it
 * is then for it. A second message says that all have agreed. */
void server_take_join(struct server *server, const struct message *message,
                      const struct core_out *out)
{
    uint32_t rank = message->rank;
    uint64_t newest = 0;
    if (!core_leaves_out(&server->rules) || rank >= server->layout->workers)
        return;
    uint64_t absent = server->absent[rank];
    if (message->accepted) {
        if (absent == message->clock && bits_add(server->agreed, rank))
            server_release_join(server, rank, out);
        return;
    }
    /* A second copy is answered a second time; an older proposal not at all. */
    bool known = absent == message->clock;
    bool older = absent != UINT64_MAX && message->clock < absent;
    if (!message->last && (bits_has(server->last, rank) || (!known && older)))
        return;
    if (message->last)
        bits_add(server->last, rank);
    bool accepted = known || may_join(server, message, &newest);
    if (accepted && !known)
        bits_remove(server->agreed, rank);
    for (uint32_t i = 0; i < server->unit_count && accepted && !known; i++)
        await_join(server, &server->units[i], message);
    server_tell(server,
                (struct message){.kind = WIRE_MARKED,
                                 .mark = CORE_MARK_JOIN,
                                 .rank = rank,
                                 .clock = message->clock,
                                 .count = newest,
                                 .accepted = accepted},
                out);
    for (uint32_t i = 0; i < server->unit_count; i++)
        server_advance(server, &server->units[i], out);
}
