/* The training loops of simulated workers. Private to sim/. */
#ifndef TRIDENT_SIM_LOOP_H
#define TRIDENT_SIM_LOOP_H

#include "sim/inside.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Something changed for a node's loop: above all, that the job has started. */
void loop_wake(struct machine *machine);
/* EVENT_LOOP: one step of it. */
void loop_step(struct machine *machine);

#ifdef __cplusplus
}
#endif

#endif
