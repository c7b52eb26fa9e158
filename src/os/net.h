/* Sockets of TCP that never block: addresses, listening, connecting, moving bytes.
 *
 * Nothing here has state of its own. Descriptors belong to the caller, are closed on exec and are
 * closed with net_close(). */
#ifndef TRIDENT_OS_NET_H
#define TRIDENT_OS_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    NET_TEXT = 80,       /* of an address: "10.0.0.1:7000", "[fe80::1%eth0]:7000" */
    NET_CONGESTION = 16, /* of the name of a congestion control */
    NET_ADDRESSES = 4,   /* a name may stand for several; more are not tried */
};

struct net_address {
    struct sockaddr_storage at;
    socklen_t len;
};

/* Every socket of a connection gets these. */
struct net_tuning {
    uint32_t silence_ms;    /* unanswered bytes or probes for so long break it; 0: the system's */
    const char *congestion; /* NULL: cubic or reno when both ends are on this host */
    uint32_t unsent_bytes;  /* writable while fewer bytes than this wait to be sent; 0: any */
};

/* "host:port" to addresses, numbers first, then names (which may ask the network, and wait for it).
 * At least one and at most NET_ADDRESSES of them. TRI_EINPUT for text that is no address, TRI_EIO
 * for a name that nobody knows. */
tri_status net_resolve(const char *text, struct net_address out[NET_ADDRESSES], size_t *count,
                       tri_error *err);

/* Port 0 asks for any. *fd is then the listening socket, and out says where. TRI_EINPUT or TRI_EIO,
 * as for net_resolve(); TRI_EIO for an address that cannot be had. */
tri_status net_listen(const char *text, int *fd, char out[NET_TEXT], tri_error *err);

/* A connection that waits, or -1 with errno; EAGAIN: there is none. */
int net_accept(int fd, struct net_address *from);

/* Begins to connect; -1 with errno when that fails at once. When the socket is writable,
 * net_connected() says how it ended: 0, or why not, as in errno. A connection to itself, which
 * happens on one host when nobody listens, counts as refused. */
int net_connect(const struct net_address *to);
int net_connected(int fd);

void net_tune(int fd, const struct net_tuning *tuning);
void net_congestion(int fd, char out[NET_CONGESTION]); /* which is in use; "" if unknown */

void net_text(const struct net_address *address, char out[NET_TEXT]);
bool net_same_host(int fd); /* are both ends of the connection on this host? */

/* Moves what can be moved now. The number of bytes, 0 when it would block, -1 when the connection
 * is over: with errno, which is 0 when the other end closed it. */
ssize_t net_send(int fd, const struct iovec *runs, size_t count);
ssize_t net_recv(int fd, const struct iovec *runs, size_t count);

/* Throws away what has come in, at most max_bytes: a connection that is closed with bytes unread
 * takes with it what was sent on it last. */
void net_discard(int fd, size_t max_bytes);
void net_end(int fd);   /* nothing more will be sent */
void net_close(int fd); /* -1 is fine */

#ifdef __cplusplus
}
#endif

#endif
