/* Lines of a story. */
#include "sim/story.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void story_line(struct sim_cluster *cluster, const char *format, ...)
{
    char text[500];
    va_list args;
    if (cluster->options.story == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    buf_format(cluster->options.story, "%7llu ms  %s\n", (unsigned long long)cluster->time, text);
}

/* "1, 3", or "nobody". */
static const char *list(const uint64_t *set, uint32_t count, char *text, size_t size)
{
    size_t used = 0;
    (void)snprintf(text, size, "nobody");
    for (uint32_t n = 0; set != NULL && n < count && used + 12 < size; n++)
        if (bits_has(set, n))
            used += (size_t)snprintf(text + used, size - used, "%s%u", used > 0 ? ", " : "", n);
    return text;
}

/* Is it a message that a reader of the story wants to know of? */
static bool is_told(struct machine *machine, const struct message *message)
{
    size_t words = bits_words(machine->cluster->layout->nodes);
    switch (message->kind) {
    case WIRE_VIEW:
    case WIRE_REPORT:
    case WIRE_DECISION:
    case WIRE_EVICTED:
    case WIRE_REFUSED:
    case WIRE_FAILED:
    case WIRE_LEFT_OUT:
    case WIRE_BYE:
        return true;
    case WIRE_MARK:
    case WIRE_MARKED:
        return message->mark == CORE_MARK_JOIN;
    case WIRE_FACTORS:
    case WIRE_NOTHING:
        return message->rank != machine->number;
    case WIRE_ACCUSE: /* it is said again and again */
        if (message->set == NULL || memcmp(message->set, machine->accused, words * 8) == 0)
            return false;
        memcpy(machine->accused, message->set, words * 8);
        return true;
    default:
        return false;
    }
}

static void details(const struct machine *machine, const struct message *message, char *text,
                    size_t size)
{
    char names[200];
    uint32_t nodes = machine->cluster->layout->nodes;
    unsigned long long clock = message->clock;
    text[0] = '\0';
    switch (message->kind) {
    case WIRE_VIEW:
        (void)snprintf(text, size, " %u (departed: %s)", message->view,
                       list(message->set, nodes, names, sizeof names));
        break;
    case WIRE_REPORT:
    case WIRE_DECISION:
        (void)snprintf(text, size, " %u (%zu bytes)", message->view, message->len);
        break;
    case WIRE_EVICTED:
    case WIRE_REFUSED:
    case WIRE_FAILED:
        (void)snprintf(text, size, " \"%.*s\"", (int)message->len, (const char *)message->bytes);
        break;
    case WIRE_MARK:
    case WIRE_MARKED:
        (void)snprintf(text, size, " (rank %u joins at clock %llu%s)", message->rank, clock,
                       message->accepted ? ", agreed" : "");
        break;
    case WIRE_FACTORS:
    case WIRE_NOTHING:
        (void)snprintf(text, size, " of rank %u, layer %u, clock %llu, part %u", message->rank,
                       message->layer, clock, message->part);
        break;
    case WIRE_ACCUSE:
        (void)snprintf(text, size, " (%s)", list(message->set, nodes, names, sizeof names));
        break;
    default:
        (void)snprintf(text, size, " (layer %u, clock %llu)", message->layer, clock);
    }
}

void story_send(struct machine *machine, const struct core_action *action)
{
    char text[400];
    const struct message *message = &action->message;
    if (machine->cluster->options.story == NULL || !is_told(machine, message))
        return;
    details(machine, message, text, sizeof text);
    if (message->kind == WIRE_EVICTED)
        story_line(machine->cluster, "node %u  evicts %u:%s", machine->number, action->to, text);
    else
        story_line(machine->cluster, "node %u  sends %s%s to %u", machine->number,
                   wire_kind_name(message->kind), text, action->to);
}

void story_fault(struct sim_cluster *cluster, const struct sim_fault *fault)
{
    char other[40] = "", lasts[40] = "", factor[40] = "";
    bool two = fault->kind == SIM_CUT || fault->kind == SIM_SPLIT || fault->kind == SIM_RESET ||
               fault->kind == SIM_SLOW_LINK;
    bool slow = fault->kind == SIM_SLOW_LINK || fault->kind == SIM_SLOW_NODE;
    if (two)
        (void)snprintf(other, sizeof other, " and %u", fault->b);
    if (slow)
        (void)snprintf(factor, sizeof factor, ", %u times", fault->factor);
    if (fault->lasts > 0)
        (void)snprintf(lasts, sizeof lasts, ", for %llu ms", (unsigned long long)fault->lasts);
    story_line(cluster, "fault before event %llu: %s node %u%s%s%s",
               (unsigned long long)cluster->handled, sim_fault_name(fault->kind), fault->a, other,
               factor, lasts);
}

static const char *op_name(enum core_op_kind kind)
{
    static const char *const names[] = {
        [CORE_OP_SUM] = "sum",     [CORE_OP_STEP] = "step",       [CORE_OP_PRODUCT] = "product",
        [CORE_OP_REPLY] = "reply", [CORE_OP_COPY] = "copy",       [CORE_OP_APPLY] = "apply",
        [CORE_OP_LOCAL] = "local", [CORE_OP_INSTALL] = "install",
    };
    return names[kind];
}

void story_current(struct sim_cluster *cluster)
{
    const struct event *event = &cluster->current;
    if (event->packet != NULL) {
        const struct message *message = &cluster->current_message;
        story_line(cluster, "node %u  was handling %s%s of layer %u, part %u, clock %llu from %u",
                   event->node, event->kind == EVENT_HEADER ? "the header of " : "",
                   wire_kind_name(message->kind), message->layer, message->part,
                   (unsigned long long)message->clock, cluster->current_from);
    } else if (event->kind == EVENT_OP) {
        story_line(cluster, "node %u  was doing %s of %s %u, clock %llu, rank %u", event->node,
                   op_name(event->op.kind), event->op.role == CORE_SERVER ? "unit" : "layer",
                   event->op.index, (unsigned long long)event->op.clock, event->op.rank);
    } else {
        story_line(cluster, "node %u  was in its %s", event->node,
                   event->kind == EVENT_LOOP ? "loop" : "tick");
    }
}
