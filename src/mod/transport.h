/* Transports: how messages get from one process to another.
 *
 * A transport moves bytes between this process and its peers, which are numbers here. It has no
 * thread and no queue: one thread calls transport_poll(), which waits, moves what can be moved and
 * asks its host (src/run) through the calls below what to send next, where a message that has begun
 * to arrive shall go, and tells it how things ended. Messages are those of docs/wire.md: a header
 * of WIRE_HEADER_BYTES that says the lengths, a head, and data. Bytes land straight in place.
 *
 * All calls of the host come from transport_poll(), in the thread that called it, and may call
 * transport_send(), transport_connect() and transport_drop(), nothing else. */
#ifndef TRIDENT_MOD_TRANSPORT_H
#define TRIDENT_MOD_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "wire/header.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs of memory of one message's data: a part may cross from weights to bias, factors have a run
 * of u and one of v. */
enum { TRANSPORT_RUNS = 3 };

/* What the two ends of a new connection say first, TRANSPORT_GREETING_BYTES each way; the host's to
 * make and to judge. */
enum { TRANSPORT_GREETING_BYTES = 64 };

struct transport_run {
    void *at; /* NULL: read and forget */
    size_t bytes;
};

/* A message on its way out. Borrowed from next() to sent() or unsent(). */
struct transport_out {
    const uint8_t *head; /* header and head, one after the other */
    size_t head_bytes;
    struct transport_run runs[TRANSPORT_RUNS]; /* bytes 0 from the first unused one on */
    void *tag;                                 /* the host's own */
};

/* A message on its way in. head, with header.head_len bytes, is the transport's, until done(). */
struct transport_in {
    struct wire_header header;
    const uint8_t *head;
    struct transport_run runs[TRANSPORT_RUNS]; /* filled by place(); together header.data_len */
    void *tag;                                 /* the host's own, set by place() */
};

struct transport_host {
    void *ctx;
    /* A peer has connected, or this process to it, and has proved that it knows the token: its
     * greeting and, for logs, its address.
     * The number of the peer, or TRANSPORT_STRANGER: the connection is closed. */
    uint32_t (*greeted)(void *ctx, const uint8_t greeting[TRANSPORT_GREETING_BYTES],
                        const char *address);
    /* All sockets to the peer are there: messages may be sent. */
    void (*up)(void *ctx, uint32_t peer);
    /* There are no more connections to this peer, and none is tried: it closed, the network or
     * transport_drop() did, or nobody answered within the connect time, or the two do not belong
     * together: then `why` begins with TRANSPORT_REFUSED. Not called for strangers. */
    void (*down)(void *ctx, uint32_t peer, const char *why);
    /* The socket has room: the most urgent message for the peer. False: there is none. Only socket
     * 0 of a peer carries messages whose order matters. */
    bool (*next)(void *ctx, uint32_t peer, uint32_t socket, struct transport_out *out);
    /* All of it was handed to the system. Or: it will never be, its memory is the host's again. */
    void (*sent)(void *ctx, uint32_t peer, const struct transport_out *out);
    void (*unsent)(void *ctx, uint32_t peer, const struct transport_out *out);
    /* Header and head are in, and good: where does the data go? False: the peer speaks nonsense,
     * and is dropped. */
    bool (*place)(void *ctx, uint32_t peer, struct transport_in *in);
    /* The data is where place() said. False: as for place(). */
    bool (*done)(void *ctx, uint32_t peer, const struct transport_in *in);
    /* The connection broke between place() and done(). */
    void (*broken)(void *ctx, uint32_t peer, const struct transport_in *in);
    /* Bytes that are no message came from a peer (or from a stranger, TRANSPORT_STRANGER): what is
     * wrong with them. Said once per connection, which is then closed. */
    void (*nonsense)(void *ctx, uint32_t peer, const char *address, const char *what);
};
#define TRANSPORT_STRANGER UINT32_MAX
#define TRANSPORT_REFUSED  "refused: "

struct transport_options {
    const struct mem *mem;
    const struct transport_host *host;          /* borrowed */
    uint32_t peers;                             /* numbers are below this */
    uint32_t sockets;                           /* to each peer, at least 1 */
    const struct wire_limits *limits;           /* borrowed: of headers; may change between polls */
    uint8_t greeting[TRANSPORT_GREETING_BYTES]; /* what this process says first */
    const char *listen;     /* "0.0.0.0:0", "[::]:7000", "10.0.0.1:0": host and port; 0: any port */
    const char *congestion; /* of TCP: "cubic", "reno"; NULL: by whether the peer is on this host */
    uint32_t silence_ms;    /* unanswered bytes or probes for so long break a connection */
    uint32_t connect_ms;    /* how long connecting is tried again, before down() */
    const char *token;      /* secret of the job; NULL: none, and addresses of this machine only */
    const char *job;        /* its name; NULL: "" */
    /* Does who somebody says it is fit, before it is believed? Pure; any bytes may come. The text
     * is for both ends to read. NULL: all fit. */
    tri_status (*fits)(const uint8_t own[TRANSPORT_GREETING_BYTES],
                       const uint8_t other[TRANSPORT_GREETING_BYTES], tri_error *err);
    /* For transports around others; may be left out. */
    const char *name;      /* as in transport_find(); NULL: around tcp */
    const struct log *log; /* borrowed */
    uint32_t self;         /* number of this process */
};

struct transport;

/* What a transport can do: one table per transport. */
struct transport_ops {
    const char *name;
    const char *summary;
    bool wraps; /* another one, that does the work */
    /* Listens. TRI_EINPUT for an address that is none or that needs a token, TRI_EIO for one that
     * cannot be had (a port in use says which, and by next: what to do). Token, job and the texts
     * of addresses are not needed after it. */
    tri_status (*open)(const struct transport_options *options, struct transport **out,
                       tri_error *err);
    /* Closes everything without a word; out of poll() only. Messages that were not sent come back
     * through unsent(), half received ones through broken(); down() is not called. */
    void (*close)(struct transport *transport);
    /* Where it listens, "host:port"; lives as long as it. */
    const char *(*address)(const struct transport *transport);
    /* Begins to connect to a peer; up() or down() follow. The address is copied. TRI_EINPUT for one
     * that is none or that needs a token. */
    tri_status (*connect)(struct transport *transport, uint32_t peer, const char *address,
                          tri_error *err);
    /* There is something for next() to give. May be called from any thread; wakes poll(). */
    void (*send)(struct transport *transport, uint32_t peer);
    /* poll() shall return soon. May be called from any thread and from a signal handler. */
    void (*wake)(struct transport *transport);
    /* Closes the connections to a peer: unsent(), broken() and down() come from the next poll(). */
    void (*drop)(struct transport *transport, uint32_t peer);
    /* Waits at most timeout_ms (negative: for ever) for something to happen, and lets all of it
     * happen. Fails only when the process cannot go on. */
    tri_status (*poll)(struct transport *transport, int timeout_ms, tri_error *err);
};

/* All that are there, by place and by name; NULL past the end, or if there is none. One that wraps
 * is named with what it is put around, "fault:tcp", "trace:fault:tcp"; alone it is around tcp. Then
 * transport_options.name has to be that name. */
const struct transport_ops *transport_at(size_t i);
const struct transport_ops *transport_find(const char *name);

/* What stands behind the first colon of a name. */
const char *transport_inner(const char *name);

#ifdef __cplusplus
}
#endif

#endif
