/* What the files of the worker share; nobody else includes it. */
#ifndef TRIDENT_CORE_WORKER_INSIDE_H
#define TRIDENT_CORE_WORKER_INSIDE_H

#include "core/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline bool on_workers(const struct layout_layer *layer)
{
    return layer->home == TRI_HOME_WORKERS;
}

/* Who takes a layer's updates and initial values. */
static inline enum core_role receiver(const struct layout_layer *layer)
{
    return on_workers(layer) ? CORE_WORKER : CORE_SERVER;
}

/* worker_send.c */

/* Factor rows of (layer, clock, rank). */
struct core_ref worker_factor_ref(uint32_t layer, uint64_t clock, uint32_t rank, uint32_t first,
                                  uint32_t count);
/* Floats of a part of a layer. */
struct core_ref worker_part_ref(const struct worker *worker, enum core_space space, uint32_t layer,
                                uint32_t part);
void worker_send_update(const struct worker *worker, const struct message *update,
                        const struct core_out *out);
void worker_send_nothing(const struct worker *worker, uint32_t layer, uint64_t clock,
                         const struct core_out *out);
void worker_send_init(const struct worker *worker, uint32_t layer, const struct core_out *out);
/* Sends what a departed rank gave for (layer, clock), held here, to another worker. */
void worker_send_relay(const struct worker *worker, const struct gather *gather, uint32_t layer,
                       uint32_t rank, uint32_t to, const struct core_out *out);
void worker_tell(const struct worker *worker, struct message message, const struct core_out *out);

/* worker_apply.c */

/* The gathering of a clock, opened if it is the first that comes of it. */
struct gather *worker_gather(struct syncer *syncer, uint64_t clock);
/* Whose factors (layer, clock) is applied with, in worker->needed. */
void worker_find_needed(const struct worker *worker, const struct syncer *syncer, uint64_t clock);
/* Does whatever can be done for a layer now. */
void worker_settle(struct worker *worker, uint32_t layer, const struct core_out *out);
void worker_settle_all(struct worker *worker, const struct core_out *out);
/* Clears the open result of a layer. */
void worker_clear_result(const struct worker *worker, uint32_t layer);
/* After anything was applied: the ends of waits that are not a layer's. */
void worker_settled(struct worker *worker, const struct core_out *out);

/* worker_view.c */
void worker_decision(struct worker *worker, const struct message *message,
                     const struct core_out *out);

#ifdef __cplusplus
}
#endif

#endif
