/* The tcp transport over real sockets on this host. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/net.h"

#include "mod/ends.h"
#include "os/caller.h"

static struct end ends[ENDS];

static void open_end(uint32_t id, uint32_t sockets, const char *listen)
{
    struct transport_options options = end_options(&ends[id], id, sockets, listen);
    end_open_with(&ends[id], "tcp", &options);
}

static const char *address(uint32_t id)
{
    return ends[id].ops->address(ends[id].transport);
}

static void close_ends(void)
{
    for (uint32_t i = 0; i < ENDS; i++)
        if (ends[i].ops != NULL && ends[i].transport != NULL)
            end_close(&ends[i]);
}

/* ---- traffic ---- */

static bool all_arrived(uint32_t count, uint32_t messages)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < count; j++)
            if (i != j && atomic_load(&ends[i].received[j]) < messages)
                return false;
    return true;
}

/* Everybody sends to everybody, at once. */
static void talk(uint32_t count, uint32_t sockets, const char *listen, uint32_t messages)
{
    for (uint32_t i = 0; i < count; i++) {
        open_end(i, sockets, listen);
        for (uint32_t j = 0; j < count; j++)
            atomic_store(&ends[i].to_send[j], messages);
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < i; j++)
            end_connect(&ends[i], j, address(j));
    for (uint32_t i = 0; i < count; i++)
        end_start(&ends[i]);
    UNTIL(ends, count, all_arrived(count, messages));
    for (uint32_t i = 0; i < count; i++)
        end_halt(&ends[i]);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(atomic_load(&ends[i].sent), messages * (count - 1));
        assert_int_equal(atomic_load(&ends[i].nonsenses), 0);
        for (uint32_t j = 0; j < count; j++)
            assert_int_equal(atomic_load(&ends[i].ups[j]), i != j);
    }
    close_ends();
}

TEST(two_ends_exchange_ten_thousand_messages)
{
    (void)state;
    talk(2, 1, "127.0.0.1:0", 10000);
}

TEST(three_sockets_to_each_peer_carry_them_all)
{
    (void)state;
    talk(2, 3, "127.0.0.1:0", 10000);
}

TEST(three_ends_talk_over_ipv6)
{
    (void)state;
    talk(3, 2, "[::1]:0", 2000);
}

/* ---- two ends without threads ---- */

static void open_two(uint32_t sockets)
{
    open_end(0, sockets, "127.0.0.1:0");
    open_end(1, sockets, "127.0.0.1:0");
}

static void join_two(void)
{
    end_connect(&ends[1], 0, address(0));
    UNTIL(ends, 2, atomic_load(&ends[0].ups[1]) == 1 && atomic_load(&ends[1].ups[0]) == 1);
}

static void offer(uint32_t from, uint32_t to, uint32_t messages)
{
    atomic_store(&ends[from].to_send[to], messages);
    ends[from].ops->send(ends[from].transport, to);
}

/* Every message that began to be sent or received came to an end, on both sides. */
static void nothing_hangs(void)
{
    for (uint32_t i = 0; i < ENDS; i++) {
        uint32_t taken = 0, received = 0;
        for (uint32_t j = 0; j < ENDS; j++) {
            taken += atomic_load(&ends[i].taken[j]);
            received += atomic_load(&ends[i].received[j]);
        }
        assert_int_equal(taken, atomic_load(&ends[i].sent) + atomic_load(&ends[i].unsent));
        assert_int_equal(atomic_load(&ends[i].placed), received + atomic_load(&ends[i].broken));
    }
}

TEST(connecting_may_begin_before_listening)
{
    (void)state;
    char where[NET_TEXT];
    open_two(2);
    memcpy(where, address(0), strlen(address(0)) + 1);
    end_close(&ends[0]);
    end_connect(&ends[1], 0, where);
    for (int i = 0; i < 30; i++)
        poll_all(ends, 2);
    open_end(0, 2, where);
    UNTIL(ends, 2, atomic_load(&ends[0].ups[1]) == 1 && atomic_load(&ends[1].ups[0]) == 1);
    offer(1, 0, 50);
    UNTIL(ends, 2, atomic_load(&ends[0].received[1]) == 50);
    assert_int_equal(atomic_load(&ends[1].downs[0]), 0);
    close_ends();
}

TEST(both_may_call_each_other)
{
    (void)state;
    open_two(3);
    end_connect(&ends[1], 0, address(0));
    end_connect(&ends[0], 1, address(1));
    UNTIL(ends, 2, atomic_load(&ends[0].ups[1]) == 1 && atomic_load(&ends[1].ups[0]) == 1);
    offer(1, 0, 50);
    offer(0, 1, 50);
    UNTIL(ends, 2, all_arrived(2, 50));
    assert_int_equal(ends[0].ops->connect(ends[0].transport, 1, address(1), NULL), TRI_EARG);
    close_ends();
}

TEST(nobody_answers_and_that_is_said_in_time)
{
    (void)state;
    char where[NET_TEXT];
    open_end(0, 1, "127.0.0.1:0");
    memcpy(where, address(0), strlen(address(0)) + 1);
    end_close(&ends[0]);
    struct transport_options options = end_options(&ends[1], 1, 2, "127.0.0.1:0");
    options.connect_ms = 200;
    end_open_with(&ends[1], "tcp", &options);
    int64_t begin = poller_now_ms();
    end_connect(&ends[1], 0, where);
    while (atomic_load(&ends[1].downs[0]) == 0)
        end_poll(&ends[1], -1);
    assert_in_range(poller_now_ms() - begin, 190, 2000);
    assert_in_range(atomic_load(&ends[1].polls), 1, 60);
    assert_non_null(strstr(ends[1].why, where));
    assert_non_null(strstr(ends[1].why, "Connection refused"));
    end_connect(&ends[1], 0, where); /* and again */
    while (atomic_load(&ends[1].downs[0]) == 1)
        end_poll(&ends[1], -1);
    assert_int_equal(atomic_load(&ends[1].ups[0]), 0);
    close_ends();
}

TEST(a_peer_that_goes_is_told_once_and_can_come_again)
{
    (void)state;
    open_two(3);
    join_two();
    char where[NET_TEXT];
    memcpy(where, address(0), strlen(address(0)) + 1);
    end_close(&ends[0]);
    UNTIL(ends, 2, atomic_load(&ends[1].downs[0]) == 1);
    assert_string_equal(ends[1].why, "it closed the connection");
    for (int i = 0; i < 5; i++)
        poll_all(ends, 2);
    assert_int_equal(atomic_load(&ends[1].downs[0]), 1);
    open_end(0, 3, where);
    end_connect(&ends[1], 0, where);
    UNTIL(ends, 2, atomic_load(&ends[0].ups[1]) == 1 && atomic_load(&ends[1].ups[0]) == 2);
    offer(0, 1, 20);
    UNTIL(ends, 2, atomic_load(&ends[1].received[0]) == 20);
    close_ends();
}

TEST(what_a_peer_said_last_is_heard)
{
    (void)state;
    open_two(3);
    join_two();
    ends[0].socket_limit = 1;
    offer(0, 1, 20);
    while (atomic_load(&ends[0].sent) < 20)
        end_poll(&ends[0], 1);
    offer(1, 0, 5); /* comes to a peer that does not listen any more */
    end_poll(&ends[1], 0);
    uint32_t heard = atomic_load(&ends[1].received[0]);
    end_close(&ends[0]);
    UNTIL(ends, 2, atomic_load(&ends[1].downs[0]) == 1);
    assert_int_equal(atomic_load(&ends[1].received[0]), 20);
    assert_true(heard <= 20);
    close_ends();
}

/* A process that talks until it is killed. */
static pid_t fork_talker(const char *where, uint32_t big)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    open_end(1, 2, "127.0.0.1:0");
    ends[1].big = big;
    atomic_store(&ends[1].to_send[0], MESSAGES);
    end_connect(&ends[1], 0, where);
    for (;;)
        end_poll(&ends[1], -1);
}

TEST(a_peer_killed_in_the_middle_of_messages_leaves_nothing_behind)
{
    (void)state;
    open_end(0, 2, "127.0.0.1:0");
    memset(&ends[1], 0, sizeof ends[1]);
    ends[0].big = BIG;
    pid_t pid = fork_talker(address(0), BIG);
    assert_true(pid > 0);
    atomic_store(&ends[0].to_send[1], MESSAGES);
    while (atomic_load(&ends[0].received[1]) < 3 || atomic_load(&ends[0].sent) < 3)
        end_poll(&ends[0], 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    while (atomic_load(&ends[0].downs[1]) == 0)
        end_poll(&ends[0], 1);
    nothing_hangs();
    assert_in_range(atomic_load(&ends[0].unsent), 1, 2); /* at most one on each socket */
    for (int i = 0; i < 5; i++)
        end_poll(&ends[0], 1);
    assert_int_equal(atomic_load(&ends[0].downs[1]), 1);
    close_ends();
}

TEST(a_drop_ends_it_on_both_sides)
{
    (void)state;
    open_two(2);
    join_two();
    ends[0].drop_at_done = 2;
    ends[0].big = ends[1].big = 100000;
    offer(1, 0, 500);
    offer(0, 1, 500);
    UNTIL(ends, 2, atomic_load(&ends[0].downs[1]) == 1 && atomic_load(&ends[1].downs[0]) == 1);
    assert_string_equal(ends[0].why, "dropped by this process");
    assert_int_equal(atomic_load(&ends[0].received[1]), 2);
    nothing_hangs();
    ends[0].ops->drop(ends[0].transport, 1); /* nobody there any more */
    for (int i = 0; i < 5; i++)
        poll_all(ends, 2);
    assert_int_equal(atomic_load(&ends[0].downs[1]), 1);
    close_ends();
}

TEST(a_call_can_be_dropped)
{
    (void)state;
    open_two(2);
    end_connect(&ends[1], 0, "127.0.0.1:1");
    end_poll(&ends[1], 0);
    ends[1].ops->drop(ends[1].transport, 0);
    assert_int_equal(atomic_load(&ends[1].downs[0]), 0); /* from poll() only */
    end_poll(&ends[1], -1);
    assert_int_equal(atomic_load(&ends[1].downs[0]), 1);
    close_ends();
}

TEST(closing_gives_all_messages_back_without_a_word)
{
    (void)state;
    open_two(2);
    join_two();
    ends[0].big = ends[1].big = BIG;
    offer(1, 0, 500);
    offer(0, 1, 500);
    UNTIL(ends, 2, atomic_load(&ends[0].placed) >= 2 && atomic_load(&ends[1].placed) >= 2);
    end_close(&ends[0]);
    end_close(&ends[1]);
    nothing_hangs();
    assert_int_equal(atomic_load(&ends[0].downs[1]) + atomic_load(&ends[1].downs[0]), 0);
}

/* ---- strangers ---- */

static int knock(const char *where, const void *bytes, size_t len)
{
    struct net_address to[NET_ADDRESSES];
    size_t count;
    assert_int_equal(net_resolve(where, to, &count, NULL), TRI_OK);
    int fd = socket(to[0].at.ss_family, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to[0].at, to[0].len), 0);
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
    return fd;
}

static bool closed(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
}

TEST(strangers_are_closed_and_disturb_nobody)
{
    (void)state;
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    open_two(2);
    join_two();
    offer(1, 0, 5000);
    offer(0, 1, 5000);
    for (uint32_t i = 0; i < 20; i++) {
        int garbage = knock(address(0), noise + (size_t)i * 100, 1 + (size_t)i * 5);
        int browser = knock(address(0), http, sizeof http - 1);
        int half = knock(address(0), "TRIP\1\0\1\0", 8);
        int mute = knock(address(0), "", 0);
        UNTIL(ends, 2, closed(garbage) && closed(browser));
        assert_false(closed(half));
        assert_int_equal(close(garbage) | close(browser) | close(half) | close(mute), 0);
        if (i == 3) {
            UNTIL(ends, 2, atomic_load(&ends[0].nonsenses) == 12);
        }
    }
    UNTIL(ends, 2, all_arrived(2, 5000) && atomic_load(&ends[0].nonsenses) == 60);
    assert_int_equal(atomic_load(&ends[0].downs[1]) + atomic_load(&ends[1].downs[0]), 0);
    assert_int_equal(atomic_load(&ends[1].nonsenses), 0);
    int browser = knock(address(0), http, sizeof http - 1);
    UNTIL(ends, 2, closed(browser));
    assert_string_equal(ends[0].what, "not a trident node: it begins with 'GET / HTTP/1'");
    close(browser);
    close_ends();
}

TEST(the_oldest_stranger_goes_when_too_many_wait)
{
    (void)state;
    enum { MANY = 128 + 5 };
    int fds[MANY];
    open_two(1);
    for (size_t i = 0; i < MANY; i++) {
        fds[i] = knock(address(0), "TR", 2);
        end_poll(&ends[0], 1);
    }
    UNTIL(ends, 1, atomic_load(&ends[0].nonsenses) == 5);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(closed(fds[i]), i < 5);
        close(fds[i]);
    }
    join_two();
    close_ends();
}

TEST(a_stranger_has_five_seconds)
{
    (void)state;
    open_end(0, 1, "127.0.0.1:0");
    int fd = knock(address(0), "TRIP", 4);
    int64_t begin = poller_now_ms();
    while (atomic_load(&ends[0].nonsenses) == 0)
        end_poll(&ends[0], -1);
    assert_in_range(poller_now_ms() - begin, 4900, 10000);
    assert_true(closed(fd));
    assert_string_equal(ends[0].what, "it does not say who it is");
    assert_in_range(atomic_load(&ends[0].polls), 1, 10);
    close(fd);
    close_ends();
}

TEST(a_greeting_that_is_refused_does_not_come_up)
{
    (void)state;
    open_end(0, 1, "127.0.0.1:0");
    struct transport_options options = end_options(&ends[1], 1, 1, "127.0.0.1:0");
    options.connect_ms = 100;
    end_open_with(&ends[1], "tcp", &options);
    for (uint32_t who = 0; who < 2; who++) { /* the one that is called refuses, then the caller */
        ends[0].refuse = who == 0 ? 1 : ENDS + 1;
        ends[1].refuse = who == 1 ? 0 : ENDS + 1;
        end_connect(&ends[1], 0, address(0));
        UNTIL(ends, 2, atomic_load(&ends[1].downs[0]) == who + 1);
    }
    assert_non_null(strstr(ends[1].why, "another process than was expected answers there"));
    assert_int_equal(atomic_load(&ends[1].ups[0]), 0);
    close_ends();
}

TEST(who_answers_must_be_who_was_called)
{
    (void)state;
    open_end(0, 1, "127.0.0.1:0");
    struct transport_options options = end_options(&ends[1], 1, 1, "127.0.0.1:0");
    options.connect_ms = 100;
    end_open_with(&ends[1], "tcp", &options);
    end_connect(&ends[1], 2, address(0));
    UNTIL(ends, 2, atomic_load(&ends[1].downs[2]) == 1);
    assert_int_equal(atomic_load(&ends[1].ups[0]) + atomic_load(&ends[1].ups[2]), 0);
    close_ends();
}

TEST(both_ends_must_use_as_many_sockets)
{
    (void)state;
    open_end(0, 1, "127.0.0.1:0");
    open_end(1, 2, "127.0.0.1:0");
    end_connect(&ends[1], 0, address(0));
    UNTIL(ends, 2, atomic_load(&ends[1].downs[0]) == 1); /* long before its time is up */
    assert_true(atomic_load(&ends[0].nonsenses) >= 2);
    assert_non_null(strstr(ends[0].what, "it uses 2 sockets for each peer, this process 1"));
    assert_ptr_equal(strstr(ends[1].why, TRANSPORT_REFUSED), ends[1].why);
    assert_non_null(strstr(ends[1].why, "it uses 1 sockets for each peer, this process 2"));
    close_ends();
}

static void open_with_token(uint32_t id, const char *token, const char *job)
{
    struct transport_options options = end_options(&ends[id], id, 2, "127.0.0.1:0");
    options.token = token;
    options.job = job;
    end_open_with(&ends[id], "tcp", &options);
}

TEST(only_those_with_the_same_token_and_job_come_up)
{
    (void)state;
    static const struct {
        const char *token, *job;
    } others[] = {{"other", "job"}, {NULL, "job"}, {"token", "jo"}, {"", "job"}, {"tokenj", "ob"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        open_with_token(0, "token", "job");
        open_with_token(1, others[i].token, others[i].job);
        end_connect(&ends[1], 0, address(0));
        UNTIL(ends, 2, atomic_load(&ends[1].downs[0]) == 1);
        assert_string_equal(ends[1].why, TRANSPORT_REFUSED
                            "wrong token; give all processes of a job the same TRIDENT_TOKEN");
        assert_string_equal(ends[0].what, "it does not know the token of job 'job'");
        assert_int_equal(atomic_load(&ends[0].ups[1]) + atomic_load(&ends[0].greets), 0);
        close_ends();
    }
    open_with_token(0, "token", "job");
    open_with_token(1, "token", "job");
    join_two();
    offer(1, 0, 50);
    UNTIL(ends, 2, atomic_load(&ends[0].received[1]) == 50);
    close_ends();
}

TEST(without_a_token_only_this_machine_is_used)
{
    (void)state;
    tri_error err = {0};
    struct transport *none = NULL;
    static const char *const wide[] = {"0.0.0.0:0", "[::]:0", "192.0.2.1:0"};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        struct transport_options options = end_options(&ends[0], 0, 1, wide[i]);
        assert_int_equal(transport_find("tcp")->open(&options, &none, &err), TRI_EINPUT);
        assert_non_null(strstr(err.text, "without a token"));
        assert_non_null(strstr(err.next, "TRIDENT_TOKEN"));
        assert_int_equal(ends[0].memory.live, 0);
    }
    open_end(0, 1, "127.0.0.1:0");
    assert_int_equal(ends[0].ops->connect(ends[0].transport, 1, "192.0.2.1:7000", &err),
                     TRI_EINPUT);
    assert_non_null(strstr(err.text, "cannot connect to 192.0.2.1:7000 without a token"));
    close_ends();
    struct transport_options options = end_options(&ends[0], 0, 1, "0.0.0.0:0");
    options.token = "token";
    end_open_with(&ends[0], "tcp", &options);
    close_ends();
}

/* ---- peers that speak nonsense ---- */

/* Puts bytes on the wire as end 1, past the code under test. */
static int say_as_peer(const void *bytes, size_t len)
{
    const uint8_t greeting[WORDS_GREETING_BYTES] = "hello\1";
    uint8_t asked[WORDS_MOST_BYTES], answered[WORDS_MOST_BYTES], proof[WORDS_MOST_BYTES];
    size_t heard = 0;
    caller_ask(asked, 1, greeting, 7);
    int fd = knock(address(0), asked, words_bytes(WORDS_ASKS));
    UNTIL(ends, 1, caller_read(fd, answered, words_bytes(WORDS_ANSWERS), &heard));
    caller_prove(proof, NULL, "", asked, answered);
    size_t len_proof = words_bytes(WORDS_PROVES);
    assert_int_equal(send(fd, proof, len_proof, MSG_NOSIGNAL), (ssize_t)len_proof);
    UNTIL(ends, 1, atomic_load(&ends[0].ups[1]) == 1);
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
    return fd;
}

static size_t make_message(uint8_t *out, struct wire_header header, bool cover)
{
    memset(out + WIRE_HEADER_BYTES, 3, header.head_len + header.data_len);
    if (cover)
        wire_payload_cover(&header, out + 64, out + 64 + header.head_len);
    wire_header_encode(&header, out);
    return WIRE_HEADER_BYTES + header.head_len + (size_t)header.data_len;
}

static void refused(const void *bytes, size_t len, const char *what)
{
    open_end(0, 1, "127.0.0.1:0");
    ends[0].limits.data_bytes = 1000;
    int fd = say_as_peer(bytes, len);
    UNTIL(ends, 1, atomic_load(&ends[0].downs[1]) == 1);
    assert_int_equal(atomic_load(&ends[0].nonsenses), 1);
    assert_non_null(strstr(ends[0].what, what));
    nothing_hangs();
    close(fd);
    close_ends();
}

TEST(a_header_that_is_none_is_nonsense)
{
    (void)state;
    uint8_t bytes[4000];
    struct wire_header header = {.kind = WIRE_PUSH, .sender = 1, .head_len = 64, .data_len = 2000};
    refused(noise, 300, "this is not a trident node");
    size_t len = make_message(bytes, header, false);
    refused(bytes, len, "data of PUSH has 2000 bytes, which is more than 1000");
    bytes[60] ^= 1;
    refused(bytes, len, "header checksum");
}

TEST(a_damaged_payload_is_nonsense)
{
    (void)state;
    uint8_t bytes[4000];
    struct wire_header header = {.kind = WIRE_PUSH, .sender = 1, .head_len = 64, .data_len = 900};
    for (size_t at = 64; at < 64 + 64 + 900; at += 305) {
        size_t len = make_message(bytes, header, true);
        bytes[at] ^= 0x10;
        refused(bytes, len, "PUSH is damaged");
        assert_int_equal(atomic_load(&ends[0].broken), 1);
    }
}

TEST(what_the_host_refuses_drops_the_peer)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        open_two(1);
        join_two();
        ends[0].refuse_place = i == 0;
        ends[0].refuse_done = i == 1;
        offer(1, 0, 3);
        UNTIL(ends, 2, atomic_load(&ends[0].downs[1]) == 1 && atomic_load(&ends[1].downs[0]) == 1);
        assert_int_equal(atomic_load(&ends[0].nonsenses), 0);
        assert_int_equal(atomic_load(&ends[0].broken), 0);
        assert_string_equal(ends[0].why, "it sent what makes no sense");
        close_ends();
    }
}

TEST(a_host_that_finds_too_little_place_loses_the_peer)
{
    (void)state;
    open_two(1);
    join_two();
    ends[0].short_place = true;
    ends[0].big = ends[1].big = 100;
    offer(1, 0, 3);
    UNTIL(ends, 2, atomic_load(&ends[0].downs[1]) == 1 && atomic_load(&ends[1].downs[0]) == 1);
    assert_int_equal(atomic_load(&ends[0].broken), 1);
    assert_int_equal(atomic_load(&ends[0].received[1]), 0);
    close_ends();
}

/* ---- the system ---- */

TEST(a_port_in_use_is_named_with_a_next_step)
{
    (void)state;
    tri_error err = {0};
    struct transport *none = NULL;
    open_end(0, 1, "127.0.0.1:0");
    struct transport_options options = end_options(&ends[1], 1, 1, address(0));
    assert_int_equal(transport_find("tcp")->open(&options, &none, &err), TRI_EIO);
    assert_non_null(strstr(err.text, address(0)));
    assert_non_null(strstr(err.next, "ss -ltnp"));
    assert_null(none);
    options.listen = "nonsense";
    assert_int_equal(transport_find("tcp")->open(&options, &none, &err), TRI_EINPUT);
    assert_int_equal(ends[1].memory.live, 0);
    close_ends();
}

TEST(without_descriptors_who_knocks_is_turned_away)
{
    (void)state;
    enum { KNOCKS = 4 };
    int fds[KNOCKS];
    struct net_address to[NET_ADDRESSES];
    size_t count;
    struct rlimit old, low;
    open_two(1);
    assert_int_equal(net_resolve(address(0), to, &count, NULL), TRI_OK);
    for (size_t i = 0; i < KNOCKS; i++)
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = (rlim_t)fds[KNOCKS - 1] + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (size_t i = 0; i < KNOCKS; i++)
        assert_int_equal(connect(fds[i], (struct sockaddr *)&to[0].at, to[0].len), 0);
    UNTIL(ends, 2, atomic_load(&ends[0].nonsenses) == KNOCKS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_non_null(strstr(ends[0].what, "no file descriptors left"));
    for (size_t i = 0; i < KNOCKS; i++) {
        assert_true(closed(fds[i]));
        close(fds[i]);
    }
    join_two();
    close_ends();
}

TEST(wake_ends_a_poll_from_another_thread)
{
    (void)state;
    open_end(0, 1, "127.0.0.1:0");
    end_start(&ends[0]);
    for (unsigned i = 1; i <= 100; i++) {
        ends[0].ops->wake(ends[0].transport);
        UNTIL(ends, 1, atomic_load(&ends[0].polls) >= i);
    }
    unsigned polls = atomic_load(&ends[0].polls);
    for (int i = 0; i < 20; i++)
        poll_all(ends, 1);
    assert_in_range(atomic_load(&ends[0].polls), polls, polls + 2); /* and it sleeps well */
    close_ends();
}

TEST(send_from_another_thread_is_never_missed)
{
    (void)state;
    open_two(1);
    join_two();
    end_start(&ends[0]);
    end_start(&ends[1]);
    for (uint32_t i = 1; i <= 3000; i++) {
        offer(0, 1, i);
        int64_t limit = poller_now_ms() + 20000;
        while (atomic_load(&ends[1].received[0]) < i)
            assert_true(poller_now_ms() < limit);
    }
    close_ends();
}

TEST(no_allocation_follows_the_warm_up)
{
    (void)state;
    open_two(2);
    join_two();
    offer(1, 0, 100);
    offer(0, 1, 100);
    UNTIL(ends, 2, all_arrived(2, 100));
    size_t before = ends[0].memory.calls + ends[1].memory.calls;
    offer(1, 0, 1000);
    offer(0, 1, 1000);
    UNTIL(ends, 2, all_arrived(2, 1000));
    assert_int_equal(ends[0].memory.calls + ends[1].memory.calls, before);
    close_ends();
}

TEST(refused_memory_is_survived)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        tri_error err = {0};
        open_end(0, 2, "127.0.0.1:0");
        struct transport_options options = end_options(&ends[1], 1, 2, "127.0.0.1:0");
        options.mem = &fault.mem;
        options.connect_ms = 50;
        ends[1].ops = transport_find("tcp");
        tri_status status = ends[1].ops->open(&options, &ends[1].transport, &err);
        if (status == TRI_OK)
            status = ends[1].ops->connect(ends[1].transport, 0, address(0), &err);
        if (status == TRI_OK) {
            atomic_store(&ends[0].to_send[1], 5);
            UNTIL(ends, 2,
                  atomic_load(&ends[1].received[0]) == 5 || atomic_load(&ends[1].downs[0]) == 1);
        } else {
            assert_int_equal(status, TRI_ENOMEM);
            assert_true(err.text[0] != '\0');
        }
        close_ends();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ends_exchange_ten_thousand_messages),
        cmocka_unit_test(three_sockets_to_each_peer_carry_them_all),
        cmocka_unit_test(three_ends_talk_over_ipv6),
        cmocka_unit_test(connecting_may_begin_before_listening),
        cmocka_unit_test(both_may_call_each_other),
        cmocka_unit_test(nobody_answers_and_that_is_said_in_time),
        cmocka_unit_test(a_peer_that_goes_is_told_once_and_can_come_again),
        cmocka_unit_test(what_a_peer_said_last_is_heard),
        cmocka_unit_test(a_peer_killed_in_the_middle_of_messages_leaves_nothing_behind),
        cmocka_unit_test(a_drop_ends_it_on_both_sides),
        cmocka_unit_test(a_call_can_be_dropped),
        cmocka_unit_test(closing_gives_all_messages_back_without_a_word),
        cmocka_unit_test(strangers_are_closed_and_disturb_nobody),
        cmocka_unit_test(the_oldest_stranger_goes_when_too_many_wait),
        cmocka_unit_test(a_stranger_has_five_seconds),
        cmocka_unit_test(a_greeting_that_is_refused_does_not_come_up),
        cmocka_unit_test(who_answers_must_be_who_was_called),
        cmocka_unit_test(both_ends_must_use_as_many_sockets),
        cmocka_unit_test(only_those_with_the_same_token_and_job_come_up),
        cmocka_unit_test(without_a_token_only_this_machine_is_used),
        cmocka_unit_test(a_header_that_is_none_is_nonsense),
        cmocka_unit_test(a_damaged_payload_is_nonsense),
        cmocka_unit_test(what_the_host_refuses_drops_the_peer),
        cmocka_unit_test(a_host_that_finds_too_little_place_loses_the_peer),
        cmocka_unit_test(a_port_in_use_is_named_with_a_next_step),
        cmocka_unit_test(without_descriptors_who_knocks_is_turned_away),
        cmocka_unit_test(wake_ends_a_poll_from_another_thread),
        cmocka_unit_test(send_from_another_thread_is_never_missed),
        cmocka_unit_test(no_allocation_follows_the_warm_up),
        cmocka_unit_test(refused_memory_is_survived),
    };
    make_noise();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
