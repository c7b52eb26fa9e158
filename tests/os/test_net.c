/* os/net, os/poller: addresses, sockets that never block, being woken. */
#include "os/net.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/poller.h"

#include "lib/test.h"

/* ---- addresses ---- */

static void reads_as(const char *text, const char *expected)
{
    struct net_address found[NET_ADDRESSES];
    char back[NET_TEXT];
    size_t count = 0;
    assert_int_equal(net_resolve(text, found, &count, NULL), TRI_OK);
    assert_in_range(count, 1, NET_ADDRESSES);
    net_text(&found[0], back);
    assert_string_equal(back, expected);
}

TEST(numbers_of_both_families_are_read_and_written)
{
    (void)state;
    reads_as("127.0.0.1:7000", "127.0.0.1:7000");
    reads_as("0.0.0.0:0", "0.0.0.0:0");
    reads_as("[::]:65535", "[::]:65535");
    reads_as("[0:0::1]:1", "[::1]:1");
    reads_as("[::ffff:10.0.0.1]:80", "10.0.0.1:80"); /* IPv4 in disguise */
}

TEST(what_is_no_address_is_refused_with_an_example)
{
    (void)state;
    static const char *const wrong[] = {
        "",           ":",          "host",      "host:",   ":7000",   "1.2.3.4:x",
        "::1:7000",   "[::1]7000",  "[::1:7000", "[]:7000", "a:65536", "a:-1",
        "a:70000000", "127.0.0.1 ", "[::1]:1x2", "[:7000"};
    struct net_address found[NET_ADDRESSES];
    size_t count;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tri_error err = {0};
        assert_int_equal(net_resolve(wrong[i], found, &count, &err), TRI_EINPUT);
        assert_non_null(strstr(err.text, "is not an address"));
        assert_non_null(strstr(err.next, "10.0.0.1:7000"));
    }
}

TEST(a_host_that_nobody_knows_is_named)
{
    (void)state;
    struct net_address found[NET_ADDRESSES];
    size_t count;
    tri_error err = {0};
    assert_int_equal(net_resolve("no-such-host.invalid:7000", found, &count, &err), TRI_EIO);
    assert_non_null(strstr(err.text, "no-such-host.invalid"));
}

/* ---- sockets ---- */

static short wait_for(int fd, short events)
{
    struct pollfd at = {.fd = fd, .events = events};
    assert_int_equal(poll(&at, 1, 10000), 1);
    return at.revents;
}

/* Connects to text where a socket listens on `listen`; out has the caller's and the other end. */
static void connect_pair(const char *listen, int out[2], char from[NET_TEXT])
{
    char where[NET_TEXT];
    struct net_address to[NET_ADDRESSES], who;
    size_t count;
    int fd = -1;
    assert_int_equal(net_listen(listen, &fd, where, NULL), TRI_OK);
    char dial[NET_TEXT];
    (void)snprintf(dial, sizeof dial, "127.0.0.1%s", strrchr(where, ':'));
    if (strncmp(where, "[::1]", 5) == 0)
        memcpy(dial, where, sizeof dial);
    assert_int_equal(net_resolve(dial, to, &count, NULL), TRI_OK);
    assert_int_equal(net_accept(fd, &who), -1);
    assert_int_equal(errno, EAGAIN);
    out[0] = net_connect(&to[0]);
    assert_true(out[0] >= 0);
    (void)wait_for(fd, POLLIN);
    out[1] = net_accept(fd, &who);
    assert_true(out[1] >= 0);
    (void)wait_for(out[0], POLLOUT);
    assert_int_equal(net_connected(out[0]), 0);
    net_text(&who, from);
    net_close(fd);
}

TEST(both_families_connect_and_know_that_it_is_one_host)
{
    (void)state;
    static const char *const listen[] = {"127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"};
    for (size_t i = 0; i < 4; i++) {
        int fds[2];
        char from[NET_TEXT];
        connect_pair(listen[i], fds, from);
        assert_int_equal(strncmp(from, i == 1 ? "[::1]:" : "127.0.0.1:", 6), 0);
        assert_true(net_same_host(fds[0]) && net_same_host(fds[1]));
        net_close(fds[0]);
        net_close(fds[1]);
    }
}

TEST(tuning_sets_what_it_says)
{
    (void)state;
    int fds[2], value = 0;
    char from[NET_TEXT], name[NET_CONGESTION];
    socklen_t len = sizeof value;
    connect_pair("127.0.0.1:0", fds, from);
    const struct net_tuning tuning = {.silence_ms = 9000, .unsent_bytes = 262144};
    net_tune(fds[0], &tuning);
    assert_int_equal(getsockopt(fds[0], IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &len), 0);
    assert_int_equal(value, 9000);
    assert_int_equal(getsockopt(fds[0], IPPROTO_TCP, TCP_NOTSENT_LOWAT, &value, &len), 0);
    assert_int_equal(value, 262144);
    assert_int_equal(getsockopt(fds[0], IPPROTO_TCP, TCP_KEEPIDLE, &value, &len), 0);
    assert_int_equal(value, 3);
    assert_int_equal(getsockopt(fds[0], SOL_SOCKET, SO_KEEPALIVE, &value, &len), 0);
    assert_int_equal(value, 1);
    net_congestion(fds[0], name);
    assert_true(strcmp(name, "cubic") == 0 || strcmp(name, "reno") == 0);
    const struct net_tuning reno = {.congestion = "reno"}, none = {.congestion = "no-such"};
    net_tune(fds[1], &reno);
    net_tune(fds[1], &none); /* changes nothing */
    net_congestion(fds[1], name);
    assert_string_equal(name, "reno");
    net_close(fds[0]);
    net_close(fds[1]);
}

TEST(bytes_move_without_blocking_until_the_end)
{
    (void)state;
    int fds[2];
    char from[NET_TEXT], in[8] = "";
    connect_pair("127.0.0.1:0", fds, from);
    struct iovec out[2] = {{.iov_base = "abc", .iov_len = 3}, {.iov_base = "de", .iov_len = 2}};
    struct iovec room = {.iov_base = in, .iov_len = sizeof in};
    assert_int_equal(net_recv(fds[1], &room, 1), 0);
    assert_int_equal(net_send(fds[0], out, 2), 5);
    (void)wait_for(fds[1], POLLIN);
    assert_int_equal(net_recv(fds[1], &room, 1), 5);
    assert_memory_equal(in, "abcde", 5);
    assert_int_equal(net_send(fds[0], out, 2), 5);
    net_end(fds[0]);
    (void)wait_for(fds[1], POLLIN);
    net_discard(fds[1], 1 << 20);
    (void)wait_for(fds[1], POLLIN);
    errno = 1;
    assert_int_equal(net_recv(fds[1], &room, 1), -1);
    assert_int_equal(errno, 0); /* it was closed */
    net_close(fds[1]);
    while (net_send(fds[0], out, 2) >= 0)
        ; /* and no signal */
    assert_int_equal(errno, EPIPE);
    net_close(fds[0]);
}

TEST(nobody_listens_and_that_is_refused)
{
    (void)state;
    char where[NET_TEXT];
    struct net_address to[NET_ADDRESSES];
    size_t count;
    int fd = -1;
    assert_int_equal(net_listen("127.0.0.1:0", &fd, where, NULL), TRI_OK);
    assert_int_equal(net_resolve(where, to, &count, NULL), TRI_OK);
    net_close(fd);
    fd = net_connect(&to[0]);
    if (fd >= 0) {
        (void)wait_for(fd, POLLOUT);
        assert_int_equal(net_connected(fd), ECONNREFUSED);
    }
    net_close(fd);
}

TEST(a_connection_to_oneself_is_none)
{
    (void)state;
    struct net_address at[NET_ADDRESSES];
    size_t count;
    socklen_t len = sizeof at[0].at;
    assert_int_equal(net_resolve("127.0.0.1:0", at, &count, NULL), TRI_OK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at[0].at, at[0].len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at[0].at, &len), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at[0].at, len), 0);
    assert_int_equal(net_connected(fd), ECONNREFUSED);
    net_close(fd);
}

TEST(addresses_that_cannot_be_had_say_what_to_do)
{
    (void)state;
    char where[NET_TEXT], other[NET_TEXT];
    tri_error err = {0};
    int fd = -1, none = -1;
    assert_int_equal(net_listen("127.0.0.1:0", &fd, where, &err), TRI_OK);
    assert_int_equal(net_listen(where, &none, other, &err), TRI_EIO);
    assert_non_null(strstr(err.text, where));
    assert_non_null(strstr(err.next, "ss -ltnp"));
    assert_int_equal(net_listen("192.0.2.1:0", &none, other, &err), TRI_EIO);
    assert_non_null(strstr(err.next, "ip -brief address"));
    assert_int_equal(none, -1);
    net_close(fd);
    assert_int_equal(net_listen(where, &fd, other, &err), TRI_OK); /* free again at once */
    net_close(fd);
}

/* ---- the poller ---- */

struct watched {
    struct poller_source source;
    struct poller *poller;
    struct watched *other; /* is removed when this one is called */
    unsigned calls, what;
};

static void note(struct poller_source *source, unsigned what)
{
    struct watched *watched = (struct watched *)source;
    watched->calls++;
    watched->what |= what;
    if (watched->other != NULL)
        poller_remove(watched->poller, &watched->other->source);
}

TEST(a_source_hears_of_edges_once)
{
    (void)state;
    int fds[2];
    char from[NET_TEXT];
    struct poller *poller = NULL;
    assert_int_equal(poller_open(&mem_libc, &poller, NULL), TRI_OK);
    connect_pair("127.0.0.1:0", fds, from);
    struct watched watched = {.source = {.fd = fds[1], .ready = note}};
    assert_int_equal(poller_add(poller, &watched.source, NULL), TRI_OK);
    assert_int_equal(poller_wait(poller, 1000, NULL), TRI_OK);
    assert_int_equal(watched.what, POLLER_WRITE);
    assert_int_equal(write(fds[0], "x", 1), 1);
    assert_int_equal(poller_wait(poller, 1000, NULL), TRI_OK);
    assert_int_equal(watched.what, POLLER_WRITE | POLLER_READ);
    assert_int_equal(poller_wait(poller, 1, NULL), TRI_OK);
    assert_int_equal(watched.calls, 2);
    net_close(fds[0]);
    assert_int_equal(poller_wait(poller, 1000, NULL), TRI_OK);
    assert_true((watched.what & POLLER_END) != 0);
    poller_remove(poller, &watched.source);
    net_close(fds[1]);
    poller_close(poller);
}

TEST(a_source_removed_by_another_is_not_called)
{
    (void)state;
    int fds[2];
    char from[NET_TEXT];
    struct poller *poller = NULL;
    assert_int_equal(poller_open(&mem_libc, &poller, NULL), TRI_OK);
    connect_pair("127.0.0.1:0", fds, from);
    struct watched a = {.source = {.fd = fds[0], .ready = note}, .poller = poller};
    struct watched b = {.source = {.fd = fds[1], .ready = note}, .poller = poller, .other = &a};
    a.other = &b;
    assert_int_equal(poller_add(poller, &a.source, NULL), TRI_OK);
    assert_int_equal(poller_add(poller, &b.source, NULL), TRI_OK);
    assert_int_equal(poller_wait(poller, 1000, NULL), TRI_OK); /* both are writable */
    assert_int_equal(a.calls + b.calls, 1);
    net_close(fds[0]);
    net_close(fds[1]);
    poller_close(poller);
}

struct sleeper {
    struct poller *poller;
    atomic_uint woken, posted;
};

static void *sleep_and_count(void *arg)
{
    struct sleeper *sleeper = arg;
    unsigned seen = 0;
    while (seen < 20000) {
        if (poller_wait(sleeper->poller, -1, NULL) != TRI_OK)
            break;
        seen = atomic_load(&sleeper->posted);
        atomic_store(&sleeper->woken, seen);
    }
    return NULL;
}

TEST(no_poke_is_lost)
{
    (void)state;
    struct sleeper sleeper = {0};
    pthread_t thread;
    assert_int_equal(poller_open(&mem_libc, &sleeper.poller, NULL), TRI_OK);
    assert_int_equal(pthread_create(&thread, NULL, sleep_and_count, &sleeper), 0);
    for (unsigned i = 1; i <= 20000; i++) {
        atomic_store(&sleeper.posted, i);
        poller_poke(sleeper.poller);
        int64_t limit = poller_now_ms() + 20000;
        while (i % 2 == 0 && atomic_load(&sleeper.woken) < i)
            assert_true(poller_now_ms() < limit);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    poller_close(sleeper.poller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_both_families_are_read_and_written),
        cmocka_unit_test(what_is_no_address_is_refused_with_an_example),
        cmocka_unit_test(a_host_that_nobody_knows_is_named),
        cmocka_unit_test(both_families_connect_and_know_that_it_is_one_host),
        cmocka_unit_test(tuning_sets_what_it_says),
        cmocka_unit_test(bytes_move_without_blocking_until_the_end),
        cmocka_unit_test(nobody_listens_and_that_is_refused),
        cmocka_unit_test(a_connection_to_oneself_is_none),
        cmocka_unit_test(addresses_that_cannot_be_had_say_what_to_do),
        cmocka_unit_test(a_source_hears_of_edges_once),
        cmocka_unit_test(a_source_removed_by_another_is_not_called),
        cmocka_unit_test(no_poke_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
