/* wire/heads and the head of wire/hello: all fields come back, wrong ones are refused. */
#include "wire/heads.h"

#include <string.h>

#include "base/rng.h"
#include "lib/test.h"
#include "wire/hello.h"

enum { RUNS = 2000 };

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

/* Encodes *sent into a cleared buf and decodes it with the header at hand; the test
 * ends when that fails. */
#define COME_BACK(name, kind_, sent, got)                                                          \
    do {                                                                                           \
        tri_error err_ = {0};                                                                      \
        buf_clear(&head);                                                                          \
        wire_##name##_encode(&(sent), &head);                                                      \
        header.kind = (kind_);                                                                     \
        header.head_len = (uint16_t)head.len;                                                      \
        assert_true(head.len >= wire_kind_at(kind_)->head);                                        \
        if (wire_##name##_decode(&header, (const uint8_t *)head.data, &limits, &(got), &err_) !=   \
            TRI_OK)                                                                                \
            fail_msg("run %d: %s", run, err_.text);                                                \
    } while (0)

static uint32_t below(struct rng *rng, uint32_t n)
{
    uint64_t dice = rng_below(rng, 8);
    return dice == 0 ? 0 : dice == 1 ? n - 1 : (uint32_t)rng_below(rng, n);
}

TEST(updates_come_back_as_they_were)
{
    (void)state;
    struct wire_header header = {.data_len = 8};
    struct rng rng;
    struct buf head;
    rng_init(&rng, 1);
    buf_init(&head, &mem_libc);
    for (int run = 0; run < RUNS; run++) {
        struct wire_push push = {rng_u64(&rng), (uint32_t)rng_u64(&rng), below(&rng, 200)};
        struct wire_push push2;
        COME_BACK(push, WIRE_PUSH, push, push2);
        assert_true(push.count == push2.count && push.lr_bits == push2.lr_bits &&
                    push.rank == push2.rank);

        struct wire_rows rows = {rng_u64(&rng), (uint32_t)rng_u64(&rng), below(&rng, 200),
                                 1 + below(&rng, UINT32_MAX)};
        struct wire_rows rows2;
        COME_BACK(rows, WIRE_ROWS, rows, rows2);
        assert_true(rows.count == rows2.count && rows.lr_bits == rows2.lr_bits &&
                    rows.rank == rows2.rank && rows.rows == rows2.rows);

        struct wire_nothing nothing = {below(&rng, 200)}, nothing2;
        COME_BACK(nothing, WIRE_NOTHING, nothing, nothing2);
        assert_int_equal(nothing.rank, nothing2.rank);
    }
    buf_fini(&head);
}

TEST(factors_come_back_and_their_parts_share_out_all_rows)
{
    (void)state;
    struct wire_header header = {.data_len = 8};
    struct rng rng;
    struct buf head;
    rng_init(&rng, 2);
    buf_init(&head, &mem_libc);
    for (int run = 0; run < RUNS; run++) {
        struct wire_factors factors = {rng_u64(&rng), (uint32_t)rng_u64(&rng), below(&rng, 200),
                                       1 + below(&rng, run % 2 == 0 ? 100 : UINT32_MAX), 0};
        struct wire_factors got;
        factors.parts = 1 + below(&rng, factors.rows);
        header.chunk = below(&rng, factors.parts);
        COME_BACK(factors, WIRE_FACTORS, factors, got);
        assert_true(factors.count == got.count && factors.lr_bits == got.lr_bits &&
                    factors.rank == got.rank && factors.rows == got.rows &&
                    factors.parts == got.parts);
        assert_int_equal(wire_factors_first(&got, 0), 0);
        assert_int_equal(wire_factors_first(&got, got.parts), got.rows);
        assert_true(wire_factors_first(&got, header.chunk) <
                    wire_factors_first(&got, header.chunk + 1));
    }
    buf_fini(&head);
}

TEST(results_come_back_with_their_masks)
{
    (void)state;
    struct wire_header header = {0};
    struct rng rng;
    struct buf head;
    rng_init(&rng, 3);
    buf_init(&head, &mem_libc);
    for (int run = 0; run < RUNS; run++) {
        uint8_t mask[25] = {0};
        struct wire_result result = {.count = rng_u64(&rng),
                                     .version = below(&rng, 1000001),
                                     .lr_bits = (uint32_t)rng_u64(&rng),
                                     .flags = (uint8_t)below(&rng, 8),
                                     .mask_ranks = below(&rng, 201),
                                     .mask = mask};
        struct wire_result got;
        for (uint32_t r = 0; r < result.mask_ranks; r++)
            mask[r / 8] |= (uint8_t)(rng_below(&rng, 2) << r % 8);
        header.data_len = (result.flags & WIRE_RESULT_UNCHANGED) != 0 ? 0 : 8;
        COME_BACK(result, WIRE_RESULT, result, got);
        assert_true(result.count == got.count && result.version == got.version &&
                    result.lr_bits == got.lr_bits && result.flags == got.flags &&
                    result.mask_ranks == got.mask_ranks);
        for (uint32_t r = 0; r < 200; r++)
            assert_int_equal(wire_result_counts(&got, r),
                             r < result.mask_ranks && (mask[r / 8] >> r % 8 & 1) != 0);
    }
    buf_fini(&head);
}

static uint32_t owner(struct rng *rng)
{
    return rng_below(rng, 8) == 0 ? WIRE_OWNER_WORKER : below(rng, 150);
}

TEST(marks_and_their_answers_come_back_as_they_were)
{
    (void)state;
    struct wire_header header = {0};
    struct rng rng;
    struct buf head;
    rng_init(&rng, 5);
    buf_init(&head, &mem_libc);
    for (int run = 0; run < RUNS; run++) {
        struct wire_mark mark = {.what = 1 + below(&rng, 3)}, mark2;
        if (mark.what == WIRE_MARK_JOIN) {
            mark.rank = below(&rng, 200);
            mark.agreed = rng_below(&rng, 2) == 1;
            mark.last = rng_below(&rng, 2) == 1;
        }
        mark.worker = rng_below(&rng, 2) == 1;
        COME_BACK(mark, WIRE_MARK, mark, mark2);
        assert_true(mark.what == mark2.what && mark.rank == mark2.rank &&
                    mark.agreed == mark2.agreed && mark.last == mark2.last &&
                    mark.worker == mark2.worker);

        struct wire_marked marked = {mark.what, rng_below(&rng, 2) == 1, below(&rng, 1000001),
                                     mark.rank, owner(&rng)};
        struct wire_marked marked2;
        COME_BACK(marked, WIRE_MARKED, marked, marked2);
        assert_true(marked.what == marked2.what && marked.accepted == marked2.accepted &&
                    marked.own == marked2.own && marked.rank == marked2.rank &&
                    marked.owner == marked2.owner);

        struct wire_saved saved = {owner(&rng)}, saved2;
        COME_BACK(saved, WIRE_SAVED, saved, saved2);
        assert_int_equal(saved.owner, saved2.owner);

        struct wire_state kept = {rng_u64(&rng), (uint32_t)rng_u64(&rng)}, kept2;
        COME_BACK(state, WIRE_STATE, kept, kept2);
        assert_true(kept.steps == kept2.steps && kept.plane == kept2.plane);

        struct wire_checksum checksum = {(uint32_t)rng_u64(&rng)}, checksum2;
        COME_BACK(checksum, WIRE_CHECKSUM, checksum, checksum2);
        assert_int_equal(checksum.crc, checksum2.crc);
    }
    buf_fini(&head);
}

TEST(the_other_heads_come_back_as_they_were)
{
    (void)state;
    struct wire_header header = {0};
    struct rng rng;
    struct buf head;
    rng_init(&rng, 4);
    buf_init(&head, &mem_libc);
    for (int run = 0; run < RUNS; run++) {
        struct wire_pull pull = {below(&rng, 1000001)}, pull2;
        COME_BACK(pull, WIRE_PULL, pull, pull2);
        assert_true(pull.version == pull2.version);

        struct wire_left_out out = {below(&rng, 1000001), below(&rng, 200),
                                    below(&rng, UINT32_MAX)};
        struct wire_left_out out2;
        COME_BACK(left_out, WIRE_LEFT_OUT, out, out2);
        assert_true(out.version == out2.version && out.rank == out2.rank &&
                    out.running == out2.running);

        struct wire_failed failed = {below(&rng, 300), -1 - (int32_t)below(&rng, 64)}, failed2;
        COME_BACK(failed, WIRE_FAILED, failed, failed2);
        assert_true(failed.node == failed2.node && failed.status == failed2.status);

        struct wire_hello hello = {1 + below(&rng, 7), below(&rng, 300), rng_u64(&rng), 1,
                                   (uint16_t)(1 + below(&rng, 65535))};
        struct wire_hello hello2;
        COME_BACK(hello, WIRE_HELLO, hello, hello2);
        assert_true(hello.roles == hello2.roles && hello.rank == hello2.rank &&
                    hello.incarnation == hello2.incarnation && hello.wire_min == hello2.wire_min &&
                    hello.wire_max == hello2.wire_max);
    }
    buf_fini(&head);
}

/* Encodes and wants the decoder to refuse with this reason, leaving got alone. */
#define REFUSED(name, kind_, wrong, got, why)                                                      \
    do {                                                                                           \
        tri_error err_ = {0};                                                                      \
        struct buf head_;                                                                          \
        memset(&(got), 0xee, sizeof(got));                                                         \
        buf_init(&head_, &mem_libc);                                                               \
        wire_##name##_encode(&(wrong), &head_);                                                    \
        header.kind = (kind_);                                                                     \
        header.head_len = (uint16_t)head_.len;                                                     \
        assert_int_equal(                                                                          \
            wire_##name##_decode(&header, (const uint8_t *)head_.data, &limits, &(got), &err_),    \
            TRI_EINPUT);                                                                           \
        assert_string_equal(err_.text, why);                                                       \
        assert_int_equal(*(const unsigned char *)&(got), 0xee);                                    \
        buf_fini(&head_);                                                                          \
    } while (0)

TEST(updates_of_nobody_and_parts_that_cannot_be_are_refused)
{
    (void)state;
    struct wire_header header = {.data_len = 8, .sender = 3};
    struct wire_push push = {1, 0, 200}, got_push;
    REFUSED(push, WIRE_PUSH, push, got_push,
            "head of PUSH from node 3 is malformed: a rank is past the last worker");
    struct wire_nothing nothing = {200}, got_nothing;
    REFUSED(nothing, WIRE_NOTHING, nothing, got_nothing,
            "head of NOTHING from node 3 is malformed: a rank is past the last worker");
    struct wire_rows rows = {1, 0, 0, 0}, got_rows;
    REFUSED(rows, WIRE_ROWS, rows, got_rows,
            "head of ROWS from node 3 is malformed: it has no rows");
    struct wire_factors factors = {1, 0, 0, .rows = 4, .parts = 5}, got;
    REFUSED(factors, WIRE_FACTORS, factors, got,
            "head of FACTORS from node 3 is malformed: it has no rows, or more parts than rows");
    factors.parts = 0;
    REFUSED(factors, WIRE_FACTORS, factors, got,
            "head of FACTORS from node 3 is malformed: it has no rows, or more parts than rows");
    factors.parts = header.chunk = 4;
    REFUSED(factors, WIRE_FACTORS, factors, got,
            "head of FACTORS from node 3 is malformed: its part is past the last one");
    factors.rank = 200;
    REFUSED(factors, WIRE_FACTORS, factors, got,
            "head of FACTORS from node 3 is malformed: a rank is past the last worker");
}

TEST(results_that_contradict_themselves_are_refused)
{
    (void)state;
    static const uint8_t mask[26] = {0xff, 0x08};
    struct wire_header header = {.data_len = 8};
    struct wire_result result = {.flags = WIRE_RESULT_UNCHANGED, .mask = mask}, got;
    REFUSED(result, WIRE_RESULT, result, got,
            "head of RESULT from node 0 is malformed: it must have data or be unchanged, and not "
            "both");
    header.data_len = 0;
    result.flags = 0;
    REFUSED(result, WIRE_RESULT, result, got,
            "head of RESULT from node 0 is malformed: it must have data or be unchanged, and not "
            "both");
    header.data_len = 8;
    result.mask_ranks = 11;
    REFUSED(result, WIRE_RESULT, result, got,
            "head of RESULT from node 0 is malformed: its mask has bits past the last rank");
    result.mask_ranks = 201;
    REFUSED(result, WIRE_RESULT, result, got,
            "head of RESULT from node 0 is malformed: its mask covers more ranks than there are");
}

TEST(unknown_flags_of_a_result_are_refused)
{
    (void)state;
    for (size_t at = 24; at < 28; at++) {
        uint8_t head[28] = {0};
        struct wire_header header = {.kind = WIRE_RESULT, .head_len = 28, .data_len = 8};
        struct wire_result got;
        tri_error err = {0};
        head[at] = 8;
        assert_int_equal(wire_result_decode(&header, head, &limits, &got, &err), TRI_EINPUT);
        assert_string_equal(err.text,
                            "head of RESULT from node 0 is malformed: it has unknown flags");
    }
}

TEST(what_fills_up_a_head_must_be_zero)
{
    (void)state;
    for (size_t at = 28; at < 64; at++) {
        uint8_t head[64] = {0};
        struct wire_header header = {.kind = WIRE_RESULT, .head_len = 64, .data_len = 8};
        struct wire_result got;
        tri_error err = {0};
        assert_int_equal(wire_result_decode(&header, head, &limits, &got, &err), TRI_OK);
        head[at] = 1;
        assert_int_equal(wire_result_decode(&header, head, &limits, &got, &err), TRI_EINPUT);
        assert_string_equal(err.text, "head of RESULT from node 0 is malformed: there is "
                                      "something behind its last field");
    }
}

TEST(clocks_past_the_limit_are_refused)
{
    (void)state;
    struct wire_header header = {0};
    struct wire_pull pull = {1000001}, got_pull;
    REFUSED(pull, WIRE_PULL, pull, got_pull,
            "head of PULL from node 0 is malformed: a clock is past all that can be");
    struct wire_left_out out = {1000001, 1, 1}, got_out;
    REFUSED(left_out, WIRE_LEFT_OUT, out, got_out,
            "head of LEFT_OUT from node 0 is malformed: a clock is past all that can be");
    struct wire_marked marked = {1, true, 1000001, 0, 0}, got_marked;
    REFUSED(marked, WIRE_MARKED, marked, got_marked,
            "head of MARKED from node 0 is malformed: a clock is past all that can be");
    header.data_len = 8;
    struct wire_result result = {.version = 1000001}, got_result;
    REFUSED(result, WIRE_RESULT, result, got_result,
            "head of RESULT from node 0 is malformed: a clock is past all that can be");
}

TEST(marks_of_what_is_unknown_are_refused)
{
    (void)state;
    struct wire_header header = {0};
    struct wire_mark mark = {0}, got;
    REFUSED(mark, WIRE_MARK, mark, got,
            "head of MARK from node 0 is malformed: it marks no checkpoint, checksum or join");
    mark.what = 4;
    REFUSED(mark, WIRE_MARK, mark, got,
            "head of MARK from node 0 is malformed: it marks no checkpoint, checksum or join");
    struct wire_marked marked = {4, true, 1, 0, 0}, got_marked;
    REFUSED(marked, WIRE_MARKED, marked, got_marked,
            "head of MARKED from node 0 is malformed: it marks no checkpoint, checksum or join");
    uint8_t bytes[24] = {1, 0, 0, 0, 2};
    tri_error err = {0};
    header.head_len = 24;
    assert_int_equal(wire_marked_decode(&header, bytes, &limits, &got_marked, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "neither 0 nor 1"));
}

TEST(each_flag_of_a_mark_has_its_bit_and_unknown_ones_are_refused)
{
    (void)state;
    for (unsigned bit = 0; bit < 32; bit++) {
        for (uint32_t what = WIRE_MARK_CHECKPOINT; what <= WIRE_MARK_JOIN; what++) {
            uint8_t head[12] = {(uint8_t)what};
            struct wire_header header = {.kind = WIRE_MARK, .head_len = 12};
            struct wire_mark got;
            tri_error err = {0};
            wire_store_u32(head + 8, UINT32_C(1) << bit);
            tri_status status = wire_mark_decode(&header, head, &limits, &got, &err);
            if (bit == 2 || (bit < 2 && what == WIRE_MARK_JOIN)) {
                assert_int_equal(status, TRI_OK);
                assert_true(got.agreed == (bit == 0) && got.last == (bit == 1) &&
                            got.worker == (bit == 2));
                continue;
            }
            assert_int_equal(status, TRI_EINPUT);
            assert_string_equal(
                err.text,
                bit < 2
                    ? "head of MARK from node 0 is malformed: it has flags of a join and is none"
                    : "head of MARK from node 0 is malformed: it has unknown flags");
        }
    }
}

TEST(known_flags_of_a_mark_do_not_hide_unknown_ones)
{
    (void)state;
    for (uint8_t flags = 0; flags < 16; flags++) {
        uint8_t head[12] = {WIRE_MARK_JOIN, 0, 0, 0, 7, 0, 0, 0, flags};
        struct wire_header header = {.kind = WIRE_MARK, .head_len = 12};
        struct wire_mark got;
        assert_int_equal(wire_mark_decode(&header, head, &limits, &got, NULL),
                         flags < 8 ? TRI_OK : TRI_EINPUT);
    }
}

TEST(only_a_join_names_a_rank_and_has_flags)
{
    (void)state;
    struct wire_header header = {0};
    for (uint32_t what = WIRE_MARK_CHECKPOINT; what < WIRE_MARK_JOIN; what++) {
        struct wire_mark mark = {what, .rank = 1}, got;
        REFUSED(mark, WIRE_MARK, mark, got,
                "head of MARK from node 0 is malformed: it names a rank and is no join");
        for (unsigned flags = 1; flags < 4; flags++) {
            mark = (struct wire_mark){what, .agreed = (flags & 1) != 0, .last = (flags & 2) != 0};
            REFUSED(mark, WIRE_MARK, mark, got,
                    "head of MARK from node 0 is malformed: it has flags of a join and is none");
        }
        struct wire_marked marked = {what, true, 1, 1, 0}, got_marked;
        REFUSED(marked, WIRE_MARKED, marked, got_marked,
                "head of MARKED from node 0 is malformed: it names a rank and is no join");
    }
}

TEST(joins_and_late_pushes_of_nobody_are_refused)
{
    (void)state;
    struct wire_header header = {0};
    struct wire_mark mark = {WIRE_MARK_JOIN, .rank = 200, .agreed = true}, got;
    REFUSED(mark, WIRE_MARK, mark, got,
            "head of MARK from node 0 is malformed: a rank is past the last worker");
    struct wire_marked marked = {WIRE_MARK_JOIN, true, 1, 200, 0}, got_marked;
    REFUSED(marked, WIRE_MARKED, marked, got_marked,
            "head of MARKED from node 0 is malformed: a rank is past the last worker");
    struct wire_left_out out = {1, 200, 1}, got_out;
    REFUSED(left_out, WIRE_LEFT_OUT, out, got_out,
            "head of LEFT_OUT from node 0 is malformed: a rank is past the last worker");
}

TEST(owners_are_servers_that_there_are_or_the_worker)
{
    (void)state;
    static const uint32_t wrong[] = {150, 200, 299, UINT32_MAX - 1};
    struct wire_header header = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct wire_saved saved = {wrong[i]}, got;
        REFUSED(saved, WIRE_SAVED, saved, got,
                "head of SAVED from node 0 is malformed: an owner is neither a server nor the "
                "worker");
        struct wire_marked marked = {1, true, 1, 0, wrong[i]}, got_marked;
        REFUSED(marked, WIRE_MARKED, marked, got_marked,
                "head of MARKED from node 0 is malformed: an owner is neither a server nor the "
                "worker");
    }
}

TEST(a_hello_without_role_or_version_is_refused)
{
    (void)state;
    struct wire_header header = {.sender = 9};
    struct wire_hello hello = {0, 1, 5, 1, 1}, got;
    REFUSED(hello, WIRE_HELLO, hello, got,
            "head of HELLO from node 9 is malformed: it has no role, or an unknown one");
    hello.roles = 8;
    REFUSED(hello, WIRE_HELLO, hello, got,
            "head of HELLO from node 9 is malformed: it has no role, or an unknown one");
    hello = (struct wire_hello){1, 300, 5, 1, 1};
    REFUSED(hello, WIRE_HELLO, hello, got,
            "head of HELLO from node 9 is malformed: its rank is past the last one");
    static const uint16_t wrong[][2] = {{0, 1}, {2, 3}, {1, 0}, {2, 1}};
    for (size_t i = 0; i < 4; i++) {
        hello = (struct wire_hello){1, 0, 5, wrong[i][0], wrong[i][1]};
        REFUSED(hello, WIRE_HELLO, hello, got,
                "head of HELLO from node 9 is malformed: its versions leave out the one it is "
                "written in");
    }
}

TEST(nodes_that_fail_are_there_and_have_an_error)
{
    (void)state;
    static const int32_t wrong[] = {0, 1, 8, 63, 64, -65, -66, -256, INT32_MAX, INT32_MIN};
    struct wire_header header = {.sender = 9};
    struct wire_failed failed = {300, TRI_EIO}, got;
    REFUSED(failed, WIRE_FAILED, failed, got,
            "head of FAILED from node 9 is malformed: a node is past the last one");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        failed = (struct wire_failed){299, wrong[i]};
        REFUSED(failed, WIRE_FAILED, failed, got,
                "head of FAILED from node 9 is malformed: its status is no error");
    }
}

TEST(every_status_that_may_travel_is_read)
{
    (void)state;
    struct wire_header header = {0};
    struct buf head;
    buf_init(&head, &mem_libc);
    for (int run = -1; run >= -64; run--) {
        struct wire_failed failed = {299, run}, got;
        COME_BACK(failed, WIRE_FAILED, failed, got);
        assert_int_equal(got.status, run);
    }
    assert_true(TRI_EARG == -1 && TRI_EMISMATCH == -8 && WIRE_STATUS_MIN == -64);
    buf_fini(&head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_come_back_as_they_were),
        cmocka_unit_test(factors_come_back_and_their_parts_share_out_all_rows),
        cmocka_unit_test(results_come_back_with_their_masks),
        cmocka_unit_test(marks_and_their_answers_come_back_as_they_were),
        cmocka_unit_test(the_other_heads_come_back_as_they_were),
        cmocka_unit_test(updates_of_nobody_and_parts_that_cannot_be_are_refused),
        cmocka_unit_test(results_that_contradict_themselves_are_refused),
        cmocka_unit_test(unknown_flags_of_a_result_are_refused),
        cmocka_unit_test(what_fills_up_a_head_must_be_zero),
        cmocka_unit_test(clocks_past_the_limit_are_refused),
        cmocka_unit_test(marks_of_what_is_unknown_are_refused),
        cmocka_unit_test(each_flag_of_a_mark_has_its_bit_and_unknown_ones_are_refused),
        cmocka_unit_test(known_flags_of_a_mark_do_not_hide_unknown_ones),
        cmocka_unit_test(only_a_join_names_a_rank_and_has_flags),
        cmocka_unit_test(joins_and_late_pushes_of_nobody_are_refused),
        cmocka_unit_test(owners_are_servers_that_there_are_or_the_worker),
        cmocka_unit_test(a_hello_without_role_or_version_is_refused),
        cmocka_unit_test(nodes_that_fail_are_there_and_have_an_error),
        cmocka_unit_test(every_status_that_may_travel_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
