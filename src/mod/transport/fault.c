/* Another transport, and things that go wrong on purpose: for tests.
 *
 * TRIDENT_FAULT says what and how often; chances are drawn from its seed, so that a run can be had
 * again as far as the network lets it. Messages are split by giving the transport below a part of
 * one, and the rest later, or never: below must be tcp, where messages are bytes one after the
 * other. Around anything else a connection breaks between two messages. All state is the polling
 * thread's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/rng.h"
#include "base/units.h"
#include "mod/transport.h"
#include "os/clock.h"

/* What TRIDENT_FAULT can say. */
struct faults {
    double seed;
    double node;       /* only the process with this number does wrong; negative: all */
    double breaks;     /* chance that a message is cut off, and its connection with it */
    double drop_after; /* all connections break once so many messages were sent; 0: never */
    double delay_ms;   /* a poll is held back for up to so long */
    double refuse;     /* chance that a connection is closed when it comes */
    double half;       /* chance that a message comes in two pieces, with a pause */
};

enum state { EMPTY, WHOLE, FIRST, PAUSE, REST };

/* A socket, and the message that is on its way over it. */
struct slot {
    enum state state;
    bool breaks;
    struct transport_out whole, rest;
    uint64_t due_us; /* of the rest */
};

struct transport {
    const struct mem *mem;
    const struct transport_host *host;
    struct transport_host calls; /* what the transport below calls */
    struct faults faults;
    struct rng rng;
    uint32_t peers, sockets;
    bool *called;       /* [peers] this process has connected to it */
    struct slot *slots; /* [peers][sockets]; NULL: below are no bytes in a row */
    uint32_t pauses;    /* slots in PAUSE */
    uint64_t messages;
    const struct transport_ops *ops;
    struct transport *inner;
};

/* ---- what shall go wrong ---- */

static const struct {
    const char *name;
    size_t offset;
    double most;
} fields[] = {
    {"seed", offsetof(struct faults, seed), 9e15},
    {"node", offsetof(struct faults, node), 9e15},
    {"break", offsetof(struct faults, breaks), 1},
    {"drop_after", offsetof(struct faults, drop_after), 9e15},
    {"delay_ms", offsetof(struct faults, delay_ms), 60000},
    {"refuse", offsetof(struct faults, refuse), 1},
    {"half", offsetof(struct faults, half), 1},
};

static bool read_field(char *item, struct faults *faults)
{
    char *equals = strchr(item, '=');
    double value = 0;
    if (equals == NULL)
        return false;
    *equals = '\0';
    bool good = false;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (names_equal(item, fields[i].name) && units_number(equals + 1, &value) &&
            value <= fields[i].most) {
            memcpy((char *)faults + fields[i].offset, &value, sizeof value);
            good = true;
        }
    *equals = '=';
    return good;
}

static tri_status read_faults(struct faults *faults, tri_error *err)
{
    const char *text = getenv("TRIDENT_FAULT");
    *faults = (struct faults){.node = -1};
    while (text != NULL && *text != '\0') {
        char item[64];
        size_t len = strcspn(text, ",");
        (void)snprintf(item, sizeof item, "%.*s", len < 60 ? (int)len : 60, text);
        if (!read_field(item, faults)) {
            fail(err, TRI_EINPUT, "TRIDENT_FAULT cannot have '%s'", item);
            fail_next(err, "give seed, node, break, drop_after, delay_ms, refuse and half as in "
                           "seed=7,refuse=0.1");
            return TRI_EINPUT;
        }
        text += text[len] == ',' ? len + 1 : len;
    }
    return TRI_OK;
}

static bool happens(struct transport *transport, double chance)
{
    return chance > 0 && rng_unit(&transport->rng) < chance;
}

/* ---- messages in two pieces ---- */

static size_t bytes_of(const struct transport_out *out)
{
    size_t bytes = out->head_bytes;
    for (size_t i = 0; i < TRANSPORT_RUNS; i++)
        bytes += out->runs[i].bytes;
    return bytes;
}

/* The bytes from first to last, as a message of its own. */
static struct transport_out part_of(const struct transport_out *out, size_t first, size_t last)
{
    struct transport_out part = {.head = NULL};
    size_t at = 0, run = 0;
    for (size_t i = 0; i <= TRANSPORT_RUNS; i++) {
        const uint8_t *bytes = i == 0 ? out->head : out->runs[i - 1].at;
        size_t len = i == 0 ? out->head_bytes : out->runs[i - 1].bytes;
        size_t from = first > at ? first - at : 0, to = last > at ? last - at : 0;
        at += len;
        to = to < len ? to : len;
        if (from >= to)
            continue;
        if (part.head == NULL) {
            part.head = bytes + from;
            part.head_bytes = to - from;
        } else {
            part.runs[run++] = (struct transport_run){(void *)(bytes + from), to - from};
        }
    }
    return part;
}

/* Where to cut: in the header and head as often as anywhere. */
static size_t draw_cut(struct transport *transport, const struct transport_out *out)
{
    size_t all = bytes_of(out);
    size_t most = rng_below(&transport->rng, 2) == 0 ? out->head_bytes : all;
    return 1 + (size_t)rng_below(&transport->rng, (most < all ? most : all) - 1);
}

static void drop_all(struct transport *transport)
{
    for (uint32_t peer = 0; peer < transport->peers; peer++)
        transport->ops->drop(transport->inner, peer);
}

/* The first piece, or all of it, of the message in the slot. */
static struct transport_out begin(struct transport *transport, struct slot *slot)
{
    struct transport_out out = slot->whole;
    slot->breaks = happens(transport, transport->faults.breaks);
    slot->state = WHOLE;
    if ((slot->breaks || happens(transport, transport->faults.half)) && bytes_of(&out) > 1) {
        size_t cut = draw_cut(transport, &out);
        slot->state = FIRST;
        slot->rest = part_of(&slot->whole, cut, bytes_of(&slot->whole));
        out = part_of(&slot->whole, 0, cut);
    }
    out.tag = slot;
    return out;
}

static void count_message(struct transport *transport)
{
    transport->messages++;
    if ((double)transport->messages == transport->faults.drop_after)
        drop_all(transport);
}

static bool next(void *ctx, uint32_t peer, uint32_t socket, struct transport_out *out)
{
    struct transport *transport = ctx;
    const struct transport_host *host = transport->host;
    if (transport->slots == NULL) {
        bool found = host->next(host->ctx, peer, socket, out);
        if (found && happens(transport, transport->faults.breaks))
            transport->ops->drop(transport->inner, peer);
        if (found)
            count_message(transport);
        return found;
    }
    struct slot *slot = &transport->slots[(size_t)peer * transport->sockets + socket];
    if (slot->state == PAUSE) {
        if (clock_us() < slot->due_us)
            return false;
        transport->pauses--;
        slot->state = REST;
        *out = slot->rest;
        out->tag = slot;
        return true;
    }
    slot->whole = (struct transport_out){.head = NULL};
    if (!host->next(host->ctx, peer, socket, &slot->whole))
        return false;
    *out = begin(transport, slot);
    count_message(transport);
    return true;
}

/* The message does not go on. */
static void end_slot(struct transport *transport, uint32_t peer, struct slot *slot, bool whole)
{
    const struct transport_host *host = transport->host;
    transport->pauses -= slot->state == PAUSE;
    slot->state = EMPTY;
    if (whole)
        host->sent(host->ctx, peer, &slot->whole);
    else
        host->unsent(host->ctx, peer, &slot->whole);
}

static void sent(void *ctx, uint32_t peer, const struct transport_out *out)
{
    struct transport *transport = ctx;
    struct slot *slot = out->tag;
    if (transport->slots == NULL) {
        transport->host->sent(transport->host->ctx, peer, out);
    } else if (slot->state == FIRST && !slot->breaks) {
        slot->state = PAUSE;
        slot->due_us = clock_us() + rng_below(&transport->rng, 2000);
        transport->pauses++;
    } else {
        if (slot->breaks)
            transport->ops->drop(transport->inner, peer);
        end_slot(transport, peer, slot, !slot->breaks);
    }
}

static void unsent(void *ctx, uint32_t peer, const struct transport_out *out)
{
    struct transport *transport = ctx;
    if (transport->slots == NULL)
        transport->host->unsent(transport->host->ctx, peer, out);
    else
        end_slot(transport, peer, out->tag, false);
}

/* What waited for its second half, of which nobody below knows. */
static void end_pauses(struct transport *transport, uint32_t peer)
{
    for (uint32_t i = 0; transport->slots != NULL && i < transport->sockets; i++) {
        struct slot *slot = &transport->slots[(size_t)peer * transport->sockets + i];
        if (slot->state == PAUSE)
            end_slot(transport, peer, slot, false);
    }
}

/* ---- connections ---- */

/* Who called is turned away, and calls again. */
static uint32_t greeted(void *ctx, const uint8_t greeting[TRANSPORT_GREETING_BYTES],
                        const char *address)
{
    struct transport *transport = ctx;
    uint32_t peer = transport->host->greeted(transport->host->ctx, greeting, address);
    if (peer < transport->peers && !transport->called[peer] &&
        happens(transport, transport->faults.refuse))
        return TRANSPORT_STRANGER;
    return peer;
}

static void up(void *ctx, uint32_t peer)
{
    const struct transport *transport = ctx;
    transport->host->up(transport->host->ctx, peer);
}

static void down(void *ctx, uint32_t peer, const char *why)
{
    struct transport *transport = ctx;
    end_pauses(transport, peer);
    transport->called[peer] = false;
    transport->host->down(transport->host->ctx, peer, why);
}

static bool place(void *ctx, uint32_t peer, struct transport_in *in)
{
    const struct transport *transport = ctx;
    return transport->host->place(transport->host->ctx, peer, in);
}

static bool done(void *ctx, uint32_t peer, const struct transport_in *in)
{
    const struct transport *transport = ctx;
    return transport->host->done(transport->host->ctx, peer, in);
}

static void broken(void *ctx, uint32_t peer, const struct transport_in *in)
{
    const struct transport *transport = ctx;
    transport->host->broken(transport->host->ctx, peer, in);
}

static void nonsense(void *ctx, uint32_t peer, const char *address, const char *what)
{
    const struct transport *transport = ctx;
    transport->host->nonsense(transport->host->ctx, peer, address, what);
}

/* ---- the table ---- */

static void fault_free(struct transport *transport)
{
    mem_free(transport->mem, transport->called);
    mem_free(transport->mem, transport->slots);
    mem_free(transport->mem, transport);
}

/* Is the last of a name like "fault:trace:tcp" one that moves bytes in a row? */
static bool is_bytes(const char *name)
{
    const char *inner = transport_inner(name);
    while (strchr(inner, ':') != NULL)
        inner = transport_inner(inner);
    return names_equal(inner, "tcp");
}

static tri_status make(struct transport *transport, const struct transport_options *options,
                       tri_error *err)
{
    struct rng seeded;
    bool bytes = is_bytes(options->name);
    tri_status status = read_faults(&transport->faults, err);
    if (status != TRI_OK)
        return status;
    rng_init(&seeded, (uint64_t)transport->faults.seed);
    rng_fork(&seeded, options->self, &transport->rng);
    if (transport->faults.node >= 0 && transport->faults.node != (double)options->self)
        transport->faults = (struct faults){.node = -1};
    transport->called = mem_array(options->mem, options->peers, sizeof *transport->called);
    if (bytes)
        transport->slots = mem_array(options->mem, (size_t)options->peers * options->sockets,
                                     sizeof *transport->slots);
    if (transport->called == NULL || (bytes && transport->slots == NULL))
        return fail_nomem(err, "a transport");
    return TRI_OK;
}

static tri_status fault_open(const struct transport_options *options, struct transport **out,
                             tri_error *err)
{
    struct transport_options inner = *options;
    struct transport *transport = mem_array(options->mem, 1, sizeof *transport);
    if (transport == NULL)
        return fail_nomem(err, "a transport");
    transport->mem = options->mem;
    transport->host = options->host;
    transport->peers = options->peers;
    transport->sockets = options->sockets;
    transport->calls = (struct transport_host){.ctx = transport,
                                               .greeted = greeted,
                                               .up = up,
                                               .down = down,
                                               .next = next,
                                               .sent = sent,
                                               .unsent = unsent,
                                               .place = place,
                                               .done = done,
                                               .broken = broken,
                                               .nonsense = nonsense};
    inner.host = &transport->calls;
    inner.name = transport_inner(options->name);
    transport->ops = transport_find(inner.name);
    tri_status status = make(transport, options, err);
    if (status == TRI_OK)
        status = transport->ops->open(&inner, &transport->inner, err);
    if (status == TRI_OK)
        *out = transport;
    else
        fault_free(transport);
    return status;
}

static void fault_close(struct transport *transport)
{
    transport->ops->close(transport->inner);
    for (uint32_t peer = 0; peer < transport->peers; peer++)
        end_pauses(transport, peer);
    fault_free(transport);
}

static const char *fault_address(const struct transport *transport)
{
    return transport->ops->address(transport->inner);
}

static tri_status fault_connect(struct transport *transport, uint32_t peer, const char *address,
                                tri_error *err)
{
    tri_status status = transport->ops->connect(transport->inner, peer, address, err);
    if (status == TRI_OK)
        transport->called[peer] = true;
    return status;
}

static void fault_send(struct transport *transport, uint32_t peer)
{
    transport->ops->send(transport->inner, peer);
}

static void fault_wake(struct transport *transport)
{
    transport->ops->wake(transport->inner);
}

static void fault_drop(struct transport *transport, uint32_t peer)
{
    transport->ops->drop(transport->inner, peer);
}

/* Asks for second halves whose time has come. The milliseconds until the next of the others. */
static int end_waits(struct transport *transport, int timeout_ms)
{
    uint64_t now = clock_us();
    for (size_t i = 0; transport->pauses > 0 && i < (size_t)transport->peers * transport->sockets;
         i++) {
        const struct slot *slot = &transport->slots[i];
        if (slot->state != PAUSE)
            continue;
        int left_ms = slot->due_us > now ? (int)((slot->due_us - now) / 1000) + 1 : 1;
        if (slot->due_us <= now)
            transport->ops->send(transport->inner, (uint32_t)(i / transport->sockets));
        if (timeout_ms < 0 || left_ms < timeout_ms)
            timeout_ms = left_ms;
    }
    return timeout_ms;
}

static tri_status fault_poll(struct transport *transport, int timeout_ms, tri_error *err)
{
    if (transport->faults.delay_ms > 0 && rng_below(&transport->rng, 8) == 0)
        clock_sleep_us((uint64_t)(1000 * transport->faults.delay_ms * rng_unit(&transport->rng)));
    return transport->ops->poll(transport->inner, end_waits(transport, timeout_ms), err);
}

extern const struct transport_ops transport_fault;
const struct transport_ops transport_fault = {
    .name = "fault",
    .summary = "around another, fault:tcp: breaks what TRIDENT_FAULT says; for tests",
    .wraps = true,
    .open = fault_open,
    .close = fault_close,
    .address = fault_address,
    .connect = fault_connect,
    .send = fault_send,
    .wake = fault_wake,
    .drop = fault_drop,
    .poll = fault_poll,
};
