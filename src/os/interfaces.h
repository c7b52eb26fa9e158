/* The addresses of this machine, and which of them the others shall use. */
#ifndef TRIDENT_OS_INTERFACES_H
#define TRIDENT_OS_INTERFACES_H

#include "os/net.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { INTERFACES_MOST = 128, INTERFACES_NAME = 32 };

/* One address; a network card may have several. */
struct interface {
    char name[INTERFACES_NAME];
    struct net_address address; /* its port is 0 */
    bool up;
};

/* At most INTERFACES_MOST, in the system's order; those of IPv4 and IPv6 only. TRI_EIO. */
tri_status interfaces_list(struct interface out[INTERFACES_MOST], size_t *count, tri_error *err);

/* The first address that fits `wanted`, as "10.1.2.3:0". That is a list with commas of names
 * ("eth0"), networks ("10.0.0.0/8", "fd00::/8") and addresses, the most wanted first, and of
 * exclusions ("^docker0", "^172.17.0.0/16"), which go before all else; with exclusions alone, all
 * others are wanted. What is down never fits, nor an address of one link only (fe80::), nor
 * loopback unless it is allowed. Pure. TRI_EINPUT names what in the list cannot be, or the
 * addresses that there are. */
tri_status interfaces_pick(const char *wanted, const struct interface *all, size_t count,
                           bool loopback, char out[NET_TEXT], tri_error *err);

/* Can "host:port" be reached from this machine alone? */
bool interfaces_is_loopback(const char *address);

#ifdef __cplusplus
}
#endif

#endif
