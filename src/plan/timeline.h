/* How long an iteration would take: a plan's layers on a device and a link that work side by side.
 *
 * An estimate in one pass over the layers, for choosing between plans. The whole protocol in
 * virtual time is `trident simulate`; tests/sim/test_rules.c holds the two beside each other. */
#ifndef TRIDENT_PLAN_TIMELINE_H
#define TRIDENT_PLAN_TIMELINE_H

#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Splits compute_s over the layers: by the profile's shares, without any by its flops, and without
 * these by parameters, a third forward and two thirds backward. */
void timeline_compute(struct plan *plan);

/* Fills iteration_s and iteration_slow_s, NaN when the plan's compute is not known. TRI_ENOMEM. */
tri_status timeline(struct plan *plan, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
