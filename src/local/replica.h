/* A learner's own copy of the weights (mode replicas), for the files of src/local. */
#ifndef TRIDENT_LOCAL_REPLICA_H
#define TRIDENT_LOCAL_REPLICA_H

#include "local/learner.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who has sat down gets a copy: of another learner's, or of what the job began with. */
tri_status replica_open(struct local_learner *learner, tri_error *err);
void replica_close(struct local_learner *learner); /* frees; NULL replica is fine */

/* An iteration begins: rests if somebody wants to copy, looks what others have published, and sees
 * to it that there is room for this learner's next gradient. */
tri_status replica_refresh(struct local_learner *learner, tri_error *err);
/* What is left of what was looked at, and that it is taken. */
void replica_take(struct local_learner *learner);
/* Looks, takes all and makes all steps but those of common layers; whether there was something. For
 * who publishes no more, or waits. */
bool replica_take_all(struct local_learner *learner);
/* The same, and with those: then the copy is what its row of `taken` says, and is quiet. */
tri_status replica_flush(struct local_learner *learner, tri_error *err);

/* adopt.c */
tri_status replica_begin(struct local_job *job, uint32_t seat, tri_error *err);
/* The copy becomes the one that who comes later begins with. Right before the seat is left. */
void replica_leave(struct local_learner *learner);

#ifdef __cplusplus
}
#endif

#endif
