/* Bytes to a listening transport: whatever comes, every message that was placed ends in done() or
 * broken(), and the connection ends.
 *
 * The first byte picks. 0: the bytes are all that the stranger says. 1: behind the words that a
 * peer begins with. 2: the same, and where a header is due, its magic, version and checksum are
 * made right. 128 more cuts what is sent into small pieces. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "mod/transport.h"
#include "os/caller.h"
#include "wire/bytes.h"

enum { MOST = 1 << 16, AT_CRC = 60 };

/* A broken promise is a crash, whatever NDEBUG says. */
static void must(bool holds)
{
    if (!holds)
        abort();
}

static struct {
    struct transport *transport;
    struct sockaddr_in address;
    unsigned ups, downs, placed, ended;
} end;

static uint32_t greeted(void *ctx, const uint8_t *greeting, const char *address)
{
    (void)ctx;
    (void)address;
    return greeting[0] == 7 ? 0 : TRANSPORT_STRANGER;
}

static void up(void *ctx, uint32_t peer)
{
    (void)ctx;
    must(peer == 0 && end.ups++ == end.downs);
}

static void down(void *ctx, uint32_t peer, const char *why)
{
    (void)ctx;
    must(peer == 0 && why[0] != '\0' && ++end.downs == end.ups);
}

static bool next(void *ctx, uint32_t peer, uint32_t socket, struct transport_out *out)
{
    (void)ctx;
    (void)peer;
    (void)socket;
    (void)out;
    return false;
}

static void gone(void *ctx, uint32_t peer, const struct transport_out *out)
{
    (void)ctx;
    (void)peer;
    (void)out;
    abort(); /* nothing is sent */
}

/* Three runs; the lengths follow from the header, and one may be forgotten. */
static bool place(void *ctx, uint32_t peer, struct transport_in *in)
{
    (void)ctx;
    (void)peer;
    size_t left = in->header.data_len, cut = in->header.clock % 1000;
    if (in->header.layer == 3)
        return false;
    uint8_t *room = malloc(left + 1);
    must(room != NULL);
    in->tag = room;
    for (size_t i = 0; i < TRANSPORT_RUNS; i++) {
        size_t bytes = i + 1 == TRANSPORT_RUNS || left < cut ? left : cut;
        in->runs[i].at = in->header.chunk == i ? NULL : room;
        in->runs[i].bytes = bytes;
        room += bytes;
        left -= bytes;
    }
    end.placed++;
    return true;
}

static void broken(void *ctx, uint32_t peer, const struct transport_in *in)
{
    (void)ctx;
    (void)peer;
    end.ended++;
    free(in->tag);
}

static bool done(void *ctx, uint32_t peer, const struct transport_in *in)
{
    uint32_t sum = crc32c(0, in->head, in->header.head_len); /* all of it can be read */
    broken(ctx, peer, in);
    return in->header.layer != 4 || sum != 0;
}

static void nonsense(void *ctx, uint32_t peer, const char *address, const char *what)
{
    (void)ctx;
    (void)peer;
    must(address[0] != '\0' && what[0] != '\0');
}

static const struct transport_host host = {.greeted = greeted,
                                           .up = up,
                                           .down = down,
                                           .next = next,
                                           .sent = gone,
                                           .unsent = gone,
                                           .place = place,
                                           .done = done,
                                           .broken = broken,
                                           .nonsense = nonsense};
static const struct wire_limits limits = {.nodes = 8,
                                          .workers = 5,
                                          .servers = 4,
                                          .layers = 6,
                                          .chunks = 4,
                                          .max_clock = 1 << 20,
                                          .data_bytes = MOST,
                                          .max_codec = 1};

static void listen_once(void)
{
    struct transport_options options = {.mem = &mem_libc,
                                        .host = &host,
                                        .peers = 1,
                                        .sockets = 1,
                                        .limits = &limits,
                                        .listen = "127.0.0.1:0",
                                        .silence_ms = 5000,
                                        .connect_ms = 1000};
    const struct transport_ops *tcp = transport_find("tcp");
    must(tcp->open(&options, &end.transport, NULL) == TRI_OK);
    end.address.sin_family = AF_INET;
    end.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const char *port = strrchr(tcp->address(end.transport), ':') + 1;
    end.address.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
}

/* Makes headers right where they are due. */
static void mend(uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at + WIRE_HEADER_BYTES <= len;) {
        uint8_t *header = bytes + at;
        wire_store_u32(header, WIRE_MAGIC);
        wire_store_u16(header + 4, WIRE_VERSION);
        header[54] &= 1;
        header[55] = 0;
        wire_store_u32(header + AT_CRC, crc32c(0, header, AT_CRC));
        at += WIRE_HEADER_BYTES + (size_t)wire_load_u16(header + 52) + wire_load_u32(header + 48);
    }
}

static void poll_once(int timeout_ms)
{
    must(transport_find("tcp")->poll(end.transport, timeout_ms, NULL) == TRI_OK);
}

static void say(int fd, const uint8_t *bytes, size_t len, size_t piece)
{
    for (size_t sent = 0; sent < len;) {
        size_t want = len - sent < piece ? len - sent : piece;
        ssize_t now = send(fd, bytes + sent, want, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (now > 0)
            sent += (size_t)now;
        poll_once(0);
        char answer[128];
        if (recv(fd, answer, sizeof answer, MSG_DONTWAIT) == 0 || (now < 0 && end.ups == end.downs))
            return; /* it was closed */
    }
}

/* The first words of a peer; fuzz/handshake.c has those of others. */
static void join(int fd)
{
    const uint8_t greeting[WORDS_GREETING_BYTES] = {7};
    uint8_t asked[WORDS_MOST_BYTES], answered[WORDS_MOST_BYTES], proof[WORDS_MOST_BYTES];
    size_t heard = 0;
    caller_ask(asked, 1, greeting, 1);
    must(send(fd, asked, words_bytes(WORDS_ASKS), MSG_NOSIGNAL) > 0);
    while (!caller_read(fd, answered, words_bytes(WORDS_ANSWERS), &heard))
        poll_once(0);
    caller_prove(proof, NULL, "", asked, answered);
    must(send(fd, proof, words_bytes(WORDS_PROVES), MSG_NOSIGNAL) > 0);
    for (heard = 0; !caller_read(fd, answered, words_bytes(WORDS_WELCOMES), &heard);)
        poll_once(0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[MOST];
    if (size < 1 || size > MOST)
        return 0;
    if (end.transport == NULL)
        listen_once();
    unsigned pick = data[0] % 128 % 3;
    size_t len = size - 1;
    memcpy(bytes, data + 1, len);
    if (pick == 2)
        mend(bytes, len);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    const struct linger now = {.l_onoff = 1, .l_linger = 0}; /* no port is kept */
    must(connect(fd, (const struct sockaddr *)&end.address, sizeof end.address) == 0);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (pick != 0)
        join(fd);
    say(fd, bytes, len, data[0] < 128 ? MOST : pick == 0 ? 7 : 97);
    poll_once(0);
    poll_once(0);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    (void)close(fd);
    do
        poll_once(end.ups > end.downs ? -1 : 0);
    while (end.ups > end.downs);
    must(end.placed == end.ended);
    return 0;
}
