/* Sockets of TCP: addresses, listening, connecting, moving bytes. */
#include "os/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- addresses ---- */

static tri_status refuse(const char *text, tri_error *err)
{
    fail(err, TRI_EINPUT, "'%s' is not an address", text);
    fail_next(err, "write host and port, as 10.0.0.1:7000, 0.0.0.0:0 or [::]:7000");
    return TRI_EINPUT;
}

/* Cuts "host:port" or "[host]:port" in two. */
static bool split(const char *text, char host[NI_MAXHOST], char port[8])
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text)
        return false;
    const char *from = text, *to = colon;
    if (*from == '[') {
        if (to[-1] != ']')
            return false;
        from++;
        to--;
    } else if (memchr(from, ':', (size_t)(to - from)) != NULL) {
        return false; /* an IPv6 address without brackets: which colon is it? */
    }
    size_t host_len = (size_t)(to - from), port_len = strlen(colon + 1);
    if (to <= from || host_len >= NI_MAXHOST || port_len < 1 || port_len > 5 ||
        strspn(colon + 1, "0123456789") != port_len)
        return false;
    memcpy(host, from, host_len);
    host[host_len] = '\0';
    memcpy(port, colon + 1, port_len + 1);
    unsigned value = 0;
    for (const char *digit = port; *digit != '\0'; digit++)
        value = value * 10 + (unsigned)(*digit - '0');
    return value <= UINT16_MAX;
}

tri_status net_resolve(const char *text, struct net_address out[NET_ADDRESSES], size_t *count,
                       tri_error *err)
{
    char host[NI_MAXHOST], port[8];
    if (!split(text, host, port))
        return refuse(text, err);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    int wrong = getaddrinfo(host, port, &hints, &found);
    if (wrong == EAI_NONAME) {
        hints.ai_flags = AI_NUMERICSERV;
        wrong = getaddrinfo(host, port, &hints, &found);
    }
    if (wrong != 0) {
        fail(err, TRI_EIO, "cannot find host '%s' of address '%s'", host, text);
        fail_why(err, "%s", gai_strerror(wrong));
        fail_next(err, "check the name with  getent hosts %s  or write the number", host);
        return TRI_EIO;
    }
    *count = 0;
    for (struct addrinfo *at = found; at != NULL && *count < NET_ADDRESSES; at = at->ai_next) {
        struct net_address *address = &out[(*count)++];
        memset(address, 0, sizeof *address);
        memcpy(&address->at, at->ai_addr, at->ai_addrlen);
        address->len = at->ai_addrlen;
    }
    freeaddrinfo(found);
    return *count > 0 ? TRI_OK : refuse(text, err);
}

/* An IPv4 address in the clothes of IPv6, undressed. */
static struct net_address plain(const struct net_address *address)
{
    struct net_address out = *address;
    if (address->at.ss_family != AF_INET6)
        return out;
    struct sockaddr_in6 from;
    memcpy(&from, &address->at, sizeof from);
    if (!IN6_IS_ADDR_V4MAPPED(&from.sin6_addr))
        return out;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = from.sin6_port};
    memcpy(&to.sin_addr, from.sin6_addr.s6_addr + 12, sizeof to.sin_addr);
    memset(&out.at, 0, sizeof out.at);
    memcpy(&out.at, &to, sizeof to);
    out.len = sizeof to;
    return out;
}

void net_text(const struct net_address *address, char out[NET_TEXT])
{
    struct net_address at = plain(address);
    char host[64], port[8];
    if (getnameinfo((const struct sockaddr *)&at.at, at.len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        (void)snprintf(out, NET_TEXT, "unknown");
    else if (at.at.ss_family == AF_INET6)
        (void)snprintf(out, NET_TEXT, "[%s]:%s", host, port);
    else
        (void)snprintf(out, NET_TEXT, "%s:%s", host, port);
}

static bool ends(int fd, struct net_address *own, struct net_address *other)
{
    struct net_address at = {.len = sizeof at.at}, to = {.len = sizeof to.at};
    if (getsockname(fd, (struct sockaddr *)&at.at, &at.len) != 0 ||
        getpeername(fd, (struct sockaddr *)&to.at, &to.len) != 0)
        return false;
    *own = plain(&at);
    *other = plain(&to);
    return own->at.ss_family == other->at.ss_family;
}

static bool same_ip(const struct net_address *a, const struct net_address *b)
{
    if (a->at.ss_family == AF_INET) {
        struct sockaddr_in left, right;
        memcpy(&left, &a->at, sizeof left);
        memcpy(&right, &b->at, sizeof right);
        return left.sin_addr.s_addr == right.sin_addr.s_addr ||
               (ntohl(right.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
    }
    struct sockaddr_in6 left, right;
    memcpy(&left, &a->at, sizeof left);
    memcpy(&right, &b->at, sizeof right);
    return memcmp(&left.sin6_addr, &right.sin6_addr, sizeof left.sin6_addr) == 0;
}

bool net_same_host(int fd)
{
    struct net_address own, other;
    return ends(fd, &own, &other) && same_ip(&own, &other);
}

/* ---- listening ---- */

static tri_status refuse_listen(const char *text, tri_error *err)
{
    int why = errno;
    fail_errno(err, TRI_EIO, "cannot listen on %s", text);
    if (why == EADDRINUSE)
        fail_next(err, "choose another port (0: any), or see who has it with  ss -ltnp");
    else if (why == EADDRNOTAVAIL)
        fail_next(err, "choose an address of this host; see them with  ip -brief address");
    else if (why == EACCES)
        fail_next(err, "choose a port from 1024 on");
    else
        fail_next(err, "choose another address, or 0.0.0.0:0");
    return TRI_EIO;
}

static bool bind_and_listen(int fd, const struct net_address *address)
{
    const int on = 1, off = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->at.ss_family == AF_INET6) /* [::] listens to IPv4, too */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    return bind(fd, (const struct sockaddr *)&address->at, address->len) == 0 &&
           listen(fd, SOMAXCONN) == 0;
}

tri_status net_listen(const char *text, int *fd, char out[NET_TEXT], tri_error *err)
{
    struct net_address found[NET_ADDRESSES];
    size_t count = 0;
    tri_status status = net_resolve(text, found, &count, err);
    if (status != TRI_OK)
        return status;
    int made = socket(found[0].at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0)
        return refuse_listen(text, err);
    struct net_address at = {.len = sizeof at.at};
    if (!bind_and_listen(made, &found[0]) ||
        getsockname(made, (struct sockaddr *)&at.at, &at.len) != 0) {
        (void)refuse_listen(text, err);
        net_close(made);
        return TRI_EIO;
    }
    net_text(&at, out);
    *fd = made;
    return TRI_OK;
}

int net_accept(int fd, struct net_address *from)
{
    int made;
    do {
        from->len = sizeof from->at;
        made = accept4(fd, (struct sockaddr *)&from->at, &from->len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        /* A connection that died while it waited says so here; the next one may be well. */
    } while (made < 0 && (errno == EINTR || errno == ECONNABORTED));
    return made;
}

/* ---- connecting ---- */

int net_connect(const struct net_address *to)
{
    int fd = socket(to->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)&to->at, to->len) != 0 && errno != EINPROGRESS &&
        errno != EINTR) {
        int why = errno;
        net_close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

int net_connected(int fd)
{
    int why = 0;
    socklen_t len = sizeof why;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) != 0)
        return errno;
    struct net_address own, other;
    if (why != 0 || !ends(fd, &own, &other))
        return why != 0 ? why : ENOTCONN;
    if (own.len == other.len && memcmp(&own.at, &other.at, own.len) == 0) {
        /* Without this the port would stay taken for a minute, from whom it is meant for. */
        const struct linger now = {.l_onoff = 1, .l_linger = 0};
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        return ECONNREFUSED;
    }
    return 0;
}

/* ---- settings ---- */

static void set(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof value); /* all of them are optional */
}

static bool set_congestion(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0;
}

void net_congestion(int fd, char out[NET_CONGESTION])
{
    char name[NET_CONGESTION] = "";
    socklen_t len = sizeof name - 1;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) != 0)
        name[0] = '\0';
    memcpy(out, name, sizeof name);
}

void net_tune(int fd, const struct net_tuning *tuning)
{
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (tuning->unsent_bytes > 0 && tuning->unsent_bytes <= INT32_MAX)
        set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, (int)tuning->unsent_bytes);
    if (tuning->silence_ms > 0 && tuning->silence_ms <= INT32_MAX) {
        int seconds = (int)(tuning->silence_ms / 1000), idle = seconds / 3 > 1 ? seconds / 3 : 1;
        set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)tuning->silence_ms);
        set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle);
        set(fd, IPPROTO_TCP, TCP_KEEPINTVL, idle);
        set(fd, IPPROTO_TCP, TCP_KEEPCNT, seconds >= 3 ? 2 : 1);
        set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    }
    /* bbr, which many systems have for all, paces itself down by a third on one host. */
    if (tuning->congestion != NULL)
        (void)set_congestion(fd, tuning->congestion);
    else if (net_same_host(fd) && !set_congestion(fd, "cubic"))
        (void)set_congestion(fd, "reno");
}

/* ---- bytes ---- */

ssize_t net_send(int fd, const struct iovec *runs, size_t count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)runs, .msg_iovlen = count};
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    return sent;
}

ssize_t net_recv(int fd, const struct iovec *runs, size_t count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)runs, .msg_iovlen = count};
    ssize_t got;
    do
        got = recvmsg(fd, &message, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        return got;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (got == 0)
        errno = 0;
    return -1;
}

void net_discard(int fd, size_t max_bytes)
{
    enum { ONCE = 1 << 20 };
    for (size_t done = 0; done < max_bytes;) {
        /* TCP copies nothing of what is truncated away. */
        ssize_t got = recv(fd, NULL, ONCE, MSG_DONTWAIT | MSG_TRUNC);
        if (got <= 0)
            return;
        done += (size_t)got;
    }
}

void net_end(int fd)
{
    (void)shutdown(fd, SHUT_WR);
}

void net_close(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}
