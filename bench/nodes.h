/* The nodes that tools/netns run has made: network namespaces with an address each. */
#ifndef TRIDENT_BENCH_NODES_H
#define TRIDENT_BENCH_NODES_H

#include "bench/crew.h"

enum { NODES_MAX = 2, NODES_TEXT = 80 };

struct nodes {
    char names[NODES_MAX][NODES_TEXT];
    char addresses[NODES_MAX][NODES_TEXT];
};

/* Fills *out from TRIDENT_NODES and TRIDENT_ADDRESSES; false: there are not as many. */
bool nodes_find(struct nodes *out);

/* This process goes to a node. */
tri_status nodes_enter(const struct nodes *nodes, uint32_t node, tri_error *err);

/* What a plain socket between the two moves in both directions at once: the body of a crew of two,
 * with a struct nodes_link; rank 0 writes bytes/s of one direction to numbers[0] of the board. */
struct nodes_link {
    const struct nodes *nodes;
    uint16_t port;
};
tri_status nodes_link_body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err);

#endif
