/* The failure detector by itself: silence, partners, and the texts of waits. */
#include "core/watch.h"

#include "lib/test.h"

#define SECOND    UINT64_C(1000000)
#define HEARTBEAT UINT64_C(800000)
#define TICK      (HEARTBEAT / 8)
#define START     (7 * SECOND)

static const struct core_times times = {
    .heartbeat = HEARTBEAT, .warn = 10 * SECOND, .limit = 30 * SECOND};

/* Four workers on nodes 0 to 3; server 0 beside worker 1, server 1 on node 4, server 2 on node
 * 5, which owns nothing. */
static uint32_t server_node[] = {1, 4, 5}, server_units[] = {2, 1, 0};

static struct layout layout_of(uint32_t on_workers)
{
    return (struct layout){.workers = 4,
                           .servers = 3,
                           .server_node = server_node,
                           .server_units = server_units,
                           .nodes = 6,
                           .on_workers = on_workers};
}

static void set_up(struct watch *watch, uint32_t self, uint32_t on_workers)
{
    struct layout layout = layout_of(on_workers);
    assert_int_equal(watch_init(watch, &layout, &times, self, &mem_libc, NULL), TRI_OK);
}

static void partners_are(uint32_t self, uint32_t on_workers, uint64_t expected)
{
    struct watch watch;
    set_up(&watch, self, on_workers);
    assert_int_equal(watch.partners[0], expected);
    watch_fini(&watch);
}

/* ---- partners ---- */

TEST(a_worker_watches_the_coordinator_and_servers_that_own_something)
{
    (void)state;
    partners_are(2, 0, 1 << 0 | 1 << 1 | 1 << 4);
}

TEST(workers_watch_each_other_where_a_layer_lives_on_them)
{
    (void)state;
    partners_are(2, 1, 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4);
}

TEST(a_server_watches_all_workers)
{
    (void)state;
    partners_are(4, 0, 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3);
    partners_are(4, 1, 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3); /* other servers say nothing to it */
}

TEST(a_node_that_is_worker_and_server_watches_as_both)
{
    (void)state;
    partners_are(1, 0, 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4);
}

TEST(a_server_without_units_watches_the_coordinator_only)
{
    (void)state;
    partners_are(5, 1, 1 << 0);
}

TEST(the_coordinator_watches_everybody)
{
    (void)state;
    partners_are(0, 0, 0x3e);
}

/* ---- silence ---- */

/* Ticks to some time, `heard` speaking at every tick. */
static uint64_t tick_to(struct watch *watch, uint64_t from, uint64_t to, uint64_t heard)
{
    for (uint64_t now = from + TICK; now <= to; now += TICK) {
        for (uint32_t n = 0; n < watch->nodes; n++)
            if (bits_has(&heard, n))
                watch_heard(watch, n, now);
        watch_tick(watch, now);
        from = now;
    }
    return from;
}

TEST(who_was_not_heard_for_two_and_a_half_heartbeats_is_accused)
{
    (void)state;
    struct watch watch;
    set_up(&watch, 2, 0);
    watch_start(&watch, START);
    watch_tick(&watch, START);
    tick_to(&watch, START, START + 19 * TICK, 1 << 0 | 1 << 1);
    assert_int_equal(watch.accused[0], 0);
    tick_to(&watch, START + 19 * TICK, START + 20 * TICK, 1 << 0 | 1 << 1);
    assert_int_equal(watch.accused[0], 1 << 4); /* 3 and 5 are silent too, and no partners */
    watch_fini(&watch);
}

TEST(who_is_heard_again_is_accused_no_more)
{
    (void)state;
    struct watch watch;
    set_up(&watch, 2, 0);
    watch_start(&watch, START);
    watch_tick(&watch, START);
    uint64_t now = tick_to(&watch, START, START + 22 * TICK, 1 << 0 | 1 << 1);
    assert_int_equal(watch.accused[0], 1 << 4);
    watch_heard(&watch, 4, now + 1);
    watch_tick(&watch, now + TICK);
    assert_int_equal(watch.accused[0], 0);
    watch_fini(&watch);
}

TEST(who_has_departed_is_not_accused)
{
    (void)state;
    struct watch watch;
    set_up(&watch, 2, 0);
    watch_start(&watch, START);
    bits_add(watch.departed, 4);
    watch_tick(&watch, START);
    tick_to(&watch, START, START + 22 * TICK, 1 << 0);
    assert_int_equal(watch.accused[0], 1 << 1);
    watch_fini(&watch);
}

TEST(who_was_never_heard_is_not_accused_before_the_start)
{
    (void)state;
    struct watch watch;
    set_up(&watch, 2, 0);
    watch_tick(&watch, START);
    tick_to(&watch, START, START + 100 * TICK, 1 << 0);
    assert_int_equal(watch.accused[0], 0);
    watch_fini(&watch);
}

TEST(a_node_that_slept_does_not_blame_the_others)
{
    (void)state;
    struct watch watch;
    set_up(&watch, 2, 0);
    watch_start(&watch, START);
    watch_tick(&watch, START);
    uint64_t now = tick_to(&watch, START, START + 10 * TICK, 0);
    watch_tick(&watch, now + 1000 * TICK); /* was stopped */
    assert_int_equal(watch.accused[0], 0);
    /* The silence before the sleep counts on: 10 ticks, and the one that was due. */
    now += 1000 * TICK;
    tick_to(&watch, now, now + 8 * TICK, 0);
    assert_int_equal(watch.accused[0], 0);
    tick_to(&watch, now + 8 * TICK, now + 9 * TICK, 0);
    assert_int_equal(watch.accused[0], 1 << 0 | 1 << 1 | 1 << 4);
    watch_fini(&watch);
}

TEST(a_tick_that_comes_a_little_late_forgives_nothing)
{
    (void)state;
    struct watch watch;
    set_up(&watch, 2, 0);
    watch_start(&watch, START);
    watch_tick(&watch, START);
    for (int i = 1; i <= 10; i++)
        watch_tick(&watch, START + (uint64_t)(2 * i) * TICK);
    assert_int_equal(watch.accused[0], 1 << 0 | 1 << 1 | 1 << 4);
    watch_fini(&watch);
}

TEST(who_was_cut_off_is_not_believed_nor_anybody_right_after_a_sleep)
{
    (void)state;
    struct watch watch;
    set_up(&watch, 0, 0);
    watch_start(&watch, START);
    watch_tick(&watch, START);
    watch_heard(&watch, 4, START + TICK);
    assert_true(watch_believes(&watch, 4, START + TICK));
    assert_false(watch_believes(&watch, 4, START + 3 * HEARTBEAT)); /* silent itself */
    watch_heard(&watch, 4, START + 3 * HEARTBEAT);
    assert_false(watch_believes(&watch, 4, START + 3 * HEARTBEAT)); /* and only just back */
    uint64_t now = START + 100 * HEARTBEAT;
    watch_tick(&watch, now); /* slept */
    watch_heard(&watch, 1, now);
    assert_false(watch_believes(&watch, 1, now));
    assert_true(watch_believes(&watch, 0, now)); /* itself, always */
    watch_heard(&watch, 1, now + HEARTBEAT);
    assert_true(watch_believes(&watch, 1, now + HEARTBEAT + 1));
    watch_fini(&watch);
}

/* A host that wakes up may read what waits in its sockets before it ticks. */
TEST(what_was_heard_after_the_sleep_is_not_forgiven_as_well)
{
    (void)state;
    struct watch watch;
    set_up(&watch, 2, 0);
    watch_start(&watch, START);
    watch_tick(&watch, START);
    uint64_t now = START + 1000 * TICK;
    watch_heard(&watch, 4, now);
    watch_tick(&watch, now);
    tick_to(&watch, now, now + 20 * TICK, 1 << 0 | 1 << 1);
    assert_int_equal(watch.accused[0], 1 << 4);
    watch_fini(&watch);
}

TEST(silence_is_since_the_last_sign_and_none_before_the_first)
{
    (void)state;
    struct watch watch;
    set_up(&watch, 2, 0);
    assert_int_equal(watch_silence(&watch, 4, START), 0);
    watch_heard(&watch, 4, START);
    watch_heard(&watch, 4, START - 5); /* told out of order */
    assert_int_equal(watch_silence(&watch, 4, START + 3), 3);
    watch_fini(&watch);
}

/* ---- waits ---- */

static void take(void *ctx, const struct core_action *action)
{
    struct core_action *last = ctx;
    assert_int_equal(action->kind, CORE_WAIT);
    *last = *action;
}

/* What is told at START + 10 s of a wait that began at START. */
static void tells(const struct watch *watch, const struct watch_missing *missing,
                  const char *expected)
{
    struct core_action last = {0};
    struct core_out out = {.emit = take, .ctx = &last};
    struct watch_wait wait = {.since = START};
    watch_tell(watch, &wait, missing, START + 10 * SECOND, &out);
    assert_string_equal(last.text, expected);
    assert_int_equal(last.layer, missing->layer);
}

/* Twenty workers. */
static void set_up_many(struct watch *watch)
{
    struct layout layout = {.workers = 20, .nodes = 20};
    assert_int_equal(watch_init(watch, &layout, &times, 0, &mem_libc, NULL), TRI_OK);
}

TEST(a_wait_names_layer_ranks_and_the_longest_silence)
{
    (void)state;
    struct watch watch;
    set_up_many(&watch);
    uint64_t set = 1 << 5 | 1 << 7;
    watch_heard(&watch, 5, START + 9 * SECOND);
    watch_heard(&watch, 7, START - 2100000);
    struct watch_missing missing = {
        .what = "fc6", .who = "worker", .set = &set, .members = 20, .layer = 3};
    tells(&watch, &missing, "waiting 10 s for fc6 of workers 5, 7 (last heard 12.1 s ago)");
    watch_fini(&watch);
}

TEST(a_wait_for_one_is_told_in_the_singular)
{
    (void)state;
    struct watch watch;
    set_up_many(&watch);
    uint64_t set = 1 << 5;
    watch_heard(&watch, 5, START + 9500000);
    struct watch_missing missing = {
        .what = "fc6", .who = "worker", .set = &set, .members = 20, .layer = 3};
    tells(&watch, &missing, "waiting 10 s for fc6 of worker 5 (last heard 0.5 s ago)");
    watch_fini(&watch);
}

TEST(a_wait_for_one_who_never_spoke_says_so)
{
    (void)state;
    struct watch watch;
    set_up_many(&watch);
    uint64_t set = 1 << 5 | 1 << 7;
    watch_heard(&watch, 5, START);
    struct watch_missing missing = {
        .what = "HELLO", .who = "node", .set = &set, .members = 20, .layer = UINT32_MAX};
    tells(&watch, &missing, "waiting 10 s for HELLO of nodes 5, 7 (never heard of)");
    watch_fini(&watch);
}

TEST(a_wait_for_this_node_itself_says_nothing_of_hearing)
{
    (void)state;
    struct watch watch;
    set_up_many(&watch);
    uint64_t set = 1;
    struct watch_missing missing = {
        .what = "fc6", .who = "worker", .set = &set, .members = 20, .layer = 0};
    tells(&watch, &missing, "waiting 10 s for fc6 of worker 0");
    watch_fini(&watch);
}

TEST(a_wait_for_many_names_eight)
{
    (void)state;
    struct watch watch;
    set_up_many(&watch);
    uint64_t set = 0xffffe; /* 1 to 19 */
    watch_start(&watch, START);
    struct watch_missing missing = {
        .what = "fc6", .who = "worker", .set = &set, .members = 20, .layer = 0};
    tells(&watch, &missing,
          "waiting 10 s for fc6 of workers 1, 2, 3, 4, 5, 6, 7, 8 and 11 more "
          "(last heard 10.0 s ago)");
    watch_fini(&watch);
}

TEST(a_wait_for_a_server_counts_the_silence_of_its_node)
{
    (void)state;
    struct watch watch;
    set_up_many(&watch);
    uint64_t set = 1 << 1;
    static const uint32_t node_of[] = {3, 4};
    watch_heard(&watch, 1, START + 10 * SECOND);
    watch_heard(&watch, 4, START + 7 * SECOND);
    struct watch_missing missing = {.what = "conv1",
                                    .who = "server",
                                    .set = &set,
                                    .members = 2,
                                    .node_of = node_of,
                                    .layer = 0};
    tells(&watch, &missing, "waiting 10 s for conv1 of server 1 (last heard 3.0 s ago)");
    watch_fini(&watch);
}

TEST(a_wait_is_told_again_after_twice_the_time)
{
    (void)state;
    struct watch watch;
    struct watch_wait wait = {0};
    uint64_t told[8];
    size_t count = 0;
    set_up_many(&watch);
    for (uint64_t s = 0; s <= 100; s++)
        if (watch_waits(&watch, &wait, true, 0, START + s * SECOND))
            told[count++] = s;
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(told[i], 10 << i);
    watch_fini(&watch);
}

TEST(a_new_wait_is_told_from_its_own_beginning)
{
    (void)state;
    struct watch watch;
    struct watch_wait wait = {0};
    set_up_many(&watch);
    assert_false(watch_waits(&watch, &wait, true, 0, START));
    assert_false(watch_waits(&watch, &wait, false, 0, START + 9 * SECOND));
    assert_false(watch_waits(&watch, &wait, true, 0, START + 10 * SECOND));
    assert_false(watch_waits(&watch, &wait, true, 0, START + 19 * SECOND));
    assert_true(watch_waits(&watch, &wait, true, 0, START + 20 * SECOND));
    watch_fini(&watch);
}

TEST(the_wait_for_the_next_version_is_another_one)
{
    (void)state;
    struct watch watch;
    struct watch_wait wait = {0};
    set_up_many(&watch);
    for (uint64_t s = 0; s <= 100; s++) {
        assert_false(watch_waits(&watch, &wait, true, s, START + s * SECOND));
        assert_false(watch_overdue(&watch, &wait, START + s * SECOND));
    }
    watch_fini(&watch);
}

TEST(waits_are_not_told_where_nobody_asked_for_it)
{
    (void)state;
    struct watch watch;
    struct watch_wait wait = {0};
    set_up_many(&watch);
    watch.times.warn = 0;
    for (uint64_t s = 0; s <= 100; s++)
        assert_false(watch_waits(&watch, &wait, true, 0, START + s * SECOND));
    watch_fini(&watch);
}

TEST(a_wait_is_overdue_at_the_limit)
{
    (void)state;
    struct watch watch;
    struct watch_wait wait = {0};
    set_up_many(&watch);
    assert_false(watch_overdue(&watch, &wait, START + 100 * SECOND)); /* nobody waits */
    (void)watch_waits(&watch, &wait, true, 0, START);
    assert_false(watch_overdue(&watch, &wait, START + 30 * SECOND - 1));
    assert_true(watch_overdue(&watch, &wait, START + 30 * SECOND));
    watch.times.limit = 0; /* never */
    assert_false(watch_overdue(&watch, &wait, START + 100 * SECOND));
    watch_fini(&watch);
}

TEST(a_watch_that_gets_no_memory_leaves_none)
{
    (void)state;
    struct fault fault = {0};
    struct layout layout = layout_of(1);
    FAULT_WALK(&fault)
    {
        struct watch watch;
        tri_status status = watch_init(&watch, &layout, &times, 0, &fault.mem, NULL);
        if (status == TRI_OK)
            watch_fini(&watch);
        else
            assert_int_equal(status, TRI_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_watches_the_coordinator_and_servers_that_own_something),
        cmocka_unit_test(workers_watch_each_other_where_a_layer_lives_on_them),
        cmocka_unit_test(a_server_watches_all_workers),
        cmocka_unit_test(a_node_that_is_worker_and_server_watches_as_both),
        cmocka_unit_test(a_server_without_units_watches_the_coordinator_only),
        cmocka_unit_test(the_coordinator_watches_everybody),
        cmocka_unit_test(who_was_not_heard_for_two_and_a_half_heartbeats_is_accused),
        cmocka_unit_test(who_is_heard_again_is_accused_no_more),
        cmocka_unit_test(who_has_departed_is_not_accused),
        cmocka_unit_test(who_was_never_heard_is_not_accused_before_the_start),
        cmocka_unit_test(a_node_that_slept_does_not_blame_the_others),
        cmocka_unit_test(a_tick_that_comes_a_little_late_forgives_nothing),
        cmocka_unit_test(who_was_cut_off_is_not_believed_nor_anybody_right_after_a_sleep),
        cmocka_unit_test(what_was_heard_after_the_sleep_is_not_forgiven_as_well),
        cmocka_unit_test(silence_is_since_the_last_sign_and_none_before_the_first),
        cmocka_unit_test(a_wait_names_layer_ranks_and_the_longest_silence),
        cmocka_unit_test(a_wait_for_one_is_told_in_the_singular),
        cmocka_unit_test(a_wait_for_one_who_never_spoke_says_so),
        cmocka_unit_test(a_wait_for_this_node_itself_says_nothing_of_hearing),
        cmocka_unit_test(a_wait_for_many_names_eight),
        cmocka_unit_test(a_wait_for_a_server_counts_the_silence_of_its_node),
        cmocka_unit_test(a_wait_is_told_again_after_twice_the_time),
        cmocka_unit_test(a_new_wait_is_told_from_its_own_beginning),
        cmocka_unit_test(the_wait_for_the_next_version_is_another_one),
        cmocka_unit_test(waits_are_not_told_where_nobody_asked_for_it),
        cmocka_unit_test(a_wait_is_overdue_at_the_limit),
        cmocka_unit_test(a_watch_that_gets_no_memory_leaves_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
