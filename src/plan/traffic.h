/* What each node really moves, given who owns which piece. */
#ifndef TRIDENT_PLAN_TRAFFIC_H
#define TRIDENT_PLAN_TRAFFIC_H

#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills the busiest_* of a plan whose pieces are placed. */
tri_status traffic(struct plan *plan, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
