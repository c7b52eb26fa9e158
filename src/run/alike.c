/* Node 0 looks at what the others were told to run, and says what is not as here.
 *
 * The core compares hashes; it would say that a node differs. So those that do are kept from it
 * until all have said HELLO, or ALIKE_US after the first: then the core learns of all differences
 * at once, as the failure of the first of these nodes, and tells every node. */
#include <stdio.h>
#include <string.h>

#include "os/clock.h"
#include "run/inside.h"

enum { ALIKE_US = 1000000 };

static void end_job(struct host *host, uint32_t node, const char *text)
{
    struct message message = {.kind = WIRE_FAILED,
                              .role = CORE_COORDINATOR,
                              .from = node,
                              .status = TRI_EMISMATCH,
                              .bytes = (const uint8_t *)text,
                              .len = strlen(text)};
    event_message(host, clock_us(), &message);
}

/* Whole differences as long as there is room for them, then ranks. */
static void note(struct join *join, uint32_t rank, const char *text)
{
    size_t used = strlen(join->odd_text), room = sizeof join->odd_text - used;
    bool fits = join->odd == 0 || used + strlen(text) + 2 < 160;
    if (fits)
        (void)snprintf(join->odd_text + used, room, "%s%s", used > 0 ? "; " : "", text);
    else
        (void)snprintf(join->odd_text + used, room, "%s%u",
                       strstr(join->odd_text, "; so do ranks ") != NULL ? ", " : "; so do ranks ",
                       (unsigned)rank);
    if (join->odd++ == 0) {
        join->first_odd = rank;
        join->odd_since = clock_us();
    }
}

static bool take_hello(struct host *host, const struct incoming *incoming)
{
    struct join *join = &host->join;
    const struct message *message = &incoming->message;
    struct agree_hello hello = {message->from, incoming->data, incoming->header.data_len};
    char text[240];
    bool first = host->peers[message->from].incarnation == message->incarnation &&
                 message->from < host->options.workers;
    join->hellos += first;
    if (!first || message->hash == host->agreement->layers_hash ||
        !agree_differ(host->agreement, &hello, text, sizeof text))
        return false;
    note(join, message->from, text);
    return true;
}

static bool take_ready(struct host *host, const struct message *message)
{
    char text[160];
    if (message->hash == host->agreement->plan_hash)
        return false;
    (void)snprintf(text, sizeof text,
                   "rank %u makes another plan than rank 0 of the same layers and options: is it "
                   "the same version of trident?",
                   (unsigned)message->from);
    host->join.odd_told = true;
    end_job(host, message->from, text);
    return true;
}

bool alike_take(struct host *host, const struct incoming *incoming)
{
    struct join *join = &host->join;
    const struct message *message = &incoming->message;
    bool taken = false;
    if (host->options.node != 0 || host->core.member.started || join->odd_told)
        return false;
    if (message->kind == WIRE_HELLO)
        taken = take_hello(host, incoming);
    else if (message->kind == WIRE_READY)
        taken = take_ready(host, message);
    if (join->odd > 0 && !join->odd_told &&
        (join->hellos + 1 >= host->options.workers || clock_us() - join->odd_since > ALIKE_US)) {
        join->odd_told = true;
        end_job(host, join->first_odd, join->odd_text);
    }
    return taken;
}
