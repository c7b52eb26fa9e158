/* Joining, checksums, the end. */
#include "core/coordinator.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/coordinator_inside.h"

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

/* Forgets what a member said: it has departed, and the others may go on without what it had. */
static void round_forget(struct coordinator_round *round, uint32_t member, uint32_t members)
{
    if (!bits_has(round->in, member))
        return;
    bits_remove(round->in, member);
    round->count--;
    for (uint32_t m = 0; m < members && round->first == member; m++)
        if (bits_has(round->in, m))
            round->first = m; /* it has said the same */
}

void coordinator_forget(struct coordinator *coordinator, uint32_t node)
{
    uint32_t nodes = coordinator->layout->nodes;
    round_forget(&coordinator->checksum[0], node, nodes);
    round_forget(&coordinator->checksum[1], node, nodes);
    bits_remove(coordinator->bye, node);
    coordinator->bye_clock = 0;
    for (uint32_t r = 0; r < coordinator->layout->workers; r++)
        if (bits_has(coordinator->bye, r) && coordinator->bye_clocks[r] > coordinator->bye_clock)
            coordinator->bye_clock = coordinator->bye_clocks[r];
}

/* ---- memory ---- */

tri_status coordinator_init(struct coordinator *coordinator, const struct layout *layout,
                            const struct core_rules *rules, const struct core_times *times,
                            const struct mem *mem, tri_error *err)
{
    *coordinator = (struct coordinator){
        .mem = mem, .layout = layout, .view = 1, .rules = *rules, .times = *times};
    size_t words = bits_words(layout->nodes);
    coordinator->join.in = mem_array(mem, words, sizeof(uint64_t));
    coordinator->checksum[0].in = mem_array(mem, words, sizeof(uint64_t));
    coordinator->checksum[1].in = mem_array(mem, words, sizeof(uint64_t));
    coordinator->bye = mem_array(mem, words, sizeof(uint64_t));
    coordinator->bye_clocks = mem_array(mem, layout->workers, sizeof(uint64_t));
    coordinator->incarnations = mem_array(mem, layout->nodes, sizeof(uint64_t));
    tri_status status = TRI_OK;
    if (coordinator->join.in == NULL || coordinator->checksum[0].in == NULL ||
        coordinator->checksum[1].in == NULL || coordinator->bye == NULL ||
        coordinator->bye_clocks == NULL || coordinator->incarnations == NULL)
        status = fail_nomem(err, "the coordinator");
    if (status == TRI_OK)
        status = coordinator_init_marks(coordinator, err);
    if (status == TRI_OK)
        status = coordinator_init_views(coordinator, err);
    if (status != TRI_OK)
        coordinator_fini(coordinator);
    return status;
}

void coordinator_fini(struct coordinator *coordinator)
{
    coordinator_fini_marks(coordinator);
    coordinator_fini_views(coordinator);
    mem_free(coordinator->mem, coordinator->join.in);
    mem_free(coordinator->mem, coordinator->checksum[0].in);
    mem_free(coordinator->mem, coordinator->checksum[1].in);
    mem_free(coordinator->mem, coordinator->bye);
    mem_free(coordinator->mem, coordinator->bye_clocks);
    mem_free(coordinator->mem, coordinator->incarnations);
    *coordinator = (struct coordinator){0};
}

/* ---- telling ---- */

void coordinator_tell(const struct coordinator *coordinator, uint32_t node, struct message message,
                      const struct core_out *out)
{
    message.view = coordinator->view;
    core_send(out, node, &message, (struct core_ref){.space = CORE_NOWHERE});
}

void coordinator_tell_all(const struct coordinator *coordinator, struct message message,
                          const struct core_out *out)
{
    message.role = CORE_MEMBER;
    for (uint32_t n = coordinator->layout->nodes; n-- > 0;)
        if (!bits_has(coordinator->departed, n))
            coordinator_tell(coordinator, n, message, out);
}

void coordinator_fail(struct coordinator *coordinator, tri_status status, const char *text,
                      const struct core_out *out)
{
    if (coordinator->stage == COORDINATOR_OVER)
        return;
    bool starting = coordinator->stage < COORDINATOR_RUNNING;
    coordinator->stage = COORDINATOR_OVER;
    struct message message = {.kind =
                                  starting && status == TRI_EMISMATCH ? WIRE_REFUSED : WIRE_FAILED,
                              .status = status,
                              .bytes = (const uint8_t *)text,
                              .len = strlen(text)};
    coordinator_tell_all(coordinator, message, out);
}

/* ---- joining ---- */

/* No node may take part with other layers or another plan: it would train another model. */
static void refuse(struct coordinator *coordinator, uint32_t node, const char *what,
                   const struct core_out *out)
{
    char text[120];
    (void)snprintf(text, sizeof text, "%s has other %s than %s",
                   layout_name(coordinator->layout, node).text, what,
                   layout_name(coordinator->layout, coordinator->join.first).text);
    coordinator_fail(coordinator, TRI_EMISMATCH, text, out);
}

/* A process that comes when the job runs was started again: the one that joined is gone. */
static void take_late_hello(struct coordinator *coordinator, const struct message *message,
                            const struct core_out *out)
{
    uint32_t node = message->from;
    if (coordinator->incarnations[node] == message->incarnation)
        return; /* a second copy */
    if (coordinator->stage == COORDINATOR_OVER) {
        coordinator_tell_evicted(coordinator, node, "the job is over", out);
        return;
    }
    if (!bits_has(coordinator->departed, node))
        coordinator_evict(coordinator, node, "was started again", out);
    coordinator_tell_evicted(coordinator, node,
                             "the job runs without it: joining a running job is not possible", out);
}

static void take_join(struct coordinator *coordinator, const struct message *message,
                      const struct core_out *out)
{
    bool joining = message->kind == WIRE_HELLO;
    if (joining && bits_has(coordinator->join.in, message->from) == 0 &&
        coordinator->stage == COORDINATOR_JOINING)
        coordinator->incarnations[message->from] = message->incarnation;
    if (joining && (coordinator->stage != COORDINATOR_JOINING ||
                    coordinator->incarnations[message->from] != message->incarnation)) {
        take_late_hello(coordinator, message, out);
        return;
    }
    if (coordinator->stage != (joining ? COORDINATOR_JOINING : COORDINATOR_PLANNING))
        return;
    if (!round_take(&coordinator->join, message->from, message->hash)) {
        refuse(coordinator, message->from, joining ? "layers" : "plans", out);
        return;
    }
    if (coordinator->join.count < coordinator->layout->nodes)
        return;
    round_open(&coordinator->join, coordinator->layout->nodes, 0);
    coordinator->stage = joining ? COORDINATOR_PLANNING : COORDINATOR_RUNNING;
    coordinator_tell_all(coordinator, (struct message){.kind = joining ? WIRE_BOOK : WIRE_START},
                         out);
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
    if (round_take(round, message->rank, message->crc))
        return;
    char text[120];
    (void)snprintf(text, sizeof text, "parameters of ranks %u and %u differ at clock %llu",
                   round->first, message->rank, (unsigned long long)message->clock);
    coordinator_fail(coordinator, TRI_EMISMATCH, text, out);
}

/* ---- the end ---- */

/* Does a rank wait for a clock that the others have stopped before? */
static bool is_left_behind(const struct coordinator *coordinator, uint32_t rank)
{
    const struct coordinator_mark *join =
        coordinator->joins != NULL ? &coordinator->joins[rank] : NULL;
    bool over = coordinator->newest <= coordinator->bye_clock; /* nobody goes on */
    return join != NULL && over &&
           (join->open || join->last || join->clock > coordinator->bye_clock);
}

void coordinator_check_end(struct coordinator *coordinator, const struct core_out *out)
{
    uint32_t ranks = coordinator->layout->workers, open = 0;
    if (coordinator->stage != COORDINATOR_RUNNING || !bits_any(coordinator->bye, ranks))
        return;
    for (uint32_t r = 0; r < ranks; r++) {
        if (bits_has(coordinator->departed, r) || bits_has(coordinator->bye, r))
            continue;
        if (!is_left_behind(coordinator, r))
            return;
        open++;
    }
    for (uint32_t r = 0; r < ranks && open > 0; r++)
        if (!bits_has(coordinator->departed, r) && !bits_has(coordinator->bye, r))
            coordinator_join_last(coordinator, r, out);
    /* A checkpoint that can still become whole is waited for. */
    const struct coordinator_mark *save = &coordinator->save;
    if (open > 0 || (save->open && save->clock <= coordinator->bye_clock))
        return;
    coordinator->stage = COORDINATOR_OVER;
    coordinator_tell_all(coordinator, (struct message){.kind = WIRE_BYE}, out);
}

/* All close after the same iteration: one that has closed before the others counts as lost, or
 * they would wait for its next update for ever. */
static void check_early(struct coordinator *coordinator, const struct core_out *out)
{
    for (uint32_t r = 0; r < coordinator->layout->workers; r++)
        if (bits_has(coordinator->bye, r) &&
            coordinator->bye_clocks[r] < coordinator->newest_clock) {
            char why[100];
            (void)snprintf(why, sizeof why, "closed at clock %llu, and others go on",
                           (unsigned long long)coordinator->bye_clocks[r]);
            coordinator_evict(coordinator, r, why, out);
        }
}

static void take_clock(struct coordinator *coordinator, const struct message *message,
                       const struct core_out *out)
{
    coordinator_heard_clock(coordinator, message->clock);
    if (message->clock > coordinator->newest_clock)
        coordinator->newest_clock = message->clock;
    if (bits_any(coordinator->bye, coordinator->layout->workers))
        check_early(coordinator, out);
}

static void take_bye(struct coordinator *coordinator, const struct message *message,
                     const struct core_out *out)
{
    if (message->rank >= coordinator->layout->workers)
        return;
    bits_add(coordinator->bye, message->rank);
    coordinator->bye_clocks[message->rank] = message->clock;
    if (message->clock > coordinator->bye_clock)
        coordinator->bye_clock = message->clock;
    check_early(coordinator, out);
    coordinator_check_end(coordinator, out);
}

/* A node cannot go on, and says why. The others go on without it, unless it is one that they need,
 * or has found them not to be alike. */
static void take_failed(struct coordinator *coordinator, const struct message *message,
                        const struct core_out *out)
{
    const char *said = message->bytes != NULL ? (const char *)message->bytes : "";
    char text[240];
    if (message->status == TRI_EMISMATCH) {
        (void)snprintf(text, sizeof text, "%s: %.*s",
                       layout_name(coordinator->layout, message->from).text, (int)message->len,
                       said);
        coordinator_fail(coordinator, TRI_EMISMATCH, text, out);
    } else {
        (void)snprintf(text, sizeof text, "failed: %.*s", (int)message->len, said);
        coordinator_evict(coordinator, message->from, text, out);
    }
}

/* Does it speak for itself? Workers for their rank, servers for their number. */
static bool is_own(const struct coordinator *coordinator, const struct message *message)
{
    const struct layout *layout = coordinator->layout;
    switch (message->kind) {
    case WIRE_CLOCK:
    case WIRE_CHECKSUM:
    case WIRE_REPORT:
    case WIRE_BYE:
        return message->rank == message->from;
    case WIRE_MARKED:
    case WIRE_SAVED:
    case WIRE_LEFT_OUT:
        if (message->owner == CORE_OWNER_WORKER)
            return message->rank == message->from;
        return message->owner < layout->servers &&
               layout->server_node[message->owner] == message->from;
    default:
        return true;
    }
}

void coordinator_message(struct coordinator *coordinator, const struct message *message,
                         const struct core_out *out)
{
    if (message->from >= coordinator->layout->nodes || !is_own(coordinator, message))
        return;
    if (message->kind != WIRE_HELLO && bits_has(coordinator->departed, message->from)) {
        coordinator_tell_evicted(coordinator, message->from, "it has left the view", out);
        return;
    }
    switch (message->kind) {
    case WIRE_HELLO:
    case WIRE_READY:
        take_join(coordinator, message, out);
        break;
    case WIRE_CLOCK:
        take_clock(coordinator, message, out);
        break;
    case WIRE_CHECKSUM:
        take_checksum(coordinator, message, out);
        break;
    case WIRE_MARKED:
    case WIRE_SAVED:
        coordinator_take_marked(coordinator, message, out);
        break;
    case WIRE_LEFT_OUT:
        coordinator_take_left_out(coordinator, message, out);
        break;
    case WIRE_ACCUSE:
        coordinator_take_accusation(coordinator, message);
        break;
    case WIRE_REPORT:
        coordinator_take_report(coordinator, message, out);
        break;
    case WIRE_BYE:
        take_bye(coordinator, message, out);
        break;
    case WIRE_FAILED:
        take_failed(coordinator, message, out);
        break;
    default:
        break;
    }
}
