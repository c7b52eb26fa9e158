/* TCP: some sockets to each peer, read straight into place.
 *
 * os/meet makes the connections; here are those that are made. Each is a struct conn, and the
 * conns of one peer are its link, which is up when all of them are there. What happens to a conn
 * (epoll says so, or the host has something to send) puts it on the list of busy ones, and a round
 * serves each of them once, in both directions, with a bound on the bytes, so that none starves.
 * A link that breaks, or is dropped, is only marked, and taken down at the end of the round: calls
 * of the host may mark any, and nobody holds a pointer into one then. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "mod/transport.h"
#include "os/marks.h"
#include "os/meet.h"
#include "os/net.h"
#include "os/poller.h"

_Static_assert((int)MEET_GREETING_BYTES == (int)TRANSPORT_GREETING_BYTES, "one greeting");
_Static_assert(MEET_NOBODY == TRANSPORT_STRANGER, "nobody is a stranger");
_Static_assert(sizeof MEET_REFUSED == sizeof TRANSPORT_REFUSED, "one word for a refusal");

enum {
    ROUND_BYTES = 1 << 20, /* of a conn in each direction in one round */
    UNSENT_BYTES =
        256 << 10,           /* in the kernel and not on their way: what is urgent waits for them */
    BUFFER_BYTES = 16 << 10, /* of a conn, at first: headers, heads, small messages */
    AHEAD_BYTES = 4 << 10,   /* read behind the data of a message, for the next header */
    SCRATCH_BYTES = 64 << 10, /* what is read and forgotten */
    LAST_BYTES = 64 << 20,    /* read of a conn whose link is broken already */
    REDIAL_MS = 10,           /* after a connection that was made and lost at once */
    WHY = sizeof((tri_error){0}.text),
};

enum stage { STAGE_HEADER, STAGE_HEAD, STAGE_DATA };

/* A message on its way in, and the buffer of bytes that have no place yet. */
struct reader {
    uint8_t *buffer;
    size_t cap, begin, end; /* the bytes from begin to end are there and not looked at */
    size_t head_end;        /* the head stays in the buffer until its data is in */
    enum stage stage;
    struct transport_in in; /* placed from STAGE_DATA on */
    size_t run, run_done;   /* where the data goes on */
    size_t left;            /* of the data */
    uint32_t crc;           /* of head and data so far, if the header is checked */
};

/* A message on its way out. */
struct writer {
    bool sending;
    bool idle; /* next() had nothing, and transport_send() was not called since */
    struct transport_out out;
    struct iovec runs[1 + TRANSPORT_RUNS];
    size_t run, count;
};

struct conn {
    struct poller_source source; /* fd -1: not there */
    struct link *link;
    struct conn *busy_next;
    bool busy;
    bool readable, writable;
    bool ended; /* nothing more will come than what is there */
    int why;    /* sending failed: errno */
    uint32_t index;
    char address[NET_TEXT];
    struct reader reader;
    struct writer writer;
};

struct link {
    struct transport *transport;
    uint32_t peer;
    uint32_t have; /* conns that are there */
    bool up;
    bool wanted; /* connect() was called: down() is owed */
    bool broken; /* on the list of those to take down: nothing more is sent */
    bool deaf;   /* and nothing more is heard */
    struct link *broken_next;
    int64_t deadline_ms;
    struct net_address addresses[NET_ADDRESSES];
    size_t address_count;
    char why[WHY];
    struct conn conns[];
};

struct transport {
    struct transport_options options;
    struct net_tuning tuning;
    char congestion[NET_CONGESTION];
    struct meet_host meet_host;
    struct poller *poller;
    struct meet *meet;
    struct link **links; /* by peer; NULL until there is one */
    struct conn *busy, **busy_end;
    struct link *broken;
    uint8_t *scratch;
    struct marks *want; /* peers that transport_send() was called for */
};

/* ---- lists ---- */

static void make_busy(struct conn *conn)
{
    struct transport *transport = conn->link->transport;
    if (conn->busy || !conn->link->up)
        return;
    conn->busy = true;
    conn->busy_next = NULL;
    *transport->busy_end = conn;
    transport->busy_end = &conn->busy_next;
}

/* The first reason stands. */
static void break_link(struct link *link, const char *why)
{
    if (link->broken)
        return;
    link->broken = true;
    (void)snprintf(link->why, sizeof link->why, "%s", why);
    link->broken_next = link->transport->broken;
    link->transport->broken = link;
}

/* Whatever else it said is of no interest. */
static void refuse_link(struct link *link, const char *why)
{
    link->deaf = true;
    break_link(link, why);
}

static void nonsense(struct conn *conn, const char *what)
{
    struct link *link = conn->link;
    const struct transport_host *host = link->transport->options.host;
    refuse_link(link, what);
    host->nonsense(host->ctx, link->peer, conn->address, what);
}

static void end_conn(struct conn *conn, int why)
{
    conn->readable = conn->writable = false;
    break_link(conn->link, why == 0           ? "it closed the connection"
                           : why == ETIMEDOUT ? "silent for too long"
                                              : strerror(why));
}

/* ---- out ---- */

static bool ask_next(struct conn *conn)
{
    struct writer *writer = &conn->writer;
    const struct transport_host *host = conn->link->transport->options.host;
    writer->out = (struct transport_out){0};
    if (!host->next(host->ctx, conn->link->peer, conn->index, &writer->out)) {
        writer->idle = true;
        return false;
    }
    writer->sending = true;
    writer->runs[0].iov_base = (void *)writer->out.head;
    writer->runs[0].iov_len = writer->out.head_bytes;
    writer->run = 0;
    writer->count = 1;
    for (size_t i = 0; i < TRANSPORT_RUNS && writer->out.runs[i].bytes > 0; i++) {
        writer->runs[writer->count].iov_base = writer->out.runs[i].at;
        writer->runs[writer->count++].iov_len = writer->out.runs[i].bytes;
    }
    return true;
}

/* Takes bytes off the front. True when nothing is left. */
static bool advance(struct writer *writer, size_t bytes)
{
    while (writer->run < writer->count && bytes >= writer->runs[writer->run].iov_len)
        bytes -= writer->runs[writer->run++].iov_len;
    if (writer->run == writer->count)
        return true;
    struct iovec *run = &writer->runs[writer->run];
    run->iov_base = (char *)run->iov_base + bytes;
    run->iov_len -= bytes;
    return false;
}

static size_t unsent_bytes(const struct writer *writer)
{
    size_t bytes = 0;
    for (size_t i = writer->run; i < writer->count; i++)
        bytes += writer->runs[i].iov_len;
    return bytes;
}

/* The connection is over; but what the peer said last may still be there to be read. */
static void end_writing(struct conn *conn, int why)
{
    conn->why = why;
    conn->writable = false;
    conn->readable = true;
    conn->ended = true;
}

static void serve_out(struct conn *conn)
{
    struct writer *writer = &conn->writer;
    const struct transport_host *host = conn->link->transport->options.host;
    for (size_t done = 0; done < ROUND_BYTES && conn->writable && !conn->link->broken;) {
        if (!writer->sending && (writer->idle || !ask_next(conn)))
            return;
        size_t want = unsent_bytes(writer);
        ssize_t sent =
            net_send(conn->source.fd, writer->runs + writer->run, writer->count - writer->run);
        if (sent < 0) {
            end_writing(conn, errno);
            return;
        }
        done += (size_t)sent;
        conn->writable = (size_t)sent == want;
        if (advance(writer, (size_t)sent)) {
            writer->sending = false;
            host->sent(host->ctx, conn->link->peer, &writer->out);
        }
    }
}

/* ---- in ---- */

static void move_to_front(struct reader *reader)
{
    memmove(reader->buffer, reader->buffer + reader->begin, reader->end - reader->begin);
    reader->end -= reader->begin;
    reader->begin = 0;
}

/* Room for `bytes` from begin on. */
static bool make_room(struct conn *conn, size_t bytes)
{
    struct reader *reader = &conn->reader;
    const struct mem *mem = conn->link->transport->options.mem;
    if (reader->begin > 0 && (reader->begin == reader->end || reader->begin + bytes > reader->cap))
        move_to_front(reader);
    if (reader->begin + bytes <= reader->cap)
        return true;
    size_t cap = bytes > BUFFER_BYTES ? bytes : BUFFER_BYTES;
    uint8_t *grown = mem->resize(mem->ctx, reader->buffer, cap);
    if (grown == NULL) {
        refuse_link(conn->link, "no memory for what it sent");
        return false;
    }
    reader->buffer = grown;
    reader->cap = cap;
    return true;
}

/* Bytes of the data have landed where they belong. */
static void landed(struct transport *transport, struct reader *reader, size_t bytes)
{
    reader->left -= bytes;
    while (bytes > 0) {
        struct transport_run *run = &reader->in.runs[reader->run];
        size_t here = run->bytes - reader->run_done;
        here = here < bytes ? here : bytes;
        if (reader->in.header.checked) {
            const void *at =
                run->at != NULL ? (uint8_t *)run->at + reader->run_done : transport->scratch;
            reader->crc = crc32c(reader->crc, at, here);
        }
        reader->run_done += here;
        bytes -= here;
        while (reader->run < TRANSPORT_RUNS &&
               reader->run_done == reader->in.runs[reader->run].bytes) {
            reader->run++;
            reader->run_done = 0;
        }
    }
}

/* Where the next bytes of the data go, at most TRANSPORT_RUNS runs; what is to be forgotten is the
 * last one, because there is one scratch. */
static size_t rest_of_data(struct transport *transport, const struct reader *reader,
                           struct iovec out[TRANSPORT_RUNS])
{
    size_t count = 0, done = reader->run_done;
    for (size_t i = reader->run; i < TRANSPORT_RUNS; i++, done = 0) {
        const struct transport_run *run = &reader->in.runs[i];
        size_t bytes = run->bytes - done;
        if (bytes == 0)
            continue;
        if (run->at == NULL) {
            out[count].iov_base = transport->scratch;
            out[count++].iov_len = bytes < SCRATCH_BYTES ? bytes : SCRATCH_BYTES;
            break;
        }
        out[count].iov_base = (uint8_t *)run->at + done;
        out[count++].iov_len = bytes;
    }
    return count;
}

/* Data that came along with the head. */
static void copy_data(struct conn *conn)
{
    struct reader *reader = &conn->reader;
    struct transport *transport = conn->link->transport;
    while (reader->left > 0 && reader->begin < reader->end) {
        struct iovec runs[TRANSPORT_RUNS];
        size_t have = reader->end - reader->begin;
        if (rest_of_data(transport, reader, runs) == 0)
            return;
        size_t bytes = runs[0].iov_len < have ? runs[0].iov_len : have;
        memcpy(runs[0].iov_base, reader->buffer + reader->begin, bytes);
        reader->begin += bytes;
        landed(transport, reader, bytes);
    }
}

static void finish(struct conn *conn)
{
    struct reader *reader = &conn->reader;
    const struct wire_header *header = &reader->in.header;
    const struct transport_host *host = conn->link->transport->options.host;
    if (header->checked && reader->crc != header->payload_crc) {
        char what[WHY];
        (void)snprintf(what, sizeof what,
                       "%s is damaged: its checksum is %08" PRIx32 ", the header says %08" PRIx32,
                       wire_kind_name(header->kind), reader->crc, header->payload_crc);
        nonsense(conn, what); /* broken() comes when the link is taken down */
        return;
    }
    reader->stage = STAGE_HEADER;
    if (!host->done(host->ctx, conn->link->peer, &reader->in))
        refuse_link(conn->link, "it sent what makes no sense");
}

static void take_header(struct conn *conn)
{
    struct reader *reader = &conn->reader;
    tri_error err = {0};
    reader->in = (struct transport_in){0};
    if (wire_header_decode(reader->buffer + reader->begin, conn->link->transport->options.limits,
                           &reader->in.header, &err) != TRI_OK) {
        nonsense(conn, err.text);
        return;
    }
    reader->begin += WIRE_HEADER_BYTES;
    reader->stage = STAGE_HEAD;
}

static bool fits(const struct transport_in *in)
{
    size_t bytes = 0;
    for (size_t i = 0; i < TRANSPORT_RUNS; i++)
        bytes += in->runs[i].bytes;
    return bytes == in->header.data_len;
}

static void take_head(struct conn *conn)
{
    struct reader *reader = &conn->reader;
    struct transport_in *in = &reader->in;
    const struct transport_host *host = conn->link->transport->options.host;
    if (reader->begin + in->header.head_len + AHEAD_BYTES > reader->cap)
        move_to_front(reader);
    in->head = reader->buffer + reader->begin;
    reader->begin += in->header.head_len;
    reader->head_end = reader->begin;
    reader->left = in->header.data_len;
    reader->run = reader->run_done = 0;
    if (in->header.checked)
        reader->crc = crc32c(0, in->head, in->header.head_len);
    if (!host->place(host->ctx, conn->link->peer, in)) {
        refuse_link(conn->link, "it sent what makes no sense");
        return;
    }
    reader->stage = STAGE_DATA;
    if (!fits(in))
        refuse_link(conn->link, "this process has no place for what it sent");
}

/* Goes as far as the bytes in the buffer go. */
static void parse(struct conn *conn)
{
    struct reader *reader = &conn->reader;
    while (!conn->link->deaf) {
        size_t have = reader->end - reader->begin;
        if (reader->stage == STAGE_HEADER && have >= WIRE_HEADER_BYTES)
            take_header(conn);
        else if (reader->stage == STAGE_HEAD && have >= reader->in.header.head_len)
            take_head(conn);
        else if (reader->stage == STAGE_DATA && (reader->left == 0 || have > 0)) {
            copy_data(conn);
            if (reader->left == 0)
                finish(conn);
        } else
            return;
    }
}

/* Where the next bytes go: to their places, and behind them into the buffer. The number of runs,
 * 0 when there is no memory. */
static size_t next_bytes(struct conn *conn, struct iovec out[TRANSPORT_RUNS + 1])
{
    struct reader *reader = &conn->reader;
    size_t count = 0, most = AHEAD_BYTES;
    if (reader->stage == STAGE_DATA) {
        count = rest_of_data(conn->link->transport, reader, out);
        size_t bytes = 0;
        for (size_t i = 0; i < count; i++)
            bytes += out[i].iov_len;
        if (bytes < reader->left)
            return count;
        reader->begin = reader->end = reader->head_end; /* what stood there was data */
    } else {
        size_t need = BUFFER_BYTES / 2;
        if (reader->stage == STAGE_HEAD && reader->in.header.head_len > need)
            need = reader->in.header.head_len;
        if (!make_room(conn, need))
            return 0;
        most = reader->cap;
    }
    size_t room = reader->cap - reader->end;
    if (room > 0) {
        out[count].iov_base = reader->buffer + reader->end;
        out[count++].iov_len = room < most ? room : most;
    }
    return count;
}

/* Reads once. False when nothing more can be read now. */
static bool read_some(struct conn *conn, size_t *done)
{
    struct reader *reader = &conn->reader;
    struct iovec runs[TRANSPORT_RUNS + 1];
    size_t count = next_bytes(conn, runs), want = 0;
    for (size_t i = 0; i < count; i++)
        want += runs[i].iov_len;
    if (count == 0)
        return false;
    ssize_t got = net_recv(conn->source.fd, runs, count);
    if (got < 0 || (got == 0 && conn->ended)) {
        end_conn(conn, got < 0 && conn->why == 0 ? errno : conn->why);
        return false;
    }
    size_t bytes = (size_t)got;
    *done += bytes;
    /* A stream that gave less than was asked for is empty; its next byte comes with an event. Its
     * end came with one already. */
    if (bytes < want && !conn->ended)
        conn->readable = false;
    if (reader->stage == STAGE_DATA) {
        size_t data = bytes < reader->left ? bytes : reader->left;
        landed(conn->link->transport, reader, data);
        bytes -= data;
    }
    reader->end += bytes;
    return true;
}

static void serve_in(struct conn *conn, size_t most)
{
    size_t done = 0;
    while (done < most && conn->readable && !conn->link->deaf && read_some(conn, &done))
        parse(conn);
}

/* ---- links ---- */

static struct link *link_of(struct transport *transport, uint32_t peer, tri_error *err)
{
    uint32_t sockets = transport->options.sockets;
    if (transport->links[peer] != NULL)
        return transport->links[peer];
    struct link *link = mem_array(transport->options.mem, 1,
                                  sizeof *link + (size_t)sockets * sizeof link->conns[0]);
    if (link == NULL) {
        (void)fail_nomem(err, "a connection");
        return NULL;
    }
    link->transport = transport;
    link->peer = peer;
    for (uint32_t i = 0; i < sockets; i++) {
        link->conns[i].link = link;
        link->conns[i].index = i;
        link->conns[i].source.fd = -1;
    }
    transport->links[peer] = link;
    return link;
}

static tri_status dial(struct link *link, uint32_t index, int after_ms, tri_error *err)
{
    struct meet_call call = {.peer = link->peer,
                             .index = index,
                             .deadline_ms = link->deadline_ms,
                             .after_ms = after_ms,
                             .addresses = link->addresses,
                             .count = link->address_count};
    return meet_dial(link->transport->meet, &call, err);
}

/* Nobody sees a conn any more; its messages go back. */
static void close_conn(struct conn *conn)
{
    struct link *link = conn->link;
    const struct transport_host *host = link->transport->options.host;
    if (conn->source.fd < 0)
        return;
    poller_remove(link->transport->poller, &conn->source);
    net_close(conn->source.fd);
    conn->source.fd = -1;
    link->have--;
    if (conn->writer.sending)
        host->unsent(host->ctx, link->peer, &conn->writer.out);
    if (conn->reader.stage == STAGE_DATA)
        host->broken(host->ctx, link->peer, &conn->reader.in);
    conn->writer = (struct writer){0};
    conn->reader.stage = STAGE_HEADER;
    conn->reader.begin = conn->reader.end = 0;
    conn->readable = conn->writable = conn->ended = false;
    conn->why = 0;
}

/* A conn that ended before its link was up: the peer is asked again, if it is we who ask. */
static void lose_early(struct conn *conn)
{
    struct link *link = conn->link;
    tri_error err = {0};
    close_conn(conn);
    if (link->wanted && dial(link, conn->index, REDIAL_MS, &err) != TRI_OK)
        break_link(link, err.text);
}

static void conn_ready(struct poller_source *source, unsigned what)
{
    struct conn *conn = (struct conn *)source; /* its first member */
    if ((what & (POLLER_READ | POLLER_END)) != 0)
        conn->readable = true;
    if ((what & POLLER_WRITE) != 0)
        conn->writable = true;
    if ((what & POLLER_END) != 0)
        conn->ended = true;
    if (conn->link->up)
        make_busy(conn);
    else if (conn->ended && !conn->link->broken)
        lose_early(conn);
}

static void go_up(struct link *link)
{
    struct transport *transport = link->transport;
    const struct transport_host *host = transport->options.host;
    link->up = true;
    for (uint32_t i = 0; i < transport->options.sockets; i++) {
        struct conn *conn = &link->conns[i];
        conn->readable = conn->writable = true; /* whatever was heard or not until now */
        make_busy(conn);
    }
    host->up(host->ctx, link->peer);
}

static void met(void *ctx, uint32_t peer, uint32_t index, int fd, const char *address)
{
    struct transport *transport = ctx;
    struct link *link = transport->links[peer]; /* judge() made it */
    struct conn *conn = &link->conns[index];
    net_tune(fd, &transport->tuning);
    conn->source = (struct poller_source){.fd = fd, .ready = conn_ready};
    (void)snprintf(conn->address, sizeof conn->address, "%s", address);
    if (poller_add(transport->poller, &conn->source, NULL) != TRI_OK) {
        net_close(fd);
        conn->source.fd = -1;
        if (link->wanted)
            break_link(link, "the system cannot wait for more connections");
        return;
    }
    link->have++;
    if (link->have == transport->options.sockets)
        go_up(link);
}

/* Both may call each other at the same time. Then the one whose greeting is larger has its way. */
static bool gives_way(const struct transport *transport, const uint8_t *greeting)
{
    return memcmp(greeting, transport->options.greeting, TRANSPORT_GREETING_BYTES) > 0;
}

static uint32_t judge(void *ctx, const struct meet_guest *guest)
{
    struct transport *transport = ctx;
    const struct transport_host *host = transport->options.host;
    uint32_t peer = host->greeted(host->ctx, guest->greeting, guest->address);
    if (peer >= transport->options.peers ||
        (guest->dialled != MEET_NOBODY && guest->dialled != peer))
        return MEET_NOBODY;
    struct link *link = link_of(transport, peer, NULL);
    if (link == NULL || link->broken || link->up || link->conns[guest->index].source.fd >= 0)
        return MEET_LATER;
    if (guest->dialled == MEET_NOBODY && meet_dialling(transport->meet, peer, guest->index)) {
        if (!gives_way(transport, guest->greeting))
            return MEET_LATER;
        meet_hang_up(transport->meet, peer, guest->index);
    }
    return peer;
}

static void missed(void *ctx, uint32_t peer, const char *why)
{
    struct transport *transport = ctx;
    break_link(transport->links[peer], why);
}

static void meet_nonsense(void *ctx, uint32_t dialled, const char *address, const char *what)
{
    struct transport *transport = ctx;
    const struct transport_host *host = transport->options.host;
    host->nonsense(host->ctx, dialled, address, what);
}

/* ---- taking down ---- */

/* A peer that closes may have said on one socket why, and the end of another was seen first. */
static void hear_out(struct link *link)
{
    for (uint32_t i = 0; i < link->transport->options.sockets && link->up && !link->deaf; i++) {
        link->conns[i].readable = true;
        serve_in(&link->conns[i], LAST_BYTES);
    }
}

static void unlist(struct transport *transport, const struct link *link)
{
    struct conn **at = &transport->busy;
    while (*at != NULL) {
        struct conn *conn = *at;
        if (conn->link == link) {
            conn->busy = false;
            *at = conn->busy_next;
        } else {
            at = &conn->busy_next;
        }
    }
    transport->busy_end = at;
}

static void take_down(struct link *link)
{
    struct transport *transport = link->transport;
    const struct transport_host *host = transport->options.host;
    char why[WHY];
    hear_out(link);
    memcpy(why, link->why, sizeof why);
    meet_hang_up(transport->meet, link->peer, MEET_NOBODY);
    unlist(transport, link);
    for (uint32_t i = 0; i < transport->options.sockets; i++)
        close_conn(&link->conns[i]);
    bool owed = link->up || link->wanted;
    link->up = link->wanted = link->broken = link->deaf = false;
    if (owed)
        host->down(host->ctx, link->peer, why);
}

/* Those that down() drops or breaks wait for the next round. */
static void take_down_broken(struct transport *transport)
{
    struct link *next = transport->broken;
    transport->broken = NULL;
    while (next != NULL) {
        struct link *link = next;
        next = link->broken_next;
        take_down(link);
    }
}

/* ---- rounds ---- */

static void wake_sockets(void *ctx, uint32_t peer)
{
    struct transport *transport = ctx;
    struct link *link = transport->links[peer];
    for (uint32_t i = 0; link != NULL && link->up && i < transport->options.sockets; i++) {
        link->conns[i].writer.idle = false;
        if (link->conns[i].writable)
            make_busy(&link->conns[i]);
    }
}

static void serve(struct conn *conn)
{
    if (conn->link->broken)
        return;
    serve_in(conn, ROUND_BYTES);
    serve_out(conn);
    if (!conn->link->broken && (conn->readable || (conn->writable && !conn->writer.idle)))
        make_busy(conn);
}

static void serve_busy(struct transport *transport)
{
    struct conn *next = transport->busy;
    transport->busy = NULL;
    transport->busy_end = &transport->busy;
    while (next != NULL) {
        struct conn *conn = next;
        next = conn->busy_next;
        conn->busy = false;
        serve(conn);
    }
}

static tri_status tcp_poll(struct transport *transport, int timeout_ms, tri_error *err)
{
    int tick_ms = meet_wait_ms(transport->meet);
    if (transport->busy != NULL || transport->broken != NULL)
        timeout_ms = 0;
    else if (tick_ms >= 0 && (timeout_ms < 0 || tick_ms < timeout_ms))
        timeout_ms = tick_ms;
    tri_status status = poller_wait(transport->poller, timeout_ms, err);
    if (status != TRI_OK)
        return status;
    meet_tick(transport->meet);
    marks_take(transport->want, wake_sockets, transport);
    serve_busy(transport);
    take_down_broken(transport);
    return TRI_OK;
}

/* ---- the rest of the table ---- */

static void tcp_send(struct transport *transport, uint32_t peer)
{
    marks_add(transport->want, peer);
    poller_poke(transport->poller);
}

static void tcp_wake(struct transport *transport)
{
    poller_poke(transport->poller);
}

static void tcp_drop(struct transport *transport, uint32_t peer)
{
    struct link *link = transport->links[peer];
    if (link != NULL && (link->have > 0 || link->wanted))
        refuse_link(link, "dropped by this process");
}

static tri_status tcp_connect(struct transport *transport, uint32_t peer, const char *address,
                              tri_error *err)
{
    if (peer >= transport->options.peers)
        return fail(err, TRI_EARG, "there is no peer %" PRIu32, peer);
    struct link *link = link_of(transport, peer, err);
    if (link == NULL)
        return TRI_ENOMEM;
    if (link->up || link->wanted)
        return fail(err, TRI_EARG, "peer %" PRIu32 " is connected already", peer);
    tri_status status = net_resolve(address, link->addresses, &link->address_count, err);
    link->deadline_ms = poller_now_ms() + transport->options.connect_ms;
    for (uint32_t i = 0; i < transport->options.sockets && status == TRI_OK; i++)
        if (link->conns[i].source.fd < 0)
            status = dial(link, i, 0, err);
    link->wanted = status == TRI_OK;
    if (status != TRI_OK)
        meet_hang_up(transport->meet, peer, MEET_NOBODY);
    return status;
}

static const char *tcp_address(const struct transport *transport)
{
    return meet_address(transport->meet);
}

static void close_link(struct link *link)
{
    const struct mem *mem = link->transport->options.mem;
    for (uint32_t i = 0; i < link->transport->options.sockets; i++) {
        struct conn *conn = &link->conns[i];
        if (conn->source.fd >= 0) {
            net_end(conn->source.fd);
            net_discard(conn->source.fd, LAST_BYTES);
        }
        close_conn(conn);
        mem_free(mem, conn->reader.buffer);
    }
    mem_free(mem, link);
}

static void tcp_close(struct transport *transport)
{
    if (transport == NULL)
        return;
    const struct mem *mem = transport->options.mem;
    meet_close(transport->meet);
    for (uint32_t i = 0; transport->links != NULL && i < transport->options.peers; i++)
        if (transport->links[i] != NULL)
            close_link(transport->links[i]);
    poller_close(transport->poller);
    mem_free(mem, transport->links);
    marks_free(transport->want);
    mem_free(mem, transport->scratch);
    mem_free(mem, transport);
}

static tri_status make_tables(struct transport *transport, tri_error *err)
{
    const struct mem *mem = transport->options.mem;
    transport->links = mem_array(mem, transport->options.peers, sizeof(struct link *));
    transport->want = marks_new(mem, transport->options.peers);
    transport->scratch = mem_array(mem, 1, SCRATCH_BYTES);
    if (transport->links == NULL || transport->want == NULL || transport->scratch == NULL)
        return fail_nomem(err, "a transport");
    return TRI_OK;
}

static tri_status start(struct transport *transport, tri_error *err)
{
    struct meet_options meet = {.mem = transport->options.mem,
                                .host = &transport->meet_host,
                                .listen = transport->options.listen,
                                .sockets = transport->options.sockets,
                                .token = transport->options.token,
                                .job = transport->options.job,
                                .fits = transport->options.fits};
    memcpy(meet.greeting, transport->options.greeting, sizeof meet.greeting);
    transport->meet_host = (struct meet_host){
        .ctx = transport, .judge = judge, .met = met, .missed = missed, .nonsense = meet_nonsense};
    tri_status status = make_tables(transport, err);
    if (status == TRI_OK)
        status = poller_open(transport->options.mem, &transport->poller, err);
    meet.poller = transport->poller;
    if (status == TRI_OK)
        status = meet_open(&meet, &transport->meet, err);
    transport->options.listen = transport->options.token = transport->options.job = NULL;
    return status;
}

static tri_status tcp_open(const struct transport_options *options, struct transport **out,
                           tri_error *err)
{
    if (options->sockets == 0)
        return fail(err, TRI_EARG, "a transport needs at least one socket to each peer");
    struct transport *transport = mem_array(options->mem, 1, sizeof *transport);
    if (transport == NULL)
        return fail_nomem(err, "a transport");
    transport->options = *options;
    transport->busy_end = &transport->busy;
    transport->tuning =
        (struct net_tuning){.silence_ms = options->silence_ms, .unsent_bytes = UNSENT_BYTES};
    if (options->congestion != NULL) {
        (void)snprintf(transport->congestion, sizeof transport->congestion, "%s",
                       options->congestion);
        transport->tuning.congestion = transport->congestion;
    }
    tri_status status = start(transport, err);
    if (status != TRI_OK) {
        tcp_close(transport);
        return status;
    }
    *out = transport;
    return TRI_OK;
}

extern const struct transport_ops transport_tcp;
const struct transport_ops transport_tcp = {
    .name = "tcp",
    .summary = "sockets between processes, on one host or many",
    .open = tcp_open,
    .close = tcp_close,
    .address = tcp_address,
    .connect = tcp_connect,
    .send = tcp_send,
    .wake = tcp_wake,
    .drop = tcp_drop,
    .poll = tcp_poll,
};
