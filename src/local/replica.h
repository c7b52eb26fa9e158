/* A learner's own copy of the weights (mode replicas), for the files of src/local. */
#ifndef TRIDENT_LOCAL_REPLICA_H
#define TRIDENT_LOCAL_REPLICA_H

#include "local/learner.h"
#include "local/pile.h"

#ifdef __cplusplus
extern "C" {
#endif

struct replica {
    float *weights;
    uint64_t *upto; /* per learner: gradients that this iteration's weights have in them */
    bool open;      /* upto is ahead of taken */
    /* Steps are made along with the backward pass: upto is the next iteration's, and has this
     * learner's own gradient in it before that is published. */
    bool along;
    float along_lr, along_divisor; /* of that gradient */
    uint64_t least; /* of what those who read have taken of this one's, as it was seen last */
    uint32_t *rows; /* per layer: so many are up to date */
    bool *begun;    /* per layer: what is not factors is in */
    uint32_t behind, half; /* layers that are not (along: and the publishing); half of those */
    struct pile pile;
    uint32_t pile_layer; /* that it is of; LOCAL_ANY: of none */
    struct stepper stepper;
};

/* The steps of a change, for along.c. The copy is about to change: not while somebody copies it. */
void replica_begin_change(struct local_learner *learner);
/* What is there to take; this learner's own gradients count `own` more. */
void replica_look_at_heads(struct local_learner *learner, uint64_t own);
/* The first `rows` rows of a layer are up to date; with the last of the last all is taken. */
void replica_note_rows(struct local_learner *learner, uint32_t layer, uint32_t rows);
void replica_commit(struct local_learner *learner);

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

/* along.c. The gradient in the making is one whose steps the learner has begun to make itself. */
bool replica_is_stepping(const struct local_learner *learner);
/* TRI_EARG if it is: what was asked for is for between two iterations. */
tri_status replica_check(const struct local_learner *learner, tri_error *err);
/* Steps were made by another one. */
bool replica_has_other_rate(const struct local_learner *learner, float lr, float divisor);
void replica_published(struct local_learner *learner); /* the gradient is */
/* What is left in a gradient that is given up: the layers that were stepped. */
void replica_keep_stepped(const struct local_learner *learner, struct slot *slot);

/* adopt.c */
tri_status replica_begin(struct local_job *job, uint32_t seat, tri_error *err);
/* The copy becomes the one that who comes later begins with. Right before the seat is left. */
void replica_leave(struct local_learner *learner);

#ifdef __cplusplus
}
#endif

#endif
