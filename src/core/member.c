/* Hello, ready, go; signs of life; the end. */
#include "core/member.h"

static void say(const struct member *member, struct message message, const struct core_out *out)
{
    message.role = CORE_COORDINATOR;
    message.from = member->node;
    core_send(out, 0, &message, (struct core_ref){.space = CORE_NOWHERE});
}

void member_join(struct member *member, const struct core_out *out)
{
    member->joining = true;
    say(member,
        (struct message){
            .kind = WIRE_HELLO, .hash = member->layers_hash, .incarnation = member->incarnation},
        out);
}

/* Who departed is dropped at once: its connections may bring nothing any more. */
static void take_view(struct member *member, const struct message *message,
                      const struct core_out *out)
{
    struct watch *watch = &member->watch;
    if (message->view <= member->view)
        return;
    member->view = message->view;
    for (uint32_t n = 0; n < watch->nodes; n++)
        if (bits_has(message->set, n) && bits_add(watch->departed, n)) {
            struct core_action drop = {.kind = CORE_DROP, .to = n};
            core_emit(out, &drop);
        }
}

/* What the coordinator gave as the reason. */
static void fail_as_told(const struct message *message, tri_status status, const char *fallback,
                         const struct core_out *out)
{
    if (message->len > 0)
        core_fail(out, status, "%.*s", (int)message->len, (const char *)message->bytes);
    else
        core_fail(out, status, "%s", fallback);
}

void member_message(struct member *member, const struct message *message,
                    const struct core_out *out)
{
    switch (message->kind) {
    case WIRE_BOOK:
        say(member, (struct message){.kind = WIRE_READY, .hash = member->plan_hash}, out);
        break;
    case WIRE_START:
        if (member->view >= message->view)
            break;
        member->started = true;
        member->view = message->view;
        core_wake(out, UINT32_MAX);
        break;
    case WIRE_VIEW:
        take_view(member, message, out);
        break;
    case WIRE_REFUSED:
        fail_as_told(message, TRI_EMISMATCH, "the coordinator refused this node", out);
        break;
    case WIRE_EVICTED:
        fail_as_told(message, TRI_EEVICTED, "this node was evicted from the job", out);
        break;
    case WIRE_FAILED:
        fail_as_told(message, message->status != TRI_OK ? message->status : TRI_EPEER,
                     "the job has failed", out);
        break;
    case WIRE_BYE:
        member->ended = member->started;
        if (member->ended)
            core_wake(out, UINT32_MAX);
        else
            core_fail(out, TRI_EEVICTED, "the job ended without this node, which came too late");
        break;
    default:
        break;
    }
}

/* Nobody else can tell this node what to do, and nobody can replace the coordinator yet. */
static void give_up(const struct member *member, uint64_t now, const struct core_out *out)
{
    core_fail(out, TRI_EPEER,
              "rank 0, which coordinates the job, is lost: not heard for %.1f s; the job ends",
              (double)watch_silence(&member->watch, 0, now) / 1e6);
}

/* Said when it changes; an empty list takes it back. */
static void accuse(struct member *member, const struct core_out *out)
{
    struct watch *watch = &member->watch;
    if (bits_within(watch->accused, watch->said, watch->nodes) &&
        bits_within(watch->said, watch->accused, watch->nodes))
        return;
    bits_copy(watch->said, watch->accused, watch->nodes);
    say(member, (struct message){.kind = WIRE_ACCUSE, .set = watch->accused}, out);
}

static void beat(const struct member *member, const struct core_out *out)
{
    const struct watch *watch = &member->watch;
    struct message message = {.kind = WIRE_HEARTBEAT, .role = CORE_MEMBER, .from = member->node};
    for (uint32_t n = 0; n < watch->nodes; n++)
        if (bits_has(watch->partners, n) && !watch_departed(watch, n))
            core_send(out, n, &message, (struct core_ref){.space = CORE_NOWHERE});
}

void member_tick(struct member *member, uint64_t now, const struct core_out *out)
{
    struct watch *watch = &member->watch;
    if (!member->joining || member->ended)
        return;
    if (member->node != 0 && watch_silence(watch, 0, now) >= 3 * watch->times.heartbeat) {
        give_up(member, now, out);
        return;
    }
    if (watch_waits(watch, &member->wait, !member->started, 0, now)) {
        uint64_t coordinator = 1;
        struct watch_missing missing = {.what = "the start of the job",
                                        .who = "node",
                                        .set = &coordinator,
                                        .members = 1,
                                        .layer = UINT32_MAX};
        watch_tell(watch, &member->wait, &missing, now, out);
    }
    /* The coordinator has the same deadline, and knows who is missing: it comes first. */
    if (watch->heard[0] == 0 && watch_gives_up(watch, &member->wait, now)) {
        core_fail(out, TRI_ETIMEOUT,
                  "rank 0, which coordinates the job, did not answer within %llu s; is it running, "
                  "and can this machine reach it?",
                  (unsigned long long)(watch->times.start / 1000000));
        return;
    }
    if (member->beaten == 0 || now - member->beaten >= core_tick(&watch->times)) {
        member->beaten = now;
        beat(member, out);
    }
    accuse(member, out);
}
