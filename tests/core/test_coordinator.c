/* The coordinator by itself: rounds of answers. */
#include "core/coordinator.h"

#include <stdio.h>
#include <string.h>

#include "core/member.h"
#include "lib/books.h"
#include "lib/test.h"
#include "mod/consistency.h"

/* What it has sent, by kind, and the last of all. */
struct sink {
    size_t sent[WIRE_KINDS];
    size_t wakes, commits, fails;
    uint64_t committed;
    struct core_action last;
    struct core_action mark; /* the last */
    uint64_t marked;         /* set of nodes that got a MARK */
    char reason[240];        /* of the last REFUSED, FAILED or EVICTED */
};

static void take(void *ctx, const struct core_action *action)
{
    struct sink *sink = ctx;
    if (action->kind == CORE_SEND)
        sink->sent[action->message.kind]++;
    const struct message *message = &action->message;
    if (action->kind == CORE_SEND && message->kind == WIRE_MARK) {
        sink->mark = *action;
        bits_add(&sink->marked, action->to);
    }
    if (action->kind == CORE_SEND &&
        (message->kind == WIRE_REFUSED || message->kind == WIRE_FAILED ||
         message->kind == WIRE_EVICTED))
        (void)snprintf(sink->reason, sizeof sink->reason, "%.*s", (int)message->len,
                       (const char *)message->bytes);
    if (action->kind == CORE_COMMIT)
        sink->committed = action->clock;
    sink->commits += action->kind == CORE_COMMIT;
    sink->fails += action->kind == CORE_FAIL;
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

/* Three workers, two servers apart, one layer on the servers: five nodes. Owners of what a
 * checkpoint is made of are the servers and worker 0. */
static void set_up_with(struct desk *desk, struct core_rules rules)
{
    struct core_times times = {.heartbeat = 800000};
    memset(desk, 0, sizeof *desk);
    desk->profile = book_one_layer("CONV", 6, 10, 6);
    desk->book = book_of(desk->profile, 3);
    desk->book.schemes = book_scheme("ps");
    desk->book.servers = 2;
    desk->book.colocated = 0;
    desk->book.chunk_bytes = 100;
    desk->plan = book_plan(&desk->book);
    assert_int_equal(layout_make(desk->plan, &mem_libc, &desk->layout, NULL), TRI_OK);
    assert_int_equal(
        coordinator_init(&desk->coordinator, desk->layout, &rules, &times, &mem_libc, NULL),
        TRI_OK);
    desk->out = (struct core_out){.emit = take, .ctx = &desk->sink};
}

static void set_up(struct desk *desk)
{
    set_up_with(desk, (struct core_rules){.reproducible = true});
}

static void tear_down(struct desk *desk)
{
    coordinator_fini(&desk->coordinator);
    layout_free(desk->layout);
    plan_free(desk->plan);
    profile_free(desk->profile);
}

/* As the node of whoever it speaks for. */
static void say(struct desk *desk, struct message message)
{
    bool mark = message.kind == WIRE_MARKED || message.kind == WIRE_SAVED;
    if (mark && message.owner != CORE_OWNER_WORKER)
        message.from = desk->layout->server_node[message.owner];
    else if (mark || message.kind == WIRE_CHECKSUM)
        message.from = message.rank;
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
    struct member member = {.node = 4};
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
    assert_int_equal(desk.sink.fails, 0); /* that is the member's to say, once it is told */
    assert_string_equal(desk.sink.reason, "rank 2 has other layers than rank 0");
    tear_down(&desk);
}

TEST(a_refused_checkpoint_is_proposed_again_twice_as_far_ahead)
{
    (void)state;
    struct desk desk;
    set_up(&desk);
    start(&desk);
    say(&desk, (struct message){.kind = WIRE_CLOCK, .clock = 10});
    coordinator_mark(&desk.coordinator, 0, &desk.out);
    assert_int_equal(desk.coordinator.save.clock, 12);
    assert_int_equal(desk.sink.sent[WIRE_MARK], 3);
    say(&desk, (struct message){.kind = WIRE_MARKED, .clock = 12, .count = 13});
    assert_int_equal(desk.coordinator.save.clock, 17);
    say(&desk, (struct message){.kind = WIRE_MARKED, .clock = 12, .accepted = true});
    assert_int_equal(desk.coordinator.save.agreed[0], 0); /* to what is no longer proposed */
    say(&desk, (struct message){.kind = WIRE_MARKED, .clock = 17, .accepted = true});
    assert_int_equal(desk.coordinator.save.agreed[0], 1);
    say(&desk, (struct message){.kind = WIRE_MARKED, .owner = 1, .clock = 17, .count = 20});
    assert_int_equal(desk.coordinator.save.clock, 28);
    assert_int_equal(desk.coordinator.save.agreed[0], 0);
    tear_down(&desk);
}

TEST(a_checkpoint_is_at_the_clock_that_was_asked_for_or_as_soon_as_can_be)
{
    (void)state;
    struct desk desk;
    set_up(&desk);
    start(&desk);
    say(&desk, (struct message){.kind = WIRE_CLOCK, .clock = 10});
    coordinator_mark(&desk.coordinator, 15, &desk.out);
    assert_int_equal(desk.coordinator.save.clock, 15);
    desk.coordinator.save.open = false;
    coordinator_mark(&desk.coordinator, 11, &desk.out); /* too near, and not behind the last */
    assert_int_equal(desk.coordinator.save.clock, 16);
    tear_down(&desk);
}

TEST(a_checkpoint_is_whole_when_all_owners_agreed_and_saved)
{
    (void)state;
    struct desk desk;
    set_up(&desk);
    start(&desk);
    coordinator_mark(&desk.coordinator, 0, &desk.out);
    say(&desk, (struct message){.kind = WIRE_MARKED, .clock = 2, .accepted = true});
    say(&desk, (struct message){.kind = WIRE_SAVED, .clock = 2}); /* before the other agreed */
    say(&desk, (struct message){.kind = WIRE_SAVED, .clock = 2}); /* twice is once */
    say(&desk, (struct message){.kind = WIRE_MARKED, .owner = 1, .clock = 2, .accepted = true});
    assert_int_equal(desk.coordinator.done, 0);
    assert_int_equal(desk.sink.commits, 0);
    coordinator_mark(&desk.coordinator, 0, &desk.out); /* one at a time */
    assert_int_equal(desk.coordinator.save.clock, 2);
    say(&desk, (struct message){.kind = WIRE_SAVED, .owner = 1, .clock = 2});
    struct message worker = {
        .kind = WIRE_MARKED, .owner = CORE_OWNER_WORKER, .clock = 2, .accepted = true};
    say(&desk, worker);
    assert_int_equal(desk.sink.commits, 0);
    worker.kind = WIRE_SAVED;
    say(&desk, worker);
    assert_int_equal(desk.coordinator.done, 2);
    assert_int_equal(desk.sink.commits, 1);
    assert_int_equal(desk.sink.committed, 2);
    coordinator_mark(&desk.coordinator, 0, &desk.out);
    assert_true(desk.coordinator.save.open);
    tear_down(&desk);
}

/* Its parameters are not the servers' of a clock: they may be newer, or be left out of it. */
TEST(worker_0_is_no_owner_where_answers_have_slots)
{
    (void)state;
    struct core_rules rules[] = {{.reproducible = true, .backup = 1},
                                 {.reproducible = true, .deadline = 1000},
                                 {.consistency = consistency_find("asp")},
                                 {.consistency = consistency_find("ssp")}};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        struct desk desk;
        set_up_with(&desk, rules[i]);
        start(&desk);
        coordinator_mark(&desk.coordinator, 0, &desk.out);
        assert_int_equal(desk.sink.marked, 1U << 3 | 1U << 4);
        tear_down(&desk);
    }
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
    assert_string_equal(desk.sink.reason, "parameters of ranks 0 and 1 differ at clock 3");
    tear_down(&desk);
}

/* ---- ranks that are left out ---- */

static const struct core_rules leaving_out = {
    .reproducible = true, .deadline = 1000, .left_outs = 3};

/* Rank 2 is behind, at clock 10, and asks for a clock to join at. */
static void ask_to_join(struct desk *desk)
{
    set_up_with(desk, leaving_out);
    start(desk);
    say(desk, (struct message){.kind = WIRE_CLOCK, .clock = 20});
    say(desk,
        (struct message){
            .kind = WIRE_LEFT_OUT, .from = 2, .rank = 2, .owner = CORE_OWNER_WORKER, .clock = 10});
}

static void answer(struct desk *desk, uint32_t owner, uint64_t clock, bool accepted,
                   uint64_t reached)
{
    say(desk, (struct message){.kind = WIRE_MARKED,
                               .mark = CORE_MARK_JOIN,
                               .rank = 2,
                               .owner = owner,
                               .clock = clock,
                               .count = reached,
                               .accepted = accepted});
}

TEST(a_rank_that_is_behind_is_named_a_clock_ahead_of_all)
{
    (void)state;
    struct desk desk;
    ask_to_join(&desk);
    assert_int_equal(desk.sink.marked, 1 << 2 | 1 << 3 | 1 << 4); /* it, and both servers */
    assert_int_equal(desk.sink.mark.message.mark, CORE_MARK_JOIN);
    assert_int_equal(desk.sink.mark.message.rank, 2);
    assert_int_equal(desk.sink.mark.message.clock, 22);
    assert_false(desk.sink.mark.message.accepted);
    tear_down(&desk);
}

TEST(a_join_one_owner_refuses_is_proposed_to_all_again_further_ahead)
{
    (void)state;
    struct desk desk;
    ask_to_join(&desk);
    answer(&desk, 0, 22, true, 0);
    answer(&desk, CORE_OWNER_WORKER, 22, true, 0);
    desk.sink.marked = 0;
    answer(&desk, 1, 22, false, 30);
    assert_int_equal(desk.sink.marked, 1 << 2 | 1 << 3 | 1 << 4);
    assert_int_equal(desk.sink.mark.message.clock, 34);
    assert_int_equal(desk.coordinator.joins[2].agreed[0], 0);
    tear_down(&desk);
}

TEST(when_all_have_agreed_on_a_join_the_servers_are_told)
{
    (void)state;
    struct desk desk;
    ask_to_join(&desk);
    answer(&desk, 0, 22, true, 0);
    answer(&desk, 1, 22, true, 0);
    desk.sink.marked = 0;
    answer(&desk, CORE_OWNER_WORKER, 22, true, 0);
    assert_int_equal(desk.sink.marked, 1 << 3 | 1 << 4);
    assert_true(desk.sink.mark.message.accepted);
    assert_int_equal(desk.sink.mark.message.clock, 22);
    assert_false(desk.coordinator.joins[2].open);
    tear_down(&desk);
}

TEST(a_join_is_named_once_however_often_it_is_asked_for)
{
    (void)state;
    struct desk desk;
    ask_to_join(&desk);
    size_t marks = desk.sink.sent[WIRE_MARK];
    say(&desk,
        (struct message){
            .kind = WIRE_LEFT_OUT, .from = 2, .rank = 2, .owner = CORE_OWNER_WORKER, .clock = 10});
    assert_int_equal(desk.sink.sent[WIRE_MARK], marks);
    tear_down(&desk);
}

TEST(a_rank_that_is_late_too_often_running_leaves_the_view)
{
    (void)state;
    struct desk desk;
    set_up_with(&desk, leaving_out);
    start(&desk);
    struct message late = {.kind = WIRE_LEFT_OUT, .from = 3, .rank = 2, .clock = 8, .count = 2};
    say(&desk, late);
    assert_int_equal(desk.sink.sent[WIRE_VIEW], 0);
    late.count = 3;
    say(&desk, late);
    assert_int_equal(desk.coordinator.departed[0], 1 << 2);
    assert_int_equal(desk.sink.sent[WIRE_VIEW], 4);
    assert_string_equal(desk.sink.reason,
                        "rank 2 is out of the job: was late for 3 clocks running");
    tear_down(&desk);
}

TEST(a_late_rank_that_the_job_cannot_do_without_stays)
{
    (void)state;
    struct desk desk;
    set_up_with(&desk, leaving_out);
    start(&desk);
    struct message late = {.kind = WIRE_LEFT_OUT, .from = 3, .rank = 0, .clock = 8, .count = 9};
    say(&desk, late); /* the coordinator is there */
    assert_int_equal(desk.coordinator.departed[0], 0);
    assert_int_equal(desk.sink.sent[WIRE_FAILED], 0);
    tear_down(&desk);
}

TEST(a_join_at_the_end_that_is_refused_is_proposed_again_once_a_tick)
{
    (void)state;
    struct desk desk;
    struct watch watch;
    const struct core_times times = {.heartbeat = 800000};
    ask_to_join(&desk);
    assert_int_equal(watch_init(&watch, desk.layout, &times, 0, &mem_libc, NULL), TRI_OK);
    for (uint32_t r = 0; r < 2; r++)
        say(&desk, (struct message){.kind = WIRE_BYE, .from = r, .rank = r, .clock = 20});
    assert_true(desk.sink.mark.message.last);
    assert_int_equal(desk.sink.mark.message.clock, 20);
    size_t proposed = desk.sink.sent[WIRE_MARK];
    answer(&desk, 0, 20, false, 19); /* every answer makes no proposal, or they would multiply */
    answer(&desk, 1, 20, false, 19);
    assert_int_equal(desk.sink.sent[WIRE_MARK], proposed);
    coordinator_tick(&desk.coordinator, &watch, 1000000, &desk.out);
    assert_int_equal(desk.sink.sent[WIRE_MARK], proposed + 3);
    coordinator_tick(&desk.coordinator, &watch, 1100000, &desk.out);
    assert_int_equal(desk.sink.sent[WIRE_MARK], proposed + 3);
    watch_fini(&watch);
    tear_down(&desk);
}

TEST(who_speaks_for_another_is_not_heard)
{
    (void)state;
    struct desk desk;
    set_up(&desk);
    start(&desk);
    struct message clock = {.kind = WIRE_CLOCK, .from = 1, .rank = 2, .clock = 7};
    say(&desk, clock);
    assert_int_equal(desk.coordinator.newest, 0);
    clock.rank = 1;
    say(&desk, clock);
    assert_int_equal(desk.coordinator.newest, 7);
    struct message bye = {.kind = WIRE_BYE, .from = 1, .rank = 2, .clock = 7};
    say(&desk, bye);
    assert_false(bits_has(desk.coordinator.bye, 2));
    tear_down(&desk);
}

TEST(a_rank_that_closes_before_the_others_counts_as_lost)
{
    (void)state;
    struct desk desk;
    set_up(&desk);
    start(&desk);
    say(&desk, (struct message){.kind = WIRE_BYE, .from = 2, .rank = 2, .clock = 5});
    say(&desk, (struct message){.kind = WIRE_CLOCK, .from = 1, .rank = 1, .clock = 5});
    assert_int_equal(desk.sink.sent[WIRE_VIEW], 0);
    say(&desk, (struct message){.kind = WIRE_CLOCK, .from = 1, .rank = 1, .clock = 6});
    assert_int_equal(desk.sink.sent[WIRE_EVICTED], 1);
    assert_true(bits_has(desk.coordinator.departed, 2));
    assert_int_equal(desk.sink.sent[WIRE_VIEW], 4);
    tear_down(&desk);
}

TEST(a_checkpoint_under_way_is_waited_for_at_the_end)
{
    (void)state;
    struct desk desk;
    set_up(&desk);
    start(&desk);
    coordinator_mark(&desk.coordinator, 0, &desk.out); /* at clock 2 */
    static const uint32_t owners[] = {0, 1, CORE_OWNER_WORKER};
    for (size_t i = 0; i < 3; i++)
        say(&desk, (struct message){
                       .kind = WIRE_MARKED, .owner = owners[i], .clock = 2, .accepted = true});
    for (uint32_t r = 0; r < 3; r++)
        say(&desk, (struct message){.kind = WIRE_BYE, .from = r, .rank = r, .clock = 2});
    assert_int_equal(desk.sink.sent[WIRE_BYE], 0);
    for (size_t i = 0; i < 3; i++)
        say(&desk, (struct message){.kind = WIRE_SAVED, .owner = owners[i], .clock = 2});
    assert_int_equal(desk.coordinator.done, 2);
    assert_int_equal(desk.sink.sent[WIRE_BYE], 5);
    tear_down(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_join_at_the_end_that_is_refused_is_proposed_again_once_a_tick),
        cmocka_unit_test(who_speaks_for_another_is_not_heard),
        cmocka_unit_test(a_rank_that_closes_before_the_others_counts_as_lost),
        cmocka_unit_test(a_checkpoint_under_way_is_waited_for_at_the_end),
        cmocka_unit_test(all_must_come_and_be_alike_before_it_starts),
        cmocka_unit_test(a_scheme_that_does_not_run_yet_gets_no_layout),
        cmocka_unit_test(what_nodes_must_agree_on_changes_the_hash),
        cmocka_unit_test(after_a_refusal_nothing_goes_on),
        cmocka_unit_test(a_refused_checkpoint_is_proposed_again_twice_as_far_ahead),
        cmocka_unit_test(a_checkpoint_is_at_the_clock_that_was_asked_for_or_as_soon_as_can_be),
        cmocka_unit_test(a_checkpoint_is_whole_when_all_owners_agreed_and_saved),
        cmocka_unit_test(worker_0_is_no_owner_where_answers_have_slots),
        cmocka_unit_test(a_late_checksum_does_not_reopen_an_older_clock),
        cmocka_unit_test(a_rank_that_is_behind_is_named_a_clock_ahead_of_all),
        cmocka_unit_test(a_join_one_owner_refuses_is_proposed_to_all_again_further_ahead),
        cmocka_unit_test(when_all_have_agreed_on_a_join_the_servers_are_told),
        cmocka_unit_test(a_join_is_named_once_however_often_it_is_asked_for),
        cmocka_unit_test(a_rank_that_is_late_too_often_running_leaves_the_view),
        cmocka_unit_test(a_late_rank_that_the_job_cannot_do_without_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
