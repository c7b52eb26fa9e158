/* Which departed ranks count, from reports made by hand. docs/protocol.md section 8. */
#include "core/decide.h"

#include <string.h>

#include "wire/decision.h"
#include "wire/report.h"

#include "lib/test.h" /* last: its fail() is not ours */

enum { MOST = 5, NOBODY = 99 };

/* The survivors' reports, and what was decided on them. */
struct council {
    uint32_t workers;
    uint64_t departed, departed_before;
    struct buf report[MOST];
    struct wire_report_out out[MOST];
    struct buf before, decision;
    tri_error err;
};

static void begin_reports(struct council *council, uint64_t departed)
{
    council->departed = departed;
    for (uint32_t r = 0; r < council->workers; r++) {
        buf_clear(&council->report[r]);
        wire_report_begin(&council->out[r], &council->report[r]);
    }
}

static void set_up(struct council *council, uint32_t workers, uint64_t departed)
{
    memset(council, 0, sizeof *council);
    council->workers = workers;
    for (uint32_t r = 0; r < MOST; r++)
        buf_init(&council->report[r], &mem_libc);
    buf_init(&council->before, &mem_libc);
    buf_init(&council->decision, &mem_libc);
    begin_reports(council, departed);
}

static void tear_down(struct council *council)
{
    for (uint32_t r = 0; r < MOST; r++)
        buf_fini(&council->report[r]);
    buf_fini(&council->before);
    buf_fini(&council->decision);
}

/* Rank has applied all clocks of a layer before `next`. */
static void at(struct council *council, uint32_t rank, uint32_t layer, uint64_t next)
{
    wire_report_layer(&council->out[rank], layer, next);
}

/* Rank holds of that layer, in `clock`, the updates of a set of departed ranks. */
static void holds(struct council *council, uint32_t rank, uint64_t clock, uint64_t set)
{
    uint32_t ranks[MOST], count = 0;
    for (uint32_t r = 0; r < council->workers; r++)
        if (bits_has(&set, r))
            ranks[count++] = r;
    wire_report_held(&council->out[rank], clock, ranks, count);
}

static tri_status decide_with(struct council *council, const struct mem *mem, struct buf *decision)
{
    struct decide_report reports[MOST];
    for (uint32_t r = 0; r < council->workers; r++)
        reports[r] = (struct decide_report){(const uint8_t *)council->report[r].data,
                                            council->report[r].len};
    struct decide input = {.workers = council->workers,
                           .departed = &council->departed,
                           .departed_before = &council->departed_before,
                           .before = (const uint8_t *)council->before.data,
                           .before_len = council->before.len,
                           .reports = reports};
    return decide(&input, mem, decision, &council->err);
}

static void decided(struct council *council)
{
    buf_clear(&council->decision);
    tri_status status = decide_with(council, &mem_libc, &council->decision);
    if (status != TRI_OK)
        fail_msg("%s", council->err.text);
}

/* The decision stands, and more ranks depart. */
static void next_view(struct council *council, uint64_t departed)
{
    buf_clear(&council->before);
    buf_add(&council->before, council->decision.data, council->decision.len);
    council->departed_before = council->departed;
    begin_reports(council, departed);
}

static struct wire_decision read_decision(const struct council *council)
{
    struct wire_limits limits = wire_widest;
    struct wire_decision decision;
    struct wire_header header = {.kind = WIRE_DECISION,
                                 .data_len = (uint32_t)council->decision.len};
    limits.workers = council->workers;
    assert_int_equal(wire_decision_decode(&header, (const uint8_t *)council->decision.data, &limits,
                                          &decision, NULL),
                     TRI_OK);
    return decision;
}

static uint64_t set_of(const struct wire_ranks *ranks)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < ranks->count; i++)
        bits_add(&set, wire_ranks_at(ranks, i));
    return set;
}

/* Who counts, as a set. */
static uint64_t counted(const struct council *council, uint32_t layer, uint64_t clock)
{
    struct wire_decision decision = read_decision(council);
    struct wire_entry entry;
    while (wire_entry_next(&decision.entries, &entry))
        if (entry.layer == layer && entry.clock == clock)
            return set_of(&entry.ranks);
    return 0;
}

/* Who sends it to whom. */
static void relay_is(const struct council *council, uint32_t layer, uint64_t clock, uint32_t rank,
                     uint32_t relayer, uint64_t receivers)
{
    struct wire_decision decision = read_decision(council);
    struct wire_relay relay;
    uint64_t to = 0;
    uint32_t from = NOBODY;
    while (wire_relay_next(&decision.relays, &relay))
        if (relay.layer == layer && relay.clock == clock && relay.rank == rank) {
            from = relay.relayer;
            to = set_of(&relay.receivers);
        }
    assert_int_equal(from, relayer);
    assert_int_equal(to, receivers);
}

/* ---- one view ---- */

TEST(a_departed_rank_counts_where_a_survivor_holds_it)
{
    (void)state;
    struct council council;
    set_up(&council, 3, 1 << 2);
    at(&council, 0, 0, 4);
    at(&council, 1, 0, 4);
    holds(&council, 1, 4, 1 << 2);
    decided(&council);
    assert_int_equal(counted(&council, 0, 4), 1 << 2);
    assert_int_equal(counted(&council, 0, 5), 0);
    tear_down(&council);
}

TEST(a_departed_rank_that_nobody_holds_does_not_count)
{
    (void)state;
    struct council council;
    set_up(&council, 3, 1 << 2);
    at(&council, 0, 0, 4);
    at(&council, 1, 0, 4);
    decided(&council);
    assert_int_equal(read_decision(&council).entry_count, 0);
    assert_int_equal(read_decision(&council).relay_count, 0);
    tear_down(&council);
}

TEST(what_one_has_applied_and_still_holds_counts_for_all)
{
    (void)state;
    struct council council;
    set_up(&council, 3, 1 << 2);
    at(&council, 0, 0, 5); /* has applied clock 4 with it */
    holds(&council, 0, 4, 1 << 2);
    at(&council, 1, 0, 4);
    decided(&council);
    assert_int_equal(counted(&council, 0, 4), 1 << 2);
    relay_is(&council, 0, 4, 2, 0, 1 << 1);
    tear_down(&council);
}

TEST(the_lowest_holder_relays)
{
    (void)state;
    struct council council;
    set_up(&council, 5, 1 << 4);
    for (uint32_t r = 0; r < 4; r++) {
        at(&council, r, 0, 7);
        if (r == 1 || r == 2)
            holds(&council, r, 7, 1 << 4);
    }
    decided(&council);
    relay_is(&council, 0, 7, 4, 1, 1 << 0 | 1 << 3);
    tear_down(&council);
}

TEST(those_who_hold_or_have_applied_it_receive_nothing)
{
    (void)state;
    struct council council;
    set_up(&council, 5, 1 << 4);
    at(&council, 0, 0, 8); /* has applied and freed it */
    at(&council, 1, 0, 7);
    holds(&council, 1, 7, 1 << 4);
    at(&council, 2, 0, 7);
    at(&council, 3, 0, 7);
    holds(&council, 3, 7, 1 << 4);
    decided(&council);
    relay_is(&council, 0, 7, 4, 1, 1 << 2);
    tear_down(&council);
}

TEST(where_all_hold_it_nothing_is_relayed)
{
    (void)state;
    struct council council;
    set_up(&council, 3, 1 << 2);
    for (uint32_t r = 0; r < 2; r++) {
        at(&council, r, 0, 7);
        holds(&council, r, 7, 1 << 2);
    }
    decided(&council);
    assert_int_equal(counted(&council, 0, 7), 1 << 2);
    assert_int_equal(read_decision(&council).relay_count, 0);
    tear_down(&council);
}

TEST(each_of_several_departed_ranks_has_its_own_relayer)
{
    (void)state;
    struct council council;
    set_up(&council, 5, 1 << 3 | 1 << 4);
    at(&council, 0, 0, 7);
    holds(&council, 0, 7, 1 << 4);
    at(&council, 1, 0, 7);
    holds(&council, 1, 7, 1 << 3 | 1 << 4);
    at(&council, 2, 0, 7);
    decided(&council);
    assert_int_equal(counted(&council, 0, 7), 1 << 3 | 1 << 4);
    relay_is(&council, 0, 7, 3, 1, 1 << 0 | 1 << 2);
    relay_is(&council, 0, 7, 4, 0, 1 << 2);
    tear_down(&council);
}

/* A report does not say whether factors or nothing are held: one rule for both. */
TEST(nothing_is_held_and_relayed_like_factors)
{
    (void)state;
    struct council council;
    set_up(&council, 3, 1 << 2);
    at(&council, 0, 0, 4);
    holds(&council, 0, 4, 1 << 2); /* nothing */
    holds(&council, 0, 5, 1 << 2); /* factors */
    at(&council, 1, 0, 4);
    decided(&council);
    assert_int_equal(counted(&council, 0, 4), 1 << 2);
    assert_int_equal(counted(&council, 0, 5), 1 << 2);
    relay_is(&council, 0, 4, 2, 0, 1 << 1);
    relay_is(&council, 0, 5, 2, 0, 1 << 1);
    tear_down(&council);
}

/* ---- the cut ---- */

TEST(after_a_clock_that_is_lost_in_one_layer_nothing_counts_in_any)
{
    (void)state;
    struct council council;
    set_up(&council, 3, 1 << 2);
    for (uint32_t r = 0; r < 2; r++) {
        at(&council, r, 0, 4); /* layer 0: clocks 4 and 5 are there */
        holds(&council, r, 4, 1 << 2);
        holds(&council, r, 5, 1 << 2);
        at(&council, r, 1, 4); /* layer 1: clock 4 is lost */
        holds(&council, r, 5, 1 << 2);
    }
    decided(&council);
    assert_int_equal(counted(&council, 0, 4), 1 << 2);
    assert_int_equal(counted(&council, 0, 5), 0);
    assert_int_equal(counted(&council, 1, 4), 0);
    assert_int_equal(counted(&council, 1, 5), 0);
    tear_down(&council);
}

TEST(what_is_lost_of_one_departed_rank_cuts_off_the_others)
{
    (void)state;
    struct council council;
    set_up(&council, 4, 1 << 2 | 1 << 3);
    for (uint32_t r = 0; r < 2; r++) {
        at(&council, r, 0, 4);
        holds(&council, r, 4, 1 << 2); /* rank 3 is lost in clock 4 */
        holds(&council, r, 5, 1 << 2);
    }
    decided(&council);
    assert_int_equal(counted(&council, 0, 4), 1 << 2);
    assert_int_equal(counted(&council, 0, 5), 0);
    tear_down(&council);
}

TEST(what_is_cut_is_not_relayed)
{
    (void)state;
    struct council council;
    set_up(&council, 3, 1 << 2);
    at(&council, 0, 0, 4);
    holds(&council, 0, 5, 1 << 2);
    at(&council, 1, 0, 4);
    decided(&council);
    assert_int_equal(read_decision(&council).relay_count, 0);
    tear_down(&council);
}

TEST(a_pair_that_all_have_applied_is_no_reason_to_cut)
{
    (void)state;
    struct council council;
    set_up(&council, 3, 1 << 2);
    at(&council, 0, 0, 1); /* (0, 0) is applied and freed by both; 1 has applied (0, 1), too */
    at(&council, 0, 1, 0);
    holds(&council, 0, 0, 1 << 2);
    at(&council, 1, 0, 2);
    holds(&council, 1, 1, 1 << 2);
    at(&council, 1, 1, 1);
    holds(&council, 1, 0, 1 << 2);
    decided(&council);
    assert_int_equal(counted(&council, 1, 0), 1 << 2);
    assert_int_equal(counted(&council, 0, 1), 1 << 2);
    relay_is(&council, 0, 1, 2, 1, 1 << 0);
    tear_down(&council);
}

/* ---- a second view ---- */

TEST(who_was_left_out_stays_out)
{
    (void)state;
    struct council council;
    set_up(&council, 5, 1 << 3 | 1 << 4); /* rank 4 is lost in clock 0: nothing after it counts */
    for (uint32_t r = 0; r < 3; r++) {
        at(&council, r, 0, 0);
        holds(&council, r, 0, 1 << 3);
        if (r == 0)
            holds(&council, 0, 1, 1 << 3);
    }
    decided(&council);
    assert_int_equal(counted(&council, 0, 0), 1 << 3);
    next_view(&council, 1 << 2 | 1 << 3 | 1 << 4);
    at(&council, 0, 0, 2); /* has applied clock 1 without rank 3 */
    holds(&council, 0, 1, 1 << 2 | 1 << 3);
    at(&council, 1, 0, 1);
    holds(&council, 1, 1, 1 << 2);
    decided(&council);
    assert_int_equal(counted(&council, 0, 1), 1 << 2); /* although it is held still */
    tear_down(&council);
}

TEST(who_was_left_out_is_no_reason_to_cut_again)
{
    (void)state;
    struct council council;
    set_up(&council, 4, 1 << 3);
    for (uint32_t r = 0; r < 3; r++)
        at(&council, r, 0, 4);
    decided(&council);
    next_view(&council, 1 << 2 | 1 << 3);
    for (uint32_t r = 0; r < 2; r++) {
        at(&council, r, 0, 4);
        holds(&council, r, 4, 1 << 2);
        holds(&council, r, 5, 1 << 2);
    }
    decided(&council);
    assert_int_equal(counted(&council, 0, 4), 1 << 2);
    assert_int_equal(counted(&council, 0, 5), 1 << 2);
    tear_down(&council);
}

TEST(who_counted_and_is_still_held_counts_on)
{
    (void)state;
    struct council council;
    set_up(&council, 4, 1 << 3);
    for (uint32_t r = 0; r < 3; r++)
        at(&council, r, 0, 4);
    holds(&council, 2, 4, 1 << 3); /* rank 2 is to relay, ... */
    decided(&council);
    relay_is(&council, 0, 4, 3, 2, 1 << 0 | 1 << 1);
    next_view(&council, 1 << 2 | 1 << 3); /* ... and departs when it has reached 1 */
    at(&council, 0, 0, 4);
    holds(&council, 0, 4, 1 << 2);
    at(&council, 1, 0, 4);
    holds(&council, 1, 4, 1 << 2 | 1 << 3);
    decided(&council);
    assert_int_equal(counted(&council, 0, 4), 1 << 2 | 1 << 3);
    relay_is(&council, 0, 4, 3, 1, 1 << 0);
    tear_down(&council);
}

TEST(who_counted_and_was_lost_with_its_relayer_cuts_off_what_rests_on_it)
{
    (void)state;
    struct council council;
    set_up(&council, 4, 1 << 3);
    for (uint32_t r = 0; r < 3; r++)
        at(&council, r, 0, 4);
    holds(&council, 2, 4, 1 << 3);
    decided(&council);
    next_view(&council, 1 << 2 | 1 << 3);
    for (uint32_t r = 0; r < 2; r++) {
        at(&council, r, 0, 4);
        holds(&council, r, 4, 1 << 2);
        holds(&council, r, 5, 1 << 2); /* rank 2 had applied clock 4 with rank 3 */
    }
    decided(&council);
    assert_int_equal(counted(&council, 0, 4), 1 << 2);
    assert_int_equal(counted(&council, 0, 5), 0);
    tear_down(&council);
}

/* ---- reports that are none ---- */

TEST(a_report_that_is_none_is_named)
{
    (void)state;
    struct council council;
    set_up(&council, 4, 1 << 2);
    at(&council, 0, 0, 4);
    at(&council, 1, 0, 4);
    at(&council, 3, 0, 4);
    council.report[3].data[3] = 1; /* more layers than it has bytes for */
    buf_clear(&council.decision);
    assert_int_equal(decide_with(&council, &mem_libc, &council.decision), TRI_EINPUT);
    assert_non_null(strstr(council.err.text, "3"));
    assert_non_null(strstr(council.err.text, "REPORT"));
    tear_down(&council);
}

TEST(reports_about_different_layers_are_refused)
{
    (void)state;
    struct council council;
    set_up(&council, 3, 1 << 2);
    at(&council, 0, 0, 4);
    at(&council, 1, 1, 4);
    assert_int_equal(decide_with(&council, &mem_libc, &council.decision), TRI_EINPUT);
    assert_string_equal(council.err.text, "the report of rank 1 is about other layers");
    begin_reports(&council, 1 << 2);
    at(&council, 0, 0, 4);
    at(&council, 0, 1, 4);
    at(&council, 1, 0, 4);
    assert_int_equal(decide_with(&council, &mem_libc, &council.decision), TRI_EINPUT);
    assert_string_equal(council.err.text, "reports are about different numbers of layers");
    tear_down(&council);
}

TEST(any_bytes_are_a_report_or_are_refused)
{
    (void)state;
    struct council council;
    set_up(&council, 3, 1 << 2);
    at(&council, 0, 0, 4);
    at(&council, 1, 0, 4);
    holds(&council, 1, 4, 1 << 2);
    for (size_t i = 0; i < council.report[1].len; i++)
        for (int bit = 0; bit < 8; bit++) {
            council.report[1].data[i] ^= (char)(1 << bit);
            buf_clear(&council.decision);
            tri_status status = decide_with(&council, &mem_libc, &council.decision);
            assert_true(status == TRI_OK || status == TRI_EINPUT);
            council.report[1].data[i] ^= (char)(1 << bit);
        }
    tear_down(&council);
}

TEST(a_decision_that_gets_no_memory_leaves_none)
{
    (void)state;
    struct council council;
    struct fault fault = {0};
    set_up(&council, 5, 1 << 4);
    for (uint32_t r = 0; r < 4; r++) {
        at(&council, r, 0, 7);
        if (r % 2 == 0)
            holds(&council, r, 7, 1 << 4);
    }
    FAULT_WALK(&fault)
    {
        struct buf decision;
        buf_init(&decision, &fault.mem);
        tri_status status = decide_with(&council, &fault.mem, &decision);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        buf_fini(&decision);
    }
    assert_true(fault.run > 6);
    tear_down(&council);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_departed_rank_counts_where_a_survivor_holds_it),
        cmocka_unit_test(a_departed_rank_that_nobody_holds_does_not_count),
        cmocka_unit_test(what_one_has_applied_and_still_holds_counts_for_all),
        cmocka_unit_test(the_lowest_holder_relays),
        cmocka_unit_test(those_who_hold_or_have_applied_it_receive_nothing),
        cmocka_unit_test(where_all_hold_it_nothing_is_relayed),
        cmocka_unit_test(each_of_several_departed_ranks_has_its_own_relayer),
        cmocka_unit_test(nothing_is_held_and_relayed_like_factors),
        cmocka_unit_test(after_a_clock_that_is_lost_in_one_layer_nothing_counts_in_any),
        cmocka_unit_test(what_is_lost_of_one_departed_rank_cuts_off_the_others),
        cmocka_unit_test(what_is_cut_is_not_relayed),
        cmocka_unit_test(a_pair_that_all_have_applied_is_no_reason_to_cut),
        cmocka_unit_test(who_was_left_out_stays_out),
        cmocka_unit_test(who_was_left_out_is_no_reason_to_cut_again),
        cmocka_unit_test(who_counted_and_is_still_held_counts_on),
        cmocka_unit_test(who_counted_and_was_lost_with_its_relayer_cuts_off_what_rests_on_it),
        cmocka_unit_test(a_report_that_is_none_is_named),
        cmocka_unit_test(reports_about_different_layers_are_refused),
        cmocka_unit_test(any_bytes_are_a_report_or_are_refused),
        cmocka_unit_test(a_decision_that_gets_no_memory_leaves_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
