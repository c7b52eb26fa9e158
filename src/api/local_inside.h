/* The inside of mode = local, for the files of src/api that have it: local.c the loop, local_job.c
 * how a job begins and ends. */
#ifndef TRIDENT_API_LOCAL_INSIDE_H
#define TRIDENT_API_LOCAL_INSIDE_H

#include <pthread.h>

#include "api/job.h"
#include "api/local.h"

#ifdef __cplusplus
extern "C" {
#endif

struct shared_layer {
    bool given, open; /* updated in this iteration; and not synced since */
    bool in_place;    /* the program reads the shared ones */
    bool copied;      /* the program's copy is of version: */
    uint64_t version;
    tri_other *others; /* [LOCAL_OTHERS] of this iteration; NULL before the first */
};

struct shared {
    const struct mem *mem;
    struct agreement *agreement;
    struct forms forms;
    struct local_job *job;
    struct local_about about;
    struct local_learner *learner; /* NULL: it has left */
    struct local_service *service; /* rank 0, if nobody else serves */
    bool watched;
    struct local_faults faults; /* for tests */
    pthread_mutex_t lock;       /* of the next six, for layers in several threads */
    struct local_gradient *gradient;
    bool refreshed, stepping;
    float lr;
    uint64_t count;
    uint64_t wait_us;
    struct shared_layer *layers;
    uint64_t first, clock;
    uint64_t sent, received; /* bytes; __atomic */
    bool failed;             /* nobody is to be waited for */
    struct save *save;
    struct local_snapshot snapshot; /* for it */
};

/* Kept values: how long they are, and where they lie in the region. */
uint64_t shared_kept_floats(const struct checkpoint_kept *kept);
size_t shared_kept_bytes(const struct checkpoint_kept *kept);
float *shared_kept_at(const tri_job *job, uint32_t kept);

/* What this rank would read of a layer, or what all have come to, goes to the program's memory. */
void shared_copy_layer(tri_job *job, uint32_t number);

/* All that is not the caller's mistake ends the job. */
static inline tri_status note(struct shared *shared, tri_status status)
{
    if (status != TRI_OK && status != TRI_EARG && status != TRI_ETIMEOUT)
        shared->failed = true;
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
