/* What trident plan shows of a plan. */
#ifndef TRIDENT_CLI_PLAN_H
#define TRIDENT_CLI_PLAN_H

#include "base/buf.h"
#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "time" or "bytes" */
const char *plan_rule_name(enum plan_rule rule);

void plan_json(const struct plan *plan, struct buf *out);
void plan_table(const struct plan *plan, struct buf *out);
void plan_compare(const struct plan *plan, struct buf *out);
void plan_explain(const struct plan *plan, const struct plan_layer *layer, struct buf *out);

#ifdef __cplusplus
}
#endif

#endif
