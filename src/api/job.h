/* The inside of a job, for the files of src/api. */
#ifndef TRIDENT_API_JOB_H
#define TRIDENT_API_JOB_H

#include "api/local.h"
#include "run/host.h"
#include "run/save.h"
#include "run/solo.h"
#include "settings/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One of the three does the work: shared in mode = local, solo for a job of one worker, host
 * otherwise. */
struct tri_job {
    const struct mem *mem;
    struct settings settings;
    struct log log;
    void (*line)(void *ctx, int level, const char *line); /* the program's own */
    void *line_ctx;
    struct host *host;
    struct solo *solo;
    struct shared *shared;
    const struct agreement *agreement; /* of it; NULL before the start */
    struct agree_layer *layers;        /* names are the job's */
    struct store_layer *memory;
    uint32_t count;
    size_t cap, memory_cap;
    struct checkpoint_kept *kept; /* by tri_keep(); names are the job's */
    uint32_t kept_count;
    size_t kept_cap;
    struct checkpoint_claim *claim;
    struct save *save; /* rank 0, with a folder for checkpoints */
    bool started;
    uint64_t clock; /* __atomic: tri_get_stats() may look at any time */
    bool synced;    /* all layers are, in this iteration */
};

/* keep.c. Rank 0, before the start: the newest checkpoint, if the job is to be resumed and there is
 * one; parameters and kept values are then filled from it. */
tri_status keep_find(tri_job *job, const struct agreement *agreement, struct checkpoint **out,
                     tri_error *err);
/* After it: checkpoints from here on. */
tri_status keep_begin(tri_job *job, tri_error *err);
void keep_fini(tri_job *job);

#ifdef __cplusplus
}
#endif

#endif
