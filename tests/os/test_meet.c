/* os/meet: who gets in over real sockets, and who does not. */
#include "os/meet.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "os/caller.h"

#include "lib/fault.h"
#include "lib/test.h" /* after error.h: cmocka has a macro named fail */

enum { MOST = 1000, TEXT = 300, SLOW_MS = 150 };

/* One end: listens, and may call. */
struct end {
    struct poller *poller;
    struct meet *meet;
    struct meet_host host;
    struct fault memory;
    uint32_t judged, met, missed, nonsenses;
    uint32_t answer; /* of judge() to all; MEET_NOBODY - 2: the first byte of the greeting */
    int fd;          /* of the last one met */
    char why[TEXT], what[TEXT];
};
static struct end ends[2];

static uint32_t judge(void *ctx, const struct meet_guest *guest)
{
    struct end *end = ctx;
    end->judged++;
    return end->answer == MEET_NOBODY - 2 ? guest->greeting[0] : end->answer;
}

static void met(void *ctx, uint32_t peer, uint32_t index, int fd, const char *address)
{
    struct end *end = ctx;
    (void)peer;
    (void)index;
    (void)address;
    end->met++;
    net_close(end->fd);
    end->fd = fd;
}

static void missed(void *ctx, uint32_t peer, const char *why)
{
    struct end *end = ctx;
    (void)peer;
    end->missed++;
    (void)snprintf(end->why, sizeof end->why, "%s", why);
}

static void nonsense(void *ctx, uint32_t dialled, const char *address, const char *what)
{
    struct end *end = ctx;
    (void)dialled;
    (void)address;
    end->nonsenses++;
    (void)snprintf(end->what, sizeof end->what, "%s", what);
}

/* Bytes 0 of greetings are numbers of ends, bytes 1 of jobs. */
static tri_status fits(const uint8_t *own, const uint8_t *other, tri_error *err)
{
    if (own[1] == other[1])
        return TRI_OK;
    (void)(fail)(err, TRI_EMISMATCH, "end %u is of another job", other[0]);
    fail_next(err, "name it otherwise");
    return TRI_EMISMATCH;
}

static struct meet_options options_of(struct end *end, uint8_t id, const char *token)
{
    memset(end, 0, sizeof *end);
    fault_init(&end->memory);
    end->fd = -1;
    end->answer = MEET_NOBODY - 2;
    end->host = (struct meet_host){
        .ctx = end, .judge = judge, .met = met, .missed = missed, .nonsense = nonsense};
    assert_int_equal(poller_open(&end->memory.mem, &end->poller, NULL), TRI_OK);
    struct meet_options options = {.mem = &end->memory.mem,
                                   .poller = end->poller,
                                   .host = &end->host,
                                   .listen = "127.0.0.1:0",
                                   .sockets = 2,
                                   .token = token,
                                   .job = "job",
                                   .fits = fits};
    options.greeting[0] = id;
    options.greeting[1] = 9;
    return options;
}

static void open_with(struct end *end, const struct meet_options *options)
{
    tri_error err = {0};
    if (meet_open(options, &end->meet, &err) != TRI_OK)
        fail_msg("%s", err.text);
}

static void open_end(uint8_t id, const char *token)
{
    struct meet_options options = options_of(&ends[id], id, token);
    open_with(&ends[id], &options);
}

static void close_end(struct end *end)
{
    meet_close(end->meet);
    net_close(end->fd);
    poller_close(end->poller);
    assert_int_equal(end->memory.live, 0);
    end->meet = NULL;
}

static void turn(struct end *end)
{
    int wait_ms = meet_wait_ms(end->meet);
    assert_int_equal(poller_wait(end->poller, wait_ms >= 0 && wait_ms < 2 ? wait_ms : 2, NULL),
                     TRI_OK);
    meet_tick(end->meet);
}

#define UNTIL(count, is_so)                                                                        \
    do {                                                                                           \
        int64_t until_limit = poller_now_ms() + 20000;                                             \
        while (!(is_so)) {                                                                         \
            for (int until_i = 0; until_i < (count); until_i++)                                    \
                turn(&ends[until_i]);                                                              \
            if (poller_now_ms() > until_limit)                                                     \
                fail_msg("it does not come to: %s", #is_so);                                       \
        }                                                                                          \
    } while (0)

static void dial(struct end *end, uint32_t peer, const char *address)
{
    struct meet_call call = {.peer = peer, .deadline_ms = poller_now_ms() + 20000};
    struct net_address found[NET_ADDRESSES];
    assert_int_equal(net_resolve(address, found, &call.count, NULL), TRI_OK);
    call.addresses = found;
    assert_int_equal(meet_dial(end->meet, &call, NULL), TRI_OK);
}

/* ---- raw callers ---- */

static int knock(const void *bytes, size_t len)
{
    struct net_address to[NET_ADDRESSES];
    size_t count;
    assert_int_equal(net_resolve(meet_address(ends[0].meet), to, &count, NULL), TRI_OK);
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

/* All that one caller and end 0 said to each other, as somebody who listens would have it. */
struct tape {
    uint8_t asked[WORDS_MOST_BYTES], answered[WORDS_MOST_BYTES], proof[WORDS_MOST_BYTES];
};

static int hear_answer(struct tape *tape, uint8_t nonce)
{
    const uint8_t greeting[WORDS_GREETING_BYTES] = {1, 9};
    size_t heard = 0;
    caller_ask(tape->asked, 2, greeting, nonce);
    int fd = knock(tape->asked, words_bytes(WORDS_ASKS));
    UNTIL(1, caller_read(fd, tape->answered, words_bytes(WORDS_ANSWERS), &heard));
    return fd;
}

static void say(int fd, const uint8_t *bytes, enum words_kind kind)
{
    assert_int_equal(send(fd, bytes, words_bytes(kind), MSG_NOSIGNAL), (ssize_t)words_bytes(kind));
}

static void join(struct tape *tape, const char *token)
{
    uint32_t before = ends[0].met;
    int fd = hear_answer(tape, 3);
    caller_prove(tape->proof, token, "job", tape->asked, tape->answered);
    say(fd, tape->proof, WORDS_PROVES);
    UNTIL(1, ends[0].met == before + 1);
    close(fd);
}

/* Says a proof that is not right; what comes back is a refusal for the token. */
static void is_refused(int fd, const uint8_t *proof)
{
    uint8_t answer[WORDS_MOST_BYTES] = {0};
    size_t heard = 0;
    uint32_t met_before = ends[0].met, judged = ends[0].judged, told = ends[0].nonsenses;
    say(fd, proof, WORDS_PROVES);
    UNTIL(1, caller_read(fd, answer, words_bytes(WORDS_REFUSES), &heard) && closed(fd));
    struct words words = words_read(answer);
    assert_int_equal(words.kind, WORDS_REFUSES);
    assert_int_equal(words.index, WORDS_OTHER_TOKEN);
    assert_int_equal(ends[0].met, met_before);
    assert_int_equal(ends[0].judged, judged);
    assert_int_equal(ends[0].nonsenses, told + 1);
    assert_string_equal(ends[0].what, "it does not know the token of job 'job'");
    close(fd);
}

/* ---- who gets in ---- */

TEST(who_knows_the_token_gets_in)
{
    (void)state;
    struct tape tape;
    open_end(0, "token");
    open_end(1, "token");
    dial(&ends[1], 0, meet_address(ends[0].meet));
    UNTIL(2, ends[0].met == 1 && ends[1].met == 1);
    assert_int_equal(send(ends[0].fd, "x", 1, MSG_NOSIGNAL), 1); /* nothing is left in between */
    char byte = 0;
    UNTIL(2, recv(ends[1].fd, &byte, 1, MSG_DONTWAIT) == 1);
    assert_int_equal(byte, 'x');
    join(&tape, "token");
    close_end(&ends[0]);
    close_end(&ends[1]);
}

TEST(the_token_is_not_among_the_bytes)
{
    (void)state;
    static const char token[] = "a long and secret token of this job";
    struct tape tape;
    open_end(0, token);
    join(&tape, token);
    for (size_t at = 0; at + 8 <= sizeof token; at++) {
        assert_null(memmem(&tape, sizeof tape, token + at, 8));
    }
    close_end(&ends[0]);
}

TEST(nonces_and_proofs_are_never_the_same_twice)
{
    (void)state;
    struct tape tapes[2];
    open_end(0, "token");
    join(&tapes[0], "token");
    join(&tapes[1], "token");
    const size_t nonce = WORDS_BASE_BYTES + WORDS_GREETING_BYTES;
    assert_memory_equal(tapes[0].asked, tapes[1].asked, sizeof tapes[0].asked);
    assert_memory_not_equal(tapes[0].answered + nonce, tapes[1].answered + nonce,
                            WORDS_NONCE_BYTES);
    assert_memory_not_equal(tapes[0].answered + WORDS_SAID_BYTES,
                            tapes[1].answered + WORDS_SAID_BYTES, KEYED_PROOF_BYTES);
    close_end(&ends[0]);
}

/* ---- who does not ---- */

TEST(a_join_played_again_is_refused)
{
    (void)state;
    struct tape tape, now;
    open_end(0, "token");
    join(&tape, "token");
    is_refused(hear_answer(&now, 3), tape.proof); /* at the same listener */
    assert_memory_equal(now.asked, tape.asked, sizeof now.asked);
    close_end(&ends[0]);
    open_end(0, "token");
    is_refused(hear_answer(&now, 3), tape.proof); /* and at a new one */
    close_end(&ends[0]);
}

TEST(the_answerers_proof_sent_back_is_refused)
{
    (void)state;
    struct tape tape;
    open_end(0, "token");
    int fd = hear_answer(&tape, 3);
    caller_prove(tape.proof, "token", "job", tape.asked, tape.answered);
    memcpy(tape.proof + WORDS_BASE_BYTES, tape.answered + WORDS_SAID_BYTES, KEYED_PROOF_BYTES);
    is_refused(fd, tape.proof);
    close_end(&ends[0]);
}

TEST(a_proof_for_another_socket_or_greeting_is_refused)
{
    (void)state;
    struct tape tape;
    uint8_t other[WORDS_MOST_BYTES];
    static const size_t changed[] = {8, 12, WORDS_BASE_BYTES, WORDS_SAID_BYTES - 1};
    open_end(0, "token");
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++)
        for (int of_answer = 0; of_answer < 2; of_answer++) {
            int fd = hear_answer(&tape, 3);
            memcpy(other, of_answer ? tape.answered : tape.asked, sizeof other);
            other[changed[i]] ^= 1;
            caller_prove(tape.proof, "token", "job", of_answer ? tape.asked : other,
                         of_answer ? other : tape.answered);
            memcpy(tape.proof, tape.asked, WORDS_BASE_BYTES); /* of the right socket all the same */
            tape.proof[6] = WORDS_PROVES;
            is_refused(fd, tape.proof);
        }
    close_end(&ends[0]);
}

TEST(another_token_or_job_is_refused)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"Token", "job"}, {"", "job"}, {NULL, "job"}, {"token", "other"}, {"tokenj", "ob"}};
    struct tape tape;
    open_end(0, "token");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int fd = hear_answer(&tape, 3);
        caller_prove(tape.proof, wrong[i][0], wrong[i][1], tape.asked, tape.answered);
        is_refused(fd, tape.proof);
    }
    close_end(&ends[0]);
}

/* A connection of one's own call, led back to one's own door, has a right proof. */
TEST(an_end_does_not_meet_itself)
{
    (void)state;
    open_end(0, "token");
    dial(&ends[0], 1, meet_address(ends[0].meet));
    UNTIL(1, ends[0].missed == 1);
    assert_non_null(strstr(ends[0].why, "it repeats what it hears"));
    assert_int_equal(ends[0].met + ends[0].judged, 0);
    close_end(&ends[0]);
}

TEST(who_does_not_fit_is_told_what_differs)
{
    (void)state;
    open_end(0, "token");
    struct meet_options options = options_of(&ends[1], 1, "token");
    options.greeting[1] = 8;
    open_with(&ends[1], &options);
    dial(&ends[1], 0, meet_address(ends[0].meet));
    UNTIL(2, ends[1].missed == 1);
    assert_string_equal(ends[1].why, MEET_REFUSED "end 0 is of another job; name it otherwise");
    assert_string_equal(ends[0].what, "end 1 is of another job; name it otherwise");
    close_end(&ends[0]);
    close_end(&ends[1]);
}

TEST(a_false_listener_gets_no_proof)
{
    (void)state;
    struct net_address from;
    char where[NET_TEXT];
    uint8_t said[2 * WORDS_MOST_BYTES] = {0}, answer[WORDS_MOST_BYTES];
    size_t heard = 0;
    int door = -1, fd = -1;
    const uint8_t greeting[WORDS_GREETING_BYTES] = {0, 9};
    open_end(0, "token");
    assert_int_equal(net_listen("127.0.0.1:0", &door, where, NULL), TRI_OK);
    dial(&ends[0], 1, where);
    UNTIL(1, (fd = net_accept(door, &from)) >= 0);
    UNTIL(1, caller_read(fd, said, words_bytes(WORDS_ASKS), &heard));
    caller_ask(answer, 2, greeting, 5); /* proof: zeros */
    answer[6] = WORDS_ANSWERS;
    answer[WORDS_BASE_BYTES] = 1;
    say(fd, answer, WORDS_ANSWERS);
    size_t whole = words_bytes(WORDS_ASKS) + words_bytes(WORDS_REFUSES);
    UNTIL(1, caller_read(fd, said, whole, &heard) && closed(fd));
    assert_int_equal(words_read(said + words_bytes(WORDS_ASKS)).kind, WORDS_REFUSES);
    assert_int_equal(ends[0].met, 0);
    net_close(fd);
    net_close(door);
    close_end(&ends[0]);
}

TEST(other_versions_are_told_both_numbers)
{
    (void)state;
    uint8_t old[80] = "TRIP\1\0\1\0\0\0\0\0\2\0\0\0", answer[WORDS_MOST_BYTES] = {0};
    size_t heard = 0;
    open_end(0, "token");
    int fd = knock(old, sizeof old);
    UNTIL(1, caller_read(fd, answer, words_bytes(WORDS_REFUSES), &heard) && closed(fd));
    assert_int_equal(words_read(answer).index, WORDS_OTHER_VERSION);
    assert_int_equal(answer[4], WORDS_VERSION); /* so that it can name both, too */
    assert_string_equal(ends[0].what,
                        "it speaks version 1 of the first words, this process version 2");
    close(fd);
    close_end(&ends[0]);
}

static void is_called(const void *bytes, size_t len, const char *what)
{
    uint32_t told = ends[0].nonsenses;
    int fd = knock(bytes, len);
    UNTIL(1, closed(fd));
    assert_int_equal(ends[0].nonsenses, told + 1);
    assert_non_null(strstr(ends[0].what, what));
    close(fd);
}

TEST(garbage_is_closed_and_named)
{
    (void)state;
    static const char http[] = "GET /metrics HTTP/1.1\r\n\r\n";
    static const char tls[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    uint8_t words[WORDS_MOST_BYTES];
    const uint8_t greeting[WORDS_GREETING_BYTES] = {1, 9};
    open_end(0, "token");
    is_called(http, sizeof http - 1, "not a trident node: it begins with 'GET /metrics'");
    is_called(tls, sizeof tls - 1, "not a trident node");
    for (unsigned kind = 0; kind < 8; kind++) { /* nobody begins with an answer or a proof */
        caller_ask(words, 2, greeting, 1);
        words[6] = (uint8_t)kind;
        if (kind != WORDS_ASKS)
            is_called(words, words_bytes(WORDS_ASKS), "not a trident node");
    }
    caller_ask(words, 2, greeting, 1);
    words[8] = 2;
    is_called(words, words_bytes(WORDS_ASKS), "past the last one");
    caller_ask(words, 3, greeting, 1);
    is_called(words, words_bytes(WORDS_ASKS), "it uses 3 sockets for each peer");
    assert_int_equal(ends[0].met + ends[0].judged, 0);
    close_end(&ends[0]);
}

TEST(words_that_break_off_leave_nothing_behind)
{
    (void)state;
    struct tape tape;
    open_end(0, "token");
    for (size_t cut = 0; cut < words_bytes(WORDS_ASKS); cut += 5) {
        const uint8_t greeting[WORDS_GREETING_BYTES] = {1, 9};
        caller_ask(tape.asked, 2, greeting, 1);
        close(knock(tape.asked, cut));
    }
    for (size_t cut = 0; cut < words_bytes(WORDS_PROVES); cut += 7) {
        int fd = hear_answer(&tape, 3);
        caller_prove(tape.proof, "token", "job", tape.asked, tape.answered);
        assert_int_equal(send(fd, tape.proof, cut, MSG_NOSIGNAL), (ssize_t)cut);
        close(fd);
    }
    UNTIL(1, meet_wait_ms(ends[0].meet) < 0); /* nobody is left to wait for */
    assert_int_equal(ends[0].met + ends[0].judged, 0);
    join(&tape, "token");
    close_end(&ends[0]);
}

/* Patience is for all of the words, not for each. */
TEST(who_says_a_byte_now_and_then_is_closed)
{
    (void)state;
    for (int at_proof = 0; at_proof < 2; at_proof++) {
        struct tape tape;
        struct meet_options options = options_of(&ends[0], 0, "token");
        options.patience_ms = SLOW_MS;
        open_with(&ends[0], &options);
        int fd = at_proof ? hear_answer(&tape, 3) : knock("", 0);
        caller_prove(tape.proof, "token", "job", tape.asked, tape.answered);
        const uint8_t *bytes = at_proof ? tape.proof : tape.asked;
        bool gone = false;
        caller_ask(tape.asked, 2, (const uint8_t[WORDS_GREETING_BYTES]){1, 9}, 3);
        for (size_t i = 0; i < 47 && !gone; i++) { /* one less than a proof has */
            (void)send(fd, bytes + i, 1, MSG_NOSIGNAL);
            int64_t until = poller_now_ms() + SLOW_MS / 10;
            while (poller_now_ms() < until)
                turn(&ends[0]);
            gone = closed(fd);
        }
        assert_true(gone);
        assert_string_equal(ends[0].what, at_proof ? "it says who it is, and does not go on"
                                                   : "it does not say who it is");
        assert_int_equal(ends[0].met, 0);
        close(fd);
        close_end(&ends[0]);
    }
}

TEST(who_is_put_off_comes_again)
{
    (void)state;
    static const uint32_t answers[] = {MEET_LATER, MEET_NOBODY};
    for (size_t i = 0; i < 2; i++) {
        open_end(0, NULL);
        open_end(1, NULL);
        ends[0].answer = answers[i];
        dial(&ends[1], 0, meet_address(ends[0].meet));
        UNTIL(2, ends[0].judged == 3);
        assert_int_equal(ends[0].met + ends[1].met + ends[1].missed, 0);
        ends[0].answer = 1;
        UNTIL(2, ends[0].met == 1 && ends[1].met == 1);
        close_end(&ends[0]);
        close_end(&ends[1]);
    }
}

/* One of another job may still listen where the right one is about to. */
TEST(a_refusal_is_not_the_last_word_at_once)
{
    (void)state;
    char where[NET_TEXT];
    open_end(0, "old");
    open_end(1, "new");
    (void)snprintf(where, sizeof where, "%s", meet_address(ends[0].meet));
    dial(&ends[1], 0, where);
    UNTIL(2, ends[0].nonsenses == 1);
    close_end(&ends[0]);
    struct meet_options options = options_of(&ends[0], 0, "new");
    options.listen = where;
    open_with(&ends[0], &options);
    UNTIL(2, ends[0].met == 1 && ends[1].met == 1);
    assert_int_equal(ends[1].missed, 0);
    close_end(&ends[0]);
    close_end(&ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_knows_the_token_gets_in),
        cmocka_unit_test(the_token_is_not_among_the_bytes),
        cmocka_unit_test(nonces_and_proofs_are_never_the_same_twice),
        cmocka_unit_test(a_join_played_again_is_refused),
        cmocka_unit_test(the_answerers_proof_sent_back_is_refused),
        cmocka_unit_test(a_proof_for_another_socket_or_greeting_is_refused),
        cmocka_unit_test(another_token_or_job_is_refused),
        cmocka_unit_test(an_end_does_not_meet_itself),
        cmocka_unit_test(who_does_not_fit_is_told_what_differs),
        cmocka_unit_test(a_false_listener_gets_no_proof),
        cmocka_unit_test(other_versions_are_told_both_numbers),
        cmocka_unit_test(garbage_is_closed_and_named),
        cmocka_unit_test(words_that_break_off_leave_nothing_behind),
        cmocka_unit_test(who_says_a_byte_now_and_then_is_closed),
        cmocka_unit_test(who_is_put_off_comes_again),
        cmocka_unit_test(a_refusal_is_not_the_last_word_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
