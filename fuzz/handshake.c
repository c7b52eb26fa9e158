/* First words to an end that listens, and to one that calls: whatever comes, nobody is believed
 * without a proof, and every connection ends.
 *
 * The first byte picks what is said before the other bytes. 0: nothing, by one who calls. 1: ASKS
 * as it should be, and its answer is waited for. 2: the same, and a right proof. 3: nothing, by one
 * who is called. 4: a right answer, by one who is called. 128 more cuts what is sent into small
 * pieces. The second byte is in the greeting. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/caller.h"
#include "os/meet.h"

enum { MOST = 4096, PICKS = 5 };

/* A broken promise is a crash, whatever NDEBUG says. */
static void must(bool holds)
{
    if (!holds)
        abort();
}

static struct {
    struct poller *poller;
    struct meet *meet;
    struct sockaddr_in address, door_address;
    int door;
    unsigned judged, met, missed;
    bool may; /* a right proof was given */
} end;

static uint32_t judge(void *ctx, const struct meet_guest *guest)
{
    (void)ctx;
    must(end.may && guest->address[0] != '\0' && guest->index == 0);
    end.judged++;
    return guest->greeting[0] % 4 == 3 ? MEET_NOBODY : guest->greeting[0] % 4 == 2 ? MEET_LATER : 1;
}

static void met(void *ctx, uint32_t peer, uint32_t index, int fd, const char *address)
{
    (void)ctx;
    must(peer == 1 && index == 0 && address[0] != '\0' && ++end.met <= end.judged);
    net_close(fd);
}

static void missed(void *ctx, uint32_t peer, const char *why)
{
    (void)ctx;
    must(peer == 1 && why[0] != '\0');
    end.missed++;
}

static void nonsense(void *ctx, uint32_t dialled, const char *address, const char *what)
{
    (void)ctx;
    must((dialled == 1 || dialled == MEET_NOBODY) && address[0] != '\0' && what[0] != '\0');
}

static tri_status fits(const uint8_t *own, const uint8_t *other, tri_error *err)
{
    return own[1] == other[1] ? TRI_OK : fail(err, TRI_EMISMATCH, "another byte");
}

static const struct meet_host host = {
    .judge = judge, .met = met, .missed = missed, .nonsense = nonsense};

static void open_once(void)
{
    struct meet_options options = {.mem = &mem_libc,
                                   .host = &host,
                                   .listen = "127.0.0.1:0",
                                   .sockets = 1,
                                   .token = "token",
                                   .job = "job",
                                   .fits = fits};
    char where[NET_TEXT];
    options.greeting[0] = 255;
    must(poller_open(&mem_libc, &end.poller, NULL) == TRI_OK);
    options.poller = end.poller;
    must(meet_open(&options, &end.meet, NULL) == TRI_OK);
    must(net_listen("127.0.0.1:0", &end.door, where, NULL) == TRI_OK);
    end.address.sin_family = end.door_address.sin_family = AF_INET;
    end.address.sin_addr.s_addr = end.door_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const char *port = strrchr(meet_address(end.meet), ':') + 1;
    end.address.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    end.door_address.sin_port = htons((uint16_t)strtoul(strrchr(where, ':') + 1, NULL, 10));
}

static void turn(int wait_ms)
{
    must(poller_wait(end.poller, wait_ms, NULL) == TRI_OK);
    meet_tick(end.meet);
}

static int call(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    must(connect(fd, (const struct sockaddr *)&end.address, sizeof end.address) == 0);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static int be_called(void)
{
    struct net_address to = {.len = sizeof end.door_address}, from;
    memcpy(&to.at, &end.door_address, sizeof end.door_address);
    struct meet_call meet_call = {
        .peer = 1, .deadline_ms = poller_now_ms() + 60000, .addresses = &to, .count = 1};
    must(meet_dial(end.meet, &meet_call, NULL) == TRI_OK);
    int fd;
    while ((fd = net_accept(end.door, &from)) < 0)
        turn(0);
    return fd;
}

/* Reads a record that must come, if anything does; false: it was closed. */
static bool hear(int fd, uint8_t *out, enum words_kind kind)
{
    size_t have = 0;
    while (!caller_read(fd, out, words_bytes(kind), &have)) {
        char byte;
        turn(0);
        if (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
            return false;
    }
    return true;
}

static void say(int fd, const uint8_t *bytes, size_t len, size_t piece)
{
    for (size_t sent = 0; sent < len; turn(0)) {
        size_t want = len - sent < piece ? len - sent : piece;
        ssize_t now = send(fd, bytes + sent, want, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (now <= 0)
            return; /* it was closed */
        sent += (size_t)now;
    }
}

/* What comes before the fuzzed bytes. */
static void begin(int fd, unsigned pick, uint8_t first)
{
    const uint8_t greeting[WORDS_GREETING_BYTES] = {first};
    uint8_t asked[WORDS_MOST_BYTES], answered[WORDS_MOST_BYTES], proof[WORDS_MOST_BYTES];
    if (pick == 1 || pick == 2) {
        caller_ask(asked, 1, greeting, first);
        say(fd, asked, words_bytes(WORDS_ASKS), MOST);
        if (hear(fd, answered, WORDS_ANSWERS) && pick == 2) {
            caller_prove(proof, "token", "job", asked, answered);
            say(fd, proof, words_bytes(WORDS_PROVES), MOST);
        }
    } else if (pick == 4 && hear(fd, asked, WORDS_ASKS)) {
        uint8_t key[KEYED_KEY_BYTES];
        caller_ask(answered, 1, greeting, first);
        answered[6] = WORDS_ANSWERS;
        keyed_key("token", "job", key);
        words_prove(key, WORDS_ANSWERS, asked, answered, answered + WORDS_SAID_BYTES);
        say(fd, answered, words_bytes(WORDS_ANSWERS), MOST);
        must(hear(fd, proof, first == 255 ? WORDS_REFUSES : WORDS_PROVES));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0}; /* no port is kept */
    if (size < 2 || size > MOST)
        return 0;
    if (end.meet == NULL)
        open_once();
    unsigned pick = data[0] % 128 % PICKS;
    end.judged = end.met = end.missed = 0;
    end.may = pick == 2 || pick == 4;
    int fd = pick >= 3 ? be_called() : call();
    begin(fd, pick, data[1]);
    say(fd, data + 2, size - 2, data[0] >= 128 ? 7 : MOST);
    turn(0);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    (void)close(fd);
    turn(0);
    meet_hang_up(end.meet, 1, MEET_NOBODY);
    while (meet_wait_ms(end.meet) >= 0) /* no visit stays */
        turn(-1);
    while ((fd = net_accept(end.door, &(struct net_address){0})) >= 0)
        net_close(fd); /* it called again */
    must(pick != 2 || end.judged == (data[1] != 255));
    return 0;
}
