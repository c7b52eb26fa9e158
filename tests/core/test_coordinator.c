/* The coordinator by itself: rounds of answers. */
#include "core/coordinator.h"

#include <string.h>

#include "core/member.h"
#include "lib/books.h"
#include "lib/test.h"

/* What it has sent, by kind, and the last of all. */
struct sink {
    size_t sent[WIRE_KINDS];
    size_t wakes;
    struct core_action last, fail;
};

static void take(void *ctx, const struct core_action *action)
{
    struct sink *sink = ctx;
    if (action->kind == CORE_SEND)
        sink->sent[action->message.kind]++;
    if (action->kind == CORE_FAIL)
        sink->fail = *action;
    sink->wakes += action->kind == CORE_WAKE;
    sink->last = *action;
}

struct desk {
    struct profile *profile;
    struct book book;
    struct plan *plan;
    struct layout *layout;
    struct coordinator coordinator;
    struct sink sink;
    struct core_out out;
};

/* Three workers, two servers apart, one layer on the servers: five nodes, two owners. */
static void set_up(struct desk *desk)
{
    struct core_rules rules = {.reproducible = true};
    memset(desk, 0, sizeof *desk);
    desk->profile = book_one_layer("CONV", 6, 10, 6);
    desk->book = book_of(desk->profile, 3);
    desk->book.schemes = book_scheme("ps");
    desk->book.servers = 2;
    desk->book.colocated = 0;
    desk->book.chunk_bytes = 100;
    desk->plan = book_plan(&desk->book);
    assert_int_equal(layout_make(desk->plan, &mem_libc, &desk->layout, NULL), TRI_OK);
    assert_int_equal(coordinator_init(&desk->coordinator, desk->layout, &rules, &mem_libc, NULL),
                     TRI_OK);
    desk->out = (struct core_out){.emit = take, .ctx = &desk->sink};
}

static void tear_down(struct desk *desk)
{
    coordinator_fini(&desk->coordinator);
    layout_free(desk->layout);
    plan_free(desk->plan);
    profile_free(desk->profile);
}

static void say(struct desk *desk, struct message message)
{
    coordinator_message(&desk->coordinator, &message, &desk->out);
}

static void start(struct desk *desk)
{
    for (uint32_t n = 0; n < 5; n++)
        say(desk, (struct message){.kind = WIRE_HELLO, .from = n, .hash = 1});
    for (uint32_t n = 0; n < 5; n++)
        say(desk, (struct message){.kind = WIRE_READY, .from = n, .hash = 2});
}

TEST(all_must_come_and_be_alike_before_it_starts)
{
    (void)state;
    struct desk desk;
    set_up(&desk);
    for (int twice = 0; twice < 2; twice++) /* a node that says hello twice is one node */
        for (uint32_t n = 0; n < 4; n++)
            say(&desk, (struct message){.kind = WIRE_HELLO, .from = n, .hash = 1});
    assert_int_equal(desk.sink.sent[WIRE_BOOK], 0);
    say(&desk, (struct message){.kind = WIRE_HELLO, .from = 4, .hash = 1});
    assert_int_equal(desk.sink.sent[WIRE_BOOK], 5);
    for (uint32_t n = 0; n < 5; n++)
        say(&desk, (struct message){.kind = WIRE_READY, .from = n, .hash = 2});
    assert_int_equal(desk.sink.sent[WIRE_START], 5);
    assert_int_equal(desk.sink.last.message.view, 1);
    struct member member;
    member_init(&member, 4, 1, 2);
    member_message(&member, &desk.sink.last.message, &desk.out);
    assert_true(member.started);
    assert_int_equal(member.view, 1);
    tear_down(&desk);
}

TEST(a_scheme_that_does_not_run_yet_gets_no_layout)
{
    (void)state;
    struct profile *profile = book_one_layer("FC", 6, 10, 0);
    struct book book = book_of(profile, 4);
    book.forced = scheme_at(book_scheme_index("ring"));
    struct plan *plan = book_plan(&book);
    struct layout *layout = NULL;
    tri_error err = {0};
    assert_int_equal(layout_make(plan, &mem_libc, &layout, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "scheme 'ring'"));
    assert_null(layout);
    plan_free(plan);
    profile_free(profile);
}

TEST(what_nodes_must_agree_on_changes_the_hash)
{
    (void)state;
    struct desk desk;
    set_up(&desk);
    struct core_rules rules = {.reproducible = true}, other = rules;
    uint64_t hash = layout_hash(desk.layout, core_rules_hash(&rules, "sgd"));
    assert_true(hash == layout_hash(desk.layout, core_rules_hash(&rules, "sgd")));
    assert_true(hash != layout_hash(desk.layout, core_rules_hash(&rules, "adam")));
    other.replicated = true;
    assert_true(hash != layout_hash(desk.layout, core_rules_hash(&other, "sgd")));
    desk.layout->units[0].first++;
    assert_true(hash != layout_hash(desk.layout, core_rules_hash(&rules, "sgd")));
    tear_down(&desk);
}

TEST(after_a_refusal_nothing_goes_on)
{
    (void)state;
    struct desk desk;
    set_up(&desk);
    for (uint32_t n = 0; n < 5; n++)
        say(&desk, (struct message){.kind = WIRE_HELLO, .from = n, .hash = n == 2 ? 7 : 1});
    assert_int_equal(desk.sink.sent[WIRE_REFUSED], 5);
    assert_int_equal(desk.sink.sent[WIRE_BOOK], 0);
    assert_string_equal(desk.sink.fail.text, "node 2 has other layers than node 0");
    tear_down(&desk);
}

TEST(a_refused_checkpoint_is_proposed_again_twice_as_far_ahead)
{
    (void)state;
    struct desk desk;
    set_up(&desk);
    start(&desk);
    say(&desk, (struct message){.kind = WIRE_CLOCK, .clock = 10});
    coordinator_mark(&desk.coordinator, &desk.out);
    assert_int_equal(desk.coordinator.mark, 12);
    assert_int_equal(desk.sink.sent[WIRE_MARK], 2);
    say(&desk, (struct message){.kind = WIRE_MARKED, .clock = 12, .count = 13});
    assert_int_equal(desk.coordinator.mark, 17);
    say(&desk, (struct message){.kind = WIRE_MARKED, .clock = 12, .accepted = true});
    assert_int_equal(desk.coordinator.agreed, 0); /* to what is no longer proposed */
    say(&desk, (struct message){.kind = WIRE_MARKED, .clock = 17, .accepted = true});
    say(&desk, (struct message){.kind = WIRE_MARKED, .clock = 17, .count = 20});
    assert_int_equal(desk.coordinator.mark, 28);
    assert_int_equal(desk.coordinator.agreed, 0);
    tear_down(&desk);
}

TEST(a_checkpoint_is_whole_when_all_owners_agreed_and_saved)
{
    (void)state;
    struct desk desk;
    set_up(&desk);
    start(&desk);
    coordinator_mark(&desk.coordinator, &desk.out);
    size_t wakes = desk.sink.wakes;
    say(&desk, (struct message){.kind = WIRE_MARKED, .clock = 2, .accepted = true});
    say(&desk, (struct message){.kind = WIRE_SAVED, .clock = 2}); /* before the other agreed */
    say(&desk, (struct message){.kind = WIRE_MARKED, .clock = 2, .accepted = true});
    assert_int_equal(desk.coordinator.done, 0);
    coordinator_mark(&desk.coordinator, &desk.out); /* one at a time */
    assert_int_equal(desk.coordinator.mark, 2);
    say(&desk, (struct message){.kind = WIRE_SAVED, .clock = 2});
    assert_int_equal(desk.coordinator.done, 2);
    assert_int_equal(desk.sink.wakes, wakes + 1);
    coordinator_mark(&desk.coordinator, &desk.out);
    assert_true(desk.coordinator.marking);
    tear_down(&desk);
}

TEST(a_late_checksum_does_not_reopen_an_older_clock)
{
    (void)state;
    struct desk desk;
    set_up(&desk);
    start(&desk);
    say(&desk, (struct message){.kind = WIRE_CHECKSUM, .rank = 0, .clock = 1, .crc = 1});
    say(&desk, (struct message){.kind = WIRE_CHECKSUM, .rank = 0, .clock = 3, .crc = 3});
    say(&desk, (struct message){.kind = WIRE_CHECKSUM, .rank = 1, .clock = 1, .crc = 9});
    say(&desk, (struct message){.kind = WIRE_CHECKSUM, .rank = 1, .clock = 3, .crc = 9});
    assert_string_equal(desk.sink.fail.text, "parameters of ranks 0 and 1 differ at clock 3");
    tear_down(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_must_come_and_be_alike_before_it_starts),
        cmocka_unit_test(a_scheme_that_does_not_run_yet_gets_no_layout),
        cmocka_unit_test(what_nodes_must_agree_on_changes_the_hash),
        cmocka_unit_test(after_a_refusal_nothing_goes_on),
        cmocka_unit_test(a_refused_checkpoint_is_proposed_again_twice_as_far_ahead),
        cmocka_unit_test(a_checkpoint_is_whole_when_all_owners_agreed_and_saved),
        cmocka_unit_test(a_late_checksum_does_not_reopen_an_older_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
