/* Layers that lie in the region once for all learners (mode replicas): COMMON layers.
 *
 * There are two sets of them. Set number s lies in half s % 2; its counts say how many gradients
 * of each learner are in it. All read the set that head.set names, and nobody writes to it. What it
 * lacks a learner reckons with: factors that it has taken are in its PILES, memory of its own, each
 * with who gave it and which of its gradients it was. A learner whose piles have become large makes
 * the next set, in the other half, of the set that is read and its piles, and names it by one
 * store:
 *
 *     set s: gradients up to counts[s]  +  piles: counts[s] to taken[r]  ->  set s + 1: to taken[r]
 *
 * Who reads says which set (seat.reads_set), and sees to it that head.set still names it. The half
 * of s - 1 is written only when nobody reads s - 1 any more. Then a set that somebody reads stays
 * as it is, also while two others are made. Who begins to read s + 1 leaves out of its piles what
 * is in it; that may be more than it has taken of other layers.
 *
 * A learner that dies while it makes a set has changed nothing that anybody reads: the lock of
 * makers is taken up by the next, who writes the same half again.
 *
 * WAITING. Only between two iterations, when nothing is read: who is in the middle of one ends it
 * without waiting for anybody (replica_refresh() has seen to its slot), so makers wait for a
 * moment.
 *
 * The comments "sets.pml: x" name the steps of verify/sets.pml. */
#ifndef TRIDENT_LOCAL_SETS_H
#define TRIDENT_LOCAL_SETS_H

#include "local/learner.h"
#include "local/pile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sets, for all ---- */

enum { SETS_FIRST = 2 }; /* 0 is none, and nobody ever reads 1 */

static inline bool has_sets(const struct local_job *job)
{
    return job->head->set_floats > 0;
}
uint64_t set_now(const struct local_job *job);
uint64_t *set_counts(const struct local_job *job, uint64_t number); /* per learner */
float *set_layer(const struct local_job *job, uint64_t number, uint32_t layer);
/* Which set goes with a copy: the one that its learner reads; the last with that of nobody. */
uint64_t set_of(const struct local_job *job, uint32_t reader);
/* What is in it is what that row says. */
bool set_is(const struct local_job *job, uint64_t number, const uint64_t *row);

/* ---- a learner's part ---- */

struct sets;
/* Memory for the piles, before it sits among those who read; then it reads the set that its seat
 * says. Nothing happens without common layers, here and in the next four. */
tri_status sets_open(struct local_learner *learner, tri_error *err);
void sets_begin(struct local_learner *learner);
void sets_close(struct local_learner *learner);

void sets_let_go(struct local_learner *learner); /* reads none */
void sets_adopt(struct local_learner *learner);  /* reads the newest, and leaves out what it has */

/* Factors of a common layer, of gradients from `taken` up to these, go to its pile. */
void sets_take(struct local_learner *learner, uint32_t layer, const uint64_t *upto);
const struct pile *sets_pile(const struct local_learner *learner, uint32_t layer);
uint64_t sets_number(const struct local_learner *learner); /* of the set that it reads */
/* Nothing is in the piles, and the set is what the learner's row of `taken` says. */
bool sets_are_settled(const struct local_learner *learner);

/* There may be no room for what another look brings: a set must be made first. */
bool sets_are_full(const struct local_learner *learner);

/* Large piles become a set, if nobody else makes one and nobody is in the way; very large ones in
 * any case: then it waits. Reads none meanwhile. */
tri_status sets_relieve(struct local_learner *learner, const struct stepper *stepper,
                        tri_error *err);

/* Whatever is in the piles becomes a set, which this learner reads. Under the lock, and when no set
 * has more than the learner has taken. */
tri_status sets_lock(struct local_learner *learner, tri_error *err);
void sets_unlock(struct local_learner *learner);
tri_status sets_make(struct local_learner *learner, const struct stepper *stepper, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
