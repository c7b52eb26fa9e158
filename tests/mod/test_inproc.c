/* The inproc transport: what the tests of others stand on. */
#include <string.h>

#include "mod/ends.h"

static struct end ends[ENDS];

static void open_end(uint32_t id, const char *listen)
{
    struct transport_options options = end_options(&ends[id], id, 2, listen);
    options.connect_ms = 300;
    end_open_with(&ends[id], "inproc", &options);
}

static const char *address(uint32_t id)
{
    return ends[id].ops->address(ends[id].transport);
}

static void offer(uint32_t from, uint32_t to, uint32_t messages)
{
    atomic_store(&ends[from].to_send[to], messages);
    ends[from].ops->send(ends[from].transport, to);
}

static void open_two(void)
{
    open_end(0, "inproc:0");
    open_end(1, "inproc:0");
}

static void join_two(void)
{
    end_connect(&ends[1], 0, address(0));
    UNTIL(ends, 2, atomic_load(&ends[0].ups[1]) == 1 && atomic_load(&ends[1].ups[0]) == 1);
}

static void close_ends(void)
{
    for (uint32_t i = 0; i < ENDS; i++)
        if (ends[i].ops != NULL && ends[i].transport != NULL)
            end_close(&ends[i]);
}

static bool all_arrived(uint32_t count, uint32_t messages)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < count; j++)
            if (i != j && atomic_load(&ends[i].received[j]) < messages)
                return false;
    return true;
}

TEST(three_threads_exchange_messages_of_all_sizes)
{
    (void)state;
    for (uint32_t i = 0; i < ENDS; i++) {
        open_end(i, "inproc:0");
        for (uint32_t j = 0; j < ENDS; j++)
            atomic_store(&ends[i].to_send[j], 3000);
        for (uint32_t j = 0; j < i; j++)
            end_connect(&ends[i], j, address(j));
    }
    for (uint32_t i = 0; i < ENDS; i++)
        end_start(&ends[i]);
    UNTIL(ends, ENDS, all_arrived(ENDS, 3000));
    for (uint32_t i = 0; i < ENDS; i++)
        end_halt(&ends[i]);
    for (uint32_t i = 0; i < ENDS; i++)
        assert_int_equal(atomic_load(&ends[i].sent), 6000);
    close_ends();
}

TEST(a_full_inbox_makes_the_sender_wait)
{
    (void)state;
    open_two();
    join_two();
    ends[0].big = ends[1].big = 1 << 20;
    offer(1, 0, 100);
    for (int i = 0; i < 50; i++)
        end_poll(&ends[1], 0);
    assert_in_range(atomic_load(&ends[1].sent), 30, 34);
    UNTIL(ends, 2, atomic_load(&ends[0].received[1]) == 100);
    close_ends();
}

TEST(connecting_may_begin_before_listening)
{
    (void)state;
    open_end(1, "inproc:one");
    end_connect(&ends[1], 0, "inproc:zero");
    for (int i = 0; i < 5; i++)
        end_poll(&ends[1], 1);
    open_end(0, "inproc:zero");
    UNTIL(ends, 2, atomic_load(&ends[0].ups[1]) == 1 && atomic_load(&ends[1].ups[0]) == 1);
    close_ends();
}

TEST(both_may_call_each_other)
{
    (void)state;
    open_two();
    end_connect(&ends[1], 0, address(0));
    end_connect(&ends[0], 1, address(1));
    UNTIL(ends, 2, atomic_load(&ends[0].ups[1]) == 1 && atomic_load(&ends[1].ups[0]) == 1);
    offer(1, 0, 50);
    offer(0, 1, 50);
    UNTIL(ends, 2, all_arrived(2, 50));
    close_ends();
}

TEST(nobody_answers_and_that_is_said)
{
    (void)state;
    open_end(1, "inproc:0");
    end_connect(&ends[1], 0, "inproc:nobody");
    UNTIL(ends, 2, atomic_load(&ends[1].downs[0]) == 1);
    assert_string_equal(ends[1].why, "no answer in time");
    close_ends();
}

TEST(a_greeting_that_is_refused_does_not_come_up)
{
    (void)state;
    open_two();
    ends[0].refuse = 1;
    end_connect(&ends[1], 0, address(0));
    UNTIL(ends, 2, atomic_load(&ends[1].downs[0]) == 1);
    assert_int_equal(atomic_load(&ends[0].ups[1]) + atomic_load(&ends[1].ups[0]), 0);
    close_ends();
}

TEST(a_peer_that_goes_is_heard_out_and_told_once)
{
    (void)state;
    open_two();
    join_two();
    offer(0, 1, 30);
    while (atomic_load(&ends[0].sent) < 30)
        end_poll(&ends[0], 0);
    end_close(&ends[0]);
    UNTIL(ends, 2, atomic_load(&ends[1].downs[0]) == 1);
    assert_int_equal(atomic_load(&ends[1].received[0]), 30);
    offer(1, 0, 5);
    for (int i = 0; i < 5; i++)
        end_poll(&ends[1], 1);
    assert_int_equal(atomic_load(&ends[1].downs[0]), 1);
    assert_int_equal(atomic_load(&ends[1].taken[0]), 0);
    close_ends();
}

TEST(a_drop_ends_it_on_both_sides)
{
    (void)state;
    open_two();
    join_two();
    ends[0].drop_at_done = 2;
    offer(1, 0, 500);
    UNTIL(ends, 2, atomic_load(&ends[0].downs[1]) == 1 && atomic_load(&ends[1].downs[0]) == 1);
    assert_int_equal(atomic_load(&ends[0].received[1]), 2);
    assert_string_equal(ends[0].why, "dropped by this process");
    close_ends();
}

TEST(what_the_host_or_the_limits_refuse_drops_the_peer)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        open_two();
        join_two();
        ends[0].refuse_place = i == 0;
        ends[0].refuse_done = i == 1;
        ends[0].limits.nodes = i == 2 ? 1 : WIRE_MAX_NODES;
        offer(1, 0, 3);
        UNTIL(ends, 2, atomic_load(&ends[0].downs[1]) == 1 && atomic_load(&ends[1].downs[0]) == 1);
        assert_int_equal(atomic_load(&ends[0].nonsenses), i == 2);
        close_ends();
    }
}

TEST(a_host_that_finds_too_little_place_loses_the_peer)
{
    (void)state;
    open_two();
    join_two();
    ends[0].short_place = true;
    ends[0].big = ends[1].big = 100;
    offer(1, 0, 3);
    UNTIL(ends, 2, atomic_load(&ends[0].downs[1]) == 1 && atomic_load(&ends[1].downs[0]) == 1);
    assert_int_equal(atomic_load(&ends[0].broken), 1);
    assert_int_equal(atomic_load(&ends[0].received[1]), 0);
    close_ends();
}

TEST(wrong_addresses_and_taken_names_are_told)
{
    (void)state;
    tri_error err = {0};
    struct transport *none = NULL;
    open_end(0, "inproc:taken");
    struct transport_options options = end_options(&ends[1], 1, 1, "inproc:taken");
    const struct transport_ops *ops = transport_find("inproc");
    assert_int_equal(ops->open(&options, &none, &err), TRI_EIO);
    options.listen = "127.0.0.1:0";
    assert_int_equal(ops->open(&options, &none, &err), TRI_EINPUT);
    assert_int_equal(ops->connect(ends[0].transport, 1, "inproc:", &err), TRI_EINPUT);
    assert_int_equal(ops->connect(ends[0].transport, ENDS, "inproc:x", &err), TRI_EARG);
    assert_int_equal(ends[1].memory.live, 0);
    close_ends();
}

TEST(refused_memory_is_survived)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        tri_error err = {0};
        struct transport *transport = NULL;
        struct transport_options options = end_options(&ends[1], 1, 2, "inproc:0");
        options.mem = &fault.mem;
        const struct transport_ops *ops = transport_find("inproc");
        if (ops->open(&options, &transport, &err) == TRI_OK)
            ops->close(transport);
        else
            assert_int_equal(err.status, TRI_ENOMEM);
    }
}

TEST(transports_are_found_by_name)
{
    (void)state;
    const struct transport_ops *ops;
    size_t count = 0;
    for (; (ops = transport_at(count)) != NULL; count++)
        assert_ptr_equal(transport_find(ops->name), ops);
    assert_true(count >= 2);
    assert_null(transport_find("carrier-pigeon"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_threads_exchange_messages_of_all_sizes),
        cmocka_unit_test(a_full_inbox_makes_the_sender_wait),
        cmocka_unit_test(connecting_may_begin_before_listening),
        cmocka_unit_test(both_may_call_each_other),
        cmocka_unit_test(nobody_answers_and_that_is_said),
        cmocka_unit_test(a_greeting_that_is_refused_does_not_come_up),
        cmocka_unit_test(a_peer_that_goes_is_heard_out_and_told_once),
        cmocka_unit_test(a_drop_ends_it_on_both_sides),
        cmocka_unit_test(what_the_host_or_the_limits_refuse_drops_the_peer),
        cmocka_unit_test(a_host_that_finds_too_little_place_loses_the_peer),
        cmocka_unit_test(wrong_addresses_and_taken_names_are_told),
        cmocka_unit_test(refused_memory_is_survived),
        cmocka_unit_test(transports_are_found_by_name),
    };
    make_noise();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
