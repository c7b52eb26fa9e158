/* Addresses of this machine. */
#include "os/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { ITEM = 64 };

/* One part of the list. */
struct item {
    char text[ITEM];
    bool excluded;
    int family; /* AF_UNSPEC: a name */
    uint8_t bytes[16];
    unsigned bits; /* that count */
};

/* ---- addresses ---- */

static const uint8_t *bytes_of(const struct net_address *address, struct sockaddr_in6 *room)
{
    memcpy(room, &address->at, sizeof *room);
    if (address->at.ss_family == AF_INET6)
        return room->sin6_addr.s6_addr;
    return (const uint8_t *)room + offsetof(struct sockaddr_in, sin_addr);
}

static bool is_loop(const struct net_address *address)
{
    struct sockaddr_in6 room;
    const uint8_t *bytes = bytes_of(address, &room);
    return address->at.ss_family == AF_INET ? bytes[0] == 127
                                            : IN6_IS_ADDR_LOOPBACK(&room.sin6_addr) != 0;
}

static bool is_of_link(const struct net_address *address)
{
    struct sockaddr_in6 room;
    const uint8_t *bytes = bytes_of(address, &room);
    return address->at.ss_family == AF_INET6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

bool interfaces_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]", 5) == 0 ||
           strncmp(address, "localhost:", 10) == 0;
}

/* ---- the list ---- */

/* "/8" behind an address; nothing is all of it. */
static bool read_bits(const char *slash, unsigned most, unsigned *out)
{
    unsigned bits = 0;
    *out = most;
    if (slash == NULL)
        return true;
    size_t len = strlen(slash + 1);
    if (len < 1 || len > 3 || strspn(slash + 1, "0123456789") != len)
        return false;
    for (const char *at = slash + 1; *at != '\0'; at++)
        bits = bits * 10 + (unsigned)(*at - '0');
    *out = bits;
    return bits <= most;
}

static bool read_item(const char *text, size_t len, struct item *out)
{
    char address[ITEM];
    *out = (struct item){.family = AF_UNSPEC, .excluded = len > 0 && text[0] == '^'};
    text += out->excluded;
    len -= out->excluded;
    if (len < 1 || len >= sizeof out->text)
        return false;
    memcpy(out->text, text, len);
    memcpy(address, out->text, sizeof address);
    char *slash = strchr(address, '/');
    const char *rest = slash != NULL ? out->text + (slash - address) : NULL;
    if (slash != NULL)
        *slash = '\0';
    if (inet_pton(AF_INET, address, out->bytes) == 1)
        out->family = AF_INET;
    else if (inet_pton(AF_INET6, address, out->bytes) == 1)
        out->family = AF_INET6;
    else
        return slash == NULL && strlen(out->text) < INTERFACES_NAME;
    return read_bits(rest, out->family == AF_INET ? 32 : 128, &out->bits);
}

/* The item that begins at *at, which goes on to the next; false at the end. */
static bool next_item(const char **at, const char **begin, size_t *len)
{
    if (*at == NULL)
        return false;
    *begin = *at;
    *len = strcspn(*at, ",");
    *at = (*at)[*len] == ',' ? *at + *len + 1 : NULL;
    return true;
}

static tri_status check_list(const char *wanted, bool *any, tri_error *err)
{
    const char *at = wanted, *begin;
    size_t len;
    struct item item;
    *any = false;
    while (next_item(&at, &begin, &len)) {
        if (!read_item(begin, len, &item)) {
            fail(err, TRI_EINPUT, "'%.*s' is neither an interface nor a network",
                 len < 60 ? (int)len : 60, begin);
            fail_next(err, "write names and networks with commas between them, as "
                           "eth0,10.0.0.0/8,^docker0");
            return TRI_EINPUT;
        }
        *any = *any || !item.excluded;
    }
    return TRI_OK;
}

/* ---- choosing ---- */

static bool matches(const struct item *item, const struct interface *interface)
{
    struct sockaddr_in6 room;
    if (item->family == AF_UNSPEC)
        return strcmp(item->text, interface->name) == 0;
    if (item->family != interface->address.at.ss_family)
        return false;
    const uint8_t *bytes = bytes_of(&interface->address, &room);
    unsigned whole = item->bits / 8, rest = item->bits % 8;
    if (memcmp(bytes, item->bytes, whole) != 0)
        return false;
    return rest == 0 || (bytes[whole] ^ item->bytes[whole]) >> (8 - rest) == 0;
}

static bool is_excluded(const char *wanted, const struct interface *interface)
{
    const char *at = wanted, *begin;
    size_t len;
    struct item item;
    while (next_item(&at, &begin, &len))
        if (read_item(begin, len, &item) && item.excluded && matches(&item, interface))
            return true;
    return false;
}

/* The first that the item is about, or that there is (NULL), and that may be had. */
static const struct interface *first_of(const struct item *item, const char *wanted,
                                        const struct interface *all, size_t count, bool loopback)
{
    for (size_t i = 0; i < count; i++) {
        const struct interface *one = &all[i];
        if ((item == NULL || matches(item, one)) && one->up && !is_of_link(&one->address) &&
            (loopback || !is_loop(&one->address)) && !is_excluded(wanted, one))
            return one;
    }
    return NULL;
}

/* "lo 127.0.0.1, eth0 10.0.0.3 (down)" */
static void tell_all(const struct interface *all, size_t count, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count && at < size; i++) {
        char text[NET_TEXT];
        net_text(&all[i].address, text);
        char *port = strrchr(text, ':');
        if (port != NULL)
            *port = '\0';
        int len = snprintf(out + at, size - at, "%s%s %s%s", i > 0 ? ", " : "", all[i].name, text,
                           all[i].up ? "" : " (down)");
        at += len > 0 ? (size_t)len : 0;
    }
}

static tri_status fail_none(const char *wanted, const struct interface *all, size_t count,
                            bool loopback, tri_error *err)
{
    char there[sizeof err->why];
    fail(err, TRI_EINPUT, "no address of this machine fits '%.100s'", wanted);
    tell_all(all, count, there, sizeof there - 60);
    fail_why(err, "there are: %s%s", there,
             loopback ? "" : "; loopback is not for other machines to reach");
    fail_next(err, "name one of these interfaces, or the network of one");
    return TRI_EINPUT;
}

tri_status interfaces_pick(const char *wanted, const struct interface *all, size_t count,
                           bool loopback, char out[NET_TEXT], tri_error *err)
{
    const char *at = wanted, *begin;
    size_t len;
    struct item item;
    bool any = false;
    tri_status status = check_list(wanted, &any, err);
    if (status != TRI_OK)
        return status;
    const struct interface *found = any ? NULL : first_of(NULL, wanted, all, count, loopback);
    while (found == NULL && next_item(&at, &begin, &len))
        if (read_item(begin, len, &item) && !item.excluded)
            found = first_of(&item, wanted, all, count, loopback);
    if (found == NULL)
        return fail_none(wanted, all, count, loopback, err);
    net_text(&found->address, out);
    return TRI_OK;
}

/* ---- what there is ---- */

static bool take(const struct ifaddrs *from, struct interface *out)
{
    if (from->ifa_addr == NULL)
        return false;
    int family = from->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6)
        return false;
    memset(out, 0, sizeof *out);
    (void)snprintf(out->name, sizeof out->name, "%s", from->ifa_name);
    out->address.len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    memcpy(&out->address.at, from->ifa_addr, out->address.len);
    out->up = (from->ifa_flags & IFF_UP) != 0;
    return true;
}

tri_status interfaces_list(struct interface out[INTERFACES_MOST], size_t *count, tri_error *err)
{
    struct ifaddrs *found = NULL;
    if (getifaddrs(&found) != 0)
        return fail_errno(err, TRI_EIO, "cannot list the addresses of this machine");
    *count = 0;
    for (const struct ifaddrs *at = found; at != NULL && *count < INTERFACES_MOST;
         at = at->ifa_next)
        *count += take(at, &out[*count]);
    freeifaddrs(found);
    return TRI_OK;
}
