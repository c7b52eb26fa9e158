/* How messages get from one simulated node to another. Private to sim/. */
#ifndef TRIDENT_SIM_LINKS_H
#define TRIDENT_SIM_LINKS_H

#include "sim/inside.h"

#ifdef __cplusplus
extern "C" {
#endif

void links_free_packet(struct sim_cluster *cluster, struct packet *packet);
/* Frees what waits to be sent, and what is kept. */
void link_fini(struct sim_cluster *cluster, struct link *link);

/* A node asks for a message to be sent. */
void links_send(struct machine *machine, const struct core_action *action);
/* Something of a packet is here: EVENT_HEADER, EVENT_DATA. */
void links_header(struct sim_cluster *cluster, struct packet *packet);
void links_data(struct sim_cluster *cluster, struct packet *packet);

/* Sends what sockets are free for. */
void links_go_on(struct sim_cluster *cluster, uint32_t from, uint32_t to);

/* machine has nothing to do with node any more: what is on its way between them is torn. */
void links_drop(struct machine *machine, uint32_t node);
/* The sender is gone: each message under way gets there by chance, what waits does not. */
void links_abandon(struct machine *machine);
/* A new process takes its place: nothing to or from the old one is left. */
void links_forget(struct machine *machine);
/* The connections from one node to another break and are made again. */
void links_reset(struct sim_cluster *cluster, uint32_t from, uint32_t to);

/* The floats of a node that a ref means, in runs. */
struct store_runs links_runs(const struct machine *machine, struct core_ref ref);

#ifdef __cplusplus
}
#endif

#endif
