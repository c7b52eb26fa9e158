/* run/calls: which message a socket gets next. */
#include "run/inside.h"

#include <string.h>

#include "lib/test.h"

static struct host host;
static struct peer peer;

static int open_host(void **state)
{
    (void)state;
    memset(&host, 0, sizeof host);
    memset(&peer, 0, sizeof peer);
    host.options.sockets = 1;
    host.peers = &peer;
    queue_init(&peer.control, &mem_libc);
    queue_init(&peer.values, &mem_libc);
    return pthread_mutex_init(&host.lock, NULL);
}

static int close_host(void **state)
{
    (void)state;
    queue_fini(&peer.control);
    queue_fini(&peer.values);
    return pthread_mutex_destroy(&host.lock);
}

static void wait_in_line(struct queue *queue, enum wire_kind kind, uint32_t layer,
                         struct outgoing *out)
{
    const struct message message = {.kind = kind, .layer = layer};
    const struct core_ref nowhere = {.space = CORE_NOWHERE};
    assert_int_equal(queue_push(queue, &message, &nowhere, out, NULL), TRI_OK);
}

static const void *given_to(uint32_t socket)
{
    struct transport_out out = {0};
    return host_calls.next(&host, 0, socket, &out) ? out.tag : NULL;
}

TEST(a_short_message_that_is_most_urgent_has_a_socket_of_its_own)
{
    (void)state;
    struct outgoing chunk = {.data_bytes = 2 << 20}, small = {.data_bytes = 64 << 10};
    wait_in_line(&peer.values, WIRE_PUSH, 4, &chunk);
    assert_null(given_to(1)); /* the last socket: no chunks */
    wait_in_line(&peer.values, WIRE_PUSH, 0, &small);
    assert_ptr_equal(given_to(1), &small);
    assert_ptr_equal(given_to(0), &chunk);
    assert_null(given_to(0));
}

TEST(a_short_message_does_not_overtake_a_more_urgent_chunk)
{
    (void)state;
    struct outgoing chunk = {.data_bytes = (64 << 10) + 4}, small = {.data_bytes = 4};
    wait_in_line(&peer.values, WIRE_PUSH, 4, &chunk);
    wait_in_line(&peer.values, WIRE_PUSH, 9, &small);
    assert_null(given_to(1));
    assert_ptr_equal(given_to(0), &chunk);
    assert_ptr_equal(given_to(1), &small);
}

TEST(what_steers_the_job_keeps_to_the_first_socket)
{
    (void)state;
    struct outgoing clock = {.data_bytes = 0}, small = {.data_bytes = 4};
    wait_in_line(&peer.control, WIRE_CLOCK, 0, &clock);
    assert_null(given_to(1));
    wait_in_line(&peer.values, WIRE_PUSH, 0, &small);
    assert_ptr_equal(given_to(0), &clock);
    assert_ptr_equal(given_to(0), &small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_short_message_that_is_most_urgent_has_a_socket_of_its_own,
                                        open_host, close_host),
        cmocka_unit_test_setup_teardown(a_short_message_does_not_overtake_a_more_urgent_chunk,
                                        open_host, close_host),
        cmocka_unit_test_setup_teardown(what_steers_the_job_keeps_to_the_first_socket, open_host,
                                        close_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
