/* wire/header and wire/kind: what comes back, and what is refused with which words. */
#include "wire/header.h"

#include <string.h>

#include "base/crc32c.h"
#include "base/rng.h"
#include "lib/test.h"
#include "wire/samples.h"

enum { RUNS = 2000, AT_CRC = 60 };

static const struct wire_limits limits = {
    .nodes = 300,
    .workers = 200,
    .servers = 150,
    .layers = 40,
    .chunks = 1000,
    .max_clock = 1000000,
    .data_bytes = 1 << 20,
    .max_codec = 5,
};

/* lo .. hi, both included, the ends more often than chance would have them. */
static uint64_t between(struct rng *rng, uint64_t lo, uint64_t hi)
{
    uint64_t dice = rng_below(rng, 8);
    return dice == 0 ? lo : dice == 1 ? hi : lo + rng_below(rng, hi - lo + 1);
}

static struct wire_header random_header(struct rng *rng, unsigned kind)
{
    const struct wire_kind_info *info = wire_kind_at(kind);
    uint32_t most = info->data_max < limits.data_bytes ? info->data_max : limits.data_bytes;
    struct wire_header header = {.kind = (uint8_t)kind};
    if ((info->uses & WIRE_USE_CODEC) != 0)
        header.codec = (uint8_t)between(rng, 0, limits.max_codec);
    if ((info->uses & WIRE_USE_VIEW) != 0)
        header.view = (uint32_t)rng_u64(rng);
    if ((info->uses & WIRE_USE_PLAN) != 0)
        header.plan = rng_u64(rng);
    if ((info->uses & WIRE_USE_LAYER) != 0)
        header.layer = (uint32_t)between(rng, 0, limits.layers - 1);
    if ((info->uses & WIRE_USE_CHUNK) != 0)
        header.chunk = (uint32_t)between(rng, 0, limits.chunks - 1);
    if ((info->uses & WIRE_USE_CLOCK) != 0)
        header.clock = between(rng, 0, limits.max_clock);
    header.job = rng_u64(rng);
    header.sender = (uint32_t)between(rng, 0, limits.nodes - 1);
    header.head_len = (uint16_t)between(rng, info->head, info->head + (uint64_t)info->head_list);
    header.data_len = (uint32_t)between(rng, info->data_min, most);
    header.checked = rng_below(rng, 2) == 1;
    header.payload_crc = header.checked ? (uint32_t)rng_u64(rng) : 0;
    return header;
}

static bool equal(const struct wire_header *a, const struct wire_header *b)
{
    return a->kind == b->kind && a->codec == b->codec && a->job == b->job && a->plan == b->plan &&
           a->clock == b->clock && a->view == b->view && a->sender == b->sender &&
           a->layer == b->layer && a->chunk == b->chunk && a->data_len == b->data_len &&
           a->head_len == b->head_len && a->checked == b->checked &&
           a->payload_crc == b->payload_crc;
}

TEST(headers_of_every_kind_come_back_as_they_were)
{
    (void)state;
    for (unsigned kind = 1; kind < WIRE_KINDS; kind++) {
        struct rng rng;
        rng_init(&rng, 100 + kind);
        for (int run = 0; run < RUNS; run++) {
            struct wire_header sent = random_header(&rng, kind), got = {0};
            uint8_t bytes[WIRE_HEADER_BYTES], again[WIRE_HEADER_BYTES];
            tri_error err = {0};
            wire_header_encode(&sent, bytes);
            if (wire_header_decode(bytes, &limits, &got, &err) != TRI_OK || !equal(&sent, &got))
                fail_msg("%s, seed %u, run %d: %s", wire_kind_name(kind), 100 + kind, run,
                         err.text);
            wire_header_encode(&got, again);
            assert_memory_equal(bytes, again, sizeof bytes);
        }
    }
}

static void encode_sample(unsigned kind, uint8_t bytes[WIRE_HEADER_BYTES])
{
    struct message m;
    message_init(&m, &mem_libc);
    message_sample(&m, kind);
    wire_header_encode(&m.header, bytes);
    message_fini(&m);
}

TEST(one_wrong_bit_anywhere_is_refused)
{
    (void)state;
    for (unsigned kind = 1; kind < WIRE_KINDS; kind++) {
        uint8_t bytes[WIRE_HEADER_BYTES];
        encode_sample(kind, bytes);
        for (unsigned bit = 0; bit < 8 * WIRE_HEADER_BYTES; bit++) {
            struct wire_header out;
            tri_error err = {0};
            memset(&out, 0xee, sizeof out);
            struct wire_header untouched = out;
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            tri_status status = wire_header_decode(bytes, &wire_widest, &out, &err);
            const char *wanted = bit < 32   ? "not a trident node"
                                 : bit < 48 ? "peer speaks wire version"
                                            : "header checksum is";
            assert_int_equal(status, bit >= 32 && bit < 48 ? TRI_EMISMATCH : TRI_EINPUT);
            assert_int_equal(err.status, status);
            assert_non_null(strstr(err.text, wanted));
            assert_memory_equal(&out, &untouched, sizeof out);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

/* The smallest header of that kind with the `len` bytes at `at` replaced and the
 * checksum made right again. */
static void refuse_changed(unsigned kind, size_t at, uint64_t value, size_t len, const char *text)
{
    uint8_t bytes[WIRE_HEADER_BYTES];
    struct wire_header header = {.kind = (uint8_t)kind}, out;
    const struct wire_kind_info *info = wire_kind_at(kind);
    tri_error err = {0};
    header.head_len = info->head;
    header.data_len = info->data_min;
    wire_header_encode(&header, bytes);
    assert_int_equal(wire_header_decode(bytes, &limits, &out, &err), TRI_OK);
    for (size_t i = 0; i < len; i++)
        bytes[at + i] = (uint8_t)(value >> 8 * i);
    wire_store_u32(bytes + AT_CRC, crc32c(0, bytes, AT_CRC));
    assert_int_equal(wire_header_decode(bytes, &limits, &out, &err), TRI_EINPUT);
    assert_string_equal(err.text, text);
}

TEST(numbers_past_the_limits_are_refused_by_name)
{
    (void)state;
    refuse_changed(WIRE_PUSH, 6, 0, 1, "message of unknown kind 0");
    refuse_changed(WIRE_PUSH, 6, WIRE_KINDS, 1, "message of unknown kind 30");
    refuse_changed(WIRE_PUSH, 6, 255, 1, "message of unknown kind 255");
    refuse_changed(WIRE_PUSH, 7, 6, 1, "PUSH uses codec 6, the last one known is 5");
    refuse_changed(WIRE_PUSH, 36, 300, 4, "PUSH comes from node 300 of 300");
    refuse_changed(WIRE_PUSH, 40, 40, 4, "PUSH is about layer 40 of 40");
    refuse_changed(WIRE_PUSH, 44, 1000, 4, "PUSH is about chunk 1000 of 1000");
    refuse_changed(WIRE_PUSH, 24, 1000001, 8,
                   "PUSH is about clock 1000001, the last one can be 1000000");
    refuse_changed(WIRE_PUSH, 24, UINT64_MAX, 8,
                   "PUSH is about clock 18446744073709551615, the last one can be 1000000");
}

TEST(lengths_outside_the_kind_are_refused_by_name)
{
    (void)state;
    refuse_changed(WIRE_PUSH, 52, 15, 2, "head of PUSH has 15 bytes instead of 64 to 64");
    refuse_changed(WIRE_PUSH, 52, 65535, 2, "head of PUSH has 65535 bytes instead of 64 to 64");
    refuse_changed(WIRE_RESULT, 52, 63, 2, "head of RESULT has 63 bytes instead of 64 to 8256");
    refuse_changed(WIRE_RESULT, 52, 8257, 2, "head of RESULT has 8257 bytes instead of 64 to 8256");
    refuse_changed(WIRE_PUSH, 48, 0, 4, "data of PUSH has 0 bytes, which is less than 1");
    refuse_changed(WIRE_PUSH, 48, (1 << 20) + 1, 4,
                   "data of PUSH has 1048577 bytes, which is more than 1048576");
    refuse_changed(WIRE_REFUSED, 48, 4099, 4,
                   "data of REFUSED has 4099 bytes, which is more than 4098");
    refuse_changed(WIRE_NOTHING, 48, 12, 4, "NOTHING carries no data, but announces 12 bytes");
}

TEST(every_kind_is_held_to_its_own_lengths)
{
    (void)state;
    for (unsigned kind = 1; kind < WIRE_KINDS; kind++) {
        const struct wire_kind_info *info = wire_kind_at(kind);
        const uint64_t wrong[] = {info->data_min - UINT64_C(1), info->data_max + UINT64_C(1),
                                  WIRE_MAX_DATA + UINT64_C(1), UINT32_MAX};
        uint8_t bytes[WIRE_HEADER_BYTES];
        struct wire_header header = {.kind = (uint8_t)kind}, out;
        header.head_len = info->head;
        header.data_len = info->data_min;
        wire_header_encode(&header, bytes);
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            wire_store_u32(bytes + 48, (uint32_t)wrong[i]);
            wire_store_u32(bytes + AT_CRC, crc32c(0, bytes, AT_CRC));
            assert_int_equal(wire_header_decode(bytes, &wire_widest, &out, NULL), TRI_EINPUT);
        }
        wire_store_u32(bytes + 48, info->data_min);
        for (unsigned len = 0; len <= UINT16_MAX; len++) {
            bool right = len >= info->head && len <= info->head + (unsigned)info->head_list;
            wire_store_u16(bytes + 52, (uint16_t)len);
            wire_store_u32(bytes + AT_CRC, crc32c(0, bytes, AT_CRC));
            assert_int_equal(wire_header_decode(bytes, &wire_widest, &out, NULL),
                             right ? TRI_OK : TRI_EINPUT);
        }
    }
}

TEST(flags_and_checksums_that_make_no_sense_are_refused)
{
    (void)state;
    refuse_changed(WIRE_PUSH, 54, 2, 1, "PUSH has unknown flags 02 00");
    refuse_changed(WIRE_PUSH, 54, 0x81, 1, "PUSH has unknown flags 81 00");
    refuse_changed(WIRE_PUSH, 55, 1, 1, "PUSH has unknown flags 00 01");
    refuse_changed(WIRE_PUSH, 56, 7, 4, "PUSH has a payload checksum and says it has none");
}

TEST(a_field_that_the_kind_does_not_use_is_refused)
{
    (void)state;
    refuse_changed(WIRE_HELLO, 7, 1, 1, "HELLO has a codec, which it should not");
    refuse_changed(WIRE_HELLO, 16, 1, 8, "HELLO has a plan, which it should not");
    refuse_changed(WIRE_BOOK, 24, 1, 8, "BOOK has a clock, which it should not");
    refuse_changed(WIRE_READY, 32, 1, 4, "READY has a view, which it should not");
    refuse_changed(WIRE_CLOCK, 40, 1, 4, "CLOCK has a layer, which it should not");
    refuse_changed(WIRE_NOTHING, 44, 1, 4, "NOTHING has a chunk, which it should not");
}

static void refuse_bytes(const char *begin, size_t len, tri_status wanted, const char *text)
{
    uint8_t bytes[WIRE_HEADER_BYTES] = {0};
    struct wire_header out;
    tri_error err = {0};
    memcpy(bytes, begin, len);
    assert_int_equal(wire_header_decode(bytes, &limits, &out, &err), wanted);
    assert_string_equal(err.text, text);
}

TEST(strangers_are_called_by_their_name)
{
    (void)state;
    refuse_bytes("GET / HTTP/1.1", 14, TRI_EINPUT, "this is an HTTP client, not a trident node");
    refuse_bytes("POST /x", 7, TRI_EINPUT, "this is an HTTP client, not a trident node");
    refuse_bytes("\x16\x03\x01", 3, TRI_EINPUT, "this is a TLS client, not a trident node");
    refuse_bytes("SSH-2.0-x", 9, TRI_EINPUT, "this is an SSH program, not a trident node");
    refuse_bytes("\x00\x01\x02\xff", 4, TRI_EINPUT,
                 "this is not a trident node: its bytes begin with 00 01 02 ff");
    /* a big-endian writer */
    refuse_bytes("DIRT", 4, TRI_EINPUT,
                 "this is not a trident node: its bytes begin with 44 49 52 54");
}

TEST(another_version_is_refused_and_both_are_named)
{
    (void)state;
    refuse_bytes("TRID\x02\x00", 6, TRI_EMISMATCH, "peer speaks wire version 2, this is version 1");
    refuse_bytes("TRID\x00\x01", 6, TRI_EMISMATCH,
                 "peer speaks wire version 256, this is version 1");
}

TEST(a_damaged_payload_is_noticed_when_it_is_covered)
{
    (void)state;
    struct message m;
    tri_error err = {0};
    message_init(&m, &mem_libc);
    message_sample(&m, WIRE_PUSH);
    assert_int_equal(wire_payload_check(&m.header, m.head.data, m.data.data, &err), TRI_OK);
    m.data.data[3] ^= 1;
    assert_int_equal(wire_payload_check(&m.header, m.head.data, m.data.data, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "PUSH from node 70163 is damaged: its checksum is "));
    m.data.data[3] ^= 1;
    m.head.data[0] ^= 1;
    assert_int_equal(wire_payload_check(&m.header, m.head.data, m.data.data, &err), TRI_EINPUT);
    m.header.checked = false;
    m.header.payload_crc = 0;
    assert_int_equal(wire_payload_check(&m.header, m.head.data, m.data.data, &err), TRI_OK);
    message_fini(&m);
}

TEST(every_kind_has_a_name_and_other_numbers_have_none)
{
    (void)state;
    for (unsigned kind = 1; kind < WIRE_KINDS; kind++)
        assert_string_not_equal(wire_kind_name(kind), "?");
    assert_string_equal(wire_kind_name(WIRE_LEFT_OUT), "LEFT_OUT");
    assert_string_equal(wire_kind_name(0), "?");
    assert_string_equal(wire_kind_name(WIRE_KINDS), "?");
    assert_string_equal(wire_kind_name(UINT32_MAX), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_of_every_kind_come_back_as_they_were),
        cmocka_unit_test(one_wrong_bit_anywhere_is_refused),
        cmocka_unit_test(numbers_past_the_limits_are_refused_by_name),
        cmocka_unit_test(lengths_outside_the_kind_are_refused_by_name),
        cmocka_unit_test(every_kind_is_held_to_its_own_lengths),
        cmocka_unit_test(flags_and_checksums_that_make_no_sense_are_refused),
        cmocka_unit_test(a_field_that_the_kind_does_not_use_is_refused),
        cmocka_unit_test(strangers_are_called_by_their_name),
        cmocka_unit_test(another_version_is_refused_and_both_are_named),
        cmocka_unit_test(a_damaged_payload_is_noticed_when_it_is_covered),
        cmocka_unit_test(every_kind_has_a_name_and_other_numbers_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
