/* What the files of the coordinator share; nobody else includes it. */
#ifndef TRIDENT_CORE_COORDINATOR_INSIDE_H
#define TRIDENT_CORE_COORDINATOR_INSIDE_H

#include "core/coordinator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* coordinator.c */
void coordinator_tell(const struct coordinator *coordinator, uint32_t node, struct message message,
                      const struct core_out *out);
/* To the members of all nodes that have not departed, this one last: it may end it. */
void coordinator_tell_all(const struct coordinator *coordinator, struct message message,
                          const struct core_out *out);
/* The job is over: every node is told why. */
void coordinator_fail(struct coordinator *coordinator, tri_status status, const char *text,
                      const struct core_out *out);

/* A node has departed: its checksums count no more. */
void coordinator_forget(struct coordinator *coordinator, uint32_t node);
/* Ends the job if all have closed who still can. */
void coordinator_check_end(struct coordinator *coordinator, const struct core_out *out);

/* coordinator_mark.c */
tri_status coordinator_init_marks(struct coordinator *coordinator, tri_error *err);
void coordinator_fini_marks(struct coordinator *coordinator);
void coordinator_heard_clock(struct coordinator *coordinator, uint64_t clock);
void coordinator_take_marked(struct coordinator *coordinator, const struct message *message,
                             const struct core_out *out);
/* Proposes again what was refused. */
void coordinator_retry_joins(struct coordinator *coordinator, const struct core_out *out);
/* Lets a rank that is behind join where the others have closed. */
void coordinator_join_last(struct coordinator *coordinator, uint32_t rank,
                           const struct core_out *out);
void coordinator_take_left_out(struct coordinator *coordinator, const struct message *message,
                               const struct core_out *out);

/* coordinator_view.c */
tri_status coordinator_init_views(struct coordinator *coordinator, tri_error *err);
void coordinator_fini_views(struct coordinator *coordinator);
void coordinator_take_accusation(struct coordinator *coordinator, const struct message *message);
void coordinator_take_report(struct coordinator *coordinator, const struct message *message,
                             const struct core_out *out);
/* A node leaves the view, or ends the job if that cannot do without it. `why` follows the name
 * of the node: "was not heard by ...". */
void coordinator_evict(struct coordinator *coordinator, uint32_t node, const char *why,
                       const struct core_out *out);
/* Something came from a node that has departed: it may not know. */
void coordinator_tell_evicted(const struct coordinator *coordinator, uint32_t node, const char *why,
                              const struct core_out *out);
/* Can the job not do without this node? */
bool coordinator_needs(const struct coordinator *coordinator, uint32_t node);
/* Live ranks, as a count. */
uint32_t coordinator_live(const struct coordinator *coordinator);

#ifdef __cplusplus
}
#endif

#endif
