/* Hello, ready, go. */
#include "core/member.h"

void member_init(struct member *member, uint32_t node, uint64_t layers_hash, uint64_t plan_hash)
{
    *member = (struct member){.node = node, .layers_hash = layers_hash, .plan_hash = plan_hash};
}

static void say(const struct member *member, enum wire_kind kind, uint64_t hash,
                const struct core_out *out)
{
    struct message message = {
        .kind = kind, .role = CORE_COORDINATOR, .from = member->node, .hash = hash};
    core_send(out, 0, &message, (struct core_ref){.space = CORE_NOWHERE});
}

void member_join(struct member *member, const struct core_out *out)
{
    say(member, WIRE_HELLO, member->layers_hash, out);
}

void member_message(struct member *member, const struct message *message,
                    const struct core_out *out)
{
    switch (message->kind) {
    case WIRE_BOOK:
        say(member, WIRE_READY, member->plan_hash, out);
        break;
    case WIRE_START:
        member->started = true;
        member->view = message->view;
        core_wake(out, UINT32_MAX);
        break;
    case WIRE_REFUSED:
        core_fail(out, TRI_EMISMATCH, "the coordinator refused this job: nodes are not alike");
        break;
    default:
        break;
    }
}
