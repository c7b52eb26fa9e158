/* Joining, checkpoints, checksums. */
#include "core/coordinator.h"

#include "base/error.h"

/* ---- rounds ---- */

static void round_open(struct coordinator_round *round, uint32_t members, uint64_t clock)
{
    bits_clear(round->in, members);
    round->count = 0;
    round->clock = clock;
}

/* Takes an answer; false when it is not what the others said. A second answer of one
 * member is ignored. */
static bool round_take(struct coordinator_round *round, uint32_t member, uint64_t value)
{
    if (!bits_add(round->in, member))
        return true;
    if (round->count++ == 0) {
        round->value = value;
        round->first = member;
    }
    return round->value == value;
}

static bool worker_saves(const struct layout *layout, const struct core_rules *rules)
{
    for (uint32_t i = 0; i < layout->layer_count; i++)
        if (core_worker_saves(rules, layout->layers[i].home))
            return true;
    return false;
}

static bool server_saves(const struct layout *layout, const struct core_rules *rules, uint32_t s)
{
    return layout->server_units[s] > 0 && !rules->replicated;
}

static uint32_t count_owners(const struct layout *layout, const struct core_rules *rules)
{
    uint32_t owners = worker_saves(layout, rules);
    for (uint32_t s = 0; s < layout->servers; s++)
        owners += server_saves(layout, rules, s);
    return owners;
}

tri_status coordinator_init(struct coordinator *coordinator, const struct layout *layout,
                            const struct core_rules *rules, const struct mem *mem, tri_error *err)
{
    *coordinator = (struct coordinator){.mem = mem,
                                        .layout = layout,
                                        .view = 1,
                                        .rules = *rules,
                                        .owners = count_owners(layout, rules)};
    size_t words = bits_words(layout->nodes);
    coordinator->join.in = mem_array(mem, words, sizeof(uint64_t));
    coordinator->checksum[0].in = mem_array(mem, words, sizeof(uint64_t));
    coordinator->checksum[1].in = mem_array(mem, words, sizeof(uint64_t));
    if (coordinator->join.in != NULL && coordinator->checksum[0].in != NULL &&
        coordinator->checksum[1].in != NULL)
        return TRI_OK;
    coordinator_fini(coordinator);
    return fail_nomem(err, "the coordinator");
}

void coordinator_fini(struct coordinator *coordinator)
{
    mem_free(coordinator->mem, coordinator->join.in);
    mem_free(coordinator->mem, coordinator->checksum[0].in);
    mem_free(coordinator->mem, coordinator->checksum[1].in);
    *coordinator = (struct coordinator){0};
}

static void tell(const struct coordinator *coordinator, uint32_t node, enum core_role role,
                 enum wire_kind kind, uint64_t clock, const struct core_out *out)
{
    struct message message = {
        .kind = kind, .role = role, .view = coordinator->view, .clock = clock};
    core_send(out, node, &message, (struct core_ref){.space = CORE_NOWHERE});
}

static void tell_members(const struct coordinator *coordinator, enum wire_kind kind,
                         const struct core_out *out)
{
    for (uint32_t n = 0; n < coordinator->layout->nodes; n++)
        tell(coordinator, n, CORE_MEMBER, kind, 0, out);
}

/* ---- joining ---- */

/* No node may take part with other layers or another plan: it would train another model. */
static void refuse(struct coordinator *coordinator, uint32_t node, const char *what,
                   const struct core_out *out)
{
    coordinator->stage = COORDINATOR_REFUSED;
    tell_members(coordinator, WIRE_REFUSED, out);
    core_fail(out, TRI_EMISMATCH, "node %u has other %s than node %u", node, what,
              coordinator->join.first);
}

static void take_join(struct coordinator *coordinator, const struct message *message,
                      const struct core_out *out)
{
    bool joining = message->kind == WIRE_HELLO;
    if (message->from >= coordinator->layout->nodes ||
        coordinator->stage != (joining ? COORDINATOR_JOINING : COORDINATOR_PLANNING))
        return;
    if (!round_take(&coordinator->join, message->from, message->hash)) {
        refuse(coordinator, message->from, joining ? "layers" : "plans", out);
        return;
    }
    if (coordinator->join.count < coordinator->layout->nodes)
        return;
    round_open(&coordinator->join, coordinator->layout->nodes, 0);
    coordinator->stage = joining ? COORDINATOR_PLANNING : COORDINATOR_RUNNING;
    tell_members(coordinator, joining ? WIRE_BOOK : WIRE_START, out);
}

/* ---- checksums ---- */

static void take_checksum(struct coordinator *coordinator, const struct message *message,
                          const struct core_out *out)
{
    struct coordinator_round *round = &coordinator->checksum[message->clock % 2];
    if (message->rank >= coordinator->layout->workers || message->clock < round->clock)
        return;
    /* The first of a clock finds the round of two clocks before, which all have ended. */
    if (round->clock != message->clock)
        round_open(round, coordinator->layout->nodes, message->clock);
    if (!round_take(round, message->rank, message->crc))
        core_fail(out, TRI_EMISMATCH, "parameters of ranks %u and %u differ at clock %llu",
                  round->first, message->rank, (unsigned long long)message->clock);
}

/* ---- checkpoints ---- */

/* Some clocks ahead of the newest heard of. An owner that is past it says so; then the next
 * proposal looks twice as far ahead, so that slow messages catch up with fast clocks. */
static void propose(struct coordinator *coordinator, const struct core_out *out)
{
    const struct layout *layout = coordinator->layout;
    const struct core_rules *rules = &coordinator->rules;
    coordinator->mark = coordinator->newest + coordinator->lead;
    coordinator->lead *= 2;
    coordinator->agreed = coordinator->saved = 0;
    for (uint32_t i = 0; i < layout->servers; i++)
        if (server_saves(layout, rules, i))
            tell(coordinator, layout->server_node[i], CORE_SERVER, WIRE_MARK, coordinator->mark,
                 out);
    if (worker_saves(layout, rules))
        tell(coordinator, 0, CORE_WORKER, WIRE_MARK, coordinator->mark, out);
}

void coordinator_mark(struct coordinator *coordinator, const struct core_out *out)
{
    /* In aggregate mode the parameters are the caller's to save. */
    if (coordinator->stage != COORDINATOR_RUNNING || coordinator->marking ||
        coordinator->rules.aggregate)
        return;
    coordinator->marking = true;
    coordinator->lead = 2;
    propose(coordinator, out);
}

static void heard_clock(struct coordinator *coordinator, uint64_t clock)
{
    if (clock > coordinator->newest)
        coordinator->newest = clock;
}

/* An owner may have saved before another one has agreed. */
static void check_whole(struct coordinator *coordinator, const struct core_out *out)
{
    if (coordinator->agreed < coordinator->owners || coordinator->saved < coordinator->owners)
        return;
    coordinator->marking = false;
    coordinator->done = coordinator->mark;
    core_wake(out, UINT32_MAX);
}

static void take_mark_answer(struct coordinator *coordinator, const struct message *message,
                             const struct core_out *out)
{
    heard_clock(coordinator, message->count);
    if (!coordinator->marking || message->clock != coordinator->mark)
        return;
    if (message->kind == WIRE_SAVED)
        coordinator->saved++;
    else if (message->accepted)
        coordinator->agreed++;
    else
        propose(coordinator, out);
    check_whole(coordinator, out);
}

void coordinator_message(struct coordinator *coordinator, const struct message *message,
                         const struct core_out *out)
{
    switch (message->kind) {
    case WIRE_HELLO:
    case WIRE_READY:
        take_join(coordinator, message, out);
        break;
    case WIRE_CLOCK:
        heard_clock(coordinator, message->clock);
        break;
    case WIRE_CHECKSUM:
        take_checksum(coordinator, message, out);
        break;
    case WIRE_MARKED:
    case WIRE_SAVED:
        take_mark_answer(coordinator, message, out);
        break;
    default:
        break;
    }
}
