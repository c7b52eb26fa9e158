/* wire/ranks, wire/report, wire/decision, wire/reason, wire/peers: walked lists are the written
 * ones. */
#include "wire/decision.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/test.h"
#include "wire/peers.h"
#include "wire/reason.h"
#include "wire/report.h"

enum { RUNS = 2000, NODES = 30, WORKERS = 20, LAYERS = 12 };

static const struct wire_limits limits = {
    .nodes = NODES,
    .workers = WORKERS,
    .layers = LAYERS,
    .chunks = 10,
    .max_clock = 1000,
    .data_bytes = 1 << 20,
};

static struct wire_header header_of(unsigned kind, const struct buf *data)
{
    return (struct wire_header){
        .kind = (uint8_t)kind, .sender = 4, .data_len = (uint32_t)data->len};
}

static const uint8_t *bytes_of(const struct buf *data)
{
    return (const uint8_t *)data->data;
}

/* Some of 0 .. n-1, ascending; how many. */
static uint32_t choose(struct rng *rng, uint32_t n, uint32_t *out)
{
    uint32_t count = 0;
    uint64_t of = 1 + rng_below(rng, 4);
    for (uint32_t i = 0; i < n; i++)
        if (rng_below(rng, of) == 0)
            out[count++] = i;
    return rng_below(rng, 6) == 0 ? 0 : count;
}

static void same_ranks(const struct wire_ranks *got, const uint32_t *ranks, uint32_t count)
{
    assert_int_equal(got->count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(wire_ranks_at(got, i), ranks[i]);
}

TEST(lists_of_nodes_come_back)
{
    (void)state;
    struct rng rng;
    struct buf data;
    rng_init(&rng, 11);
    buf_init(&data, &mem_libc);
    for (int run = 0; run < RUNS; run++) {
        uint32_t nodes[NODES]; /* some of them no workers */
        struct wire_ranks got;
        uint32_t count = choose(&rng, NODES, nodes);
        buf_clear(&data);
        wire_view_encode(nodes, count, &data);
        struct wire_header header = header_of(WIRE_VIEW, &data);
        assert_int_equal(wire_view_decode(&header, bytes_of(&data), &limits, &got, NULL), TRI_OK);
        same_ranks(&got, nodes, count);

        count = choose(&rng, NODES, nodes);
        buf_clear(&data);
        wire_accuse_encode(nodes, count, &data);
        header = header_of(WIRE_ACCUSE, &data);
        assert_int_equal(wire_accuse_decode(&header, bytes_of(&data), &limits, &got, NULL), TRI_OK);
        same_ranks(&got, nodes, count);
    }
    buf_fini(&data);
}

/* What a report says, in arrays. */
struct model {
    uint32_t count;
    struct {
        uint32_t layer, held;
        uint64_t next;
        struct {
            uint64_t clock;
            uint32_t count, ranks[WORKERS];
        } at[4];
    } layers[LAYERS];
};

static void make_report(struct rng *rng, struct model *model, struct buf *data)
{
    struct wire_report_out out;
    uint32_t numbers[LAYERS];
    *model = (struct model){.count = choose(rng, LAYERS, numbers)};
    wire_report_begin(&out, data);
    for (uint32_t l = 0; l < model->count; l++) {
        uint64_t clock = rng_below(rng, 900);
        model->layers[l].layer = numbers[l];
        model->layers[l].next = rng_below(rng, 1001);
        model->layers[l].held = (uint32_t)rng_below(rng, 5);
        wire_report_layer(&out, numbers[l], model->layers[l].next);
        for (uint32_t h = 0; h < model->layers[l].held; h++) {
            uint32_t *ranks = model->layers[l].at[h].ranks;
            model->layers[l].at[h].clock = clock;
            model->layers[l].at[h].count = choose(rng, WORKERS, ranks);
            wire_report_held(&out, clock, ranks, model->layers[l].at[h].count);
            clock += 1 + rng_below(rng, 3);
        }
    }
}

TEST(reports_come_back)
{
    (void)state;
    struct rng rng;
    struct buf data;
    struct model *model = malloc(sizeof *model);
    assert_non_null(model);
    rng_init(&rng, 12);
    buf_init(&data, &mem_libc);
    for (int run = 0; run < RUNS; run++) {
        struct wire_in report;
        struct wire_report_layer layer;
        struct wire_held held;
        tri_error err = {0};
        buf_clear(&data);
        make_report(&rng, model, &data);
        struct wire_header header = header_of(WIRE_REPORT, &data);
        if (wire_report_decode(&header, bytes_of(&data), &limits, &report, &err) != TRI_OK)
            fail_msg("seed 12, run %d: %s", run, err.text);
        for (uint32_t l = 0; l < model->count; l++) {
            assert_true(wire_report_next(&report, &layer));
            assert_int_equal(layer.layer, model->layers[l].layer);
            assert_true(layer.next == model->layers[l].next);
            for (uint32_t h = 0; h < model->layers[l].held; h++) {
                assert_true(wire_held_next(&layer.held, &held));
                assert_true(held.clock == model->layers[l].at[h].clock);
                same_ranks(&held.ranks, model->layers[l].at[h].ranks, model->layers[l].at[h].count);
            }
            assert_false(wire_held_next(&layer.held, &held));
        }
        assert_false(wire_report_next(&report, &layer));
    }
    free(model);
    buf_fini(&data);
}

struct verdict {
    uint32_t entries, relays;
    struct {
        uint32_t layer, count, ranks[WORKERS];
        uint64_t clock;
    } entry[2 * LAYERS];
    struct {
        struct wire_relay relay;
        uint32_t count, receivers[WORKERS];
    } relay[3 * LAYERS];
};

static void make_decision(struct rng *rng, struct verdict *verdict, struct buf *data)
{
    struct wire_decision_out out;
    memset(verdict, 0, sizeof *verdict);
    wire_decision_begin(&out, data);
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint64_t t = 5; t < 7; t++) {
            uint32_t i = verdict->entries;
            if (rng_below(rng, 2) == 0)
                continue;
            verdict->entries++;
            verdict->entry[i].layer = l;
            verdict->entry[i].clock = t;
            verdict->entry[i].count = choose(rng, WORKERS, verdict->entry[i].ranks);
            wire_decision_entry(&out, l, t, verdict->entry[i].ranks, verdict->entry[i].count);
        }
    for (uint32_t i = 0; i < 3 * LAYERS; i++) {
        struct wire_relay relay = {.layer = i / 3,
                                   .clock = 7 + i % 3 / 2, /* 7, 7, 8 */
                                   .rank = i % 3,
                                   .relayer = (uint32_t)rng_below(rng, WORKERS)};
        uint32_t k = verdict->relays;
        if (rng_below(rng, 2) == 0)
            continue;
        verdict->relays++;
        verdict->relay[k].relay = relay;
        verdict->relay[k].count = choose(rng, WORKERS, verdict->relay[k].receivers);
        wire_decision_relay(&out, &relay, verdict->relay[k].receivers, verdict->relay[k].count);
    }
}

static void same_decision(const struct wire_decision *got, const struct verdict *verdict)
{
    struct wire_in entries = got->entries, relays = got->relays;
    struct wire_entry entry;
    struct wire_relay relay;
    assert_true(got->entry_count == verdict->entries && got->relay_count == verdict->relays);
    for (uint32_t i = 0; i < verdict->entries; i++) {
        assert_true(wire_entry_next(&entries, &entry));
        assert_true(entry.layer == verdict->entry[i].layer);
        assert_true(entry.clock == verdict->entry[i].clock);
        same_ranks(&entry.ranks, verdict->entry[i].ranks, verdict->entry[i].count);
    }
    assert_false(wire_entry_next(&entries, &entry));
    for (uint32_t i = 0; i < verdict->relays; i++) {
        const struct wire_relay *wanted = &verdict->relay[i].relay;
        assert_true(wire_relay_next(&relays, &relay));
        assert_true(relay.layer == wanted->layer && relay.clock == wanted->clock &&
                    relay.rank == wanted->rank && relay.relayer == wanted->relayer);
        same_ranks(&relay.receivers, verdict->relay[i].receivers, verdict->relay[i].count);
    }
    assert_false(wire_relay_next(&relays, &relay));
}

TEST(decisions_come_back)
{
    (void)state;
    struct rng rng;
    struct buf data;
    struct verdict *verdict = malloc(sizeof *verdict);
    assert_non_null(verdict);
    rng_init(&rng, 13);
    buf_init(&data, &mem_libc);
    for (int run = 0; run < RUNS; run++) {
        struct wire_decision got;
        tri_error err = {0};
        buf_clear(&data);
        make_decision(&rng, verdict, &data);
        struct wire_header header = header_of(WIRE_DECISION, &data);
        if (wire_decision_decode(&header, bytes_of(&data), &limits, &got, &err) != TRI_OK)
            fail_msg("seed 13, run %d: %s", run, err.text);
        same_decision(&got, verdict);
    }
    free(verdict);
    buf_fini(&data);
}

/* A list given as numbers: below 2^32 as u32; those marked by CLOCK as u64. */
#define CLOCK(t) ((UINT64_C(1) << 63) | (t))

static void put_words(struct buf *data, const uint64_t *words, size_t count)
{
    buf_clear(data);
    for (size_t i = 0; i < count; i++)
        if (words[i] >> 63 != 0)
            wire_put_u64(data, words[i] & ~(UINT64_C(1) << 63));
        else
            wire_put_u32(data, (uint32_t)words[i]);
}

struct wrong {
    unsigned kind;
    uint64_t words[14];
    size_t count;
    const char *why;
};

#define WORDS(...)                                                                                 \
    .words = {__VA_ARGS__}, .count = sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)

static const struct wrong wrongs[] = {
    {WIRE_VIEW, WORDS(2, 5, 5), "ranks do not ascend"},
    {WIRE_VIEW, WORDS(2, 5, 4), "ranks do not ascend"},
    {WIRE_VIEW, WORDS(1, NODES), "a rank is past the last one"},
    {WIRE_VIEW, WORDS(UINT32_MAX, 1), "it announces more items than it has bytes for"},
    {WIRE_VIEW, WORDS(1, 2, 3), "bytes follow its end"},
    {WIRE_ACCUSE, WORDS(1, NODES), "a rank is past the last one"},
    {WIRE_REPORT, WORDS(2, 3, CLOCK(1), 0, 3, CLOCK(1), 0), "layers do not ascend"},
    {WIRE_REPORT, WORDS(2, 3, CLOCK(1), 0, 2, CLOCK(1), 0), "layers do not ascend"},
    {WIRE_REPORT, WORDS(1, LAYERS, CLOCK(1), 0), "a layer is past the last one"},
    {WIRE_REPORT, WORDS(1, 1, CLOCK(1001), 0), "a clock is past all that can be"},
    {WIRE_REPORT, WORDS(1, 1, CLOCK(1), 2, CLOCK(4), 0, CLOCK(4), 0), "clocks do not ascend"},
    {WIRE_REPORT, WORDS(1, 1, CLOCK(1), 1, CLOCK(1001), 0), "a clock is past all that can be"},
    {WIRE_REPORT, WORDS(1, 1, CLOCK(1), 1, CLOCK(1), 2, 3, 3), "ranks do not ascend"},
    {WIRE_REPORT, WORDS(1, 1, CLOCK(1), UINT32_MAX, CLOCK(1), 0),
     "it announces more items than it has bytes for"},
    {WIRE_REPORT, WORDS(UINT32_MAX, 1, CLOCK(1), 0),
     "it announces more items than it has bytes for"},
    {WIRE_DECISION, WORDS(2, 0, 1, CLOCK(5), 0, 1, CLOCK(5), 0), "entries do not ascend"},
    {WIRE_DECISION, WORDS(2, 0, 1, CLOCK(5), 0, 0, CLOCK(6), 0), "entries do not ascend"},
    {WIRE_DECISION, WORDS(1, 0, 1, CLOCK(1001), 0), "a clock is past all that can be"},
    {WIRE_DECISION, WORDS(1, 0, LAYERS, CLOCK(1), 0), "a layer is past the last one"},
    {WIRE_DECISION, WORDS(1, 0, 1, CLOCK(5), 1, WORKERS), "a rank is past the last one"},
    {WIRE_DECISION, WORDS(0, 1, 1, CLOCK(5), WORKERS, 0, 0), "a rank is past the last worker"},
    {WIRE_DECISION, WORDS(0, 1, 1, CLOCK(5), 0, WORKERS, 0), "a rank is past the last worker"},
    {WIRE_DECISION, WORDS(0, 2, 1, CLOCK(5), 3, 0, 0, 1, CLOCK(5), 3, 1, 0),
     "relays do not ascend"},
    {WIRE_DECISION, WORDS(0, 2, 1, CLOCK(5), 3, 0, 0, 1, CLOCK(4), 4, 1, 0),
     "relays do not ascend"},
    {WIRE_DECISION, WORDS(0, 1, 1, CLOCK(5), 3, 0, 2, 6, 5), "ranks do not ascend"},
    {WIRE_DECISION, WORDS(UINT32_MAX, 0, 0, 0, 0, 0),
     "it announces more items than it has bytes for"},
    {WIRE_DECISION, WORDS(0, UINT32_MAX, 0, 0, 0, 0),
     "it announces more items than it has bytes for"},
};

static tri_status decode(const struct wire_header *header, const uint8_t *data, tri_error *err)
{
    struct wire_ranks ranks;
    struct wire_in report;
    struct wire_decision decision;
    switch (header->kind) {
    case WIRE_VIEW:
        return wire_view_decode(header, data, &limits, &ranks, err);
    case WIRE_ACCUSE:
        return wire_accuse_decode(header, data, &limits, &ranks, err);
    case WIRE_REPORT:
        return wire_report_decode(header, data, &limits, &report, err);
    default:
        return wire_decision_decode(header, data, &limits, &decision, err);
    }
}

TEST(lists_out_of_order_or_bounds_are_refused)
{
    (void)state;
    struct buf data;
    buf_init(&data, &mem_libc);
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        char wanted[200];
        tri_error err = {0};
        put_words(&data, wrongs[i].words, wrongs[i].count);
        struct wire_header header = header_of(wrongs[i].kind, &data);
        (void)snprintf(wanted, sizeof wanted, "data of %s from node 4 is malformed: %s",
                       wire_kind_name(wrongs[i].kind), wrongs[i].why);
        assert_int_equal(decode(&header, bytes_of(&data), &err), TRI_EINPUT);
        assert_string_equal(err.text, wanted);
    }
    buf_fini(&data);
}

TEST(an_entry_may_follow_one_of_a_lower_layer_and_a_later_clock)
{
    (void)state;
    struct buf data;
    static const uint64_t words[] = {2, 0, 1, CLOCK(9), 0, 2, CLOCK(3), 0};
    buf_init(&data, &mem_libc);
    put_words(&data, words, sizeof words / sizeof words[0]);
    struct wire_header header = header_of(WIRE_DECISION, &data);
    assert_int_equal(decode(&header, bytes_of(&data), NULL), TRI_OK);
    buf_fini(&data);
}

static void reason_back(const char *sent, const char *wanted, size_t len)
{
    struct buf data;
    struct wire_text got;
    buf_init(&data, &mem_libc);
    wire_reason_encode(sent, &data);
    struct wire_header header = header_of(WIRE_REFUSED, &data);
    assert_true(data.len <= wire_kind_at(WIRE_REFUSED)->data_max);
    assert_int_equal(wire_reason_decode(&header, bytes_of(&data), &got, NULL), TRI_OK);
    assert_int_equal(got.len, len);
    assert_memory_equal(got.at, wanted, len);
    buf_fini(&data);
}

TEST(a_reason_always_gets_through)
{
    (void)state;
    char text[6001];
    reason_back("", "", 0);
    reason_back("node 3: caf\xc3\xa9", "node 3: caf\xc3\xa9", 13);
    reason_back("two\nlines\x1b[0m\x7f", "two?lines?[0m?", 14);
    memset(text, 'x', 6000);
    text[6000] = '\0';
    reason_back(text, text, WIRE_REASON_MAX);
    /* the cut would go through a character of three bytes */
    text[4095] = (char)0xe2;
    text[4096] = (char)0x82;
    text[4097] = (char)0xac;
    reason_back(text, text, 4095);
}

TEST(random_reasons_come_back)
{
    (void)state;
    struct rng rng;
    rng_init(&rng, 14);
    for (int run = 0; run < RUNS; run++) {
        char text[300];
        size_t len = (size_t)rng_below(&rng, sizeof text);
        for (size_t i = 0; i < len; i++)
            text[i] = (char)(0x20 + rng_below(&rng, 0x5f));
        text[len] = '\0';
        reason_back(text, text, len);
    }
}

TEST(a_reason_with_control_characters_or_without_end_is_refused)
{
    (void)state;
    struct wire_text got;
    tri_error err = {0};
    static const uint8_t escape[] = {2, 0, 'a', 0x1b};
    struct wire_header header = {.kind = WIRE_EVICTED, .sender = 4, .data_len = 4};
    assert_int_equal(wire_reason_decode(&header, escape, &got, &err), TRI_EINPUT);
    assert_string_equal(err.text, "data of EVICTED from node 4 is malformed: a text has a control "
                                  "character in it");
    static const uint8_t endless[4200] = {0x01, 0x10, 'a'};
    header.data_len = 4099;
    assert_int_equal(wire_reason_decode(&header, endless, &got, &err), TRI_EINPUT);
    assert_string_equal(err.text, "data of EVICTED from node 4 is malformed: a reason is too long");
}

/* An address of printable characters. */
static struct wire_text draw_address(struct rng *rng, char *room)
{
    size_t len = 1 + (size_t)rng_below(rng, rng_below(rng, 8) == 0 ? WIRE_TEXT_MAX : 20);
    for (size_t i = 0; i < len; i++)
        room[i] = (char)(0x21 + rng_below(rng, 0x7f - 0x21));
    return (struct wire_text){.at = room, .len = len};
}

TEST(addresses_come_back)
{
    (void)state;
    struct rng rng;
    struct buf data;
    rng_init(&rng, 15);
    buf_init(&data, &mem_libc);
    for (int run = 0; run < RUNS; run++) {
        char room[NODES][WIRE_TEXT_MAX];
        struct wire_text addresses[NODES];
        uint32_t nodes[NODES], count = choose(&rng, NODES, nodes);
        struct wire_peers_out out;
        struct wire_peer peer;
        struct wire_in list;
        tri_error err = {0};
        buf_clear(&data);
        wire_peers_begin(&out, &data);
        for (uint32_t i = 0; i < count; i++) {
            addresses[i] = draw_address(&rng, room[i]);
            peer = (struct wire_peer){nodes[i], addresses[i]};
            assert_int_equal(wire_peers_add(&out, &peer, &err), TRI_OK);
        }
        struct wire_header header = header_of(WIRE_PEERS, &data);
        if (wire_peers_decode(&header, bytes_of(&data), &limits, &list, &err) != TRI_OK)
            fail_msg("seed 15, run %d: %s", run, err.text);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(wire_peer_next(&list, &peer));
            assert_true(peer.node == nodes[i] && wire_text_equal(peer.address, addresses[i]));
        }
        assert_false(wire_peer_next(&list, &peer));
    }
    buf_fini(&data);
}

static void refuse_peer(uint32_t node, struct wire_text address, const char *text)
{
    struct buf data;
    struct wire_peers_out out;
    tri_error err = {0};
    buf_init(&data, &mem_libc);
    wire_peers_begin(&out, &data);
    assert_int_equal(wire_peers_add(&out, &(struct wire_peer){7, wire_text_of("here:1")}, &err),
                     TRI_OK);
    size_t len = data.len;
    assert_int_equal(wire_peers_add(&out, &(struct wire_peer){node, address}, &err), TRI_EARG);
    assert_string_equal(err.text, text);
    assert_int_equal(data.len, len);
    buf_fini(&data);
}

TEST(addresses_that_cannot_travel_are_refused_before_they_do)
{
    (void)state;
    char room[WIRE_TEXT_MAX + 1];
    memset(room, 'x', sizeof room);
    const char *bad = "the address of node 8 is empty, longer than 255 bytes or not printable";
    refuse_peer(8, (struct wire_text){room, sizeof room}, bad);
    refuse_peer(8, wire_text_of(""), bad);
    refuse_peer(8, wire_text_of("two words:1"), bad);
    refuse_peer(8, wire_text_of("caf\xc3\xa9:1"), bad);
    refuse_peer(8, wire_text_of("bell\x07:1"), bad);
    refuse_peer(7, wire_text_of("x:1"), "node 7 is out of order among the addresses");
    refuse_peer(6, wire_text_of("x:1"), "node 6 is out of order among the addresses");
    refuse_peer(WIRE_MAX_NODES, wire_text_of("x:1"),
                "node 131072 is out of order among the addresses");
}

static void refuse_peers(const char *bytes, size_t len, const char *why)
{
    struct wire_header header = {.kind = WIRE_PEERS, .sender = 4, .data_len = (uint32_t)len};
    struct wire_in list = {.failed = "untouched"};
    tri_error err = {0};
    assert_int_equal(wire_peers_decode(&header, (const uint8_t *)bytes, &limits, &list, &err),
                     TRI_EINPUT);
    assert_non_null(strstr(err.text, why));
    assert_string_equal(list.failed, "untouched");
}

TEST(addresses_out_of_order_or_bounds_are_refused)
{
    (void)state;
#define REFUSE(bytes, why) refuse_peers(bytes, sizeof(bytes) - 1, why)
    REFUSE("\2\0\0\0\3\0\0\0\1a\3\0\0\0\1b", "nodes do not ascend");
    REFUSE("\2\0\0\0\3\0\0\0\1a\2\0\0\0\1b", "nodes do not ascend");
    REFUSE("\1\0\0\0\x1e\0\0\0\1a", "a node is past the last one");
    REFUSE("\1\0\0\0\3\0\0\0\1 ", "no printable ASCII");
    REFUSE("\1\0\0\0\3\0\0\0\1\xe9", "no printable ASCII");
    REFUSE("\1\0\0\0\3\0\0\0\1\x1b", "control character");
    REFUSE("\1\0\0\0\3\0\0\0\0", "more items than it has bytes for");
    REFUSE("\1\0\0\0\3\0\0\0\0a", "an address is empty");
    REFUSE("\xff\xff\xff\xff\3\0\0\0\1a", "more items than it has bytes for");
    REFUSE("\0\0\0\0\3", "bytes follow its end");
#undef REFUSE
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_nodes_come_back),
        cmocka_unit_test(reports_come_back),
        cmocka_unit_test(decisions_come_back),
        cmocka_unit_test(lists_out_of_order_or_bounds_are_refused),
        cmocka_unit_test(an_entry_may_follow_one_of_a_lower_layer_and_a_later_clock),
        cmocka_unit_test(a_reason_always_gets_through),
        cmocka_unit_test(random_reasons_come_back),
        cmocka_unit_test(a_reason_with_control_characters_or_without_end_is_refused),
        cmocka_unit_test(addresses_come_back),
        cmocka_unit_test(addresses_that_cannot_travel_are_refused_before_they_do),
        cmocka_unit_test(addresses_out_of_order_or_bounds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
