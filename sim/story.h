/* What happens in a run, as lines for people to read. Private to sim/. */
#ifndef TRIDENT_SIM_STORY_H
#define TRIDENT_SIM_STORY_H

#include "sim/inside.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All do nothing when nobody wants the story. */
void story_line(struct sim_cluster *cluster, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void story_send(struct machine *machine, const struct core_action *action);
void story_fault(struct sim_cluster *cluster, const struct sim_fault *fault);
/* The message or operation being handled. */
void story_current(struct sim_cluster *cluster);

#ifdef __cplusplus
}
#endif

#endif
