/* mode = local behind the calls of trident.h, for the other files of src/api and for who watches
 * over such a job. */
#ifndef TRIDENT_API_LOCAL_H
#define TRIDENT_API_LOCAL_H

#include "checkpoint/checkpoint.h"
#include "local/share.h"
#include "run/agree.h"
#include "run/forms.h"
#include "run/host.h"
#include "run/save.h"

#ifdef __cplusplus
extern "C" {
#endif

struct shared;

/* The name of a job's region: with the user's number, so that those of two users do not meet. */
void shared_name(const char *job, char out[LOCAL_NAME_BYTES]);

/* Is this layer of a region a kept value? *out then has its name, type and count. */
bool shared_kept(const struct local_layer *layer, struct checkpoint_kept *out);

/* tri_open: settings that do not go together; fits the plan's options to the mode. */
tri_status shared_check(tri_job *job, tri_error *err);
/* tri_start: takes the agreement over, also when it fails. */
tri_status shared_start(tri_job *job, struct agreement *agreement, const struct checkpoint *from,
                        tri_error *err);
void shared_set_save(struct shared *shared, struct save *save);
tri_status shared_update(tri_job *job, uint32_t layer, const struct update *update, tri_error *err);
/* The same, and whether the program steps by it: see tri_learn(). */
tri_status shared_learn(tri_job *job, uint32_t layer, const struct update *update,
                        tri_learning *out, tri_error *err);
/* The first `rows` rows: see tri_sync_rows(). */
tri_status shared_sync_rows(tri_job *job, uint32_t layer, uint32_t rows, tri_error *err);
tri_status shared_sync_pending(tri_job *job, uint32_t layer, tri_pending *out, tri_error *err);
tri_status shared_clock(tri_job *job, uint64_t *clock, tri_error *err);
tri_status shared_place(tri_job *job, uint32_t layer, float **weights, float **bias);
tri_status shared_step(tri_job *job, tri_error *err);
tri_status shared_finish(tri_job *job, tri_error *err);
void shared_close(tri_job *job);
/* "sfb" where updates are factors in spite of the plan's ps; else NULL. */
const char *shared_scheme(const tri_job *job, uint32_t layer);
bool shared_query(const tri_job *job, const char *name, char *out, size_t cap);
void shared_stats(const tri_job *job, struct host_stats *out);

#ifdef __cplusplus
}
#endif

#endif
