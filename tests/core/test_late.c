/* A server that leaves stragglers out, and one that steps on every push: hand-made messages. */
#include "core/server.h"

#include <string.h>

#include "lib/books.h"
#include "mod/consistency.h"

#include "lib/test.h" /* last: its fail() is not ours */

enum { RANKS = 4, PARTS = 3, SENDS = 400, DEADLINE = 1000000, TICK = 100000, NOW = 50000000 };

static const uint32_t rate = 0x3f000000; /* 0.5 */

/* What a server has sent, and the one operation it asked for. */
struct shop {
    struct profile *profile;
    struct book book;
    struct plan *plan;
    struct layout *layout;
    struct server server;
    struct watch watch;
    struct core_out out;
    struct core_action sent[SENDS];
    size_t count;
    bool has_op;
    struct core_op op;
    uint64_t asked;   /* ranks whose slots CORE_OP_REPLY is to fill */
    uint64_t filled;  /* ranks whose slots hold what is to be sent */
    uint64_t emptied; /* by sends during this event */
    char wait[240];
    size_t fails;
};

static void take(void *ctx, const struct core_action *action)
{
    struct shop *shop = ctx;
    shop->fails += action->kind == CORE_FAIL;
    if (action->kind == CORE_WAIT)
        memcpy(shop->wait, action->text, sizeof shop->wait);
    if (action->kind == CORE_OP) {
        assert_true(!shop->has_op || shop->server.unit_count > 1); /* one at a time */
        shop->has_op = true;
        shop->op = action->op;
    }
    if (action->kind != CORE_SEND)
        return;
    assert_true(shop->count < SENDS);
    shop->sent[shop->count++] = *action;
    if (action->ref.space == CORE_REPLY) { /* only what was filled for it may leave */
        assert_int_equal(action->ref.rank, action->to);
        assert_true(bits_has(&shop->filled, action->to));
        bits_add(&shop->emptied, action->to);
    }
}

/* After every event: a host looks up whom a reply is for when it begins to fill the slots. */
static void settle(struct shop *shop, bool was_busy)
{
    shop->filled &= ~shop->emptied;
    shop->emptied = 0;
    if (was_busy || !shop->has_op || shop->op.kind != CORE_OP_REPLY)
        return;
    shop->asked = 0;
    for (uint32_t r = 0; r < shop->layout->workers; r++)
        if (server_replies(&shop->server, shop->op.index, r))
            bits_add(&shop->asked, r);
    shop->filled &= ~shop->asked;
}

static void say(struct shop *shop, struct message message)
{
    bool busy = shop->has_op;
    server_message(&shop->server, &message, &shop->out);
    settle(shop, busy);
}

static void finish_op(struct shop *shop)
{
    struct core_op op = shop->op;
    assert_true(shop->has_op);
    shop->has_op = false;
    if (op.kind == CORE_OP_REPLY)
        shop->filled |= shop->asked;
    server_done(&shop->server, &op, &shop->out);
    settle(shop, false);
}

static void finish_ops(struct shop *shop)
{
    while (shop->has_op)
        finish_op(shop);
}

static void tick(struct shop *shop, uint64_t now)
{
    bool busy = shop->has_op;
    server_tick(&shop->server, &shop->watch, now, &shop->out);
    settle(shop, busy);
}

static void depart(struct shop *shop, uint64_t nodes)
{
    bool busy = shop->has_op;
    server_view(&shop->server, &nodes, &shop->out);
    settle(shop, busy);
}

/* Four workers, one server apart with one unit of three parts, initial values in. */
static void set_up_layout(struct shop *shop, const char *scheme)
{
    memset(shop, 0, sizeof *shop);
    shop->profile = book_one_layer("FC", 6, 10, 6);
    shop->book = book_of(shop->profile, RANKS);
    shop->book.servers = 1;
    shop->book.colocated = 0;
    shop->book.forced = scheme_at(book_scheme_index(scheme));
    shop->book.placement = placement_find("tensor");
    shop->book.batch = 4;
    shop->book.chunk_bytes = 100;
    shop->plan = book_plan(&shop->book);
    assert_int_equal(layout_make(shop->plan, &mem_libc, &shop->layout, NULL), TRI_OK);
    assert_int_equal(shop->layout->unit_count, 1);
    assert_int_equal(shop->layout->units[0].parts, PARTS);
    shop->out = (struct core_out){.emit = take, .ctx = shop};
}

static void set_up_with(struct shop *shop, const char *scheme, struct core_rules rules)
{
    struct core_times times = {
        .heartbeat = (uint64_t)8 * TICK, .warn = 10000000, .limit = 30000000};
    rules.reproducible = true;
    set_up_layout(shop, scheme);
    assert_int_equal(watch_init(&shop->watch, shop->layout, &times, RANKS, &mem_libc, NULL),
                     TRI_OK);
    watch_start(&shop->watch, NOW);
    assert_int_equal(server_init(&shop->server, shop->layout, &rules, 0, 0, &mem_libc, NULL),
                     TRI_OK);
    for (uint32_t part = 0; part < PARTS; part++)
        say(shop, (struct message){.kind = WIRE_INIT, .part = part, .landed = true});
}

static void set_up(struct shop *shop, struct core_rules rules)
{
    set_up_with(shop, "ps", rules);
    finish_ops(shop);
    shop->count = 0;
}

static void tear_down(struct shop *shop)
{
    assert_int_equal(shop->fails, 0);
    server_fini(&shop->server);
    watch_fini(&shop->watch);
    layout_free(shop->layout);
    plan_free(shop->plan);
    profile_free(shop->profile);
}

static const struct core_rules with_deadline = {.deadline = DEADLINE};

/* A part of a rank's update, landed where it was given a place. */
static void push_part(struct shop *shop, uint32_t rank, uint64_t clock, uint32_t part)
{
    struct message message = {.kind = WIRE_PUSH,
                              .from = rank,
                              .rank = rank,
                              .clock = clock,
                              .part = part,
                              .count = 10 + rank,
                              .lr_bits = rate};
    message.landed = server_landing(&shop->server, &message).space != CORE_NOWHERE;
    say(shop, message);
}

static void push(struct shop *shop, uint32_t rank, uint64_t clock)
{
    for (uint32_t part = 0; part < PARTS; part++)
        push_part(shop, rank, clock, part);
}

static void nothing(struct shop *shop, uint32_t rank, uint64_t clock)
{
    say(shop, (struct message){.kind = WIRE_NOTHING, .from = rank, .rank = rank, .clock = clock});
}

/* A clock with these ranks in it, and all operations done. */
static void push_all(struct shop *shop, uint64_t ranks, uint64_t clock)
{
    for (uint32_t r = 0; r < RANKS; r++)
        if (bits_has(&ranks, r))
            push(shop, r, clock);
    finish_ops(shop);
}

/* The same, and the deadline closes it without the others. */
static void close_with(struct shop *shop, uint64_t ranks, uint64_t clock)
{
    push_all(shop, ranks, clock);
    uint64_t now = NOW + 2 * clock * DEADLINE;
    tick(shop, now);
    tick(shop, now + DEADLINE);
    finish_ops(shop);
    assert_int_equal(shop->server.units[0].version, clock + 1);
}

/* How many were sent of a kind to a node, and the last of them. */
static size_t sent_to(const struct shop *shop, enum wire_kind kind, uint32_t node,
                      struct core_action *last)
{
    size_t count = 0;
    for (size_t i = 0; i < shop->count; i++)
        if (shop->sent[i].message.kind == kind && shop->sent[i].to == node) {
            count++;
            if (last != NULL)
                *last = shop->sent[i];
        }
    return count;
}

static void join_at(struct shop *shop, uint32_t rank, uint64_t clock, bool accepted)
{
    say(shop, (struct message){.kind = WIRE_MARK,
                               .mark = CORE_MARK_JOIN,
                               .rank = rank,
                               .clock = clock,
                               .accepted = accepted});
}

/* ---- leaving out ---- */

TEST(a_clock_closes_with_who_is_in_when_the_deadline_is_over)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    set_up(&shop, with_deadline);
    push_all(&shop, 0xf, 0);
    shop.count = 0;
    push_all(&shop, 0x3, 1);
    tick(&shop, NOW);
    tick(&shop, NOW + DEADLINE - 1);
    assert_false(shop.has_op);
    tick(&shop, NOW + DEADLINE);
    assert_true(shop.has_op);
    while (shop.op.kind != CORE_OP_STEP) {
        assert_int_equal(shop.op.kind, CORE_OP_SUM);
        assert_in_range(shop.op.rank, 0, 1);
        finish_op(&shop);
    }
    assert_int_equal(shop.op.count, 10 + 11);
    finish_ops(&shop);
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(sent_to(&shop, WIRE_RESULT, r, &last), r < 2 ? PARTS : 0);
    assert_int_equal(shop.server.units[0].counted[0], 0x3);
    assert_false(last.message.left_out);
    tear_down(&shop);
}

TEST(the_deadline_does_not_run_before_half_are_in)
{
    (void)state;
    struct shop shop;
    set_up(&shop, with_deadline);
    push_all(&shop, 0xf, 0);
    push_all(&shop, 0x1, 1);
    tick(&shop, NOW);
    tick(&shop, NOW + 10 * DEADLINE);
    assert_int_equal(shop.server.units[0].version, 1);
    push_all(&shop, 0x2, 1);
    tick(&shop, NOW + 11 * DEADLINE); /* from here on */
    assert_int_equal(shop.server.units[0].version, 1);
    tick(&shop, NOW + 12 * DEADLINE);
    finish_ops(&shop);
    assert_int_equal(shop.server.units[0].version, 2);
    tear_down(&shop);
}

TEST(the_first_clock_waits_for_all)
{
    (void)state;
    struct shop shop;
    set_up(&shop, (struct core_rules){.deadline = DEADLINE, .backup = 1});
    push_all(&shop, 0x7, 0);
    for (uint64_t i = 0; i < 10; i++)
        tick(&shop, NOW + i * DEADLINE);
    finish_ops(&shop);
    assert_int_equal(shop.server.units[0].version, 0);
    push_all(&shop, 0x8, 0);
    assert_int_equal(shop.server.units[0].version, 1);
    tear_down(&shop);
}

TEST(a_clock_closes_without_as_many_as_there_are_backup_workers)
{
    (void)state;
    struct shop shop;
    set_up(&shop, (struct core_rules){.backup = 1});
    push_all(&shop, 0xf, 0);
    shop.count = 0;
    push_all(&shop, 0x9, 1);
    assert_int_equal(shop.server.units[0].version, 1);
    push_all(&shop, 0x2, 1);
    assert_int_equal(shop.server.units[0].version, 2);
    assert_int_equal(shop.server.units[0].counted[0], 0xb);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 2, NULL), 0);
    tear_down(&shop);
}

TEST(the_update_of_a_departed_rank_does_not_stand_for_a_live_one)
{
    (void)state;
    struct shop shop;
    set_up(&shop, (struct core_rules){.backup = 1});
    push_all(&shop, 0xf, 0);
    push_all(&shop, 0x8, 1);
    depart(&shop, 0x8); /* its update counts; 0, 1 and 2 are live, one of them may be missing */
    push_all(&shop, 0x1, 1);
    assert_int_equal(shop.server.units[0].version, 1);
    push_all(&shop, 0x2, 1);
    assert_int_equal(shop.server.units[0].version, 2);
    assert_int_equal(shop.server.units[0].counted[0], 0xb);
    tear_down(&shop);
}

/* ---- late ---- */

TEST(a_rank_one_clock_late_gets_the_result_marked_left_out)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    set_up(&shop, with_deadline);
    push_all(&shop, 0xf, 0);
    close_with(&shop, 0x3, 1);
    shop.count = 0;
    push(&shop, 2, 1);
    assert_true(shop.has_op);
    assert_int_equal(shop.op.kind, CORE_OP_REPLY);
    assert_int_equal(shop.asked, 1 << 2);
    finish_ops(&shop);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 2, &last), PARTS);
    assert_true(last.message.left_out);
    assert_int_equal(last.message.clock, 1);
    assert_int_equal(last.message.version, 2);
    assert_int_equal(last.message.set[0], 0x3);
    assert_int_equal(last.ref.space, CORE_REPLY);
    assert_int_equal(shop.server.units[0].gather.in, 0); /* it is not of the next clock */
    tear_down(&shop);
}

TEST(a_rank_more_than_a_clock_late_is_told_so_for_the_unit)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    set_up(&shop, with_deadline);
    push_all(&shop, 0xf, 0);
    close_with(&shop, 0x3, 1);
    close_with(&shop, 0x3, 2);
    shop.count = 0;
    push(&shop, 2, 1);
    finish_ops(&shop);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 2, NULL), 0);
    assert_int_equal(sent_to(&shop, WIRE_LEFT_OUT, 2, &last), 1);
    assert_int_equal(last.message.role, CORE_WORKER);
    assert_int_equal(last.message.clock, 1);
    assert_int_equal(last.message.version, 3);
    assert_int_equal(last.message.part, 0);
    assert_int_equal(last.ref.space, CORE_NOWHERE);
    tear_down(&shop);
}

TEST(a_late_nothing_is_answered_too)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    set_up(&shop, with_deadline);
    push_all(&shop, 0xf, 0);
    close_with(&shop, 0x3, 1);
    shop.count = 0;
    nothing(&shop, 3, 1);
    finish_ops(&shop);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, &last), PARTS);
    assert_true(last.message.left_out);
    tear_down(&shop);
}

TEST(an_update_that_was_half_in_becomes_whole_as_a_late_one)
{
    (void)state;
    struct shop shop;
    set_up(&shop, with_deadline);
    push_all(&shop, 0xf, 0);
    push_part(&shop, 2, 1, 0);
    push_part(&shop, 2, 1, 2);
    close_with(&shop, 0x3, 1);
    shop.count = 0;
    push_part(&shop, 2, 1, 0); /* a second copy */
    finish_ops(&shop);
    assert_int_equal(shop.count, 0);
    push_part(&shop, 2, 1, 1);
    finish_ops(&shop);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 2, NULL), PARTS);
    tear_down(&shop);
}

TEST(a_part_that_was_coming_in_when_its_clock_closed_is_late)
{
    (void)state;
    struct shop shop;
    set_up(&shop, with_deadline);
    push_all(&shop, 0xf, 0);
    push_part(&shop, 2, 1, 0);
    push_part(&shop, 2, 1, 1);
    struct message message = {.kind = WIRE_PUSH,
                              .from = 2,
                              .rank = 2,
                              .clock = 1,
                              .part = 2,
                              .count = 1,
                              .lr_bits = rate,
                              .landed = true};
    assert_int_equal(server_landing(&shop.server, &message).space, CORE_LANDING);
    close_with(&shop, 0x3, 1);
    shop.count = 0;
    say(&shop, message);
    finish_ops(&shop);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 2, NULL), PARTS);
    tear_down(&shop);
}

/* No more ranks are let in once a clock closes, and it takes a while to sum and step. */
TEST(what_comes_while_its_clock_closes_is_late_and_not_lost)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    set_up(&shop, with_deadline);
    push_all(&shop, 0xf, 0);
    push_all(&shop, 0x3, 1);
    tick(&shop, NOW);
    tick(&shop, NOW + DEADLINE);
    assert_true(shop.has_op); /* under way */
    push(&shop, 2, 1);
    nothing(&shop, 3, 1);
    shop.count = 0;
    finish_ops(&shop);
    assert_int_equal(shop.server.units[0].counted[0], 0x3);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 2, &last), PARTS);
    assert_true(last.message.left_out);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, &last), PARTS);
    assert_true(last.message.left_out);
    tear_down(&shop);
}

TEST(what_comes_between_the_sums_of_its_clock_is_one_clock_late_and_no_more)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    set_up(&shop, with_deadline);
    push_all(&shop, 0xf, 0);
    push_all(&shop, 0xc, 1); /* not summed yet: the order begins with rank 0 */
    tick(&shop, NOW);
    tick(&shop, NOW + DEADLINE);
    assert_int_equal(shop.op.kind, CORE_OP_SUM);
    assert_int_equal(shop.op.rank, 2);
    shop.count = 0;
    push(&shop, 0, 1);
    finish_ops(&shop);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 0, &last), PARTS);
    assert_true(last.message.left_out);
    assert_int_equal(last.message.clock, 1);
    tear_down(&shop);
}

TEST(the_coordinator_is_told_how_many_clocks_running_a_rank_was_late)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    set_up(&shop, with_deadline);
    push_all(&shop, 0xf, 0);
    for (uint64_t clock = 1; clock <= 3; clock++) {
        close_with(&shop, 0x7, clock);
        shop.count = 0;
        push(&shop, 3, clock); /* one clock late, and so goes on with the others */
        finish_ops(&shop);
        assert_int_equal(sent_to(&shop, WIRE_LEFT_OUT, 0, &last), 1);
        assert_int_equal(last.message.role, CORE_COORDINATOR);
        assert_int_equal(last.message.rank, 3);
        assert_int_equal(last.message.clock, clock);
        assert_int_equal(last.message.count, clock);
        assert_int_equal(last.message.owner, 0);
    }
    push_all(&shop, 0xf, 4); /* on time */
    close_with(&shop, 0x7, 5);
    push(&shop, 3, 5);
    finish_ops(&shop);
    assert_int_equal(sent_to(&shop, WIRE_LEFT_OUT, 0, &last), 2);
    assert_int_equal(last.message.count, 1);
    tear_down(&shop);
}

TEST(a_rank_that_is_late_for_several_units_of_a_clock_was_late_once)
{
    (void)state;
    struct shop shop;
    struct core_rules rules = with_deadline;
    struct core_action last = {0};
    rules.reproducible = true;
    set_up(&shop, with_deadline);
    server_fini(&shop.server);
    layout_free(shop.layout);
    plan_free(shop.plan);
    shop.book.placement = placement_find("hash"); /* cuts into chunks */
    shop.plan = book_plan(&shop.book);
    assert_int_equal(layout_make(shop.plan, &mem_libc, &shop.layout, NULL), TRI_OK);
    assert_int_equal(server_init(&shop.server, shop.layout, &rules, 0, 0, &mem_libc, NULL), TRI_OK);
    assert_int_equal(shop.server.unit_count, PARTS);
    for (uint32_t part = 0; part < PARTS; part++) {
        say(&shop, (struct message){.kind = WIRE_INIT, .part = part, .landed = true});
        finish_ops(&shop);
    }
    for (uint64_t clock = 0; clock < 2; clock++)
        for (uint32_t r = 0; r < (clock == 0 ? RANKS : 3); r++)
            nothing(&shop, r, clock);
    tick(&shop, NOW);
    tick(&shop, NOW + DEADLINE);
    for (uint32_t i = 0; i < PARTS; i++)
        assert_int_equal(shop.server.units[i].version, 2);
    nothing(&shop, 3, 1);
    assert_int_equal(sent_to(&shop, WIRE_LEFT_OUT, 0, &last), 1);
    assert_int_equal(last.message.count, 1);
    tear_down(&shop);
}

/* ---- joining again ---- */

/* Rank 3 has missed clock 1 for good; the unit is at version 3. */
static void leave_behind(struct shop *shop)
{
    set_up(shop, with_deadline);
    push_all(shop, 0xf, 0);
    close_with(shop, 0x7, 1);
    close_with(shop, 0x7, 2);
    push(shop, 3, 1);
    finish_ops(shop);
    assert_int_equal(sent_to(shop, WIRE_LEFT_OUT, 3, NULL), 1);
    shop->count = 0;
}

TEST(nobody_waits_for_a_rank_that_is_behind)
{
    (void)state;
    struct shop shop;
    leave_behind(&shop);
    push_all(&shop, 0x7, 3);
    assert_int_equal(shop.server.units[0].version, 4);
    push_all(&shop, 0x7, 4);
    assert_int_equal(shop.server.units[0].version, 5);
    tear_down(&shop);
}

TEST(a_join_ahead_is_agreed_to_and_one_that_is_reached_is_not)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    leave_behind(&shop);
    join_at(&shop, 3, 3, false);
    assert_int_equal(sent_to(&shop, WIRE_MARKED, 0, &last), 1);
    assert_int_equal(last.message.role, CORE_COORDINATOR);
    assert_int_equal(last.message.mark, CORE_MARK_JOIN);
    assert_int_equal(last.message.rank, 3);
    assert_int_equal(last.message.clock, 3);
    assert_int_equal(last.message.count, 3);
    assert_int_equal(last.message.owner, 0);
    assert_false(last.message.accepted);
    join_at(&shop, 3, 4, false);
    assert_int_equal(sent_to(&shop, WIRE_MARKED, 0, &last), 2);
    assert_true(last.message.accepted);
    tear_down(&shop);
}

TEST(the_answer_for_a_join_is_kept_until_all_have_agreed)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    leave_behind(&shop);
    join_at(&shop, 3, 4, false);
    for (uint32_t r = 0; r < 3; r++)
        push(&shop, r, 3);
    while (shop.op.kind != CORE_OP_REPLY)
        finish_op(&shop);
    assert_int_equal(shop.asked, 0xf); /* what the unit is at version 4 is kept for rank 3 */
    finish_ops(&shop);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 0, NULL), PARTS);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, NULL), 0);
    join_at(&shop, 3, 4, true);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, &last), PARTS);
    assert_int_equal(last.message.clock, 3);
    assert_int_equal(last.message.version, 4);
    assert_false(last.message.left_out);
    assert_int_equal(last.ref.space, CORE_REPLY);
    join_at(&shop, 3, 4, true); /* a second copy */
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, NULL), PARTS);
    tear_down(&shop);
}

TEST(a_join_all_have_agreed_on_is_answered_as_soon_as_it_is_reached)
{
    (void)state;
    struct shop shop;
    leave_behind(&shop);
    join_at(&shop, 3, 5, false);
    join_at(&shop, 3, 5, true);
    push_all(&shop, 0x7, 3);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, NULL), 0);
    push_all(&shop, 0x7, 4);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, NULL), PARTS);
    tear_down(&shop);
}

TEST(from_the_join_on_the_rank_is_waited_for)
{
    (void)state;
    struct shop shop;
    leave_behind(&shop);
    join_at(&shop, 3, 4, false);
    join_at(&shop, 3, 4, true);
    push_all(&shop, 0x7, 3);
    push_all(&shop, 0x7, 4);
    assert_int_equal(shop.server.units[0].version, 4);
    push_all(&shop, 0x8, 4);
    assert_int_equal(shop.server.units[0].version, 5);
    assert_int_equal(shop.server.units[0].counted[0], 0xf);
    tear_down(&shop);
}

TEST(a_later_proposal_takes_the_place_of_an_earlier_one)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    leave_behind(&shop);
    join_at(&shop, 3, 4, false);
    push_all(&shop, 0x7, 3); /* version 4 is kept for rank 3, and waits for it */
    join_at(&shop, 3, 6, false);
    assert_int_equal(sent_to(&shop, WIRE_MARKED, 0, &last), 2);
    assert_true(last.message.accepted);
    push_all(&shop, 0x7, 4);
    assert_int_equal(shop.server.units[0].version, 5); /* waits no more */
    join_at(&shop, 3, 4, true);                        /* of what no longer holds */
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, NULL), 0);
    push_all(&shop, 0x7, 5);
    join_at(&shop, 3, 6, true);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, &last), PARTS);
    assert_int_equal(last.message.version, 6);
    tear_down(&shop);
}

TEST(what_was_kept_for_an_earlier_proposal_is_void)
{
    (void)state;
    struct shop shop;
    leave_behind(&shop);
    join_at(&shop, 3, 4, false);
    push_all(&shop, 0x7, 3); /* version 4 is kept */
    join_at(&shop, 3, 6, false);
    join_at(&shop, 3, 6, true);
    finish_ops(&shop);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, NULL), 0);
    push_all(&shop, 0x7, 4);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, NULL), 0);
    tear_down(&shop);
}

TEST(a_later_proposal_has_to_be_agreed_on_anew)
{
    (void)state;
    struct shop shop;
    leave_behind(&shop);
    join_at(&shop, 3, 4, false);
    join_at(&shop, 3, 4, true);
    push_all(&shop, 0x7, 3);
    close_with(&shop, 0x7, 4); /* it is behind again, and asks again */
    close_with(&shop, 0x7, 5);
    push(&shop, 3, 4);
    finish_ops(&shop);
    shop.count = 0;
    join_at(&shop, 3, 7, false);
    push_all(&shop, 0x7, 6);
    assert_int_equal(shop.server.units[0].version, 7);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, NULL), 0);
    join_at(&shop, 3, 7, true);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, NULL), PARTS);
    tear_down(&shop);
}

TEST(an_earlier_proposal_that_comes_late_is_not_answered)
{
    (void)state;
    struct shop shop;
    leave_behind(&shop);
    join_at(&shop, 3, 6, false);
    shop.count = 0;
    join_at(&shop, 3, 5, false);
    assert_int_equal(shop.count, 0);
    tear_down(&shop);
}

TEST(a_second_copy_of_a_proposal_is_agreed_to_again_and_changes_nothing)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    leave_behind(&shop);
    join_at(&shop, 3, 4, false);
    push_all(&shop, 0x7, 3); /* reached, and kept */
    shop.count = 0;
    join_at(&shop, 3, 4, false);
    assert_int_equal(sent_to(&shop, WIRE_MARKED, 0, &last), 1);
    assert_true(last.message.accepted);
    join_at(&shop, 3, 4, true);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, NULL), PARTS);
    tear_down(&shop);
}

/* Two ranks were left behind when the others closed: both join at the last clock. */
TEST(a_join_at_the_end_that_comes_while_another_is_copied_has_its_own_copy_made)
{
    (void)state;
    struct shop shop;
    set_up(&shop, with_deadline);
    push_all(&shop, 0xf, 0);
    close_with(&shop, 0x3, 1);
    close_with(&shop, 0x3, 2);
    push(&shop, 2, 1);
    push(&shop, 3, 1);
    finish_ops(&shop);
    shop.count = 0;
    struct message mark = {
        .kind = WIRE_MARK, .mark = CORE_MARK_JOIN, .rank = 2, .clock = 3, .last = true};
    say(&shop, mark);
    assert_true(shop.has_op);
    assert_int_equal(shop.asked, 1 << 2);
    mark.rank = 3;
    say(&shop, mark); /* while the slot of rank 2 is filled */
    join_at(&shop, 2, 3, true);
    join_at(&shop, 3, 3, true);
    finish_ops(&shop);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 2, NULL), PARTS);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, NULL), PARTS);
    tear_down(&shop);
}

/* What was kept is of the clock before the join, whatever the unit has done since. */
TEST(a_join_agreed_on_after_the_deadline_of_its_clock_is_answered_with_what_was_kept)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    leave_behind(&shop);
    join_at(&shop, 3, 4, false);
    push_all(&shop, 0x7, 3);
    close_with(&shop, 0x7, 4); /* without rank 3, which knows nothing yet */
    shop.count = 0;
    join_at(&shop, 3, 4, true);
    finish_ops(&shop);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, &last), PARTS);
    assert_int_equal(last.message.clock, 3); /* a worker that joins at 4 takes no other */
    assert_int_equal(last.message.version, 4);
    tear_down(&shop);
}

/* ---- a step for every push ---- */

static struct core_rules every_push(const char *text)
{
    struct core_rules rules = {0};
    assert_int_equal(consistency_read(text, &rules.consistency, &rules.bound, NULL), TRI_OK);
    return rules;
}

TEST(initial_values_go_through_slots_where_a_unit_may_step_meanwhile)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    set_up_with(&shop, "ps", every_push("ssp:1"));
    assert_true(shop.has_op);
    assert_int_equal(shop.op.kind, CORE_OP_REPLY);
    assert_int_equal(shop.asked, 0xe); /* not to rank 0, from which they are */
    finish_ops(&shop);
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(sent_to(&shop, WIRE_INIT, r, &last), r > 0 ? PARTS : 0);
    assert_int_equal(last.ref.space, CORE_REPLY);
    assert_int_equal(last.ref.rank, 3);
    tear_down(&shop);
}

TEST(each_update_is_stepped_once_with_its_own_count)
{
    (void)state;
    struct shop shop;
    set_up(&shop, every_push("ssp:1"));
    push(&shop, 2, 0);
    assert_int_equal(shop.op.kind, CORE_OP_SUM);
    assert_int_equal(shop.op.rank, 2);
    assert_true(shop.op.first);
    finish_op(&shop);
    assert_int_equal(shop.op.kind, CORE_OP_STEP);
    assert_int_equal(shop.op.count, 12);
    assert_int_equal(shop.op.steps, 0);
    push(&shop, 2, 0); /* a second copy */
    finish_op(&shop);
    finish_ops(&shop);
    push(&shop, 2, 0); /* another */
    assert_false(shop.has_op);
    assert_int_equal(shop.server.units[0].steps, 1);
    tear_down(&shop);
}

TEST(the_rate_of_a_step_is_shared_among_the_live)
{
    (void)state;
    struct shop shop;
    set_up(&shop, every_push("ssp:1"));
    push(&shop, 0, 0);
    finish_op(&shop);
    assert_true(shop.op.lr == 0.5f / 4);
    finish_ops(&shop);
    depart(&shop, 1 << 3);
    push(&shop, 1, 0);
    finish_op(&shop);
    assert_true(shop.op.lr == 0.5f / 3);
    tear_down(&shop);
}

TEST(an_answer_waits_until_the_bound_holds_and_a_slow_push_lets_it_go)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    set_up(&shop, every_push("ssp:1"));
    push_all(&shop, 0x1, 0);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 0, &last), PARTS);
    assert_int_equal(last.message.clock, 0);
    assert_int_equal(last.message.version, 0); /* not all have pushed clock 0 */
    shop.count = 0;
    push_all(&shop, 0x1, 1);
    assert_int_equal(shop.server.units[0].steps, 2); /* stepped, and not answered */
    push_all(&shop, 0x2, 0);
    push_all(&shop, 0x4, 0);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 0, NULL), 0);
    push_all(&shop, 0x8, 0);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 0, &last), PARTS);
    assert_int_equal(last.message.clock, 1);
    assert_int_equal(last.message.version, 1);
    tear_down(&shop);
}

TEST(an_answer_that_waits_for_a_departed_rank_is_let_go)
{
    (void)state;
    struct shop shop;
    set_up(&shop, every_push("ssp:1"));
    push_all(&shop, 0x7, 0);
    push_all(&shop, 0x1, 1);
    shop.count = 0;
    depart(&shop, 1 << 3);
    assert_int_equal(shop.asked, 1 << 0);
    finish_ops(&shop);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 0, NULL), PARTS);
    tear_down(&shop);
}

/* The check is in take(): nothing leaves a slot that was not filled for it. */
TEST(an_answer_let_go_while_others_are_copied_has_its_own_copy_made)
{
    (void)state;
    struct shop shop;
    set_up(&shop, every_push("ssp:1"));
    push_all(&shop, 0x5, 0);
    push_all(&shop, 0x1, 1); /* held: ranks 1 and 3 have not pushed clock 0 */
    push(&shop, 1, 0);
    while (shop.op.kind != CORE_OP_REPLY)
        finish_op(&shop);
    assert_int_equal(shop.asked, 1 << 1);
    shop.count = 0;
    depart(&shop, 1 << 3); /* now rank 0 may go on */
    finish_op(&shop);
    finish_ops(&shop);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 0, NULL), PARTS);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 1, NULL), PARTS);
    tear_down(&shop);
}

TEST(under_asp_no_answer_waits)
{
    (void)state;
    struct shop shop;
    set_up(&shop, every_push("asp"));
    for (uint64_t clock = 0; clock < 20; clock++) {
        shop.count = 0;
        push_all(&shop, 0x1, clock);
        assert_int_equal(sent_to(&shop, WIRE_RESULT, 0, NULL), PARTS);
    }
    assert_int_equal(shop.server.units[0].version, 0);
    tear_down(&shop);
}

TEST(nothing_is_answered_without_a_step)
{
    (void)state;
    struct shop shop;
    struct core_action last = {0};
    set_up(&shop, every_push("ssp:1"));
    nothing(&shop, 2, 0);
    assert_int_equal(shop.op.kind, CORE_OP_REPLY);
    assert_int_equal(shop.asked, 1 << 2);
    finish_ops(&shop);
    assert_int_equal(shop.server.units[0].steps, 0);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 2, &last), PARTS);
    assert_false(last.message.unchanged); /* others may have stepped since */
    tear_down(&shop);
}

TEST(only_who_has_pushed_is_answered)
{
    (void)state;
    struct shop shop;
    set_up(&shop, every_push("ssp:3"));
    push(&shop, 1, 0);
    while (shop.op.kind != CORE_OP_REPLY)
        finish_op(&shop);
    assert_int_equal(shop.asked, 1 << 1);
    finish_ops(&shop);
    assert_int_equal(shop.count, PARTS);
    tear_down(&shop);
}

TEST(staleness_is_the_steps_since_the_last_answer)
{
    (void)state;
    struct shop shop;
    set_up(&shop, every_push("ssp:3"));
    push_all(&shop, 0x1, 0); /* 0 behind */
    push_all(&shop, 0x1, 1); /* 0 */
    push_all(&shop, 0x2, 0); /* 2: rank 1 had the initial values */
    push_all(&shop, 0x1, 2); /* 1 */
    const struct server_staleness *staleness = &shop.server.units[0].staleness;
    assert_int_equal(staleness->updates, 4);
    assert_int_equal(staleness->total, 3);
    assert_int_equal(staleness->most, 2);
    tear_down(&shop);
}

TEST(updates_that_wait_are_stepped_in_turn)
{
    (void)state;
    struct shop shop;
    uint32_t order[RANKS] = {0};
    size_t count = 0;
    set_up(&shop, every_push("asp"));
    push(&shop, 2, 0); /* under way */
    push(&shop, 0, 0);
    push(&shop, 1, 0);
    push(&shop, 3, 0);
    for (; shop.has_op; finish_op(&shop))
        if (shop.op.kind == CORE_OP_STEP)
            order[count++] = shop.op.rank;
    assert_int_equal(count, 4);
    assert_int_equal(order[0], 2);
    assert_int_equal(order[1], 3);
    assert_int_equal(order[2], 0);
    assert_int_equal(order[3], 1);
    tear_down(&shop);
}

TEST(the_whole_update_of_a_departed_rank_is_stepped_and_not_answered)
{
    (void)state;
    struct shop shop;
    set_up(&shop, every_push("asp"));
    push(&shop, 0, 0); /* under way */
    push(&shop, 3, 0);
    push_part(&shop, 2, 0, 0); /* half of one */
    depart(&shop, 1 << 3 | 1 << 2);
    finish_ops(&shop);
    assert_int_equal(shop.server.units[0].steps, 2);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 0, NULL), PARTS);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 2, NULL), 0);
    assert_int_equal(sent_to(&shop, WIRE_RESULT, 3, NULL), 0);
    tear_down(&shop);
}

TEST(a_product_has_the_factors_of_the_rank_whose_step_it_is)
{
    (void)state;
    struct shop shop;
    set_up_with(&shop, "adam", every_push("asp"));
    finish_ops(&shop);
    struct message factors = {
        .kind = WIRE_FACTORS, .rows = 4, .parts = 3, .count = 4, .lr_bits = rate, .landed = true};
    for (uint32_t r = 1; r < 3; r++) {
        factors.from = factors.rank = r;
        for (factors.part = 0; factors.part < 3; factors.part++) {
            assert_int_equal(server_landing(&shop.server, &factors).space, CORE_PRODUCTS);
            say(&shop, factors);
        }
    }
    assert_int_equal(shop.op.kind, CORE_OP_PRODUCT);
    assert_int_equal(server_factor_rows(&shop.server, 0, 1), 4);
    assert_int_equal(server_factor_rows(&shop.server, 0, 2), 0);
    tear_down(&shop);
}

/* ---- waits ---- */

TEST(a_server_names_the_ranks_that_a_clock_waits_for)
{
    (void)state;
    struct shop shop;
    set_up(&shop, (struct core_rules){0});
    push_all(&shop, 0x5, 0);
    tick(&shop, NOW);
    tick(&shop, NOW + 9900000);
    assert_string_equal(shop.wait, "");
    tick(&shop, NOW + 10000000);
    assert_string_equal(shop.wait, "waiting 10 s for l of workers 1, 3 (last heard 10.0 s ago)");
    tear_down(&shop);
}

TEST(a_server_names_the_ranks_that_hold_answers_back)
{
    (void)state;
    struct shop shop;
    set_up(&shop, every_push("ssp:1"));
    push_all(&shop, 0x7, 0);
    tick(&shop, NOW);
    push_all(&shop, 0x1, 1);
    tick(&shop, NOW + 1);
    tick(&shop, NOW + 10000001);
    assert_string_equal(shop.wait, "waiting 10 s for l of worker 3 (last heard 10.0 s ago)");
    tear_down(&shop);
}

TEST(who_is_waited_for_past_the_limit_is_accused_though_heard)
{
    (void)state;
    struct shop shop;
    set_up(&shop, (struct core_rules){0});
    push_all(&shop, 0x5, 0);
    tick(&shop, NOW);
    tick(&shop, NOW + 29900000);
    assert_int_equal(shop.watch.accused[0], 0);
    tick(&shop, NOW + 30000000);
    assert_int_equal(shop.watch.accused[0], 0xa);
    tear_down(&shop);
}

TEST(a_server_that_gets_no_memory_leaves_none)
{
    (void)state;
    struct shop shop;
    struct fault fault = {0};
    set_up_layout(&shop, "ps");
    FAULT_WALK(&fault)
    {
        struct server server;
        tri_status status =
            server_init(&server, shop.layout, &with_deadline, 0, 0, &fault.mem, NULL);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        if (status == TRI_OK)
            server_fini(&server);
    }
    layout_free(shop.layout);
    plan_free(shop.plan);
    profile_free(shop.profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_closes_with_who_is_in_when_the_deadline_is_over),
        cmocka_unit_test(the_deadline_does_not_run_before_half_are_in),
        cmocka_unit_test(the_first_clock_waits_for_all),
        cmocka_unit_test(a_clock_closes_without_as_many_as_there_are_backup_workers),
        cmocka_unit_test(the_update_of_a_departed_rank_does_not_stand_for_a_live_one),
        cmocka_unit_test(a_rank_one_clock_late_gets_the_result_marked_left_out),
        cmocka_unit_test(a_rank_more_than_a_clock_late_is_told_so_for_the_unit),
        cmocka_unit_test(a_late_nothing_is_answered_too),
        cmocka_unit_test(an_update_that_was_half_in_becomes_whole_as_a_late_one),
        cmocka_unit_test(a_part_that_was_coming_in_when_its_clock_closed_is_late),
        cmocka_unit_test(what_comes_while_its_clock_closes_is_late_and_not_lost),
        cmocka_unit_test(what_comes_between_the_sums_of_its_clock_is_one_clock_late_and_no_more),
        cmocka_unit_test(the_coordinator_is_told_how_many_clocks_running_a_rank_was_late),
        cmocka_unit_test(a_rank_that_is_late_for_several_units_of_a_clock_was_late_once),
        cmocka_unit_test(nobody_waits_for_a_rank_that_is_behind),
        cmocka_unit_test(a_join_ahead_is_agreed_to_and_one_that_is_reached_is_not),
        cmocka_unit_test(the_answer_for_a_join_is_kept_until_all_have_agreed),
        cmocka_unit_test(a_join_all_have_agreed_on_is_answered_as_soon_as_it_is_reached),
        cmocka_unit_test(from_the_join_on_the_rank_is_waited_for),
        cmocka_unit_test(a_later_proposal_takes_the_place_of_an_earlier_one),
        cmocka_unit_test(what_was_kept_for_an_earlier_proposal_is_void),
        cmocka_unit_test(a_later_proposal_has_to_be_agreed_on_anew),
        cmocka_unit_test(an_earlier_proposal_that_comes_late_is_not_answered),
        cmocka_unit_test(a_second_copy_of_a_proposal_is_agreed_to_again_and_changes_nothing),
        cmocka_unit_test(
            a_join_at_the_end_that_comes_while_another_is_copied_has_its_own_copy_made),
        cmocka_unit_test(
            a_join_agreed_on_after_the_deadline_of_its_clock_is_answered_with_what_was_kept),
        cmocka_unit_test(initial_values_go_through_slots_where_a_unit_may_step_meanwhile),
        cmocka_unit_test(each_update_is_stepped_once_with_its_own_count),
        cmocka_unit_test(the_rate_of_a_step_is_shared_among_the_live),
        cmocka_unit_test(an_answer_waits_until_the_bound_holds_and_a_slow_push_lets_it_go),
        cmocka_unit_test(an_answer_that_waits_for_a_departed_rank_is_let_go),
        cmocka_unit_test(an_answer_let_go_while_others_are_copied_has_its_own_copy_made),
        cmocka_unit_test(under_asp_no_answer_waits),
        cmocka_unit_test(nothing_is_answered_without_a_step),
        cmocka_unit_test(only_who_has_pushed_is_answered),
        cmocka_unit_test(staleness_is_the_steps_since_the_last_answer),
        cmocka_unit_test(updates_that_wait_are_stepped_in_turn),
        cmocka_unit_test(the_whole_update_of_a_departed_rank_is_stepped_and_not_answered),
        cmocka_unit_test(a_product_has_the_factors_of_the_rank_whose_step_it_is),
        cmocka_unit_test(a_server_names_the_ranks_that_a_clock_waits_for),
        cmocka_unit_test(a_server_names_the_ranks_that_hold_answers_back),
        cmocka_unit_test(who_is_waited_for_past_the_limit_is_accused_though_heard),
        cmocka_unit_test(a_server_that_gets_no_memory_leaves_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
