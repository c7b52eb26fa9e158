/* What each node really moves, given who owns which piece. */
#ifndef TRIDENT_PLAN_TRAFFIC_H
#define TRIDENT_PLAN_TRAFFIC_H

#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that one worker sends up for a layer that lives on servers, and gets back. */
struct flow {
    double up, down;
};
struct flow traffic_flow(const struct plan *plan, const struct plan_layer *layer);

/* Fills the busiest_* of a plan whose pieces are placed. */
tri_status traffic(struct plan *plan, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
