/* Ends: processes in small, each a transport and a host that sends noise and checks what comes.
 *
 * Message n from one end to another has contents that follow from n: the receiver knows what to
 * expect. Asserts are for the thread of the test alone; the threads of ends count what is wrong. */
#ifndef TRIDENT_TESTS_MOD_ENDS_H
#define TRIDENT_TESTS_MOD_ENDS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "mod/transport.h"
#include "os/poller.h"

#include "lib/test.h" /* after error.h: cmocka has a macro named fail */

enum { ENDS = 3, NOISE = 8 << 20, BIG = 5 << 20, MESSAGES = 1 << 14, TEXT = 300 };

struct end {
    const struct transport_ops *ops;
    struct transport *transport;
    struct transport_host host;
    struct wire_limits limits;
    struct fault memory;
    uint32_t id;
    pthread_t thread;
    atomic_bool stop;
    bool threaded;
    /* What it shall do. */
    uint32_t refuse;           /* this greeting is not taken; ENDS: all are */
    atomic_uint to_send[ENDS]; /* messages for each */
    bool refuse_place, refuse_done, short_place;
    uint32_t drop_at_done; /* drops the sender when so many are in; 0: never */
    uint32_t big;          /* every message has so many bytes of data; 0: all sizes */
    uint32_t socket_limit; /* sends on sockets below this; 0: on all */
    /* What it saw. */
    atomic_uint taken[ENDS], sent, unsent, received[ENDS], placed, broken, wrong;
    atomic_uint ups[ENDS], downs[ENDS], nonsenses, polls, greets;
    char why[TEXT], what[TEXT];
    uint8_t seen[ENDS][MESSAGES];
};

/* What every end sends from. */
static uint8_t noise[NOISE];

struct parcel {
    uint8_t head[WIRE_HEADER_BYTES + 8300];
};

struct form {
    uint32_t head, data, from;
    bool checked;
};

static inline struct form form_of(uint32_t from, uint32_t to, uint32_t n, uint32_t big)
{
    struct rng rng;
    rng_init(&rng, ((uint64_t)from << 40) + ((uint64_t)to << 32) + n);
    struct form form = {.head = 64, .data = (uint32_t)rng_below(&rng, 8192)};
    if (rng_below(&rng, 10) == 0)
        form.head += (uint32_t)rng_below(&rng, 8192);
    if (rng_below(&rng, 10) == 0)
        form.data = 0;
    if (rng_below(&rng, 100) == 0)
        form.data = (uint32_t)rng_below(&rng, BIG) >> rng_below(&rng, 8);
    if (big > 0)
        form.data = big;
    form.from = (uint32_t)rng_below(&rng, NOISE - form.data - form.head);
    form.checked = rng_below(&rng, 2) == 0;
    return form;
}

/* Splits bytes into one to three runs. */
static inline void split_runs(struct rng *rng, size_t bytes, size_t out[TRANSPORT_RUNS])
{
    size_t runs = 1 + rng_below(rng, TRANSPORT_RUNS);
    memset(out, 0, TRANSPORT_RUNS * sizeof out[0]);
    for (size_t i = 0; i < runs && bytes > 0; i++) {
        out[i] = i + 1 == runs ? bytes : 1 + rng_below(rng, bytes);
        bytes -= out[i];
    }
}

static bool end_next(void *ctx, uint32_t peer, uint32_t socket, struct transport_out *out)
{
    struct end *end = ctx;
    uint32_t n = atomic_load(&end->taken[peer]);
    if (n >= atomic_load(&end->to_send[peer]) ||
        (end->socket_limit > 0 && socket >= end->socket_limit))
        return false;
    atomic_fetch_add(&end->taken[peer], 1);
    struct form form = form_of(end->id, peer, n, end->big);
    struct wire_header header = {.kind = WIRE_RESULT,
                                 .sender = end->id,
                                 .clock = n,
                                 .head_len = (uint16_t)form.head,
                                 .data_len = form.data};
    uint8_t *bytes = noise + form.from;
    struct parcel *parcel = malloc(sizeof *parcel);
    if (parcel == NULL)
        abort();
    if (form.checked)
        wire_payload_cover(&header, bytes, bytes + form.head);
    wire_header_encode(&header, parcel->head);
    memcpy(parcel->head + WIRE_HEADER_BYTES, bytes, form.head);
    out->head = parcel->head;
    out->head_bytes = WIRE_HEADER_BYTES + form.head;
    out->tag = parcel;
    struct rng rng;
    size_t runs[TRANSPORT_RUNS], done = 0;
    rng_init(&rng, n);
    split_runs(&rng, form.data, runs);
    for (size_t i = 0; i < TRANSPORT_RUNS; done += runs[i++])
        out->runs[i] = (struct transport_run){.at = bytes + form.head + done, .bytes = runs[i]};
    return true;
}

static void end_sent(void *ctx, uint32_t peer, const struct transport_out *out)
{
    struct end *end = ctx;
    (void)peer;
    free(out->tag);
    atomic_fetch_add(&end->sent, 1);
}

static void end_unsent(void *ctx, uint32_t peer, const struct transport_out *out)
{
    struct end *end = ctx;
    (void)peer;
    free(out->tag);
    atomic_fetch_add(&end->unsent, 1);
}

/* Every third run is to be forgotten. */
static bool end_place(void *ctx, uint32_t peer, struct transport_in *in)
{
    struct end *end = ctx;
    struct rng rng;
    size_t runs[TRANSPORT_RUNS], total = 0;
    if (end->refuse_place)
        return false;
    atomic_fetch_add(&end->placed, 1);
    uint8_t *room = malloc(in->header.data_len + 1);
    if (room == NULL)
        abort();
    memset(room, 0x5a, in->header.data_len + 1);
    rng_init(&rng, in->header.clock * 7 + 1 + peer);
    split_runs(&rng, in->header.data_len, runs);
    for (size_t i = 0; i < TRANSPORT_RUNS; total += runs[i++])
        in->runs[i] = (struct transport_run){.at = rng_below(&rng, 3) == 0 ? NULL : room + total,
                                             .bytes = runs[i]};
    if (end->short_place)
        memset(in->runs, 0, sizeof in->runs);
    in->tag = room;
    return true;
}

static bool good(const struct end *end, uint32_t peer, const struct transport_in *in)
{
    uint32_t n = (uint32_t)in->header.clock;
    struct form form = form_of(peer, end->id, n, in->header.data_len > 0 ? end->big : 0);
    const uint8_t *bytes = noise + form.from;
    if (n >= MESSAGES || end->seen[peer][n] != 0 || in->header.sender != peer ||
        in->header.head_len != form.head || in->header.data_len != form.data ||
        memcmp(in->head, bytes, form.head) != 0)
        return false;
    size_t done = 0;
    for (size_t i = 0; i < TRANSPORT_RUNS; done += in->runs[i++].bytes)
        if (in->runs[i].at != NULL &&
            memcmp(in->runs[i].at, bytes + form.head + done, in->runs[i].bytes) != 0)
            return false;
    return done == form.data && ((uint8_t *)in->tag)[done] == 0x5a;
}

static bool end_done(void *ctx, uint32_t peer, const struct transport_in *in)
{
    struct end *end = ctx;
    if (!good(end, peer, in))
        atomic_fetch_add(&end->wrong, 1);
    else
        end->seen[peer][in->header.clock] = 1;
    free(in->tag);
    if (end->refuse_done)
        return false;
    if (atomic_fetch_add(&end->received[peer], 1) + 1 == end->drop_at_done)
        end->ops->drop(end->transport, peer);
    return true;
}

static void end_broken(void *ctx, uint32_t peer, const struct transport_in *in)
{
    struct end *end = ctx;
    (void)peer;
    free(in->tag);
    atomic_fetch_add(&end->broken, 1);
}

static uint32_t end_greeted(void *ctx, const uint8_t greeting[TRANSPORT_GREETING_BYTES],
                            const char *address)
{
    struct end *end = ctx;
    atomic_fetch_add(&end->greets, 1);
    if (memcmp(greeting, "hello", 5) != 0 || greeting[5] >= ENDS || address[0] == '\0' ||
        end->refuse == greeting[5] || end->refuse == ENDS)
        return TRANSPORT_STRANGER;
    return greeting[5];
}

static void end_up(void *ctx, uint32_t peer)
{
    struct end *end = ctx;
    atomic_fetch_add(&end->ups[peer], 1);
    end->ops->send(end->transport, peer);
}

static void end_down(void *ctx, uint32_t peer, const char *why)
{
    struct end *end = ctx;
    (void)snprintf(end->why, sizeof end->why, "%s", why);
    atomic_fetch_add(&end->downs[peer], 1);
}

static void end_nonsense(void *ctx, uint32_t peer, const char *address, const char *what)
{
    struct end *end = ctx;
    (void)peer;
    if (address[0] == '\0')
        atomic_fetch_add(&end->wrong, 1);
    (void)snprintf(end->what, sizeof end->what, "%s", what);
    atomic_fetch_add(&end->nonsenses, 1);
}

static inline struct transport_options end_options(struct end *end, uint32_t id, uint32_t sockets,
                                                   const char *listen)
{
    memset(end, 0, sizeof *end);
    end->id = id;
    end->refuse = ENDS + 1;
    end->limits = wire_widest;
    fault_init(&end->memory);
    end->host = (struct transport_host){.ctx = end,
                                        .greeted = end_greeted,
                                        .up = end_up,
                                        .down = end_down,
                                        .next = end_next,
                                        .sent = end_sent,
                                        .unsent = end_unsent,
                                        .place = end_place,
                                        .done = end_done,
                                        .broken = end_broken,
                                        .nonsense = end_nonsense};
    struct transport_options options = {.mem = &end->memory.mem,
                                        .host = &end->host,
                                        .peers = ENDS,
                                        .sockets = sockets,
                                        .limits = &end->limits,
                                        .listen = listen,
                                        .silence_ms = 5000,
                                        .connect_ms = 5000};
    memcpy(options.greeting, "hello", 5);
    options.greeting[5] = (uint8_t)id;
    return options;
}

static inline void end_open_with(struct end *end, const char *name,
                                 const struct transport_options *options)
{
    tri_error err = {0};
    end->ops = transport_find(name);
    assert_non_null(end->ops);
    if (end->ops->open(options, &end->transport, &err) != TRI_OK)
        fail_msg("%s: %s", err.text, err.why);
}

static inline void end_poll(struct end *end, int timeout_ms)
{
    tri_error err = {0};
    if (end->ops->poll(end->transport, timeout_ms, &err) != TRI_OK)
        atomic_fetch_add(&end->wrong, 1);
    atomic_fetch_add(&end->polls, 1);
}

static void *end_run(void *arg)
{
    struct end *end = arg;
    while (!atomic_load(&end->stop))
        end_poll(end, -1);
    return NULL;
}

static inline void end_start(struct end *end)
{
    end->threaded = true;
    assert_int_equal(pthread_create(&end->thread, NULL, end_run, end), 0);
}

static inline void end_halt(struct end *end)
{
    if (!end->threaded)
        return;
    atomic_store(&end->stop, true);
    end->ops->wake(end->transport);
    assert_int_equal(pthread_join(end->thread, NULL), 0);
    end->threaded = false;
}

static inline void end_close(struct end *end)
{
    end_halt(end);
    if (end->transport != NULL)
        end->ops->close(end->transport);
    end->transport = NULL;
    assert_int_equal(end->memory.live, 0);
    assert_int_equal(atomic_load(&end->wrong), 0);
}

static inline void end_connect(struct end *end, uint32_t peer, const char *address)
{
    tri_error err = {0};
    if (end->ops->connect(end->transport, peer, address, &err) != TRI_OK)
        fail_msg("%s", err.text);
}

/* Polls all that have no thread until the condition holds; 20 s are too long. */
#define UNTIL(ends, count, condition)                                                              \
    do {                                                                                           \
        int64_t limit_ = poller_now_ms() + 20000;                                                  \
        while (!(condition)) {                                                                     \
            if (poller_now_ms() > limit_)                                                          \
                fail_msg("it does not come to: %s", #condition);                                   \
            poll_all(ends, count);                                                                 \
        }                                                                                          \
    } while (0)

static inline void poll_all(struct end *ends, size_t count)
{
    bool threads = false;
    for (size_t i = 0; i < count; i++) {
        threads |= ends[i].threaded;
        if (!ends[i].threaded && ends[i].transport != NULL)
            end_poll(&ends[i], 1);
    }
    if (threads)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static inline void make_noise(void)
{
    struct rng rng;
    rng_init(&rng, 7);
    for (size_t i = 0; i < NOISE; i += 8) {
        uint64_t value = rng_u64(&rng);
        memcpy(noise + i, &value, 8);
    }
}

#endif
