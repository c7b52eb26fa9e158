/* A local job of equal processes: who makes the region and fills it, who serves it, and who is the
 * last. For programs that know of each other only their number.
 *
 * The region of such a job has, behind the program's layers, one more layer, which holds no
 * parameters but a few words about the job. */
#ifndef TRIDENT_LOCAL_SHARE_H
#define TRIDENT_LOCAL_SHARE_H

#include "local/local.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LOCAL_NOTE_NAME "#job"
enum { LOCAL_NOTE_COLS = 4 }; /* floats of that layer's one row */

/* The number of that layer, which is the last; LOCAL_ANY: this job has none. */
uint32_t local_note(const struct local_job *job);

/* Rank 0's: makes the region or, if its last rank 0 has died and others are still there, takes it
 * over. watched: it is a watchdog that has started this process, so the region is its job's in any
 * case. *filled: its parameters need not be filled. options.layers end with the note. */
tri_status local_share_make(const struct local_options *options, bool watched,
                            struct local_job **out, bool *filled, tri_error *err);
/* The region is filled; the job begins at that clock. */
void local_share_filled(struct local_job *job, uint64_t first);
/* The others': waits for both, for wait_ms at most. A region of that name whose processes are all
 * dead is none, unless `watched`. */
tri_status local_share_find(const struct local_options *options, bool watched,
                            struct local_job **out, tri_error *err);
bool local_share_is_filled(const struct local_job *job);
uint64_t local_share_first(const struct local_job *job); /* the clock it began at */

/* As local_refresh() and local_take(); *wait_us grows by the time that took. */
tri_status local_share_refresh(struct local_learner *learner, uint64_t *wait_us, tri_error *err);
tri_status local_share_take(struct local_learner *learner, struct local_gradient **out,
                            uint64_t *wait_us, tri_error *err);

/* Waits until nobody but `seat` trains and all is applied. `watched`: a watchdog starts the dead
 * again, and is waited for as long as it takes; otherwise the dead count as done, and who did not
 * begin, or gives no sign of life, for wait_ms is reported (TRI_ETIMEOUT). */
tri_status local_share_end(struct local_job *job, uint32_t seat, bool watched, tri_error *err);
/* replicas: this learner publishes no more, and takes what the others do until they publish no
 * more, either; its copy then has all there is. Before local_leave(), for who uses the result. As
 * to waiting it is like local_share_end(). */
tri_status local_share_drain(struct local_learner *learner, bool watched, tri_error *err);
/* Waits until all have come once, for wait_ms at most; who has not is then given up. To be called
 * before closing: who comes to a region that all have left takes it for a dead job's. */
void local_share_await_all(struct local_job *job);
/* Does nobody else use it? Then the region may be removed. */
bool local_share_is_last(const struct local_job *job, uint32_t seat);

/* A thread that serves the job. Stops by itself after local_stop(); stop() waits for it. */
struct local_service;
tri_status local_service_start(struct local_job *job, struct local_service **out, tri_error *err);
void local_service_stop(struct local_service *service); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
