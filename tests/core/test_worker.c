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
};

static void take(void *ctx, const struct core_action *action)
{
    struct sink *sink = ctx;
    sink->sends += action->kind == CORE_SEND;
    sink->ops += action->kind == CORE_OP;
    sink->wakes += action->kind == CORE_WAKE;
    sink->fails += action->kind == CORE_FAIL;
    sink->last = *action;
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
    assert_string_equal(err.text, "layer 0 takes 1 to 4 factor rows, not 5");
    update.rows = 0;
    assert_int_equal(worker_update(&bench.worker, 0, &update, &bench.out, &err), TRI_EARG);
    update = good;
    update.count = 0;
    assert_int_equal(worker_update(&bench.worker, 0, &update, &bench.out, &err), TRI_EARG);
    assert_string_equal(err.text, "layer 0 was given an update with count 0");
    assert_int_equal(worker_update(&bench.worker, 1, &good, &bench.out, &err), TRI_EARG);
    tear_down(&bench);
}

/* ---- messages ---- */

static struct message factors(uint32_t rank, uint64_t clock, uint32_t part)
{
    return (struct message){.kind = WIRE_FACTORS,
                            .rank = rank,
                            .clock = clock,
                            .rows = 4,
                            .parts = 3,
                            .part = part,
                            .count = 4,
                            .lr_bits = 0x3dcccccd};
}

TEST(factors_that_cannot_be_right_land_nowhere)
{
    (void)state;
    struct bench bench;
    set_up(&bench, "sfb", 0);
    struct message right = factors(1, 0, 0);
    assert_int_equal(worker_landing(&bench.worker, &right).space, CORE_FACTORS);
    struct message wrong[6];
    for (size_t i = 0; i < 6; i++)
        wrong[i] = right;
    wrong[0].layer = 1;
    wrong[1].clock = 2; /* two ahead: nobody can be */
    wrong[2].rows = 5;
    wrong[3].parts = 2;
    wrong[4].part = 3;
    wrong[5].rank = 3;
    for (size_t i = 0; i < 6; i++) {
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
    struct message nothing = {.kind = WIRE_NOTHING, .rank = 1, .clock = 0};
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
        struct message result = {.kind = WIRE_RESULT, .part = part, .unchanged = true};
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
    struct message push = {.kind = WIRE_PUSH, .rank = 1, .clock = 6, .count = 1};
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
    struct message init = {.kind = WIRE_INIT};
    assert_int_equal(server_landing(&server, &init).space, CORE_SHARD);
    server_message(&server, &init, &bench.out);
    size_t sends = bench.sink.sends;
    assert_int_equal(server_landing(&server, &init).space, CORE_NOWHERE);
    server_message(&server, &init, &bench.out);
    assert_int_equal(bench.sink.sends, sends);
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
    struct message push = {.kind = WIRE_PUSH, .rank = 1, .clock = 7, .count = 1};
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
        cmocka_unit_test(a_late_push_lands_nowhere_on_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
