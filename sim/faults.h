/* What can go wrong in a simulated cluster, as a list that tests draw, replay and shrink. */
#ifndef TRIDENT_SIM_FAULTS_H
#define TRIDENT_SIM_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sim_fault_kind {
    SIM_KILL,      /* node a stops for good */
    SIM_RESTART,   /* node a stops, and after `lasts` a new process of its says HELLO */
    SIM_PAUSE,     /* node a handles no event for `lasts`; what comes waits */
    SIM_CUT,       /* nothing passes from a to b for `lasts` */
    SIM_SPLIT,     /* nor from b to a */
    SIM_ISOLATE,   /* node a is split from all others */
    SIM_RESET,     /* the connections between a and b break: what was on its way is torn and sent
                      again, and some of what had arrived is sent a second time */
    SIM_SLOW_LINK, /* messages from a to b take `factor` times as long for `lasts` */
    SIM_SLOW_NODE, /* the loop and the operations of node a do, for `lasts` */
    SIM_FAULT_KINDS
};

struct sim_fault {
    enum sim_fault_kind kind;
    uint64_t at;     /* it happens before the event of this number, from 0 */
    uint32_t a, b;   /* nodes */
    uint64_t lasts;  /* ms of virtual time; 0: for ever */
    uint32_t factor; /* of slowness */
};

/* "kill", "slow-link"; static storage. */
const char *sim_fault_name(enum sim_fault_kind kind);

/* Takes out of the list, in place, whatever the failure does not need: `fails` runs a list and
 * says whether it still fails. First whole faults go, then their durations shrink. Returns
 * how many are left. */
size_t sim_shrink(struct sim_fault *faults, size_t count,
                  bool (*fails)(void *ctx, const struct sim_fault *faults, size_t count),
                  void *ctx);

#ifdef __cplusplus
}
#endif

#endif
