/* The worker's calls out of order, and messages that cannot be right. */
#include "core/worker.h"

#include <string.h>

#include "core/server.h"
#include "lib/books.h"
#include "lib/test.h"

/* Counts what is emitted, and keeps the last of each. */
struct sink {
    size_t sends, ops, wakes, fails;
    struct core_action last;
    struct core_op op;
};

static void take(void *ctx, const struct core_action *action)
{
    struct sink *sink = ctx;
    sink->sends += action->kind == CORE_SEND;
    sink->ops += action->kind == CORE_OP;
    sink->wakes += action->kind == CORE_WAKE;
    sink->fails += action->kind == CORE_FAIL;
    sink->last = *action;
    if (action->kind == CORE_OP)
        sink->op = action->op;
}

struct bench {
    struct profile *profile;
    struct book book;
    struct plan *plan;
    struct layout *layout;
    struct worker worker;
    struct sink sink;
    struct core_out out;
};

static void set_up(struct bench *bench, const char *scheme, uint32_t rank)
{
    struct core_rules rules = {.reproducible = true};
    memset(bench, 0, sizeof *bench);
    bench->profile = book_one_layer("FC", 6, 10, 6);
    bench->book = book_of(bench->profile, 3);
    bench->book.forced = scheme_at(book_scheme_index(scheme));
    bench->book.batch = 4;
    bench->book.chunk_bytes = 100;
    bench->plan = book_plan(&bench->book);
    assert_int_equal(layout_make(bench->plan, &mem_libc, &bench->layout, NULL), TRI_OK);
    assert_int_equal(worker_init(&bench->worker, bench->layout, &rules, rank, 0, &mem_libc, NULL),
                     TRI_OK);
    bench->out = (struct core_out){.emit = take, .ctx = &bench->sink};
    if (rank == 0)
        worker_start(&bench->worker, &bench->out);
}

static void tear_down(struct bench *bench)
{
    worker_fini(&bench->worker);
    layout_free(bench->layout);
    plan_free(bench->plan);
    profile_free(bench->profile);
}

static const struct worker_update good = {.count = 4, .lr = 0.1f, .rows = 4};

TEST(a_second_update_in_one_iteration_is_refused)
{
    (void)state;
    static const char *const schemes[] = {"ps", "sfb", "adam"};
    for (size_t i = 0; i < 3; i++) {
        struct bench bench;
        tri_error err = {0};
        set_up(&bench, schemes[i], 0);
        assert_int_equal(worker_update(&bench.worker, 0, &good, &bench.out, &err), TRI_OK);
        size_t sends = bench.sink.sends;
        assert_int_equal(worker_update(&bench.worker, 0, &good, &bench.out, &err), TRI_EARG);
        assert_non_null(strstr(err.text, "already has its update of clock 0"));
        assert_int_equal(bench.sink.sends, sends);
        tear_down(&bench);
    }
}

TEST(an_update_before_the_last_one_is_back_is_refused)
{
    (void)state;
    struct bench bench;
    tri_error err = {0};
    set_up(&bench, "ps", 0);
    assert_int_equal(worker_update(&bench.worker, 0, &good, &bench.out, &err), TRI_OK);
    worker_clock(&bench.worker, &bench.out);
    assert_int_equal(worker_update(&bench.worker, 0, &good, &bench.out, &err), TRI_EARG);
    assert_non_null(strstr(err.text, "was not synced"));
    assert_false(worker_sync(&bench.worker, 0, &bench.out));
    tear_down(&bench);
}

TEST(factor_rows_beyond_what_was_described_are_refused)
{
    (void)state;
    struct bench bench;
    tri_error err = {0};
    set_up(&bench, "sfb", 0);
    struct worker_update update = good;
    update.rows = 5;
    assert_int_equal(worker_update(&bench.worker, 0, &update, &bench.out, &err), TRI_EARG);
    assert_string_equal(err.text, "layer 'l' takes 1 to 4 factor rows, not 5");
    update.rows = 0;
    assert_int_equal(worker_update(&bench.worker, 0, &update, &bench.out, &err), TRI_EARG);
    update = good;
    update.count = 0;
    assert_int_equal(worker_update(&bench.worker, 0, &update, &bench.out, &err), TRI_EARG);
    assert_string_equal(err.text, "layer 'l' was given an update with count 0");
    assert_int_equal(worker_update(&bench.worker, 1, &good, &bench.out, &err), TRI_EARG);
    tear_down(&bench);
}

/* ---- messages ---- */

static struct message factors(uint32_t rank, uint64_t clock, uint32_t part)
{
    return (struct message){.kind = WIRE_FACTORS,
                            .from = rank,
                            .rank = rank,
                            .clock = clock,
                            .rows = 4,
                            .parts = 3,
                            .part = part,
                            .count = 4,
                            .lr_bits = 0x3dcccccd,
                            .landed = true};
}

TEST(factors_that_cannot_be_right_land_nowhere)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "sfb", 0);
    struct message right = factors(1, 0, 0);
    assert_int_equal(worker_landing(&bench.worker, &right).space, CORE_FACTORS);
    struct message wrong[7];
    for (size_t i = 0; i < 7; i++)
        wrong[i] = right;
    wrong[0].layer = 1;
    wrong[1].clock = 2; /* two ahead: nobody can be */
    wrong[2].rows = 5;
    wrong[3].parts = 2;
    wrong[4].part = 3;
    wrong[5].rank = wrong[5].from = 3;
    wrong[6].from = 2; /* nobody speaks for a rank that lives */
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(worker_landing(&bench.worker, &wrong[i]).space, CORE_NOWHERE);
        worker_message(&bench.worker, &wrong[i], &bench.out);
    }
    assert_int_equal(bench.worker.syncers[0].generation[0].in, 0);
    tear_down(&bench);
}

TEST(a_second_copy_is_dropped)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "sfb", 0);
    for (uint32_t part = 0; part < 3; part++) {
        struct message message = factors(1, 0, part);
        worker_message(&bench.worker, &message, &bench.out);
        assert_int_equal(worker_landing(&bench.worker, &message).space, CORE_NOWHERE);
        worker_message(&bench.worker, &message, &bench.out);
    }
    assert_int_equal(bench.worker.syncers[0].generation[0].in, 1);
    assert_int_equal(bench.worker.syncers[0].generation[0].count, 4);
    struct message nothing = {.kind = WIRE_NOTHING, .from = 1, .rank = 1};
    worker_message(&bench.worker, &nothing, &bench.out);
    assert_int_equal(bench.worker.syncers[0].generation[0].in, 1);
    tear_down(&bench);
}

TEST(a_peer_one_clock_ahead_is_kept_for_later)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "sfb", 0);
    struct message ahead = factors(1, 1, 0);
    struct core_ref landing = worker_landing(&bench.worker, &ahead);
    assert_int_equal(landing.space, CORE_FACTORS);
    assert_int_equal(landing.generation, 1);
    tear_down(&bench);
}

TEST(busy_parameters_are_not_touched_before_the_iteration_ends)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "sfb", 0);
    struct worker_update update = good;
    update.params_busy = true;
    assert_int_equal(worker_update(&bench.worker, 0, &update, &bench.out, NULL), TRI_OK);
    for (uint32_t rank = 1; rank < 3; rank++)
        for (uint32_t part = 0; part < 3; part++) {
            struct message message = factors(rank, 0, part);
            worker_message(&bench.worker, &message, &bench.out);
        }
    assert_int_equal(bench.sink.ops, 0);
    worker_clock(&bench.worker, &bench.out);
    assert_int_equal(bench.sink.ops, 1);
    tear_down(&bench);
}

TEST(nothing_leaves_only_after_the_clock_before_is_applied)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "ps", 0);
    assert_int_equal(worker_update(&bench.worker, 0, &good, &bench.out, NULL), TRI_OK);
    worker_clock(&bench.worker, &bench.out);
    size_t sends = bench.sink.sends;
    worker_clock(&bench.worker, &bench.out);       /* clock 1 had no update of this layer */
    assert_int_equal(bench.sink.sends, sends + 1); /* CLOCK, and no NOTHING */
    uint32_t parts = bench.layout->layers[0].parts;
    for (uint32_t part = 0; part < parts; part++) {
        struct message result = {
            .kind = WIRE_RESULT, .part = part, .version = 1, .unchanged = true};
        worker_message(&bench.worker, &result, &bench.out);
    }
    assert_int_equal(bench.worker.syncers[0].version, 1);
    assert_int_equal(bench.sink.sends, sends + 1 + bench.layout->layers[0].owners);
    assert_int_equal(bench.sink.last.message.kind, WIRE_NOTHING);
    assert_int_equal(bench.sink.last.message.clock, 1);
    tear_down(&bench);
}

TEST(a_late_push_changes_nothing_on_the_server)
{
    (void)state;
    struct bench bench;
    struct server server;
    struct core_rules rules = {.reproducible = true};
    set_up(&bench, "ps", 0);
    assert_int_equal(server_init(&server, bench.layout, &rules, 0, 7, &mem_libc, NULL), TRI_OK);
    struct message push = {
        .kind = WIRE_PUSH, .from = 1, .rank = 1, .clock = 6, .count = 1, .landed = true};
    for (push.part = 0; push.part < bench.layout->layers[0].parts; push.part++)
        server_message(&server, &push, &bench.out);
    assert_int_equal(server.units[0].gather.in, 0);
    server_fini(&server);
    tear_down(&bench);
}

TEST(a_second_copy_of_initial_values_is_dropped)
{
    (void)state;
    struct bench bench;
    struct server server;
    struct core_rules rules = {.reproducible = true};
    set_up(&bench, "ps", 0);
    assert_int_equal(server_init(&server, bench.layout, &rules, 0, 0, &mem_libc, NULL), TRI_OK);
    struct message init = {.kind = WIRE_INIT, .landed = true};
    assert_int_equal(server_landing(&server, &init).space, CORE_SHARD);
    server_message(&server, &init, &bench.out);
    size_t sends = bench.sink.sends;
    assert_int_equal(server_landing(&server, &init).space, CORE_NOWHERE);
    server_message(&server, &init, &bench.out);
    assert_int_equal(bench.sink.sends, sends);
    server_fini(&server);
    tear_down(&bench);
}

TEST(a_copy_that_comes_while_the_first_is_coming_in_lands_nowhere)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "sfb", 0);
    struct message message = factors(1, 0, 0);
    assert_int_equal(worker_landing(&bench.worker, &message).space, CORE_FACTORS);
    assert_int_equal(worker_landing(&bench.worker, &message).space, CORE_NOWHERE);
    worker_lost(&bench.worker, &message); /* the connection broke: it comes again */
    assert_int_equal(worker_landing(&bench.worker, &message).space, CORE_FACTORS);
    tear_down(&bench);
    set_up(&bench, "ps", 0);
    assert_int_equal(worker_update(&bench.worker, 0, &good, &bench.out, NULL), TRI_OK);
    struct message result = {.kind = WIRE_RESULT, .part = 1, .count = 4};
    assert_int_not_equal(worker_landing(&bench.worker, &result).space, CORE_NOWHERE);
    assert_int_equal(worker_landing(&bench.worker, &result).space, CORE_NOWHERE);
    worker_lost(&bench.worker, &result);
    assert_int_not_equal(worker_landing(&bench.worker, &result).space, CORE_NOWHERE);
    tear_down(&bench);
}

TEST(losing_another_kind_of_message_frees_no_place_of_a_result)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "ps", 0);
    assert_int_equal(worker_update(&bench.worker, 0, &good, &bench.out, NULL), TRI_OK);
    struct message result = {.kind = WIRE_RESULT, .version = 1, .count = 4};
    assert_int_not_equal(worker_landing(&bench.worker, &result).space, CORE_NOWHERE);
    struct message mark = {.kind = WIRE_MARK};
    worker_lost(&bench.worker, &mark);
    assert_int_equal(worker_landing(&bench.worker, &result).space, CORE_NOWHERE);
    worker_lost(&bench.worker, &result); /* its own place is free again */
    assert_int_not_equal(worker_landing(&bench.worker, &result).space, CORE_NOWHERE);
    tear_down(&bench);
}

TEST(a_witness_lands_results_in_the_stage_and_others_in_place)
{
    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct bench bench;
        set_up(&bench, "ps", 0);
        worker_fini(&bench.worker);
        struct core_rules rules = {.reproducible = true};
        assert_int_equal(worker_init(&bench.worker, bench.layout, &rules, rank, 0, &mem_libc, NULL),
                         TRI_OK);
        bench.worker.syncers[0].started = true;
        worker_clock(&bench.worker, &bench.out); /* only what was given is answered */
        for (uint32_t part = 0; part < bench.layout->layers[0].parts; part++) {
            struct message result = {
                .kind = WIRE_RESULT, .part = part, .version = 1, .count = 4, .landed = true};
            const struct layout_unit *unit = &bench.layout->units[bench.layout->parts[part].unit];
            assert_int_equal(unit->witness, (unit->server + 1) % 3);
            assert_int_equal(worker_landing(&bench.worker, &result).space,
                             unit->witness == rank ? CORE_STAGE : CORE_PARAMS);
        }
        tear_down(&bench);
    }
}

TEST(results_for_busy_parameters_wait_in_the_stage)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "ps", 0);
    struct worker_update update = good;
    update.params_busy = true;
    assert_int_equal(worker_update(&bench.worker, 0, &update, &bench.out, NULL), TRI_OK);
    for (uint32_t part = 0; part < bench.layout->layers[0].parts; part++) {
        struct message result = {
            .kind = WIRE_RESULT, .part = part, .version = 1, .count = 4, .landed = true};
        assert_int_equal(worker_landing(&bench.worker, &result).space, CORE_STAGE);
        worker_message(&bench.worker, &result, &bench.out);
    }
    assert_int_equal(bench.sink.ops, 0);
    assert_false(worker_sync(&bench.worker, 0, &bench.out)); /* not busy any more */
    assert_int_equal(bench.sink.last.kind, CORE_OP);
    assert_int_equal(bench.sink.last.op.kind, CORE_OP_INSTALL);
    worker_done(&bench.worker, &bench.sink.last.op, &bench.out);
    assert_true(worker_sync(&bench.worker, 0, &bench.out));
    tear_down(&bench);
}

TEST(an_update_after_a_clock_without_one_needs_a_sync_first)
{
    (void)state;
    struct bench bench;
    tri_error err = {0};
    set_up(&bench, "ps", 0);
    worker_clock(&bench.worker, &bench.out);
    for (uint32_t part = 0; part < bench.layout->layers[0].parts; part++) {
        struct message result = {
            .kind = WIRE_RESULT, .part = part, .version = 1, .unchanged = true};
        worker_message(&bench.worker, &result, &bench.out);
    }
    assert_int_equal(worker_update(&bench.worker, 0, &good, &bench.out, &err), TRI_EARG);
    assert_true(worker_sync(&bench.worker, 0, &bench.out));
    assert_int_equal(worker_update(&bench.worker, 0, &good, &bench.out, &err), TRI_OK);
    tear_down(&bench);
}

TEST(a_result_for_a_layer_on_workers_is_ignored)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "sfb", 0);
    for (uint32_t part = 0; part < bench.layout->layers[0].parts; part++) {
        struct message result = {
            .kind = WIRE_RESULT, .part = part, .version = 1, .unchanged = true};
        worker_message(&bench.worker, &result, &bench.out);
    }
    assert_int_equal(bench.worker.syncers[0].version, 0);
    tear_down(&bench);
}

TEST(an_update_before_the_initial_values_is_refused)
{
    (void)state;
    struct bench bench;
    tri_error err = {0};
    set_up(&bench, "ps", 1);
    assert_int_equal(worker_update(&bench.worker, 0, &good, &bench.out, &err), TRI_EARG);
    assert_string_equal(err.text, "layer 'l' has no initial values yet");
    tear_down(&bench);
}

TEST(a_worker_alone_can_be_many_clocks_of_nothing_behind)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "sfb", 0);
    worker_fini(&bench.worker);
    layout_free(bench.layout);
    plan_free(bench.plan);
    bench.book.workers = bench.book.servers = bench.book.colocated = 1;
    bench.plan = book_plan(&bench.book);
    assert_int_equal(layout_make(bench.plan, &mem_libc, &bench.layout, NULL), TRI_OK);
    struct core_rules rules = {.reproducible = true};
    assert_int_equal(worker_init(&bench.worker, bench.layout, &rules, 0, 0, &mem_libc, NULL),
                     TRI_OK);
    worker_start(&bench.worker, &bench.out);
    assert_int_equal(worker_update(&bench.worker, 0, &good, &bench.out, NULL), TRI_OK);
    struct core_op op = bench.sink.last.op;
    assert_int_equal(op.kind, CORE_OP_APPLY);
    for (int i = 0; i < 300000; i++) /* deep enough to show recursion */
        worker_clock(&bench.worker, &bench.out);
    worker_done(&bench.worker, &op, &bench.out);
    assert_int_equal(bench.worker.syncers[0].version, 300000);
    tear_down(&bench);
}

/* ---- checkpoints ---- */

static struct message mark_at(uint64_t clock)
{
    return (struct message){.kind = WIRE_MARK, .clock = clock};
}

TEST(a_mark_that_comes_too_late_is_refused_with_the_clock_reached)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "sfb", 0);
    worker_clock(&bench.worker, &bench.out);
    struct message mark = mark_at(1);
    worker_message(&bench.worker, &mark, &bench.out);
    assert_int_equal(bench.sink.last.message.kind, WIRE_MARKED);
    assert_false(bench.sink.last.message.accepted);
    assert_int_equal(bench.sink.last.message.count, 1);
    mark = mark_at(2);
    worker_message(&bench.worker, &mark, &bench.out);
    assert_true(bench.sink.last.message.accepted);
    tear_down(&bench);
}

TEST(an_overtaken_mark_and_its_copies_do_not_count)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "sfb", 0);
    struct message mark = mark_at(5);
    worker_message(&bench.worker, &mark, &bench.out);
    assert_int_equal(bench.worker.to_save, 1);
    size_t sends = bench.sink.sends;
    mark = mark_at(4);
    worker_message(&bench.worker, &mark, &bench.out);
    assert_int_equal(bench.sink.sends, sends);
    assert_int_equal(bench.worker.mark, 5);
    struct core_op copy = {.kind = CORE_OP_COPY, .clock = 4};
    worker_done(&bench.worker, &copy, &bench.out); /* of a proposal before */
    assert_int_equal(bench.worker.to_save, 1);
    copy.clock = 5;
    worker_done(&bench.worker, &copy, &bench.out);
    assert_int_equal(bench.worker.to_save, 0);
    assert_int_equal(bench.sink.last.message.kind, WIRE_SAVED);
    tear_down(&bench);
}

/* An iteration of a layer on servers. Results land in `space`; the last of them ends it, unless
 * they are in the stage and a copy is under way. */
static void iterate(struct bench *bench, uint64_t clock, enum core_space space)
{
    assert_int_equal(worker_update(&bench->worker, 0, &good, &bench->out, NULL), TRI_OK);
    worker_clock(&bench->worker, &bench->out);
    for (uint32_t part = 0; part < bench->layout->layers[0].parts; part++) {
        struct message result = {.kind = WIRE_RESULT,
                                 .part = part,
                                 .clock = clock,
                                 .version = clock + 1,
                                 .count = 4,
                                 .landed = true};
        if (space != CORE_NOWHERE)
            assert_int_equal(worker_landing(&bench->worker, &result).space, space);
        worker_message(&bench->worker, &result, &bench->out);
    }
}

TEST(what_comes_while_parameters_are_copied_waits_in_the_stage)
{
    (void)state;
    struct bench bench;
    struct message mark = mark_at(1);
    set_up(&bench, "ps", 0);
    worker_message(&bench.worker, &mark, &bench.out);
    assert_int_equal(bench.worker.to_save, 1);
    iterate(&bench, 0, CORE_NOWHERE); /* some in place, some as a witness's */
    for (size_t ops = 0; bench.sink.op.kind != CORE_OP_COPY; ops++) {
        assert_true(ops < 2);
        worker_done(&bench.worker, &bench.sink.op, &bench.out);
    }
    struct core_op copy = bench.sink.op;
    assert_int_equal(copy.clock, 1);
    assert_int_equal(copy.steps, 1);
    assert_true(worker_sync(&bench.worker, 0, &bench.out)); /* who reads need not wait for it */
    size_t ops = bench.sink.ops;
    iterate(&bench, 1, CORE_STAGE);
    assert_int_equal(bench.sink.ops, ops);
    worker_done(&bench.worker, &copy, &bench.out);
    assert_int_equal(bench.worker.to_save, 0);
    assert_int_equal(bench.sink.op.kind, CORE_OP_INSTALL);
    worker_done(&bench.worker, &bench.sink.op, &bench.out);
    assert_true(worker_sync(&bench.worker, 0, &bench.out));
    assert_int_equal(bench.worker.steps[0], 2);
    tear_down(&bench);
}

TEST(a_server_refuses_a_mark_that_it_has_reached)
{
    (void)state;
    struct bench bench;
    struct server server;
    struct core_rules rules = {.reproducible = true};
    set_up(&bench, "ps", 0);
    assert_int_equal(server_init(&server, bench.layout, &rules, 0, 7, &mem_libc, NULL), TRI_OK);
    struct message mark = mark_at(7);
    server_message(&server, &mark, &bench.out);
    assert_false(bench.sink.last.message.accepted);
    mark = mark_at(9);
    server_message(&server, &mark, &bench.out);
    assert_true(bench.sink.last.message.accepted);
    struct core_op copy = {.kind = CORE_OP_COPY, .clock = 8};
    uint32_t to_save = server.to_save;
    server_done(&server, &copy, &bench.out);
    assert_int_equal(server.to_save, to_save);
    server_fini(&server);
    tear_down(&bench);
}

/* Updates are added as they come: units of one part each, on server 0. */
static void set_up_adding(struct bench *bench, struct server *server)
{
    struct core_rules rules = {.reproducible = false};
    set_up(bench, "ps", 0);
    worker_fini(&bench->worker);
    layout_free(bench->layout);
    plan_free(bench->plan);
    bench->book.reproducible = false;
    bench->plan = book_plan(&bench->book);
    assert_int_equal(layout_make(bench->plan, &mem_libc, &bench->layout, NULL), TRI_OK);
    assert_int_equal(worker_init(&bench->worker, bench->layout, &rules, 0, 0, &mem_libc, NULL),
                     TRI_OK);
    assert_int_equal(server_init(server, bench->layout, &rules, 0, 0, &mem_libc, NULL), TRI_OK);
}

TEST(without_order_a_unit_has_one_part)
{
    (void)state;
    struct bench bench;
    struct server server;
    set_up_adding(&bench, &server);
    assert_true(bench.layout->unit_count > 1);
    for (uint32_t i = 0; i < bench.layout->unit_count; i++)
        assert_int_equal(bench.layout->units[i].parts, 1);
    server_fini(&server);
    tear_down(&bench);
}

TEST(without_order_a_torn_update_is_sent_again_and_added_once)
{
    (void)state;
    struct bench bench;
    struct server server;
    set_up_adding(&bench, &server);
    struct message push = {.kind = WIRE_PUSH, .from = 1, .rank = 1, .count = 1, .landed = true};
    assert_int_equal(server_landing(&server, &push).space, CORE_ADD);
    server_lost(&server, &push); /* torn: nothing of it is in the sum */
    assert_int_equal(server_landing(&server, &push).space, CORE_ADD);
    assert_true(server_adds(&server, &push));
    server_message(&server, &push, &bench.out);
    assert_int_equal(bench.sink.ops, 0); /* the host has added it */
    assert_int_equal(server.units[0].gather.in, 1);
    assert_false(server_adds(&server, &push)); /* a second copy */
    assert_int_equal(server_landing(&server, &push).space, CORE_NOWHERE);
    server_fini(&server);
    tear_down(&bench);
}

TEST(without_order_what_comes_after_its_clock_is_not_added)
{
    (void)state;
    struct bench bench;
    struct server server;
    set_up_adding(&bench, &server);
    struct message push = {.kind = WIRE_PUSH, .from = 1, .rank = 1, .count = 1, .landed = true};
    assert_int_equal(server_landing(&server, &push).space, CORE_ADD);
    struct message nothing = {.kind = WIRE_NOTHING}, init = {.kind = WIRE_INIT, .landed = true};
    for (init.part = 0; init.part < bench.layout->layers[0].parts; init.part++)
        server_message(&server, &init, &bench.out);
    uint64_t departed = 2;
    server_view(&server, &departed, &bench.out); /* nobody waits for rank 1 any more */
    for (nothing.rank = 0; nothing.rank < 3; nothing.rank += 2) {
        nothing.from = nothing.rank;
        server_message(&server, &nothing, &bench.out);
    }
    assert_int_equal(server.units[0].version, 1);
    assert_false(server_adds(&server, &push));
    server_fini(&server);
    tear_down(&bench);
}

TEST(data_that_was_given_no_place_does_not_count)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "sfb", 0);
    for (uint32_t part = 0; part < 3; part++) {
        struct message message = factors(1, 0, part);
        message.landed = false;
        worker_message(&bench.worker, &message, &bench.out);
    }
    assert_int_equal(bench.worker.syncers[0].generation[0].in, 0);
    tear_down(&bench);
    struct server server;
    struct core_rules rules = {.reproducible = true};
    set_up(&bench, "ps", 0);
    assert_int_equal(server_init(&server, bench.layout, &rules, 0, 0, &mem_libc, NULL), TRI_OK);
    struct message push = {.kind = WIRE_PUSH, .from = 1, .rank = 1, .count = 1};
    server_message(&server, &push, &bench.out);
    assert_int_equal(server.units[0].gather.in, 0);
    push.landed = true;
    server_message(&server, &push, &bench.out);
    assert_int_equal(server.units[0].gather.in, 1);
    server_fini(&server);
    tear_down(&bench);
}

TEST(nobody_pushes_for_another_rank)
{
    (void)state;
    struct bench bench;
    struct server server;
    struct core_rules rules = {.reproducible = true};
    set_up(&bench, "ps", 0);
    assert_int_equal(server_init(&server, bench.layout, &rules, 0, 0, &mem_libc, NULL), TRI_OK);
    struct message push = {.kind = WIRE_PUSH, .from = 2, .rank = 1, .count = 1, .landed = true};
    assert_int_equal(server_landing(&server, &push).space, CORE_NOWHERE);
    server_message(&server, &push, &bench.out);
    assert_int_equal(server.units[0].gather.in, 0);
    server_fini(&server);
    tear_down(&bench);
}

TEST(nothing_lands_nowhere)
{
    (void)state;
    struct bench bench;
    struct server server;
    struct core_rules rules = {.reproducible = true};
    struct message nothing = {.kind = WIRE_NOTHING, .from = 1, .rank = 1};
    set_up(&bench, "ps", 0);
    assert_int_equal(server_init(&server, bench.layout, &rules, 0, 0, &mem_libc, NULL), TRI_OK);
    assert_int_equal(worker_landing(&bench.worker, &nothing).space, CORE_NOWHERE);
    assert_int_equal(server_landing(&server, &nothing).space, CORE_NOWHERE);
    server_fini(&server);
    tear_down(&bench);
}

TEST(a_unit_does_not_step_while_it_is_copied)
{
    (void)state;
    struct bench bench;
    struct server server;
    struct core_rules rules = {.reproducible = true};
    set_up(&bench, "ps", 0);
    assert_int_equal(server_init(&server, bench.layout, &rules, 0, 0, &mem_libc, NULL), TRI_OK);
    struct message init = {.kind = WIRE_INIT, .landed = true}, mark = mark_at(1);
    for (init.part = 0; init.part < bench.layout->layers[0].parts; init.part++)
        server_message(&server, &init, &bench.out);
    server_message(&server, &mark, &bench.out);
    struct message nothing = {.kind = WIRE_NOTHING};
    for (nothing.clock = 0; nothing.clock < 2; nothing.clock++)
        for (nothing.rank = 0; nothing.rank < 3; nothing.rank++) {
            nothing.from = nothing.rank;
            server_message(&server, &nothing, &bench.out);
        }
    assert_int_equal(server.units[0].version, 1); /* all are in for clock 1, and it waits */
    struct core_op copy = {.kind = CORE_OP_COPY, .clock = 1};
    server_done(&server, &copy, &bench.out);
    assert_int_equal(server.units[0].version, 2);
    server_fini(&server);
    tear_down(&bench);
}

TEST(a_late_push_lands_nowhere_on_the_server)
{
    (void)state;
    struct bench bench;
    struct server server;
    struct core_rules rules = {.reproducible = true};
    set_up(&bench, "ps", 0);
    assert_int_equal(server_init(&server, bench.layout, &rules, 0, 7, &mem_libc, NULL), TRI_OK);
    struct message push = {.kind = WIRE_PUSH, .from = 1, .rank = 1, .clock = 7, .count = 1};
    assert_int_equal(server_landing(&server, &push).space, CORE_LANDING);
    assert_int_equal(server_landing(&server, &push).space, CORE_NOWHERE); /* a second copy */
    server_lost(&server, &push); /* its connection broke: it comes again */
    assert_int_equal(server_landing(&server, &push).space, CORE_LANDING);
    push.clock = 6;
    assert_int_equal(server_landing(&server, &push).space, CORE_NOWHERE);
    push.clock = 8;
    assert_int_equal(server_landing(&server, &push).space, CORE_NOWHERE);
    push.clock = 7;
    push.part = 1; /* another server's */
    assert_int_equal(server_landing(&server, &push).space, CORE_NOWHERE);
    push.part = 0;
    push.kind = WIRE_FACTORS; /* this layer travels dense */
    assert_int_equal(server_landing(&server, &push).space, CORE_NOWHERE);
    server_fini(&server);
    tear_down(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_update_in_one_iteration_is_refused),
        cmocka_unit_test(an_update_before_the_last_one_is_back_is_refused),
        cmocka_unit_test(factor_rows_beyond_what_was_described_are_refused),
        cmocka_unit_test(factors_that_cannot_be_right_land_nowhere),
        cmocka_unit_test(a_second_copy_is_dropped),
        cmocka_unit_test(a_peer_one_clock_ahead_is_kept_for_later),
        cmocka_unit_test(busy_parameters_are_not_touched_before_the_iteration_ends),
        cmocka_unit_test(nothing_leaves_only_after_the_clock_before_is_applied),
        cmocka_unit_test(a_late_push_changes_nothing_on_the_server),
        cmocka_unit_test(a_second_copy_of_initial_values_is_dropped),
        cmocka_unit_test(a_copy_that_comes_while_the_first_is_coming_in_lands_nowhere),
        cmocka_unit_test(losing_another_kind_of_message_frees_no_place_of_a_result),
        cmocka_unit_test(a_witness_lands_results_in_the_stage_and_others_in_place),
        cmocka_unit_test(results_for_busy_parameters_wait_in_the_stage),
        cmocka_unit_test(an_update_after_a_clock_without_one_needs_a_sync_first),
        cmocka_unit_test(a_result_for_a_layer_on_workers_is_ignored),
        cmocka_unit_test(an_update_before_the_initial_values_is_refused),
        cmocka_unit_test(a_worker_alone_can_be_many_clocks_of_nothing_behind),
        cmocka_unit_test(a_mark_that_comes_too_late_is_refused_with_the_clock_reached),
        cmocka_unit_test(an_overtaken_mark_and_its_copies_do_not_count),
        cmocka_unit_test(what_comes_while_parameters_are_copied_waits_in_the_stage),
        cmocka_unit_test(a_server_refuses_a_mark_that_it_has_reached),
        cmocka_unit_test(without_order_a_unit_has_one_part),
        cmocka_unit_test(without_order_a_torn_update_is_sent_again_and_added_once),
        cmocka_unit_test(without_order_what_comes_after_its_clock_is_not_added),
        cmocka_unit_test(data_that_was_given_no_place_does_not_count),
        cmocka_unit_test(nobody_pushes_for_another_rank),
        cmocka_unit_test(nothing_lands_nowhere),
        cmocka_unit_test(a_unit_does_not_step_while_it_is_copied),
        cmocka_unit_test(a_late_push_lands_nowhere_on_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
